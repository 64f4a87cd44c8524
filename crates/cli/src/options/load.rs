//! The options that describe a load, for every command that makes one.

use std::net::IpAddr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_lab::routing::Routing;
use thalweg_load::Reuse;
use thalweg_measure::Limit;
use thalweg_sys::UnixAddr;
use thalweg_units::{parse_link_rate, parse_seconds, parse_time};
use thalweg_wire::proxy_protocol::ProxyVersion;

use super::client_tls::ClientTlsOptions;
use super::headings::{CLIENT, CONNECTIONS, LIMITS, REQUESTS};
use super::proxy::ProxyOption;
use super::routing::RoutingOptions;
use super::values::{CpuList, DriverOption, RANGE_MAX, parse_cpus, positive, positive_calls, within};

/// How many redirects of a request are followed at most, unless the option says it.
pub(crate) const REDIRECTS_BY_DEFAULT: &str = "5";

/// The most redirects of a request that can be followed.
pub(crate) const REDIRECTS_MAX: u8 = 20;

/// Load options, for every command that loads.
#[derive(Debug, Args)]
#[command(next_help_heading = CONNECTIONS)]
pub(crate) struct LoadOptions {
    /// Header field to send, 'Name: value'; repeatable
    #[arg(short = 'H', long = "header", value_name = "FIELD", value_parser = parse_field, help_heading = REQUESTS)]
    pub headers: Vec<(String, String)>,
    /// Maximum open connections
    ///
    /// [default: in an open loop one per 20/s, 16 to 256; in a closed loop one per worker]
    #[arg(short, long, alias = "concurrency", value_name = "N", value_parser = positive)]
    pub connections: Option<usize>,
    /// Maximum requests in flight per connection, HTTP/1.1 [default: 1; with --session 32, as in
    /// httperf]
    #[arg(long, value_name = "N", value_parser = positive_calls, hide_short_help = true)]
    pub pipeline: Option<u32>,
    /// Maximum concurrent streams per connection, HTTP/2; h2load's -m [default: 1; with --session
    /// 32]
    #[arg(long, value_name = "N", value_parser = positive_calls, conflicts_with = "pipeline", hide_short_help = true)]
    pub streams: Option<u32>,
    /// How often a request is sent again, at most, that the server says it has not processed,
    /// HTTP/2 (REFUSED_STREAM or GOAWAY) [default: 10]
    #[arg(long, value_name = "N", value_parser = |text: &str| within::<u8>(text, 0..=255), hide_short_help = true)]
    pub retry_refused: Option<u8>,
    /// Send a request again that met the close of a kept connection before any byte of its
    /// response, at most N times, HTTP/1.1 [default without N: 3]
    ///
    /// Only requests that may be sent twice: GET, HEAD, OPTIONS, TRACE, PUT and DELETE.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, hide_short_help = true,
        default_missing_value = "3", value_parser = |text: &str| within::<u8>(text, 0..=255))]
    pub retry_idle: Option<u8>,
    /// Follow redirects on the same host (scheme, host and port), at most N for a request
    /// [default without N: 5]
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, hide_short_help = true,
        default_missing_value = REDIRECTS_BY_DEFAULT, value_parser = clap::value_parser!(u8).range(1..=i64::from(REDIRECTS_MAX)))]
    pub follow: Option<u8>,
    /// Accept responses of HTTP/1 that curl accepts, where they break the grammar
    ///
    /// Lines that end in LF alone, padded chunk sizes, several lengths, heads of up to 300 KiB
    /// (docs/measuring.md).
    #[arg(long, hide_short_help = true)]
    pub lenient: bool,
    /// Idle connection to use next
    #[arg(long, value_name = "WHICH", default_value = "oldest", hide_short_help = true)]
    pub reuse: ReuseOption,
    /// Maximum time of a request
    ///
    /// From its intended time. -t TIME is the same, with a unit: a bare number behind -t is an
    /// error, because it is threads in wrk, the length of the run in ab, and this in hey.
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5s")]
    timeout: Duration,
    /// The same for those who know it so, with a unit.
    #[arg(short = 't', value_name = "TIME", value_parser = parse_short_timeout, conflicts_with = "timeout", hide = true)]
    timeout_with_unit: Option<Duration>,
    /// HTTP version
    ///
    /// 1.0 uses keep-alive unless --calls 1 is given, and 2 is spoken with prior knowledge
    #[arg(long, value_name = "VERSION", default_value = "1.1", hide_short_help = true)]
    pub http: HttpVersion,
    /// Maximum read rate per connection, such as 33.6kbit; --timeout then bounds the time without a
    /// byte
    #[arg(long, value_name = "BITS", value_parser = parse_link_rate, hide_short_help = true)]
    pub throttle: Option<u64>,
    /// Simulated round-trip time: delays each response's first byte to at least this after its
    /// request
    #[arg(long, value_name = "TIME", value_parser = parse_round_trip, hide_short_help = true)]
    pub rtt: Option<Duration>,
    /// Connect through this Unix socket (@NAME for an abstract one)
    #[arg(long, value_name = "PATH", value_parser = parse_unix, conflicts_with = "from", hide_short_help = true)]
    pub unix_socket: Option<UnixAddr>,
    /// Proxy to go through: http://USER:PASSWORD@HOST:PORT (CONNECT) or socks5://HOST:PORT
    ///
    /// The proxy looks up the target's name. No environment variable names one.
    #[arg(long, value_name = "URL", conflicts_with_all = ["unix_socket", "proxy_protocol", "connect_to"], hide_short_help = true)]
    pub proxy: Option<ProxyOption>,
    /// Begin each connection with a PROXY header of this version, as a proxy in front of the server
    /// does
    ///
    /// The client in it is the local address (of --from, if it is given), with a port of its own
    /// for each connection.
    #[arg(long, value_name = "VERSION", hide_short_help = true)]
    pub proxy_protocol: Option<ProxyProtocolOption>,
    /// Local address or range FIRST-LAST to connect from; repeatable
    #[arg(long, value_name = "ADDRS", value_parser = parse_sources, help_heading = CLIENT, hide_short_help = true)]
    pub from: Vec<Vec<IpAddr>>,
    /// CPUs for the load threads, such as 1 or 0,2-3 [default: all, or half of them if the target
    /// is on this host]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus, help_heading = CLIENT, hide_short_help = true)]
    pub cores: Option<CpuList>,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto", help_heading = CLIENT, hide_short_help = true)]
    pub driver: DriverOption,
    /// Limit to pass, such as 'p99<50ms' or 'errors<0.1%'
    ///
    /// Repeatable. --limit list shows all: rate>=500/s, first_byte_p99<20ms, connect_p99<5ms, and
    /// those of k6 as they are written there.
    #[arg(long = "limit", value_name = "LIMIT", value_parser = parse_limit, help_heading = LIMITS)]
    pub limits: Vec<Limit>,
    /// Conditions for a good response, such as status=200
    ///
    /// status=200,length=512,sha256=HEX,header:Name=value; or @FILE with one line per path
    /// (docs/workloads.md) [default: status=2xx]
    #[arg(long, value_name = "CHECKS", help_heading = LIMITS)]
    pub check: Option<String>,
    /// Addresses of the target's name to connect to: the first that accepts a connection, or all in
    /// turn, with figures for each
    #[arg(long, value_name = "WHICH", default_value = "first", conflicts_with_all = ["unix_socket"], hide_short_help = true)]
    pub addresses: AddressesOption,
    /// The way to the target.
    #[command(flatten)]
    pub routing: RoutingOptions,
    /// TLS.
    #[command(flatten)]
    pub tls: ClientTlsOptions,
}

impl LoadOptions {
    /// The way to the target.
    pub(crate) fn routing(&self) -> Routing {
        let proxy = self.proxy.as_ref().map(|proxy| (proxy.host.clone(), proxy.port));
        Routing { proxy, ..self.routing.routing(self.unix_socket.as_ref(), &self.from) }
    }

    /// Most requests under way at once on a connection, if the options say so.
    pub(crate) fn requests_at_once(&self) -> Option<u32> {
        self.pipeline.or(self.streams)
    }

    /// Maximum time of a request.
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout_with_unit.unwrap_or(self.timeout)
    }

    /// Sets the maximum time of a request.
    pub(crate) fn set_timeout(&mut self, timeout: Duration) {
        (self.timeout, self.timeout_with_unit) = (timeout, None);
    }
}

/// The HTTP versions that can be spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum HttpVersion {
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

/// The version of PROXY headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProxyProtocolOption {
    /// A line of text
    #[value(name = "1")]
    V1,
    /// Binary
    #[value(name = "2")]
    V2,
}

impl From<ProxyProtocolOption> for ProxyVersion {
    fn from(option: ProxyProtocolOption) -> Self {
        match option {
            ProxyProtocolOption::V1 => Self::V1,
            ProxyProtocolOption::V2 => Self::V2,
        }
    }
}

/// The addresses of a name that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AddressesOption {
    /// The first that accepts a connection
    First,
    /// All of them in turn
    All,
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

/// The letter has a meaning of its own in each tool, and only a unit tells which one is meant.
fn parse_short_timeout(text: &str) -> Result<Duration, String> {
    if text.parse::<f64>().is_ok() {
        return Err(format!(
            "a bare number is threads in wrk (here --cores), the length of the run in ab (here --duration {text}), and the \
             timeout of a request in hey (here --timeout {text}, or -t {text}s)"
        ));
    }
    parse_time(text).map_err(|error| error.to_string())
}

/// A satellite's path has a round trip of 0.6 s; none exceeds a minute.
fn parse_round_trip(text: &str) -> Result<Duration, String> {
    const ROUND_TRIP_MAX: Duration = Duration::from_secs(60);
    match parse_time(text).map_err(|error| error.to_string())? {
        time if time <= ROUND_TRIP_MAX => Ok(time),
        _ => Err("a round-trip time is at most 60s; to pause between requests, use --think of thalweg run".to_owned()),
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected 'Name: value', such as 'Accept: text/html'")?;
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
    fn a_short_timeout_has_a_unit() {
        assert_eq!(parse_short_timeout("1.5s"), Ok(Duration::from_millis(1500)));
        for (wrong, part) in [("4", "--cores"), ("2.5", "--timeout 2.5"), ("-1s", "negative"), ("4x", "unknown")] {
            let message = parse_short_timeout(wrong).unwrap_err();
            assert!(message.contains(part), "{wrong}: {message}");
        }
    }

    #[test]
    fn source_addresses_are_ranges() {
        assert_eq!(["127.0.0.2-127.0.0.4", "::1"].map(|text| parse_sources(text).unwrap().len()), [3, 1]);
        for wrong in ["x", "127.0.0.4-127.0.0.2", "127.0.0.1-::1", "0.0.0.0-255.255.255.255"] {
            assert!(parse_sources(wrong).is_err(), "{wrong:?}");
        }
    }
}
