//! The server over the simulated network, with clients that read responses by their own code.

#![forbid(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use thalweg_httpd::{Handler, Response, Server, Settings, Ticket, Times, WhenFull};
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Connect, Driver, Listen, SendBuf};
use thalweg_sys::{Instant, SocketId};
use thalweg_wire::{RequestError, RequestHead};

const MS: u64 = 1_000_000;
const STEP_NS: u64 = 1000 * MS;

/// A client: it sends all of its input at once, at its time, and records what comes back.
struct Client {
    at: u64,
    input: Vec<u8>,
    /// Whether it ends its stream behind the input.
    ends: bool,
    socket: Option<SocketId>,
    output: Vec<u8>,
    /// How the connection ended, in ns since the beginning.
    ended_at: Option<u64>,
}

impl Client {
    fn new(at_ms: u64, input: impl Into<Vec<u8>>) -> Self {
        let (input, output) = (input.into(), Vec::new());
        Self { at: at_ms * MS, input, ends: false, socket: None, output, ended_at: None }
    }

    fn text(&self) -> String {
        String::from_utf8(self.output.clone()).unwrap()
    }
}

struct World<H> {
    server: Server<H>,
    addr: SocketAddr,
    clients: Vec<Client>,
    sockets: BTreeMap<SocketId, usize>,
    start: Instant,
    until: u64,
    connections_max: usize,
}

impl<H: Handler> World<H> {
    fn run(config: SimConfig, settings: Settings, handler: H, clients: Vec<Client>, until_ms: u64) -> Self {
        let mut sim = Sim::new(config);
        let mut world = Self::new(&mut sim, settings, handler, clients, until_ms);
        run(&mut sim, &mut world).unwrap();
        world
    }

    fn new(sim: &mut Sim, settings: Settings, handler: H, clients: Vec<Client>, until_ms: u64) -> Self {
        let mut server = Server::new(settings, handler);
        let addr: SocketAddr = "10.0.0.1:80".parse().unwrap();
        server.listen(sim, Listen::Address(addr)).unwrap();
        let (start, sockets, until) = (sim.now(), BTreeMap::new(), until_ms * MS);
        World { server, addr, clients, sockets, start, until, connections_max: 0 }
    }

    fn on_client(&mut self, sim: &mut Sim, index: usize, completion: &Completion) {
        let client = &mut self.clients[index];
        match *completion {
            Completion::Connected { socket } => {
                if client.input.is_empty() {
                    return;
                }
                sim.send(socket, SendBuf::Owned(client.input.clone()));
                if client.ends {
                    sim.finish(socket);
                }
            }
            Completion::Received { .. } => client.output.extend_from_slice(sim.received()),
            Completion::Sent { .. } => {}
            Completion::Ended { socket } | Completion::Failed { socket, .. } => {
                client.ended_at = Some(sim.now().ns_since(self.start));
                self.sockets.remove(&socket);
                sim.close(socket);
            }
            _ => unreachable!("not a client's"),
        }
    }
}

impl<H: Handler> App<Sim> for World<H> {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        match completion.subject().and_then(|socket| self.sockets.get(&socket).copied()) {
            Some(index) => self.on_client(sim, index, &completion),
            None => self.server.on_completion(sim, completion),
        }
        self.connections_max = self.connections_max.max(self.server.connections());
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        let elapsed = now.ns_since(self.start);
        if elapsed >= self.until {
            return LoopControl::Stop;
        }
        for (index, client) in self.clients.iter_mut().enumerate() {
            if client.socket.is_none() && client.at <= elapsed {
                let socket = sim.connect(&Connect::tcp(self.addr)).unwrap();
                client.socket = Some(socket);
                self.sockets.insert(socket, index);
            }
        }
        let LoopControl::WaitUntil(next) = self.server.on_iteration(sim, now) else { return LoopControl::Stop };
        let clients = self.clients.iter().filter(|client| client.socket.is_none()).map(|client| client.at).min();
        let end = self.start.plus_ns(self.until);
        let due = [next, clients.map(|at| self.start.plus_ns(at)), Some(end)];
        LoopControl::WaitUntil(due.into_iter().flatten().min())
    }
}

/// Answers with the target, as text.
fn echo(head: &RequestHead<'_>) -> Response {
    Response::new(200).field("Content-Type", "text/plain").body(head.target.to_vec())
}

fn settings() -> Settings {
    Settings {
        times: Some(Times { request_ns: STEP_NS, response_ns: STEP_NS, linger_ns: STEP_NS }),
        ..Settings::default()
    }
}

/// Checks the responses of a server that echoes targets to one client's input, over a rough network
/// with several seeds.
fn check(settings: Settings, input: &str, expected: &str) {
    for seed in 0..8 {
        let world = World::run(SimConfig::rough(seed), settings, echo, vec![Client::new(0, input)], 30_000);
        assert_eq!(world.clients[0].text(), expected, "seed {seed}");
        assert!(world.clients[0].ended_at.is_some(), "seed {seed}: the connection is still open");
        assert_eq!(world.server.connections(), 0, "seed {seed}");
    }
}

fn ok(target: &str, connection: &str) -> String {
    let bytes = target.len();
    format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {bytes}\r\n{connection}\r\n{target}")
}

const CLOSE: &str = "Connection: close\r\n";

#[test]
fn requests_on_one_connection_are_answered_in_order() {
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    let many: Vec<String> = (0..100).map(|number| format!("/{number}")).collect();
    let expected: String = many.iter().map(|target| ok(target, "")).collect();
    check(settings(), &many.iter().map(|target| request(target)).collect::<String>(), &expected);
    let few = Settings { responses_waiting_max: 0, ..settings() };
    check(few, &many.iter().map(|target| request(target)).collect::<String>(), &expected);
}

#[test]
fn the_last_request_closes_the_connection() {
    let first = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let close = "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    check(settings(), &[first, close, first].concat(), &[ok("/a", ""), ok("/b", CLOSE)].concat());
    let two = Settings { requests_per_connection_max: 2, ..settings() };
    check(two, &first.repeat(3), &[ok("/a", ""), ok("/a", CLOSE)].concat());
    check(settings(), "GET /old HTTP/1.0\r\n\r\n", &ok("/old", CLOSE));
    let kept = "GET /old HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    check(settings(), kept, &ok("/old", "Connection: keep-alive\r\n"));
    let expecting = "POST /c HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    check(settings(), expecting, &ok("/c", CLOSE));
}

#[test]
fn bodies_are_discarded() {
    let length = "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nGET /no HTTP";
    let chunked = "POST /2 HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nGET \r\n0\r\n\r\n";
    check(settings(), &[length, chunked].concat(), &[ok("/1", ""), ok("/2", "")].concat());
    // A body that does not come has no response, and its connection ends with the time for a
    // request.
    check(settings(), "POST /1 HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\nshort", "");
}

#[test]
fn head_has_the_fields_and_no_body() {
    let expected = ok("/twelve-bytes", "").replace("/twelve-bytes", "");
    check(settings(), "HEAD /twelve-bytes HTTP/1.1\r\nHost: x\r\n\r\n", &expected);
}

#[test]
fn bytes_that_are_no_request_are_refused() {
    let refused = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n{CLOSE}\r\n");
    check(settings(), "nonsense\r\n\r\n", &refused("400 Bad Request"));
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "x".repeat(10_000));
    check(settings(), &long, &refused("414 URI Too Long"));
    let first = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    check(settings(), &[first, "\0"].concat(), &[ok("/a", ""), refused("400 Bad Request")].concat());
}

#[test]
fn a_handler_words_its_refusals() {
    struct Plain;
    impl Handler for Plain {
        fn respond(&mut self, request: &RequestHead<'_>) -> Response {
            echo(request)
        }

        fn refuse(&mut self, error: RequestError) -> Option<Response> {
            Some(Response::new(error.status()).body(format!("{error}\n")))
        }
    }
    let clients = vec![Client::new(0, "nonsense\r\n\r\n")];
    let world = World::run(SimConfig::calm(1), settings(), Plain, clients, 5000);
    let text = world.clients[0].text();
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n") && text.ends_with("\n"), "{text}");
}

#[test]
fn a_prepared_message_is_sent_as_it_is() {
    let message = Rc::new(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec());
    let (made, prepared) = (Rc::new(Cell::new(0)), Rc::clone(&message));
    let count = Rc::clone(&made);
    let handler = move |_: &RequestHead<'_>| {
        count.set(count.get() + 1);
        Response::prepared(Rc::clone(&prepared))
    };
    let client = Client::new(0, "GET / HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3));
    let world = World::run(SimConfig::calm(1), settings(), handler, vec![client], 5000);
    assert_eq!(world.clients[0].output, message.repeat(3));
    assert_eq!(made.get(), 3);
}

#[test]
fn connections_end_with_their_deadlines() {
    let silent = Client::new(0, "");
    let slow = Client::new(0, "GET / HTT");
    let idle = Client::new(0, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let world = World::run(SimConfig::calm(1), settings(), echo, vec![silent, slow, idle], 10_000);
    for client in &world.clients {
        let ended = client.ended_at.expect("a deadline has passed");
        assert!((STEP_NS..STEP_NS * 3 / 2).contains(&ended), "{} ms", ended / MS);
    }
    let endless = Settings { times: None, ..settings() };
    let world = World::run(SimConfig::calm(1), endless, echo, vec![Client::new(0, "GET / HTT")], 100_000);
    assert_eq!((world.server.connections(), world.clients[0].ended_at), (1, None));
}

#[test]
fn a_client_that_ends_its_stream_gets_its_responses() {
    let request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let client = Client { ends: true, ..Client::new(0, request.repeat(2)) };
    let world = World::run(SimConfig::calm(1), settings(), echo, vec![client], 500);
    assert_eq!(world.clients[0].text(), ok("/a", "").repeat(2));
    assert!(world.clients[0].ended_at.is_some());
}

#[test]
fn the_number_of_connections_is_bounded() {
    let request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n";
    let clients = (0..10).map(|number| Client::new(number * 10, request)).collect();
    let when_full = WhenFull::CloseOldest { connections_max: 4 };
    let world = World::run(SimConfig::calm(1), Settings { when_full, ..settings() }, echo, clients, 500);
    assert_eq!(world.connections_max, 4);
    let open: Vec<bool> = world.clients.iter().map(|client| client.ended_at.is_none()).collect();
    assert_eq!(open, [false, false, false, false, false, false, true, true, true, true]);
    assert!(world.clients.iter().all(|client| client.text() == ok("/a", "")));
}

#[test]
fn a_server_that_cannot_accept_tries_again() {
    for when_full in [WhenFull::Wait, WhenFull::CloseOldest { connections_max: 64 }] {
        for seed in 0..8 {
            let config = SimConfig { accept_failure_probability: 0.5, ..SimConfig::rough(seed) };
            let clients = (0..10).map(|number| Client::new(number * 10, "GET /a HTTP/1.0\r\n\r\n")).collect();
            let world = World::run(config, Settings { when_full, ..settings() }, echo, clients, 30_000);
            // A connection that was closed for another one may have gone without a response.
            let answered = world.clients.iter().filter(|client| client.text() == ok("/a", CLOSE)).count();
            assert!(answered == 10 || (when_full != WhenFull::Wait && answered > 0), "seed {seed}: {answered}");
            assert!(world.clients.iter().all(|client| client.ended_at.is_some()), "seed {seed}");
        }
    }
}

#[test]
fn faults_leave_nothing_behind() {
    for seed in 0..32 {
        let request = "GET /a HTTP/1.1\r\nHost: x\r\n\r\n".repeat(20);
        let config = SimConfig { reset_probability: 0.05, mute_probability: 0.02, ..SimConfig::rough(seed) };
        let clients = (0..20).map(|number| Client::new(number * 100, request.clone())).collect();
        let world = World::run(config, settings(), echo, clients, 60_000);
        assert_eq!(world.server.connections(), 0, "seed {seed}");
    }
}

#[test]
fn a_listener_can_be_replaced() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let mut server = Server::new(settings(), echo);
    let first = "10.0.0.1:80".parse().unwrap();
    assert_eq!(server.listen(&mut sim, Listen::Address(first)).unwrap(), Some(first));
    server.listen(&mut sim, Listen::Address(first)).unwrap_err();
    let second = "10.0.0.1:81".parse().unwrap();
    assert_eq!(server.listen(&mut sim, Listen::Address(second)).unwrap(), Some(second));
    // The first address is free again.
    sim.listen(Listen::Address(first)).unwrap();
}

/// A server whose owner gives all responses when `batch` requests wait, the last one first, or when
/// `delay` has passed since the first of them.
struct Owner {
    world: World<Deferring>,
    batch: usize,
    delay: u64,
    respond: fn(&str) -> Response,
    /// Whether the network resets each connection that has a request.
    resets: bool,
    /// The number of responses that were not used.
    unused: usize,
}

#[derive(Clone, Default)]
struct Deferring {
    waiting: Rc<RefCell<Vec<(Ticket, String)>>>,
    since: Rc<Cell<Option<Instant>>>,
}

impl Handler for Deferring {
    fn respond(&mut self, _: &RequestHead<'_>) -> Response {
        unreachable!("each response is deferred")
    }

    fn respond_or_defer(&mut self, request: &RequestHead<'_>, ticket: Ticket) -> Option<Response> {
        self.waiting.borrow_mut().push((ticket, String::from_utf8(request.target.to_vec()).unwrap()));
        None
    }
}

impl App<Sim> for Owner {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        self.world.on_completion(sim, completion);
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        let handler = self.world.server.handler().clone();
        if handler.waiting.borrow().is_empty() {
            handler.since.set(None);
            return self.world.on_iteration(sim, now);
        }
        if self.resets {
            for (ticket, _) in handler.waiting.borrow().iter() {
                if self.world.server.is_awaited(*ticket) {
                    sim.reset(ticket.socket());
                }
            }
        }
        let due = handler.since.get().unwrap_or(now).plus_ns(self.delay);
        handler.since.set(Some(handler.since.get().unwrap_or(now)));
        if handler.waiting.borrow().len() >= self.batch || due <= now {
            handler.since.set(None);
            for (ticket, target) in handler.waiting.take().into_iter().rev() {
                let used = self.world.server.answer(sim, ticket, (self.respond)(&target));
                self.unused += usize::from(!used);
                assert!(!self.world.server.answer(sim, ticket, Response::new(500)), "each has one response");
            }
            return self.world.on_iteration(sim, now);
        }
        match self.world.on_iteration(sim, now) {
            LoopControl::WaitUntil(next) => LoopControl::WaitUntil(Some(next.map_or(due, |next| next.min(due)))),
            LoopControl::Stop => LoopControl::Stop,
        }
    }
}

impl Owner {
    fn run(
        config: SimConfig,
        batch: usize,
        delay_ms: u64,
        respond: fn(&str) -> Response,
        clients: Vec<Client>,
    ) -> Self {
        let mut sim = Sim::new(config);
        let world = World::new(&mut sim, settings(), Deferring::default(), clients, 60_000);
        let mut owner = Self { world, batch, delay: delay_ms * MS, respond, resets: false, unused: 0 };
        run(&mut sim, &mut owner).unwrap();
        owner
    }
}

fn echo_text(target: &str) -> Response {
    Response::new(200).field("Content-Type", "text/plain").body(target.to_owned())
}

#[test]
fn deferred_responses_keep_the_order_of_their_requests() {
    let targets: Vec<String> = (0..60).map(|number| format!("/{number}")).collect();
    let requests: String = targets.iter().map(|target| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    let expected: String = targets.iter().map(|target| ok(target, "")).collect();
    for (seed, batch) in (0..8).flat_map(|seed| [1, 3, 7].map(|batch| (seed, batch))) {
        let client = Client::new(0, requests.clone());
        let owner = Owner::run(SimConfig::rough(seed), batch, 20, echo_text, vec![client]);
        assert_eq!(owner.world.clients[0].text(), expected, "seed {seed}, batches of {batch}");
        assert_eq!((owner.unused, owner.world.server.connections()), (0, 0), "seed {seed}");
    }
}

#[test]
fn deferred_responses_have_the_form_that_their_request_asks_for() {
    let head = "HEAD /twelve-bytes HTTP/1.1\r\nHost: x\r\n\r\n";
    let posted = "POST /b HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
    let old = "GET /c HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    let last = "GET /d HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let expected = [
        ok("/twelve-bytes", "").replace("/twelve-bytes", ""),
        ok("/b", ""),
        ok("/c", "Connection: keep-alive\r\n"),
        ok("/d", CLOSE),
    ];
    let client = Client::new(0, [head, posted, old, last, last].concat());
    let owner = Owner::run(SimConfig::rough(1), 2, 20, echo_text, vec![client]);
    assert_eq!(owner.world.clients[0].text(), expected.concat());
}

/// A step's time is one second here; the response takes ten of them.
#[test]
fn a_response_may_be_deferred_for_longer_than_a_request_may_take() {
    let client = Client::new(0, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
    let owner = Owner::run(SimConfig::calm(1), usize::MAX, 10_000, echo_text, vec![client]);
    assert_eq!(owner.world.clients[0].text(), ok("/a", ""));
    let ended = owner.world.clients[0].ended_at.expect("the next request's deadline passes");
    assert!((11_000..12_500).contains(&(ended / MS)), "{} ms", ended / MS);
}

#[test]
fn a_response_for_a_connection_that_has_ended_is_not_used() {
    let mut sim = Sim::new(SimConfig::calm(1));
    let clients = (0..5).map(|number| Client::new(number * 100, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n"));
    let world = World::new(&mut sim, settings(), Deferring::default(), clients.collect(), 60_000);
    let mut owner = Owner { world, batch: usize::MAX, delay: 500 * MS, respond: echo_text, resets: true, unused: 0 };
    run(&mut sim, &mut owner).unwrap();
    assert_eq!((owner.unused, owner.world.server.connections()), (5, 0));
}

type Bodies = Rc<RefCell<Vec<(Ticket, Vec<u8>)>>>;

/// Answers each POST with its body, and everything else at once.
#[derive(Clone, Default)]
struct Gathering {
    bodies: Bodies,
    whole: Bodies,
}

impl Handler for Gathering {
    fn respond(&mut self, request: &RequestHead<'_>) -> Response {
        echo(request)
    }

    fn respond_or_defer(&mut self, request: &RequestHead<'_>, ticket: Ticket) -> Option<Response> {
        if request.method.name() != "POST" {
            return Some(self.respond(request));
        }
        self.bodies.borrow_mut().push((ticket, Vec::new()));
        None
    }

    fn wants_body(&self, _: Ticket) -> bool {
        true
    }

    fn take_body(&mut self, ticket: Ticket, piece: &[u8]) {
        let mut bodies = self.bodies.borrow_mut();
        let (_, body) = bodies.iter_mut().find(|(other, _)| *other == ticket).expect("a head came before");
        body.extend_from_slice(piece);
    }

    fn end_body(&mut self, ticket: Ticket) {
        let mut bodies = self.bodies.borrow_mut();
        let at = bodies.iter().position(|(other, _)| *other == ticket).expect("a head came before");
        self.whole.borrow_mut().push(bodies.remove(at));
    }
}

struct Reader(World<Gathering>);

impl App<Sim> for Reader {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        self.0.on_completion(sim, completion);
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        for (ticket, body) in self.0.server.handler().whole.take() {
            self.0.server.answer(sim, ticket, echo_text(&String::from_utf8(body).unwrap()));
        }
        self.0.on_iteration(sim, now)
    }
}

#[test]
fn a_handler_gets_the_bodies_that_it_wants_also_of_the_last_request() {
    let post = |body: &str, fields: &str| {
        format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n{fields}\r\n{body}", body.len())
    };
    let long = "0123456789".repeat(500);
    let chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    let get = "GET /g HTTP/1.1\r\nHost: x\r\n\r\n";
    let input = [&post(&long, ""), chunked, get, &post("", ""), &post("last", "Connection: close\r\n"), get].concat();
    let expected = [ok(&long, ""), ok("abcde", ""), ok("/g", ""), ok("", ""), ok("last", CLOSE)].concat();
    for seed in 0..8 {
        let mut sim = Sim::new(SimConfig::rough(seed));
        let clients = vec![Client::new(0, input.clone()), Client::new(0, post(&long, "")[..60].to_owned())];
        let mut reader = Reader(World::new(&mut sim, settings(), Gathering::default(), clients, 60_000));
        run(&mut sim, &mut reader).unwrap();
        assert_eq!(reader.0.clients[0].text(), expected, "seed {seed}");
        assert_eq!((reader.0.clients[1].text().as_str(), reader.0.server.connections()), ("", 0), "cut short");
    }
}

#[test]
fn a_repeated_body_is_as_long_as_it_says() {
    let respond = |head: &RequestHead<'_>| match head.target {
        b"/stream" => Response::repeated(Rc::new(b"0123456789".to_vec()), 25),
        _ => Response::new(200).body("next"),
    };
    let check = |method: &str, body: &str| {
        let input = format!("{method} /stream HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n");
        let world = World::run(SimConfig::calm(1), settings(), respond, vec![Client::new(0, input)], 500);
        let expected = format!(
            "HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{body}HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nnext"
        );
        assert_eq!(world.clients[0].text(), expected, "{method}");
    };
    check("GET", "0123456789012345678901234");
    check("HEAD", "");
}

#[test]
fn a_message_cut_short_and_a_reset_end_the_connection() {
    let respond = |target: &str| match target {
        "/short" => Response::cut_short(Rc::new(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc".to_vec())),
        "/reset" => Response::reset(),
        target => echo_text(target),
    };
    let request = |target: &str| format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
    for seed in 0..8 {
        let short = Client::new(0, ["/a", "/short", "/b"].map(request).concat());
        let reset = Client::new(50, request("/reset") + &request("/b"));
        let owner = Owner::run(SimConfig::rough(seed), 1, 0, respond, vec![short, reset]);
        let expected = ok("/a", "") + "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc";
        assert_eq!(owner.world.clients[0].text(), expected, "seed {seed}");
        assert_eq!(owner.world.clients[1].text(), "", "seed {seed}");
        assert!(owner.world.clients.iter().all(|client| client.ended_at.is_some()), "seed {seed}");
    }
}
