//! The server in the simulated network, under clients that send at exact times.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Connect, Listen, SendBuf};
use thalweg_sys::{Driver, DriverChoice, Instant, SocketId};

use super::app::{Work, YardstickApp};
use super::config::ServerConfig;
use super::figures::Figures;
use crate::faults::Faults;
use crate::law::Law;
use crate::model::Model;
use crate::speed::{Collapse, Overload};
use crate::station::Station;
use crate::truth::{Arrivals, truth};

const MS: u64 = 1_000_000;
const GET: &str = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

/// A client with a connection of its own: it sends its input at a time, and leaves at another.
#[derive(Default)]
struct Client {
    at: u64,
    input: String,
    leaves_at: Option<u64>,
    socket: Option<SocketId>,
    output: Vec<u8>,
    /// When each piece of the output came.
    times: Vec<u64>,
    ended: bool,
}

impl Client {
    fn new(at: u64, input: impl Into<String>) -> Self {
        Self { at, input: input.into(), ..Self::default() }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }
}

struct World {
    app: YardstickApp,
    addr: SocketAddr,
    clients: Vec<Client>,
    sockets: BTreeMap<SocketId, usize>,
    start: Instant,
    until: u64,
}

impl World {
    /// Runs the clients against a server of `model` for so long (ns).
    fn run(config: SimConfig, model: Model, clients: Vec<Client>, until: u64) -> (Vec<Client>, Figures) {
        let mut sim = Sim::new(config);
        let addr: SocketAddr = "10.0.0.1:80".parse().unwrap();
        let server = ServerConfig {
            model,
            truth: truth(&model, Arrivals::Constant, &[]),
            body_bytes: 64,
            retry_after_s: Some(3),
            listen: addr,
            cpus: Vec::new(),
            burn: false,
            driver: DriverChoice::Auto,
            connections_max: 1000,
            wake_early_ns: 0,
        };
        let work = Work::Computed(Station::new(&model));
        let mut app = YardstickApp::new(&server, work, Arc::new(AtomicBool::new(false)), sim.now());
        app.listen(&mut sim, Listen::Address(addr)).unwrap();
        let mut world = World { app, addr, clients, sockets: BTreeMap::new(), start: sim.now(), until };
        run(&mut sim, &mut world).unwrap();
        let figures = world.app.figures(sim.now());
        (world.clients, figures)
    }
}

impl App<Sim> for World {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        let client = completion.subject().and_then(|socket| self.sockets.get(&socket).copied());
        let Some(client) = client.map(|index| &mut self.clients[index]) else {
            return self.app.on_completion(sim, completion);
        };
        match completion {
            Completion::Connected { socket } => sim.send(socket, SendBuf::Owned(client.input.clone().into_bytes())),
            Completion::Received { .. } => {
                client.output.extend_from_slice(sim.received());
                client.times.push(sim.now().ns_since(self.start));
            }
            Completion::Ended { socket } | Completion::Failed { socket, .. } => {
                client.ended = true;
                self.sockets.remove(&socket);
                sim.close(socket);
            }
            _ => {}
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        let elapsed = now.ns_since(self.start);
        if elapsed >= self.until {
            return LoopControl::Stop;
        }
        let mut next = self.until;
        for (index, client) in self.clients.iter_mut().enumerate() {
            match client.socket {
                None if client.at <= elapsed => {
                    let socket = sim.connect(&Connect::tcp(self.addr)).unwrap();
                    client.socket = Some(socket);
                    self.sockets.insert(socket, index);
                }
                None => next = next.min(client.at),
                Some(_) => {}
            }
            let Some((socket, at)) = client.socket.zip(client.leaves_at) else { continue };
            if at > elapsed {
                next = next.min(at);
            } else if self.sockets.remove(&socket).is_some() {
                sim.close(socket);
            }
        }
        let LoopControl::WaitUntil(due) = self.app.on_iteration(sim, now) else { return LoopControl::Stop };
        let next = self.start.plus_ns(next);
        LoopControl::WaitUntil(Some(due.map_or(next, |due| due.min(next))))
    }
}

fn fixed(servers: usize, time_ms: u64) -> Model {
    Model::plain(servers, Law::Fixed { time_s: time_ms as f64 / 1e3 })
}

#[test]
fn responses_leave_at_their_departures() {
    // Four requests at once meet two servers of 10 ms.
    let clients = (0..4).map(|_| Client::new(5 * MS, GET)).collect();
    let (clients, figures) = World::run(SimConfig::calm(1), fixed(2, 10), clients, 1000 * MS);
    let mut came: Vec<u64> = clients.iter().map(|client| client.times[0]).collect();
    came.sort_unstable();
    // The network's latency comes on top, the same for each.
    let network = came[0] - 15 * MS;
    assert!(network < 5 * MS, "{network} ns");
    assert_eq!(came, [15, 15, 25, 25].map(|ms| ms * MS + network));
    assert!(clients.iter().all(|client| client.text().ends_with(&"x".repeat(64))));
    assert_eq!((figures.arrived, figures.served, figures.waiting_peak), (4, 4, 2));
    // Virtual time stands still while the server works.
    assert_eq!((figures.lateness_us.count, figures.lateness_us.max), (4, 0.0));
}

#[test]
fn pipelined_requests_have_their_responses_in_order() {
    for seed in 0..8 {
        let head = GET.replace("GET", "HEAD");
        let status = "GET /.yardstick HTTP/1.1\r\nHost: x\r\n\r\n";
        let input = [GET, &head, GET, status, GET].concat();
        let model = Model { seed, ..Model::plain(3, Law::Exponential { mean_s: 0.01 }) };
        let (clients, figures) = World::run(SimConfig::rough(seed), model, vec![Client::new(0, input)], 5000 * MS);
        let text = clients[0].text();
        let bodies: Vec<usize> =
            text.split("HTTP/1.1 200 OK\r\n").skip(1).map(|one| one.matches('x').count()).collect();
        // The word "text" of Content-Type has one as well, and "max" of the page.
        assert_eq!((bodies[0], bodies[1], bodies[2], bodies[4]), (65, 1, 65, 65), "seed {seed}: {text}");
        assert!(text.split("HTTP/1.1 200 OK\r\n").nth(4).unwrap().contains("\"waiting_peak\""), "seed {seed}");
        assert_eq!((figures.arrived, figures.served), (4, 4), "seed {seed}");
    }
}

#[test]
fn a_client_that_leaves_the_queue_is_not_served() {
    let leaving = |at: u64| Client { leaves_at: Some(at * MS), ..Client::new(0, GET) };
    let clients = vec![Client::new(0, GET), leaving(50), leaving(50), Client::new(20 * MS, GET)];
    let (clients, figures) = World::run(SimConfig::calm(1), fixed(1, 100), clients, 2000 * MS);
    assert_eq!((figures.served, figures.abandoned, figures.connections), (2, 2, 2), "{figures:?}");
    let last = clients[3].times[0] / MS;
    assert!((200..210).contains(&last), "{last} ms");
}

#[test]
fn a_full_queue_is_refused_at_once() {
    let model = Model { queue_max: Some(1), ..fixed(1, 100) };
    let clients = (0..4).map(|number| Client::new(number * 10 * MS, GET)).collect();
    let (clients, figures) = World::run(SimConfig::calm(1), model, clients, 2000 * MS);
    let statuses: Vec<String> = clients.iter().map(|client| client.text()[9..12].to_owned()).collect();
    assert_eq!(statuses, ["200", "200", "503", "503"]);
    assert!(clients[2].text().contains("\r\nRetry-After: 3\r\n") && clients[2].times[0] < 30 * MS);
    assert_eq!((figures.served, figures.refused), (2, 2));
}

#[test]
fn faults_have_their_shares() {
    let faults = Faults { wrong_bodies: 0.2, resets: 0.2, truncated: 0.2, errors: 0.2 };
    let clients = (0..500).map(|number| Client::new(number * MS, GET)).collect();
    let (clients, figures) = World::run(SimConfig::calm(1), Model { faults, ..fixed(4, 1) }, clients, 20_000 * MS);
    let count = |holds: &dyn Fn(&Client) -> bool| clients.iter().filter(|client| holds(client)).count() as u64;
    let wrong = count(&|client| client.text().contains("xx?xx"));
    let errors = count(&|client| client.text().starts_with("HTTP/1.1 500"));
    let resets = count(&|client| client.ended && client.output.is_empty());
    let truncated = count(&|client| client.ended && client.text().matches('x').count() == 33);
    let good = count(&|client| !client.ended && client.text().matches('x').count() == 65);
    let counted = figures.faults;
    assert_eq!(
        [wrong, resets, truncated, errors],
        [counted.wrong_bodies, counted.resets, counted.truncated, counted.errors]
    );
    assert!([wrong, resets, truncated, errors, good].iter().all(|share| (60..140).contains(share)), "{counted:?}");
    assert_eq!(wrong + resets + truncated + errors + good, 500);
}

#[test]
fn a_collapse_slows_responses_down() {
    let above = Overload::RatePerS(50.0);
    let collapse = Some(Collapse { above, left: 0.1, recovery_ns: Some(3000 * MS) });
    let overload = (0..60).map(|number| Client::new(number * MS, GET));
    let later = [2000, 4000].map(|ms| Client::new(ms * MS, GET));
    let model = Model { collapse, ..fixed(100, 10) };
    let (clients, figures) = World::run(SimConfig::calm(1), model, overload.chain(later).collect(), 10_000 * MS);
    let took = |index: usize| (clients[index].times[0] - clients[index].at) / MS;
    assert!(took(0) < 15 && (100..110).contains(&took(60)) && took(61) < 15, "{} {} {}", took(0), took(60), took(61));
    assert_eq!((figures.collapses, figures.is_collapsed), (1, false));
}

#[test]
fn hostile_peers_leave_nothing_behind() {
    for seed in 0..16 {
        let config = SimConfig { reset_probability: 0.05, mute_probability: 0.02, ..SimConfig::rough(seed) };
        let inputs =
            ["", "\0\0\0", "GET", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n", "GET / HTTP/9.9\r\n\r\n"];
        let mut clients: Vec<Client> = inputs.iter().map(|input| Client::new(0, *input)).collect();
        clients.extend((0..20).map(|number| Client {
            leaves_at: (number % 3 == 0).then_some((10 + number) * MS),
            ..Client::new(number * MS, GET.repeat(40))
        }));
        let faults = Faults { resets: 0.1, truncated: 0.1, ..Faults::default() };
        let model = Model { faults, queue_max: Some(100), ..fixed(2, 5) };
        // Idle connections are closed after ten minutes.
        let (_, figures) = World::run(config, model, clients, 1_200_000 * MS);
        assert_eq!((figures.waiting, figures.in_service, figures.connections), (0, 0, 0), "seed {seed}: {figures:?}");
        let ended = figures.served + figures.refused + figures.abandoned;
        assert_eq!(figures.arrived, ended, "seed {seed}: {figures:?}");
    }
}
