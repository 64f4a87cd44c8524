//! TLS over the simulated network: fragments, slow readers, handshakes that never end.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::Connect;
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};
use thalweg_tls::{
    CertificateStore, ClientOptions, ClientSettings, Engine, FailureKind, ServerOptions, ServerSettings, TicketKeys,
    self_signed,
};

use super::tier::{Delivery, Ending, Kind, ScriptedTier, forwarding};
use super::{SECOND_NS, SERVER, World, folder, large, naive, world};
use crate::config::{Limits, TlsConfig};
use crate::server::loop_tls::TlsSetup;
use crate::telemetry::counters::{Published, Totals};

/// A client that speaks TLS, or begins to.
struct Client {
    socket: SocketId,
    engine: Engine,
    wire: Vec<u8>,
    /// The requests, once the handshake is complete.
    requests: Vec<u8>,
    /// Bytes that are sent instead of TLS.
    instead: Option<&'static [u8]>,
    is_connected: bool,
    is_sending: bool,
    received: Vec<u8>,
    is_closed_by_tls: bool,
    failure: Option<FailureKind>,
    over: Option<(Instant, bool)>,
}

impl Client {
    fn connect(driver: &mut Sim, settings: &ClientSettings, requests: &str) -> Self {
        Self {
            socket: driver.connect(&Connect::tcp(SERVER)).unwrap(),
            engine: Engine::connect(settings, "localhost").unwrap(),
            wire: Vec::new(),
            requests: requests.into(),
            instead: None,
            is_connected: false,
            is_sending: false,
            received: Vec::new(),
            is_closed_by_tls: false,
            failure: None,
            over: None,
        }
    }

    fn receive(&mut self, bytes: &[u8]) {
        match self.engine.receive(bytes, &mut Vec::new(), &mut self.received, &mut self.wire) {
            Ok(received) => {
                self.is_closed_by_tls |= received.is_peer_closed;
                if received.is_established && !self.requests.is_empty() {
                    self.engine.seal(&std::mem::take(&mut self.requests), &mut self.wire).unwrap();
                }
            }
            Err(failure) => self.failure = Some(failure.kind),
        }
    }

    fn on_completion(&mut self, driver: &mut Sim, completion: &Completion) {
        match completion {
            Completion::Connected { .. } => {
                self.is_connected = true;
                match self.instead {
                    Some(bytes) => self.wire = bytes.to_vec(),
                    None => self.receive(b""),
                }
            }
            Completion::Received { .. } => self.receive(driver.received()),
            Completion::Sent { .. } => self.is_sending = false,
            Completion::Ended { .. } => self.over = Some((driver.now(), true)),
            Completion::Failed { .. } => self.over = Some((driver.now(), false)),
            other => panic!("{other:?} is not for a client"),
        }
        if self.over.is_some() {
            return driver.close(self.socket);
        }
        if self.is_connected && !self.is_sending && !self.wire.is_empty() {
            self.is_sending = true;
            driver.send(self.socket, SendBuf::Owned(std::mem::take(&mut self.wire)));
        }
    }
}

/// A server that speaks TLS, and its clients.
struct SecureWorld<'w> {
    world: World<'w>,
    clients: Vec<Client>,
    /// The most that the server's connections have held, and whether they held nothing after that.
    held_bytes_max: usize,
    was_idle: bool,
    published: Arc<[Published]>,
    /// Handshakes that were complete after an iteration, and the most that one iteration completed.
    completed: u64,
    completed_at_once_max: u64,
}

impl App<Sim> for SecureWorld<'_> {
    fn on_completion(&mut self, driver: &mut Sim, completion: Completion) {
        let subject = completion.subject();
        match self.clients.iter_mut().find(|client| Some(client.socket) == subject && client.over.is_none()) {
            Some(client) => client.on_completion(driver, &completion),
            None => self.world.on_completion(driver, completion),
        }
    }

    fn on_iteration(&mut self, driver: &mut Sim, now: Instant) -> LoopControl {
        let next = self.world.on_iteration(driver, now);
        let completed = self.published[0].totals().handshakes_tls13;
        self.completed_at_once_max = self.completed_at_once_max.max(completed - self.completed);
        self.completed = completed;
        let held_bytes = self.world.service.held_bytes();
        self.held_bytes_max = self.held_bytes_max.max(held_bytes);
        self.was_idle |= self.held_bytes_max > 0 && held_bytes == 0;
        if self.clients.iter().all(|client| client.over.is_some()) {
            return LoopControl::Stop;
        }
        match next {
            // The world has no clients of its own.
            LoopControl::Stop => {
                LoopControl::WaitUntil(self.world.end.filter(|end| *end > now).or(Some(now.plus_ns(1_000_000))))
            }
            next => next,
        }
    }
}

fn server_settings() -> ServerSettings {
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), self_signed(&["localhost".into()]).unwrap())]);
    let tickets = Some(TicketKeys::new().unwrap());
    let options = ServerOptions { alpn: vec![b"http/1.1".to_vec()], tickets, ..ServerOptions::default() };
    ServerSettings::new(options, &store).unwrap()
}

/// Runs clients with these requests, changed by `change`, to the end of all of them.
fn simulate(
    config: SimConfig,
    tls: &TlsConfig,
    folder: &Path,
    requests: &[&str],
    change: impl Fn(&mut Client),
) -> (Vec<Client>, Totals, Instant) {
    let (world, totals, start) = simulate_world(config, tls, folder, requests, |_| {}, change);
    (world.clients, totals, start)
}

/// The same in a world that was prepared, with that world at its end.
fn simulate_world<'w>(
    config: SimConfig,
    tls: &TlsConfig,
    folder: &'w Path,
    requests: &[&str],
    prepare: impl FnOnce(&mut World<'_>),
    change: impl Fn(&mut Client),
) -> (SecureWorld<'w>, Totals, Instant) {
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, published) = world(&mut driver, &Limits::default(), folder, Vec::new());
    let setup = TlsSetup { settings: server_settings(), groups: vec![0], redirect_port: None };
    world.service.speak_tls(setup, tls);
    prepare(&mut world);
    let settings = ClientSettings::new(ClientOptions { insecure: true, ..ClientOptions::default() }).unwrap();
    let clients = requests.iter().map(|requests| {
        let mut client = Client::connect(&mut driver, &settings, requests);
        change(&mut client);
        client
    });
    let mut world = SecureWorld {
        clients: clients.collect(),
        world,
        held_bytes_max: 0,
        was_idle: false,
        published: Arc::clone(&published),
        completed: 0,
        completed_at_once_max: 0,
    };
    run(&mut driver, &mut world).unwrap();
    (world, published[0].totals(), start)
}

const REQUESTS: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=5-1400000\r\n\r\n\
    GET /missing HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n";

#[test]
fn responses_arrive_whole_over_fragments_of_any_size() {
    let folder = folder();
    for seed in 0..30 {
        let (clients, totals, _) =
            simulate(SimConfig::rough(seed), &TlsConfig::default(), folder.path(), &[REQUESTS; 2], |_| {});
        for client in clients {
            assert_eq!((client.failure, client.over.map(|(_, orderly)| orderly)), (None, Some(true)), "seed {seed}");
            assert!(client.is_closed_by_tls, "seed {seed}");
            let responses = naive::take_all(&client.received, &["GET"; 4]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 206, 404, 200], "seed {seed}");
            assert!(responses[1].body == large()[5..=1_400_000] && responses[3].body == large(), "seed {seed}");
        }
        assert_eq!((totals.handshakes_tls13, totals.handshakes_failed), (2, 0));
    }
}

#[test]
fn a_handshake_that_never_ends_is_given_up_in_time() {
    let folder = folder();
    let tls = TlsConfig { handshake_time: Some(Duration::from_secs(3)), ..TlsConfig::default() };
    for instead in [&b"\x16\x03\x01"[..], b"\x16"] {
        let (clients, totals, start) =
            simulate(SimConfig::calm(1), &tls, folder.path(), &[""], |client| client.instead = Some(instead));
        let (at, _) = clients[0].over.unwrap();
        let lasted = at.ns_since(start);
        assert!((3 * SECOND_NS..4 * SECOND_NS).contains(&lasted), "{lasted}");
        assert_eq!(totals.handshakes_tls13, 0);
    }
}

#[test]
fn the_oldest_handshakes_give_way_and_others_are_served() {
    let folder = folder();
    let tls = TlsConfig { handshakes_max: 4, ..TlsConfig::default() };
    let stuck = "stuck";
    let mut requests = vec![stuck; 12];
    requests.push("GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    let (clients, totals, _) = simulate(SimConfig::calm(1), &tls, folder.path(), &requests, |client| {
        if client.requests == stuck.as_bytes() {
            client.instead = Some(b"\x16\x03\x01");
        }
    });
    assert!(clients[12].received.ends_with(b"the letter a\n"));
    assert!(totals.handshakes_shed >= 8, "{}", totals.handshakes_shed);
}

#[test]
fn a_burst_of_handshakes_is_spread_over_iterations() {
    let folder = folder();
    let requests = ["GET /a HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"; 100];
    for seed in 0..3 {
        let config = SimConfig { latency_ns: 1_000_000, ..SimConfig::calm(seed) };
        let tls = TlsConfig::default();
        let (world, totals, _) = simulate_world(config, &tls, folder.path(), &requests, |_| {}, |_| {});
        assert!(world.clients.iter().all(|client| client.received.ends_with(b"the letter a\n")));
        assert_eq!((totals.handshakes_tls13, totals.handshakes_failed, totals.handshakes_shed), (100, 0, 0));
        // The budget of the iteration before may be left to the input of the next one.
        assert!(world.completed_at_once_max <= 8, "{}", world.completed_at_once_max);
    }
}

#[test]
fn plain_http_gets_an_alert_and_an_end() {
    let folder = folder();
    let tls = TlsConfig::default();
    let (clients, totals, start) = simulate(SimConfig::calm(1), &tls, folder.path(), &[""], |client| {
        client.instead = Some(b"GET / HTTP/1.1\r\n\r\n");
    });
    let client = &clients[0];
    assert!(client.over.unwrap().0.ns_since(start) < SECOND_NS);
    assert_eq!(totals.handshakes_failed, 1);
}

#[test]
fn a_slow_client_ties_up_two_records_and_an_idle_one_nothing() {
    let folder = folder();
    let config = SimConfig { socket_buffer_bytes: 16 << 10, bandwidth: Some(50_000), ..SimConfig::calm(1) };
    // The connection stays open until it has been idle for too long.
    let requests = "GET /large HTTP/1.1\r\nHost: h\r\n\r\n";
    let (world, _, start) = simulate_world(config, &TlsConfig::default(), folder.path(), &[requests], |_| {}, |_| {});
    let client = &world.clients[0];
    assert!(client.over.unwrap().0.ns_since(start) > 75 * SECOND_NS);
    assert!(client.is_closed_by_tls, "an idle connection ends in order");
    let responses = naive::take_all(&client.received, &["GET"]);
    assert!(responses[0].body == large());
    let most = world.held_bytes_max;
    assert!((32 << 10..36 << 10).contains(&most), "{most}");
    assert!(world.was_idle, "it held nothing while it was idle");
}

#[test]
fn a_response_that_is_cut_off_does_not_end_in_order() {
    let folder = folder();
    let kind = Kind::Relay { status: 200, tells_length: false };
    let fails = Delivery::of(kind, 30, 1_000_000, Ending::Failure);
    // Without the chunked coding, nothing but the end of TLS would tell the end of the body.
    for version in ["1.0", "1.1"] {
        let request = format!("GET /fails HTTP/{version}\r\nHost: h\r\n\r\n");
        let tier = ScriptedTier::new([("/fails", fails.clone())]);
        let prepare = |world: &mut World<'_>| world.forward(&tier, &forwarding(&["GET"]));
        let config = SimConfig::calm(1);
        let (world, ..) = simulate_world(config, &TlsConfig::default(), folder.path(), &[&request], prepare, |_| {});
        let client = &world.clients[0];
        assert!(client.received.starts_with(b"HTTP/1.1 200 OK\r\n"), "{version}");
        assert!(!client.is_closed_by_tls && !client.over.unwrap().1, "{version}");
    }
}

#[test]
fn bodies_of_the_cache_tier_arrive_over_tls() {
    let folder = folder();
    for kind in [Kind::Stored, Kind::Fragments, Kind::Relay { status: 200, tells_length: false }] {
        let delivery = Delivery::of(kind, 350, 10_000, Ending::Complete);
        let tier = ScriptedTier::new([("/a", delivery.clone())]);
        let prepare = |world: &mut World<'_>| world.forward(&tier, &forwarding(&["GET"]));
        let requests = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2);
        let config = SimConfig::rough(1);
        let (world, ..) = simulate_world(config, &TlsConfig::default(), folder.path(), &[&requests], prepare, |_| {});
        let responses = naive::take_all(&world.clients[0].received, &["GET"]);
        assert_eq!(responses.len(), 2);
        assert!(responses.iter().all(|response| response.body == delivery.whole()));
    }
}
