//! The world in operation: network, servers and the client, and the loops that carry a load out or
//! let time pass.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thalweg_lab::environment::{CpuUseOfOthers, FOLLOW_INTERVAL, Follow, ObservedRun, Taken};
use thalweg_load::protocol::{Http1, Http2, Protocol};
use thalweg_load::{Engine, Plan, Progress, RunFigures, StartBarrier};
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_reactor::{App, LoopControl, run};
use thalweg_sys::Instant;
use thalweg_sys::driver::{Completion, Driver, DriverKind};
use thalweg_sys::proc::Waits;
use thalweg_wire::Version;

use crate::client::{CLIENT, ClientCpu, ClientModel};
use crate::servers::Servers;

/// The way from one side of the network to the other.
pub(crate) const LATENCY: Duration = Duration::from_micros(50);
/// Most sockets at once, both ends of connections.
const SOCKETS_MAX: usize = 8192;

/// The world between two loads.
pub(crate) struct World {
    pub(crate) sim: Sim,
    pub(crate) servers: Servers,
    client: ClientCpu,
    /// The time, to be read while a load is under way.
    pub(crate) clock: Rc<Cell<Instant>>,
}

impl World {
    /// A world without servers.
    pub(crate) fn new(client: ClientModel) -> Self {
        let latency_ns = LATENCY.as_nanos() as u64;
        let config = SimConfig { sockets_max: SOCKETS_MAX, latency_ns, ..SimConfig::calm(client.seed) };
        let sim = Sim::new(config);
        let servers = Servers::none();
        let client = ClientCpu::new(client, sim.now());
        let clock = Rc::new(Cell::new(sim.now()));
        Self { sim, servers, client, clock }
    }

    /// Lets time pass until then.
    pub(crate) fn pass(&mut self, until: Instant) {
        run(&mut self.sim, &mut Passing { servers: &mut self.servers, until }).expect("there is an end");
        self.clock.set(self.sim.now());
    }

    /// Carries a load out, from the first connection to the last.
    pub(crate) fn run(&mut self, plan: Plan, follow: &mut Follow<'_>) -> ObservedRun {
        match plan.version() {
            Version::Http2 => self.run_over::<Http2>(plan, follow),
            Version::Http10 | Version::Http11 => self.run_over::<Http1>(plan, follow),
        }
    }

    fn run_over<P: Protocol>(&mut self, plan: Plan, follow: &mut Follow<'_>) -> ObservedRun {
        let (now, cpu, warmup) = (self.sim.now(), plan.cpus[0], plan.warmup);
        let progress = Arc::new(Progress::new(1));
        let start = Arc::new(StartBarrier::new(1));
        let stolen = self.client.stolen_ns();
        let follower = Follower {
            cpu,
            progress: progress.clone(),
            follow,
            clock: Rc::clone(&self.clock),
            due: now + FOLLOW_INTERVAL,
            stolen_ns: stolen.get(),
            others: CpuUseOfOthers::default(),
        };
        let source = move || Waits { run_queue_ns: stolen.get(), ..Waits::default() };
        let kind = DriverKind::Simulated;
        let engine = Engine::<P>::with_protocol(Arc::new(plan), 0, kind, now, start.clone(), progress);
        let mut load = Load {
            engine: engine.watched(Some(Box::new(source)), now),
            servers: &mut self.servers,
            client: &mut self.client,
            follower,
            start,
            warmup,
            planned: now,
            woken_at: now,
            work: 0,
            measured: None,
        };
        run(&mut self.sim, &mut load).expect("an engine has deadlines");
        let (progress, others) = (load.follower.progress.clone(), std::mem::take(&mut load.follower.others));
        let figures = load.into_figures(self.sim.now());
        // The connections are the load thread's, and go with it.
        self.sim.end_host(CLIENT);
        self.clock.set(self.sim.now());
        ObservedRun { figures, progress, others, throttled_ns: 0 }
    }
}

/// Time that passes without a load.
struct Passing<'a> {
    servers: &'a mut Servers,
    until: Instant,
}

impl App<Sim> for Passing<'_> {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        // Whatever reaches a client that has ended is nobody's.
        let _ = self.servers.take(sim, completion);
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        if now >= self.until {
            return LoopControl::Stop;
        }
        let next = self.servers.go_on(sim, now).map_or(self.until, |next| next.min(self.until));
        LoopControl::WaitUntil(Some(next))
    }
}

/// A load under way.
struct Load<'a, 'f, P: Protocol> {
    engine: Engine<P>,
    servers: &'a mut Servers,
    client: &'a mut ClientCpu,
    follower: Follower<'a, 'f>,
    start: Arc<StartBarrier>,
    warmup: Duration,
    /// When the load thread means to wake up at the latest, and when it will.
    planned: Instant,
    woken_at: Instant,
    /// Requests that the thread has to work for since its last iteration.
    work: u32,
    measured: Option<Measured>,
}

/// The client's account when the measured part began.
#[derive(Clone, Copy)]
struct Measured {
    from: Instant,
    busy_ns: u64,
    stolen_ns: u64,
}

impl<P: Protocol> Load<'_, '_, P> {
    /// Has the load thread do what is due, if it can run now. Returns when it comes back; `None`
    /// once it has ended.
    fn go_on(&mut self, sim: &mut Sim, now: Instant) -> Option<Instant> {
        let free_at = self.client.free_at(sim, now);
        if free_at > now || (self.work == 0 && now < self.woken_at) {
            return Some(free_at.max(self.woken_at));
        }
        self.client.wake(sim, self.planned);
        if self.measured.is_none() && self.start.start().is_some_and(|start| now >= start + self.warmup) {
            let (busy_ns, stolen_ns) = (self.client.busy_ns(), self.client.stolen_ns().get());
            self.measured = Some(Measured { from: now, busy_ns, stolen_ns });
        }
        let LoopControl::WaitUntil(until) = self.engine.on_iteration(sim, now) else { return None };
        self.client.work(sim, std::mem::take(&mut self.work));
        self.planned = until.unwrap_or(now);
        self.woken_at = self.client.woken_at(self.planned);
        Some(self.woken_at)
    }

    /// The figures with the use of the client's CPU, of which the engine knows nothing here.
    fn into_figures(self, now: Instant) -> RunFigures {
        let Self { engine, client, measured, .. } = self;
        let mut figures = engine.into_figures();
        if let Some(Measured { from, busy_ns, stolen_ns }) = measured {
            let share = figures.trial.duration.as_nanos() as f64 / now.ns_since(from).max(1) as f64;
            let within = |ns: u64| (ns as f64 * share.min(1.0)) as u64;
            for cpu in &mut figures.trial.cpus {
                cpu.busy_ns = within(client.busy_ns() - busy_ns);
                (cpu.cpu_user_ns, cpu.cpu_system_ns) = (cpu.busy_ns, 0);
                cpu.run_queue_wait_ns = within(client.stolen_ns().get() - stolen_ns);
            }
        }
        figures.join_threads_by_cpu();
        figures
    }
}

impl<P: Protocol> App<Sim> for Load<'_, '_, P> {
    fn on_completion(&mut self, sim: &mut Sim, completion: Completion) {
        if let Err(completion) = self.servers.take(sim, completion) {
            let is_work = matches!(completion, Completion::Received { .. } | Completion::Connected { .. });
            self.work += u32::from(is_work);
            self.client.wake(sim, self.planned);
            self.engine.on_completion(sim, completion);
        }
    }

    fn on_iteration(&mut self, sim: &mut Sim, now: Instant) -> LoopControl {
        let follow_at = self.follower.look(now, self.client.stolen_ns().get());
        let Some(client) = self.go_on(sim, now) else { return LoopControl::Stop };
        let servers = self.servers.go_on(sim, now);
        LoopControl::WaitUntil([Some(client), Some(follow_at), servers].into_iter().flatten().min())
    }
}

/// The follower of a load, and what it saw of the time that others took.
struct Follower<'a, 'f> {
    cpu: usize,
    progress: Arc<Progress>,
    follow: &'a mut Follow<'f>,
    clock: Rc<Cell<Instant>>,
    due: Instant,
    stolen_ns: u64,
    others: CpuUseOfOthers,
}

impl Follower<'_, '_> {
    /// Looks at the load, if it is time to. Returns the time of the next look.
    fn look(&mut self, now: Instant, stolen_ns: u64) -> Instant {
        if now < self.due {
            return self.due;
        }
        self.due = now + FOLLOW_INTERVAL;
        self.clock.set(now);
        let programs_ns = (stolen_ns - std::mem::replace(&mut self.stolen_ns, stolen_ns)) as f64;
        let measured = self.progress.snapshot().measured;
        if !measured.is_zero() {
            let taken = Taken { time_ns: FOLLOW_INTERVAL.as_nanos() as f64, programs_ns, stolen_ns: 0.0 };
            self.others.add(measured.as_secs(), self.cpu, taken);
        }
        if (self.follow)(&self.progress).is_break() {
            self.progress.request_stop();
        }
        self.due
    }
}
