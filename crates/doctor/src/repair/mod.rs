//! Writing the settings that findings propose, and putting them back.
//!
//! Before the first setting is written, a record of all of them with their present values is on the
//! disk (`record`), so that an interruption at any point, even by SIGKILL, leaves nothing that
//! [`undo`] could not put back. A failure with one setting does not stop the others. Nothing
//! outlives a restart of the host, but for the file of [`persisted`].

mod record;

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::finding::{Change, Finding, Level};
use crate::host::Host;

pub use self::record::{Entry, RecordError};
use self::record::{Record, Store};

/// The file in which sysctls are kept across restarts.
pub const PERSISTED: &str = "/etc/sysctl.d/60-thalweg.conf";

const SYSCTLS: &str = "/proc/sys/";

/// The fate of one setting.
#[derive(Debug)]
pub struct Step {
    /// The file.
    pub path: String,
    /// Its value before; `None` if there was none.
    pub before: Option<String>,
    /// Its value now; `None` if there is none.
    pub after: Option<String>,
    /// The end of the attempt.
    pub outcome: Outcome,
}

/// How an attempt to write a setting ended.
#[derive(Debug)]
pub enum Outcome {
    /// It has the new value.
    Done,
    /// It had that value already.
    AsBefore,
    /// The kernel took the value and shows another one.
    Differs,
    /// The setting was changed by somebody else since `--fix`, and was left alone.
    ChangedSince {
        /// The value that `--fix` had written.
        written: Option<String>,
    },
    /// It belongs to another network namespace.
    Elsewhere,
    /// It could not be written.
    Failed(io::Error),
}

impl Step {
    /// Whether the setting is not as it should be after the attempt.
    pub fn failed(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(_) | Outcome::Differs | Outcome::Elsewhere)
    }
}

/// The settings that `findings` of at least this level propose, each once.
pub fn proposed(findings: &[Finding], level: Level) -> Vec<Change> {
    let mut changes: Vec<Change> = Vec::new();
    for change in findings.iter().filter(|finding| finding.level >= level).flat_map(|finding| &finding.changes) {
        match changes.iter_mut().find(|earlier| earlier.path == change.path) {
            // Two checks may want the same setting for two reasons; the higher value serves both.
            Some(earlier) => {
                if let (Ok(a), Ok(b)) = (earlier.value.parse::<u64>(), change.value.parse::<u64>()) {
                    earlier.value = a.max(b).to_string();
                }
            }
            None => changes.push(change.clone()),
        }
    }
    changes
}

/// The file that keeps the sysctls among `changes` across restarts; `None` if there are none.
pub fn persisted(host: &Host, changes: &[Change]) -> Option<Change> {
    let line = |change: &Change| {
        let name = change.path.strip_prefix(SYSCTLS)?.replace('/', ".");
        Some((name, change.value.clone()))
    };
    let mut settings: Vec<(String, String)> = host.text(PERSISTED).map_or_else(Vec::new, |text| {
        let pairs = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once('='));
        pairs.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect()
    });
    let new: Vec<(String, String)> = changes.iter().filter_map(line).collect();
    if new.is_empty() {
        return None;
    }
    for (name, value) in new {
        settings.retain(|(earlier, _)| *earlier != name);
        settings.push((name, value));
    }
    let lines: String = settings.iter().map(|(name, value)| format!("{name} = {value}\n")).collect();
    let value = format!("# Written by `thalweg doctor --fix --persist`; `thalweg doctor --undo` removes it.\n{lines}");
    Some(Change { path: PERSISTED.to_owned(), value })
}

/// Writes the settings. `told` learns of each as soon as it is written.
///
/// # Errors
/// The record cannot be kept; nothing has been changed then.
pub fn fix(
    host: &Host,
    state: &Path,
    changes: &[Change],
    mut told: impl FnMut(&Step),
) -> Result<Vec<Step>, RecordError> {
    let store = Store::open(state)?;
    let mut record = store.read()?.unwrap_or_else(|| Record::of(host));
    record.restart_if_stale(host);
    for change in changes {
        record.plan(change, read(host, &change.path));
    }
    store.write(&record)?;
    let mut steps = Vec::new();
    for change in changes {
        let step = apply(host, change);
        match &step.outcome {
            // The kernel may show a value in another form than it was written in.
            Outcome::Done | Outcome::Differs => record.written(&change.path, step.after.clone()),
            _ => record.not_written(&change.path, step.before.as_deref()),
        }
        store.write(&record)?;
        told(&step);
        steps.push(step);
    }
    if record.entries.is_empty() {
        store.remove()?;
    }
    Ok(steps)
}

fn apply(host: &Host, change: &Change) -> Step {
    let before = read(host, &change.path);
    let step = |after, outcome| Step { path: change.path.clone(), before: before.clone(), after, outcome };
    if equal(before.as_deref(), Some(&change.value)) {
        return step(before.clone(), Outcome::AsBefore);
    }
    if let Err(error) = write(host, &change.path, Some(&change.value)) {
        return step(before.clone(), Outcome::Failed(error));
    }
    let after = read(host, &change.path);
    let taken = equal(after.as_deref(), Some(&change.value));
    step(after, if taken { Outcome::Done } else { Outcome::Differs })
}

/// Puts back every setting of the record. `None` if there is no record.
///
/// # Errors
/// The record cannot be read or written.
pub fn undo(host: &Host, state: &Path, mut told: impl FnMut(&Step)) -> Result<Option<Vec<Step>>, RecordError> {
    let store = Store::open(state)?;
    let Some(mut record) = store.read()? else { return Ok(None) };
    let restarted = record.restart_if_stale(host);
    let mut steps = Vec::new();
    // The last change first, in case one of them changed another setting along with its own.
    for entry in record.entries.clone().into_iter().rev() {
        let step = put_back(host, &record, &entry);
        // A setting that could not be put back remains, for another attempt.
        if !step.failed() {
            record.forget(&entry.path);
            store.write(&record)?;
        }
        told(&step);
        steps.push(step);
    }
    if record.entries.is_empty() {
        store.remove()?;
    }
    Ok((!steps.is_empty() || restarted).then_some(steps))
}

fn put_back(host: &Host, record: &Record, entry: &Entry) -> Step {
    let now = read(host, &entry.path);
    let step = |after, outcome| Step { path: entry.path.clone(), before: now.clone(), after, outcome };
    if entry.path.starts_with("/proc/sys/net/") && record.is_of_another_namespace(host) {
        return step(now.clone(), Outcome::Elsewhere);
    }
    if equal(now.as_deref(), entry.before.as_deref()) {
        return step(now.clone(), Outcome::AsBefore);
    }
    if !equal(now.as_deref(), entry.after.as_deref()) {
        return step(now.clone(), Outcome::ChangedSince { written: entry.after.clone() });
    }
    if let Err(error) = write(host, &entry.path, entry.before.as_deref()) {
        return step(now.clone(), Outcome::Failed(error));
    }
    let after = read(host, &entry.path);
    let back = equal(after.as_deref(), entry.before.as_deref());
    step(after, if back { Outcome::Done } else { Outcome::Differs })
}

/// The value of a setting, exactly; `None` if there is no such file.
fn read(host: &Host, path: &str) -> Option<String> {
    let text = fs::read_to_string(host.path(path)).ok()?;
    // The kernel ends values with a line feed; files of its own are kept byte for byte.
    Some(if is_kernels(path) { text.trim_end().to_owned() } else { text })
}

/// Whether two values are the same to the kernel, which separates numbers by tabs.
fn equal(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.split_whitespace().eq(other.split_whitespace()),
        (one, other) => one.is_none() && other.is_none(),
    }
}

fn is_kernels(path: &str) -> bool {
    path.starts_with("/proc/") || path.starts_with("/sys/")
}

/// Writes a value, or removes the file. A file of the kernel is written in one call, as it wants;
/// any other is replaced as a whole.
fn write(host: &Host, path: &str, value: Option<&str>) -> io::Result<()> {
    let file = host.path(path);
    match value {
        None => fs::remove_file(file),
        // The kernel takes a value as a whole or not at all. So does a file that stands for one.
        Some(value) if is_kernels(path) && !host.is_this() && file.is_file() && !file.is_symlink() => {
            record::write_whole(&file, format!("{value}\n").as_bytes())
        }
        Some(value) if is_kernels(path) => {
            // Not created: the kernel has the setting or it has not.
            OpenOptions::new().write(true).truncate(true).open(file)?.write_all(format!("{value}\n").as_bytes())
        }
        Some(value) => {
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            record::write_whole(&file, value.as_bytes())
        }
    }
}

/// The folder of the record: beneath `XDG_STATE_HOME`, or its default beneath the home folder.
pub fn state_folder(xdg_state: Option<&str>, home: Option<&str>) -> PathBuf {
    match (xdg_state.filter(|path| path.starts_with('/')), home) {
        (Some(state), _) => PathBuf::from(state).join("thalweg"),
        (None, Some(home)) => PathBuf::from(home).join(".local/state/thalweg"),
        (None, None) => PathBuf::from("/var/lib/thalweg"),
    }
}

#[cfg(test)]
mod tests;
