//! A server that stalls shows as what it is, whatever the number of connections.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};

use crate::script::Response;
use crate::world::{World, plan};
use crate::{MS, SECOND};

/// Verifies that `actual` is `expected` within 1 %.
fn close_to(actual: u64, expected: u64, what: &str) {
    assert!(actual.abs_diff(expected) <= expected / 100, "{what} is {actual} ns, not about {expected} ns");
}

/// 10 s at 1000/s with a stall of 1 s: a tenth of the requests waits, evenly between nothing and 1
/// s.
fn check(connections: usize) {
    let extent = Extent::Duration(Duration::from_secs(10));
    let timeout = Duration::from_secs(5);
    let plan = Plan { connections, timeout, drain: timeout, ..plan(LoopPlan::at_rate(1000.0), extent, 1) };
    let run = World { stall: Some((4 * SECOND, 5 * SECOND)), ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.counts.good), (10_000, 10_000), "{connections} connections");
    let response = trial.response_time();
    assert!(response.quantile(0.5) < MS, "half of them notice nothing");
    close_to(response.quantile(0.95), SECOND / 2, "p95");
    close_to(response.quantile(0.99), SECOND * 9 / 10, "p99");
    close_to(response.max(), SECOND, "the longest");
    // The wait is the server's and not the client's, be it on a connection or for one.
    assert!(trial.lag.max() < MS, "lag {}", trial.lag.max());
    let waited_for_connection = trial.queue.quantile(0.95) > SECOND / 4;
    assert_eq!(waited_for_connection, connections < 1000, "{connections} connections");
}

#[test]
fn with_enough_connections_a_stall_delays_a_tenth_of_the_requests() {
    check(1500);
}

#[test]
fn with_too_few_connections_a_stall_delays_the_same_requests() {
    check(50);
}
