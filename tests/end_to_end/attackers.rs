//! Attackers with three times as many connections as there are slots, and their effect on other
//! clients.
//!
//! Attackers and others are processes of `attackers.py` and `h2_attackers.py`. The tests count the
//! requests with a response and look at the median of their times alone: the machine may be busy,
//! mostly with the attackers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::process::{PATIENCE, Process, program, until};
use crate::repetition::{ensure, repeated};
use crate::server::{Server, Tree};

const PLACES: usize = 200;

/// The time in which other clients send requests, the beginning of the attack, and the beginning of
/// the count: two seconds later.
const ASKING_S: &str = "6";
const ATTACK_AFTER: Duration = Duration::from_secs(1);
const COUNTS_FROM_S: &str = "3";

/// Other clients have their responses in this time, half of them, while the attackers have the CPUs
/// too.
const MEDIAN_MS_MAX: f64 = 250.0;

/// The most memory that a server with these places may take for attackers, over what it has when it
/// starts: each place with all of its streams, and the buffers of connections without one.
const GROWTH_KB_MAX: u64 = 32 << 10;

/// Attackers that speak TLS as far as they do, or HTTP/1, or others that ask.
pub(crate) fn client_script(arguments: &[&str]) -> Command {
    script("attackers.py", arguments)
}

fn script(name: &str, arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end").join(name);
    let mut command = Command::new(program(&["python3"], "python3"));
    command.arg(script).args(arguments);
    command
}

/// The most memory that a process has had so far, or has now.
fn memory_kb(process: &Process, line: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|text| text.strip_prefix(line)).unwrap();
    line.trim_start_matches(':').trim().trim_end_matches(" kB").parse().unwrap()
}

/// A server with few places.
fn server(tree: &Tree, driver: &str) -> Server {
    let file = tree.root().parent().unwrap().join(format!("{driver}.toml"));
    let root = tree.root();
    let text = format!("[limits]\nconnections_max = {PLACES}\n[[site]]\nroot = \"{}\"\n", root.display());
    fs::write(&file, text).unwrap();
    Server::configured(&file, &["--driver", driver])
}

/// Attacks a server by HTTP/1.
#[track_caller]
fn check(roles: &[&str]) {
    attack(roles, |port| client_script(&[&["attack", port, ASKING_S], roles].concat()));
}

/// Attacks a server by HTTP/2.
#[track_caller]
fn check_http2(roles: &[&str]) {
    attack(roles, |port| script("h2_attackers.py", &[&[port, ASKING_S], roles].concat()));
}

/// Attacks a server over each driver, and looks how others fare.
#[track_caller]
fn attack(roles: &[&str], command: impl Fn(&str) -> Command) {
    let tree = Tree::new();
    for driver in drivers() {
        repeated(|| {
            others_fare_well(&tree, driver, &command).map_err(|wrong| format!("{roles:?} over {driver}: {wrong}"))
        });
    }
}

/// Attacks a server. Clients that got too little CPU time ask in vain as well.
fn others_fare_well(tree: &Tree, driver: &str, command: impl Fn(&str) -> Command) -> Result<(), String> {
    let server = server(tree, driver);
    let port = server.authority().rsplit_once(':').unwrap().1;
    let asking = Process::start(&mut client_script(&["ask", port, ASKING_S, COUNTS_FROM_S]));
    until("clients that ask", PATIENCE, || asking.stdout().contains("begun").then_some(()));
    let before_kb = memory_kb(&server.process, "VmRSS");
    thread::sleep(ATTACK_AFTER);
    let attackers = Process::start(&mut command(port));
    let ended = asking.wait(PATIENCE);
    let said = ended.stdout.lines().last().unwrap_or_default();
    let counts: Value = serde_json::from_str(said).unwrap_or_else(|_| panic!("{ended:?}"));
    let count = |name: &str| counts[name].as_u64().unwrap();
    let failed = count("refused") + count("closed") + count("unanswered");
    let asked = count("answered") + failed;
    let growth_kb = memory_kb(&server.process, "VmHWM") - before_kb;
    assert!(growth_kb < GROWTH_KB_MAX, "{growth_kb} KB more: {counts}");
    drop(attackers);
    ensure(asked > 50 && failed * 20 <= asked, || format!("{failed} of {asked} failed: {counts}"))?;
    ensure(counts["median_ms"].as_f64().unwrap() < MEDIAN_MS_MAX, || format!("responses are late: {counts}"))?;
    ensure(count("modems_lost") == 0 && count("modem_bytes") > 0, || format!("slow clients are lost: {counts}"))
}

/// Fields that refer to a long one again and again are decoded to many times of what was sent
/// (RFC 7541, 7.3); kept is little of it.
#[test]
fn compressed_fields_take_at_most_eight_times_their_bytes() {
    const CONNECTIONS: usize = 500;
    let tree = Tree::new();
    // Both drivers: their buffers of a connection differ.
    for driver in BOTH_DRIVERS {
        let server = Server::of(&tree, &["--driver", driver]);
        let before_kb = memory_kb(&server.process, "VmRSS");
        let port = server.authority().rsplit_once(':').unwrap().1;
        let attackers = Process::start(&mut script("h2_attackers.py", &[port, "60", &format!("bombs={CONNECTIONS}")]));
        let said = until("all of it to be read", PATIENCE, || Some(attackers.stdout()).filter(|said| !said.is_empty()));
        let counts: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(counts["connects"], CONNECTIONS, "no connection was closed");
        let (sent, peak_kb) = (counts["sent"].as_u64().unwrap(), memory_kb(&server.process, "VmHWM"));
        let growth = (peak_kb - before_kb) * 1024;
        assert!(growth <= 8 * sent, "{growth} bytes for {sent} over {driver}");
    }
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn clients_that_never_read_do_not_keep_others_out() {
        check(&["deaf=600"]);
    }

    #[test]
    fn clients_that_send_nothing_do_not_keep_others_out() {
        check(&["silent=600"]);
    }

    #[test]
    fn clients_that_never_end_their_heads_do_not_keep_others_out() {
        check(&["halting=600"]);
    }

    #[test]
    fn clients_that_ask_once_and_stay_do_not_keep_others_out() {
        check(&["idle=600"]);
    }

    #[test]
    fn attackers_of_all_kinds_together_do_not_keep_others_out() {
        check(&["deaf=150", "silent=150", "halting=150", "idle=150"]);
    }

    #[test]
    fn windows_that_stay_shut_do_not_keep_others_out() {
        check_http2(&["zero_window=600"]);
    }

    #[test]
    fn requests_that_never_end_do_not_keep_others_out() {
        check_http2(&["streams=300", "bombs=300"]);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn streams_that_are_reset_at_once_do_not_keep_others_out() {
        check_http2(&["resets=20"]);
    }

    #[test]
    fn streams_that_the_server_is_made_to_reset_do_not_keep_others_out() {
        check_http2(&["made_resets=20"]);
    }

    #[test]
    fn header_blocks_without_an_end_do_not_keep_others_out() {
        check_http2(&["continuations=20"]);
    }

    #[test]
    fn frames_that_ask_for_nothing_do_not_keep_others_out() {
        check_http2(&["settings=4", "pings=4", "empty_data=4", "windows=4", "priorities=4", "unknown=4"]);
    }
}
