//! Servers that do what they should not, and what the engine must not make of it.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::SimConfig;

use crate::MS;
use crate::script::{Answer, whole_check};
use crate::world::{World, plan, request};

#[test]
fn an_answer_before_the_request_is_through_does_not_break_the_next_request() {
    // The answers leave while most of the body still waits for room. A connection that is not done with it cannot be used again.
    let body = vec![b'x'; 1_000_000];
    let requests = (0..20).map(|number| request("POST", number, &body)).collect();
    let plan = Plan { requests, connections: 2, ..plan(LoopPlan::Open { rate: 500.0 }, Extent::Requests(20), 20) };
    let network = SimConfig { latency_ns: MS, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(plan) }.run(|_| Answer::Early);
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 20, "{:?}", trial.outcomes);
    assert!(trial.connections.opened >= 20, "{} connections", trial.connections.opened);
}

#[test]
fn a_second_answer_is_not_credited_to_a_request_that_has_not_left() {
    // Both answers come in one wake-up. With the first one the next request is begun; it leaves after the wake-up.
    let network = SimConfig { oversleep_ns: MS, ..SimConfig::calm(3) };
    let plan = Plan {
        connections: 1,
        check: whole_check(),
        ..plan(LoopPlan::Open { rate: 20_000.0 }, Extent::Duration(Duration::from_millis(50)), 1000)
    };
    let run = World { network, ..World::calm(plan) }.run(|_| Answer::Twice(0));
    let trial = &run.figures.trial;
    assert!(
        trial.counts.good <= run.records.len() as u64,
        "{} good of {} that arrived",
        trial.counts.good,
        run.records.len()
    );
    assert!(trial.outcomes.count(Outcome::ProtocolError) > 0, "{:?}", trial.outcomes);
    assert!(trial.service_time.min() >= 100_000, "no answer is faster than the network");
}

#[test]
fn bytes_on_an_idle_connection_end_it() {
    let plan = Plan { connections: 1, ..plan(LoopPlan::Open { rate: 100.0 }, Extent::Requests(10), 10) };
    let run = World::calm(plan).run(|_| Answer::Twice(MS));
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.good, trial.connections.opened), (10, 10));
    assert!(run.figures.unsolicited_bytes > 0);
}
