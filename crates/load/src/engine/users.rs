//! Users make several calls on connections of their own, each when the response or pause before it
//! is over.
//!
//! A call goes to the first of the user's connections that has room, as httperf has it; if there is
//! none, another one is opened as far as the user may have more. Calls wait on the connection that
//! was opened for them, and fail with it.

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};

use super::state::{CallEnd, Engine, NextCall, Phase};
use crate::connection::{Connection, State};
use crate::protocol::Protocol;
use crate::user::{Ending, Next, UserId};

impl<P: Protocol> Engine<P> {
    /// Begins a user on a connection that has carried nothing yet.
    pub(super) fn begin_user<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        user: UserId,
        measured: bool,
        now: Instant,
    ) {
        self.join_user(id, user);
        let state = &mut self.users[user];
        let due = state.due();
        let request = state.take_call().expect("a user has a call");
        let last = state.is_last_call();
        self.begin(driver, id, NextCall { due, measured, request, last }, now);
    }

    /// Makes a connection one of the user's own.
    pub(super) fn join_user(&mut self, id: SocketId, user: UserId) {
        self.connection(id).user = Some(user);
        let state = &mut self.users[user];
        state.connections.push(id);
        state.opened += 1;
    }

    /// Closes one of the user's connections, which goes on without it.
    pub(super) fn leave_user<D: Driver>(&mut self, driver: &mut D, id: SocketId, user: UserId, now: Instant) {
        self.users[user].connections.retain(|&other| other != id);
        self.close(driver, id, now);
    }

    /// Makes the calls that a user has due, as far as there is room for them.
    pub(super) fn go_on<D: Driver>(&mut self, driver: &mut D, user: UserId, now: Instant) {
        while self.users[user].has_released() {
            let Some(room) = self.room_for(user) else { return self.users[user].keep_waiting() };
            let Phase::Running(schedule) = &mut self.phase else { return };
            let (due, idle) = (self.users[user].due(), self.users[user].under_way() == 0);
            let intended = due.intended;
            if self.pacer.is_none() && intended + self.plan.timeout <= now {
                // The thread was too late to make it.
                return self.fail_next_call(driver, user, Outcome::Timeout, now);
            }
            if schedule.is_drained(now) {
                if idle {
                    self.leave_rest(driver, user, now);
                }
                return;
            }
            if !schedule.offers(intended) {
                if idle {
                    self.end_user(driver, user, Ending::Cut, now);
                }
                return;
            }
            let id = match room {
                Room::On(id) => id,
                Room::Another => match self.open_for_user(driver, user, now) {
                    Ok(id) => id,
                    Err(fault) => {
                        return self.end_for(fault, true, |engine, outcome| {
                            engine.fail_next_call(driver, user, outcome, now);
                        });
                    }
                },
            };
            let Some((measured, request)) = self.offer_next_call(user) else { return };
            let last = self.users[user].is_last_call();
            self.begin(driver, id, NextCall { due, measured, request, last }, now);
        }
    }

    /// The connection for a user's next call.
    fn room_for(&self, user: UserId) -> Option<Room> {
        let state = &self.users[user];
        let roomy = |id: &&SocketId| self.connections[id.index()].is_below_capacity(self.plan.pipeline);
        if let Some(&id) = state.connections.iter().find(roomy) {
            return Some(Room::On(id));
        }
        // A connection that is new may take the call as soon as the server has named its limits.
        let awaits_limits = |id: &SocketId| self.connections[id.index()].protocol.awaits_limits();
        if P::MULTIPLEXED && state.connections.iter().any(awaits_limits) {
            return None;
        }
        // A user that has lost its connections still has the place of one.
        let own = state.connections.len();
        let allowed = own == 0 || self.open + self.paused.len() < self.connections_max;
        (own < state.connections_max() && allowed).then_some(Room::Another)
    }

    /// Takes a user's next call into the load: whether it is measured, and which request it is, if
    /// the user says. `None`: it came due after the end.
    fn offer_next_call(&mut self, user: UserId) -> Option<(bool, Option<u32>)> {
        let Phase::Running(schedule) = &mut self.phase else { return None };
        let state = &mut self.users[user];
        let measured = schedule.follow_up(state.due().intended, &mut self.figures.trial.intervals)?;
        Some((measured, state.take_call()?))
    }

    /// A connection of the user is there, with calls that wait for it.
    pub(super) fn on_user_connected<D: Driver>(&mut self, driver: &mut D, id: SocketId, user: UserId, now: Instant) {
        let late = |deadline| self.pacer.is_none() && deadline <= now;
        let too_late =
            self.connections[id.index()].calls.first().is_some_and(|oldest| late(self.calls[oldest].deadline));
        if too_late {
            let lost = self.end_waiting(id, Outcome::Timeout, now);
            self.users[user].on_lost(lost);
            self.leave_user(driver, id, user, now);
            return self.stop_user(driver, user, Ending::Failed, now);
        }
        if matches!(&self.phase, Phase::Running(schedule) if schedule.is_drained(now)) {
            return self.hold_back_waiting(driver, id, user, now);
        }
        self.send_waiting(driver, id, now);
    }

    /// A call of the user has ended on that connection.
    pub(super) fn on_user_response<D: Driver>(&mut self, driver: &mut D, id: SocketId, end: CallEnd, now: Instant) {
        let Some(user) = self.connections[id.index()].user else { return };
        let state = &mut self.users[user];
        let (next, lost) = match end {
            CallEnd::Failed { lost } => (Next::GoOn, lost),
            CallEnd::Usable => (state.on_response(now), 0),
            CallEnd::Last { lost } => (state.on_response(now), lost),
        };
        state.on_lost(lost);
        let ends_there = end != CallEnd::Usable && !state.reconnects();
        if end != CallEnd::Usable {
            self.leave_user(driver, id, user, now);
        }
        if lost > 0 || self.users[user].stopped().is_some() {
            let ending = if lost > 0 { Ending::Failed } else { Ending::Cut };
            return self.stop_user(driver, user, ending, now);
        }
        match next {
            Next::Done => self.end_user(driver, user, Ending::Completed, now),
            _ if ends_there => self.end_user(driver, user, Ending::Completed, now),
            Next::GoOn => self.go_on(driver, user, now),
            Next::Think(until) => self.pause(user, until),
        }
    }

    /// Begins a user's pause. The first of its connections, which is idle then, keeps its time.
    fn pause(&mut self, user: UserId, until: Instant) {
        match self.users[user].connections.first() {
            Some(&id) => {
                let connection = self.connection(id);
                debug_assert!(matches!(connection.state, State::Idle), "nothing is under way in a pause");
                connection.state = State::Thinking { until };
                self.arm(id, until);
            }
            None => self.paused.push(until, user),
        }
    }

    /// A pause is over.
    pub(super) fn wake_user<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = self.connection(id);
        connection.state = State::Idle;
        let (user, is_stale) = (connection.user.expect("only users pause"), connection.is_stale(now));
        if is_stale && self.users[user].reconnects() {
            self.leave_user(driver, id, user, now);
        }
        self.users[user].notice(now);
        self.go_on(driver, user, now);
    }

    /// One of a user's connections is of no more use, and there was nothing under way on it.
    pub(super) fn on_user_idle_end<D: Driver>(&mut self, driver: &mut D, id: SocketId, user: UserId, now: Instant) {
        let pause = if let State::Thinking { until } = self.connection(id).state { Some(until) } else { None };
        self.leave_user(driver, id, user, now);
        if let Some(until) = pause {
            self.pause(user, until);
        }
    }

    /// Resumes the users without a connection whose pause is over.
    pub(super) fn resume_paused<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(user) = self.paused.pop_due(now) {
            self.users[user].notice(now);
            self.go_on(driver, user, now);
        }
    }

    /// Stops a user whose next call, which is part of the load, cannot be made.
    fn fail_next_call<D: Driver>(&mut self, driver: &mut D, user: UserId, outcome: Outcome, now: Instant) {
        let due = self.users[user].due();
        let offered = self.offer_next_call(user);
        if let Some((measured, _)) = offered {
            self.users[user].on_lost(1);
            if measured {
                self.record_unsent(due, outcome, now);
            }
        }
        let ending = if offered.is_some() { Ending::Failed } else { Ending::Cut };
        self.stop_user(driver, user, ending, now);
    }

    /// Stops a user: it makes no more calls. Calls under way on its other connections go on to
    /// their own ends, since their outcomes could not be known otherwise.
    pub(super) fn stop_user<D: Driver>(&mut self, driver: &mut D, user: UserId, ending: Ending, now: Instant) {
        let state = &mut self.users[user];
        state.stop(ending);
        if state.under_way() == 0 {
            let ending = state.stopped().unwrap_or(ending);
            self.end_user(driver, user, ending, now);
        }
    }

    /// Ends the calls that wait on a connection, which has come after the last moment for sending
    /// them.
    fn hold_back_waiting<D: Driver>(&mut self, driver: &mut D, id: SocketId, user: UserId, now: Instant) {
        let (mut lost, mut measured) = (0, 0);
        let connection = &mut self.connections[id.index()];
        while let Some(oldest) = connection.calls.first() {
            let call = self.calls.remove(&mut connection.calls, oldest);
            self.hashers.extend(call.digest.take());
            lost += 1;
            measured += u64::from(call.measured);
        }
        self.record_held_back(measured);
        self.users[user].on_lost(lost);
        self.leave_user(driver, id, user, now);
        if self.users[user].under_way() == 0 {
            self.leave_rest(driver, user, now);
        } else {
            self.users[user].stop(Ending::Cut);
        }
    }

    /// Ends a user whose calls that are due may not be sent any more. They have waited for the
    /// target.
    fn leave_rest<D: Driver>(&mut self, driver: &mut D, user: UserId, now: Instant) {
        while self.users[user].has_released()
            && let Some((measured, _)) = self.offer_next_call(user)
        {
            self.users[user].on_lost(1);
            self.record_held_back(u64::from(measured));
        }
        self.end_user(driver, user, Ending::Cut, now);
    }

    /// Whether an arrival or call that comes due then is still part of the load.
    fn offers(&self, due: Instant) -> bool {
        matches!(&self.phase, Phase::Running(schedule) if schedule.offers(due))
    }

    /// Makes the calls that came due before the end of the schedule in pauses of which the timer
    /// has not fired yet. Returns whether there are some.
    pub(super) fn wake_last<D: Driver>(&mut self, driver: &mut D, now: Instant) -> bool {
        if self.plan.cuts_at_end() {
            return false;
        }
        let due =
            |connection: &Connection<P>| matches!(connection.state, State::Thinking { until } if self.offers(until));
        let paused: Vec<SocketId> =
            self.connections.iter().filter(|connection| due(connection)).map(|connection| connection.id).collect();
        paused.iter().for_each(|&id| self.wake_user(driver, id, now));
        !paused.is_empty()
    }

    fn end_user<D: Driver>(&mut self, driver: &mut D, user: UserId, ending: Ending, now: Instant) {
        debug_assert!(self.users[user].under_way() == 0, "no call is closed away");
        while let Some(id) = self.users[user].connections.pop() {
            self.close(driver, id, now);
        }
        self.count_user(user, ending, now);
    }

    /// Counts a user that is over.
    pub(super) fn count_user(&mut self, user: UserId, ending: Ending, now: Instant) {
        self.users.end(user);
        let user = &self.users[user];
        let Phase::Running(schedule) = &mut self.phase else { return };
        schedule.arrivals.on_end(now);
        if user.began < schedule.start {
            return;
        }
        if ending != Ending::Cut {
            self.figures.calls_not_offered += user.calls_left();
        }
        let Some(sessions) = &mut self.figures.trial.sessions else { return };
        let (time_ns, calls) = (now.ns_since(user.began), u64::from(user.ended()));
        match ending {
            Ending::Completed => {
                sessions.record_completed(time_ns, calls, u64::from(user.opened));
                self.figures.trial.intervals.record_session();
            }
            Ending::Failed => sessions.record_failed(time_ns, calls, user.calls_left()),
            Ending::Cut => {}
        }
    }
}

/// A connection with room for a call of a user.
enum Room {
    On(SocketId),
    /// On a connection that is to be opened.
    Another,
}
