//! The time that the engine leaves out of its figures, because something else on the host kept its
//! thread from running.

use std::time::Duration;

use thalweg_measure::trial::settled_after_ns;
use thalweg_sys::Instant;
use thalweg_sys::proc::WaitReader;

use super::disturbance::{Disturbance, WaitSource};
use super::state::{Engine, Phase};
use crate::protocol::Protocol;

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
        own.remember(until);
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
