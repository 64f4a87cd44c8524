//! Recorded requests: when they leave, and whose fault it is if they leave late.

use std::time::Duration;

use thalweg_load::{LoopPlan, Plan};
use thalweg_measure::{Outcome, Verdict, verdict};

use crate::script::Response;
use crate::world::{World, log_plan};
use crate::{MS, SECOND};

/// The plan of a log with a request each millisecond.
fn even(requests: u64) -> Plan {
    log_plan((0..requests).map(|number| (number, number % 7)))
}

#[test]
fn recorded_requests_leave_when_they_are_due_and_are_checked_each_by_its_target() {
    let run = World::calm(even(1500)).run(|number| if number == 3 { Response::WrongContent } else { Response::Good });
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.counts.good), (1500, 1500 - trial.outcomes.count(Outcome::FailedCheck)));
    assert_eq!(trial.outcomes.count(Outcome::FailedCheck), (0..1500).filter(|number| number % 7 == 3).count() as u64);
    assert!(trial.lag.max() < MS, "{} ns", trial.lag.max());
    for (record, number) in run.records.iter().zip(0..) {
        let due_ns = record.arrived.ns_since(run.records[0].arrived);
        assert!(due_ns.abs_diff(number * MS) < MS, "number {number} has come after {due_ns} ns");
    }
}

#[test]
fn threads_share_a_recording() {
    let mut together = Vec::new();
    for thread in 0..3 {
        let plan = Plan { cpus: vec![0; 3], ..even(1000) };
        let run = World { thread, ..World::calm(plan) }.run(|_| Response::Good);
        assert_eq!(run.figures.trial.counts.good, [334, 333, 333][thread]);
        together.extend(run.records.iter().map(|record| record.number));
    }
    together.sort_unstable();
    let mut expected: Vec<_> = (0..1000).map(|number| number % 7).collect();
    expected.sort_unstable();
    assert_eq!(together, expected);
}

#[test]
fn a_reader_that_falls_behind_is_the_client_s_own_lateness() {
    // The log is there 200 ms after the start, for want of CPU time or because of a slow disk. With
    // few connections most of what is late by then has to wait for one another, which is not the
    // target's fault either.
    for connections in [100, 3] {
        let plan = Plan { connections, ..even(1000) };
        let run = World { read_ns: Some(202 * MS), ..World::calm(plan) }.run(|_| Response::Good);
        let trial = &run.figures.trial;
        assert_eq!((trial.counts.offered, trial.counts.good), (1000, 1000), "{:?}", trial.outcomes);
        assert!((190 * MS..210 * MS).contains(&trial.lag.max()), "{} ns", trial.lag.max());
        assert!(trial.queue.max() < 20 * MS, "nothing has waited for the target: {} ns", trial.queue.max());
        assert_eq!(verdict(trial, &[]).verdict, Verdict::Invalid);
    }
}

#[test]
fn entries_read_too_late_were_not_sent_by_the_client_s_fault() {
    let plan = Plan { drain: Duration::from_millis(50), ..even(1000) };
    assert!(matches!(plan.arrivals, LoopPlan::Recorded { .. }));
    let run = World { read_ns: Some(100 * SECOND), ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.outcomes.count(Outcome::NotSent)), (1000, 1000));
    assert_eq!((trial.held_back, trial.unsent_by_client()), (0, 1000));
    assert_eq!(verdict(trial, &[]).verdict, Verdict::Invalid);
}

#[test]
fn requests_that_wait_for_a_connection_are_offered_when_they_are_due() {
    // The one connection is held up for half of the run, in which hundreds of requests come due.
    let plan = Plan { connections: 1, timeout: Duration::from_secs(5), ..even(2000) };
    let run = World { stall: Some((100 * MS, 1100 * MS)), ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.counts.good), (2000, 2000), "{:?}", trial.outcomes);
    assert!(trial.queue.max() > 900 * MS && trial.lag.max() < MS);
    let width_ns = trial.intervals.width_ns();
    for (interval, summary) in trial.intervals.summaries().iter().enumerate().take((2 * SECOND / width_ns) as usize - 1)
    {
        let expected = width_ns / MS;
        assert!(summary.offered.abs_diff(expected) <= 2, "interval {interval}: {} offered", summary.offered);
    }
}
