//! The end of a command: the exit codes of the contract, and errors with advice.

use std::fmt;
use std::process::ExitCode;

use thalweg_lab::compare::CompareError;
use thalweg_lab::restarts::RestartsError;
use thalweg_lab::search::SearchError;
use thalweg_lab::target::TargetError;
use thalweg_load::LoadError;
use thalweg_measure::Verdict;

use crate::page;
use crate::style::{ERROR, REMARK};
use crate::terminal;

/// The exit codes; the README lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command worked, and every limit was met.
    Met = 0,
    /// The command worked, and a limit was not met.
    NotMet = 1,
    /// Wrong usage, configuration or input file.
    Usage = 2,
    /// The client, not the target, fell short, or the user ended the command before its planned
    /// end.
    Invalid = 3,
    /// The target could not be reached, or this host lacks something that the run needs.
    Unreachable = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

impl From<Verdict> for Exit {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Pass => Self::Met,
            Verdict::Fail => Self::NotMet,
            Verdict::Invalid => Self::Invalid,
        }
    }
}

/// A failure before there was a result.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    /// The same in one line, if the message has several.
    line: Option<String>,
}

impl Failure {
    /// An option, a configuration or an input file is wrong.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Usage, message: message.to_string(), line: None }
    }

    /// The target responds, and with nothing that a measurement could begin with.
    pub(crate) fn not_met(message: impl fmt::Display) -> Self {
        Self { exit: Exit::NotMet, message: message.to_string(), line: None }
    }

    /// The user ended the command before there was a result.
    pub(crate) fn invalid(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Invalid, message: message.to_string(), line: None }
    }

    /// The target, or a resource of this host, is not available.
    pub(crate) fn unreachable(message: impl fmt::Display) -> Self {
        Self { exit: Exit::Unreachable, message: message.to_string(), line: None }
    }

    /// The same failure with this message where only one line fits.
    pub(crate) fn in_one_line(self, line: String) -> Self {
        Self { line: Some(line), ..self }
    }

    /// The message for a log, in one line.
    pub(crate) fn line(&self) -> String {
        let joined = || self.message.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
        self.line.clone().unwrap_or_else(joined)
    }

    /// Prints the message and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        let text = format!("{ERROR}thalweg:{ERROR:#} {}", self.message);
        // A message of several lines is laid out already.
        let columns = terminal::size_of_stderr().filter(|_| !self.message.contains('\n'));
        terminal::print_above(&page::fitted(&text, columns.map(|[columns, _]| usize::from(columns))));
        self.exit.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Prints a remark on stderr that the form of the output has no place for.
pub(crate) fn remark(message: &str) {
    let columns = terminal::size_of_stderr().map(|[columns, _]| usize::from(columns));
    terminal::print_above(&page::fitted(&format!("{REMARK}thalweg:{REMARK:#} {message}"), columns));
}

impl From<TargetError> for Failure {
    fn from(error: TargetError) -> Self {
        if error.is_unreachable() { Self::unreachable(error) } else { Self::usage(error) }
    }
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        Self::unreachable(error)
    }
}

impl From<CompareError> for Failure {
    fn from(error: CompareError) -> Self {
        match error {
            CompareError::Search { source: SearchError::Plan(_), .. } => Self::usage(error),
            CompareError::NothingGood { responds: true, .. } => Self::not_met(error),
            CompareError::Interrupted { .. } => Self::invalid(error),
            _ => Self::unreachable(error),
        }
    }
}

impl From<RestartsError> for Failure {
    fn from(error: RestartsError) -> Self {
        match error {
            RestartsError::Search(error) => error.into(),
            RestartsError::Command(_) => Self::unreachable(error),
        }
    }
}

impl From<SearchError> for Failure {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Plan(_) => Self::usage(error),
            SearchError::Load(_) | SearchError::Sink(_) | SearchError::NothingGood { .. } => Self::unreachable(error),
            SearchError::Interrupted => Self::invalid(error),
        }
    }
}
