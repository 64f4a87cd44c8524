//! Options of `thalweg find`.

use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_lab::client_process::ClientShare;
use thalweg_units::{parse_percent, parse_time};

use super::load::LoadOptions;
use super::observe::ObserverOptions;
use super::output::OutputOptions;

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
    /// Longest of the trials that the capacity is estimated from
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10s")]
    pub duration: Duration,
    /// Length of the first, short trials [default: a twentieth of --duration]
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub probe: Option<Duration>,
    /// Width of the capacity's 95 % interval, relative to it, at which the search ends
    #[arg(long, value_name = "SHARE", value_parser = parse_percent, default_value = "3%")]
    pub width: f64,
    /// Maximum total time of all trials
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "10m")]
    pub budget: Duration,
    /// Whether to end with trials of up to twice the capacity, to see what an overload does
    #[arg(long, value_enum, default_value_t = OverloadOption::Yes)]
    pub overload: OverloadOption,
    /// Time for the target to recover from a collapse, before the search gives up
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "60s")]
    pub recovery: Duration,
    /// Only offer a share of the load and print the trial: the search starts itself again so, to
    /// compare one client process with two
    #[arg(long, value_name = "SHARE", value_parser = parse_share, hide = true)]
    pub client_share: Option<ClientShare>,
    /// The load.
    #[command(flatten)]
    pub load: LoadOptions,
    /// Measure what the path carries, by a bulk transfer from the observer after the search
    #[arg(long, requires = "observe")]
    pub path_check: bool,
    /// The observer of the target's host.
    #[command(flatten)]
    pub observer: ObserverOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

fn parse_share(text: &str) -> Result<ClientShare, String> {
    ClientShare::parse(text).ok_or_else(|| "expected RATE,SECONDS,CPU".to_owned())
}

/// Whether a search ends with an overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OverloadOption {
    /// Short trials of up to twice the capacity, then the recovery.
    Yes,
    /// No rate is tried only for the overload: for targets in production.
    No,
}
