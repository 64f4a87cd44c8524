//! Sessions and other users: what goes over the wire, in which order and when, and what is counted
//! of it.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, UserPlan};
use thalweg_measure::Outcome;
use thalweg_reactor::sim::SimConfig;

use crate::script::Response;
use crate::world::{Run, World, plan, session_plan};
use crate::{MS, US};

/// A page with three parts, 100 ms, and another page.
const TWO_PAGES: &str = "/1 think=0.1\n /2\n /3\n /4\n/5\n";

/// From one side of a calm network to the other and back.
const ROUND_TRIP_NS: u64 = 100 * US;

/// One session after the other, so many in all.
fn one_by_one(text: &str, sessions: u64) -> Plan {
    session_plan(text, Duration::ZERO, LoopPlan::of_workers(1, Duration::ZERO), Extent::Requests(sessions))
}

/// The requests that came over the wire: target and connection, and the microseconds since the
/// first.
fn transcript(run: &Run) -> Vec<(u64, u64, u64)> {
    let first = run.records[0].arrived;
    let line = |record: &crate::server::Record| (record.number, record.connection, record.arrived.ns_since(first) / US);
    run.records.iter().map(line).collect()
}

#[test]
fn a_burst_s_first_call_goes_alone_and_its_others_together() {
    // 20 ms for each response, which the server gives one after the other, as in the example of
    // docs/workloads.md.
    let run = World::calm(Plan { pipeline: 32, ..one_by_one(TWO_PAGES, 1) }).run(|_| Response::Late(20 * MS));
    assert_eq!(
        transcript(&run),
        [(1, 0, 0), (2, 0, 20_100), (3, 0, 40_100), (4, 0, 60_100), (5, 0, 180_200)],
        "the server takes a call when the one before is answered"
    );
    let trial = &run.figures.trial;
    let sessions = trial.sessions.as_ref().expect("there were sessions").summary();
    assert_eq!((sessions.completed, sessions.failed, sessions.connections, sessions.calls_not_offered), (1, 0, 1, 0));
    assert_eq!(sessions.lengths, [0, 0, 0, 0, 0, 1]);
    // The parts are due together when the page is there, and the last of them waits for the others'
    // responses.
    let response = trial.response_time();
    assert_eq!((trial.counts.good, trial.queue.max()), (5, 0), "connecting is no wait in a queue");
    assert_eq!(trial.connect.max(), ROUND_TRIP_NS);
    assert!(response.max().abs_diff(60 * MS + ROUND_TRIP_NS) < MS, "the third part took {} ns", response.max());
}

#[test]
fn without_pipelining_the_calls_of_a_burst_follow_one_another() {
    let run = World::calm(one_by_one(TWO_PAGES, 2)).run(|_| Response::Late(20 * MS));
    let order: Vec<_> = transcript(&run).into_iter().map(|(number, connection, _)| (number, connection)).collect();
    let session = |connection| [1, 2, 3, 4, 5].map(|number| (number, connection));
    assert_eq!(order, [session(0), session(1)].concat(), "each session has a connection of its own");
    let trial = &run.figures.trial;
    let waited_ns = 2 * (20 * MS + ROUND_TRIP_NS);
    assert!(trial.queue.max().abs_diff(waited_ns) < MS, "the last part waited for {} ns", trial.queue.max());
    assert!(trial.lag.max() < MS, "the wait is not the client's own: {} ns", trial.lag.max());
}

#[test]
fn a_session_goes_on_with_another_connection_when_the_server_closes_between_calls() {
    for closing in [Response::Closing, Response::UntilClose, Response::Abandoning, Response::Old] {
        let run = World::calm(one_by_one("/1 think=0.1\n/2\n/3\n", 3)).run(move |number| match number {
            1 => closing,
            _ => Response::Good,
        });
        let order: Vec<_> = transcript(&run).into_iter().map(|(number, connection, _)| (number, connection)).collect();
        let session = |first| [(1, first), (2, first + 1), (3, first + 1)];
        assert_eq!(order, [session(0), session(2), session(4)].concat(), "{closing:?}");
        let sessions = run.figures.trial.sessions.as_ref().expect("there were sessions").summary();
        assert_eq!((sessions.completed, sessions.failed, sessions.connections), (3, 0, 6), "{closing:?}");
        let second_ns = run.records[1].arrived.ns_since(run.records[0].arrived);
        assert!((100 * MS..102 * MS).contains(&second_ns), "{closing:?}: the pause took {second_ns} ns");
        assert_eq!(run.figures.trial.counts.good, 9);
    }
}

#[test]
fn a_session_stops_where_a_call_fails() {
    for pipeline in [1, 32] {
        let plan = Plan { pipeline, ..one_by_one(TWO_PAGES, 1) };
        let run = World::calm(plan).run(|number| if number == 3 { Response::HangUp } else { Response::Good });
        let trial = &run.figures.trial;
        let sessions = trial.sessions.as_ref().expect("there were sessions").summary();
        assert_eq!((sessions.completed, sessions.failed), (0, 1));
        assert_eq!(sessions.lengths, [0, 0, 1], "two calls were responded to");
        assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Reset)), (2, if pipeline == 1 { 1 } else { 2 }));
        assert_eq!(trial.counts.offered + sessions.calls_not_offered, 5, "pipeline {pipeline}");
        assert_eq!(run.figures.calls_not_offered, sessions.calls_not_offered);
    }
}

#[test]
fn an_response_with_which_the_connection_ends_is_one_of_its_session_s() {
    // The server closes behind the second of four, and those that were pipelined behind it are
    // lost.
    let run = World::calm(Plan { pipeline: 32, ..one_by_one(TWO_PAGES, 1) }).run(|number| match number {
        2 => Response::Closing,
        _ => Response::Good,
    });
    let trial = &run.figures.trial;
    let sessions = trial.sessions.as_ref().expect("there were sessions").summary();
    assert_eq!((trial.counts.good, trial.outcomes.count(Outcome::Reset)), (2, 2));
    assert_eq!((sessions.failed, sessions.lengths.as_slice()), (1, &[0, 0, 1][..]), "two calls were responded to");
}

#[test]
fn a_session_that_cannot_begin_has_failed() {
    let network = SimConfig { refuse_probability: 1.0, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(one_by_one(TWO_PAGES, 7)) }.run(|_| Response::Good);
    let trial = &run.figures.trial;
    let sessions = trial.sessions.as_ref().expect("there were sessions").summary();
    assert_eq!((trial.counts.offered, trial.outcomes.count(Outcome::Refused)), (7, 7));
    assert_eq!((sessions.completed, sessions.failed, sessions.calls_not_offered), (0, 7, 4 * 7));
    assert_eq!(run.figures.calls_not_offered, 4 * 7);
}

#[test]
fn a_call_that_gets_no_connection_is_offered_once() {
    // The server closes behind each first call. When the second ones are due it is held up, and one
    // connection finds room to wait.
    let arrivals = LoopPlan::at_rate(100.0);
    let plan = session_plan("/1 think=0.2\n/2\n/3\n", Duration::ZERO, arrivals, Extent::Requests(2));
    let plan = Plan { timeout: Duration::from_millis(50), ..plan };
    let network = SimConfig { backlog: 1, ..SimConfig::calm(1) };
    let stall = Some((100 * MS, 1000 * MS));
    let run = World { network, stall, ..World::calm(plan) }.run(|_| Response::Abandoning);
    let (trial, outcomes) = (&run.figures.trial, &run.figures.trial.outcomes);
    let sessions = trial.sessions.as_ref().expect("there were sessions").summary();
    assert_eq!((trial.counts.offered, trial.counts.good, outcomes.count(Outcome::Timeout)), (4, 2, 2), "{outcomes:?}");
    assert_eq!((trial.counts.sent, trial.connections.attempted, trial.connections.opened), (3, 4, 3));
    assert_eq!((sessions.failed, sessions.calls_not_offered, run.figures.calls_not_offered), (2, 2, 2));
}

#[test]
fn a_call_whose_connection_comes_too_late_is_not_sent() {
    // Its connection is there just before its time is over, but the client oversleeps that.
    let (mut late, timeout_ns) = (0, 50 * MS);
    for seed in 0..200 {
        let timeout = Duration::from_nanos(timeout_ns);
        let plan = Plan { timeout, ..one_by_one("/1\n/2\n", 1) };
        let network = SimConfig { oversleep_ns: 8 * MS, ..SimConfig::calm(seed) };
        let world = World { network, stall_client: Some((1, 0, 65 * MS)), ..World::calm(plan) };
        let trial = world.run(|_| Response::Closing).figures.trial;
        let waited: u64 = trial.queue.buckets().filter(|&(ns, _)| ns >= timeout_ns).map(|(_, count)| count).sum();
        assert_eq!(waited, trial.counts.offered - trial.counts.sent, "seed {seed}: calls that are late, or not sent");
        late += u64::from(waited > 0 && trial.connections.opened == 2);
    }
    assert!(late > 0, "the connection came too late at least once");
}

#[test]
fn calls_due_while_their_session_gets_a_connection_are_part_of_the_load() {
    // The second call is due just before the end, and its connection is not there yet when the end
    // comes.
    let arrivals = LoopPlan::at_rate(100.0);
    let plan = Plan {
        timeout: Duration::from_millis(200),
        ..session_plan("/1\n/2\n", Duration::ZERO, arrivals, Extent::Duration(Duration::from_millis(10)))
    };
    let network = SimConfig { latency_ns: 2_400 * US, ..SimConfig::calm(1) };
    let run = World { network, ..World::calm(plan) }.run(|_| Response::Closing);
    let trial = &run.figures.trial;
    assert_eq!((trial.counts.offered, trial.counts.good), (2, 2), "{:?}", trial.outcomes);
}

#[test]
fn a_pause_that_ends_with_the_schedule_is_not_cut_short() {
    // The pause is over just before the end, and the clock of the pauses is coarser than that.
    let arrivals = LoopPlan::at_rate(20.0);
    let text = "/1 think=0.03005\n/2\n";
    let extent = |us| Extent::Duration(Duration::from_micros(us));
    // Connecting and the first call take a round trip each.
    let check = |us: u64, offered: u64| {
        let run = World::calm(session_plan(text, Duration::ZERO, arrivals.clone(), extent(us))).run(|_| Response::Good);
        assert_eq!(run.figures.trial.counts.offered, offered, "with an end after {us} us");
    };
    for us in [30_251, 30_270, 30_299, 30_301, 30_400] {
        check(us, 2);
    }
    check(30_249, 1);
}

#[test]
fn calls_on_a_connection_of_their_own_follow_one_another() {
    let rate = LoopPlan::at_rate(100.0);
    let plan = Plan { user: Some(UserPlan::Calls(4)), ..plan(rate, Extent::Requests(5), 20) };
    let run = World::calm(plan).run(|number| if number == 6 { Response::Closing } else { Response::Good });
    let trial = &run.figures.trial;
    let connections: Vec<u64> = run.records.iter().map(|record| record.connection).collect();
    let expected = [vec![0; 4], vec![1; 3], vec![2; 4], vec![3; 4], vec![4; 4]].concat();
    assert_eq!(connections, expected, "the second was closed by the server");
    assert_eq!((trial.counts.offered, trial.counts.good), (19, 19));
    assert_eq!((run.figures.calls_not_offered, trial.connections.opened, trial.connections.closed), (1, 5, 5));
    assert!(trial.sessions.is_none());
}

#[test]
fn parked_sessions_keep_their_place_among_the_connections() {
    // The server closes behind each first call; two connections are allowed, so no third session
    // begins during the pauses.
    let arrivals = LoopPlan::at_rate(1000.0);
    let plan = session_plan("/1 think=0.05\n/2\n", Duration::ZERO, arrivals, Extent::Requests(10));
    let run = World::calm(Plan { connections: 2, ..plan }).run(|_| Response::Closing);
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.good, 20);
    let mut under_way = 0_i64;
    let levels = run.records.iter().map(|record| {
        under_way += if record.number == 1 { 1 } else { -1 };
        under_way
    });
    assert_eq!(levels.max(), Some(2), "sessions at once");
}
