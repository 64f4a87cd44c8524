//! Options of `thalweg report`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::store::StorePlace;

const EXAMPLES: &str = "\
Examples:
  thalweg report last --out report.html
  thalweg report last --bundle nginx.tar.zst

--help has more examples, and how runs are named.";

/// Options of `thalweg report`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg report last --out report.html
  thalweg report last last~1 last~2 --out three-servers.html
  thalweg report 20260314T150926 --format tsv
  thalweg report nginx.json apache.json --out both.svg
  thalweg report last --bundle nginx.tar.zst --attach /etc/nginx/nginx.conf
  thalweg report nginx.tar.zst --out report.html

A run is named by its id in the store, a prefix of it, last, last~1 and so on, by the path of a result in JSON (- for stdin), or by
the path of a bundle. A bundle has everything that an independent party needs; its report is the same everywhere, byte for byte.")]
pub(crate) struct ReportOptions {
    /// Run, JSON file or bundle; several are shown side by side
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<String>,
    /// Format of the report [default: by the name of --out, else html]
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<ReportFormat>,
    /// File to write [default: stdout]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Chart of the SVG, such as throughput or response-time [default: the first]
    #[arg(long, value_name = "NAME")]
    pub chart: Option<String>,
    /// Write a bundle: FILE.tar.zst, FILE.tar.gz or a new folder
    #[arg(long, value_name = "PATH")]
    pub bundle: Option<PathBuf>,
    /// File to put into the bundle, such as the server's configuration; repeatable
    #[arg(long, value_name = "FILE", requires = "bundle")]
    pub attach: Vec<PathBuf>,
    /// The store.
    #[command(flatten)]
    pub place: StorePlace,
}

/// Forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// One page, complete in itself
    Html,
    /// One chart
    Svg,
    /// Table; of several runs one line per target and rate
    Tsv,
    /// The same with commas
    Csv,
    /// The result document; of several runs an array
    Json,
    /// Human-readable text
    Text,
    /// JUnit's XML, a test suite for each run
    Junit,
    /// Annotations of GitHub Actions
    Github,
    /// Metrics in Prometheus' text format
    Prometheus,
}
