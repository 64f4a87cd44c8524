//! The figures of a run: those that `measure` judges, and a few beside them.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_measure::IntervalSeries;
use thalweg_measure::trial::Sessions;
use thalweg_measure::trial::{AddressFigures, CpuUse, OverLimits, TrialFigures};
use thalweg_sys::DriverKind;
use thalweg_sys::proc::{CpuTime, thread_cpu, thread_run_queue_wait_ns};

use thalweg_wire::MessageBytes;

use crate::plan::{Extent, Plan, UserPlan};
use crate::protocol::{End, Step};

/// Intervals kept of a run; a longer run gets wider ones.
const INTERVALS_MAX: usize = 600;

/// The figures of a run, or of one thread's share.
#[derive(Clone, Debug)]
pub struct RunFigures {
    /// Everything that is measured.
    pub trial: TrialFigures,
    /// The addresses of [`TrialFigures::by_address`].
    pub peers: Vec<String>,
    /// The driver that carried it.
    pub driver: DriverKind,
    /// How long before an arrival its threads stopped sleeping.
    pub wake_early_ns: u64,
    /// The run was ended before its time.
    pub interrupted: bool,
    /// Bytes that came on connections on which no response was due.
    pub unsolicited_bytes: u64,
    /// Calls of users that were never offered, since their user had failed or its connection was
    /// closed before they came due.
    pub calls_not_offered: u64,
}

impl RunFigures {
    pub(crate) fn new(plan: &Plan, driver: DriverKind) -> Self {
        let series = IntervalSeries::new(interval_ns(plan), INTERVALS_MAX);
        let series = if plan.observed { series.observed() } else { series };
        let mut trial = TrialFigures::new(plan.arrivals.kind(), plan.offered_rate(), Duration::ZERO, series);
        trial.ends_by_time = matches!(plan.extent, Extent::Duration(_));
        trial.sessions = matches!(plan.user, Some(UserPlan::Sessions { .. })).then(Sessions::default);
        trial.calls_per_arrival = plan.calls_per_arrival();
        trial.over_limits = OverLimits::new(plan.thresholds);
        trial.by_address = vec![AddressFigures::default(); plan.peers.len()];
        trial.to_hold = plan.hold.map(|connections| connections as u64);
        Self {
            trial,
            peers: plan.peers.iter().map(ToString::to_string).collect(),
            driver,
            wake_early_ns: plan.wake_early_ns(),
            interrupted: false,
            unsolicited_bytes: 0,
            calls_not_offered: 0,
        }
    }

    /// Counts a measured request of so many bytes, some of them its body, that is handed to the
    /// driver.
    pub(crate) fn record_sent(&mut self, bytes: usize, body_bytes: usize, in_window: bool) {
        let trial = &mut self.trial;
        trial.in_window.sent += u64::from(in_window);
        trial.bytes.sent += bytes as u64;
        trial.bytes.body_sent += body_bytes as u64;
        trial.bytes.head_sent += (bytes - body_bytes) as u64;
        trial.intervals.record_sent();
    }

    /// Counts a measured request that is handed to the driver once more.
    pub(crate) fn record_sent_again(&mut self, bytes: usize, body_bytes: usize) {
        self.trial.bytes.sent += bytes as u64;
        self.trial.bytes.body_sent += body_bytes as u64;
        self.trial.bytes.head_sent += (bytes - body_bytes) as u64;
    }

    /// Counts bytes of measured requests' bodies that had to wait for the server.
    pub(crate) fn record_late_body(&mut self, bytes: usize) {
        self.trial.bytes.sent += bytes as u64;
        self.trial.bytes.body_sent += bytes as u64;
    }

    /// Counts a piece of the response to a measured request.
    pub(crate) fn record_received(&mut self, step: &Step) {
        let trial = &mut self.trial;
        trial.bytes.received += step.consumed as u64;
        trial.bytes.body_received += step.content_bytes;
        trial.intervals.record_bytes_in(step.consumed as u64);
        if let Some(End::Whole(bytes)) = step.end {
            self.record_whole(bytes);
        }
    }

    /// Counts the bytes around the content of a whole response to a measured request.
    pub(crate) fn record_whole(&mut self, bytes: MessageBytes) {
        self.trial.bytes.head_received += bytes.header;
        self.trial.bytes.framing_received += bytes.framing;
    }

    /// Counts a connection by the rate at which its responses came, if any did.
    pub(crate) fn record_pace(&mut self, bits_per_s: Option<u64>, conforming_bits_per_s: u64) {
        if let Some(bits_per_s) = bits_per_s {
            self.trial.connections.conforming += u64::from(bits_per_s >= conforming_bits_per_s);
            self.trial.bits_per_connection.record(bits_per_s);
        }
    }

    /// Joins the use of the threads of each CPU. One of them may wait as long as its siblings work
    /// without a fault of the machine.
    pub fn join_threads_by_cpu(&mut self) {
        let threads = std::mem::take(&mut self.trial.cpus);
        let mut cpus: BTreeMap<u32, CpuUse> = BTreeMap::new();
        for thread in &threads {
            let siblings = threads.iter().filter(|other| other.cpu == thread.cpu);
            let siblings_busy_ns = siblings.map(|other| other.busy_ns).sum::<u64>() - thread.busy_ns;
            let waited_ns = thread.run_queue_wait_ns.saturating_sub(siblings_busy_ns);
            let cpu = cpus.entry(thread.cpu).or_insert(CpuUse { cpu: thread.cpu, ..CpuUse::default() });
            cpu.cpu_user_ns += thread.cpu_user_ns;
            cpu.cpu_system_ns += thread.cpu_system_ns;
            cpu.busy_ns += thread.busy_ns;
            cpu.run_queue_wait_ns = cpu.run_queue_wait_ns.max(waited_ns);
            cpu.left_out_wait_ns = cpu.left_out_wait_ns.max(thread.left_out_wait_ns);
            cpu.overslept_ns = cpu.overslept_ns.max(thread.overslept_ns);
        }
        self.trial.cpus = cpus.into_values().collect();
    }

    /// Adds the figures of another thread of the same run.
    pub fn merge(&mut self, other: &Self) {
        self.trial.duration = self.trial.duration.max(other.trial.duration);
        self.trial.merge(&other.trial);
        self.interrupted |= other.interrupted;
        self.unsolicited_bytes += other.unsolicited_bytes;
        self.calls_not_offered += other.calls_not_offered;
    }
}

/// The width of the intervals of a run's series: a second, or less for a short run, so that its
/// course can be seen.
fn interval_ns(plan: &Plan) -> u64 {
    const LONGEST_NS: u64 = 1_000_000_000;
    const SHORTEST_NS: u64 = 10_000_000;
    let length = plan.schedule_length();
    if length.is_zero() { LONGEST_NS } else { (length.as_nanos() as u64 / 50).clamp(SHORTEST_NS, LONGEST_NS) }
}

/// The CPU time that a thread has used so far, to be compared with a later value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ThreadUse {
    time: CpuTime,
    busy_wait_ns: u64,
    run_queue_wait_ns: Option<u64>,
}

impl ThreadUse {
    /// `busy_wait_ns` is the time that the thread's driver has polled instead of sleeping.
    pub(crate) fn so_far(busy_wait_ns: u64) -> Self {
        Self { time: thread_cpu(), busy_wait_ns, run_queue_wait_ns: thread_run_queue_wait_ns() }
    }

    /// The CPU time used since `earlier` by the thread on `cpu`. The thread sleeps when it has
    /// nothing to do, so the time that it used is the time that it was busy, but for what it spent
    /// awake on purpose.
    pub(crate) fn since(self, earlier: Self, cpu: usize) -> CpuUse {
        let used = self.time.since(earlier.time);
        let waits = self.run_queue_wait_ns.zip(earlier.run_queue_wait_ns);
        CpuUse {
            cpu: cpu as u32,
            cpu_user_ns: used.user_ns,
            cpu_system_ns: used.system_ns,
            busy_ns: used.total_ns().saturating_sub(self.busy_wait_ns - earlier.busy_wait_ns),
            run_queue_wait_ns: waits.map_or(0, |(now, then)| now.saturating_sub(then)),
            left_out_wait_ns: 0,
            throttled_ns: 0,
            overslept_ns: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::LoopPlan;
    use thalweg_sys::PeerAddr;

    #[test]
    fn threads_that_share_a_cpu_do_not_starve_one_another() {
        let peer = PeerAddr::Tcp("10.0.0.1:80".parse().unwrap());
        let plan = Plan::new(peer, [].into(), LoopPlan::at_rate(1.0), Extent::Requests(1));
        let mut figures = RunFigures::new(&plan, DriverKind::Simulated);
        let thread = |cpu, busy_ns, run_queue_wait_ns| CpuUse { cpu, busy_ns, run_queue_wait_ns, ..CpuUse::default() };
        figures.trial.cpus = vec![thread(1, 30, 20), thread(0, 50, 7), thread(1, 20, 45)];
        figures.join_threads_by_cpu();
        // The second thread of CPU 1 has waited for 15 ns longer than the first one worked.
        assert_eq!(figures.trial.cpus, [thread(0, 50, 7), thread(1, 50, 15)]);
    }
}
