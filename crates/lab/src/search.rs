//! The capacity search: calibrate the client, get a hint, let the state machine of `measure` ask for trials, name the limit.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use thalweg_load::{Extent, LoadError, LoopPlan, Pick, Plan, RateProfile, RequestText, Spacing, prepare};
use thalweg_measure::search::{Answer, Ended, PlanError, Search, SearchPlan, Step, TrialSummary};
use thalweg_measure::{Outcome, Verdict};
use thalweg_units::display;

use crate::conclusion::{conclude, nothing_good};
use crate::document::{Find, Trial};
use crate::limit::Evidence;
use crate::sink::Sink;
use crate::trial::{Bench, Made, Watcher};

/// Length of the calibration and of the probe.
const PROBE: Duration = Duration::from_millis(1_000);
/// Both begin with this much that is not counted.
const PROBE_WARMUP: Duration = Duration::from_millis(250);
/// Bodies in the sink's responses are bounded; beyond this size a client's work per byte is what counts, not its work per request.
const SINK_BODY_MAX: u64 = 16 << 20;

/// Below this share of its ceiling the client is known to keep up: a trial that is invalid all the same was disturbed by
/// something else, and is made again without being held against the rate.
const CALIBRATED_SHARE: f64 = 0.7;
/// How often in a row, until the host is given up as too busy.
pub(crate) const DISTURBED_MAX: u32 = 5;
/// How often it is looked whether a pause is to be ended.
const GLANCE: Duration = Duration::from_millis(50);

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchSettings {
    /// The load at every level but for its rate and length, which the search sets.
    pub base: Plan,
    /// Lowest rate tried, in requests per second.
    pub lowest_rate: f64,
    /// Length of the short trials.
    pub initial_trial: Duration,
    /// Length of the confirming ones.
    pub final_trial: Duration,
    /// Relative width of the final bracket.
    pub width: f64,
    /// Time that the trials may take in all.
    pub budget: Duration,
    /// How long a target that has collapsed under an overload is given to recover.
    pub recovery: Duration,
}

/// What a search came to.
#[derive(Debug)]
pub struct Found {
    /// The answer, as it goes into the document.
    pub find: Find,
    /// The verdict on the whole: PASS when a rate was found.
    pub verdict: Verdict,
    /// Why.
    pub reasons: Vec<String>,
    /// Every trial in order.
    pub trials: Vec<Trial>,
}

/// Why a search could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// A trial could not be made.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The built-in sink could not be started.
    #[error("cannot start the built-in sink for the calibration: {0}")]
    Sink(std::io::Error),
    /// The plan makes no sense.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The target gave no response at all.
    #[error(
        "the target can be connected to, but the probe got not one whole response: {what}; is it the right address?"
    )]
    NothingGood {
        /// How the probe's requests ended.
        what: String,
    },
    /// Ended by the user before there was anything to say.
    #[error("interrupted before the first trial had ended")]
    Interrupted,
}

/// Searches the capacity of the bench's target.
///
/// # Errors
/// See [`SearchError`]. A search that was interrupted later gives what was found so far.
pub fn find(bench: &Bench, settings: &SearchSettings, watcher: &mut dyn Watcher) -> Result<Found, SearchError> {
    let mut trials = Vec::new();
    let mut probe = bench.trial("probe", closed_loop(&settings.base), watcher)?;
    unjudged(&mut probe.trial, "a hint at full speed");
    let outcomes = &probe.figures.trial.outcomes;
    let good = outcomes.count(Outcome::Good);
    if good == 0 {
        return match (watcher.wants_stop(), outcomes.completed()) {
            (true, _) => Err(SearchError::Interrupted),
            (false, 0) => Err(SearchError::NothingGood { what: ends_of(&probe) }),
            (false, _) => {
                let ends = ends_of(&probe);
                Ok(nothing_good(probe.trial, &ends))
            }
        };
    }
    let body_bytes = (probe.figures.trial.bytes.body_received / good).min(SINK_BODY_MAX);
    let mut calibration = calibrate(bench, settings, body_bytes as usize, watcher)?;
    unjudged(&mut calibration.trial, "the client's own ceiling against the built-in sink");
    let hint = probe.figures.trial.rates().good;
    // What the client reached against the target it can certainly reach.
    let ceiling = calibration.figures.trial.rates().good.max(hint);
    trials.push(calibration.trial);
    trials.push(probe.trial);

    let search = Search::new(plan_of(settings, hint, ceiling))?;
    let mut made = Vec::new();
    let answer = carry_out(bench, settings, search, ceiling, &mut made, &mut trials, watcher)?;
    let evidence = Evidence { answer: &answer, ceiling, made: &made, shared_host: bench.shared_host };
    Ok(conclude(&evidence, trials))
}

fn plan_of(settings: &SearchSettings, hint: f64, ceiling: f64) -> SearchPlan {
    let mut plan = SearchPlan::new(settings.lowest_rate.min(ceiling), ceiling);
    plan.hint = Some(hint);
    plan.width = settings.width;
    plan.initial_trial = settings.initial_trial;
    plan.final_trial = settings.final_trial;
    plan.duration_sum = settings.final_trial * 3;
    plan.budget = settings.budget;
    plan.recovery = settings.recovery;
    plan
}

/// Makes the trials and pauses that the search asks for, up to its answer.
fn carry_out(
    bench: &Bench,
    settings: &SearchSettings,
    mut search: Search,
    ceiling: f64,
    made: &mut Vec<Made>,
    trials: &mut Vec<Trial>,
    watcher: &mut dyn Watcher,
) -> Result<Answer, SearchError> {
    let mut disturbed = 0;
    loop {
        let (rate, duration, phase) = match search.step() {
            Step::Done(answer) => return Ok(answer),
            Step::Trial { rate, duration, phase } => (rate, duration, phase),
            Step::Pause(length) => {
                pause(&mut search, length, settings.recovery, watcher);
                if watcher.wants_stop() {
                    return Ok(search.end(Ended::Interrupted));
                }
                continue;
            }
        };
        let begun = Instant::now();
        let one = bench.trial(phase.name(), open_loop(&settings.base, rate, duration), watcher)?;
        if watcher.wants_stop() {
            return Ok(search.end(Ended::Interrupted));
        }
        if one.judgement.verdict == Verdict::Invalid && rate < ceiling * CALIBRATED_SHARE {
            trials.push(one.trial);
            search.spend(begun.elapsed());
            disturbed += 1;
            if disturbed > DISTURBED_MAX {
                return Ok(search.end(Ended::Disturbed));
            }
            continue;
        }
        disturbed = 0;
        search.record(TrialSummary {
            rate,
            duration,
            cost: begun.elapsed(),
            verdict: one.judgement.verdict,
            goodput: one.figures.trial.rates().good,
        });
        trials.push(one.trial.clone());
        made.push(one);
    }
}

/// Gives the target time to recover, in which nothing is asked of it.
fn pause(search: &mut Search, length: Duration, patience: Duration, watcher: &mut dyn Watcher) {
    let begun = Instant::now();
    let (looks, given) = search.recovery().unwrap_or_default();
    while begun.elapsed() < length && !watcher.wants_stop() {
        watcher.on_pause(looks, given + begun.elapsed(), patience);
        thread::sleep(GLANCE.min(length.saturating_sub(begun.elapsed())));
    }
    search.record_pause(begun.elapsed());
}

/// A run at full speed says nothing about which rate the target carries: it is invalid as a trial, and says what it is for.
fn unjudged(trial: &mut Trial, purpose: &str) {
    trial.verdict = Verdict::Invalid;
    trial.reasons = vec![format!("not judged: {purpose}")];
}

/// How the probe's requests ended.
fn ends_of(probe: &Made) -> String {
    let figures = &probe.figures.trial;
    let ends = figures.outcomes.iter().filter(|(_, count)| *count > 0);
    let ends: Vec<String> = ends.map(|(outcome, count)| format!("{} {outcome}", display::count(count))).collect();
    ends.join(", ")
}

/// A short closed-loop run at full speed: a hint, never a verdict.
fn closed_loop(base: &Plan) -> Plan {
    Plan {
        arrivals: LoopPlan::of_workers(base.connections * base.pipeline as usize, Duration::ZERO),
        extent: Extent::Duration(PROBE),
        warmup: PROBE_WARMUP,
        ..base.clone()
    }
}

fn open_loop(base: &Plan, rate: f64, duration: Duration) -> Plan {
    // Long enough to have every connection in use and every cache warm, short enough not to double the search.
    let warmup = duration.mul_f64(0.2).min(Duration::from_secs(1));
    let spacing = if let LoopPlan::Open { spacing, .. } = base.arrivals { spacing } else { Spacing::Constant };
    Plan {
        arrivals: LoopPlan::Open { rate: Arc::new(RateProfile::constant(rate)), spacing },
        extent: Extent::Duration(duration),
        warmup,
        // What waits when the schedule ends shows an overload; sending it would only prolong the trial.
        drain: Duration::from_millis(100),
        ..base.clone()
    }
}

/// The client's ceiling: the same requests against a server that does nothing but answer.
fn calibrate(
    bench: &Bench,
    settings: &SearchSettings,
    body_bytes: usize,
    watcher: &mut dyn Watcher,
) -> Result<Made, SearchError> {
    let spare = thalweg_sys::affinity::allowed_cpus().unwrap_or_default();
    let spare = spare.into_iter().find(|cpu| !settings.base.cpus.contains(cpu));
    let sink =
        Sink::start(body_bytes, spare, settings.base.driver, settings.base.connections).map_err(SearchError::Sink)?;
    let text = RequestText {
        method: "GET",
        authority: &bench.target.authority,
        target: &bench.target.path,
        version: thalweg_wire::Version::Http11,
        fields: &[],
        body: b"",
    };
    let request = prepare(&text).expect("a URL's parts make a valid request");
    let mut plan = closed_loop(&settings.base);
    plan.peer = sink.address().into();
    plan.sources = Vec::new();
    plan.requests = [request].into();
    plan.pick = Pick::Sequential;
    plan.check = Default::default();
    let bench = Bench { server: None, ..bench.clone() };
    Ok(bench.trial("calibrate", plan, watcher)?)
}
