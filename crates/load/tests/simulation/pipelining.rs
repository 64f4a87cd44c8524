//! Several requests under way on one connection: each response is its own request's, and what is
//! lost with a connection is counted so.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Extent, LoopPlan, Pace, Plan};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::SimConfig;

use crate::script::{Response, Step, random_of};
use crate::world::{World, plan};
use crate::{MS, US, with_seeds};

const RUNS: u64 = 100;

/// So many requests at a rate, so many of them under way on each of the connections.
fn pipelined(rate: f64, requests: u64, connections: usize, pipeline: u32) -> Plan {
    let plan = plan(LoopPlan::at_rate(rate), Extent::Requests(requests), requests);
    Plan { connections, pipeline, timeout: Duration::from_secs(60), drain: Duration::from_secs(60), ..plan }
}

/// Those responses whose outcome does not depend on what lies behind them on the connection.
fn response(random: &mut Pcg64Mcg) -> Response {
    match random.random_range(0..24) {
        0 => Response::Status(404),
        1 => Response::WrongContent,
        2 => Response::WrongLength,
        3 => Response::HangUp,
        4 => Response::Closing,
        5 => Response::Dribbled(random.random_range(1..100) * US),
        6 | 7 => Response::Chunked,
        8 | 9 => Response::Interim,
        10 => Response::OldKept,
        12..=16 => Response::Late(random.random_range(0..5 * MS)),
        _ => Response::Good,
    }
}

fn random_run(seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let (requests, connections) = (random.random_range(1..200), random.random_range(1..5));
    let plan = pipelined(random.random_range(500.0..20_000.0), requests, connections, random.random_range(2..20));
    let plan = Plan { calls: random.random_bool(0.3).then(|| random.random_range(2..40)), ..plan };
    let fragment_probability = if random.random() { 0.5 } else { 0.0 };
    let network = SimConfig { fragment_probability, ..SimConfig::calm(seed) };
    let run = World { network, ..World::calm(plan) }.run(move |number| response(&mut random_of(seed, number)));
    let trial = &run.figures.trial;
    let mut numbers: Vec<u64> = run.records.iter().map(|record| record.number).collect();
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "no request is sent twice");
    for outcome in Outcome::ALL {
        let answered = run.records.iter().filter(|record| record.response.outcome() == outcome).count() as u64;
        match outcome {
            // Requests behind a response that ends its connection are lost with it.
            Outcome::Reset => assert!(trial.outcomes.count(outcome) >= answered, "{outcome}"),
            _ => assert_eq!(trial.outcomes.count(outcome), answered, "{outcome}"),
        }
    }
    assert_eq!(trial.counts.offered, requests);
    assert!(
        trial.service_time.min() >= 100 * US || trial.counts.completed == 0,
        "no response is faster than the network"
    );
}

#[test]
fn each_pipelined_request_ends_as_the_server_has_responded() {
    with_seeds(0..RUNS, random_run);
}

#[test]
fn a_surplus_response_is_not_credited_to_a_pipelined_request_that_has_not_left() {
    // The client is held up behind the first send. It then learns at once that it is through,
    // whereupon the second request is handed over, and of two responses to the first. The second
    // request leaves after that.
    let [(_, Step::Send(response))] = &Response::Good.steps(0, false)[..] else {
        panic!("a good response is one send")
    };
    let network = SimConfig { receive_buffer_bytes: response.len(), ..SimConfig::calm(1) };
    let arrivals = LoopPlan::of_workers(2, Duration::ZERO);
    let plan = Plan { arrivals, ..pipelined(1.0, 2, 1, 8) };
    let world = World { network, stall_client: Some((0, MS, 5 * MS)), ..World::calm(plan) };
    let run = world.run(|_| Response::Twice(0));
    let outcomes = &run.figures.trial.outcomes;
    assert_eq!((outcomes.count(Outcome::Good), outcomes.count(Outcome::ProtocolError)), (1, 1), "{outcomes:?}");
}

#[test]
fn room_that_comes_free_in_the_middle_of_a_read_is_used_at_once() {
    // The first response comes together with one half of the second, whose other half is late. The
    // third request waits for room.
    let plan = Plan { arrivals: LoopPlan::of_workers(3, Duration::ZERO), ..pipelined(1.0, 3, 1, 2) };
    let run = World::calm(plan).run(|number| match number {
        1 => Response::Halting(20 * MS),
        _ => Response::Good,
    });
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 3, "{:?}", trial.outcomes);
    assert!(trial.queue.max() < 200 * US, "the third has waited for {} ns", trial.queue.max());
    assert!(trial.lag.max() < 200 * US, "the client was late by {} ns", trial.lag.max());
}

#[test]
fn a_request_at_a_pace_does_not_time_out_while_those_before_it_are_read() {
    // Each read is a response, and four of them are as long as the time-out.
    let [(_, Step::Send(response))] = &Response::Good.steps(0, false)[..] else {
        panic!("a good response is one send")
    };
    let bits_per_s = response.len() as u64 * 4 * 8;
    let pace = Some(Pace::new(Some(bits_per_s), Duration::ZERO));
    let plan = Plan { pace, timeout: Duration::from_secs(1), ..pipelined(10_000.0, 64, 1, 64) };
    let run = World { patience_ns: 20_000 * MS, ..World::calm(plan) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 64, "{:?}", trial.outcomes);
    let rate = trial.bits_per_connection.quantile(0.5);
    assert!(rate.abs_diff(bits_per_s) < bits_per_s / 20, "{rate} bit/s of {bits_per_s}");
}

#[test]
fn at_a_pace_the_time_in_which_nothing_is_read_is_not_the_server_s() {
    // From one read to the next it is longer than the time-out. The second request leaves in
    // between: the first response comes after 2 s, and the connection is read again after 4.
    let pace = Some(Pace::new(None, Duration::from_secs(2)));
    let plan = Plan { pace, timeout: Duration::from_secs(1), ..pipelined(0.45, 2, 1, 1) };
    let run = World { patience_ns: 20_000 * MS, ..World::calm(plan) }.run(|_| Response::Good);
    assert_eq!(run.figures.trial.counts.good, 2, "{:?}", run.figures.trial.outcomes);
}

#[test]
fn calls_lost_behind_the_end_of_a_connection_are_a_reset_each() {
    for response in [Response::Closing, Response::Old, Response::HangUp] {
        let run = World::calm(pipelined(1e6, 10, 1, 10))
            .run(move |number| if number == 4 { response } else { Response::Good });
        let trial = &run.figures.trial;
        let lost = if response == Response::HangUp { 6 } else { 5 };
        assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Reset)), (10 - lost, lost), "{response:?}");
        assert_eq!((trial.counts.sent, run.records.len()), (10, 5), "{response:?}: the server never saw the others");
    }
}

#[test]
fn pipelined_requests_time_out_together_with_the_one_that_holds_them_up() {
    let timeout = Duration::from_millis(100);
    let plan = Plan { timeout, ..pipelined(1000.0, 10, 1, 10) };
    let run = World::calm(plan).run(|number| if number == 3 { Response::Late(10_000 * MS) } else { Response::Good });
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Timeout)), (3, 7), "{:?}", trial.outcomes);
    let response = trial.response_time();
    assert!(response.max() < 102 * MS, "the longest took {} ns", response.max());
    let late: u64 = response.buckets().filter(|&(ns, _)| ns >= 99 * MS).map(|(_, count)| count).sum();
    assert_eq!(late, trial.outcomes.count(Outcome::Timeout), "a time-out is never shorter than its value");
}
