//! Options of `thalweg suite`.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Args, Subcommand};
use thalweg_lab::servers::is_dynamic_path;
use thalweg_lab::suite::{CLIENTS, SuiteName};
use thalweg_units::{parse_link_rate, parse_seconds};

use super::addresses::parse_address;
use super::client_tls::ClientTlsOptions;
use super::headings::{CLIENT, CONNECTIONS};
use super::load::parse_sources;
use super::output::OutputOptions;
use super::routing::RoutingOptions;
use super::suite_table::SuiteTableOptions;
use super::values::{CpuList, DriverOption, parse_cpus, parse_scale, positive, whole, within};

const EXAMPLES: &str = "\
Examples:
  thalweg suite acme-small http://127.0.0.1:8080/ --out acme-small.html

--help has all options, the suites, more examples and the exit codes.";

/// Options of `thalweg suite`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = EXAMPLES, after_long_help = "\
Suites:
  acme-small   operations per second, 1000 files of 512 bytes, one request per connection
  acme-spec    operations per second, a mix of files from 102 bytes to 900 KB
  acme-big     bits per second, ten files of 5 MB
  acme-modem   simultaneous downloads of these files at 33.6 kbit/s
  webbench     requests and bytes per second over the number of threads, their peak and shape
  heanet       ab on files of four sizes, autobench, concurrent downloads
  specweb96    operations per second over a tree that grows with the load
  specweb99    simultaneous connections that make 320 kbit/s

The server has to have the tree of the suite beneath URL; `thalweg files NAME DIR` writes it. docs/suites.md has the rules.

Examples:
  thalweg files acme-small /srv/suite && thalweg serve /srv/suite --listen 127.0.0.1:8080
  thalweg suite acme-small http://127.0.0.1:8080/ --out acme-small.html
  thalweg suite webbench http://127.0.0.1:8080/ --scale 0.01 --clients 1,16,64,144
  thalweg suite acme-modem http://127.0.0.1:8080/ --max-connections 20000 --json

Exit codes: 0 all figures were measured, 1 the server has kept one from being measured, 2 wrong usage, 3 INVALID (the client fell short,
or interrupted), 4 target or host unusable, or the tree is not there.")]
pub(crate) struct SuiteOptions {
    /// Another thing to do.
    #[command(subcommand)]
    pub command: Option<SuiteCommand>,
    /// Suite
    #[arg(value_name = "NAME", value_parser = parse_name, required = true)]
    pub name: Option<SuiteName>,
    /// URL beneath which the server has the suite's tree
    #[arg(value_name = "URL", required = true)]
    pub url: Option<String>,
    /// Share of the suite's times and numbers to run, above 0 and up to 1
    #[arg(long, value_name = "SHARE", value_parser = parse_scale, default_value_t = 1.0, hide_short_help = true)]
    pub scale: f64,
    /// specweb96, specweb99: operations per second or connections for which the tree was written
    /// [default: 100, as of `thalweg files`]
    #[arg(long, value_name = "N", value_parser = parse_load, hide_short_help = true)]
    pub load: Option<f64>,
    /// webbench: clients of each mix, two threads each [default: 1,16,32,...,144]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = |text: &str| within::<u32>(text, 1..=100_000), hide_short_help = true)]
    pub clients: Vec<u32>,
    /// webbench: longest random delay before a client's first request
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "0s", hide_short_help = true)]
    pub start_delay: Duration,
    /// heanet: read rate of each of the concurrent downloads
    #[arg(long, value_name = "BITS", value_parser = parse_link_rate, default_value = "33.6kbit", hide_short_help = true)]
    pub pace: u64,
    /// acme-modem, heanet, specweb99: maximum connections to try [default: as many as this host
    /// allows]
    #[arg(long, value_name = "N", value_parser = positive, hide_short_help = true)]
    pub max_connections: Option<usize>,
    /// specweb99: path of the dynamic requests [default: only static ones are made]
    #[arg(long, value_name = "PATH", value_parser = parse_path, hide_short_help = true)]
    pub dynamic: Option<String>,
    /// Maximum time of a request; of a paced download without a byte, which waits at least 10 s.
    /// heanet's autobench has its own
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5s", help_heading = CONNECTIONS, hide_short_help = true)]
    pub timeout: Duration,
    /// The way to the target.
    #[command(flatten)]
    pub routing: RoutingOptions,
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
    /// Seed of the tree and of all random choices
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole, help_heading = CLIENT, hide_short_help = true)]
    pub seed: u64,
    /// TLS.
    #[command(flatten)]
    pub tls: ClientTlsOptions,
    /// The output.
    #[command(flatten)]
    pub output: OutputOptions,
}

/// The commands of `thalweg suite` beside a suite itself.
#[derive(Debug, Subcommand)]
pub(crate) enum SuiteCommand {
    /// Run the suites with several servers, each started by its command, and write one table.
    All(SuiteTableOptions),
    /// Answer specweb99's dynamic requests behind a server under test.
    Origin(SuiteOriginOptions),
}

/// Options of `thalweg suite origin`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  thalweg suite origin --listen 127.0.0.1:8090
  thalweg suite specweb99 http://127.0.0.1:8080/ --dynamic /dynamic

The server at 8080 forwards /dynamic/ to 127.0.0.1:8090.

It is minimal and not SPEC-compliant: responses have as many bytes as the file that a request names, and a cookie with the next
advertisement. It runs until INT or TERM.")]
pub(crate) struct SuiteOriginOptions {
    /// Address to listen at: ADDRESS:PORT, PORT for this host alone, or :PORT for all IPv4
    /// addresses
    #[arg(short = 'p', long, alias = "port", value_name = "ADDR", value_parser = parse_address, default_value = "127.0.0.1:8090")]
    pub listen: SocketAddr,
    /// Kernel interface
    #[arg(long, value_name = "DRIVER", default_value = "auto")]
    pub driver: DriverOption,
}

impl SuiteOptions {
    /// The clients of the mixes, ascending.
    pub(crate) fn clients(&self) -> Vec<u32> {
        let mut clients = if self.clients.is_empty() { CLIENTS.to_vec() } else { self.clients.clone() };
        clients.sort_unstable();
        clients.dedup();
        clients
    }
}

fn parse_name(text: &str) -> Result<SuiteName, String> {
    text.parse().map_err(|error| format!("{error}"))
}

fn parse_load(text: &str) -> Result<f64, String> {
    let load = text.parse().ok().filter(|load: &f64| load.is_finite() && *load >= 1.0);
    load.ok_or_else(|| "expected a number of at least 1".to_owned())
}

fn parse_path(text: &str) -> Result<String, String> {
    if is_dynamic_path(text) { Ok(text.to_owned()) } else { Err("expected a path, such as /dynamic".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_are_shares() {
        assert_eq!([parse_scale("1"), parse_scale("0.01")], [Ok(1.0), Ok(0.01)]);
        for wrong in ["0", "-1", "1.1", "nan", "inf", "", "1%"] {
            assert!(parse_scale(wrong).is_err(), "{wrong:?}");
        }
        for wrong in ["", "dynamic", "/a b", "/a?b"] {
            assert!(parse_path(wrong).is_err(), "{wrong:?}");
        }
    }
}
