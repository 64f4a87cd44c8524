//! The table of coverage: searches of each model, of which as many have to hold the truth in their
//! interval as it says.
//!
//! ```text
//! SEARCHES=30 cargo run --release -p thalweg-virtual-lab --example coverage [MODEL...]
//! ```
//!
//! Each cell of the table is a line of JSON on stdout. `RATES` has the rates, separated by commas.

#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, reason = "the table is its output")]

use std::time::{Duration, Instant};

use serde_json::json;
use thalweg_virtual_lab::{ClientModel, Found, SearchCase, Theft, search};
use thalweg_yardstick::{Arrivals, Collapse, Law, Model, Overload, SlowStart, Stall, truth};

const RATES: &str = "300,1000,3000,20000";
const SEARCHES: u64 = 30;
const LIMIT: &str = "p99<50ms";
/// A twentieth of a second in 3 of 100 seconds.
const THEFT: Theft = Theft { share: 0.03, length: Duration::from_millis(50) };

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// A model of this capacity, with the arrivals that it is searched with.
type MakeModel = fn(f64) -> (Model, Arrivals);

const MODELS: [(&str, MakeModel); 10] = [
    ("fixed", |rate| (fixed(rate), Arrivals::Constant)),
    ("mm1", |rate| (exponential(1, rate), Arrivals::Poisson)),
    ("mm4", |rate| (exponential(4, rate), Arrivals::Poisson)),
    ("two-point", |rate| {
        let unit = Law::TwoPoint { short_s: 1.0, long_s: 20.0, long_share: 0.01 };
        (Model::plain(1, unit.scaled(1.0 / rate / unit.mean_s())), Arrivals::Poisson)
    }),
    ("bounded", |rate| (Model { queue_max: Some(20), ..exponential(1, rate) }, Arrivals::Poisson)),
    ("slow-start", |rate| {
        let slow_start = SlowStart { ramp_ns: 10 * SECOND, from: 0.1, idle_ns: 30 * SECOND };
        (Model { slow_start: Some(slow_start), ..fixed(rate) }, Arrivals::Constant)
    }),
    ("stall", |rate| {
        let stall = Stall { length_ns: 100 * MS, every_ns: 20 * SECOND };
        (Model { stall: Some(stall), ..fixed(rate) }, Arrivals::Constant)
    }),
    // Ten per cent in five minutes.
    ("drift", |rate| (Model { drift_per_s: -0.1 / 300.0, ..fixed(rate) }, Arrivals::Constant)),
    ("collapse", |rate| (collapsing(rate, Some(10 * SECOND)), Arrivals::Constant)),
    ("collapse-for-good", |rate| (collapsing(rate, None), Arrivals::Constant)),
];

fn fixed(rate: f64) -> Model {
    Model::plain(1, Law::Fixed { time_s: 1.0 / rate })
}

fn exponential(servers: usize, rate: f64) -> Model {
    Model::plain(servers, Law::Exponential { mean_s: servers as f64 / rate })
}

fn collapsing(rate: f64, recovery_ns: Option<u64>) -> Model {
    let collapse = Collapse { above: Overload::BusyForNs(3 * SECOND), left: 0.25, recovery_ns };
    Model { collapse: Some(collapse), ..fixed(rate) }
}

/// A setting from the environment.
fn setting<T: std::str::FromStr>(name: &str, default: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
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
    let limit = LIMIT.parse().expect("a limit");
    let truth = truth(&model, arrivals, &[limit]).rate_per_s;
    let (begun, searches) = (Instant::now(), setting("SEARCHES", SEARCHES));
    let searched: Vec<Result<Found, String>> = (1..=searches)
        .map(|seed| {
            let client = ClientModel { theft, seed, ..ClientModel::default() };
            search(&SearchCase { model: Model { seed, ..model }, client, arrivals, limit, seed })
                .map_err(|error| error.to_string())
        })
        .collect();
    let found: Vec<&Found> = searched.iter().flatten().collect();
    let holds =
        |found: &&&Found| found.interval95.zip(truth).is_some_and(|([low, high], truth)| low <= truth && truth <= high);
    let width = |found: &&Found| found.interval95.map(|[low, high]| (high - low) / high);
    let bias = |found: &&Found| Some((found.threshold? / truth?).ln());
    let biases: Vec<f64> = found.iter().filter_map(bias).collect();
    json!({
        "model": name,
        "rate": rate,
        "stolen": theft.is_some(),
        "truth": truth,
        "searches": searches,
        "covered": found.iter().filter(holds).count(),
        "estimated": biases.len(),
        "bias": biases.iter().sum::<f64>() / biases.len().max(1) as f64,
        "width": median(found.iter().filter_map(width).collect()),
        "seconds": median(found.iter().map(|found| found.seconds).collect()),
        "trials": median(found.iter().map(|found| found.trials as f64).collect()),
        "invalid": found.iter().map(|found| found.invalid).sum::<usize>(),
        "lost_s": median(found.iter().map(|found| found.lost_s).collect()),
        "collapsed": found.iter().filter(|found| found.collapsed).count(),
        "recovered": found.iter().filter(|found| found.recovered).count(),
        "real_ms": begun.elapsed().as_millis() as u64 / searches.max(1),
        "found": found,
        "errors": searched.iter().filter_map(|one| one.as_ref().err()).collect::<Vec<_>>(),
    })
}
