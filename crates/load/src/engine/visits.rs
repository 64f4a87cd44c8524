//! Playing visits: several calls on a connection of their own, each after what it waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};

use super::calls::Due;
use super::{Engine, Phase};
use crate::connection::State;
use crate::visit::{Next, Visiting};

/// Visits without a connection: the server has closed theirs while they paused.
#[derive(Default)]
pub(super) struct Parked {
    visits: BinaryHeap<Reverse<ParkedVisit>>,
    count: u64,
}

/// Ordered by when it goes on; the number tells those of the same time apart.
struct ParkedVisit {
    until: Instant,
    number: u64,
    visit: Box<Visiting>,
}

impl Parked {
    fn push(&mut self, until: Instant, visit: Box<Visiting>) {
        self.count += 1;
        self.visits.push(Reverse(ParkedVisit { until, number: self.count, visit }));
    }

    fn pop_due(&mut self, now: Instant) -> Option<Box<Visiting>> {
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

/// How a visit ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// With its last call, or where the server ended it in good order.
    Completed,
    /// With a call that failed.
    Failed,
    /// With the schedule.
    Cut,
}

impl Engine {
    /// Begins a visit on a connection that has carried nothing yet.
    pub(super) fn begin_visit<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        mut visiting: Visiting,
        measured: bool,
        now: Instant,
    ) {
        let intended = visiting.began;
        let request = visiting.take_call().expect("a visit has a call");
        let last = visiting.is_last_call();
        self.visiting += 1;
        self.connection(id).visit = Some(Box::new(visiting));
        self.begin(driver, id, Due { intended, measured, request, last }, now);
    }

    /// Makes the calls that a connection's visit has due, as far as there is room.
    pub(super) fn go_on<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        loop {
            let connection = &mut self.connections[id.index()];
            let under_way = connection.under_way();
            let Some(visit) = &mut connection.visit else { return };
            if !visit.has_released() || under_way >= self.plan.pipeline as usize {
                return;
            }
            let Phase::Running(schedule) = &mut self.phase else { return };
            let intended = visit.due;
            let Some(measured) = schedule.follow_up(intended, &mut self.figures.trial.intervals) else {
                if under_way == 0 {
                    self.end_visit(driver, id, Ending::Cut, now);
                }
                return;
            };
            let Some(request) = visit.take_call() else { return };
            let last = visit.is_last_call();
            self.begin(driver, id, Due { intended, measured, request, last }, now);
        }
    }

    /// A call of the visit has ended; `usable` says whether its connection can go on.
    pub(super) fn on_visit_answer<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        outcome: Outcome,
        usable: bool,
        now: Instant,
    ) {
        let connection = &mut self.connections[id.index()];
        let Some(visit) = &mut connection.visit else { return };
        if !outcome.is_completed() {
            return self.end_visit(driver, id, Ending::Failed, now);
        }
        match (visit.on_answer(now), usable) {
            (Next::Done, _) => self.end_visit(driver, id, Ending::Completed, now),
            (Next::GoOn, true) => self.go_on(driver, id, now),
            (Next::Think(until), true) => {
                connection.state = State::Thinking { until };
                self.arm(id, until);
            }
            (_, false) if !visit.reconnects() => self.end_visit(driver, id, Ending::Completed, now),
            (next, false) => {
                let visit = connection.visit.take().expect("it was there");
                self.close(driver, id, now);
                match next {
                    Next::Think(until) => self.parked.push(until, visit),
                    _ => self.reopen(driver, visit, now),
                }
            }
        }
    }

    /// A pause is over.
    pub(super) fn wake_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        self.connection(id).state = State::Idle;
        self.go_on(driver, id, now);
    }

    /// The connection of a visit has gone while it paused.
    pub(super) fn park_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = self.connection(id);
        let until = if let State::Thinking { until } = connection.state { until } else { now };
        let visit = connection.visit.take().expect("only visits pause");
        self.close(driver, id, now);
        self.parked.push(until, visit);
    }

    /// Gives those visits a new connection whose pause is over.
    pub(super) fn resume_parked<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(visit) = self.parked.pop_due(now) {
            self.reopen(driver, visit, now);
        }
    }

    /// Ends a visit whose next call cannot be made.
    pub(super) fn fail_next_call(&mut self, visit: &Visiting, outcome: Outcome, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        let measured = schedule.follow_up(visit.due, &mut self.figures.trial.intervals);
        if measured == Some(true) {
            self.record_unsent(visit.due, outcome, now);
        }
        let ending = if measured.is_some() { Ending::Failed } else { Ending::Cut };
        self.count_visit(visit, ending, now);
    }

    fn end_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, ending: Ending, now: Instant) {
        let visit = self.connection(id).visit.take().expect("the connection carries a visit");
        self.close(driver, id, now);
        self.count_visit(&visit, ending, now);
    }

    fn count_visit(&mut self, visit: &Visiting, ending: Ending, now: Instant) {
        self.visiting -= 1;
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
                sessions.record_completed(time_ns, calls, u64::from(visit.connections));
                self.figures.trial.intervals.record_session();
            }
            Ending::Failed => sessions.record_failed(time_ns, calls, visit.calls_left()),
            Ending::Cut => {}
        }
    }
}
