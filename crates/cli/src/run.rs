//! `thalweg run`: one trial.

use std::process::ExitCode;
use std::sync::Arc;

use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::target::Target;
use thalweg_lab::trial::{TestBed, TrialRequest};
use thalweg_load::{Extent, UserPlan};
use thalweg_report::document::Kind;
use thalweg_units::display;

use crate::arrivals;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::length;
use crate::load_options;
use crate::observe::observer;
use crate::options::RunOptions;
use crate::output;
use crate::preflight;
use crate::progress::{Progress, Task};
use crate::requests;
use crate::standard_input;
use crate::stored_run::StoredRun;

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, or the target or a resource of this host is not
/// available.
pub(crate) fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let target = Target::routed(&options.url, &options.load.routing())?;
    let (sessions, requests) = match &options.session {
        None => (None, requests::of(&options.load, &options.request, &target)?),
        Some(file) => {
            let (sessions, requests) = requests::of_sessions(file, &options.load, &target)?;
            (Some(Arc::new(sessions)), requests)
        }
    };
    let shape = arrivals::shape(options, sessions)?;
    let mut plan = load_options::plan(&options.load, &options.request, &target, shape, requests)?;
    plan.warmup = options.warmup;
    let invocation = Invocation {
        kind: Kind::Run,
        command: output::command_line(),
        target: target.shown.clone(),
        settings: settings(options, &target, &plan),
        started: jiff::Timestamp::now(),
    };
    target.reach(plan.timeout, &plan.sources)?;
    let findings = preflight::examine(&plan, &target);
    let observer = observer(&options.observer, &plan.cpus)?;
    length::announce(&plan);

    let test_bed = TestBed::new(target, options.load.limits.clone()).observed_by(observer);
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let (target, limits) = (test_bed.target.shown.clone(), test_bed.limits.clone());
    let task = Task { command: "run", target, limits, ..Task::default() };
    let mut progress = Progress::new(interrupt, &options.output.progress, task);
    let mut stored = StoredRun::begin(&invocation, &test_bed, &plan, &options.output.store);
    let on_interrupt = options.output.on_interrupt.into();
    let request = TrialRequest { make_up: options.make_up, on_interrupt, ..TrialRequest::new("run", plan.clone()) };
    let made = test_bed.trial(&request, &mut stored.watching(&mut progress));
    progress.clear();
    let trial = made?.trial;
    let document = result::document(&invocation, &test_bed, &plan, Measurement::of(trial)).with_findings(findings);
    output::give_out(&document, &options.output)
}

fn settings(
    options: &RunOptions,
    target: &Target,
    plan: &thalweg_load::Plan,
) -> std::collections::BTreeMap<String, String> {
    let mut settings = load_options::settings(&options.load, &options.request, target, plan);
    match plan.extent {
        Extent::Duration(length) => settings.insert("duration".to_owned(), format!("{length:?}")),
        Extent::Requests(total) => {
            let name = if plan.user.is_some() { "conns" } else { "requests" };
            settings.insert(name.to_owned(), total.to_string())
        }
    };
    if let Some(file) = &options.session {
        settings.insert("session".to_owned(), standard_input::shown(file));
    }
    if let Some(UserPlan::Sessions { sessions, connections, .. }) = &plan.user {
        // The setting matters only if some burst is long enough to take another connection.
        let others = sessions.burst_calls_max().saturating_sub(1);
        if *connections > 1 || others > plan.pipeline as usize {
            settings.insert("session-connections".to_owned(), connections.to_string());
        }
    }
    for (name, time) in [("think", options.think), ("stagger", options.stagger)] {
        settings.extend(time.map(|time| (name.to_owned(), display::exact_time(time))));
    }
    if let Some(hold) = options.hold {
        settings.insert("hold".to_owned(), hold.to_string());
    }
    settings.insert("warmup".to_owned(), format!("{:?}", options.warmup));
    settings
}
