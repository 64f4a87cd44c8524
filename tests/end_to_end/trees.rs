//! Document trees: written and compared by `thalweg files`, requested by weight.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::document;
use crate::process::{ExitedProcess, PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};

/// A folder for trees, and paths in it.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(TempDir::new().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("temporary folders have plain names").to_owned()
    }

    /// The names in it, sorted.
    fn names(&self) -> Vec<String> {
        names(self.0.path())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn files(arguments: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["files"], arguments].concat())
}

#[track_caller]
fn json(ended: &ExitedProcess) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn a_tree_is_written_compared_and_found_changed() {
    let place = Place::new();
    let tree = place.path("tree");
    let written = files(&["acme-spec", &tree]);
    assert_eq!((written.code, &*written.stderr), (Some(0), ""), "{written:?}");
    let lines: Vec<_> = written.stdout.lines().collect();
    assert_eq!(lines[0], format!("acme-spec --seed 1: 36 files, 5.12 MB, written to {tree}"));
    assert!(lines[1].ends_with(": 14.6 KB") && lines[3].ends_with("35.0 %"), "{written:?}");
    assert_eq!(names(Path::new(&tree)).len(), 36);

    let same = files(&["acme-spec", &tree, "--verify"]);
    assert_eq!(same.code, Some(0), "{same:?}");
    assert!(same.stdout.contains("all of them") && same.stdout.contains("as they should be"), "{same:?}");

    fs::remove_file(place.path("tree/class1_4")).unwrap();
    fs::write(place.path("tree/class0_0"), [0; 102]).unwrap();
    fs::write(place.path("tree/more"), "text").unwrap();
    let changed = files(&["acme-spec", &tree, "--verify"]);
    assert_eq!(changed.code, Some(1), "{changed:?}");
    for line in ["class0_0: other content from byte", "class1_4: missing", "more: superfluous"] {
        assert!(changed.stdout.contains(line), "no {line:?}: {changed:?}");
    }
    let document = json(&files(&["acme-spec", &tree, "--verify", "--json"]));
    assert_eq!(document["verified"]["files"], 34, "{document:#}");
    assert_eq!(document["verified"]["differences"].as_array().unwrap().len(), 3, "{document:#}");
    let other = files(&["acme-spec", &tree, "--verify", "--seed", "2"]);
    assert!(other.code == Some(1) && other.stdout.contains("and 17 more"), "{other:?}");
}

#[test]
fn figures_are_printed_as_one_document() {
    let place = Place::new();
    let document = json(&files(&["specweb99", &place.path("tree"), "--load", "1", "--seed", "7", "--json"]));
    assert_eq!(document["tree"], "specweb99");
    assert_eq!(document["settings"], serde_json::json!({ "seed": 7, "load": 1.0, "size": null, "sparse": null }));
    assert_eq!((&document["files"], &document["classes"][2]["files"]), (&900.into(), &225.into()), "{document:#}");
    assert!((document["classes"][2]["share"].as_f64().unwrap() - 0.14).abs() < 1e-9, "{document:#}");
}

#[test]
fn a_wrong_name_or_setting_or_directory_is_refused_and_nothing_is_written() {
    let place = Place::new();
    fs::create_dir(place.path("full")).unwrap();
    fs::write(place.path("full/kept"), "text").unwrap();
    let (new, full, far) = (place.path("new"), place.path("full"), place.path("no/such"));
    let kept = place.path("full/kept");
    let list = place.path("none/list");
    for (arguments, parts) in [
        (&["acme", &new][..], &["acme-small", "acme-modem", "specweb99", "mirror"][..]),
        (&["acme-big"], &["<DIR>"]),
        (&["heanet", &new, "--load", "5"], &["load", "heanet", "specweb96 and specweb99"]),
        (&["specweb96", &new, "--load", "0"], &["'0' for '--load <N>'", "a number above 0"]),
        (&["mirror", &new, "--size", "1MB"], &["size 1000000", "10000000"]),
        (&["mirror", &new, "--size", "1M"], &["--size", "1M"]),
        (&["webbench", &new, "--sparse", "1MB"], &["sparse", "mirror"]),
        (&["heanet", &full], &[&full, "not empty", "empty or does not exist"]),
        (&["heanet", &kept], &[&kept, "not a directory"]),
        (&["heanet", &far], &["no does not exist"]),
        (&["heanet", &new, "--urls", &list], &[&list, "does not exist"]),
    ] {
        let ended = files(arguments);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{arguments:?}: {ended:?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{arguments:?} does not name {part:?}: {ended:?}");
        }
        assert_eq!(place.names(), ["full"], "{arguments:?}");
        assert_eq!(names(Path::new(&full)), ["kept"], "{arguments:?}");
    }
}

#[test]
fn an_interrupted_tree_leaves_nothing() {
    let place = Place::new();
    // More than is written before the signal.
    let writing = Process::start(&mut thalweg(&["files", "mirror", &place.path("tree"), "--size", "20GB"]));
    until("the first files", PATIENCE, || {
        let staging = place.names().into_iter().next()?;
        (!names(&place.0.path().join(staging)).is_empty()).then_some(())
    });
    writing.signal("INT");
    let ended = writing.wait(PATIENCE);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("interrupted; nothing of the tree was kept"), "{ended:?}");
    assert_eq!(place.names(), [""; 0]);
}

/// The tree goes to a mount point, which exists and is a file system of its own.
#[test]
fn a_full_disk_is_named_and_nothing_is_left_on_it() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    let disk = place.path("disk");
    let script = format!(
        "mount -t tmpfs -o size=2m none {disk} && echo mounted && \"$@\"; echo \"code $?\"; ls -A {disk} | wc -l; \
         df --output=used {disk} | tail -n 1"
    );
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    command.args([env!("CARGO_BIN_EXE_thalweg"), "files", "acme-spec", &disk]);
    let ended = Process::start(&mut command).wait(PATIENCE);
    if !ended.stdout.contains("mounted") {
        // Not printed by a macro, whose output of tests that succeed is swallowed.
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: trees: this host allows no mounts ({why}); run as root");
        return;
    }
    let words: Vec<_> = ended.stdout.split_whitespace().collect();
    assert_eq!(words, ["mounted", "code", "4", "0", "0"], "{ended:?}");
    for part in [&*disk, "5119484 bytes", "No space left on device", "nothing of it was kept"] {
        assert!(ended.stderr.contains(part), "no {part:?}: {ended:?}");
    }
}

#[test]
fn a_tree_is_requested_as_often_as_its_list_says() {
    let place = Place::new();
    let list = place.path("list");
    let written = files(&["specweb99", &place.path("tree"), "--load", "1", "--urls", &list]);
    assert_eq!(written.code, Some(0), "{written:?}");
    let text = fs::read_to_string(&list).unwrap();
    assert!(text.starts_with("# thalweg files specweb99 --seed 1 --load 1\n/file_set/dir00000/class0_0 0."), "{text}");
    assert_eq!(text.lines().count(), 901);
    let recorder = Recorder::start(|_| Response::good("ok"));
    let load = ["--workers", "2", "--requests", "4000", "--urls", &list, "--pick", "weighted", "--json"];
    document::trial(&run_thalweg(&[&["run", &recorder.url("/")], &load[..]].concat()));
    let received = recorder.received();
    let mut classes = [0.0; 4];
    for request in &received {
        let class = request.target.split("class").nth(1).and_then(|rest| rest[..1].parse::<usize>().ok());
        classes[class.unwrap_or_else(|| panic!("{}", request.target))] += 1.0;
    }
    let expected = [0.35, 0.50, 0.14, 0.01].map(|share| share * received.len() as f64);
    let distance: f64 =
        classes.iter().zip(expected).map(|(found, expected)| (found - expected).powi(2) / expected).sum();
    // Chi square with three degrees of freedom: more than this once in a thousand seeds.
    assert!(distance < 16.27, "{classes:?}");
}
