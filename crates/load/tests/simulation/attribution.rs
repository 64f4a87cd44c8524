//! No response is credited to another request than its own: the engine's figures against what the
//! server knows.

use std::collections::VecDeque;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::{Histogram, Outcome, Outcomes};
use thalweg_sys::Instant;

use crate::script::{Response, random_of};
use crate::server::Record;
use crate::world::{Run, World, plan};
use crate::{MS, US, with_seeds};

const RUNS: u64 = 60;

/// From one side to the other of a calm network.
const LATENCY_NS: u64 = 50 * US;

/// The figures as they must be, made from the server's records: when a request came and when its
/// response was sent, and with that, over a network without surprises, to the nanosecond when the
/// client sent and when it had the response.
struct Expected {
    outcomes: Outcomes,
    service_time: Histogram,
    first_byte: Histogram,
    response_time: Histogram,
}

impl Expected {
    fn of(run: &Run, plan: &Plan, requests: u64, period_ns: f64) -> Self {
        let mut records: VecDeque<&Record> = run.records.iter().collect();
        records.make_contiguous().sort_by_key(|record| record.number);
        assert!(records.iter().map(|record| record.number).eq(0..records.len() as u64), "each request is sent once");
        // The first one leaves at its intended time, or once there is a connection where these are
        // made on demand.
        let connect_ns = if plan.calls.is_none() { 0 } else { 2 * LATENCY_NS };
        let start = records[0].sent().as_ns() - connect_ns;
        let mut expected = Self {
            outcomes: Outcomes::default(),
            service_time: Histogram::new(),
            first_byte: Histogram::new(),
            response_time: Histogram::new(),
        };
        for arrival in 0..requests {
            let intended = Instant::from_ns(start + (arrival as f64 * period_ns).round() as u64);
            // Arrivals are served in order. One whose time was over when the next request left was
            // given up.
            let in_time = |record: &&Record| record.sent() < intended + plan.timeout;
            let record = records.front().is_some_and(in_time).then(|| records.pop_front()).flatten();
            expected.add(intended, plan.timeout.as_nanos() as u64, record);
        }
        assert!(records.is_empty(), "{} requests were sent that were not due", records.len());
        expected
    }

    fn add(&mut self, intended: Instant, timeout_ns: u64, record: Option<&Record>) {
        let ended = record.and_then(|record| {
            assert!(record.sent() >= intended, "request {} was sent before its time", record.number);
            let (first, last) = record.answered?;
            let (first, last) = (first.plus_ns(LATENCY_NS), last.plus_ns(LATENCY_NS));
            (last.ns_since(intended) < timeout_ns).then_some((record, first, last))
        });
        let Some((record, first, last)) = ended else { return self.outcomes.record(Outcome::Timeout) };
        let outcome = record.response.outcome();
        self.outcomes.record(outcome);
        if outcome.is_completed() {
            self.service_time.record(last.ns_since(record.sent()));
            self.first_byte.record(first.ns_since(record.sent()));
        }
        if outcome == Outcome::Good {
            self.response_time.record(last.ns_since(intended));
        }
    }

    fn check(&self, run: &Run, timeout_ns: u64) {
        let trial = &run.figures.trial;
        assert_eq!(trial.outcomes, self.outcomes);
        assert_eq!(buckets(&trial.service_time), buckets(&self.service_time), "service times");
        assert_eq!(buckets(&trial.first_byte), buckets(&self.first_byte), "first bytes");
        // Time-outs are noticed up to a tick later, and never less than their value.
        let in_time = |histogram| buckets(histogram).into_iter().filter(|&(ns, _)| ns < timeout_ns).collect::<Vec<_>>();
        assert_eq!(in_time(&trial.response_time()), in_time(&self.response_time), "response times");
        let expected = self.response_time.count() + self.outcomes.count(Outcome::Timeout);
        assert_eq!(trial.response_time().count(), expected, "time-outs are among the response times");
        let surplus =
            run.records.iter().filter(|record| record.response == Response::Surplus).count() * b"surplus".len();
        assert!(run.figures.unsolicited_bytes <= surplus as u64, "{} bytes", run.figures.unsolicited_bytes);
    }
}

impl Record {
    /// When the client has sent it.
    fn sent(&self) -> Instant {
        Instant::from_ns(self.arrived.as_ns() - LATENCY_NS)
    }
}

fn buckets(histogram: &Histogram) -> Vec<(u64, u64)> {
    histogram.buckets().collect()
}

fn random_run(seed: u64) {
    let random = &mut Pcg64Mcg::seed_from_u64(seed);
    let rate = random.random_range(100.0..3000.0_f64).round();
    let requests = random.random_range(1..400);
    let timeout_ns = random.random_range(20..200) * MS;
    let plan = Plan {
        timeout: Duration::from_nanos(timeout_ns),
        drain: Duration::from_nanos(timeout_ns),
        connections: if random.random() { random.random_range(1..10) } else { 400 },
        calls: random.random_bool(0.3).then(|| random.random_range(1..6)),
        ..plan(LoopPlan::at_rate(rate), Extent::Requests(requests), requests)
    };
    // The first one shows when the run began.
    let response =
        move |number| if number == 0 { Response::Good } else { Response::independent(&mut random_of(seed, number)) };
    let run = World::calm(plan.clone()).run(response);
    Expected::of(&run, &plan, requests, 1e9 / rate).check(&run, timeout_ns);
}

#[test]
fn each_request_ends_as_the_server_has_responded() {
    with_seeds(0..RUNS, random_run);
}

#[test]
fn each_response_has_its_outcome() {
    let check = |response: Response| {
        let requests = 20;
        let extent = Extent::Requests(requests);
        let timeout = Duration::from_millis(40);
        let plan = Plan { timeout, ..plan(LoopPlan::at_rate(1000.0), extent, requests) };
        let run = World::calm(plan).run(move |number| if number == 0 { Response::Good } else { response });
        let outcomes = &run.figures.trial.outcomes;
        let expected = response.outcome();
        let good_first = u64::from(expected != Outcome::Good);
        assert_eq!(outcomes.count(expected), requests - good_first, "{response:?}: {outcomes:?}");
    };
    for response in
        [Response::Good, Response::Late(30 * MS), Response::Dribbled(100 * US), Response::Chunked, Response::Interim]
    {
        check(response);
    }
    for response in
        [Response::Closing, Response::UntilClose, Response::Abandoning, Response::Status(503), Response::Status(404)]
    {
        check(response);
    }
    for response in
        [Response::WrongContent, Response::WrongLength, Response::Truncated, Response::Garbage, Response::Surplus]
    {
        check(response);
    }
    for response in [Response::Reset, Response::HangUp, Response::Silence] {
        check(response);
    }
}
