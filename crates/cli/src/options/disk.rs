//! Options of `thalweg disk`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use thalweg_disk::{Cache, EngineChoice, Part, Settings};
use thalweg_units::{parse_seconds, parse_size, parse_time};

use super::output::OnInterruptOption;
use super::values::{positive, positive_count, whole};

const EXAMPLES: &str = "\
Examples:
  thalweg disk /srv
  thalweg disk /srv --only throughput --cache direct --block 1MiB

--help has all options, more examples and the exit codes.";

/// Options of `thalweg disk`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = "\
Examples:
  thalweg disk /srv
  thalweg disk /srv --size 2GiB --out disk.html
  thalweg disk /srv --engine own --json
  thalweg disk /srv --only read-sizes --under-load
  thalweg disk /srv --only streams --streams 1,2,4,8,16,32
  thalweg disk /srv --only throughput --cache direct --block 1MiB

Files lie in a folder of their own, thalweg-disk.PID in DIR, which is removed at the end and on Ctrl-C. docs/disk.md has
the meaning of the figures.

Exit codes: 0 all passes ended, 2 wrong usage or a folder that cannot be written to, 3 interrupted, 4 too little room or no fio;
what was measured until then is shown.")]
pub(crate) struct DiskOptions {
    /// Folder on the file system to measure
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Size of the large file [default: twice the memory, and at most 80% of the free bytes]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub size: Option<u64>,
    /// Size of each read and write of large files
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "8KiB")]
    pub block: u64,
    /// Page cache while large files are read
    #[arg(long, value_name = "STATE", default_value = "cold")]
    pub cache: CacheOption,
    /// Program that moves the data of large files
    #[arg(long, value_name = "ENGINE", default_value = "auto")]
    pub engine: EngineOption,
    /// Parts to carry out, comma-separated [default: all]
    #[arg(long, value_name = "PARTS", value_delimiter = ',')]
    pub only: Vec<PartOption>,
    /// Time of the random seeks, at most; from 1ms on
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "10s", hide_short_help = true)]
    pub seek_time: Duration,
    /// Number of small files
    #[arg(long, value_name = "N", value_parser = positive_count, default_value = "16384", hide_short_help = true)]
    pub files: u64,
    /// Size of each small file, up to 1GiB
    #[arg(long, value_name = "SIZE", value_parser = parse_small_size, default_value = "0", hide_short_help = true)]
    pub file_size: u64,
    /// Sizes of the reads from the page cache, FIRST-LAST, 24 per power of ten
    #[arg(long, value_name = "RANGE", value_parser = parse_range, default_value = "1-102400", hide_short_help = true)]
    pub read_sizes: (u64, u64),
    /// Repeat the reads by size beside a busy thread per CPU
    #[arg(long, hide_short_help = true)]
    pub under_load: bool,
    /// Numbers of sequential streams at once, comma-separated
    #[arg(long, value_name = "LIST", value_parser = parse_streams, default_value = "1,2,4,8,16", hide_short_help = true)]
    pub streams: StreamList,
    /// Time of one number of streams in one round, at most; from 1ms on
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, default_value = "5s", hide_short_help = true)]
    pub stream_time: Duration,
    /// Rounds of reads by size and of streams; figures are medians over them
    #[arg(long, value_name = "N", value_parser = positive, default_value = "5", hide_short_help = true)]
    pub rounds: usize,
    /// Time of one size of reads in one round
    #[arg(long, value_name = "TIME", value_parser = parse_time, default_value = "20ms", hide_short_help = true)]
    pub slice: Duration,
    /// Seed of contents, names and positions
    #[arg(long, value_name = "N", value_parser = whole, default_value = "1", hide_short_help = true)]
    pub seed: u64,
    /// Exit code after Ctrl-C or TERM: that of INVALID (3), or of the passes until then (0)
    #[arg(long, value_name = "HOW", default_value = "invalid", hide_short_help = true)]
    pub on_interrupt: OnInterruptOption,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Write a report to this HTML file
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

impl DiskOptions {
    /// The settings of the run.
    pub(crate) fn settings(&self) -> Settings {
        let parts = if self.only.is_empty() { PartOption::value_variants() } else { &self.only };
        Settings {
            folder: self.folder.clone(),
            size: self.size,
            block: self.block,
            cache: self.cache.into(),
            engine: self.engine.into(),
            parts: parts.iter().map(|part| (*part).into()).collect(),
            seek_time: self.seek_time,
            files: self.files,
            file_size: self.file_size,
            read_sizes: self.read_sizes,
            under_load: self.under_load,
            streams: self.streams.0.clone(),
            rounds: self.rounds,
            slice: self.slice,
            stream_time: self.stream_time,
            seed: self.seed,
        }
    }
}

/// States of the page cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CacheOption {
    /// Without the file: its pages are dropped before each pass
    Cold,
    /// With the file: it is read once before each pass
    Warm,
    /// Bypassed for reads and writes (O_DIRECT)
    Direct,
}

impl From<CacheOption> for Cache {
    fn from(option: CacheOption) -> Self {
        match option {
            CacheOption::Cold => Self::Cold,
            CacheOption::Warm => Self::Warm,
            CacheOption::Direct => Self::Direct,
        }
    }
}

/// Engines by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EngineOption {
    /// fio if it is installed, else own
    Auto,
    /// fio; fail if it does not run
    Fio,
    /// Threads of thalweg
    Own,
}

impl From<EngineOption> for EngineChoice {
    fn from(option: EngineOption) -> Self {
        match option {
            EngineOption::Auto => Self::Auto,
            EngineOption::Fio => Self::Fio,
            EngineOption::Own => Self::Own,
        }
    }
}

/// Parts of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PartOption {
    /// Output, rewriting, input and seeks of a large file
    Throughput,
    /// Creation, examination and deletion of small files
    Files,
    /// Reads by size
    ReadSizes,
    /// Several sequential streams at once
    Streams,
}

impl From<PartOption> for Part {
    fn from(option: PartOption) -> Self {
        match option {
            PartOption::Throughput => Self::Throughput,
            PartOption::Files => Self::Files,
            PartOption::ReadSizes => Self::ReadSizes,
            PartOption::Streams => Self::Streams,
        }
    }
}

/// Numbers of streams, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StreamList(pub Vec<usize>);

/// Threads and files of one level at most.
const STREAMS_MAX: usize = 1024;

fn parse_streams(text: &str) -> Result<StreamList, String> {
    let number = |part: &str| positive(part).ok().filter(|number| *number <= STREAMS_MAX);
    let numbers: Option<Vec<usize>> = text.split(',').map(number).collect();
    let mut numbers = numbers.ok_or_else(|| format!("expected numbers from 1 to {STREAMS_MAX}, such as 1,2,4,8"))?;
    numbers.sort_unstable();
    numbers.dedup();
    Ok(StreamList(numbers))
}

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let (first, last) = text.split_once('-').ok_or("expected FIRST-LAST, such as 1-102400 or 512-64KiB")?;
    let size = |text: &str| parse_size(text).map_err(|error| error.to_string());
    Ok((size(first)?, size(last)?))
}

fn parse_small_size(text: &str) -> Result<u64, String> {
    let size = parse_size(text).map_err(|error| error.to_string())?;
    if size <= 1 << 30 { Ok(size) } else { Err("a small file has at most 1GiB".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_and_ranges_are_read() {
        assert_eq!(parse_streams("4,1,2,1"), Ok(StreamList(vec![1, 2, 4])));
        for wrong in ["", "0", "1,", "a", "1-4", "2000"] {
            assert!(parse_streams(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(parse_range("512-64KiB"), Ok((512, 65_536)));
        for wrong in ["", "5", "1-", "-5", "a-b"] {
            assert!(parse_range(wrong).is_err(), "{wrong:?}");
        }
    }
}
