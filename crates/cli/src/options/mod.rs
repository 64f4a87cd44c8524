//! The commands and their options, as clap reads them. Plans check how they go together.

mod addresses;
mod cache;
mod client_tls;
mod colour;
mod compare;
mod demo;
mod disk;
mod doctor;
mod files;
mod find;
mod headings;
mod load;
mod log_format;
mod manual;
mod observe;
mod output;
mod progress;
mod proxy;
mod replay;
mod report;
mod request;
mod routing;
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

pub(crate) use addresses::parse_listen;
pub(crate) use cache::{
    CacheCommand, CacheCreateOptions, CacheExportOptions, CacheLsOptions, CacheOptions, CachePurgeOptions, CacheSource,
    CacheVolumes, CacheWarmOptions,
};
pub(crate) use client_tls::ClientTlsOptions;
pub(crate) use colour::ColorOption;
pub(crate) use compare::{CompareOptions, RoundsOption};
pub(crate) use demo::DemoOptions;
pub(crate) use disk::DiskOptions;
pub(crate) use doctor::DoctorOptions;
pub(crate) use files::FilesOptions;
pub(crate) use find::{FindOptions, NamedUrl, OverloadOption};
pub(crate) use load::{AddressesOption, HttpVersion, LoadOptions, REDIRECTS_BY_DEFAULT, REDIRECTS_MAX};
pub(crate) use manual::{CompletionsOptions, ManOptions};
pub(crate) use observe::{ObserveOptions, ObserverOptions};
pub(crate) use output::{Format, OnInterruptOption, OutputOptions};
pub(crate) use progress::{ProgressForm, ProgressOptions};
pub(crate) use replay::ReplayOptions;
pub(crate) use report::{ReportFormat, ReportOptions};
pub(crate) use request::{ArrivalsOption, Body, RequestOptions};
pub(crate) use run::RunOptions;
pub(crate) use runs::RunsOptions;
pub(crate) use serve::{SandboxOption, ServeOptions, TlsOption};
pub(crate) use sessions::{ClientOption, SessionsOptions, glob_set};
pub(crate) use store::{StoreOptions, StorePath, StorePlace};
pub(crate) use suite::{SuiteCommand, SuiteOptions, SuiteOriginOptions};
pub(crate) use suite_table::SuiteTableOptions;
pub(crate) use sweep::SweepOptions;
pub(crate) use values::{CpuList, DriverOption, parse_cpus};
pub(crate) use yardstick::{LawOption, Preset, StallOption, YardstickOptions};

use clap::{Parser, Subcommand};

/// Measures the capacity of web servers, and serves files.
#[derive(Debug, Parser)]
#[command(name = "thalweg", version, max_term_width = 100)]
pub(crate) struct Options {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,
    /// Colours: auto, always or never
    // The top level has a short help alone, which long help of any of its options would change.
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        default_value = "auto",
        display_order = 1000,
        hide_possible_values = true
    )]
    pub color: ColorOption,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one trial: offer a load and account for every request.
    Run(RunOptions),
    /// Find the capacity within limits, and the bottleneck.
    Find(FindOptions),
    /// Offer rates from low to high, to one or several servers.
    Sweep(SweepOptions),
    /// Run a published test: ACME, WebBench, HEAnet, SPECweb96 and 99.
    Suite(SuiteOptions),
    /// Compare two servers, or one before and after a change.
    Compare(CompareOptions),
    /// Replay an access log with its own timing.
    Replay(ReplayOptions),
    /// Turn an access log into a session file.
    Sessions(SessionsOptions),
    /// Report on stored runs, alone or side by side, or bundle them.
    Report(ReportOptions),
    /// List the stored runs.
    Runs(RunsOptions),
    /// Write the document tree of a published test, or verify it.
    Files(FilesOptions),
    /// Serve the files of a directory.
    Serve(ServeOptions),
    /// Make, show and purge the volumes of a disk cache.
    Cache(CacheOptions),
    /// Serve a small tree, find its capacity, and write a report.
    Demo(DemoOptions),
    /// Show figures of this host, or answer a measuring client.
    Observe(ObserveOptions),
    /// Show what on this host would spoil a load, and mend it.
    Doctor(DoctorOptions),
    /// Measure the file system of a folder, and its page cache.
    Disk(DiskOptions),
    /// Serve with a known capacity, to calibrate load generators.
    Yardstick(YardstickOptions),
    /// Print the JSON Schema of the result document.
    Schema,
    /// Print the completions of bash, zsh or fish.
    #[command(hide = true)]
    Completions(CompletionsOptions),
    /// Print the manual page of a command, or write all pages to a folder.
    #[command(hide = true)]
    Man(ManOptions),
}

impl Command {
    /// The name on the command line, and the options of its output, if it leaves a result.
    pub(crate) fn output(&self) -> Option<(&'static str, &OutputOptions)> {
        match self {
            Self::Run(options) => Some(("run", &options.output)),
            Self::Find(options) => Some(("find", &options.output)),
            Self::Sweep(options) => Some(("sweep", &options.output)),
            Self::Suite(options) => options.command.is_none().then_some(("suite", &options.output)),
            Self::Compare(options) => Some(("compare", &options.output)),
            Self::Replay(options) => Some(("replay", &options.output)),
            _ => None,
        }
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
}
