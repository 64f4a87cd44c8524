//! `thalweg disk`: figures by both engines, and folders that are left as they were.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, run_thalweg, thalweg, until};

const THROUGHPUT: [&str; 4] = ["output-by-block", "rewrite", "input-by-block", "random-seeks"];
const FILES: [&str; 6] =
    ["sequential-create", "sequential-stat", "sequential-delete", "random-create", "random-stat", "random-delete"];

/// Small enough for a second or two.
const SMALL: [&str; 14] = [
    "--size",
    "16MiB",
    "--files",
    "200",
    "--seek-time",
    "100ms",
    "--rounds",
    "2",
    "--slice",
    "1ms",
    "--streams",
    "1,2",
    "--stream-time",
    "200ms",
];

fn folder() -> TempDir {
    TempDir::new().unwrap()
}

fn disk(folder: &Path, options: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["disk", folder.to_str().unwrap()], options].concat())
}

fn document(ended: &ExitedProcess) -> Value {
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(document["schema"], "thalweg.disk/1");
    document
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

fn product<'a>(caches: [&'a str; 3], engines: [&'a str; 2]) -> impl Iterator<Item = (&'a str, &'a str)> {
    caches.into_iter().flat_map(move |cache| engines.map(|engine| (cache, engine)))
}

fn passes(rows: &Value) -> Vec<&str> {
    rows.as_array().unwrap().iter().map(|row| row["pass"].as_str().unwrap()).collect()
}

#[test]
fn each_engine_measures_every_pass_and_leaves_nothing() {
    for (engine, moved_by) in [("own", "own"), ("fio", "fio 3")] {
        let folder = folder();
        let ended = disk(folder.path(), &[&SMALL[..], &["--engine", engine, "--under-load", "--json"]].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let document = document(&ended);
        assert_eq!(document["complete"], true, "{document:#}");
        assert_eq!(passes(&document["throughput"]), THROUGHPUT);
        assert_eq!(passes(&document["files"]), FILES);
        for row in document["throughput"].as_array().unwrap().iter().chain(document["files"].as_array().unwrap()) {
            let pass = row["pass"].as_str().unwrap();
            let is_own = engine == "own" || pass == "rewrite" || FILES.contains(&pass);
            let by = row["engine"].as_str().unwrap();
            assert!(if is_own { by == "own" } else { by.starts_with(moved_by) }, "{row:#}");
            assert!(row["per_second"].as_f64().unwrap() > 0.0 && row["cpu"].as_f64().unwrap() < 8.0, "{row:#}");
        }
        for row in &document["throughput"].as_array().unwrap()[..3] {
            assert_eq!((&row["bytes"], &row["operations"]), (&(16 << 20).into(), &2048.into()), "{row:#}");
        }
        let busy = document["read_sizes"].as_array().unwrap().iter().map(|read| read["busy_threads"].as_u64().unwrap());
        assert!(matches!(busy.collect::<Vec<_>>()[..], [0, cpus] if cpus > 0), "{document:#}");
        let levels = document["streams"]["levels"].as_array().unwrap();
        assert_eq!(levels.iter().map(|level| level["streams"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
        assert!(levels.iter().all(|level| level["bytes_per_s"].as_f64().unwrap() > 0.0), "{levels:#?}");
        assert!(is_empty(folder.path()));
    }
}

/// File systems whose reads are of a device if they are not of the page cache.
const ON_DEVICES: [&str; 3] = ["ext4", "xfs", "btrfs"];

/// A cold or direct read is one of the device, or the result says that it was not, as on a tmpfs; a
/// warm one never is.
#[test]
fn the_result_says_where_bytes_came_from() {
    for (cache, engine) in product(["cold", "direct", "warm"], ["own", "fio"]) {
        let folder = folder();
        let options = ["--only", "throughput", "--size", "8MiB", "--seek-time", "100ms", "--json"];
        let ended = disk(folder.path(), &[&options[..], &["--cache", cache, "--engine", engine]].concat());
        let document = document(&ended);
        let notes = document["notes"].to_string();
        if ended.code == Some(4) && cache == "direct" {
            assert!(ended.stderr.contains("has no direct access: use --cache cold"), "{engine}: {ended:?}");
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: disk: this file system has no direct access");
            continue;
        }
        assert_eq!(ended.code, Some(0), "{cache}, {engine}: {ended:?}");
        assert_eq!(notes.contains("less than twice the memory"), cache != "direct", "{notes}");
        let input = &document["throughput"][2];
        let delivered = input["device_read_bytes"].as_f64().unwrap() / input["bytes"].as_f64().unwrap();
        let is_told = notes.contains("sequential input by block: the device delivered");
        match cache {
            "cold" | "direct" => {
                assert_ne!(delivered >= 0.9, is_told, "{cache}, {engine}: {document:#}");
                let is_of_device = ON_DEVICES.contains(&document["file_system"]["kind"].as_str().unwrap());
                assert!(delivered >= 0.9 || !is_of_device, "{cache}, {engine}: {document:#}");
            }
            _ => assert!(delivered < 0.1 && notes.contains("is in the page cache"), "{engine}: {document:#}"),
        }
    }
}

#[test]
fn text_and_report_have_the_figures() {
    let (folder, report) = (folder(), folder());
    let report = report.path().join("disk.html");
    let ended = disk(
        folder.path(),
        &[&SMALL[..], &["--engine", "own", "--cache", "warm", "--out", report.to_str().unwrap()]].concat(),
    );
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for said in [
        "large file, 16 MiB",
        "  sequential output by block",
        "200 empty files",
        "  random delete",
        "reads of 1 B to 102 KB from the page cache",
        "  jitter",
        "sequential streams, 8 MiB each",
        "Sequential reads are fastest with",
        "and is in the page cache: its reads are of memory",
    ] {
        assert!(ended.stdout.contains(said), "{said}: {}", ended.stdout);
    }
    let page = fs::read_to_string(report).unwrap();
    assert_eq!(page.matches("class=\"chart\"").count(), 2);
    for said in ["reads files sequentially at", "Height ", "Sequential reads are fastest", "thalweg.disk/1"] {
        assert!(page.contains(said), "{said}");
    }
}

#[test]
fn folders_that_cannot_be_measured_are_refused() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let check = |ended: ExitedProcess, code: i32, said: &str| {
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{ended:?}");
        assert!(ended.stderr.contains(said), "{said}: {}", ended.stderr);
    };
    check(disk(&folder.path().join("missing"), &[]), 2, "missing: it does not exist");
    check(disk(&file, &[]), 2, "file: it is not a folder");
    check(disk(folder.path(), &["--size", "1000TiB"]), 4, "has too little room");
    check(disk(folder.path(), &["--cache", "direct", "--block", "1000"]), 2, "--block is a multiple of 4096 bytes");
    check(disk(folder.path(), &["--seek-time", "0s"]), 2, "--seek-time and --stream-time are at least 1ms");
    check(disk(folder.path(), &["--size", "1MiB", "--block", "700KiB"]), 2, "--size is at least 1 MiB in whole blocks");
    let mut without_fio = thalweg(&["disk", folder.path().to_str().unwrap(), "--size", "1MiB", "--engine", "fio"]);
    let ended = Process::start(without_fio.env("PATH", "/nonexistent")).wait(PATIENCE);
    check(ended, 4, "install the package fio, or use --engine own");
    let closed = folder.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o500)).unwrap();
    // In a user namespace without users even root has to keep to permissions.
    let mut command = Command::new("unshare");
    command.args(["--user", env!("CARGO_BIN_EXE_thalweg"), "disk", closed.to_str().unwrap(), "--size", "1MiB"]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if ended.stderr.contains("unshare") {
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: disk: this host allows no user namespaces: {}", ended.stderr);
        return;
    }
    check(ended, 2, "Permission denied");
}

/// Starts a run that takes much longer than a test, in a process group as a shell makes it, and
/// waits for its data.
fn long_run(folder: &Path, engine: &str) -> (Process, PathBuf) {
    let options = ["--size", "256MiB", "--block", "16", "--engine", engine, "--json"];
    let mut command = thalweg(&[&["disk", folder.to_str().unwrap()], &options[..]].concat());
    let run = Process::start(command.process_group(0));
    let scratch = folder.join(format!("thalweg-disk.{}", run.id()));
    until("the data", PATIENCE, || fs::metadata(scratch.join("data")).is_ok_and(|data| data.len() > 0).then_some(()));
    (run, scratch)
}

#[test]
fn an_interrupted_run_leaves_nothing() {
    for (engine, signal) in [("own", "INT"), ("fio", "INT"), ("own", "TERM")] {
        let folder = folder();
        let (run, _) = long_run(folder.path(), engine);
        // Ctrl-C on a terminal reaches the whole group.
        let script = format!("kill -s {signal} -- -{}", run.id());
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success(), "{script}");
        let ended = run.wait(PATIENCE);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let document = document(&ended);
        assert_eq!((&document["complete"], &document["throughput"]), (&false.into(), &Value::Array(Vec::new())));
        assert_eq!(document["stopped"], "interrupted during the pass \"sequential output by block\"");
        assert!(ended.stderr.contains("incomplete"), "{}", ended.stderr);
        assert!(is_empty(folder.path()), "{engine}, {signal}");
    }
}

#[test]
fn the_folder_of_a_killed_run_is_removed_by_the_next_one() {
    let folder = folder();
    let (killed, scratch) = long_run(folder.path(), "own");
    killed.signal("KILL");
    killed.wait(PATIENCE);
    assert!(scratch.join("data").exists());
    let document = document(&disk(folder.path(), &["--only", "files", "--files", "10", "--json"]));
    let told = document["notes"].to_string();
    assert!(told.contains(&format!("removed {}, which a run that was killed had left", scratch.display())), "{told}");
    assert!(is_empty(folder.path()));
}

/// A file system without room for a folder is too small, and not one that cannot be written to.
#[test]
fn a_file_system_without_room_for_a_folder_is_too_small() {
    let folder = folder();
    let place = folder.path().to_str().unwrap();
    // The only inode is that of its own folder.
    let script = format!("mount -t tmpfs -o size=8m,nr_inodes=1 none {place} || exit 99; exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "disk", place, "--only", "throughput", "--size", "1MiB"]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if ended.code == Some(99) || ended.stderr.contains("unshare") {
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: disk: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(4), ""), "{ended:?}");
    assert!(ended.stderr.contains("has too little room: No space left on device"), "{ended:?}");
}

/// The data of a killed run once counted as taken, so that the next one found too little room.
#[test]
fn the_room_of_a_killed_run_is_free_for_the_next_one() {
    let folder = folder();
    let place = folder.path().to_str().unwrap();
    // The same command twice, of which the first is killed as soon as most of its data is there.
    let script = format!(
        "mount -t tmpfs -o size=96m none {place} || exit 99; \"$@\" --block 64 > /dev/null & run=$!
        data={place}/thalweg-disk.$run/data
        until test \"$(stat -c %s $data 2> /dev/null || echo 0)\" -gt 50000000; do kill -0 $run || exit 98; done
        kill -KILL $run; wait $run; test -e $data || exit 97; \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "disk", place, "--engine", "own", "--only", "throughput"]);
    command.args(["--size", "64MiB", "--seek-time", "10ms", "--json"]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if ended.code == Some(99) || ended.stderr.contains("unshare") {
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: disk: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let document = document(&ended);
    assert_eq!(passes(&document["throughput"]), THROUGHPUT, "{document:#}");
    assert!(document["notes"].to_string().contains("which a run that was killed had left"), "{document:#}");
}

/// Fills a small disk beside a run that creates files, and expects the run to end with what it has
/// measured.
#[test]
fn a_full_disk_ends_a_run_with_what_was_measured() {
    let folder = folder();
    let place = folder.path().to_str().unwrap();
    let script = format!("mount -t tmpfs -o size=230m none {place} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "disk", place, "--engine", "own", "--only", "throughput,files"]);
    command.args(["--size", "1MiB", "--seek-time", "10ms", "--files", "50000", "--file-size", "1", "--json"]);
    let mut run = Process::start(&mut command);
    // As its namespace sees it.
    let seen = PathBuf::from(format!("/proc/{}/root{place}", run.id()));
    let scratch = seen.join(format!("thalweg-disk.{}", run.id()));
    until("small files", PATIENCE, || (scratch.join("sequential").exists() || run.ended().is_some()).then_some(()));
    if run.ended().is_some() && run.stderr().contains("mount") {
        let _ =
            writeln!(std::io::stderr(), "\nSKIPPED: disk: this host allows no mounts ({}); run as root", run.stderr());
        return;
    }
    let (chunk, mut filler) = (vec![b'x'; 1 << 20], File::create(seen.join("filler")).ok());
    until("its end", PATIENCE, || {
        // Until there is no room, and again what others free.
        while filler.as_mut().is_some_and(|filler| filler.write_all(&chunk).is_ok()) {}
        run.ended().map(drop)
    });
    drop(filler);
    let ended = run.wait(PATIENCE);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let document = document(&ended);
    assert_eq!(passes(&document["throughput"]), THROUGHPUT, "{document:#}");
    let stopped = document["stopped"].as_str().unwrap();
    assert!(stopped.contains(" is full (") && stopped.contains("create\" were done, and it needs 205 MB"), "{stopped}");
    assert!(ended.stderr.contains(stopped), "{}", ended.stderr);
}

/// A full disk that fio meets is told as one of ours.
#[test]
fn a_disk_that_fio_finds_full_is_told_as_such() {
    let folder = folder();
    let place = folder.path().to_str().unwrap();
    let script = format!("mount -t tmpfs -o size=300m none {place} && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "disk", place, "--engine", "fio", "--only", "throughput"]);
    command.args(["--size", "256MiB", "--block", "16", "--json"]);
    let mut run = Process::start(&mut command);
    let seen = PathBuf::from(format!("/proc/{}/root{place}", run.id()));
    let data = seen.join(format!("thalweg-disk.{}/data", run.id()));
    until("data", PATIENCE, || (data.exists() || run.ended().is_some()).then_some(()));
    if run.ended().is_some() && run.stderr().contains("mount") {
        let _ =
            writeln!(std::io::stderr(), "\nSKIPPED: disk: this host allows no mounts ({}); run as root", run.stderr());
        return;
    }
    let mut filler = File::create(seen.join("filler")).unwrap();
    let chunk = vec![b'x'; 1 << 20];
    while filler.write_all(&chunk).is_ok() {}
    let ended = run.wait(PATIENCE);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    let stopped = document(&ended)["stopped"].as_str().unwrap().to_owned();
    assert!(
        stopped.contains(" is full (") && stopped.contains("\"sequential output by block\" were done"),
        "{stopped}"
    );
}
