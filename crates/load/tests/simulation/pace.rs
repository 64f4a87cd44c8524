//! Slow clients: lines with a rate, and long paths.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Pace, Plan};
use thalweg_measure::Outcome;

use crate::script::Response;
use crate::world::{Run, World, plan};
use crate::{MS, SECOND};

const ROUND_TRIP: Duration = Duration::from_millis(200);
const ROUND_TRIP_NS: u64 = 200 * MS;

fn run(bits_per_s: Option<u64>, requests: u64, response: Response) -> Run {
    let arrivals = LoopPlan::of_workers(1, Duration::ZERO);
    let base = plan(arrivals, Extent::Requests(requests), requests);
    let pace = Some(Pace::new(bits_per_s, ROUND_TRIP));
    World::calm(Plan { pace, connections: 1, ..base }).run(move |_| response)
}

#[test]
fn no_response_over_a_long_path_comes_before_its_round_trip() {
    for bits_per_s in [None, Some(1_000_000)] {
        for response in [Response::Good, Response::Chunked, Response::Interim, Response::UntilClose, Response::Closing]
        {
            let run = run(bits_per_s, 10, response);
            let trial = &run.figures.trial;
            assert_eq!(trial.counts.good, 10, "{bits_per_s:?}, {response:?}: {:?}", trial.outcomes);
            let (earliest, latest) = (trial.first_byte.min(), trial.first_byte.max());
            assert!(earliest >= ROUND_TRIP_NS, "{bits_per_s:?}, {response:?}: {earliest} ns");
            assert!(latest < ROUND_TRIP_NS + 5 * MS, "{bits_per_s:?}, {response:?}: {latest} ns");
        }
    }
}

/// The pauses of reads once added up to a third of the time: 20 kbit/s instead of 33.6.
#[test]
fn a_long_path_does_not_slow_down_a_line() {
    // 48 bytes of content come as fast as their heads: some 130 bytes a response.
    let run = run(Some(1_000), 5, Response::Good);
    let trial = &run.figures.trial;
    let line_ns = trial.bytes.received * 8 * SECOND / 1_000;
    let took_ns = run.took_ns - 5 * ROUND_TRIP_NS;
    assert!(took_ns < line_ns + line_ns / 20, "{took_ns} ns for {line_ns} ns of a line");
}

#[test]
fn a_reset_on_a_long_path_is_seen() {
    for (response, outcome) in [(Response::Reset, Outcome::Reset), (Response::Truncated, Outcome::Truncated)] {
        let run = run(None, 5, response);
        assert_eq!(run.figures.trial.outcomes.count(outcome), 5, "{:?}", run.figures.trial.outcomes);
    }
}
