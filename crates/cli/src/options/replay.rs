//! Options of `thalweg replay`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_units::parse_seconds;

use super::headings::REPLAY;
use super::load::LoadOptions;
use super::log_format::LogFormatOption;
use super::output::OutputOptions;

const EXAMPLES: &str = "\
Examples:
  thalweg replay /var/log/nginx/access.log http://127.0.0.1:8080/
  thalweg replay access.log.2.gz http://127.0.0.1:8080/ --speed 10";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg replay /var/log/nginx/access.log http://127.0.0.1:8080/
  thalweg replay access.log.2.gz http://127.0.0.1:8080/ --speed 10
  thalweg replay access.log http://127.0.0.1:8080/ --log-format '$msec $request_method $request_uri' --gap-max 10s
  ssh web1 cat /var/log/nginx/access.log | thalweg replay - http://127.0.0.1:8080/

Formats: --log-format; plain or compressed with gzip or zstd (detected by content). Requests of one second are spread evenly over it, in
log order, unless the log has fractions of seconds. GET, HEAD, OPTIONS and DELETE are replayed; other lines are skipped and counted.
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
    /// Format of the log: auto (by its first lines), a name, or a string of a server
    ///
    /// common, combined, vhost_combined, thalweg, caddy, traefik, gcp, alb, cloudfront, haproxy,
    /// iis, w3c; the string of nginx's log_format or Apache's LogFormat;
    /// json:time=NAME,method=NAME,target=NAME for JSON with such members.
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = LogFormatOption::parse, hide_short_help = true)]
    pub log_format: LogFormatOption,
    /// Shorten longer pauses of the log to this, in its own time (before --speed)
    #[arg(long, value_name = "TIME", value_parser = parse_gap, hide_short_help = true)]
    pub gap_max: Option<Duration>,
    /// End at the first line that has another format
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

fn parse_gap(text: &str) -> Result<Duration, String> {
    match parse_seconds(text).map_err(|error| error.to_string())? {
        Duration::ZERO => {
            Err("a pause of 0s would send all requests at once; --speed makes a replay faster".to_owned())
        }
        gap => Ok(gap),
    }
}

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1e-6..=1e6).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.000001 to 1000000; 2 replays twice as fast as logged".to_owned()),
    }
}
