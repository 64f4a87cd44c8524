//! Requests that are sent later, or once more: those that the server says it has not processed (RFC
//! 9113, 8.7), those that their connection has never sent, and those that follow a redirect.
//!
//! Such a call waits for a connection with room, ahead of new arrivals. It stays the request that
//! it was: due when it was due, in time or not by that, and accounted for once. The time of earlier
//! attempts is the server's.

use sha2::Digest;
use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};

use super::state::{CallEnd, Engine, Phase};
use crate::call::{Due, Stamp};
use crate::connection::State;
use crate::protocol::{Protocol, StreamId};

impl<P: Protocol> Engine<P> {
    /// Whether a call that has ended so is made again: one that the server has refused as often as
    /// the plan says, one that was not even sent always. A user's calls are not, since they build
    /// on one another and on its connections.
    #[inline]
    pub(super) fn is_retried(&self, id: SocketId, stream: StreamId, outcome: Outcome, now: Instant) -> bool {
        let call = &self.calls[stream];
        P::MULTIPLEXED
            && outcome == Outcome::NotProcessed
            && (!call.submitted || call.retries < self.plan.retries)
            && call.deadline > now
            && self.connections[id.index()].user.is_none()
    }

    /// Whether a call waits to be sent on a connection from which it can be taken back.
    #[inline]
    pub(super) fn is_queued(&self, id: SocketId, stream: StreamId) -> bool {
        P::MULTIPLEXED && !self.calls[stream].submitted && self.connections[id.index()].user.is_none()
    }

    /// Takes a call off its connection, to make it again. The connection goes on without it.
    pub(super) fn put_back<D: Driver>(&mut self, driver: &mut D, id: SocketId, stream: StreamId, now: Instant) {
        self.take_back(id, stream, driver.sent_at(id), now);
        let connection = &mut self.connections[id.index()];
        if connection.calls.is_empty() && connection.protocol.is_ending() {
            self.close(driver, id, now);
        } else {
            self.offer_room(id);
        }
    }

    /// Takes all calls off a connection, which has sent none of them and is over.
    pub(super) fn unqueue_all(&mut self, id: SocketId, now: Instant) {
        while let Some(oldest) = self.connections[id.index()].calls.first() {
            self.take_back(id, oldest, now, now);
        }
        self.connections[id.index()].buffers.iter_mut().for_each(|buffers| buffers.unsent = 0);
    }

    /// Whether a call was sent on a connection that the server had kept open after a response, and
    /// that it has closed instead of a byte of the next one.
    #[inline]
    pub(super) fn met_close(&self, id: SocketId, stream: StreamId) -> bool {
        let connection = &self.connections[id.index()];
        connection.replies > 0 && self.calls[stream].submitted && connection.protocol.is_idle()
    }

    /// Ends all calls of a connection that the server has closed while it was idle, as far as it
    /// knew. Those that may be sent again are put back, as often as the plan says.
    #[cold]
    #[inline(never)]
    pub(super) fn end_closed<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let latest = driver.sent_at(id);
        let is_users = self.connections[id.index()].user.is_some();
        let mut ended = 0;
        while let Some(oldest) = self.connections[id.index()].calls.first() {
            let call = &self.calls[oldest];
            self.figures.trial.connections.met_close += u64::from(call.measured && call.submitted);
            let is_again = call.retries < self.plan.retries_idle
                && call.deadline > now
                && !is_users
                && self.requests.is_idempotent(call.request);
            if is_again {
                self.take_back(id, oldest, latest, now);
            } else {
                self.end_one(id, oldest, Outcome::Reset, latest, now);
                ended += 1;
            }
        }
        self.connections[id.index()].buffers.iter_mut().for_each(|buffers| buffers.unsent = 0);
        if is_users {
            self.on_user_response(driver, id, CallEnd::Failed { lost: ended }, now);
        } else {
            self.close(driver, id, now);
        }
        self.dispatch(driver, now);
    }

    /// Takes a call off its connection, whose latest send was begun then.
    fn take_back(&mut self, id: SocketId, stream: StreamId, latest: Instant, now: Instant) {
        let notice_delay_ns = self.notice_delay_ns();
        let connection = &mut self.connections[id.index()];
        if !connection.is_below_capacity(self.plan.pipeline) {
            connection.make_room(notice_delay_ns, now);
        }
        self.calls.transfer(&mut connection.calls, &mut self.put_back, stream);
        let call = &mut self.calls[stream];
        if call.submitted {
            call.late_ns += call.sent_or(latest).ns_since(call.ready);
            call.ready = now;
        }
        connection.bytes += call.bytes;
        (call.sent, call.first_byte, call.bytes, call.body_bytes) = (Stamp::default(), Stamp::default(), 0, 0);
        (call.keep_alive, call.fields_differ, call.status) = (false, false, 0);
        call.redirected = false;
        if let Some(hasher) = &mut call.digest {
            hasher.reset();
        }
        if connection.calls.is_empty() {
            connection.state = State::Idle;
            self.busy -= 1;
        }
    }

    /// Makes the calls that were put back, as long as connections have room. Returns whether all of
    /// them have found some.
    pub(super) fn make_again<D: Driver>(&mut self, driver: &mut D, now: Instant) -> bool {
        while let Some(stream) = self.put_back.first() {
            if self.calls[stream].deadline <= now {
                self.end_put_back(Outcome::Timeout, now);
            } else if let Some(id) = self.take_room(driver, now) {
                self.begin_again(driver, id, stream, now);
            } else {
                self.open_for_waiting(driver, now);
                return false;
            }
        }
        true
    }

    /// Makes a call on a connection with room. If that has timers of its own for calls that
    /// came later, the call may be found to have timed out when the first of these fires.
    pub(super) fn begin_again<D: Driver>(&mut self, driver: &mut D, id: SocketId, stream: StreamId, now: Instant) {
        let connection = &mut self.connections[id.index()];
        self.calls.transfer(&mut self.put_back, &mut connection.calls, stream);
        let call = &mut self.calls[stream];
        if call.submitted {
            call.submitted = false;
            call.retries += 1;
            if P::MULTIPLEXED {
                self.figures.trial.streams.get_or_insert_default().retried += 1;
            } else {
                self.figures.trial.connections.sent_again += u64::from(call.measured);
            }
        }
        let due = Due { intended: call.ready, noticed: call.ready, prompt: true };
        let (ready, late_ns, queue_ns) = connection.waits_until_room(due, now);
        call.ready = ready;
        (call.late_ns, call.queue_ns) = (call.late_ns + late_ns, call.queue_ns + queue_ns);
        connection.begun += 1;
        call.peer = connection.peer;
        call.last = self.plan.calls.is_some_and(|calls| connection.begun >= calls);
        let kind = match (&self.follower, call.followed()) {
            (Some(follower), Some(hop)) => follower.kind(hop),
            _ => self.requests.kind(call.request),
        };
        connection.protocol.begin(stream, kind);
        if matches!(connection.state, State::Idle) {
            connection.state = State::Busy;
            self.busy += 1;
        }
        connection.buffers.get_or_insert_with(|| self.spare_buffers.pop().unwrap_or_default()).unsent += 1;
        let (deadline, is_sending) = (call.deadline, connection.sending);
        if !is_sending {
            self.submit_soon(driver, id, now);
        }
        self.arm(id, deadline);
        self.offer_room(id);
    }

    /// Ends the calls that were put back, since it is too late to send them.
    pub(super) fn end_put_back_late(&mut self, now: Instant) {
        while let Some(oldest) = self.put_back.first() {
            let call = &self.calls[oldest];
            let outcome = match (call.hops, call.submitted) {
                (0, false) => Outcome::NotSent,
                (0, true) if P::MULTIPLEXED => Outcome::NotProcessed,
                (0, true) => Outcome::Reset,
                // The request ends with the redirect itself.
                _ => Outcome::BadStatus,
            };
            self.end_put_back(outcome, now);
        }
    }

    /// Ends the oldest call that was put back. Returns whether there was one.
    pub(super) fn end_put_back(&mut self, outcome: Outcome, now: Instant) -> bool {
        let Some(stream) = self.put_back.first() else { return false };
        let call = self.calls.remove(&mut self.put_back, stream);
        call.sent.set_once(call.ready);
        call.queue_ns += now.ns_since(call.ready);
        self.hashers.extend(call.digest.take());
        self.release_request(stream);
        self.account(stream, outcome, now, now);
        if let Phase::Running(schedule) = &mut self.phase {
            schedule.arrivals.on_end(now);
        }
        true
    }
}
