//! `thalweg sweep`: rates in order, targets by turns, and autobench's table.

use tempfile::TempDir;

use crate::document;
use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::repetition::valid;

const RATES: [&str; 10] =
    ["--low-rate", "20/s", "--high-rate", "60/s", "--step", "20/s", "--duration", "300ms", "--warmup", "0s"];

#[test]
fn an_interrupted_sweep_keeps_its_complete_trials() {
    let server = Recorder::start(|_| Response::good("ok"));
    let rates = ["--low-rate", "50/s", "--high-rate", "5000/s", "--step", "10/s", "--duration", "300ms", "--json"];
    let sweep = Process::start(&mut thalweg(&[&["sweep", &server.url("/")], &rates[..]].concat()));
    until("the third trial", PATIENCE, || (server.received().len() > 160).then_some(()));
    sweep.signal("INT");
    let ended = sweep.wait(PATIENCE);
    let document = document::of(&ended);
    assert_eq!(document["sweep"]["ended"], "interrupted");
    assert!(!document["trials"].as_array().unwrap().is_empty());
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_sweep_stops_after_failures_and_says_which_codes_came() {
        let server = Recorder::start(|_| Response {
            text: "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n".to_owned(),
            ..Response::good("")
        });
        let load = ["--low-rate", "20/s", "--high-rate", "400/s", "--step", "20/s", "--duration", "300ms", "--json"];
        let url = server.url("/");
        let options = ["--stop-after-failures", "2", "--warmup", "0s"];
        let ended = valid(|| run_thalweg(&[&["sweep", &url], &options[..], &load].concat()));
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let document = document::of(&ended);
        assert_eq!(document["sweep"]["ended"], "failures", "{:#}", document["sweep"]);
        let trials = document["trials"].as_array().unwrap();
        let failed: Vec<_> = trials.iter().filter(|trial| trial["verdict"] == "fail").collect();
        assert_eq!(failed.len(), 2, "{trials:#?}");
        let (codes, counts) = (&failed[0]["status_codes"], &failed[0]["counts"]);
        assert_eq!(codes.as_object().unwrap().keys().collect::<Vec<_>>(), ["503"]);
        // A response that came too late has a code, too.
        assert!(codes["503"].as_u64() >= counts["completed"].as_u64() && counts["good"] == 0, "{:#}", failed[0]);
    }

    #[test]
    fn two_targets_are_swept_by_turns_into_one_table() {
        let (good, bad) = (Recorder::start(|_| Response::good("ok")), Recorder::start(|_| Response::good("ok")));
        let folder = TempDir::new().unwrap();
        let report = folder.path().join("both.html");
        let (a, b) = (good.url("/"), bad.url("/"));
        let output = ["--format", "tsv", "--out", report.to_str().unwrap()];
        // A figure has no point for a trial that cannot be judged.
        let ended = valid(|| run_thalweg(&[&["sweep", &a, &b], &RATES[..], &output].concat()));
        assert!(matches!(ended.code, Some(0 | 1)), "{ended:?}");
        let lines: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split('\t').collect()).collect();
        let name = |url: &str| url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        assert_eq!(lines[0].len(), 19, "{ended:?}");
        assert_eq!(lines[0][..2], ["dem_req_rate", &format!("req_rate_{}", name(&a))]);
        assert_eq!(lines[0][18], format!("errors_{}", name(&b)));
        let rates: Vec<&str> = lines[1..].iter().map(|line| line[0]).collect();
        assert_eq!(rates, ["20.000", "40.000", "60.000"]);
        // 0.3 s at each of three rates, and more where a disturbance is made up for.
        for server in [&good, &bad] {
            assert!(server.received().len() >= 36, "{} requests", server.received().len());
        }
        let page = std::fs::read_to_string(report).unwrap();
        assert!(page.contains("id=\"targets-throughput\"") && page.len() < 1_500_000, "{} bytes", page.len());
    }
}
