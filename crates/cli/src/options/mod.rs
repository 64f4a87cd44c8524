//! The commands and their options, as clap reads them. Plans check how they go together.

mod client_tls;
mod compare;
mod demo;
mod disk;
mod doctor;
mod files;
mod find;
mod load;
mod observe;
mod output;
mod reference;
mod replay;
mod report;
mod run;
mod runs;
mod serve;
mod sessions;
mod store;
mod suite;
mod suite_table;
mod sweep;
mod values;
mod yardstick;

pub use client_tls::ClientTlsOptions;
pub use compare::{CompareOptions, RoundsOption};
pub use demo::DemoOptions;
pub use disk::DiskOptions;
pub use doctor::DoctorOptions;
pub use files::FilesOptions;
pub use find::{FindOptions, NamedUrl, OverloadOption};
pub use load::{ArrivalsOption, HttpVersion, LoadOptions, METHOD_DEFAULT};
pub use observe::{ObserveOptions, ObserverOptions};
pub use output::{Format, OutputOptions};
pub use reference::{CompletionsOptions, ManOptions};
pub use replay::ReplayOptions;
pub use report::{ReportFormat, ReportOptions};
pub use run::RunOptions;
pub use runs::RunsOptions;
pub use serve::{SandboxOption, ServeOptions, TlsOption, parse_listen};
pub use sessions::{ClientOption, SessionsOptions, glob_set};
pub use store::{StoreOptions, StorePath, StorePlace};
pub use suite::{SuiteCommand, SuiteOptions, SuiteOriginOptions};
pub use suite_table::SuiteTableOptions;
pub use sweep::SweepOptions;
pub use values::{CpuList, DriverOption, parse_cpus};
pub use yardstick::{LawOption, Preset, StallOption, YardstickOptions};

use clap::{Parser, Subcommand};

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
    /// Offer rates from low to high by a step, to one or several servers.
    Sweep(SweepOptions),
    /// Run the test of a source document: ACME, WebBench, HEAnet, SPECweb96 and 99.
    Suite(SuiteOptions),
    /// Compare two servers, or one before and after a change, in interleaved rounds.
    Compare(CompareOptions),
    /// Replay an access log with its own timing.
    Replay(ReplayOptions),
    /// Turn an access log into a session file.
    Sessions(SessionsOptions),
    /// Report on stored runs, alone or side by side, or bundle them for others.
    Report(ReportOptions),
    /// List the stored runs.
    Runs(RunsOptions),
    /// Write the document tree of a published test, or compare a directory with it.
    Files(FilesOptions),
    /// Serve the files of a directory.
    Serve(ServeOptions),
    /// Serve a small tree on this host, find its capacity, and write a report.
    Demo(DemoOptions),
    /// Show the figures of this host and a server on it, or answer a measuring client with them.
    Observe(ObserveOptions),
    /// Show what on this host would spoil a planned load, and the commands that mend it.
    Doctor(DoctorOptions),
    /// Measure the file system of a folder, and reads of all sizes from the page cache.
    Disk(DiskOptions),
    /// Serve with a known capacity and known faults, to calibrate load generators.
    Yardstick(YardstickOptions),
    /// Print the JSON Schema of the result document.
    Schema,
    /// Write the manual pages of all commands to a folder.
    Man(ManOptions),
    /// Print the completions of commands and options for a shell.
    Completions(CompletionsOptions),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_options_are_consistent() {
        Options::command().debug_assert();
    }
}
