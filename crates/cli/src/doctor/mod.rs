//! `thalweg doctor`: the state of this host that would spoil a planned load, and its remedies.

mod repair;

use std::fmt::Write;
use std::process::ExitCode;

use serde::Serialize;
use thalweg_doctor::{Finding, Host, Level, PlannedLoad, examine};
use thalweg_lab::target::Target;
use thalweg_measure::Verdict;
use thalweg_sys::PeerAddr;
use thalweg_units::display::count;

use crate::exit::{Exit, Failure};
use crate::load_options;
use crate::options::DoctorOptions;
use crate::output;
use crate::page;
use crate::style;
use crate::terminal;

/// The value of [`DoctorDocument::schema`].
const SCHEMA: &str = "thalweg.doctor/1";

/// The JSON form of an examination.
#[derive(Serialize)]
struct DoctorDocument<'f> {
    schema: &'static str,
    /// The planned load in words.
    load: &'f str,
    /// The gravest level found.
    worst: Level,
    findings: &'f [Finding],
    /// The settings that `--fix` has written; the findings are those afterwards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changes: Vec<repair::StepDocument>,
}

/// Runs the command.
///
/// # Errors
/// The target has no address, or settings cannot be changed.
pub(crate) fn doctor(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let host = options.root.as_ref().map_or_else(Host::this, Host::beneath);
    if options.undo {
        return repair::undo(&host, options);
    }
    let load = planned(options)?;
    let mut findings = examine(&host, &load);
    let mut steps = Vec::new();
    if options.fix {
        steps = repair::fix(&host, &findings, options)?;
        findings = examine(&host, &load);
    }
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let (shown, kept_back): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| options.all || finding.level > Level::Ok);
    let failed = steps.iter().any(repair::StepDocument::failed);
    output::print_text(&if options.json {
        let document = DoctorDocument { schema: SCHEMA, load: &load.name, worst, findings: &shown, changes: steps };
        serde_json::to_string_pretty(&document).map_err(Failure::unreachable)? + "\n"
    } else {
        page::fitted(&text_of(&load, &shown, kept_back.len()), terminal::columns_of_stdout())
    })?;
    Ok(match worst {
        _ if failed => Exit::Unreachable,
        Level::Ok | Level::Hint => Exit::Met,
        Level::Warning | Level::Error => Exit::NotMet,
    }
    .into())
}

/// The load with its target resolved, and its CPUs.
fn planned(options: &DoctorOptions) -> Result<PlannedLoad, Failure> {
    let mut load = options.load.clone();
    let target = load.url.as_deref().map(|url| Target::resolve(url, None)).transpose()?;
    if let Some(target) = &target {
        load.shared_host = target.is_local();
        load.target = if let PeerAddr::Tcp(address) = target.address { Some(address) } else { None };
        write!(load.name, " against {}", target.shown).expect("a string takes everything");
    }
    load.cpus = load_options::cpus(options.cores.as_ref(), load.shared_host)?;
    load.sources = options.from.concat().len().max(1);
    Ok(load)
}

/// The findings as lines: level, state, effect, remedies. Those that are as they should be have a
/// line each, at the end.
fn text_of(load: &PlannedLoad, shown: &[Finding], kept_back: usize) -> String {
    let mut text = format!("this host, to {}:\n", load.name);
    let mut line = |line: std::fmt::Arguments<'_>| text.write_fmt(line).expect("a string takes everything");
    let (fine, others): (Vec<_>, Vec<_>) = shown.iter().partition(|finding| finding.level == Level::Ok);
    for finding in &others {
        line(format_args!("\n{} {}: {}\n", styled_level(finding.level), finding.check, finding.is));
        if !finding.spoils.is_empty() {
            line(format_args!("         {}\n", finding.spoils));
        }
        for (place, remedy) in finding.mend.iter().enumerate() {
            line(format_args!("         {} {remedy}\n", if place == 0 { "mend:" } else { "     " }));
        }
    }
    if others.is_empty() {
        line(format_args!("nothing found that would spoil it\n"));
    }
    if !fine.is_empty() || kept_back > 0 {
        line(format_args!("\n"));
    }
    fine.iter()
        .for_each(|finding| line(format_args!("{} {}: {}\n", styled_level(finding.level), finding.check, finding.is)));
    match kept_back {
        0 => {}
        1 => line(format_args!("one more finding is as it should be (--all shows it)\n")),
        many => line(format_args!("{} more findings are as they should be (--all shows them)\n", count(many as u64))),
    }
    text
}

/// A level's name in its column, with a style.
fn styled_level(level: Level) -> String {
    let name = format!("{level:<8}");
    let style = match level {
        Level::Ok => style::of(Verdict::Pass),
        Level::Hint => return name,
        Level::Warning => style::of(Verdict::Invalid),
        Level::Error => style::of(Verdict::Fail),
    };
    style::styled(&name, style)
}
