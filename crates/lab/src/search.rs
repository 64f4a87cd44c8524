//! The capacity search: it gets a hint from a trial at full speed, calibrates the client, makes the
//! trials that the state machine of `measure` requests, and draws the conclusion.

use std::io;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{Extent, LoadError, LoopPlan, Pick, Plan, RateProfile, RequestText, Spacing, template};
use thalweg_measure::limit::Statistic;
use thalweg_measure::search::{
    BadRequests, EndReason, EstimateEnd, Phase, PlanError, Search, SearchPlan, SearchResult, Step, TailLimit,
    TrialSummary,
};
use thalweg_measure::{Interval, Limit, Outcome, Verdict};
use thalweg_report::document::Trial;
use thalweg_units::display;
use thalweg_wire::Version;

use crate::bottleneck::Evidence;
use crate::conclusion::{Conclusion, conclude, nothing_good, nothing_offered};
use crate::evidence::{self, Diagnosis};
use crate::redirects;
use crate::trial::{TestBed, TrialRequest, TrialResult, Watcher};

/// Length of the two trials at full speed: the calibration, and the one that gives the hint (phase
/// `probe` in documents).
const FULL_SPEED_TRIAL: Duration = Duration::from_millis(1_000);
/// Their warm-up.
const FULL_SPEED_WARMUP: Duration = Duration::from_millis(250);
/// How often the first estimate is made again if the client was stalled for all of it, so that it
/// offered no request.
const FULL_SPEED_REPEATS: u32 = 4;
/// Largest body of the sink's responses. Beyond this size the client's work per byte decides, not
/// its work per request.
const SINK_BODY_MAX: u64 = 16 << 20;

/// Below this share of its ceiling the client is known to keep up. A trial that is invalid all the
/// same was disturbed by something else; it is repeated and does not count against the rate.
const CALIBRATED_SHARE: f64 = 0.7;
/// Share of the budget that invalid trials in a row, below that share of the ceiling, may take
/// before the search gives up.
const DISTURBED_SHARE: f64 = 0.25;
/// The interval at which a pause is checked for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The goal and the bounds of a search.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// The load at every level but for its rate and length, which the search sets.
    pub base: Plan,
    /// Lowest rate tried, in requests per second.
    pub lowest_rate: f64,
    /// Length of the short trials.
    pub initial_trial: Duration,
    /// Longest of the trials that the estimate rests on.
    pub final_trial: Duration,
    /// When the estimate ends.
    pub end: EstimateEnd,
    /// Time that the trials may take in all.
    pub budget: Duration,
    /// The time in which a target that has collapsed under an overload can recover.
    pub recovery: Duration,
    /// Whether the search ends with an overload, to see its effect.
    pub overload: bool,
    /// Whether it ends with a trial that looks for the bottleneck.
    pub bottleneck: bool,
}

/// The reasons why a search cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A trial could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The built-in sink could not be started.
    #[error("cannot start the built-in sink for the calibration: {0}")]
    Sink(io::Error),
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The target gave no response at all.
    #[error(
        "the target accepts connections, but the first trial received no complete response: {what}; check the address"
    )]
    NothingGood {
        /// The outcomes of a trial's requests, in words.
        what: String,
    },
    /// The user ended the search before the first trial was over.
    #[error("interrupted before the end of the first trial")]
    Interrupted,
}

/// Searches the capacity of the test bed's target.
///
/// # Errors
/// See [`SearchError`]. A search that is interrupted after its first trial concludes from the
/// trials so far.
pub fn find(
    test_bed: &TestBed,
    settings: &SearchSettings,
    watcher: &mut dyn Watcher,
) -> Result<Conclusion, SearchError> {
    let mut trials = Vec::new();
    let mut hint_trial = first_estimate(test_bed, settings, watcher)?;
    if hint_trial.figures.trial.counts.offered == 0 && !watcher.wants_stop() {
        return Ok(nothing_offered(hint_trial.trial));
    }
    unjudged(&mut hint_trial.trial, "first estimate at full speed");
    let outcomes = &hint_trial.figures.trial.outcomes;
    let good = outcomes.count(Outcome::Good);
    if good == 0 {
        return match (watcher.wants_stop(), outcomes.completed()) {
            (true, _) => Err(SearchError::Interrupted),
            (false, 0) => Err(SearchError::NothingGood { what: ends_of(&hint_trial) }),
            (false, _) => {
                let ends = ends_of(&hint_trial);
                let redirects = hint_trial.trial.redirects.as_ref();
                let redirects = redirects.and_then(|some| redirects::sentence(some, &test_bed.target.url));
                Ok(nothing_good(hint_trial.trial, &ends, redirects))
            }
        };
    }
    let body_bytes = (hint_trial.figures.trial.bytes.body_received / good).min(SINK_BODY_MAX);
    let mut calibration = calibrate(test_bed, settings, body_bytes as usize, watcher)?;
    unjudged(&mut calibration.trial, "the client's ceiling against the built-in sink");
    let hint = hint_trial.figures.trial.rates().good;
    // The client can certainly reach the rate that it has reached against the target.
    let ceiling = calibration.figures.trial.rates().good.max(hint);
    trials.push(calibration.trial);
    trials.push(hint_trial.trial);

    let search = Search::new(plan_of(settings, &test_bed.limits, hint, ceiling))?;
    let result = carry_out(test_bed, settings, search, ceiling, &mut trials, watcher)?;
    let diagnosis = diagnose(test_bed, settings, &result, ceiling, &mut trials, watcher)?;
    let diagnosis = diagnosis.as_ref();
    let second_client = evidence::second_client(test_bed, &settings.base, &result, ceiling, diagnosis);
    let evidence = Evidence {
        result: &result,
        ceiling,
        trials: &trials,
        diagnosis,
        second_client: &second_client,
        shared_host: test_bed.shared_host,
    };
    Ok(conclude(&evidence))
}

/// A closed-loop trial at full speed that has offered something, unless the client is stalled in
/// every one.
fn first_estimate(
    test_bed: &TestBed,
    settings: &SearchSettings,
    watcher: &mut dyn Watcher,
) -> Result<TrialResult, SearchError> {
    let request = TrialRequest::new("probe", closed_loop(&settings.base));
    let mut estimate = test_bed.trial(&request, watcher)?;
    for _ in 0..FULL_SPEED_REPEATS {
        if estimate.figures.trial.counts.offered > 0 || watcher.wants_stop() {
            break;
        }
        estimate = test_bed.trial(&request, watcher)?;
    }
    Ok(estimate)
}

/// Overloads the target once more, with samples of path and server beside it, if an upper bound was
/// found and the target is still there.
fn diagnose(
    test_bed: &TestBed,
    settings: &SearchSettings,
    result: &SearchResult,
    ceiling: f64,
    trials: &mut Vec<Trial>,
    watcher: &mut dyn Watcher,
) -> Result<Option<Diagnosis>, SearchError> {
    let collapsed = result.collapse.is_some_and(|collapse| collapse.recovery_s.is_none());
    let Some(upper) = result.upper_bound.filter(|_| settings.bottleneck && !collapsed && !watcher.wants_stop()) else {
        return Ok(None);
    };
    let rate = (upper * evidence::OVERLOAD).min(ceiling * evidence::CEILING_SHARE).max(upper);
    let length = settings.final_trial.clamp(evidence::LENGTH_MIN, evidence::LENGTH);
    let plan = open_loop(&settings.base, rate, length);
    Ok(evidence::diagnose(test_bed, &plan, trials, watcher)?)
}

fn plan_of(settings: &SearchSettings, limits: &[Limit], hint: f64, ceiling: f64) -> SearchPlan {
    let mut plan = SearchPlan::new(settings.lowest_rate.min(ceiling), ceiling);
    plan.hint = Some(hint);
    plan.end = settings.end;
    plan.initial_trial = settings.initial_trial;
    plan.final_trial = settings.final_trial;
    plan.tail = tail_limit(limits);
    plan.budget = settings.budget;
    plan.overload = settings.overload;
    plan.recovery = settings.recovery;
    plan
}

/// The tightest limit on a percentile.
fn tail_limit(limits: &[Limit]) -> Option<TailLimit> {
    let percentiles = limits.iter().filter_map(|limit| match *limit {
        Limit::ResponseTime { statistic: Statistic::Percentile(percent), bound, .. } if percent < 100.0 => {
            Some(TailLimit { share: 1.0 - percent / 100.0, bound })
        }
        _ => None,
    });
    percentiles.min_by_key(|limit| limit.bound)
}

/// Makes the trials and pauses that the search requests, up to its result.
fn carry_out(
    test_bed: &TestBed,
    settings: &SearchSettings,
    mut search: Search,
    ceiling: f64,
    trials: &mut Vec<Trial>,
    watcher: &mut dyn Watcher,
) -> Result<SearchResult, SearchError> {
    let (mut disturbed, mut usual_errors) = (Duration::ZERO, 1.0_f64);
    loop {
        let (rate, duration, phase, ends_at) = match search.step() {
            Step::Done(result) => return Ok(result),
            Step::Trial { rate, duration, phase, ends_at } => (rate, duration, phase, ends_at),
            Step::Pause(length) => {
                pause(test_bed, &mut search, length, settings.recovery, watcher);
                if watcher.wants_stop() {
                    return Ok(search.end(EndReason::Interrupted));
                }
                continue;
            }
        };
        let begun = test_bed.environment.now();
        let mut plan = open_loop(&settings.base, rate, duration);
        if phase == Phase::Overload {
            // The backlog of a warm-up would be served in the place of what is measured.
            plan.warmup = Duration::ZERO;
        }
        let request = TrialRequest { ends_at, make_up: true, ..TrialRequest::new(phase.name(), plan) };
        let one = test_bed.trial(&request, watcher)?;
        if watcher.wants_stop() {
            return Ok(search.end(EndReason::Interrupted));
        }
        if one.judgement.verdict == Verdict::Invalid && rate < ceiling * CALIBRATED_SHARE {
            trials.push(one.trial);
            search.spend(test_bed.environment.now() - begun);
            disturbed += test_bed.environment.now() - begun;
            if disturbed > disturbed_max(settings) {
                return Ok(search.end(EndReason::Disturbed));
            }
            continue;
        }
        disturbed = Duration::ZERO;
        usual_errors = usual_errors.min(share_of_errors(&one));
        let cost = test_bed.environment.now() - begun;
        search.record(summary(&one, rate, duration, cost, &test_bed.limits, usual_errors));
        if let Some(estimate) = search.estimate() {
            watcher.on_estimate(estimate.interval95);
        }
        trials.push(one.trial);
    }
}

/// The time of disturbed trials in a row after which the search gives up.
fn disturbed_max(settings: &SearchSettings) -> Duration {
    let of_budget = settings.budget.mul_f64(DISTURBED_SHARE);
    if let EstimateEnd::Time(time) = settings.end { of_budget.min(time) } else { of_budget }
}

/// A trial as the search sees it.
fn summary(
    one: &TrialResult,
    rate: f64,
    asked: Duration,
    cost: Duration,
    limits: &[Limit],
    usual_errors: f64,
) -> TrialSummary {
    let rates = one.figures.trial.rates();
    // A certain FAIL is that of the whole trial.
    let duration = if one.certain_after.is_some() { asked } else { one.disturbance.clean };
    TrialSummary {
        rate,
        duration,
        cost,
        verdict: one.judgement.verdict,
        goodput: rates.good,
        completed: rates.completed,
        p99_us: one.trial.response_time_us.p99,
        bad: tail_limit(limits).map(|tail| bad_requests(one, tail, errors_allowed(limits), usual_errors)),
    }
}

/// The bad requests of a trial, by its intervals.
///
/// A request that failed counts by the share that the limit on errors allows, in units of the share
/// that may be slow: a limit on errors that is wider is not missed by the same number of requests.
/// Errors that come at every rate say nothing about one: `usual_errors` is their share.
fn bad_requests(one: &TrialResult, tail: TailLimit, errors_allowed: f64, usual_errors: f64) -> BadRequests {
    let figures = &one.figures.trial;
    let bound_ns = tail.bound.as_nanos() as u64;
    // Timeouts are slow, too.
    let (errors, timeouts) = (figures.outcomes.errors(), figures.outcomes.count(Outcome::Timeout));
    let usual = usual_errors * figures.outcomes.total() as f64;
    let counted = (errors.saturating_sub(timeouts) as f64 - usual).max(0.0) / errors.max(1) as f64;
    let weight = counted * (tail.share / errors_allowed.max(tail.share));
    // A response that would have been in time without the client's lag is not slow for the target.
    // A FAIL keeps what its verdict rests on.
    let slow = figures.response_time().count_above(bound_ns);
    let in_time = match one.judgement.verdict {
        Verdict::Pass => figures.without_lag.count_above(bound_ns) as f64 / slow.max(1) as f64,
        _ => 1.0,
    };
    let second = |interval: Interval| {
        let slow = interval.response_time.count_above(bound_ns) as f64 * in_time.min(1.0);
        let failed = interval.errors as f64 * weight;
        (interval.completed.max(interval.response_time.count()), (slow + failed).round() as u64)
    };
    let seconds: Vec<(u64, u64)> = figures.intervals.intervals().map(second).collect();
    BadRequests::of_seconds(&seconds, (errors as f64 * weight).round() as u64)
}

/// The share of a trial's requests that ended in an error.
fn share_of_errors(one: &TrialResult) -> f64 {
    let outcomes = &one.figures.trial.outcomes;
    outcomes.errors() as f64 / outcomes.total().max(1) as f64
}

/// The share of requests that may fail.
fn errors_allowed(limits: &[Limit]) -> f64 {
    let shares =
        limits.iter().filter_map(|limit| if let Limit::Errors { share, .. } = limit { Some(*share) } else { None });
    shares.reduce(f64::min).unwrap_or(0.0)
}

/// Waits for `length` without sending anything, so that the target can recover.
fn pause(test_bed: &TestBed, search: &mut Search, length: Duration, patience: Duration, watcher: &mut dyn Watcher) {
    let begun = test_bed.environment.now();
    let lasted = || test_bed.environment.now() - begun;
    let (failed_probes, elapsed) = search.recovery().unwrap_or_default();
    while lasted() < length && !watcher.wants_stop() {
        watcher.on_pause(failed_probes, elapsed + lasted(), patience);
        test_bed.environment.pause(POLL_INTERVAL.min(length.saturating_sub(lasted())));
    }
    search.record_pause(lasted());
}

/// Marks a trial at full speed as not judged: it does not show the rate that the target carries.
fn unjudged(trial: &mut Trial, purpose: &str) {
    trial.verdict = Verdict::Invalid;
    trial.reasons = vec![format!("not judged: {purpose}")];
}

/// The outcomes of a trial's requests, in words.
fn ends_of(trial: &TrialResult) -> String {
    let figures = &trial.figures.trial;
    let ends = figures.outcomes.iter().filter(|(_, count)| *count > 0);
    let ends: Vec<String> = ends.map(|(outcome, count)| format!("{} {outcome}", display::count(count))).collect();
    ends.join(", ")
}

/// The plan of a short closed-loop trial at full speed: a hint, never a verdict.
fn closed_loop(base: &Plan) -> Plan {
    Plan {
        arrivals: LoopPlan::of_workers(base.connections * base.pipeline as usize, Duration::ZERO),
        extent: Extent::Duration(FULL_SPEED_TRIAL),
        warmup: FULL_SPEED_WARMUP,
        ..base.clone()
    }
}

fn open_loop(base: &Plan, rate: f64, duration: Duration) -> Plan {
    let warmup = SearchPlan::warmup(duration);
    let spacing = if let LoopPlan::Open { spacing, .. } = base.arrivals { spacing } else { Spacing::Constant };
    Plan {
        arrivals: LoopPlan::Open { rate: Arc::new(RateProfile::constant(rate)), spacing },
        extent: Extent::Duration(duration),
        warmup,
        // Requests that wait when the schedule ends show an overload; sending them would only
        // prolong the trial.
        drain: Duration::from_millis(100),
        ..base.clone()
    }
}

/// Measures the client's ceiling: the same requests against the built-in sink.
fn calibrate(
    test_bed: &TestBed,
    settings: &SearchSettings,
    body_bytes: usize,
    watcher: &mut dyn Watcher,
) -> Result<TrialResult, SearchError> {
    let base = &settings.base;
    let text = RequestText {
        method: "GET",
        authority: &test_bed.target.authority,
        target: &test_bed.target.path,
        version: if base.version() == Version::Http2 { Version::Http2 } else { Version::Http11 },
        fields: &[],
        body: b"",
    };
    let request = template(&text).expect("a URL's parts make a valid request");
    let sink = test_bed.environment.sink(&closed_loop(base), body_bytes).map_err(SearchError::Sink)?;
    let mut plan = sink.plan.clone();
    plan.requests = [request].into();
    plan.pick = Pick::Sequential;
    plan.check = Default::default();
    let test_bed = TestBed { server: None, ..test_bed.clone() };
    Ok(test_bed.trial(&TrialRequest::new("calibrate", plan), watcher)?)
}
