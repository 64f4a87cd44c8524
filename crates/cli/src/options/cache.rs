//! Options of `thalweg cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thalweg_cache::Key;
use thalweg_units::parse_size;

const EXAMPLES: &str = "\
Examples:
  thalweg cache create /var/cache/thalweg/a --size 10GiB
  thalweg cache stat /var/cache/thalweg/a
  thalweg cache verify /var/cache/thalweg/a
  thalweg cache purge /var/cache/thalweg/a --key 5f3c0de1a99b4c27a1f00c9fd80b12ee

docs/cache.md has the format of a volume, how large it should be, and what happens at each fault.";

/// Options of `thalweg cache`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct CacheOptions {
    /// The command to run.
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// The commands of `thalweg cache`.
#[derive(Debug, Subcommand)]
pub enum CacheCommand {
    /// Make a volume: a file of a fixed size, or an existing block device.
    Create(CacheCreateOptions),
    /// Show the state of volumes.
    Stat(CacheVolumes),
    /// List the objects that are stored.
    Ls(CacheVolumes),
    /// Read everything and verify it; exit code 1 if something is damaged.
    Verify(CacheVolumes),
    /// Purge objects and groups, from all volumes of a cache.
    Purge(CachePurgeOptions),
}

/// Options of `thalweg cache create`.
#[derive(Debug, Args)]
pub struct CacheCreateOptions {
    /// The file to make, or a block device
    pub path: PathBuf,
    /// Size of the file; a block device is used whole
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Take all blocks from the file system now, so that it cannot be full later
    #[arg(long)]
    pub allocate: bool,
    /// Size of a stripe: the longest write, and the space that is given up at once
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "4MiB")]
    pub stripe: u64,
    /// Mean size of fragments that the directory has room for
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "16KiB")]
    pub fragment: u64,
    /// Erase what is on the block device
    #[arg(long)]
    pub erase: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Volumes to look at.
#[derive(Debug, Args)]
pub struct CacheVolumes {
    /// The volumes
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg cache purge`.
#[derive(Debug, Args)]
pub struct CachePurgeOptions {
    /// All volumes of the cache
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Key of an object, as `thalweg cache ls` shows it; repeatable
    #[arg(long, value_name = "KEY", required_unless_present = "group")]
    pub key: Vec<Key>,
    /// Number of a group; repeatable
    #[arg(long, value_name = "N")]
    pub group: Vec<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
