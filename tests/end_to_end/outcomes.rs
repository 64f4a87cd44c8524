//! Each way in which a request can end, provoked. That the outcomes add up to what was offered is
//! checked of every document.
//!
//! The verdict of these runs is not looked at: a busy machine may make any of them invalid. *Not
//! sent* is provoked where a run is interrupted, and TLS's failures in `client_tls`.

use std::os::unix::net::{UnixDatagram, UnixListener};
use std::time::Duration;
use std::{fs, thread};

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::process::{ExitedProcess, run_thalweg};
use crate::repetition::{ensure, repeated};
use crate::scripted::{Act, GOOD, ScriptedServer};

const REQUESTS: u64 = 30;

fn run(server: &ScriptedServer, options: &[&str]) -> ExitedProcess {
    let load = ["--rate", "200/s", "--requests", "30", "--connections", "4"];
    run_thalweg(&[&["run", &server.url(), "--json"], &load[..], options].concat())
}

/// Every request ends like this over these drivers. Returns the trial of the first.
fn all_end_as(name: &str, drivers: impl IntoIterator<Item = &'static str>, script: fn(usize) -> Act) -> Value {
    let trials = drivers.into_iter().map(|driver| {
        let server = ScriptedServer::start(script);
        let ended = run(&server, &["--driver", driver]);
        let trial = document::trial(&ended);
        assert_eq!(outcome(&trial, name), REQUESTS, "{name} over {driver}: {trial:#}");
        assert!(matches!(ended.code, Some(1 | 3)), "{name} over {driver}: {ended:?}");
        trial
    });
    trials.collect::<Vec<_>>().swap_remove(0)
}

#[test]
fn good() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    let trial = document::trial(&run(&server, &[]));
    assert_eq!(outcome(&trial, "good"), REQUESTS, "{trial:#}");
    assert_eq!(server.requests() as u64, REQUESTS);
}

#[test]
fn good_after_an_interim_response() {
    let server = ScriptedServer::start(|_| {
        Act::Answer("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
    });
    let trial = document::trial(&run(&server, &[]));
    assert_eq!(outcome(&trial, "good"), REQUESTS, "{trial:#}");
    assert_eq!((&trial["status"]["1xx"], &trial["status"]["2xx"]), (&REQUESTS.into(), &REQUESTS.into()));
}

#[test]
fn good_to_the_end_of_the_connection() {
    let server = ScriptedServer::start(|_| Act::AnswerAndClose("HTTP/1.1 200 OK\r\n\r\nno length"));
    let trial = document::trial(&run(&server, &["--check", "length=9"]));
    assert_eq!(outcome(&trial, "good"), REQUESTS, "{trial:#}");
}

#[test]
fn good_in_chunks() {
    let server = ScriptedServer::start(|_| {
        Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n0\r\nTrailer: here\r\n\r\n")
    });
    let trial = document::trial(&run(&server, &["--check", "length=4"]));
    assert_eq!(outcome(&trial, "good"), REQUESTS, "{trial:#}");
}

#[test]
fn bad_status() {
    let trial = all_end_as("bad_status", drivers(), |_| Act::Answer("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(trial["status"]["5xx"], REQUESTS);
}

#[test]
fn failed_check() {
    // Every other response is a byte too long.
    let server = ScriptedServer::start(|number| match number % 2 {
        0 => Act::Answer(GOOD),
        _ => Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok!"),
    });
    let trial = document::trial(&run(&server, &["--check", "length=2"]));
    assert_eq!((outcome(&trial, "good"), outcome(&trial, "failed_check")), (15, 15), "{trial:#}");
}

#[test]
fn failed_check_of_a_field_or_a_digest() {
    // The last of each three has another type, the second another content of the same length.
    let server = ScriptedServer::start(|number| {
        Act::Answer(match number % 3 {
            0 => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nok",
            1 => "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nno",
            _ => "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok",
        })
    });
    // SHA-256 of "ok".
    let digest = "sha256=2689367b205c16ce32ed4200942b8b8b1e262dfc70d9bc9fbc77c49699a4f1df";
    for (check, good) in
        [("header:content-type=text/plain", 20), ("header:Content-Type~text", 30), ("header:ETag", 0), (digest, 20)]
    {
        let trial = document::trial(&run(&server, &["--check", check]));
        assert_eq!((outcome(&trial, "good"), outcome(&trial, "failed_check")), (good, 30 - good), "{check}: {trial:#}");
    }
}

#[test]
fn bytes_that_nobody_asked_for_are_found() {
    for driver in drivers() {
        // A second response arrives long after the first was received, and long before the next
        // request, unless the server gets CPU time late.
        repeated(|| {
            let server = ScriptedServer::start(|_| Act::AnswerTwice(GOOD, Duration::from_millis(30)));
            let load = ["--workers", "1", "--think", "200ms", "--requests", "5", "--driver", driver, "--json"];
            let trial = document::trial(&run_thalweg(&[&["run", &server.url()], &load[..]].concat()));
            assert_eq!(outcome(&trial, "good"), 5, "{driver}: {trial:#}");
            let reasons = trial["reasons"].to_string();
            ensure(reasons.contains("without a request"), || format!("{driver}: {reasons}"))?;
            // None of them was used again.
            ensure(number(&trial, "/connections/opened") >= 5.0, || format!("{driver}: {}", trial["connections"]))
        });
    }
}

#[test]
fn truncated() {
    all_end_as("truncated", drivers(), |_| Act::AnswerAndClose("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"));
    all_end_as("truncated", drivers(), |_| {
        Act::AnswerAndClose("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nfour\r\n")
    });
}

#[test]
fn timeout_counts_as_at_least_its_value() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    let trial = document::trial(&run(&server, &["--timeout", "300ms"]));
    assert_eq!(outcome(&trial, "timeout"), REQUESTS, "{trial:#}");
    assert_eq!(trial["response_time_us"]["count"], REQUESTS);
    assert!(number(&trial, "/response_time_us/min") >= 300_000.0, "{}", trial["response_time_us"]);
}

#[test]
fn reset() {
    // Both drivers: each sees a reset in its own way.
    all_end_as("reset", BOTH_DRIVERS, |_| Act::Reset);
    // A connection that is closed before the response has begun.
    all_end_as("reset", BOTH_DRIVERS, |_| Act::AnswerAndClose(""));
}

#[test]
fn refused_once_the_port_is_closed() {
    let server = ScriptedServer::start_for(10, |_| {
        Act::AnswerAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
    });
    let trial = document::trial(&run(&server, &[]));
    let [good, refused, reset] = ["good", "refused", "reset"].map(|name| outcome(&trial, name));
    assert!(good >= 10 && refused > 0, "{trial:#}");
    // Connections that the kernel had accepted for it are reset with the port.
    assert_eq!(good + refused + reset, REQUESTS, "{trial:#}");
}

/// Such a request was once reported as reset by the server, although there had been no connection.
#[test]
fn a_connect_that_fails_for_no_known_reason_is_unreachable_and_named() {
    // Both drivers: each learns of a failed connect in its own way.
    for driver in BOTH_DRIVERS {
        repeated(|| {
            let folder = TempDir::new().unwrap();
            let [path, other] = ["socket", "other"].map(|name| folder.path().join(name));
            let (listener, _datagrams) = (UnixListener::bind(&path).unwrap(), UnixDatagram::bind(&other).unwrap());
            // The server is there when it is looked for, and then a socket of another type is in
            // its place (EPROTOTYPE).
            let place = path.clone();
            let exchange = thread::spawn(move || listener.accept().and_then(|_| fs::rename(other, place)));
            let load = ["--rate", "100/s", "--requests", "30", "--calls", "1", "--driver", driver, "--json"];
            let socket = ["--unix-socket", path.to_str().expect("temporary folders have plain names")];
            let trial = document::trial(&run_thalweg(&[&["run", "http://localhost/"], &load[..], &socket].concat()));
            exchange.join().unwrap().unwrap();
            let (unreachable, causes) = (outcome(&trial, "unreachable"), &trial["causes"]);
            // The first ones may have come before the exchange.
            ensure(unreachable > 20, || format!("{driver}: {unreachable} are unreachable"))?;
            assert_eq!((causes["unknown"].as_u64(), causes["unknown_errno"].as_i64()), (Some(unreachable), Some(91)));
            let reasons = trial["reasons"].to_string();
            assert!(reasons.contains("an unknown kind") && reasons.contains("os error 91"), "{driver}: {reasons}");
            Ok(())
        });
    }
}

#[test]
fn protocol_error() {
    all_end_as("protocol_error", drivers(), |_| Act::Answer("SSH-2.0-OpenSSH_9.2\r\n\r\n"));
    all_end_as("protocol_error", drivers(), |_| {
        Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!")
    });
    all_end_as("protocol_error", drivers(), |_| {
        Act::Answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n")
    });
    all_end_as("protocol_error", drivers(), |_| Act::Answer("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"));
}

/// Such a run once reached the target from another address, and then each of its connections
/// failed.
#[test]
fn a_local_address_that_this_host_lacks_is_said_before_a_socket_opens() {
    let server = ScriptedServer::start(|_| Act::Answer(GOOD));
    // Kept for documentation (RFC 5737), so that no host has it.
    for sources in ["192.0.2.1", "127.0.0.1-127.0.0.3,192.0.2.1"] {
        let from: Vec<&str> = sources.split(',').flat_map(|source| ["--from", source]).collect();
        for command in [&["run", "--requests", "5"][..], &["find"]] {
            let ended = run_thalweg(&[&command[..1], &[&*server.url()], &command[1..], &from, &["--json"]].concat());
            assert_eq!((ended.code, &*ended.stdout), (Some(4), ""), "{ended:?}");
            assert!(ended.stderr.contains("--from 192.0.2.1") && ended.stderr.contains("ip address"), "{ended:?}");
        }
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn a_target_is_looked_for_from_the_addresses_that_were_asked_for() {
    let ended = run_thalweg(&["run", "http://127.0.0.1:1/", "--requests", "5", "--from", "127.0.0.7-127.0.0.8"]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert!(ended.stderr.contains("from 127.0.0.7"), "{ended:?}");
}

#[test]
fn statuses_are_counted_by_code() {
    let server = ScriptedServer::start(|number| {
        Act::Answer(match number % 3 {
            0 => "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            1 => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            _ => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        })
    });
    let trial = document::trial(&run(&server, &[]));
    let expected = serde_json::json!({"103": 10, "200": 10, "403": 10, "404": 10});
    assert_eq!(trial["status_codes"], expected, "{trial:#}");
    let text = run_thalweg(&["run", &server.url(), "--requests", "30", "--workers", "1"]).stdout;
    assert!(text.contains("status: 10 x 103, 10 x 200, 10 x 403, 10 x 404"), "{text}");
}

/// Such a target was once reported as unreachable.
#[test]
fn a_target_that_always_answers_403_was_reached() {
    let server = ScriptedServer::start(|_| Act::Answer("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"));
    let search = |format| run_thalweg(&["find", &server.url(), "--connections", "2", "--format", format]);
    let ended = search("json");
    let document = document::of(&ended);
    assert_eq!((ended.code, document["verdict"].as_str()), (Some(1), Some("fail")), "{ended:?}");
    assert!(ended.stderr.contains("were all bad: status 403") && ended.stderr.lines().count() == 1, "{ended:?}");
    let reason = document["reasons"][0].as_str().unwrap();
    assert!(reason.contains("responds") && reason.contains("x 403"), "{reason}");
    let text = search("text").stdout;
    assert!(text.contains("FAIL") && text.contains("x 403") && !text.contains("reached"), "{text}");
}

#[test]
fn a_field_that_is_folded_is_read_as_one_line() {
    let server = ScriptedServer::start(|_| {
        Act::Answer(
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain;\r\n\tcharset=utf-8\r\nContent-Length:\r\n 2\r\n\r\nok",
        )
    });
    let check = "header:content-type=text/plain;   charset=utf-8,length=2";
    let trial = document::trial(&run(&server, &["--check", check]));
    assert_eq!(outcome(&trial, "good"), REQUESTS, "{trial:#}");
}
