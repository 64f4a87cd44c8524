//! `thalweg observe`: beside a program that burns a CPU, for measuring clients, and lost in
//! mid-run.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::document;
use crate::process::{ExitedProcess, PATIENCE, Process, run_thalweg, thalweg, until};
use crate::repetition::valid;
use crate::server::{Server, Tree};

const SECRET: &str = "0123456789abcdef0123456789";

/// An observer that answers, with its token's file.
struct Observer {
    process: Process,
    address: String,
    folder: TempDir,
}

impl Observer {
    fn of_port(port: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        fs::write(folder.path().join("token"), SECRET).expect("it can be written to");
        fs::write(folder.path().join("other"), "another-secret-of-some-length").expect("it can be written to");
        let token = folder.path().join("token").display().to_string();
        let arguments = ["observe", "--port", port, "--listen", "127.0.0.1:0", "--token-file", &token];
        let process = Process::start(&mut thalweg(&arguments));
        let address = until("the observer to listen", PATIENCE, || {
            let said = process.stderr();
            said.lines().find_map(|line| Some(line.split_once("clients at ")?.1.to_owned()))
        });
        Self { process, address, folder }
    }

    fn token(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

fn port(server: &Server) -> &str {
    server.authority().rsplit_once(':').expect("host and port").1
}

fn samples(ended: &ExitedProcess) -> Vec<Value> {
    ended.stdout.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn sum(samples: &[Value], pointer: &str) -> f64 {
    samples.iter().filter_map(|sample| sample.pointer(pointer)?.as_f64()).sum()
}

#[test]
fn a_program_that_burns_a_cpu_is_seen_on_it() {
    let burner = Process::start(Command::new("taskset").args(["-c", "1", "sh", "-c", "while :; do :; done"]));
    let pid = burner.id().to_string();
    let ended = run_thalweg(&["observe", "--pid", &pid, "--json", "--duration", "4s"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let samples = samples(&ended);
    assert!(samples.len() >= 3, "{samples:#?}");
    let (seconds, cpu_ms) =
        (sum(&samples, "/seconds"), sum(&samples, "/server/user_ms") + sum(&samples, "/server/system_ms"));
    // Other tests run on that CPU, too.
    assert!(cpu_ms / 1e3 / seconds > 0.1, "{cpu_ms} ms in {seconds} s");
    let last = samples.last().expect("there are some");
    assert_eq!(last.pointer("/server/busiest/0/last_cpu"), Some(&Value::from(1)), "{last:#}");
    assert_eq!(last.pointer("/server/busiest/0/pid"), Some(&Value::from(burner.id())), "{last:#}");
    let busy = |kind: &str| sum(&samples, &format!("/cpus/1/{kind}_ms"));
    assert!(busy("user") + busy("system") > 4.0 * busy("idle"), "CPU 1 has no idle time: {samples:#?}");
    let cost = sum(&samples, "/cost_us") / 1e6 / seconds;
    assert!(cost > 0.0 && cost < 0.05, "{cost} of a CPU");
}

#[test]
fn text_ends_with_a_summary() {
    let ended = run_thalweg(&["observe", "--duration", "500ms", "--interval", "100ms"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let head = ended.stdout.lines().next().expect("a head");
    assert!(head.split_whitespace().eq("time cpu% core% sirq% steal% run switch/s rx Mb/s tx Mb/s retr/s drop/s server cpus thread% wait% fds queue".split_whitespace()), "{head}");
    for part in ["\nobserved    ", "\nCPU         ", "\nobserver    used "] {
        assert!(ended.stdout.contains(part), "{part:?} in {}", ended.stdout);
    }
}

#[test]
fn options_that_cannot_work_are_refused() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let missing = folder.path().join("token").display().to_string();
    let check = |arguments: &[&str], code: i32, part: &str| {
        let ended = run_thalweg(&[&["observe", "--duration", "1s"], arguments].concat());
        assert_eq!(ended.code, Some(code), "{arguments:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {ended:?}");
    };
    check(&["--listen", "0.0.0.0:0"], 2, "--token-file");
    check(&["--listen", "127.0.0.1:0", "--token-file", &missing], 2, "cannot read the token file");
    check(&["--port", "80", "--pid", "1"], 2, "cannot be used with");
    check(&["--interval", "1ms"], 2, "100ms");
    check(&["--out", "/nowhere/samples"], 2, "/nowhere/samples");
}

#[test]
fn an_observer_asks_for_its_token() {
    let (tree, url) = (Tree::new(), "/");
    let server = Server::of(&tree, &[]);
    let observer = Observer::of_port(port(&server));
    let url = format!("{}{url}", server.url);
    let run = |options: &[&str]| {
        run_thalweg(&[&["run", &url, "--rate", "50/s", "--duration", "1s", "--timeout", "30s"], options].concat())
    };
    for options in [
        &["--observe", &observer.address][..],
        &["--observe", &observer.address, "--observe-token-file", &observer.token("other")],
    ] {
        let ended = run(options);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(ended.stderr.contains("refuses the token") && !ended.stderr.contains(SECRET), "{ended:?}");
    }
    let nobody = "127.0.0.1:1";
    let ended = run(&["--observe", nobody]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains(nobody) && ended.stderr.contains("thalweg observe --listen"), "{ended:?}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_run_shows_what_its_observer_saw() {
        let tree = Tree::new();
        let server = Server::of(&tree, &[]);
        let observer = Observer::of_port(port(&server));
        let (url, token) = (format!("{}/", server.url), observer.token("token"));
        let options = ["--observe", &observer.address, "--observe-token-file", &token, "--json"];
        let load = ["run", &url, "--rate", "500/s", "--duration", "3s"];
        let ended = valid(|| run_thalweg(&[&load[..], &options].concat()));
        let document = document::of(&ended);
        let observation = &document["observation"];
        assert_eq!(observation["observer"], observer.address.as_str(), "{observation:#}");
        assert!(observation["lost"].is_null(), "{observation:#}");
        let rows = observation["series"]["t"].as_array().expect("times").len();
        let descriptors = observation["series"]["columns"]["server.descriptors"].as_array().expect("a column");
        assert!(rows >= 3 && descriptors.len() == rows, "{observation:#}");
        let seen = &document["trials"][0]["server"];
        assert_eq!(seen["process"], "thalweg", "{seen:#}");
        assert!(seen["cpu_cores"].as_f64().expect("a number") > 0.0, "{seen:#}");
        let seconds = seen["figures"]["seconds"].as_f64().expect("a number");
        assert!((2.9..8.0).contains(&seconds), "the samples are those of the trial: {seconds} s");
    }

    #[test]
    fn an_observer_lost_in_mid_run_ends_nothing() {
        let tree = Tree::new();
        let log = tree.root().with_file_name("access.log");
        let server = Server::of(&tree, &["--access-log", log.to_str().expect("temporary folders have plain names")]);
        let observer = Observer::of_port(port(&server));
        let (url, token) = (format!("{}/", server.url), observer.token("token"));
        let options = ["--observe", &observer.address, "--observe-token-file", &token, "--json"];
        let load = ["run", &url, "--rate", "200/s", "--duration", "5s", "--limit", "p99<5s"];
        let run = Process::start(&mut thalweg(&[&load[..], &options].concat()));
        until("the run to be under way", PATIENCE, || {
            let log = fs::read_to_string(&log).unwrap_or_default();
            (log.lines().count() > 200).then_some(())
        });
        observer.process.signal("KILL");
        let ended = run.wait(PATIENCE);
        let document = document::of(&ended);
        let trial = &document["trials"][0];
        assert!(trial["reasons"].to_string().contains("the observer was lost: no observer answers at"), "{trial:#}");
        assert!(trial["server"].is_null(), "half a trial is no summary: {trial:#}");
        // On a busy machine a part of the trial is left out.
        let [seconds, lost] = ["seconds", "lost_s"].map(|name| trial[name].as_f64().expect("a number"));
        assert!(seconds + lost > 4.5, "the load went on: {trial:#}");
        assert_eq!(document["observation"]["lost"].as_array().map(Vec::len), Some(1), "{:#}", document["observation"]);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_search_draws_the_observed_host() {
        let tree = Tree::new();
        let server = Server::of(&tree, &["--cores", "0"]);
        let observer = Observer::of_port(port(&server));
        let (url, token) = (format!("{}/", server.url), observer.token("token"));
        let report = observer.folder.path().join("report.html").display().to_string();
        let short = ["--duration", "1s", "--width", "20%", "--budget", "20s"];
        let options = ["--observe", &observer.address, "--observe-token-file", &token, "--json", "--out", &report];
        let ended = valid(|| run_thalweg(&[&["find", &url][..], &short, &options].concat()));
        let document = document::of(&ended);
        let trials = document["trials"].as_array().expect("trials");
        // A calibration is not of that server.
        let mut of_server = trials.iter().filter(|trial| trial["phase"] != "calibrate");
        assert!(of_server.all(|trial| trial["server"]["figures"]["server"].is_object()), "each trial was observed");
        let report = fs::read_to_string(report).expect("it was written");
        assert!(
            report.contains("id=\"observed\"") && report.contains("CPU of the server, in CPUs"),
            "the chart is there"
        );
    }
}
