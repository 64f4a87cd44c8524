//! A load thread that something else kept from running: the time is left out, and only that.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Limit;
use thalweg_measure::trial::{Certainty, Thresholds, TrialFigures, Verdict, verdict};

use crate::script::Response;
use crate::world::{World, plan};
use crate::{MS, SECOND, US};

const RATE: f64 = 200.0;
const LENGTH: Duration = Duration::from_secs(3);

/// The thread notices only when it wakes, or looks around, at most this late.
const SLACK_NS: u64 = 25 * MS;

fn watched() -> Plan {
    let limits = limits();
    Plan {
        lateness_max: Some(Duration::from_millis(1)),
        thresholds: Thresholds::of(&limits),
        connections: 400,
        ..plan(LoopPlan::at_rate(RATE), Extent::Duration(LENGTH), 1)
    }
}

fn limits() -> Vec<Limit> {
    vec!["p99<40ms".parse().expect("a limit")]
}

/// A world whose load thread stands still for 50 ms after a second.
fn standing_still(plan: Plan, held_up: bool) -> World {
    World { standstill: Some((1000 * MS, 1050 * MS)), held_up, ..World::calm(plan) }
}

fn offered(figures: &TrialFigures) -> u64 {
    figures.counts.offered + figures.left_out_outcomes().total()
}

#[test]
fn a_wait_for_the_cpu_and_its_effects_are_left_out() {
    for plan in [watched(), Plan { arrivals: LoopPlan::of_workers(4, Duration::from_millis(20)), ..watched() }] {
        let run = standing_still(plan, true).run(|_| Response::Late(2 * MS));
        let trial = &run.figures.trial;
        let lost_ns = trial.left_out.total().as_nanos() as u64;
        // The wait, and ten times as long.
        assert!((550 * MS..550 * MS + SLACK_NS).contains(&lost_ns), "{lost_ns} ns are left out");
        let judgement = verdict(trial, &limits());
        assert_eq!(judgement.verdict, Verdict::Pass, "{:?}", judgement.reasons);
        assert!(trial.lag.max() < MS && trial.response_time().max() < 10 * MS);
        assert_eq!(trial.response_time().count(), trial.counts.completed);
        let mut whole = trial.clone();
        whole.take_back();
        assert_eq!(whole.counts.offered, offered(trial));
        assert_eq!(whole.counts.check(&whole.outcomes), Ok(()));
        assert!(whole.lag.max() > 20 * MS, "nothing is lost for good");
        assert_eq!(whole.response_time().count(), whole.counts.completed);
    }
}

#[test]
fn rates_are_of_the_time_that_is_left() {
    let run = standing_still(watched(), true).run(|_| Response::Late(2 * MS));
    let rates = run.figures.trial.rates();
    assert!((rates.good / RATE - 1.0).abs() < 0.02, "{} good responses per second", rates.good);
    assert_eq!(offered(&run.figures.trial), 600);
}

/// A thread that was late for another reason was kept from its work by itself. Its lag counts: the
/// trial passes a limit that the response times meet with it, and says nothing about a tighter one.
#[test]
fn lateness_without_an_outside_cause_is_the_clients() {
    let run = standing_still(watched(), false).run(|_| Response::Late(2 * MS));
    let trial = &run.figures.trial;
    assert!(trial.left_out.total().is_zero());
    let judgement = verdict(trial, &limits());
    assert_eq!((judgement.verdict, judgement.is_of_late_client()), (Verdict::Pass, true), "{:?}", judgement.reasons);
    assert_eq!(verdict(trial, &["p99<10ms".parse().expect("a limit")]).verdict, Verdict::Invalid);
    // Without the lag of each request, nothing is left of the standstill but the burst after it.
    assert!(trial.without_lag.quantile(0.99) < 10 * MS && trial.without_lag.count() == trial.counts.good);
}

/// A request that ends outside of the time that is left out counts, however slow it is and whenever
/// it began.
#[test]
fn slow_responses_are_not_left_out_for_being_slow() {
    let slow =
        |number: u64| if number.is_multiple_of(10) { Response::Late(700 * MS) } else { Response::Late(500 * US) };
    let targets = plan(LoopPlan::at_rate(RATE), Extent::Duration(LENGTH), 10).requests;
    let run = standing_still(Plan { requests: targets, ..watched() }, true).run(slow);
    let trial = &run.figures.trial;
    let (counted, left_out) = (trial.counts.offered, trial.left_out_outcomes().total());
    let slow = trial.response_time().buckets().filter(|&(ns, _)| ns > 600 * MS).map(|(_, count)| count).sum::<u64>();
    let share = slow as f64 / counted as f64;
    assert!((share - 0.1).abs() < 0.015, "{share} of {counted} are slow, {left_out} are left out");
    // Requests that were sent late and took long are not the client's lateness either.
    assert!(trial.lag.quantile(0.99) < MS, "the lag is {} ns", trial.lag.quantile(0.99));
}

#[test]
fn lost_time_is_made_up_for() {
    for arrivals in [LoopPlan::at_rate(RATE), LoopPlan::of_workers(2, Duration::from_millis(9))] {
        let plan = Plan { arrivals, extension_max: LENGTH, ..watched() };
        for (extension_ms, expected_ms) in [(0, 3000), (550, 3550), (9000, 6000)] {
            let extension = Duration::from_millis(extension_ms);
            let run = World { extension, ..World::calm(plan.clone()) }.run(|_| Response::Late(MS));
            let trial = &run.figures.trial;
            assert_eq!(trial.duration, Duration::from_millis(expected_ms), "{extension_ms} ms longer");
            let expected = RATE * trial.duration.as_secs_f64();
            let close = (trial.counts.good as f64 / expected - 1.0).abs() < 0.02;
            assert!(close, "{} of {expected} in {expected_ms} ms", trial.counts.good);
            assert_eq!(trial.counts.good, trial.counts.offered);
        }
    }
}

#[test]
fn an_overload_is_certain_long_before_its_end() {
    // One connection, which carries 190/s.
    let plan = Plan { connections: 1, ..watched() };
    let certainty = Certainty::new(&limits(), plan.arrivals.kind(), plan.offered_max());
    let world = World { interrupt_ns: Some(1500 * MS), ..World::calm(plan) };
    let run = world.run(|_| Response::Late(SECOND / 190));
    let trial = &run.figures.trial;
    assert!(certainty.is_fail(&trial.so_far()), "after {:?}: {:?}", trial.duration, trial.so_far());
    assert_eq!(verdict(trial, &limits()).verdict, Verdict::Fail);
}
