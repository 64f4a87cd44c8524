//! `thalweg run` against nginx, which counts along.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::BOTH_DRIVERS;
use crate::nginx::{Entry, FILE_BYTES, FILE_SHA256, Nginx};
use crate::process::{ExitedProcess, run_thalweg};
use crate::repetition::{ensure, judged, repeated, valid};
use crate::scripted::{Act, GOOD, ScriptedServer};

fn run(url: &str, options: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["run", url, "--json"], options].concat())
}

/// Connections on which a request came.
fn connections(log: &[Entry]) -> usize {
    log.iter().map(|entry| entry.connection).collect::<BTreeSet<_>>().len()
}

/// A run that only has good responses; nginx's log.
fn all_good(options: &[&str], path: &str, expected: u64) -> Vec<Entry> {
    let nginx = Nginx::start();
    let ended = run(&nginx.url(path), options);
    let trial = document::trial(&ended);
    assert_eq!(outcome(&trial, "good"), expected, "{options:?}: {trial:#}");
    assert_eq!(number(&trial, "/counts/offered"), expected as f64, "{options:?}");
    assert_eq!(trial["status"]["2xx"], expected, "{options:?}");
    let log = nginx.finish();
    assert_eq!(log.len() as u64, expected, "{options:?}: lines of nginx's log");
    assert!(log.iter().all(|entry| entry.status == 200), "{options:?}: {log:?}");
    log
}

#[test]
fn the_document_keeps_the_contract() {
    let nginx = Nginx::start();
    for load in [["--rate", "200/s"], ["--workers", "2"]] {
        let ended = run(&nginx.url("/000.txt"), &[&load[..], &["--requests", "50"]].concat());
        document::keeps_the_contract(&document::of(&ended));
    }
}

#[test]
fn a_number_of_requests_is_kept_exactly() {
    all_good(&["--requests", "777", "--workers", "5"], "/000.txt", 777);
    all_good(&["--requests", "123", "--rate", "400/s"], "/000.txt", 123);
}

#[test]
fn a_warm_up_is_sent_and_not_counted() {
    let nginx = Nginx::start();
    let load = ["--rate", "200/s", "--requests", "100", "--warmup", "500ms"];
    let trial = document::trial(&run(&nginx.url("/000.txt"), &load));
    assert_eq!(outcome(&trial, "good"), 100, "{trial:#}");
    assert_eq!(nginx.finish().len(), 200);
}

#[test]
fn calls_bound_the_requests_of_a_connection() {
    let log = all_good(&["--requests", "100", "--rate", "400/s", "--calls", "1"], "/000.txt", 100);
    assert_eq!(connections(&log), 100);
    let log = all_good(&["--requests", "100", "--workers", "1", "--calls", "10"], "/000.txt", 100);
    assert_eq!((connections(&log), log.iter().map(|entry| entry.request).max()), (10, Some(10)));
}

#[test]
fn head_responses_have_no_content() {
    let log = all_good(&["--requests", "50", "--workers", "2", "--method", "HEAD"], "/000.txt", 50);
    assert!(log.iter().all(|entry| entry.method == "HEAD"));
    assert_eq!(connections(&log), 2, "the connections go on");
}

#[test]
fn responses_without_a_length_are_complete_in_chunks_and_to_the_end_of_a_connection() {
    let check = format!("length={FILE_BYTES}");
    let load = ["--requests", "50", "--workers", "2", "--check", &check];
    let log = all_good(&load, "/included.html", 50);
    assert_eq!(connections(&log), 2, "chunks leave a connection usable");
    let log = all_good(&[&load[..], &["--http", "1.0"]].concat(), "/included.html", 50);
    assert_eq!(connections(&log), 50, "the end of the connection is the end of the response");
}

#[test]
fn checks_tell_good_responses_from_others() {
    let right = format!("status=200,length={FILE_BYTES},sha256={FILE_SHA256}");
    all_good(&["--requests", "50", "--workers", "2", "--check", &right], "/000.txt", 50);
    let other = FILE_SHA256.replace('6', "7");
    for (check, expected) in
        [("status=404", "bad_status"), ("length=511", "failed_check"), (&*format!("sha256={other}"), "failed_check")]
    {
        let nginx = Nginx::start();
        let ended = run(&nginx.url("/000.txt"), &["--requests", "50", "--workers", "2", "--check", check]);
        let trial = document::trial(&ended);
        assert_eq!(outcome(&trial, expected), 50, "{check}: {trial:#}");
        assert_eq!(number(&trial, "/counts/completed"), 50.0, "{check}");
        assert!(matches!(ended.code, Some(1 | 3)), "{check}: {ended:?}");
        assert_eq!(nginx.finish().len(), 50);
    }
}

#[test]
fn a_list_of_urls_is_gone_through() {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("urls");
    fs::write(&list, "# two paths\n/001.txt\n\n/002.txt\n").unwrap();
    let list = list.to_str().unwrap();
    let load = ["--requests", "40", "--workers", "1", "--urls", list];
    let asked = |log: &[Entry], path: &str| log.iter().filter(|entry| entry.uri == path).count();
    let log = all_good(&load, "/", 40);
    assert_eq!((asked(&log, "/001.txt"), asked(&log, "/002.txt")), (20, 20));
    let log = all_good(&[&load[..], &["--pick", "random"]].concat(), "/", 40);
    let (first, second) = (asked(&log, "/001.txt"), asked(&log, "/002.txt"));
    assert!(first > 0 && second > 0 && first + second == 40, "{first} and {second}");
}

#[test]
fn both_drivers_carry_a_run() {
    let nginx = Nginx::start();
    let drivers = BOTH_DRIVERS.map(|driver| {
        let ended = run(&nginx.url("/000.txt"), &["--requests", "50", "--workers", "2", "--driver", driver]);
        let trial = document::trial(&ended);
        assert_eq!(outcome(&trial, "good"), 50, "{driver}: {trial:#}");
        trial["client"]["driver"].as_str().unwrap().to_owned()
    });
    assert!(matches!(&*drivers[0], "uring" | "epoll"));
    assert_eq!(drivers[1], "epoll");
}

#[test]
fn text_says_what_json_says() {
    let nginx = Nginx::start();
    let ended = run_thalweg(&["run", &nginx.url("/000.txt"), "--requests", "50", "--rate", "200/s"]);
    for word in ["offered", "sent", "good", "response time", "p99", "50", "open loop"] {
        assert!(ended.stdout.contains(word), "{word}: {}", ended.stdout);
    }
    assert_eq!(ended.stderr, "");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn an_open_loop_sends_what_it_says_when_it_says() {
        repeated(|| {
            let nginx = Nginx::start();
            let ended = judged(run(&nginx.url("/000.txt"), &["--rate", "500/s", "--duration", "2s"]))?;
            assert_eq!(ended.stderr, "", "no progress is drawn where there is no terminal");
            let trial = document::trial(&ended);
            assert_eq!((trial["loop"].as_str(), number(&trial, "/offered_rate")), (Some("open"), 500.0));
            assert_eq!(outcome(&trial, "good"), 1000, "{trial:#}");
            assert_eq!(number(&trial, "/counts/offered"), 1000.0);
            let sent = number(&trial, "/rates/sent");
            ensure((sent - 500.0).abs() <= 0.5 + 1e-6, || format!("sent {sent}/s"))?;
            assert_eq!(number(&trial, "/bytes/body_in"), (1000 * FILE_BYTES) as f64);
            let offered: u64 =
                trial["intervals"].as_array().unwrap().iter().map(|one| one["offered"].as_u64().unwrap()).sum();
            assert_eq!(offered, 1000, "the course adds up too");
            for time in ["response_time_us", "service_time_us", "first_byte_us", "lag_us"] {
                assert_eq!(trial[time]["count"], 1000, "{time}");
                let [p50, p99, max] = ["p50", "p99", "max"].map(|statistic| trial[time][statistic].as_f64().unwrap());
                assert!(0.0 < p50 && p50 <= p99 && p99 <= max * 1.001, "{time}: {}", trial[time]);
            }
            assert_eq!(nginx.finish().len(), 1000);
            Ok(())
        });
    }

    #[test]
    fn limits_that_hold_are_exit_code_0_and_a_missed_one_is_1() {
        let server = ScriptedServer::start(|_| Act::AnswerAfter(Duration::from_millis(100), GOOD));
        for (limits, verdict, code) in [
            (&["--limit", "p50<5s"][..], "pass", 0),
            (&["--limit", "p50<5s", "--limit", "p90<50ms"], "fail", 1),
            (&["--limit", "errors<1%"], "pass", 0),
        ] {
            let load = ["--rate", "100/s", "--duration", "1s", "--connections", "64"];
            let ended = valid(|| run(&server.url(), &[&load[..], limits].concat()));
            let document = document::of(&ended);
            assert_eq!(
                (document["verdict"].as_str(), ended.code),
                (Some(verdict), Some(code)),
                "{limits:?}: {document:#}"
            );
            let reasons = document["reasons"].to_string();
            assert!(verdict == "pass" || reasons.contains("p90"), "{limits:?}: {reasons}");
        }
    }

    #[test]
    fn a_closed_loop_keeps_its_workers_busy() {
        repeated(|| {
            let nginx = Nginx::start();
            let ended = run(&nginx.url("/000.txt"), &["--workers", "4", "--duration", "1s"]);
            let trial = document::trial(&ended);
            assert_eq!((trial["loop"].as_str(), trial["offered_rate"].is_null()), (Some("closed"), true));
            let good = outcome(&trial, "good");
            assert_eq!(number(&trial, "/counts/offered"), good as f64, "{trial:#}");
            ensure(good > 100, || format!("{good} in a second"))?;
            assert_eq!(number(&trial, "/connections/peak"), 4.0);
            let log = nginx.finish();
            assert_eq!((log.len() as u64, connections(&log)), (good, 4));
            Ok(())
        });
    }

    #[test]
    fn a_status_that_was_not_asked_for_is_no_good_response() {
        let nginx = Nginx::start();
        let ended = valid(|| run(&nginx.url("/missing"), &["--rate", "100/s", "--duration", "1s"]));
        let trial = document::trial(&ended);
        assert_eq!((outcome(&trial, "bad_status"), &trial["status"]["4xx"]), (100, &100.into()), "{trial:#}");
        assert_eq!(ended.code, Some(1), "{trial:#}");
    }
}
