//! A stalled or busy client is distinguished from a slow server.

use std::thread;
use std::time::Duration;

use crate::document::{self, number};
use crate::drivers::drivers;
use crate::nginx::{Nginx, PausedProcess};
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::repetition::{ensure, repeated};

/// Lags below this are no standstill of 600 ms.
const LATE_US: f64 = 500_000.0;

/// Stops a run of that load for 600 ms. It must be INVALID, and the wait lag.
fn stop_in_the_middle(load: &[&str]) -> Result<(), String> {
    let nginx = Nginx::start();
    let url = nginx.url("/000.txt");
    let run = Process::start(&mut thalweg(&[&["run", &url, "--json"], load].concat()));
    until("the run to be under way", PATIENCE, || (nginx.log().len() >= 100).then_some(()));
    let stopped = PausedProcess::now(run.id());
    // Not to wait for something: this is the standstill.
    thread::sleep(Duration::from_millis(600));
    stopped.resume();
    let trial = document::trial(&run.wait(PATIENCE));
    let [lag, queue] = ["lag_us", "queue_us"].map(|times| number(&trial, &format!("/{times}/max")));
    ensure(trial["verdict"] == "invalid", || format!("{load:?}: {}, {}", trial["verdict"], trial["reasons"]))?;
    ensure(lag >= LATE_US, || format!("{load:?}: the longest lag is {lag} us"))?;
    ensure(queue < LATE_US / 5.0, || format!("{load:?}: the longest wait in a queue is {queue} us"))
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_client_that_was_stopped_does_not_blame_the_server() {
        let session = tempfile::NamedTempFile::new().expect("a temporary file can be made");
        std::fs::write(session.path(), "/000.txt think=0.05\n /001.txt\n/002.txt\n").expect("it can be written");
        let session = session.path().to_str().expect("a path of letters");
        let modes = [
            &["--rate", "200/s"][..],
            &["--conn-rate", "200/s", "--conns", "600"],
            &["--conn-rate", "100/s", "--calls", "2"],
            &["--rate", "200/s", "--calls", "1"],
            &["--conn-rate", "100/s", "--session", session],
            &["--workers", "8", "--think", "10ms"],
        ];
        // Side by side: they are small loads.
        for some in modes.chunks(2) {
            thread::scope(|scope| {
                for (mode, driver) in some.iter().flat_map(|mode| drivers().into_iter().map(|driver| (*mode, driver))) {
                    let length = if mode.contains(&"--conns") { &[][..] } else { &["--duration", "3s"] };
                    scope.spawn(move || {
                        repeated(|| stop_in_the_middle(&[mode, length, &["--driver", driver]].concat()))
                    });
                }
            });
        }
    }

    #[test]
    fn connections_made_before_the_start_are_timed_one_by_one() {
        let nginx = Nginx::start();
        let url = nginx.url("/000.txt");
        for driver in drivers() {
            for load in [["--rate", "1000/s"], ["--workers", "100"]] {
                repeated(|| {
                    let further = ["--connections", "100", "--requests", "1000", "--driver", driver, "--json"];
                    let further = if load[0] == "--workers" { &further[2..] } else { &further[..] };
                    let trial = document::trial(
                        &Process::start(&mut thalweg(&[&["run", &url], &load[..], further].concat())).wait(PATIENCE),
                    );
                    // From SYN to SYN-ACK over loopback takes some microseconds.
                    let [count, median] =
                        ["count", "p50"].map(|figure| number(&trial, &format!("/connect_us/{figure}")));
                    ensure(count == 100.0 && median < 500.0, || format!("{driver}, {load:?}: {count} of {median} us"))
                });
            }
        }
    }
}
