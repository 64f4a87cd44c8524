//! Options of `thalweg run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_load::RateText;
use thalweg_units::parse_time;

use super::load::LoadOptions;
use super::observe::ObserverOptions;
use super::output::OutputOptions;
use super::values::{positive, positive_count};

/// Options of `thalweg run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg run http://127.0.0.1:8080/ --rate 5000/s --duration 10s
  thalweg run http://127.0.0.1:8080/ --rate 1000/s..5000/s --arrivals poisson --duration 60s
  thalweg run http://127.0.0.1:8080/ --workers 64 --duration 10s --json
  thalweg run http://127.0.0.1:8080/ --conn-rate 200/s --calls 10 --conns 5000 --timeout 5s --format httperf
  thalweg run http://127.0.0.1:8080/ --session shop.log --conn-rate 5/s --conns 100
  thalweg run http://127.0.0.1:8080/big.iso --hold 25000 --conn-rate 2000/s --throttle 33.6kbit --duration 60s

Exit codes: 0 limits met, 1 limit missed, 2 wrong usage, 3 INVALID (the client fell short), 4 target or host unusable.")]
pub struct RunOptions {
    /// URL to request, such as http://127.0.0.1:8080/index.html
    pub url: String,
    /// Open loop: requests per second, regardless of responses; ramps as 1000/s..5000/s, steps as
    /// 1000/s:10s,2000/s:10s [default: 100/s]
    #[arg(long, value_name = "RATE", conflicts_with_all = ["workers", "conn_rate"], allow_hyphen_values = true)]
    pub rate: Option<RateText>,
    /// Open loop as in httperf: new connections (or sessions) per second, each with --calls
    /// sequential requests
    #[arg(long, value_name = "RATE", conflicts_with = "workers", allow_hyphen_values = true)]
    pub conn_rate: Option<RateText>,
    /// Total number of connections (with --session: sessions), instead of a duration
    #[arg(long, value_name = "N", value_parser = positive_count, conflicts_with_all = ["requests", "duration"])]
    pub conns: Option<u64>,
    /// Closed loop: number of workers; each sends its next request after its last response
    #[arg(long, value_name = "N", value_parser = positive)]
    pub workers: Option<usize>,
    /// Number of connections to keep open, opened at --conn-rate; each sends its next request after
    /// its last response and --think
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["workers", "rate", "conns", "session", "calls", "connections"])]
    pub hold: Option<usize>,
    /// Time from a response to the worker's next request; with --session, between bursts without a
    /// time of their own
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub think: Option<Duration>,
    /// Closed loop: workers start at random times within this time [default: 0s; with --hold, the
    /// longer of --think and the time to open all connections]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub stagger: Option<Duration>,
    /// File of user sessions, in the format of httperf's --wsesslog or in TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "calls", "urls", "method", "body"])]
    pub session: Option<PathBuf>,
    /// Maximum open connections per session, like httperf's --max-connections: a call opens another
    /// one if each has --pipeline calls in flight [default: 1]
    #[arg(long, value_name = "N", value_parser = session_connections)]
    pub session_connections: Option<usize>,
    /// Length of the measured part [default: 10s, or the length of the steps of --rate]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "requests")]
    pub duration: Option<Duration>,
    /// Number of requests, instead of a duration; with --conn-rate and --session use --conns
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub requests: Option<u64>,
    /// Length of the unmeasured warm-up at the same load
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s")]
    pub warmup: Duration,
    /// Leave out the time in which other programs kept the client from its CPU, and go on for as
    /// long, up to twice the length
    #[arg(long)]
    pub make_up: bool,
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
