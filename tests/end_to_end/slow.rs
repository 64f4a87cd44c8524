//! Slow clients: each connection is read no faster than requested, and the server keeps the unread
//! bytes.

use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::repetition::{ensure, repeated};

/// As 33.6 kbit/s are 4200 bytes a second, so many are eight seconds' worth.
const MODEM_BYTES: usize = 8 * 4200;

fn keeps_a_modem_s_pace(trial: &Value) -> Result<(), String> {
    assert_eq!(outcome(trial, "good"), 200, "{trial:#}");
    assert_eq!(number(trial, "/connections/peak"), 200.0, "{trial:#}");
    // SPECweb99 requires 320 kbit/s of a connection.
    assert_eq!(number(trial, "/connections/conforming"), 0.0, "{trial:#}");
    let bits = number(trial, "/bytes/in") / 200.0 * 8.0;
    let [slowest, fastest] = ["max", "min"].map(|end| bits / number(trial, &format!("/service_time_us/{end}")) * 1e6);
    let within = 33_600.0 * 0.95..33_600.0 * 1.05;
    let wrong = || format!("{slowest} to {fastest} bit/s");
    ensure(within.contains(&slowest) && within.contains(&fastest), wrong)?;
    ["min", "max"].into_iter().try_for_each(|end| {
        let kbit = number(trial, &format!("/kbit_per_connection/{end}"));
        ensure(within.contains(&(kbit * 1000.0)), || format!("{end} {kbit} kbit/s"))
    })
}

/// A server with small buffers of its own, which reports the number of bytes that it has sent.
const HOLDER: &str = "
import socket, time
server = socket.socket()
server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
server.bind(('127.0.0.1', 0))
server.listen()
print('port', server.getsockname()[1], flush=True)
while True:
    client, _ = server.accept()
    if not client.recv(4096):
        continue
    sent = client.send(b'HTTP/1.1 200 OK\\r\\nContent-Length: 1000000\\r\\n\\r\\n')
    try:
        while True:
            sent += client.send(b'x' * 512)
            print('sent', sent, flush=True)
    except OSError:
        pass
";

#[test]
fn the_server_holds_what_a_slow_client_has_not_read() {
    // Both drivers: each stops to read in its own way.
    for driver in BOTH_DRIVERS {
        repeated(|| {
            let holder = Process::start(Command::new("python3").args(["-c", HOLDER]));
            let port = until("the port", PATIENCE, || Some(holder.stdout().split_once('\n')?.0.replace("port ", "")));
            let load = ["--hold", "1", "--throttle", "33.6kbit", "--duration", "3s", "--driver", driver];
            let url = format!("http://127.0.0.1:{port}/");
            let trial = document::trial(&run_thalweg(&[&["run", &url, "--json"], &load[..]].concat()));
            assert!(trial["reasons"].to_string().contains("still in progress"), "{driver}: {}", trial["reasons"]);
            let sent: f64 =
                until("the last line", PATIENCE, || holder.stdout().trim_end().rsplit_once("sent ")?.1.parse().ok());
            let read = number(&trial, "/bytes/in");
            assert!(sent < read + 40_000.0, "{driver}: {sent} bytes have left a server of which {read} were read");
            let wrong = || format!("{driver}: {read} bytes in three seconds");
            ensure((read / (3.0 * 4200.0) - 1.0).abs() < 0.25, wrong)
        });
    }
}

#[test]
fn a_long_path_delays_each_answer_the_first_one_too() {
    for driver in drivers() {
        let recorder = Recorder::start(|_| Response::good("ok"));
        let once = ["run", &recorder.url("/"), "--json", "--requests", "1", "--rtt", "300ms", "--driver", driver];
        let trial = document::trial(&run_thalweg(&once));
        assert_eq!(outcome(&trial, "good"), 1, "{driver}");
        assert!(number(&trial, "/first_byte_us/min") >= 300_000.0, "{driver}: {}", trial["first_byte_us"]);
        let load = ["--workers", "2", "--rtt", "100ms", "--duration", "1s", "--driver", driver];
        repeated(|| {
            let trial = document::trial(&run_thalweg(&[&["run", &recorder.url("/"), "--json"], &load[..]].concat()));
            let good = outcome(&trial, "good");
            ensure((14..=22).contains(&good), || format!("{driver}: {good} answers for two workers in ten round trips"))
        });
    }
}

#[test]
fn held_connections_that_pause_are_each_asked_and_answered() {
    for driver in drivers() {
        // Those that get CPU time late are not asked in this second.
        repeated(|| {
            let nginx = Nginx::start();
            let load = ["--hold", "300", "--think", "400ms", "--duration", "1s", "--driver", driver];
            let run = run_thalweg(&[&["run", &nginx.url("/000.txt"), "--json"], &load[..]].concat());
            let trial = document::trial(&run);
            assert_eq!(number(&trial, "/connections/peak"), 300.0, "{driver}: {trial:#}");
            for name in ["held", "progressing"] {
                let held = number(&trial, &format!("/connections/{name}"));
                ensure(held == 300.0, || format!("{driver}: {held} are {name}"))?;
            }
            let mut requests = std::collections::BTreeMap::new();
            nginx.finish().iter().for_each(|entry| *requests.entry(entry.connection).or_insert(0) += 1);
            let range = (requests.values().min().copied(), requests.values().max().copied());
            assert!(range.1 <= Some(4), "{driver}: up to {range:?} requests on a connection");
            ensure(requests.len() == 300, || format!("{driver}: {} were asked", requests.len()))
        });
    }
}

#[test]
fn a_slow_server_is_not_taken_for_a_slow_client() {
    // At a pace the time-out is the time without a byte.
    for (timeout, expected) in [("30s", "good"), ("200ms", "timeout")] {
        let recorder = Recorder::start(|_| Response::good("ok").after(Duration::from_secs(2)));
        let load = ["--workers", "3", "--requests", "3", "--throttle", "1Mbit", "--timeout", timeout];
        let trial = document::trial(&run_thalweg(&[&["run", &recorder.url("/"), "--json"], &load[..]].concat()));
        assert_eq!(outcome(&trial, expected), 3, "{timeout}: {}", trial["outcomes"]);
    }
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn each_of_two_hundred_downloads_keeps_a_modem_s_pace() {
        let nginx = Nginx::start();
        let content = "m".repeat(MODEM_BYTES);
        nginx.add_file("modem.bin", content.as_bytes());
        let url = nginx.url("/modem.bin");
        let length = format!("length={MODEM_BYTES}");
        repeated(|| {
            // Side by side, since both mostly wait.
            let runs = drivers().into_iter().map(|driver| {
                let load = ["--hold", "200", "--conn-rate", "400/s", "--requests", "200", "--throttle", "33.6kbit"];
                let further = ["--timeout", "20s", "--check", &length, "--driver", driver, "--json"];
                Process::start(&mut thalweg(&[&["run", &url], &load[..], &further].concat()))
            });
            drivers().into_iter().zip(runs).try_for_each(|(driver, run)| {
                keeps_a_modem_s_pace(&document::trial(&run.wait(PATIENCE)))
                    .map_err(|wrong| format!("{driver}: {wrong}"))
            })
        });
    }
}
