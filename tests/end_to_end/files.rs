//! Input files and rates that are wrong: the message names file, line and column, and no connection
//! is opened.

use std::fs;

use tempfile::TempDir;

use crate::process::run_thalweg;
use crate::recorder::{Recorder, Response};

/// A server that must not be bothered.
fn idle() -> Recorder {
    Recorder::start(|_| Response::good("ok"))
}

/// One message of one line with all of `parts`, and no result.
fn refused(server: &Recorder, options: &[&str], parts: &[&str]) {
    refused_by(server, &["run"], options, parts);
}

fn refused_by(server: &Recorder, command: &[&str], options: &[&str], parts: &[&str]) {
    let ended = run_thalweg(&[command, &[&server.url("/")], options].concat());
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{options:?}: {ended:?}");
    let first = ended.stderr.lines().next().unwrap_or_default();
    assert!(first.starts_with("thalweg: ") || first.starts_with("error: "), "{options:?}: {ended:?}");
    for part in parts {
        assert!(ended.stderr.contains(part), "{options:?} does not name {part:?}: {ended:?}");
    }
    assert_eq!(server.connections(), 0, "{options:?}: nobody is connected to before all is read");
}

/// Contents of a file, and the place and the words of the complaint.
type Case = (&'static str, &'static str, &'static str);

fn each(option: &str, name: &str, prefix: &str, further: &[&str], cases: &[Case]) {
    let (server, folder) = (idle(), TempDir::new().unwrap());
    let path = folder.path().join(name);
    let named = path.to_str().expect("temporary folders have plain names");
    for (text, place, word) in cases {
        fs::write(&path, text).unwrap();
        let value = format!("{prefix}{named}");
        refused(&server, &[&[option, &value], further].concat(), &[&format!("{named}:{place}: "), word]);
    }
}

#[test]
fn session_files() {
    let cases: [Case; 9] = [
        ("/a\n/b methud=GET\n", "2:4", "methud"),
        ("/a method=FETCH\n", "1:11", "FETCH"),
        ("/a think=soon\n", "1:10", "soon"),
        ("/a think=-1\n", "1:10", "-1"),
        ("/a\n/b\n  /c contents='open\n", "3:15", "quote"),
        ("# only this\n\n", "", "no session"),
        ("/a\nb\n", "2:1", "slash"),
        ("/a\n/\u{e4}\n", "2:2", "percent"),
        ("/a\n  # indented\n", "2:3", "comment"),
    ];
    let (empty, placed): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|case| case.1.is_empty());
    each("--session", "sessions", "", &["--workers", "1"], &placed);
    let (server, folder) = (idle(), TempDir::new().unwrap());
    let path = folder.path().join("sessions");
    fs::write(&path, empty[0].0).unwrap();
    refused(&server, &["--session", path.to_str().unwrap(), "--workers", "1"], &[path.to_str().unwrap(), "session"]);
    refused(&server, &["--session", "/nonexistent/sessions", "--workers", "1"], &["/nonexistent/sessions"]);
}

#[test]
fn session_files_in_toml() {
    each(
        "--session",
        "sessions.toml",
        "",
        &["--workers", "1"],
        &[
            ("[[session]]\n[[session.burst]]\ncalls = [\"/a\"", "3:14", "array"),
            ("[[session]]\n[[session.burst]]\ncals = [\"/a\"]\n", "3:1", "cals"),
            ("[[session]]\n[[session.burst]]\nthink = \"soon\"\ncalls = [\"/a\"]\n", "3:9", "soon"),
            ("[[session]]\n[[session.burst]]\ncalls = [{ uri = \"/a\", method = \"A B\" }]\n", "3:18", "method"),
            ("[[session]]\n[[session.burst]]\ncalls = []\n", "3:9", "call"),
            (
                "[[session]]\n[[session.burst]]\ncalls = [{ uri = \"/a\", body_file = \"missing\" }]\n",
                "3:36",
                "missing",
            ),
        ],
    );
}

#[test]
fn url_lists() {
    each(
        "--urls",
        "urls",
        "",
        &[],
        &[
            ("/a\n\nnot a url\n", "3:1", "not"),
            ("/a\nhttp://other.example/\n", "2:1", "other.example"),
            ("/a\n/b status=2OO\n", "2:11", "2OO"),
            ("/a length=14XB\n", "1:11", "14XB"),
            ("/a colour=red\n", "1:4", "colour"),
            ("/a\n/b sha256=12\n", "2:11", "64"),
            ("/a 1\n/b -1\n", "2:4", "weight"),
            ("/a 0\n", "1:4", "weight"),
            ("/a 1 2\n", "1:6", "status="),
        ],
    );
    each("--urls", "urls", "", &["--pick", "weighted"], &[("/a 1\n\n/b status=200\n", "3:1", "no weight")]);
}

#[test]
fn check_files() {
    each(
        "--check",
        "checks",
        "@",
        &[],
        &[
            ("# one\n/ status=abc\n", "2:10", "abc"),
            ("/ status=200\n/missing status=200\n", "2:1", "/missing"),
            ("/ status=200,status=201\n", "1:14", "twice"),
            ("/\n", "1:1", "conditions"),
            ("/ 2 status=200\n", "1:1", "weight"),
        ],
    );
    refused(&idle(), &["--check", "@/nonexistent/checks"], &["/nonexistent/checks"]);
    refused(&idle(), &["--check", "status=200,lenght=5"], &["column 12", "lenght"]);
}

#[test]
fn rates_and_sizes() {
    let server = idle();
    for (options, parts) in [
        (&["--rate", "100/s:1s,500/s"][..], &["--rate"][..]),
        (&["--rate", "100/s.."], &["--rate", "100/s.."]),
        (&["--rate", "0/s..0/s"], &["--rate"]),
        (&["--rate", "1e999/s"], &["--rate"]),
        (&["--rate", "nan/s"], &["--rate"]),
        (&["--conn-rate", "0/s"], &["--conn-rate"]),
        (&["--conn-rate", "5/w"], &["--conn-rate", "5/w"]),
        (&["--throttle", "0kbit"], &["--throttle"]),
        (&["--throttle", "slow"], &["--throttle", "slow"]),
        (&["--rtt", "far"], &["--rtt", "far"]),
        (&["--rtt", "10h"], &["--rtt", "10h", "at most 60s"]),
        (&["--pick", "zipf:x", "--urls", "/dev/null"], &["--pick", "zipf:x"]),
        (&["--pick", "zipf:-1", "--urls", "/dev/null"], &["--pick"]),
        (&["--from", "127.0.0.9-127.0.0.2"], &["--from"]),
        (&["--calls", "0"], &["--calls"]),
        (&["--pipeline", "0"], &["--pipeline"]),
        (&["--session", "/dev/null", "--session-connections", "65"], &["--session-connections", "64"]),
        (&["--connections", "0"], &["--connections"]),
        (&["--requests", "0"], &["--requests"]),
        (&["--format", "xml"], &["--format", "xml", "httperf"]),
        (&["--unix-socket", ""], &["--unix-socket"]),
        (&["--limit", "kbit_per_conn<"], &["--limit"]),
    ] {
        refused(&server, options, parts);
    }
}

#[test]
fn options_that_contradict_one_another() {
    let (server, folder) = (idle(), TempDir::new().unwrap());
    let session = folder.path().join("session");
    fs::write(&session, "/a\n").unwrap();
    let session = session.to_str().unwrap();
    for (options, parts) in [
        (&["--rate", "5/s", "--conn-rate", "5/s"][..], &["--rate", "--conn-rate"][..]),
        (&["--conn-rate", "5/s", "--workers", "2"], &["--conn-rate", "--workers"]),
        (&["--requests", "5", "--conn-rate", "5/s"], &["--requests", "--conns"]),
        (&["--conns", "5"], &["--conns", "--conn-rate"]),
        (&["--conns", "5", "--requests", "5", "--conn-rate", "5/s"], &["--conns", "--requests"]),
        (&["--duration", "5s", "--requests", "5"], &["--duration", "--requests"]),
        (&["--think", "1s"], &["--think", "--workers"]),
        (&["--think", "1s", "--rate", "5/s"], &["--think", "--workers"]),
        (&["--stagger", "1s"], &["--stagger", "--workers"]),
        (&["--hold", "5", "--calls", "1"], &["--hold", "--calls"]),
        (&["--hold", "5", "--workers", "5"], &["--hold", "--workers"]),
        (&["--hold", "5", "--conn-rate", "1/s..5/s"], &["--hold", "--conn-rate"]),
        (&["--session", "/dev/null", "--rate", "5/s"], &["--session", "--rate"]),
        (&["--session", "/dev/null", "--method", "PUT", "--workers", "1"], &["--session", "--method"]),
        (&["--pick", "random"], &["--pick", "--urls"]),
        (&["--pick", "weighted"], &["--pick", "--urls"]),
        (&["--pick", "random", "--session", session, "--workers", "1"], &["--pick", "--urls"]),
        (&["--json", "--format", "tsv"], &["--json", "--format"]),
        (&["--unix-socket", "/tmp/x", "--from", "127.0.0.2"], &["--unix-socket", "--from"]),
        (&["--arrivals", "poisson", "--workers", "2"], &["--arrivals", "--workers"]),
        (&["--pipeline", "4", "--conn-rate", "5/s"], &["--pipeline", "--conn-rate"]),
        (&["--pipeline", "4", "--http", "1.0"], &["--pipeline", "--http"]),
        (&["--pipeline", "4", "--hold", "5"], &["--pipeline", "--hold"]),
        (&["--session-connections", "2", "--rate", "5/s"], &["--session-connections", "--session"]),
        (&["--hold", "5", "--requests", "3", "--duration", "1s"], &["--requests", "--duration"]),
    ] {
        refused(&server, options, parts);
    }
}

/// `find` once took what `run` refused.
#[test]
fn contradictory_options_are_refused_by_every_command() {
    let (server, folder) = (idle(), TempDir::new().unwrap());
    let log = folder.path().join("access.log");
    fs::write(&log, "10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326\n").unwrap();
    for command in [&["run"][..], &["find"], &["replay", log.to_str().unwrap()]] {
        for (options, parts) in [
            (&["--pipeline", "4", "--http", "1.0"][..], &["--pipeline", "--http 1.0"][..]),
            (&["--pipeline", "4", "--calls", "1"], &["--calls"]),
            (&["--timeout", "0s"], &["--timeout"]),
            (&["--unix-socket", "/tmp/x", "--from", "127.0.0.2"], &["--unix-socket", "--from"]),
            (&["--pick", "random"], &["--pick"]),
        ] {
            refused_by(&server, command, options, parts);
        }
    }
}
