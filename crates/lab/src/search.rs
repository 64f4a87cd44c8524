//! The capacity search: calibrate the client, get a hint, let the state machine of `measure` ask for trials, name the limit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_load::{Extent, LoadError, LoopPlan, Pick, Plan, RateProfile, RequestText, Spacing, prepare};
use thalweg_measure::search::{Answer, Ended, INTERVAL_BASIS, PlanError, Search, SearchPlan, Step, TrialSummary};
use thalweg_measure::{Outcome, Verdict};

use crate::document::{Find, LimitedBy, Trial};
use crate::limit::{Evidence, name_limit};
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
const DISTURBED_MAX: u32 = 5;

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
    /// The target gave no good response at all.
    #[error("the target answers, but not one response of the probe was good: {what}")]
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
    let good = probe.figures.trial.outcomes.count(Outcome::Good);
    if good == 0 {
        return Err(if watcher.wants_stop() { SearchError::Interrupted } else { nothing_good(&probe) });
    }
    let body_bytes = (probe.figures.trial.bytes.body_received / good).min(SINK_BODY_MAX);
    let mut calibration = calibrate(bench, settings, body_bytes as usize, watcher)?;
    unjudged(&mut calibration.trial, "the client's own ceiling against the built-in sink");
    let hint = probe.figures.trial.rates().good;
    // What the client reached against the target it can certainly reach.
    let ceiling = calibration.figures.trial.rates().good.max(hint);
    trials.push(calibration.trial);
    trials.push(probe.trial);

    let mut plan = SearchPlan::new(settings.lowest_rate.min(ceiling), ceiling);
    plan.hint = Some(hint);
    plan.width = settings.width;
    plan.initial_trial = settings.initial_trial;
    plan.final_trial = settings.final_trial;
    plan.duration_sum = settings.final_trial * 3;
    plan.budget = settings.budget;
    let mut search = Search::new(plan)?;
    let mut made: Vec<Made> = Vec::new();
    let mut disturbed = 0;
    let answer = loop {
        let (rate, duration, phase) = match search.step() {
            Step::Done(answer) => break answer,
            Step::Trial { rate, duration, phase } => (rate, duration, phase),
        };
        let begun = Instant::now();
        let one = bench.trial(phase.name(), open_loop(&settings.base, rate, duration), watcher)?;
        if watcher.wants_stop() {
            break search.interrupt();
        }
        if one.judgement.verdict == Verdict::Invalid && rate < ceiling * CALIBRATED_SHARE {
            trials.push(one.trial);
            search.spend(begun.elapsed());
            disturbed += 1;
            if disturbed > DISTURBED_MAX {
                break search.interrupt();
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
    };
    Ok(conclude(bench, &answer, ceiling, &made, trials, disturbed > DISTURBED_MAX))
}

/// A run at full speed says nothing about which rate the target carries: it is invalid as a trial, and says what it is for.
fn unjudged(trial: &mut Trial, purpose: &str) {
    trial.verdict = Verdict::Invalid;
    trial.reasons = vec![format!("not judged: {purpose}")];
}

fn nothing_good(probe: &Made) -> SearchError {
    let outcomes = probe.figures.trial.outcomes;
    let ends = outcomes.iter().filter(|(_, count)| *count > 0);
    let what: Vec<String> = ends.map(|(outcome, count)| format!("{count} {}", outcome.name())).collect();
    SearchError::NothingGood { what: what.join(", ") }
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

fn conclude(bench: &Bench, answer: &Answer, ceiling: f64, made: &[Made], trials: Vec<Trial>, disturbed: bool) -> Found {
    let evidence = Evidence { answer, ceiling, made, shared_host: bench.shared_host, disturbed };
    let (limit, evidence) = name_limit(&evidence);
    let mut notes = vec![format!("the interval is the {INTERVAL_BASIS}")];
    match answer.ended {
        Ended::WidthReached => {}
        Ended::ClientCeiling => notes.push("the client's own ceiling came before the target's limit".to_owned()),
        Ended::LowestRate => notes.push("already the lowest rate misses the limits".to_owned()),
        Ended::BudgetSpent => {
            notes.push("the time budget was spent before the bracket was as narrow as asked".to_owned())
        }
        Ended::Interrupted if disturbed => notes.push(format!(
            "the search was given up: {} trials in a row were invalid at a rate that the client reaches with ease, so \
             something else is using its CPUs: another program, or another guest of the same hypervisor",
            DISTURBED_MAX + 1
        )),
        Ended::Interrupted => notes.push("the search was interrupted; this is what was known by then".to_owned()),
        Ended::TrialsSpent => {
            notes.push("all allowed trials were made before the bracket was as narrow as asked".to_owned())
        }
    }
    let (verdict, reason) = match answer.lower_bound {
        _ if disturbed => (Verdict::Invalid, "this host was too busy with other things to measure".to_owned()),
        Some(rate) => (Verdict::Pass, format!("{rate:.0}/s meets all limits")),
        None if limit == LimitedBy::Client => (Verdict::Invalid, "the client fell short at every rate".to_owned()),
        None => (Verdict::Fail, "no rate met all limits".to_owned()),
    };
    Found {
        find: Find {
            lower_bound: answer.lower_bound,
            upper_bound: answer.upper_bound,
            interval95: answer.interval95,
            limit,
            evidence,
            client_ceiling: Some(ceiling),
            notes,
        },
        verdict,
        reasons: vec![reason],
        trials,
    }
}
