//! Loads over TLS, with a server of the other role on the simulated network: records that are cut
//! anywhere, resets anywhere, sessions that are resumed, and ends with and without close_notify.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_load::{
    Engine, Extent, LoopPlan, Plan, Progress, RequestText, RunFigures, StartBarrier, TlsPlan, template,
};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Driver, DriverKind, Listen, SendBuf};
use thalweg_sys::{Instant, SocketId};
use thalweg_tls::{
    CertificateStore, ClientOptions, ClientSettings, Engine as Tls, Resume, Roots, ServerOptions, ServerSettings,
    TicketKeys, self_signed,
};
use thalweg_wire::Version;

use crate::world::plan;
use crate::{SECOND, with_seeds};

const NAME: &str = "server.example";

/// Responses are this long, so that they take several records.
const CONTENT_BYTES: usize = 50_000;

/// The end of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// By its length; the connection goes on.
    Length,
    /// By close_notify.
    CloseNotify,
    /// By the end of the stream, which TLS has not announced.
    Cut,
}

struct Peer {
    tls: Tls,
    input: Vec<u8>,
    output: Vec<u8>,
    sending: bool,
    /// The connection ends behind the output.
    is_last: bool,
}

struct Server {
    settings: ServerSettings,
    end: End,
    peers: BTreeMap<SocketId, Peer>,
    requests: usize,
}

impl Server {
    fn on_received(&mut self, sim: &mut Sim, socket: SocketId) {
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        let (mut scratch, mut plain) = (Vec::new(), Vec::new());
        let received = sim.received().to_vec();
        if peer.tls.receive(&received, &mut scratch, &mut plain, &mut peer.output).is_err() {
            self.peers.remove(&socket);
            return sim.close(socket);
        }
        peer.input.extend_from_slice(&plain);
        while let Some(at) = peer.input.windows(4).position(|window| window == b"\r\n\r\n") {
            let head: Vec<u8> = peer.input.drain(..at + 4).collect();
            self.requests += 1;
            if head.starts_with(b"GET /moved ") {
                let redirect = format!("HTTP/1.1 301 Moved\r\nLocation: https://{NAME}/\r\nContent-Length: 0\r\n\r\n");
                peer.tls.seal(redirect.as_bytes(), &mut peer.output).expect("the handshake is complete");
                continue;
            }
            let length = format!("Content-Length: {CONTENT_BYTES}\r\n");
            let framing = if self.end == End::Length { &*length } else { "Connection: close\r\n" };
            let mut response = format!("HTTP/1.1 200 OK\r\n{framing}\r\n").into_bytes();
            response.resize(response.len() + CONTENT_BYTES, b'x');
            peer.tls.seal(&response, &mut peer.output).expect("the handshake is complete");
            peer.is_last = self.end != End::Length;
            if self.end == End::CloseNotify {
                peer.tls.close(&mut peer.output);
            }
        }
        self.flush(sim, socket);
    }

    fn flush(&mut self, sim: &mut Sim, socket: SocketId) {
        let Some(peer) = self.peers.get_mut(&socket) else { return };
        if peer.sending {
            return;
        }
        if !peer.output.is_empty() {
            peer.sending = true;
            sim.send(socket, SendBuf::Owned(std::mem::take(&mut peer.output)));
        } else if peer.is_last {
            sim.finish(socket);
            peer.is_last = false;
        }
    }
}

struct Both {
    engine: Engine,
    server: Server,
    give_up_at: Instant,
}

impl App<Sim> for Both {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        let server = &mut self.server;
        let is_servers = completion.subject().is_some_and(|socket| server.peers.contains_key(&socket));
        match completion {
            Completion::Accepted { socket, .. } => {
                let tls = Tls::accept(&server.settings).expect("the settings are in order");
                let (input, output) = (Vec::new(), Vec::new());
                server.peers.insert(socket, Peer { tls, input, output, sending: false, is_last: false });
            }
            Completion::Received { socket } if is_servers => server.on_received(sim, socket),
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
        self.engine.on_iteration(sim, now)
    }
}

/// Makes a run. Returns its figures, and the server as it is then.
fn play(plan: Plan, network: SimConfig, end: End, resume: Resume, trusts: bool) -> (RunFigures, Server) {
    let certificate = self_signed(&[NAME.to_owned()]).expect("a certificate can be made");
    let store = Arc::new(CertificateStore::default());
    store.set(&[(Vec::new(), certificate.clone())]);
    let tickets = Some(TicketKeys::new().expect("the system has randomness"));
    let options = ServerOptions { tickets, ..ServerOptions::default() };
    let settings = ServerSettings::new(options, &store).expect("the settings are in order");
    let client = ClientOptions { roots: Roots::System, insecure: true, resume, ..ClientOptions::default() };
    let client = ClientSettings::new(client).expect("the settings are in order");
    let other = self_signed(&["other.example".to_owned()]).expect("a certificate can be made");
    let trusted = if trusts { &certificate } else { &other };
    let client = client.trusting(trusted).expect("a certificate can be trusted");
    let tls = TlsPlan { settings: client, server_name: NAME.to_owned(), resume };

    let mut sim = Sim::new(network);
    let began = sim.now();
    sim.listen(Listen::Address("10.0.0.1:80".parse().expect("an address"))).expect("the address is free");
    let (barrier, progress) = (Arc::new(StartBarrier::new(1)), Arc::new(Progress::new(1)));
    let plan = Arc::new(Plan { tls: Some(tls), ..plan });
    let engine = Engine::new(plan, 0, DriverKind::Simulated, began, barrier, progress);
    let server = Server { settings, end, peers: BTreeMap::new(), requests: 0 };
    let mut both = Both { engine, server, give_up_at: began.plus_ns(100 * SECOND) };
    run(&mut sim, &mut both).expect("the simulation goes on");
    (both.engine.into_figures(), both.server)
}

#[test]
fn redirects_are_followed_over_tls() {
    let run = |seed| {
        let network = SimConfig { fragment_probability: 0.5, ..SimConfig::calm(seed) };
        let text = RequestText {
            method: "GET",
            authority: NAME,
            target: "/moved",
            version: Version::Http11,
            fields: &[],
            body: b"",
        };
        let moved = [template(&text).expect("the request is in order")].into();
        let plan = Plan { requests: moved, redirects_max: 1, ..requests(100) };
        let (figures, server) = play(plan, network, End::Length, Resume::Never, true);
        let trial = &figures.trial;
        assert_eq!((trial.counts.good, server.requests), (100, 200), "{:?}", trial.outcomes);
        assert_eq!(trial.redirects.as_ref().map(|redirects| redirects.followed), Some(100));
    };
    with_seeds(0..3, run);
}

fn requests(number: u64) -> Plan {
    let patience = Duration::from_secs(10);
    let plan = plan(LoopPlan::at_rate(500.0), Extent::Requests(number), 1);
    let (method, target, version) = ("GET", "/", Version::Http11);
    let text = RequestText { method, authority: NAME, target, version, fields: &[], body: b"" };
    let requests = [template(&text).expect("the request is in order")].into();
    Plan { requests, connections: 4, timeout: patience, drain: patience, ..plan }
}

#[test]
fn records_may_be_cut_anywhere() {
    let run = |seed| {
        let probability = [0.0, 0.5, 1.0][seed as usize % 3];
        let network = SimConfig { fragment_probability: probability, ..SimConfig::calm(seed) };
        let (figures, server) = play(requests(100), network, End::Length, Resume::Never, true);
        let trial = &figures.trial;
        assert_eq!((trial.counts.good, server.requests), (100, 100), "{:?}", trial.outcomes);
        assert_eq!(trial.bytes.body_received, 100 * CONTENT_BYTES as u64);
        let tls = trial.tls.as_ref().expect("there were handshakes");
        assert_eq!((tls.full, tls.resumed, tls.failures.len()), (trial.connections.opened, 0, 0));
    };
    with_seeds(0..9, run);
}

#[test]
fn every_request_has_one_outcome_whatever_happens_to_the_connection() {
    let run = |seed| {
        let network = SimConfig {
            fragment_probability: 0.3,
            reset_probability: 0.02,
            reset_loss_probability: 0.5,
            refuse_probability: 0.05,
            ..SimConfig::calm(seed)
        };
        let plan = Plan { calls: Some(5), ..requests(200) };
        let (figures, _) = play(plan, network, End::Length, Resume::Tickets, true);
        let trial = &figures.trial;
        assert_eq!(trial.outcomes.total(), 200, "{:?}", trial.outcomes);
        let failed = trial.outcomes.count(Outcome::TlsFailure);
        let causes = trial.tls.as_ref().map_or(0, |tls| tls.failures.values().sum());
        // A connection that was opened ahead may fail without a request.
        assert!(trial.counts.good > 50 && causes >= failed, "{:?}, {causes} failures", trial.outcomes);
    };
    with_seeds(0..8, run);
}

#[test]
fn sessions_are_resumed() {
    let run = |seed| {
        for resume in [Resume::Tickets, Resume::Always] {
            let network = SimConfig { fragment_probability: 0.5, ..SimConfig::calm(seed) };
            let plan = Plan { calls: Some(1), ..requests(50) };
            let (figures, _) = play(plan, network, End::Length, resume, true);
            let trial = &figures.trial;
            assert_eq!(trial.counts.good, 50, "{resume:?}: {:?}", trial.outcomes);
            let tls = trial.tls.as_ref().expect("there were handshakes");
            assert!(tls.full <= 4 && tls.resumed >= 46, "{resume:?}: {} full, {} resumed", tls.full, tls.resumed);
        }
    };
    with_seeds(0..4, run);
}

#[test]
fn a_body_without_a_length_is_whole_only_with_close_notify() {
    let run = |seed| {
        for (end, expected) in [(End::CloseNotify, Outcome::Good), (End::Cut, Outcome::Truncated)] {
            let network = SimConfig { fragment_probability: 0.5, ..SimConfig::calm(seed) };
            let (figures, _) = play(requests(40), network, end, Resume::Never, true);
            assert_eq!(figures.trial.outcomes.count(expected), 40, "{:?}", figures.trial.outcomes);
        }
    };
    with_seeds(0..4, run);
}

#[test]
fn a_certificate_of_another_authority_fails_every_connection() {
    let (figures, server) = play(requests(20), SimConfig::calm(1), End::Length, Resume::Never, false);
    let trial = &figures.trial;
    assert_eq!((trial.outcomes.count(Outcome::TlsFailure), server.requests), (20, 0), "{:?}", trial.outcomes);
    let tls = trial.tls.as_ref().expect("there were failures");
    assert!(tls.failures.keys().all(|cause| cause.starts_with("certificate_")), "{:?}", tls.failures);
}
