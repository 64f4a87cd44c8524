//! Options of `thalweg suite all`.

use std::path::PathBuf;

use clap::Args;
use thalweg_report::document::SuiteName;

use super::values::{CpuList, parse_cpus, parse_scale, positive, positive_number, whole};

/// Options of `thalweg suite all`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Examples:
  thalweg suite all --servers bench/suites/servers.toml --scale 0.05
  thalweg suite all --servers servers.toml --suites acme-small,acme-big --out today
  thalweg suite all --servers servers.toml --out today --resume

Each server is started for each suite by its command, pinned, awaited, measured by a client process
of its own, and ended. A suite of a server is kept as soon as it has ended, in FOLDER/cells;
--resume measures those that are missing, that failed, that lack a figure, or whose command,
templates, versions or settings have changed. docs/suites.md describes the file of servers.

Exit codes: 0 all was measured, 1 a server failed or a figure is missing, 2 wrong usage, 3 interrupted, 4 this host lacks
something.")]
pub(crate) struct SuiteTableOptions {
    /// File that says how each server is started
    #[arg(long, value_name = "FILE")]
    pub servers: PathBuf,
    /// Suites to run, comma-separated [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub suites: Vec<SuiteName>,
    /// Names of the servers to measure, comma-separated [default: all of the file]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Folder of the results: the report, the table, and all that was measured
    #[arg(long, value_name = "FOLDER", default_value = "thalweg-suites")]
    pub out: PathBuf,
    /// Go on with the results that are in the folder
    #[arg(long)]
    pub resume: bool,
    /// Folder of the document trees; those that are missing are written [default: FOLDER/trees]
    #[arg(long, value_name = "FOLDER", hide_short_help = true)]
    pub trees: Option<PathBuf>,
    /// Share of the suites' times and numbers to run, from 0.001 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = parse_scale)]
    pub scale: f64,
    /// CPUs of each server, such as 0 or 0,2-3 [default: those that the clients do not have; the
    /// first half]
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    pub server_cpus: Option<CpuList>,
    /// CPUs of the clients and of the origin for dynamic content [default: those that the servers
    /// do not have; the second half]
    #[arg(long, value_name = "CPUS", value_parser = parse_cpus)]
    pub client_cpus: Option<CpuList>,
    /// Load for which the tree of specweb96 is made, operations per second
    #[arg(long, value_name = "OPS", default_value_t = 100.0, value_parser = positive_number, hide_short_help = true)]
    pub specweb96_load: f64,
    /// Load for which the tree of specweb99 is made, connections
    #[arg(long, value_name = "N", default_value_t = 100.0, value_parser = positive_number, hide_short_help = true)]
    pub specweb99_load: f64,
    /// acme-modem, heanet, specweb99: maximum connections to try [default: as many as this host
    /// allows]
    #[arg(long, value_name = "N", value_parser = positive, hide_short_help = true)]
    pub max_connections: Option<usize>,
    /// Seed of the trees and of everything random
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole, hide_short_help = true)]
    pub seed: u64,
}
