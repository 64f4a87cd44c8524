//! A request's life on a connection: from the schedule to the wire, and its response back.

use std::rc::Rc;
use std::time::Duration;

use sha2::Digest;
use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SendBuf, SocketId};
use thalweg_wire::ResponseError;

use super::pacing::Pacing;
use super::users::CallEnd;
use super::{Engine, Phase};
use crate::connection::{Call, Due, End, Stamp, State, outcome_of_response_error, read_response};
use crate::plan::Reuse;
use crate::schedule::TakenArrival;

/// A request to be made.
pub(super) struct NextCall {
    pub(super) due: Due,
    pub(super) measured: bool,
    /// Which one, if the schedule or the user says.
    pub(super) request: Option<u32>,
    /// It is the last one that its connection will carry.
    pub(super) last: bool,
}

impl Engine {
    /// Gives every arrival that is due a connection, as long as there are some, and ends those whose time is over.
    pub(super) fn dispatch<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let timeout_ns = self.timeout_ns();
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.look(now, self.overslept_ns);
        }
        while let Phase::Running(schedule) = &self.phase
            && let Some(intended) = schedule.waiting_since(now)
        {
            if intended.plus_ns(timeout_ns) <= now {
                self.give_up(Outcome::Timeout, now);
            } else if schedule.is_drained(now) {
                return;
            } else if let Some(id) = self.take_room() {
                self.serve_arrival(driver, id, now);
            } else {
                return self.open_for_waiting(driver, now);
            }
        }
    }

    /// A connection with room for a call: an idle one, or one with fewer calls under way than may be pipelined.
    fn take_room(&mut self) -> Option<SocketId> {
        while let Some(id) = match self.plan.reuse {
            Reuse::Oldest => self.idle.pop_front(),
            Reuse::Latest => self.idle.pop_back(),
        } {
            let connection = &mut self.connections[id.index()];
            if connection.id == id {
                connection.in_idle = false;
                if matches!(connection.state, State::Idle) {
                    return Some(id);
                }
            }
        }
        while let Some(id) = self.roomy.pop_front() {
            if self.connections[id.index()].id == id {
                self.connections[id.index()].in_roomy = false;
                if self.has_room(id) {
                    return Some(id);
                }
            }
        }
        None
    }

    /// Whether an open connection can take another call.
    fn has_room(&self, id: SocketId) -> bool {
        let connection = &self.connections[id.index()];
        let calls_left = self.plan.calls.is_none_or(|calls| connection.calls < calls);
        match connection.state {
            State::Idle => true,
            State::Busy(_) => calls_left && connection.under_way() < self.plan.pipeline as usize,
            State::Connecting | State::Thinking { .. } | State::Closed => false,
        }
    }

    /// Puts a connection with room onto its list.
    pub(super) fn offer_room(&mut self, id: SocketId) {
        if !self.has_room(id) {
            return;
        }
        let connection = &mut self.connections[id.index()];
        let (list, listed) = match connection.state {
            State::Idle => (&mut self.idle, &mut connection.in_idle),
            _ => (&mut self.roomy, &mut connection.in_roomy),
        };
        if !std::mem::replace(listed, true) {
            list.push_back(id);
        }
    }

    /// Serves the oldest arrival with a connection that has room.
    fn serve_arrival<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        let number = schedule.next_number();
        let TakenArrival { arrival, noticed, measured } = schedule.take(&mut self.figures.trial.intervals);
        if let Some(plan) = &self.user {
            let user = self.users.begin(plan, number, arrival.at);
            self.users[user].notice(noticed);
            return self.begin_user(driver, id, user, measured, now);
        }
        let last = self.plan.calls.is_some_and(|calls| self.connections[id.index()].calls + 1 >= calls);
        let streamed = schedule.arrivals.taken_request();
        let request = streamed.map(|taken| self.requests.adopt(taken.template, taken.target, taken.check));
        let due = Due { intended: arrival.at, noticed, prompt: true };
        self.begin(driver, id, NextCall { due, measured, request, last }, now);
        if self.plan.pipeline > 1 {
            self.offer_room(id);
        }
    }

    /// Puts a request on a connection that has room. If that is still in the making, the request waits there.
    pub(super) fn begin<D: Driver>(&mut self, driver: &mut D, id: SocketId, next: NextCall, now: Instant) {
        let NextCall { due, measured, request, last } = next;
        let request = request.unwrap_or_else(|| self.chooser.choose() as u32);
        let digest = self.requests.check(request).wants_digest().then(|| self.hashers.pop().unwrap_or_default());
        let connection = &mut self.connections[id.index()];
        // At a pace nothing is read before the line has carried what was read last.
        let patient_from = match &self.pacing {
            Some(pacing) => connection.read_at.max(now) + pacing.path_delay(),
            None => due.intended,
        };
        let deadline = patient_from + self.plan.timeout;
        let (ready, late_ns, queue_ns) = connection.waits_until_room(due, now);
        let call = Call {
            intended: due.intended,
            ready,
            late_ns,
            queue_ns,
            deadline,
            sent: Stamp::default(),
            first_byte: Stamp::default(),
            request,
            last,
            measured,
            submitted: false,
            keep_alive: false,
            fields_differ: false,
            status: 0,
            bytes: 0,
            body_bytes: 0,
            digest,
        };
        connection.calls += 1;
        connection.reader.expect(self.requests.kind(request));
        if let State::Busy(_) | State::Connecting = connection.state {
            let waits = matches!(connection.state, State::Connecting);
            let line = connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default());
            line.behind.push_back(call);
            line.unsent += 1;
            if waits {
                self.arm(id, deadline);
            } else if !connection.sending {
                self.submit(driver, id, now);
            }
        } else {
            debug_assert!(!connection.sending, "a connection whose send is stuck is not used again");
            connection.state = State::Busy(call);
            self.busy += 1;
            self.submit_one(driver, id, now);
            self.arm(id, deadline);
        }
    }

    /// Sends what has waited for a connection, which is there now.
    pub(super) fn send_waiting<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let (timeout, paced) = (
            self.pacing.as_ref().map_or(Duration::ZERO, Pacing::path_delay) + self.plan.timeout,
            self.pacing.is_some(),
        );
        let connection = self.connection(id);
        let notice_delay_ns = connection.notice_delay_ns();
        let Some(line) = &mut connection.buffers else { return };
        for call in &mut line.behind {
            call.late_ns += notice_delay_ns.min(now.ns_since(call.ready));
            call.ready = now;
            if paced {
                call.deadline = now + timeout;
            }
        }
        let Some(front) = line.behind.pop_front() else { return };
        let (deadline, alone) = (front.deadline, line.behind.is_empty());
        if alone {
            line.unsent = 0;
        }
        connection.state = State::Busy(front);
        self.busy += 1;
        if alone {
            self.submit_one(driver, id, now);
        } else {
            self.submit(driver, id, now);
        }
        self.arm(id, deadline);
    }

    /// Ends the calls that have waited for a connection, without their having been sent. How many there were.
    pub(super) fn end_waiting(&mut self, id: SocketId, outcome: Outcome, now: Instant) -> u32 {
        let mut ended = 0;
        while let Some(mut call) = self.connection(id).buffers.as_mut().and_then(|line| line.behind.pop_front()) {
            // Its hasher has seen nothing.
            self.hashers.extend(call.digest.take());
            self.account(&call, outcome, now, now);
            ended += 1;
        }
        ended
    }

    /// Gives the driver the call in front, alone.
    fn submit_one<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let in_window = self.is_in_window(now);
        let connection = &mut self.connections[id.index()];
        let State::Busy(call) = &mut connection.state else { unreachable!("the connection has a call") };
        let Some(request) = self.requests.ready(call.request, call.last) else {
            connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default()).unsent = 1;
            return self.submit(driver, id, now);
        };
        call.submitted = true;
        connection.sending = true;
        connection.submitted_at = now;
        if call.measured {
            self.figures.record_sent(request.bytes.len(), request.body_bytes, in_window);
        }
        driver.send(id, SendBuf::Shared(request.bytes.clone()));
    }

    /// Gives the driver all calls of a line that it was not given, in one send.
    fn submit<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let (in_window, latest) = (self.is_in_window(now), driver.sent_at(id));
        let connection = &mut self.connections[id.index()];
        let (State::Busy(front), Some(line)) = (&mut connection.state, &mut connection.buffers) else { return };
        let known = 1 + line.behind.len() - std::mem::take(&mut line.unsent);
        let batch = Rc::get_mut(&mut line.batch).expect("the send before has ended, and with it the driver's share");
        batch.clear();
        for (place, call) in std::iter::once(front).chain(&mut line.behind).enumerate() {
            if place < known {
                // The driver is about to forget when these were sent.
                call.sent.set_once(latest);
                continue;
            }
            let before = batch.len();
            let body_bytes = self.requests.write(call.request, call.last, batch);
            call.submitted = true;
            if call.measured {
                self.figures.record_sent(batch.len() - before, body_bytes, in_window);
            }
        }
        connection.sending = true;
        connection.submitted_at = now;
        driver.send(id, SendBuf::Shared(line.batch.clone()));
    }

    pub(super) fn on_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let connection = self.connection(id);
        connection.sending = false;
        if connection.buffers.as_ref().is_some_and(|line| line.unsent > 0) {
            self.submit(driver, id, driver.now());
        }
    }

    #[inline]
    pub(super) fn on_received<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        self.connections[id.index()].received_at = now;
        if self.pacing.is_some() {
            if self.hold(id, driver.received(), driver.sent_at(id), now) {
                return;
            }
            self.pace(id, driver.received().len(), now);
        }
        self.take_in(driver, id, None, now);
    }

    /// Reads responses in what has come: in `held`, or in what the driver has just received.
    #[inline(always)]
    pub(super) fn take_in<D: Driver>(&mut self, driver: &mut D, id: SocketId, held: Option<&[u8]>, now: Instant) {
        let mut latest = driver.sent_at(id);
        let mut room_made = false;
        let mut input = held.unwrap_or_else(|| driver.received());
        loop {
            let connection = &mut self.connections[id.index()];
            let State::Busy(call) = &mut connection.state else {
                // Nobody has asked: the connection cannot be trusted any more.
                self.figures.unsolicited_bytes += input.len() as u64;
                return self.on_unasked(driver, id, now);
            };
            if !call.submitted || (call.sent.get().is_none() && latest < connection.submitted_at) {
                // The request has not left yet: this cannot be its response.
                self.figures.unsolicited_bytes += input.len() as u64;
                let outcome = outcome_of_response_error(ResponseError::Unsolicited);
                return self.end_call(driver, id, outcome, now);
            }
            call.first_byte.set_once(now);
            if self.pacing.is_some() {
                // The time until the next read is ours, not the server's.
                call.deadline = connection.read_at.max(now) + self.plan.timeout;
            }
            let sampled = self.figures.trial.sample.is_some();
            let check = self.requests.check(call.request);
            let server = if sampled { None } else { Some(&mut self.server) };
            let (measured, trial) = (call.measured, &mut self.figures.trial);
            let on_status = |status| {
                if measured {
                    trial.status_codes.record(status)
                }
            };
            let progress = read_response(&mut connection.reader, call, input, check, server, on_status);
            if measured {
                self.figures.record_received(&progress);
            }
            input = &input[progress.bytes..];
            let outcome = match progress.end {
                None if room_made => {
                    self.offer_room(id);
                    return self.dispatch(driver, now);
                }
                None => return,
                Some(End::Broken(outcome)) => return self.end_call(driver, id, outcome, now),
                Some(End::Whole(_)) => call.judge(check, &mut self.hashers),
            };
            if input.is_empty() {
                return self.end_call(driver, id, outcome, now);
            }
            let another = connection.buffers.as_ref().is_some_and(|line| !line.behind.is_empty());
            if !another {
                // More than was asked for: then what came before it cannot be trusted either.
                self.figures.unsolicited_bytes += input.len() as u64;
                let outcome = outcome_of_response_error(ResponseError::Unsolicited);
                return self.end_call(driver, id, outcome, now);
            }
            if !call.keep_alive || connection.user.is_some() {
                // The end of this call decides about those that the rest is for.
                let rest = input.len();
                self.end_call(driver, id, outcome, now);
                let connection = &self.connections[id.index()];
                if connection.id != id || !connection.is_open() {
                    return;
                }
                let received = held.unwrap_or_else(|| driver.received());
                input = &received[received.len() - rest..];
                latest = driver.sent_at(id);
                continue;
            }
            self.end_front(id, outcome, latest, now);
            room_made = true;
        }
    }

    /// The call in front has ended; the connection goes on with the next one, becomes idle or is closed.
    pub(super) fn end_call<D: Driver>(&mut self, driver: &mut D, id: SocketId, outcome: Outcome, now: Instant) {
        let latest = driver.sent_at(id);
        let (outcome, keep_alive) = self.end_front(id, outcome, latest, now);
        let connection = &self.connections[id.index()];
        let left = connection.under_way();
        let spent = self.plan.calls.is_some_and(|calls| connection.calls >= calls) && left == 0;
        // A response may come before its request is through; the rest of that would be in the way of the next one.
        let stuck = connection.sending && left == 0;
        let usable = outcome.is_completed() && keep_alive && !spent && !stuck;
        if !usable {
            for _ in 0..left {
                self.end_front(id, lost_behind(outcome), latest, now);
            }
        }
        if self.connections[id.index()].user.is_some() {
            let response = match (outcome.is_completed(), usable) {
                (false, _) => CallEnd::Not { lost: left as u32 + 1 },
                (true, true) => CallEnd::Usable,
                (true, false) => CallEnd::Last { lost: left as u32 },
            };
            self.on_user_response(driver, id, response, now);
        } else if usable {
            self.offer_room(id);
        } else {
            self.close(driver, id, now);
        }
        self.dispatch(driver, now);
    }

    /// Takes the call in front off its connection, accounts for it and moves the next one up. How it ended, and whether the connection
    /// can go on.
    fn end_front(&mut self, id: SocketId, outcome: Outcome, latest: Instant, now: Instant) -> (Outcome, bool) {
        let notice_delay_ns = self.notice_delay_ns();
        let connection = &mut self.connections[id.index()];
        let full = connection.under_way() >= self.plan.pipeline as usize;
        let mut next = connection.buffers.as_mut().and_then(|line| line.behind.pop_front());
        if let (Some(next), Some(pacing)) = (next.as_mut(), &self.pacing) {
            // Its response could not come before this one was read, at the pace.
            next.deadline = connection.read_at.max(now) + pacing.path_delay() + self.plan.timeout;
        }
        let state = next.map_or(State::Idle, State::Busy);
        let State::Busy(mut call) = std::mem::replace(&mut connection.state, state) else {
            unreachable!("a call ends on a busy connection")
        };
        if !call.submitted
            && let Some(line) = &mut connection.buffers
        {
            line.unsent -= 1;
        }
        if full {
            connection.make_room(notice_delay_ns, now);
        }
        self.busy -= usize::from(matches!(connection.state, State::Idle));
        // What comes at the deadline or later is too late, also where the wheel has not yet told of it.
        let outcome = if now >= call.deadline { Outcome::Timeout } else { outcome };
        connection.bytes += call.bytes;
        connection.receiving_ns += now.ns_since(call.sent_or(latest).max(connection.responded_at));
        connection.responded_at = now;
        if let Some(mut hasher) = call.digest.take() {
            hasher.reset();
            self.hashers.push(hasher);
        }
        self.requests.release(call.request);
        let keep_alive = call.keep_alive;
        connection.replies += u32::from(outcome.is_completed());
        connection.failed |= !outcome.is_completed();
        self.account(&call, outcome, latest, now);
        if self.user.is_none()
            && let Phase::Running(schedule) = &mut self.phase
        {
            schedule.arrivals.on_end(now);
        }
        (outcome, keep_alive)
    }

    /// The call in front, and with it all behind it, have taken too long.
    pub(super) fn time_out<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        self.end_call(driver, id, Outcome::Timeout, now);
    }

    /// The server has ended its direction: the end of a response without a length, of an idle connection, or a truncation.
    pub(super) fn on_ended<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let connection = &mut self.connections[id.index()];
        let State::Busy(call) = &mut connection.state else { return self.on_unasked(driver, id, now) };
        call.keep_alive = false;
        let outcome = match connection.reader.finish() {
            Ok(bytes) => {
                if call.measured {
                    self.figures.record_whole(bytes.unwrap_or_default());
                }
                call.judge(self.requests.check(call.request), &mut self.hashers)
            }
            Err(error) => outcome_of_response_error(error),
        };
        self.end_call(driver, id, outcome, now);
    }

    /// Something has happened on a connection on which no response is due, so that it is of no more use.
    pub(super) fn on_unasked<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        match self.connections[id.index()].user {
            Some(user) => self.on_user_idle_end(driver, id, user, now),
            None => self.close(driver, id, now),
        }
    }
}

/// What becomes of the calls behind one that has ended so, where the connection ends with it. A response that would have come behind
/// one that was waited for in vain was waited for in vain as well.
fn lost_behind(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Timeout | Outcome::ProtocolError => outcome,
        _ => Outcome::Reset,
    }
}
