//! The server over a simulated network: fragmentation at every byte, deadlines and draining in
//! virtual time.

use std::collections::VecDeque;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Connect, Listen};
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};

use crate::catalog::site::Sites;
use crate::config::{Bandwidth, CacheConfig, Limits, ListenAddr, ServerConfig};
use crate::content::blocking_pool::{BlockingPool, Workers};
use crate::content::local::watch::test_watcher::TestWatcher;
use crate::content::tier::{CacheTier, Inbox};
use crate::http::challenges::HttpChallenges;
use crate::http::respond::JobResult;
use crate::server::commands::CommandQueue;
use crate::server::service::{Service, Setup};
use crate::server::shutdown::ShutdownDeadline;
use crate::shaping::shaper::SharedRateLimits;
use crate::telemetry::counters::{Published, Totals};

use self::tier::ScriptedTier;

mod accounted;
mod attacks;
mod challenges;
mod changing;
mod deadlines;
mod disks;
mod forwarded;
mod gate;
mod http2;
mod limits;
#[path = "../tests/server/naive.rs"]
mod naive;
mod pipelines;
mod proxied;
mod secure;
mod streams;
mod tier;
mod watched;

const SECOND_NS: u64 = 1_000_000_000;

/// The time of a disk access.
const DISK_NS: u64 = 7_000_000;

/// One step of a client; its steps run one after the other.
#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    /// Does nothing for so many nanoseconds.
    Rest(u64),
    /// Waits until so many bytes have come in.
    Receive(usize),
    /// Ends its direction.
    Finish,
    /// Reads no more.
    Pause,
    /// Reads again.
    Resume,
    /// Something that happens at the server's side.
    Do(fn(&Path)),
    /// Tells the server to be gone in so many nanoseconds.
    Drain(u64),
}

struct Client {
    socket: SocketId,
    steps: VecDeque<Step>,
    /// A step is under way until then.
    busy_until: Option<Instant>,
    connected: bool,
    sending: bool,
    received: Vec<u8>,
    over: Option<Over>,
}

/// How a connection ended, as its client sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Over {
    at: Instant,
    orderly: bool,
}

/// A server and its clients on one simulated network.
struct World<'w> {
    service: Service,
    clients: Vec<Client>,
    folder: &'w Path,
    shutdown: Arc<ShutdownDeadline>,
    blocking: Arc<Workers<JobResult>>,
    /// The cache tier, if origins answer.
    tier: Option<Arc<ScriptedTier>>,
    commands: Arc<[CommandQueue]>,
    challenges: Arc<HttpChallenges>,
    /// Reports changes, if the server is to learn of them.
    watcher: Option<TestWatcher>,
    service_over: bool,
    /// When it ends at the latest.
    end: Option<Instant>,
    /// Clients that connect later: the time, the address and the steps of each.
    newcomers: VecDeque<(Instant, IpAddr, Vec<Step>)>,
    /// When other limits hold, and which.
    changes: VecDeque<(Instant, Arc<SharedRateLimits>)>,
    /// When something is done to the files that are served, and what.
    edits: VecDeque<(Instant, Box<dyn FnOnce()>)>,
}

/// The result of a client's connection.
struct Outcome {
    received: Vec<u8>,
    orderly: bool,
    /// From the start to the end of the connection.
    lasted: Duration,
}

/// The address on which the server listens.
const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 80);

impl Client {
    fn connect(driver: &mut Sim, source: Option<IpAddr>, steps: Vec<Step>) -> Self {
        Self {
            socket: driver.connect(&Connect { source, ..Connect::tcp(SERVER) }).unwrap(),
            steps: steps.into(),
            busy_until: None,
            connected: false,
            sending: false,
            received: Vec::new(),
            over: None,
        }
    }

    /// Does what can be done now. Whether anything was.
    fn step(&mut self, driver: &mut Sim, world: (&Path, &ShutdownDeadline), now: Instant) {
        while self.connected && !self.sending && self.over.is_none() && self.busy_until.is_none_or(|until| until <= now)
        {
            self.busy_until = None;
            match self.steps.pop_front() {
                None => return,
                Some(Step::Send(bytes)) => {
                    self.sending = true;
                    driver.send(self.socket, SendBuf::Owned(bytes));
                }
                Some(Step::Rest(ns)) => self.busy_until = Some(now.plus_ns(ns)),
                Some(Step::Receive(bytes)) if self.received.len() < bytes => {
                    return self.steps.push_front(Step::Receive(bytes));
                }
                Some(Step::Receive(_)) => {}
                Some(Step::Finish) => driver.finish(self.socket),
                Some(Step::Pause) => driver.pause(self.socket),
                Some(Step::Resume) => driver.resume(self.socket),
                Some(Step::Do(action)) => action(world.0),
                Some(Step::Drain(ns)) => {
                    world.1.set(now.plus_ns(ns));
                    driver.wake();
                }
            }
        }
    }

    fn on_completion(&mut self, driver: &mut Sim, completion: &Completion) {
        let now = driver.now();
        match completion {
            Completion::Connected { .. } => self.connected = true,
            Completion::Received { .. } => self.received.extend_from_slice(driver.received()),
            Completion::Sent { .. } => self.sending = false,
            Completion::Ended { .. } => self.over = Some(Over { at: now, orderly: true }),
            Completion::Failed { .. } => self.over = Some(Over { at: now, orderly: false }),
            other => panic!("{other:?} is not for a client"),
        }
    }
}

impl World<'_> {
    /// Serves the sites of a configuration, and has a cache tier answer for the mounts that have
    /// origins.
    fn forward(&mut self, tier: &Arc<ScriptedTier>, config: &ServerConfig) {
        self.service.forward(Arc::clone(tier) as Arc<dyn CacheTier>, config);
        self.tier = Some(Arc::clone(tier));
    }

    /// The outcomes of the clients, whose connections have all ended.
    fn outcomes(self, start: Instant) -> Vec<Outcome> {
        let outcomes = self.clients.into_iter().map(|client| {
            let over = client.over.unwrap();
            Outcome { received: client.received, orderly: over.orderly, lasted: over.at - start }
        });
        outcomes.collect()
    }
}

impl App<Sim> for World<'_> {
    fn on_completion(&mut self, driver: &mut Sim, completion: Completion) {
        let subject = completion.subject();
        match self.clients.iter_mut().find(|client| Some(client.socket) == subject && client.over.is_none()) {
            Some(client) => {
                client.on_completion(driver, &completion);
                client.step(driver, (self.folder, &self.shutdown), driver.now());
                if client.over.is_some() {
                    driver.close(client.socket);
                }
            }
            None => self.service.on_completion(driver, completion),
        }
    }

    fn on_iteration(&mut self, driver: &mut Sim, now: Instant) -> LoopControl {
        while let Some((_, source, steps)) = self.newcomers.pop_front_if(|(at, ..)| *at <= now) {
            self.clients.push(Client::connect(driver, Some(source), steps));
        }
        while let Some((_, limits)) = self.changes.pop_front_if(|(at, _)| *at <= now) {
            self.service.update_rate_limits(driver, limits);
        }
        while let Some((_, edit)) = self.edits.pop_front_if(|(at, _)| *at <= now) {
            edit();
        }
        for client in &mut self.clients {
            client.step(driver, (self.folder, &self.shutdown), now);
        }
        if self.watcher.as_ref().is_some_and(TestWatcher::poll) {
            driver.wake();
        }
        while self.blocking.work() {
            driver.wake_at(now.plus_ns(DISK_NS));
        }
        let tier = self.tier.as_ref().and_then(|tier| tier.poll(driver, now));
        let mut until = None;
        if !self.service_over {
            match self.service.on_iteration(driver, now) {
                LoopControl::WaitUntil(service_until) => until = service_until,
                LoopControl::Stop => self.service_over = true,
            }
        }
        let is_over = self.newcomers.is_empty() && self.clients.iter().all(|client| client.over.is_some());
        if is_over || self.end.is_some_and(|end| end <= now) {
            return LoopControl::Stop;
        }
        let resting = self.clients.iter().filter(|client| client.over.is_none()).filter_map(|client| client.busy_until);
        let change = self.changes.front().map(|(at, _)| *at);
        let newcomer = self.newcomers.front().map(|(at, ..)| *at);
        let edit = self.edits.front().map(|(at, _)| *at);
        LoopControl::WaitUntil(
            until
                .into_iter()
                .chain(tier)
                .chain(resting)
                .chain(self.end)
                .chain(newcomer)
                .chain(change)
                .chain(edit)
                .min(),
        )
    }
}

/// A folder to serve.
fn folder() -> TempDir {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "the letter a\n").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::write(dir.path().join("large"), large()).unwrap();
    dir
}

fn large() -> Vec<u8> {
    (0..1_500_000u32).flat_map(|index| index.to_be_bytes()).take(1_500_000).collect()
}

/// A server of a folder and its clients, and where the server publishes what it has done.
fn world<'w>(
    driver: &mut Sim,
    limits: &Limits,
    folder: &'w Path,
    scripts: Vec<Vec<Step>>,
) -> (World<'w>, Arc<[Published]>) {
    world_with(driver, limits, (Bandwidth::default(), 0), folder, scripts)
}

/// The same, with rates: those of all, of clients and of connections, and that of the mount.
fn world_with<'w>(
    driver: &mut Sim,
    limits: &Limits,
    (bandwidth, mount_bytes_per_s_max): (Bandwidth, u64),
    folder: &'w Path,
    scripts: Vec<Vec<Step>>,
) -> (World<'w>, Arc<[Published]>) {
    let mut config = ServerConfig::new(folder, Vec::<ListenAddr>::new());
    (config.limits, config.bandwidth) = (limits.clone(), bandwidth);
    config.sites[0].mounts[0].bytes_per_s_max = mount_bytes_per_s_max;
    world_of(driver, &config, folder, scripts)
}

/// The same, of a configuration.
fn world_of<'w>(
    driver: &mut Sim,
    config: &ServerConfig,
    folder: &'w Path,
    scripts: Vec<Vec<Step>>,
) -> (World<'w>, Arc<[Published]>) {
    let shutdown = Arc::new(ShutdownDeadline::new());
    let blocking = BlockingPool::simulated();
    let workers = blocking.workers();
    let published: Arc<[Published]> = Arc::new([Published::default()]);
    let limits = &config.limits;
    let commands: Arc<[CommandQueue]> = Arc::new([CommandQueue::default()]);
    let challenges: Arc<HttpChallenges> = Arc::default();
    let setup = Setup {
        shared_limits: Arc::new(SharedRateLimits::of(config, driver.now())),
        sites: Sites::open(config).unwrap(),
        challenges: Arc::clone(&challenges),
        limits,
        proxied_groups: if config.proxy_protocol.is_empty() { Vec::new() } else { vec![0] },
        client_field: config.client_field,
        slots_max: limits.connections_max,
        cache: &CacheConfig::default(),
        tls: None,
        blocking,
        tier: None,
        inbox: Inbox::new(None),
        // Long after any file here was written: all of them are settled.
        seconds_at: |now| 4_000_000_000 + now.as_ns() / SECOND_NS,
        accounting: None,
        error_log: None,
        shutdown: Arc::clone(&shutdown),
        channel: None,
        commands: Arc::clone(&commands),
        subscription: None,
        published: Arc::clone(&published),
        loop_index: 0,
    };
    let mut service = Service::new(setup, driver.now());
    service.add_listener(0, driver.listen(Listen::Address(SERVER)).unwrap());
    let clients = scripts.into_iter().map(|steps| Client::connect(driver, None, steps)).collect();
    let world = World {
        service,
        clients,
        folder,
        shutdown,
        service_over: false,
        end: None,
        newcomers: VecDeque::new(),
        changes: VecDeque::new(),
        edits: VecDeque::new(),
        blocking: workers,
        tier: None,
        commands,
        challenges,
        watcher: None,
    };
    (world, published)
}

/// Runs these clients against a server until all connections are over.
fn simulate(config: SimConfig, limits: &Limits, folder: &Path, scripts: Vec<Vec<Step>>) -> (Vec<Outcome>, Totals) {
    let mut driver = Sim::new(config);
    let start = driver.now();
    let (mut world, published) = world(&mut driver, limits, folder, scripts);
    run(&mut driver, &mut world).unwrap();
    (world.outcomes(start), published[0].totals())
}

fn one(config: SimConfig, folder: &Path, steps: Vec<Step>) -> Outcome {
    simulate(config, &Limits::default(), folder, vec![steps]).0.remove(0)
}

fn send(text: &str) -> Step {
    Step::Send(text.as_bytes().to_vec())
}

/// Several requests, and the methods that their responses are read with.
const PIPELINE: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nHEAD /large HTTP/1.1\r\nHost: h\r\n\r\n\
    GET /missing HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
    GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1000000-1000009\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const PIPELINE_METHODS: &[&str] = &["GET", "HEAD", "GET", "GET", "GET"];

#[track_caller]
fn check_pipeline(outcome: &Outcome, context: &str) {
    assert!(outcome.orderly, "{context}: reset");
    let responses = naive::take_all(&outcome.received, PIPELINE_METHODS);
    let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 200, 404, 206, 200], "{context}");
    assert_eq!(responses[0].body, b"the letter a\n");
    assert_eq!(responses[1].field("content-length"), Some("1500000"));
    assert_eq!(responses[3].body, large()[1_000_000..1_000_010]);
    assert_eq!(responses[4].body, b"the letter a\n");
}
