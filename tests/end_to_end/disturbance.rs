//! Another program on the client's CPU, which is named. What it disturbs is left out: see the tests
//! of `crates/virtual-lab`.

use std::process::Command;

use crate::document;
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, thalweg};
use crate::repetition::{ensure, repeated};

/// Uses its CPU for so many seconds of each such period, for a minute at most.
const BURNER: &str = "
import os, sys, time
cpu, busy, period = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
end = time.monotonic() + 60
while time.monotonic() < end:
    begin = time.monotonic()
    while time.monotonic() - begin < busy: pass
    time.sleep(max(0, period - busy))
";

/// The first CPU that this process may use.
fn load_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").expect("the kernel tells");
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).expect("it is listed");
    list.trim().split([',', '-']).next().expect("there is one").to_owned()
}

/// Runs 500 requests per second beside a burner.
fn run_beside_burner(busy: &str, period: &str, length: &str) -> serde_json::Value {
    let (nginx, cpu) = (Nginx::start(), load_cpu());
    let burner = Process::start(Command::new("python3").args(["-c", BURNER, &cpu, busy, period]));
    let url = nginx.url("/000.txt");
    let load = ["--rate", "500/s", "--duration", length, "--cores", &cpu, "--limit", "p99<50ms", "--json"];
    let run = Process::start(&mut thalweg(&[&["run", &url, "--make-up"], &load[..]].concat())).wait(PATIENCE);
    drop(burner);
    document::trial(&run)
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_run_beside_a_program_that_never_rests_names_it() {
        repeated(|| {
            let trial = run_beside_burner("60", "0", "2s");
            let reasons = trial["reasons"].to_string();
            let said = || format!("{}, {} s lost: {reasons}", trial["verdict"], trial["lost_s"]);
            // A kernel that runs the client at once when it has work leaves nothing to say.
            ensure(trial["verdict"] != "fail", said)?;
            ensure(trial["verdict"] == "pass" || reasons.contains("(python3)"), said)?;
            let share = trial["client"]["cpus_others"].as_object().and_then(|cpus| cpus.values().next()?.as_f64());
            ensure(share.is_some_and(|share| share > 0.5), || format!("others used {share:?}; {}", said()))
        });
    }
}
