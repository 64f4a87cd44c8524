//! All commands that make a load, over TLS and over HTTP/2, against nginx, whose log is compared
//! with their counts.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::nginx::{FILE_BYTES, FILE_SHA256, FILES, Nginx};
use crate::process::{ExitedProcess, Process, run_thalweg, thalweg};
use crate::repetition::{ensure, repeated};

/// A protocol beside plain HTTP/1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    Tls,
    Http2,
    Http2OverTls,
}

pub(crate) const PROTOCOLS: [Protocol; 3] = [Protocol::Tls, Protocol::Http2, Protocol::Http2OverTls];

/// nginx with a listener for a protocol.
pub(crate) struct Target {
    pub(crate) nginx: Nginx,
    protocol: Protocol,
}

impl Target {
    pub(crate) fn start(protocol: Protocol) -> Self {
        let parameters = match protocol {
            Protocol::Tls => "ssl",
            Protocol::Http2 => "http2",
            Protocol::Http2OverTls => "ssl http2",
        };
        Self { nginx: Nginx::with_listener(parameters, "ssl_session_tickets on;"), protocol }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.protocol == Protocol::Http2 { "http" } else { "https" };
        self.nginx.other_url(scheme, path)
    }

    /// The options with which a load speaks the protocol.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options = Vec::new();
        if self.protocol != Protocol::Http2 {
            options.extend(["--cacert".to_owned(), self.nginx.authority()]);
        }
        if self.protocol != Protocol::Tls {
            options.extend(["--http", "2"].map(str::to_owned));
        }
        options
    }

    /// A command with its first arguments, whose load speaks the protocol.
    fn command(&self, arguments: &[&str]) -> ExitedProcess {
        let options = self.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        run_thalweg(&[arguments, &options, &["--json"]].concat())
    }

    /// A run. Returns its only trial.
    fn run(&self, path: &str, arguments: &[&str]) -> Value {
        document::trial(&self.command(&[&["run", &self.url(path)], arguments].concat()))
    }

    /// Whether a trial was of the protocol: the figures of TLS and of streams are there.
    fn is_of_protocol(&self, trial: &Value) -> bool {
        let tls = (number_or_zero(trial, "/tls/full") + number_or_zero(trial, "/tls/resumed")) > 0.0;
        let streams = number_or_zero(trial, "/streams/opened") > 0.0;
        (tls, streams) == (self.protocol != Protocol::Http2, self.protocol != Protocol::Tls)
    }
}

fn number_or_zero(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or(0.0)
}

#[test]
fn workers_connections_and_calls_are_as_the_plan_has_them() {
    for protocol in PROTOCOLS {
        let target = Target::start(protocol);
        let trial = target.run("/000.txt", &["--workers", "4", "--requests", "400", "--calls", "5"]);
        assert_eq!(outcome(&trial, "good"), 400, "{protocol:?}: {trial:#}");
        let log = target.nginx.finish();
        let mut requests = std::collections::BTreeMap::new();
        log.iter().for_each(|entry| *requests.entry(entry.connection).or_insert(0) += 1);
        assert!(requests.values().all(|count| *count <= 5), "{protocol:?}: {requests:?}");
        let opened = number(&trial, "/connections/opened");
        assert!(opened >= requests.len() as f64 && (80..=84).contains(&requests.len()), "{protocol:?}: {requests:?}");
    }
}

#[test]
fn responses_are_checked() {
    for protocol in PROTOCOLS {
        let target = Target::start(protocol);
        target.nginx.add_file("other.txt", &[b'z'; FILE_BYTES]);
        let check = format!("status=200,length={FILE_BYTES},sha256={FILE_SHA256}");
        let load = ["--workers", "8", "--connections", "2", "--requests", "100", "--check", &check];
        let good = target.run("/000.txt", &load);
        assert_eq!(outcome(&good, "good"), 100, "{protocol:?}: {good:#}");
        let other = target.run("/other.txt", &load);
        assert_eq!(outcome(&other, "failed_check"), 100, "{protocol:?}: {other:#}");
        let missing = target.run("/missing", &load);
        assert_eq!(outcome(&missing, "bad_status"), 100, "{protocol:?}: {missing:#}");
    }
}

#[test]
fn sessions_and_logs_are_played() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).expect("a file can be written");
        path.to_str().expect("temporary folders have plain names").to_owned()
    };
    let sessions = write("sessions", "/000.txt\n    /001.txt\n    /002.txt\n\n/003.txt think=0.01\n/004.txt\n");
    let line = |number: usize| {
        format!("127.0.0.1 - - [01/Jan/2024:00:00:0{}] \"GET /{number:03}.txt HTTP/1.1\" 200 512\n", number / 10)
    };
    let log: String = (0..20).map(line).collect();
    let log = write("access.log", &log.replace("] ", " +0000] "));
    for protocol in PROTOCOLS {
        let target = Target::start(protocol);
        let trial = target.run("/", &["--session", &sessions, "--workers", "2", "--conns", "10"]);
        assert_eq!(outcome(&trial, "good"), 25, "{protocol:?}: {trial:#}");
        assert_eq!(number(&trial, "/sessions/completed"), 10.0, "{protocol:?}: {trial:#}");
        assert!(target.is_of_protocol(&trial), "{protocol:?}: {trial:#}");
        let ended = target.command(&["replay", &log, &target.url("/")]);
        let document = document::of(&ended);
        assert_eq!(outcome(&document["trials"][0], "good"), 20, "{protocol:?}: {document:#}");
        assert_eq!(target.nginx.finish().len(), 45, "{protocol:?}");
    }
}

#[test]
fn idle_connections_are_held_and_seen_to_make_progress() {
    for protocol in PROTOCOLS {
        for driver in drivers() {
            // Those that get CPU time late are not asked in this second.
            repeated(|| {
                let target = Target::start(protocol);
                let load = ["--hold", "100", "--think", "400ms", "--duration", "1s", "--driver", driver];
                let trial = target.run("/000.txt", &load);
                assert_eq!(number(&trial, "/connections/peak"), 100.0, "{protocol:?} {driver}: {trial:#}");
                for name in ["held", "progressing"] {
                    let held = number(&trial, &format!("/connections/{name}"));
                    ensure(held == 100.0, || format!("{protocol:?} {driver}: {held} are {name}"))?;
                }
                let mut connections: Vec<u64> = target.nginx.finish().iter().map(|entry| entry.connection).collect();
                connections.sort_unstable();
                connections.dedup();
                ensure(connections.len() == 100, || format!("{protocol:?} {driver}: {} asked", connections.len()))
            });
        }
    }
}

#[test]
fn urls_are_picked_as_in_http1() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let urls = folder.path().join("urls");
    let list: String = (0..FILES).map(|number| format!("/{number:03}.txt\n")).collect();
    fs::write(&urls, list).expect("a file can be written");
    let urls = urls.to_str().expect("temporary folders have plain names");
    for protocol in PROTOCOLS {
        let target = Target::start(protocol);
        let load = ["--urls", urls, "--workers", "4", "--requests", "200", "--cores", "0"];
        let trial = target.run("/", &load);
        assert_eq!(outcome(&trial, "good"), 200, "{protocol:?}: {trial:#}");
        let mut counts = std::collections::BTreeMap::new();
        target.nginx.finish().into_iter().for_each(|entry| *counts.entry(entry.uri).or_insert(0) += 1);
        assert!(counts.len() == FILES && counts.values().all(|count| *count == 2), "{protocol:?}: {counts:?}");
    }
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn rates_and_counts_are_those_of_the_server_s_log() {
        for protocol in PROTOCOLS {
            // Each kind of arrivals over a driver of its own: as many runs as over one.
            for (arrivals, driver) in [("constant", BOTH_DRIVERS[0]), ("poisson", BOTH_DRIVERS[1])] {
                repeated(|| {
                    let target = Target::start(protocol);
                    let load = ["--rate", "500/s", "--duration", "2s", "--arrivals", arrivals, "--driver", driver];
                    let trial = target.run("/000.txt", &load);
                    let good = outcome(&trial, "good");
                    assert_eq!(good, number(&trial, "/counts/offered") as u64, "{protocol:?}: {trial:#}");
                    assert!(target.is_of_protocol(&trial), "{protocol:?}: {trial:#}");
                    let log = target.nginx.finish();
                    assert_eq!(log.len() as u64, good, "{protocol:?}: the server's log");
                    assert!(log.iter().all(|entry| entry.status == 200 && entry.uri == "/000.txt"));
                    assert_eq!(number(&trial, "/bytes/body_in") as usize, log.len() * FILE_BYTES);
                    let expected = if arrivals == "constant" { 1.0 } else { 100.0 };
                    ensure((good as f64 - 1000.0).abs() <= expected, || format!("{good} requests, {arrivals}"))?;
                    let rate = number(&trial, "/rates/good");
                    ensure((rate - good as f64 / 2.0).abs() < 5.0, || format!("{rate} per second"))
                });
            }
        }
    }

    #[test]
    fn a_throttled_connection_keeps_its_pace() {
        const BYTES: usize = 4 * 4200;
        for protocol in PROTOCOLS {
            repeated(|| {
                let target = Target::start(protocol);
                target.nginx.add_file("modem.bin", &[b'm'; BYTES]);
                let length = format!("length={BYTES}");
                let load = ["--hold", "50", "--conn-rate", "400/s", "--requests", "50", "--throttle", "33.6kbit"];
                let trial = target.run("/modem.bin", &[&load[..], &["--timeout", "20s", "--check", &length]].concat());
                assert_eq!(outcome(&trial, "good"), 50, "{protocol:?}: {trial:#}");
                let bits = number(&trial, "/bytes/in") / 50.0 * 8.0;
                let [slowest, fastest] =
                    ["max", "min"].map(|end| bits / number(&trial, &format!("/service_time_us/{end}")) * 1e6);
                // TLS's records and what precedes a response take their part of the line.
                let within = 33_600.0 * 0.90..33_600.0 * 1.10;
                let wrong = || format!("{protocol:?}: {slowest} to {fastest} bit/s");
                ensure(within.contains(&slowest) && within.contains(&fastest), wrong)
            });
        }
    }

    /// The ceiling of the client is measured in the protocol of the target; in the other ones in
    /// `crates/virtual-lab`.
    #[test]
    fn a_search_calibrates_the_client_in_the_target_s_protocol() {
        let protocol = Protocol::Http2OverTls;
        let target = Target::start(protocol);
        let short = ["--duration", "500ms", "--budget", "2s", "--overload", "no", "--connections", "8"];
        // Whether the machine is quiet enough for an answer does not matter.
        let ended = target.command(&[&["find", &target.url("/000.txt")], &short[..]].concat());
        let document = document::of(&ended);
        document::keeps_the_contract(&document);
        let trials = document["trials"].as_array().expect("trials are a list");
        let calibration = trials.iter().find(|trial| trial["phase"] == "calibrate").expect("the client is calibrated");
        assert!(outcome(calibration, "good") > 100, "{protocol:?}: {calibration:#}");
        assert_eq!(outcome(calibration, "tls_failure"), 0, "{protocol:?}: {calibration:#}");
        assert!(trials.iter().all(|trial| target.is_of_protocol(trial)), "{protocol:?}: {document:#}");
        assert!(number(&document, "/find/client_ceiling") > 0.0, "{protocol:?}: {:#}", document["find"]);
    }

    /// Over the other protocols in `crates/virtual-lab`.
    #[test]
    fn rates_are_swept_and_servers_compared() {
        let protocol = Protocol::Http2OverTls;
        let target = Target::start(protocol);
        let url = target.url("/000.txt");
        let options = target.options();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let run = |arguments: &[&str]| {
            let arguments = [arguments, &options, &["--json"]].concat();
            Process::start(&mut thalweg(&arguments)).wait(Duration::from_secs(120))
        };
        let sweep = [
            "sweep",
            &url,
            "--low-rate",
            "100/s",
            "--high-rate",
            "300/s",
            "--step",
            "100/s",
            "--duration",
            "500ms",
            "--warmup",
            "0s",
        ];
        let swept = document::of(&run(&sweep));
        let trials = swept["trials"].as_array().expect("trials are a list");
        assert_eq!(trials.len(), 3, "{protocol:?}: {swept:#}");
        assert!(trials.iter().all(|trial| target.is_of_protocol(trial)), "{protocol:?}: {swept:#}");
        let [first, second] = ["/000.txt", "/001.txt"].map(|path| target.url(path));
        let load = ["--rate", "300/s", "--duration", "200ms", "--rounds", "8", "--warmup", "0s"];
        let ended = run(&[&["compare", &*first, &*second], &load[..]].concat());
        let compared = document::of(&ended);
        assert_eq!(compared["kind"], "compare", "{protocol:?}: {ended:?}");
        let rounds = compared["trials"].as_array().expect("trials are a list");
        assert!(rounds.len() >= 16, "{protocol:?}: {ended:?}");
        assert!(rounds.iter().all(|trial| target.is_of_protocol(trial)), "{protocol:?}: {compared:#}");
    }
}
