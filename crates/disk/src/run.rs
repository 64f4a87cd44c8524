//! A run: its parts in their order, each of which leaves no file behind.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thalweg_sys::proc;
use thalweg_units::display::{bytes, count, percent, size};

use crate::blocks::{self, Access, Passed};
use crate::document::{
    Document, FileSystem, Host, Pass, ReadSizes, Row, SCHEMA, SettingsDocument, StreamLevel, Streams, Unit,
};
use crate::fio::{self, Fio};
use crate::mount;
use crate::plan::{Cache, EngineChoice, Part, Plan, PlanError};
use crate::read_sizes::Reading;
use crate::scaling;
use crate::scratch::Scratch;
use crate::small_files::SmallFiles;
use crate::streams;
use crate::supervision::{Control, PassError, Watcher, supervised};

/// The large file's name.
const DATA: &str = "data";

/// Bytes of a write where the pass is not measured.
const FILL_BLOCK: u64 = 1 << 20;

/// A pass shorter than this, in seconds, has a coarse figure; bonnie++ shows none at all.
const COARSE_S: f64 = 0.5;

/// Share of the bytes that the device has to deliver in a pass that is to be cold.
const COLD_SHARE: f64 = 0.9;

/// Load average per CPU from which a host counts as busy.
const BUSY_LOAD: f64 = 0.3;

/// The origin of a result.
#[derive(Clone, Debug)]
pub struct Origin {
    /// Version of Thalweg.
    pub version: String,
    /// The command line.
    pub command: Vec<String>,
    /// When it began, RFC 3339, UTC.
    pub started: String,
}

/// Carries out a plan. A run that was interrupted, or whose file system is full, gives what it has
/// measured.
///
/// # Errors
/// Nothing can be written to the folder, it has no room for another one, or fio was chosen and does
/// not run.
pub fn measure(plan: &Plan, origin: Origin, watcher: &mut dyn Watcher) -> Result<Document, PlanError> {
    let engine = Engine::choose(plan.settings.engine)?;
    let scratch = Scratch::new(&plan.folder).map_err(|error| {
        let (folder, why) = (plan.settings.folder.clone(), error.to_string());
        if is_full(&error) { PlanError::Room { folder, why } } else { PlanError::Folder { folder, why } }
    })?;
    let mut document = empty(plan, origin, &engine);
    document.notes.extend(plan.notes.iter().cloned());
    document.notes.extend(circumstances(plan, document.host.load_average, document.host.cpus));
    let mut run = Run { plan, engine, folder: scratch.path().to_owned(), document, watcher };
    let ended = run.parts();
    let mut document = run.document;
    document.notes.extend(remarks(plan, &document));
    match ended {
        Ok(()) => document.complete = true,
        Err(stop) => {
            document.interrupted = matches!(stop.error, PassError::Interrupted);
            document.stopped = Some(stop.sentence(&plan.settings.folder));
        }
    }
    Ok(document)
}

/// The program that moves data.
enum Engine {
    Fio(Fio),
    Own,
}

impl Engine {
    fn choose(choice: EngineChoice) -> Result<Self, PlanError> {
        match choice {
            EngineChoice::Own => Ok(Self::Own),
            EngineChoice::Fio => Fio::find().map(Self::Fio).map_err(PlanError::NoFio),
            EngineChoice::Auto => Ok(Fio::find().map_or(Self::Own, Self::Fio)),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Fio(fio) => fio.name(),
            Self::Own => OWN,
        }
    }
}

const OWN: &str = "own";

/// The end of a run before its time.
struct Stop {
    pass: String,
    /// Share of the pass that was done.
    done: f64,
    /// Bytes that the part needs.
    needed: u64,
    error: PassError,
}

impl Stop {
    fn sentence(&self, folder: &Path) -> String {
        let Self { pass, done, needed, error } = self;
        match error {
            PassError::Interrupted => format!("interrupted during the pass \"{pass}\""),
            PassError::Io(error) if is_full(error) => format!(
                "{} is full ({error}): {} of the pass \"{pass}\" were done, and it needs {} in all; free some, or use a smaller \
                 --size or fewer --files",
                folder.display(),
                percent(*done),
                bytes(*needed)
            ),
            error => format!("the pass \"{pass}\" failed in {}: {error}", folder.display()),
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

struct Run<'p> {
    plan: &'p Plan,
    engine: Engine,
    folder: PathBuf,
    document: Document,
    watcher: &'p mut dyn Watcher,
}

impl Run<'_> {
    fn parts(&mut self) -> Result<(), Stop> {
        for part in [Part::Throughput, Part::Files, Part::ReadSizes, Part::Streams] {
            if !self.plan.has(part) {
                continue;
            }
            match part {
                Part::Throughput => self.throughput()?,
                Part::Files => self.small_files()?,
                Part::ReadSizes => self.read_sizes()?,
                Part::Streams => self.streams()?,
            }
        }
        Ok(())
    }

    /// Carries out one pass; `of` is the whole of what it counts.
    fn pass<T: Send>(
        &mut self,
        name: &str,
        [of, needed]: [u64; 2],
        work: impl FnOnce(&Control) -> Result<T, PassError> + Send,
    ) -> Result<T, Stop> {
        self.watcher.on_pass(name);
        let control = Control::default();
        let ended = match self.watcher.wants_stop() {
            true => Err(PassError::Interrupted),
            false => supervised(self.watcher, &control, of, work),
        };
        ended.map_err(|error| {
            let done = control.done().min(of) as f64 / of.max(1) as f64;
            Stop { pass: name.to_owned(), done, needed, error }
        })
    }

    fn throughput(&mut self) -> Result<(), Stop> {
        let (path, size) = (self.folder.join(DATA), self.plan.size);
        let settings = &self.plan.settings;
        let (access, seed, time) =
            (Access { block: settings.block, cache: settings.cache }, settings.seed, settings.seek_time);
        let is_fio = matches!(self.engine, Engine::Fio(_));
        for pass in [Pass::OutputByBlock, Pass::Rewrite, Pass::InputByBlock, Pass::RandomSeeks] {
            let by_fio = is_fio && pass != Pass::Rewrite;
            let path = &path;
            let passed = self.pass(pass.name(), [size, size], |control| match (pass, by_fio) {
                (Pass::OutputByBlock, true) => fio::write(path, size, access, seed, control),
                (Pass::OutputByBlock, false) => blocks::write(path, size, access, seed, control),
                (Pass::Rewrite, _) => blocks::rewrite(path, size, access, control),
                (Pass::InputByBlock, true) => fio::read(path, size, access, control),
                (Pass::InputByBlock, false) => blocks::read(path, size, access, control),
                (_, true) => fio::seek(path, size, access, time, seed, control),
                (_, false) => blocks::seek(path, size, access, time, seed, control),
            })?;
            let engine = if by_fio { self.engine.name() } else { OWN };
            let unit = if pass == Pass::RandomSeeks { Unit::Operations } else { Unit::Bytes };
            self.document.throughput.push(row(pass, unit, passed, engine));
        }
        self.remove("the large file", &path)
    }

    fn small_files(&mut self) -> Result<(), Stop> {
        let settings = &self.plan.settings;
        let (count, size, seed) = (settings.files, settings.file_size, settings.seed);
        let extent = [count, self.plan.needs(Part::Files)];
        for is_sequential in [true, false] {
            let folder = self.folder.join(if is_sequential { "sequential" } else { "random" });
            let made = |_: &Control| Ok(SmallFiles::new(&folder, is_sequential, count, size, seed)?);
            let mut files = self.pass("names of small files", extent, made)?;
            for (step, pass) in files.passes().into_iter().enumerate() {
                let passed = self.pass(pass.name(), extent, |control| match step {
                    0 => files.create(control),
                    1 => files.stat(control),
                    _ => files.delete(control),
                })?;
                self.document.files.push(row(pass, Unit::Operations, passed, OWN));
            }
        }
        Ok(())
    }

    fn read_sizes(&mut self) -> Result<(), Stop> {
        let (path, size) = (self.folder.join("reads"), self.plan.read_sizes_bytes);
        self.fill("the file of the reads by size", &path, size)?;
        let settings = &self.plan.settings;
        let cpus = self.document.host.cpus.max(1);
        for busy_threads in if settings.under_load { vec![0, cpus] } else { vec![0] } {
            let reading = Reading::new(settings.read_sizes, size, settings.rounds, settings.slice, busy_threads);
            let name = if busy_threads == 0 { "reads by size" } else { "reads by size under load" };
            let read: ReadSizes = self.pass(name, [reading.steps(), size], |control| reading.run(&path, control))?;
            self.document.read_sizes.push(read);
        }
        self.remove("the file of the reads by size", &path)
    }

    fn streams(&mut self) -> Result<(), Stop> {
        let settings = &self.plan.settings;
        let (size, folder) = (self.plan.stream_bytes, self.folder.clone());
        let most = settings.streams.iter().max().copied().unwrap_or(0);
        for stream in 0..most {
            self.fill("the files of the streams", &streams::path(&folder, stream), size)?;
        }
        let mut levels = Vec::new();
        for &number in &settings.streams {
            match self.level(number) {
                Ok(level) => levels.push(level),
                Err(stop) => {
                    self.document.streams = self.judged(levels);
                    return Err(stop);
                }
            }
        }
        self.document.streams = self.judged(levels);
        (0..most).try_for_each(|stream| self.remove("the files of the streams", &streams::path(&folder, stream)))
    }

    /// All rounds of one number of streams.
    fn level(&mut self, number: usize) -> Result<StreamLevel, Stop> {
        let settings = &self.plan.settings;
        let access = Access { block: settings.block, cache: settings.cache };
        let (size, folder, time) = (self.plan.stream_bytes, self.folder.clone(), settings.stream_time);
        let by_fio = matches!(self.engine, Engine::Fio(_));
        let name = format!("{number} stream{}", if number == 1 { "" } else { "s" });
        let mut rounds = Vec::new();
        for _ in 0..settings.rounds {
            let passed = self.pass(&name, [size * number as u64, size], |control| {
                let prepare = |stream| match by_fio {
                    true => fio::prepare(&streams::path(&folder, stream), access, control),
                    false => access.prepare(&streams::path(&folder, stream), control),
                };
                (0..number).try_for_each(prepare)?;
                match by_fio {
                    true => fio::streams(&folder, number, access, size, time, control),
                    false => streams::read(&folder, number, access, size, time, control),
                }
            })?;
            rounds.push(passed);
        }
        Ok(stream_level(number, &rounds))
    }

    fn judged(&self, levels: Vec<StreamLevel>) -> Option<Streams> {
        let (shape, words) = scaling::shape(&levels);
        let engine = self.engine.name().to_owned();
        let made = Streams { file_bytes: self.plan.stream_bytes, engine, shape, words, levels };
        (!made.levels.is_empty()).then_some(made)
    }

    /// Writes a file of which only the reading is measured.
    fn fill(&mut self, name: &str, path: &Path, size: u64) -> Result<(), Stop> {
        let access = Access { block: FILL_BLOCK, cache: Cache::Cold };
        let seed = self.plan.settings.seed;
        self.pass(name, [size, size], |control| blocks::write(path, size, access, seed, control)).map(drop)
    }

    fn remove(&mut self, name: &str, path: &Path) -> Result<(), Stop> {
        let error = |error: io::Error| Stop { pass: name.to_owned(), done: 0.0, needed: 0, error: error.into() };
        fs::remove_file(path).map_err(error)
    }
}

fn row(pass: Pass, unit: Unit, passed: Passed, engine: &str) -> Row {
    let Passed { operations, bytes, usage } = passed;
    let amount = if unit == Unit::Bytes { bytes } else { operations };
    Row {
        pass,
        per_second: amount as f64 / usage.seconds,
        unit,
        cpu: usage.cpu_seconds / usage.seconds,
        seconds: usage.seconds,
        operations,
        bytes,
        device_read_bytes: usage.device_read_bytes,
        engine: engine.to_owned(),
    }
}

/// The median of the rounds; of an even number the lower of the two in the middle, so that the CPU
/// use is that of a round.
fn stream_level(streams: usize, rounds: &[Passed]) -> StreamLevel {
    let rate = |passed: &Passed| passed.bytes as f64 / passed.usage.seconds;
    let mut sorted: Vec<&Passed> = rounds.iter().collect();
    sorted.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    let middle = sorted[(sorted.len() - 1) / 2];
    let all: u64 = rounds.iter().map(|passed| passed.bytes).sum();
    let device: Option<u64> = rounds.iter().map(|passed| passed.usage.device_read_bytes).sum();
    StreamLevel {
        streams,
        bytes_per_s: rate(middle),
        rounds: rounds.iter().map(rate).collect(),
        cpu: middle.usage.cpu_seconds / middle.usage.seconds,
        seconds: middle.usage.seconds,
        from_device: device.map(|device| device as f64 / all.max(1) as f64),
    }
}

fn empty(plan: &Plan, origin: Origin, engine: &Engine) -> Document {
    let (host, mount, settings) = (proc::host(), mount::of(&plan.folder), &plan.settings);
    let load_average = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Document {
        schema: SCHEMA.to_owned(),
        version: origin.version,
        command: origin.command,
        started: origin.started,
        host: Host {
            name: host.name,
            kernel: host.kernel,
            cpu_model: host.cpu_model,
            cpus: host.cpus,
            memory_bytes: plan.memory,
            load_average: load_average.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0),
        },
        file_system: FileSystem {
            folder: plan.folder.display().to_string(),
            kind: mount.kind,
            source: mount.source,
            options: mount.options,
            bytes: plan.room.bytes,
            bytes_free: plan.room.bytes_free,
        },
        settings: SettingsDocument {
            size: plan.size,
            block: settings.block,
            cache: settings.cache.name().to_owned(),
            engine: engine.name().to_owned(),
            seek_seconds: settings.seek_time.as_secs_f64(),
            files: settings.files,
            file_size: settings.file_size,
            rounds: settings.rounds,
            seed: settings.seed,
        },
        throughput: Vec::new(),
        files: Vec::new(),
        read_sizes: Vec::new(),
        streams: None,
        notes: Vec::new(),
        complete: false,
        stopped: None,
        interrupted: false,
    }
}

/// The state of page cache and host, before the run.
fn circumstances(plan: &Plan, load: f64, cpus: usize) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.has(Part::Throughput) && plan.settings.cache != Cache::Direct && plan.size < plan.memory.saturating_mul(2) {
        let file =
            format!("the large file ({}) has less than twice the memory ({})", size(plan.size), bytes(plan.memory));
        notes.push(match plan.settings.cache {
            Cache::Warm if plan.size < plan.memory => {
                format!("{file} and is in the page cache: its reads are of memory, not of the device")
            }
            Cache::Warm => format!("{file} and is larger than the memory: the page cache holds a part of it"),
            _ => format!("{file}: the page cache could hold it, and was emptied of it before each pass that reads"),
        });
    }
    if load > BUSY_LOAD * cpus as f64 {
        notes.push(format!("the host was not idle: its load average was {load:.2} on {} CPUs", count(cpus as u64)));
    }
    notes
}

/// The passes whose figures have to be read with care.
fn remarks(plan: &Plan, document: &Document) -> Vec<String> {
    let mut notes = Vec::new();
    if plan.settings.cache != Cache::Warm {
        let reads = document.throughput.iter().filter(|row| row.pass != Pass::OutputByBlock);
        notes.extend(reads.filter_map(|row| {
            let share = row.device_read_bytes? as f64 / row.bytes.max(1) as f64;
            let pass = row.pass.name();
            (share < COLD_SHARE).then(|| {
                format!("{pass}: the device delivered {:.0} % of the bytes, the rest came from memory", share * 100.0)
            })
        }));
        let levels = document.streams.iter().flat_map(|streams| &streams.levels);
        let least = levels.filter_map(|level| level.from_device).reduce(f64::min);
        notes.extend(least.filter(|share| *share < COLD_SHARE).map(|share| {
            format!("streams: the device delivered only {:.0} % of the bytes of some number of streams", share * 100.0)
        }));
    }
    let rows = document.throughput.iter().chain(&document.files);
    let mut coarse: Vec<&str> = rows.filter(|row| row.seconds < COARSE_S).map(|row| row.pass.name()).collect();
    if document.streams.iter().flat_map(|streams| &streams.levels).any(|level| level.seconds < COARSE_S) {
        coarse.push("streams");
    }
    if !coarse.is_empty() {
        let advice = "more data or files make them finer";
        notes.push(format!("shorter than {COARSE_S} s, with coarse figures: {}; {advice}", coarse.join(", ")));
    }
    notes
}
