//! Searches with the load engine in virtual time, of the kinds of servers that the queue-level
//! simulation of `measure` has; `bench/search-coverage` compares the two.
//!
//! ```text
//! SEARCHES=30 RATES=1000,3000 cargo run --release -p thalweg-virtual-lab --example coverage [MODEL...]
//! ```
//!
//! Each cell is a line of JSON on stdout.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the lines are its output")]

use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_measure::Limit;
use thalweg_virtual_lab::{ClientModel, SearchCase, Theft, search};
use thalweg_yardstick::{Arrivals, Collapse, Law, Model, Overload, SlowStart, Stall};

const RATES: &str = "300,1000,3000,20000";
const SEARCHES: u64 = 30;
/// A second in 33.
const THEFT: Theft = Theft { share: 0.03, length: Duration::from_secs(1) };

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A model of this capacity, with the arrivals that it is searched with.
type MakeModel = fn(f64) -> (Model, Arrivals);

const MODELS: [(&str, MakeModel); 11] = [
    ("fixed", |rate| (fixed(rate), Arrivals::Constant)),
    ("M/M/1", |rate| (exponential(1, rate), Arrivals::Poisson)),
    ("M/M/4", |rate| (exponential(4, rate), Arrivals::Poisson)),
    ("two-point", |rate| {
        let unit = Law::TwoPoint { short_s: 1.0, long_s: 20.0, long_share: 0.01 };
        (Model::plain(1, unit.scaled(1.0 / rate / unit.mean_s())), Arrivals::Poisson)
    }),
    ("bounded queue", |rate| (Model { queue_max: Some(19), ..exponential(1, rate) }, Arrivals::Poisson)),
    ("slow start", |rate| {
        // On the way the speed is as in the mean of the other simulation.
        let slow_start = SlowStart { ramp_ns: 10 * SECOND, from: 0.5, idle_ns: 3600 * SECOND };
        (Model { slow_start: Some(slow_start), ..exponential(1, rate) }, Arrivals::Poisson)
    }),
    ("stall", |rate| {
        let stall = Stall { length_ns: 200 * MS, every_ns: 10 * SECOND };
        (Model { stall: Some(stall), ..exponential(1, rate) }, Arrivals::Poisson)
    }),
    ("drift up", |rate| (Model { drift_per_s: 0.05 / 60.0, ..fixed(rate) }, Arrivals::Constant)),
    ("drift down", |rate| (Model { drift_per_s: -0.05 / 60.0, ..fixed(rate) }, Arrivals::Constant)),
    ("collapse", |rate| (collapsing(rate, None), Arrivals::Constant)),
    ("collapse, recovery", |rate| (collapsing(rate, Some(2 * SECOND)), Arrivals::Constant)),
];

fn fixed(rate: f64) -> Model {
    Model::plain(1, Law::Fixed { time_s: 1.0 / rate })
}

fn exponential(servers: usize, rate: f64) -> Model {
    Model::plain(servers, Law::Exponential { mean_s: servers as f64 / rate })
}

fn collapsing(rate: f64, recovery_ns: Option<u64>) -> Model {
    let busy_ns = (4e9 * limit_s("collapse", rate)) as u64;
    let collapse = Collapse { above: Overload::BusyForNs(busy_ns), left: 0.3, recovery_ns };
    Model { collapse: Some(collapse), ..fixed(rate) }
}

/// The limit on p99: 20 mean service times, at least 50 ms, and more than a stall lasts.
fn limit_s(model: &str, rate: f64) -> f64 {
    let servers = if model == "M/M/4" { 4.0 } else { 1.0 };
    if model == "stall" { 0.3 } else { (20.0 * servers / rate).max(0.05) }
}

/// A setting from the environment.
fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    let rates: String = setting("RATES", RATES.to_owned());
    for (name, make) in MODELS.iter().filter(|(name, _)| chosen.is_empty() || chosen.iter().any(|one| one == name)) {
        for rate in rates.split(',').filter_map(|rate| rate.parse().ok()) {
            for theft in [None, Some(THEFT)] {
                println!("{}", cell(name, *make, rate, theft));
            }
        }
    }
}

/// The searches of one cell.
fn cell(name: &str, make: MakeModel, rate: f64, theft: Option<Theft>) -> serde_json::Value {
    let (model, arrivals) = make(rate);
    let limit: Limit = format!("p99<{}us", limit_s(name, rate) * 1e6).parse().expect("a limit");
    let mut limits = vec![limit];
    if model.queue_max.is_some() {
        limits.push("errors<1%".parse().expect("a limit"));
    }
    let (begun, searches) = (Instant::now(), setting("SEARCHES", SEARCHES));
    let searched = (1..=searches).map(|seed| {
        let client = ClientModel { theft, seed, ..ClientModel::default() };
        search(&SearchCase { model: Model { seed, ..model }, client, arrivals, limits: &limits, seed })
    });
    let (mut found, mut errors) = (Vec::new(), Vec::new());
    for one in searched {
        match one {
            Ok(one) => found.push(one),
            Err(error) => errors.push(error.to_string()),
        }
    }
    json!({
        "model": name,
        "rate": rate,
        "stolen": if theft.is_some() { 0.03 } else { 0.0 },
        "searches": searches,
        "found": found,
        "errors": errors,
        "real_ms": begun.elapsed().as_millis() as u64 / searches.max(1),
    })
}
