//! `thalweg cache`: volumes are made, filled by the library, shown, verified and purged.

use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;
use thalweg_cache::{Cache, Description, Head, Key, Part, Settings};

use crate::process::{ExitedProcess, run_thalweg};

fn cache(arguments: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["cache"], arguments].concat())
}

/// A volume of 16 MiB.
fn volume(folder: &TempDir, name: &str) -> PathBuf {
    let path = folder.path().join(name);
    let ended = cache(&["create", path.to_str().unwrap(), "--size", "16MiB", "--stripe", "256KiB"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("16 MiB"), "{ended:?}");
    path
}

fn open(paths: &[PathBuf]) -> Cache {
    Cache::open(paths, Settings::default()).unwrap()
}

fn key(object: u32) -> Key {
    Key::of(&object.to_le_bytes())
}

fn fill(paths: &[PathBuf]) {
    let cache = open(paths);
    for object in 0..20 {
        let description = Description { version: 1, object_bytes: 20_000, groups: [object % 2 + 1, 0, 0, 0] };
        cache.append(key(object), Part::HEAD, description, b"fields").unwrap();
        cache.append(key(object), Part::fragment(0), description, &[object as u8; 20_000]).unwrap();
    }
    cache.flush().unwrap();
}

fn document(ended: &ExitedProcess) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn listed(path: &Path) -> Vec<String> {
    let rows = document(&cache(&["ls", path.to_str().unwrap(), "--json"]));
    rows.as_array().unwrap().iter().map(|row| row["key"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_volume_is_made_shown_verified_and_purged() {
    let folder = TempDir::new().unwrap();
    let path = volume(&folder, "volume");
    let place = path.to_str().unwrap();
    fill(std::slice::from_ref(&path));
    let stat = document(&cache(&["stat", place, "--json"]));
    assert_eq!((&stat[0]["size_bytes"], &stat[0]["fragments"]), (&(16 << 20).into(), &40.into()), "{stat}");
    assert!(cache(&["stat", place]).stdout.contains("fragments   40\n"));
    assert_eq!(listed(&path).len(), 20);
    let text = cache(&["ls", place]).stdout;
    assert!(text.contains(&format!("{}       20.0 KB       1 fragments", key(3))), "{text}");
    let verified = cache(&["verify", place]);
    assert_eq!(verified.code, Some(0));
    assert!(verified.stdout.contains("40 fragments with 400 KB are right; 0 damaged"), "{verified:?}");

    let one = key(3).to_string();
    let purged = cache(&["purge", place, "--key", &one]);
    assert_eq!((purged.code, &*purged.stdout), (Some(0), "1 purge in force\n"));
    assert!(!listed(&path).contains(&one));
    let purged = cache(&["purge", place, "--group", "1", "--json"]);
    assert_eq!(document(&purged)["groups"], 1);
    let left = listed(&path);
    // A fragment that shares a slot with a purge goes with it.
    assert!((6..=9).contains(&left.len()), "{left:?}");
    assert!(left.iter().all(|held| (0..20).any(|object| object % 2 == 1 && key(object).to_string() == *held)));
    let cache = open(&[path]);
    assert!(cache.lookup(key(3), Part::HEAD).unwrap().is_none());
}

#[test]
fn objects_are_listed_purged_and_exported_by_name() {
    let folder = TempDir::new().unwrap();
    let path = volume(&folder, "volume");
    let place = path.to_str().unwrap();
    let filled = open(std::slice::from_ref(&path));
    let names = ["a.example/debian/dists/x", "a.example/debian/pool/y", "b.example/debian/pool/y", "b.example/z"];
    for (object, name) in (0..).zip(names) {
        let head = Head { name, rest: b"fields" }.encode().unwrap();
        let description = Description { version: 1, object_bytes: 1000, ..Description::default() };
        filled.append(key(object), Part::HEAD, description, &head).unwrap();
        filled.append(key(object), Part::fragment(0), description, &[0; 1000]).unwrap();
        (0..object).for_each(|_| assert!(filled.lookup(key(object), Part::HEAD).unwrap().is_some()));
    }
    filled.checkpoint().unwrap();
    drop(filled);
    let listed = |arguments: &[&str]| -> Vec<(String, bool)> {
        let rows = document(&cache(&[&["ls", place, "--json"], arguments].concat()));
        let row = |row: &Value| (row["name"].as_str().unwrap().to_owned(), row["stale"] == true);
        let mut names: Vec<_> = rows.as_array().unwrap().iter().map(row).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(listed(&[]), names.map(|name| (name.to_owned(), false)));
    assert_eq!(listed(&["--prefix", "/debian/pool/"]).len(), 2);
    assert_eq!(listed(&["--prefix", "https://a.example/debian/pool/"]).len(), 1);
    let hot = cache(&["export", place, "--hot", "2"]).stdout;
    assert_eq!(hot, "3\t1019\tb.example/z\n2\t1031\tb.example/debian/pool/y\n");
    let hot = document(&cache(&["export", place, "--hot", "9", "--json"]));
    assert_eq!(
        (hot.as_array().unwrap().len(), &hot[0]["hits"], &hot[0]["name"]),
        (4, &3.into(), &"b.example/z".into())
    );

    let soft = cache(&["purge", place, "--prefix", "a.example/", "--soft"]);
    assert_eq!((soft.code, &*soft.stdout), (Some(0), "2 soft purges in force\n"));
    let stale = listed(&[]);
    assert_eq!(stale.len(), 4);
    assert!(stale[0].1 && stale[1].1, "{stale:?}");
    let purged = cache(&["purge", place, "--url", "/debian/pool/y", "--json"]);
    let purged = document(&purged);
    assert_eq!((&purged["keys"], &purged["named"]), (&2.into(), &2.into()));
    let left: Vec<_> = listed(&[]).into_iter().map(|(name, _)| name).collect();
    assert_eq!(left, [names[0], names[3]]);
    assert_eq!(cache(&["purge", place, "--prefix", "c.example/"]).stdout, "0 purges in force\n");
}

#[test]
fn damage_is_found() {
    let folder = TempDir::new().unwrap();
    let path = volume(&folder, "volume");
    fill(std::slice::from_ref(&path));
    let mut bytes = std::fs::read(&path).unwrap();
    // A body of 20,000 equal bytes.
    let at = bytes.windows(1000).position(|window| window.iter().all(|byte| *byte == 7)).unwrap();
    bytes[at + 500] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let verified = cache(&["verify", path.to_str().unwrap(), "--json"]);
    assert_eq!(verified.code, Some(1));
    let document = document(&verified);
    assert_eq!((&document[0]["damaged"], &document[0]["fragments"]), (&1.into(), &39.into()));
}

#[test]
fn a_purge_needs_all_volumes_of_a_cache() {
    let folder = TempDir::new().unwrap();
    let paths = [volume(&folder, "a"), volume(&folder, "b")];
    fill(&paths);
    let [a, b] = [paths[0].to_str().unwrap(), paths[1].to_str().unwrap()];
    let refused = cache(&["purge", a, "--group", "1"]);
    assert_eq!(refused.code, Some(4));
    assert!(refused.stderr.contains("1 volumes were named, and the cache of the first one has 2"), "{refused:?}");
    assert_eq!(cache(&["purge", a, b, "--group", "1"]).code, Some(0));
    let left = listed(&paths[0]).len() + listed(&paths[1]).len();
    assert!((5..=10).contains(&left), "{left} objects are left, of 10 in the other group");
}

#[test]
fn wrong_volumes_are_refused_with_the_reason() {
    let folder = TempDir::new().unwrap();
    let path = volume(&folder, "volume");
    let place = path.to_str().unwrap();
    let none = folder.path().join("none");
    let none = none.to_str().unwrap();
    let held = open(std::slice::from_ref(&path));
    let cases: [(&[&str], i32, &str); 7] = [
        (&["create", place, "--size", "64MiB"], 2, "the file exists"),
        (&["create", "/nowhere/volume", "--size", "100MiB"], 2, "No such file"),
        (&["create", none], 2, "--size 10GiB"),
        (&["create", none, "--size", "1MiB"], 2, "the smallest one has about"),
        (&["create", none, "--size", "100MiB", "--stripe", "100KB"], 2, "a power of two"),
        (&["stat", place], 4, "another process has the volume open"),
        (&["stat", "/etc/passwd"], 4, "no volume of a cache"),
    ];
    for (arguments, code, part) in cases {
        let ended = cache(arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    drop(held);
    assert!(!Path::new(none).exists());
    assert_eq!(cache(&["stat", place]).code, Some(0));
}
