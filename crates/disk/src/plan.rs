//! The plan of a run: every size, and the room that the file system needs for it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use thalweg_sys::{host, proc};
use thalweg_units::display::{self, bytes, count};

use crate::scratch;

/// The least size of the large file.
const SIZE_MIN: u64 = 1 << 20;

/// Share of the free bytes that a default takes at most.
const FREE_SHARE: f64 = 0.8;

/// Bytes of the file that reads by size are made of: that of the source document's script.
const READ_SIZES_BYTES: u64 = 102_400 * 1024;

/// Bytes of each stream's file at most.
const STREAM_BYTES_MAX: u64 = 1 << 30;

/// Bytes that a small file takes beside its contents: an inode and an entry, about a block each.
const SMALL_FILE_BYTES: u64 = 4096;

/// The shortest time of random seeks and of streams: fio takes 0 for no limit.
const TIME_MIN: Duration = Duration::from_millis(1);

/// Direct access needs multiples of the device's block, which is 4 KiB at most.
pub(crate) const DIRECT_ALIGNMENT: u64 = 4096;

/// The settings of a run; the file system decides about some defaults.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder to measure.
    pub folder: PathBuf,
    /// Bytes of the large file; by default twice the memory, as far as there is room.
    pub size: Option<u64>,
    /// Bytes of each read and write of it.
    pub block: u64,
    /// The page cache.
    pub cache: Cache,
    /// The engine.
    pub engine: EngineChoice,
    /// The parts of the run.
    pub parts: Vec<Part>,
    /// Time of the random seeks.
    pub seek_time: Duration,
    /// Number of small files.
    pub files: u64,
    /// Bytes of each.
    pub file_size: u64,
    /// The smallest and the largest size of a read.
    pub read_sizes: (u64, u64),
    /// Whether reads by size are repeated beside a busy thread per CPU.
    pub under_load: bool,
    /// Numbers of streams, ascending.
    pub streams: Vec<usize>,
    /// Rounds of the reads by size and of the streams.
    pub rounds: usize,
    /// Time of one size in one round.
    pub slice: Duration,
    /// Time of one number of streams in one round, at most.
    pub stream_time: Duration,
    /// Seed of contents, names and positions.
    pub seed: u64,
}

/// The page cache while data is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cache {
    /// The file's pages are dropped before each pass.
    Cold,
    /// The file is read once before each pass.
    Warm,
    /// The page cache is bypassed in both directions (`O_DIRECT`).
    Direct,
}

impl Cache {
    /// Its name in results and options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Warm => "warm",
            Self::Direct => "direct",
        }
    }
}

/// The program that moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// fio if it is installed.
    Auto,
    /// fio.
    Fio,
    /// Threads of this process.
    Own,
}

/// A part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The large file.
    Throughput,
    /// Small files.
    Files,
    /// Reads by size.
    ReadSizes,
    /// Several streams.
    Streams,
}

/// A checked plan.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings.
    pub settings: Settings,
    /// The folder without links.
    pub(crate) folder: PathBuf,
    /// Bytes of the large file: a multiple of the block.
    pub(crate) size: u64,
    /// Bytes of the file for reads by size.
    pub(crate) read_sizes_bytes: u64,
    /// Bytes of each stream's file: a multiple of the block.
    pub(crate) stream_bytes: u64,
    /// Bytes of memory.
    pub(crate) memory: u64,
    /// The room before the run.
    pub(crate) room: host::FileSystemRoom,
    /// Folders of other runs, and circumstances that the sizes were chosen under.
    pub(crate) notes: Vec<String>,
}

/// A folder or a size with which nothing can be measured.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The folder cannot be used.
    #[error("cannot measure {folder}: {why}")]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// The reason.
        why: String,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The file system has too little room.
    #[error("{folder} has too little room: {why}")]
    Room {
        /// The folder.
        folder: PathBuf,
        /// Missing room, and what to do.
        why: String,
    },
    /// fio was chosen and does not run.
    #[error("fio does not run ({0}): install the package fio, or use --engine own")]
    NoFio(String),
}

impl Plan {
    /// Checks the settings against the folder and its file system, once the folders of runs that
    /// were killed are removed from it: their room is free again.
    ///
    /// # Errors
    /// The folder does not exist or is not a folder, a setting makes no sense, or there is too
    /// little room.
    pub fn new(settings: Settings) -> Result<Self, PlanError> {
        check(&settings)?;
        let folder = folder_of(&settings.folder)?;
        let others = scratch::others(&folder).map_err(|error| refused(&settings.folder, error.to_string()))?;
        let room = host::room_of(&folder)
            .map_err(|error| refused(&settings.folder, format!("its room is unknown: {error}")))?;
        let memory = proc::host().memory_bytes;
        let mut notes: Vec<String> = others.iter().map(scratch::Other::sentence).collect();
        let size = match settings.size {
            Some(size) => size,
            None => default_size(&settings, memory, room.bytes_free, &mut notes)? / SIZE_MIN * SIZE_MIN,
        };
        let size = whole_blocks(size, settings.block);
        let stream_bytes = whole_blocks((size / most_streams(&settings)).min(STREAM_BYTES_MAX), settings.block);
        let read_sizes_bytes = READ_SIZES_BYTES.min(size);
        let plan = Self { settings, folder, size, read_sizes_bytes, stream_bytes, memory, room, notes };
        plan.check_room()?;
        Ok(plan)
    }

    /// Whether a part is wanted.
    pub(crate) fn has(&self, part: Part) -> bool {
        self.settings.parts.contains(&part)
    }

    /// Bytes that a part needs on the file system. Parts run one after the other.
    pub(crate) fn needs(&self, part: Part) -> u64 {
        match part {
            Part::Throughput => self.size,
            Part::Files => self.settings.files.saturating_mul(self.settings.file_size.saturating_add(SMALL_FILE_BYTES)),
            Part::ReadSizes => self.read_sizes_bytes,
            Part::Streams => self.stream_bytes.saturating_mul(most_streams(&self.settings)),
        }
    }

    fn check_room(&self) -> Result<(), PlanError> {
        let short = |why: String| too_little(&self.settings, &self.notes, why);
        let has_data = self.settings.parts.iter().any(|part| *part != Part::Files);
        if has_data && self.size < SIZE_MIN.max(self.settings.block) {
            return Err(short(format!(
                "a file of at least {} is needed",
                display::size(SIZE_MIN.max(self.settings.block))
            )));
        }
        if self.has(Part::Streams) && self.stream_bytes == 0 {
            let most = most_streams(&self.settings);
            return Err(PlanError::Setting(format!(
                "--size {} leaves none of {most} streams a block of {}: use a larger --size or fewer --streams",
                display::size(self.size),
                display::size(self.settings.block),
            )));
        }
        // File systems need some per cent beside the contents.
        let wants = |part: &Part| self.needs(*part).saturating_add(self.needs(*part) / 50);
        let needed = self.settings.parts.iter().map(wants).max().unwrap_or(0);
        if needed > self.room.bytes_free {
            return Err(short(format!(
                "{} are free and {} are needed; free some, or use a smaller --size or fewer --files",
                bytes(self.room.bytes_free),
                bytes(needed),
            )));
        }
        match self.room.files_free {
            Some(free) if self.has(Part::Files) && free < self.settings.files.saturating_add(2) => Err(short(format!(
                "{} more files can be created and {} are needed; use fewer --files",
                count(free),
                count(self.settings.files.saturating_add(2))
            ))),
            _ => Ok(()),
        }
    }
}

fn refused(folder: &Path, why: String) -> PlanError {
    PlanError::Folder { folder: folder.to_owned(), why }
}

fn folder_of(folder: &Path) -> Result<PathBuf, PlanError> {
    let whole = fs::canonicalize(folder).map_err(|error| {
        refused(
            folder,
            if error.kind() == io::ErrorKind::NotFound { "it does not exist".into() } else { error.to_string() },
        )
    })?;
    if whole.is_dir() { Ok(whole) } else { Err(refused(folder, "it is not a folder".to_owned())) }
}

fn check(settings: &Settings) -> Result<(), PlanError> {
    let wrong = |why: String| Err(PlanError::Setting(why));
    if settings.block == 0 || settings.block > 1 << 30 {
        return wrong("--block is from 1 byte to 1GiB".to_owned());
    }
    if settings.cache == Cache::Direct && !settings.block.is_multiple_of(DIRECT_ALIGNMENT) {
        return wrong(format!("with --cache direct, --block is a multiple of {DIRECT_ALIGNMENT} bytes"));
    }
    if settings.size.is_some_and(|size| whole_blocks(size, settings.block) < SIZE_MIN) {
        return wrong(format!("--size is at least {} in whole blocks of --block", display::size(SIZE_MIN)));
    }
    if settings.seek_time < TIME_MIN || settings.stream_time < TIME_MIN {
        return wrong("--seek-time and --stream-time are at least 1ms".to_owned());
    }
    let (first, last) = settings.read_sizes;
    if first == 0 || first > last || last > READ_SIZES_BYTES {
        return wrong(format!("--read-sizes are FIRST-LAST, from 1 byte to {}", display::size(READ_SIZES_BYTES)));
    }
    Ok(())
}

/// Too little room, with what is known of other runs in the folder.
fn too_little(settings: &Settings, notes: &[String], why: String) -> PlanError {
    let why = [why].iter().chain(notes).map(String::as_str).collect::<Vec<_>>().join("; ");
    PlanError::Room { folder: settings.folder.clone(), why }
}

fn whole_blocks(bytes: u64, block: u64) -> u64 {
    bytes / block * block
}

fn most_streams(settings: &Settings) -> u64 {
    settings.streams.iter().max().map_or(1, |most| *most as u64)
}

fn default_size(settings: &Settings, memory: u64, free: u64, notes: &mut Vec<String>) -> Result<u64, PlanError> {
    if !settings.parts.contains(&Part::Throughput) {
        // The other parts' files have bounds of their own.
        let streams = most_streams(settings).saturating_mul(STREAM_BYTES_MAX);
        return Ok(streams.max(READ_SIZES_BYTES).min((free as f64 * FREE_SHARE) as u64));
    }
    let (wanted, possible) = (memory.saturating_mul(2), (free as f64 * FREE_SHARE) as u64);
    if possible < SIZE_MIN.max(settings.block) {
        let why = format!("{} are free; free some, or measure another folder", bytes(free));
        return Err(too_little(settings, notes, why));
    }
    if possible < wanted {
        notes.push(format!(
            "the large file has {} instead of twice the memory ({}): {} were free, of which it takes {:.0} % at most",
            bytes(possible),
            bytes(wanted),
            bytes(free),
            FREE_SHARE * 100.0
        ));
    }
    Ok(wanted.min(possible))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Settings that are like the command's defaults.
    fn settings(folder: &Path) -> Settings {
        Settings {
            folder: folder.to_owned(),
            size: Some(4 << 20),
            block: 8192,
            cache: Cache::Cold,
            engine: EngineChoice::Own,
            parts: vec![Part::Throughput, Part::Files, Part::ReadSizes, Part::Streams],
            seek_time: Duration::from_secs(1),
            files: 100,
            file_size: 0,
            read_sizes: (1, 102_400),
            under_load: false,
            streams: vec![1, 2, 4],
            rounds: 1,
            slice: Duration::from_millis(1),
            stream_time: Duration::from_secs(1),
            seed: 1,
        }
    }

    #[test]
    fn plans_without_sense_or_room_are_refused() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let file = folder.path().join("file");
        fs::write(&file, "x").expect("a file can be written");
        let check = |change: fn(&mut Settings), folder: &Path, said: &str| {
            let mut settings = settings(folder);
            change(&mut settings);
            let error = Plan::new(settings).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        };
        check(|_| {}, &folder.path().join("missing"), "does not exist");
        check(|_| {}, &file, "not a folder");
        check(|settings| settings.block = 0, folder.path(), "--block");
        check(|settings| settings.size = Some(1), folder.path(), "--size");
        let rounded = |settings: &mut Settings| (settings.size, settings.block) = (Some(1 << 20), 700 << 10);
        check(rounded, folder.path(), "--size is at least 1 MiB in whole blocks");
        check(|settings| settings.seek_time = Duration::ZERO, folder.path(), "--seek-time");
        check(|settings| settings.stream_time = Duration::from_micros(999), folder.path(), "--stream-time");
        check(|settings| settings.read_sizes = (0, 5), folder.path(), "--read-sizes");
        check(|settings| settings.read_sizes = (5, 4), folder.path(), "--read-sizes");
        check(|settings| settings.size = Some(1 << 60), folder.path(), "too little room");
        check(|settings| settings.files = 1 << 40, folder.path(), "too little room");
        check(|settings| settings.files = u64::MAX, folder.path(), "too little room");
        check(|settings| settings.streams = vec![1 << 20], folder.path(), "--streams");
        let direct = |settings: &mut Settings| (settings.cache, settings.block) = (Cache::Direct, 1000);
        check(direct, folder.path(), "--cache direct");
    }

    #[test]
    fn sizes_are_whole_blocks() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let plan = Plan::new(Settings { size: Some((4 << 20) + 5), ..settings(folder.path()) }).expect("a plan");
        assert_eq!((plan.size, plan.stream_bytes), (4 << 20, 1 << 20));
        assert_eq!(plan.needs(Part::Streams), 4 << 20);
    }
}
