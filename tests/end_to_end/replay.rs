//! `thalweg replay`: an access log's requests at the log's own times.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::repetition::{ensure, repeated};
use crate::server::{Server, Tree};

/// Three seconds: four requests, two, four; one line is out of order, and two cannot be replayed.
const LOG: &str = "\
10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.0\" 200 2326
10.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET /b?x=1 HTTP/1.1\" 200 2326 \"http://example.com/\" \"Mozilla/5.0\"
10.0.0.2 - frank [10/Oct/2000:13:55:36 -0700] \"HEAD /c HTTP/1.1\" 200 -
10.0.0.2 - - [10/Oct/2000:13:55:37 -0700] \"GET /e HTTP/1.1\" 200 17
10.0.0.2 - - [10/Oct/2000:13:55:36 -0700] \"GET /d HTTP/1.1\" 200 17
10.0.0.3 - - [10/Oct/2000:13:55:37 -0700] \"POST /form HTTP/1.1\" 200 17
10.0.0.3 - - [10/Oct/2000:13:55:37 -0700] \"\\x16\\x03\\x01\" 400 17
10.0.0.2 - - [10/Oct/2000:13:55:37 -0700] \"GET /f HTTP/1.1\" 200 17
10.0.0.2 - - [10/Oct/2000:13:55:38 -0700] \"GET /g HTTP/1.1\" 404 17
10.0.0.2 - - [10/Oct/2000:13:55:38 -0700] \"GET /a HTTP/1.1\" 200 17
10.0.0.2 - - [10/Oct/2000:13:55:38 -0700] \"DELETE /h HTTP/1.1\" 200 17
10.0.0.2 - - [10/Oct/2000:13:55:38 -0700] \"OPTIONS /i HTTP/1.1\" 200 17
";

/// When each is due at its own speed, in seconds, and what.
const DUE: [(f64, &str); 10] = [
    (0.0, "GET /a"),
    (0.25, "GET /b?x=1"),
    (0.5, "HEAD /c"),
    (0.75, "GET /d"),
    (1.0, "GET /e"),
    (1.5, "GET /f"),
    (2.0, "GET /g"),
    (2.25, "GET /a"),
    (2.5, "DELETE /h"),
    (2.75, "OPTIONS /i"),
];

fn recorder() -> Recorder {
    Recorder::start(|received| Response::good(if received.method == "HEAD" { "" } else { "ok" }))
}

#[test]
fn a_log_is_read_from_stdin() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    fs::write(&log, LOG).unwrap();
    let recorder = recorder();
    let mut command = thalweg(&["replay", "-", &recorder.url("/"), "--speed", "20", "--json"]);
    let ended = Process::start(command.stdin(Stdio::from(File::open(&log).unwrap()))).wait(PATIENCE);
    assert_eq!(outcome(&document::of(&ended)["trials"][0], "good"), 10, "{ended:?}");
}

#[test]
fn packed_logs_are_replayed_whatever_they_are_called_and_from_pipes_too() {
    let folder = TempDir::new().unwrap();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(LOG.as_bytes()).unwrap();
    let (gzip, zstd) = (gzip.finish().unwrap(), compress_to_vec(LOG.as_bytes(), CompressionLevel::Fastest));
    let log = folder.path().join("access.log.1");
    for bytes in [LOG.as_bytes(), &gzip, &zstd] {
        fs::write(&log, bytes).unwrap();
        let recorder = recorder();
        let ended = run_thalweg(&["replay", log.to_str().unwrap(), &recorder.url("/"), "--speed", "20", "--json"]);
        assert_eq!(outcome(&document::of(&ended)["trials"][0], "good"), 10, "{ended:?}");
        let mut command = Command::new("sh");
        command.args(["-c", "cat \"$0\" | exec \"$@\"", log.to_str().unwrap(), env!("CARGO_BIN_EXE_thalweg")]);
        command.args(["replay", "-", &recorder.url("/"), "--speed", "20", "--json"]);
        let ended = Process::start(&mut command).wait(PATIENCE);
        assert_eq!(outcome(&document::of(&ended)["trials"][0], "good"), 10, "{ended:?}");
        assert_eq!(recorder.received().len(), 20);
    }
    for (bytes, part) in
        [(&gzip[..gzip.len() - 9], "the gzip data end at byte"), (&zstd[..zstd.len() - 1], "the zstd data end at byte")]
    {
        fs::write(&log, bytes).unwrap();
        let recorder = recorder();
        let ended = run_thalweg(&["replay", log.to_str().unwrap(), &recorder.url("/")]);
        assert_eq!((ended.code, &*ended.stdout, ended.stderr.lines().count()), (Some(2), "", 1), "{ended:?}");
        assert!(ended.stderr.contains(log.to_str().unwrap()) && ended.stderr.contains(part), "{ended:?}");
        assert_eq!(recorder.connections(), 0);
    }
}

/// Lines that were left out were once reported on stderr alone.
#[test]
fn lines_that_are_left_out_are_counted_in_the_result() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    fs::write(&log, LOG).unwrap();
    let recorder = recorder();
    let replay = ["replay", log.to_str().unwrap(), &recorder.url("/"), "--speed", "20"];
    let document = document::of(&run_thalweg(&[&replay[..], &["--json"]].concat()));
    let skipped = serde_json::json!({ "total": 2, "malformed": 1, "method": 1, "target": 0, "proxy": 0, "format": 0 });
    let log = &document["log"];
    assert_eq!((&log["requests"], &log["skipped"], &log["displaced"]), (&10.into(), &skipped, &0.into()), "{log:#}");
    assert_eq!(log["detected"], "common or combined, which 12 of the first 12 lines have", "{log:#}");
    let ended = run_thalweg(&replay);
    let expected = "log: 10 requests; 2 lines skipped: 1 with no valid request, 1 with a method whose body the log does not contain\n";
    assert!(ended.stdout.contains(expected), "{ended:?}");
}

/// Such a log once had a rate of 1,000,000,000/s, and 256 connections.
#[test]
fn a_log_of_one_request_has_its_second_and_one_connection() {
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    fs::write(&log, LOG.lines().next().unwrap()).unwrap();
    let recorder = recorder();
    let document =
        document::of(&run_thalweg(&["replay", log.to_str().unwrap(), &recorder.url("/"), "--speed", "4", "--json"]));
    let load = document["plan"]["load"].as_str().unwrap();
    assert!(load.starts_with("open loop, recorded times, 4.00/s on average"), "{load}");
    let trial = &document["trials"][0];
    assert_eq!((number(trial, "/offered_rate"), number(trial, "/seconds")), (4.0, 0.25), "{trial:#}");
    assert_eq!(number(trial, "/connections/opened"), 1.0, "{trial:#}");
    // A look whether the target is there is a connection too.
    assert!(recorder.connections() <= 2, "{} connections", recorder.connections());
}

#[test]
fn a_log_that_cannot_be_read_is_said_with_its_place_and_nothing_is_sent() {
    let (recorder, folder) = (recorder(), TempDir::new().unwrap());
    let log = folder.path().join("access.log");
    let path = log.to_str().unwrap();
    let first = LOG.lines().next().unwrap();
    let far = format!("{first}\n{}", first.replace("Oct", "Okt"));
    let long = format!("{first}\n{}\n", "x".repeat(3 << 20));
    let hosts = LOG.lines().map(|line| format!("www.example.com:443 {line}\n")).collect::<String>();
    for (text, place, word) in [
        ("not a log\n", ":1:", ""),
        (&*long, ":2:1: ", "bytes"),
        (&*hosts, ":12:1: ", "this is a virtual host; --log-format vhost_combined reads such lines"),
        ("", "", "no request"),
    ] {
        fs::write(&log, text).unwrap();
        let ended = run_thalweg(&["replay", path, &recorder.url("/")]);
        assert_eq!((ended.code, &*ended.stdout, ended.stderr.lines().count()), (Some(2), "", 1), "{ended:?}");
        assert!(ended.stderr.contains(&format!("{path}{place}")) && ended.stderr.contains(word), "{ended:?}");
    }
    for (text, place, word) in [(&*format!("{first}\nnginx says hello\n"), ":2:", ""), (&*far, ":2:14: ", "time")] {
        fs::write(&log, text).unwrap();
        let ended = run_thalweg(&["replay", path, &recorder.url("/"), "--strict"]);
        assert_eq!((ended.code, &*ended.stdout, ended.stderr.lines().count()), (Some(2), "", 1), "{ended:?}");
        assert!(ended.stderr.contains(&format!("{path}{place}")) && ended.stderr.contains(word), "{ended:?}");
    }
    fs::write(&log, LOG).unwrap();
    for (options, part) in [
        (&["--speed", "0"][..], "--speed"),
        (&["--log-format", "no format"], "--log-format"),
        (&["--gap-max", "0s"], "--gap-max"),
        (&["--speed", "-1"], "--speed"),
        (&["--speed", "nan"], "--speed"),
        (&["--urls", path], "--urls"),
        (&["--body", "x"], "--body"),
        (&["--method", "PUT"], "--method"),
        (&["--arrivals", "poisson"], "--arrivals"),
        (&["--rate", "5/s"], "--rate"),
    ] {
        let ended = run_thalweg(&[&["replay", path, &recorder.url("/")], options].concat());
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{options:?}: {ended:?}");
        assert!(ended.stderr.contains(part), "{options:?}: {ended:?}");
    }
    let ended = run_thalweg(&["replay", "/nonexistent/log", &recorder.url("/")]);
    assert!(ended.code == Some(2) && ended.stderr.contains("/nonexistent/log"), "{ended:?}");
    assert_eq!(recorder.connections(), 0);
}

/// An open-proxy probe went out as a request to a proxy, or as a malformed path over HTTP/2, and
/// counted against the server; a line that was copied while it was written ended the command; and
/// two addresses in front were taken for a virtual host.
#[test]
fn lines_that_real_logs_have_are_left_out_or_read() {
    let log = "\
        192.0.2.1 - - [10/Oct/2024:13:55:36 +0000] \"GET http://example.net/x HTTP/1.1\" 200 157 \"-\" \"-\"\n\
        192.0.2.1 - - [10/Oct/2024:13:55:36 +0000] \"CONNECT example.net:443 HTTP/1.1\" 400 157 \"-\" \"-\"\n\
        198.51.100.1, 203.0.113.7 - - [10/Oct/2024:13:55:36 +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"a\"\n\
        192.0.2.9 - - [10/Oct/2024:13:55:37 +0000] \"GET /good HTTP/1.1\" 200 5 \"-\" \"a\"\n\
        192.0.2.1 - - [10/Oct/2024:13:55:37 +0000] \"GET /b HTT";
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("access.log");
    fs::write(&path, log).unwrap();
    let recorder = recorder();
    let ended = run_thalweg(&["replay", path.to_str().unwrap(), &recorder.url("/"), "--speed", "20", "--json"]);
    let skipped = &document::of(&ended)["log"]["skipped"];
    assert_eq!((&skipped["proxy"], &skipped["format"]), (&2.into(), &1.into()), "{skipped:#}");
    let targets: Vec<String> = recorder.received().into_iter().map(|received| received.target).collect();
    assert_eq!(targets, ["/x", "/good"]);
    assert!(ended.stderr.contains(":5:44: not a line of an access log"), "{ended:?}");
}

#[test]
fn a_replay_can_be_interrupted() {
    let (recorder, folder) = (recorder(), TempDir::new().unwrap());
    let log = folder.path().join("access.log");
    fs::write(&log, LOG).unwrap();
    let replay = ["replay", log.to_str().unwrap(), &recorder.url("/"), "--speed", "0.1", "--json"];
    let replay = Process::start(&mut thalweg(&replay));
    until("the first request", PATIENCE, || (!recorder.received().is_empty()).then_some(()));
    replay.signal("INT");
    let ended = replay.wait(PATIENCE);
    let document = document::of(&ended);
    assert!(document["reasons"].to_string().contains("interrupted"), "{document:#}");
}

/// The lines of a log that our own server writes.
fn logged(format: &str, paths: &[&str]) -> String {
    let tree = Tree::new();
    let folder = TempDir::new().unwrap();
    let log = folder.path().join("access.log");
    let options = ["--access-log", log.to_str().unwrap(), "--log-format", format];
    let server = Server::of(&tree, &options);
    for path in paths {
        let mut stream = TcpStream::connect(server.authority()).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nUser-Agent: \"a\\b\"\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    // No request, which is logged all the same.
    let mut stream = TcpStream::connect(server.authority()).unwrap();
    stream.write_all(b"nothing\r\n\r\n").unwrap();
    stream.read_to_end(&mut Vec::new()).unwrap();
    server.process.signal("TERM");
    assert_eq!(server.process.wait(PATIENCE).code, Some(0));
    fs::read_to_string(&log).unwrap()
}

#[test]
fn logs_of_our_own_server_are_replayed_in_every_format() {
    let paths = ["/text.txt", "/with%20space.txt", "/missing?a=b&c=\"d\\e\"", "/", "/text.txt"];
    let folder = TempDir::new().unwrap();
    for format in ["common", "combined", "json"] {
        let text = logged(format, &paths);
        assert_eq!(text.lines().count(), paths.len() + 1, "{text}");
        let log = folder.path().join(format);
        fs::write(&log, text).unwrap();
        let recorder = recorder();
        let ended = run_thalweg(&["replay", log.to_str().unwrap(), &recorder.url("/"), "--speed", "100", "--json"]);
        assert_eq!(outcome(&document::of(&ended)["trials"][0], "good"), paths.len() as u64, "{format}: {ended:?}");
        assert!(ended.stderr.contains("1 malformed"), "{format}: {ended:?}");
        let mut received: Vec<_> = recorder.received().into_iter().map(|received| received.target).collect();
        let mut expected = paths.map(str::to_owned).to_vec();
        received.sort();
        expected.sort();
        assert_eq!(received, expected, "{format}");
    }
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_log_is_replayed_at_its_own_times_and_at_twice_the_speed() {
        let folder = TempDir::new().unwrap();
        let log = folder.path().join("access.log");
        fs::write(&log, LOG).unwrap();
        for (speed, driver) in [(1.0, "auto"), (2.0, "epoll"), (10.0, "auto")] {
            repeated(|| {
                let recorder = recorder();
                let options = ["--speed", &speed.to_string(), "--driver", driver, "--json"];
                let ended =
                    run_thalweg(&[&["replay", log.to_str().unwrap(), &recorder.url("/")], &options[..]].concat());
                let document = document::of(&ended);
                assert_eq!(document["kind"], "replay");
                let trial = &document["trials"][0];
                assert_eq!((outcome(trial, "good"), number(trial, "/counts/offered")), (10, 10.0), "{trial:#}");
                for part in ["2 lines of the log", "1 malformed", "1 methods"] {
                    assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
                }
                let received = recorder.received();
                for ((due, what), one) in DUE.iter().zip(&received) {
                    assert_eq!(*what, format!("{} {}", one.method, one.target), "{speed}: {received:?}");
                    let at = (one.at - received[0].at).as_secs_f64();
                    let expected = due / speed;
                    ensure((at - expected).abs() < 0.03, || {
                        format!("{speed}: {what} at {at} s instead of {expected} s")
                    })?;
                }
                Ok(())
            });
        }
    }
}
