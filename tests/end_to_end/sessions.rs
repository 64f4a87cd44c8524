//! Sessions: Thalweg plays a file to a server that records its requests, and httperf has done so
//! before.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, program, run_thalweg};
use crate::recorder::{RecordedRequest, Recorder, Response};
use crate::recordings::Source;
use crate::repetition::{ensure, repeated};

/// The requests of the example in httperf's manual page.
const MANUAL: &str = "\
# the first session
/foo.html think=2.0
\t/pict1.gif
\t/pict2.gif
/foo2.html method=POST contents='Post data'
\t/pict3.gif
\t/pict4.gif

# the second session
/foo3.html method=POST contents=\"Multiline\\ndata\"
/foo4.html method=HEAD
";

/// Syntax that the manual does not show: several blank lines, quotes, continuation lines, think
/// times within a burst and of nothing.
const ODD: &str = "
  /indented-first
/a think=0.1
   /b think=0.2 think=0.05
/c contents=it''s' 'one\\tword method=PUT
  /d method=DELETE

/e contents='line one\\
line two' think=0
/f?x=1&y=#2
# not the end of the session
/g method=OPTIONS
";

/// A request as it was played.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlayedRequest {
    method: String,
    target: String,
    body: Vec<u8>,
    /// Number of calls under way on its connection before it, which distinguishes bursts from
    /// single calls.
    ahead: usize,
}

/// The requests of each connection, in the order of their first requests.
fn played(received: &[RecordedRequest]) -> Vec<Vec<PlayedRequest>> {
    let mut names = BTreeMap::new();
    let mut connections: Vec<Vec<PlayedRequest>> = Vec::new();
    for one in received {
        let name = *names.entry(one.connection).or_insert(connections.len());
        if name == connections.len() {
            connections.push(Vec::new());
        }
        connections[name].push(PlayedRequest {
            method: one.method.clone(),
            target: one.target.clone(),
            body: one.body.clone(),
            ahead: one.ahead,
        });
    }
    connections
}

/// Whether httperf and Thalweg have played the same. A client that waits for the CPU in the middle
/// of a burst has its first response by then, so this is for [`repeated`].
pub(crate) fn alike(theirs: &[RecordedRequest], ours: &[RecordedRequest]) -> Result<(), String> {
    let [theirs, ours] = [theirs, ours].map(played);
    ensure(theirs == ours, || format!("httperf played {theirs:#?}, Thalweg {ours:#?}"))
}

/// A server that responds so late that a burst is under way as a whole before its first response.
fn thoughtful() -> Recorder {
    Recorder::start(|received| {
        let content = if received.method == "HEAD" { "" } else { "ok" };
        Response::good(content).after(Duration::from_millis(30))
    })
}

fn file(folder: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, text).expect("a file can be written");
    path
}

/// The requests of httperf when it plays a file, which are kept as a recording of this name.
pub(crate) fn played_by_httperf(source: Source, name: &str, file: &Path, options: &[&str]) -> Vec<RecordedRequest> {
    played_by_httperf_to(thoughtful, source, name, file, options)
}

fn played_by_httperf_to(
    recorder: impl FnOnce() -> Recorder,
    source: Source,
    name: &str,
    file: &Path,
    options: &[&str],
) -> Vec<RecordedRequest> {
    // Its option for a file has the number of sessions and a think time before the file's name.
    let (sessions, options) = options.split_first().expect("there is a number of sessions");
    let command =
        format!("httperf --server 127.0.0.1 --port PORT --wsesslog={sessions},0.01,FILE {}", options.join(" "));
    source.requests(name, command.trim_end(), || {
        let recorder = recorder();
        let mut httperf = Command::new(program(&["httperf"], "httperf"));
        httperf.args(["--server", "127.0.0.1", "--port", &recorder.port().to_string()]);
        httperf.arg(format!("--wsesslog={sessions},0.01,{}", file.display())).args(options);
        let ended = Process::start(&mut httperf).wait(PATIENCE);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stdout.contains("Errors: total 0 "), "{ended:?}");
        recorder.received()
    })
}

/// The requests of Thalweg for the same file.
pub(crate) fn played_by_us(file: &Path, sessions: u32, options: &[&str]) -> (Vec<RecordedRequest>, Value) {
    played_by_us_to(thoughtful(), file, sessions, options)
}

fn played_by_us_to(recorder: Recorder, file: &Path, sessions: u32, options: &[&str]) -> (Vec<RecordedRequest>, Value) {
    let (url, file) = (recorder.url("/"), file.to_str().expect("temporary folders have plain names"));
    let load = ["run", &url, "--json", "--session", file, "--think", "10ms"];
    let trial = document::trial(&run_thalweg(&[&load[..], options].concat()));
    let received = recorder.received();
    assert_eq!(number(&trial, "/sessions/completed"), f64::from(sessions), "{}", trial["sessions"]);
    assert_eq!(outcome(&trial, "good"), received.len() as u64, "{trial:#}");
    (received, trial)
}

/// A page with 39 parts, and another one.
fn long_burst() -> String {
    let parts: String = (1..40).map(|number| format!("  /{number}\n")).collect();
    format!("/page\n{parts}/next\n")
}

/// A server that responds to the parts of a page in their order, each after the effect of the one
/// before: the client has made the call that had capacity then. So the first connection with
/// capacity is known, however busy this machine is.
fn in_order(under_way: usize) -> Recorder {
    let (asked, change) = (Mutex::new(0), Condvar::new());
    Recorder::start(move |received| {
        if let Ok(number) = received.target[1..].parse::<usize>() {
            let mut asked = asked.lock().expect("no thread panics with it");
            *asked += 1;
            change.notify_all();
            let awaited = 39.min(number - 1 + under_way);
            let waited = change.wait_timeout_while(asked, PATIENCE, |asked| *asked < awaited);
            assert!(
                !waited.expect("no thread panics with it").1.timed_out(),
                "{number} waits for {awaited} to be asked"
            );
        }
        Response::good("ok")
    })
}

/// The targets that each connection has carried, in order; connections by their first one.
fn targets(received: &[RecordedRequest]) -> Vec<Vec<String>> {
    let mut connections: Vec<Vec<String>> =
        played(received).into_iter().map(|connection| connection.into_iter().map(|one| one.target).collect()).collect();
    connections.sort();
    connections
}

#[test]
fn the_same_in_toml_is_played_the_same() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("data"), "Multiline\ndata").unwrap();
    let toml = r#"
        [[session]]

        [[session.burst]]
        think = "2s"
        calls = ["/foo.html", "/pict1.gif", "/pict2.gif"]

        [[session.burst]]
        calls = [{ uri = "/foo2.html", body = "Post data" }, "/pict3.gif", "/pict4.gif"]

        [[session]]

        [[session.burst]]
        calls = [{ uri = "/foo3.html", method = "POST", body_file = "data" }]

        [[session.burst]]
        calls = [{ uri = "/foo4.html", method = "HEAD", headers = { X-Id = "7" } }]
    "#;
    let (toml, wsesslog) = (file(&folder, "sessions.toml", toml), file(&folder, "sessions.log", MANUAL));
    let load = ["--workers", "1", "--conns", "2"];
    let (one, other) = (played_by_us(&toml, 2, &load).0, played_by_us(&wsesslog, 2, &load).0);
    assert_eq!(played(&one), played(&other));
    assert_eq!(one.last().and_then(|last| last.field("x-id")), Some("7"));
}

#[test]
fn a_session_goes_on_over_a_connection_that_the_server_closes() {
    let folder = TempDir::new().unwrap();
    let file = file(&folder, "short", "/a\n  /b\n  /c\n/d\n");
    for driver in drivers() {
        // Each connection's first response is its last, and announces it.
        let recorder = Recorder::start(|_| Response {
            text: "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok".to_owned(),
            closes: true,
            ..Response::good("")
        });
        let load = ["--session", file.to_str().unwrap(), "--workers", "1", "--conns", "3", "--pipeline", "1"];
        let ended = run_thalweg(&[&["run", &recorder.url("/"), "--json", "--driver", driver], &load[..]].concat());
        let trial = document::trial(&ended);
        assert_eq!((outcome(&trial, "good"), number(&trial, "/sessions/completed")), (12, 3.0), "{driver}: {trial:#}");
        let targets: Vec<String> = recorder.received().into_iter().map(|one| one.target).collect();
        assert_eq!(targets, ["/a", "/b", "/c", "/d"].repeat(3), "{driver}");
    }
}

#[test]
fn a_session_that_fails_ends_there_and_is_counted() {
    let folder = TempDir::new().unwrap();
    let file = file(&folder, "short", "/a\n/b\n/c\n");
    for driver in drivers() {
        // Every other session gets no whole answer to its second call.
        let recorder = Recorder::start(|received| match (&*received.target, received.connection % 2) {
            ("/b", 0) => {
                Response { text: "HTTP/1.1 200 OK\r\nContent-Le".to_owned(), closes: true, ..Response::good("") }
            }
            _ => Response::good("ok"),
        });
        let load = ["--session", file.to_str().unwrap(), "--conn-rate", "50/s", "--conns", "10"];
        let ended = run_thalweg(&[&["run", &recorder.url("/"), "--json", "--driver", driver], &load[..]].concat());
        let trial = document::trial(&ended);
        assert_eq!((outcome(&trial, "good"), outcome(&trial, "truncated")), (20, 5), "{driver}: {trial:#}");
        let [completed, failed] = ["completed", "failed"].map(|name| trial["sessions"][name].as_u64());
        assert_eq!((completed, failed), (Some(5), Some(5)), "{driver}: {}", trial["sessions"]);
        assert!(!recorder.received().iter().any(|one| one.target == "/c" && one.connection % 2 == 0), "{driver}");
        assert!(trial["reasons"].to_string().contains("5 calls were not made"), "{driver}: {}", trial["reasons"]);
    }
}

fn check_a_session_file(source: Source) {
    let folder = TempDir::new().unwrap();
    for (name, text, sessions) in [("manual", MANUAL, 2), ("odd", ODD, 5)] {
        let file = file(&folder, name, text);
        let total = sessions.to_string();
        for driver in drivers() {
            repeated(|| {
                // One session after the other, as httperf does it without a rate.
                let theirs = played_by_httperf(source, &format!("httperf-{name}"), &file, &[&total]);
                let (ours, _) =
                    played_by_us(&file, sessions, &["--workers", "1", "--conns", &total, "--driver", driver]);
                alike(&theirs, &ours).map_err(|wrong| format!("{name} over {driver}: {wrong}"))?;
                // Think times lie where httperf's do.
                theirs.windows(2).zip(ours.windows(2)).enumerate().try_for_each(|(at, (one, other))| {
                    let [one, other] = [one, other].map(|pair| (pair[1].at - pair[0].at).as_secs_f64());
                    let wrong = || format!("{name} over {driver}: {one} s and {other} s behind request {at}");
                    ensure((one - other).abs() < 0.2, wrong)
                })
            });
        }
    }
}

fn check_sessions_at_a_rate(source: Source) {
    let folder = TempDir::new().unwrap();
    let file = file(&folder, "odd", ODD);
    for driver in drivers() {
        repeated(|| {
            let theirs = played_by_httperf(source, "httperf-rate", &file, &["6", "--rate", "10"]);
            let load = ["--conn-rate", "10/s", "--conns", "6", "--driver", driver];
            let (ours, trial) = played_by_us(&file, 6, &load);
            ensure(number(&trial, "/connections/peak") > 1.0, || format!("no overlap: {}", trial["connections"]))?;
            alike(&theirs, &ours).map_err(|wrong| format!("over {driver}: {wrong}"))
        });
    }
}

fn check_a_long_burst(source: Source) {
    let folder = TempDir::new().unwrap();
    let file = file(&folder, "long", &long_burst());
    for (theirs, ours, connections) in [
        (&["1", "--max-piped-calls=1"][..], &["--pipeline", "1", "--session-connections", "4"][..], 4),
        (&["1", "--max-piped-calls=1", "--max-connections=2"], &["--pipeline", "1", "--session-connections", "2"], 2),
        (&["1", "--max-piped-calls=1", "--max-connections=1"], &["--pipeline", "1"], 1),
    ] {
        let name = format!("httperf-burst-{connections}");
        let theirs = targets(&played_by_httperf_to(|| in_order(connections), source, &name, &file, theirs));
        assert_eq!(theirs.len(), connections, "{theirs:?}");
        for driver in drivers() {
            let load = [&["--workers", "1", "--conns", "1", "--driver", driver], ours].concat();
            let (received, trial) = played_by_us_to(in_order(connections), &file, 1, &load);
            assert_eq!(theirs, targets(&received), "over {driver}: httperf's, and ours");
            assert_eq!(trial["connections"]["opened"], connections, "{}", trial["connections"]);
        }
    }
}

fn check_a_burst_of_two_connections(source: Source) {
    let folder = TempDir::new().unwrap();
    let file = file(&folder, "long", &long_burst());
    // 32 calls under way, and the rest at once on the next connection.
    let theirs = targets(&played_by_httperf(source, "httperf-burst", &file, &["1"]));
    assert_eq!(theirs.iter().map(Vec::len).collect::<Vec<_>>(), [7, 34], "{theirs:?}");
    for driver in drivers() {
        let load = ["--workers", "1", "--conns", "1", "--session-connections", "4", "--driver", driver];
        // A client that waits for the CPU has its first response before it has made 32 calls.
        repeated(|| {
            let (received, _) = played_by_us(&file, 1, &load);
            let ours = targets(&received);
            ensure(theirs == ours, || format!("over {driver}: httperf's {theirs:?}, ours {ours:?}"))
        });
        let (received, _) = played_by_us(&file, 1, &load[..4]);
        assert_eq!(targets(&received).len(), 1, "one connection unless more are allowed");
    }
}

#[test]
fn a_long_burst_is_spread_over_connections_as_httperf_spreads_it() {
    check_a_long_burst(Source::Recording);
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn httperf_and_we_play_a_session_file_alike() {
        check_a_session_file(Source::Recording);
    }

    #[test]
    fn sessions_at_a_rate_overlap_as_httperf_s_do() {
        check_sessions_at_a_rate(Source::Recording);
    }

    #[test]
    fn a_burst_that_one_connection_cannot_carry_goes_on_over_a_second_one() {
        check_a_burst_of_two_connections(Source::Recording);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    #[ignore = "make test-full"]
    fn httperf_itself_plays_sessions_as_we_do() {
        check_a_session_file(Source::Program);
        check_sessions_at_a_rate(Source::Program);
        check_a_long_burst(Source::Program);
        check_a_burst_of_two_connections(Source::Program);
    }
}
