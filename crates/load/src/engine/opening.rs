//! Connections are made here: ahead of the start, for arrivals that wait, and in place of those
//! that a user has lost.

use std::rc::Rc;

use thalweg_measure::Outcome;
use thalweg_sys::{Connect, Driver, Fault, Instant, ReceiveMode, SocketId};
use thalweg_tls::Resume;

use super::pacer::Pacer;
use super::state::{Engine, Phase};
use crate::connection::{Buffers, Connection, State, outcome_of_fault};
use crate::protocol::{Protocol, ProtocolSettings};
use crate::transport::Transport;
use crate::user::{Ending, UserId};

/// Most connections that are being established at once, so that opening thousands does not overrun
/// the server's listen queue.
const CONNECTING_MAX: usize = 128;

/// Source addresses tried for one connection before the host counts as out of ports.
const SOURCES_TRIED_MAX: usize = 16;

/// Most buffers kept for other connections, and most bytes of one of them.
const BUFFERS_KEPT_MAX: usize = 1024;
const BUFFER_BYTES_KEPT_MAX: usize = 16 << 10;

impl<P: Protocol> Engine<P> {
    /// Starts to connect. Returns the fault that prevents even that.
    pub(super) fn connect<D: Driver>(&mut self, driver: &mut D, now: Instant) -> Result<SocketId, Fault> {
        let tries = self.plan.sources.len().clamp(1, SOURCES_TRIED_MAX);
        // An address of several is tried from all local ones before it is the next one's turn.
        let peer = self.peer_turn % self.plan.peers.len().max(1);
        self.peer_turn += 1;
        let mut result = self.connect_once(driver, peer);
        for _ in 1..tries {
            // One address may have no port left while another has.
            if !matches!(result, Err(Fault::NoAddress)) {
                break;
            }
            result = self.connect_once(driver, peer);
        }
        let id = result?;
        let place = id.index();
        let receive_window = self.pacer.as_ref().map_or(self.plan.receive_window, Pacer::window_bytes);
        let settings = ProtocolSettings { receive_window, is_lenient: self.plan.is_lenient };
        if place >= self.connections.len() {
            // Dense, unless the driver carries sockets of others as well.
            self.connections.resize_with(place + 1, || Connection::closed(id, P::new(settings)));
        }
        self.connections[place] = Connection::connecting(id, P::new(settings), driver.now());
        self.connections[place].peer = peer as u16;
        // The turn has gone on to the next one.
        self.connections[place].source = ((self.source - 1) % self.plan.sources.len().max(1)) as u16;
        self.open += 1;
        self.connecting += 1;
        self.arm(id, now.plus_ns(self.timeout_ns()));
        Ok(id)
    }

    fn connect_once<D: Driver>(&mut self, driver: &mut D, peer: usize) -> Result<SocketId, Fault> {
        self.attempts += 1;
        let connections = &mut self.figures.trial.connections;
        connections.attempted += 1;
        connections.burst = connections.burst.max(self.attempts);
        let source = (!self.plan.sources.is_empty()).then(|| self.plan.sources[self.source % self.plan.sources.len()]);
        // Each thread goes through all addresses, beginning at one of its own.
        self.source += 1;
        let address = self.plan.peers.get(peer).unwrap_or(&self.plan.peer);
        let receive_mode = self.pacer.as_ref().map_or(ReceiveMode::Continuous, Pacer::receive_mode);
        let connect = Connect { source, ports: self.ports, receive_mode, ..Connect::to(address.clone()) };
        Transport::connect(driver, &connect).map_err(|error| {
            self.figures.trial.connections.failed += 1;
            Fault::of(&error)
        })
    }

    pub(super) fn close<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = &mut self.connections[id.index()];
        debug_assert!(connection.id == id && connection.calls.is_empty(), "no call is closed away");
        let bits_per_s = connection.bits_per_s(&self.calls, now);
        let (lifetime_ns, replies, failed) =
            (now.ns_since(connection.since), u64::from(connection.replies), connection.failed);
        connection.user = None;
        let buffers = connection.buffers.take();
        let state = std::mem::replace(&mut connection.state, State::Closed);
        let figures = &mut self.figures.trial;
        if matches!(state, State::Connecting) {
            figures.connections.failed += 1;
            figures.by_address.get_mut(usize::from(connection.peer)).into_iter().for_each(|to| to.failed += 1);
        } else {
            figures.record_close(lifetime_ns, replies, failed);
        }
        match state {
            State::Connecting => self.connecting -= 1,
            State::Busy => self.busy -= 1,
            // Its entry among the idle connections is recognised as stale when it is taken.
            State::Idle | State::Thinking { .. } => {}
            State::Closed => unreachable!("a connection is closed once"),
        }
        connection.protocol.record(figures);
        self.figures.record_pace(bits_per_s, self.plan.conforming_bits_per_s);
        self.open -= 1;
        connection.transport.close_notify(driver, id);
        driver.close(id);
        self.keep_buffers(buffers);
    }

    /// Keeps a closed connection's buffers for another one, unless the driver still sends from them
    /// or they have grown large.
    fn keep_buffers(&mut self, buffers: Option<Box<Buffers>>) {
        let Some(mut buffers) = buffers else { return };
        let reusable = Rc::get_mut(&mut buffers.batch).is_some_and(|batch| batch.capacity() <= BUFFER_BYTES_KEPT_MAX);
        if reusable && self.spare_buffers.len() < BUFFERS_KEPT_MAX {
            buffers.unsent = 0;
            self.spare_buffers.push(buffers);
        }
    }

    /// Opens connections before the start. Each is attempted once: a failure of the target meets
    /// the requests again and is counted then. A resource that this host lacks may not be missed
    /// again, where fewer connections carry all requests, and is counted now.
    pub(super) fn open_ahead<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Phase::Opening { mut left, since, until } = self.phase else { return };
        let total = self.plan.connections_ahead(self.thread);
        let allowed = match self.plan.opening_rate {
            None => total,
            Some(rate) => {
                let own = rate / self.plan.cpus.len() as f64;
                (now.ns_since(since) as f64 / 1e9 * own) as usize + 1
            }
        };
        while left > 0 && self.connecting < self.connecting_max() && now < until && total - left < allowed {
            left -= 1;
            if let Err(fault) = self.connect(driver, now) {
                self.record_lacking(outcome_of_fault(fault, true));
            }
        }
        self.phase = Phase::Opening { left, since, until };
        if (left == 0 && self.connecting == 0 && !self.awaits_limits()) || now >= until {
            self.start_barrier.arrive(now);
            self.phase = Phase::Waiting;
        }
    }

    /// Whether a connection may take more calls once its server has named its limits.
    fn awaits_limits(&self) -> bool {
        let mut open = self.connections.iter().filter(|connection| connection.is_established());
        P::MULTIPLEXED && open.any(|connection| connection.protocol.awaits_limits())
    }

    /// Counts a connection that failed before the start, if this host lacked a resource.
    fn record_lacking(&mut self, outcome: Outcome) {
        let lacks = matches!(outcome, Outcome::NoDescriptor | Outcome::NoAddress);
        if lacks && matches!(self.phase, Phase::Opening { .. }) {
            self.figures.trial.connections.lacking += 1;
        }
    }

    /// Most connections that are being established at once. If each has to resume a session, it
    /// needs a ticket, and a server may send only one on each connection.
    fn connecting_max(&self) -> usize {
        match &self.plan.tls {
            Some(tls) if tls.resume == Resume::Always => usize::from(!self.awaits_ticket),
            _ => CONNECTING_MAX,
        }
    }

    /// Opens connections for arrivals that wait, one for each as far as the bound allows.
    pub(super) fn open_for_waiting<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let in_use = self.open + self.paused.len();
        let room =
            self.connections_max.saturating_sub(in_use).min(self.connecting_max().saturating_sub(self.connecting));
        let Phase::Running(schedule) = &mut self.phase else { return };
        if room == 0 {
            self.is_short_of_room = true;
            return;
        }
        let waiting = schedule.arrivals.waiting(now) as usize + self.put_back.len();
        let wanted = waiting.saturating_sub(self.connecting - self.reopening);
        let prompt = !std::mem::replace(&mut self.is_short_of_room, wanted > room);
        for _ in 0..wanted.min(room) {
            match self.connect(driver, now) {
                Ok(id) => self.connection(id).prompt = prompt,
                Err(fault) => self.end_for(fault, true, |engine, outcome| engine.give_up(outcome, now)),
            }
        }
    }

    /// Opens a connection of a user that goes on. Its calls may wait there.
    pub(super) fn open_for_user<D: Driver>(
        &mut self,
        driver: &mut D,
        user: UserId,
        now: Instant,
    ) -> Result<SocketId, Fault> {
        let id = self.connect(driver, now)?;
        self.reopening += 1;
        self.join_user(id, user);
        Ok(id)
    }

    pub(super) fn on_connected<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let handshake_ns = driver.handshake_ns(id);
        let observed_ns = now.ns_since(self.connection(id).since);
        let connect_ns = handshake_ns.map_or(observed_ns, |ns| ns.min(observed_ns));
        self.figures.trial.connect.record(connect_ns);
        if self.plan.proxy.is_some() {
            return self.begin_tunnel(driver, id);
        }
        if self.plan.proxy_header.is_some() {
            return self.send_proxy_header(driver, id);
        }
        if !self.begin_handshake(driver, id, observed_ns - connect_ns, now) {
            self.read_now(driver, id);
            self.on_established(driver, id, connect_ns, now);
        }
    }

    /// The transport of a connection is ready for calls, so long after connect() was issued.
    pub(super) fn on_established<D: Driver>(&mut self, driver: &mut D, id: SocketId, ready_ns: u64, now: Instant) {
        let connection = self.connection(id);
        debug_assert!(matches!(connection.state, State::Connecting), "a connection is established once");
        connection.establish(ready_ns, now);
        let (user, peer) = (connection.user, usize::from(connection.peer));
        self.connecting -= 1;
        self.figures.trial.by_address.get_mut(peer).into_iter().for_each(|to| to.opened += 1);
        let connections = &mut self.figures.trial.connections;
        connections.opened += 1;
        connections.peak = connections.peak.max((self.open - self.connecting) as u64);
        if let Phase::Opening { until, .. } = &mut self.phase {
            // As long as the server takes connections, those that are still to be opened are worth
            // waiting for.
            *until = (*until).max(now + self.plan.timeout);
        }
        if let Phase::Running(schedule) = &self.phase {
            self.figures.trial.in_window.connections += u64::from(schedule.is_in_window(now));
        }
        if let Some(user) = user {
            self.reopening -= 1;
            self.on_user_connected(driver, id, user, now);
        } else {
            self.offer_room(id);
        }
        self.dispatch(driver, now);
        self.send_output(driver, id, now);
    }

    /// A connection could not be established; without a reason, within the time-out.
    pub(super) fn on_connect_failed<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        outcome: Option<Outcome>,
        now: Instant,
    ) {
        if let Some(outcome) = outcome {
            self.record_lacking(outcome);
        }
        if let Some(user) = self.connection(id).user {
            self.reopening -= 1;
            let lost = self.end_waiting(id, outcome.unwrap_or(Outcome::Timeout), now);
            self.leave_user(driver, id, user, now);
            self.users[user].on_lost(lost);
            self.stop_user(driver, user, Ending::Failed, now);
        } else {
            self.close(driver, id, now);
            // Without a reason the arrival that it was for has its own deadline.
            if let Some(outcome) = outcome {
                self.give_up(outcome, now);
            }
        }
        self.dispatch(driver, now);
    }
}
