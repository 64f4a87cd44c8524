//! Options of `thalweg sweep`.

use std::time::Duration;

use clap::Args;
use thalweg_units::{parse_rate, parse_seconds};

use super::headings::SWEEP;
use super::load::LoadOptions;
use super::output::OutputOptions;
use super::request::RequestOptions;
use super::values::{parse_length, positive_calls};

const EXAMPLES: &str = "\
Examples:
  thalweg sweep URL --low-rate 100 --high-rate 2000 --step 100";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg sweep http://127.0.0.1:8080/ --low-rate 100 --high-rate 2000 --step 100
  thalweg sweep http://a:8080/ http://b:8080/ --low-rate 1000 --high-rate 9000 --step 500 --out both.html
  thalweg sweep http://127.0.0.1:8080/ --low-rate 200 --high-rate 2000 --step 200 --calls 10 --format tsv > results.tsv

With --format tsv or csv the table has autobench's columns, for bench2graph or gnuplot. autobench's --low_rate 20 --num_call 10 is
--low-rate 200 --calls 10 here: rates are always requests per second.

Exit codes: 0 every rate met the limits, 1 one missed them, 2 wrong usage, 3 INVALID (no trial was valid, or interrupted), 4 target or
host unusable.";

/// Options of `thalweg sweep`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES, next_help_heading = SWEEP)]
pub(crate) struct SweepOptions {
    /// URL to request; several are measured by turns at each rate
    #[arg(required = true, value_name = "URL", help_heading = None::<&str>)]
    pub targets: Vec<String>,
    /// Lowest rate, in requests per second
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub low_rate: f64,
    /// Highest rate
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub high_rate: f64,
    /// Distance between rates
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub step: f64,
    /// Length of the trial at each rate
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = parse_length, default_value = "10s")]
    pub duration: Duration,
    /// Length of the unmeasured warm-up at the same load
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "1s", hide_short_help = true)]
    pub warmup: Duration,
    /// Stop with a target after so many trials in a row that miss the limits
    #[arg(long, value_name = "N", value_parser = positive_calls, hide_short_help = true)]
    pub stop_after_failures: Option<u32>,
    /// The requests.
    #[command(flatten)]
    pub request: RequestOptions,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}
