//! Servers that do what they should not, and what the engine must not make of it.

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Outcome;
use thalweg_measure::trial::RuleOf;
use thalweg_reactor::sim::SimConfig;

use crate::script::{Response, Step};
use crate::world::{World, plan, request};
use crate::{MS, SECOND, US};

#[test]
fn an_response_before_the_request_is_through_does_not_break_the_next_request() {
    // The responses leave while most of the body still waits for room. A connection that is not
    // done with it cannot be used again.
    let body = vec![b'x'; 1_000_000];
    let requests = (0..20).map(|number| request("POST", number, &body)).collect();
    let plan = Plan { requests, connections: 2, ..plan(LoopPlan::at_rate(500.0), Extent::Requests(20), 20) };
    let network = SimConfig { latency_ns: MS, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Early);
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 20, "{:?}", trial.outcomes);
    assert!(trial.connections.opened >= 20, "{} connections", trial.connections.opened);
}

#[test]
fn a_second_response_is_not_credited_to_a_request_that_has_not_left() {
    // Both responses arrive together and are delivered one by one, in one wake-up. With the first
    // one the next request is begun; it leaves after the wake-up.
    let [(_, Step::Send(response))] = &Response::Good.steps(0, false)[..] else {
        panic!("a good response is one send")
    };
    let network = SimConfig { receive_buffer_bytes: response.len(), ..SimConfig::calm(1) };
    let open = plan(LoopPlan::at_rate(20_000.0), Extent::Requests(1000), 1000);
    let run = World { network, ..World::calm(Plan { connections: 1, ..open }) }.run(|_| Response::Twice(0));
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, run.records.len() as u64, "{:?}", trial.outcomes);
    assert_eq!(trial.outcomes.count(Outcome::ProtocolError), 1000 - trial.counts.good, "{:?}", trial.outcomes);
    assert!(trial.outcomes.count(Outcome::ProtocolError) > 300, "{:?}", trial.outcomes);
    assert!(trial.service_time.min() >= 100 * US, "no response is faster than the network");
    assert!(trial.service_time.max() < SECOND, "nor older than the run");
}

#[test]
fn bytes_on_an_idle_connection_end_it() {
    let plan = Plan { connections: 1, ..plan(LoopPlan::at_rate(100.0), Extent::Requests(10), 10) };
    let run = World::calm(plan).run(|_| Response::Twice(MS));
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.good, trial.connections.opened), (10, 10));
    assert!(run.figures.unsolicited_bytes > 0);
}

#[test]
fn a_protocol_error_says_nothing_of_its_cause() {
    for (response, cause, rule, first_bytes) in [
        (Response::Garbage, "no response of HTTP/1", RuleOf::Protocol, r"\x16\x03\x01 is no HTTP"),
        (Response::Surplus, "bytes behind the end of the response", RuleOf::Strictness, "surplus"),
    ] {
        let plan = plan(LoopPlan::at_rate(100.0), Extent::Requests(20), 20);
        let run = World::calm(plan).run(move |number| if number % 2 == 0 { response } else { Response::Good });
        let trial = &run.figures.trial;
        assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::ProtocolError)), (10, 10), "{:?}", trial.outcomes);
        let [error] = trial.protocol_errors.list() else { panic!("{:?}", trial.protocol_errors) };
        assert!(error.cause.starts_with(cause) && error.first_bytes.starts_with(first_bytes), "{error}");
        assert_eq!((error.rule, error.count), (rule, 10));
    }
}

#[test]
fn bytes_behind_a_response_end_the_connection_alone_if_the_plan_is_lenient() {
    let plan = Plan { is_lenient: true, ..plan(LoopPlan::at_rate(100.0), Extent::Requests(20), 20) };
    let run = World::calm(plan).run(|number| if number % 2 == 0 { Response::Surplus } else { Response::Good });
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.good, trial.protocol_errors.list().len()), (20, 0), "{:?}", trial.outcomes);
}
