//! The logs: their targets, formats and levels.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The logs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LogConfig {
    /// The target of a line for each request; `None`: there is no such log.
    pub access: Option<LogTarget>,
    /// The format of those lines.
    pub format: LogFormat,
    /// The target of messages to the operator.
    pub error: LogTarget,
    /// The least severe level of those messages.
    pub level: Level,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self { access: None, format: LogFormat::Combined, error: LogTarget::Stderr, level: Level::Warning }
    }
}

/// The target of a log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LogTarget {
    /// To the end of a file, which is made if it does not exist.
    File(PathBuf),
    /// To the standard output, also written `-`.
    Stdout,
    /// To the standard error.
    Stderr,
}

impl LogTarget {
    /// `-` and `stdout` are the standard output, `stderr` is the standard error, all else is a
    /// path.
    pub fn parse(text: impl AsRef<OsStr>) -> Self {
        match text.as_ref().as_bytes() {
            b"-" | b"stdout" => Self::Stdout,
            b"stderr" => Self::Stderr,
            _ => Self::File(text.as_ref().into()),
        }
    }
}

impl fmt::Display for LogTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Stdout => f.write_str("stdout"),
            Self::Stderr => f.write_str("stderr"),
        }
    }
}

/// How the lines of an access log look.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LogFormat {
    /// The Common Log Format.
    Common,
    /// The Combined Log Format: Common, and behind it referer and user agent.
    #[default]
    Combined,
    /// One JSON object a line.
    Json,
}

/// How much something matters to an operator. The order is that of severity, the most severe first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Something does not work, and will not until it is mended.
    Error,
    /// Something was lost or refused, and service goes on.
    Warning,
    /// The server's own life: starts, stops, configurations, upgrades.
    Notice,
}

impl Level {
    /// The name as configuration and log have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Notice => "notice",
        }
    }
}
