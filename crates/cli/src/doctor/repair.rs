//! `thalweg doctor --fix` and `--undo`: questions and reports around the changes.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use thalweg_doctor::repair::{self, Outcome, Step};
use thalweg_doctor::{Change, Finding, Host, Level};
use thalweg_sys::host::is_root;

use crate::exit::{Exit, Failure, remark};
use crate::options::DoctorOptions;
use crate::output;

/// A setting that was written, in JSON.
#[derive(Serialize)]
pub(super) struct StepDocument {
    path: String,
    before: Option<String>,
    after: Option<String>,
    /// `done`, `unchanged`, `differs`, `changed since`, `elsewhere`, or the kernel's error.
    outcome: String,
    #[serde(skip)]
    failed: bool,
}

impl StepDocument {
    /// Whether the setting is not as it should be.
    pub(super) fn failed(&self) -> bool {
        self.failed
    }
}

impl From<&Step> for StepDocument {
    fn from(step: &Step) -> Self {
        let outcome = match &step.outcome {
            Outcome::Done => "done".to_owned(),
            Outcome::AsBefore => "unchanged".to_owned(),
            Outcome::Differs => "differs".to_owned(),
            Outcome::ChangedSince { .. } => "changed since".to_owned(),
            Outcome::Elsewhere => "elsewhere".to_owned(),
            Outcome::Failed(error) => error.to_string(),
        };
        let (path, before, after) = (step.path.clone(), step.before.clone(), step.after.clone());
        Self { path, before, after, outcome, failed: step.failed() }
    }
}

/// Applies the remedies of `findings` that can be applied now, after a question.
///
/// # Errors
/// The user is not root or does not agree, or the record of the changes cannot be kept.
pub(super) fn fix(host: &Host, findings: &[Finding], options: &DoctorOptions) -> Result<Vec<StepDocument>, Failure> {
    let level = if options.all { Level::Hint } else { Level::Warning };
    let mut changes = repair::proposed(findings, level);
    if options.persist {
        changes.extend(repair::persisted(host, &changes));
    }
    if changes.is_empty() {
        tell(options, "no warning has a remedy that can be applied from here\n")?;
        return Ok(Vec::new());
    }
    ensure_root(host, "--fix")?;
    if !options.yes {
        ask(host, &changes)?;
    }
    let state = state_folder();
    let mut told = Ok(());
    let steps = repair::fix(host, &state, &changes, |step| {
        if told.is_ok() {
            told = tell(options, &line_of(step, false));
        }
    })
    .map_err(Failure::unreachable)?;
    told?;
    tell(options, "until the next restart of this host; `thalweg doctor --undo` puts it back\n\n")?;
    Ok(steps.iter().map(StepDocument::from).collect())
}

/// Puts back what `--fix` has changed.
///
/// # Errors
/// The user is not root, or the record cannot be read.
pub(super) fn undo(host: &Host, options: &DoctorOptions) -> Result<ExitCode, Failure> {
    ensure_root(host, "--undo")?;
    let state = state_folder();
    let mut told = Ok(());
    let steps = repair::undo(host, &state, |step| {
        if told.is_ok() {
            told = tell(options, &line_of(step, true));
        }
    })
    .map_err(Failure::unreachable)?;
    told?;
    let Some(steps) = steps else {
        tell(options, &format!("there is nothing to put back: no record in {}\n", state.display()))?;
        return Ok(Exit::Met.into());
    };
    if steps.is_empty() {
        tell(options, "this host has been restarted since --fix, which has put everything back\n")?;
    }
    let exit = if steps.iter().any(Step::failed) {
        remark("not everything could be put back; the record remains for another `thalweg doctor --undo`");
        Exit::Unreachable
    } else if steps.iter().any(|step| matches!(step.outcome, Outcome::ChangedSince { .. })) {
        Exit::NotMet
    } else {
        Exit::Met
    };
    if options.json {
        let steps: Vec<_> = steps.iter().map(StepDocument::from).collect();
        output::print(&(serde_json::to_string_pretty(&steps).map_err(Failure::unreachable)? + "\n"))?;
    }
    Ok(exit.into())
}

/// Prints a line for people, where the output is for them.
fn tell(options: &DoctorOptions, text: &str) -> Result<(), Failure> {
    if options.json { Ok(()) } else { output::print(text) }
}

fn ensure_root(host: &Host, option: &str) -> Result<(), Failure> {
    if host.is_this() && !is_root() {
        return Err(Failure::unreachable(format!(
            "{option} writes settings of the kernel, which only root may do: run it with sudo, or type the commands \
             that `thalweg doctor` shows"
        )));
    }
    Ok(())
}

fn ask(host: &Host, changes: &[Change]) -> Result<(), Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::usage(
            "--fix asks before it changes anything, and there is no terminal to ask on; add --yes to agree beforehand",
        ));
    }
    let mut question = "these settings will be changed, until the next restart of this host:\n".to_owned();
    for change in changes {
        let before = host.text(&change.path).unwrap_or_else(|| "none".to_owned());
        question += &format!("  {}: {} -> {}\n", shown(&change.path), in_line(&before), in_line(&change.value));
    }
    let mut stderr = io::stderr().lock();
    let asked = stderr.write_all(format!("{question}change them? [y/N] ").as_bytes()).and_then(|()| stderr.flush());
    asked.map_err(Failure::unreachable)?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(Failure::unreachable)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(Failure::unreachable("nothing was changed"))
}

/// The fate of a setting in one line.
fn line_of(step: &Step, back: bool) -> String {
    let value = |value: &Option<String>| value.as_deref().map_or_else(|| "none".to_owned(), in_line);
    let (name, before, after) = (shown(&step.path), value(&step.before), value(&step.after));
    match &step.outcome {
        Outcome::Done => format!("{name}: {before} -> {after}\n"),
        Outcome::AsBefore if back => format!("{name}: {after}, as it was before --fix\n"),
        Outcome::AsBefore => format!("{name}: {after} already\n"),
        Outcome::Differs => format!("{name}: {before} -> {after}, which is not the value that was written\n"),
        Outcome::ChangedSince { written } => {
            let written = value(written);
            format!("{name}: {after}, left alone, because somebody has changed it since --fix wrote {written}\n")
        }
        Outcome::Elsewhere => format!("{name}: not put back, because it was changed in another network namespace\n"),
        Outcome::Failed(error) => format!("{name}: remains {after}: {error}{}\n", reason(error)),
    }
}

/// The meaning of an error, where the kernel's words do not say it.
fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => {
            "; the settings are read-only here, as in a container: change them on the host itself"
        }
        io::ErrorKind::PermissionDenied => {
            "; root of a container or user namespace may not: change it on the host itself"
        }
        io::ErrorKind::NotFound => "; this kernel, or this namespace, does not have the setting",
        _ => "",
    }
}

/// A sysctl by its name, another file by its path.
fn shown(path: &str) -> String {
    path.strip_prefix("/proc/sys/").map_or_else(|| path.to_owned(), |name| name.replace('/', "."))
}

/// A value in one line; a whole file is only counted.
fn in_line(value: &str) -> String {
    let value = value.trim();
    match value.lines().count() {
        0 | 1 => value.split_whitespace().collect::<Vec<_>>().join(" "),
        lines => format!("{lines} lines"),
    }
}

fn state_folder() -> PathBuf {
    let variable = |name: &str| std::env::var(name).ok();
    repair::state_folder(variable("XDG_STATE_HOME").as_deref(), variable("HOME").as_deref())
}
