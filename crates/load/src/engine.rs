//! The engine: one thread's share of a run, as an application of the event loop.
//!
//! Cost of a request once a connection is open: one send, one completion for it, one for its response; one pass over the response's
//! head; a handful of counters and histogram slots. Nothing is allocated.
//!
//! A request waits for a connection in the schedule itself (see [`Arrivals`]): a connection that becomes idle takes the oldest
//! arrival that is due. Idle connections are used in the order in which they became idle, so that all of them, and with them all
//! of the server's workers, get their share at any rate.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};
use thalweg_measure::{Counts, Outcome};
use thalweg_reactor::{App, Turn, Wheel};
use thalweg_sys::{Completion, Connect, Driver, DriverKind, Fault, Instant, SendBuf, SocketId};
use thalweg_wire::{FieldSlots, ResponseError, ResponseEvent};

use crate::arrivals::{Arrivals, ClosedLoop, OpenLoop};
use crate::connection::{Call, Connection, State, outcome_of_fault, outcome_of_response_error};
use crate::figures::{RunFigures, ThreadUse};
use crate::plan::{Extent, LoopPlan, Pick, Plan};
use crate::request::Requests;
use crate::runner::Progress;

/// Connections that may be in the making at once, so that opening thousands does not overrun the server's listen queue.
const CONNECTING_MAX: usize = 128;

/// Resolution of time-outs.
const TICK_NS: u64 = 1_000_000;

/// How often the progress is published and the gate is looked at.
const GLANCE_NS: u64 = 20_000_000;
const GATE_GLANCE_NS: u64 = 500_000;

/// Lets all threads begin together, once each has opened its connections.
#[derive(Debug, Default)]
pub struct Gate {
    expected: usize,
    arrived: AtomicUsize,
    start_ns: AtomicU64,
}

impl Gate {
    /// From the last arrival at the gate to the common start.
    const NOTICE_NS: u64 = 2_000_000;

    /// A gate for so many threads.
    pub fn new(threads: usize) -> Self {
        Self { expected: threads, ..Self::default() }
    }

    fn arrive(&self, now: Instant) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.expected {
            self.start_ns.store(now.plus_ns(Self::NOTICE_NS).as_ns(), Ordering::Release);
        }
    }

    fn start(&self) -> Option<Instant> {
        let ns = self.start_ns.load(Ordering::Acquire);
        (ns != 0).then(|| Instant::from_ns(ns))
    }
}

/// One thread's share of a run.
pub struct Engine {
    plan: Arc<Plan>,
    core: usize,
    gate: Arc<Gate>,
    progress: Arc<Progress>,
    requests: Requests,
    next_request: usize,
    random: Pcg64Mcg,
    source: usize,
    connections_max: usize,
    connections: Vec<Connection>,
    idle: VecDeque<SocketId>,
    open: usize,
    connecting: usize,
    busy: usize,
    deadlines: Wheel,
    phase: Phase,
    next_glance: Instant,
    figures: RunFigures,
}

enum Phase {
    /// Opening connections before the start.
    Opening { until: Option<Instant>, wanted: usize },
    /// At the gate.
    Waiting,
    /// On the schedule, or finishing what is under way.
    Running(Box<Schedule>),
}

struct Schedule {
    arrivals: Arrivals,
    /// The measured part. A number of requests has no end in time: then it ends with the last of them.
    start: Instant,
    end: Option<Instant>,
    /// After this, what still waits is not sent any more.
    drain_end: Option<Instant>,
    /// Measured arrivals: that were taken, and that the series knows of.
    taken: u64,
    recorded: u64,
    /// The last arrival that was looked at found no connection.
    blocked: bool,
    begun: Option<ThreadUse>,
    ended: bool,
}

impl Schedule {
    /// Counts a measured arrival that was taken. The series hears of arrivals once per turn; one that is taken before then is
    /// told now, since it may also end before then.
    fn note_taken(&mut self, figures: &mut RunFigures) {
        self.taken += 1;
        if self.taken > self.recorded {
            figures.trial.intervals.record_offered_n(1);
            self.recorded += 1;
        }
    }
}

impl Engine {
    /// The share of thread `core`.
    pub fn new(
        plan: Arc<Plan>,
        core: usize,
        driver: DriverKind,
        now: Instant,
        gate: Arc<Gate>,
        progress: Arc<Progress>,
    ) -> Self {
        let connections_max = plan.share_of(plan.connections, core).max(1);
        let keep_open = plan.calls.is_none();
        Self {
            core,
            gate,
            progress,
            requests: Requests::new(&plan.requests),
            next_request: core % plan.requests.len(),
            random: Pcg64Mcg::seed_from_u64(plan.seed ^ core as u64),
            source: core,
            connections_max,
            connections: Vec::new(),
            idle: VecDeque::new(),
            open: 0,
            connecting: 0,
            busy: 0,
            deadlines: Wheel::new(now, TICK_NS),
            phase: Phase::Opening { until: None, wanted: if keep_open { connections_max } else { 0 } },
            next_glance: now,
            figures: RunFigures::new(&plan, driver),
            plan,
        }
    }

    /// What came of it. To be asked for when the loop has ended.
    pub fn into_figures(mut self) -> RunFigures {
        let conforming = self.connections.iter().filter(|connection| connection.is_open() && connection.conforms());
        let figures = &mut self.figures.trial;
        figures.connections.conforming += conforming.count() as u64;
        figures.counts = Counts::of(&figures.outcomes, figures.counts.sent);
        self.figures
    }

    fn timeout_ns(&self) -> u64 {
        self.plan.timeout.as_nanos() as u64
    }

    fn connection(&mut self, id: SocketId) -> &mut Connection {
        let connection = &mut self.connections[id.index()];
        debug_assert!(connection.id == id, "the driver names open sockets only");
        connection
    }

    /// Starts to connect. What prevents even that is given back.
    fn connect<D: Driver>(&mut self, driver: &mut D, now: Instant) -> Result<(), Outcome> {
        let source = (!self.plan.sources.is_empty()).then(|| self.plan.sources[self.source % self.plan.sources.len()]);
        self.source += self.plan.cpus.len();
        let id = driver
            .connect(&Connect { peer: self.plan.peer, source })
            .map_err(|error| outcome_of_fault(Fault::of(&error)))?;
        let place = id.index();
        if place >= self.connections.len() {
            // Dense, unless the driver carries sockets of others as well.
            self.connections.resize_with(place + 1, || Connection::closed(id));
        }
        self.connections[place] = Connection::connecting(id, now);
        self.open += 1;
        self.connecting += 1;
        self.arm(id, now.plus_ns(self.timeout_ns()));
        Ok(())
    }

    fn arm(&mut self, id: SocketId, at: Instant) {
        let connection = &mut self.connections[id.index()];
        if !connection.armed {
            connection.armed = true;
            self.deadlines.arm(id.to_bits(), at);
        }
    }

    fn close<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let connection = self.connection(id);
        let conforms = connection.conforms();
        match std::mem::replace(&mut connection.state, State::Closed) {
            State::Connecting { .. } => self.connecting -= 1,
            State::Busy(_) => self.busy -= 1,
            // Its place among the idle is recognised as stale when it comes up.
            State::Idle { .. } => {}
            State::Closed => unreachable!("a connection is closed once"),
        }
        self.figures.trial.connections.conforming += u64::from(conforms);
        self.open -= 1;
        driver.close(id);
    }

    /// Opens connections before the start; true when there are as many as there will be.
    fn open_ahead<D: Driver>(&mut self, driver: &mut D, now: Instant, wanted: usize, until: Instant) -> bool {
        while self.open < wanted && self.connecting < CONNECTING_MAX && now < until {
            if self.connect(driver, now).is_err() {
                // Whatever it is, the requests will meet it again, and then it is counted.
                return self.connecting == 0;
            }
        }
        self.connecting == 0 || now >= until
    }

    /// Opens connections for arrivals that wait, one for each as far as the bound allows.
    fn open_for_waiting<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Phase::Running(schedule) = &self.phase else { return };
        let room = (self.connections_max - self.open).min(CONNECTING_MAX.saturating_sub(self.connecting));
        if room == 0 {
            return;
        }
        let wanted = (schedule.arrivals.waiting(now) as usize).saturating_sub(self.connecting).min(room);
        for _ in 0..wanted {
            if let Err(outcome) = self.connect(driver, now) {
                self.give_up(outcome, now);
            }
        }
    }

    /// Ends the oldest arrival that waits for a connection, if there is one, without its having been sent.
    fn give_up(&mut self, outcome: Outcome, now: Instant) {
        let timeout_ns = self.timeout_ns();
        let Phase::Running(schedule) = &mut self.phase else { return };
        if schedule.arrivals.next().is_none_or(|at| at > now) {
            return;
        }
        let intended = schedule.arrivals.take();
        schedule.arrivals.on_end(now);
        if intended < schedule.start {
            return;
        }
        schedule.note_taken(&mut self.figures);
        let waited_ns = now.ns_since(intended);
        self.figures.trial.queue.record(waited_ns);
        self.figures.trial.outcomes.record(outcome);
        let response_ns = (outcome == Outcome::Timeout).then_some(waited_ns.max(timeout_ns));
        self.figures.trial.intervals.record_end(outcome, response_ns);
    }

    /// Gives every arrival that is due a connection, as long as there are some.
    fn dispatch<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        loop {
            let Phase::Running(schedule) = &mut self.phase else { return };
            if schedule.drain_end.is_some_and(|end| now >= end) || schedule.arrivals.next().is_none_or(|at| at > now) {
                return;
            }
            let id = self.idle.pop_front();
            // Who waits while no connection is idle waits for the target, not for the client.
            schedule.blocked = id.is_none();
            let Some(id) = id else { break };
            let connection = &mut self.connections[id.index()];
            let State::Idle { since } = connection.state else { continue };
            if connection.id != id {
                continue;
            }
            let intended = schedule.arrivals.take();
            let measured = intended >= schedule.start;
            let in_window = measured && schedule.end.is_none_or(|end| now < end);
            if measured {
                schedule.note_taken(&mut self.figures);
            }
            self.begin(driver, id, intended, intended.max(since), measured, in_window);
        }
        self.open_for_waiting(driver, now);
    }

    fn begin<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        intended: Instant,
        ready: Instant,
        measured: bool,
        in_window: bool,
    ) {
        let index = self.pick();
        let last = self.plan.calls.is_some_and(|calls| self.connections[id.index()].calls + 1 >= calls);
        let bytes = self.requests.bytes(index, last).clone();
        let deadline = intended.plus_ns(self.timeout_ns());
        let digest = self.plan.check.sha256.map(|_| Box::new(Sha256::new()));
        let kind = self.requests.kind(index);
        if measured {
            self.figures.trial.counts.sent += 1;
            self.figures.trial.in_window.sent += u64::from(in_window);
            self.figures.trial.bytes.sent += bytes.len() as u64;
            self.figures.trial.intervals.record_sent();
        }
        let connection = &mut self.connections[id.index()];
        connection.calls += 1;
        connection.reader.expect(kind);
        connection.state = State::Busy(Call {
            intended,
            ready,
            deadline,
            measured,
            first_byte: None,
            status: 0,
            keep_alive: false,
            body_bytes: 0,
            digest,
        });
        self.busy += 1;
        driver.send(id, SendBuf::Shared(bytes));
        self.arm(id, deadline);
    }

    fn pick(&mut self) -> usize {
        let len = self.requests.len();
        match self.plan.pick {
            _ if len == 1 => 0,
            Pick::Sequential => {
                let index = self.next_request;
                self.next_request = (index + self.plan.cpus.len()) % len;
                index
            }
            Pick::Random => self.random.random_range(0..len),
        }
    }

    fn on_received<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let received = driver.received();
        let connection = &mut self.connections[id.index()];
        let State::Busy(call) = &mut connection.state else {
            // Nobody has asked: the connection cannot be trusted any more.
            self.figures.unsolicited_bytes += received.len() as u64;
            return self.close(driver, id);
        };
        call.first_byte.get_or_insert(now);
        let progress = read_response(&mut connection.reader, call, received);
        if call.measured {
            self.figures.trial.bytes.received += received.len() as u64;
            self.figures.trial.bytes.body_received += progress.body_bytes;
            for status in progress.statuses.into_iter().flatten() {
                self.figures.trial.status.record(status);
            }
        }
        match progress.end {
            None => {}
            Some(End::Whole) => {
                let outcome = call.judge(&self.plan.check);
                self.end_call(driver, id, outcome, now);
            }
            Some(End::Broken(outcome)) => self.end_call(driver, id, outcome, now),
        }
    }

    /// The call of a connection has ended; the connection goes on with the next arrival, becomes idle or is closed.
    fn end_call<D: Driver>(&mut self, driver: &mut D, id: SocketId, outcome: Outcome, now: Instant) {
        let sent_at = driver.sent_at(id);
        let connection = &mut self.connections[id.index()];
        let idle = State::Idle { since: now };
        let State::Busy(call) = std::mem::replace(&mut connection.state, idle) else {
            unreachable!("a call ends on a busy connection")
        };
        self.busy -= 1;
        connection.body_bytes += call.body_bytes;
        connection.receiving_ns += now.ns_since(sent_at);
        let spent = self.plan.calls.is_some_and(|calls| connection.calls >= calls);
        let reusable = outcome.is_completed() && call.keep_alive && !spent;
        self.account(&call, outcome, sent_at, now);
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.arrivals.on_end(now);
        }
        if reusable {
            self.idle.push_back(id);
        } else {
            self.close(driver, id);
        }
        self.dispatch(driver, now);
    }

    fn account(&mut self, call: &Call, outcome: Outcome, sent_at: Instant, now: Instant) {
        if !call.measured {
            return;
        }
        let Phase::Running(schedule) = &self.phase else { return };
        let in_window = u64::from(schedule.end.is_none_or(|end| now < end));
        let figures = &mut self.figures.trial;
        figures.outcomes.record(outcome);
        figures.queue.record(call.ready.ns_since(call.intended));
        figures.lag.record(sent_at.ns_since(call.ready));
        let response_ns = now.ns_since(call.intended);
        let counted = match outcome {
            Outcome::Good => Some(response_ns),
            // Never less than the time that the request was given, so that errors do not make the answers look fast.
            Outcome::Timeout => Some(response_ns.max(self.plan.timeout.as_nanos() as u64)),
            _ => None,
        };
        figures.intervals.record_end(outcome, counted);
        if outcome.is_completed() {
            figures.service_time.record(now.ns_since(sent_at));
            figures.first_byte.record(call.first_byte.unwrap_or(now).ns_since(sent_at));
            figures.in_window.completed += in_window;
            figures.in_window.good += if outcome == Outcome::Good { in_window } else { 0 };
        }
    }

    fn on_connected<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let connection = self.connection(id);
        let State::Connecting { since } = std::mem::replace(&mut connection.state, State::Idle { since: now }) else {
            unreachable!("a connection is established once")
        };
        self.connecting -= 1;
        self.idle.push_back(id);
        let connections = &mut self.figures.trial.connections;
        connections.opened += 1;
        connections.peak = connections.peak.max(self.open as u64);
        self.figures.trial.connect.record(now.ns_since(since));
        if let Phase::Running(schedule) = &self.phase {
            let in_window = now >= schedule.start && schedule.end.is_none_or(|end| now < end);
            self.figures.trial.in_window.connections += u64::from(in_window);
        }
        self.dispatch(driver, now);
    }

    /// The server has ended its direction: the end of a response without a length, of an idle connection, or a truncation.
    fn on_ended<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let connection = &mut self.connections[id.index()];
        let State::Busy(call) = &mut connection.state else { return self.close(driver, id) };
        call.keep_alive = false;
        let outcome = match connection.reader.finish() {
            Ok(_) => call.judge(&self.plan.check),
            Err(error) => outcome_of_response_error(error),
        };
        self.end_call(driver, id, outcome, now);
    }

    fn on_failed<D: Driver>(&mut self, driver: &mut D, id: SocketId, fault: Fault) {
        let now = driver.now();
        let outcome = outcome_of_fault(fault);
        match self.connection(id).state {
            State::Busy(_) => self.end_call(driver, id, outcome, now),
            State::Connecting { .. } => {
                self.close(driver, id);
                self.give_up(outcome, now);
                self.dispatch(driver, now);
            }
            State::Idle { .. } => self.close(driver, id),
            State::Closed => unreachable!("the driver names open sockets only"),
        }
    }

    /// Looks after the deadlines that have come.
    fn expire<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(key) = self.deadlines.pop_due(now) {
            let id = SocketId::from_bits(key);
            let timeout_ns = self.timeout_ns();
            let connection = &mut self.connections[id.index()];
            if connection.id != id {
                continue;
            }
            connection.armed = false;
            match &connection.state {
                State::Busy(call) if call.deadline <= now => self.end_call(driver, id, Outcome::Timeout, now),
                State::Busy(call) => {
                    let deadline = call.deadline;
                    self.arm(id, deadline);
                }
                State::Connecting { since } if since.plus_ns(timeout_ns) <= now => self.close(driver, id),
                State::Connecting { since } => {
                    let deadline = since.plus_ns(timeout_ns);
                    self.arm(id, deadline);
                }
                State::Idle { .. } | State::Closed => {}
            }
        }
        let timeout_ns = self.timeout_ns();
        while let Phase::Running(schedule) = &self.phase {
            match schedule.arrivals.next() {
                Some(at) if at.plus_ns(timeout_ns) <= now => self.give_up(Outcome::Timeout, now),
                _ => break,
            }
        }
    }

    fn begin_schedule(&mut self, start: Instant) {
        let plan = &self.plan;
        let (core, cores) = (self.core, plan.cpus.len());
        let warmup_ns = plan.warmup.as_nanos() as u64;
        let measured = start.plus_ns(warmup_ns);
        let length = plan.schedule_length();
        let end = (!length.is_zero()).then(|| measured + length);
        let arrivals = match plan.arrivals {
            LoopPlan::Open { rate } => {
                let total = match plan.extent {
                    Extent::Duration(length) => (rate * length.as_secs_f64()).round() as u64,
                    Extent::Requests(total) => total,
                };
                let warmup = (rate * plan.warmup.as_secs_f64()).round() as u64;
                Arrivals::Open(OpenLoop::new(measured, rate, warmup, total, core, cores))
            }
            LoopPlan::Closed { workers, think } => {
                let total = match plan.extent {
                    Extent::Duration(_) => u64::MAX,
                    Extent::Requests(total) => plan.share_of(total as usize, core) as u64,
                };
                let workers = plan.share_of(workers, core);
                let end = end.unwrap_or(Instant::from_ns(u64::MAX));
                let think_ns = think.as_nanos() as u64;
                Arrivals::Closed(ClosedLoop::new(start, measured, end, workers, think_ns, total))
            }
        };
        self.phase = Phase::Running(Box::new(Schedule {
            arrivals,
            start: measured,
            end,
            drain_end: end.map(|end| end + plan.drain),
            taken: 0,
            recorded: 0,
            blocked: false,
            begun: None,
            ended: false,
        }));
    }

    /// Keeps the books that depend on time: the series' intervals, and what the thread has used when the measured part begins
    /// and ends.
    fn keep_books(&mut self, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now < schedule.start {
            return;
        }
        schedule.begun.get_or_insert_with(ThreadUse::so_far);
        self.figures.trial.intervals.advance_to(now.ns_since(schedule.start));
        let offered = schedule.arrivals.offered(now);
        self.figures.trial.intervals.record_offered_n(offered.saturating_sub(schedule.recorded));
        schedule.recorded = offered.max(schedule.recorded);
        if schedule.end.is_some_and(|end| now >= end) {
            self.end_window(now);
        }
    }

    fn end_window(&mut self, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        if schedule.ended {
            return;
        }
        schedule.ended = true;
        let figures = &mut self.figures.trial;
        figures.duration = schedule.end.filter(|end| *end <= now).unwrap_or(now) - schedule.start;
        let cpu = self.plan.cpus[self.core];
        figures.cores.extend(schedule.begun.map(|begun| ThreadUse::so_far().since(begun, cpu)));
    }

    /// Ends the schedule now: nothing more is offered, what is under way is left out.
    fn interrupt(&mut self, now: Instant) {
        self.figures.interrupted = true;
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now > schedule.start {
            schedule.end = Some(schedule.end.map_or(now, |end| end.min(now)));
            let waiting = schedule.arrivals.offered(now).saturating_sub(self.figures.trial.outcomes.total());
            let under_way = self.connections.iter().filter(|connection| connection.carries_measured()).count() as u64;
            self.figures.trial.counts.sent -= under_way;
            self.figures.trial.outcomes.record_n(Outcome::NotSent, waiting - under_way);
            self.figures.trial.held_back += waiting - under_way;
        }
        self.end_window(now);
    }

    /// Whether all that was offered has ended. What the drain has left over ends here as not sent.
    fn finished(&mut self, now: Instant) -> bool {
        let Phase::Running(schedule) = &mut self.phase else { return false };
        if schedule.drain_end.is_some_and(|end| now >= end) {
            while schedule.arrivals.next().is_some() {
                if schedule.arrivals.take() < schedule.start {
                    continue;
                }
                schedule.note_taken(&mut self.figures);
                self.figures.trial.outcomes.record(Outcome::NotSent);
                self.figures.trial.held_back += u64::from(schedule.blocked);
                self.figures.trial.intervals.record_end(Outcome::NotSent, None);
            }
        }
        let over = schedule.end.is_none_or(|end| now >= end);
        over && self.busy == 0 && schedule.arrivals.next().is_none()
    }

    fn publish(&self) {
        let offered = match &self.phase {
            Phase::Running(schedule) => schedule.recorded,
            _ => 0,
        };
        let outcomes = &self.figures.trial.outcomes;
        self.progress.publish(self.core, offered, outcomes.count(Outcome::Good), outcomes.errors(), self.open as u64);
    }

    fn next_turn(&self, now: Instant) -> Instant {
        let Phase::Running(schedule) = &self.phase else { return now.plus_ns(GATE_GLANCE_NS) };
        let arrival = schedule.arrivals.next().map(|at| {
            let stuck = at <= now;
            if stuck { at.plus_ns(self.timeout_ns()) } else { at }
        });
        let window =
            [Some(schedule.start), schedule.end, schedule.drain_end].into_iter().flatten().find(|&at| at > now);
        let times = [arrival, window, self.deadlines.next_due(), Some(self.next_glance)];
        times.into_iter().flatten().min().unwrap_or(now)
    }
}

impl<D: Driver> App<D> for Engine {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Received { socket } => self.on_received(driver, socket),
            Completion::Sent { .. } => {}
            Completion::Connected { socket } => self.on_connected(driver, socket),
            Completion::Ended { socket } => self.on_ended(driver, socket),
            Completion::Failed { socket, error } => self.on_failed(driver, socket, Fault::of(&error)),
            Completion::Woken => {}
            Completion::Accepted { .. } | Completion::AcceptFailed { .. } => unreachable!("a client does not listen"),
        }
    }

    fn on_turn(&mut self, driver: &mut D, now: Instant) -> Turn {
        if self.progress.stop_requested() && !self.figures.interrupted {
            self.interrupt(now);
            self.publish();
            return Turn::Stop;
        }
        self.expire(driver, now);
        match self.phase {
            Phase::Opening { until, wanted } => {
                let until = until.unwrap_or_else(|| now.plus_ns(self.timeout_ns()));
                self.phase = Phase::Opening { until: Some(until), wanted };
                if self.open_ahead(driver, now, wanted, until) {
                    self.gate.arrive(now);
                    self.phase = Phase::Waiting;
                }
            }
            Phase::Waiting => {
                if let Some(start) = self.gate.start() {
                    self.begin_schedule(start);
                }
            }
            Phase::Running(_) => {}
        }
        self.keep_books(now);
        self.dispatch(driver, now);
        if self.finished(now) {
            self.keep_books(now);
            self.end_window(now);
            self.publish();
            return Turn::Stop;
        }
        if now >= self.next_glance {
            self.next_glance = now.plus_ns(GLANCE_NS);
            self.publish();
        }
        Turn::Until(Some(self.next_turn(now)))
    }
}

/// What a received piece of a response came to.
struct ResponseProgress {
    end: Option<End>,
    body_bytes: u64,
    /// Statuses that came, interim ones first; more than two in one piece are counted as two.
    statuses: [Option<u16>; 2],
}

enum End {
    Whole,
    Broken(Outcome),
}

fn read_response(reader: &mut thalweg_wire::ResponseReader, call: &mut Call, mut input: &[u8]) -> ResponseProgress {
    let mut progress = ResponseProgress { end: None, body_bytes: 0, statuses: [None, None] };
    loop {
        let mut slots = FieldSlots::new();
        let step = match reader.read(input, &mut slots) {
            Ok(step) => step,
            Err(error) => {
                progress.end = Some(End::Broken(outcome_of_response_error(error)));
                return progress;
            }
        };
        input = &input[step.consumed..];
        match step.event {
            None => return progress,
            Some(ResponseEvent::Informational(head)) => progress.statuses[0] = Some(head.status),
            Some(ResponseEvent::Head(head)) => {
                progress.statuses[1] = Some(head.status);
                call.status = head.status;
                call.keep_alive = head.keep_alive();
            }
            Some(ResponseEvent::Body(bytes)) => {
                call.body_bytes += bytes.len() as u64;
                progress.body_bytes += bytes.len() as u64;
                if let Some(digest) = &mut call.digest {
                    digest.update(bytes);
                }
            }
            Some(ResponseEvent::End(_)) => {
                let surplus = !input.is_empty();
                let broken = End::Broken(outcome_of_response_error(ResponseError::Unsolicited));
                progress.end = Some(if surplus { broken } else { End::Whole });
                return progress;
            }
        }
    }
}

impl Connection {
    fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed)
    }

    fn carries_measured(&self) -> bool {
        matches!(&self.state, State::Busy(call) if call.measured)
    }
}
