//! Admission: which connections get a place, who makes room for them, and how those are answered that have none.
//!
//! A connection that comes when all places are taken is read first. Once it has sent a whole request it gets the place of one that
//! is missed less ([`room`]). If there is none such, but clients that may only be taking places (`Connection::is_in_doubt`), it is
//! answered without a place: at once if the response is short, and when there is room if it is long. Only when all others are at
//! work it is told that there is no room. So it costs others nothing if clients that never read, never ask or never come back take all
//! places, and none of them has to be found out in a hurry, which a modem would have to suffer from.
//!
//! While connections come and more than half of the places are taken, all are looked at in turn: how far their clients are with their
//! responses.

use std::collections::VecDeque;
use std::mem;

use thalweg_sys::{Driver, Instant, SocketId};

use super::Service;
use crate::content::body::Payload;
use crate::server::connection::{Admission, Connection};
use crate::shaping::eviction::{EvictionCandidate, EvictionRank};
use crate::shaping::shaper::ShapingState;

/// Connections without a place that have not sent a whole request, or are being answered. When another one comes, the oldest of them is closed.
const ARRIVING_MAX: usize = 256;

/// Connections whose response waits for a place. Others are turned away.
const QUEUED_MAX: usize = 512;

/// Connections that are told at the same time that there is no room for them. Further ones are closed without a word.
pub(crate) const TURNED_AWAY_MAX: usize = 256;

/// Most connections of a loop that have no place.
pub(crate) const OUTSIDE_MAX: usize = ARRIVING_MAX + QUEUED_MAX + TURNED_AWAY_MAX;

/// Connections whose response begins in one turn because there is room for it now.
const ADMITTED_PER_TURN: usize = 64;

/// Connections that are found to be busy after all before the search for one that is not is given up.
const SHED_TRIES: usize = 16;

/// Connections that are looked at in one turn, each by a system call of less than half a microsecond; the least time between two such turns,
/// and between two looks at the same one.
const LOOKS_PER_TURN: usize = 256;
const LOOK_REST_NS: u64 = 10_000_000;
const LOOK_ROUND_NS: u64 = 250_000_000;

/// How long what was seen holds, and how long all are looked at after the last one that has come.
const SEEN_NS: u64 = 2_000_000_000;

/// Connections without a place, and what was seen of the others.
#[derive(Default)]
pub(super) struct Outside {
    /// How many there are of each standing.
    counts: [usize; 5],
    /// Who has come without a place, the oldest first. Some are something else by now, or gone.
    arrived: VecDeque<SocketId>,
    /// Whose response waits for a place, and the response.
    queue: VecDeque<(SocketId, Box<Payload>)>,
    /// Others are looked at until then, the next of them from then on.
    look_until: Instant,
    next_look: Instant,
    round_began: Instant,
    hand: usize,
    /// Until then there are clients that may only be taking places.
    doubt_until: Instant,
}

impl Outside {
    fn count(&self, admission: Admission) -> usize {
        self.counts[admission as usize]
    }

    pub(super) fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// A connection has gone.
    pub(super) fn forget(&mut self, admission: Admission) {
        if admission != Admission::Admitted {
            self.counts[admission as usize] -= 1;
        }
    }

    /// When connections are to be looked at.
    #[inline]
    pub(super) fn due(&self, now: Instant) -> Option<Instant> {
        self.is_looking(now).then_some(self.next_look)
    }

    #[inline]
    fn is_looking(&self, now: Instant) -> bool {
        now < self.look_until || !self.queue.is_empty()
    }
}

impl Service {
    pub(super) fn on_accepted<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let index = socket.index();
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Default::default);
        }
        let has_room = self.has_room();
        self.open += 1;
        self.shared.totals.accepted += 1;
        let now = driver.now();
        if self.places > 0 && 2 * self.open > self.places / self.published.len() {
            // What others do should be known by the time that all places are taken.
            self.outside.look_until = now.plus_ns(SEEN_NS);
        }
        let entered = self.enter_client(driver, socket, now);
        if entered.is_none() && self.outside.count(Admission::Refused) == TURNED_AWAY_MAX {
            self.open -= 1;
            self.shared.totals.turned_away += 1;
            return driver.close(socket);
        }
        // Before the first response, which may be that there is no room.
        if let Some(accounting) = self.shared.accounting.as_mut().filter(|accounting| accounting.wants_clients()) {
            accounting.set_client(socket, driver.peer_addr(socket).ok().map(|peer| peer.ip()));
        }
        let slot = &mut self.slots[index];
        if !slot.armed {
            slot.armed = true;
            self.wheel.arm(index as u64, now.plus_ns(self.look_ns));
        }
        match entered {
            Some(shaping_state) => {
                slot.connection = Some(Connection::new(socket, shaping_state, &self.shared, now));
                if !has_room {
                    self.wait_outside(driver, socket);
                }
            }
            None => {
                slot.connection = Some(Connection::new(socket, None, &self.shared, now));
                self.turn_away(driver, socket);
            }
        }
    }

    /// Whether the limits by client let in a connection that was just accepted, and what they need.
    #[inline]
    #[expect(clippy::option_option, reason = "refused, let in without limits, let in with them")]
    fn enter_client<D: Driver>(
        &mut self,
        driver: &mut D,
        socket: SocketId,
        now: Instant,
    ) -> Option<Option<Box<ShapingState>>> {
        let Some(shaper) = &mut self.shared.shaper else { return Some(None) };
        let knows_clients = shaper.shared().knows_clients();
        // A Unix socket's peer has no address, and one that has gone already needs none.
        let address = knows_clients.then(|| driver.peer_addr(socket).ok()).flatten();
        shaper.enter(address.map(|address| address.ip()), now).ok().map(Some)
    }

    /// Whether there is a place that nobody waits for.
    #[inline]
    fn has_room(&self) -> bool {
        self.outside.queue.is_empty() && !self.is_full()
    }

    /// Whether all places are taken. What the other loops have is as of their last wake-up, and only asked for when this one has its
    /// part.
    #[inline]
    fn is_full(&self) -> bool {
        let taken = self.open - self.outside.total();
        if self.places == 0 || taken < self.places / self.published.len() {
            return false;
        }
        let others = self.published.iter().enumerate().filter(|&(loop_index, _)| loop_index != self.loop_index);
        let elsewhere: u64 = others.map(|(_, published)| published.totals().open).sum();
        taken as u64 + elsewhere >= self.places as u64
    }

    /// Changes how a connection stands.
    fn stand(&mut self, socket: SocketId, admission: Admission) {
        let Some(connection) = &mut self.slots[socket.index()].connection else { return };
        let before = mem::replace(&mut connection.admission, admission);
        self.outside.forget(before);
        if admission != Admission::Admitted {
            self.outside.counts[admission as usize] += 1;
        }
    }

    fn admission(&self, socket: SocketId) -> Option<Admission> {
        let connection = self.slots.get(socket.index())?.connection.as_ref()?;
        (connection.socket() == socket).then_some(connection.admission)
    }

    /// Has a connection without a place wait for a whole request.
    #[cold]
    fn wait_outside<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if self.outside.count(Admission::Arriving) + self.outside.count(Admission::Provisional) >= ARRIVING_MAX {
            self.close_oldest_outside(driver);
        }
        self.stand(socket, Admission::Arriving);
        if let Some(connection) = &mut self.slots[socket.index()].connection {
            connection.wait_for_request();
        }
        self.outside.arrived.push_back(socket);
        if self.outside.arrived.len() > 2 * ARRIVING_MAX {
            let mut arrived = mem::take(&mut self.outside.arrived);
            arrived.retain(|&socket| self.is_outside(socket));
            self.outside.arrived = arrived;
        }
    }

    fn is_outside(&self, socket: SocketId) -> bool {
        matches!(self.admission(socket), Some(Admission::Arriving | Admission::Provisional))
    }

    /// Closes the connection that has been without a place, or been answered without one, for the longest time.
    pub(super) fn close_oldest_outside<D: Driver>(&mut self, driver: &mut D) -> bool {
        while let Some(socket) = self.outside.arrived.pop_front() {
            if self.is_outside(socket) {
                self.shared.totals.shed += 1;
                self.close(driver, socket);
                return true;
            }
        }
        false
    }

    /// A connection without a place has sent a whole request.
    #[cold]
    pub(super) fn on_asks<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let now = driver.now();
        if self.has_room() || (self.outside.queue.is_empty() && self.shed(driver, now)) {
            self.stand(socket, Admission::Admitted);
            return self.react(driver, socket, Connection::admit);
        }
        self.look_at_others(driver, now);
        if self.outside.queue.is_empty() && self.outside.doubt_until <= now {
            return self.turn_away(driver, socket);
        }
        self.stand(socket, Admission::Provisional);
        self.react(driver, socket, Connection::answer_provisionally);
    }

    /// The response of a connection without a place is long.
    #[cold]
    pub(super) fn on_queues<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let held = self.shared.held.take();
        let Some(held) = held.filter(|_| self.outside.count(Admission::Queued) < QUEUED_MAX) else {
            return self.turn_away(driver, socket);
        };
        self.stand(socket, Admission::Queued);
        self.outside.queue.push_back((socket, held));
        if self.outside.queue.len() > 2 * QUEUED_MAX {
            let mut queue = mem::take(&mut self.outside.queue);
            queue.retain(|&(socket, _)| self.admission(socket) == Some(Admission::Queued));
            self.outside.queue = queue;
        }
    }

    /// Tells a connection that there is no room for it.
    #[cold]
    pub(super) fn turn_away<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if self.outside.count(Admission::Refused) == TURNED_AWAY_MAX {
            self.shared.totals.turned_away += 1;
            return self.close(driver, socket);
        }
        self.stand(socket, Admission::Refused);
        if let Some(connection) = &mut self.slots[socket.index()].connection {
            connection.refuse(driver, &mut self.shared);
        }
    }

    /// Gives places to connections whose responses wait for them.
    pub(super) fn admit_queued<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        for _ in 0..ADMITTED_PER_TURN {
            let Some(&(socket, _)) = self.outside.queue.front() else { return };
            let is_there = self.admission(socket) == Some(Admission::Queued);
            if is_there && self.is_full() && !self.shed(driver, now) {
                return;
            }
            let Some((socket, held)) = self.outside.queue.pop_front() else { return };
            if is_there {
                self.stand(socket, Admission::Admitted);
                self.react(driver, socket, |connection, driver, shared| connection.send_held(driver, shared, *held));
            }
        }
    }

    /// Looks at those who have places, as long as others come that have none.
    pub(super) fn look_at_others<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Outside { hand, next_look, round_began, doubt_until, .. } = &mut self.outside;
        if now < *next_look {
            return;
        }
        let times = &self.shared.times;
        let from = (*hand).min(self.slots.len());
        let end = (from + LOOKS_PER_TURN).min(self.slots.len());
        let connections = self.slots[from..end].iter_mut().filter_map(|slot| slot.connection.as_mut());
        for connection in connections.filter(|connection| connection.admission == Admission::Admitted) {
            connection.look(driver, times, now);
            if connection.is_in_doubt(times, now) {
                *doubt_until = now.plus_ns(SEEN_NS);
            }
        }
        *next_look = now.plus_ns(LOOK_REST_NS);
        *hand = end;
        if end == self.slots.len() {
            *hand = 0;
            *next_look = round_began.plus_ns(LOOK_ROUND_NS).max(*next_look);
            *round_began = *next_look;
        }
    }

    /// What is due of this at the end of a turn.
    #[inline]
    pub(super) fn attend_outside<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        if self.outside.is_looking(now) {
            self.look_at_others(driver, now);
            self.admit_queued(driver, now);
        }
    }

    /// Closes the connection that will be missed least, if there is one.
    #[cold]
    pub(super) fn shed<D: Driver>(&mut self, driver: &mut D, now: Instant) -> bool {
        for _ in 0..SHED_TRIES {
            let (slots, times) = (&self.slots, &self.shared.times);
            // As long as others may be taking places for nothing, nobody is closed who comes back.
            let spares_used = now < self.outside.doubt_until;
            let of = |index: usize| {
                let candidate = slots.get(index)?.connection.as_ref()?.candidate(times, now)?;
                (candidate.0 != EvictionRank::Used || !spares_used).then_some(candidate)
            };
            let still = |candidate: EvictionCandidate| of(candidate.2.index()) == Some(candidate);
            let Some((rank, _, socket)) = self.evictor.next(slots.len(), of, still, now) else { return false };
            if rank != EvictionRank::Slow {
                self.shared.totals.shed += 1;
                self.close(driver, socket);
                return true;
            }
            // It may have taken something since it was looked at last.
            let Some(connection) = &mut self.slots[socket.index()].connection else { continue };
            connection.look(driver, &self.shared.times, now);
            if connection.candidate(&self.shared.times, now).is_some_and(|(rank, ..)| rank == EvictionRank::Slow) {
                self.shared.totals.shed += 1;
                self.abandon(driver, socket);
                return true;
            }
        }
        false
    }
}
