//! A request's life on a connection: from the schedule to the driver, and from the received bytes
//! to its outcome.

use sha2::Digest;
use thalweg_measure::Outcome;
use thalweg_measure::trial::RuleOf;
use thalweg_sys::{Driver, Instant, SocketId};

use super::peer::record_violation;
use super::responses::CallResponses;
use super::state::{CallEnd, Engine, NextCall, Phase};
use crate::call::{Call, Due, Stamp};
use crate::connection::State;
use crate::plan::Reuse;
use crate::protocol::{End, Protocol, StreamId};
use crate::schedule::TakenArrival;
use crate::transport::Transport;

/// The end of a call on a connection.
pub(super) struct Ended {
    outcome: Outcome,
    /// The connection can go on after it.
    keep_alive: bool,
    /// The call follows a redirect: it is among those that are to be made again.
    follows: bool,
}

impl<P: Protocol> Engine<P> {
    /// Gives every arrival that is due a connection, as long as there are some, and ends those
    /// whose time is over.
    pub(super) fn dispatch<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let timeout_ns = self.timeout_ns();
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.look(now, self.overslept_ns);
        }
        if !self.put_back.is_empty() && !self.make_again(driver, now) {
            return;
        }
        while let Phase::Running(schedule) = &self.phase
            && let Some(intended) = schedule.waiting_since(now)
        {
            if intended.plus_ns(timeout_ns) <= now {
                self.give_up(Outcome::Timeout, now);
            } else if schedule.is_drained(now) {
                return;
            } else if let Some(id) = self.take_room(driver, now) {
                self.serve_arrival(driver, id, now);
            } else {
                return self.open_for_waiting(driver, now);
            }
        }
    }

    /// A connection with room for a call: an idle one, or one with fewer calls under way than may
    /// be pipelined.
    pub(super) fn take_room<D: Driver>(&mut self, driver: &mut D, now: Instant) -> Option<SocketId> {
        while let Some(id) = match self.plan.reuse {
            Reuse::Oldest => self.idle.pop_front(),
            Reuse::Latest => self.idle.pop_back(),
        } {
            let connection = &mut self.connections[id.index()];
            if connection.id == id {
                connection.in_idle = false;
                if matches!(connection.state, State::Idle) && connection.has_capacity(self.plan.pipeline) {
                    if !connection.is_stale(now) {
                        return Some(id);
                    }
                    self.close(driver, id, now);
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
        let calls_left = self.plan.calls.is_none_or(|calls| connection.begun < calls);
        match connection.state {
            State::Idle => connection.has_capacity(self.plan.pipeline),
            State::Busy => calls_left && connection.is_below_capacity(self.plan.pipeline),
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
        let last = self.plan.calls.is_some_and(|calls| self.connections[id.index()].begun + 1 >= calls);
        let streamed = schedule.arrivals.taken_request();
        let request = streamed.map(|taken| self.requests.adopt(taken.template, taken.target, taken.check));
        let due = Due { intended: arrival.at, noticed, prompt: true };
        self.begin(driver, id, NextCall { due, measured, request, last }, now);
        if self.connections[id.index()].protocol.capacity(self.plan.pipeline) > 1 {
            self.offer_room(id);
        }
    }

    /// Begins a call on a connection that has room. If that is not established yet, the call waits
    /// there.
    pub(super) fn begin<D: Driver>(&mut self, driver: &mut D, id: SocketId, next: NextCall, now: Instant) {
        let NextCall { due, measured, request, last } = next;
        let request = request.unwrap_or_else(|| self.chooser.choose() as u32);
        let digest = self.requests.check(request).wants_digest().then(|| self.hashers.pop().unwrap_or_default());
        let connection = &mut self.connections[id.index()];
        // At a pace nothing is read before the line has carried what was read last.
        let patient_from = match &self.pacer {
            Some(pacer) => connection.read_at.max(now) + pacer.path_delay(),
            None => due.intended,
        };
        let deadline = patient_from + self.plan.timeout;
        let (ready, late_ns, queue_ns) = connection.waits_until_room(due, now);
        let call = Call {
            previous: None,
            next: None,
            intended: due.intended,
            ready,
            late_ns,
            queue_ns,
            deadline,
            sent: Stamp::default(),
            first_byte: Stamp::default(),
            request,
            retries: 0,
            peer: connection.peer,
            hops: 0,
            redirected: false,
            hop: None,
            first_sent: Stamp::default(),
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
        let stream = self.calls.push(&mut connection.calls, call);
        connection.begun += 1;
        connection.protocol.begin(stream, self.requests.kind(request));
        match connection.state {
            State::Busy | State::Connecting => {
                let waits = matches!(connection.state, State::Connecting);
                connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default()).unsent += 1;
                if waits {
                    self.arm(id, deadline);
                } else if !connection.sending {
                    self.submit_soon(driver, id, now);
                }
            }
            State::Idle | State::Thinking { .. } | State::Closed => {
                connection.state = State::Busy;
                self.busy += 1;
                self.submit_first(driver, id, stream, now);
                self.arm(id, deadline);
            }
        }
    }

    /// Sends the calls that have waited for a connection to be established.
    pub(super) fn send_waiting<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let paced_deadline = self.paced_deadline(now);
        let connection = &mut self.connections[id.index()];
        let notice_delay_ns = connection.notice_delay_ns();
        let Some(oldest) = connection.calls.first() else { return };
        let mut waiting = Some(oldest);
        while let Some(stream) = waiting {
            let call = &mut self.calls[stream];
            call.late_ns += notice_delay_ns.min(now.ns_since(call.ready));
            call.ready = now;
            call.deadline = paced_deadline.unwrap_or(call.deadline);
            waiting = call.next;
        }
        connection.state = State::Busy;
        self.busy += 1;
        let deadline = self.calls[oldest].deadline;
        if connection.calls.len() == 1 {
            connection.buffers.iter_mut().for_each(|buffers| buffers.unsent = 0);
            self.submit_first(driver, id, oldest, now);
        } else {
            self.submit(driver, id, now);
        }
        self.arm(id, deadline);
    }

    /// Ends the calls that have waited for a connection, without their having been sent. Returns
    /// how many there were.
    pub(super) fn end_waiting(&mut self, id: SocketId, outcome: Outcome, now: Instant) -> u32 {
        let mut ended = 0;
        while let Some(oldest) = self.connection(id).calls.first() {
            let connection = &mut self.connections[id.index()];
            let call = self.calls.remove(&mut connection.calls, oldest);
            // Its hasher has seen nothing.
            self.hashers.extend(call.digest.take());
            self.account(oldest, outcome, now, now);
            ended += 1;
        }
        ended
    }

    #[inline]
    pub(super) fn on_received<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let connection = &mut self.connections[id.index()];
        connection.received_at = now;
        match connection.transport {
            Transport::Plain => self.on_opened(driver, id, None, now),
            Transport::Tls(_) => self.on_records(driver, id, now),
            Transport::Tunnel(_) => self.on_tunnel_received(driver, id, now),
        }
    }

    /// Takes bytes of the protocol: those in `opened`, or what the driver has just received.
    #[inline(always)]
    pub(super) fn on_opened<D: Driver>(&mut self, driver: &mut D, id: SocketId, opened: Option<&[u8]>, now: Instant) {
        if self.pacer.is_some() {
            let bytes = opened.unwrap_or_else(|| driver.received());
            let received = driver.received().len();
            if self.hold(id, bytes, received, driver.sent_at(id), now) {
                return;
            }
            self.pace(id, received, now);
        }
        self.take_in(driver, id, opened, now);
        if P::MULTIPLEXED {
            self.send_output(driver, id, now);
        }
    }

    /// Reads responses in `opened`, or in what the driver has just received.
    #[inline(always)]
    pub(super) fn take_in<D: Driver>(&mut self, driver: &mut D, id: SocketId, opened: Option<&[u8]>, now: Instant) {
        let mut latest = driver.sent_at(id);
        let mut room_made = false;
        let mut input = opened.unwrap_or_else(|| driver.received());
        loop {
            let connection = &mut self.connections[id.index()];
            let oldest = connection.calls.first();
            if !P::MULTIPLEXED {
                let Some(oldest) = oldest else {
                    // No response is due: the connection cannot be trusted any more.
                    self.figures.unsolicited_bytes += input.len() as u64;
                    return self.on_idle_end(driver, id, now);
                };
                if !self.calls[oldest].has_left(latest, connection.submitted_at) {
                    // The request has not left yet: this cannot be its response.
                    self.figures.unsolicited_bytes += input.len() as u64;
                    self.note_protocol_error("a response before its request was sent", RuleOf::Protocol, input);
                    return self.end_call(driver, id, oldest, Outcome::ProtocolError, now);
                }
            }
            let sampled = self.figures.trial.sample.is_some();
            let mut responses = CallResponses {
                calls: &mut self.calls,
                requests: &self.requests,
                trial: &mut self.figures.trial,
                follower: self.follower.as_deref_mut(),
                server: if sampled { None } else { Some(&mut self.server) },
            };
            let step = connection.protocol.read(oldest, self.requests.encoder(), input, &mut responses);
            let is_over = input.len() == step.consumed && !(P::MULTIPLEXED && connection.protocol.has_ended_calls());
            let read = input;
            input = &input[step.consumed..];
            let Some(stream) = step.stream else {
                if P::MULTIPLEXED && connection.protocol.takes_note_of_limits() {
                    let rest = input.len();
                    self.on_limits(driver, id, now);
                    let received = opened.unwrap_or_else(|| driver.received());
                    input = &received[received.len() - rest..];
                }
                match step.end {
                    Some(End::Broken(outcome) | End::Reset(outcome)) => {
                        return self.break_connection(driver, id, outcome, now);
                    }
                    Some(End::Violated { .. }) => {
                        self.note_violation(id, &[]);
                        return self.break_connection(driver, id, Outcome::ProtocolError, now);
                    }
                    _ if is_over => return,
                    _ => continue,
                }
            };
            if self.pacer.is_some() {
                // The time until the next read is ours, not the server's; and while another stream
                // takes the line, the oldest one waits for that.
                let deadline = connection.read_at.max(now) + self.plan.timeout;
                let waiting = oldest.filter(|_| P::MULTIPLEXED);
                [Some(stream), waiting].into_iter().flatten().for_each(|one| self.calls[one].deadline = deadline);
            }
            let call = &mut self.calls[stream];
            call.first_byte.set_once(now);
            call.bytes += step.consumed as u64;
            call.body_bytes += step.content_bytes;
            if call.measured {
                self.figures.record_received(&step);
            }
            let outcome = match step.end {
                None if P::MULTIPLEXED && !is_over => continue,
                None if room_made => {
                    self.offer_room(id);
                    return self.dispatch(driver, now);
                }
                None => return,
                Some(End::Broken(outcome)) => return self.end_call(driver, id, stream, outcome, now),
                Some(End::Violated { at }) => {
                    self.note_violation(id, &read[at..]);
                    return self.end_call(driver, id, stream, Outcome::ProtocolError, now);
                }
                Some(End::Reset(outcome)) => {
                    if P::MULTIPLEXED && outcome == Outcome::ProtocolError {
                        record_violation(&mut connection.protocol, &mut self.figures.trial, &[]);
                    }
                    outcome
                }
                Some(End::Whole(_)) => call.judge(self.requests.check(call.request), &mut self.hashers),
            };
            if is_over {
                return self.end_stream(driver, id, stream, outcome, P::MULTIPLEXED, now);
            }
            if !P::MULTIPLEXED && connection.calls.len() == 1 {
                // There is more than the response: then the response cannot be trusted either.
                self.figures.unsolicited_bytes += input.len() as u64;
                if self.plan.is_lenient {
                    call.keep_alive = false;
                    return self.end_call(driver, id, stream, outcome, now);
                }
                self.note_protocol_error("bytes behind the end of the response", RuleOf::Strictness, input);
                return self.end_call(driver, id, stream, Outcome::ProtocolError, now);
            }
            if P::MULTIPLEXED || !call.keep_alive || connection.user.is_some() {
                // The end of this call decides about those that the rest is for.
                let rest = input.len();
                self.end_stream(driver, id, stream, outcome, P::MULTIPLEXED, now);
                if !self.is_live(id) {
                    return;
                }
                let received = opened.unwrap_or_else(|| driver.received());
                input = &received[received.len() - rest..];
                latest = driver.sent_at(id);
                continue;
            }
            self.end_one(id, stream, outcome, latest, now);
            room_made = true;
        }
    }

    /// Ends a call. Its connection goes on if the response allows it, and is closed otherwise, with
    /// all calls on it.
    pub(super) fn end_call<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        stream: StreamId,
        outcome: Outcome,
        now: Instant,
    ) {
        self.end_stream(driver, id, stream, outcome, false, now);
    }

    /// The same. If the connection `survives` a call without a good end, it goes on then as well,
    /// unless it is a user's, whose calls build on one another; and a call that was refused may be
    /// made again.
    fn end_stream<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        stream: StreamId,
        outcome: Outcome,
        survives: bool,
        now: Instant,
    ) {
        let is_queued = self.is_queued(id, stream) && outcome != Outcome::Timeout;
        if survives && self.is_retried(id, stream, outcome, now) {
            self.put_back(driver, id, stream, now);
            return self.dispatch(driver, now);
        } else if is_queued {
            // The connection was lost before it had sent any of its calls.
            self.unqueue_all(id, now);
            self.close(driver, id, now);
            return self.dispatch(driver, now);
        }
        if outcome == Outcome::Reset && self.met_close(id, stream) {
            return self.end_closed(driver, id, now);
        }
        let latest = driver.sent_at(id);
        let Ended { outcome, keep_alive, follows } = self.end_one(id, stream, outcome, latest, now);
        let connection = &self.connections[id.index()];
        let left = connection.calls.len();
        let is_last = self.plan.calls.is_some_and(|calls| connection.begun >= calls);
        let spent = (is_last || connection.protocol.is_ending()) && left == 0;
        // A response may come before its request is through; the rest of that would be in the way
        // of the next one.
        let stuck = !P::MULTIPLEXED && connection.sending && left == 0;
        let goes_on = (outcome.is_completed() && keep_alive) || (survives && connection.user.is_none());
        let usable = goes_on && !spent && !stuck;
        if !usable {
            while let Some(oldest) = self.connections[id.index()].calls.first() {
                if self.is_queued(id, oldest) {
                    self.unqueue_all(id, now);
                } else {
                    self.end_one(id, oldest, lost_behind(outcome), latest, now);
                }
            }
        }
        if self.connections[id.index()].user.is_some() {
            let end = match (outcome.is_completed(), usable) {
                (false, _) => CallEnd::Failed { lost: left as u32 + 1 },
                (true, true) => CallEnd::Usable,
                (true, false) => CallEnd::Last { lost: left as u32 },
            };
            self.on_user_response(driver, id, end, now);
        } else if usable && follows && self.has_room(id) {
            self.begin_again(driver, id, stream, now);
        } else if usable {
            self.offer_room(id);
        } else {
            self.close(driver, id, now);
        }
        self.dispatch(driver, now);
    }

    /// Takes a call off its connection and accounts for it, unless it follows a redirect.
    pub(super) fn end_one(
        &mut self,
        id: SocketId,
        stream: StreamId,
        outcome: Outcome,
        latest: Instant,
        now: Instant,
    ) -> Ended {
        let notice_delay_ns = self.notice_delay_ns();
        let connection = &mut self.connections[id.index()];
        debug_assert!(matches!(connection.state, State::Busy), "a call ends on a busy connection");
        let full = !connection.is_below_capacity(self.plan.pipeline);
        let call = &mut self.calls[stream];
        if !call.submitted
            && let Some(buffers) = &mut connection.buffers
        {
            buffers.unsent -= 1;
        }
        if full {
            connection.make_room(notice_delay_ns, now);
        }
        // A response at the deadline or later is too late, also where the wheel has not fired yet.
        let outcome = if now >= call.deadline { Outcome::Timeout } else { outcome };
        connection.bytes += call.bytes;
        connection.receiving_ns += now.ns_since(call.sent_or(latest).max(connection.responded_at));
        connection.responded_at = now;
        if let Some(mut hasher) = call.digest.take() {
            hasher.reset();
            self.hashers.push(hasher);
        }
        let keep_alive = call.keep_alive;
        let follows = call.redirected && outcome == Outcome::BadStatus;
        if follows {
            self.calls.transfer(&mut connection.calls, &mut self.put_back, stream);
        } else {
            self.calls.remove(&mut connection.calls, stream);
        }
        connection.replies += u32::from(outcome.is_completed());
        connection.failed |= !outcome.is_completed();
        match connection.calls.first() {
            None => {
                connection.state = State::Idle;
                self.busy -= 1;
            }
            Some(oldest) => {
                if let Some(pacer) = &self.pacer {
                    // Its response could not come before this one was read, at the pace.
                    let from = connection.read_at.max(now) + pacer.path_delay();
                    self.calls[oldest].deadline = from + self.plan.timeout;
                }
            }
        }
        if follows {
            self.follow(stream, latest, now);
            return Ended { outcome, keep_alive, follows };
        }
        self.release_request(stream);
        self.account(stream, outcome, latest, now);
        if self.user.is_none()
            && let Phase::Running(schedule) = &mut self.phase
        {
            schedule.arrivals.on_end(now);
        }
        Ended { outcome, keep_alive, follows }
    }

    /// The oldest call of a connection has taken too long: it ends, and with it all others unless
    /// the protocol can give it up alone.
    pub(super) fn time_out<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = &mut self.connections[id.index()];
        let Some(oldest) = connection.calls.first() else { return };
        let survives = connection.protocol.cancel(oldest);
        self.end_stream(driver, id, oldest, Outcome::Timeout, survives, now);
        let connection = &self.connections[id.index()];
        if survives && connection.id == id && connection.is_open() {
            let deadline = connection.deadline(&self.calls, self.timeout_ns());
            deadline.into_iter().for_each(|at| self.arm(id, at));
            self.send_output(driver, id, now);
        }
    }

    /// The connection is of no more use: all its calls end so.
    pub(super) fn break_connection<D: Driver>(&mut self, driver: &mut D, id: SocketId, outcome: Outcome, now: Instant) {
        match self.connections[id.index()].calls.first() {
            Some(oldest) => self.end_call(driver, id, oldest, outcome, now),
            None => self.on_idle_end(driver, id, now),
        }
    }

    /// The server has ended its direction: the end of a response without a length, of an idle
    /// connection, or a truncation.
    pub(super) fn on_ended<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        let connection = &mut self.connections[id.index()];
        if matches!(connection.state, State::Connecting) {
            return self.on_handshake_ended(driver, id, now);
        }
        let Some(oldest) = connection.calls.first() else { return self.on_idle_end(driver, id, now) };
        let call = &mut self.calls[oldest];
        call.keep_alive = false;
        let outcome = match connection.protocol.finish() {
            Ok(_) if connection.transport.is_cut_by_end() => Outcome::Truncated,
            Ok(bytes) => {
                if call.measured {
                    self.figures.record_whole(bytes);
                }
                call.judge(self.requests.check(call.request), &mut self.hashers)
            }
            Err(outcome) => outcome,
        };
        self.end_call(driver, id, oldest, outcome, now);
    }

    /// Ends a connection on which something has happened while no response was due: it is of no
    /// more use.
    pub(super) fn on_idle_end<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        match self.connections[id.index()].user {
            Some(user) => self.on_user_idle_end(driver, id, user, now),
            None => self.close(driver, id, now),
        }
    }
}

/// The outcome of the calls that are lost with a connection on which a call has ended so. Behind a
/// response that was waited for in vain the others were waited for in vain as well.
fn lost_behind(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Timeout | Outcome::ProtocolError => outcome,
        _ => Outcome::Reset,
    }
}
