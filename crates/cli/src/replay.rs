//! `thalweg replay`: an access log at its own times.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::ExitCode;

use thalweg_lab::document::Kind;
use thalweg_lab::session::{self, Outcome, Question};
use thalweg_lab::target::Target;
use thalweg_lab::trial::Bench;
use thalweg_load::{Extent, LINE_BYTES_MAX, LoopPlan, RequestText, Trace, TraceReader, prepare};

use crate::arrivals::Shape;
use crate::exit::{Failure, remark};
use crate::interrupt::Interrupt;
use crate::length;
use crate::load_options::{self, CONNECTIONS_DEFAULT};
use crate::options::{ArrivalsOption, LoadOptions, METHOD_DEFAULT, ReplayOptions};
use crate::output;
use crate::progress::Line;
use crate::requests;

/// Runs the command.
///
/// # Errors
/// There is no result: the log or the options are wrong, or the target or something on this host is not to be had.
pub fn replay(options: &ReplayOptions) -> Result<ExitCode, Failure> {
    output::check(&options.output)?;
    let load = &options.load;
    ensure_meant(load)?;
    let target = Target::resolve(&options.url, load.unix_socket.as_ref())?;
    let trace = read(&options.log, options, &target)?;
    if trace.skipped.total() > 0 {
        let reasons = trace.skipped.reasons().into_iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(count, reason)| format!("{count} {reason}")).collect();
        remark(&format!("{} of the log's lines are left out: {}", trace.skipped.total(), reasons.join(", ")));
    }
    let (entries, asked) = (trace.entries.len() as u64, requests::of_trace(&trace, load, &target)?);
    let shape = Shape {
        arrivals: LoopPlan::Recorded { entries: trace.entries.into() },
        visit: None,
        extent: Extent::Requests(entries),
        connections: CONNECTIONS_DEFAULT,
        opening_rate: None,
        hold: None,
        pipeline: 1,
    };
    let plan = load_options::plan(load, &target, shape, asked)?;
    let mut settings = load_options::settings(load, &plan);
    settings.insert("log".to_owned(), format!("{} ({entries} requests)", options.log.display()));
    settings.insert("speed".to_owned(), options.speed.to_string());
    let question = Question {
        kind: Kind::Replay,
        command: std::env::args().collect(),
        target: options.url.clone(),
        settings,
        started: jiff::Timestamp::now(),
    };
    target.reach(plan.timeout)?;
    length::announce(&plan);

    let bench = Bench::new(target, load.limits.clone());
    let mut line = Line::new(Interrupt::listen().map_err(Failure::unreachable)?, false);
    let made = bench.trial("replay", plan.clone(), &mut line);
    line.clear();
    let trial = made?.trial;
    let outcome = Outcome { verdict: trial.verdict, reasons: trial.reasons.clone(), trials: vec![trial], find: None };
    output::give_out(&session::document(&question, &bench, &plan, outcome), &options.output)
}

/// Refuses options whose part is the log's.
fn ensure_meant(load: &LoadOptions) -> Result<(), Failure> {
    let given = [
        ("--urls", load.urls.is_some()),
        ("--method", load.method != METHOD_DEFAULT),
        ("--body", load.body.is_some()),
        ("--calls", load.calls.is_some()),
        ("--arrivals", load.arrivals == ArrivalsOption::Poisson),
    ];
    match given.into_iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            Err(Failure::usage(format!("{option} means nothing to replay: the log says what is asked for, and when")))
        }
    }
}

/// Reads the log line by line, so that one of any size takes the memory of its requests alone. `-` is stdin.
fn read(log: &Path, options: &ReplayOptions, target: &Target) -> Result<Trace, Failure> {
    let name = log.display().to_string();
    let unreadable = |error: io::Error| Failure::usage(format!("cannot read the log {name}: {error}"));
    let source: Box<dyn BufRead> = match log.to_str() {
        Some("-") => Box::new(io::stdin().lock()),
        _ => Box::new(BufReader::new(File::open(log).map_err(unreadable)?)),
    };
    let mut lines = Lines { source, line: Vec::new() };
    let mut reader = TraceReader::new(&name);
    while let Some(line) = lines.next().map_err(unreadable)? {
        reader.push(line).map_err(Failure::usage)?;
    }
    let make = |method: &str, path: &str| {
        prepare(&RequestText {
            method,
            authority: &target.authority,
            target: path,
            version: requests::version(&options.load),
            fields: &options.load.headers,
            body: b"",
        })
    };
    reader.finish(options.speed, make).map_err(Failure::usage)
}

/// The lines of a file, with bounded memory: of one that is too long so much is kept that the reader refuses it.
struct Lines {
    source: Box<dyn BufRead>,
    line: Vec<u8>,
}

impl Lines {
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut bounded = io::Read::take(&mut self.source, LINE_BYTES_MAX as u64 + 2);
        let read = bounded.read_until(b'\n', &mut self.line)?;
        Ok((read > 0).then_some(&self.line))
    }
}
