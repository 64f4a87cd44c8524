//! `thalweg cache`: volumes of the disk cache, made, shown, verified and purged. `stat`, `ls` and
//! `verify` read alone; none of the commands works on a volume that a server has open.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use thalweg_cache::medium::Allocation;
use thalweg_cache::{Cache, Error, Key, Purge, Settings, Shape, Verification};
use thalweg_units::display;

use crate::exit::{Exit, Failure};
use crate::options::{CacheCommand, CacheCreateOptions, CacheOptions, CachePurgeOptions, CacheVolumes};
use crate::output::print;

/// Runs the command.
///
/// # Errors
/// A volume cannot be made, opened, read or written.
pub fn cache(options: &CacheOptions) -> Result<ExitCode, Failure> {
    match &options.command {
        CacheCommand::Create(options) => create(options),
        CacheCommand::Stat(options) => stat(options),
        CacheCommand::Ls(options) => list(options),
        CacheCommand::Verify(options) => verify(options),
        CacheCommand::Purge(options) => purge(options),
    }
}

fn create(options: &CacheCreateOptions) -> Result<ExitCode, Failure> {
    let path = &options.path;
    let narrow = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    let shape = Shape { stripe_bytes: narrow(options.stripe), fragment_bytes_mean: narrow(options.fragment) };
    let refuse = |error: String| Failure::usage(format!("cannot make the volume {}: {error}", path.display()));
    let is_device = fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device());
    let made = match (is_device, options.size) {
        (true, Some(_)) => return Err(refuse("a block device is used whole; leave --size away".to_owned())),
        (true, None) if !options.erase => {
            return Err(refuse("everything on this block device would be lost; add --erase if it may".to_owned()));
        }
        (true, None) => Cache::format(path, shape),
        (false, None) => return Err(refuse("a file needs a size, such as --size 10GiB".to_owned())),
        (false, Some(size)) => {
            let allocation = if options.allocate { Allocation::Whole } else { Allocation::Sparse };
            Cache::create(path, size, allocation, shape)
        }
    };
    made.map_err(|error| match error {
        Error::Open { error, .. } if error.kind() == std::io::ErrorKind::AlreadyExists => {
            refuse("the file exists; remove it first if nothing needs it".to_owned())
        }
        Error::Open { error, .. } => refuse(error.to_string()),
        error => refuse(error.to_string()),
    })?;
    let volume = open(path)?;
    let statistics = volume.statistics();
    let (size, capacity) = (volume.volumes()[0].size(), statistics.capacity_bytes);
    print(&if options.json {
        let document = json!({
            "schema": "thalweg.cache/1", "path": path, "size_bytes": size, "capacity_bytes": capacity,
            "memory_bytes_max": statistics.memory_bytes_max,
        });
        pretty(&document)?
    } else {
        format!(
            "{}: {}, {} for fragments; a server with it needs up to {} of memory\n",
            path.display(),
            display::size(size),
            display::bytes(capacity),
            display::bytes(statistics.memory_bytes_max)
        )
    })?;
    Ok(Exit::Met.into())
}

fn stat(options: &CacheVolumes) -> Result<ExitCode, Failure> {
    let (mut text, mut rows) = (String::new(), Vec::new());
    for path in &options.paths {
        let cache = open(path)?;
        let (volume, statistics) = (&cache.volumes()[0], cache.statistics());
        let fragments = volume.fragments();
        rows.push(json!({
            "schema": "thalweg.cache/1", "path": path, "id": format!("{:016x}", volume.id()), "size_bytes": volume.size(),
            "capacity_bytes": statistics.capacity_bytes, "filled_bytes": statistics.filled_bytes,
            "fragments": fragments, "directory_bytes": statistics.directory_bytes,
            "memory_bytes_max": statistics.memory_bytes_max, "oldest_s": statistics.oldest_s,
            "damaged_checkpoints": statistics.damaged_checkpoints,
        }));
        let share = statistics.filled_bytes as f64 / statistics.capacity_bytes as f64;
        let written = writeln!(
            text,
            "{}\n  size        {}\n  filled      {} of {}\n  fragments   {}\n  memory      up to {}, of which directory {}\n  oldest      {}",
            path.display(),
            display::size(volume.size()),
            display::percent(share),
            display::bytes(statistics.capacity_bytes),
            display::count(fragments),
            display::bytes(statistics.memory_bytes_max),
            display::bytes(statistics.directory_bytes),
            statistics.oldest_s.map_or("the first cycle is not over".to_owned(), time),
        );
        written.expect("a string takes everything");
        if statistics.damaged_checkpoints > 0 {
            let damaged = statistics.damaged_checkpoints;
            writeln!(text, "  checkpoints {damaged} damaged").expect("a string takes everything");
        }
    }
    print(&if options.json { pretty(&json!(rows))? } else { text })?;
    Ok(Exit::Met.into())
}

/// The parts of an object that are stored.
#[derive(Default)]
struct Object {
    fragments: u64,
    bytes: u64,
    object_bytes: u64,
    stored_s: u64,
}

fn list(options: &CacheVolumes) -> Result<ExitCode, Failure> {
    let mut objects: BTreeMap<Key, Object> = BTreeMap::new();
    for path in &options.paths {
        open(path)?.list(&mut |stored| {
            let object = objects.entry(stored.key).or_default();
            object.fragments += u64::from(stored.part.number().is_some());
            object.bytes += u64::from(stored.bytes);
            object.object_bytes = object.object_bytes.max(stored.description.object_bytes);
            object.stored_s = object.stored_s.max(stored.stored_s);
        });
    }
    print(&if options.json {
        let rows = objects.iter().map(|(key, object)| {
            json!({
                "key": key.to_string(), "fragments": object.fragments, "stored_bytes": object.bytes,
                "object_bytes": object.object_bytes, "stored_s": object.stored_s,
            })
        });
        pretty(&json!(rows.collect::<Vec<Value>>()))?
    } else {
        let rows = objects.iter().map(|(key, object)| {
            let Object { fragments, bytes, stored_s, .. } = object;
            format!("{key}  {:>12}  {fragments:>6} fragments  {}\n", display::bytes(*bytes), time(*stored_s))
        });
        rows.collect()
    })?;
    Ok(Exit::Met.into())
}

fn verify(options: &CacheVolumes) -> Result<ExitCode, Failure> {
    let (mut text, mut rows, mut is_whole) = (String::new(), Vec::new(), true);
    for path in &options.paths {
        let cache = open(path)?;
        let checkpoints = cache.statistics().damaged_checkpoints;
        let Verification { fragments, bytes, damaged, unwritten, unreadable, purged } = cache.verify();
        is_whole &= damaged + unreadable + checkpoints == 0;
        rows.push(json!({
            "schema": "thalweg.cache/1", "path": path, "fragments": fragments, "bytes": bytes, "damaged": damaged,
            "unwritten": unwritten, "unreadable": unreadable, "purged": purged, "damaged_checkpoints": checkpoints,
        }));
        let written = writeln!(
            text,
            "{}: {} fragments with {} are right; {damaged} damaged, {unwritten} unwritten, {unreadable} unreadable, \
             {checkpoints} checkpoints damaged",
            path.display(),
            display::count(fragments),
            display::bytes(bytes)
        );
        written.expect("a string takes everything");
    }
    print(&if options.json { pretty(&json!(rows))? } else { text })?;
    Ok(if is_whole { Exit::Met } else { Exit::NotMet }.into())
}

fn purge(options: &CachePurgeOptions) -> Result<ExitCode, Failure> {
    let failed = |error: Error| Failure::unreachable(format!("cannot purge from {}: {error}", names(&options.paths)));
    let cache = Cache::open_whole(&options.paths, Settings::default()).map_err(failed)?;
    let keys = options.key.iter().map(|key| Purge::Key(*key));
    let purges: Vec<Purge> = keys.chain(options.group.iter().map(|group| Purge::Group(*group))).collect();
    cache.purge(&purges).map_err(failed)?;
    let count = purges.len();
    print(&if options.json {
        pretty(&json!({ "schema": "thalweg.cache/1", "keys": options.key.len(), "groups": options.group.len() }))?
    } else {
        format!("{count} purge{} in force\n", if count == 1 { "" } else { "s" })
    })?;
    Ok(Exit::Met.into())
}

/// Opens one volume for reading.
fn open(path: &Path) -> Result<Cache, Failure> {
    Cache::open_read_only(path, Settings::default()).map_err(|error| {
        let error = match error {
            Error::Open { error, .. } => error.to_string(),
            error => error.to_string(),
        };
        Failure::unreachable(format!("cannot open the volume {}: {error}", path.display()))
    })
}

fn names(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

fn time(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.to_string())
}

fn pretty(document: &Value) -> Result<String, Failure> {
    Ok(serde_json::to_string_pretty(document).map_err(Failure::unreachable)? + "\n")
}
