//! Connections as the server sees them: how many, how long, in which order, from where, and of
//! which kind.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::process::run_thalweg;
use crate::recorder::{RecordedRequest, Recorder, Response};
use crate::repetition::{ensure, repeated};

/// A run of which each request is good.
fn all_good(recorder: &Recorder, options: &[&str]) -> (Value, Vec<RecordedRequest>) {
    let trial = document::trial(&run_thalweg(&[&["run", &recorder.url("/"), "--json"], options].concat()));
    assert_eq!(number(&trial, "/counts/offered"), outcome(&trial, "good") as f64, "{options:?}: {trial:#}");
    (trial, recorder.received())
}

/// How many requests each connection has carried.
fn calls(received: &[RecordedRequest]) -> Vec<usize> {
    let mut connections = BTreeMap::new();
    received.iter().for_each(|one| *connections.entry(one.connection).or_insert(0) += 1);
    connections.into_values().collect()
}

fn quick() -> Recorder {
    Recorder::start(|_| Response::good("ok"))
}

#[test]
fn the_last_call_of_a_connection_says_so() {
    for driver in drivers() {
        let recorder = quick();
        let load = ["--workers", "2", "--calls", "3", "--requests", "60", "--driver", driver];
        let (_, received) = all_good(&recorder, &load);
        // The requests may run out while each of the two workers is on a connection that has
        // carried fewer.
        let calls = calls(&received);
        let full = calls.iter().filter(|&&calls| calls == 3).count();
        assert!(calls.iter().all(|&calls| calls <= 3) && calls.len() - full <= 2, "{driver}: {calls:?}");
        let closing = received.iter().filter(|one| one.field("connection") == Some("close")).count();
        assert_eq!(closing, full, "{driver}: {calls:?}");
    }
}

#[test]
fn pipelined_requests_are_under_way_at_once_and_get_their_own_answers() {
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("urls");
    std::fs::write(&list, "/1 length=1\n/22 length=2\n/333 length=3\n").unwrap();
    for driver in drivers() {
        // As long as the path, so that an answer tells whose it is.
        let answer = |received: &RecordedRequest| Response::good(&received.target[1..]).after(Duration::from_millis(2));
        let recorder = Recorder::start(answer);
        let load = ["--workers", "8", "--pipeline", "4", "--requests", "160", "--driver", driver];
        let (_, received) = all_good(&recorder, &[&load[..], &["--urls", list.to_str().unwrap()]].concat());
        assert_eq!((received.len(), calls(&received).len()), (160, 2), "{driver}");
        assert_eq!(received.iter().map(|one| one.ahead).max(), Some(3), "{driver}");
    }
}

#[test]
fn answers_lost_behind_a_close_are_not_credited() {
    // Both drivers: each sees the end of a connection in its own way.
    for driver in BOTH_DRIVERS {
        let answered = Arc::new(AtomicUsize::new(0));
        let counted = answered.clone();
        // Every seventh response is a connection's last, even if further requests follow it.
        let recorder = Recorder::start(move |_| {
            let number = counted.fetch_add(1, Ordering::SeqCst);
            Response { closes: number % 7 == 6, ..Response::good("ok") }.after(Duration::from_millis(1))
        });
        let load = ["--workers", "8", "--pipeline", "4", "--requests", "200", "--driver", driver];
        let trial = document::trial(&run_thalweg(&[&["run", &recorder.url("/"), "--json"], &load[..]].concat()));
        let [good, reset] = ["good", "reset"].map(|name| outcome(&trial, name));
        assert_eq!(good, answered.load(Ordering::SeqCst) as u64, "{driver}: {}", trial["outcomes"]);
        assert!(reset > 0 && good + reset == 200, "{driver}: {}", trial["outcomes"]);
    }
}

/// A response in HTTP/1.0.
fn old(fields: &str, closes: bool) -> Response {
    let text = format!("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n{fields}\r\nok");
    Response { text, closes, after: Duration::ZERO }
}

#[test]
fn http_1_0_with_a_call_per_connection_does_not_ask_for_more() {
    // A server that closes as it should, and one that leaves it to us.
    for closes in [true, false] {
        for driver in drivers() {
            let recorder = Recorder::start(move |_| old("", closes));
            let load = ["--workers", "3", "--requests", "60", "--http", "1.0", "--calls", "1", "--driver", driver];
            let (_, received) = all_good(&recorder, &load);
            assert_eq!(calls(&received), [1; 60], "{driver}");
            let plain = |one: &RecordedRequest| one.version == "HTTP/1.0" && one.field("connection").is_none();
            assert!(received.iter().all(plain), "{driver}: {:?}", received[0]);
        }
    }
}

#[test]
fn http_1_0_keeps_a_connection_only_where_the_server_agrees() {
    for driver in drivers() {
        let load = ["--workers", "3", "--requests", "60", "--http", "1.0", "--driver", driver];
        let (_, received) = all_good(&Recorder::start(|_| old("", true)), &load);
        assert_eq!(calls(&received), [1; 60], "{driver}");
        let (_, received) = all_good(&Recorder::start(|_| old("Connection: keep-alive\r\n", false)), &load);
        assert_eq!(calls(&received).len(), 3, "{driver}");
        assert!(
            received.iter().all(|one| one.field("connection") == Some("keep-alive")),
            "{driver}: {:?}",
            received[0]
        );
    }
}

#[test]
fn the_bound_on_connections_holds() {
    for driver in drivers() {
        // 150 a second is all that three connections can carry.
        let recorder = Recorder::start(|_| Response::good("ok").after(Duration::from_millis(20)));
        let load = ["--rate", "300/s", "--requests", "150", "--connections", "3", "--driver", driver];
        let (trial, received) = all_good(&recorder, &load);
        assert_eq!((calls(&received).len(), number(&trial, "/connections/peak")), (3, 3.0), "{driver}");
        assert!(number(&trial, "/queue_us/max") > 200_000.0, "{driver}: {}", trial["queue_us"]);
    }
}

#[test]
fn ipv6() {
    for driver in drivers() {
        let recorder = Recorder::on("[::1]:0", |_| Response::good("ok"));
        let (_, received) = all_good(&recorder, &["--workers", "2", "--requests", "40", "--driver", driver]);
        let host = format!("[::1]:{}", recorder.port());
        assert!(
            received.len() == 40 && received.iter().all(|one| one.field("host") == Some(&host)),
            "{driver}: {received:?}"
        );
    }
}

#[test]
fn unix_sockets() {
    let folder = TempDir::new().unwrap();
    // Both drivers: each connects to Unix sockets in its own way.
    for driver in BOTH_DRIVERS {
        let path = folder.path().join(format!("{driver}.sock"));
        let of_path = UnixListener::bind(&path).unwrap();
        let name = format!("thalweg-test-{}-{driver}", std::process::id());
        let of_name = UnixListener::bind_addr(&UnixAddress::from_abstract_name(&name).unwrap()).unwrap();
        for (listener, socket) in [(of_path, path.to_str().unwrap()), (of_name, &*format!("@{name}"))] {
            let recorder = Recorder::on_unix(listener, |_| Response::good("ok"));
            let load = ["--workers", "2", "--requests", "40", "--unix-socket", socket, "--driver", driver];
            let (_, received) = all_good(&recorder, &load);
            assert_eq!((received.len(), received[0].field("host")), (40, Some("localhost")), "{socket}");
        }
    }
}

#[test]
fn a_unix_socket_that_is_not_there_is_said_with_its_name() {
    for socket in ["/nonexistent/socket", "@thalweg-nobody-listens-here"] {
        let ended = run_thalweg(&["run", "http://localhost/", "--unix-socket", socket]);
        assert_eq!((ended.code, &*ended.stdout), (Some(4), ""), "{ended:?}");
        assert!(ended.stderr.contains(socket) && ended.stderr.lines().count() == 1, "{ended:?}");
    }
}

#[test]
fn connections_come_from_all_addresses_that_were_named() {
    for driver in drivers() {
        let recorder = quick();
        let load = ["--workers", "12", "--calls", "1", "--requests", "60", "--driver", driver];
        let sources = ["--from", "127.0.0.2-127.0.0.4", "--from", "127.0.0.9"];
        let (_, received) = all_good(&recorder, &[&load[..], &sources].concat());
        let mut seen = BTreeMap::new();
        received.iter().for_each(|one| *seen.entry(one.from.unwrap()).or_insert(0) += 1);
        let expected = [2, 3, 4, 9].map(|last| (IpAddr::from([127, 0, 0, last]), 15));
        assert_eq!(seen, BTreeMap::from(expected), "{driver}: each has its share");
    }
}

#[test]
fn a_name_that_is_two_addresses_is_reached_at_the_one_that_listens() {
    let recorder = quick();
    let addresses: Vec<SocketAddr> =
        std::net::ToSocketAddrs::to_socket_addrs(&("localhost", recorder.port())).unwrap().collect();
    let url = format!("http://localhost:{}/", recorder.port());
    let ended = run_thalweg(&["run", &url, "--workers", "1", "--requests", "10", "--json"]);
    let trial = document::trial(&ended);
    assert_eq!(outcome(&trial, "good"), 10, "{addresses:?}: {trial:#}");
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn the_order_of_reuse_is_as_asked_for() {
        for driver in drivers() {
            repeated(|| {
                let load = ["--rate", "100/s", "--requests", "80", "--connections", "8", "--driver", driver];
                let (_, received) = all_good(&quick(), &load);
                ensure(calls(&received) == [10; 8], || {
                    format!("{driver}: not the oldest in turn: {:?}", calls(&received))
                })?;
                let (_, received) = all_good(&quick(), &[&load[..], &["--reuse", "latest"]].concat());
                let busiest = calls(&received).into_iter().max().unwrap();
                ensure(busiest >= 60, || {
                    format!("{driver}: not the latest again and again: the busiest has {busiest} of 80")
                })
            });
        }
    }
}
