//! The options that say where runs are stored, and under which name.

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;

/// The place of the store.
#[derive(Clone, Debug, Args)]
pub(crate) struct StorePlace {
    /// Run store: a file, or none [default: thalweg/runs.sqlite in $XDG_DATA_HOME or
    /// ~/.local/share]
    #[arg(long, value_name = "PATH", env = "THALWEG_STORE", hide_short_help = true)]
    pub store: Option<StorePath>,
}

/// Options of commands that store a run.
#[derive(Clone, Debug, Args)]
pub(crate) struct StoreOptions {
    /// The store.
    #[command(flatten)]
    pub place: StorePlace,
    /// Name of the run in the store, not necessarily unique
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub label: Option<String>,
    /// Remark that is kept with the run
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub note: Option<String>,
}

/// A store's path as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StorePath {
    /// Nothing is stored.
    None,
    /// This file.
    File(PathBuf),
}

impl FromStr for StorePath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "" => Err("expected a path, or none".to_owned()),
            "none" => Ok(Self::None),
            path => Ok(Self::File(path.into())),
        }
    }
}
