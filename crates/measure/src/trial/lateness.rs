//! The client's lateness against the figures of a trial: whether the load was still the one that
//! the schedule called for, how much of the response times is lag, and which failures no lateness
//! explains.
//!
//! In an open loop, lag is a part of each response time, so a trial that meets its limits with the
//! lag would have met them without it: lateness alone makes no PASS INVALID. A FAIL is one of the
//! target only if a punctual client would have seen it too. Which of the two a trial is decides
//! `verdict`.

use super::figures::{LoopKind, TrialFigures};
use super::reason::{LagShare, Note, Reason};
use super::shortfall::{RUN_QUEUE_WAIT_MAX, waited_share};
use crate::histogram::Histogram;
use crate::limit::{Limit, Statistic};
use crate::outcome::Outcome;
use std::time::Duration;

/// p99 lag that is always too much to go unsaid, and the share of the tightest response-time limit
/// that is.
const LAG_MAX: Duration = Duration::from_millis(1);
const LAG_OF_LIMIT: f64 = 0.1;
/// Requests that an open loop may send later than the next arrival is due, as a share of its
/// arrivals. With more, the target has met bursts and pauses instead of the schedule. A closed loop
/// may be stalled for the same share of its time.
const BUNCHED_MAX: f64 = 0.05;
/// A request is not counted as one of a burst if it was late by less than this, whatever the rate.
const BUNCHED_AFTER_MIN: Duration = Duration::from_millis(1);
/// Longest lags by which lateness may lengthen a response time: a queue that receives its requests
/// late by at most one of them is behind by at most that one (Lindley's recursion is monotonic),
/// and the response may be noticed as late again.
const LAGS_IN_RESPONSE: f64 = 2.0;
/// A load thread that is busy for a larger share of the time may take a response in late without
/// any lag to show for it.
const BUSY_SHARE_MAX: f64 = 0.8;
/// A smaller difference of two figures is one of their histograms' buckets.
const RESOLUTION: f64 = 0.001;

/// The p99 lag from which on lateness may decide: 1 ms, or a tenth of the tightest response-time
/// limit if that is less. A load thread that waits for its CPU for longer is late.
pub fn lag_bound(limits: &[Limit]) -> Duration {
    let tenths = limits.iter().filter_map(|limit| match limit {
        Limit::ResponseTime { bound, .. } => Some(bound.mul_f64(LAG_OF_LIMIT)),
        Limit::Errors { .. } | Limit::KbitPerConnection { .. } | Limit::Figure { .. } => None,
    });
    tenths.fold(LAG_MAX, Duration::min)
}

/// The lag, where its p99 is above the bound.
pub(super) fn lag(figures: &TrialFigures, limits: &[Limit]) -> Option<Reason> {
    let (p99, bound) = (figures.lag.quantile(0.99), lag_bound(limits));
    (p99 as f64 > bound.as_nanos() as f64).then_some(Reason::Lag { p99_ns: p99, bound })
}

/// Lateness that may have led to a failure, and to nothing else: that of an open loop, whose lag is
/// a part of its response times. Workers that are late offer less load.
pub(super) fn may_explain_failure(figures: &TrialFigures, limits: &[Limit], response_time: &Histogram) -> Vec<Reason> {
    let is_open = figures.loop_kind == LoopKind::Open;
    let mut reasons: Vec<Reason> = lag(figures, limits).into_iter().filter(|_| is_open).collect();
    let waits = figures.cpus.iter().filter(|_| is_open);
    reasons.extend(waits.filter_map(|cpu| waited_share(cpu, figures.clean(), RUN_QUEUE_WAIT_MAX)));
    reasons.extend(limits.iter().filter_map(|limit| missed_through_lag(limit, figures, response_time)));
    reasons
}

/// Whether an open loop offered bursts instead of its schedule: too many of its arrivals, which are
/// requests or users, were noticed or sent later than the next one was due.
pub(super) fn bunched(figures: &TrialFigures) -> Option<Reason> {
    let arrivals = figures.counts.offered as f64 / figures.calls_per_arrival.max(1.0);
    let distance = figures.clean().as_nanos() as f64 / arrivals.max(1.0);
    let after = Duration::from_nanos(distance as u64).max(BUNCHED_AFTER_MIN);
    let late = figures.lag.count_above(after.as_nanos() as u64);
    let is_bunched = figures.loop_kind == LoopKind::Open && late as f64 > BUNCHED_MAX * arrivals;
    is_bunched.then_some(Reason::Bunched { late, arrivals: arrivals.ceil() as u64, after, bound: BUNCHED_MAX })
}

/// Whether a response-time limit is missed only because of the client's own lateness. A tail that
/// is thinner than a hundredth may consist of late requests although the p99 lag is small.
fn missed_through_lag(limit: &Limit, figures: &TrialFigures, response_time: &Histogram) -> Option<Reason> {
    let Limit::ResponseTime { statistic, bound, .. } = *limit else { return None };
    let (observed_ns, bound_ns) = (statistic.of(response_time), bound.as_nanos() as f64);
    let (lag_ns, is_missed) = (statistic.of(&figures.lag), !limit.is_met_by(observed_ns));
    let explains = is_missed && lag_ns > bound_ns * LAG_OF_LIMIT && observed_ns - lag_ns < bound_ns;
    let is_counted_already = matches!(statistic, Statistic::Percentile(percent) if percent <= 99.0);
    (explains && !is_counted_already).then_some(Reason::LagInTail { statistic, observed_ns, lag_ns, bound })
}

/// Whether a failure is the target's even if the client was late.
pub(super) fn stands_in_spite_of_it(failure: &Reason, figures: &TrialFigures) -> bool {
    match failure {
        Reason::ResponseTime { observed_ns, bound, .. } => {
            let by_lateness_ns = LAGS_IN_RESPONSE * figures.lag.max() as f64;
            has_room(figures) && observed_ns - by_lateness_ns > bound.as_nanos() as f64
        }
        Reason::Errors { limit, offered, .. } => {
            let share = errors_beyond_lateness(figures) as f64 / (*offered).max(1) as f64;
            matches!(limit, Limit::Errors { share: allowed, .. } if share > *allowed)
        }
        _ => false,
    }
}

/// Whether every load thread had the CPU time to take in responses when they came.
fn has_room(figures: &TrialFigures) -> bool {
    let whole_ns = figures.duration.as_nanos().max(1) as f64;
    figures.cpus.iter().all(|cpu| {
        let is_idle = cpu.busy_ns as f64 <= BUSY_SHARE_MAX * whole_ns;
        is_idle && waited_share(cpu, figures.clean(), RUN_QUEUE_WAIT_MAX).is_none()
    })
}

/// Errors that a client cannot bring about by sending late and in bursts. It may cause timeouts,
/// resets of idle connections, refusals, and the statuses by which a server sheds load.
fn errors_beyond_lateness(figures: &TrialFigures) -> u64 {
    let count = |outcome| figures.outcomes.count(outcome);
    let sheds_load = |status: u16| status == 408 || status == 429 || status >= 500;
    let shed: u64 = figures.status_codes.iter().filter(|(status, _)| sheds_load(*status)).map(|(_, n)| n).sum();
    count(Outcome::BadStatus).saturating_sub(shed) + count(Outcome::FailedCheck) + count(Outcome::ProtocolError)
}

/// How much of p50, of p99 and of each figure with a limit is lag.
pub(super) fn influence(figures: &TrialFigures, limits: &[Limit], response_time: &Histogram) -> Note {
    let mut statistics = vec![Statistic::Percentile(50.0), Statistic::Percentile(99.0)];
    for limit in limits {
        if let Limit::ResponseTime { statistic, .. } = limit
            && !statistics.contains(statistic)
        {
            statistics.push(*statistic);
        }
    }
    let share = |statistic: Statistic| {
        let response_ns = statistic.of(response_time);
        let lag_ns = response_ns - statistic.of(&figures.without_lag);
        let lag_ns = if lag_ns > RESOLUTION * response_ns { lag_ns } else { 0.0 };
        LagShare { statistic, response_ns, lag_ns }
    };
    let shares = if response_time.is_empty() { Vec::new() } else { statistics.into_iter().map(share).collect() };
    Note::Late { p99_ns: figures.lag.quantile(0.99), shares }
}
