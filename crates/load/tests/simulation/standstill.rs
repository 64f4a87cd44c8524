//! A load thread that is stopped for a while: the wait is the thread's own, in every mode, and
//! never the server's doing.

use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Extent, LoopPlan, Plan, Spacing, UserPlan};
use thalweg_measure::Histogram;
use thalweg_measure::trial::{Verdict, verdict};

use crate::script::Response;
use crate::world::{Run, World, plan, session_plan};
use crate::{MS, US, runs, with_seeds};

const RUNS: u64 = 2000;

/// From the noticing of an arrival to the end of its response: a handshake, a request, a response,
/// and what a burst of those waits for one another.
const PROMPT_NS: u64 = 2 * MS;

/// The thread looks around at least as often. A standstill that begins just after a look is taken
/// for a sleep until the next one.
const PUBLISH_NS: u64 = 20 * MS;

/// The ways in which load is offered.
#[derive(Clone, Copy, Debug)]
enum Mode {
    Rate,
    Poisson,
    ConnectionPerRequest,
    ConnectionRate { calls: u32 },
    Sessions,
    Workers,
    ThinkingWorkers,
}

const MODES: [Mode; 7] = [
    Mode::Rate,
    Mode::Poisson,
    Mode::ConnectionPerRequest,
    Mode::ConnectionRate { calls: 5 },
    Mode::Sessions,
    Mode::Workers,
    Mode::ThinkingWorkers,
];

impl Mode {
    fn plan(self, rate: f64, length: Duration) -> Plan {
        let (open, extent) = (LoopPlan::at_rate(rate), Extent::Duration(length));
        let base = Plan { connections: 2000, ..plan(open.clone(), extent, 1) };
        let workers = |think| Plan { connections: 4, ..plan(LoopPlan::of_workers(4, think), extent, 1) };
        match self {
            Self::Rate => base,
            Self::Poisson => {
                let rate = Arc::new(thalweg_load::RateProfile::constant(rate));
                Plan { arrivals: LoopPlan::Open { rate, spacing: Spacing::Poisson }, ..base }
            }
            Self::ConnectionPerRequest => Plan { calls: Some(1), ..base },
            Self::ConnectionRate { calls } => Plan { user: Some(UserPlan::Calls(calls)), ..base },
            Self::Sessions => {
                let text = "/0 think=0.02\n /1\n /2\n/3\n\n/4\n";
                Plan { connections: 2000, ..session_plan(text, Duration::from_millis(5), open, extent) }
            }
            Self::Workers => workers(Duration::ZERO),
            Self::ThinkingWorkers => workers(Duration::from_millis(10)),
        }
    }
}

fn run_with_standstill(plan: Plan, from_ns: u64, until_ns: u64, delay_ns: u64) -> Run {
    let world = World { standstill: Some((from_ns, until_ns)), ..World::calm(plan) };
    world.run(move |_| if delay_ns == 0 { Response::Good } else { Response::Late(delay_ns) })
}

/// How many are longer.
fn above(histogram: &Histogram, bound_ns: u64) -> u64 {
    histogram.buckets().filter(|&(ns, _)| ns > bound_ns).map(|(_, count)| count).sum()
}

#[test]
fn a_client_that_stands_still_is_late_in_every_mode() {
    for mode in MODES {
        let plan = mode.plan(200.0, Duration::from_secs(3));
        let run = run_with_standstill(plan, 1000 * MS, 1600 * MS, 200 * US);
        let trial = &run.figures.trial;
        let lag = &trial.lag;
        assert!(lag.max() >= 550 * MS, "{mode:?}: the longest lag is {} ns", lag.max());
        assert!(trial.queue.max() < PROMPT_NS, "{mode:?}: a queue of {} ns", trial.queue.max());
        let judgement = verdict(trial, &[]);
        assert_eq!(judgement.verdict, Verdict::Invalid, "{mode:?}: {:?}", judgement.reasons);
    }
}

/// With connections that a slow server keeps busy, an arrival's wait begins to be its doing when
/// the client has seen the arrival.
#[test]
fn a_queue_begins_when_the_client_looks() {
    let plan = Plan { connections: 10, ..Mode::Rate.plan(200.0, Duration::from_secs(3)) };
    let run = run_with_standstill(plan, 1000 * MS, 1600 * MS, 40 * MS);
    let trial = &run.figures.trial;
    assert!(trial.lag.max() >= 550 * MS, "the longest lag is {} ns", trial.lag.max());
    // 120 requests over ten connections, 40 ms each.
    assert!(trial.queue.max() <= 13 * 41 * MS, "a queue of {} ns", trial.queue.max());
}

#[test]
fn handshakes_are_timed_by_the_kernel_and_not_by_a_busy_thread() {
    for mode in MODES {
        let plan = mode.plan(500.0, Duration::from_secs(1));
        let run = run_with_standstill(plan, 0, 300 * MS, 0);
        let connect = &run.figures.trial.connect;
        assert!(connect.count() > 0 && connect.max() < MS, "{mode:?}: up to {} ns", connect.max());
    }
}

fn random_run(seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let mode = MODES[random.random_range(0..MODES.len())];
    let rate = random.random_range(50.0..500.0);
    let delay_ns = random.random_range(100 * US..900 * US);
    let from_ns = random.random_range(0..150 * MS);
    let until_ns = from_ns + random.random_range(10 * MS..400 * MS);
    let plan = mode.plan(rate, Duration::from_millis(200));
    let run = run_with_standstill(plan, from_ns, until_ns, delay_ns);
    let trial = &run.figures.trial;
    assert_eq!(trial.counts.offered, trial.counts.good, "{mode:?}: {:?}", trial.outcomes);
    let response = trial.response_time();
    for bound_ns in [30 * MS, 60 * MS, 100 * MS, 300 * MS] {
        let (slow, late) = (above(&response, bound_ns), above(&trial.lag, bound_ns - PROMPT_NS - PUBLISH_NS));
        assert!(slow <= late, "{mode:?}: {slow} took longer than {bound_ns} ns, {late} of them through the client");
    }
    assert!(trial.queue.max() < PROMPT_NS + PUBLISH_NS, "{mode:?}: a queue of {} ns", trial.queue.max());
}

#[test]
fn no_wait_of_a_thread_that_stands_still_is_blamed_on_the_server() {
    with_seeds(0..runs(RUNS), random_run);
}
