//! `thalweg find` against nginx, and its report.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::browser;
use crate::document::{self, number};
use crate::nginx::Nginx;
use crate::process::{Process, thalweg};
use crate::repetition::{ensure, judged, repeated};

fn names_a_capacity_and_its_limit(document: &Value) {
    let find = document::find(document);
    let lower = number(find, "/lower_bound");
    assert!(lower > 0.0, "{find:#}");
    match find["upper_bound"].as_f64() {
        Some(upper) => {
            assert!(lower < upper, "{find:#}");
        }
        None => assert_eq!(find["ended"], "client_ceiling", "{find:#}"),
    }
    let interval = find["interval95"].as_array().map(|ends| [0, 1].map(|end| ends[end].as_f64().unwrap()));
    assert_eq!(interval.is_none(), find["ended"] == "client_ceiling", "{find:#}");
    if let Some([low, high]) = interval {
        let threshold = number(find, "/threshold");
        assert!(low < threshold && threshold < high, "{find:#}");
        assert!(find["ended"] != "width_reached" || high - low <= 0.2 * high, "{find:#}");
    }
    let limit = find["limit"].as_str().unwrap();
    assert!(["server", "client", "network", "undetermined"].contains(&limit), "{find:#}");
    let evidence = find["evidence"].as_array().unwrap();
    assert!(!evidence.is_empty() && evidence.iter().all(|line| line.as_str().is_some_and(|line| !line.is_empty())));
    assert_eq!(document["verdict"], "pass");
}

fn confirms_its_rate_by_trials(document: &Value) -> Result<(), String> {
    let lower = number(document::find(document), "/lower_bound");
    let trials = document["trials"].as_array().unwrap();
    let passed = |trial: &&Value| trial["verdict"] == "pass" && trial["offered_rate"].as_f64() == Some(lower);
    let confirming: Vec<_> = trials.iter().filter(passed).collect();
    assert!(!confirming.is_empty(), "no trial at {lower}/s has passed");
    for trial in confirming {
        assert!(number(trial, "/response_time_us/p99") < 50_000.0, "{trial:#}");
        // The rate within the schedule: on a busy host the last of one second's requests may leave
        // some milliseconds after it.
        let sent = number(trial, "/rates/sent");
        ensure((sent / lower - 1.0).abs() < 0.05, || format!("{sent} of {lower}"))?;
    }
    assert!(trials.iter().any(|trial| trial["loop"] == "closed"), "the client was calibrated");
    Ok(())
}

fn report_says_the_answer_and_needs_nothing_else(html: &str, document: &Value) {
    let heading =
        html.split_once("<h1>").and_then(|(_, rest)| rest.split_once("</h1>")).expect("the page has a heading").0;
    // The first two digits survive any rounding and grouping.
    let lower = number(document::find(document), "/lower_bound").to_string();
    assert!(heading.contains(&lower[..1]), "{heading}");
    assert!(heading.contains("nginx") || heading.contains("127.0.0.1"), "{heading}");
    // Scripts are left out: the document within them may name any address.
    let elements: String =
        html.split("<script").map(|part| part.rsplit("</script>").next().unwrap_or_default()).collect();
    for fetches in ["src=", "href=\"http", "@import", "url("] {
        assert!(!elements.contains(fetches), "the page fetches something by {fetches}");
    }
    assert!(html.contains("default-src 'none'"), "the page may fetch nothing");
    assert!(html.len() <= 1_500_000, "{} bytes", html.len());
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_search_names_a_capacity_confirms_it_and_writes_a_report_that_a_browser_draws() {
        let (nginx, folder) = (Nginx::start(), TempDir::new().expect("a temporary folder can be made"));
        let (url, report) = (nginx.url("/000.txt"), folder.path().join("report.html"));
        let short = ["--duration", "1s", "--width", "20%", "--budget", "40s"];
        let output = ["--json", "--out", report.to_str().expect("temporary folders have plain names")];
        let arguments = [&["find", &url, "--limit", "p99<50ms"], &short[..], &output].concat();
        let document = repeated(|| {
            let ended = judged(Process::start(&mut thalweg(&arguments)).wait(Duration::from_secs(120)))?;
            assert_eq!(ended.code, Some(0), "{ended:?}");
            assert_eq!(ended.stderr, "", "no progress is drawn where there is no terminal");
            let document = document::of(&ended);
            confirms_its_rate_by_trials(&document)?;
            Ok(document)
        });
        names_a_capacity_and_its_limit(&document);
        document::keeps_the_contract(&document);
        let html = fs::read_to_string(&report).expect("it was written");
        report_says_the_answer_and_needs_nothing_else(&html, &document);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing lies beside the report");
        browser::draws_without_a_network_and_without_an_error(&report);
    }
}
