//! Options of `thalweg runs`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_units::parse_time;

use super::store::StorePlace;
use super::values::positive;

const EXAMPLES: &str = "\
Examples:
  thalweg runs
  thalweg runs --kind find --limit 5

--help has more examples, and how runs are named.";

/// Options of `thalweg runs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg runs
  thalweg runs --kind find --limit 5
  thalweg runs --label nginx-1.28 --json
  thalweg runs --delete 20260314T150926
  thalweg runs --prune 90d

A run is named by its id, by a prefix of it, or by last, last~1 and so on. A run that ended before its time (Ctrl-C, or its process was
killed) is listed as interrupted; what it had measured is kept.")]
pub(crate) struct RunsOptions {
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
    /// Only runs of this command
    #[arg(long, value_name = "KIND")]
    pub kind: Option<RunKind>,
    /// Only runs with this label
    #[arg(long, value_name = "NAME")]
    pub label: Option<String>,
    /// Number of runs to list, the latest first
    #[arg(long, value_name = "N", value_parser = positive)]
    pub limit: Option<usize>,
    /// Delete this run; repeatable
    #[arg(long, value_name = "RUN", conflicts_with_all = ["json", "kind", "label", "limit", "prune"])]
    pub delete: Vec<String>,
    /// Delete the runs that began longer ago than this, such as 90d
    #[arg(long, value_name = "AGE", value_parser = parse_age, conflicts_with_all = ["json", "kind", "label", "limit"])]
    pub prune: Option<Duration>,
    /// The store.
    #[command(flatten)]
    pub place: StorePlace,
}

/// The commands that leave a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RunKind {
    /// One trial
    Run,
    /// A capacity search
    Find,
    /// Rates from low to high
    Sweep,
    /// Two sides compared
    Compare,
    /// An access log
    Replay,
    /// A suite
    Suite,
}

/// An age in days, or in the units of other times.
fn parse_age(text: &str) -> Result<Duration, String> {
    const DAY_S: u64 = 86_400;
    match text.strip_suffix('d') {
        Some(days) => {
            let days: u64 = days.parse().map_err(|_| "expected an age with a unit, such as 90d or 12h".to_owned())?;
            days.checked_mul(DAY_S).map(Duration::from_secs).ok_or_else(|| "too many days".to_owned())
        }
        None => parse_time(text).map_err(|_| "expected an age with a unit, such as 90d or 12h".to_owned()),
    }
}
