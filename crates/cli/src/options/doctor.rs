//! Options of `thalweg doctor`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;
use thalweg_doctor::PlannedLoad;

use super::load::parse_sources;
use super::values::{CpuList, parse_cpus};

const EXAMPLES: &str = "\
Examples:
  thalweg doctor --for 'hold 100000 http://10.0.0.1/'
  sudo thalweg doctor --for 'serve 50000' --fix

--help has the loads, more examples and the exit codes.";

/// Options of `thalweg doctor`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg doctor
  thalweg doctor --for 'hold 100000 http://10.0.0.1/' --from 10.0.0.2-10.0.0.9
  thalweg doctor --for 'conn-rate 2000/s calls 10' --json
  thalweg doctor --for 'serve /srv/mirror 50000' --all
  sudo thalweg doctor --for 'serve 50000' --fix
  sudo thalweg doctor --undo

Loads: 'rate R', 'conn-rate R', 'hold N' (each with an optional URL and 'calls N'), 'find URL', 'serve [DIR] [N]'.

Exit codes: 0 nothing or only hints, 1 warnings or errors found, 2 wrong usage, 4 the target has no address, or a
setting could not be changed or put back.")]
pub(crate) struct DoctorOptions {
    /// Load that is planned for this host
    #[arg(long = "for", value_name = "LOAD", default_value = "rate 10000/s", value_parser = parse_load)]
    pub load: PlannedLoad,
    /// Local address or range FIRST-LAST to connect from; repeatable
    #[arg(long, value_name = "ADDRS", value_parser = parse_sources)]
    pub from: Vec<Vec<IpAddr>>,
    /// CPUs for the load threads, such as 1 or 0,2-3 [default: as for run or serve]
    #[arg(long, value_name = "LIST", value_parser = parse_cpus)]
    pub cores: Option<CpuList>,
    /// Show also what is as it should be; with --fix, apply hints too
    #[arg(long)]
    pub all: bool,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Apply the remedies that can be applied now, until the next restart of this host
    #[arg(long, conflicts_with = "undo")]
    pub fix: bool,
    /// Put back every setting that --fix has changed
    #[arg(long)]
    pub undo: bool,
    /// Ask nothing before --fix changes a setting
    #[arg(long, requires = "fix")]
    pub yes: bool,
    /// With --fix, keep the sysctls across restarts, in /etc/sysctl.d/60-thalweg.conf
    #[arg(long, requires = "fix")]
    pub persist: bool,
    /// Folder that stands for the root of the host, for tests
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,
}

fn parse_load(text: &str) -> Result<PlannedLoad, String> {
    text.parse().map_err(|error| format!("{error}"))
}
