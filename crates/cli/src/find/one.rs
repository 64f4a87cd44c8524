//! The search of one target.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_lab::restarts::{Restarts, RestartsError, find_across_restarts};
use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::search::{self, SearchSettings};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Extent, LoopPlan, Plan, RateProfile};
use thalweg_measure::Limit;
use thalweg_measure::search::EstimateEnd;
use thalweg_report::document::{Document, Kind};

use crate::arrivals::CONNECTIONS_DEFAULT;
use crate::arrivals::Shape;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::load_options;
use crate::observe::{observer, path_check};
use crate::options::{FindOptions, NamedUrl, OverloadOption, StoreOptions};
use crate::output;
use crate::preflight;
use crate::progress::{Progress, SearchGoal, Task};
use crate::requests;
use crate::second_client;
use crate::stored_run::StoredRun;

/// Default limit: a response time that people do not yet notice as a wait.
const LIMIT_DEFAULT: &str = "p99<50ms";

/// Trials that are shorter have too few requests to say anything.
const PROBE_MIN: Duration = Duration::from_millis(100);
/// The same of trials that the capacity is estimated from.
const DURATION_MIN: Duration = Duration::from_millis(500);
/// The lowest rate of a search.
const LOWEST_RATE: f64 = 10.0;

/// A target that was reached, and the load for it.
pub(super) struct Prepared {
    pub(super) name: Option<String>,
    pub(super) given: String,
    pub(super) target: Target,
    pub(super) base: Plan,
    pub(super) probe: Duration,
    pub(super) limits: Vec<Limit>,
}

/// Resolves a target and makes the plan of its load.
///
/// # Errors
/// The options are wrong, or the target is not available.
pub(super) fn prepare(options: &FindOptions, named: &NamedUrl) -> Result<Prepared, Failure> {
    let probe = options.probe.unwrap_or((options.duration / 20).max(PROBE_MIN).min(options.duration));
    if probe < PROBE_MIN || options.duration < DURATION_MIN {
        return Err(Failure::usage("trials need at least 500ms, short ones 100ms; use a longer --duration or --probe"));
    }
    let target = Target::routed(&named.url, &options.load.routing())?;
    let rate = Arc::new(RateProfile::constant(LOWEST_RATE));
    let shape = Shape {
        arrivals: LoopPlan::Open { rate, spacing: options.request.arrivals.into() },
        user: None,
        extent: Extent::Duration(options.duration),
        connections: CONNECTIONS_DEFAULT,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    };
    let requests = requests::of(&options.load, &options.request, &target)?;
    let base = load_options::plan(&options.load, &options.request, &target, shape, requests)?;
    let limits = limits_or_default(&options.load.limits);
    if let Some(limit) = limits.iter().find(|limit| limit.is_on_amount()) {
        return Err(Failure::usage(format!(
            "--limit '{limit}' is missed at every low rate, and the rate is what a search finds; use it with thalweg run"
        )));
    }
    // A command that restarts the server may be what starts it.
    if options.restart_cmd.is_none() {
        target.reach(base.timeout, &base.sources)?;
    }
    Ok(Prepared { name: named.name.clone(), given: named.given.clone(), target, base, probe, limits })
}

/// Searches the capacity of one target.
///
/// # Errors
/// No trial could be made, or none came to its end.
pub(super) fn search(
    options: &FindOptions,
    prepared: Prepared,
    interrupt: &Interrupt,
    store: &StoreOptions,
) -> Result<Document, Failure> {
    let Prepared { given, target, base, probe, limits, .. } = prepared;
    let invocation = Invocation {
        kind: Kind::Find,
        command: output::command_line(),
        target: target.shown.clone(),
        settings: settings(options, &target, &base, probe),
        started: jiff::Timestamp::now(),
    };
    let findings = preflight::examine_for_search(&base, &target);
    let observer = observer(&options.observer, &base.cpus)?;

    let path_check = options.path_check.then(|| path_check(&options.observer)).transpose()?.flatten();

    let client_command = second_client::command(&given, &options.targets);
    let test_bed = TestBed { client_command, path_check, ..TestBed::new(target, limits) };
    let test_bed = test_bed.observed_by(observer);
    let (end, budget) = options.end();
    let task = Task {
        command: "find",
        target: test_bed.target.shown.clone(),
        limits: test_bed.limits.clone(),
        has_trials: true,
        goal: Some(SearchGoal { end, budget }),
    };
    let mut progress = Progress::new(interrupt.clone(), &options.output.progress, task);
    let settings = SearchSettings {
        base,
        lowest_rate: LOWEST_RATE,
        initial_trial: probe,
        final_trial: options.duration,
        end,
        budget,
        recovery: options.recovery,
        overload: options.overload == OverloadOption::Yes,
        bottleneck: true,
    };
    let restarts = options.restarts.zip(options.restart_cmd.clone());
    let restarts = restarts.map(|(count, command)| Restarts { count, command, timeout: options.restart_timeout });
    let mut stored = StoredRun::begin(&invocation, &test_bed, &settings.base, store);
    let watcher = &mut stored.watching(&mut progress);
    let found = match &restarts {
        None => search::find(&test_bed, &settings, watcher).map_err(RestartsError::from),
        Some(restarts) => find_across_restarts(&test_bed, &settings, restarts, watcher),
    };
    progress.clear();
    let measurement = match found {
        Ok(found) => {
            Measurement { find: Some(found.find), ..Measurement::new(found.verdict, found.reasons, found.trials) }
        }
        Err(error) if error.is_interruption() => Measurement::interrupted("first trial", Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let document = result::document(&invocation, &test_bed, &settings.base, measurement).with_findings(findings);
    Ok(document.ended_by_user(options.output.on_interrupt.into()))
}

/// The limits of the options. Without one on the response time only errors could limit a rate.
fn limits_or_default(asked: &[Limit]) -> Vec<Limit> {
    if asked.is_empty() { vec![LIMIT_DEFAULT.parse().expect("a valid limit")] } else { asked.to_vec() }
}

fn settings(options: &FindOptions, target: &Target, plan: &Plan, probe: Duration) -> BTreeMap<String, String> {
    let mut settings = load_options::settings(&options.load, &options.request, target, plan);
    settings.insert("duration".to_owned(), format!("{:?}", options.duration));
    settings.insert("probe".to_owned(), format!("{probe:?}"));
    let (end, budget) = options.end();
    match end {
        EstimateEnd::Width(width) => settings.insert("width".to_owned(), width.to_string()),
        EstimateEnd::Time(time) => settings.insert("estimate".to_owned(), format!("{time:?}")),
    };
    settings.insert("budget".to_owned(), format!("{budget:?}"));
    settings.insert("recovery".to_owned(), format!("{:?}", options.recovery));
    for (name, value) in
        [("restarts", options.restarts.map(|count| count.to_string())), ("restart-cmd", options.restart_cmd.clone())]
    {
        settings.extend(value.map(|value| (name.to_owned(), value)));
    }
    settings
}
