//! The server over a simulated network: fragmentation at every byte, deadlines and draining in virtual time.

use std::collections::VecDeque;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, Turn, run};
use thalweg_sys::driver::{Connect, Listen};
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};

use crate::aside::{Aside, Hands};
use crate::config::{Bandwidth, CacheConfig, Limits, ListenAddr, ServerConfig};
use crate::counters::{Published, Totals};
use crate::limit::pacer::SharedLimits;
use crate::orders::Inbox;
use crate::service::{Curfew, Service, Setup};
use crate::site::Sites;
use crate::watch::tests::Teller;

mod booked;
mod limits;
#[path = "../tests/server/naive.rs"]
mod naive;
mod watched;

const SECOND_NS: u64 = 1_000_000_000;

/// How long a disk takes to answer.
const DISK_NS: u64 = 7_000_000;

/// What a client does, one after the other.
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
    curfew: Arc<Curfew>,
    aside: Arc<Hands>,
    orders: Arc<[Inbox]>,
    /// Hears of changes, if the server is to.
    teller: Option<Teller>,
    service_over: bool,
    /// When it ends at the latest.
    end: Option<Instant>,
    /// Those who come later: when, from where, and what they do.
    newcomers: VecDeque<(Instant, IpAddr, Vec<Step>)>,
    /// When other limits hold, and which.
    changes: VecDeque<(Instant, Arc<SharedLimits>)>,
}

/// What came of a client.
struct Outcome {
    received: Vec<u8>,
    orderly: bool,
    /// From the start to the end of the connection.
    lasted: Duration,
}

/// Where the server listens.
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
    fn step(&mut self, driver: &mut Sim, world: (&Path, &Curfew), now: Instant) {
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
    /// What came of the clients, whose connections are all over.
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
                client.step(driver, (self.folder, &self.curfew), driver.now());
                if client.over.is_some() {
                    driver.close(client.socket);
                }
            }
            None => self.service.on_completion(driver, completion),
        }
    }

    fn on_turn(&mut self, driver: &mut Sim, now: Instant) -> Turn {
        while let Some((_, source, steps)) = self.newcomers.pop_front_if(|(at, ..)| *at <= now) {
            self.clients.push(Client::connect(driver, Some(source), steps));
        }
        while let Some((_, limits)) = self.changes.pop_front_if(|(at, _)| *at <= now) {
            self.service.limit_anew(driver, limits);
        }
        for client in &mut self.clients {
            client.step(driver, (self.folder, &self.curfew), now);
        }
        if self.teller.as_ref().is_some_and(Teller::look) {
            driver.wake();
        }
        while self.aside.work() {
            driver.wake_at(now.plus_ns(DISK_NS));
        }
        let mut until = None;
        if !self.service_over {
            match self.service.on_turn(driver, now) {
                Turn::Until(service_until) => until = service_until,
                Turn::Stop => self.service_over = true,
            }
        }
        let is_over = self.newcomers.is_empty() && self.clients.iter().all(|client| client.over.is_some());
        if is_over || self.end.is_some_and(|end| end <= now) {
            return Turn::Stop;
        }
        let resting = self.clients.iter().filter(|client| client.over.is_none()).filter_map(|client| client.busy_until);
        let change = self.changes.front().map(|(at, _)| *at);
        let newcomer = self.newcomers.front().map(|(at, ..)| *at);
        Turn::Until(until.into_iter().chain(resting).chain(self.end).chain(newcomer).chain(change).min())
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
    let curfew = Arc::new(Curfew::new());
    let aside = Aside::simulated();
    let hands = aside.hands();
    let published: Arc<[Published]> = Arc::new([Published::default()]);
    let shared_limits = Arc::new(SharedLimits::new(limits, bandwidth, [mount_bytes_per_s_max], driver.now()));
    let orders: Arc<[Inbox]> = Arc::new([Inbox::default()]);
    let setup = Setup {
        shared_limits,
        sites: Sites::open(&ServerConfig::new(folder, Vec::<ListenAddr>::new())).unwrap(),
        limits,
        cache: &CacheConfig::default(),
        aside,
        // Long after any file here was written: all of them are settled.
        seconds_at: |now| 4_000_000_000 + now.as_ns() / SECOND_NS,
        books: None,
        curfew: Arc::clone(&curfew),
        channel: None,
        orders: Arc::clone(&orders),
        ear: None,
        published: Arc::clone(&published),
        core: 0,
    };
    let mut service = Service::new(setup, driver.now());
    service.add_listener(0, driver.listen(Listen::Address(SERVER)).unwrap());
    let clients = scripts.into_iter().map(|steps| Client::connect(driver, None, steps)).collect();
    let world = World {
        service,
        clients,
        folder,
        curfew,
        service_over: false,
        end: None,
        newcomers: VecDeque::new(),
        changes: VecDeque::new(),
        aside: hands,
        orders,
        teller: None,
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

#[test]
fn a_pipeline_is_answered_in_order_wherever_it_is_cut() {
    let folder = folder();
    let scripts = (0..=PIPELINE.len()).map(|cut| {
        let (first, second) = PIPELINE.split_at(cut);
        let parts = [first, second].into_iter().filter(|part| !part.is_empty());
        parts.flat_map(|part| [send(part), Step::Rest(5_000_000)]).chain([Step::Finish]).collect()
    });
    let (outcomes, _) = simulate(SimConfig::calm(1), &Limits::default(), folder.path(), scripts.collect());
    for (cut, outcome) in outcomes.iter().enumerate() {
        check_pipeline(outcome, &format!("cut at {cut}"));
    }
}

#[test]
fn a_pipeline_survives_a_rough_network() {
    let folder = folder();
    for seed in 0..40 {
        let scripts = vec![vec![send(PIPELINE), Step::Finish]; 20];
        let (outcomes, totals) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            check_pipeline(outcome, &format!("seed {seed}"));
        }
        assert_eq!((totals.accepted, totals.requests, totals.responses), (20, 100, [80, 0, 20, 0]), "seed {seed}");
        let received: usize = outcomes.iter().map(|outcome| outcome.received.len()).sum();
        assert_eq!(totals.bytes, received as u64, "seed {seed}");
    }
}

#[test]
fn many_requests_ahead_of_their_responses_are_all_answered() {
    let folder = folder();
    const REQUESTS: usize = 3000;
    for config in [SimConfig::calm(1), SimConfig::rough(2)] {
        let request = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(REQUESTS);
        let outcome = one(config, folder.path(), vec![send(&request), Step::Finish]);
        let responses = naive::take_all(&outcome.received, &["GET"]);
        assert_eq!(responses.len(), REQUESTS);
        assert!(responses.iter().all(|response| response.body == b"the letter a\n"));
    }
}

#[test]
fn large_files_arrive_whole_over_a_rough_network() {
    let folder = folder();
    for seed in 0..5 {
        let request = "GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.0\r\nRange: bytes=-700000\r\n\r\n";
        let outcome = one(SimConfig::rough(seed), folder.path(), vec![send(request)]);
        let responses = naive::take_all(&outcome.received, &["GET"]);
        assert!(outcome.orderly);
        assert!(responses[0].body == large(), "seed {seed}");
        assert!(responses[1].body == large()[800_000..], "seed {seed}");
    }
}

#[test]
fn a_hostile_network_breaks_connections_and_not_the_server() {
    let folder = folder();
    let steps = vec![send(PIPELINE), send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n"), Step::Finish];
    for seed in 0..40 {
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let scripts = vec![steps.clone(); 20];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
        // Some clients hear nothing any more and would wait for ever; the server gives them up before that.
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
        assert!(world.clients.iter().any(|client| client.over.is_some_and(|over| over.orderly)), "seed {seed}");
    }
}

/// Checks when the server gives a client up, and what it says.
#[track_caller]
fn check_deadline(steps: Vec<Step>, seconds: std::ops::RangeInclusive<f64>, statuses: &[u16]) {
    let folder = folder();
    let outcome = one(SimConfig::calm(1), folder.path(), steps.clone());
    let responses = naive::take_all(&outcome.received, &["GET"]);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), statuses, "{steps:?}");
    let lasted = outcome.lasted.as_secs_f64();
    assert!(seconds.contains(&lasted), "{steps:?}: {lasted} s");
}

/// Has the kernel forget what is in a file, where the file system lets it. A name that was never asked for is not known either.
fn forget(path: &Path) {
    let file = fs::File::open(path).unwrap();
    file.sync_all().unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
}

#[test]
fn requests_that_wait_for_a_disk_keep_their_order_and_their_bodies() {
    const REQUESTS: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /large HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody\
        GET /b HTTP/1.1\r\nHost: h\r\n\r\nGET /never-asked HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n123456789\
        GET /large HTTP/1.0\r\nRange: bytes=-700000\r\n\r\n";
    for seed in 0..20 {
        let folder = folder();
        fs::write(folder.path().join("b"), "the letter b\n").unwrap();
        for name in ["a", "b", "large"] {
            forget(&folder.path().join(name));
        }
        let scripts = vec![vec![send(REQUESTS), Step::Finish]; 5];
        let (outcomes, totals) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [200, 200, 200, 404, 206], "seed {seed}");
            assert_eq!(responses[0].body, b"the letter a\n");
            assert!(responses[1].body == large(), "seed {seed}");
            assert_eq!(responses[2].body, b"the letter b\n");
            assert!(responses[4].body == large()[800_000..], "seed {seed}");
            assert!(outcome.orderly, "seed {seed}");
        }
        assert_eq!((totals.requests, totals.responses), (25, [20, 0, 5, 0]), "seed {seed}");
    }
}

#[test]
fn several_ranges_arrive_whole_over_a_rough_network_from_a_cold_file() {
    const REQUESTS: &str = "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=900000-1499999,0-0,5-700004\r\n\r\n\
        GET /a HTTP/1.1\r\nHost: h\r\nRange: bytes=0-2,4-9\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let large = large();
    for seed in 0..20 {
        let folder = folder();
        forget(&folder.path().join("large"));
        let scripts = vec![vec![send(REQUESTS), Step::Finish]; 3];
        let (outcomes, _) = simulate(SimConfig::rough(seed), &Limits::default(), folder.path(), scripts);
        for outcome in &outcomes {
            let responses = naive::take_all(&outcome.received, &["GET"]);
            let statuses: Vec<u16> = responses.iter().map(|response| response.status).collect();
            assert_eq!(statuses, [206, 206, 200], "seed {seed}");
            let parts = naive::multipart(&responses[0]);
            assert!(parts.iter().map(|(_, bytes)| bytes.as_slice()).eq([
                &large[900_000..],
                &large[..1],
                &large[5..700_005]
            ]));
            assert_eq!(naive::multipart(&responses[1])[1], ("bytes 4-9/13".to_owned(), b"letter".to_vec()));
            assert_eq!(responses[2].body, b"the letter a\n");
        }
    }
}

#[test]
fn clients_of_a_cold_file_may_leave_at_any_time() {
    let folder = folder();
    for seed in 0..40 {
        forget(&folder.path().join("large"));
        let mut config = SimConfig::hostile(seed);
        config.connect_failure_probability = 0.0;
        let mut driver = Sim::new(config);
        let get = |name: &str| send(&format!("GET /{name} HTTP/1.1\r\nHost: h\r\n\r\n"));
        let steps = vec![get("large"), get(&format!("missing-{seed}")), Step::Finish];
        let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), vec![steps; 20]);
        world.end = Some(driver.now().plus_ns(600 * SECOND_NS));
        run(&mut driver, &mut world).unwrap();
        assert_eq!(published[0].totals().open, 0, "seed {seed}");
    }
}

#[test]
fn a_disk_that_does_not_answer_is_told_of() {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let steps = vec![send("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /never-asked HTTP/1.1\r\nHost: h\r\n\r\n")];
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    // What is asked for is not done by these.
    world.aside = Aside::simulated().hands();
    run(&mut driver, &mut world).unwrap();
    let responses = naive::take_all(&world.clients[0].received, &["GET"]);
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [200, 503]);
    assert_eq!(world.clients[0].over.map(|over| (over.at - Instant::from_ns(SECOND_NS)).as_secs()), Some(60));
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
fn a_refused_client_that_is_still_sending_gets_the_response() {
    let folder = folder();
    for seed in 0..20 {
        let body = "x".repeat(600_000);
        let steps = vec![send("POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 600000\r\n\r\n"), send(&body)];
        let outcome = one(SimConfig::rough(seed), folder.path(), steps);
        let responses = naive::take_all(&outcome.received, &["POST"]);
        assert_eq!(responses[0].status, 405, "seed {seed}");
        assert_eq!(responses[0].field("connection"), Some("close"));
        assert_eq!(responses.len(), 1);
        assert!(outcome.orderly, "seed {seed}: reset");
    }
}

#[test]
fn after_a_malformed_request_nothing_is_answered() {
    let folder = folder();
    let request =
        "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /a HTTP/1.1\nHost: h\r\n\r\nGET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let outcome = one(SimConfig::calm(1), folder.path(), vec![send(request), Step::Rest(1000), send(request)]);
    let statuses: Vec<u16> =
        naive::take_all(&outcome.received, &["GET"]).iter().map(|response| response.status).collect();
    assert_eq!(statuses, [200, 400]);
}

#[test]
fn a_file_replaced_while_it_is_cached_is_seen_after_the_age() {
    let folder = folder();
    let get = || send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n");
    let replace = Step::Do(|folder| {
        fs::write(folder.join("new"), "another text\n").unwrap();
        fs::rename(folder.join("new"), folder.join("a")).unwrap();
    });
    let steps =
        vec![get(), Step::Receive(100), replace, get(), Step::Rest(SECOND_NS), get(), Step::Rest(1), Step::Finish];
    let outcome = one(SimConfig::calm(1), folder.path(), steps);
    let responses = naive::take_all(&outcome.received, &["GET"]);
    let bodies: Vec<&[u8]> = responses.iter().map(|response| response.body.as_slice()).collect();
    assert_eq!(bodies, [b"the letter a\n", b"the letter a\n", b"another text\n"]);
    assert_eq!(responses[0].field("etag"), responses[1].field("etag"));
    assert_ne!(responses[1].field("etag"), responses[2].field("etag"));
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
fn who_waits_to_be_accepted_when_the_server_drains_is_answered_once() {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = driver.now();
    let asks = vec![send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n")];
    let drains = vec![Step::Rest(SECOND_NS - 10_000_000), Step::Drain(60 * SECOND_NS)];
    let scripts = [vec![asks; 30], vec![drains]].concat();
    let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    driver.stall("127.0.0.1:80".parse().unwrap(), start, start.plus_ns(SECOND_NS));
    // The one that tells it to drain is not heard until it is closed.
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
