//! The result, `thalweg.disk/1`. It is a contract with scripts: fields are added, never renamed or
//! removed. Sizes are bytes, times are seconds, and CPU use is a share of one CPU.

use serde::Serialize;

/// The value of [`Document::schema`].
pub const SCHEMA: &str = "thalweg.disk/1";

/// One result.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Document {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// Version of Thalweg.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, RFC 3339, UTC.
    pub started: String,
    /// The machine.
    pub host: Host,
    /// The file system.
    pub file_system: FileSystem,
    /// The settings, with every default filled in.
    pub settings: SettingsDocument,
    /// Sequential output and input, rewriting, and random seeks, in the order of the passes.
    pub throughput: Vec<Row>,
    /// Creation, examination and deletion of small files, in the order of the passes.
    pub files: Vec<Row>,
    /// Reads by size: on the host as it was, and with busy threads beside them.
    pub read_sizes: Vec<ReadSizes>,
    /// Several sequential streams at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<Streams>,
    /// Circumstances that bear on the figures, one sentence each.
    pub notes: Vec<String>,
    /// Whether every pass was carried out.
    pub complete: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Whether the user ended it.
    pub interrupted: bool,
}

/// The machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Kernel and release.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu_model: String,
    /// CPUs online.
    pub cpus: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// The load average over a minute, before the first pass.
    pub load_average: f64,
}

/// The file system.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileSystem {
    /// The folder that was measured.
    pub folder: String,
    /// Its type, such as `ext4`; empty if the kernel does not tell.
    pub kind: String,
    /// Its device or other source.
    pub source: String,
    /// Its mount options.
    pub options: String,
    /// Bytes in all.
    pub bytes: u64,
    /// Free bytes before the first pass.
    pub bytes_free: u64,
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SettingsDocument {
    /// Bytes of the large file.
    pub size: u64,
    /// Bytes of each read and write of it.
    pub block: u64,
    /// The page cache: `cold`, `warm` or `direct`.
    pub cache: String,
    /// The engine that moved data: `fio 3.33`, for example, or `own`.
    pub engine: String,
    /// Seconds of random seeks.
    pub seek_seconds: f64,
    /// Number of small files.
    pub files: u64,
    /// Bytes of each.
    pub file_size: u64,
    /// Rounds of the reads by size and of the streams.
    pub rounds: usize,
    /// Seed of contents, names and positions.
    pub seed: u64,
}

/// The figure of one pass.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The pass.
    pub pass: Pass,
    /// Bytes, or operations where there are none, per second.
    pub per_second: f64,
    /// The unit of `per_second`.
    pub unit: Unit,
    /// CPU time, user and kernel, over the time of the pass: 1 is one CPU.
    pub cpu: f64,
    /// Seconds.
    pub seconds: f64,
    /// Reads, writes or files.
    pub operations: u64,
    /// Bytes read or written; of the rewriting pass each counts once.
    pub bytes: u64,
    /// Bytes that the device delivered meanwhile; `None` where the kernel does not account for it.
    pub device_read_bytes: Option<u64>,
    /// The engine of this pass.
    pub engine: String,
}

/// The passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pass {
    /// Writing a new file from its beginning to its end.
    OutputByBlock,
    /// Reading each block and writing it back.
    Rewrite,
    /// Reading the file from its beginning to its end.
    InputByBlock,
    /// Reading blocks at random positions, by several threads.
    RandomSeeks,
    /// Creating files whose names are in order.
    SequentialCreate,
    /// Examining them in the order of the folder; reading them if they have contents.
    SequentialStat,
    /// Deleting them in the same order.
    SequentialDelete,
    /// Creating files whose names are in no order.
    RandomCreate,
    /// Examining them in a random order; reading them if they have contents.
    RandomStat,
    /// Deleting them in a random order.
    RandomDelete,
}

impl Pass {
    /// The pass in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::OutputByBlock => "sequential output by block",
            Self::Rewrite => "rewrite",
            Self::InputByBlock => "sequential input by block",
            Self::RandomSeeks => "random seeks",
            Self::SequentialCreate => "sequential create",
            Self::SequentialStat => "sequential stat",
            Self::SequentialDelete => "sequential delete",
            Self::RandomCreate => "random create",
            Self::RandomStat => "random stat",
            Self::RandomDelete => "random delete",
        }
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Unit {
    /// Bytes per second.
    #[serde(rename = "bytes/s")]
    Bytes,
    /// Operations per second.
    #[serde(rename = "operations/s")]
    Operations,
}

/// Reads of a file in the page cache by their size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadSizes {
    /// Threads that did nothing but use CPU time meanwhile.
    pub busy_threads: usize,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// The curve.
    pub points: Vec<ReadSize>,
    /// The most throughput of all sizes, in bytes per second.
    pub height_max: f64,
    /// The median of all sizes.
    pub height_median: f64,
    /// The size with the most throughput.
    pub best_size: u64,
    /// The smallest size with 90 % of it.
    pub sufficient_size: u64,
    /// Deviation of a figure from the line through its neighbours, as a share: the median of the
    /// rounds.
    pub jitter: f64,
    /// The same of each round.
    pub jitter_rounds: Vec<f64>,
    /// The same of the medians of all rounds: deviations that every round has.
    pub bands: f64,
}

/// One size.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReadSize {
    /// Bytes of a read.
    pub size: u64,
    /// Bytes per second: the median of the rounds.
    pub bytes_per_s: f64,
    /// The same in each round.
    pub rounds: Vec<f64>,
}

/// Several sequential streams at once.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Streams {
    /// Bytes of each stream's file.
    pub file_bytes: u64,
    /// The engine.
    pub engine: String,
    /// Numbers of streams in ascending order.
    pub levels: Vec<StreamLevel>,
    /// The course of the throughput.
    pub shape: Shape,
    /// The same in a sentence.
    pub words: String,
}

/// One number of streams.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StreamLevel {
    /// Streams at once.
    pub streams: usize,
    /// Bytes per second of all together: the median of the rounds.
    pub bytes_per_s: f64,
    /// The same in each round.
    pub rounds: Vec<f64>,
    /// CPU use, of the round with that throughput.
    pub cpu: f64,
    /// Seconds of that round.
    pub seconds: f64,
    /// Share of the bytes that the device delivered, over all rounds.
    pub from_device: Option<f64>,
}

/// The course of the throughput over the number of streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Shape {
    /// No more than 10 % below its maximum at any larger number.
    Holds,
    /// More than 10 % below it, and at least half of it.
    Declines,
    /// Less than half of it.
    Collapses,
    /// There are not two numbers to compare.
    Unknown,
}
