//! Workers that ask, wait for the response and think.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Outcome;

use crate::script::Response;
use crate::world::{World, plan};
use crate::{MS, US};

const THINK_NS: u64 = 7 * MS;
const SERVICE_NS: u64 = 3 * MS;
const ROUND_TRIP_NS: u64 = 100 * US;

fn closed(workers: usize, think_ns: u64, extent: Extent) -> Plan {
    let arrivals = LoopPlan::of_workers(workers, Duration::from_nanos(think_ns));
    Plan { connections: workers, ..plan(arrivals, extent, 1) }
}

#[test]
fn a_worker_thinks_for_as_long_as_it_should() {
    let run = World::calm(closed(1, THINK_NS, Extent::Requests(50))).run(|_| Response::Late(SERVICE_NS));
    let times: Vec<u64> = run.records.iter().map(|record| record.arrived.as_ns()).collect();
    assert_eq!(times.len(), 50);
    for pair in times.windows(2) {
        assert_eq!(pair[1] - pair[0], THINK_NS + SERVICE_NS + ROUND_TRIP_NS);
    }
    // In a closed loop a request is intended when its worker has thought, so it does not wait for
    // anything.
    assert_eq!(run.figures.trial.queue.max(), 0);
    assert_eq!(run.figures.trial.response_time().max(), SERVICE_NS + ROUND_TRIP_NS);
}

#[test]
fn workers_make_as_many_requests_as_asked_for_and_never_two_at_once() {
    for (workers, requests) in [(1, 1), (1, 17), (5, 4), (5, 100), (30, 1000)] {
        for warmup_ms in [0, 20] {
            let warmup = Duration::from_millis(warmup_ms);
            let plan = Plan { warmup, ..closed(workers, 0, Extent::Requests(requests)) };
            let run = World::calm(plan).run(|number| Response::Late(SERVICE_NS + number));
            let trial = &run.figures.trial;
            assert_eq!((trial.counts.offered, trial.counts.good), (requests, requests));
            assert!(run.busy_max <= workers, "{} requests of {workers} workers at once", run.busy_max);
            assert!(trial.connections.opened <= workers as u64);
            assert_eq!(run.records.len() as u64 > requests, warmup_ms > 0, "the warm-up's are not counted");
        }
    }
}

#[test]
fn the_requests_of_two_threads_are_those_of_the_plan() {
    for requests in [1, 2, 9, 100] {
        let plan = Plan { cpus: vec![0, 1], ..closed(3, MS, Extent::Requests(requests)) };
        let shares = [0, 1].map(|thread| World { thread, ..World::calm(plan.clone()) }.run(|_| Response::Good));
        let offered: u64 = shares.iter().map(|run| run.figures.trial.counts.offered).sum();
        assert_eq!(offered, requests);
    }
}

#[test]
fn the_end_of_the_time_ends_the_loop() {
    let extent = Extent::Duration(Duration::from_millis(100));
    let run = World::calm(closed(4, THINK_NS, extent)).run(|_| Response::Late(SERVICE_NS));
    let trial = &run.figures.trial;
    // A round takes 10.1 ms, so each worker begins ten of them before 100 ms are over.
    assert_eq!((trial.counts.offered, trial.counts.good), (40, 40));
    assert_eq!(trial.duration, Duration::from_millis(100));
    assert_eq!(trial.outcomes.count(Outcome::NotSent), 0);
}

#[test]
fn a_worker_without_a_response_asks_again_after_the_timeout() {
    let timeout = Duration::from_millis(50);
    let plan = Plan { timeout, ..closed(2, THINK_NS, Extent::Requests(6)) };
    let run = World::calm(plan).run(|_| Response::Silence);
    assert_eq!(run.figures.trial.outcomes.count(Outcome::Timeout), 6);
    assert_eq!(run.records.len(), 6);
    let took_ms = (run.records[4].arrived - run.records[0].arrived).as_millis();
    assert!((2 * 57..2 * 60).contains(&took_ms), "two rounds took {took_ms} ms");
}
