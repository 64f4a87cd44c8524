//! Attackers with three times as many connections as there are slots, and their effect on other
//! clients.
//!
//! Attackers and others are processes of `attackers.py`. The tests count the requests with a
//! response, not their times: the machine may be busy, mostly with the attackers.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::machine;
use crate::process::{DRIVERS, PATIENCE, Process, program, until};
use crate::server::{Server, Tree};

const PLACES: usize = 200;

/// The time in which other clients send requests, the beginning of the attack, and the beginning of
/// the count: two seconds later.
const ASKING_S: &str = "8";
const ATTACK_AFTER: Duration = Duration::from_secs(1);
const COUNTS_FROM_S: &str = "3";

fn client_script(arguments: &[&str]) -> Command {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end/attackers.py");
    let mut command = Command::new(program(&["python3"], "python3"));
    command.arg(script).args(arguments);
    command
}

/// A server with few places.
fn server(tree: &Tree, driver: &str) -> Server {
    let file = tree.root().parent().unwrap().join(format!("{driver}.toml"));
    let root = tree.root();
    let text = format!("[limits]\nconnections_max = {PLACES}\n[[site]]\nroot = \"{}\"\n", root.display());
    fs::write(&file, text).unwrap();
    Server::configured(&file, &["--driver", driver])
}

/// Attacks a server over each driver, and looks how others fare.
#[track_caller]
fn check(roles: &[&str]) {
    let _machine = machine::exclusive();
    let tree = Tree::new();
    // Side by side: two processes more.
    let runs = DRIVERS.map(|driver| {
        let server = server(&tree, driver);
        let port = server.authority().rsplit_once(':').unwrap().1.to_owned();
        let asking = Process::start(&mut client_script(&["ask", &port, ASKING_S, COUNTS_FROM_S]));
        until("clients that ask", PATIENCE, || asking.stdout().contains("begun").then_some(()));
        (server, port, asking)
    });
    thread::sleep(ATTACK_AFTER);
    let attackers = runs
        .each_ref()
        .map(|(_, port, _)| Process::start(&mut client_script(&[&["attack", port, ASKING_S], roles].concat())));
    for ((server, _, asking), attackers) in runs.into_iter().zip(attackers) {
        let ended = asking.wait(PATIENCE);
        let said = ended.stdout.lines().last().unwrap_or_default();
        let counts: Value = serde_json::from_str(said).unwrap_or_else(|_| panic!("{ended:?}"));
        let count = |name: &str| counts[name].as_u64().unwrap();
        let failed = count("refused") + count("closed") + count("unanswered");
        let asked = count("answered") + failed;
        let context = format!("{roles:?} over {}: {counts}", server.driver);
        assert!(asked > 50, "{context}");
        assert!(failed * 20 <= asked, "{context}");
        assert!(count("modems_lost") == 0 && count("modem_bytes") > 0, "{context}");
        drop(attackers);
    }
}

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
