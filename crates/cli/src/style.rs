//! The styles of text on a terminal. Printing removes them where they do not belong.

use anstyle::{AnsiColor, Style};
use thalweg_measure::Verdict;

/// The program's name before an error.
pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
/// The program's name before a remark.
pub(crate) const REMARK: Style = AnsiColor::Yellow.on_default().bold();

/// The style of a verdict.
pub(crate) fn of(verdict: Verdict) -> Style {
    let colour = match verdict {
        Verdict::Pass => AnsiColor::Green,
        Verdict::Fail => AnsiColor::Red,
        Verdict::Invalid => AnsiColor::Yellow,
    };
    colour.on_default().bold()
}

/// A text in a style.
pub(crate) fn styled(text: &str, style: Style) -> String {
    format!("{style}{text}{style:#}")
}
