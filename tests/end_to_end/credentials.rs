//! `http://user:password@host/`: sent as Basic authentication, and shown nowhere.

use std::fs;

use tempfile::TempDir;

use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};

const SECRET: &str = "open-sesame";
/// `Aladdin:open-sesame`.
const FIELD: &str = "Basic QWxhZGRpbjpvcGVuLXNlc2FtZQ==";

fn with_credentials(server: &Recorder) -> String {
    server.url("/a").replace("http://", &format!("http://Aladdin:{SECRET}@"))
}

#[track_caller]
fn keeps_the_secret(text: &str) {
    for secret in [SECRET, "QWxhZGRpb", "Aladdin"] {
        assert!(!text.contains(secret), "{secret} is shown: {text}");
    }
}

#[test]
fn credentials_of_the_url_are_sent_and_not_shown() {
    let folder = TempDir::new().unwrap();
    let [report, log, hdr, sessions] =
        ["report.html", "access.log", "hdr", "sessions"].map(|name| folder.path().join(name));
    let [report, log, hdr, sessions] = [&report, &log, &hdr, &sessions].map(|path| path.to_str().unwrap());
    fs::write(log, "h - - [14/Mar/2026:15:09:26 +0000] \"GET /a HTTP/1.1\" 200 1\n".repeat(5)).unwrap();
    fs::write(sessions, "/a\n  /b\n").unwrap();
    let server = Recorder::start(|_| Response::good("ok"));
    let url = with_credentials(&server);
    let files = ["--out", report, "--hdr", hdr];
    for command in [
        &["run", &url, "--requests", "5", "--rate", "100/s"][..],
        &["run", &url, "--requests", "5", "--workers", "1", "--calls", "1"],
        &["run", &url, "--session", sessions, "--workers", "1", "--conns", "3"],
        &["replay", log, &url],
        &[
            "find",
            &url,
            "--duration",
            "500ms",
            "--probe",
            "100ms",
            "--width",
            "50%",
            "--budget",
            "1s",
            "--connections",
            "2",
        ],
    ] {
        for format in ["text", "json", "tsv", "httperf", "ab"] {
            let (before, search) = (server.received().len(), command[0] == "find");
            if search && format != "json" {
                continue;
            }
            let ended = run_thalweg(&[command, &files, &["--format", format]].concat());
            assert!(matches!(ended.code, Some(0 | 1 | 3)), "{ended:?}");
            let received = server.received();
            let asked = received[before..].iter().map(|received| received.field("authorization"));
            assert!(received.len() > before, "{command:?}: {ended:?}");
            assert!(asked.clone().all(|field| field == Some(FIELD)), "{command:?}: {:?}", asked.collect::<Vec<_>>());
            for text in
                [&ended.stdout, &ended.stderr, &fs::read_to_string(report).unwrap(), &fs::read_to_string(hdr).unwrap()]
            {
                keeps_the_secret(text);
            }
        }
    }
}

#[test]
fn errors_do_not_show_credentials() {
    for url in [
        format!("https://Aladdin:{SECRET}@127.0.0.1/"),
        format!("http://Aladdin:{SECRET}@127.0.0.1:99999/"),
        format!("http://Aladdin:{SECRET}@127.0.0.1:1/"),
        format!("Aladdin:{SECRET}@127.0.0.1:1"),
        format!("http://Alad%3Adin:{SECRET}@127.0.0.1:1/"),
        format!("http://Aladdin:{SECRET}@name.invalid/"),
    ] {
        let ended = run_thalweg(&["run", &url, "--requests", "1"]);
        assert!(matches!(ended.code, Some(2 | 4)) && !ended.stderr.is_empty(), "{ended:?}");
        keeps_the_secret(&ended.stderr);
    }
}

#[test]
fn credentials_that_are_given_twice_are_an_error() {
    let server = Recorder::start(|_| Response::good("ok"));
    let url = with_credentials(&server);
    let ended = run_thalweg(&["run", &url, "--requests", "1", "--header", "authorization: Bearer x"]);
    assert_eq!((ended.code, server.connections()), (Some(2), 0), "{ended:?}");
    assert!(ended.stderr.contains("--header Authorization"), "{ended:?}");
    keeps_the_secret(&ended.stderr);
}

#[test]
fn an_interrupted_run_does_not_show_credentials_either() {
    let server = Recorder::start(|_| Response::good("ok"));
    let run =
        Process::start(&mut thalweg(&["run", &with_credentials(&server), "--rate", "100/s", "--duration", "60s"]));
    until("the run to be under way", PATIENCE, || (server.received().len() > 20).then_some(()));
    run.signal("INT");
    let ended = run.wait(PATIENCE);
    keeps_the_secret(&(ended.stdout + &ended.stderr));
}
