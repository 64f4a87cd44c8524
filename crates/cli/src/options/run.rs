//! Options of `thalweg run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_load::RateText;
use thalweg_units::parse_seconds;

use super::headings::{LOAD, REQUESTS};
use super::load::LoadOptions;
use super::observe::ObserverOptions;
use super::output::OutputOptions;
use super::request::RequestOptions;
use super::values::{parse_length, positive, positive_count};

const EXAMPLES: &str = "\
Examples:
  thalweg run http://127.0.0.1:8080/ -r 5000 -d 10
  thalweg run http://127.0.0.1:8080/ -c 64 -d 10
  thalweg run http://127.0.0.1:8080/ -c 10 -n 1000 --json";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg run http://127.0.0.1:8080/ -r 5000 -d 10   5,000 requests per second
  thalweg run http://127.0.0.1:8080/ -c 64 -d 10     64 workers, as in wrk
  thalweg run http://127.0.0.1:8080/ --rate 1000..5000 --arrivals poisson --duration 1m
  thalweg run --curl 'curl -H \"A: b\" http://127.0.0.1:8080/' -n 100
  thalweg run http://127.0.0.1:8080/ --conn-rate 200 --calls 10 --conns 5000 --format httperf
  thalweg run http://127.0.0.1:8080/ --session shop.log --conn-rate 5 --conns 100
  thalweg run http://127.0.0.1:8080/big.iso --hold 25000 --conn-rate 2000 --throttle 33.6kbit --duration 1m

A number without a unit is a rate per second, or a time in seconds.

Exit codes: 0 limits met, 1 limit missed, 2 wrong usage, 3 INVALID (the client fell short, or interrupted), 4 target
or host unusable.";

/// Options of `thalweg run`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES, next_help_heading = LOAD)]
pub(crate) struct RunOptions {
    /// URL to request, such as http://127.0.0.1:8080/index.html
    #[arg(help_heading = None::<&str>)]
    pub url: String,
    /// Open loop: requests per second [default: 100/s]
    ///
    /// Regardless of responses; ramps as 1000..5000, steps as 1000:10s,2000:10s. -R, as in wrk2, is
    /// the same.
    #[arg(short, long, short_alias = 'R', aliases = ["qps", "query-per-second"], value_name = "RATE",
        conflicts_with_all = ["workers", "conn_rate"])]
    pub rate: Option<RateText>,
    /// Open loop as in httperf: new connections (or sessions) per second, each with --calls
    /// sequential requests
    #[arg(long, value_name = "RATE", conflicts_with = "workers", hide_short_help = true)]
    pub conn_rate: Option<RateText>,
    /// Total number of connections (with --session: sessions), instead of a duration
    #[arg(long, alias = "num-conns", value_name = "N", value_parser = positive_count, conflicts_with_all = ["requests", "duration"], hide_short_help = true)]
    pub conns: Option<u64>,
    /// Closed loop: number of workers
    ///
    /// Each sends its next request after its last response. --connections N without a rate is the
    /// same, with a connection for each.
    #[arg(long, aliases = ["vus", "users", "clients"], value_name = "N", value_parser = positive, hide_short_help = true)]
    pub workers: Option<usize>,
    /// Number of connections to keep open, opened at --conn-rate; each sends its next request after
    /// its last response and --think
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["workers", "rate", "conns", "session", "calls", "connections"], hide_short_help = true)]
    pub hold: Option<usize>,
    /// Time from a response to the worker's next request; with --session, between bursts without a
    /// time of their own
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub think: Option<Duration>,
    /// Closed loop: workers start at random times within this time [default: 0s; with --hold, the
    /// longer of --think and the time to open all connections]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub stagger: Option<Duration>,
    /// File of user sessions; - for stdin
    ///
    /// In the format of httperf's --wsesslog, or in TOML.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "calls", "urls", "method", "body", "curl"], help_heading = REQUESTS, hide_short_help = true)]
    pub session: Option<PathBuf>,
    /// Maximum open connections per session, like httperf's --max-connections: a call opens another
    /// one if each has --pipeline calls in flight [default: 1]
    #[arg(long, value_name = "N", value_parser = session_connections, hide_short_help = true)]
    pub session_connections: Option<usize>,
    /// Length of the measured part [default: 10s]
    ///
    /// With steps of --rate that have a length: their sum. -z, as in oha and hey, is the same.
    #[arg(short, long, short_alias = 'z', aliases = ["time", "timelimit", "time-limit"], value_name = "TIME", value_parser = parse_length,
        conflicts_with = "requests")]
    pub duration: Option<Duration>,
    /// Number of requests, instead of a duration
    ///
    /// With --conn-rate and --session use --conns.
    #[arg(short = 'n', long, aliases = ["num-requests", "number-of-requests", "total-requests"], value_name = "N", value_parser = positive_count)]
    pub requests: Option<u64>,
    /// Length of the unmeasured warm-up at the same load
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "0s", hide_short_help = true)]
    pub warmup: Duration,
    /// Leave out the time in which other programs kept the client from its CPU, and go on for as
    /// long, up to twice the length
    #[arg(long, hide_short_help = true)]
    pub make_up: bool,
    /// The requests.
    #[command(flatten)]
    pub request: RequestOptions,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The observer of the target's host.
    #[command(flatten)]
    pub observer: ObserverOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Looking for room on each of a session's connections costs time, so that their number is bounded;
/// browsers have six.
const SESSION_CONNECTIONS_MAX: usize = 64;

fn session_connections(text: &str) -> Result<usize, String> {
    let connections = positive(text)?;
    if connections > SESSION_CONNECTIONS_MAX {
        return Err(format!("a session has at most {SESSION_CONNECTIONS_MAX} connections"));
    }
    Ok(connections)
}
