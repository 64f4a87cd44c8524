//! Playing visits: several calls on a connection of their own, each after what it waits for.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};

use super::calls::Due;
use super::{Engine, Phase};
use crate::connection::{Connection, State};
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

/// How a call of a visit has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answered {
    /// Without a whole answer.
    Not,
    /// On a connection that can go on.
    Usable,
    /// On one that cannot; the calls that were under way behind it are lost.
    Last { others_lost: bool },
}

/// How a visit ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
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
            if under_way == 0 && self.pacing.is_none() && intended + self.plan.timeout <= now {
                // Its time went by while its connection was in the making.
                let visit = connection.visit.take().expect("it was there");
                self.close(driver, id, now);
                return self.fail_next_call(visit, Outcome::Timeout, now);
            }
            if schedule.is_drained(now) {
                if under_way == 0 {
                    self.leave_rest(driver, id, now);
                }
                return;
            }
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

    /// A call of the visit has ended.
    pub(super) fn on_visit_answer<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        answered: Answered,
        now: Instant,
    ) {
        let connection = &mut self.connections[id.index()];
        let Some(visit) = &mut connection.visit else { return };
        if answered == Answered::Not {
            return self.end_visit(driver, id, Ending::Failed, now);
        }
        match (visit.on_answer(now), answered) {
            (_, Answered::Last { others_lost: true }) => self.end_visit(driver, id, Ending::Failed, now),
            (Next::Done, _) => self.end_visit(driver, id, Ending::Completed, now),
            (Next::GoOn, Answered::Usable) => self.go_on(driver, id, now),
            (Next::Think(until), Answered::Usable) => {
                connection.state = State::Thinking { until };
                self.arm(id, until);
            }
            _ if !visit.reconnects() => self.end_visit(driver, id, Ending::Completed, now),
            (next, _) => {
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

    /// Ends a visit whose next call, which is part of the load, cannot be made.
    pub(super) fn fail_next_call(&mut self, mut visit: Box<Visiting>, outcome: Outcome, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        let measured = schedule.follow_up(visit.due, &mut self.figures.trial.intervals);
        visit.take_call();
        if measured == Some(true) {
            self.record_unsent(visit.due, outcome, now);
        }
        let ending = if measured.is_some() { Ending::Failed } else { Ending::Cut };
        self.count_visit(&visit, ending, now);
    }

    /// Ends a visit whose calls that are due may not be sent any more. They have waited for the target.
    fn leave_rest<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let mut visit = self.connection(id).visit.take().expect("the connection carries a visit");
        self.close(driver, id, now);
        let Phase::Running(schedule) = &mut self.phase else { return };
        let figures = &mut self.figures.trial;
        while visit.has_released()
            && let Some(measured) = schedule.follow_up(visit.due, &mut figures.intervals)
        {
            visit.take_call();
            if measured {
                figures.outcomes.record(Outcome::NotSent);
                figures.held_back += 1;
                figures.intervals.record_end(Outcome::NotSent, None);
            }
        }
        self.count_visit(&visit, Ending::Cut, now);
    }

    /// Whether what comes due then is still part of the load.
    pub(super) fn offers(&self, due: Instant) -> bool {
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

    fn end_visit<D: Driver>(&mut self, driver: &mut D, id: SocketId, ending: Ending, now: Instant) {
        let visit = self.connection(id).visit.take().expect("the connection carries a visit");
        self.close(driver, id, now);
        self.count_visit(&visit, ending, now);
    }

    /// Counts a visit that is over.
    pub(super) fn count_visit(&mut self, visit: &Visiting, ending: Ending, now: Instant) {
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
