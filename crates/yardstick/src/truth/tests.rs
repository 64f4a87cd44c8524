//! Closed forms against textbook values, against one another, and against simulation.

use std::time::Duration;

use super::formulas::{Queue, erlang_c};
use super::*;
use crate::faults::Faults;
use crate::speed::{SlowStart, Stall};

const MM1: Law = Law::Exponential { mean_s: 0.001 };
const TWO_POINT: Law = Law::TwoPoint { short_s: 0.001, long_s: 0.01, long_share: 0.05 };

fn limit(text: &str) -> Limit {
    text.parse().unwrap()
}

fn rate(model: &Model, arrivals: Arrivals, text: &str) -> Option<f64> {
    truth(model, arrivals, &[limit(text)]).limits[0].rate_per_s
}

#[test]
fn rates_have_the_values_of_the_textbook() {
    // M/M/1: mu - lambda = -ln(1 - q) / t.
    let mm1 = Model::plain(1, MM1);
    for (text, expected) in [
        ("p99<50ms", 1000.0 - 100_f64.ln() / 0.05),
        ("p50<2ms", 1000.0 - 2_f64.ln() / 0.002),
        ("p99.9<20ms", 1000.0 - 1000_f64.ln() / 0.02),
        ("mean<10ms", 900.0),
    ] {
        let found = rate(&mm1, Arrivals::Poisson, text).unwrap();
        assert!((found - expected).abs() < 1e-6, "{text}: {found} and not {expected}");
    }
    // The shortest service takes longer, or some take that long at any rate.
    assert_eq!(rate(&mm1, Arrivals::Poisson, "p99<4ms"), None);
    assert_eq!(rate(&mm1, Arrivals::Poisson, "max<1s"), None);
    // D/D/k: nobody waits below the capacity.
    let dd4 = Model::plain(4, Law::Fixed { time_s: 0.004 });
    assert!((rate(&dd4, Arrivals::Constant, "max<5ms").unwrap() - 1000.0).abs() < 1e-6);
    assert_eq!(rate(&dd4, Arrivals::Constant, "p50<3ms"), None);
    // M/D/1: the mean wait is rho / (2 (mu - lambda)), here half a service at rho = 1/2.
    let md1 = Model::plain(1, Law::Fixed { time_s: 0.001 });
    assert!((rate(&md1, Arrivals::Poisson, "mean<1.5ms").unwrap() - 500.0).abs() < 1e-6);
}

#[test]
fn erlang_c_has_its_tabulated_values() {
    for (load, servers, expected) in [(0.5, 1, 0.5), (1.0, 2, 1.0 / 3.0), (2.0, 3, 4.0 / 9.0), (8.0, 10, 0.4092)] {
        let waits = erlang_c(load, servers);
        assert!((waits - expected).abs() < 1e-4, "{load} Erlangs, {servers} servers: {waits}");
    }
}

/// The first steps of M/D/1 are elementary: P(wait = 0) = 1 - rho, and up to one service it is
/// (1 - rho) exp(lambda t).
#[test]
fn the_wait_of_m_d_1_is_that_of_erlang() {
    let queue = Queue::MG1 { law: Law::Fixed { time_s: 0.001 } };
    for (rate, wait_s) in [(500.0_f64, 0.0005), (900.0, 0.00025), (900.0, 0.001)] {
        let expected = (1.0 - rate * 0.001) * (rate * wait_s).exp();
        let found = 1.0 - queue.share_beyond(rate, 0.001 + wait_s);
        assert!((found - expected).abs() < 1e-6, "{rate}/s, {wait_s} s: {found} and not {expected}");
    }
}

/// The share beyond falls with time, grows with the rate, and integrates to the mean.
#[test]
fn distributions_are_consistent_with_their_means() {
    // Distributions step at multiples of fixed service times; so do the sums.
    for (queue, unit_s) in [
        (Queue::MMk { servers: 1, mean_s: 0.001 }, 0.001),
        (Queue::MMk { servers: 4, mean_s: 0.004 }, 0.001),
        // Here k - 1 equals the load at 750/s, where the general form is 0/0.
        (Queue::MMk { servers: 2, mean_s: 0.001 }, 0.001),
        (Queue::MG1 { law: Law::Fixed { time_s: 0.001 } }, 0.001),
        (Queue::MG1 { law: TWO_POINT.scaled(1.0 / 1.45) }, 0.001 / 1.45),
        (Queue::DM1 { mean_s: 0.001 }, 0.001),
        (Queue::Split { servers: 4, mean_s: 0.003, hot_share: 0.3 }, 0.003),
    ] {
        for rate in [300.0, 750.0, 1000.0 * 0.9] {
            let step_s = unit_s / 4.0;
            let beyond = |index: i32| queue.share_beyond(rate, (f64::from(index) + 0.5) * step_s);
            let shares: Vec<f64> = (0..400).map(beyond).collect();
            assert!(shares.is_sorted_by(|a, b| *a >= *b - 1e-7), "{} at {rate}/s", queue.name());
            let (integral, mean) = (step_s * shares.iter().sum::<f64>(), queue.mean(rate));
            assert!((integral / mean - 1.0).abs() < 0.02, "{} at {rate}/s: {integral} and {mean}", queue.name());
        }
    }
}

/// The simulation runs the station that the server runs, so that this compares the server's model
/// with theory.
#[test]
fn simulated_quantiles_are_those_of_the_closed_forms() {
    for (model, arrivals) in [
        (Model::plain(1, MM1), Arrivals::Poisson),
        (Model::plain(4, MM1.scaled(4.0)), Arrivals::Poisson),
        (Model::plain(2, MM1.scaled(2.0)), Arrivals::Poisson),
        (Model { hot_share: Some(0.4), ..Model::plain(4, MM1.scaled(4.0)) }, Arrivals::Poisson),
        (Model::plain(1, MM1), Arrivals::Constant),
        (Model::plain(1, Law::Fixed { time_s: 0.001 }), Arrivals::Poisson),
        (Model::plain(1, TWO_POINT), Arrivals::Poisson),
        (Model::plain(3, Law::Fixed { time_s: 0.001 }), Arrivals::Constant),
    ] {
        let queue = queue_of(&model, arrivals).expect("a closed form");
        for load in [0.5, 0.8] {
            let rate = load * model.capacity();
            let run = simulate(&model, arrivals, rate, 400_000);
            for q in [0.5, 0.9, 0.99] {
                let simulated_s = run.sojourns.quantile(q) as f64 / 1e9;
                // A constant service gives its own time at each quantile, or a part in a thousand
                // more.
                let [above, below] = [1.07, 0.93].map(|factor| queue.share_beyond(rate, simulated_s * factor));
                let case = format!("{} at {rate}/s, quantile {q}: {simulated_s} s", queue.name());
                assert!(above <= 1.0 - q && below >= 1.0 - q, "{case}, shares {above} and {below}");
            }
            let mean_s = run.sojourns.mean() / 1e9;
            assert!((mean_s / queue.mean(rate) - 1.0).abs() < 0.05, "{} at {rate}/s: {mean_s} s", queue.name());
        }
    }
}

#[test]
fn a_simulated_truth_is_that_of_the_closed_form() {
    let mm1 = Model::plain(1, MM1);
    let (simulated, source) = by_simulation(&mm1, Arrivals::Poisson, limit("p99<50ms"));
    assert!((simulated.unwrap() / 907.9 - 1.0).abs() < 0.02, "{simulated:?}");
    assert!(source.contains("simulation"));
}

#[test]
fn models_without_a_closed_form_are_simulated() {
    let stall = Some(Stall { length_ns: 200_000_000, every_ns: 10_000_000_000 });
    let slow_start = Some(SlowStart { ramp_ns: 1_000_000, from: 0.5, idle_ns: 1_000_000_000 });
    let plain = Model::plain(1, MM1);
    for model in [
        Model { queue_max: Some(20), ..plain },
        Model { stall, ..plain },
        Model { slow_start, ..plain },
        Model { hot_share: Some(0.5), ..Model::plain(2, Law::Fixed { time_s: 0.001 }) },
        Model::plain(2, TWO_POINT),
    ] {
        assert_eq!(queue_of(&model, Arrivals::Poisson), None, "{model:?}");
    }
    let model = Model { queue_max: Some(20), ..plain };
    let truth = truth(&model, Arrivals::Poisson, &[limit("errors<1%")]);
    assert!(truth.limits[0].source.contains("simulation"), "{truth:?}");
    // The share of the textbook for M/M/1/K, as below.
    let rho = truth.rate_per_s.unwrap() / 1000.0;
    let refused = (1.0 - rho) * rho.powi(21) / (1.0 - rho.powi(22));
    assert!((refused - 0.01).abs() < 0.001, "{truth:?}: {refused}");
}

#[test]
fn a_long_stall_leaves_no_rate_that_meets_the_limit() {
    let stall = Some(Stall { length_ns: 1_000_000_000, every_ns: 10_000_000_000 });
    let model = Model { stall, ..Model::plain(1, MM1) };
    assert_eq!(rate(&model, Arrivals::Poisson, "p99<50ms"), None);
    assert_eq!(model.capacity(), 900.0);
}

/// M/M/1/K refuses the share (1 - rho) rho^K / (1 - rho^(K + 1)), where K counts the one in service
/// too (Kleinrock, vol. 1, section 3.6).
#[test]
fn a_bounded_queue_refuses_the_share_of_the_textbook() {
    for (queue, rho) in [(20, 1.1_f64), (20, 1.3), (5, 0.7), (5, 0.95)] {
        let model = Model { queue_max: Some(queue), ..Model::plain(1, MM1) };
        let refused = simulate(&model, Arrivals::Poisson, 1000.0 * rho, 400_000).refused;
        let places = queue as i32 + 1;
        let expected = (1.0 - rho) * rho.powi(places) / (1.0 - rho.powi(places + 1));
        assert!((refused / expected - 1.0).abs() < 0.06, "queue {queue}, rho {rho}: {refused} and not {expected}");
    }
}

#[test]
fn a_search_without_a_limit_on_errors_allows_none() {
    let plain = Model::plain(1, MM1);
    let faulty = Model { faults: Faults { resets: 0.01, ..Faults::default() }, ..plain };
    let of = |model: &Model, limits: &[&str]| {
        truth(model, Arrivals::Poisson, &limits.iter().map(|text| limit(text)).collect::<Vec<_>>()).rate_per_s
    };
    assert_eq!(of(&faulty, &["p99<50ms"]), None);
    assert_eq!(of(&faulty, &["p99<50ms", "errors<2%"]), of(&plain, &["p99<50ms"]));
    assert_eq!(of(&faulty, &["errors<0.5%"]), None);
    assert_eq!(of(&faulty, &[]), Some(1000.0));
    assert_eq!(limit("p99<50ms").bound_on(Statistic::Percentile(99.0)), Some(Duration::from_millis(50)));
}
