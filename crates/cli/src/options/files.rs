//! Options of `thalweg files`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use thalweg_trees::TreeName;
use thalweg_units::parse_size;

use super::values::{positive_number, whole};

const EXAMPLES: &str = "\
Examples:
  thalweg files acme-spec /srv/acme-spec
  thalweg files mirror /srv/mirror --size 200GB --sparse 1MB --verify

--help has more examples and the exit codes.";

/// Options of `thalweg files`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg files acme-spec /srv/acme-spec
  thalweg files specweb99 /srv/specweb99 --load 500 --urls specweb99.urls
  thalweg run http://127.0.0.1:8080/ --urls specweb99.urls --pick weighted --rate 1000/s
  thalweg files mirror /srv/mirror --size 200GB --sparse 1MB
  thalweg files mirror /srv/mirror --size 200GB --sparse 1MB --verify

A tree depends on nothing but its name and the options --seed, --load, --size and --sparse: give the
same ones to verify it. docs/suites.md says where each figure comes from.

Exit codes: 0 written, or as it should be; 1 differences; 2 wrong usage; 4 the directory cannot be
written or read.")]
pub(crate) struct FilesOptions {
    /// Tree to write
    #[arg(value_name = "NAME", value_parser = tree_names())]
    pub name: TreeName,
    /// Directory to write to, which is empty or does not exist
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Seed of contents, and of a mirror's names and sizes
    #[arg(long, value_name = "N", value_parser = whole, default_value = "1")]
    pub seed: u64,
    /// Load that the tree is made for: operations per second of specweb96, simultaneous connections
    /// of specweb99 [default: 100]
    #[arg(long, value_name = "N", value_parser = positive_number)]
    pub load: Option<f64>,
    /// Size of a mirror, such as 200GB [default: 1GB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Size from which on files of a mirror are holes behind 4 KiB of random bytes [default: none
    /// is]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub sparse: Option<u64>,
    /// Compare the directory with the tree instead of writing it
    #[arg(long)]
    pub verify: bool,
    /// File to write with each path and its weight, for run --urls FILE --pick weighted
    #[arg(long, value_name = "FILE")]
    pub urls: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
}

fn tree_names() -> impl TypedValueParser<Value = TreeName> {
    PossibleValuesParser::new(TreeName::ALL.map(TreeName::as_str)).try_map(|name| name.parse())
}
