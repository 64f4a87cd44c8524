//! HTTP/2 against a server of `wire`'s other role: responses in any order, resets, refusals, a
//! server that goes away, and bodies that wait for the window.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::protocol::Http2;
use thalweg_load::{
    Engine, Extent, LoopPlan, Plan, Progress, RequestTemplate, RequestText, RunFigures, StartBarrier, UserPlan,
};
use thalweg_measure::Outcome;
use thalweg_measure::trial::RuleOf;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Driver, DriverKind, Listen, SendBuf};
use thalweg_sys::{Instant, SocketId};
use thalweg_wire::Version;
use thalweg_wire::h2::ErrorCode;

use crate::responder::{Request, Responder};
use crate::world::{plan, session_plan};
use crate::{MS, SECOND, with_seeds};

/// The server's reaction to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reaction {
    /// A response after so many milliseconds.
    Response(u64),
    Nothing,
    Reset(ErrorCode),
    /// REFUSED_STREAM the first time, and a response from then on.
    RefusalAtFirst,
    /// A response whose status is no number.
    Malformed,
    /// A response with so many fields of 1,000 bytes.
    LargeHead(usize),
    /// GOAWAY, and then a response.
    GoAway,
    /// A redirect to the request with that number.
    Redirect(u64),
    /// GOAWAY, and then such a redirect.
    RedirectAndGoAway(u64),
}

use Reaction::{GoAway, LargeHead, Malformed, Nothing, Redirect, RedirectAndGoAway, RefusalAtFirst, Reset, Response};

struct Peer {
    responder: Responder,
    sending: bool,
    output: Vec<u8>,
}

struct Server {
    react: fn(u64) -> Reaction,
    streams_max: u32,
    peers: BTreeMap<SocketId, Peer>,
    due: BTreeMap<(Instant, u64), (SocketId, u32)>,
    requests: Vec<Request>,
    streams_seen: usize,
    sends: u64,
}

impl Server {
    fn take(&mut self, sim: &mut Sim, socket: SocketId, bytes: &[u8]) {
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        for request in peer.responder.read(bytes, &mut peer.output) {
            let number = request.field(":path").trim_start_matches('/').parse().expect("targets are numbers");
            let stream = request.stream;
            let is_first = self.requests.iter().all(|other| other.field(":path") != request.field(":path"));
            self.requests.push(request);
            let reaction = match (self.react)(number) {
                RefusalAtFirst if is_first => Reset(ErrorCode::REFUSED_STREAM),
                RefusalAtFirst => Response(3),
                reaction => reaction,
            };
            match reaction {
                Response(ms) => {
                    self.due.insert((sim.now().plus_ns(ms * MS), number), (socket, stream));
                }
                Nothing | RefusalAtFirst => {}
                Malformed => peer.responder.malformed(stream, &mut peer.output),
                LargeHead(fields) => peer.responder.large_head(stream, fields, &mut peer.output),
                Reset(code) => peer.responder.reset(stream, code, &mut peer.output),
                Redirect(to) => peer.responder.redirect(stream, "302", &format!("/{to}"), &mut peer.output),
                RedirectAndGoAway(to) => {
                    peer.responder.go_away(&mut peer.output);
                    peer.responder.redirect(stream, "302", &format!("/{to}"), &mut peer.output);
                }
                GoAway => {
                    peer.responder.go_away(&mut peer.output);
                    peer.responder.respond(stream, b"the last one", &mut peer.output);
                }
            }
        }
        self.streams_seen = self.streams_seen.max(peer.responder.streams_max);
        self.flush(sim, socket);
    }

    fn send_due(&mut self, sim: &mut Sim) -> Option<Instant> {
        while let Some((&(at, number), _)) = self.due.first_key_value() {
            if at > sim.now() {
                return Some(at);
            }
            let (socket, stream) = self.due.remove(&(at, number)).expect("it is there");
            if let Some(peer) = self.peers.get_mut(&socket) {
                peer.responder.respond(stream, format!("content of {number}").as_bytes(), &mut peer.output);
                self.flush(sim, socket);
            }
        }
        None
    }

    fn flush(&mut self, sim: &mut Sim, socket: SocketId) {
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        if !peer.sending && !peer.output.is_empty() {
            peer.sending = true;
            self.sends += 1;
            sim.send(socket, SendBuf::Owned(std::mem::take(&mut peer.output)));
        }
    }
}

struct Both {
    engine: Engine<Http2>,
    server: Server,
    give_up_at: Instant,
}

impl App<Sim> for Both {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        let server = &mut self.server;
        let is_servers = completion.subject().is_some_and(|socket| server.peers.contains_key(&socket));
        match completion {
            Completion::Accepted { socket, .. } => {
                let mut output = Vec::new();
                let responder = Responder::new(server.streams_max, &mut output);
                server.peers.insert(socket, Peer { responder, sending: false, output });
                server.flush(sim, socket);
            }
            Completion::Received { socket } if is_servers => {
                let bytes = sim.received().to_vec();
                server.take(sim, socket, &bytes);
            }
            Completion::Sent { socket } if is_servers => {
                server.peers.get_mut(&socket).expect("it is the server's").sending = false;
                server.flush(sim, socket);
            }
            Completion::Ended { socket } | Completion::Failed { socket, .. } if is_servers => {
                server.peers.remove(&socket);
                sim.close(socket);
            }
            other => self.engine.on_completion(sim, other),
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        assert!(now < self.give_up_at, "the run does not end");
        let LoopControl::WaitUntil(engine) = self.engine.on_iteration(sim, now) else { return LoopControl::Stop };
        let server = self.server.send_due(sim);
        LoopControl::WaitUntil(engine.into_iter().chain(server).min())
    }
}

fn play(plan: Plan, network: SimConfig, streams_max: u32, react: fn(u64) -> Reaction) -> (RunFigures, Server) {
    let mut sim = Sim::new(network);
    let began = sim.now();
    sim.listen(Listen::Address("10.0.0.1:80".parse().expect("an address"))).expect("the address is free");
    let (barrier, progress) = (Arc::new(StartBarrier::new(1)), Arc::new(Progress::new(1)));
    let engine = Engine::with_protocol(Arc::new(plan), 0, DriverKind::Simulated, began, barrier, progress);
    let server = Server {
        react,
        streams_max,
        peers: BTreeMap::new(),
        due: BTreeMap::new(),
        requests: Vec::new(),
        streams_seen: 0,
        sends: 0,
    };
    let mut both = Both { engine, server, give_up_at: began.plus_ns(100 * SECOND) };
    run(&mut sim, &mut both).expect("the simulation goes on");
    (both.engine.into_figures(), both.server)
}

fn request(number: u64, body: &[u8]) -> RequestTemplate {
    let fields = [("X-Own".to_owned(), "of its own".to_owned())];
    let method = if body.is_empty() { "GET" } else { "POST" };
    let target = format!("/{number}");
    let text =
        RequestText { method, authority: "10.0.0.1", target: &target, version: Version::Http2, fields: &fields, body };
    thalweg_load::template(&text).expect("the request is in order")
}

/// Requests at 1000/s over one connection, with so many streams.
fn streams(requests: u64, streams: u32, body: &[u8]) -> Plan {
    let plan = plan(LoopPlan::at_rate(1000.0), Extent::Requests(requests), requests);
    let patience = Duration::from_secs(10);
    let requests = (0..requests).map(|number| request(number, body)).collect();
    Plan { requests, connections: 1, pipeline: streams, timeout: patience, drain: patience, retries: 0, ..plan }
}

#[test]
fn responses_end_their_own_calls_in_any_order() {
    let run = |seed| {
        let network =
            SimConfig { fragment_probability: if seed % 2 == 0 { 0.5 } else { 0.0 }, ..SimConfig::calm(seed) };
        let react = |number| Response(if number % 2 == 0 { 1 } else { 5 });
        let (figures, server) = play(streams(200, 8, b""), network, 100, react);
        let trial = &figures.trial;
        assert_eq!(trial.counts.good, 200, "{:?}", trial.outcomes);
        assert_eq!(trial.connections.opened, 1);
        assert!((3..=8).contains(&server.streams_seen), "{} at once", server.streams_seen);
        let request = server.requests.last().expect("there are 200");
        let expected = [
            (":method", "GET"),
            (":scheme", "http"),
            (":authority", "10.0.0.1"),
            (":path", "/199"),
            ("x-own", "of its own"),
            ("user-agent", concat!("thalweg/", env!("CARGO_PKG_VERSION"))),
        ];
        let fields: Vec<_> = request.fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        assert_eq!(fields, expected);
        // A frame's head, four references, and the request's own path and field: what is common was
        // sent once.
        let each = trial.bytes.sent as f64 / 200.0;
        assert!(each < 40.0, "{each} bytes per request");
    };
    with_seeds(0..4, run);
}

#[test]
fn a_server_takes_no_more_streams_than_it_allows() {
    let (figures, server) = play(streams(300, 64, b""), SimConfig::calm(1), 5, |_| Response(20));
    assert_eq!((figures.trial.counts.good, server.streams_seen), (300, 5), "{:?}", figures.trial.outcomes);
}

/// Each new connection was once loaded with 10 streams before the server had said that it takes
/// one, for which some servers end the connection.
#[test]
fn connections_are_filled_before_the_settings_have_come() {
    for (connections, calls) in [(2, None), (2, Some(3)), (4, None)] {
        let plan = Plan { arrivals: LoopPlan::of_workers(20, Duration::ZERO), calls, ..streams(200, 10, b"") };
        let (figures, server) = play(Plan { connections, ..plan }, SimConfig::calm(1), 1, |_| Response(1));
        let trial = &figures.trial;
        assert_eq!((trial.counts.good, server.streams_seen), (200, 1), "{:?}", trial.outcomes);
        let counted = trial.streams.as_ref().expect("there were some");
        assert_eq!((counted.refused, counted.concurrent_max, counted.opened), (0, 1, 200));
    }
}

/// A session's calls wait on its connection until the server has named its limits, and go over no
/// other one.
#[test]
fn calls_of_a_session_wait_for_the_settings_on_their_connection() {
    let text = "/0\n /1\n /2\n /3\n /4\n";
    let plan = session_plan(text, Duration::ZERO, LoopPlan::at_rate(100.0), Extent::Requests(10));
    let Some(UserPlan::Sessions { sessions, think, .. }) = plan.user else { panic!("it has sessions") };
    let user = Some(UserPlan::Sessions { sessions, think, connections: 4 });
    let requests = (0..5).map(|number| request(number, b"")).collect();
    let plan = Plan { user, requests, connections: 100, pipeline: 8, ..plan };
    for (streams_max, opened) in [(100, 10), (2, 20)] {
        let (figures, server) = play(plan.clone(), SimConfig::calm(1), streams_max, |_| Response(1));
        let trial = &figures.trial;
        assert_eq!((trial.counts.good, trial.connections.opened), (50, opened), "{:?}", trial.outcomes);
        assert!(server.streams_seen <= streams_max as usize, "{} at once", server.streams_seen);
    }
}

/// A server may take no streams at first. Requests that such a connection could not carry were once
/// offered to it again and again, without any time passing.
#[test]
fn a_server_that_takes_no_streams_yet_stops_the_client() {
    let plan = Plan { timeout: Duration::from_millis(300), ..streams(20, 4, b"") };
    let (figures, server) = play(plan, SimConfig::calm(1), 0, |_| Response(1));
    let trial = &figures.trial;
    assert_eq!((trial.outcomes.count(Outcome::Timeout), server.requests.len()), (20, 0), "{:?}", trial.outcomes);
}

#[test]
fn a_stream_that_is_reset_leaves_the_others_alone() {
    let react = |number| match number % 10 {
        0 => Reset(ErrorCode::INTERNAL_ERROR),
        5 => Reset(ErrorCode::REFUSED_STREAM),
        _ => Response(3),
    };
    let (figures, _) = play(streams(100, 8, b""), SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    let count = |outcome| trial.outcomes.count(outcome);
    assert_eq!((count(Outcome::Reset), count(Outcome::NotProcessed)), (10, 10), "{:?}", trial.outcomes);
    assert_eq!((trial.connections.opened, trial.counts.good), (1, 80));
    let streams = trial.streams.as_ref().expect("there were some");
    assert_eq!(streams.resets, [("INTERNAL_ERROR", 10), ("REFUSED_STREAM", 10)].into());
    assert_eq!((streams.opened, streams.refused, streams.retried), (100, 10, 0));
    assert!((2..=8).contains(&streams.concurrent_max), "{streams:?}");
}

#[test]
fn a_protocol_error_says_nothing_of_its_cause() {
    let react = |number| match number % 10 {
        3 => Malformed,
        4 => LargeHead(60),
        5 => LargeHead(70),
        _ => Response(3),
    };
    let (figures, _) = play(streams(100, 8, b""), SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::ProtocolError)), (80, 20), "{:?}", trial.outcomes);
    let errors: Vec<_> = trial.protocol_errors.list().iter().map(|error| (error.rule, error.count)).collect();
    assert_eq!(errors, [(RuleOf::Protocol, 10), (RuleOf::Client, 10)]);
    let [malformed, large] = trial.protocol_errors.list() else { panic!("there are two causes") };
    assert!(malformed.cause.contains(":status") && malformed.first_bytes.starts_with(":status: 2xx"), "{malformed}");
    assert!(large.cause.contains("64 KiB") && large.first_bytes.starts_with(":status: 200\\nx-0: bbb"), "{large}");
}

#[test]
fn a_refused_request_is_sent_again_if_the_plan_says_so() {
    let run = |seed| {
        let plan = Plan { retries: 2, ..streams(100, 8, b"") };
        let react = |number| if number % 10 == 5 { RefusalAtFirst } else { Response(3) };
        let (figures, server) = play(plan, SimConfig::calm(seed), 100, react);
        let trial = &figures.trial;
        assert_eq!((trial.counts.good, trial.counts.sent), (100, 100), "{:?}", trial.outcomes);
        assert_eq!((server.requests.len(), trial.connections.opened), (110, 1));
        let counted = trial.streams.as_ref().expect("there were some");
        assert_eq!((counted.opened, counted.refused, counted.retried), (110, 10, 10));
        // The time of the first attempt is the server's and not the client's.
        assert!(trial.lag.max() < MS, "{} ns of lag", trial.lag.max());
        assert!(trial.response_time().max() > trial.service_time.max(), "the first attempt takes time as well");
    };
    with_seeds(0..4, run);
}

#[test]
fn redirects_are_followed_on_streams_of_the_same_connection() {
    let run = |seed| {
        let network =
            SimConfig { fragment_probability: if seed % 2 == 0 { 0.5 } else { 0.0 }, ..SimConfig::calm(seed) };
        let plan = Plan { redirects_max: 2, ..streams(200, 8, b"with a body") };
        let react = |number| match number {
            0..1000 if number % 2 == 0 => Redirect(number + 1000),
            0..1000 => Response(1),
            _ => Response(3),
        };
        let (figures, server) = play(plan, network, 100, react);
        let trial = &figures.trial;
        assert_eq!((trial.counts.offered, trial.counts.sent, trial.counts.good), (200, 200, 200));
        assert_eq!(trial.redirects.as_ref().map(|redirects| redirects.followed), Some(100));
        assert_eq!((trial.connections.opened, server.requests.len()), (1, 300));
        let hop = server.requests.iter().find(|request| request.field(":path") == "/1000").expect("it was followed");
        assert_eq!((hop.field(":method"), hop.field("x-own"), hop.body_bytes), ("GET", "of its own", 0));
        assert_eq!(hop.field("content-length"), "", "a GET has no content");
        assert!(trial.service_time.max() >= 3 * MS, "{} ns", trial.service_time.max());
    };
    with_seeds(0..4, run);
}

#[test]
fn a_redirect_on_a_connection_that_goes_away_is_followed_on_another() {
    let plan = Plan { redirects_max: 1, ..streams(50, 1, b"") };
    let react = |number| if number < 1000 { RedirectAndGoAway(number + 1000) } else { Response(1) };
    let (figures, server) = play(plan, SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    assert_eq!((trial.counts.good, server.requests.len()), (50, 100), "{:?}", trial.outcomes);
    assert!(trial.connections.opened >= 50, "{} connections", trial.connections.opened);
}

#[test]
fn a_request_is_not_sent_again_for_ever() {
    let plan = Plan { retries: 3, ..streams(20, 8, b"") };
    let react = |number| if number == 7 { Reset(ErrorCode::REFUSED_STREAM) } else { Response(2) };
    let (figures, server) = play(plan, SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::NotProcessed)), (19, 1), "{:?}", trial.outcomes);
    assert_eq!(server.requests.len(), 23);
    let patience = Duration::from_millis(5);
    let plan = Plan { retries: u8::MAX, timeout: patience, ..streams(20, 8, b"") };
    let (figures, _) = play(plan, SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Timeout)), (19, 1), "{:?}", trial.outcomes);
}

/// A worker goes on when its request has ended, however often that was sent.
#[test]
fn workers_wait_for_requests_that_are_sent_again() {
    let plan = Plan { arrivals: LoopPlan::of_workers(4, Duration::ZERO), retries: 1, ..streams(100, 2, b"") };
    let plan = Plan { connections: 2, ..plan };
    let react = |number| if number % 3 == 0 { RefusalAtFirst } else { Response(1) };
    let (figures, server) = play(plan, SimConfig::calm(1), 100, react);
    assert_eq!(figures.trial.counts.good, 100, "{:?}", figures.trial.outcomes);
    assert_eq!(server.requests.len(), 134);
}

#[test]
fn a_stream_that_times_out_leaves_the_others_alone() {
    let plan = Plan { timeout: Duration::from_millis(200), ..streams(400, 8, b"") };
    let (figures, _) = play(plan, SimConfig::calm(1), 100, |number| if number == 7 { Nothing } else { Response(2) });
    let trial = &figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 1, "{:?}", trial.outcomes);
    assert_eq!((trial.connections.opened, trial.counts.good), (1, 399));
}

#[test]
fn a_server_that_goes_away_ends_what_it_has_begun() {
    let react = |number| if number == 50 { GoAway } else { Response(3) };
    let (figures, _) = play(streams(100, 8, b""), SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    let refused = trial.outcomes.count(Outcome::NotProcessed);
    assert_eq!(trial.counts.good + refused, 100, "{:?}", trial.outcomes);
    // Requests that were on their way meanwhile were not processed, and the rest has another
    // connection.
    assert!(refused <= 8 && trial.connections.opened == 2, "{refused} refused");
    let counted = trial.streams.as_ref().expect("there were some");
    assert_eq!((&counted.goaways, counted.refused), (&[("NO_ERROR", 1)].into(), refused));
    // Requests that leave for a connection that the server has ended are no refused connections.
    assert_eq!(trial.outcomes.count(Outcome::Refused), 0);
    let taken = counted.ended_in_order;
    assert!(taken.connections == 1 && (51..=58).contains(&taken.requests_max), "{taken:?}");
    assert_eq!((counted.per_connection.count(), counted.opened), (2, 100));

    let (figures, _) = play(Plan { retries: 1, ..streams(100, 8, b"") }, SimConfig::calm(1), 100, react);
    let trial = &figures.trial;
    assert_eq!((trial.counts.good, trial.connections.opened), (100, 2), "{:?}", trial.outcomes);
}

#[test]
fn a_body_waits_for_the_window() {
    let body = vec![b'x'; 200_000];
    let (figures, server) = play(streams(5, 2, &body), SimConfig::calm(1), 100, |_| Response(1));
    let trial = &figures.trial;
    assert_eq!(trial.counts.good, 5, "{:?}", trial.outcomes);
    assert!(server.requests.iter().all(|request| request.body_bytes == body.len()));
    assert_eq!(trial.bytes.body_sent, 1_000_000);
    assert_eq!(server.requests[0].field("content-length"), "200000");
}

/// Workers have their next requests ready when the server, behind its last response, takes no more
/// on this connection: none of them was sent, and none is lost.
#[test]
fn requests_that_were_never_sent_go_to_another_connection() {
    let run = |seed| {
        let plan = Plan { arrivals: LoopPlan::of_workers(8, Duration::ZERO), ..streams(200, 8, b"") };
        let react = |number| if number % 40 == 39 { GoAway } else { Response(number % 3) };
        let (figures, server) = play(plan, SimConfig::calm(seed), 100, react);
        let trial = &figures.trial;
        let refused = trial.outcomes.count(Outcome::NotProcessed);
        assert_eq!(trial.counts.good + refused, 200, "{:?}", trial.outcomes);
        let counted = trial.streams.as_ref().expect("there were some");
        // The server has seen each stream that was opened, but for those behind its GOAWAY.
        assert_eq!((counted.opened, counted.refused), (200, refused));
        assert!(server.requests.len() as u64 >= 200 - refused, "{} requests", server.requests.len());
    };
    with_seeds(0..8, run);
}

/// Responses that come together let requests go together.
#[test]
fn requests_of_one_iteration_leave_in_one_send() {
    let plan = Plan { arrivals: LoopPlan::of_workers(10, Duration::ZERO), ..streams(1000, 10, b"") };
    let (figures, server) = play(plan, SimConfig::calm(1), 100, |_| Response(1));
    assert_eq!(figures.trial.counts.good, 1000, "{:?}", figures.trial.outcomes);
    assert!(server.sends < 250, "{} sends of the server for 1000 responses", server.sends);
}
