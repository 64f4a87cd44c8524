//! A connection and its slot: reading and responding without one, and its eviction rank with one.

use thalweg_sys::{Driver, Instant};

use super::{Connection, Fate, Shared, Stage, Times};
use crate::content::body::Payload;
use crate::http::response::ResponseBytes;
use crate::session::{Activity, Next, Session as _};
use crate::shaping::admission::Admission;
use crate::shaping::eviction::{EvictionCandidate, EvictionRank, HEADLESS_AGE_NS};

/// Time for which a connection with more than one request is not considered abandoned.
const USED_NS: u64 = 10_000_000_000;

/// A client that is this far behind, or has not sent a whole request for this time, may be an
/// attacker: other clients get provisional responses meanwhile. Closing the connection takes more
/// than that.
const DOUBT_NS: u64 = 700_000_000;

/// The parts of the time for a stalled response after which its slot may be freed: usually, and
/// when it began while others waited.
const PATIENCE_PART: u64 = 3;
const LATE_PATIENCE_PART: u64 = 12;

impl Connection {
    /// Has it wait for a whole request before admission is decided.
    pub(crate) fn wait_for_request(&mut self) {
        self.stage = Stage::Arriving;
    }

    /// Bytes have come in, of a request that is not whole yet.
    #[cold]
    pub(super) fn on_arriving(&mut self, shared: &mut Shared, now: Instant, input: &[u8]) -> Fate {
        let is_whole = self.with_session(shared, now, |session, services| session.keep_input(input, services));
        if is_whole { Fate::RequestsSlot } else { Fate::Stays }
    }

    /// It has got a slot, with a request.
    pub(crate) fn admit<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.answer_kept(driver, shared, false)
    }

    /// Answers its request though it has no slot: at once if the response is short, which ends the
    /// connection.
    pub(crate) fn answer_provisionally<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        self.answer_kept(driver, shared, true)
    }

    fn answer_kept<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, is_only: bool) -> Fate {
        self.stage = Stage::Open;
        let next = self.with_session(shared, driver.now(), |session, services| session.answer_kept(is_only, services));
        self.follow(driver, shared, next, None)
    }

    /// It has got a slot for the response that was held back.
    pub(crate) fn send_held<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, held: Payload) -> Fate {
        self.is_late = true;
        self.follow(driver, shared, Next::Send(held), None)
    }

    /// Refuses the connection for want of a slot. A response that was held back is counted as made,
    /// and recorded with no bytes sent.
    #[cold]
    pub(crate) fn refuse<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) {
        let now = driver.now();
        self.stage = Stage::Open;
        self.session.drop_input();
        self.deadline = now.plus_ns(shared.times.stall_ns);
        shared.totals.refused += 1;
        let mount = shared.responder.origin.namespace().topmost;
        let second = shared.responder.date_cache.second();
        let socket = self.socket();
        let hsts = shared.responder.origin.namespace().site(0).hsts().filter(|_| self.peer().is_secure());
        let (text, body_bytes) = self.session.refusal(hsts);
        if let Some(accounting) = &mut shared.accounting {
            accounting.on_closed(self.records.take(), now);
            let size = ResponseBytes { bytes: text.len() as u64, body_bytes, is_open: false };
            accounting.record_refused(&mut self.records, (socket, mount), size, (now, second));
        }
        let (sender, mut link) = self.link(driver, shared);
        sender.send_text(&mut link, text);
    }

    /// Its eviction rank; `None` if it is not closed for any other.
    pub(crate) fn candidate(&self, times: &Times, now: Instant) -> Option<EvictionCandidate> {
        if self.admission != Admission::Admitted {
            return None;
        }
        let since = match (self.stage, self.session.activity()) {
            (Stage::Lingering { .. } | Stage::Closing, _) => self.deadline.minus_ns(times.linger_ns),
            (_, Activity::Idle { requests: requests @ 1.. }) => {
                let since = self.deadline.minus_ns(times.idle_ns);
                let is_used = requests > 1 && now.ns_since(since) < USED_NS;
                let rank = if is_used { EvictionRank::Used } else { EvictionRank::Idle };
                return Some((rank, since, self.socket()));
            }
            (_, Activity::Responding { .. }) => {
                let part = if self.is_late { LATE_PATIENCE_PART } else { PATIENCE_PART };
                let is_slow = self.owed_ns(times, now) >= times.stall_ns / part;
                return is_slow.then_some((EvictionRank::Slow, self.deadline, self.socket()));
            }
            _ => self.headless_since(times),
        };
        (now.ns_since(since) >= HEADLESS_AGE_NS).then_some((EvictionRank::Headless, since, self.socket()))
    }

    /// Whether its client may be one that only takes a slot.
    pub(crate) fn is_in_doubt(&self, times: &Times, now: Instant) -> bool {
        match self.session.activity() {
            _ if self.stage != Stage::Open => false,
            Activity::Responding { .. } => self.owed_ns(times, now) >= DOUBT_NS,
            Activity::Idle { requests: 1.. } => false,
            Activity::Idle { .. } | Activity::Reading { .. } => now.ns_since(self.headless_since(times)) >= DOUBT_NS,
        }
    }

    /// Looks how far the client has come with what is sent to it, from time to time. The bytes that
    /// it has taken give it time for the rest, at the rate that is the least; and never more than
    /// it may stall, so that it cannot be saved up.
    pub(crate) fn look<D: Driver>(&mut self, driver: &mut D, times: &Times, now: Instant) {
        if self.stage != Stage::Open || !matches!(self.session.activity(), Activity::Responding { .. }) {
            return;
        }
        let taken = self.sender.look(driver, &mut self.transport, now);
        let stalled = now.plus_ns(times.stall_ns);
        self.deadline = if taken.untaken_bytes == 0 && self.sender.waits_for_us() {
            stalled
        } else {
            self.deadline.plus_ns(taken.bytes.saturating_mul(times.ns_per_byte)).min(stalled)
        };
    }

    /// Time by which the client is behind with receiving a response, of the time that it has for
    /// that; 0 if it has received all that was sent.
    fn owed_ns(&self, times: &Times, now: Instant) -> u64 {
        if self.sender.untaken_bytes == 0 || self.sender.waits_for_grant() {
            return 0;
        }
        now.ns_since(self.deadline.minus_ns(times.stall_ns))
    }

    /// Since when a request is not whole.
    fn headless_since(&self, times: &Times) -> Instant {
        let in_body = matches!(self.session.activity(), Activity::Reading { in_body: true });
        self.deadline.minus_ns(if in_body { times.stall_ns } else { times.head_ns })
    }
}
