//! The yardstick of the open loop: a server that stands still shows as what it is.

use std::thread;
use std::time::{Duration, Instant};

use crate::document::{self, number, outcome};
use crate::nginx::{Nginx, PausedProcess};
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::protocols::{PROTOCOLS, Target};
use crate::repetition::{ensure, repeated};

const RATE: f64 = 1000.0;
const REQUESTS: f64 = 10_000.0;

/// Stops the server's process for a second in the middle of a load of ten.
fn stalls(nginx: Nginx, url: &str, options: &[&str]) -> Result<(), String> {
    let load = ["run", url, "--rate", "1000/s", "--duration", "10s", "--json"];
    let run = Process::start(&mut thalweg(&[&load[..], options].concat()));
    until("the run to be half way", PATIENCE, || (nginx.log().len() >= 4000).then_some(()));
    let stalled = Instant::now();
    let stopped = PausedProcess::now(nginx.worker());
    // Not to wait for something: this is the stall.
    thread::sleep(Duration::from_secs(1));
    stopped.resume();
    let stall = stalled.elapsed().as_secs_f64();

    let trial = document::trial(&run.wait(PATIENCE));
    assert_eq!(outcome(&trial, "good") as f64, REQUESTS, "nothing is lost: {}", trial["outcomes"]);
    assert_eq!(nginx.finish().len() as f64, REQUESTS);
    // Of the requests that were due during the stall, each waited for what was left of it. The
    // slowest hundredth are those that were due in its first 100 ms.
    let first_hundredth = REQUESTS / 100.0 / RATE;
    let expected = (stall - first_hundredth) * 1e6;
    let (p99, max) = (number(&trial, "/response_time_us/p99"), number(&trial, "/response_time_us/max"));
    let p50 = number(&trial, "/response_time_us/p50");
    ensure((p99 / expected - 1.0).abs() < 0.03, || format!("p99 is {p99} us, expected {expected:.0} us"))?;
    ensure((max / (stall * 1e6) - 1.0).abs() < 0.03, || format!("max is {max} us after a stall of {stall} s"))?;
    ensure(p50 < 50_000.0, || format!("most requests know nothing of it: p50 is {p50} us"))
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_stall_of_a_second_delays_a_tenth_of_ten_seconds_and_loses_nothing() {
        repeated(|| {
            let nginx = Nginx::start();
            let url = nginx.url("/000.txt");
            stalls(nginx, &url, &[])
        });
    }

    #[test]
    fn a_stall_is_as_long_over_tls_and_over_http2() {
        let stalls_over = |protocol| {
            let target = Target::start(protocol);
            let (url, options) = (target.url("/000.txt"), target.options());
            stalls(target.nginx, &url, &options.iter().map(String::as_str).collect::<Vec<_>>())
                .map_err(|wrong| format!("{protocol:?}: {wrong}"))
        };
        // Side by side: they are small loads.
        thread::scope(|scope| {
            for protocol in PROTOCOLS {
                scope.spawn(move || repeated(|| stalls_over(protocol)));
            }
        });
    }
}
