//! Options of `thalweg yardstick`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_measure::Limit;
use thalweg_units::{parse_percent, parse_rate, parse_seconds, parse_size, parse_time};

use super::addresses::parse_address;
use super::request::ArrivalsOption;
use super::values::{CpuList, DriverOption, parse_cpus, positive, positive_count, positive_number, whole, within};

const EXAMPLES: &str = "\
Examples:
  thalweg yardstick mm1 --rate 1000 --limit 'p99<50ms' --arrivals poisson

--help has all options and more examples.";

/// Options of `thalweg yardstick`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg yardstick mm1 --rate 1000/s --limit 'p99<50ms' --arrivals poisson
  thalweg yardstick collapse --rate 2000/s --recovery 10s --listen 127.0.0.1:8088
  thalweg yardstick two-point --truth --limit 'p99<50ms' --arrivals poisson --json

A preset only sets defaults; each option applies to each preset. The page /.yardstick shows the model, its truth, and
how late responses have left. docs/yardstick.md has recipes for other load generators.")]
pub(crate) struct YardstickOptions {
    /// Model to begin with
    #[arg(value_name = "PRESET", default_value = "fixed")]
    pub preset: Preset,
    /// Address: ADDRESS:PORT, or PORT for this host
    ///
    /// :PORT listens on all IPv4 addresses.
    #[arg(short = 'p', long, alias = "port", value_name = "ADDR", value_parser = parse_address, default_value = "127.0.0.1:8088")]
    pub listen: SocketAddr,
    /// Requests per second that all servers can serve together [default: 1000/s]
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub rate: Option<f64>,
    /// Mean service time of one server, or the shorter one of two, in place of --rate
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "rate")]
    pub service: Option<Duration>,
    /// Number of servers that work at the same time [default: 1; mmk and hot-core 4]
    #[arg(long, value_name = "K", value_parser = positive)]
    pub servers: Option<usize>,
    /// Distribution of service times [default: by preset]
    #[arg(long, value_name = "LAW")]
    pub law: Option<LawOption>,
    /// Two-point: the longer service time, in multiples of the shorter
    #[arg(long, value_name = "FACTOR", value_parser = positive_number, default_value = "10", hide_short_help = true)]
    pub slow_factor: f64,
    /// Two-point: share of requests that take the longer time
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "5%", hide_short_help = true)]
    pub slow_share: f64,
    /// Most requests that wait; further ones get a 503 [default: unlimited; bounded 20]
    #[arg(long, value_name = "N", value_parser = |text: &str| within::<usize>(text, 0..=u64::MAX))]
    pub queue: Option<usize>,
    /// Seconds of a Retry-After field in each 503
    #[arg(long, value_name = "SECONDS", value_parser = whole, hide_short_help = true)]
    pub retry_after: Option<u64>,
    /// Pauses of all servers: '1s every 10s' [default: none; stalls '1s every 10s']
    #[arg(long, value_name = "PAUSES", value_parser = parse_stall)]
    pub stall: Option<StallOption>,
    /// Time in which the capacity grows to its full height, after the first request and after idle
    /// times [default: none; slow-start 10s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub slow_start: Option<Duration>,
    /// Slow start: share of the capacity at the beginning
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "10%", hide_short_help = true)]
    pub cold_share: f64,
    /// Slow start: time without requests after which the server is cold again
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "30s", hide_short_help = true)]
    pub idle: Duration,
    /// Time for which requests may wait without a break before the capacity collapses [default:
    /// none; collapse 3s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, conflicts_with_all = ["collapse_above", "collapse_queue"], hide_short_help = true)]
    pub collapse_after: Option<Duration>,
    /// Rate over a second above which the capacity collapses; connections that wait bound it
    #[arg(long, value_name = "RATE", value_parser = parse_rate, conflicts_with = "collapse_queue", hide_short_help = true)]
    pub collapse_above: Option<f64>,
    /// Number of waiting requests above which the capacity collapses
    #[arg(long, value_name = "N", value_parser = |text: &str| within::<usize>(text, 0..=u64::MAX), hide_short_help = true)]
    pub collapse_queue: Option<usize>,
    /// Share of the capacity that a collapse leaves
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "25%", hide_short_help = true)]
    pub collapse_to: f64,
    /// Time from the end of the overload to the full capacity [default: it never comes back]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub recovery: Option<Duration>,
    /// Share of requests that only the first server carries [default: none; hot-core 50%]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, hide_short_help = true)]
    pub hot_share: Option<f64>,
    /// Share of responses whose body has a wrong byte [default: 0%; wrong-bodies 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, hide_short_help = true)]
    pub wrong_bodies: Option<f64>,
    /// Share of responses in whose place the connection is reset [default: 0%; resets 1%]
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, hide_short_help = true)]
    pub resets: Option<f64>,
    /// Share of responses that end half-way, and the connection with them
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "0%", hide_short_help = true)]
    pub truncated: f64,
    /// Share of responses with status 500
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "0%", hide_short_help = true)]
    pub errors: f64,
    /// Size of a response's body
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "512")]
    pub body: u64,
    /// Seed of service times and faults
    #[arg(long, value_name = "N", value_parser = whole, default_value = "1", hide_short_help = true)]
    pub seed: u64,
    /// Limit whose rate is to be computed, such as 'p99<50ms' or 'errors<0.1%'; repeatable
    #[arg(long = "limit", value_name = "LIMIT")]
    pub limits: Vec<Limit>,
    /// Arrivals for which that rate is computed: those of the load generator
    #[arg(long, value_name = "HOW", default_value = "constant")]
    pub arrivals: ArrivalsOption,
    /// Print the truth and exit
    #[arg(long)]
    pub truth: bool,
    /// Print the truth as JSON
    #[arg(long, requires = "truth")]
    pub json: bool,
    /// Burn CPU time for each service, on a thread per server, instead of computing departures
    #[arg(long, conflicts_with_all = ["stall", "slow_start", "collapse_after", "collapse_above", "collapse_queue"], hide_short_help = true)]
    pub burn: bool,
    /// CPU to serve from, or several with --burn [default: any]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// Most connections open at once
    #[arg(long, value_name = "N", value_parser = positive_count, default_value = "10000", hide_short_help = true)]
    pub connections: u64,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto", hide_short_help = true)]
    pub driver: DriverOption,
}

/// The models by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Preset {
    /// One server, fixed service time
    Fixed,
    /// One server, exponential service times (M/M/1 under Poisson arrivals)
    Mm1,
    /// Four servers, exponential service times (M/M/k)
    Mmk,
    /// One server, a long service time for a few requests and a short one for the others
    TwoPoint,
    /// M/M/1 whose queue has a bound: beyond it requests get a 503
    Bounded,
    /// M/M/1 that pauses at regular times
    Stalls,
    /// M/M/1 whose capacity grows with use
    SlowStart,
    /// M/M/1 that loses capacity under overload
    Collapse,
    /// Four servers of which one carries half of the requests
    HotCore,
    /// M/M/1 with wrong bytes in some bodies
    WrongBodies,
    /// M/M/1 that resets some connections
    Resets,
}

/// The distributions of service times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LawOption {
    /// The same for each request
    Fixed,
    /// Exponential
    Exponential,
    /// One of two
    TwoPoint,
}

/// Pauses: how long, and from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StallOption {
    pub length: Duration,
    pub every: Duration,
}

fn parse_stall(text: &str) -> Result<StallOption, String> {
    let Some((length, every)) = text.split_once(" every ") else {
        return Err("expected a length and a distance, such as '1s every 10s'".to_owned());
    };
    let time = |text: &str| parse_time(text).map_err(|error| error.to_string());
    Ok(StallOption { length: time(length)?, every: time(every)? })
}
