//! Options of `thalweg find`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_lab::client_process::ClientShare;
use thalweg_measure::search::EstimateEnd;
use thalweg_units::{parse_percent, parse_seconds};

use super::headings::{OBSERVATION, SEARCH};
use super::load::LoadOptions;
use super::observe::ObserverOptions;
use super::output::OutputOptions;
use super::request::RequestOptions;
use super::values::{parse_length, within};

const EXAMPLES: &str = "\
Examples:
  thalweg find http://127.0.0.1:8080/ --limit 'p99<50ms'
  thalweg find nginx=http://a:8080/ h2o=http://b:8080/ --out both.html";

const MORE_EXAMPLES: &str = "\
Examples:
  thalweg find http://127.0.0.1:8080/ --limit 'p99<50ms'
  thalweg find http://127.0.0.1:8080/ --limit 'p99<10ms' --limit 'errors<0.1%' --out report.html --json
  thalweg find nginx=http://a:8080/ h2o=http://b:8080/ --out both.html
  thalweg find --curl 'curl -H \"A: b\" http://127.0.0.1:8080/'
  thalweg find http://127.0.0.1:8080/ --restarts 5 --restart-cmd 'systemctl restart nginx'

The default limit is p99<50ms. No errors are allowed unless a limit on errors is given.

Several targets are searched one after the other with the same options, and share one report. The exit code is that of the worst.

Exit codes: 0 a rate met the limits, 1 none did, 2 wrong usage, 3 INVALID (the client fell short, or interrupted), 4 target or host
unusable.";

/// Options of `thalweg find`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = MORE_EXAMPLES, next_help_heading = SEARCH)]
pub(crate) struct FindOptions {
    /// URL to request; several are searched in turn
    ///
    /// NAME=URL names a target in texts and reports.
    #[arg(required = true, value_name = "URL", value_parser = NamedUrl::parse, help_heading = None::<&str>)]
    pub targets: Vec<NamedUrl>,
    /// Longest of the trials
    ///
    /// Of those that the capacity is estimated from. -z, as in oha and hey, is the same.
    #[arg(short, long, short_alias = 'z', value_name = "TIME", value_parser = parse_length, default_value = "10s")]
    pub duration: Duration,
    /// Length of the first, short trials [default: a twentieth of --duration]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, hide_short_help = true)]
    pub probe: Option<Duration>,
    /// Width of the 95 % interval to end at, such as 3%
    ///
    /// Of the capacity, relative to it. Without it the search ends after about 45 s, or after
    /// --budget, with the interval that it has then.
    #[arg(long, value_name = "SHARE", value_parser = parse_percent)]
    pub width: Option<f64>,
    /// Maximum total time of all trials [default: 10m with --width, else about 45s]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    pub budget: Option<Duration>,
    /// Whether to end with trials of up to twice the capacity, to see what an overload does
    #[arg(long, value_enum, default_value_t = OverloadOption::Yes, hide_short_help = true)]
    pub overload: OverloadOption,
    /// Time for the target to recover from a collapse, before the search gives up
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "60s", hide_short_help = true)]
    pub recovery: Duration,
    /// Restart the server so many times, search after each, and take the interval across them
    #[arg(long, value_name = "N", value_parser = |text: &str| within::<u32>(text, 2..=100), requires = "restart_cmd", hide_short_help = true)]
    pub restarts: Option<u32>,
    /// Command that restarts the server, or is the server; {n} is the restart's number
    #[arg(long, value_name = "CMD", requires = "restarts", hide_short_help = true)]
    pub restart_cmd: Option<String>,
    /// Time for the server to accept connections after its restart
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "30s", hide_short_help = true)]
    pub restart_timeout: Duration,
    /// Only offer a share of the load and print the trial: the search starts itself again so, to
    /// compare one client process with two
    #[arg(long, value_name = "SHARE", value_parser = parse_share, hide = true)]
    pub client_share: Option<ClientShare>,
    /// The requests.
    #[command(flatten)]
    pub request: RequestOptions,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Measure what the path carries, by a bulk transfer from the observer after the search
    #[arg(long, requires = "observe", help_heading = OBSERVATION, hide_short_help = true)]
    pub path_check: bool,
    /// The observer of the target's host.
    #[command(flatten)]
    pub observer: ObserverOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

impl FindOptions {
    /// When the estimate ends, and how long all trials may take.
    pub(crate) fn end(&self) -> (EstimateEnd, Duration) {
        match (self.width, self.budget) {
            (Some(width), budget) => (EstimateEnd::Width(width), budget.unwrap_or(BUDGET)),
            (None, None) => (EstimateEnd::DEFAULT, BUDGET),
            (None, Some(budget)) => (EstimateEnd::within(budget), budget),
        }
    }
}

/// Time for all trials of a search that was given none.
const BUDGET: Duration = Duration::from_secs(600);

fn parse_share(text: &str) -> Result<ClientShare, String> {
    ClientShare::parse(text).ok_or_else(|| "expected RATE,SECONDS,CPU".to_owned())
}

/// A URL, with the name that its target has in texts and reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedUrl {
    /// The name, if one is given.
    pub name: Option<String>,
    /// The URL.
    pub url: String,
    /// Both as they were given.
    pub given: String,
}

impl NamedUrl {
    /// Longest name.
    const NAME_MAX: usize = 40;

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        // A URL may contain "=" itself, but only behind its scheme.
        let named = text.split_once('=').filter(|(name, _)| !name.contains([':', '/', '?', '#']));
        let Some((name, url)) = named else {
            return Ok(Self { name: None, url: text.to_owned(), given: text.to_owned() });
        };
        if name.trim().is_empty() || name.len() > Self::NAME_MAX || name.chars().any(char::is_control) {
            return Err(format!("expected a name of 1 to {} characters before \"=\"", Self::NAME_MAX));
        }
        Ok(Self { name: Some(name.trim().to_owned()), url: url.to_owned(), given: text.to_owned() })
    }
}

/// Whether a search ends with an overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverloadOption {
    /// Short trials of up to twice the capacity, then the recovery.
    Yes,
    /// No rate is tried only for the overload: for targets in production.
    No,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_before_the_url() {
        let named = |text: &str| NamedUrl::parse(text).map(|named| (named.name.unwrap_or_default(), named.url));
        for (text, name, url) in [
            ("http://a:1/?x=1", "", "http://a:1/?x=1"),
            ("a:1/x=y", "", "a:1/x=y"),
            ("nginx 1.26=http://a:1/?x=1", "nginx 1.26", "http://a:1/?x=1"),
        ] {
            assert_eq!(named(text), Ok((name.to_owned(), url.to_owned())), "{text}");
        }
        assert!(named("=http://a/").is_err() && named(&format!("{}=http://a/", "x".repeat(41))).is_err());
    }
}
