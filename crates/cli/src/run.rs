//! `thalweg run`: one trial.

use std::process::ExitCode;

use thalweg_lab::document::Kind;
use thalweg_lab::session::{self, Outcome, Question};
use thalweg_lab::target::Target;
use thalweg_lab::trial::Bench;
use thalweg_load::{Extent, LoopPlan};

use crate::exit::Failure;
use crate::interrupt::Interrupt;
use crate::load_options::{self, CONNECTIONS_DEFAULT};
use crate::options::RunOptions;
use crate::output;
use crate::progress::Line;

/// The rate unless another one, or workers, are asked for: enough to see a server at work, not enough to hurt one.
const RATE_DEFAULT: f64 = 100.0;

/// Runs the command.
///
/// # Errors
/// There is no result: the options are wrong, or the target or something on this host is not to be had.
pub fn run(options: &RunOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let arrivals = match (options.rate, options.workers) {
        (_, Some(workers)) => LoopPlan::Closed { workers, think: options.think.unwrap_or_default() },
        (rate, None) => LoopPlan::Open { rate: rate.unwrap_or(RATE_DEFAULT) },
    };
    let extent = match options.requests {
        Some(requests) => Extent::Requests(requests),
        None if options.duration.is_zero() => return Err(Failure::usage("--duration 0s would measure nothing")),
        None => Extent::Duration(options.duration),
    };
    let target = Target::resolve(&options.url)?;
    let connections = match arrivals {
        LoopPlan::Closed { workers, .. } => workers,
        LoopPlan::Open { rate } => connections_for(rate),
    };
    let mut plan = load_options::plan(&options.load, &target, arrivals, extent, connections)?;
    plan.warmup = options.warmup;
    let question = Question {
        kind: Kind::Run,
        command: std::env::args().collect(),
        target: options.url.clone(),
        settings: settings(options, &plan),
        started: jiff::Timestamp::now(),
    };
    target.reach(plan.timeout)?;

    let bench = Bench::new(target, options.load.limits.clone());
    let mut line = Line::new(Interrupt::listen().map_err(Failure::unreachable)?, false);
    let made = bench.trial("run", plan.clone(), &mut line);
    line.clear();
    let trial = made?.trial;
    let outcome = Outcome { verdict: trial.verdict, reasons: trial.reasons.clone(), trials: vec![trial], find: None };
    output::give_out(&session::document(&question, &bench, &plan, outcome), &options.output)
}

/// Connections for an open loop: enough for a response time of 50 ms.
fn connections_for(rate: f64) -> usize {
    const CONNECTIONS_MIN: usize = 16;
    ((rate * 0.05) as usize).clamp(CONNECTIONS_MIN, CONNECTIONS_DEFAULT)
}

fn settings(options: &RunOptions, plan: &thalweg_load::Plan) -> std::collections::BTreeMap<String, String> {
    let mut settings = load_options::settings(&options.load, plan);
    match plan.extent {
        Extent::Duration(length) => settings.insert("duration".to_owned(), format!("{length:?}")),
        Extent::Requests(requests) => settings.insert("requests".to_owned(), requests.to_string()),
    };
    settings.insert("warmup".to_owned(), format!("{:?}", options.warmup));
    settings
}
