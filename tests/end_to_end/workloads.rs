//! Workloads as the server sees them: lists, choices, checks, bodies.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::process::{ExitedProcess, run_thalweg};
use crate::recorder::{RecordedRequest, Recorder, Response};

/// A file in a folder.
fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn run(recorder: &Recorder, options: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["run", &recorder.url("/"), "--json"], options].concat())
}

fn all_good(recorder: &Recorder, options: &[&str]) -> Value {
    let trial = document::trial(&run(recorder, options));
    assert_eq!(number(&trial, "/counts/offered"), outcome(&trial, "good") as f64, "{options:?}: {trial:#}");
    trial
}

/// How often each target was asked for.
fn frequencies(received: &[RecordedRequest]) -> BTreeMap<&str, u32> {
    let mut frequencies = BTreeMap::new();
    received.iter().for_each(|one| *frequencies.entry(one.target.as_str()).or_insert(0) += 1);
    frequencies
}

#[test]
fn choices_have_their_frequencies_and_repeat_with_their_seed() {
    let folder = TempDir::new().unwrap();
    let list = file(&folder, "urls", "/a 5\n/b 2.5\n/c .5\n/d 2e0\n");
    let weights = |exponent: f64| [1.0, 2.0, 3.0, 4.0].map(|rank: f64| rank.powf(-exponent));
    for (pick, weights) in
        [("random", weights(0.0)), ("zipf", weights(1.0)), ("zipf:2", weights(2.0)), ("weighted", [5.0, 2.5, 0.5, 2.0])]
    {
        let asked = |seed: &str| {
            let recorder = Recorder::start(|_| Response::good("ok"));
            let load = ["--workers", "1", "--requests", "2000", "--urls", text(&list), "--pick", pick, "--seed", seed];
            all_good(&recorder, &load);
            recorder.received()
        };
        let received = asked("3");
        let frequencies = frequencies(&received);
        let sum: f64 = weights.iter().sum();
        let mut distance = 0.0;
        for (target, weight) in ["/a", "/b", "/c", "/d"].into_iter().zip(weights) {
            let expected = 2000.0 * weight / sum;
            distance += (f64::from(frequencies[target]) - expected).powi(2) / expected;
        }
        // Chi square with three degrees of freedom: more than this once in a thousand seeds.
        assert!(distance < 16.27, "{pick}: {frequencies:?}");
        let order = |received: &[RecordedRequest]| received.iter().map(|one| one.target.clone()).collect::<Vec<_>>();
        assert_eq!(order(&received), order(&asked("3")), "{pick}: the same seed");
        assert_ne!(order(&received), order(&asked("4")), "{pick}: another seed");
    }
}

#[test]
fn checks_of_a_file_are_each_for_its_path() {
    let folder = TempDir::new().unwrap();
    let list = file(&folder, "urls", "/a\n/bb\n/ccc\n/dddd status=404\n");
    let checks = file(&folder, "checks", "# by length\n/a length=1\n/bb length=2,header:x-path=/bb\n/ccc length=4\n");
    for driver in drivers() {
        let recorder = Recorder::start(|received| {
            let (path, length) = (&received.target, received.target.len() - 1);
            let text = format!("HTTP/1.1 200 OK\r\nX-Path: {path}\r\nContent-Length: {length}\r\n\r\n{}", &path[1..]);
            Response { text, ..Response::good("") }
        });
        let checks = format!("@{}", text(&checks));
        let load =
            ["--workers", "2", "--requests", "40", "--driver", driver, "--urls", text(&list), "--check", &checks];
        let trial = document::trial(&run(&recorder, &load));
        let outcomes = ["good", "failed_check", "bad_status"].map(|name| outcome(&trial, name));
        assert_eq!(outcomes, [20, 10, 10], "{driver}: {}", trial["outcomes"]);
    }
}

#[test]
fn weights_go_with_checks_of_both_kinds() {
    let folder = TempDir::new().unwrap();
    let list = file(&folder, "urls", "/a 3\n/bb 1 length=3\n/ccc 1e-9 status=404\n");
    let checks = file(&folder, "checks", "/a status=200,length=1\n");
    let recorder = Recorder::start(|received| Response::good(&received.target[1..]));
    let checks = format!("@{}", text(&checks));
    let load = ["--workers", "1", "--requests", "100", "--pick", "weighted", "--urls", text(&list), "--check", &checks];
    let trial = document::trial(&run(&recorder, &load));
    let received = recorder.received();
    let frequencies = frequencies(&received);
    assert!((60..90).contains(&frequencies["/a"]), "{frequencies:?}");
    let outcomes = ["good", "failed_check"].map(|name| outcome(&trial, name));
    assert_eq!(outcomes, ["/a", "/bb"].map(|target| u64::from(frequencies[target])), "{}", trial["outcomes"]);
}

#[test]
fn a_response_for_the_wrong_request_is_found() {
    let folder = TempDir::new().unwrap();
    // SHA-256 of "one" and "two".
    let list = file(
        &folder,
        "urls",
        "/one sha256=7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed\n\
         /two sha256=3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3\n",
    );
    for driver in drivers() {
        // Every tenth connection's answers are swapped: each is whole and good but for another
        // request.
        let recorder = Recorder::start(|received| {
            let swapped = received.connection % 10 == 0;
            Response::good(if (received.target == "/one") != swapped { "one" } else { "two" })
        });
        let load = ["--workers", "1", "--calls", "2", "--requests", "200", "--urls", text(&list), "--driver", driver];
        let trial = document::trial(&run(&recorder, &load));
        let swapped = recorder.received().iter().filter(|one| one.connection % 10 == 0).count() as u64;
        assert!(swapped >= 18, "{swapped}");
        assert_eq!((outcome(&trial, "failed_check"), outcome(&trial, "good")), (swapped, 200 - swapped), "{driver}");
    }
}

#[test]
fn methods_fields_and_bodies_go_out_as_written() {
    let folder = TempDir::new().unwrap();
    let body = file(&folder, "body", "line one\nline two\n");
    for driver in drivers() {
        let recorder = Recorder::start(|_| Response::good("ok"));
        let body = format!("@{}", text(&body));
        let load = ["--workers", "1", "--requests", "3", "--method", "PUT", "--body", &body, "--driver", driver];
        all_good(&recorder, &[&load[..], &["--header", "X-Id: 7", "--header", "Host: other.example"]].concat());
        for one in recorder.received() {
            assert_eq!((&*one.method, &*one.body), ("PUT", &b"line one\nline two\n"[..]));
            assert_eq!((one.field("x-id"), one.field("host")), (Some("7"), Some("other.example")));
        }
    }
}
