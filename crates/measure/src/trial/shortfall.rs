//! Everything but lateness in which a client may not have done its part: requests that it did not
//! send, resources that ran out, CPU time that it did not get, a trial that is mostly disturbed.

use super::figures::{CpuUse, LoopKind, TrialFigures};
use super::reason::{Reason, Starvation, UNSENT_MAX};
use crate::outcome::Outcome;
use std::time::Duration;

/// Share of the wanted time that has to be left when disturbed time is left out.
const CLEAN_MIN: f64 = 0.5;
/// A load thread busy for more than this share of a trial has no room for bursts.
const BUSY_MAX: f64 = 0.95;
/// Waits in the run queue are short and scattered; at this share they reach into the upper
/// percentiles.
pub(super) const RUN_QUEUE_WAIT_MAX: f64 = 0.05;
/// Throttling stops a thread for tens of milliseconds on end, so this share of the time is the
/// whole p99.
const THROTTLED_MAX: f64 = 0.01;
/// Stalled workers offer less load, and no lag shows it.
const OVERSLEPT_MAX: f64 = 0.05;

/// The shortfalls of a trial.
pub(super) fn of(figures: &TrialFigures) -> Vec<Reason> {
    let mut reasons = Vec::new();
    let offered = figures.counts.offered;
    if offered == 0 && figures.under_way == 0 {
        reasons.push(Reason::NothingOffered);
    }
    if let Err(error) = figures.counts.check(&figures.outcomes) {
        reasons.push(Reason::Miscounted(error));
    }
    let unsent = figures.unsent_by_client();
    if unsent as f64 > UNSENT_MAX * offered as f64 {
        reasons.push(Reason::Unsent { unsent, offered });
    }
    let without_descriptor = figures.outcomes.count(Outcome::NoDescriptor);
    if without_descriptor > 0 {
        reasons.push(Reason::DescriptorsRanOut { requests: without_descriptor });
    }
    let without_address = figures.outcomes.count(Outcome::NoAddress);
    if without_address > 0 {
        reasons.push(Reason::AddressesRanOut { requests: without_address });
    }
    let lacking = figures.connections.lacking;
    if lacking > 0 {
        reasons.push(Reason::ConnectionsLacking { connections: lacking });
    }
    let (clean, whole) = (figures.clean(), figures.duration);
    reasons.extend(disturbance(figures));
    reasons.extend(figures.cpus.iter().filter_map(|cpu| starvation(cpu, figures.loop_kind, clean, whole)));
    reasons
}

/// Whether less than half of the wanted time is left.
fn disturbance(figures: &TrialFigures) -> Option<Reason> {
    let (clean, wanted) = (figures.clean(), figures.wanted.unwrap_or(figures.duration));
    let cause = figures.disturbed_by.clone();
    (clean.as_secs_f64() < wanted.as_secs_f64() * CLEAN_MIN).then_some(Reason::Disturbed { clean, wanted, cause })
}

/// The first sign, in order of how much it explains, that a load thread did not get the CPU time
/// that it needed: in the `clean` time, if it is one that could be left out, else in the whole.
///
/// In an open loop the lag shows whether a thread has fallen behind or waited for its CPU. Workers
/// only send later.
fn starvation(cpu: &CpuUse, loop_kind: LoopKind, clean: Duration, whole: Duration) -> Option<Reason> {
    let throttled = starved(cpu, Starvation::Throttled, share(cpu.throttled_ns, whole), THROTTLED_MAX);
    if throttled.is_some() || loop_kind == LoopKind::Open {
        return throttled;
    }
    waited_share(cpu, clean, RUN_QUEUE_WAIT_MAX)
        .or_else(|| starved(cpu, Starvation::Overslept, share(cpu.overslept_ns, clean), OVERSLEPT_MAX))
        .or_else(|| starved(cpu, Starvation::Busy, share(cpu.busy_ns, whole), BUSY_MAX))
}

/// The time in which a load thread was ready and did not run, if it is more than a share of the
/// clean time.
pub(super) fn waited_share(cpu: &CpuUse, clean: Duration, bound: f64) -> Option<Reason> {
    let waited_ns = cpu.run_queue_wait_ns.saturating_sub(cpu.left_out_wait_ns);
    starved(cpu, Starvation::RunQueue, share(waited_ns, clean), bound)
}

/// A thread's waits reach beyond the trial when it is stalled at its end, so that the share is
/// bounded. Of no time at all there is no share.
fn share(ns: u64, of: Duration) -> f64 {
    if of.is_zero() { 0.0 } else { (ns as f64 / of.as_nanos() as f64).min(1.0) }
}

fn starved(cpu: &CpuUse, cause: Starvation, share: f64, bound: f64) -> Option<Reason> {
    (share > bound).then_some(Reason::CpuStarved { cpu: cpu.cpu, cause, share, bound })
}
