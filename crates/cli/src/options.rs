//! The commands and their options, as clap reads them. Plans check how they go together.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use thalweg_load::{Pick, RateText, Reuse, Spacing};
use thalweg_measure::Limit;
use thalweg_serve::{ListenAddr, LogFormat};
use thalweg_sys::{DriverChoice, UnixAddr};
use thalweg_units::{parse_link_rate, parse_percent, parse_time};

/// The method of requests that name no other.
pub const METHOD_DEFAULT: &str = "GET";

/// Measures the capacity of web servers, and serves files.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, max_term_width = 100)]
pub struct Options {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run one trial: offer a load and account for every request.
    Run(RunOptions),
    /// Find the capacity: the highest rate that meets the limits, and the bottleneck.
    Find(FindOptions),
    /// Replay an access log with its own timing.
    Replay(ReplayOptions),
    /// Serve the files of a directory.
    Serve(ServeOptions),
    /// Serve a small tree on this host, find its capacity, and write a report.
    Demo(DemoOptions),
    /// Print the JSON Schema of the result document.
    Schema,
}

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
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Options of `thalweg find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg find http://127.0.0.1:8080/ --limit 'p99<50ms'
  thalweg find http://127.0.0.1:8080/ --limit 'p99<10ms' --limit 'errors<0.1%' --out report.html --json

The default limit is p99<50ms. No errors are allowed unless a limit on errors is given.")]
pub struct FindOptions {
    /// URL to request, such as http://127.0.0.1:8080/index.html
    pub url: String,
    /// Length of the final, confirming trials
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    pub duration: Duration,
    /// Length of the first, short trials [default: a fifth of --duration]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub probe: Option<Duration>,
    /// Final width of the bracket, relative to the capacity
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "2%")]
    pub width: f64,
    /// Maximum total time of all trials
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    pub budget: Duration,
    /// Time for the target to recover from a collapse, before the search gives up
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    pub recovery: Duration,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Options of `thalweg replay`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg replay /var/log/nginx/access.log http://127.0.0.1:8080/
  thalweg replay access.log.2.gz http://127.0.0.1:8080/ --speed 10
  ssh web1 cat /var/log/nginx/access.log | thalweg replay - http://127.0.0.1:8080/

Formats: common, combined, and the JSON of thalweg serve; plain or compressed with gzip or zstd (detected by content). Requests of
one second are spread evenly over it, in log order. GET, HEAD, OPTIONS and DELETE are replayed; other lines are skipped and counted.
Memory use does not depend on the log's length: it is read twice. Input from a pipe is first copied to a temporary file (TMPDIR).")]
pub struct ReplayOptions {
    /// Access log, plain or compressed with gzip or zstd; - for stdin
    pub log: PathBuf,
    /// URL of the server, such as http://127.0.0.1:8080/; paths come from the log
    pub url: String,
    /// Speed-up factor: 2 replays twice as fast as logged
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, default_value = "1", allow_hyphen_values = true)]
    pub speed: f64,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

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
    /// Maximum requests in flight per connection [default: 1; with --session 32, as in httperf]
    #[arg(long, value_name = "N", value_parser = positive_calls)]
    pub pipeline: Option<u32>,
    /// Idle connection to use next
    #[arg(long, value_name = "WHICH", default_value = "oldest")]
    pub reuse: ReuseOption,
    /// Distribution of open-loop arrivals in time
    #[arg(long, value_name = "HOW", default_value = "constant")]
    pub arrivals: ArrivalsOption,
    /// Maximum time of a request, from its intended time
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5s")]
    pub timeout: Duration,
    /// HTTP version; 1.0 uses keep-alive unless --calls 1 is given
    #[arg(long, value_name = "VERSION", default_value = "1.1")]
    pub http: HttpVersion,
    /// File with one URL or path per line, all on the target's host
    #[arg(long, value_name = "FILE")]
    pub urls: Option<PathBuf>,
    /// Order of the URLs: sequential, random, or by rank with zipf or zipf:EXPONENT
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
    /// with one line per path
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
}

/// Output options.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Format of the result on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write a report to this HTML file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the response times of each interval as an HdrHistogram log
    #[arg(long, value_name = "FILE")]
    pub hdr: Option<PathBuf>,
}

/// Options of `thalweg serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg serve /srv/mirror
  thalweg serve /srv/mirror --listen 0.0.0.0:80 --listen '[::]:80' --user www-data
  thalweg serve /srv/mirror --access-log /var/log/thalweg/access.log --status 127.0.0.1:9180
  thalweg serve --print-config /srv/mirror > thalweg.toml
  thalweg serve --config thalweg.toml --check

Signals: TERM and INT stop the server after the downloads in progress; a second one stops it at once. HUP reloads the
configuration. USR2 upgrades: a new process takes over the sockets, and this one exits after its last download.")]
pub struct ServeOptions {
    /// Directory to serve; with --config, for sites without a root
    #[arg(required_unless_present_any = ["config", "print_config"])]
    pub directory: Option<PathBuf>,
    /// Configuration file in TOML (docs/configuration.md); options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check whether a start would succeed (files, user, CPUs, driver, addresses, sandbox) and exit
    #[arg(long, conflicts_with = "print_config")]
    pub check: bool,
    /// Print the effective configuration with explanations and exit
    #[arg(long)]
    pub print_config: bool,
    /// Address to listen on, ADDRESS:PORT or unix:PATH; repeatable [default: port 8080 of 127.0.0.1
    /// and ::1]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub listen: Vec<ListenAddr>,
    /// CPUs to serve from, one loop on each [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// List the contents of folders without an index file (docs/listings.md)
    #[arg(long)]
    pub listing: bool,
    /// Kernel interface [default: auto]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<DriverOption>,
    /// Time for downloads in progress to finish after TERM or Ctrl-C [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub drain: Option<Duration>,
    /// Access log: a file, or - for standard output
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// Format of the access log [default: combined]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormatOption>,
    /// Error log: a file [default: standard error]
    #[arg(long, value_name = "FILE")]
    pub error_log: Option<PathBuf>,
    /// Address of the status page, metrics and health check; not protected by a password
    #[arg(long, value_name = "ADDR")]
    pub status: Option<SocketAddr>,
    /// File that keeps the status page's daily figures across restarts
    #[arg(long, value_name = "FILE", requires = "status")]
    pub status_state: Option<PathBuf>,
    /// Time for downloads in progress to finish after an upgrade (USR2) [default: unlimited]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub upgrade_drain: Option<Duration>,
    /// User to switch to after opening the sockets
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Restrict file access and system calls to those needed [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub sandbox: Option<SandboxOption>,
    /// File for the process ID
    #[arg(long, value_name = "FILE")]
    pub pid_file: Option<PathBuf>,
}

/// Options of `thalweg demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg demo
  thalweg demo --out /tmp/demo.html --driver epoll")]
pub struct DemoOptions {
    /// Report file to write
    #[arg(long, value_name = "FILE", default_value = "thalweg-demo.html")]
    pub out: PathBuf,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverOption,
}

/// CPUs as they were listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpuList(pub Vec<usize>);

/// The formats of an access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormatOption {
    /// Common Log Format
    Common,
    /// Common, followed by referer and user agent
    Combined,
    /// One JSON object per line
    Json,
}

impl From<LogFormatOption> for LogFormat {
    fn from(option: LogFormatOption) -> Self {
        match option {
            LogFormatOption::Common => Self::Common,
            LogFormatOption::Combined => Self::Combined,
            LogFormatOption::Json => Self::Json,
        }
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

/// Drivers by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DriverOption {
    /// io_uring if available, else epoll
    Auto,
    /// io_uring; fail if unavailable
    Uring,
    /// epoll
    Epoll,
}

impl From<DriverOption> for DriverChoice {
    fn from(option: DriverOption) -> Self {
        match option {
            DriverOption::Auto => Self::Auto,
            DriverOption::Uring => Self::Uring,
            DriverOption::Epoll => Self::Epoll,
        }
    }
}

/// Whether the server confines itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub enum SandboxOption {
    /// As far as the kernel supports it.
    #[default]
    Auto,
    /// Fail if full sandboxing is unavailable.
    On,
    /// No sandbox.
    Off,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Human-readable text
    Text,
    /// One JSON document
    Json,
    /// Table with column names and one line per trial
    Tsv,
    /// Output of httperf 0.9
    Httperf,
    /// Output of ApacheBench 2.3
    Ab,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn positive_count(text: &str) -> Result<u64, String> {
    positive(text).map(|number| number as u64)
}

fn positive_calls(text: &str) -> Result<u32, String> {
    positive(text)?.try_into().map_err(|_| "at most 4294967295 calls".to_owned())
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

fn parse_speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1e-6..=1e6).contains(&speed) => Ok(speed),
        _ => Err("expected a number from 0.000001 to 1000000; 2 replays twice as fast as logged".to_owned()),
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

pub(crate) fn parse_listen(text: &str) -> Result<ListenAddr, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("expected the path of the socket, such as unix:/run/thalweg.sock".to_owned()),
        Some(path) => Ok(ListenAddr::Unix(path.into())),
        None => text
            .parse()
            .map(ListenAddr::Tcp)
            .map_err(|_| "expected an address with a port, such as 0.0.0.0:80 or [::]:80, or unix:PATH".to_owned()),
    }
}

/// Most CPUs and addresses that a range may stand for.
const RANGE_MAX: usize = 65_536;

pub(crate) fn parse_cpus(text: &str) -> Result<CpuList, String> {
    let wrong = || format!("{text:?} is not a list of CPUs; expected for example 1 or 0,2-3");
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
        if first > last || last >= RANGE_MAX {
            return Err(wrong());
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

fn parse_sources(text: &str) -> Result<Vec<IpAddr>, String> {
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
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        Options::command().debug_assert();
    }

    #[test]
    fn cpu_lists_are_read_as_taskset_reads_them() {
        let cpus = |text| parse_cpus(text).map(|list| list.0);
        assert_eq!([cpus("1"), cpus("0,2-4,3")], [Ok(vec![1]), Ok(vec![0, 2, 3, 4])]);
        for wrong in ["", "a", "3-1", "1,", "-1", "0-99999999"] {
            assert!(cpus(wrong).is_err(), "{wrong:?}");
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
