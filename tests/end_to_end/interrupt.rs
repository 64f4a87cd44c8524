//! Ctrl-C: what is known by then is said.

use crate::document::{self, number, outcome};
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::scripted::{Act, Scripted};
use crate::turn;

#[test]
fn an_interrupted_run_gives_the_result_so_far() {
    let _turn = turn::alone();
    let nginx = Nginx::start();
    let url = nginx.url("/000.txt");
    let run = Process::start(&mut thalweg(&["run", &url, "--rate", "500/s", "--duration", "60s", "--json"]));
    until("the run to be under way", PATIENCE, || (nginx.log().len() >= 500).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    let trial = document::trial(&ended);
    let good = outcome(&trial, "good");
    assert!((500..30_000).contains(&good), "{trial:#}");
    assert!(number(&trial, "/seconds") < 50.0, "{trial:#}");
    let reasons = trial["reasons"].to_string();
    assert!(reasons.contains("interrupted"), "{reasons}");
    // What was under way when it ended is in nginx's books alone.
    let log = nginx.finish().len() as u64;
    assert!((good..=good + 256).contains(&log), "{log} lines for {good} good responses");
}

#[test]
fn requests_that_waited_for_a_connection_when_a_run_was_interrupted_were_not_sent() {
    let _turn = turn::beside_others();
    let server = Scripted::start(|_| Act::KeepSilent);
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
fn an_interrupted_search_gives_what_it_found_so_far() {
    let _turn = turn::alone();
    let nginx = Nginx::start();
    let url = nginx.url("/000.txt");
    let load = ["--connections", "4", "--duration", "5s", "--json"];
    let search = Process::start(&mut thalweg(&[&["find", &url], &load[..]].concat()));
    // Every trial opens its own connections: four for the probe, and when more come the search proper has begun.
    until("the third trial to begin", PATIENCE, || {
        (nginx.log().iter().filter(|entry| entry.request == 1).count() > 8).then_some(())
    });
    search.signal("INT");
    let ended = search.wait(PATIENCE);
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    let document = document::of(&ended);
    let find = &document["find"];
    assert!(find["notes"].to_string().contains("interrupted"), "{find:#}");
    assert!(document["trials"].as_array().unwrap().len() >= 3, "{find:#}");
}

#[test]
fn a_search_that_is_interrupted_at_once_has_nothing_to_say_but_that() {
    let _turn = turn::beside_others();
    let server = Scripted::start(|_| Act::KeepSilent);
    let search = Process::start(&mut thalweg(&["find", &server.url(), "--connections", "4", "--json"]));
    until("the probe to be under way", PATIENCE, || (server.requests() >= 4).then_some(()));
    search.signal("INT");
    let ended = search.wait(PATIENCE);
    assert_eq!((ended.code, &*ended.stdout), (Some(4), ""), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("interrupted"), "{ended:?}");
}
