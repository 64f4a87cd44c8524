//! `thalweg cache`: volumes of the disk cache, made, shown, verified and purged. `stat`, `ls`,
//! `export` and `verify` read alone; none of these works on a volume that a server has open. `warm`
//! fills the cache of a running server.

mod list;
mod warm;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};
use thalweg_cache::medium::Allocation;
use thalweg_cache::{Cache, Error, Purge, Settings, Shape, Verification};
use thalweg_tier::{Wanted, inventory};
use thalweg_units::display;

use crate::exit::{Exit, Failure, remark};
use crate::options::{
    CacheCommand, CacheCreateOptions, CacheExportOptions, CacheLsOptions, CacheOptions, CachePurgeOptions, CacheSource,
    CacheVolumes,
};
use crate::output::print;
use crate::purge_online::{objects_online, purge_online, volumes_online};
use crate::stored_objects::{begins_with, is_named, row};

/// Runs the command.
///
/// # Errors
/// A volume cannot be made, opened, read or written.
pub(crate) fn cache(options: &CacheOptions) -> Result<ExitCode, Failure> {
    match &options.command {
        CacheCommand::Create(options) => create(options),
        CacheCommand::Stat(options) => stat(options),
        CacheCommand::Ls(options) => list(options),
        CacheCommand::Verify(options) => verify(options),
        CacheCommand::Purge(options) => purge(options),
        CacheCommand::Export(options) => export(options),
        CacheCommand::Warm(options) => warm::warm(options),
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

fn stat(options: &CacheSource) -> Result<ExitCode, Failure> {
    if let Some(server) = &options.server {
        return stat_online(server, options.json);
    }
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

/// The volumes of a running server.
fn stat_online(server: &str, is_json: bool) -> Result<ExitCode, Failure> {
    let volumes = volumes_online(server)?;
    print(&if is_json {
        pretty(&json!(volumes))?
    } else {
        let line = |volume: &Value| {
            let number = |key: &str| volume[key].as_u64().unwrap_or(0);
            let (filled, size) = (number("filled_bytes"), number("size_bytes"));
            let share = if size == 0 { 0.0 } else { filled as f64 / size as f64 };
            format!(
                "{}\n  state       {}\n  filled      {} of {}\n  oldest      {}\n  damaged     {}\n  I/O errors  {}\n",
                volume["volume"].as_str().unwrap_or("-"),
                volume["state"].as_str().unwrap_or("-"),
                display::percent(share),
                display::bytes(size),
                volume["oldest_s"].as_u64().map_or("the first cycle is not over".to_owned(), time),
                display::count(number("damaged")),
                display::count(number("failures")),
            )
        };
        volumes.iter().map(line).collect()
    })?;
    Ok(Exit::Met.into())
}

/// The objects on volumes or of a running server, each once, as rows of JSON.
fn objects(source: &CacheSource, prefix: Option<&str>, hot: Option<usize>) -> Result<Vec<Value>, Failure> {
    if let Some(server) = &source.server {
        let (rows, is_cut_off) = objects_online(server, source.token.as_deref(), (prefix, hot))?;
        if is_cut_off && hot.is_none() {
            remark(&format!("there are more than these {} objects; --prefix shows a part of them", rows.len()));
        }
        return Ok(rows);
    }
    let caches = source.paths.iter().map(|path| open(path)).collect::<Result<Vec<_>, _>>()?;
    let is_named = |name: Option<&str>| match (prefix, name) {
        (Some(prefix), name) => name.is_some_and(|name| begins_with(name, prefix)),
        (None, name) => hot.is_none() || name.is_some(),
    };
    let wanted = Wanted { is_named: &is_named, objects_max: hot.unwrap_or(usize::MAX), hottest: hot.is_some() };
    Ok(inventory(&caches.iter().collect::<Vec<_>>(), wanted).objects.iter().map(row).collect())
}

fn list(options: &CacheLsOptions) -> Result<ExitCode, Failure> {
    let rows = objects(&options.source, options.prefix.as_deref(), None)?;
    print(&if options.source.json {
        pretty(&json!(rows))?
    } else {
        let line = |row: &Value| {
            let number = |key: &str| row[key].as_u64().unwrap_or(0);
            format!(
                "{}  {:>12}  {:>6} fragments  {}  {}{}\n",
                row["key"].as_str().unwrap_or_default(),
                display::bytes(number("stored_bytes")),
                number("fragments"),
                time(number("stored_s")),
                row["name"].as_str().unwrap_or("-"),
                if row["stale"] == true { "  stale" } else { "" }
            )
        };
        rows.iter().map(line).collect()
    })?;
    Ok(Exit::Met.into())
}

/// Names, the most wanted first: what a new cache is warmed with. Of those with the same hits, the
/// ones come first that were fetched last.
fn export(options: &CacheExportOptions) -> Result<ExitCode, Failure> {
    let rows = objects(&options.source, None, Some(options.hot))?;
    print(&if options.source.json {
        let rows = rows.iter().map(|row| {
            json!({
                "name": row["name"], "hits": row["hits"], "stored_bytes": row["stored_bytes"],
                "object_bytes": row["object_bytes"],
            })
        });
        pretty(&json!(rows.collect::<Vec<Value>>()))?
    } else {
        let line = |row: &Value| {
            format!("{}\t{}\t{}\n", row["hits"], row["stored_bytes"], row["name"].as_str().unwrap_or_default())
        };
        rows.iter().map(line).collect()
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
    if let Some(server) = &options.server {
        return purge_online(server, options);
    }
    let failed = |error: Error| {
        let is_locked = matches!(&error, Error::Open { error, .. } if error.kind() == std::io::ErrorKind::ResourceBusy);
        let advice = if is_locked { "; if that is a server, use --server URL --token FILE" } else { "" };
        Failure::unreachable(format!("cannot purge from {}: {error}{advice}", names(&options.paths)))
    };
    let groups = numbers(&options.group)?;
    let cache = Cache::open_whole(&options.paths, Settings::default()).map_err(failed)?;
    let mut keys = BTreeSet::from_iter(options.key.iter().copied());
    let mut named = 0_u64;
    if !options.url.is_empty() || !options.prefix.is_empty() {
        cache.list_heads(&mut |head| {
            let is_meant = head.name.is_some_and(|name| {
                let by_prefix = options.prefix.iter().any(|prefix| begins_with(name, prefix));
                by_prefix || options.url.iter().any(|url| is_named(name, url))
            });
            if is_meant {
                named += 1;
                keys.insert(head.stored.key);
            }
        });
    }
    let of_keys = keys.iter().map(|key| if options.soft { Purge::SoftKey(*key) } else { Purge::Key(*key) });
    let of_groups =
        groups.iter().map(|group| if options.soft { Purge::SoftGroup(*group) } else { Purge::Group(*group) });
    let purges: Vec<Purge> = of_keys.chain(of_groups).collect();
    cache.purge(&purges).map_err(failed)?;
    let count = purges.len();
    print(&if options.json {
        pretty(&json!({
            "schema": "thalweg.cache/1", "keys": keys.len(), "groups": groups.len(), "named": named,
            "soft": options.soft,
        }))?
    } else {
        format!(
            "{count} {}purge{} in force\n",
            if options.soft { "soft " } else { "" },
            if count == 1 { "" } else { "s" }
        )
    })?;
    Ok(Exit::Met.into())
}

/// The numbers of groups on a volume.
fn numbers(groups: &[String]) -> Result<Vec<u32>, Failure> {
    let number = |group: &String| {
        let advice = "a group on a volume has a number; names are for --server";
        group.parse().map_err(|_| Failure::usage(format!("--group {group}: {advice}")))
    };
    groups.iter().map(number).collect()
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
