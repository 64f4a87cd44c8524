//! Admission control: the bookkeeping of connections that have no connection slot, and of the
//! checks on those that have one.
//!
//! A connection that comes when all slots are taken is read first. Once it has sent a whole request
//! it gets the slot of one with a lower [eviction rank](super::eviction). If there is none, but
//! some clients may only be holding slots, it gets a provisional response: at once if the response
//! is short, and when a slot is free if it is long. It is refused only when all other connections
//! make progress. So clients that never read, never send a request or never return cannot harm
//! others by taking all slots. The server need not detect them quickly either, which would close
//! slow clients such as modems.
//!
//! While connections come and more than half of the slots are taken, all are checked in rotation:
//! how far their clients are with their responses.
//!
//! Sockets and connections belong to the caller, whose closure returns how a connection is admitted
//! now.

use std::collections::VecDeque;
use std::ops::Range;

use thalweg_sys::{Instant, SocketId};

/// Most connections without a slot that have not sent a whole request, or have a provisional
/// response. When another one comes, the oldest of them is closed.
const ARRIVING_MAX: usize = 256;

/// Connections whose response waits for a slot. Others are refused.
const QUEUED_MAX: usize = 512;

/// Connections that are sent a refusal at the same time. Further ones are closed without a
/// response.
pub(crate) const REFUSED_MAX: usize = 256;

/// Most connections of a loop that have no slot.
pub(crate) const WITHOUT_SLOT_MAX: usize = ARRIVING_MAX + QUEUED_MAX + REFUSED_MAX;

/// Connections whose response begins in one iteration because there is a slot for it now.
pub(crate) const ADMITTED_PER_ITERATION: usize = 64;

/// Connections that are checked in one iteration, each by a system call of less than half a
/// microsecond; the least time between two such iterations, and between two checks of the same
/// connection.
const CHECKED_PER_ITERATION: usize = 256;
const CHECK_REST_NS: u64 = 10_000_000;
const CHECK_ROUND_NS: u64 = 250_000_000;

/// The time for which the result of a check holds, and for which all are checked after the last
/// connection that has come.
const CHECK_VALID_NS: u64 = 2_000_000_000;

/// The admission of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It has a slot.
    Admitted,
    /// It has none, and has not sent a whole request.
    Arriving,
    /// It gets its response without a slot.
    Provisional,
    /// Its response waits for a slot.
    Queued,
    /// It is sent a refusal.
    Refused,
}

/// The connections of a loop that have no slot, and the checks on the others. `R` is a response
/// that waits.
pub(crate) struct AdmissionQueue<R> {
    /// The number of connections of each [`Admission`]; those that are admitted are not counted.
    counts: [usize; 5],
    /// Connections that came without a slot, the oldest first. Some are admitted otherwise by now,
    /// or gone.
    arrived: VecDeque<SocketId>,
    /// Connections whose response waits for a slot, and the response. Some are gone.
    queue: VecDeque<(SocketId, R)>,
    checks: Checks,
}

/// The rotation of checks on connections that have a slot.
#[derive(Default)]
struct Checks {
    /// Checks go on until then, the next from `next` on.
    until: Instant,
    next: Instant,
    round_began: Instant,
    /// The index of the next connection.
    index: usize,
    /// Until then there are clients that may only be holding slots.
    doubt_until: Instant,
}

impl<R> Default for AdmissionQueue<R> {
    fn default() -> Self {
        Self { counts: [0; 5], arrived: VecDeque::new(), queue: VecDeque::new(), checks: Checks::default() }
    }
}

impl<R> AdmissionQueue<R> {
    /// The number of connections without a slot.
    pub(crate) fn total(&self) -> usize {
        self.counts.iter().sum()
    }

    /// Counts a connection that is admitted otherwise than before.
    pub(crate) fn change(&mut self, before: Admission, after: Admission) {
        self.forget(before);
        if after != Admission::Admitted {
            self.counts[after as usize] += 1;
        }
    }

    /// Counts a connection that has gone.
    pub(crate) fn forget(&mut self, admission: Admission) {
        if admission != Admission::Admitted {
            self.counts[admission as usize] -= 1;
        }
    }

    /// Whether another connection may arrive without one that goes.
    pub(crate) fn may_arrive(&self) -> bool {
        self.count(Admission::Arriving) + self.count(Admission::Provisional) < ARRIVING_MAX
    }

    /// Whether another connection may be sent a refusal.
    pub(crate) fn may_refuse(&self) -> bool {
        self.count(Admission::Refused) < REFUSED_MAX
    }

    /// Whether another response may wait for a slot.
    pub(crate) fn may_queue(&self) -> bool {
        self.count(Admission::Queued) < QUEUED_MAX
    }

    /// Whether no response waits for a slot.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// A connection has come without a slot.
    pub(crate) fn push_arrived(&mut self, socket: SocketId, admission: impl Fn(SocketId) -> Option<Admission>) {
        self.arrived.push_back(socket);
        if self.arrived.len() > 2 * ARRIVING_MAX {
            self.arrived.retain(|&socket| is_without_slot(admission(socket)));
        }
    }

    /// Takes the connection that has been without a slot, or had a provisional response, for the
    /// longest time.
    pub(crate) fn pop_oldest(&mut self, admission: impl Fn(SocketId) -> Option<Admission>) -> Option<SocketId> {
        while let Some(socket) = self.arrived.pop_front() {
            if is_without_slot(admission(socket)) {
                return Some(socket);
            }
        }
        None
    }

    /// Has a response wait for a slot.
    pub(crate) fn push_response(
        &mut self,
        socket: SocketId,
        response: R,
        admission: impl Fn(SocketId) -> Option<Admission>,
    ) {
        self.queue.push_back((socket, response));
        if self.queue.len() > 2 * QUEUED_MAX {
            self.queue.retain(|&(socket, _)| admission(socket) == Some(Admission::Queued));
        }
    }

    /// The connection whose response waits the longest; it may have gone.
    pub(crate) fn front(&self) -> Option<SocketId> {
        self.queue.front().map(|(socket, _)| *socket)
    }

    /// Takes the response that waits the longest.
    pub(crate) fn pop_response(&mut self) -> Option<R> {
        self.queue.pop_front().map(|(_, response)| response)
    }

    /// A connection has come while many slots are taken: the others should be known by the time
    /// that all are.
    pub(crate) fn begin_checks(&mut self, now: Instant) {
        self.checks.until = now.plus_ns(CHECK_VALID_NS);
    }

    /// Whether connections are being checked or wait.
    #[inline]
    pub(crate) fn is_busy(&self, now: Instant) -> bool {
        now < self.checks.until || !self.queue.is_empty()
    }

    /// When connections are to be checked.
    #[inline]
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        self.is_busy(now).then_some(self.checks.next)
    }

    /// The connections that are to be checked now, of so many.
    pub(crate) fn next_checks(&mut self, connections: usize, now: Instant) -> Option<Range<usize>> {
        let checks = &mut self.checks;
        if now < checks.next {
            return None;
        }
        let from = checks.index.min(connections);
        let end = (from + CHECKED_PER_ITERATION).min(connections);
        checks.next = now.plus_ns(CHECK_REST_NS);
        checks.index = end;
        if end == connections {
            checks.index = 0;
            checks.next = checks.round_began.plus_ns(CHECK_ROUND_NS).max(checks.next);
            checks.round_began = checks.next;
        }
        Some(from..end)
    }

    /// A check has found a client that may only be holding a slot.
    pub(crate) fn set_doubt(&mut self, now: Instant) {
        self.checks.doubt_until = now.plus_ns(CHECK_VALID_NS);
    }

    /// Whether there are clients that may only be holding slots.
    pub(crate) fn is_in_doubt(&self, now: Instant) -> bool {
        now < self.checks.doubt_until
    }

    fn count(&self, admission: Admission) -> usize {
        self.counts[admission as usize]
    }
}

fn is_without_slot(admission: Option<Admission>) -> bool {
    matches!(admission, Some(Admission::Arriving | Admission::Provisional))
}
