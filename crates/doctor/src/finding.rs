//! The result of a check: the state of the host, its effect on the planned load, the remedy.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::host::sysctl_path;

/// The weight of a finding for the planned load, from the lightest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is as the load needs it.
    Ok,
    /// It is worth knowing, and may change a figure a little.
    Hint,
    /// It changes what is measured or served.
    Warning,
    /// The load is impossible on this host.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Hint => "hint",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One finding about this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HostFinding")]
pub struct Finding {
    /// Name of the check, as docs/doctor.md lists it.
    pub check: String,
    /// Its weight for the planned load.
    pub level: Level,
    /// The state of the host, as a clause.
    pub is: String,
    /// The effect on the planned load, with its figure; empty if there is none.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub spoils: String,
    /// Commands and options that mend it, one each.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub mend: Vec<String>,
    /// Settings that `--fix` writes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changes: Vec<Change>,
}

/// A setting that can be written while the host runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Absolute path of the kernel's file.
    pub path: String,
    /// The value to write.
    pub value: String,
}

impl Finding {
    /// A state that the load can live with.
    pub fn ok(is: impl Into<String>) -> Self {
        Self::of(Level::Ok, is, "")
    }

    /// A state with an effect on the load.
    pub fn of(level: Level, is: impl Into<String>, spoils: impl Into<String>) -> Self {
        let (mend, changes) = (Vec::new(), Vec::new());
        Self { check: String::new(), level, is: is.into(), spoils: spoils.into(), mend, changes }
    }

    /// Adds a remedy that only a person can apply.
    #[must_use]
    pub fn mended_by(mut self, remedy: impl Into<String>) -> Self {
        self.mend.push(remedy.into());
        self
    }

    /// Adds a kernel setting as the remedy.
    #[must_use]
    pub fn set(mut self, name: &str, value: impl fmt::Display) -> Self {
        let value = value.to_string();
        self.mend.push(format!("sysctl -w {name}={}", quoted(&value)));
        self.changes.push(Change { path: sysctl_path(name), value });
        self
    }

    /// Adds a file of `/sys` as the remedy.
    #[must_use]
    pub fn write(mut self, path: impl Into<String>, value: impl fmt::Display) -> Self {
        let (path, value) = (path.into(), value.to_string());
        self.mend.push(format!("echo {value} > {path}"));
        self.changes.push(Change { path, value });
        self
    }

    /// Adds a file to write for a remedy that has been named already.
    #[must_use]
    pub fn change(mut self, path: impl Into<String>, value: impl fmt::Display) -> Self {
        self.changes.push(Change { path: path.into(), value: value.to_string() });
        self
    }

    /// The finding in one line, without its remedy: `STATE: EFFECT`.
    pub fn sentence(&self) -> String {
        if self.spoils.is_empty() { self.is.clone() } else { format!("{}: {}", self.is, self.spoils) }
    }
}

fn quoted(value: &str) -> String {
    if value.contains(' ') { format!("'{value}'") } else { value.to_owned() }
}
