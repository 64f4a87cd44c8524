//! The run store: what is kept of runs that end, fail, or are killed, and a store that cannot be
//! used.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, STORE, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};

fn server() -> Recorder {
    Recorder::start(|_| Response::good("ok"))
}

/// A short run that is stored at `store`.
fn run(url: &str, store: &str, more: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["run", url, "--rate", "50/s", "--duration", "200ms", "--store", store], more].concat())
}

/// The stored runs, the latest first.
fn runs(store: &str) -> Vec<Value> {
    let listed = run_thalweg(&["runs", "--json", "--store", store]);
    assert_eq!(listed.code, Some(0), "{listed:?}");
    serde_json::from_str(&listed.stdout).unwrap()
}

fn path(folder: &TempDir, name: &str) -> String {
    folder.path().join(name).to_str().unwrap().to_owned()
}

#[test]
fn runs_are_kept_listed_reported_and_deleted() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let (url, store) = (server.url("/"), path(&folder, "runs.sqlite"));
    assert_eq!(run_thalweg(&["runs", "--store", &store]).stdout, "no runs are stored\n");
    run(&url, &store, &["--label", "first"]);
    run(&url, &store, &["--label", "second", "--note", "with a note"]);
    let listed = runs(&store);
    let labels: Vec<&str> = listed.iter().map(|run| run["label"].as_str().unwrap()).collect();
    assert_eq!(labels, ["second", "first"]);
    assert_eq!((&listed[0]["state"], &listed[0]["note"]), (&"complete".into(), &"with a note".into()));
    let table = run_thalweg(&["runs", "--store", &store, "--label", "first"]).stdout;
    assert!(table.lines().count() == 2 && table.contains(&url), "{table}");

    let document = run_thalweg(&["report", "last~1", "--format", "json", "--store", &store]);
    let document: Value = serde_json::from_str(&document.stdout).unwrap();
    assert_eq!(document["id"], listed[1]["id"]);
    let page = run_thalweg(&["report", "last", "--store", &store]).stdout;
    assert!(page.starts_with("<!DOCTYPE html>") && page.len() < 1_500_000, "{} bytes", page.len());

    let deleted = run_thalweg(&["runs", "--delete", "last", "--store", &store]);
    assert_eq!(deleted.stdout, "1 run deleted\n", "{deleted:?}");
    assert_eq!(runs(&store).len(), 1);
    let unknown = run_thalweg(&["report", "nothing", "--store", &store]);
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(unknown.stderr.contains("no run \"nothing\""), "{unknown:?}");
}

#[test]
fn a_search_that_is_killed_leaves_what_it_had_measured() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let store = path(&folder, "runs.sqlite");
    let search = ["find", &server.url("/"), "--connections", "4", "--duration", "1s", "--store", &store];
    let search = Process::start(&mut thalweg(&search));
    let kept = |store: &str| {
        let report = run_thalweg(&["report", "last", "--format", "json", "--store", store]);
        let document: Value = serde_json::from_str(&report.stdout).ok()?;
        (document["trials"].as_array()?.len() >= 3).then_some(document)
    };
    until("three trials in the store", PATIENCE, || kept(&store));
    assert_eq!(runs(&store)[0]["state"], "running");
    search.signal("KILL");
    search.wait(PATIENCE);
    assert_eq!(runs(&store)[0]["state"], "interrupted");
    let document = kept(&store).unwrap();
    assert!(document["reasons"].to_string().contains("did not come to its end"), "{}", document["reasons"]);
    let page = run_thalweg(&["report", "last", "--store", &store]);
    assert!(page.code == Some(0) && page.stdout.ends_with("</html>"), "{:?}", page.stderr);
}

#[test]
fn a_run_that_is_interrupted_is_marked() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let store = path(&folder, "runs.sqlite");
    let run = ["run", &server.url("/"), "--rate", "100/s", "--duration", "60s", "--store", &store];
    let run = Process::start(&mut thalweg(&run));
    until("the run to be under way", PATIENCE, || (server.received().len() > 20).then_some(()));
    run.signal("INT");
    run.wait(PATIENCE);
    assert_eq!(runs(&store)[0]["state"], "interrupted");
}

#[test]
fn two_runs_are_stored_at_once() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let (url, store) = (server.url("/"), path(&folder, "runs.sqlite"));
    let start = |rate: &str| {
        let run = ["run", &url, "--rate", rate, "--duration", "300ms", "--store", &store];
        Process::start(&mut thalweg(&run))
    };
    let both: Vec<Process> = (1..=4).map(|number| start(&format!("{}/s", number * 10))).collect();
    for run in both {
        let ended = run.wait(PATIENCE);
        assert!(!ended.stderr.contains("store"), "{ended:?}");
    }
    assert_eq!(runs(&store).len(), 4);
}

/// The result is printed and the exit code that of the verdict, whatever became of the store.
#[track_caller]
fn printed_but_not_stored(ended: &ExitedProcess, why: &str) {
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    assert!(ended.stdout.contains("offered"), "{ended:?}");
    assert!(ended.stderr.contains("not stored") && ended.stderr.contains(why), "{ended:?}");
}

#[test]
fn a_store_that_cannot_be_used_costs_no_result() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let url = server.url("/");
    let damaged = path(&folder, "damaged.sqlite");
    fs::write(&damaged, "this is no database. ".repeat(500)).unwrap();
    printed_but_not_stored(&run(&url, &damaged, &[]), "damaged");
    assert_eq!(fs::read_to_string(&damaged).unwrap(), "this is no database. ".repeat(500));
    printed_but_not_stored(&run(&url, "/proc/none/runs.sqlite", &[]), "cannot be written to");

    let newer = path(&folder, "newer.sqlite");
    run(&url, &newer, &[]);
    set_version(Path::new(&newer), 99);
    let before = fs::read(&newer).unwrap();
    printed_but_not_stored(&run(&url, &newer, &[]), "newer version");
    let listed = run_thalweg(&["runs", "--store", &newer]);
    assert!(listed.code == Some(2) && listed.stderr.contains("newer version"), "{listed:?}");
    assert!(fs::read(&newer).unwrap() == before, "it was left as it is");

    let mut homeless = thalweg(&["run", &url, "--rate", "50/s", "--duration", "200ms"]);
    homeless.env_remove(STORE).env_remove("HOME").env_remove("XDG_DATA_HOME");
    printed_but_not_stored(&Process::start(&mut homeless).wait(PATIENCE), "HOME");
    let mut at_home = thalweg(&["run", &url, "--rate", "50/s", "--duration", "200ms"]);
    at_home.env_remove(STORE).env_remove("XDG_DATA_HOME").env("HOME", folder.path());
    Process::start(&mut at_home).wait(PATIENCE);
    assert!(folder.path().join(".local/share/thalweg/runs.sqlite").is_file());
}

/// Writes the version into the header of a database whose log is empty (user_version, bytes 60 to
/// 63).
fn set_version(path: &Path, version: u32) {
    let mut content = fs::read(path).unwrap();
    content[60..64].copy_from_slice(&version.to_be_bytes());
    fs::write(path, content).unwrap();
    for suffix in ["-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", path.display()));
    }
}

#[test]
fn a_full_disk_leaves_the_result_and_a_store_that_can_be_read() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let disk = path(&folder, "disk");
    fs::create_dir(&disk).unwrap();
    // The first run is stored, the disk is filled, the second one is not, the first is still there.
    let script = "mount -t tmpfs -o size=400k none \"$1\" || exit 77
        t=\"$2 run $3 --rate 50/s --duration 200ms --store $1/runs.sqlite\"
        $t --label first > /dev/null || true
        cat /dev/zero > \"$1/filler\" 2> /dev/null
        $t --label second
        echo code=$?
        $2 runs --json --store \"$1/runs.sqlite\"
        rm \"$1/filler\"
        $t --label third > /dev/null
        $2 runs --json --store \"$1/runs.sqlite\" >&2";
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", &disk]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), &server.url("/")]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if ended.code == Some(77) || ended.stderr.contains("unshare:") {
        // Not printed by a macro, whose output of tests that succeed is swallowed.
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: store: this host allows no mounts; run as root");
        return;
    }
    assert!(ended.stdout.contains("offered") && ended.stderr.contains("is full"), "{ended:?}");
    let code = ended.stdout.lines().find_map(|line| line.strip_prefix("code="));
    assert!(matches!(code, Some("0" | "1" | "3")), "{ended:?}");
    assert!(ended.stdout.contains("\"first\"") && !ended.stdout.contains("\"second\""), "{ended:?}");
    assert!(ended.stderr.contains("\"first\"") && ended.stderr.contains("\"third\""), "{ended:?}");
}

#[test]
fn a_bundle_makes_the_same_report_elsewhere() {
    let (server, folder) = (server(), TempDir::new().unwrap());
    let (url, store) = (server.url("/"), path(&folder, "runs.sqlite"));
    run(&url, &store, &["--label", "one"]);
    run(&url, &store, &[]);
    let here = path(&folder, "here.html");
    let report = |arguments: &[&str]| {
        let ended = run_thalweg(&[&["report"], arguments].concat());
        assert_eq!(ended.code, Some(0), "{ended:?}");
    };
    report(&["last", "last~1", "--out", &here, "--store", &store]);
    let here = fs::read(here).unwrap();
    let config = path(&folder, "server.conf");
    fs::write(&config, "workers = 4\n").unwrap();
    for name in ["b.tar.zst", "b.tar.gz", "b"] {
        let (bundle, there) = (path(&folder, name), path(&folder, "there.html"));
        report(&["last", "last~1", "--bundle", &bundle, "--attach", &config, "--store", &store]);
        report(&[&bundle, "--out", &there, "--store", "none"]);
        assert!(fs::read(&there).unwrap() == here, "{name}: another page");
    }
    let folder_bundle = folder.path().join("b");
    assert!(fs::read(folder_bundle.join("report.html")).unwrap() == here);
    assert_eq!(fs::read_to_string(folder_bundle.join("attachments/server.conf")).unwrap(), "workers = 4\n");
    fs::write(folder_bundle.join("attachments/server.conf"), "workers = 5\n").unwrap();
    let changed = run_thalweg(&["report", folder_bundle.to_str().unwrap(), "--format", "text"]);
    assert_eq!(changed.code, Some(2), "{changed:?}");
    assert!(changed.stderr.contains("attachments/server.conf was changed"), "{changed:?}");
}
