//! Options of `thalweg cache`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use thalweg_cache::Key;
use thalweg_units::{parse_link_rate, parse_size};

const EXAMPLES: &str = "\
Examples:
  thalweg cache create /var/cache/thalweg/a --size 10GiB
  thalweg cache stat /var/cache/thalweg/a
  thalweg cache verify /var/cache/thalweg/a
  thalweg cache ls /var/cache/thalweg/a --prefix /debian/dists/
  thalweg cache stat --server 127.0.0.1:9180
  thalweg cache ls --server 127.0.0.1:9180 --token FILE --prefix /debian/dists/
  thalweg cache purge /var/cache/thalweg/a --url https://mirror.example/debian/pool/x.deb
  thalweg cache purge /var/cache/thalweg/a --prefix mirror.example/debian/dists/ --soft
  thalweg cache purge --server 127.0.0.1:9180 --token FILE --url /debian/x.deb
  thalweg cache export /var/cache/thalweg/a --hot 1000
  thalweg cache warm --server http://mirror.example list.txt --rate 500Mbit

docs/cache.md has the format of a volume, how large it should be, and what happens at each fault.";

/// Options of `thalweg cache`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CacheOptions {
    /// The command to run.
    #[command(subcommand)]
    pub command: CacheCommand,
}

/// The commands of `thalweg cache`.
#[derive(Debug, Subcommand)]
pub(crate) enum CacheCommand {
    /// Make a volume: a file of a fixed size, or an existing block device.
    Create(CacheCreateOptions),
    /// Show the state of volumes.
    Stat(CacheSource),
    /// List the objects that are stored.
    Ls(CacheLsOptions),
    /// Read everything and verify it; exit code 1 if something is damaged.
    Verify(CacheVolumes),
    /// Purge objects and groups, from a running server or from all volumes of a cache.
    Purge(CachePurgeOptions),
    /// List the names of what is asked for most.
    Export(CacheExportOptions),
    /// Ask a running server for objects, so that its cache has them.
    Warm(CacheWarmOptions),
}

/// Options of `thalweg cache create`.
#[derive(Debug, Args)]
pub(crate) struct CacheCreateOptions {
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
pub(crate) struct CacheVolumes {
    /// The volumes
    #[arg(required = true, value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Print one JSON array
    #[arg(long)]
    pub json: bool,
}

/// Volumes that no server has open, or a running server.
#[derive(Debug, Args)]
pub(crate) struct CacheSource {
    /// The volumes, which no server has open
    #[arg(required_unless_present = "server", conflicts_with = "server", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Status listener of a running server to look at
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,
    /// File with the server's token for reading, which its `status.read_token` names, or with that
    /// for purges
    #[arg(long, value_name = "FILE", requires = "server")]
    pub token: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Options of `thalweg cache ls`.
#[derive(Debug, Args)]
pub(crate) struct CacheLsOptions {
    /// The volumes or the server.
    #[command(flatten)]
    pub source: CacheSource,
    /// List objects alone whose host and path begin with this, or whose path does if it begins with
    /// a slash
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Option<String>,
}

/// Options of `thalweg cache export`.
#[derive(Debug, Args)]
pub(crate) struct CacheExportOptions {
    /// The volumes or the server.
    #[command(flatten)]
    pub source: CacheSource,
    /// Number of objects, those with the most hits first
    #[arg(long, value_name = "N")]
    pub hot: usize,
}

/// Options of `thalweg cache warm`.
#[derive(Debug, Args)]
pub(crate) struct CacheWarmOptions {
    /// Paths, URLs, or hosts with paths, one on a line, or lines of `thalweg cache export`; - is
    /// standard input
    #[arg(value_name = "LIST")]
    pub list: PathBuf,
    /// URL of the server; the hosts of the list are asked of it
    #[arg(long, value_name = "URL")]
    pub server: String,
    /// The list is an access log (common, combined or JSON): what was requested most comes first
    #[arg(long)]
    pub access_log: bool,
    /// Stop after so many objects
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Number of objects that are read at once
    #[arg(long, value_name = "N", value_parser = parse_concurrency, default_value = "4")]
    pub concurrency: usize,
    /// Bandwidth for all of them together, such as 100Mbit; unlimited if not set
    #[arg(long, value_name = "BITS", value_parser = parse_link_rate)]
    pub rate: Option<u64>,
    /// File (PEM) with the authorities that the server's certificate is verified by
    #[arg(long, value_name = "FILE")]
    pub cacert: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

fn parse_concurrency(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=1000).contains(number));
    number.ok_or_else(|| "expected a number from 1 to 1000".to_owned())
}

/// Options of `thalweg cache purge`.
#[derive(Debug, Args)]
pub(crate) struct CachePurgeOptions {
    /// All volumes of the cache, which no server has open
    #[arg(required_unless_present = "server", conflicts_with = "server", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Status listener of a running server to purge from
    #[arg(long, value_name = "URL", requires = "token")]
    pub server: Option<String>,
    /// File with the server's token, which its `status.purge_token` names
    #[arg(long, value_name = "FILE", requires = "server")]
    pub token: Option<PathBuf>,
    /// Key of an object, as `thalweg cache ls` shows it; repeatable
    #[arg(
        long,
        value_name = "KEY",
        conflicts_with = "server",
        required_unless_present_any = ["group", "url", "prefix", "mount"]
    )]
    pub key: Vec<Key>,
    /// URL of an object, in all its variants; without a host, the path on all hosts; repeatable
    #[arg(long, value_name = "URL")]
    pub url: Vec<String>,
    /// Purge all objects whose host and path begin with this, or whose path does if it begins with
    /// a slash; repeatable
    #[arg(long, value_name = "PREFIX")]
    pub prefix: Vec<String>,
    /// Group of the origin (Cache-Groups) in a mount of a server; the number of a group of volumes;
    /// repeatable
    #[arg(long, value_name = "GROUP")]
    pub group: Vec<String>,
    /// Everything of a mount of a server, such as mirror.example/debian/, or of it the groups;
    /// repeatable
    #[arg(long, value_name = "MOUNT", requires = "server")]
    pub mount: Vec<String>,
    /// Keep what is purged as stale: it is revalidated before it is served again
    #[arg(long)]
    pub soft: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
