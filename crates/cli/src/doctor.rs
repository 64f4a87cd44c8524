//! `thalweg doctor`: the state of this host that would spoil a planned load, and its remedies.

use std::fmt::Write;
use std::process::ExitCode;

use serde::Serialize;
use thalweg_doctor::{Finding, Host, Level, PlannedLoad, examine};
use thalweg_lab::target::Target;
use thalweg_sys::PeerAddr;
use thalweg_units::display::count;

use crate::exit::{Exit, Failure};
use crate::load_options;
use crate::options::DoctorOptions;
use crate::output;

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
}

/// Runs the command.
///
/// # Errors
/// The target has no address, or a setting cannot be changed.
pub fn doctor(options: &DoctorOptions) -> Result<ExitCode, Failure> {
    let host = options.root.as_ref().map_or_else(Host::this, Host::beneath);
    let load = planned(options)?;
    let findings = examine(&host, &load);
    let worst = findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Ok);
    let (shown, kept_back): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| options.all || finding.level > Level::Ok);
    output::print(&if options.json {
        let document = DoctorDocument { schema: SCHEMA, load: &load.name, worst, findings: &shown };
        serde_json::to_string_pretty(&document).map_err(Failure::unreachable)? + "\n"
    } else {
        text_of(&load, &shown, kept_back.len())
    })?;
    Ok(if worst >= Level::Warning { Exit::NotMet } else { Exit::Met }.into())
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

/// The findings as lines: level, state, effect, remedies.
fn text_of(load: &PlannedLoad, shown: &[Finding], kept_back: usize) -> String {
    let mut text = format!("this host, to {}:\n", load.name);
    for finding in shown {
        let _ = writeln!(text, "\n{:<8} {}: {}", finding.level, finding.check, finding.is);
        if !finding.spoils.is_empty() {
            let _ = writeln!(text, "         {}", finding.spoils);
        }
        for (place, remedy) in finding.mend.iter().enumerate() {
            let _ = writeln!(text, "         {} {remedy}", if place == 0 { "mend:" } else { "     " });
        }
    }
    if shown.is_empty() {
        text.push_str("nothing would spoil it\n");
    }
    if kept_back > 0 {
        let _ = writeln!(text, "\n{} checks found it as it should be (--all shows them)", count(kept_back as u64));
    }
    text
}
