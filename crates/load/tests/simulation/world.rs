//! An engine and a server on one network.

use std::convert::Infallible;
use std::io::Cursor;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use thalweg_load::{
    CheckTable, Engine, Extent, Feeder, LoopPlan, OpenLog, Plan, Progress, Recording, ReplayHead, ReplayOrders,
    RequestTemplate, RequestText, RunFigures, StartBarrier, UserPlan, load_sessions, template,
};
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::driver::{Completion, Driver, DriverKind};
use thalweg_sys::proc::Waits;
use thalweg_sys::{Instant, PeerAddr};
use thalweg_wire::Version;

use crate::script::{Response, whole_check, whole_check_text};
use crate::server::{Record, Server};
use crate::{MS, SECOND};

/// More iterations than this without any time passing are a loop that spins.
const TURNS_AT_ONCE_MAX: u32 = 10_000;

const ADDR: &str = "10.0.0.1:80";

/// The address that the network gives to clients over IPv4.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// The port that the network gives to the first client connection.
const FIRST_PORT: u16 = 32_768;

/// A run to be made.
pub(crate) struct World {
    pub(crate) plan: Plan,
    /// Which of the plan's threads.
    pub(crate) thread: usize,
    pub(crate) network: SimConfig,
    /// Holds up the server from the first until the second, in nanoseconds from the beginning of
    /// the simulation.
    pub(crate) stall: Option<(u64, u64)>,
    /// Holds up the client's completions of one of its connections likewise: of the first, which is
    /// number 0, or a later one.
    pub(crate) stall_client: Option<(u16, u64, u64)>,
    /// Stops the load thread from the first until the second, in nanoseconds from the beginning of
    /// the simulation. Its kernel goes on.
    pub(crate) standstill: Option<(u64, u64)>,
    /// Another program ran during the standstill, as far as the kernel of the load thread can say.
    pub(crate) held_up: bool,
    /// By how much the measured part is extended, from the beginning on.
    pub(crate) extension: Duration,
    /// Interrupts the run so many nanoseconds after the beginning of the simulation.
    pub(crate) interrupt_ns: Option<u64>,
    /// Has the requests of a recording come only so many nanoseconds after the beginning of the
    /// simulation, instead of before the start.
    pub(crate) read_ns: Option<u64>,
    /// In the simulation's time, a run that takes longer than this hangs.
    pub(crate) patience_ns: u64,
}

/// The result of a run.
pub(crate) struct Run {
    pub(crate) figures: RunFigures,
    pub(crate) records: Vec<Record>,
    /// The bytes in front of the first request of each connection, of those that had some.
    pub(crate) headers: Vec<Vec<u8>>,
    pub(crate) busy_max: usize,
    /// Most entries that the engine's queues and timers held.
    pub(crate) entries_max: usize,
    /// How long it took, from the beginning of the simulation.
    pub(crate) took_ns: u64,
}

struct Both {
    engine: Engine,
    server: Server,
    progress: Arc<Progress>,
    interrupt_at: Option<Instant>,
    /// Reads the whole log then.
    reader: Option<(Instant, Feeder)>,
    give_up_at: Instant,
    entries_max: usize,
    standstill: Option<Standstill>,
    waited_ns: Option<Arc<AtomicU64>>,
    /// The latest iteration, and how many there were at that time.
    turn: (Instant, u32),
}

/// A time in which the load thread does not run.
struct Standstill {
    from: Instant,
    until: Instant,
    /// When the thread meant to wake up at the latest.
    planned: Instant,
}

impl Standstill {
    fn holds(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    /// Has the kernel's account say that the thread was held up.
    fn account(&self, now: Instant, waited_ns: Option<&AtomicU64>) {
        if let Some(waited_ns) = waited_ns.filter(|_| now >= self.until) {
            waited_ns.store(self.until.ns_since(self.from), Ordering::Relaxed);
        }
    }

    /// Tells the thread, on its first wake-up afterwards, how late that is.
    fn tell(&self, sim: &mut Sim) {
        if sim.now() == self.until {
            sim.oversleep(self.until.ns_since(self.planned.max(self.from)));
        }
    }
}

impl World {
    /// A run of that plan over a network without faults.
    pub(crate) fn calm(plan: Plan) -> Self {
        let patience_ns = patience_ns(&plan);
        Self {
            plan,
            thread: 0,
            network: SimConfig::calm(1),
            stall: None,
            stall_client: None,
            standstill: None,
            held_up: false,
            extension: Duration::ZERO,
            interrupt_ns: None,
            read_ns: None,
            patience_ns,
        }
    }

    pub(crate) fn run(self, script: impl Fn(u64) -> Response + 'static) -> Run {
        let mut sim = Sim::new(self.network);
        let began = sim.now();
        let server = Server::open(&mut sim, ADDR.parse().expect("an address"), Box::new(script));
        if let Some((from_ns, until_ns)) = self.stall {
            sim.stall(server.addr, began.plus_ns(from_ns), began.plus_ns(until_ns));
        }
        if let Some((connection, from_ns, until_ns)) = self.stall_client {
            let client = SocketAddr::new(CLIENT, FIRST_PORT + connection);
            sim.stall(client, began.plus_ns(from_ns), began.plus_ns(until_ns));
        }
        let standstill = self.standstill.map(|(from_ns, until_ns)| {
            let (from, until) = (began.plus_ns(from_ns), began.plus_ns(until_ns));
            sim.stall_host(CLIENT, from, until);
            Standstill { from, until, planned: from }
        });
        let progress = Arc::new(Progress::new(self.plan.cpus.len()));
        progress.extend_by(self.extension);
        // The kernel's account of the thread, once it runs again.
        let waited_ns = Arc::new(AtomicU64::new(0));
        let account = waited_ns.clone();
        let source = move || Waits { run_queue_ns: account.load(Ordering::Relaxed), ..Waits::default() };
        // Each thread of a plan is a simulation of its own, so none has to wait for another.
        let start_barrier = Arc::new(StartBarrier::new(1));
        let plan = Arc::new(self.plan);
        let mut engine =
            Engine::new(plan.clone(), self.thread, DriverKind::Simulated, began, start_barrier, progress.clone());
        engine = engine.watched(Some(Box::new(source)), began);
        let waited_ns = self.held_up.then_some(waited_ns);
        let mut reader = None;
        if let (Some(read_ns), LoopPlan::Recorded { recording }) = (self.read_ns, &plan.arrivals) {
            let (feeder, mut feeds) = Feeder::new(recording, plan.cpus.len());
            engine = engine.fed(feeds.swap_remove(self.thread));
            reader = Some((began.plus_ns(read_ns), feeder));
        }
        let give_up_at = began.plus_ns(self.patience_ns);
        let interrupt_at = self.interrupt_ns.map(|ns| began.plus_ns(ns));
        let (entries_max, turn) = (0, (began, 0));
        let mut both = Both {
            engine,
            server,
            progress,
            interrupt_at,
            reader,
            give_up_at,
            entries_max,
            standstill,
            waited_ns,
            turn,
        };
        run(&mut sim, &mut both).expect("the simulation goes on");
        let Both { engine, server, entries_max, .. } = both;
        let took_ns = sim.now().ns_since(began);
        let Server { records, headers, busy_max, .. } = server;
        Run { figures: engine.into_figures(), records, headers, busy_max, entries_max, took_ns }
    }
}

impl App<Sim> for Both {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        if self.server.owns(&completion) {
            self.server.on_completion(sim, completion);
        } else {
            if let Some(standstill) = &self.standstill {
                assert!(!standstill.holds(sim.now()), "a thread that stands still hears of nothing");
                standstill.tell(sim);
                standstill.account(sim.now(), self.waited_ns.as_deref());
            }
            self.engine.on_completion(sim, completion);
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        assert!(now < self.give_up_at, "the run does not end");
        self.turn = if self.turn.0 == now { (now, self.turn.1 + 1) } else { (now, 0) };
        assert!(self.turn.1 < TURNS_AT_ONCE_MAX, "time does not go on");
        if self.interrupt_at.is_some_and(|at| at <= now) {
            self.progress.request_stop();
        }
        if let Some((_, feeder)) = self.reader.take_if(|(at, _)| *at <= now) {
            feeder.run(|| now, || {}).expect("a log in memory is read again as it was");
        }
        let engine = match &mut self.standstill {
            Some(standstill) if standstill.holds(now) => Some(standstill.until),
            standstill => {
                if let Some(standstill) = standstill {
                    standstill.tell(sim);
                    standstill.account(now, self.waited_ns.as_deref());
                }
                let LoopControl::WaitUntil(until) = self.engine.on_iteration(sim, now) else {
                    return LoopControl::Stop;
                };
                if let Some(standstill) = standstill {
                    standstill.planned = until.unwrap_or(now);
                }
                until.into_iter().chain(standstill.as_ref().map(|it| it.from).filter(|&from| from > now)).min()
            }
        };
        self.entries_max = self.entries_max.max(self.engine.entries());
        let server = self.server.on_turn(sim);
        LoopControl::WaitUntil([engine, server, self.interrupt_at].into_iter().flatten().min())
    }
}

/// A plan with defaults, to be varied: requests with the numbers from 0 on as their targets, in
/// this order. Each knows the content that is its own.
pub(crate) fn plan(arrivals: LoopPlan, extent: Extent, targets: u64) -> Plan {
    let peer = PeerAddr::Tcp(ADDR.parse().expect("an address"));
    let requests = (0..targets).map(|number| request("GET", number, b"")).collect();
    let second = Duration::from_secs(1);
    Plan { timeout: second, drain: second, connections: 100, ..Plan::new(peer, requests, arrivals, extent) }
}

/// A plan of the sessions in `text`, httperf's format, whose targets are numbers.
pub(crate) fn session_plan(text: &str, think: Duration, arrivals: LoopPlan, extent: Extent) -> Plan {
    let mut requests = Vec::new();
    let made = load_sessions(
        "sessions",
        text.as_bytes(),
        |_| unreachable!("no bodies in files"),
        |call| {
            let number = call.target.trim_start_matches('/').parse().expect("targets are numbers");
            requests.push(request(&call.method, number, &call.body));
            Ok::<_, Infallible>(requests.len() as u32 - 1)
        },
    );
    let sessions = Arc::new(made.expect("a session file"));
    Plan {
        requests: requests.into(),
        user: Some(UserPlan::Sessions { sessions, think, connections: 1 }),
        ..plan(arrivals, extent, 1)
    }
}

/// A plan of an access log: the millisecond and the number of each request.
pub(crate) fn log_plan(entries: impl Iterator<Item = (u64, u64)>) -> Plan {
    // A log has whole seconds; it is played a thousand times as fast.
    let line = |(ms, number): (u64, u64)| {
        format!("h - - [10/Oct/2025:13:{:02}:{:02} +0000] \"GET /{number} HTTP/1.1\" 200 48\n", ms / 60, ms % 60)
    };
    let entries: Vec<_> = entries.collect();
    let mut numbers: Vec<_> = entries.iter().map(|&(_, number)| number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let checks: String =
        numbers.into_iter().map(|number| format!("/{number} {}\n", whole_check_text(number))).collect();
    let table =
        CheckTable::read("checks", checks.as_bytes(), |_| Err::<String, _>("targets are paths")).expect("checks");
    let text: String = entries.into_iter().map(line).collect();
    let open: OpenLog = Box::new(move || Ok(Box::new(Cursor::new(text.clone()))));
    let head = ReplayHead { authority: "h", version: Version::Http11, fields: &[] };
    let recording =
        Arc::new(Recording::scan("log", open, &ReplayOrders::at_speed(1000.0), &head, Some(table)).expect("a log"));
    let total = recording.summary().requests;
    plan(LoopPlan::Recorded { recording }, Extent::Requests(total), 1)
}

pub(crate) fn request(method: &str, number: u64, body: &[u8]) -> RequestTemplate {
    let target = format!("/{number}");
    let text = RequestText { method, authority: "h", target: &target, version: Version::Http11, fields: &[], body };
    let template = template(&text).expect("the request is in order");
    RequestTemplate { check: Some(whole_check(number)), ..template }
}

/// When a run has to be over: connections are opened ahead for one time-out at most, and each
/// request has one.
fn patience_ns(plan: &Plan) -> u64 {
    const MARGIN_NS: u64 = 50 * MS;
    let ns = |duration: Duration| duration.as_nanos() as u64;
    if plan.user.is_some() || plan.pace.is_some() {
        return 100_000 * SECOND;
    }
    let schedule_ns = match (plan.extent, &plan.arrivals) {
        // As long as it takes.
        (Extent::Requests(total), LoopPlan::Closed { think, .. }) => total * (ns(plan.timeout) + ns(*think) + SECOND),
        _ => ns(plan.schedule_length()),
    };
    let opening_ns = plan.opening_rate.map_or(0, |rate| (plan.connections as f64 / rate * 1e9) as u64);
    opening_ns + 2 * ns(plan.timeout) + ns(plan.warmup) + schedule_ns + ns(plan.drain) + MARGIN_NS
}
