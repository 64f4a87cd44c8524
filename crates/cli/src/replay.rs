//! `thalweg replay`: an access log at its own times.

use std::process::ExitCode;
use std::sync::Arc;

use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::target::Target;
use thalweg_lab::trial::{TestBed, TrialRequest};
use thalweg_load::{CheckTable, Extent, LoopPlan, Recording, ReplayHead, ReplayOrders};
use thalweg_report::document::{Document, Kind, LogDocument};
use thalweg_units::display;

use crate::arrivals::CONNECTIONS_DEFAULT;
use crate::arrivals::Shape;
use crate::exit::{Failure, remark};
use crate::interrupt::Interrupt;
use crate::length;
use crate::load_options;
use crate::log_file;
use crate::options::{ReplayOptions, RequestOptions};
use crate::output;
use crate::preflight;
use crate::progress::{Progress, Task};
use crate::requests;
use crate::standard_input;
use crate::stored_run::StoredRun;

/// Rejects a URL in the place of the log, and a log in that of the URL.
fn ensure_order(options: &ReplayOptions) -> Result<(), Failure> {
    let (log, url) = (options.log.to_string_lossy(), &options.url);
    if !log.contains("://") || url.contains("://") {
        return Ok(());
    }
    Err(Failure::usage(format!("the log comes before the URL: thalweg replay {url} {log}")))
}

/// Runs the command.
///
/// # Errors
/// There is no result: the log or the options are wrong, or the target or a resource of this host
/// is not available.
pub(crate) fn replay(options: &ReplayOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let load = &options.load;
    ensure_order(options)?;
    standard_input::ensure_one_reader(&[("the log", Some(&options.log)), ("--check", requests::check_file(load))])?;
    // The log determines the requests and their times.
    let request = RequestOptions::default();
    let target = Target::routed(&options.url, &load.routing())?;
    let (check, table) = requests::checks(load, &target)?;
    let recording = Arc::new(scan(options, &target, table)?);
    let log = *recording.summary();
    remark_on(&recording);
    let log_document = LogDocument::from(&*recording);
    let shape = Shape {
        arrivals: LoopPlan::Recorded { recording },
        user: None,
        extent: Extent::Requests(log.requests),
        connections: CONNECTIONS_DEFAULT,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    };
    // The requests come with the recording.
    let asked = (Vec::new().into(), check);
    let plan = load_options::plan(load, &request, &target, shape, asked)?;
    let mut settings = load_options::settings(load, &request, &target, &plan);
    settings.insert("log".to_owned(), format!("{} ({} requests)", standard_input::shown(&options.log), log.requests));
    settings.insert("speed".to_owned(), options.speed.to_string());
    settings.extend(options.gap_max.map(|gap| ("gap-max".to_owned(), display::exact_time(gap))));
    let invocation = Invocation {
        kind: Kind::Replay,
        command: output::command_line(),
        target: target.shown.clone(),
        settings,
        started: jiff::Timestamp::now(),
    };
    target.reach(plan.timeout, &plan.sources)?;
    let findings = preflight::examine(&plan, &target);
    length::announce(&plan);

    let test_bed = TestBed::new(target, load.limits.clone());
    let interrupt = Interrupt::listen().map_err(Failure::unreachable)?;
    let (target, limits) = (test_bed.target.shown.clone(), test_bed.limits.clone());
    let task = Task { command: "replay", target, limits, ..Task::default() };
    let mut progress = Progress::new(interrupt, &options.output.progress, task);
    let mut stored = StoredRun::begin(&invocation, &test_bed, &plan, &options.output.store);
    let on_interrupt = options.output.on_interrupt.into();
    let request = TrialRequest { on_interrupt, ..TrialRequest::new("replay", plan.clone()) };
    let made = test_bed.trial(&request, &mut stored.watching(&mut progress));
    progress.clear();
    let trial = made?.trial;
    let document = result::document(&invocation, &test_bed, &plan, Measurement::of(trial)).with_findings(findings);
    output::give_out(&Document { log: Some(log_document), ..document }, &options.output)
}

/// Reads the log once, so that its faults are known before anything is sent.
fn scan(options: &ReplayOptions, target: &Target, table: Option<CheckTable>) -> Result<Recording, Failure> {
    let name = options.log.display().to_string();
    let fields = requests::fields(&options.load, target, Some(0))?;
    let head = ReplayHead { authority: &target.authority, version: requests::version(&options.load), fields: &fields };
    let open = log_file::open(&options.log)?;
    let orders = ReplayOrders {
        speed: options.speed,
        format: options.log_format.0.clone(),
        gap_max: options.gap_max,
        strict: options.strict,
    };
    Recording::scan(&name, open, &orders, &head, table).map_err(|error| requests::unreadable("log", &name, error))
}

/// Prints on stderr which requests of the log are not replayed, or not at their time.
fn remark_on(recording: &Recording) {
    let log = recording.summary();
    recording.bad_lines().iter().for_each(|line| remark(line));
    if log.skipped.total() > 0 {
        let reasons = log.skipped.reasons().into_iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(count, reason)| format!("{count} {reason}")).collect();
        remark(&format!("{} lines of the log are skipped: {}", log.skipped.total(), reasons.join(", ")));
    }
    if log.displaced > 0 {
        remark(&format!(
            "{} requests of the log are too far out of order and are replayed later than logged; sort the log by \
             time to avoid this",
            log.displaced
        ));
    }
}
