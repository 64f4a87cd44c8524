//! Disturbance from outside: times in which something else on the host kept the load thread from
//! running. They are left out (see `measure::trial::LeftOut` for how much and why).
//!
//! The thread looks for them when it comes back later than it tolerates. The kernel then tells
//! whether it had been ready to run all that time; a thread that was late because it had too much
//! work of its own was not.

use std::collections::VecDeque;
use std::time::Duration;

use thalweg_measure::trial::settled_after_ns;
use thalweg_sys::Instant;
use thalweg_sys::proc::{WaitReader, Waits};

use super::state::{Engine, Phase};
use crate::protocol::Protocol;

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
    from: Instant,
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

    #[cold]
    fn remembers(&self, at: Instant) -> bool {
        let holds = |&(from, until): &(Instant, Instant)| from <= at && at < until;
        self.remembered.iter().rev().any(holds)
    }

    /// How long the thread has been kept from running since it was present, if that is more than
    /// it tolerates.
    fn waited(&mut self, now: Instant) -> Option<u64> {
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

impl<P: Protocol> Engine<P> {
    /// Has waits of the thread for its CPU left out of the figures, as `source` has them. Without
    /// one the kernel is asked, if the plan says how late the thread may be.
    #[must_use]
    pub fn watched(mut self, source: Option<WaitSource>, now: Instant) -> Self {
        if let Some(tolerance) = self.plan.lateness_max {
            let mut reader = WaitReader::new(self.plan.cpus[self.thread]);
            let source = source.unwrap_or_else(|| Box::new(move || reader.read()));
            self.disturbance = Disturbance::watched(tolerance.as_nanos() as u64, source, now);
        }
        self
    }

    /// Decides whether requests that end from now on count. To be called before any of them is
    /// accounted for.
    #[cold]
    pub(super) fn look_for_disturbance(&mut self, now: Instant) {
        let Phase::Running(schedule) = &self.phase else { return self.disturbance.on_iteration(now) };
        let start = schedule.start;
        if let Some(waited_ns) = self.disturbance.waited(now) {
            let from = now.minus_ns(waited_ns);
            self.progress.leave_out(now.plus_ns(settled_after_ns(waited_ns)));
            if now >= start && !schedule.ended {
                self.disturbance.waited_ns += waited_ns;
                let cpu = self.plan.cpus[self.thread] as u32;
                self.figures.trial.left_out.add_wait(now.ns_since(start), waited_ns, cpu);
            }
            self.leave_out_from(from.max(start), now);
        } else {
            self.leave_out_from(now.max(start), now);
        }
        self.disturbance.on_iteration(now);
    }

    /// Leaves out what ends from `from` on, if a time is left out now; else counts it again.
    fn leave_out_from(&mut self, from: Instant, now: Instant) {
        let until = self.progress.left_out_until();
        let own = &mut self.disturbance;
        own.until = own.until.max(until);
        if now < own.until && !own.leaves_out {
            (own.leaves_out, own.from) = (true, from);
            self.figures.trial.switch(true);
        } else if now >= own.until && own.leaves_out {
            self.count_again(now);
        }
    }

    /// Ends the time that is left out, if there is one.
    pub(super) fn count_again(&mut self, now: Instant) {
        let own = &mut self.disturbance;
        if !std::mem::take(&mut own.leaves_out) {
            return;
        }
        let until = own.until.min(now);
        if own.remembered.len() == REMEMBERED_MAX {
            own.remembered.pop_front();
        }
        own.remembered.push_back((own.from, until));
        let from = own.from;
        self.figures.trial.switch(false);
        self.leave_time_out(from, until);
    }

    /// Takes a time out of the length that counts, as far as it lies in the measured part.
    fn leave_time_out(&mut self, from: Instant, until: Instant) {
        let Phase::Running(schedule) = &self.phase else { return };
        let until = schedule.end.map_or(until, |end| until.min(end));
        if !schedule.ended {
            self.figures.trial.left_out.add_time(from.ns_since(schedule.start), until.ns_since(schedule.start));
        }
    }

    /// The measured part ends now; a time that is left out does with it.
    pub(super) fn end_left_out_time(&mut self, now: Instant) {
        if self.disturbance.leaves_out {
            self.leave_time_out(self.disturbance.from, now);
        }
    }

    /// How much is left out so far.
    pub(super) fn left_out_so_far(&self, now: Instant) -> Duration {
        let own = &self.disturbance;
        let present = if own.leaves_out { now - own.from } else { Duration::ZERO };
        self.figures.trial.left_out.total() + present
    }
}
