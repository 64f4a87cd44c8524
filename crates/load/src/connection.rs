//! A connection: its state, its protocol and transport, and the calls that it carries.

use std::rc::Rc;
use std::time::Duration;

use thalweg_measure::Outcome;
use thalweg_sys::{Fault, Instant, SocketId};

use crate::call::{CallList, Calls, Due};
use crate::protocol::Protocol;
use crate::transport::Transport;
use crate::user::UserId;

/// How long before the server closes an idle connection that is not used any more.
const STALE_BEFORE: Duration = Duration::from_secs(1);

/// A connection, kept at its socket's index.
pub(crate) struct Connection<P> {
    pub(crate) id: SocketId,
    pub(crate) state: State,
    /// Which of the plan's addresses it goes to, if there are several.
    pub(crate) peer: u16,
    /// Which of the plan's local addresses it comes from.
    pub(crate) source: u16,
    pub(crate) transport: Transport,
    pub(crate) protocol: P,
    /// The calls under way, and those that wait for the connection to be established. `begun`
    /// counts all that it has carried.
    pub(crate) calls: CallList,
    pub(crate) begun: u32,
    /// A send is under way.
    pub(crate) sending: bool,
    /// When the driver was given the latest send. The driver's time of sending is that of an
    /// earlier one while it lies before this.
    pub(crate) submitted_at: Instant,
    /// The connection is on the list of idle ones, or on that of busy ones with room.
    pub(crate) in_idle: bool,
    pub(crate) in_roomy: bool,
    /// It is on the list of those that submit calls at the end of the iteration.
    pub(crate) in_unsent: bool,
    /// Since when it has had room for a call.
    pub(crate) room_since: Instant,
    /// When its earliest entry in the timer wheel comes due, if it has one.
    pub(crate) armed: Option<Instant>,
    /// When connect() was issued for it, and the whole responses that it has brought.
    pub(crate) since: Instant,
    pub(crate) replies: u32,
    /// A call on it has failed.
    pub(crate) failed: bool,
    /// No arrival had to wait before the connection was attempted.
    pub(crate) prompt: bool,
    /// The delay, in microseconds, with which the thread noticed that there is room: exact where
    /// the connection is new, an upper bound where a response has made the room.
    notice_delay_us: u32,
    /// When it may read next, if it has a pace, and when it received last.
    pub(crate) read_at: Instant,
    pub(crate) received_at: Instant,
    /// Bytes received and time spent receiving by the calls that have ended, for its rate, and when
    /// the last of them did.
    pub(crate) bytes: u64,
    pub(crate) receiving_ns: u64,
    pub(crate) responded_at: Instant,
    /// Memory that only some connections need.
    pub(crate) buffers: Option<Box<Buffers>>,
    /// The user that it belongs to.
    pub(crate) user: Option<UserId>,
}

pub(crate) enum State {
    Connecting,
    Idle,
    /// With calls under way.
    Busy,
    /// Between two bursts of its user.
    Thinking {
        until: Instant,
    },
    Closed,
}

/// Memory of a connection with pipelined calls, with requests that are encoded when they are sent,
/// or at a pace.
#[derive(Default)]
pub(crate) struct Buffers {
    /// How many of the last calls were not submitted to the driver.
    pub(crate) unsent: usize,
    /// The beginning of a response that was read before it could have come over the connection's
    /// long path.
    pub(crate) held: Vec<u8>,
    /// Requests that leave together, one behind the other; used again.
    pub(crate) batch: Rc<Vec<u8>>,
}

impl<P: Protocol> Connection<P> {
    pub(crate) fn connecting(id: SocketId, protocol: P, since: Instant) -> Self {
        Self { state: State::Connecting, since, ..Self::closed(id, protocol) }
    }

    /// The place of a connection that is not there.
    pub(crate) fn closed(id: SocketId, protocol: P) -> Self {
        Self {
            id,
            state: State::Closed,
            peer: 0,
            source: 0,
            transport: Transport::Plain,
            protocol,
            calls: CallList::default(),
            begun: 0,
            sending: false,
            submitted_at: Instant::default(),
            in_idle: false,
            in_roomy: false,
            in_unsent: false,
            room_since: Instant::default(),
            armed: None,
            since: Instant::default(),
            replies: 0,
            failed: false,
            prompt: true,
            notice_delay_us: 0,
            read_at: Instant::default(),
            received_at: Instant::default(),
            bytes: 0,
            receiving_ns: 0,
            responded_at: Instant::default(),
            buffers: None,
            user: None,
        }
    }

    /// The end of the time-out, of the attempt to connect or of the oldest call; or of the user's
    /// pause. Calls come due in the order in which they begin, so that no other call times out
    /// before the oldest.
    pub(crate) fn deadline(&self, calls: &Calls, timeout_ns: u64) -> Option<Instant> {
        let oldest = self.calls.first().map(|stream| calls[stream].deadline);
        match self.state {
            State::Connecting => {
                let own = self.since.plus_ns(timeout_ns);
                Some(oldest.map_or(own, |deadline| own.min(deadline)))
            }
            State::Busy => oldest,
            State::Thinking { until } => Some(until),
            State::Idle | State::Closed => None,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    pub(crate) fn is_established(&self) -> bool {
        !matches!(self.state, State::Connecting | State::Closed)
    }

    /// Whether its protocol allows another call beside those under way.
    #[inline]
    pub(crate) fn is_below_capacity(&self, pipeline: u32) -> bool {
        self.calls.len() < self.protocol.capacity(pipeline) as usize
    }

    /// Whether its protocol allows a call while none is under way. A server of a multiplexed one
    /// may take none for a time.
    #[inline]
    pub(crate) fn has_capacity(&self, pipeline: u32) -> bool {
        !P::MULTIPLEXED || self.protocol.capacity(pipeline) > 0
    }

    /// Whether it has been idle for nearly as long as its server keeps such a connection open. A
    /// request would meet the close on its way, so that the last second is not used, or the last
    /// half of a shorter time.
    #[inline]
    pub(crate) fn is_stale(&self, now: Instant) -> bool {
        let Some(kept) = self.protocol.idle_time() else { return false };
        self.responded_at + kept.saturating_sub(STALE_BEFORE).max(kept / 2) <= now
    }

    /// Notes that it is ready for calls, `ready_ns` after connect() was issued. The thread has
    /// noticed it now.
    pub(crate) fn establish(&mut self, ready_ns: u64, now: Instant) {
        self.state = State::Idle;
        self.make_room(now.ns_since(self.since) - ready_ns, now);
    }

    /// Notes that it has room for a call, noticed with that delay.
    #[inline]
    pub(crate) fn make_room(&mut self, notice_delay_ns: u64, now: Instant) {
        self.room_since = now;
        self.notice_delay_us =
            if notice_delay_ns == 0 { 0 } else { u32::try_from(notice_delay_ns / 1_000).unwrap_or(u32::MAX) };
    }

    /// The delay with which the thread noticed that it has room.
    pub(crate) fn notice_delay_ns(&self) -> u64 {
        u64::from(self.notice_delay_us) * 1_000
    }

    /// The wait of a request that is due now, or was earlier, for room on the connection: when it
    /// ended, by how much the thread was late until then, and how long the target kept the request
    /// waiting.
    #[inline]
    pub(crate) fn waits_until_room(&self, due: Due, now: Instant) -> (Instant, u64, u64) {
        let unnoticed_ns = due.noticed.ns_since(due.intended);
        let is_new = self.begun == 0;
        if !is_new {
            let waited_ns = self.room_since.ns_since(due.noticed);
            let notice_delay_ns = self.notice_delay_ns().min(waited_ns);
            return (due.noticed.max(self.room_since), unnoticed_ns + notice_delay_ns, waited_ns - notice_delay_ns);
        }
        // The time from connect() on is neither the thread's nor a queue's, but for what the thread
        // took to learn of the connection.
        let issued = self.since.max(due.noticed);
        let (established, notice_delay_ns) = match self.state {
            State::Connecting => (now, 0),
            _ => (self.room_since.max(due.noticed), self.notice_delay_ns().min(self.room_since.ns_since(issued))),
        };
        let until_issued_ns = issued.ns_since(due.noticed);
        let (late_ns, queue_ns) = if self.prompt && due.prompt { (until_issued_ns, 0) } else { (0, until_issued_ns) };
        (established, unnoticed_ns + late_ns + notice_delay_ns, queue_ns)
    }

    /// Whether it has that id and has had room for a call since before `at`.
    pub(crate) fn had_room_before(&self, id: SocketId, at: Instant, pipeline: u32) -> bool {
        let room = matches!(self.state, State::Idle | State::Busy) && self.is_below_capacity(pipeline);
        self.id == id && room && self.room_since < at
    }

    /// Bits per second at which its responses came, up to `now`; `None` if none has.
    pub(crate) fn bits_per_s(&self, calls: &Calls, now: Instant) -> Option<u64> {
        let (mut bytes, mut receiving_ns) = (self.bytes, self.receiving_ns);
        if let (State::Busy, Some(oldest)) = (&self.state, self.calls.first()) {
            // Bytes that were read at a pace took the time until the next read.
            let until = if self.read_at > self.received_at { self.read_at } else { now };
            bytes += calls.of(&self.calls).map(|call| call.bytes).sum::<u64>();
            receiving_ns += until.ns_since(calls[oldest].ready.max(self.responded_at));
        }
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        (bytes > 0).then(|| u64::try_from(bits / u128::from(receiving_ns.max(1))).unwrap_or(u64::MAX))
    }
}

/// The outcome of a request whose connection has failed. An error of no known kind counts by the
/// connection's state: it could not be established, or it was lost.
pub(crate) fn outcome_of_fault(fault: Fault, connecting: bool) -> Outcome {
    match fault {
        Fault::Refused => Outcome::Refused,
        Fault::Unreachable | Fault::TimedOut => Outcome::Unreachable,
        Fault::NoDescriptor | Fault::FileTableFull => Outcome::NoDescriptor,
        Fault::NoAddress => Outcome::NoAddress,
        Fault::Other(_) if connecting => Outcome::Unreachable,
        Fault::Reset | Fault::Other(_) => Outcome::Reset,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Http1;

    /// A connect that failed so was once reported as reset by the server.
    #[test]
    fn an_error_of_no_known_kind_is_what_it_came_to() {
        for (fault, connecting, open) in [
            (Fault::Other(74), Outcome::Unreachable, Outcome::Reset),
            (Fault::Reset, Outcome::Reset, Outcome::Reset),
            (Fault::Refused, Outcome::Refused, Outcome::Refused),
            (Fault::TimedOut, Outcome::Unreachable, Outcome::Unreachable),
            (Fault::Unreachable, Outcome::Unreachable, Outcome::Unreachable),
            (Fault::NoDescriptor, Outcome::NoDescriptor, Outcome::NoDescriptor),
            (Fault::FileTableFull, Outcome::NoDescriptor, Outcome::NoDescriptor),
            (Fault::NoAddress, Outcome::NoAddress, Outcome::NoAddress),
        ] {
            let outcomes = (outcome_of_fault(fault, true), outcome_of_fault(fault, false));
            assert_eq!(outcomes, (connecting, open), "{fault:?}");
        }
    }

    /// Beside this a held connection takes its place in the driver's table and an entry or two in
    /// the timer wheels.
    #[test]
    fn a_held_connection_takes_little_memory() {
        assert!(size_of::<Connection<Http1>>() <= 336, "{} bytes", size_of::<Connection<Http1>>());
    }
}
