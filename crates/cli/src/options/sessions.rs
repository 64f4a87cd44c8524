//! Options of `thalweg sessions`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use globset::{Glob, GlobSet};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use thalweg_sessions::{GAP_S_MAX, LoggedMethod, StatusRange};
use thalweg_units as units;
use thalweg_units::{parse_percent, parse_size};

use super::log_format::LogFormatOption;
use super::values::{positive_count, whole};

const EXAMPLES: &str = "\
Examples:
  thalweg sessions access.log -o site.sessions
  thalweg run http://127.0.0.1:8080/ --session site.sessions --conn-rate 20 --conns 5000

--help has all options and more examples.";

/// Options of `thalweg sessions`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg sessions access.log -o site.sessions
  thalweg run http://127.0.0.1:8080/ --session site.sessions --conn-rate 20/s --conns 5000
  thalweg sessions access.log.2.gz --max-sessions 1000 --max-think 60s -o small.sessions
  httperf --server 127.0.0.1 --port 8080 --wsesslog=1000,2,small.sessions --rate 20
  zcat $(ls -rv access.log.*.gz) | thalweg sessions - --sample 5% --exclude '*.png' --from 2026-11-01 --to 2026-11-08

A session is the requests of one client without a pause longer than --gap. A page and what follows it within --burst are one burst:
the page's line, and indented lines. think= is the time in the log from a burst's last request to the next burst. The file has
httperf's --wsesslog format; sessions are in the order of their first requests. A summary is written to stderr.
Formats: --log-format, and vhost_combined with --host; plain or compressed with gzip or zstd (detected by content).")]
pub(crate) struct SessionsOptions {
    /// Access log, plain or compressed with gzip or zstd; - for stdin
    pub log: PathBuf,
    /// Session file to write [default: stdout]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Requests of one client: same address, or same address and user agent
    #[arg(long, value_name = "BY", default_value = "address-agent")]
    pub client: ClientOption,
    /// Pause of a client that ends its session; whole seconds
    #[arg(long, value_name = "TIME", default_value = "30m", value_parser = parse_gap)]
    pub gap: u32,
    /// Requests up to this long after a page are of its burst; whole seconds
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_seconds, hide_short_help = true)]
    pub burst: u32,
    /// Shorten longer think times to this; whole seconds
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub max_think: Option<u32>,
    /// Write the first N sessions to begin, and stop reading when they have ended
    #[arg(long, value_name = "N", value_parser = positive_count)]
    pub max_sessions: Option<u64>,
    /// Take a share of the clients, with all of their sessions, such as 10%
    #[arg(long, value_name = "PERCENT", value_parser = parse_share, hide_short_help = true)]
    pub sample: Option<f64>,
    /// Seed of --sample: another seed takes other clients
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = whole, requires = "sample", hide_short_help = true)]
    pub seed: u64,
    /// Statuses, such as 200,3xx; all for any
    #[arg(long, value_name = "LIST", default_value = "2xx,3xx", value_parser = parse_statuses, hide_short_help = true)]
    pub status: StatusList,
    /// Methods: GET, HEAD, POST, PUT, DELETE, OPTIONS; POST and PUT need a body
    #[arg(long, value_name = "LIST", default_value = "GET,HEAD,POST", value_delimiter = ',', value_parser = parse_method)]
    pub method: Vec<LoggedMethod>,
    /// Body of POST and PUT, which no log contains
    #[arg(long, value_name = "TEXT", conflicts_with = "contents_bytes", hide_short_help = true)]
    pub contents: Option<String>,
    /// Body of POST and PUT: so many bytes, such as 500 (at most 7,998)
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    pub contents_bytes: Option<u64>,
    /// Take paths that match, such as '/shop/*'; * matches slashes, too; repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub include: Vec<Glob>,
    /// Leave out paths that match, such as '*.png'; repeatable
    #[arg(long, value_name = "GLOB", value_parser = parse_glob)]
    pub exclude: Vec<Glob>,
    /// Take requests from this time on, such as 2026-11-22T10:00:00 (UTC) or with +01:00 behind it
    #[arg(long, value_name = "TIME", value_parser = parse_moment, hide_short_help = true)]
    pub from: Option<i64>,
    /// Take requests before this time
    #[arg(long, value_name = "TIME", value_parser = parse_moment, hide_short_help = true)]
    pub to: Option<i64>,
    /// Take requests of this virtual host, which begins each line as in Apache's vhost_combined
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub host: Option<String>,
    /// Format of the log: auto (by its first lines), a name, or a string of a server
    ///
    /// common, combined, vhost_combined, thalweg, caddy, traefik, gcp, alb, cloudfront, haproxy,
    /// iis, w3c; the string of nginx's log_format or Apache's LogFormat;
    /// json:time=NAME,method=NAME,target=NAME for JSON with such members.
    #[arg(long, value_name = "FORMAT", default_value = "auto", value_parser = LogFormatOption::parse, hide_short_help = true)]
    pub log_format: LogFormatOption,
    /// Memory for open sessions; beyond it the longest idle ones are ended
    #[arg(long, value_name = "SIZE", default_value = "48MB", value_parser = parse_memory, hide_short_help = true)]
    pub memory: usize,
    /// End at the first line that has another format; no session file is written then
    #[arg(long, hide_short_help = true)]
    pub strict: bool,
    /// Print the summary as JSON to stdout
    #[arg(long, requires = "out")]
    pub json: bool,
}

/// Which requests are of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ClientOption {
    /// Those from one address
    Address,
    /// Those from one address with one user agent, if the log has it
    AddressAgent,
}

/// Statuses; none means all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StatusList(pub Vec<StatusRange>);

/// The set of these globs; `None` if there is none.
///
/// # Errors
/// Together they are too large.
pub(crate) fn glob_set(globs: &[Glob]) -> Result<Option<GlobSet>, globset::Error> {
    let mut builder = GlobSet::builder();
    for glob in globs {
        builder.add(glob.clone());
    }
    if globs.is_empty() { Ok(None) } else { builder.build().map(Some) }
}

fn parse_seconds(text: &str) -> Result<u32, String> {
    let time = units::parse_seconds(text).ok().filter(|time| *time == Duration::from_secs(time.as_secs()));
    let seconds = time.and_then(|time| u32::try_from(time.as_secs()).ok()).filter(|&seconds| seconds <= GAP_S_MAX);
    seconds.ok_or_else(|| "expected whole seconds, as a log has them, such as 30 or 5m, and at most 24h".to_owned())
}

fn parse_gap(text: &str) -> Result<u32, String> {
    parse_seconds(text)
        .and_then(|seconds| if seconds == 0 { Err("expected at least 1s".to_owned()) } else { Ok(seconds) })
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = parse_percent(text).map_err(|error| error.to_string())?;
    if share > 0.0 { Ok(share) } else { Err("expected more than 0%".to_owned()) }
}

fn parse_memory(text: &str) -> Result<usize, String> {
    const MIN: u64 = 1_000_000;
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    let bytes = usize::try_from(bytes).ok().filter(|_| bytes >= MIN);
    bytes.ok_or_else(|| "expected at least 1MB".to_owned())
}

fn parse_method(text: &str) -> Result<LoggedMethod, String> {
    LoggedMethod::from_name(text).ok_or_else(|| {
        let names = LoggedMethod::ALL.map(LoggedMethod::name).join(", ");
        format!("expected methods of {names}, separated by commas")
    })
}

fn parse_statuses(text: &str) -> Result<StatusList, String> {
    if text == "all" {
        return Ok(StatusList(Vec::new()));
    }
    let range = |item: &str| match item.as_bytes() {
        [class @ b'1'..=b'9', b'x' | b'X', b'x' | b'X'] => {
            let first = u16::from(class - b'0') * 100;
            Some(StatusRange(first, first + 99))
        }
        [_, _, _] => item.parse().ok().map(|status| StatusRange(status, status)),
        _ => None,
    };
    let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
    ranges
        .map(StatusList)
        .ok_or_else(|| "expected statuses such as 200 and 3xx, separated by commas, or all".to_owned())
}

fn parse_glob(text: &str) -> Result<Glob, String> {
    Glob::new(text).map_err(|error| error.to_string())
}

/// Seconds since 1970-01-01 00:00:00 UTC, to which a time without an offset belongs.
fn parse_moment(text: &str) -> Result<i64, String> {
    let in_utc = || text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::UTC)).map(|time| time.timestamp());
    let moment: Result<Timestamp, _> = text.parse().or_else(|_| in_utc());
    moment.map(Timestamp::as_second).map_err(|_| {
        "expected a time such as 2026-11-22, 2026-11-22T10:00:00 (both UTC) or 2026-11-22T10:00:00+01:00".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_single_ones_and_classes() {
        let expected = vec![StatusRange(200, 299), StatusRange(304, 304), StatusRange(400, 499)];
        assert_eq!(parse_statuses("2xx,304,4XX"), Ok(StatusList(expected)));
        assert_eq!(parse_statuses("all"), Ok(StatusList(Vec::new())));
        for wrong in ["", "2x", "20", "0xx", "200-299", "200,", "2xxx"] {
            assert!(parse_statuses(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_without_an_offset_are_in_utc() {
        for text in ["2000-10-10T20:55:36", "2000-10-10 20:55:36", "2000-10-10T13:55:36-07:00", "2000-10-10T20:55:36Z"]
        {
            assert_eq!(parse_moment(text), Ok(971_211_336), "{text}");
        }
        assert_eq!(parse_moment("1970-01-02"), Ok(86_400));
        for wrong in ["", "yesterday", "10/Oct/2000", "2000-13-01", "25:00"] {
            assert!(parse_moment(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn times_are_whole_seconds_of_at_most_a_day() {
        assert_eq!([parse_seconds("0"), parse_seconds("30m"), parse_seconds("24h")], [Ok(0), Ok(1800), Ok(86_400)]);
        assert!(parse_seconds("1500ms").is_err() && parse_seconds("25h").is_err() && parse_gap("0s").is_err());
    }
}
