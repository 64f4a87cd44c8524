//! Admission of connections: what the [queue](crate::shaping::admission) decides, done to
//! connections and their sockets.

use std::mem;

use thalweg_sys::{Driver, Instant, SocketId};

use super::{Service, Slot};
use crate::http::clients::Remote;
use crate::server::connection::{Connection, Fate};
use crate::shaping::admission::{ADMITTED_PER_ITERATION, Admission};
use crate::shaping::eviction::{EvictionCandidate, EvictionRank};
use crate::shaping::shaper::ShapingState;

/// Most candidates for eviction that may turn out busy before the search stops.
const EVICTION_TRIES: usize = 16;

impl Service {
    pub(super) fn on_accepted<D: Driver>(&mut self, driver: &mut D, listener: SocketId, socket: SocketId) {
        if self.announcements.are_at(listener) {
            return self.await_announcement(driver, listener, socket);
        }
        self.enter(driver, listener, socket);
    }

    /// Lets a connection in whose other end is known.
    pub(super) fn enter<D: Driver>(&mut self, driver: &mut D, listener: SocketId, socket: SocketId) {
        // Before the first response, which may be a refusal.
        let remote = if self.wants_remotes() { self.introduce(driver, socket) } else { Remote::default() };
        if self.is_closed_to(remote) {
            self.shared.totals.denied += 1;
            return driver.close(socket);
        }
        let Some(transport) = self.transport_of(driver, listener, socket) else { return driver.close(socket) };
        let index = socket.index();
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Default::default);
        }
        let has_free_slot = self.has_free_slot();
        self.open += 1;
        self.shared.totals.accepted += 1;
        let now = driver.now();
        if self.slots_max > 0 && 2 * self.open > self.slots_max / self.published.len() {
            self.admission_queue.begin_checks(now);
        }
        let entered = self.enter_client(remote, now);
        if entered.is_none() && !self.admission_queue.may_refuse() {
            self.open -= 1;
            self.shared.totals.refused += 1;
            self.shared.handshakes -= usize::from(transport.negotiated().is_none());
            return driver.close(socket);
        }
        let slot = &mut self.slots[index];
        if !slot.armed {
            slot.armed = true;
            self.wheel.arm(index as u64, now.plus_ns(self.look_ns));
        }
        match entered {
            Some(shaping_state) => {
                let is_plain = transport.negotiated().is_some();
                let mut connection = Connection::new(transport, shaping_state, &self.shared, now);
                if !is_plain {
                    connection.deadline = self.handshake_deadline(now);
                }
                self.slots[index].connection = Some(connection);
                if !has_free_slot {
                    self.await_request(driver, socket);
                }
            }
            None => {
                slot.connection = Some(Connection::new(transport, None, &self.shared, now));
                self.refuse(driver, socket);
            }
        }
    }

    /// Whether connections of a client are closed at once. Those of a proxy are for its clients.
    fn is_closed_to(&self, remote: Remote) -> bool {
        let networks = self.shared.responder.origin.namespace().networks.as_ref().filter(|_| !remote.is_proxy);
        networks.is_some_and(|networks| networks.closes(remote.address))
    }

    /// Whether the limits by client let in a connection that was just accepted, and what they need.
    #[inline]
    #[expect(clippy::option_option, reason = "refused, let in without limits, let in with them")]
    fn enter_client(&mut self, remote: Remote, now: Instant) -> Option<Option<Box<ShapingState>>> {
        let Some(shaper) = &mut self.shared.shaper else { return Some(None) };
        let address = remote.of_connection().filter(|_| shaper.shared().knows_clients());
        shaper.enter(address, now).ok().map(Some)
    }

    /// Whether there is a slot for which no response waits.
    #[inline]
    fn has_free_slot(&self) -> bool {
        self.admission_queue.is_empty() && !self.is_full()
    }

    /// Whether all slots are taken. The numbers of other loops are as of their last wake-up, and
    /// only read when this one has its part.
    #[inline]
    fn is_full(&self) -> bool {
        let taken = self.open - self.admission_queue.total();
        if self.slots_max == 0 || taken < self.slots_max / self.published.len() {
            return false;
        }
        let others = self.published.iter().enumerate().filter(|&(loop_index, _)| loop_index != self.loop_index);
        let elsewhere: u64 = others.map(|(_, published)| published.totals().open).sum();
        taken as u64 + elsewhere >= self.slots_max as u64
    }

    /// Changes how a connection is admitted.
    fn set_admission(&mut self, socket: SocketId, admission: Admission) {
        let Some(connection) = &mut self.slots[socket.index()].connection else { return };
        let before = mem::replace(&mut connection.admission, admission);
        self.admission_queue.change(before, admission);
    }

    /// Has a connection without a slot wait for a whole request.
    #[cold]
    fn await_request<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if !self.admission_queue.may_arrive() {
            self.close_oldest_without_slot(driver);
        }
        self.set_admission(socket, Admission::Arriving);
        if let Some(connection) = &mut self.slots[socket.index()].connection {
            connection.wait_for_request();
        }
        let slots = &self.slots;
        self.admission_queue.push_arrived(socket, |socket| admission_of(slots, socket));
    }

    /// Closes the connection that has been without a slot, or had a provisional response, for the
    /// longest time.
    pub(super) fn close_oldest_without_slot<D: Driver>(&mut self, driver: &mut D) -> bool {
        let slots = &self.slots;
        let Some(socket) = self.admission_queue.pop_oldest(|socket| admission_of(slots, socket)) else { return false };
        self.shared.totals.evicted += 1;
        self.close(driver, socket);
        true
    }

    /// A connection without a slot has sent a whole request.
    #[cold]
    pub(super) fn on_asks<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let now = driver.now();
        if self.has_free_slot() || (self.admission_queue.is_empty() && self.evict(driver, now)) {
            self.set_admission(socket, Admission::Admitted);
            return self.react(driver, socket, Connection::admit);
        }
        self.check_admitted(driver, now);
        if self.admission_queue.is_empty() && !self.admission_queue.is_in_doubt(now) {
            return self.refuse(driver, socket);
        }
        self.set_admission(socket, Admission::Provisional);
        self.react(driver, socket, Connection::answer_provisionally);
    }

    /// The response of a connection without a slot is long.
    #[cold]
    pub(super) fn on_queues<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let held = self.shared.held.take();
        let Some(held) = held.filter(|_| self.admission_queue.may_queue()) else {
            return self.refuse(driver, socket);
        };
        self.set_admission(socket, Admission::Queued);
        let slots = &self.slots;
        self.admission_queue.push_response(socket, held, |socket| admission_of(slots, socket));
    }

    /// Refuses a connection.
    #[cold]
    pub(super) fn refuse<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if !self.admission_queue.may_refuse() {
            self.shared.totals.refused += 1;
            return self.close(driver, socket);
        }
        self.set_admission(socket, Admission::Refused);
        self.react(driver, socket, |connection, driver, shared| {
            connection.refuse(driver, shared);
            Fate::Stays
        });
    }

    /// Gives slots to connections whose responses wait for them.
    pub(super) fn admit_queued<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        for _ in 0..ADMITTED_PER_ITERATION {
            let Some(socket) = self.admission_queue.front() else { return };
            let is_there = admission_of(&self.slots, socket) == Some(Admission::Queued);
            if is_there && self.is_full() && !self.evict(driver, now) {
                return;
            }
            let Some(held) = self.admission_queue.pop_response() else { return };
            if is_there {
                self.set_admission(socket, Admission::Admitted);
                self.react(driver, socket, |connection, driver, shared| connection.send_held(driver, shared, *held));
            }
        }
    }

    /// Checks some of the connections that have slots, as long as others come that have none.
    pub(super) fn check_admitted<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Some(range) = self.admission_queue.next_checks(self.slots.len(), now) else { return };
        let times = &self.shared.times;
        let connections = self.slots[range].iter_mut().filter_map(|slot| slot.connection.as_mut());
        for connection in connections.filter(|connection| connection.admission == Admission::Admitted) {
            connection.look(driver, times, now);
            if connection.is_in_doubt(times, now) {
                self.admission_queue.set_doubt(now);
            }
        }
    }

    /// Checks and admits at the end of an iteration.
    #[inline]
    pub(super) fn advance_admission<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        if self.admission_queue.is_busy(now) {
            self.check_admitted(driver, now);
            self.admit_queued(driver, now);
        }
    }

    /// Closes the connection of the lowest eviction rank, if there is one that may be evicted.
    #[cold]
    pub(super) fn evict<D: Driver>(&mut self, driver: &mut D, now: Instant) -> bool {
        for _ in 0..EVICTION_TRIES {
            let (slots, times) = (&self.slots, &self.shared.times);
            // As long as others may be holding slots for nothing, a client that comes back keeps
            // its own.
            let spares_used = self.admission_queue.is_in_doubt(now);
            let of = |index: usize| {
                let candidate = slots.get(index)?.connection.as_ref()?.candidate(times, now)?;
                (candidate.0 != EvictionRank::Used || !spares_used).then_some(candidate)
            };
            let still = |candidate: EvictionCandidate| of(candidate.2.index()) == Some(candidate);
            let Some((rank, _, socket)) = self.evictor.next(slots.len(), of, still, now) else { return false };
            if rank != EvictionRank::Slow {
                self.shared.totals.evicted += 1;
                self.close(driver, socket);
                return true;
            }
            // Its client may have taken something since the last check.
            let Some(connection) = &mut self.slots[socket.index()].connection else { continue };
            connection.look(driver, &self.shared.times, now);
            if connection.candidate(&self.shared.times, now).is_some_and(|(rank, ..)| rank == EvictionRank::Slow) {
                self.shared.totals.evicted += 1;
                self.abandon(driver, socket);
                return true;
            }
        }
        false
    }
}

/// How the connection of a socket is admitted, if it is still there.
fn admission_of(slots: &[Slot], socket: SocketId) -> Option<Admission> {
    let connection = slots.get(socket.index())?.connection.as_ref()?;
    (connection.socket() == socket).then_some(connection.admission)
}
