//! What a run was like: the figures that `measure` judges, and what is only of interest beside them.

use std::time::Duration;

use thalweg_measure::trial::{CoreUse, TrialFigures};
use thalweg_measure::{IntervalSeries, LoopKind};
use thalweg_sys::DriverKind;
use thalweg_sys::proc::{CpuTime, thread_cpu, thread_run_queue_wait_ns};

use crate::plan::{Extent, LoopPlan, Plan};

/// Intervals kept of a run; a longer run gets wider ones.
const INTERVALS_MAX: usize = 600;

/// The figures of a run, or of one thread's share.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// Everything that is measured.
    pub trial: TrialFigures,
    /// Which driver carried it.
    pub driver: DriverKind,
    /// The run was ended before its time. Requests that were under way then are in none of the counts; the series has them in
    /// flight at its end.
    pub interrupted: bool,
    /// Bytes that came on connections on which no answer was due.
    pub unsolicited_bytes: u64,
}

impl RunFigures {
    pub(crate) fn new(plan: &Plan, driver: DriverKind) -> Self {
        let (kind, rate) = match plan.arrivals {
            LoopPlan::Open { rate } => (LoopKind::Open, Some(rate)),
            LoopPlan::Closed { .. } => (LoopKind::Closed, None),
        };
        let series = IntervalSeries::new(interval_ns(plan), INTERVALS_MAX);
        let trial = TrialFigures::new(kind, rate, Duration::ZERO, series);
        Self { trial, driver, interrupted: false, unsolicited_bytes: 0 }
    }

    /// Adds the figures of another thread of the same run.
    pub fn merge(&mut self, other: &Self) {
        self.trial.duration = self.trial.duration.max(other.trial.duration);
        self.trial.merge(&other.trial);
        self.interrupted |= other.interrupted;
        self.unsolicited_bytes += other.unsolicited_bytes;
    }
}

/// The width of the intervals of a run's series: a second, or less for a short run, so that its course can be seen.
fn interval_ns(plan: &Plan) -> u64 {
    const LONGEST_NS: u64 = 1_000_000_000;
    const SHORTEST_NS: u64 = 10_000_000;
    match (plan.extent, plan.arrivals) {
        (Extent::Requests(_), LoopPlan::Closed { .. }) => LONGEST_NS,
        _ => (plan.schedule_length().as_nanos() as u64 / 50).clamp(SHORTEST_NS, LONGEST_NS),
    }
}

/// What the calling thread has used so far, to be compared with a later look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadUse {
    time: CpuTime,
    run_queue_wait_ns: Option<u64>,
}

impl ThreadUse {
    pub(crate) fn so_far() -> Self {
        Self { time: thread_cpu(), run_queue_wait_ns: thread_run_queue_wait_ns() }
    }

    /// What was used since `earlier` by the thread on `cpu`. The thread sleeps when it has nothing to do, so the time that it used
    /// is the time that it was busy.
    pub(crate) fn since(self, earlier: Self, cpu: usize) -> CoreUse {
        let used = self.time.since(earlier.time);
        let waits = self.run_queue_wait_ns.zip(earlier.run_queue_wait_ns);
        CoreUse {
            core: cpu as u32,
            cpu_user_ns: used.user_ns,
            cpu_system_ns: used.system_ns,
            busy_ns: used.total_ns(),
            run_queue_wait_ns: waits.map_or(0, |(now, then)| now.saturating_sub(then)),
            throttled_ns: 0,
        }
    }
}
