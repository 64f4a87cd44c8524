//! Times of requests, as the server sees them: rates, ramps, connections at a rate, workers that
//! think.
//!
//! A recording server on the same CPUs sometimes wakes up late, so the tests check the median of
//! the times instead of single ones.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::process::run_thalweg;
use crate::recorder::{RecordedRequest, Recorder, Response};
use crate::repetition::{ensure, repeated};

/// A run of which each request is good; the trial, and what the server has received.
fn recorded(options: &[&str]) -> (Value, Vec<RecordedRequest>) {
    let recorder = Recorder::start(|_| Response::good("ok"));
    let ended = run_thalweg(&[&["run", &recorder.url("/"), "--json"], options].concat());
    let trial = document::trial(&ended);
    assert_eq!(number(&trial, "/counts/offered"), outcome(&trial, "good") as f64, "{options:?}: {trial:#}");
    let received = recorder.received();
    assert_eq!(received.len() as u64, outcome(&trial, "good"), "{options:?}: {trial:#}");
    (trial, received)
}

/// When requests came, in seconds after the first.
fn times(received: &[RecordedRequest]) -> Vec<f64> {
    received.iter().map(|one| (one.at - received[0].at).as_secs_f64()).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

/// How far the times of two lists are from each other, in the median. Their beginnings may be off
/// by one late wake-up.
fn distance(some: &[f64], others: &[f64]) -> f64 {
    let offset = median(some.iter().zip(others).map(|(one, other)| one - other).collect());
    median(some.iter().zip(others).map(|(one, other)| (one - other - offset).abs()).collect())
}

/// Requests by their connection, in its order.
fn by_connection(received: &[RecordedRequest]) -> BTreeMap<usize, Vec<&RecordedRequest>> {
    let mut connections = BTreeMap::<_, Vec<_>>::new();
    received.iter().for_each(|one| connections.entry(one.connection).or_default().push(one));
    connections
}

/// Times of the same seed twice, and of another.
fn poisson(first: Vec<f64>, again: Vec<f64>, other: Vec<f64>) -> Result<(), String> {
    for times in [&first, &other] {
        // Five standard deviations of 400.
        assert!((times.len() as f64 - 400.0).abs() < 100.0, "{} arrivals", times.len());
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // 1 for exponential gaps, 0 for even ones.
        let variation = variance.sqrt() / mean;
        ensure((0.7..1.4).contains(&variation), || format!("coefficient of variation {variation}"))?;
    }
    assert_eq!(first.len(), again.len(), "the same seed");
    let (same, different) = (distance(&first, &again), distance(&first, &other));
    let told_apart = same < 0.002 && different > 2.0 * same;
    ensure(told_apart, || format!("{same} s between equal seeds, {different} s between others"))
}

#[test]
fn a_number_of_requests_is_kept_by_each_loop() {
    for load in [
        &["--rate", "1000/s", "--requests", "123"][..],
        &["--rate", "1000/s", "--arrivals", "poisson", "--requests", "123"],
        &["--rate", "500/s..1000/s", "--requests", "123"],
        &["--workers", "7", "--requests", "123"],
        &["--workers", "8", "--pipeline", "4", "--requests", "123"],
        &["--conn-rate", "200/s", "--calls", "3", "--conns", "41"],
    ] {
        for driver in drivers() {
            let (_, received) = recorded(&[load, &["--driver", driver]].concat());
            assert_eq!(received.len(), 123, "{load:?} over {driver}");
        }
    }
}

/// These tests measure small loads: nextest runs few of them at a time.
mod small_load {
    use super::*;

    #[test]
    fn a_constant_rate_is_even() {
        for driver in drivers() {
            repeated(|| {
                let (_, received) = recorded(&["--rate", "200/s", "--duration", "1s", "--driver", driver]);
                assert_eq!(received.len(), 200, "{driver}");
                let even: Vec<f64> = (0..200).map(|number| f64::from(number) / 200.0).collect();
                let off = distance(&times(&received), &even);
                ensure(off < 0.002, || format!("{driver}: {off} s from where they belong"))
            });
        }
    }

    #[test]
    fn poisson_arrivals_vary_and_repeat_with_their_seed() {
        let with_seed = |seed| {
            times(&recorded(&["--rate", "400/s", "--arrivals", "poisson", "--duration", "1s", "--seed", seed]).1)
        };
        repeated(|| poisson(with_seed("7"), with_seed("7"), with_seed("8")));
    }

    #[test]
    fn steps_and_ramps_change_the_rate_when_they_say() {
        for (load, total, first_half) in [
            (&["--rate", "100/s:500ms,500/s:500ms"][..], 300, 50),
            (&["--rate", "0/s..400/s", "--duration", "1s"], 200, 50),
            (&["--rate", "600/s..200/s", "--duration", "1s"], 400, 250),
        ] {
            repeated(|| {
                let (trial, received) = recorded(load);
                assert_eq!(number(&trial, "/seconds"), 1.0, "{load:?}");
                let offered = received.len() as i64;
                assert!((offered - total).abs() <= 1, "{load:?}: {offered} instead of {total}");
                let early = times(&received).iter().filter(|&&at| at < 0.5).count() as i64;
                // The first request of a ramp from nothing comes late, and that is when our clock
                // starts.
                let near = (early - first_half).abs() <= first_half / 4 + 10;
                ensure(near, || format!("{load:?}: {early} instead of {first_half}"))
            });
        }
    }

    #[test]
    fn connections_come_at_a_rate_with_so_many_calls_each() {
        for driver in drivers() {
            repeated(|| {
                let load = ["--conn-rate", "100/s", "--calls", "4", "--conns", "60", "--driver", driver];
                let (trial, received) = recorded(&load);
                assert_eq!(received.len(), 240, "{driver}");
                let connections = by_connection(&received);
                assert_eq!((connections.len(), number(&trial, "/connections/opened")), (60, 60.0), "{driver}");
                for calls in connections.values() {
                    assert_eq!(calls.len(), 4, "{driver}");
                    assert!(
                        calls.iter().all(|call| call.ahead == 0),
                        "{driver}: a call waits for the one before: {calls:?}"
                    );
                }
                let mut begun: Vec<RecordedRequest> = connections.values().map(|calls| calls[0].clone()).collect();
                begun.sort_unstable_by_key(|first| first.at);
                let even: Vec<f64> = (0..60).map(|number| f64::from(number) / 100.0).collect();
                let off = distance(&times(&begun), &even);
                ensure(off < 0.003, || format!("{driver}: {off} s from where they belong"))
            });
        }
    }

    #[test]
    fn workers_think_and_do_not_begin_at_once() {
        for driver in drivers() {
            repeated(|| {
                let load =
                    ["--workers", "6", "--think", "50ms", "--stagger", "300ms", "--duration", "1s", "--driver", driver];
                let (_, received) = recorded(&load);
                let workers = by_connection(&received);
                assert_eq!(workers.len(), 6, "{driver}");
                let begun: Vec<Duration> = workers.values().map(|requests| requests[0].at).collect();
                let spread = *begun.iter().max().unwrap() - *begun.iter().min().unwrap();
                ensure((20..400).contains(&spread.as_millis()), || {
                    format!("{driver}: the first requests lie within {spread:?}")
                })?;
                for requests in workers.values() {
                    let gaps =
                        requests.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs_f64()).collect::<Vec<_>>();
                    ensure((10..=20).contains(&requests.len()), || {
                        format!("{driver}: {} requests of a worker", requests.len())
                    })?;
                    let gap = median(gaps);
                    ensure((0.0495..0.06).contains(&gap), || format!("{driver}: {gap} s between two requests"))?;
                }
                Ok(())
            });
        }
    }
}
