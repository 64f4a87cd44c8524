//! The engine: one thread's share of a run, as an application of the event loop.
//!
//! Cost of a request once a connection is open: one send, one completion for it, one for its response; one pass over the response's
//! head; a handful of counters and histogram slots. Nothing is allocated, unless digests are checked.
//!
//! A request waits for a connection in the schedule itself (see [`Arrivals`]): a connection that becomes idle takes the oldest
//! arrival that is due. Idle connections are used in the order in which they became idle, so that all of them, and with them all
//! of the server's workers, get their share at any rate.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};
use thalweg_measure::{Counts, Outcome};
use thalweg_reactor::{App, Turn, Wheel};
use thalweg_sys::{Completion, Connect, Driver, DriverKind, Fault, Instant, SendBuf, SocketId};
use thalweg_wire::ResponseError;

use crate::connection::{Call, Connection, End, State, outcome_of_fault, outcome_of_response_error, read_response};
use crate::figures::{RunFigures, ThreadUse};
use crate::gate::Gate;
use crate::plan::{Pick, Plan};
use crate::request::Requests;
use crate::runner::Progress;
use crate::schedule::Schedule;

/// Connections that may be in the making at once, so that opening thousands does not overrun the server's listen queue.
const CONNECTING_MAX: usize = 128;

/// Resolution of time-outs.
const TICK_NS: u64 = 1_000_000;

/// How often the progress is published and the gate is looked at.
const GLANCE_NS: u64 = 20_000_000;
const GATE_GLANCE_NS: u64 = 500_000;

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
    /// Opening connections before the start, so many more and until then at the latest.
    Opening { left: usize, until: Instant },
    /// At the gate.
    Waiting,
    /// On the schedule, or finishing what is under way.
    Running(Box<Schedule>),
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
        // Connections for a few calls each are opened when they are needed, as what is measured includes it.
        let ahead = if plan.calls.is_none() { connections_max } else { 0 };
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
            phase: Phase::Opening { left: ahead, until: now + plan.timeout },
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
            .connect(&Connect { source, ..Connect::tcp(self.plan.peer) })
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

    /// Sees to it that the connection is looked at when its deadline comes.
    fn arm(&mut self, id: SocketId, at: Instant) {
        let connection = &mut self.connections[id.index()];
        // Deadlines move on from call to call, and the entry for the earlier one serves. Only a connection's first call can be due
        // earlier than the connection itself was, since it has waited while that was made.
        if connection.armed.is_none_or(|armed| at < armed) {
            connection.armed = Some(at);
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

    /// Opens connections before the start. Each is attempted once: what fails now the requests will meet again, and then it is
    /// counted.
    fn open_ahead<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Phase::Opening { mut left, until } = self.phase else { return };
        while left > 0 && self.connecting < CONNECTING_MAX && now < until {
            left -= 1;
            let _ = self.connect(driver, now);
        }
        self.phase = Phase::Opening { left, until };
        if (left == 0 && self.connecting == 0) || now >= until {
            self.gate.arrive(now);
            self.phase = Phase::Waiting;
        }
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
        if schedule.waiting_since(now).is_none() {
            return;
        }
        let figures = &mut self.figures.trial;
        let (intended, measured) = schedule.take(&mut figures.intervals);
        schedule.arrivals.on_end(now);
        if !measured {
            return;
        }
        let waited_ns = now.ns_since(intended);
        let outcome = if waited_ns >= timeout_ns { Outcome::Timeout } else { outcome };
        figures.queue.record(waited_ns);
        figures.outcomes.record(outcome);
        figures.intervals.record_end(outcome, (outcome == Outcome::Timeout).then_some(waited_ns));
    }

    /// Gives every arrival that is due a connection, as long as there are some, and ends those whose time is over.
    fn dispatch<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let timeout_ns = self.timeout_ns();
        while let Phase::Running(schedule) = &self.phase
            && let Some(intended) = schedule.waiting_since(now)
        {
            if intended.plus_ns(timeout_ns) <= now {
                self.give_up(Outcome::Timeout, now);
            } else if schedule.is_drained(now) {
                return;
            } else if let Some((id, since)) = self.take_idle() {
                self.begin(driver, id, since, now);
            } else {
                return self.open_for_waiting(driver, now);
            }
        }
    }

    /// The connection that has been idle for longest, and since when.
    fn take_idle(&mut self) -> Option<(SocketId, Instant)> {
        loop {
            let id = self.idle.pop_front()?;
            let connection = &self.connections[id.index()];
            if let (State::Idle { since }, true) = (&connection.state, connection.id == id) {
                return Some((id, *since));
            }
        }
    }

    /// Sends the next arrival's request on a connection that has been idle since `idle_since`.
    fn begin<D: Driver>(&mut self, driver: &mut D, id: SocketId, idle_since: Instant, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        let (intended, measured) = schedule.take(&mut self.figures.trial.intervals);
        let in_window = schedule.is_in_window(now);
        let index = self.pick();
        let connection = &mut self.connections[id.index()];
        let last = self.plan.calls.is_some_and(|calls| connection.calls + 1 >= calls);
        let bytes = self.requests.bytes(index, last).clone();
        let deadline = intended + self.plan.timeout;
        debug_assert!(now < deadline, "a request whose time is over is given up");
        if measured {
            let figures = &mut self.figures.trial;
            figures.counts.sent += 1;
            figures.in_window.sent += u64::from(in_window);
            figures.bytes.sent += bytes.len() as u64;
            figures.intervals.record_sent();
        }
        connection.calls += 1;
        connection.sending = true;
        connection.reader.expect(self.requests.kind(index));
        connection.state = State::Busy(Call {
            intended,
            ready: intended.max(idle_since),
            deadline,
            measured,
            first_byte: None,
            status: 0,
            keep_alive: false,
            body_bytes: 0,
            digest: self.plan.check.sha256.map(|_| Box::new(Sha256::new())),
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
        if driver.sent_at(id) < call.ready {
            // The request has not left yet: this cannot be its answer.
            let outcome = outcome_of_response_error(ResponseError::Unsolicited);
            self.figures.unsolicited_bytes += received.len() as u64;
            return self.end_call(driver, id, outcome, now);
        }
        call.first_byte.get_or_insert(now);
        let progress = read_response(&mut connection.reader, call, received);
        if call.measured {
            let figures = &mut self.figures.trial;
            figures.bytes.received += received.len() as u64;
            figures.bytes.body_received += progress.body_bytes;
            figures.intervals.record_bytes_in(received.len() as u64);
            for status in progress.statuses.into_iter().flatten() {
                figures.status.record(status);
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
        // What comes at the deadline or later is too late, also where the wheel has not yet told of it.
        let outcome = if now >= call.deadline { Outcome::Timeout } else { outcome };
        // A request that has not left yet has no time of its own.
        let sent_at = sent_at.max(call.ready);
        connection.body_bytes += call.body_bytes;
        connection.receiving_ns += now.ns_since(sent_at);
        let spent = self.plan.calls.is_some_and(|calls| connection.calls >= calls);
        // An answer may come before its request is through; the rest of that would be in the way of the next one.
        let reusable = outcome.is_completed() && call.keep_alive && !spent && !connection.sending;
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
        let in_window = u64::from(schedule.is_in_window(now));
        let figures = &mut self.figures.trial;
        figures.outcomes.record(outcome);
        figures.queue.record(call.ready.ns_since(call.intended));
        figures.lag.record(sent_at.ns_since(call.ready));
        let response_ns = now.ns_since(call.intended);
        let counted = match outcome {
            // A timeout comes at the deadline or after it, so it is never recorded with less than the time that the request was
            // given: errors do not make the answers look fast.
            Outcome::Good | Outcome::Timeout => Some(response_ns),
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
            self.figures.trial.in_window.connections += u64::from(schedule.is_in_window(now));
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

    /// Looks after the deadlines of connections that have come.
    fn expire<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let timeout_ns = self.timeout_ns();
        while let Some(key) = self.deadlines.pop_due(now) {
            let id = SocketId::from_bits(key);
            let connection = &mut self.connections[id.index()];
            // Of a connection that was closed, or made superfluous by an earlier entry.
            if connection.id != id || connection.armed.is_none_or(|at| at > now) {
                continue;
            }
            connection.armed = None;
            match connection.deadline(timeout_ns) {
                Some(at) if at > now => self.arm(id, at),
                Some(_) if connection.is_busy() => self.end_call(driver, id, Outcome::Timeout, now),
                Some(_) => self.close(driver, id),
                None => {}
            }
        }
    }

    /// Keeps the books that depend on time: the series' intervals, and what the thread has used when the measured part begins
    /// and ends.
    fn keep_books(&mut self, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now < schedule.start {
            return;
        }
        schedule.begun.get_or_insert_with(ThreadUse::so_far);
        schedule.record(&mut self.figures.trial.intervals, now);
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
        self.keep_books(now);
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now < schedule.start {
            return;
        }
        schedule.end = Some(schedule.end.map_or(now, |end| end.min(now)));
        let under_way = self.connections.iter().filter(|connection| connection.carries_measured()).count() as u64;
        let figures = &mut self.figures.trial;
        figures.counts.sent -= under_way;
        let waiting = schedule.recorded - figures.outcomes.total() - under_way;
        figures.held_back += waiting;
        for _ in 0..waiting {
            figures.outcomes.record(Outcome::NotSent);
            figures.intervals.record_end(Outcome::NotSent, None);
        }
        self.end_window(now);
    }

    /// Whether all that was offered has ended. What the drain has left over ends here as not sent.
    fn finished(&mut self, now: Instant) -> bool {
        let Phase::Running(schedule) = &mut self.phase else { return false };
        if let Some(drain_end) = schedule.drain_end.filter(|&end| now >= end) {
            // Whoever still waits when nobody is idle waits for the target; else the client was too slow to send.
            let idle = |id: &SocketId| self.connections[id.index()].is_idle_before(*id, drain_end);
            let held_back = u64::from(!self.idle.iter().any(idle));
            let figures = &mut self.figures.trial;
            while schedule.arrivals.next().is_some() {
                let (_, measured) = schedule.take(&mut figures.intervals);
                if measured {
                    figures.outcomes.record(Outcome::NotSent);
                    figures.held_back += held_back;
                    figures.intervals.record_end(Outcome::NotSent, None);
                }
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
            Completion::Sent { socket } => self.connection(socket).sending = false,
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
            Phase::Opening { .. } => self.open_ahead(driver, now),
            Phase::Waiting => {
                if let Some(start) = self.gate.start() {
                    self.phase = Phase::Running(Box::new(Schedule::new(&self.plan, self.core, start)));
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
