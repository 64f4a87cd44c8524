//! Every request has exactly one outcome, whatever the network and the server do.
//! `THALWEG_LOAD_RUNS` is the number of random runs.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Extent, LoopPlan, Pace, Pick, Plan, RateProfile, RateText, Reuse, RunFigures, Spacing, UserPlan};
use thalweg_measure::trial::{Sessions, TrialFigures};
use thalweg_measure::{Outcome, Outcomes, StatusClasses};
use thalweg_reactor::sim::SimConfig;

use crate::script::{Response, random_of};
use crate::server::Record;
use crate::world::{World, log_plan, plan, request, session_plan};
use crate::{MS, SECOND, runs, with_seeds};

/// How many random runs are made to their end, and how many are interrupted.
const RUNS: u64 = 2000;
const INTERRUPTED_RUNS: u64 = 600;

/// Beyond this many bytes, a request does not fit into the buffers of a rough network.
const LARGE_BODY: &[u8] = &[b'x'; 100_000];

/// The number of requests that the schedule has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Offered {
    Exactly(u64),
    AsManyAsCome,
}

/// Verifies that the figures agree with one another and with the schedule. Of an interrupted run,
/// what was under way is in the series and not in the counts.
fn check(figures: &RunFigures, offered: Offered, connections: usize) {
    let trial = &figures.trial;
    trial.counts.check(&trial.outcomes).expect("the counts are those of the outcomes");
    if let Offered::Exactly(expected) = offered {
        assert_eq!(trial.counts.offered + trial.under_way + figures.calls_not_offered, expected, "offered");
    }
    let count = |outcome| trial.outcomes.count(outcome);
    assert!(trial.held_back <= count(Outcome::NotSent), "held back");
    assert_eq!(trial.service_time.count(), trial.counts.completed, "service times");
    assert_eq!(trial.first_byte.count(), trial.counts.completed, "first bytes");
    let ended_waiting = trial.counts.offered - count(Outcome::NotSent);
    assert_eq!(trial.queue.count(), ended_waiting, "times in the queue");
    assert_eq!(trial.lag.count(), ended_waiting, "lags");
    let response_time = trial.response_time();
    assert_eq!(response_time.count(), trial.counts.good + count(Outcome::Timeout), "response times");
    assert!(trial.service_time.max() <= response_time.max().max(SECOND), "a service time is from this run");

    let mut sums = [0; 5];
    for interval in trial.intervals.intervals() {
        let tallies = [interval.offered, interval.sent, interval.good, interval.errors, interval.bytes_in];
        sums.iter_mut().zip(tallies).for_each(|(sum, tally)| *sum += tally);
    }
    let counts = &trial.counts;
    // Of what was under way when the run was cut off, the series has what was offered, and what was
    // sent of it.
    let under_way = trial.under_way;
    assert_eq!(trial.intervals.in_flight(), under_way, "in flight at the end of the series");
    let sent_under_way = sums[1] - counts.sent;
    assert!(sent_under_way <= under_way, "{sent_under_way} sent of {under_way} under way");
    let expected = [
        counts.offered + under_way,
        counts.sent + sent_under_way,
        counts.good,
        trial.outcomes.errors(),
        trial.bytes.received,
    ];
    assert_eq!(sums, expected, "offered, sent, good, errors and bytes of the series");

    assert!(trial.in_window.sent <= counts.sent + under_way, "sent within the window");
    assert!(trial.in_window.completed <= counts.completed, "completed within the window");
    assert!(trial.in_window.good <= trial.in_window.completed, "good within the window");
    assert!(trial.in_window.connections <= trial.connections.opened, "opened within the window");
    check_times(trial);
    check_bytes(trial);
    check_connections(trial, connections);
    check_sessions(figures);
}

/// The parts of a request's time add up to the whole.
fn check_times(trial: &TrialFigures) {
    assert_eq!(trial.transfer.count(), trial.counts.completed, "transfers");
    let (whole, parts) = (trial.service_time.mean(), trial.first_byte.mean() + trial.transfer.mean());
    // The histograms' own precision.
    assert!((whole - parts).abs() <= 0.01 * whole + 2.0, "{whole} ns in all, {parts} ns in parts");
    assert!(trial.last_end <= trial.span() && trial.duration <= trial.span(), "span");
    let causes = &trial.causes;
    assert!(causes.socket_timeout <= trial.outcomes.count(Outcome::Unreachable), "causes");
    assert!(causes.file_table_full <= trial.outcomes.count(Outcome::NoDescriptor), "causes");
}

/// Each byte is in one part; those of responses that came to no good end may be in none.
fn check_bytes(trial: &TrialFigures) {
    let bytes = &trial.bytes;
    assert_eq!(bytes.head_sent + bytes.body_sent, bytes.sent, "bytes sent");
    let parts = bytes.head_received + bytes.body_received + bytes.framing_received;
    assert!(parts <= bytes.received, "{parts} of {} bytes", bytes.received);
    let may_break = [Outcome::Truncated, Outcome::Timeout, Outcome::Reset, Outcome::ProtocolError];
    let all_whole = may_break.iter().all(|&outcome| trial.outcomes.count(outcome) == 0) && trial.under_way == 0;
    assert!(!all_whole || parts == bytes.received, "{parts} of {} bytes of whole responses", bytes.received);
    let status = &StatusClasses::of(&trial.status_codes);
    let finals = status.success + status.redirection + status.client_error + status.server_error;
    assert!(finals >= trial.counts.completed, "{status:?}");
}

fn check_connections(trial: &TrialFigures, connections_max: usize) {
    let (connections, completed) = (&trial.connections, trial.counts.completed);
    assert!(connections.peak <= connections_max as u64, "{connections:?}");
    assert!(connections.held <= connections.peak, "{connections:?}");
    assert!(connections.progressing <= connections.held, "{connections:?}");
    assert!(connections.peak <= connections.opened, "{connections:?}");
    assert_eq!(connections.closed, connections.opened, "all are closed when the run is over");
    assert_eq!(trial.connect.count(), connections.opened, "times to connect");
    assert!(connections.failed <= connections.attempted, "{connections:?}");
    assert!(connections.attempted - connections.opened >= connections.failed.saturating_sub(connections.closed));
    assert!(
        connections.kept <= completed && completed <= connections.replies,
        "{completed} completed, {connections:?}"
    );
    assert!(trial.connection_lifetime.count() <= connections.closed, "lifetimes");
    assert!(trial.bits_per_connection.count() <= connections.opened, "rates of connections");
    assert!(connections.conforming <= trial.bits_per_connection.count(), "{connections:?}");
}

fn check_sessions(figures: &RunFigures) {
    let Some(sessions) = figures.trial.sessions.as_ref().map(Sessions::summary) else { return };
    let (ended, lengths) = (sessions.completed + sessions.failed, &sessions.lengths);
    assert_eq!(lengths.iter().sum::<u64>(), ended, "lengths");
    assert!(sessions.connections >= sessions.completed, "a session has a connection");
    assert_eq!(sessions.calls_not_offered, figures.calls_not_offered, "calls that were not offered");
    let in_series: u64 = figures.trial.intervals.intervals().map(|interval| interval.sessions).sum();
    assert_eq!(in_series, sessions.completed, "sessions of the series");
}

/// No more requests are good than were responded to well, and none has failed its check whose
/// response was its own. If the server answers a request twice, or one of several pipelined ones
/// not at all, its responses are in the place of others, which the client cannot know.
fn check_responses(figures: &RunFigures, records: &[Record]) {
    if records.iter().any(|record| matches!(record.response, Response::Twice(_) | Response::Silence)) {
        return;
    }
    let (good, failed) = (figures.trial.counts.good, figures.trial.outcomes.count(Outcome::FailedCheck));
    let answered = |outcome| records.iter().filter(|record| record.response.outcome() == outcome).count() as u64;
    // Bytes behind a whole response may come when its call has ended.
    let surplus = records.iter().filter(|record| record.response == Response::Surplus).count() as u64;
    let well = answered(Outcome::Good) + surplus;
    assert!(good <= well, "{good} are good, {well} were responded to well");
    assert!(failed <= answered(Outcome::FailedCheck), "{failed} have failed of {}", answered(Outcome::FailedCheck));
}

fn millis(random: &mut Pcg64Mcg, range: Range<u64>) -> Duration {
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
        Extent::Requests(random.random_range(1..100))
    } else {
        Extent::Duration(millis(random, 1..100))
    };
    let targets = random.random_range(1..20);
    let arrivals = random_arrivals(random, connections, extent);
    let post = random.random_bool(0.2);
    let body = &LARGE_BODY[..if random.random() { 10 } else { LARGE_BODY.len() }];
    let threads = if connections > 1 && random.random_bool(0.3) { 2 } else { 1 };
    let of_users = random.random_bool(0.3);
    let mut plan = match random.random_range(0..20) {
        0..10 if of_users => session_plan(&random_sessions(random), millis(random, 0..10), arrivals, extent),
        0 => {
            let log: Vec<_> = (0..random.random_range(1..100)).map(|_| random.random_range(0..200)).collect();
            log_plan(log.into_iter().zip((0..targets).cycle()))
        }
        _ => plan(arrivals, extent, targets),
    };
    if of_users {
        plan.user.get_or_insert(UserPlan::Calls(random.random_range(1..6)));
    } else {
        plan.calls = random.random_bool(0.4).then(|| random.random_range(1..6));
        if post && !matches!(plan.arrivals, LoopPlan::Recorded { .. }) {
            plan.requests = (0..targets).map(|number| request("POST", number, body)).collect();
        }
    }
    if let Some(UserPlan::Sessions { connections, .. }) = &mut plan.user {
        *connections = random.random_range(1..6);
    }
    plan.pick = [Pick::Sequential, Pick::Random, Pick::Zipf(1.0)][random.random_range(0..3)];
    plan.warmup = if random.random() { Duration::ZERO } else { millis(random, 1..60) };
    plan.timeout = millis(random, 2..300);
    plan.drain = if random.random_bool(0.2) { Duration::ZERO } else { millis(random, 0..400) };
    plan.connections = connections;
    plan.opening_rate = random.random_bool(0.1).then(|| random.random_range(100.0..10_000.0));
    plan.pipeline = if random.random_bool(0.3) { random.random_range(2..12) } else { 1 };
    plan.reuse = if random.random() { Reuse::Oldest } else { Reuse::Latest };
    plan.pace = random.random_bool(0.1).then(|| {
        let bits_per_s = random.random_bool(0.8).then(|| random.random_range(100_000..10_000_000));
        Pace::new(bits_per_s, millis(random, 0..3))
    });
    plan.cpus = (0..threads).collect();
    plan.seed = random.random();
    plan
}

fn random_arrivals(random: &mut Pcg64Mcg, connections: usize, extent: Extent) -> LoopPlan {
    let by_number = matches!(extent, Extent::Requests(_));
    let spacing = if random.random_bool(0.3) { Spacing::Poisson } else { Spacing::Constant };
    let mut rate = || random.random_range(20_u32..4000);
    match rate() % 9 {
        0..5 => LoopPlan::Open { rate: Arc::new(RateProfile::constant(f64::from(rate()))), spacing },
        5 => {
            let text = format!("{}/s..{}/s,{}/s", rate(), rate(), rate());
            let length = Duration::from_millis(u64::from(rate() / 40 + 1));
            LoopPlan::Open { rate: Arc::new(text.parse::<RateText>().expect("a rate").over(length)), spacing }
        }
        _ => {
            let think = if by_number && random.random() { Duration::ZERO } else { millis(random, 3..30) };
            let stagger = if random.random() { Duration::ZERO } else { millis(random, 1..30) };
            LoopPlan::Closed { workers: connections.min(30), think, stagger }
        }
    }
}

/// A few sessions in httperf's format.
fn random_sessions(random: &mut Pcg64Mcg) -> String {
    let mut text = String::new();
    for _ in 0..random.random_range(1..4) {
        for _ in 0..random.random_range(1..4) {
            text.push_str(&format!("/{} think=0.{:03}\n", random.random_range(0..20), random.random_range(0..20)));
            for _ in 0..random.random_range(0..5) {
                text.push_str(&format!(" /{}\n", random.random_range(0..20)));
            }
        }
        text.push('\n');
    }
    text
}

/// The number of requests that the plan has, together with those of its users that are never
/// offered.
fn offered(plan: &Plan) -> Offered {
    let arrivals = match (plan.extent, &plan.arrivals) {
        (Extent::Requests(total), _) => total,
        (Extent::Duration(length), LoopPlan::Open { rate, spacing: Spacing::Constant }) if plan.user.is_none() => {
            rate.count_until(length.as_secs_f64()).round() as u64
        }
        (Extent::Duration(_), _) => return Offered::AsManyAsCome,
    };
    match &plan.user {
        None => Offered::Exactly(arrivals),
        // Users that begin in the warm-up may reach into the measured part.
        Some(_) if !plan.warmup.is_zero() => Offered::AsManyAsCome,
        Some(UserPlan::Calls(calls)) => Offered::Exactly(arrivals * u64::from(*calls)),
        Some(UserPlan::Sessions { sessions, .. }) => {
            let calls = |number: u64| {
                let bursts = sessions.bursts(number as usize % sessions.len());
                bursts.map(|burst| sessions.calls(burst).len() as u64).sum::<u64>()
            };
            Offered::Exactly((0..arrivals).map(calls).sum())
        }
    }
}

/// Makes one random run; with `interrupted`, it is ended at a random point. The figures of its
/// requests.
fn random_run(seed: u64, interrupted: bool) -> Outcomes {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let plan = random_plan(random);
    let (expected, connections) = (if interrupted { Offered::AsManyAsCome } else { offered(&plan) }, plan.connections);
    let sessions = match (plan.extent, expected) {
        (Extent::Requests(sessions), Offered::Exactly(_)) => Some(sessions),
        _ => None,
    };
    let wild = random.random_bool(0.5);
    let stall = random.random_bool(0.3).then(|| {
        let from_ns = random.random_range(0..300 * MS);
        (from_ns, from_ns + random.random_range(0..300 * MS))
    });
    let interrupt_ns = interrupted.then(|| random.random_range(0..400 * MS));
    let mut merged: Option<RunFigures> = None;
    for thread in 0..plan.cpus.len() {
        let world = World { thread, network: network(random), stall, interrupt_ns, ..World::calm(plan.clone()) };
        let asked = Cell::new(0);
        let run = world.run(move |number| {
            asked.set(asked.get() + 1);
            let random = &mut random_of(seed ^ number.rotate_left(32), asked.get());
            match wild {
                true => Response::any(random),
                false if random.random_bool(0.9) => Response::Good,
                false => Response::independent(random),
            }
        });
        check(&run.figures, Offered::AsManyAsCome, connections);
        check_responses(&run.figures, &run.records);
        match &mut merged {
            Some(merged) => merged.merge(&run.figures),
            None => merged = Some(run.figures),
        }
    }
    let merged = merged.expect("a plan has a thread");
    check(&merged, expected, connections);
    if let (Some(expected), Some(sessions)) = (sessions, &merged.trial.sessions) {
        assert_eq!(sessions.completed + sessions.failed, expected, "sessions");
    }
    merged.trial.outcomes
}

fn random_runs(seeds: Range<u64>, interrupted: bool) {
    let mut together = Outcomes::default();
    for outcomes in with_seeds(seeds, |seed| random_run(seed, interrupted)) {
        together.merge(&outcomes);
    }
    let came = |outcome| together.count(outcome) > 0;
    let never = Outcome::ALL.into_iter().filter(|&outcome| !came(outcome));
    // The simulated network has no routes that can be missing, and nothing here speaks TLS.
    assert!(never.eq([Outcome::Unreachable, Outcome::TlsFailure, Outcome::NotProcessed]), "{together:?}");
}

#[test]
fn outcomes_add_up_to_what_was_offered() {
    random_runs(0..runs(RUNS), false);
}

#[test]
fn an_interrupted_run_s_figures_add_up() {
    random_runs(1_000_000..1_000_000 + runs(INTERRUPTED_RUNS), true);
}

#[test]
fn an_interrupted_run_says_so_and_keeps_what_has_ended() {
    let rate = LoopPlan::at_rate(1000.0);
    let plan = plan(rate, Extent::Duration(Duration::from_secs(10)), 1);
    let run = World { interrupt_ns: Some(SECOND), ..World::calm(plan) }.run(|_| Response::Late(5 * MS));
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
fn requests_due_before_an_interruption_are_offered() {
    // The client sleeps over several arrivals, and over the interruption.
    for seed in 0..20 {
        let open = plan(LoopPlan::at_rate(1000.0), Extent::Duration(Duration::from_secs(10)), 1);
        let network = SimConfig { oversleep_ns: 20 * MS, ..SimConfig::calm(seed) };
        let run = World { network, interrupt_ns: Some(SECOND / 2), ..World::calm(open) }.run(|_| Response::Good);
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
        let run = World { interrupt_ns: Some(interrupt_ns), ..World::calm(plan.clone()) }.run(|_| Response::Good);
        check(&run.figures, Offered::Exactly(0), 100);
        assert!(run.figures.interrupted);
    }
}
