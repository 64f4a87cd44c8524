//! The options that say where a result goes and in which form.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use thalweg_measure::trial::OnInterrupt;

use super::headings::{LIMITS, OUTPUT};
use super::progress::ProgressOptions;
use super::store::StoreOptions;

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = OUTPUT)]
pub(crate) struct OutputOptions {
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text", hide_short_help = true)]
    pub format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write a report to this HTML file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the result as JUnit's XML: a test case for each limit, or for each rate of a sweep,
    /// metric of a comparison, figure of a suite
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub report_junit: Option<PathBuf>,
    /// Write the response times of each interval as an HdrHistogram log
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub hdr: Option<PathBuf>,
    /// Verdict after Ctrl-C or TERM, before the planned end
    #[arg(long, value_name = "HOW", default_value = "invalid", help_heading = LIMITS, hide_short_help = true)]
    pub on_interrupt: OnInterruptOption,
    /// The progress.
    #[command(flatten)]
    pub progress: ProgressOptions,
    /// The store.
    #[command(flatten)]
    pub store: StoreOptions,
}

impl OutputOptions {
    /// The form of the result.
    pub(crate) fn form(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }
}

/// Verdicts on a measurement that the user has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OnInterruptOption {
    /// INVALID, and exit code 3
    Invalid,
    /// That on what was measured until then
    Judge,
}

impl From<OnInterruptOption> for OnInterrupt {
    fn from(option: OnInterruptOption) -> Self {
        match option {
            OnInterruptOption::Invalid => Self::Invalid,
            OnInterruptOption::Judge => Self::Judge,
        }
    }
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Human-readable text
    Text,
    /// One JSON document
    Json,
    /// Table with column names and one line per trial; of a sweep, autobench's
    Tsv,
    /// The same with commas
    Csv,
    /// Output of httperf 0.9
    Httperf,
    /// Output of ApacheBench 2.3
    Ab,
    /// Last lines of h2load 1.52
    #[value(name = "h2load")]
    H2load,
    /// Annotations of GitHub Actions: a line for each condition that is not met
    Github,
    /// Metrics in Prometheus' text format
    Prometheus,
}
