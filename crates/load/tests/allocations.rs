//! No allocation per request after the warm-up: what the load thread allocates over the drivers of
//! the kernel, for few requests and for ten times as many.
//!
//! The engine runs on the test's own thread and the server on others, so that the thread's counter
//! is the engine's and the driver's.

#![forbid(unsafe_code)]

mod responder;

use std::convert::Infallible;
use std::io::{Cursor, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sha2::{Digest, Sha256};
use thalweg_load::protocol::{Http1, Http2, Protocol};
use thalweg_load::{
    Check, Engine, Extent, Feed, Feeder, LoopPlan, OpenLog, Pace, PackedRequests, Pick, Plan, Progress, Recording,
    ReplayHead, ReplayOrders, RequestList, RequestParts, RequestTemplate, RequestText, RunFigures, Sessions,
    StartBarrier, TlsPlan, UserPlan, load_sessions, template,
};
use thalweg_measure::Outcome;
use thalweg_reactor::run;
use thalweg_sys::counting::{CountingAllocator, allocations};
use thalweg_sys::{AnyDriver, Driver, DriverChoice, DriverConfig, Instant, PeerAddr, Waker};
use thalweg_tls::{
    CertificateStore, ClientOptions, ClientSettings, Resume, ServerOptions, ServerSettings, self_signed,
};
use thalweg_wire::Version;

use crate::responder::Responder;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const CONTENT: &[u8] = b"what was asked for\n";

/// Allocations that a run may make for other reasons than its number of requests: a list that grows
/// once more.
const SLACK: u64 = 60;

/// Allocations for each interval that a run closes. Their number follows from its time, which a
/// busy machine draws out.
const SLACK_PER_INTERVAL: u64 = 10;

/// No request takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

const CONNECTIONS: usize = 8;

/// A server with a thread per connection, which sends these bytes for each request.
fn serve(response: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || converse(stream, response));
        }
    });
    addr
}

/// Responds until the client ends the connection or wants it ended. Requests have no bodies.
fn converse(mut stream: TcpStream, response: &[u8]) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut buffer, mut matched) = ([0; 16 * 1024], 0);
    loop {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        let mut responses = Vec::new();
        for &byte in &buffer[..read] {
            matched = if byte == b"\r\n\r\n"[matched] { matched + 1 } else { usize::from(byte == b'\r') };
            if matched == 4 {
                responses.extend_from_slice(response);
                matched = 0;
            }
        }
        stream.write_all(&responses).ok()?;
        if buffer[..read].windows(7).any(|seven| seven == b": close") {
            return None;
        }
    }
}

fn request(check: Check) -> RequestTemplate {
    let text =
        RequestText { method: "GET", authority: "h", target: "/", version: Version::Http11, fields: &[], body: b"" };
    RequestTemplate { check: Some(check), ..template(&text).expect("the request is in order") }
}

fn drive<D: Driver>(driver: D, plan: Plan, feed: Option<Feed>) -> (u64, RunFigures) {
    match plan.version() {
        Version::Http2 => speak::<D, Http2>(driver, plan, feed),
        _ => speak::<D, Http1>(driver, plan, feed),
    }
}

/// How often a run allocated, and the intervals that it closed.
struct Allocated {
    count: u64,
    intervals: u64,
}

impl Allocated {
    fn of(run: &(u64, RunFigures)) -> Self {
        Self { count: run.0, intervals: run.1.trial.intervals.intervals().count() as u64 }
    }

    /// The most that this run of several times as many requests as `few` may have allocated.
    fn most(&self, few: &Self, slack: u64) -> u64 {
        few.count + slack + SLACK_PER_INTERVAL * self.intervals
    }
}

fn speak<D: Driver, P: Protocol>(mut driver: D, plan: Plan, feed: Option<Feed>) -> (u64, RunFigures) {
    let (start_barrier, progress) = (Arc::new(StartBarrier::new(1)), Arc::new(Progress::new(1)));
    let (kind, now) = (driver.kind(), driver.now());
    let mut engine = Engine::<P>::with_protocol(Arc::new(plan), 0, kind, now, start_barrier, progress);
    if let Some(feed) = feed {
        engine = engine.fed(feed);
    }
    let before = allocations();
    run(&mut driver, &mut engine).expect("the driver works");
    (allocations() - before, engine.into_figures())
}

/// Those that this host has.
fn drivers() -> impl Iterator<Item = DriverChoice> {
    let ring = AnyDriver::refusal().is_none().then_some(DriverChoice::Uring);
    ring.into_iter().chain([DriverChoice::Epoll])
}

/// Carries the plan out over one driver. How often that allocated.
fn driven(choice: DriverChoice, plan: Plan) -> (u64, RunFigures) {
    driven_by(choice, plan, None)
}

fn driven_by(choice: DriverChoice, plan: Plan, feed: Option<Feed>) -> (u64, RunFigures) {
    let plan = Plan { driver: choice, ..plan };
    let waker = Waker::new().expect("a descriptor");
    let driver = AnyDriver::open(choice, &DriverConfig::new(64 + CONNECTIONS, waker)).expect("the driver");
    match driver {
        AnyDriver::Uring(driver) => drive(driver, plan, feed),
        AnyDriver::Epoll(driver) => drive(driver, plan, feed),
    }
}

/// Makes so many requests of the plan, over one driver. How often that allocated.
fn allocated(choice: DriverChoice, plan: &Plan, requests: u64, expected: Outcome) -> Allocated {
    let run = driven(choice, Plan { extent: Extent::Requests(requests), ..plan.clone() });
    let outcomes = &run.1.trial.outcomes;
    assert_eq!(outcomes.count(expected), requests, "{outcomes:?}");
    Allocated::of(&run)
}

/// Verifies that ten times as many requests allocate no more than `requests`, but for the slack.
fn check(name: &str, requests: u64, slack: u64, expected: Outcome, vary: impl Fn(Plan) -> Plan) {
    let response: &[u8] = match expected {
        Outcome::BadStatus => b"HTTP/1.1 404 No\r\nServer: test\r\nContent-Length: 0\r\n\r\n",
        _ => b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 19\r\n\r\nwhat was asked for\n",
    };
    let peer = PeerAddr::Tcp(serve(response));
    let whole = Check { sha256: Some(Sha256::digest(CONTENT).into()), ..Check::default() };
    let workers = LoopPlan::of_workers(CONNECTIONS, Duration::ZERO);
    let plan = Plan::new(peer, [request(whole)].into(), workers, Extent::Requests(1));
    let plan = vary(Plan { connections: CONNECTIONS, timeout: PATIENCE, ..plan });
    for choice in drivers() {
        let (few, many) =
            (allocated(choice, &plan, requests, expected), allocated(choice, &plan, 10 * requests, expected));
        assert!(
            many.count <= many.most(&few, slack),
            "{name} over {choice:?}: {} allocations for {requests} requests, {} for ten times as many",
            few.count,
            many.count
        );
    }
}

#[test]
fn kept_connections() {
    check("keep-alive", 1000, SLACK, Outcome::Good, |plan| plan);
}

/// A server as [`serve`] starts it, over TLS.
fn serve_tls(response: &'static [u8]) -> SocketAddr {
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), self_signed(&["localhost".into()]).expect("a certificate"))]);
    let settings = ServerSettings::new(ServerOptions::default(), &store).expect("settings");
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(stream), settings) = (stream, settings.clone()) else { return };
            thread::spawn(move || converse_tls(stream, &settings, response));
        }
    });
    addr
}

/// Responds until the client ends the connection, to requests that come in one record each.
fn converse_tls(mut stream: TcpStream, settings: &ServerSettings, response: &[u8]) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut engine = thalweg_tls::Engine::accept(settings).ok()?;
    let (mut buffer, mut scratch) = ([0; 16 * 1024], Vec::new());
    loop {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        let (mut plain, mut wire) = (Vec::new(), Vec::new());
        engine.receive(&buffer[..read], &mut scratch, &mut plain, &mut wire).ok()?;
        let requests = plain.windows(4).filter(|four| four == b"\r\n\r\n").count();
        engine.seal(&response.repeat(requests), &mut wire).ok()?;
        stream.write_all(&wire).ok()?;
    }
}

#[test]
fn kept_connections_over_tls() {
    let response = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 19\r\n\r\nwhat was asked for\n";
    let options = ClientOptions { insecure: true, ..ClientOptions::default() };
    let settings = ClientSettings::new(options).expect("settings");
    let tls = TlsPlan { settings, server_name: "localhost".into(), resume: Resume::Never };
    let peer = PeerAddr::Tcp(serve_tls(response));
    // rustls copies each record that it opens, and each that it seals, into memory of its own; the
    // engine adds nothing to that.
    let of_rustls = 2 * 9 * 1000;
    check("over TLS", 1000, of_rustls + SLACK, Outcome::Good, |plan| Plan {
        peer: peer.clone(),
        tls: Some(tls.clone()),
        ..plan
    });
}

/// Streams of HTTP/2: few at a time, and as many as a server usually takes; with requests that are
/// encoded before, and with some that are when they are sent.
#[test]
fn streams_of_kept_connections() {
    for streams in [1, 8, 100] {
        let base = |list: RequestList| {
            let workers = LoopPlan::of_workers(streams * 2, Duration::ZERO);
            let peer = PeerAddr::Tcp(serve_streams());
            Plan {
                connections: 2,
                pipeline: streams as u32,
                timeout: PATIENCE,
                ..Plan::new(peer, list, workers, Extent::Requests(1))
            }
        };
        let list = |length: usize| {
            let fields = [("X-Field".to_owned(), "value".to_owned())];
            let mut list = PackedRequests::new("h", Version::Http2, &fields, b"");
            for number in 0..length {
                let parts = RequestParts { method: "GET", target: &format!("/{number}"), fields: &[], body: b"" };
                list.push(&parts, None, None).expect("the request is in order");
            }
            RequestList::from(list.finish(None))
        };
        for (choice, length) in drivers().flat_map(|choice| [(choice, 3), (choice, 5000)]) {
            let plan = base(list(length));
            let allocated = |requests| allocated(choice, &plan, requests, Outcome::Good);
            let (few, many) = (allocated(2000), allocated(20_000));
            assert!(
                many.count <= many.most(&few, SLACK),
                "{streams} streams, {length} requests over {choice:?}: {} allocations, {} for ten times as many",
                few.count,
                many.count
            );
        }
    }
}

/// A server of HTTP/2 with a thread per connection.
fn serve_streams() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || converse_in_streams(stream));
        }
    });
    addr
}

fn converse_in_streams(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let (mut buffer, mut out) = ([0; 16 * 1024], Vec::new());
    let mut responder = Responder::new(100, &mut out);
    loop {
        stream.write_all(&out).ok()?;
        out.clear();
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        for request in responder.read(&buffer[..read], &mut out) {
            responder.respond(request.stream, CONTENT, &mut out);
        }
    }
}

/// A server that redirects each request once, to a target of its own.
fn serve_redirects() -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let addr = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            thread::spawn(move || redirect_and_respond(stream));
        }
    });
    addr
}

/// Responds to requests that come one at a time, each in one piece.
fn redirect_and_respond(mut stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut buffer = [0; 4096];
    for number in 0.. {
        let read = stream.read(&mut buffer).ok().filter(|&read| read > 0)?;
        if buffer[..read].starts_with(b"GET / ") {
            let redirect = format!("HTTP/1.1 302 Found\r\nLocation: /moved/{number}\r\nContent-Length: 0\r\n\r\n");
            stream.write_all(redirect.as_bytes()).ok()?;
        } else {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\nwhat was asked for\n").ok()?;
        }
    }
    None
}

#[test]
fn redirects_that_are_followed() {
    let peer = PeerAddr::Tcp(serve_redirects());
    check("redirects", 1000, SLACK, Outcome::Good, |plan| Plan { peer: peer.clone(), redirects_max: 3, ..plan });
}

#[test]
fn requests_by_weight() {
    let list = || RequestList::from(vec![request(Check::default()); 1000]);
    let weighted = list().weighted((1..=1000).map(|rank| 1.0 / f64::from(rank)).collect()).expect("weights");
    check("by weight", 1000, SLACK, Outcome::Good, |plan| Plan {
        requests: weighted.clone(),
        pick: Pick::Weighted,
        ..plan
    });
}

#[test]
fn responses_that_are_not_good() {
    check("bad status", 1000, SLACK, Outcome::BadStatus, |plan| plan);
}

#[test]
fn pipelined_requests() {
    let arrivals = LoopPlan::of_workers(8 * CONNECTIONS, Duration::ZERO);
    check("pipelined", 2000, SLACK, Outcome::Good, |plan| Plan { pipeline: 8, arrivals: arrivals.clone(), ..plan });
}

#[test]
fn connections_at_a_pace() {
    let pace = Some(Pace::new(Some(10_000_000), Duration::ZERO));
    check("at a pace", 400, SLACK, Outcome::Good, |plan| Plan { pace, ..plan });
}

/// Beside its connections a session takes nothing: its place is used again.
#[test]
fn sessions_of_several_connections() {
    let calls = 2000;
    let user = |sessions: &Sessions, connections| UserPlan::Sessions {
        sessions: Arc::new(sessions.clone()),
        think: Duration::ZERO,
        connections,
    };
    for (connections, pipeline) in [(4, 1), (2, 8), (1, 32)] {
        // One session of ever so many bursts of ten calls.
        let text = "/\n".to_owned() + &" /\n".repeat(9);
        let of_bursts = |bursts: u64| {
            let text = text.repeat(bursts as usize);
            let made =
                load_sessions("sessions", text.as_bytes(), |_| unreachable!("no bodies"), |_| Ok::<_, Infallible>(0));
            made.unwrap_or_else(|error| panic!("{error}"))
        };
        let peer = PeerAddr::Tcp(serve(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nyes"));
        let workers = LoopPlan::of_workers(1, Duration::ZERO);
        let base = Plan {
            connections: CONNECTIONS,
            pipeline,
            timeout: PATIENCE,
            ..Plan::new(peer, [].into(), workers, Extent::Requests(1))
        };
        for choice in drivers() {
            let allocated = |calls: u64| {
                let sessions = of_bursts(calls / 10);
                let plan = Plan {
                    requests: [request(Check::default())].into(),
                    user: Some(user(&sessions, connections)),
                    ..base.clone()
                };
                let run = driven(choice, plan);
                assert_eq!(run.1.trial.counts.good, calls, "{:?}", run.1.trial.outcomes);
                Allocated::of(&run)
            };
            let (few, many) = (allocated(calls), allocated(10 * calls));
            assert!(
                many.count <= many.most(&few, SLACK),
                "{connections} connections over {choice:?}: {} allocations for {calls} calls, {} for ten times as many",
                few.count,
                many.count
            );
        }
    }
}

#[test]
fn a_rate_with_waits() {
    check("at a rate", 1000, SLACK, Outcome::Good, |plan| Plan { arrivals: LoopPlan::at_rate(10_000.0), ..plan });
}

#[test]
fn a_connection_for_each_request() {
    check("connection per request", 500, SLACK, Outcome::Good, |plan| Plan { calls: Some(1), ..plan });
}

/// More requests than are made ready before: each is put together when it is sent, into memory that
/// its connection has.
#[test]
fn a_list_of_many_requests() {
    let digest: String = Sha256::digest(CONTENT).iter().map(|byte| format!("{byte:02x}")).collect();
    let check = Check::parse(&format!("status=200,sha256={digest},header:Server=test")).expect("a check");
    let list = || {
        let mut list = PackedRequests::new("h", Version::Http11, &[], b"");
        for number in 0..50_000 {
            let target = format!("/{number}");
            let parts = RequestParts { method: "GET", target: &target, fields: &[], body: b"" };
            list.push(&parts, Some(&check), None).expect("the request is in order");
        }
        list.finish(None)
    };
    let requests = RequestList::from(list());
    check_plan(&requests, "a long list", |plan| plan);
    check_plan(&requests, "a long list, pipelined", |plan| Plan {
        pipeline: 4,
        arrivals: LoopPlan::of_workers(4 * CONNECTIONS, Duration::ZERO),
        ..plan
    });
    check_plan(&requests, "a long list, a connection for each request", |plan| Plan { calls: Some(1), ..plan });
}

fn check_plan(requests: &RequestList, name: &str, vary: impl Fn(Plan) -> Plan) {
    check(name, 1000, SLACK, Outcome::Good, |plan| vary(Plan { requests: requests.clone(), ..plan }));
}

/// The feed's batches, and the places of requests under way, are used again.
#[test]
fn a_log_that_is_read_while_it_is_replayed() {
    let response = b"HTTP/1.1 200 OK\r\nServer: test\r\nContent-Length: 19\r\n\r\nwhat was asked for\n";
    let replayed = |choice, seconds: u64| {
        let line = |number: u64| {
            format!("h - - [10/Oct/2025:13:00:{:02} +0000] \"GET /{number} HTTP/1.1\" 200 1\n", number / 10_000)
        };
        let text: Arc<str> = (0..seconds * 10_000).map(line).collect::<String>().into();
        let open: OpenLog = Box::new(move || Ok(Box::new(Cursor::new(text.to_string()))));
        let head = ReplayHead { authority: "h", version: Version::Http11, fields: &[] };
        let recording =
            Arc::new(Recording::scan("log", open, &ReplayOrders::at_speed(1.0), &head, None).expect("a log"));
        let (feeder, mut feeds) = Feeder::new(&recording, 1);
        let reader = thread::spawn(move || feeder.run(Instant::now, || {}));
        let peer = PeerAddr::Tcp(serve(response));
        let arrivals = LoopPlan::Recorded { recording };
        let plan = Plan::new(peer, Vec::new().into(), arrivals, Extent::Requests(seconds * 10_000));
        let plan = Plan { connections: CONNECTIONS, timeout: PATIENCE, ..plan };
        let run = driven_by(choice, plan, feeds.pop());
        reader.join().expect("it does not panic").expect("memory can be read again");
        assert_eq!(run.1.trial.counts.good, seconds * 10_000, "{:?}", run.1.trial.outcomes);
        Allocated::of(&run)
    };
    for choice in drivers() {
        let (few, many) = (replayed(choice, 1), replayed(choice, 4));
        assert!(
            many.count <= many.most(&few, SLACK),
            "over {choice:?}: {} allocations for 10,000 requests, {} for four times as many",
            few.count,
            many.count
        );
    }
}
