//! Sessions of several connections: how the calls of a burst are spread over them, and what becomes
//! of those when one is lost.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, UserPlan};
use thalweg_measure::Outcome;
use thalweg_measure::trial::SessionsSummary;
use thalweg_reactor::sim::SimConfig;

use crate::MS;
use crate::script::Response;
use crate::world::{Run, World, session_plan};

/// Sessions one after the other, so many in all, with so many connections and so many calls under
/// way on each.
fn plan(text: &str, sessions: u64, connections: usize, pipeline: u32) -> Plan {
    let workers = LoopPlan::of_workers(1, Duration::ZERO);
    let mut plan = Plan { pipeline, ..session_plan(text, Duration::ZERO, workers, Extent::Requests(sessions)) };
    if let Some(UserPlan::Sessions { connections: each, .. }) = &mut plan.user {
        *each = connections;
    }
    plan
}

/// A page with so many parts, and another page.
fn page(parts: u64) -> String {
    let parts: String = (1..=parts).map(|number| format!(" /{number}\n")).collect();
    format!("/0 think=0.1\n{parts}/99\n")
}

/// The requests of each connection, in order.
fn carried(run: &Run) -> Vec<Vec<u64>> {
    let mut connections = Vec::new();
    for record in &run.records {
        let place = record.connection as usize;
        connections.resize(connections.len().max(place + 1), Vec::new());
        connections[place].push(record.number);
    }
    connections
}

fn sessions(run: &Run) -> SessionsSummary {
    run.figures.trial.sessions.as_ref().expect("there were sessions").summary()
}

#[test]
fn calls_go_to_the_first_connection_with_room_as_httperf_has_it() {
    let check = |parts, connections, pipeline, expected: &[&[u64]]| {
        // Every response comes at a time of its own, so that it is clear which connection has room
        // first.
        let world = World::calm(plan(&page(parts), 1, connections, pipeline));
        let run = world.run(|number| Response::Late(20 * MS + number * MS / 10));
        assert_eq!(carried(&run), expected, "{parts} parts, {connections} connections, {pipeline} calls on each");
        let trial = &run.figures.trial;
        assert_eq!((trial.counts.offered, trial.counts.good), (parts + 2, parts + 2));
        let summary = sessions(&run);
        assert_eq!((summary.completed, summary.connections), (1, expected.len() as u64));
    };
    check(6, 1, 1, &[&[0, 1, 2, 3, 4, 5, 6, 99]]);
    check(6, 4, 1, &[&[0, 1, 5, 99], &[2, 6], &[3], &[4]]);
    check(2, 4, 1, &[&[0, 1, 99], &[2]]);
    check(4, 4, 32, &[&[0, 1, 2, 3, 4, 99]]);
    check(7, 2, 3, &[&[0, 1, 2, 3, 7, 99], &[4, 5, 6]]);
}

#[test]
fn calls_wait_for_the_connection_that_was_opened_for_them() {
    // As long as the second one is in the making, the first has room again and again.
    let network = SimConfig { latency_ns: 5 * MS, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(plan(&page(3), 1, 2, 1)) }.run(|_| Response::Good);
    assert_eq!(carried(&run), [vec![0, 1, 3, 99], vec![2]]);
    let trial = &run.figures.trial;
    assert!(trial.queue.max() >= 10 * MS, "the way to the server and back: {} ns", trial.queue.max());
    assert!(trial.lag.max() < MS, "the wait is not the client's own: {} ns", trial.lag.max());
}

#[test]
fn the_bound_on_all_connections_holds_for_those_of_sessions() {
    let run = World::calm(Plan { connections: 2, ..plan(&page(6), 3, 4, 1) }).run(|_| Response::Late(20 * MS));
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.good, trial.connections.peak, trial.connections.opened), (3 * 8, 2, 6));
    assert_eq!(sessions(&run).completed, 3);
}

#[test]
fn a_failed_call_ends_its_session_and_not_the_calls_on_other_connections() {
    for (response, outcome) in [(Response::Reset, Outcome::Reset), (Response::Truncated, Outcome::Truncated)] {
        let run = World::calm(plan(&page(6), 1, 4, 1)).run(move |number| match number {
            2 => response,
            _ => Response::Late(20 * MS),
        });
        // The second part fails at once; the first, third and fourth are answered, the rest was
        // never due.
        assert_eq!(carried(&run), [vec![0, 1], vec![2], vec![3], vec![4]], "{response:?}");
        let (trial, summary) = (&run.figures.trial, sessions(&run));
        assert_eq!((trial.counts.offered, trial.counts.good, trial.outcomes.count(outcome)), (5, 4, 1), "{response:?}");
        assert_eq!((summary.failed, summary.calls_not_offered, summary.lengths.len()), (1, 3, 5), "{response:?}");
    }
}

#[test]
fn calls_on_a_connection_that_is_lost_are_not_sent_again() {
    let run = World::calm(plan(&page(6), 2, 2, 3)).run(|number| match number {
        5 => Response::HangUp,
        _ => Response::Late(20 * MS),
    });
    let session: [&[u64]; 2] = [&[0, 1, 2, 3], &[4, 5]];
    assert_eq!(carried(&run), [session, session].concat());
    let (trial, summary) = (&run.figures.trial, sessions(&run));
    // Of the three on the second connection the first was responded to, and the last one is lost
    // with the one before it.
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Reset)), (2 * 5, 2 * 2));
    assert_eq!((summary.completed, summary.failed, summary.calls_not_offered), (0, 2, 2));
}

#[test]
fn a_connection_that_cannot_be_opened_fails_the_calls_that_wait_for_it() {
    let calm = SimConfig::calm(1);
    for (network, outcome) in [
        (SimConfig { refuse_probability: 0.5, ..calm.clone() }, Outcome::Refused),
        (SimConfig { blackhole_probability: 0.5, ..calm }, Outcome::Timeout),
    ] {
        // In about a quarter of the runs the first connection can be had and the second cannot.
        let mut half = 0;
        for seed in 0..50 {
            let world = World::calm(plan(&page(6), 1, 2, 3));
            let run =
                World { network: SimConfig { seed, ..network.clone() }, ..world }.run(|_| Response::Late(20 * MS));
            let (trial, failed) = (&run.figures.trial, run.figures.trial.outcomes.count(outcome));
            if (trial.connections.opened, trial.connections.attempted) == (1, 2) && trial.counts.good > 0 {
                assert_eq!((trial.counts.good, failed, sessions(&run).failed), (4, 3, 1), "{outcome}, seed {seed}");
                half += 1;
            } else {
                assert_eq!(trial.counts.good + failed, trial.counts.offered, "{outcome}, seed {seed}");
            }
        }
        assert!(half > 0, "{outcome}: it came to that at least once");
    }
}

#[test]
fn a_session_goes_on_over_the_connections_that_are_left() {
    // The server closes the one behind part 2 in good order, in the middle of the burst.
    for closing in [Response::Closing, Response::UntilClose] {
        let run = World::calm(plan(&page(6), 1, 2, 1)).run(move |number| match number {
            2 => closing,
            _ => Response::Late(20 * MS),
        });
        let trial = &run.figures.trial;
        assert_eq!((trial.counts.good, trial.connections.opened), (8, 3), "{closing:?}: {:?}", carried(&run));
        assert_eq!(carried(&run)[..2], [vec![0, 1, 4, 6, 99], vec![2]], "{closing:?}");
        assert_eq!((sessions(&run).completed, sessions(&run).connections), (1, 3), "{closing:?}");
    }
}

#[test]
fn connections_that_end_in_a_pause_are_not_missed() {
    // Each of those parts is answered once more in the pause, after which its connection is not
    // trusted. The first one keeps the time.
    for (parts, carrying, opened, pause_ms) in
        [(&[1][..], 1, 3, 120), (&[2], 0, 3, 120), (&[1, 2], 2, 3, 120), (&[1, 2, 3], 3, 4, 100)]
    {
        let run = World::calm(plan(&page(3), 1, 3, 1)).run(|number| match number {
            number if parts.contains(&number) => Response::Twice(50 * MS),
            _ => Response::Late(20 * MS),
        });
        let trial = &run.figures.trial;
        let last = carried(&run).iter().position(|numbers| numbers.last() == Some(&99));
        assert_eq!((trial.counts.good, trial.connections.opened, last), (5, opened, Some(carrying)), "{parts:?}");
        let pause_ns = run.records[4].arrived.ns_since(run.records[3].arrived);
        assert!(pause_ns.abs_diff(pause_ms * MS) < MS, "{parts:?}: from the last part to the next page, {pause_ns} ns");
        assert_eq!(sessions(&run).completed, 1, "{parts:?}");
    }
}

#[test]
fn requests_whose_connection_comes_after_the_drain_are_held_back() {
    // Connecting and the page take 40 ms, and the second part's connection would be there after 50
    // ms.
    let (arrivals, extent) = (LoopPlan::at_rate(20.0), Extent::Duration(Duration::from_millis(45)));
    let drain = Duration::from_millis(2);
    let network = SimConfig { latency_ns: 5 * MS, ..SimConfig::calm(1) };
    for (connections, opened) in [(1, 1), (2, 2)] {
        let plan = Plan { arrivals: arrivals.clone(), extent, drain, ..plan(&page(2), 1, connections, 1) };
        let run = World { network: network.clone(), ..World::calm(plan) }
            .run(|number| Response::Late((1 - number.min(1)) * 20 * MS));
        let (trial, not_sent) = (&run.figures.trial, run.figures.trial.outcomes.count(Outcome::NotSent));
        assert_eq!((trial.counts.good, not_sent, trial.held_back), (2, 1, 1), "{connections} connections");
        assert_eq!(trial.connections.opened, opened);
    }
}
