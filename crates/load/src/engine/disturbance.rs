//! Disturbance from outside: times in which something else on the host kept the load thread from
//! running. They are left out (see `measure::trial::LeftOut` for how much and why).
//!
//! The thread looks for them when it comes back later than it tolerates. The kernel then tells
//! whether it had been ready to run all that time; a thread that was late because it had too much
//! work of its own was not.

use std::collections::VecDeque;

use thalweg_sys::Instant;
use thalweg_sys::proc::Waits;

/// Times that were left out are remembered for requests that were sent in them and end later.
const REMEMBERED_MAX: usize = 256;

/// How often the waits are read at least, so that short ones do not add up to a long one.
const REFRESH_NS: u64 = 50_000_000;

/// The waits of the load thread so far.
pub type WaitSource = Box<dyn FnMut() -> Waits>;

/// The knowledge that a load thread has of its own disturbance.
pub(super) struct Disturbance {
    /// How late the thread may be.
    tolerance_ns: u64,
    source: Option<WaitSource>,
    seen: Waits,
    read_at: Instant,
    /// When the thread last looked at anything.
    present_at: Instant,
    /// The next time at which there is something to decide.
    next_look: Instant,
    /// Requests that end between these are left out.
    pub(super) from: Instant,
    pub(super) until: Instant,
    pub(super) leaves_out: bool,
    /// Earlier such times.
    remembered: VecDeque<(Instant, Instant)>,
    /// The waits for which time was left out.
    pub(super) waited_ns: u64,
}

impl Disturbance {
    /// Nothing is left out.
    pub(super) fn none() -> Self {
        Self {
            tolerance_ns: u64::MAX,
            source: None,
            seen: Waits::default(),
            read_at: Instant::default(),
            present_at: Instant::default(),
            next_look: Instant::from_ns(u64::MAX),
            from: Instant::default(),
            until: Instant::default(),
            leaves_out: false,
            remembered: VecDeque::new(),
            waited_ns: 0,
        }
    }

    /// Time is left out whenever the thread was kept from running for longer than that.
    pub(super) fn watched(tolerance_ns: u64, source: WaitSource, now: Instant) -> Self {
        let mut own = Self { tolerance_ns, source: Some(source), present_at: now, read_at: now, ..Self::none() };
        own.seen = own.read();
        own.next_look = now;
        own
    }

    fn read(&mut self) -> Waits {
        self.source.as_mut().map_or(self.seen, |source| source())
    }

    /// Whether there is something to decide.
    #[inline]
    pub(super) fn is_due(&self, now: Instant) -> bool {
        now >= self.next_look
    }

    /// Notes that the thread is present.
    #[inline]
    pub(super) fn on_iteration(&mut self, now: Instant) {
        self.present_at = now;
        let late = now.plus_ns(self.tolerance_ns);
        self.next_look = if self.leaves_out { late.min(self.until) } else { late };
    }

    /// Whether a request that was `late_ns` late left in a time that is left out.
    #[inline]
    pub(super) fn explains(&self, late_ns: u64, sent_at: Instant) -> bool {
        late_ns > self.tolerance_ns && !self.leaves_out && self.remembers(sent_at)
    }

    /// Remembers the time that was left out until then.
    pub(super) fn remember(&mut self, until: Instant) {
        if self.remembered.len() == REMEMBERED_MAX {
            self.remembered.pop_front();
        }
        self.remembered.push_back((self.from, until));
    }

    #[cold]
    fn remembers(&self, at: Instant) -> bool {
        let holds = |&(from, until): &(Instant, Instant)| from <= at && at < until;
        self.remembered.iter().rev().any(holds)
    }

    /// How long the thread has been kept from running since it was present, if that is more than
    /// it tolerates.
    pub(super) fn waited(&mut self, now: Instant) -> Option<u64> {
        let away_ns = now.ns_since(self.present_at);
        if away_ns <= self.tolerance_ns && now.ns_since(self.read_at) < REFRESH_NS {
            return None;
        }
        let waits = self.read();
        let waited_ns = waits.from_outside_since(self.seen).min(away_ns);
        (self.seen, self.read_at) = (waits, now);
        (waited_ns > self.tolerance_ns).then_some(waited_ns)
    }
}
