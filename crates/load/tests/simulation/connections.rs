//! Counts of connections and of bytes.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, ProxyHeaderPlan, Reuse};
use thalweg_measure::{Outcome, StatusClasses};
use thalweg_reactor::sim::SimConfig;
use thalweg_sys::PeerAddr;
use thalweg_wire::proxy_protocol::{self, ProxyHeader, ProxyVersion};

use crate::script::Response;
use crate::world::{Run, World, plan, request, session_plan};
use crate::{MS, SECOND};

fn open(rate: f64, requests: u64, connections: usize) -> Plan {
    Plan { connections, ..plan(LoopPlan::at_rate(rate), Extent::Requests(requests), requests) }
}

#[test]
fn connections_are_opened_at_their_rate_however_short_the_time_out() {
    // Two per second, with a time-out of 100 ms: the first one must not hurry the others.
    let plan = Plan { opening_rate: Some(2.0), timeout: Duration::from_millis(100), ..open(100.0, 10, 8) };
    let run = World { patience_ns: 10 * SECOND, ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!((trial.connections.opened, trial.counts.good), (8, 10));
    let first_ns = run.records[0].arrived.as_ns() - SECOND;
    assert!((3_500 * MS..3_600 * MS).contains(&first_ns), "the load began after {first_ns} ns");
    assert_eq!(trial.connections.burst, 1);
}

#[test]
fn connections_in_the_making_are_not_open() {
    // The backlog takes four; no connection is accepted, so that the others have to try again.
    let network = SimConfig { backlog: 4, ..SimConfig::calm(1) };
    let plan = Plan { timeout: Duration::from_millis(200), ..open(100.0, 10, 20) };
    let run = World { network, stall: Some((0, 100 * SECOND)), ..World::calm(plan) }.run(|_| Response::Good);
    let connections = &run.figures.trial.connections;
    assert_eq!((connections.opened, connections.peak), (4, 4), "{connections:?}");
    let failed_later = connections.failed - (connections.attempted - connections.opened);
    assert!(failed_later <= connections.closed, "{connections:?}");
}

#[test]
fn an_attempt_that_is_under_way_when_the_run_ends_has_failed() {
    // The arrival's time is over a moment before that of the connection that was to carry it.
    let network = SimConfig { backlog: 0, oversleep_ns: MS, ..SimConfig::calm(1) };
    let plan = Plan { timeout: Duration::from_millis(200), calls: Some(1), ..open(100.0, 10, 20) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Good);
    let connections = &run.figures.trial.connections;
    assert_eq!((connections.opened, connections.failed), (0, 10), "{connections:?}");
    assert_eq!(connections.attempted, 10);
}

#[test]
fn interim_responses_in_one_segment_are_counted_each() {
    for response in [Response::Interim, Response::InterimTogether] {
        let run = World::calm(open(100.0, 10, 1)).run(move |_| response);
        let interim = if response == Response::Interim { 20 } else { 30 };
        let status =
            serde_json::to_value(StatusClasses::of(&run.figures.trial.status_codes)).expect("figures can be written");
        assert_eq!((&status["1xx"], &status["2xx"]), (&interim.into(), &10.into()), "{response:?}");
    }
}

#[test]
fn a_load_opens_no_more_connections_than_it_has_requests() {
    for (arrivals, requests) in
        [(LoopPlan::at_rate(100.0), 3), (LoopPlan::of_workers(50, Duration::ZERO), 3), (LoopPlan::at_rate(1e6), 1)]
    {
        let plan = Plan { connections: 50, ..plan(arrivals, Extent::Requests(requests), 1) };
        let trial = World::calm(plan).run(|_| Response::Good).figures.trial;
        let connections = &trial.connections;
        assert_eq!((trial.counts.good, connections.attempted), (requests, requests), "{connections:?}");
    }
    // The second of two threads has nothing to do.
    let plan = Plan { cpus: vec![0, 0], connections: 50, ..plan(LoopPlan::at_rate(1.0), Extent::Requests(1), 1) };
    let trial = World { thread: 1, ..World::calm(plan) }.run(|_| Response::Good).figures.trial;
    assert_eq!((trial.counts.offered, trial.connections.attempted), (0, 0));
}

#[test]
fn an_attempt_that_cannot_even_begin_has_failed() {
    let network = SimConfig { connect_failure_probability: 1.0, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(open(1000.0, 50, 5)) }.run(|_| Response::Good);
    let connections = &run.figures.trial.connections;
    assert_eq!((connections.opened, connections.failed), (0, connections.attempted), "{connections:?}");
    assert_eq!(run.figures.trial.connection_lifetime.count(), 0);
}

#[test]
fn connections_that_are_open_at_the_end_count_as_closed_then() {
    let run = World::calm(open(1000.0, 100, 5)).run(|_| Response::Good);
    let trial = &run.figures.trial;
    let connections = &trial.connections;
    assert_eq!((connections.opened, connections.closed, connections.replies, connections.failed), (5, 5, 100, 0));
    assert_eq!((connections.held, connections.kept, trial.connection_lifetime.count()), (5, 100, 5));
    assert!(trial.connection_lifetime.min() >= 99 * MS, "{} ns", trial.connection_lifetime.min());
}

/// The parts of what was received: heads, bodies, framing, and unsolicited bytes.
fn parts(run: &Run) -> [u64; 4] {
    let bytes = &run.figures.trial.bytes;
    [bytes.head_received, bytes.body_received, bytes.framing_received, run.figures.unsolicited_bytes]
}

#[test]
fn each_byte_is_counted_once_by_what_it_is() {
    let check = |response: Response, expected: [usize; 4]| {
        let run = World::calm(open(100.0, 10, 1)).run(move |_| response);
        assert_eq!(parts(&run), expected.map(|bytes| 10 * bytes as u64), "{response:?}");
        assert_eq!(
            run.figures.trial.bytes.received,
            10 * (expected[0] + expected[1] + expected[2]) as u64,
            "{response:?}"
        );
    };
    let head = b"HTTP/1.1 200 Reason\r\nContent-Length: 48\r\n\r\n".len();
    check(Response::Good, [head, 48, 0, 0]);
    check(Response::UntilClose, [b"HTTP/1.1 200 OK\r\n\r\n".len(), 48, 0, 0]);
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".len();
    check(Response::Chunked, [chunked, 48, 5 * 5 + 5, 0]);
    check(Response::Twice(MS), [head, 48, 0, head + 48]);
    let interim =
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n".len();
    check(Response::Interim, [head + interim, 48, 0, 0]);
}

#[test]
fn bytes_behind_a_whole_response_are_counted_as_asked_for_by_nobody() {
    let run = World::calm(open(100.0, 10, 1)).run(|_| Response::Surplus);
    assert_eq!(run.figures.trial.outcomes.count(Outcome::ProtocolError), 10);
    assert_eq!(run.figures.unsolicited_bytes, 10 * b"surplus".len() as u64);
}

#[test]
fn the_order_of_reuse_decides_how_many_connections_work() {
    let connections = |reuse| {
        let run = World::calm(Plan { reuse, ..open(1000.0, 100, 10) }).run(|_| Response::Good);
        let mut used: Vec<u64> = run.records.iter().map(|record| record.connection).collect();
        used.sort_unstable();
        used.dedup();
        used.len()
    };
    assert_eq!((connections(Reuse::Oldest), connections(Reuse::Latest)), (10, 1));
}

#[test]
fn idle_connections_that_the_server_closes_are_replaced_when_they_are_needed() {
    // Ten are held, and the server closes each after its first response; the load goes on over new
    // ones.
    let run = World::calm(open(100.0, 30, 10)).run(|_| Response::Abandoning);
    let connections = &run.figures.trial.connections;
    assert_eq!((run.figures.trial.counts.good, connections.opened, connections.failed), (30, 30, 0), "{connections:?}");
    assert_eq!(connections.held, 0, "none is left at the end");
}

#[test]
fn calls_of_sessions_that_may_not_be_sent_any_more_are_held_back() {
    // The page comes just before the end, and its parts, one at a time, take longer than the drain.
    let arrivals = LoopPlan::at_rate(50.0);
    let text = "/1\n /2\n /3\n /4\n /5\n";
    let plan = session_plan(text, Duration::ZERO, arrivals, Extent::Duration(Duration::from_millis(20)));
    let run = World::calm(Plan { drain: Duration::from_millis(40), ..plan }).run(|_| Response::Late(15 * MS));
    let (trial, outcomes) = (&run.figures.trial, &run.figures.trial.outcomes);
    assert_eq!((trial.counts.offered, trial.counts.good), (5, 4), "{outcomes:?}");
    assert_eq!((outcomes.count(Outcome::NotSent), trial.held_back), (1, 1));
    assert_eq!(run.records.len(), 4);
}

#[test]
fn the_last_end_is_that_of_the_last_request_sent_or_not() {
    let network = SimConfig { blackhole_probability: 1.0, ..SimConfig::calm(1) };
    let plan = Plan { timeout: Duration::from_millis(300), ..open(100.0, 10, 1) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 10);
    assert!(trial.span() >= Duration::from_millis(390), "{:?}", trial.span());
}

/// A worker whose next request is on its way when the server ends the connection that it had kept
/// until then. `method` is that of its requests.
fn closed_under_way(method: &str, retries_idle: u8) -> Run {
    let requests = (0..20).map(|number| request(method, number, b"")).collect();
    let plan = plan(LoopPlan::of_workers(1, Duration::ZERO), Extent::Requests(20), 20);
    let network = SimConfig { latency_ns: MS, ..SimConfig::calm(1) };
    let world = World { network, ..World::calm(Plan { requests, retries_idle, connections: 1, ..plan }) };
    world.run(|number| if number % 2 == 0 { Response::Abandoning } else { Response::Good })
}

#[test]
fn requests_that_met_the_close_of_a_kept_connection_were_lost() {
    let run = closed_under_way("GET", 0);
    let (outcomes, connections) = (&run.figures.trial.outcomes, &run.figures.trial.connections);
    let lost = outcomes.count(Outcome::Reset);
    assert!(lost > 0 && outcomes.count(Outcome::Good) == 20 - lost, "{outcomes:?}");
    assert_eq!((connections.met_close, connections.sent_again), (lost, 0));

    let run = closed_under_way("GET", 3);
    let (trial, connections) = (&run.figures.trial, &run.figures.trial.connections);
    assert_eq!((trial.counts.offered, trial.counts.sent, trial.counts.good), (20, 20, 20), "{:?}", trial.outcomes);
    assert!(connections.met_close >= lost && connections.sent_again == connections.met_close, "{connections:?}");
    assert_eq!(run.records.len(), 20, "the server has seen each request once");
    // The time of the first attempt is the server's.
    assert!(trial.lag.max() < MS && trial.response_time().max() > trial.service_time.max());

    let post = closed_under_way("POST", 3);
    let outcomes = &post.figures.trial.outcomes;
    assert!(outcomes.count(Outcome::Reset) > 0, "a POST is not sent twice: {outcomes:?}");
}

/// The requests come just when the server ends a connection that was idle for as long as it had
/// announced.
#[test]
fn a_connection_is_used_for_longer_than_the_server_keeps_it() {
    let network = SimConfig { latency_ns: 10 * MS, ..SimConfig::calm(1) };
    let plan = Plan { timeout: Duration::from_secs(5), ..open(1.0 / 2.005, 6, 1) };
    let run = World { network: network.clone(), ..World::calm(plan) }.run(|_| Response::KeptFor(2));
    let (trial, connections) = (&run.figures.trial, &run.figures.trial.connections);
    assert_eq!((trial.counts.good, connections.met_close), (6, 0), "{:?}", trial.outcomes);
    assert_eq!((connections.opened, connections.failed), (6, 0));

    let plan = session_plan("/1\n/2\n/3\n", Duration::from_millis(2005), LoopPlan::at_rate(1.0), Extent::Requests(2));
    let run = World { network, ..World::calm(plan) }.run(|_| Response::KeptFor(2));
    let (trial, connections) = (&run.figures.trial, &run.figures.trial.connections);
    assert_eq!((trial.counts.good, connections.opened, connections.failed), (6, 6, 0), "{:?}", trial.outcomes);
}

#[test]
fn all_connections_go_to_the_first_address() {
    let peers = ["10.0.0.1:80", "10.0.0.9:80"].map(|address| PeerAddr::Tcp(address.parse().expect("an address")));
    // Nobody listens at the second one.
    let plan = Plan { peers: peers.to_vec(), calls: Some(1), ..open(100.0, 20, 4) };
    let run = World::calm(plan).run(|_| Response::Good);
    let [first, second] = &run.figures.trial.by_address[..] else { panic!("there are two addresses") };
    let (good, refused) = (run.figures.trial.counts.good, run.figures.trial.outcomes.count(Outcome::Refused));
    assert_eq!((good + refused, first.outcomes.count(Outcome::Good)), (20, good), "{:?}", run.figures.trial.outcomes);
    assert_eq!((first.opened, first.failed, second.opened, second.failed), (good, 0, 0, refused));
    assert!((9..=11).contains(&good), "{good} good");
    assert_eq!((first.response_time.count(), second.outcomes.total()), (good, 0));
    assert_eq!(run.figures.peers, ["10.0.0.1:80", "10.0.0.9:80"]);
}

/// A server behind a balancer was not to be measured at all. This one drops a connection that does
/// not begin with a header: the header is in front of the first request, and of no other.
#[test]
fn a_server_that_wants_proxy_headers_gets_none() {
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let proxy_header = Some(ProxyHeaderPlan { version, source: "192.0.2.7".parse().expect("an address") });
        let plan = Plan { proxy_header, ..open(100.0, 30, 3) };
        let run = World::calm(plan).run(|_| Response::Good);
        let trial = &run.figures.trial;
        assert_eq!((trial.counts.good, trial.connections.opened), (30, 3), "{:?}", trial.outcomes);
        let headers = run.headers.iter().map(|header| proxy_protocol::read(header).expect("it is in order"));
        let client = ProxyHeader::Client { address: Some("192.0.2.7".parse().expect("an address")), is_secure: false };
        let lengths: Vec<usize> = run.headers.iter().map(Vec::len).collect();
        assert!(headers.clone().zip(lengths).all(|(header, length)| header == Some((client, length))));
        assert_eq!(headers.count(), 3);
    }
}
