//! The verdict on a trial, exactly by the measuring method: INVALID first, then PASS, else FAIL.

use super::backlog::{self, Backlog};
use super::figures::{CpuUse, LoopKind, TrialFigures};
use super::reason::{Note, Reason, Starvation, UNSENT_MAX};
use crate::histogram::Histogram;
use crate::limit::{Limit, Statistic};
use crate::outcome::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The outcome of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The target carried the load within all limits.
    Pass,
    /// It did not.
    Fail,
    /// The client did not do its part, so nothing is known about the target.
    Invalid,
}

/// A verdict with all that led to it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Why it is not PASS: every condition that was broken, the client's shortfalls first. Empty
    /// for PASS. What the target did under a load that was not the intended one is no evidence
    /// against it, but a reader wants to know of it.
    pub reasons: Vec<Reason>,
    /// Notes for a reader; they change no verdict.
    pub notes: Vec<Note>,
}

impl Judgement {
    /// Takes back a FAIL for nothing but that no response was complete: of a trial that the user
    /// has ended before its time.
    pub fn pardon_interruption(&mut self) {
        if matches!(self.reasons[..], [Reason::NothingCompleted { .. }]) {
            self.verdict = Verdict::Invalid;
        }
    }

    /// Whether a client that was kept from its work may have brought this about: it was late, or
    /// what it sent late and all at once overtaxed the target.
    pub fn may_be_disturbed(&self) -> bool {
        self.reasons.iter().any(|reason| {
            let overtaxed =
                matches!(reason, Reason::ResponseTime { .. } | Reason::Incomplete { .. } | Reason::BacklogGrew { .. });
            overtaxed || reason.is_lateness()
        })
    }
}

/// p99 lag that is always too much, and the share of the tightest response-time limit that is.
const LAG_MAX: Duration = Duration::from_millis(1);
const LAG_OF_LIMIT: f64 = 0.1;
/// Share of offered requests that may be missing from the completions.
pub(super) const INCOMPLETE_MAX: f64 = 0.01;
/// Share of the offered requests that a target has to refuse for that to be known of it whatever
/// the client did.
const REFUSED_MIN: f64 = 0.01;
/// Share of the wanted time that has to be left when disturbed time is left out.
const CLEAN_MIN: f64 = 0.5;
/// A load thread busy for more than this share of a trial has no room for bursts.
const BUSY_MAX: f64 = 0.95;
/// Waits in the run queue are short and scattered; at this share they reach into the upper
/// percentiles.
const RUN_QUEUE_WAIT_MAX: f64 = 0.05;
/// Throttling stops a thread for tens of milliseconds on end, so this share of the time is the
/// whole p99.
const THROTTLED_MAX: f64 = 0.01;
/// Stalled workers offer less load, and no lag shows it.
const OVERSLEPT_MAX: f64 = 0.05;

/// Judges a trial against `limits`.
///
/// If none of the limits is on errors, no errors at all are allowed, so a run without limits passes
/// exactly if it had no errors and kept up.
///
/// **INVALID** if the client fell short:
/// * More than 0.1 % of the offered requests did not leave through the client's doing. Not every
///   unsent request is: with a bound on connections, a slow target uses the bound up and further
///   requests wait, some until they time out or the schedule ends. They waited for the target, so
///   they count against it (as response time, as timeouts, as missing completions), and the trial
///   fails but stays valid. The same holds for a refused connection. The client is to blame for
///   requests that lacked a descriptor or an address, and for those that it did not get to although
///   nothing kept it ([`TrialFigures::unsent_by_client`]).
/// * p99 lag above 1 ms or above a tenth of the tightest response-time limit. Lag leaves out the
///   wait for a connection.
/// * A response-time limit was missed that would have been met without the lag, as the same
///   statistic of the lag has it, and this is above a tenth of the limit too.
/// * Descriptors or addresses ran out, even once: from then on connections did not follow the plan.
/// * A load thread starved: over 5 % of the time runnable without running, throttled for 1 %, or in
///   a closed loop busy for over 95 % or standing still for over 5 %. In an open loop the lag says
///   whether such a thread was too slow.
/// * Less than half of the wanted time is left, because the rest was disturbed from outside
///   ([`LeftOut`](super::LeftOut)).
/// * Nothing was offered or sent, or the counts contradict each other.
///
/// One thing is known of the target even if the client was late or short of CPU time: connections
/// that it refused. No client can bring those about, while a client that meets nothing but refusals
/// is busy with them. So a trial in which more than 1 % of the requests were refused, and more than
/// the limit on errors allows, is a **FAIL**, and what the client did is said beside it.
///
/// **PASS** if a response was complete within the measured time (or at all, where a number of
/// requests ends it), all limits are met, the connections that were to be held are open at the end,
/// completions are within 1 % of offered in an open loop (or within the share of errors that a
/// limit allows, if that is more), and requests in flight show no upward trend in an open loop.
///
/// **FAIL** otherwise.
pub fn verdict(figures: &TrialFigures, limits: &[Limit]) -> Judgement {
    let effective = effective_limits(limits);
    let response_time = figures.response_time();
    let mut notes: Vec<Note> = effective.iter().filter_map(|limit| few_samples(limit, response_time.count())).collect();

    let mut reasons = client_shortfalls(figures, &effective);
    reasons.extend(effective.iter().filter_map(|limit| missed_through_lag(limit, figures, &response_time)));
    let refused = refusals(figures, &effective).filter(|_| reasons.iter().all(Reason::is_lateness));
    let verdict_by_client = (!reasons.is_empty() && refused.is_none()).then_some(Verdict::Invalid);
    let late = if refused.is_some() { std::mem::take(&mut reasons) } else { Vec::new() };
    if reasons.contains(&Reason::NothingOffered) {
        // There is nothing that a limit could be held against.
        return Judgement { verdict: Verdict::Invalid, reasons, notes };
    }
    reasons.extend(not_held(figures));
    let missed = effective.iter().filter_map(|limit| miss_of(limit, figures, &response_time));
    // A limit that was missed through the client's lag has been reported already.
    let missed: Vec<Reason> = missed.filter(|missed| !reasons.iter().any(|reason| reason.explains(missed))).collect();
    reasons.extend(missed);
    if figures.loop_kind == LoopKind::Open {
        reasons.extend(missing_completions(figures, &effective));
        match backlog::judge(figures) {
            Backlog::Steady => {}
            Backlog::Growing { rise } => {
                reasons.push(Reason::BacklogGrew { rise: rise.round() as u64, duration: figures.duration });
            }
            Backlog::Unjudged { intervals } => notes.push(Note::BacklogUnjudged { intervals }),
        }
    }
    reasons.splice(0..0, refused);
    reasons.extend(late);
    if reasons.is_empty() && figures.completed_nothing() {
        return nothing_completed(figures, notes);
    }
    let verdict = verdict_by_client.unwrap_or(if reasons.is_empty() { Verdict::Pass } else { Verdict::Fail });
    Judgement { verdict, reasons, notes }
}

/// The judgement of a trial in which nothing went wrong because nothing came to its end.
fn nothing_completed(figures: &TrialFigures, notes: Vec<Note>) -> Judgement {
    let sent = figures.in_window.sent.max(figures.counts.sent);
    let (verdict, reason) = match sent {
        0 => (Verdict::Invalid, Reason::NothingSent),
        _ => {
            let (later, duration) = (figures.outcomes.completed(), figures.duration);
            (Verdict::Fail, Reason::NothingCompleted { sent, later, duration })
        }
    };
    Judgement { verdict, reasons: vec![reason], notes }
}

/// The limits with that on errors, which holds if no other is given.
pub(super) fn effective_limits(limits: &[Limit]) -> Vec<Limit> {
    let mut effective = limits.to_vec();
    if !limits.iter().any(|limit| matches!(limit, Limit::Errors { .. })) {
        effective.push(Limit::NO_ERRORS);
    }
    effective
}

/// Everything in which the client did not do its part.
fn client_shortfalls(figures: &TrialFigures, limits: &[Limit]) -> Vec<Reason> {
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
    let (p99, bound) = (figures.lag.quantile(0.99), lag_bound(limits));
    if p99 as f64 > bound.as_nanos() as f64 {
        reasons.push(Reason::Lag { p99_ns: p99, bound });
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

/// Holds a limit against a trial. `response_time` is [`TrialFigures::response_time`], which is
/// costly enough to be computed once for all limits.
///
/// `None` if the limit is met. A response-time limit without any response is not met: nothing shows
/// that it would have been.
fn miss_of(limit: &Limit, figures: &TrialFigures, response_time: &Histogram) -> Option<Reason> {
    match *limit {
        Limit::ResponseTime { statistic, inclusive, bound } => {
            if response_time.is_empty() {
                return Some(Reason::NothingMeasured { limit: *limit });
            }
            let observed = statistic.of(response_time);
            let bound_ns = bound.as_nanos() as f64;
            let met = observed < bound_ns || (inclusive && observed == bound_ns);
            (!met).then_some(Reason::ResponseTime { statistic, observed_ns: observed, bound })
        }
        Limit::Errors { inclusive, share } => {
            let (errors, offered) = (figures.outcomes.errors(), figures.counts.offered);
            let observed = errors as f64 / offered.max(1) as f64;
            let met = observed < share || (inclusive && observed == share);
            (!met).then_some(Reason::Errors { limit: *limit, errors, offered })
        }
        Limit::KbitPerConnection { .. } => {
            let (conforming, measured) = (figures.connections.conforming, figures.bits_per_connection.count());
            let met = measured > 0 && conforming >= measured;
            (!met).then_some(Reason::Connections { limit: *limit, conforming, measured })
        }
    }
}

/// Whether a response-time limit is missed only because of the client's own lateness. A tail that
/// is thinner than a hundredth may consist of late requests although the p99 lag is small.
fn missed_through_lag(limit: &Limit, figures: &TrialFigures, response_time: &Histogram) -> Option<Reason> {
    let Reason::ResponseTime { statistic, observed_ns, bound } = miss_of(limit, figures, response_time)? else {
        return None;
    };
    let (lag_ns, bound_ns) = (statistic.of(&figures.lag), bound.as_nanos() as f64);
    let explains = lag_ns > bound_ns * LAG_OF_LIMIT && observed_ns - lag_ns < bound_ns;
    let is_counted_already = matches!(statistic, Statistic::Percentile(percent) if percent <= 99.0);
    (explains && !is_counted_already).then_some(Reason::LagInTail { statistic, observed_ns, lag_ns, bound })
}

/// Connections that the target refused, where they alone miss the limit on errors.
fn refusals(figures: &TrialFigures, limits: &[Limit]) -> Option<Reason> {
    let (refused, offered) = (figures.outcomes.count(Outcome::Refused), figures.counts.offered);
    let share = refused as f64 / offered.max(1) as f64;
    let missed = limits.iter().any(|limit| matches!(limit, Limit::Errors { share: allowed, .. } if share > *allowed));
    (missed && share > REFUSED_MIN).then_some(Reason::Refused { refused, offered })
}

/// The p99 lag that is still allowed: 1 ms, or a tenth of the tightest response-time limit if that
/// is less. A load thread that waits for its CPU for longer is late.
pub fn lag_bound(limits: &[Limit]) -> Duration {
    let tenths = limits.iter().filter_map(|limit| match limit {
        Limit::ResponseTime { bound, .. } => Some(bound.mul_f64(LAG_OF_LIMIT)),
        Limit::Errors { .. } | Limit::KbitPerConnection { .. } => None,
    });
    tenths.fold(LAG_MAX, Duration::min)
}

/// Whether less than half of the wanted time is left.
fn disturbance(figures: &TrialFigures) -> Option<Reason> {
    let (clean, wanted) = (figures.clean(), figures.wanted.unwrap_or(figures.duration));
    let cause = figures.disturbed_by.clone();
    (clean.as_secs_f64() < wanted.as_secs_f64() * CLEAN_MIN).then_some(Reason::Disturbed { clean, wanted, cause })
}

/// The first sign, in order of how much it explains, that a load thread did not get the CPU time
/// that it needed: in the `clean` time, if it is one that could be left out, else in the whole.
fn starvation(cpu: &CpuUse, loop_kind: LoopKind, clean: Duration, whole: Duration) -> Option<Reason> {
    // The lag of a schedule shows whether a thread has fallen behind. Workers only send later.
    let is_closed = loop_kind == LoopKind::Closed;
    let (busy_ns, overslept_ns) = if is_closed { (cpu.busy_ns, cpu.overslept_ns) } else { (0, 0) };
    let share = |ns: u64, of: Duration| ns as f64 / of.as_nanos().max(1) as f64;
    let waited_ns = cpu.run_queue_wait_ns.saturating_sub(cpu.left_out_wait_ns);
    let signs = [
        (Starvation::Throttled, share(cpu.throttled_ns, whole), THROTTLED_MAX),
        (Starvation::RunQueue, share(waited_ns, clean), RUN_QUEUE_WAIT_MAX),
        (Starvation::Overslept, share(overslept_ns, clean), OVERSLEPT_MAX),
        (Starvation::Busy, share(busy_ns, whole), BUSY_MAX),
    ];
    signs.into_iter().find_map(|(cause, share, bound)| {
        (share > bound).then_some(Reason::CpuStarved { cpu: cpu.cpu, cause, share, bound })
    })
}

/// Connections that were to be held and are not are a failure, whatever became of the requests:
/// fewer of them may have carried those.
fn not_held(figures: &TrialFigures) -> Option<Reason> {
    let (held, wanted) = (figures.connections.held, figures.to_hold?);
    (held < wanted).then_some(Reason::NotHeld { held, wanted })
}

/// Share of the offered requests that may be missing from the completions.
pub(super) fn missing_allowed(limits: &[Limit]) -> f64 {
    let errors_allowed = limits.iter().filter_map(|limit| match limit {
        Limit::Errors { share, .. } => Some(*share),
        Limit::ResponseTime { .. } | Limit::KbitPerConnection { .. } => None,
    });
    errors_allowed.fold(1.0, f64::min).max(INCOMPLETE_MAX)
}

fn missing_completions(figures: &TrialFigures, limits: &[Limit]) -> Option<Reason> {
    let allowed = missing_allowed(limits);
    let (completed, offered) = (figures.counts.completed, figures.counts.offered);
    let missing = offered.saturating_sub(completed);
    (missing as f64 > allowed * offered as f64).then_some(Reason::Incomplete { completed, offered, allowed })
}

fn few_samples(limit: &Limit, samples: u64) -> Option<Note> {
    let Limit::ResponseTime { statistic, .. } = limit else { return None };
    let wanted = statistic.samples_wanted()?;
    (samples < wanted).then_some(Note::FewSamples { statistic: *statistic, samples, wanted })
}
