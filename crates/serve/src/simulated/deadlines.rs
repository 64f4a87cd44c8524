//! Deadlines of requests, of responses, and of the server's shutdown.

use std::time::Duration;

use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::Driver;

use super::{SECOND_NS, Step, folder, large, naive, one, send, simulate, world};
use crate::config::Limits;

/// Checks the time at which the server closes a client's connection, and the bytes that it sends.
#[track_caller]
fn check_deadline(steps: Vec<Step>, seconds: std::ops::RangeInclusive<f64>, statuses: &[u16]) {
    let folder = folder();
    let outcome = one(SimConfig::calm(1), folder.path(), steps.clone());
    let responses = naive::take_all(&outcome.received, &["GET"]);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), statuses, "{steps:?}");
    let lasted = outcome.lasted.as_secs_f64();
    assert!(seconds.contains(&lasted), "{steps:?}: {lasted} s");
}

#[test]
fn clients_that_do_nothing_are_given_up_in_time() {
    let get = || send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    // Nothing was sent: the head's time runs from the acceptance.
    check_deadline(vec![], 10.0..=10.1, &[]);
    // Idle after a request.
    check_deadline(vec![get()], 75.0..=75.1, &[200]);
    check_deadline(vec![get(), Step::Rest(50 * SECOND_NS), get()], 125.0..=125.1, &[200, 200]);
    // A head that does not end.
    check_deadline(vec![send("GET /a HT")], 10.0..=10.1, &[408]);
    check_deadline(vec![get(), Step::Rest(20 * SECOND_NS), send("GET /a HT")], 30.0..=30.1, &[200, 408]);
    // A head that grows by a byte now and then gets no more time for it.
    let slow = (0..60).flat_map(|_| [send("x"), Step::Rest(SECOND_NS)]);
    check_deadline([send("GET /")].into_iter().chain(slow).collect(), 10.0..=15.1, &[408]);
    // A body that does not come: its response has gone already.
    let with_body = send("GET /a HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
    check_deadline(vec![with_body], 60.0..=60.1, &[200]);
}

#[test]
fn a_client_that_takes_nothing_is_given_up() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    config.socket_buffer_bytes = 64 << 10;
    let steps =
        vec![Step::Pause, send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n"), Step::Rest(500 * SECOND_NS), Step::Resume];
    let outcome = one(config, folder.path(), steps);
    let body = outcome.received.len();
    assert!(body < 200_000, "{body} bytes came through");
}

#[test]
fn a_slow_client_that_goes_on_taking_is_served() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    config.socket_buffer_bytes = 64 << 10;
    // A modem of 33.6 kbit/s: six minutes for the file.
    config.bandwidth = Some(4200);
    let outcome = one(config, folder.path(), vec![send("GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")]);
    assert!(naive::take_all(&outcome.received, &["GET"])[0].body == large());
    assert!(outcome.lasted > Duration::from_secs(350));
}

#[test]
fn the_date_moves_on() {
    let folder = folder();
    let get = || send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let steps = vec![get(), Step::Rest(10 * SECOND_NS), get(), Step::Rest(SECOND_NS), Step::Finish];
    let responses = naive::take_all(&one(SimConfig::calm(1), folder.path(), steps).received, &["GET"]);
    // The simulation begins at 1 s.
    assert_eq!(responses[0].field("date"), Some("Tue, 02 Oct 2096 07:06:41 GMT"));
    assert_eq!(responses[1].field("date"), Some("Tue, 02 Oct 2096 07:06:51 GMT"));
}

#[test]
fn draining_ends_what_is_under_way_and_nothing_else() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(100_000);
    let idle = vec![send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")];
    let downloading = vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")];
    let in_head = vec![send("GET /a HTTP/1.1\r\n"), Step::Rest(5 * SECOND_NS), send("Host: h\r\n\r\n")];
    let drains = vec![Step::Rest(2 * SECOND_NS), Step::Drain(60 * SECOND_NS)];
    let scripts = vec![idle, downloading, in_head, drains];
    let (outcomes, totals) = simulate(config, &Limits::default(), folder.path(), scripts);
    let responses: Vec<_> = outcomes.iter().map(|outcome| naive::take_all(&outcome.received, &["GET"])).collect();
    assert_eq!(responses[0].len(), 1);
    assert_eq!(outcomes[0].lasted.as_secs(), 2);
    assert!(responses[1][0].body == large());
    assert_eq!(outcomes[1].lasted.as_secs(), 15);
    assert_eq!(responses[2][0].field("connection"), Some("close"));
    assert_eq!(outcomes[2].lasted.as_secs(), 5);
    assert!(responses[3].is_empty());
    assert!(outcomes.iter().all(|outcome| outcome.orderly));
    assert_eq!(totals.open, 0);
}

#[test]
fn a_connection_in_the_accept_queue_of_a_draining_server_is_answered_once() {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = driver.now();
    let asks = vec![send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")];
    let drains = vec![Step::Rest(SECOND_NS - 10_000_000), Step::Drain(60 * SECOND_NS)];
    let scripts = [vec![asks; 30], vec![drains]].concat();
    let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    driver.stall("127.0.0.1:80".parse().unwrap(), start, start.plus_ns(SECOND_NS));
    // The one that tells it to drain is not received until it is closed.
    run(&mut driver, &mut world).unwrap();
    for client in &world.clients[..30] {
        let responses = naive::take_all(&client.received, &["GET"]);
        assert_eq!(responses.len(), 1);
        assert_eq!(responses[0].field("connection"), Some("close"));
        assert!(client.over.is_some_and(|over| over.orderly));
    }
    assert_eq!(published[0].totals().requests, 30);
}

#[test]
fn draining_has_an_end() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    config.bandwidth = Some(1000);
    config.socket_buffer_bytes = 64 << 10;
    let scripts = vec![
        vec![send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n")],
        vec![Step::Rest(SECOND_NS), Step::Drain(7 * SECOND_NS)],
    ];
    let (outcomes, totals) = simulate(config, &Limits::default(), folder.path(), scripts);
    assert!(outcomes[0].received.len() < 100_000);
    assert_eq!(totals.open, 0);
}

#[test]
fn connections_beyond_the_table_wait_for_a_place() {
    let folder = folder();
    let mut config = SimConfig::calm(1);
    // Ten clients, a listener, three connections of the server.
    config.sockets_max = 10 + 1 + 3;
    let script = vec![send("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")];
    let (outcomes, totals) = simulate(config, &Limits::default(), folder.path(), vec![script; 10]);
    assert!(outcomes.iter().all(|outcome| naive::take_all(&outcome.received, &["GET"])[0].status == 200));
    assert_eq!(totals.accepted, 10);
}
