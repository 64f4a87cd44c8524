//! The engine as an application of the event loop: its construction, completions, deadlines and
//! iterations.

use std::collections::VecDeque;
use std::sync::Arc;

use thalweg_reactor::{App, LoopControl, Wheel};
use thalweg_sys::{Completion, Driver, DriverKind, Fault, Instant, SocketId};

use super::disturbance::Disturbance;
use super::pacer::Pacer;
use super::paused::PausedUsers;
use super::requests::Requests;
use super::state::{Engine, Phase};
use crate::barrier::StartBarrier;
use crate::call::{CallList, Calls};
use crate::connection::State;
use crate::figures::RunFigures;
use crate::plan::choice::{Choices, Chooser};
use crate::plan::{LoopPlan, Plan};
use crate::progress::{FirstEnds, Progress};
use crate::protocol::{Encoder, Protocol};
use crate::redirect::Follower;
use crate::replay::Feed;
use crate::schedule::Schedule;
use crate::transport::TlsMemory;
use crate::user::Users;

/// Resolution of time-outs, and of think times within users.
const TICK_NS: u64 = 100_000;

/// The intervals at which the progress is published and the start barrier is polled.
const PUBLISH_NS: u64 = 20_000_000;
const START_POLL_NS: u64 = 500_000;

impl Engine {
    /// The share of load thread number `thread`, over HTTP/1.
    pub fn new(
        plan: Arc<Plan>,
        thread: usize,
        driver: DriverKind,
        now: Instant,
        start_barrier: Arc<StartBarrier>,
        progress: Arc<Progress>,
    ) -> Self {
        Self::with_protocol(plan, thread, driver, now, start_barrier, progress)
    }
}

impl<P: Protocol> Engine<P> {
    /// The share of load thread number `thread`, over connections with the protocol `P`.
    pub fn with_protocol(
        plan: Arc<Plan>,
        thread: usize,
        driver: DriverKind,
        now: Instant,
        start_barrier: Arc<StartBarrier>,
        progress: Arc<Progress>,
    ) -> Self {
        let connections_max = plan.share_of(plan.connections, thread).max(1);
        let ahead = plan.connections_ahead(thread);
        let opening_s = plan.opening_rate.map_or(0.0, |rate| plan.connections as f64 / rate);
        let until = now.plus_ns((opening_s * 1e9) as u64) + plan.timeout;
        let (requests, follower) = requests_of(&plan);
        Self {
            thread,
            start_barrier,
            progress,
            requests,
            follower,
            feed: None,
            chooser: Chooser::new(plan.pick, Choices::of(&plan.requests), plan.seed, thread, plan.cpus.len()),
            user: plan.user.clone().map(Arc::new),
            source: thread,
            peer_turn: thread,
            proxied: 0,
            ports: plan.ports_of(thread),
            connections_max,
            connections: Vec::new(),
            calls: Calls::default(),
            put_back: CallList::default(),
            idle: VecDeque::new(),
            roomy: VecDeque::new(),
            unsent: Vec::new(),
            open: 0,
            connecting: 0,
            reopening: 0,
            busy: 0,
            users: Users::default(),
            paused: PausedUsers::default(),
            deadlines: Wheel::new(now, TICK_NS),
            pacer: plan.pace.map(|pace| Pacer::new(pace, plan.connections_per_cpu(), now)),
            phase: Phase::Opening { left: ahead, since: now, until },
            hashers: Vec::new(),
            spare_buffers: Vec::new(),
            tls_memory: TlsMemory::default(),
            has_session: false,
            awaits_ticket: false,
            next_publish: now,
            disturbance: Disturbance::none(),
            last_turn: now,
            busy_wait_ns: 0,
            overslept_ns: 0,
            is_short_of_room: false,
            attempts: 0,
            server: Vec::new(),
            first_ends: FirstEnds::default(),
            figures: RunFigures::new(&plan, driver),
            plan,
        }
    }

    /// Takes the requests of a recording from a feed. Without one, all are read when the schedule
    /// begins.
    #[must_use]
    pub fn fed(self, feed: Feed) -> Self {
        Self { feed: Some(feed), ..self }
    }

    /// The entries that its queues, timers and pools hold now. The connections that are made within
    /// a time-out bound their number; the length of the run does not.
    pub fn entries(&self) -> usize {
        let arrivals = match &self.phase {
            Phase::Running(schedule) => schedule.arrivals.entries() + schedule.oversleeps.entries(),
            _ => 0,
        };
        let reads = self.pacer.as_ref().map_or(0, Pacer::entries);
        let lists = self.idle.len() + self.roomy.len() + self.paused.len() + self.users.places() + self.hashers.len();
        let hops = self.follower.as_ref().map_or(0, |follower| follower.places());
        let requests = self.requests.places() + hops + self.calls.places() + self.spare_buffers.len();
        arrivals + reads + lists + requests + self.deadlines.len() + self.connections.len()
    }

    /// Handles the deadlines that have come.
    fn expire<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let timeout_ns = self.timeout_ns();
        while let Some(key) = self.deadlines.pop_due(now) {
            let id = SocketId::from_bits(key);
            let connection = &mut self.connections[id.index()];
            // The entry is of a connection that was closed, or an earlier entry has served it.
            if connection.id != id || connection.armed.is_none_or(|at| at > now) {
                continue;
            }
            connection.armed = None;
            let deadline = connection.deadline(&self.calls, timeout_ns);
            match (&connection.state, deadline) {
                (_, Some(at)) if at > now => self.arm(id, at),
                (State::Busy, _) => self.time_out(driver, id, now),
                (State::Thinking { .. }, _) => self.wake_user(driver, id, now),
                (State::Connecting, _) => self.on_connect_failed(driver, id, None, now),
                (State::Idle | State::Closed, _) => {}
            }
        }
    }

    fn on_failed<D: Driver>(&mut self, driver: &mut D, id: SocketId, fault: Fault) {
        let now = driver.now();
        let connecting = matches!(self.connection(id).state, State::Connecting);
        self.end_for(fault, connecting, |engine, outcome| match engine.connection(id).state {
            State::Busy => engine.break_connection(driver, id, outcome, now),
            State::Connecting => engine.on_connect_failed(driver, id, Some(outcome), now),
            State::Thinking { .. } | State::Idle => engine.on_idle_end(driver, id, now),
            State::Closed => unreachable!("the driver names open sockets only"),
        });
    }

    fn next_wakeup(&self, now: Instant) -> Instant {
        let Phase::Running(schedule) = &self.phase else { return now.plus_ns(START_POLL_NS) };
        let arrival = schedule.next_arrival().map(|at| {
            let stuck = at <= now;
            if stuck { at.plus_ns(self.timeout_ns()) } else { at }
        });
        // Requests that have not come yet may be due.
        let unread = schedule.arrivals.is_behind().then(|| now.plus_ns(START_POLL_NS));
        let window =
            [Some(schedule.start), schedule.end, schedule.drain_end].into_iter().flatten().find(|&at| at > now);
        let reads = self.pacer.as_ref().and_then(Pacer::next_due);
        let paused = self.paused.next_due().filter(|&at| at > now);
        let put_back = self.put_back.first().map(|oldest| self.calls[oldest].deadline);
        let deadlines = self.deadlines.next_due();
        let times = [arrival, unread, window, deadlines, reads, paused, put_back, Some(self.next_publish)];
        times.into_iter().flatten().min().unwrap_or(now)
    }
}

/// The requests of a plan, and the follower of their redirects, if they are followed.
fn requests_of<E: Encoder>(plan: &Plan) -> (Requests<E>, Option<Box<Follower>>) {
    let is_tls = plan.tls.is_some();
    let follows = plan.redirects_max > 0 && plan.user.is_none();
    let follower = follows.then(|| {
        let (templates, for_get) = plan.templates().with_redirected();
        Box::new(Follower::new(templates, for_get, is_tls, plan.redirects_max))
    });
    let templates = follower.as_ref().map_or(plan.templates(), |follower| follower.templates());
    let requests = match &plan.arrivals {
        LoopPlan::Recorded { recording } => {
            Requests::streamed(templates, is_tls, recording.table().cloned(), &plan.check)
        }
        LoopPlan::Open { .. } | LoopPlan::Closed { .. } => {
            Requests::new(&plan.requests, templates, is_tls, &plan.check)
        }
    };
    (requests, follower)
}

impl<D: Driver, P: Protocol> App<D> for Engine<P> {
    #[inline]
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        self.overslept_ns = driver.overslept_ns();
        match completion {
            Completion::Received { socket } => self.on_received(driver, socket),
            Completion::Sent { socket } => self.on_sent(driver, socket),
            Completion::Connected { socket } => self.on_connected(driver, socket),
            Completion::Ended { socket } => self.on_ended(driver, socket),
            Completion::Failed { socket, error } => self.on_failed(driver, socket, Fault::of(&error)),
            Completion::Woken => {}
            Completion::Accepted { .. } | Completion::AcceptFailed { .. } => unreachable!("a client does not listen"),
        }
    }

    fn on_iteration(&mut self, driver: &mut D, now: Instant) -> LoopControl {
        self.busy_wait_ns = driver.busy_wait_ns();
        self.overslept_ns = driver.overslept_ns();
        if self.disturbance.is_due(now) || self.progress.left_out_until() > self.disturbance.until {
            self.look_for_disturbance(now);
        }
        self.disturbance.on_iteration(now);
        if self.progress.stop_requested() && !self.figures.interrupted {
            self.figures.interrupted = true;
            self.advance_accounting(now);
            self.cut(now);
            self.publish_last(now);
            self.end_transports(driver, now);
            return LoopControl::Stop;
        }
        self.attempts = 0;
        self.expire(driver, now);
        self.take_in_held(driver, now);
        self.read_due(driver, now);
        self.resume_paused(driver, now);
        match self.phase {
            Phase::Opening { .. } => self.open_ahead(driver, now),
            Phase::Waiting => {
                if let Some(start) = self.start_barrier.start() {
                    self.phase =
                        Phase::Running(Box::new(Schedule::new(&self.plan, self.thread, start, self.feed.take())));
                }
            }
            Phase::Running(_) => {}
        }
        self.advance_accounting(now);
        self.dispatch(driver, now);
        self.submit_gathered(driver, now);
        let over = self.finished(now);
        if over && !(self.users.len() > 0 && self.wake_last(driver, now)) {
            self.advance_accounting(now);
            self.end_window(now);
            self.publish_last(now);
            self.end_transports(driver, now);
            return LoopControl::Stop;
        }
        if now >= self.next_publish {
            self.next_publish = now.plus_ns(PUBLISH_NS);
            self.publish(now);
        }
        LoopControl::WaitUntil(Some(self.next_wakeup(now)))
    }
}
