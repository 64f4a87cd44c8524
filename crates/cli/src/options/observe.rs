//! Options of `thalweg observe`, and those by which other commands pull from it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use thalweg_units::parse_seconds;

use super::addresses::parse_address;
use super::headings::OBSERVATION;
use super::values::within;

const EXAMPLES: &str = "\
Examples:
  thalweg observe --port 80
  thalweg observe --port 80 --listen :9177 --token-file /etc/thalweg/token

--help has more examples and the exit codes.";

/// Options of `thalweg observe`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg observe --port 80
  thalweg observe --process nginx --json --duration 60s > samples.jsonl
  thalweg observe --port 80 --listen 0.0.0.0:9177 --token-file /etc/thalweg/token

The last one answers a measuring client: thalweg find URL --observe HOST:9177 --observe-token-file FILE.
Figures that this kernel or this user cannot see are listed at the end; most of them need no privilege,
the processes of other users need root.

Exit codes: 0 it worked, 2 wrong usage, 4 the address or a file cannot be used.")]
pub(crate) struct ObserveOptions {
    /// Observe the server that listens on this TCP port
    #[arg(long, value_name = "PORT", value_parser = |text: &str| within::<u16>(text, 1..=65_535), group = "server")]
    pub port: Option<u16>,
    /// Observe this process, and those that share its listening sockets
    #[arg(long, value_name = "PID", value_parser = |text: &str| within::<u32>(text, 1..=4_194_304), group = "server")]
    pub pid: Option<u32>,
    /// Observe the processes of this name
    #[arg(long, value_name = "NAME", group = "server")]
    pub process: Option<String>,
    /// Time between two samples
    #[arg(long, value_name = "TIME", value_parser = parse_interval, default_value = "1s")]
    pub interval: Duration,
    /// Time after which to end [default: at Ctrl-C]
    #[arg(short, long, value_name = "TIME", value_parser = parse_seconds)]
    pub duration: Option<Duration>,
    /// Print each sample as one line of JSON
    #[arg(long)]
    pub json: bool,
    /// Write the samples as lines of JSON to this file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Answer measuring clients at this address, ADDRESS:PORT, PORT for this host alone, or :PORT
    /// for all IPv4 addresses; one that is not loopback needs a token
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub listen: Option<SocketAddr>,
    /// File with the token that clients have to show [default: the variable THALWEG_TOKEN]
    #[arg(long, value_name = "FILE", requires = "listen")]
    pub token_file: Option<PathBuf>,
}

/// The options by which a command pulls the figures of the target's host.
#[derive(Debug, Args)]
#[command(next_help_heading = OBSERVATION)]
pub(crate) struct ObserverOptions {
    /// Pull the figures of the target's host from `thalweg observe` at this address
    #[arg(long, value_name = "HOST:PORT", hide_short_help = true)]
    pub observe: Option<String>,
    /// File with the token that the observer asks for [default: the variable THALWEG_TOKEN]
    #[arg(long, value_name = "FILE", requires = "observe", hide_short_help = true)]
    pub observe_token_file: Option<PathBuf>,
}

/// The kernel's own accounts have a resolution of 10 ms.
fn parse_interval(text: &str) -> Result<Duration, String> {
    const INTERVAL_MIN: Duration = Duration::from_millis(100);
    match parse_seconds(text).map_err(|error| error.to_string())? {
        interval if interval >= INTERVAL_MIN => Ok(interval),
        _ => Err("the kernel's accounts are too coarse for less than 100ms".to_owned()),
    }
}
