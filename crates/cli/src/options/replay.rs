//! Options of `thalweg replay`.

use std::path::PathBuf;

use clap::Args;

use super::headings::REPLAY;
use super::load::LoadOptions;
use super::output::OutputOptions;

const EXAMPLES: &str = "\
Examples:
  thalweg replay /var/log/nginx/access.log http://127.0.0.1:8080/
  thalweg replay access.log.2.gz http://127.0.0.1:8080/ --speed 10";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg replay /var/log/nginx/access.log http://127.0.0.1:8080/
  thalweg replay access.log.2.gz http://127.0.0.1:8080/ --speed 10
  ssh web1 cat /var/log/nginx/access.log | thalweg replay - http://127.0.0.1:8080/

Formats: common, combined, and the JSON of thalweg serve; plain or compressed with gzip or zstd (detected by content). Requests of
one second are spread evenly over it, in log order. GET, HEAD, OPTIONS and DELETE are replayed; other lines are skipped and counted.
Memory use does not depend on the log's length: it is read twice. Input from a pipe is first copied to a temporary file (TMPDIR).

Exit codes: 0 limits met, 1 limit missed, 2 wrong usage, 3 INVALID (the client fell short, or interrupted), 4 target
or host unusable.";

/// Options of `thalweg replay`. Requests, their order and their times come from the log.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES, next_help_heading = REPLAY)]
pub(crate) struct ReplayOptions {
    /// Access log, plain or compressed with gzip or zstd; - for stdin
    #[arg(help_heading = None::<&str>)]
    pub log: PathBuf,
    /// URL of the server; paths come from the log
    #[arg(help_heading = None::<&str>)]
    pub url: String,
    /// Speed-up factor: 2 replays twice as fast as logged
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, default_value = "1")]
    pub speed: f64,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1e-6..=1e6).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.000001 to 1000000; 2 replays twice as fast as logged".to_owned()),
    }
}
