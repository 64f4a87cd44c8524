//! Playing visits: several calls on connections of their own, each after what it waits for.
//!
//! A call goes to the first of the visit's connections that has room, as httperf has it; if there is none, another one is opened as far as
//! the visit may have more. Calls wait on the connection that was opened for them, and fail with it.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};

use super::calls::NextCall;
use super::{Engine, Phase};
use crate::connection::{Connection, State};
use crate::visit::{Ending, Next, VisitId};

/// Visits that pause without a connection: the server has closed theirs.
#[derive(Default)]
pub(super) struct Parked {
    visits: BinaryHeap<Reverse<ParkedVisit>>,
    count: u64,
}

/// Ordered by when it goes on; the number tells those of the same time apart.
struct ParkedVisit {
    until: Instant,
    number: u64,
    visit: VisitId,
}

impl Parked {
    fn push(&mut self, until: Instant, visit: VisitId) {
        self.count += 1;
        self.visits.push(Reverse(ParkedVisit { until, number: self.count, visit }));
    }

    fn pop_due(&mut self, now: Instant) -> Option<VisitId> {
        if self.next_due()? > now {
            return None;
        }
        self.visits.pop().map(|Reverse(parked)| parked.visit)
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.visits.peek().map(|Reverse(parked)| parked.until)
    }

    pub(super) fn len(&self) -> usize {
        self.visits.len()
    }
}

impl PartialEq for ParkedVisit {
    fn eq(&self, other: &Self) -> bool {
        (self.until, self.number) == (other.until, other.number)
    }
}

impl Eq for ParkedVisit {}

impl PartialOrd for ParkedVisit {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ParkedVisit {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.number).cmp(&(other.until, other.number))
    }
}

/// How a call of a visit has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// Without a whole answer; so many calls are lost, itself included.
    Not { lost: u32 },
    /// On a connection that can go on.
    Usable,
    /// On one that cannot; so many calls that were under way behind it are lost.
    Last { lost: u32 },
}

impl Engine {
    /// Begins a visit on a connection that has carried nothing yet.
    pub(super) fn begin_visit<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        visit: VisitId,
        measured: bool,
        now: Instant,
    ) {
        self.join_visit(id, visit);
        let visiting = &mut self.visits[visit];
        let due = visiting.due();
        let request = visiting.take_call().expect("a visit has a call");
        let last = visiting.is_last_call();
        self.begin(driver, id, NextCall { due, measured, request, last }, now);
    }

    /// Makes a connection one of the visit's own.
    pub(super) fn join_visit(&mut self, id: SocketId, visit: VisitId) {
        self.connection(id).visit = Some(visit);
        let visiting = &mut self.visits[visit];
        visiting.connections.push(id);
        visiting.opened += 1;
    }

    /// Closes one of the visit's connections, which goes on without it.
    pub(super) fn leave_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, visit: VisitId, now: Instant) {
        self.visits[visit].connections.retain(|&other| other != id);
        self.close(driver, id, now);
    }

    /// Makes the calls that a visit has due, as far as there is room for them.
    fn go_on<D: Driver>(&mut self, driver: &mut D, visit: VisitId, now: Instant) {
        while self.visits[visit].has_released() {
            let Some(room) = self.room_for(visit) else { return self.visits[visit].keep_waiting() };
            let Phase::Running(schedule) = &mut self.phase else { return };
            let (due, idle) = (self.visits[visit].due(), self.visits[visit].under_way() == 0);
            let intended = due.intended;
            if self.pacing.is_none() && intended + self.plan.timeout <= now {
                // Nobody was there in time to make it.
                return self.fail_next_call(driver, visit, Outcome::Timeout, now);
            }
            if schedule.is_drained(now) {
                if idle {
                    self.leave_rest(driver, visit, now);
                }
                return;
            }
            if !schedule.offers(intended) {
                if idle {
                    self.end_visit(driver, visit, Ending::Cut, now);
                }
                return;
            }
            let id = match room {
                Room::On(id) => id,
                Room::Another => match self.open_for_visit(driver, visit, now) {
                    Ok(id) => id,
                    Err(fault) => {
                        return self.end_for(fault, true, |engine, outcome| {
                            engine.fail_next_call(driver, visit, outcome, now);
                        });
                    }
                },
            };
            let Some((measured, request)) = self.offer_next_call(visit) else { return };
            let last = self.visits[visit].is_last_call();
            self.begin(driver, id, NextCall { due, measured, request, last }, now);
        }
    }

    /// Where a visit's next call goes.
    fn room_for(&self, visit: VisitId) -> Option<Room> {
        let (visiting, pipeline) = (&self.visits[visit], self.plan.pipeline as usize);
        let roomy = |id: &&SocketId| self.connections[id.index()].under_way() < pipeline;
        if let Some(&id) = visiting.connections.iter().find(roomy) {
            return Some(Room::On(id));
        }
        // A visit that has lost its connections still has the place of one.
        let own = visiting.connections.len();
        let allowed = own == 0 || self.open + self.parked.len() < self.connections_max;
        (own < visiting.connections_max() && allowed).then_some(Room::Another)
    }

    /// Takes a visit's next call into the load: whether it is measured, and which request it is, if the visit says. `None`: it came due
    /// after the end.
    fn offer_next_call(&mut self, visit: VisitId) -> Option<(bool, Option<u32>)> {
        let Phase::Running(schedule) = &mut self.phase else { return None };
        let visiting = &mut self.visits[visit];
        let measured = schedule.follow_up(visiting.due().intended, &mut self.figures.trial.intervals)?;
        Some((measured, visiting.take_call()?))
    }

    /// A connection of the visit is there, with calls that wait for it.
    pub(super) fn on_visit_connected<D: Driver>(&mut self, driver: &mut D, id: SocketId, visit: VisitId, now: Instant) {
        let late = |deadline| self.pacing.is_none() && deadline <= now;
        let too_late = self.connections[id.index()].calls_under_way().next().is_some_and(|call| late(call.deadline));
        if too_late {
            let lost = self.end_waiting(id, Outcome::Timeout, now);
            self.visits[visit].on_lost(lost);
            self.leave_visit(driver, id, visit, now);
            return self.stop_visit(driver, visit, Ending::Failed, now);
        }
        if matches!(&self.phase, Phase::Running(schedule) if schedule.is_drained(now)) {
            return self.hold_back_waiting(driver, id, visit, now);
        }
        self.send_waiting(driver, id, now);
    }

    /// A call of the visit has ended on that connection.
    pub(super) fn on_visit_answer<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        answered: Answered,
        now: Instant,
    ) {
        let Some(visit) = self.connections[id.index()].visit else { return };
        let visiting = &mut self.visits[visit];
        let (next, lost) = match answered {
            Answered::Not { lost } => (Next::GoOn, lost),
            Answered::Usable => (visiting.on_answer(now), 0),
            Answered::Last { lost } => (visiting.on_answer(now), lost),
        };
        visiting.on_lost(lost);
        let ends_there = answered != Answered::Usable && !visiting.reconnects();
        if answered != Answered::Usable {
            self.leave_visit(driver, id, visit, now);
        }
        if lost > 0 || self.visits[visit].stopped().is_some() {
            let ending = if lost > 0 { Ending::Failed } else { Ending::Cut };
            return self.stop_visit(driver, visit, ending, now);
        }
        match next {
            Next::Done => self.end_visit(driver, visit, Ending::Completed, now),
            _ if ends_there => self.end_visit(driver, visit, Ending::Completed, now),
            Next::GoOn => self.go_on(driver, visit, now),
            Next::Think(until) => self.pause(visit, until),
        }
    }

    /// Has a visit pause. The first of its connections, which has nothing to do either, keeps the time.
    fn pause(&mut self, visit: VisitId, until: Instant) {
        match self.visits[visit].connections.first() {
            Some(&id) => {
                let connection = self.connection(id);
                debug_assert!(matches!(connection.state, State::Idle), "nothing is under way in a pause");
                connection.state = State::Thinking { until };
                self.arm(id, until);
            }
            None => self.parked.push(until, visit),
        }
    }

    /// A pause is over.
    pub(super) fn wake_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = self.connection(id);
        connection.state = State::Idle;
        let visit = connection.visit.expect("only visits pause");
        self.visits[visit].notice(now);
        self.go_on(driver, visit, now);
    }

    /// One of a visit's connections is of no more use, and there was nothing under way on it.
    pub(super) fn on_visit_unasked<D: Driver>(&mut self, driver: &mut D, id: SocketId, visit: VisitId, now: Instant) {
        let pause = if let State::Thinking { until } = self.connection(id).state { Some(until) } else { None };
        self.leave_visit(driver, id, visit, now);
        if let Some(until) = pause {
            self.pause(visit, until);
        }
    }

    /// Has those visits go on whose pause is over and that have no connection.
    pub(super) fn resume_parked<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(visit) = self.parked.pop_due(now) {
            self.visits[visit].notice(now);
            self.go_on(driver, visit, now);
        }
    }

    /// Stops a visit whose next call, which is part of the load, cannot be made.
    fn fail_next_call<D: Driver>(&mut self, driver: &mut D, visit: VisitId, outcome: Outcome, now: Instant) {
        let due = self.visits[visit].due();
        let offered = self.offer_next_call(visit);
        if let Some((measured, _)) = offered {
            self.visits[visit].on_lost(1);
            if measured {
                self.record_unsent(due, outcome, now);
            }
        }
        let ending = if offered.is_some() { Ending::Failed } else { Ending::Cut };
        self.stop_visit(driver, visit, ending, now);
    }

    /// Has a visit make no more calls. What is under way on its other connections has ends of its own, which are waited for: nobody could
    /// say how it would have ended.
    pub(super) fn stop_visit<D: Driver>(&mut self, driver: &mut D, visit: VisitId, ending: Ending, now: Instant) {
        let visiting = &mut self.visits[visit];
        visiting.stop(ending);
        if visiting.under_way() == 0 {
            let ending = visiting.stopped().unwrap_or(ending);
            self.end_visit(driver, visit, ending, now);
        }
    }

    /// Ends the calls that wait on a connection, which has come after the last moment for sending them.
    fn hold_back_waiting<D: Driver>(&mut self, driver: &mut D, id: SocketId, visit: VisitId, now: Instant) {
        let (mut lost, mut measured) = (0, 0);
        while let Some(mut call) = self.connection(id).line.as_mut().and_then(|line| line.behind.pop_front()) {
            self.hashers.extend(call.digest.take());
            lost += 1;
            measured += u64::from(call.measured);
        }
        self.record_held_back(measured);
        self.visits[visit].on_lost(lost);
        self.leave_visit(driver, id, visit, now);
        if self.visits[visit].under_way() == 0 {
            self.leave_rest(driver, visit, now);
        } else {
            self.visits[visit].stop(Ending::Cut);
        }
    }

    /// Ends a visit whose calls that are due may not be sent any more. They have waited for the target.
    fn leave_rest<D: Driver>(&mut self, driver: &mut D, visit: VisitId, now: Instant) {
        while self.visits[visit].has_released()
            && let Some((measured, _)) = self.offer_next_call(visit)
        {
            self.visits[visit].on_lost(1);
            self.record_held_back(u64::from(measured));
        }
        self.end_visit(driver, visit, Ending::Cut, now);
    }

    /// Whether what comes due then is still part of the load.
    fn offers(&self, due: Instant) -> bool {
        matches!(&self.phase, Phase::Running(schedule) if schedule.offers(due))
    }

    /// Makes the calls that came due before the end of the schedule in pauses of which the timer has not told yet. Whether there are some.
    pub(super) fn wake_last<D: Driver>(&mut self, driver: &mut D, now: Instant) -> bool {
        if self.plan.cuts_at_end() {
            return false;
        }
        let due = |connection: &Connection| matches!(connection.state, State::Thinking { until } if self.offers(until));
        let paused: Vec<SocketId> =
            self.connections.iter().filter(|connection| due(connection)).map(|connection| connection.id).collect();
        paused.iter().for_each(|&id| self.wake_visit(driver, id, now));
        !paused.is_empty()
    }

    fn end_visit<D: Driver>(&mut self, driver: &mut D, visit: VisitId, ending: Ending, now: Instant) {
        debug_assert!(self.visits[visit].under_way() == 0, "no call is closed away");
        while let Some(id) = self.visits[visit].connections.pop() {
            self.close(driver, id, now);
        }
        self.count_visit(visit, ending, now);
    }

    /// Counts a visit that is over.
    pub(super) fn count_visit(&mut self, visit: VisitId, ending: Ending, now: Instant) {
        self.visits.end(visit);
        let visit = &self.visits[visit];
        let Phase::Running(schedule) = &mut self.phase else { return };
        schedule.arrivals.on_end(now);
        if visit.began < schedule.start {
            return;
        }
        if ending != Ending::Cut {
            self.figures.calls_not_offered += visit.calls_left();
        }
        let Some(sessions) = &mut self.figures.trial.sessions else { return };
        let (time_ns, calls) = (now.ns_since(visit.began), u64::from(visit.ended()));
        match ending {
            Ending::Completed => {
                sessions.record_completed(time_ns, calls, u64::from(visit.opened));
                self.figures.trial.intervals.record_session();
            }
            Ending::Failed => sessions.record_failed(time_ns, calls, visit.calls_left()),
            Ending::Cut => {}
        }
    }
}

/// Where there is room for a call of a visit.
enum Room {
    On(SocketId),
    /// On a connection that is to be opened.
    Another,
}
