//! `thalweg find`: the capacity search.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use thalweg_lab::document::Kind;
use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::search::{self, SearchSettings};
use thalweg_lab::target::Target;
use thalweg_lab::trial::TestBed;
use thalweg_load::{Extent, LoopPlan, RateProfile};
use thalweg_measure::Limit;

use crate::arrivals::CONNECTIONS_DEFAULT;
use crate::arrivals::Shape;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::load_options;
use crate::observe::{observer, path_check};
use crate::options::{FindOptions, OverloadOption};
use crate::output;
use crate::preflight;
use crate::progress::Line;
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

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, or the target or a resource of this host is not
/// available.
pub fn find(options: &FindOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let probe = options.probe.unwrap_or((options.duration / 20).max(PROBE_MIN).min(options.duration));
    if probe < PROBE_MIN || options.duration < DURATION_MIN {
        return Err(Failure::usage("trials need at least 500ms, short ones 100ms; use a longer --duration or --probe"));
    }
    let target = Target::resolve(&options.url, options.load.unix_socket.as_ref())?;
    let rate = Arc::new(RateProfile::constant(LOWEST_RATE));
    let shape = Shape {
        arrivals: LoopPlan::Open { rate, spacing: options.load.arrivals.into() },
        user: None,
        extent: Extent::Duration(options.duration),
        connections: CONNECTIONS_DEFAULT,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    };
    let requests = requests::of(&options.load, &target)?;
    let base = load_options::plan(&options.load, &target, shape, requests)?;
    let limits = limits_or_default(&options.load.limits);
    let invocation = Invocation {
        kind: Kind::Find,
        command: output::command_line(),
        target: target.shown.clone(),
        settings: settings(options, &target, &base, probe),
        started: jiff::Timestamp::now(),
    };
    target.reach(base.timeout, &base.sources)?;
    if let Some(share) = &options.client_share {
        return second_client::offer(share, base, target, limits);
    }
    let findings = preflight::examine_for_search(&base, &target);
    let observer = observer(&options.observer, &base.cpus)?;

    let path_check = options.path_check.then(|| path_check(&options.observer)).transpose()?.flatten();

    let client_command = second_client::command();
    let test_bed = TestBed { client_command, path_check, ..TestBed::new(target, limits) };
    let test_bed = test_bed.observed_by(observer);
    let mut line = Line::new(Interrupt::listen().map_err(Failure::unreachable)?, true, &test_bed.limits);
    let settings = SearchSettings {
        base,
        lowest_rate: LOWEST_RATE,
        initial_trial: probe,
        final_trial: options.duration,
        width: options.width,
        budget: options.budget,
        recovery: options.recovery,
        overload: options.overload == OverloadOption::Yes,
    };
    let mut stored = StoredRun::begin(&invocation, &test_bed, &settings.base, &options.output.store);
    let found = search::find(&test_bed, &settings, &mut stored.watching(&mut line));
    line.clear();
    let found = found?;
    let measurement =
        Measurement { find: Some(found.find), ..Measurement::new(found.verdict, found.reasons, found.trials) };
    let document = result::document(&invocation, &test_bed, &settings.base, measurement).with_findings(findings);
    output::give_out(&document, &options.output)
}

/// The limits of the options. Without one on the response time only errors could limit a rate.
fn limits_or_default(asked: &[Limit]) -> Vec<Limit> {
    if asked.is_empty() { vec![LIMIT_DEFAULT.parse().expect("a valid limit")] } else { asked.to_vec() }
}

fn settings(
    options: &FindOptions,
    target: &Target,
    plan: &thalweg_load::Plan,
    probe: Duration,
) -> BTreeMap<String, String> {
    let mut settings = load_options::settings(&options.load, target, plan);
    settings.insert("duration".to_owned(), format!("{:?}", options.duration));
    settings.insert("probe".to_owned(), format!("{probe:?}"));
    settings.insert("width".to_owned(), options.width.to_string());
    settings.insert("budget".to_owned(), format!("{:?}", options.budget));
    settings.insert("recovery".to_owned(), format!("{:?}", options.recovery));
    settings
}
