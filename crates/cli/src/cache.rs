//! `thalweg cache`: volumes of the disk cache, made, shown, verified and purged. `stat`, `ls`,
//! `export` and `verify` read alone; none of these works on a volume that a server has open. `warm`
//! fills the cache of a running server.

mod list;
mod warm;

use std::collections::{BTreeMap, BTreeSet};
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
use crate::options::{
    CacheCommand, CacheCreateOptions, CacheExportOptions, CacheLsOptions, CacheOptions, CachePurgeOptions, CacheVolumes,
};
use crate::output::print;
use crate::purge_online::purge_online;

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
    name: Option<String>,
    fragments: u64,
    bytes: u64,
    object_bytes: u64,
    stored_s: u64,
    hits: u8,
    is_stale: bool,
}

/// The objects on these volumes, by their keys.
fn objects(paths: &[PathBuf]) -> Result<BTreeMap<Key, Object>, Failure> {
    let mut objects: BTreeMap<Key, Object> = BTreeMap::new();
    for path in paths {
        let cache = open(path)?;
        cache.list(&mut |stored| {
            let object = objects.entry(stored.key).or_default();
            object.fragments += u64::from(stored.part.number().is_some());
            object.bytes += u64::from(stored.bytes);
            object.object_bytes = object.object_bytes.max(stored.description.object_bytes);
            object.stored_s = object.stored_s.max(stored.stored_s);
            object.hits = object.hits.max(stored.hits);
        });
        cache.list_heads(&mut |head| {
            let object = objects.entry(head.stored.key).or_default();
            object.name = head.name.map(ToOwned::to_owned);
            object.is_stale = head.stored.is_stale;
        });
    }
    Ok(objects)
}

/// A pattern of names: with a host, or the path on all hosts.
fn without_scheme(pattern: &str) -> &str {
    let rest = pattern.strip_prefix("https://").or_else(|| pattern.strip_prefix("http://"));
    rest.unwrap_or(pattern)
}

/// The parts of a name and of a pattern that are compared: the paths alone, if the pattern has no
/// host, or the name has none since its site answers for all hosts.
fn compared<'a>(name: &'a str, pattern: &'a str) -> (&'a str, &'a str) {
    let path = |text: &'a str| text.find('/').map_or("", |slash| &text[slash..]);
    let pattern = without_scheme(pattern);
    if pattern.starts_with('/') || name.starts_with('/') { (path(name), path(pattern)) } else { (name, pattern) }
}

fn begins_with(name: &str, prefix: &str) -> bool {
    let (name, prefix) = compared(name, prefix);
    name.starts_with(prefix)
}

fn is_named(name: &str, url: &str) -> bool {
    let (name, url) = compared(name, url);
    name == url
}

fn list(options: &CacheLsOptions) -> Result<ExitCode, Failure> {
    let mut objects = objects(&options.volumes.paths)?;
    if let Some(prefix) = &options.prefix {
        objects.retain(|_, object| object.name.as_ref().is_some_and(|name| begins_with(name, prefix)));
    }
    print(&if options.volumes.json {
        let rows = objects.iter().map(|(key, object)| {
            json!({
                "key": key.to_string(), "name": object.name, "fragments": object.fragments, "stored_bytes": object.bytes,
                "object_bytes": object.object_bytes, "stored_s": object.stored_s, "hits": object.hits,
                "stale": object.is_stale,
            })
        });
        pretty(&json!(rows.collect::<Vec<Value>>()))?
    } else {
        let rows = objects.iter().map(|(key, object)| {
            let Object { name, fragments, bytes, stored_s, is_stale, .. } = object;
            let name = name.as_deref().unwrap_or("-");
            let stale = if *is_stale { "  stale" } else { "" };
            format!(
                "{key}  {:>12}  {fragments:>6} fragments  {}  {name}{stale}\n",
                display::bytes(*bytes),
                time(*stored_s)
            )
        });
        rows.collect()
    })?;
    Ok(Exit::Met.into())
}

/// Names, the most wanted first: what a new cache is warmed with.
fn export(options: &CacheExportOptions) -> Result<ExitCode, Failure> {
    let named =
        objects(&options.volumes.paths)?.into_values().filter_map(|mut object| Some((object.name.take()?, object)));
    let mut named: Vec<(String, Object)> = named.collect();
    // Of those with the same hits, the ones that were fetched last.
    named.sort_by(|(name, a), (other, b)| {
        b.hits.cmp(&a.hits).then(b.stored_s.cmp(&a.stored_s)).then_with(|| name.cmp(other))
    });
    named.truncate(options.hot);
    print(&if options.volumes.json {
        let rows = named.iter().map(|(name, object)| {
            json!({ "name": name, "hits": object.hits, "stored_bytes": object.bytes, "object_bytes": object.object_bytes })
        });
        pretty(&json!(rows.collect::<Vec<Value>>()))?
    } else {
        named.iter().map(|(name, object)| format!("{}\t{}\t{name}\n", object.hits, object.bytes)).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_with_a_host_or_the_path_on_all_hosts() {
        let name = "a.example/debian/x";
        for (prefix, begins) in [
            ("a.example/debian/", true),
            ("https://a.example/deb", true),
            ("http://a.example/debian/x", true),
            ("/debian/", true),
            ("debian/", false),
            ("b.example/", false),
            ("/x", false),
            ("", true),
        ] {
            assert_eq!(begins_with(name, prefix), begins, "{prefix}");
        }
        for (url, is) in [("https://a.example/debian/x", true), ("/debian/x", true), ("/debian/", false), ("x", false)]
        {
            assert_eq!(is_named(name, url), is, "{url}");
        }
        // A site without a host answers for all of them.
        for (url, is) in [("https://a.example/x", true), ("b.example/x", true), ("/x", true), ("a.example/y", false)] {
            assert_eq!((is_named("/x", url), begins_with("/x", url)), (is, is), "{url}");
        }
    }
}
