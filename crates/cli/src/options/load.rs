//! The options that describe a load, for every command that makes one.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_load::{Pick, Reuse, Spacing};
use thalweg_measure::Limit;
use thalweg_sys::UnixAddr;
use thalweg_units::{parse_link_rate, parse_time};

use super::client_tls::ClientTlsOptions;
use super::values::{CpuList, DriverOption, RANGE_MAX, parse_cpus, positive, positive_calls};

/// The method of requests that name no other.
pub const METHOD_DEFAULT: &str = "GET";

/// Load options, for every command that loads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// Maximum open connections [default: one per worker; in an open loop one per 20/s, 16 to 256]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub connections: Option<usize>,
    /// Requests per connection; 1 closes after each [default: as many as the server allows; with
    /// --conn-rate 1]
    #[arg(long, value_name = "N", value_parser = positive_calls)]
    pub calls: Option<u32>,
    /// Maximum requests in flight per connection, HTTP/1.1 [default: 1; with --session 32, as in
    /// httperf]
    #[arg(long, value_name = "N", value_parser = positive_calls)]
    pub pipeline: Option<u32>,
    /// Maximum concurrent streams per connection, HTTP/2; h2load's -m [default: 1; with --session
    /// 32]
    #[arg(long, value_name = "N", value_parser = positive_calls, conflicts_with = "pipeline")]
    pub streams: Option<u32>,
    /// How often a request is sent again, at most, that the server has refused to process, HTTP/2
    /// (REFUSED_STREAM or GOAWAY)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub retry_refused: u8,
    /// Follow redirects on the same host (scheme, host and port), at most N for a request
    /// [default without N: 5]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "5",
        value_parser = clap::value_parser!(u8).range(1..=20))]
    pub follow: Option<u8>,
    /// Idle connection to use next
    #[arg(long, value_name = "WHICH", default_value = "oldest")]
    pub reuse: ReuseOption,
    /// Distribution of open-loop arrivals in time
    #[arg(long, value_name = "HOW", default_value = "constant")]
    pub arrivals: ArrivalsOption,
    /// Maximum time of a request, from its intended time
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5s")]
    pub timeout: Duration,
    /// HTTP version; 1.0 uses keep-alive unless --calls 1 is given, and 2 is spoken with prior
    /// knowledge
    #[arg(long, value_name = "VERSION", default_value = "1.1")]
    pub http: HttpVersion,
    /// File with one URL or path per line, all on the target's host, each perhaps with a weight
    #[arg(long, value_name = "FILE")]
    pub urls: Option<PathBuf>,
    /// Order of the URLs: sequential, random, by rank with zipf or zipf:EXPONENT, or weighted
    #[arg(long, value_name = "HOW", default_value = "sequential", requires = "urls")]
    pub pick: Pick,
    /// Request method
    #[arg(long, value_name = "METHOD", default_value = METHOD_DEFAULT)]
    pub method: String,
    /// Header field to send, 'Name: value'; repeatable
    #[arg(long = "header", value_name = "FIELD", value_parser = parse_field)]
    pub headers: Vec<(String, String)>,
    /// Request body: the text itself, or @FILE
    #[arg(long, value_name = "BODY")]
    pub body: Option<String>,
    /// Conditions for a good response: status=200,length=512,sha256=HEX,header:Name=value; or @FILE
    /// with one line per path [default: status=2xx]
    #[arg(long, value_name = "CHECKS")]
    pub check: Option<String>,
    /// Maximum read rate per connection, such as 33.6kbit; --timeout then bounds the time without a
    /// byte
    #[arg(long, value_name = "BITS", value_parser = parse_link_rate)]
    pub throttle: Option<u64>,
    /// Simulated round-trip time: delays each response's first byte to at least this after its
    /// request
    #[arg(long, value_name = "TIME", value_parser = parse_round_trip)]
    pub rtt: Option<Duration>,
    /// Connect through this Unix socket (@NAME for an abstract one)
    #[arg(long, value_name = "PATH", value_parser = parse_unix, conflicts_with = "from")]
    pub unix_socket: Option<UnixAddr>,
    /// Local address or range FIRST-LAST to connect from; repeatable
    #[arg(long, value_name = "ADDRS", value_parser = parse_sources)]
    pub from: Vec<Vec<IpAddr>>,
    /// CPUs for the load threads, such as 1 or 0,2-3 [default: all, or half of them if the target
    /// is on this host]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverOption,
    /// Seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Limit that must be met to pass, such as 'p99<50ms' or 'errors<0.1%'; repeatable
    #[arg(long = "limit", value_name = "LIMIT", value_parser = parse_limit)]
    pub limits: Vec<Limit>,
    /// TLS.
    #[command(flatten)]
    pub tls: ClientTlsOptions,
}

impl LoadOptions {
    /// Most requests under way at once on a connection, if the options say so.
    pub fn requests_at_once(&self) -> Option<u32> {
        self.pipeline.or(self.streams)
    }
}

/// The HTTP versions that can be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HttpVersion {
    /// HTTP/1.0
    #[value(name = "1.0")]
    Http10,
    /// HTTP/1.1
    #[value(name = "1.1")]
    Http11,
    /// HTTP/2
    #[value(name = "2")]
    Http2,
}

/// The idle connection to use next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReuseOption {
    /// The connection that has been idle the longest
    Oldest,
    /// The connection that was used last
    Latest,
}

impl From<ReuseOption> for Reuse {
    fn from(option: ReuseOption) -> Self {
        match option {
            ReuseOption::Oldest => Self::Oldest,
            ReuseOption::Latest => Self::Latest,
        }
    }
}

/// How arrivals lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ArrivalsOption {
    /// Evenly spaced
    Constant,
    /// Independent of one another, like requests of many users
    Poisson,
}

impl From<ArrivalsOption> for Spacing {
    fn from(option: ArrivalsOption) -> Self {
        match option {
            ArrivalsOption::Constant => Self::Constant,
            ArrivalsOption::Poisson => Self::Poisson,
        }
    }
}

/// A satellite's path has a round trip of 0.6 s; none exceeds a minute.
fn parse_round_trip(text: &str) -> Result<Duration, String> {
    const ROUND_TRIP_MAX: Duration = Duration::from_secs(60);
    match parse_time(text).map_err(|error| error.to_string())? {
        time if time <= ROUND_TRIP_MAX => Ok(time),
        _ => Err("a round-trip time is at most 60s; to pause between requests, use --think".to_owned()),
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_unix(text: &str) -> Result<UnixAddr, String> {
    UnixAddr::new(text).map_err(|error| error.to_string())
}

pub(super) fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
    let wrong = || format!("{text:?} is not an address; expected for example 127.0.0.2 or 127.0.0.2-127.0.0.9");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => {
            let (first, last) = (u32::from(first), u32::from(last));
            if (last - first) as usize >= RANGE_MAX {
                return Err(format!("{text:?} is more than {RANGE_MAX} addresses"));
            }
            Ok((first..=last).map(|ip| IpAddr::V4(ip.into())).collect())
        }
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => {
            let (first, last) = (u128::from(first), u128::from(last));
            if last - first >= RANGE_MAX as u128 {
                return Err(format!("{text:?} is more than {RANGE_MAX} addresses"));
            }
            Ok((first..=last).map(|ip| IpAddr::V6(ip.into())).collect())
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_addresses_are_ranges() {
        assert_eq!(["127.0.0.2-127.0.0.4", "::1"].map(|text| parse_sources(text).unwrap().len()), [3, 1]);
        for wrong in ["x", "127.0.0.4-127.0.0.2", "127.0.0.1-::1", "0.0.0.0-255.255.255.255"] {
            assert!(parse_sources(wrong).is_err(), "{wrong:?}");
        }
    }
}
