//! Ctrl-C: the program prints the results so far. Searches in their middle are interrupted in
//! `crates/virtual-lab`.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::nginx::Nginx;
use crate::process::{ExitedProcess, PATIENCE, Process, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::scripted::{Act, ScriptedServer};

#[test]
fn requests_that_waited_for_a_connection_when_a_run_was_interrupted_were_not_sent() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    let load = ["--rate", "500/s", "--duration", "60s", "--connections", "4", "--timeout", "30s"];
    let run = Process::start(&mut thalweg(&[&["run", &server.url(), "--json"], &load[..]].concat()));
    until("all connections to be busy", PATIENCE, || (server.requests() >= 4).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    let trial = document::trial(&ended);
    let offered = number(&trial, "/counts/offered");
    assert_eq!(outcome(&trial, "not_sent") as f64, offered, "{trial:#}");
}

#[test]
fn a_search_that_is_interrupted_at_once_has_nothing_to_say_but_that() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    let search = Process::start(&mut thalweg(&["find", &server.url(), "--connections", "4", "--json"]));
    until("the probe to be under way", PATIENCE, || (server.requests() >= 4).then_some(()));
    search.signal("INT");
    let ended = search.wait(PATIENCE);
    let document = invalid(&ended);
    assert_eq!(document["reasons"][0], "interrupted before the end of the first trial", "{document:#}");
}

/// The document of a command that was interrupted: INVALID, by all that a script can look at.
fn invalid(ended: &ExitedProcess) -> Value {
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let document: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
    assert_eq!(document["verdict"], "invalid", "{document:#}");
    assert!(document["reasons"].to_string().contains("interrupted"), "{document:#}");
    document
}

/// Each of them passed with exit code 0, or had a result of its own for a target that cannot be
/// reached.
#[test]
fn a_stopped_run_never_passes() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    let line = |second| format!("127.0.0.1 - - [10/Oct/2000:13:{second:02}:36 +0000] \"GET /a HTTP/1.1\" 200 2\n");
    fs::write(&log, (0..60).map(line).collect::<String>()).unwrap();
    let log = log.to_str().unwrap();
    for (signal, command) in [
        ("INT", &["run", "URL", "--rate", "50/s", "--duration", "60s", "--limit", "p99<5s"][..]),
        ("TERM", &["run", "URL", "--rate", "50/s", "--requests", "100000"]),
        ("TERM", &["replay", log, "URL"]),
        ("TERM", &["find", "URL", "--duration", "30s"]),
        ("INT", &["sweep", "URL", "--low-rate", "50/s", "--high-rate", "500/s", "--step", "50/s", "--duration", "30s"]),
        ("TERM", &["compare", "URL", "URL", "--rate", "50/s", "--metric", "p99", "--duration", "30s"]),
    ] {
        let server = Recorder::start(|_| Response::good("ok"));
        let url = server.url("/");
        let command: Vec<&str> = command.iter().map(|word| if *word == "URL" { &url } else { *word }).collect();
        let run = Process::start(&mut thalweg(&[&command[..], &["--json"]].concat()));
        until("a request", PATIENCE, || (!server.received().is_empty()).then_some(()));
        run.signal(signal);
        invalid(&run.wait(PATIENCE));
    }
}

#[test]
fn what_was_measured_until_an_interruption_is_judged_on_request() {
    let server = Recorder::start(|_| Response::good("ok"));
    let load = ["--rate", "50/s", "--duration", "60s", "--limit", "p99<60s", "--on-interrupt", "judge"];
    let run = Process::start(&mut thalweg(&[&["run", &server.url("/"), "--json"], &load[..]].concat()));
    until("some requests", PATIENCE, || (server.received().len() > 20).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    let trial = document::trial(&ended);
    assert!(trial["reasons"].to_string().contains("the run was interrupted"), "{trial:#}");
    // A busy client may be late.
    assert!(trial["verdict"] == "pass" || ended.code == Some(3), "{trial:#}");
}

/// A load that is interrupted once the server has received so many requests; the trial.
fn interrupted(server: &Recorder, received: usize, load: &[&str]) -> Value {
    let run = Process::start(&mut thalweg(&[&["run", &server.url("/"), "--json"], load].concat()));
    until("the run to be under way", PATIENCE, || (server.received().len() >= received).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    assert_eq!(ended.code, Some(3), "{load:?}: {ended:?}");
    let trial = document::trial(&ended);
    // Its end did not wait for the load's.
    assert!(number(&trial, "/seconds") < 50.0, "{load:?}: {trial:#}");
    let first = trial["reasons"][0].as_str().unwrap_or_default();
    assert!(first.starts_with("the run was interrupted after "), "{load:?}: {}", trial["reasons"]);
    let good = outcome(&trial, "good") as usize;
    // Some are under way or in the warm-up.
    assert!(good <= server.received().len() && good + 50 >= received, "{load:?}: {good} of {received}");
    trial
}

#[test]
fn every_kind_of_load_can_be_interrupted() {
    let folder = TempDir::new().unwrap();
    let sessions = folder.path().join("sessions");
    fs::write(&sessions, "/a think=0.02\n/b\n  /c\n/d think=60\n/e\n").unwrap();
    let sessions = sessions.to_str().unwrap();
    for driver in drivers() {
        for load in [
            &["--rate", "300/s", "--duration", "60s"][..],
            &["--rate", "100/s..1000/s", "--arrivals", "poisson", "--duration", "60s"],
            &["--workers", "4", "--think", "5ms", "--duration", "60s"],
            &["--workers", "8", "--pipeline", "4", "--think", "5ms", "--requests", "1000000"],
            &["--conn-rate", "100/s", "--calls", "3", "--conns", "100000"],
            &["--hold", "50", "--think", "100ms", "--duration", "60s"],
            &["--hold", "20", "--throttle", "33.6kbit", "--think", "10ms", "--duration", "60s"],
            &["--session", sessions, "--conn-rate", "50/s", "--conns", "100000"],
            &["--session", sessions, "--workers", "40"],
            &["--rate", "300/s", "--duration", "60s", "--rtt", "5ms"],
        ] {
            let server = Recorder::start(|_| Response::good("ok"));
            interrupted(&server, 100, &[load, &["--driver", driver]].concat());
        }
    }
}

#[test]
fn a_run_that_is_interrupted_while_it_opens_its_connections_ends_at_once() {
    // Both drivers: each gives up a connect in its own way.
    for driver in BOTH_DRIVERS {
        let server = Recorder::start(|_| Response::good("ok"));
        let load = ["--hold", "1000", "--conn-rate", "20/s", "--duration", "60s", "--driver", driver];
        let run = Process::start(&mut thalweg(&[&["run", &server.url("/"), "--json"], &load[..]].concat()));
        until("some connections", PATIENCE, || (server.connections() > 5).then_some(()));
        run.signal("INT");
        let ended = run.wait(PATIENCE);
        let trial = document::trial(&ended);
        assert_eq!(number(&trial, "/counts/offered"), 0.0, "{driver}: {trial:#}");
        assert!(ended.code != Some(0), "nothing was measured: {ended:?}");
    }
}

#[test]
fn a_second_interrupt_ends_a_run_whatever_it_does() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let run = Process::start(&mut thalweg(&["run", &server.url(), "--workers", "2", "--duration", "60s"]));
        let before = server.requests();
        until("the run to be under way", PATIENCE, || (server.requests() >= before + 2).then_some(()));
        run.signal("INT");
        // It may have ended by then.
        let _ = std::process::Command::new("kill").args([&format!("-{signal}"), &run.id().to_string()]).status();
        let ended = run.wait(PATIENCE).code;
        assert!(ended == Some(3) || ended == Some(code), "{signal}: {ended:?}");
    }
}

/// Such a run once waited without a message.
#[test]
fn a_run_of_many_days_says_so_before_it_begins() {
    let recorder = Recorder::start(|_| Response::good("ok"));
    let run = ["run", &recorder.url("/"), "--rate", "0.0000001/s", "--requests", "1", "--json"];
    let run = Process::start(&mut thalweg(&run));
    until("the request", PATIENCE, || (!recorder.received().is_empty()).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    assert!(ended.stderr.starts_with("thalweg: this load takes 115.7 days, until 20"), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn an_interrupted_run_gives_the_result_so_far() {
        let nginx = Nginx::start();
        let url = nginx.url("/000.txt");
        let run = Process::start(&mut thalweg(&["run", &url, "--rate", "500/s", "--duration", "60s", "--json"]));
        until("the run to be under way", PATIENCE, || (nginx.log().len() >= 500).then_some(()));
        run.signal("INT");
        let ended = run.wait(PATIENCE);
        assert_eq!(ended.code, Some(3), "{ended:?}");
        let trial = document::trial(&ended);
        let good = outcome(&trial, "good");
        assert!((500..30_000).contains(&good), "{trial:#}");
        assert!(number(&trial, "/seconds") < 50.0, "{trial:#}");
        let reasons = trial["reasons"].to_string();
        assert!(reasons.contains("interrupted"), "{reasons}");
        // Requests under way at the end are in nginx's log only.
        let log = nginx.finish().len() as u64;
        assert!((good..=good + 256).contains(&log), "{log} lines for {good} good responses");
    }
}
