//! Every request has exactly one outcome, whatever the network and the server do.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Extent, LoopPlan, Pick, Plan, RunFigures};
use thalweg_measure::{Outcome, Outcomes};
use thalweg_reactor::sim::SimConfig;

use crate::script::{Answer, random_of};
use crate::world::{World, plan, request};
use crate::{MS, SECOND, with_seeds};

/// How many runs each random test makes.
const RUNS: u64 = 250;

/// Beyond this many bytes, a request does not fit into the buffers of a rough network.
const LARGE_BODY: &[u8] = &[b'x'; 100_000];

/// What the schedule says about the number of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offered {
    Exactly(u64),
    AsManyAsCome,
}

/// Verifies that the figures agree with one another and with the schedule. Of an interrupted run, what was under way is in the series
/// and not in the counts.
fn check(figures: &RunFigures, offered: Offered, connections: usize) {
    let trial = &figures.trial;
    trial.counts.check(&trial.outcomes).expect("the counts are those of the outcomes");
    if let Offered::Exactly(expected) = offered {
        assert_eq!(trial.counts.offered, expected, "offered");
    }
    let count = |outcome| trial.outcomes.count(outcome);
    assert!(trial.held_back <= count(Outcome::NotSent), "held back");
    assert_eq!(trial.service_time.count(), trial.counts.completed, "service times");
    assert_eq!(trial.first_byte.count(), trial.counts.completed, "first bytes");
    let ended_waiting =
        if figures.interrupted { trial.queue.count() } else { trial.counts.offered - count(Outcome::NotSent) };
    assert_eq!(trial.queue.count(), ended_waiting, "times in the queue");
    assert_eq!(trial.lag.count(), trial.counts.sent, "lags");
    let response_time = trial.response_time();
    assert_eq!(response_time.count(), trial.counts.good + count(Outcome::Timeout), "response times");
    assert!(trial.service_time.max() <= response_time.max().max(SECOND), "a service time is from this run");

    let mut sums = [0; 5];
    for interval in trial.intervals.intervals() {
        let tallies = [interval.offered, interval.sent, interval.good, interval.errors, interval.bytes_in];
        sums.iter_mut().zip(tallies).for_each(|(sum, tally)| *sum += tally);
    }
    let under_way = trial.intervals.in_flight();
    assert!(under_way == 0 || figures.interrupted, "{under_way} are left in flight");
    let counts = &trial.counts;
    let expected = [
        counts.offered + under_way,
        counts.sent + under_way,
        counts.good,
        trial.outcomes.errors(),
        trial.bytes.received,
    ];
    assert_eq!(sums, expected, "offered, sent, good, errors and bytes of the series");

    assert!(trial.in_window.sent <= counts.sent + under_way, "sent within the window");
    assert!(trial.in_window.completed <= counts.completed, "completed within the window");
    assert!(trial.in_window.good <= trial.in_window.completed, "good within the window");
    assert!(trial.connections.peak <= connections as u64, "connections");
    assert!(trial.bytes.body_received <= trial.bytes.received, "bytes");
}

fn millis(random: &mut Pcg64Mcg, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(random.random_range(range))
}

fn network(random: &mut Pcg64Mcg) -> SimConfig {
    let seed = random.random();
    match random.random_range(0..3) {
        0 => SimConfig::calm(seed),
        1 => SimConfig::rough(seed),
        _ => SimConfig::hostile(seed),
    }
}

fn random_plan(random: &mut Pcg64Mcg) -> Plan {
    let few = random.random_bool(0.3);
    let connections: usize = if few { random.random_range(1..4) } else { random.random_range(4..60) };
    let by_number = random.random_bool(0.3);
    let extent = if by_number {
        Extent::Requests(random.random_range(1..300))
    } else {
        Extent::Duration(millis(random, 1..200))
    };
    let arrivals = if random.random_bool(0.6) {
        LoopPlan::at_rate(random.random_range(20.0..4000.0))
    } else {
        let think = if by_number && random.random() { Duration::ZERO } else { millis(random, 3..30) };
        LoopPlan::of_workers(connections.min(30), think)
    };
    let targets = random.random_range(1..20);
    let post = random.random_bool(0.2);
    let body = &LARGE_BODY[..if random.random() { 10 } else { LARGE_BODY.len() }];
    let cores = if connections > 1 && random.random_bool(0.3) { 2 } else { 1 };
    let mut plan = plan(arrivals, extent, targets);
    if post {
        plan.requests = (0..targets).map(|number| request("POST", number, body)).collect();
    }
    plan.pick = if random.random() { Pick::Sequential } else { Pick::Random };
    plan.warmup = if random.random() { Duration::ZERO } else { millis(random, 1..100) };
    plan.timeout = millis(random, 2..300);
    plan.drain = if random.random_bool(0.2) { Duration::ZERO } else { millis(random, 0..400) };
    plan.connections = connections;
    plan.calls = random.random_bool(0.4).then(|| random.random_range(1..6));
    plan.cpus = (0..cores).collect();
    plan.seed = random.random();
    plan
}

fn offered(plan: &Plan) -> Offered {
    match (plan.extent, &plan.arrivals) {
        (Extent::Requests(total), _) => Offered::Exactly(total),
        (Extent::Duration(length), LoopPlan::Open { rate, .. }) => {
            Offered::Exactly(rate.count_until(length.as_secs_f64()).round() as u64)
        }
        (Extent::Duration(_), _) => Offered::AsManyAsCome,
    }
}

/// Makes one random run; with `interrupted`, it is ended at a random point. What came of its requests.
fn random_run(seed: u64, interrupted: bool) -> Outcomes {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let plan = random_plan(random);
    let (expected, connections) = (if interrupted { Offered::AsManyAsCome } else { offered(&plan) }, plan.connections);
    let wild = random.random_bool(0.5);
    let stall = random.random_bool(0.3).then(|| {
        let from_ns = random.random_range(0..300 * MS);
        (from_ns, from_ns + random.random_range(0..300 * MS))
    });
    let interrupt_ns = interrupted.then(|| random.random_range(0..400 * MS));
    let mut merged: Option<RunFigures> = None;
    for core in 0..plan.cpus.len() {
        let world = World { core, network: network(random), stall, interrupt_ns, ..World::calm(plan.clone()) };
        let run = world.run(move |number| {
            let random = &mut random_of(seed, number);
            match wild {
                true => Answer::any(random),
                false if random.random_bool(0.9) => Answer::Good,
                false => Answer::independent(random),
            }
        });
        check(&run.figures, Offered::AsManyAsCome, connections);
        match &mut merged {
            Some(merged) => merged.merge(&run.figures),
            None => merged = Some(run.figures),
        }
    }
    let merged = merged.expect("a plan has a thread");
    check(&merged, expected, connections);
    merged.trial.outcomes
}

fn random_runs(first_seed: u64, interrupted: bool) {
    let mut together = Outcomes::default();
    for outcomes in with_seeds(first_seed..first_seed + RUNS, |seed| random_run(seed, interrupted)) {
        together.merge(&outcomes);
    }
    let came = |outcome| together.count(outcome) > 0;
    let never = Outcome::ALL.into_iter().filter(|&outcome| !came(outcome));
    // The simulated network has no routes that can be missing, and nothing here speaks TLS.
    assert!(never.eq([Outcome::Unreachable, Outcome::TlsFailure]), "{together:?}");
}

#[test]
fn outcomes_add_up_to_what_was_offered() {
    random_runs(0, false);
}

#[test]
fn an_interrupted_run_s_figures_add_up() {
    random_runs(1_000_000, true);
}

#[test]
fn an_interrupted_run_says_so_and_keeps_what_has_ended() {
    let rate = LoopPlan::at_rate(1000.0);
    let plan = plan(rate, Extent::Duration(Duration::from_secs(10)), 1);
    let run = World { interrupt_ns: Some(SECOND), ..World::calm(plan) }.run(|_| Answer::Late(5 * MS));
    check(&run.figures, Offered::AsManyAsCome, 100);
    let (trial, under_way) = (&run.figures.trial, run.figures.trial.intervals.in_flight());
    assert!(run.figures.interrupted);
    assert_eq!(run.took_ns, SECOND);
    assert_eq!(trial.counts.offered, trial.counts.good, "what is under way is left out");
    assert!((5..=6).contains(&under_way), "{under_way} under way");
    assert!((990..1000).contains(&(trial.counts.good + under_way)), "{:?}", trial.counts);
    assert!(trial.duration.abs_diff(Duration::from_secs(1)) < Duration::from_millis(5), "{:?}", trial.duration);
}

#[test]
fn what_came_due_until_the_interruption_is_offered() {
    // The client sleeps over several arrivals, and over the interruption.
    for seed in 0..20 {
        let open = plan(LoopPlan::at_rate(1000.0), Extent::Duration(Duration::from_secs(10)), 1);
        let network = SimConfig { oversleep_ns: 20 * MS, ..SimConfig::calm(seed) };
        let run = World { network, interrupt_ns: Some(SECOND / 2), ..World::calm(open) }.run(|_| Answer::Good);
        let trial = &run.figures.trial;
        let due = trial.duration.as_nanos() as u64 / MS + 1;
        assert_eq!(trial.counts.offered + trial.intervals.in_flight(), due, "seed {seed}");
    }
}

#[test]
fn interrupted_before_its_start_a_run_has_offered_nothing() {
    let rate = LoopPlan::at_rate(1000.0);
    let warmup = Duration::from_secs(2);
    let plan = Plan { warmup, ..plan(rate, Extent::Duration(Duration::from_secs(10)), 1) };
    for interrupt_ns in [0, MS, SECOND] {
        let run = World { interrupt_ns: Some(interrupt_ns), ..World::calm(plan.clone()) }.run(|_| Answer::Good);
        check(&run.figures, Offered::Exactly(0), 100);
        assert!(run.figures.interrupted);
    }
}
