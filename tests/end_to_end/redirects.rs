//! Redirects and other responses that are not good: they are shown, followed if that was asked for,
//! and warned of while the load goes on.

use std::fs;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::process::{ExitedProcess, run_thalweg, thalweg};
use crate::recorder::{Recorder, Response};
use crate::scripted::{Act, ScriptedServer};
use crate::server::{Server, Tree};

const REQUESTS: &[&str] = &["--workers", "2", "--requests", "20", "--store", "none"];

fn run(url: &str, options: &[&str]) -> ExitedProcess {
    run_thalweg(&[&["run", url], REQUESTS, options].concat())
}

/// A folder whose name without a slash is redirected to its listing.
fn folder_server(options: &[&str]) -> (Tree, Server) {
    let tree = Tree::new();
    let server = Server::start(&tree.root(), &[&["--listing"], options].concat(), thalweg).expect("the server starts");
    fs::create_dir(tree.root().join("docs")).expect("a folder can be made");
    (tree, server)
}

fn warnings(ended: &ExitedProcess) -> Vec<&str> {
    ended.stderr.lines().filter(|line| line.starts_with("thalweg: warning: ")).collect()
}

#[test]
fn a_redirect_is_no_good_response_and_the_summary_says_where_it_leads() {
    let (_tree, server) = folder_server(&[]);
    let url = format!("{}/docs", server.url);
    let leads = format!("/docs was answered with the redirect 301 to {url}/; use that URL, follow it with --follow");
    let text = run(&url, &[]);
    assert_ne!(text.code, Some(0), "{text:?}");
    assert_eq!(text.stdout.lines().nth(1), Some("  status: 20 x 301"), "{text:?}");
    assert!(text.stdout.contains(&leads) && text.stdout.contains("bad status"), "{text:?}");
    let warned = warnings(&text);
    assert_eq!(warned.len(), 1, "{text:?}");
    assert!(warned[0].contains(&format!("responses of {url} were all bad: {leads}")), "{warned:?}");

    let trial = document::trial(&run(&url, &["--json"]));
    assert_eq!(outcome(&trial, "bad_status"), 20, "{trial:#}");
    let sample = serde_json::json!({"status": 301, "target": "/docs", "location": "/docs/"});
    assert_eq!((&trial["redirects"]["sample"], &trial["redirects"]["followed"]), (&sample, &0.into()), "{trial:#}");

    let allowed = run(&url, &["--json", "--check", "status=301"]);
    assert_eq!(warnings(&allowed).len(), 0, "{allowed:?}");
    assert_eq!(outcome(&document::trial(&allowed), "good"), 20);
    let report = TempDir::new().unwrap();
    let page = report.path().join("report.html");
    run(&url, &["--out", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<dt>Status codes</dt><dd>20 × 301</dd>") && page.contains("--follow"), "{page}");
}

#[test]
fn redirects_are_followed_over_each_protocol_and_driver() {
    let (_tree, plain) = folder_server(&[]);
    let (_other, secure) = folder_server(&["--tls", "self-signed"]);
    let secure_url = secure.url.replace("http://", "https://");
    for driver in drivers() {
        for (base, more) in [
            (&plain.url, &[][..]),
            (&plain.url, &["--calls", "1"]),
            (&plain.url, &["--pipeline", "4"]),
            (&plain.url, &["--http", "2"]),
            (&plain.url, &["--http", "2", "--streams", "4", "--connections", "1"]),
            (&secure_url, &["--insecure"]),
            (&secure_url, &["--insecure", "--http", "2"]),
        ] {
            let options = [&["--json", "--follow", "--driver", driver], more].concat();
            let ended = run(&format!("{base}/docs"), &options);
            let trial = document::trial(&ended);
            assert_eq!(outcome(&trial, "good"), 20, "{options:?}: {trial:#}");
            assert_eq!(number(&trial, "/redirects/followed"), 20.0, "{options:?}: {trial:#}");
            assert_eq!(trial["status_codes"], serde_json::json!({"200": 20, "301": 20}), "{options:?}");
            assert_eq!((number(&trial, "/counts/offered"), number(&trial, "/counts/sent")), (20.0, 20.0));
        }
    }
    let line = format!("curl -L {}/docs", plain.url);
    let of_curl = document::trial(&run_thalweg(&["run", "--curl", &line, "--requests", "20", "-c", "2", "--json"]));
    assert_eq!(number(&of_curl, "/redirects/followed"), 20.0, "{of_curl:#}");
    let text = run(&format!("{}/docs", plain.url), &["--follow=1"]);
    assert!(text.stdout.contains("  status: 20 x 200, 20 x 301; 20 redirects followed\n"), "{text:?}");
}

/// The responses of a site that has moved about.
fn moved() -> Recorder {
    Recorder::start(|request| {
        let redirect = |status: &str, location: &str| Response {
            text: format!("HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 2\r\n\r\nno"),
            after: Duration::from_millis(10),
            closes: false,
        };
        match request.target.as_str() {
            "/form" => redirect("303", "/thanks"),
            "/kept" => redirect("308", "here?q"),
            "/chain/3" => redirect("302", "2"),
            "/chain/2" => {
                let moved = redirect("302", "./1");
                let text = moved.text.replace("Moved\r\n", "Moved\r\nConnection: close\r\n");
                Response { text, closes: true, ..moved }
            }
            "/chain/1" => redirect("302", "/end"),
            "/loop" => redirect("302", "/loop"),
            "/away" => redirect("302", "http://127.0.0.2:1/"),
            _ => Response::good("yes"),
        }
    })
}

fn followed(recorder: &Recorder, path: &str, options: &[&str]) -> Value {
    document::trial(&run(&recorder.url(path), &[&["--json", "--follow"], options].concat()))
}

#[test]
fn a_followed_request_is_one_request_with_the_time_of_its_whole_way() {
    let recorder = moved();
    let trial = followed(&recorder, "/chain/3", &["--check", "status=200,length=3"]);
    assert_eq!(outcome(&trial, "good"), 20, "{trial:#}");
    assert_eq!(number(&trial, "/redirects/followed"), 60.0, "{trial:#}");
    for times in ["response_time_us", "service_time_us", "first_byte_us"] {
        let least = number(&trial, &format!("/{times}/min"));
        assert!(least >= 30_000.0, "{times}: {least} us for three responses of 10 ms");
    }
    assert_eq!(recorder.received().iter().filter(|request| request.target == "/end").count(), 20);
}

#[test]
fn methods_and_bodies_of_followed_requests_are_those_of_browsers() {
    let recorder = moved();
    let post = ["--method", "POST", "--body", "a=b", "--header", "Content-Type: text/plain", "--header", "X-Kept: 1"];
    assert_eq!(outcome(&followed(&recorder, "/form", &post), "good"), 20);
    assert_eq!(outcome(&followed(&recorder, "/kept", &post), "good"), 20);
    let received = recorder.received();
    let of = |target: &str| received.iter().find(|request| request.target == target).expect("it was followed");
    let (thanks, here) = (of("/thanks"), of("/here?q"));
    assert_eq!((&*thanks.method, &thanks.body[..], thanks.field("content-type")), ("GET", &b""[..], None));
    assert_eq!((&*here.method, &here.body[..], here.field("content-type")), ("POST", &b"a=b"[..], Some("text/plain")));
    assert!([thanks, here].iter().all(|request| request.field("x-kept") == Some("1")));
}

#[test]
fn redirects_that_are_not_followed_are_counted_by_reason() {
    let recorder = moved();
    let trial = followed(&recorder, "/loop", &[]);
    let counts = |trial: &Value| ["followed", "too_many", "other_host"].map(|name| trial["redirects"][name].as_u64());
    assert_eq!((outcome(&trial, "bad_status"), counts(&trial)), (20, [Some(100), Some(20), Some(0)]), "{trial:#}");
    let trial = followed(&recorder, "/away", &[]);
    assert_eq!((outcome(&trial, "bad_status"), counts(&trial)), (20, [Some(0), Some(0), Some(20)]), "{trial:#}");
    let reasons = trial["reasons"].to_string();
    assert!(reasons.contains("lead to another host") && reasons.contains("http://127.0.0.2:1/"), "{reasons}");
}

#[test]
fn follow_is_refused_where_calls_build_on_one_another() {
    let recorder = moved();
    let refused = run_thalweg(&["run", &recorder.url("/"), "--conn-rate", "5/s", "--calls", "2", "--follow"]);
    assert_eq!((refused.code, recorder.connections()), (Some(2), 0), "{refused:?}");
    assert!(refused.stderr.contains("--follow cannot be used with connections"), "{refused:?}");
    let zero = run_thalweg(&["run", &recorder.url("/"), "--follow=0"]);
    assert_eq!((zero.code, recorder.connections()), (Some(2), 0), "{zero:?}");
}

#[test]
fn searches_and_replays_follow_redirects_too() {
    let (_tree, server) = folder_server(&[]);
    let url = format!("{}/docs", server.url);
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    let line = "h - - [10/Oct/2025:13:00:00 +0000] \"GET /docs HTTP/1.1\" 301 0\n";
    fs::write(&log, line.repeat(5)).unwrap();
    let replay = ["replay", log.to_str().unwrap(), &server.url, "--json", "--follow", "--store", "none"];
    let trial = document::trial(&run_thalweg(&replay));
    assert_eq!((outcome(&trial, "good"), number(&trial, "/redirects/followed")), (5, 5.0), "{trial:#}");
    let sweep = ["--low-rate", "50/s", "--high-rate", "50/s", "--step", "50/s", "--duration", "500ms", "--follow"];
    let ended = run_thalweg(&[&["sweep", &url, "--json", "--store", "none"], &sweep[..]].concat());
    let trial = &document::of(&ended)["trials"][0];
    let (followed, good) = (number(trial, "/redirects/followed"), number(trial, "/counts/good"));
    // Good ones that a time was left out with, because of another program, were followed, too.
    let is_whole = trial["lost_s"].as_f64().unwrap_or(0.0) == 0.0;
    assert!(good >= 20.0 && (followed == good || !is_whole && followed > good), "{trial:#}");
}

/// Such targets were once reported as unreachable by `compare`.
#[test]
fn a_target_that_always_answers_403_is_not_called_unreachable_by_any_command() {
    let server = ScriptedServer::start(|_| Act::Answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    let url = server.url();
    let sweep = ["--low-rate", "50/s", "--high-rate", "50/s", "--step", "50/s", "--duration", "500ms"];
    for command in [
        vec!["run", &*url, "--requests", "20"],
        vec!["find", &url, "--connections", "2"],
        [&["sweep", &*url][..], &sweep].concat(),
        vec!["compare", &url, &url, "--connections", "2", "--rounds", "8"],
        vec!["suite", "acme-small", &url, "--scale", "0.01"],
    ] {
        let ended = run_thalweg(&[&command[..], &["--store", "none"]].concat());
        let said = format!("{}{}", ended.stdout, ended.stderr);
        // A busy machine may make the trials of the first and third invalid.
        let may_be_invalid = matches!(command[0], "run" | "sweep") && ended.code == Some(3);
        // A suite whose tree is not there has nothing to measure.
        let expected = if command[0] == "suite" { 4 } else { 1 };
        assert!(ended.code == Some(expected) || may_be_invalid, "{command:?}: {ended:?}");
        let blamed = ["reached", "unreachable", "cannot connect"].iter().any(|word| said.contains(word));
        assert!(said.contains("403") && !blamed, "{command:?}: {said}");
    }
}

#[test]
fn ten_bad_responses_are_warned_of_once_while_the_load_goes_on() {
    let server = ScriptedServer::start(|number| match number {
        0..100 => Act::Answer("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
        _ => Act::Answer(crate::scripted::GOOD),
    });
    let load = ["--rate", "100/s", "--duration", "2s", "--store", "none"];
    let ended = run_thalweg(&[&["run", &server.url()], &load[..]].concat());
    let warned = warnings(&ended);
    assert_eq!(warned.len(), 1, "{ended:?}");
    assert!(warned[0].contains("status 500; see the server's error log"), "{warned:?}");
    let good = ScriptedServer::start(|number| match number {
        9 => Act::Answer(crate::scripted::GOOD),
        _ => Act::Answer("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"),
    });
    let ended = run_thalweg(&["run", &good.url(), "--workers", "1", "--requests", "300", "--store", "none"]);
    assert_eq!(warnings(&ended).len(), 0, "the tenth was good: {ended:?}");
}

/// Such a run once passed with nothing sent and nothing good.
#[test]
fn a_run_that_completed_nothing_in_its_window_does_not_pass() {
    let server = ScriptedServer::start(|_| Act::AnswerAfter(Duration::from_millis(1500), crate::scripted::GOOD));
    let load = ["--workers", "2", "--duration", "500ms", "--store", "none"];
    let ended = run_thalweg(&[&["run", &server.url()], &load[..]].concat());
    check_not_passed(&ended);
    // Downloads that are read slowly are cut off with the schedule.
    let (tree, files) = folder_server(&[]);
    fs::write(tree.root().join("large"), vec![b'x'; 1_000_000]).unwrap();
    let url = format!("{}/large", files.url);
    let held = ["--hold", "3", "--throttle", "33.6kbit", "--duration", "1s", "--store", "none"];
    check_not_passed(&run_thalweg(&[&["run", &url], &held[..]].concat()));
}

/// A busy machine may make a trial invalid, which comes before all else.
fn check_not_passed(ended: &ExitedProcess) {
    let says_so = ended.code == Some(1) && ended.stdout.contains("no response was complete by the end of the measured");
    assert!(says_so || ended.code == Some(3), "{ended:?}");
}

/// Three requests once opened as many connections as the default allows.
#[test]
fn replaying_three_requests_opens_three_connections_at_most() {
    let recorder = Recorder::start(|_| Response::good("yes").after(Duration::from_millis(200)));
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    fs::write(&log, "h - - [10/Oct/2025:13:00:00 +0000] \"GET / HTTP/1.1\" 200 3\n".repeat(3)).unwrap();
    let trial = document::trial(&run_thalweg(&[
        "replay",
        log.to_str().unwrap(),
        &recorder.url("/"),
        "--json",
        "--store",
        "none",
    ]));
    assert_eq!((outcome(&trial, "good"), number(&trial, "/connections/attempted")), (3, 3.0), "{trial:#}");
    // A look whether the target is there is a connection too.
    assert!(recorder.connections() <= 4, "{} connections", recorder.connections());
}
