//! The events on the network and in the kernels at its ends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rand::RngExt;
use rustix::io::Errno;
use thalweg_sys::driver::Completion;
use thalweg_sys::{Instant, SocketId};

use super::agenda::Event;
use super::connection::{EndId, EndState, Finish, Intake, Side};
use super::{COMPLETIONS_PER_WAIT, Ready, Sim, Socket};

/// The most that the kernel takes at once.
const SEGMENT_BYTES: usize = 64 * 1024;

/// Number of SYN retransmissions if a full backlog drops them (Linux: `tcp_syn_retries`), after 1
/// s, 2 s, 4 s and so on.
const SYN_RETRIES: u32 = 6;
const SYN_RETRY_NS: u64 = 1_000_000_000;

impl Sim {
    /// Lets everything happen that is due until then, as far as the owner can take the completions
    /// of it.
    pub(super) fn run_until(&mut self, until: Instant) {
        while self.ready.len() < COMPLETIONS_PER_WAIT {
            let Some((at, event)) = self.agenda.pop(until) else {
                self.now = self.now.max(until);
                return;
            };
            self.now = self.now.max(at);
            self.happen(event);
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Syn { connection, attempt } => self.syn(connection, attempt),
            Event::Established { connection } => self.established(connection),
            Event::Refused { connection } => {
                self.fail(EndId { connection, side: Side::Connector }, Errno::CONNREFUSED.into());
            }
            Event::Accept { listener } => self.accept(listener),
            Event::Transmit { from } => self.transmit(from),
            Event::Arrive { to, bytes } => self.arrive(to, bytes),
            Event::ArriveEnd { to } => self.arrive_end(to),
            Event::ArriveReset { to } => self.arrive_reset(to),
            Event::Deliver { to } => self.deliver(to),
            Event::Complete { completion } => self.ready.push_back(Ready { completion, bytes: Vec::new() }),
            Event::Wake => self.ready.push_back(Ready { completion: Completion::Woken, bytes: Vec::new() }),
        }
    }

    /// A new connection's first packet sets out, unless its fate is another.
    pub(super) fn send_syn(&mut self, connection: u64) {
        if self.chance(self.config.blackhole_probability) {
            return;
        }
        let at = self.now.plus_ns(self.config.latency_ns + self.jitter());
        let refused = self.chance(self.config.refuse_probability);
        let event = if refused { Event::Refused { connection } } else { Event::Syn { connection, attempt: 0 } };
        self.agenda.add(at, event);
    }

    fn syn(&mut self, connection: u64, attempt: u32) {
        let Some(state) = self.connections.get(connection) else { return };
        if state.mute {
            return;
        }
        let answer_at = self.now.plus_ns(self.config.latency_ns);
        let Some(listener) = self.listener_at(state.end(Side::Acceptor).addr) else {
            self.agenda.add(answer_at, Event::Refused { connection });
            return;
        };
        let Some(Socket::Listener(state)) = self.sockets.entry_mut(listener) else { return };
        if state.backlog.len() >= self.config.backlog {
            if attempt == SYN_RETRIES {
                self.fail(EndId { connection, side: Side::Connector }, Errno::TIMEDOUT.into());
                return;
            }
            let again_at = self.now.plus_ns(SYN_RETRY_NS << attempt);
            if let Some(connection) = self.connections.get_mut(connection) {
                connection.syn_sent_again = true;
            }
            self.agenda.add(again_at, Event::Syn { connection, attempt: attempt + 1 });
            return;
        }
        state.backlog.push_back(connection);
        self.end_mut(EndId { connection, side: Side::Acceptor }).state = EndState::Waiting;
        let accept_at = self.now.plus_ns(self.jitter());
        self.agenda.add(accept_at, Event::Accept { listener });
        self.agenda.add(answer_at, Event::Established { connection });
    }

    fn listener_at(&self, addr: SocketAddr) -> Option<SocketId> {
        let any = match addr.ip() {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        let listener = self.listeners.get(&addr).or_else(|| self.listeners.get(&SocketAddr::new(any, addr.port())));
        listener.copied()
    }

    fn established(&mut self, connection: u64) {
        let id = EndId { connection, side: Side::Connector };
        let Some(state) = self.connections.get_mut(connection) else { return };
        if state.mute {
            return;
        }
        let now = self.now;
        let end = state.end_mut(Side::Connector);
        let EndState::Connecting(socket) = end.state else { return };
        end.state = EndState::Open(socket);
        state.established = Some(now);
        self.complete(id, Completion::Connected { socket });
        self.schedule_deliver(id, self.now);
    }

    fn accept(&mut self, listener: SocketId) {
        let Some(Socket::Listener(state)) = self.sockets.entry(listener) else { return };
        if !state.accepting || state.backlog.is_empty() {
            return;
        }
        if let Some(until) = self.stalled(state.addr) {
            self.agenda.add(until, Event::Accept { listener });
            return;
        }
        if self.chance(self.config.accept_failure_probability) {
            self.stop_accepting(listener, Errno::MFILE);
            return;
        }
        let Some(Socket::Listener(state)) = self.sockets.entry_mut(listener) else { return };
        while let Some(connection) = state.backlog.pop_front() {
            let id = EndId { connection, side: Side::Acceptor };
            let waits = |state: &super::Connection| state.end(Side::Acceptor).state == EndState::Waiting;
            if !self.connections.get(connection).is_some_and(waits) {
                continue;
            }
            let Ok(socket) = self.sockets.insert(Socket::End(id)) else {
                let Some(Socket::Listener(state)) = self.sockets.entry_mut(listener) else { return };
                state.backlog.push_front(connection);
                self.stop_accepting(listener, Errno::MFILE);
                return;
            };
            self.end_mut(id).state = EndState::Open(socket);
            self.complete(id, Completion::Accepted { listener, socket });
            self.schedule_deliver(id, self.now);
            self.agenda.add(self.now, Event::Accept { listener });
            return;
        }
    }

    fn stop_accepting(&mut self, listener: SocketId, errno: Errno) {
        let Some(Socket::Listener(state)) = self.sockets.entry_mut(listener) else { return };
        state.accepting = false;
        let completion = Completion::AcceptFailed { listener, error: errno.into() };
        self.ready.push_back(Ready { completion, bytes: Vec::new() });
    }

    pub(super) fn schedule_transmit(&mut self, from: EndId, at: Instant) {
        let end = self.end_mut(from);
        if !end.transmit_scheduled {
            end.transmit_scheduled = true;
            self.agenda.add(at, Event::Transmit { from });
        }
    }

    /// The kernel takes as much of a send as there is room for, and the end of the stream after it
    /// if that was requested.
    pub(super) fn transmit(&mut self, from: EndId) {
        let now = self.now;
        if self.connections.get(from.connection).is_none() {
            return;
        }
        self.end_mut(from).transmit_scheduled = false;
        loop {
            let capacity = self.config.socket_buffer_bytes;
            let end = self.end_mut(from);
            let EndState::Open(socket) = end.state else { return };
            let Some(sending) = end.sending.as_mut().filter(|sending| !sending.taken) else { break };
            if !sending.started {
                sending.started = true;
                end.sent_at = now;
            }
            if end.reset {
                self.tell_reset(from);
                return;
            }
            if sending.is_empty() {
                sending.taken = true;
                self.complete(from, Completion::Sent { socket });
                break;
            }
            let room = capacity.saturating_sub(end.flow.held.len()).min(SEGMENT_BYTES);
            if room == 0 {
                return;
            }
            match sending.take(room, &mut end.flow.held) {
                Ok(bytes) => self.put_on_its_way(from, bytes),
                Err(error) => {
                    self.fail(from, error);
                    return;
                }
            }
        }
        if self.end(from).finish == Finish::Asked {
            self.send_end(from);
        }
    }

    /// Bytes that the kernel has taken travel to the other end, or meet with an accident.
    fn put_on_its_way(&mut self, from: EndId, bytes: usize) {
        let (now, latency) = (self.now, self.config.latency_ns);
        let jitter = self.jitter();
        let travel_ns = self.config.bandwidth.map_or(0, |per_second| bytes as u64 * 1_000_000_000 / per_second.max(1));
        let flow = &mut self.end_mut(from).flow;
        flow.link_free_at = flow.link_free_at.max(now).plus_ns(travel_ns);
        flow.last_arrival = flow.last_arrival.max(flow.link_free_at.plus_ns(latency + jitter));
        let (cut, at) = (flow.cut, flow.last_arrival);
        if cut {
            // Nobody reads at the other end; the word of it is on its way back. Bytes that are lost
            // take no room.
            flow.cut();
            return;
        }
        let to = from.peer();
        if self.chance(self.config.mute_probability) {
            if let Some(connection) = self.connections.get_mut(from.connection) {
                connection.mute = true;
            }
        } else if self.chance(self.config.reset_probability) {
            let before = self.random.random_range(0..=bytes);
            self.agenda.add(at, Event::Arrive { to, bytes: before });
            self.agenda.add(at, Event::ArriveReset { to });
            self.agenda.add(now.plus_ns(latency), Event::ArriveReset { to: from });
        } else {
            self.agenda.add(at, Event::Arrive { to, bytes });
        }
    }

    fn send_end(&mut self, from: EndId) {
        let (now, latency) = (self.now, self.config.latency_ns);
        let end = self.end_mut(from);
        end.finish = Finish::Done;
        end.flow.last_arrival = end.flow.last_arrival.max(now.plus_ns(latency));
        let at = end.flow.last_arrival;
        self.agenda.add(at, Event::ArriveEnd { to: from.peer() });
    }

    fn arrive(&mut self, to: EndId, bytes: usize) {
        let Some(connection) = self.connections.get_mut(to.connection) else { return };
        let (closed, mute) = (connection.end(to.side).state == EndState::Closed, connection.mute);
        let flow = &mut connection.end_mut(to.side.other()).flow;
        if flow.cut || mute {
            return;
        }
        if closed {
            flow.discard();
            let at = self.now.plus_ns(self.config.latency_ns);
            self.agenda.add(at, Event::ArriveReset { to: to.peer() });
            return;
        }
        flow.arrived += bytes;
        let at = self.now.plus_ns(self.jitter());
        self.schedule_deliver(to, at);
    }

    fn arrive_end(&mut self, to: EndId) {
        let Some(connection) = self.connections.get_mut(to.connection) else { return };
        let mute = connection.mute;
        let flow = &mut connection.end_mut(to.side.other()).flow;
        if flow.cut || mute {
            return;
        }
        flow.end_arrived = true;
        self.schedule_deliver(to, self.now);
    }

    fn arrive_reset(&mut self, to: EndId) {
        let Some(connection) = self.connections.get_mut(to.connection) else { return };
        if connection.mute {
            return;
        }
        let end = connection.end_mut(to.side);
        end.reset = true;
        end.flow.discard();
        match end.state {
            EndState::Closed | EndState::Failed(_) => {}
            EndState::Waiting => {
                end.state = EndState::Closed;
                self.forget_if_over(to.connection);
            }
            EndState::Connecting(_) => self.fail(to, Errno::CONNRESET.into()),
            EndState::Open(_) => {
                let loses = self.chance(self.config.reset_loss_probability);
                let flow = &mut self.end_mut(to.peer()).flow;
                if loses {
                    flow.discard()
                } else {
                    flow.cut()
                }
                self.tell_reset(to);
            }
        }
    }

    /// Reports a reset: after the bytes that arrived before it, if the owner receives them.
    fn tell_reset(&mut self, id: EndId) {
        let end = self.end(id);
        let (held, will_ask) = (end.intake.bytes_max() == 0, matches!(end.intake, Intake::Asked { .. }) && !end.ended);
        let (unread, sending) = (self.end(id.peer()).flow.arrived > 0, end.is_sending());
        match (unread, held) {
            (true, false) => self.schedule_deliver(id, self.now),
            // A paused owner learns of it when it resumes, unless it waits for a send.
            (true, true) if !sending => {}
            (false, true) if !sending && will_ask => {}
            _ => self.fail(id, Errno::CONNRESET.into()),
        }
    }

    pub(super) fn schedule_deliver(&mut self, to: EndId, at: Instant) {
        let end = self.end_mut(to);
        if !end.deliver_scheduled {
            end.deliver_scheduled = true;
            self.agenda.add(at, Event::Deliver { to });
        }
    }

    /// Hands over one piece of what has arrived, or what is behind it: the end or the reset.
    fn deliver(&mut self, to: EndId) {
        if self.connections.get(to.connection).is_none() {
            return;
        }
        let end = self.end_mut(to);
        end.deliver_scheduled = false;
        let EndState::Open(socket) = end.state else { return };
        let (wanted, reset, ended, addr) = (end.intake.bytes_max(), end.reset, end.ended, end.addr);
        if wanted == 0 {
            return;
        }
        if let Some(until) = self.stalled(addr) {
            self.schedule_deliver(to, until);
            return;
        }
        let (arrived, end_arrived) = {
            let flow = &self.end(to.peer()).flow;
            (flow.arrived, flow.end_arrived)
        };
        if arrived > 0 {
            let piece = self.piece(arrived.min(wanted));
            self.end_mut(to).intake.satisfy();
            let sender = self.end_mut(to.peer());
            let bytes = sender.flow.take(piece);
            sender.flow.arrived -= piece;
            sender.flow.delivered += piece as u64;
            let waits_for_room = sender.is_sending();
            self.ready.push_back(Ready { completion: Completion::Received { socket }, bytes });
            if waits_for_room {
                self.schedule_transmit(to.peer(), self.now.plus_ns(self.config.latency_ns));
            }
            if arrived > piece || end_arrived || reset {
                let at = self.now.plus_ns(self.jitter());
                self.schedule_deliver(to, at);
            }
        } else if reset {
            self.fail(to, Errno::CONNRESET.into());
        } else if end_arrived && !ended {
            self.end_mut(to).ended = true;
            self.complete(to, Completion::Ended { socket });
        }
    }

    fn piece(&mut self, arrived: usize) -> usize {
        let most = arrived.min(self.config.receive_buffer_bytes);
        if !self.chance(self.config.fragment_probability) {
            return most;
        }
        let magnitude = self.random.random_range(0..=16);
        self.random.random_range(1..=1 << magnitude).min(most)
    }

    /// The owner has closed this end, or will never have it.
    pub(super) fn abandon(&mut self, id: EndId) {
        let Some(connection) = self.connections.get_mut(id.connection) else { return };
        let unread = connection.end(id.side.other()).flow.arrived > 0;
        let end = connection.end_mut(id.side);
        let before = std::mem::replace(&mut end.state, EndState::Closed);
        end.sending = None;
        let orderly = match before {
            EndState::Open(_) | EndState::Failed(_) => !unread,
            EndState::Connecting(_) | EndState::Waiting => false,
            EndState::Closed => return,
        };
        if end.reset {
            // The other end knows already, or will without us.
        } else if !orderly {
            self.send_reset(id);
        } else if end.finish != Finish::Done {
            self.send_end(id);
        }
        self.forget_if_over(id.connection);
    }

    /// Bytes for a closed end cause a reset (RFC 2525, section 2.17; Linux does so). The reset
    /// follows the bytes on their way, or replaces them.
    fn send_reset(&mut self, from: EndId) {
        let loses = self.chance(self.config.reset_loss_probability);
        let at = self.now.plus_ns(self.config.latency_ns);
        let flow = &mut self.end_mut(from).flow;
        let at = if loses { at } else { at.max(flow.last_arrival) };
        if loses {
            flow.cut();
        }
        self.agenda.add(at, Event::ArriveReset { to: from.peer() });
    }

    fn forget_if_over(&mut self, connection: u64) {
        if self.connections.get(connection).is_some_and(super::Connection::is_over) {
            self.connections.remove(connection);
        }
    }

    /// Breaks one end: its send and what it has not received yet are gone.
    pub(super) fn fail(&mut self, id: EndId, error: io::Error) {
        let Some(connection) = self.connections.get_mut(id.connection) else { return };
        let end = connection.end_mut(id.side);
        let (EndState::Open(socket) | EndState::Connecting(socket)) = end.state else { return };
        end.state = EndState::Failed(socket);
        if end.is_sending() {
            end.sending = None;
        }
        self.complete(id, Completion::Failed { socket, error });
    }

    /// Reports to the owner of an end, as soon as it is not stalled.
    fn complete(&mut self, id: EndId, completion: Completion) {
        match self.stalled(self.end(id).addr) {
            Some(until) => self.agenda.add(until, Event::Complete { completion }),
            None => self.ready.push_back(Ready { completion, bytes: Vec::new() }),
        }
    }

    /// Until when the process behind this address is held up.
    fn stalled(&self, addr: SocketAddr) -> Option<Instant> {
        let current = self
            .stalls
            .iter()
            .filter(|stall| stall.process.has(addr) && stall.from <= self.now && self.now < stall.until);
        current.map(|stall| stall.until).max()
    }
}
