//! The options that say how a command shows its progress.

use clap::{Args, ValueEnum};

use super::headings::OUTPUT;

/// Options of the progress.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct ProgressOptions {
    /// Progress of the command
    #[arg(long, value_name = "FORM", default_value = "auto", hide_short_help = true)]
    pub progress: ProgressForm,
    /// Progress in one line, short for --progress plain
    #[arg(long, conflicts_with = "progress")]
    pub plain: bool,
}

/// Forms of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressForm {
    /// A live view, if stderr is a terminal
    Auto,
    /// One line, if stderr is a terminal
    Plain,
    /// With --json: a line of JSON on stdout for each interval, and the result as the last line
    Json,
    /// None
    None,
}

impl ProgressOptions {
    /// No progress.
    pub(crate) const NONE: Self = Self { progress: ProgressForm::None, plain: false };

    /// The form.
    pub(crate) fn form(&self) -> ProgressForm {
        if self.plain { ProgressForm::Plain } else { self.progress }
    }
}

impl Default for ProgressOptions {
    fn default() -> Self {
        Self { progress: ProgressForm::Auto, plain: false }
    }
}
