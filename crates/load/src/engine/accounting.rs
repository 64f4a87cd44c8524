//! Accounting: the outcome of each request, and the figures that depend on time.

use std::time::Duration;

use thalweg_measure::trial::{CpuUse, Sample};
use thalweg_measure::{Counts, Outcome};
use thalweg_sys::{Fault, Instant, SocketId};

use super::state::{Engine, Phase};
use crate::call::Due;
use crate::connection::outcome_of_fault;
use crate::figures::{RunFigures, ThreadUse};
use crate::progress::Snapshot;
use crate::protocol::{Protocol, StreamId};
use crate::schedule::TakenArrival;
use crate::user::Ending;

/// A wake-up takes less than this; completions that came meanwhile are not late.
const OVERSLEPT_NS_MIN: u64 = 1_000_000;

impl<P: Protocol> Engine<P> {
    /// The figures of the thread's share, once the loop has ended.
    pub fn into_figures(mut self) -> RunFigures {
        let now = self.last_turn;
        self.figures.trial.switch(false);
        for connection in self.connections.iter().filter(|connection| connection.is_established()) {
            let bits_per_s = connection.bits_per_s(&self.calls, now);
            self.figures.record_pace(bits_per_s, self.plan.conforming_bits_per_s);
            connection.protocol.record(&mut self.figures.trial);
            let (lifetime_ns, replies) = (now.ns_since(connection.since), u64::from(connection.replies));
            self.figures.trial.record_close(lifetime_ns, replies, connection.failed);
        }
        let figures = &mut self.figures.trial;
        // Attempts that had no outcome when the run was over have made no connection either.
        figures.connections.failed += self.connecting as u64;
        figures.counts = Counts::of(&figures.outcomes, figures.counts.sent);
        self.figures
    }

    /// The delay with which the thread may have noticed the completions of this wake-up: it has
    /// overslept, and they carry no times.
    pub(super) fn notice_delay_ns(&self) -> u64 {
        if self.overslept_ns > OVERSLEPT_NS_MIN { self.overslept_ns } else { 0 }
    }

    /// Accounts for a call that has ended. `latest` is when the driver began its connection's
    /// latest send.
    pub(super) fn account(&mut self, stream: StreamId, outcome: Outcome, latest: Instant, now: Instant) {
        if self.disturbance.is_due(now) {
            self.look_for_disturbance(now);
        }
        let call = &self.calls[stream];
        self.first_ends.record(outcome, call.status);
        if !call.measured {
            return;
        }
        if !call.was_sent() {
            let due = Due { intended: call.intended, noticed: call.intended.plus_ns(call.late_ns), prompt: true };
            return self.record_unsent(due, outcome, now);
        }
        let Phase::Running(schedule) = &self.phase else { return };
        let in_window = u64::from(schedule.is_in_window(now));
        let sent_at = call.sent_or(latest);
        let notice_delay_ns = self.notice_delay_ns().min(now.ns_since(sent_at));
        let lag_ns = call.late_ns + sent_at.ns_since(call.ready) + notice_delay_ns;
        let figures = &mut self.figures.trial;
        figures.last_end = now - schedule.start;
        figures.counts.sent += 1;
        figures.outcomes.record(outcome);
        figures.queue.record(call.queue_ns);
        if self.disturbance.explains(lag_ns, sent_at) {
            figures.left_out_requests().lag.record(lag_ns);
        } else {
            figures.lag.record(lag_ns);
        }
        let response_ns = now.ns_since(call.intended);
        let counted = match outcome {
            Outcome::Good => Some(response_ns),
            // A timeout is never recorded with less than the time that the request was given:
            // errors do not make the responses look fast. One that is lost behind another's timeout
            // may come before its own.
            Outcome::Timeout => Some(response_ns.max(self.plan.timeout.as_nanos() as u64)),
            _ => None,
        };
        counted.into_iter().for_each(|ns| figures.record_response(ns, lag_ns));
        if let Some(to) = figures.by_address.get_mut(usize::from(call.peer)) {
            to.record(outcome, counted);
        }
        figures.intervals.record_end(outcome, counted);
        if outcome.is_completed() {
            let first_byte = call.first_byte.get().unwrap_or(now);
            // Of a request that has followed redirects, the first of them was the first to be sent.
            let first_sent = call.first_sent.get().unwrap_or(sent_at);
            figures.service_time.record(now.ns_since(first_sent));
            figures.first_byte.record(first_byte.ns_since(first_sent));
            figures.transfer.record(now.ns_since(first_byte));
            figures.connections.kept += u64::from(call.keep_alive);
            figures.in_window.completed += in_window;
            figures.in_window.good += if outcome == Outcome::Good { in_window } else { 0 };
        }
        if outcome == Outcome::Good && figures.sample.is_none() {
            figures.sample = Some(Sample::of(Some(&self.server), call.body_bytes));
        }
    }

    /// Ends a call by `end` with the outcome of a fault. If the call is measured, the fault is
    /// counted by its cause.
    pub(super) fn end_for(&mut self, fault: Fault, connecting: bool, end: impl FnOnce(&mut Self, Outcome)) {
        let outcome = outcome_of_fault(fault, connecting);
        let before = self.figures.trial.outcomes.count(outcome);
        end(self, outcome);
        let trial = &mut self.figures.trial;
        if trial.outcomes.count(outcome) > before {
            trial.causes.socket_timeout += u64::from(fault == Fault::TimedOut);
            trial.causes.file_table_full += u64::from(fault == Fault::FileTableFull);
            if let Fault::Other(errno) = fault {
                trial.causes.unknown += 1;
                trial.causes.unknown_errno.get_or_insert(errno);
            }
        }
    }

    /// Accounts for a measured request that has ended without having been sent.
    pub(super) fn record_unsent(&mut self, due: Due, outcome: Outcome, now: Instant) {
        let timeout_ns = self.timeout_ns();
        let waited_ns = now.ns_since(due.intended);
        let late_ns = due.noticed.ns_since(due.intended).min(waited_ns);
        let outcome = if waited_ns >= timeout_ns { Outcome::Timeout } else { outcome };
        let Phase::Running(schedule) = &self.phase else { return };
        let figures = &mut self.figures.trial;
        figures.last_end = now - schedule.start;
        if self.disturbance.explains(late_ns, due.noticed) {
            figures.left_out_requests().lag.record(late_ns);
        } else {
            figures.lag.record(late_ns);
        }
        figures.queue.record(waited_ns - late_ns);
        figures.outcomes.record(outcome);
        let counted = (outcome == Outcome::Timeout).then_some(waited_ns.max(timeout_ns));
        counted.into_iter().for_each(|ns| figures.record_response(ns, late_ns));
        figures.intervals.record_end(outcome, counted);
    }

    /// Accounts for measured requests, so many of them, that have waited for the target until it
    /// was too late to send them.
    pub(super) fn record_held_back(&mut self, requests: u64) {
        let figures = &mut self.figures.trial;
        figures.held_back += requests;
        figures.outcomes.record_n(Outcome::NotSent, requests);
        for _ in 0..requests {
            figures.intervals.record_end(Outcome::NotSent, None);
        }
    }

    /// Ends the oldest request that waits for a connection, if there is one: one to be sent again,
    /// or an arrival, without its having been sent.
    pub(super) fn give_up(&mut self, outcome: Outcome, now: Instant) {
        if self.end_put_back(outcome, now) {
            return;
        }
        let Phase::Running(schedule) = &mut self.phase else { return };
        if schedule.waiting_since(now).is_none() {
            return;
        }
        let number = schedule.next_number();
        let TakenArrival { arrival, noticed, measured } = schedule.take(&mut self.figures.trial.intervals);
        if let Some(plan) = &self.user {
            let user = self.users.begin(plan, number, arrival.at);
            self.users[user].take_call();
            self.count_user(user, Ending::Failed, now);
        } else {
            schedule.arrivals.on_end(now);
        }
        self.first_ends.record(outcome, 0);
        if measured {
            self.record_unsent(Due { intended: arrival.at, noticed, prompt: true }, outcome, now);
        }
    }

    /// Advances the figures that depend on time: the series' intervals, and what the thread has
    /// used when the measured part begins and ends.
    pub(super) fn advance_accounting(&mut self, now: Instant) {
        self.last_turn = now;
        let notice_delay_ns = self.notice_delay_ns();
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now < schedule.start {
            return;
        }
        schedule.begun.get_or_insert_with(|| ThreadUse::so_far(self.busy_wait_ns));
        schedule.overslept_ns += if self.disturbance.leaves_out { 0 } else { notice_delay_ns };
        schedule.record(&mut self.figures.trial.intervals, now);
        if self.progress.extension() > Duration::ZERO {
            schedule.extend(self.progress.extension());
        }
        if schedule.end.is_some_and(|end| now >= end) && schedule.is_over(&self.progress) {
            self.end_window(now);
        }
    }

    pub(super) fn end_window(&mut self, now: Instant) {
        let Phase::Running(schedule) = &mut self.phase else { return };
        if schedule.ended {
            return;
        }
        let end = schedule.end.filter(|end| *end <= now).unwrap_or(now);
        self.end_left_out_time(end);
        let Phase::Running(schedule) = &mut self.phase else { return };
        schedule.ended = true;
        let duration = end - schedule.start;
        let half = schedule.start + duration / 2;
        let figures = &mut self.figures.trial;
        figures.duration = duration;
        let cpu = self.plan.cpus[self.thread];
        figures.cpus.extend(schedule.begun.map(|begun| {
            let overslept_ns = schedule.overslept_ns;
            let left_out_wait_ns = self.disturbance.waited_ns;
            CpuUse { overslept_ns, left_out_wait_ns, ..ThreadUse::so_far(self.busy_wait_ns).since(begun, cpu) }
        }));
        for connection in self.connections.iter().filter(|connection| connection.is_established()) {
            figures.connections.held += 1;
            figures.connections.progressing += u64::from(connection.received_at >= half);
        }
    }

    /// Ends the schedule now: nothing more is offered, what is under way is left out.
    pub(super) fn cut(&mut self, now: Instant) {
        self.count_again(now);
        let Phase::Running(schedule) = &mut self.phase else { return };
        if now < schedule.start {
            return;
        }
        schedule.end = Some(schedule.end.map_or(now, |end| end.min(now)));
        let calls = self.connections.iter().flat_map(|connection| self.calls.of(&connection.calls));
        let under_way = calls.chain(self.calls.of(&self.put_back)).filter(|call| call.measured).count() as u64;
        self.figures.trial.under_way = under_way;
        let figures = &mut self.figures.trial;
        let ended = figures.outcomes.total() + figures.left_out_outcomes().total();
        let waiting = schedule.offered() - ended - under_way;
        self.record_held_back(waiting);
        self.end_window(now);
    }

    /// Whether all that was offered has ended. Requests that the drain has left over end here as
    /// not sent.
    pub(super) fn finished(&mut self, now: Instant) -> bool {
        let Phase::Running(schedule) = &mut self.phase else { return false };
        let over = schedule.end.is_none_or(|end| now >= end) && (schedule.ended || schedule.is_over(&self.progress));
        if over && schedule.end.is_some() && self.plan.cuts_at_end() {
            self.cut(now);
            return true;
        }
        if schedule.is_drained(now) {
            self.end_put_back_late(now);
        }
        let Phase::Running(schedule) = &mut self.phase else { return false };
        if let Some(drain_end) = schedule.drain_end.filter(|&end| now >= end) {
            // A request that waits while no connection has room waits for the target; otherwise the
            // client was too slow to send it.
            let room = |id: &SocketId| self.connections[id.index()].had_room_before(*id, drain_end, self.plan.pipeline);
            let held_back = u64::from(!self.idle.iter().chain(&self.roomy).any(room));
            let figures = &mut self.figures.trial;
            while schedule.next_arrival().is_some() {
                if schedule.take(&mut figures.intervals).measured {
                    figures.outcomes.record(Outcome::NotSent);
                    figures.held_back += held_back;
                    figures.intervals.record_end(Outcome::NotSent, None);
                }
            }
            // Of a log that was not read in time, the client alone is to blame for the rest.
            let unread = schedule.give_up_unread(&mut figures.intervals);
            figures.outcomes.record_n(Outcome::NotSent, unread);
            (0..unread).for_each(|_| figures.intervals.record_end(Outcome::NotSent, None));
        }
        // A schedule that has ended does not wait for the pauses of users, but for calls that were
        // due in it.
        let users_over = self.users.len() == 0 || (schedule.end.is_some() && self.reopening == 0);
        let arrivals_over = schedule.next_arrival().is_none() && !schedule.arrivals.is_behind();
        over && self.busy == 0 && self.put_back.is_empty() && users_over && arrivals_over
    }

    /// Publishes the counters, and the intervals that have ended if the run is observed.
    pub(super) fn publish(&mut self, now: Instant) {
        if let Some(ended) = self.figures.trial.intervals.parts().filter(|ended| !ended.is_empty()) {
            self.progress.hand_over(self.thread, ended);
        }
        self.publish_counters(now);
    }

    /// The same at the end of the run.
    pub(super) fn publish_last(&mut self, now: Instant) {
        let intervals = &mut self.figures.trial.intervals;
        intervals.end_last_part();
        if let Some(ended) = intervals.parts() {
            self.progress.hand_over_last(self.thread, ended);
        }
        self.publish_counters(now);
    }

    fn publish_counters(&self, now: Instant) {
        let (offered, measured) = match &self.phase {
            Phase::Running(schedule) => (schedule.offered(), now - schedule.start),
            _ => (0, Duration::ZERO),
        };
        let trial = &self.figures.trial;
        let left_out = trial.left_out_outcomes();
        let seen = Snapshot {
            offered,
            good: trial.outcomes.count(Outcome::Good) + left_out.count(Outcome::Good),
            errors: trial.outcomes.errors() + left_out.errors(),
            connections: self.open as u64,
            measured,
            lost: self.left_out_so_far(now),
            so_far: trial.so_far(),
            first_ends: self.first_ends,
        };
        self.progress.publish(self.thread, seen);
        let redirect = trial.redirects.as_ref().and_then(|redirects| redirects.sample.as_ref());
        redirect.into_iter().for_each(|sample| self.progress.note_redirect(sample));
    }
}
