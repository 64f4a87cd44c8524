//! The commands and their options, as clap reads them. What they mean together is checked where a plan is made of them.

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

/// Finds out how much traffic a web server can take, and serves files as fast as the machine can.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, max_term_width = 100)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// One trial: offer a load, account for every request.
    Run(RunOptions),
    /// Search the capacity: the highest rate at which the limits hold, and what stops it there.
    Find(FindOptions),
    /// Ask for what an access log says, at its own times.
    Replay(ReplayOptions),
    /// Serve the files of a directory.
    Serve(ServeOptions),
    /// See all of it at work: serve a small tree here, search its capacity, write the report.
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

Exit codes: 0 limits met, 1 a limit missed, 2 wrong usage, 3 the client fell short, 4 target or host not usable.")]
pub struct RunOptions {
    /// What to ask for, such as http://127.0.0.1:8080/index.html
    pub url: String,
    /// Open loop: requests per second, whatever the answers do; ramps as 1000/s..5000/s, steps as 1000/s:10s,2000/s:10s [default: 100/s]
    #[arg(long, value_name = "RATE", conflicts_with_all = ["workers", "conn_rate"], allow_hyphen_values = true)]
    pub rate: Option<RateText>,
    /// Open loop as httperf's: new connections (or sessions) per second, each with --calls requests one after the other
    #[arg(long, value_name = "RATE", conflicts_with = "workers", allow_hyphen_values = true)]
    pub conn_rate: Option<RateText>,
    /// How many connections (or, with --session, sessions) there are in all, instead of a length
    #[arg(long, value_name = "N", value_parser = positive_count, conflicts_with_all = ["requests", "duration"])]
    pub conns: Option<u64>,
    /// Closed loop: as many workers, each asks when its last answer has come
    #[arg(long, value_name = "N", value_parser = positive)]
    pub workers: Option<usize>,
    /// Keep so many connections open at once, opened at --conn-rate; each asks again when its answer has come, or after --think
    #[arg(long, value_name = "N", value_parser = positive, conflicts_with_all = ["workers", "rate", "conns", "session", "calls", "connections"])]
    pub hold: Option<usize>,
    /// Time from an answer to the worker's next request; with --session, between bursts that have no time of their own
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub think: Option<Duration>,
    /// Closed loop: the workers begin at random times within this [default: 0s; with --hold, --think or the time that opening them takes, whichever is longer]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub stagger: Option<Duration>,
    /// What users do, one session each: a file in the format of httperf's --wsesslog, or TOML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["rate", "calls", "urls", "method", "body"])]
    pub session: Option<PathBuf>,
    /// Most connections that a session has open at once, as httperf's --max-connections: a call that finds --pipeline others under way on each opens another [default: 1]
    #[arg(long, value_name = "N", value_parser = session_connections)]
    pub session_connections: Option<usize>,
    /// Length of the measured part [default: 10s, or that of the steps of --rate]
    #[arg(long, value_name = "TIME", value_parser = parse_time, conflicts_with = "requests")]
    pub duration: Option<Duration>,
    /// Number of requests, instead of a length; with --conn-rate and --session say --conns
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub requests: Option<u64>,
    /// Load at the same level before the measured part, of which nothing is counted
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "0s")]
    pub warmup: Duration,
    /// How to load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// What to give out.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Options of `thalweg find`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg find http://127.0.0.1:8080/ --limit 'p99<50ms'
  thalweg find http://127.0.0.1:8080/ --limit 'p99<10ms' --limit 'errors<0.1%' --out report.html --json

Without a limit, p99<50ms is searched for. Errors are not allowed unless a limit says how many.")]
pub struct FindOptions {
    /// What to ask for, such as http://127.0.0.1:8080/index.html
    pub url: String,
    /// Length of the trials that confirm
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    pub duration: Duration,
    /// Length of the first, short trials [default: a fifth of --duration]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub probe: Option<Duration>,
    /// How narrow the bracket has to become, relative to the capacity
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "2%")]
    pub width: f64,
    /// Time that the trials may take in all
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    pub budget: Duration,
    /// Time that a target is given to recover which fails after an overload at rates that it had carried
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    pub recovery: Duration,
    /// How to load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// What to give out.
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

Common and combined log format are read, and the JSON that thalweg serve writes; plain or packed with gzip or zstd, whatever the
file is called. Requests of one second are spread over it in their order. GET, HEAD, OPTIONS and DELETE are asked again; how many
lines are left out is said. A log of any length takes little memory: it is read twice, so that what comes from a pipe is copied to
a temporary file (in TMPDIR) first.")]
pub struct ReplayOptions {
    /// The log, which may be packed with gzip or zstd; - for stdin
    pub log: PathBuf,
    /// The server to ask, such as http://127.0.0.1:8080/; what for is in the log
    pub url: String,
    /// How many times as fast as it was logged
    #[arg(long, value_name = "FACTOR", value_parser = parse_speed, default_value = "1", allow_hyphen_values = true)]
    pub speed: f64,
    /// How to load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// What to give out.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// How to load, for every command that does.
#[derive(Debug, Args)]
#[command(next_help_heading = "Load")]
pub struct LoadOptions {
    /// Most connections open at once [default: one per worker; in an open loop one per 20/s, 16 to 256]
    #[arg(long, value_name = "N", value_parser = positive)]
    pub connections: Option<usize>,
    /// Requests per connection; 1 closes after each [default: as many as the server allows; with --conn-rate 1]
    #[arg(long, value_name = "N", value_parser = positive_calls)]
    pub calls: Option<u32>,
    /// Requests under way at once on a connection [default: 1; with --session 32, as httperf]
    #[arg(long, value_name = "N", value_parser = positive_calls)]
    pub pipeline: Option<u32>,
    /// Which idle connection is used next
    #[arg(long, value_name = "WHICH", default_value = "oldest")]
    pub reuse: ReuseOption,
    /// How the arrivals of an open loop lie in time
    #[arg(long, value_name = "HOW", default_value = "constant")]
    pub arrivals: ArrivalsOption,
    /// How long a request may take, from the time at which it was due
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "5s")]
    pub timeout: Duration,
    /// HTTP version; with 1.0 connections are kept by keep-alive, unless --calls 1 is given
    #[arg(long, value_name = "VERSION", default_value = "1.1")]
    pub http: HttpVersion,
    /// File with one URL or path per line, all on the target's host
    #[arg(long, value_name = "FILE")]
    pub urls: Option<PathBuf>,
    /// Order in which the URLs are taken: sequential, random, or by rank with zipf or zipf:EXPONENT
    #[arg(long, value_name = "HOW", default_value = "sequential", requires = "urls")]
    pub pick: Pick,
    /// Method
    #[arg(long, value_name = "METHOD", default_value = METHOD_DEFAULT)]
    pub method: String,
    /// Field to send, 'Name: value'; repeatable
    #[arg(long = "header", value_name = "FIELD", value_parser = parse_field)]
    pub headers: Vec<(String, String)>,
    /// Body to send: the text itself, or @FILE
    #[arg(long, value_name = "BODY")]
    pub body: Option<String>,
    /// What a good response is: status=200,length=512,sha256=HEX,header:Name=value; @FILE for one line per path
    #[arg(long, value_name = "CHECKS")]
    pub check: Option<String>,
    /// Read each connection no faster than this, such as 33.6kbit; --timeout is then the time without a byte
    #[arg(long, value_name = "BITS", value_parser = parse_link_rate)]
    pub throttle: Option<u64>,
    /// Delay each answer's first byte to at least this after its request, as a path with that round trip would
    #[arg(long, value_name = "TIME", value_parser = parse_round_trip)]
    pub rtt: Option<Duration>,
    /// Reach the server through this Unix socket (@NAME for an abstract one)
    #[arg(long, value_name = "PATH", value_parser = parse_unix, conflicts_with = "from")]
    pub unix_socket: Option<UnixAddr>,
    /// Local addresses to connect from: one, or first-last; repeatable
    #[arg(long, value_name = "ADDRS", value_parser = parse_sources)]
    pub from: Vec<Vec<IpAddr>>,
    /// CPUs to load from, such as 1 or 0,2-3 [default: all, or half of them if the target is on this host]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// How to talk to the kernel
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverOption,
    /// Seed of everything random
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// What passing means, such as 'p99<50ms' or 'errors<0.1%'; repeatable
    #[arg(long = "limit", value_name = "LIMIT", value_parser = parse_limit)]
    pub limits: Vec<Limit>,
}

/// What to give out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Form of the result on stdout
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: Format,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the report as one HTML file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write the response times of each interval as a log for HdrHistogram's tools
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

Signals: TERM and INT let downloads end, then stop; a second one stops at once. HUP reads the configuration again.
USR2 starts the program anew on the same sockets, and lets this process end with its last download.")]
pub struct ServeOptions {
    /// The directory; with --config that of the sites that have none
    #[arg(required_unless_present_any = ["config", "print_config"])]
    pub directory: Option<PathBuf>,
    /// What is served and how, in TOML (docs/configuration.md); options win
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Look whether a start would succeed - files, user, CPUs, driver, addresses, sandbox - and end; nothing is left behind
    #[arg(long, conflicts_with = "print_config")]
    pub check: bool,
    /// Print the configuration that file and options come to, as a file with explanations, and end
    #[arg(long)]
    pub print_config: bool,
    /// Where to listen; repeatable [default: port 8080 of 127.0.0.1 and ::1]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub listen: Vec<ListenAddr>,
    /// CPUs to serve from, one loop each [default: all]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// Show folders without an index as lists of what is in them (docs/listings.md)
    #[arg(long)]
    pub listing: bool,
    /// How to talk to the kernel [default: auto]
    #[arg(long, value_name = "DRIVER")]
    pub driver: Option<DriverOption>,
    /// How long downloads under way may go on after TERM or Ctrl-C [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub drain: Option<Duration>,
    /// Where to write a line for each request: a file, or - for the standard output
    #[arg(long, value_name = "FILE")]
    pub access_log: Option<PathBuf>,
    /// How those lines look [default: combined]
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<LogFormatOption>,
    /// Where to say what has happened: a file [default: the standard error]
    #[arg(long, value_name = "FILE")]
    pub error_log: Option<PathBuf>,
    /// Show status page, metrics and health check there, to whoever can reach it
    #[arg(long, value_name = "ADDR")]
    pub status: Option<SocketAddr>,
    /// Keep the status page's figures of the last days over restarts, in this file
    #[arg(long, value_name = "FILE", requires = "status")]
    pub status_state: Option<PathBuf>,
    /// How long they may go on after an upgrade (USR2) [default: as long as they take]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub upgrade_drain: Option<Duration>,
    /// The user to become when the sockets are open
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Whether to give up the rest of the file system and most system calls [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub sandbox: Option<SandboxOption>,
    /// File to write the number of the process to
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
    /// Where to write the report
    #[arg(long, value_name = "FILE", default_value = "thalweg-demo.html")]
    pub out: PathBuf,
    /// How to talk to the kernel
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
    /// Common, with referer and user agent behind it
    Combined,
    /// One JSON object a line
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

/// Which idle connection is used next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReuseOption {
    /// The one that has been idle for longest
    Oldest,
    /// The one that was used last
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
    /// Evenly, at the rate
    Constant,
    /// Independent of one another, as many users are
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
    /// io_uring if the kernel grants it, else epoll
    Auto,
    /// io_uring or an error
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
    /// As far as the kernel can.
    #[default]
    Auto,
    /// Or not at all: a kernel that cannot is an error.
    On,
    /// Not.
    Off,
}

/// Forms of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One JSON document
    Json,
    /// A table: column names, and a line per trial
    Tsv,
    /// As httperf 0.9 prints its results
    Httperf,
    /// As ApacheBench 2.3 prints its results
    Ab,
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a whole number from 1 up is wanted".to_owned()),
        Ok(number) => Ok(number),
    }
}

fn positive_count(text: &str) -> Result<u64, String> {
    positive(text).map(|number| number as u64)
}

fn positive_calls(text: &str) -> Result<u32, String> {
    positive(text)?.try_into().map_err(|_| "at most 4294967295 calls".to_owned())
}

/// Looking for room on each of a session's connections costs time, so that their number is bounded; browsers have six.
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
        _ => Err("a number from 0.000001 to 1000000 is wanted; 2 is twice as fast as it was logged".to_owned()),
    }
}

/// A satellite's path has a round trip of 0.6 s; nobody asks over one of more than a minute.
fn parse_round_trip(text: &str) -> Result<Duration, String> {
    const ROUND_TRIP_MAX: Duration = Duration::from_secs(60);
    match parse_time(text).map_err(|error| error.to_string())? {
        time if time <= ROUND_TRIP_MAX => Ok(time),
        _ => {
            Err("a path's round trip is at most 60s; for a client that pauses between its requests use --think"
                .to_owned())
        }
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn parse_field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write a field as 'Name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn parse_unix(text: &str) -> Result<UnixAddr, String> {
    UnixAddr::new(text).map_err(|error| error.to_string())
}

pub(crate) fn parse_listen(text: &str) -> Result<ListenAddr, String> {
    match text.strip_prefix("unix:") {
        Some("") => Err("name the socket's file, as in unix:/run/thalweg.sock".to_owned()),
        Some(path) => Ok(ListenAddr::Unix(path.into())),
        None => text
            .parse()
            .map(ListenAddr::Tcp)
            .map_err(|_| "write an address with its port, such as 0.0.0.0:80 or [::]:80, or unix:PATH".to_owned()),
    }
}

/// Most CPUs and addresses that a range may stand for.
const RANGE_MAX: usize = 65_536;

pub(crate) fn parse_cpus(text: &str) -> Result<CpuList, String> {
    let wrong = || format!("{text:?} is no list of CPUs; write it like 1 or 0,2-3");
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
    let wrong = || format!("{text:?} is no address; write it like 127.0.0.2 or 127.0.0.2-127.0.0.9");
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
        assert_eq!(cpus("1"), Ok(vec![1]));
        assert_eq!(cpus("0,2-4,3"), Ok(vec![0, 2, 3, 4]));
        for wrong in ["", "a", "3-1", "1,", "-1", "0-99999999"] {
            assert!(cpus(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn source_addresses_are_ranges() {
        assert_eq!(parse_sources("127.0.0.2-127.0.0.4").unwrap().len(), 3);
        assert_eq!(parse_sources("::1").unwrap().len(), 1);
        for wrong in ["x", "127.0.0.4-127.0.0.2", "127.0.0.1-::1", "0.0.0.0-255.255.255.255"] {
            assert!(parse_sources(wrong).is_err(), "{wrong:?}");
        }
    }
}
