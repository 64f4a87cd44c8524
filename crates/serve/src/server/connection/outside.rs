//! A connection and the places: how it is read and answered without one, and what it is worth when it has one.

use memchr::memmem;
use thalweg_sys::{Driver, Instant, SendBuf};

use super::{Connection, Fate, Phase, Shared, Times, keep};
use crate::http::h1::head;
use crate::http::respond::Outgoing;
use crate::shaping::eviction::{EvictionCandidate, EvictionRank, HEADLESS_AGE_NS};
use crate::telemetry::accounting::ResponseBytes;

/// How a connection stands to the places.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It has one.
    Placed,
    /// It has none, and has not sent a whole request.
    Arriving,
    /// Its only request is answered without a place.
    Guest,
    /// Its response waits for a place.
    Queued,
    /// It is told that there is none.
    TurnedAway,
}

/// A connection that was used more than once is not taken for one that was left, for so long.
const USED_NS: u64 = 10_000_000_000;

/// A client that owes so much time, or has not sent a whole request for so long, may be one that never will: others are answered
/// beside it. It takes more to be closed.
const DOUBT_NS: u64 = 700_000_000;

/// The parts of the time for a stalled response after which it makes room: usually, and when it began while others waited.
const PATIENCE_PART: u64 = 3;
const LATE_PATIENCE_PART: u64 = 12;

impl Connection {
    /// Has it wait for a whole request before anything is decided.
    pub(crate) fn wait_outside(&mut self) {
        self.phase = Phase::Arriving;
    }

    /// Bytes have come in, of a request that is not whole yet.
    #[cold]
    pub(super) fn on_arriving<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        // An end of a head that is cut is found from two bytes before the cut.
        let from = self.unread.as_ref().map_or(0, |bytes| bytes.len().saturating_sub(2));
        let kept = keep(&mut self.unread, driver.received(), &mut shared.pool);
        let new = self.unread.as_ref().map_or(&[][..], |bytes| &bytes[from..]);
        // Whether it is well-formed is found when it is read.
        let is_whole = memmem::find(new, b"\n\r\n").or_else(|| memmem::find(new, b"\n\n")).is_some();
        if is_whole || kept as u64 > u64::from(shared.times.wire.head_bytes_max) { Fate::Asks } else { Fate::Stays }
    }

    /// It has got a place, with a request.
    pub(crate) fn take_place<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.phase = Phase::Reading;
        self.read_unread(driver, shared)
    }

    /// Answers its request though it has no place: at once if the response is short, which ends the connection.
    pub(crate) fn answer_as_guest<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.phase = Phase::Reading;
        // Whatever may be asked of one connection, this is the last of it.
        self.requests = u32::MAX;
        let Some(unread) = self.unread.take() else { return Fate::Over };
        let outgoing = self.read_kept(driver.now(), shared, unread);
        if outgoing.bytes.is_none() && self.waiting.is_none() {
            // Empty lines, and no request behind them.
            return Fate::Over;
        }
        self.go_on_or_queue(driver, shared, outgoing)
    }

    /// Sends what was gathered, unless that takes a place which it does not have.
    pub(super) fn go_on_or_queue<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        outgoing: Outgoing,
    ) -> Fate {
        if self.admission != Admission::Guest || !outgoing.is_long() {
            return self.go_on(driver, shared, outgoing, false);
        }
        self.deadline = driver.now().plus_ns(shared.times.stall_ns / 2);
        shared.held = Some(Box::new(outgoing));
        Fate::Queues
    }

    /// It has got a place for the response that was held back.
    pub(crate) fn send_held<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, held: Outgoing) -> Fate {
        self.is_late = true;
        self.go_on(driver, shared, held, false)
    }

    /// Tells it that there is no room. A response that was held back is counted as answered, and noted as one of which nothing was
    /// sent.
    #[cold]
    pub(crate) fn turn_away<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) {
        let now = driver.now();
        self.phase = Phase::SendingLast { linger: true };
        self.deadline = now.plus_ns(shared.times.stall_ns);
        self.unread = None;
        shared.responder.totals.turned_away += 1;
        let mount = shared.responder.cache.sites().topmost;
        if let Some(accounting) = &mut shared.responder.accounting {
            accounting.on_closed(self.under_way.take(), now);
            let size = ResponseBytes { ends_at: head::NO_ROOM.len() as u64, body_bytes: head::NO_ROOM_BODY_BYTES };
            let second = shared.responder.date_cache.second();
            accounting.record_refused(&mut self.under_way, (self.socket, mount), size, (now, second));
        }
        self.send(driver, shared, SendBuf::Static(head::NO_ROOM), None);
    }

    /// How it would be missed if somebody had to go; `None` if it is not to be closed for anybody.
    pub(crate) fn candidate(&self, times: &Times, now: Instant) -> Option<EvictionCandidate> {
        if self.admission != Admission::Placed {
            return None;
        }
        if self.is_idle_again() {
            let since = self.deadline.minus_ns(times.idle_ns);
            let is_used = self.requests > 1 && now.ns_since(since) < USED_NS;
            return Some((if is_used { EvictionRank::Used } else { EvictionRank::Idle }, since, self.socket));
        }
        let since = match self.phase {
            Phase::Sending | Phase::SendingLast { .. } => {
                let part = if self.is_late { LATE_PATIENCE_PART } else { PATIENCE_PART };
                let is_slow = self.owed_ns(times, now) >= times.stall_ns / part;
                return is_slow.then_some((EvictionRank::Slow, self.deadline, self.socket));
            }
            Phase::Lingering { .. } => self.deadline.minus_ns(times.linger_ns),
            Phase::Reading | Phase::Arriving => self.headless_since(times),
        };
        (now.ns_since(since) >= HEADLESS_AGE_NS).then_some((EvictionRank::Headless, since, self.socket))
    }

    /// Whether its client may be one that only takes a place.
    pub(crate) fn is_in_doubt(&self, times: &Times, now: Instant) -> bool {
        match self.phase {
            Phase::Sending | Phase::SendingLast { .. } => self.owed_ns(times, now) >= DOUBT_NS,
            Phase::Reading if !self.is_idle_again() => now.ns_since(self.headless_since(times)) >= DOUBT_NS,
            _ => false,
        }
    }

    /// How far the client is behind with taking a response, in the time that it has for that; 0 if it has taken all that was sent.
    fn owed_ns(&self, times: &Times, now: Instant) -> u64 {
        if self.untaken_bytes == 0 || self.waits_for_grant() {
            return 0;
        }
        now.ns_since(self.deadline.minus_ns(times.stall_ns))
    }

    /// Since when a request is not whole.
    fn headless_since(&self, times: &Times) -> Instant {
        self.deadline.minus_ns(if self.reader.in_body() { times.stall_ns } else { times.head_ns })
    }
}
