//! Time-outs, wherever the time went, and what the drain leaves over.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::SimConfig;

use crate::script::Response;
use crate::world::{World, plan};
use crate::{MS, SECOND, US};

const TIMEOUT_NS: u64 = 100 * MS;

/// A time-out is noticed this much later at most: one tick of the engine's clock.
const TICK_NS: u64 = MS;

fn open(rate: f64, requests: u64, connections: usize) -> Plan {
    let timeout = Duration::from_nanos(TIMEOUT_NS);
    let plan = plan(LoopPlan::at_rate(rate), Extent::Requests(requests), requests);
    Plan { connections, timeout, drain: timeout, ..plan }
}

#[test]
fn requests_that_get_no_response_time_out_at_the_timeout() {
    let run = World::calm(open(1000.0, 200, 400)).run(|_| Response::Silence);
    let trial = &run.figures.trial;
    assert_eq!((trial.outcomes.count(Outcome::Timeout), trial.counts.sent), (200, 200));
    let response = trial.response_time();
    assert_eq!(response.count(), 200);
    assert!(
        response.min() >= TIMEOUT_NS && response.max() <= TIMEOUT_NS + TICK_NS,
        "from {} to {} ns",
        response.min(),
        response.max()
    );
}

#[test]
fn a_request_that_waits_too_long_for_a_connection_is_never_sent() {
    // The only connection is taken by the first request for as long as that may take, then by the
    // oldest that still waits.
    let run = World::calm(open(20_000.0, 50, 1)).run(|_| Response::Silence);
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 50);
    let response = trial.response_time();
    assert!(
        response.min() >= TIMEOUT_NS && response.max() <= TIMEOUT_NS + TICK_NS,
        "from {} to {} ns",
        response.min(),
        response.max()
    );
    assert_eq!(trial.counts.sent as usize, run.records.len());
    assert!(trial.counts.sent < 50, "{} were sent", trial.counts.sent);
}

#[test]
fn a_request_is_not_sent_after_its_deadline_when_the_client_wakes_late() {
    // The client oversleeps, so that the connection becomes idle in the same wake-up in which the
    // next request's time is over. The engine itself asserts that it does not begin such a request.
    for seed in 0..50 {
        let network = SimConfig { oversleep_ns: 10 * MS, ..SimConfig::calm(seed) };
        let run = World { network, ..World::calm(open(1000.0, 300, 1)) }.run(|_| Response::Late(80 * MS));
        let trial = &run.figures.trial;
        assert_eq!(
            trial.counts.good + trial.outcomes.count(Outcome::Timeout),
            300,
            "seed {seed}: {:?}",
            trial.outcomes
        );
        let longest_ns = trial.response_time().max();
        assert!(longest_ns <= TIMEOUT_NS + TICK_NS + 10 * MS, "seed {seed}: the longest took {longest_ns} ns");
    }
}

#[test]
fn an_response_at_the_timeout_is_too_late() {
    // In the middle of a tick, so that the response is there before the clock of the deadlines
    // moves on.
    let check = |responded_ns: u64, expected: Outcome| {
        let timeout = Duration::from_nanos(TIMEOUT_NS + MS / 4);
        let run = World::calm(Plan { timeout, ..open(1000.0, 20, 50) }).run(move |_| Response::Late(responded_ns));
        let outcomes = &run.figures.trial.outcomes;
        assert_eq!(outcomes.count(expected), 20, "after {responded_ns} ns: {outcomes:?}");
    };
    let limit_ns = TIMEOUT_NS + MS / 4 - 100 * US;
    check(limit_ns - 1, Outcome::Good);
    check(limit_ns, Outcome::Timeout);
    check(limit_ns + 50 * US, Outcome::Timeout);
}

#[test]
fn the_time_to_connect_is_part_of_a_request_s_time() {
    // The request has waited for its connection for most of its time. The response comes after its
    // own deadline, and before the connection has been there for as long as a timeout.
    let latency_ns = 40 * MS;
    let network = SimConfig { latency_ns, ..SimConfig::calm(1) };
    let plan = Plan { calls: Some(1), ..open(1000.0, 20, 50) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Late(5 * MS));
    let trial = &run.figures.trial;
    assert_eq!(trial.outcomes.count(Outcome::Timeout), 20, "{:?}", trial.outcomes);
    let response = trial.response_time();
    assert!(response.max() <= TIMEOUT_NS + TICK_NS, "the longest took {} ns", response.max());
}

#[test]
fn requests_that_wait_after_the_drain_are_not_sent_and_held_back() {
    let drain = Duration::from_millis(30);
    let timeout = Duration::from_secs(10);
    // One response per 9.9 ms: by the end of the drain at 80 ms, nine of the requests have begun.
    let service_ns = 9_900 * US - 100 * US;
    let run = World::calm(Plan { drain, timeout, ..open(1000.0, 50, 1) }).run(move |_| Response::Late(service_ns));
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 9);
    assert_eq!((trial.outcomes.count(Outcome::NotSent), trial.held_back), (41, 41));
    assert_eq!(trial.in_window.completed, 5, "rates are those of the schedule's time");
    assert_eq!(run.records.len(), 9);
    assert_eq!(trial.duration, Duration::from_millis(50));
    assert!(run.took_ns < 100 * MS, "the run ends with what is under way");
}

#[test]
fn a_connection_that_is_free_only_after_the_drain_has_held_the_others_back() {
    // The client oversleeps the end of the drain, and finds the response to the last request there
    // as well.
    for seed in 0..50 {
        let network = SimConfig { oversleep_ns: 5 * MS, latency_ns: 3 * MS, ..SimConfig::calm(seed) };
        let plan = Plan { drain: Duration::from_millis(30), timeout: Duration::from_secs(10), ..open(1000.0, 50, 1) };
        let run = World { network, ..World::calm(plan) }.run(|_| Response::Late(10 * MS));
        let trial = &run.figures.trial;
        let not_sent = trial.outcomes.count(Outcome::NotSent);
        assert!(not_sent > 30, "seed {seed}: {:?}", trial.outcomes);
        assert_eq!(trial.held_back, not_sent, "seed {seed}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_asked_for_every_request() {
    let check = |network: SimConfig, expected: &[Outcome]| {
        let run = World { network, ..World::calm(open(1000.0, 100, 20)) }.run(|_| Response::Good);
        let trial = &run.figures.trial;
        let ended: u64 = expected.iter().map(|&outcome| trial.outcomes.count(outcome)).sum();
        assert_eq!((ended, trial.counts.sent, trial.counts.offered), (100, 0, 100), "{:?}", trial.outcomes);
        assert!(run.took_ns < SECOND, "took {} ns", run.took_ns);
    };
    let calm = SimConfig::calm(1);
    check(SimConfig { refuse_probability: 1.0, ..calm.clone() }, &[Outcome::Refused]);
    check(SimConfig { blackhole_probability: 1.0, ..calm.clone() }, &[Outcome::Timeout]);
    let none_left = [Outcome::NoDescriptor, Outcome::NoAddress];
    check(SimConfig { connect_failure_probability: 1.0, ..calm }, &none_left);
}

#[test]
fn connections_that_are_refused_before_the_start_are_not_tried_again_and_again() {
    let network = SimConfig { refuse_probability: 1.0, ..SimConfig::calm(1) };
    let plan = Plan { timeout: Duration::from_secs(10), ..open(1000.0, 10, 20) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Good);
    assert_eq!(run.figures.trial.outcomes.count(Outcome::Refused), 10);
    assert!(run.took_ns < SECOND, "the start waited for {} ns", run.took_ns);
}
