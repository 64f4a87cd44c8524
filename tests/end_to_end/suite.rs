//! `thalweg suite`: the suites against `thalweg serve` of a written tree, scaled to some seconds.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::document;
use crate::drivers::drivers;
use crate::nginx::Nginx;
use crate::process::{ExitedProcess, PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::repetition::{ensure, repeated, valid};
use crate::server::Server;

/// The tree of a suite, and a server that serves it.
struct Stage {
    server: Server,
    _folder: TempDir,
}

impl Stage {
    fn of(tree: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("tree");
        let written = run_thalweg(&[&["files", tree, text(&root)], options].concat());
        assert_eq!(written.code, Some(0), "{written:?}");
        let server = Server::start(&root, &[], thalweg).expect("the server starts");
        Self { server, _folder: folder }
    }

    fn url(&self) -> String {
        format!("{}/", self.server.url)
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary folders have plain names")
}

fn suite(name: &str, url: &str, options: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["suite", name, url, "--json"], options].concat())
}

/// The document of a suite that has come to its end. On a machine without CPU time for the client
/// the verdict is INVALID; the document is complete all the same.
fn ended(ended: &ExitedProcess, name: &str) -> Value {
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
    let document = document::of(ended);
    assert_eq!((&document["kind"], &document["suite"]["suite"]), (&"suite".into(), &name.into()), "{ended:?}");
    document
}

/// The value of a figure.
fn figure(document: &Value, name: &str) -> Option<f64> {
    let figures = document["suite"]["figures"].as_array().expect("a suite has figures");
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("no figure {name} in {figures:#?}"))["value"].as_f64()
}

fn curve<'a>(document: &'a Value, name: &str) -> &'a Vec<Value> {
    let curves = document["suite"]["curves"].as_array().expect("a suite has curves");
    let curve = curves.iter().find(|curve| curve["name"] == name);
    curve.unwrap_or_else(|| panic!("no curve {name} in {curves:#?}"))["lines"][0]["points"].as_array().unwrap()
}

/// Searches the rate of a suite of files. Returns the document, which has the rate.
fn rate(name: &str, stage: &Stage, options: &[&str], mean_bytes: f64) -> Value {
    let searched = valid(|| suite(name, &stage.url(), &[&["--scale", "0.01"], options].concat()));
    with_rate(ended(&searched, name), mean_bytes)
}

/// The document of a suite that has found a rate of files of this mean size.
fn with_rate(document: Value, mean_bytes: f64) -> Value {
    let [operations, bits] = ["operations", "bits"].map(|name| figure(&document, name).expect("it was found"));
    let mean = bits / operations / 8.0;
    assert!(operations > 1.0 && (mean / mean_bytes - 1.0).abs() < 1e-3, "{:#}", document["suite"]);
    document
}

fn check_mixes(stage: &Stage, driver: &str) {
    let options = ["--scale", "0.003", "--clients", "4,1,2", "--driver", driver];
    let document = ended(&suite("webbench", &stage.url(), &options), "webbench");
    // Reads of 4096 bytes bring whole files, too.
    let failed: u64 = document["trials"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|trial| trial["outcomes"]["failed_check"].as_u64())
        .sum();
    assert_eq!(failed, 0, "{driver}");
    let threads: Vec<_> = curve(&document, "requests").iter().map(|point| point[0].as_f64().unwrap()).collect();
    assert_eq!(threads, [2.0, 4.0, 8.0]);
    let peak = figure(&document, "peak_requests").expect("some mix had a response");
    assert!(curve(&document, "requests").iter().all(|point| point[1].as_f64().unwrap() <= peak * 1.002));
    let phases: Vec<_> = document["trials"].as_array().unwrap().iter().map(|trial| trial["phase"].clone()).collect();
    assert_eq!(phases, ["mix-1", "mix-2", "mix-4"]);
}

#[test]
fn a_missing_server_or_tree_is_named() {
    let stage = Stage::of("acme-small", &[]);
    let check = |name: &str, url: &str, parts: &[&str]| {
        let ended = suite(name, url, &["--scale", "0.01"]);
        assert_eq!(ended.code, Some(4), "{ended:?}");
        assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{ended:?}");
    };
    check("acme-small", "http://127.0.0.1:1/", &["cannot connect"]);
    check(
        "acme-small",
        &format!("{}elsewhere", stage.url()),
        &["the tree of acme-small is not at", "GET /elsewhere/0000.html is 404", "thalweg files acme-small DIR"],
    );
    check("heanet", &stage.url(), &["the tree of heanet is not at", "is 404"]);
    let usage = run_thalweg(&["suite", "acme", &stage.url()]);
    assert_eq!(usage.code, Some(2), "{usage:?}");
    assert!(usage.stderr.contains("expected one of acme-small"), "{usage:?}");
}

/// A server of HEAnet's files.
fn heanet_server() -> Recorder {
    Recorder::start(|request| {
        let bytes = request.target.trim_start_matches('/').trim_end_matches(".txt").parse().unwrap_or(0);
        Response { closes: request.version == "HTTP/1.0", ..Response::good(&"x".repeat(bytes)) }
    })
}

/// A suite of HEAnet's that has measured the files of 100 bytes and goes on.
fn begun_heanet(server: &Recorder) -> Process {
    let options = ["--scale", "0.02", "--timeout", "10s", "--json"];
    let suite = Process::start(&mut thalweg(&[&["suite", "heanet", &server.url("/")], &options[..]].concat()));
    let of = |target: &str| server.received().iter().filter(|request| request.target == target).count();
    // The first and the last file are requested once each before anything is measured.
    until("requests for the second file", PATIENCE, || (of("/1000.txt") > 20).then_some(()));
    suite
}

#[test]
fn an_interrupted_suite_keeps_its_figures() {
    let server = heanet_server();
    let suite = begun_heanet(&server);
    suite.signal("INT");
    let ended = suite.wait(PATIENCE);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    let document = document::of(&ended);
    assert_eq!((&document["suite"]["interrupted"], &document["verdict"]), (&true.into(), &"invalid".into()));
    assert!(document["reasons"].to_string().contains("interrupted"), "{}", document["reasons"]);
    assert!(figure(&document, "requests_100").is_some());
    assert_eq!(figure(&document, "connections"), None);
}

#[test]
fn a_server_that_dies_is_named_and_the_figures_before_are_kept() {
    let server = heanet_server();
    let suite = begun_heanet(&server);
    drop(server);
    let ended = suite.wait(PATIENCE);
    assert!(matches!(ended.code, Some(1 | 3)), "{ended:?}");
    let document = document::of(&ended);
    assert_eq!(document["suite"]["interrupted"], false);
    assert!(document["reasons"].to_string().contains("the server is gone"), "{}", document["reasons"]);
    assert!(figure(&document, "requests_100").is_some());
    assert_eq!(figure(&document, "connections"), None);
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn the_mixes_of_webbench_make_a_curve() {
        let stage = Stage::of("webbench", &[]);
        for driver in drivers() {
            check_mixes(&stage, driver);
        }
    }

    #[test]
    fn connections_at_the_speed_of_a_modem_are_counted() {
        let stage = Stage::of("acme-modem", &[]);
        let options = ["--scale", "0.01", "--max-connections", "100"];
        let document = ended(&valid(|| suite("acme-modem", &stage.url(), &options)), "acme-modem");
        let found = &document["suite"]["figures"][0];
        // A busy machine holds up a connection in its short window.
        let held = found["value"].as_f64().expect("some were held");
        assert!((1.0..=100.0).contains(&held), "{found:#}");
        assert_eq!(found["at_least"], held == 100.0, "{found:#}");
        assert_eq!(found["words"].as_str().unwrap().starts_with("limited by the client"), held == 100.0, "{found:#}");
    }

    #[test]
    fn heanet_has_its_three_tests() {
        let stage = Stage::of("heanet", &[]);
        let options = ["--scale", "0.002", "--max-connections", "64"];
        let document = ended(&suite("heanet", &stage.url(), &options), "heanet");
        for bytes in [100, 1000, 2000, 10_000] {
            assert!(figure(&document, &format!("requests_{bytes}")).is_some_and(|rate| rate > 1.0), "{bytes}");
        }
        assert_eq!(curve(&document, "percentiles").len(), 9);
        let demanded: Vec<_> = curve(&document, "autobench").iter().map(|point| point[0].as_f64().unwrap()).collect();
        assert_eq!((demanded.len(), demanded[0], demanded[9]), (10, 200.0, 2000.0));
    }

    #[test]
    fn dynamic_requests_go_to_the_built_in_origin() {
        let folder = TempDir::new().unwrap();
        let root = folder.path().join("tree");
        assert_eq!(run_thalweg(&["files", "specweb99", text(&root), "--load", "1"]).code, Some(0));
        let origin = Process::start(&mut thalweg(&["suite", "origin", "--listen", "127.0.0.1:0"]));
        let listening = until("the origin", PATIENCE, || origin.stdout().lines().next().map(str::to_owned));
        let origin_url = listening.strip_prefix("listening on ").expect("the origin says where").trim_end_matches('/');
        let nginx = Nginx::with_listener(
            "",
            &format!(
                "location /tree/ {{ root {}; }} location /dynamic/ {{ proxy_pass {origin_url}; }}",
                text(folder.path())
            ),
        );
        let url = nginx.other_url("http", "/tree/");
        let options = ["--scale", "0.01", "--load", "1", "--max-connections", "8"];
        let dynamic = [&options[..], &["--dynamic", "/dynamic"]].concat();
        let document = ended(&valid(|| suite("specweb99", &url, &dynamic)), "specweb99");
        assert!(document["suite"]["choices"].to_string().contains("12.45 %"), "{:#}", document["suite"]);
        let found = figure(&document, "connections");
        assert!(found.is_some_and(|found| (1.0..=8.0).contains(&found)), "{:#}", document["suite"]);
        let elsewhere = suite("specweb99", &url, &[&options[..], &["--dynamic", "/elsewhere"]].concat());
        assert_eq!(elsewhere.code, Some(4), "{elsewhere:?}");
        assert!(elsewhere.stderr.contains("the dynamic requests beneath /elsewhere"), "{elsewhere:?}");
        let requested: Vec<String> = nginx.finish().into_iter().map(|entry| entry.uri).collect();
        for kind in ["get", "ad", "cgi", "post"] {
            assert!(requested.iter().any(|uri| *uri == format!("/dynamic/{kind}")), "{kind}");
        }
        origin.signal("TERM");
        assert_eq!(origin.wait(PATIENCE).code, Some(0));
    }
}

/// These tests search the capacity of a server on the same machine: nextest runs them alone.
mod alone {
    use super::*;

    #[test]
    fn the_rate_of_small_files_is_searched() {
        let stage = Stage::of("acme-small", &[]);
        let folder = TempDir::new().unwrap();
        let report = folder.path().join("small.html");
        let document = rate("acme-small", &stage, &["--out", text(&report)], 512.0);
        let choices = document["suite"]["choices"].to_string();
        assert!(choices.contains("scaled by 0.01") && choices.contains("HTTP/1.0"), "{choices}");
        assert!(document["suite"].get("trials").is_none() && !document["trials"].as_array().unwrap().is_empty());
        let page = std::fs::read_to_string(report).unwrap();
        assert!(page.contains("Afterburner") && page.contains("5200"), "the document's own figures are missing");
    }

    #[test]
    fn the_rates_of_mixed_files_are_searched() {
        for (name, options, choice) in [
            ("acme-spec", &[][..], "shares of SPECweb96's classes"),
            ("specweb96", &["--load", "1"], "not SPEC-compliant"),
        ] {
            let stage = Stage::of(name, options);
            let document = rate(name, &stage, options, 14_566.0);
            assert!(document["suite"]["choices"].to_string().contains(choice), "{:#}", document["suite"]);
            let too_small = document["reasons"].to_string().contains("the tree was too small");
            assert_eq!(too_small, name == "specweb96", "{}", document["reasons"]);
        }
    }

    /// Rates above the one that was met can be INVALID each time: on two CPUs the kernel's part of
    /// the transfers takes half of the client's.
    #[test]
    fn the_rate_of_large_files_is_searched() {
        let stage = Stage::of("acme-big", &[]);
        let document = repeated(|| {
            let document = ended(&suite("acme-big", &stage.url(), &["--scale", "0.01"]), "acme-big");
            ensure(figure(&document, "operations").is_some(), || document["reasons"].to_string())?;
            Ok(with_rate(document, 5e6))
        });
        assert!(document["suite"]["choices"].to_string().contains("response times have no limit"), "{document:#}");
        assert!(!document["reasons"].to_string().contains("the tree was too small"), "{}", document["reasons"]);
    }
}
