//! Searches of simulated servers whose capacity is known, by the thousand: what the interval
//! covers, how wide it is, and how long a search takes.

use super::*;
use crate::simulation::Random;
use crate::statistics::median;
use server::{Collapse as Loss, Law, Operation, Outcome, Station};

mod server;

/// Time before the first trial of the state machine: the first estimate and the calibration.
const BEFORE_S: f64 = 2.9;

/// The right answer of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Right {
    Interval,
    /// An interval that covers the capacity at the middle of the search, or a drift.
    IntervalOrDrift,
    /// An interval, and a collapse that the target recovers from or does not.
    Collapse {
        recovers: bool,
    },
}

/// A kind of target at a rate.
#[derive(Debug, Clone)]
struct Cell {
    model: &'static str,
    rate: f64,
    station: Station,
    /// The threshold that a search should find.
    truth: f64,
    right: Right,
}

const RATES: [f64; 4] = [300.0, 1000.0, 3000.0, 20_000.0];

/// A plain station whose threshold is about `rate`.
fn plain(rate: f64, servers: usize, law: Law) -> Station {
    let limit_s = (20.0 * servers as f64 / rate).max(0.05);
    Station {
        servers,
        speed: rate,
        law,
        poisson: law != Law::Fixed,
        limit_s,
        room: None,
        slow_start_s: 0.0,
        stall_s: 0.0,
        drift: 0.0,
        collapse: None,
    }
}

/// The rate at which one in a hundred requests is bad in the long run.
fn by_long_runs(station: &Station) -> f64 {
    let (mut low, mut high) = (0.3 * station.speed, 1.2 * station.speed);
    while high - low > 0.001 * station.speed {
        let rate = (low + high) / 2.0;
        let length = (1e7 / rate).max(20_000.0);
        let long = Operation::new(station.clone(), 0.0, 1).trial(rate, length, None);
        let counted = BadRequests::of_seconds(&long.seconds, 0);
        if counted.bad as f64 <= 0.01 * counted.judged as f64 { low = rate } else { high = rate }
    }
    (low + high) / 2.0
}

fn cells(wanted: impl Fn(&str, f64) -> bool) -> Vec<Cell> {
    let mut cells = Vec::new();
    for rate in RATES {
        let mut add = |model: &'static str, station: Station, truth: Option<f64>, right| {
            if !wanted(model, rate) {
                return;
            }
            let truth = truth.unwrap_or_else(|| by_long_runs(&station));
            cells.push(Cell { model, rate, station, truth, right });
        };
        let (fixed, random) = (plain(rate, 1, Law::Fixed), plain(rate, 1, Law::Exponential));
        let two_point = Law::TwoPoint { share: 0.01, times: 20.0 };
        let mm1 = rate - 100_f64.ln() / random.limit_s;
        add("fixed", fixed.clone(), Some(rate), Right::Interval);
        add("M/M/1", random.clone(), Some(mm1), Right::Interval);
        add("M/M/4", plain(rate, 4, Law::Exponential), None, Right::Interval);
        add("two-point", plain(rate, 1, two_point), None, Right::Interval);
        add("bounded queue", Station { room: Some(20), ..random.clone() }, None, Right::Interval);
        add("slow start", Station { slow_start_s: 5.0, ..random.clone() }, Some(mm1), Right::Interval);
        add("stall", Station { stall_s: 0.2, limit_s: 0.3, ..random.clone() }, None, Right::Interval);
        for (model, drift) in [("drift up", 0.05 / 60.0), ("drift down", -0.05 / 60.0)] {
            add(model, Station { drift, ..fixed.clone() }, Some(rate), Right::IntervalOrDrift);
        }
        for (model, recovery_s) in [("collapse", None), ("collapse, recovery", Some(2.0))] {
            let collapse = Some(Loss { busy_s: 4.0 * random.limit_s, left: 0.3, recovery_s });
            let recovers = recovery_s.is_some();
            add(model, Station { collapse, ..fixed.clone() }, Some(rate), Right::Collapse { recovers });
        }
    }
    cells
}

fn plan(limit_s: f64) -> SearchPlan {
    let tail = Some(TailLimit { share: 0.01, bound: Duration::from_secs_f64(limit_s) });
    SearchPlan { tail, end: EstimateEnd::DEFAULT, ..SearchPlan::new(10.0, 1e6) }
}

/// A search, and what it took.
struct Searched {
    result: SearchResult,
    seconds: f64,
    /// The middle of the search, in seconds of the station.
    middle_s: f64,
}

/// Searches the capacity of a station.
fn search(station: &Station, stolen: f64, seed: u64, plan: SearchPlan) -> Searched {
    let mut server = Operation::new(station.clone(), stolen, seed);
    let begun = server.now;
    server.now += BEFORE_S;
    let mut hint = station.speed * (0.7 + 0.4 * Random(seed ^ 0x77).uniform());
    if station.slow_start_s > 0.0 {
        hint *= 0.5;
    }
    let mut search = Search::new(SearchPlan { hint: Some(hint), ..plan }).unwrap();
    loop {
        match search.step() {
            Step::Done(result) => {
                let seconds = server.now - begun;
                return Searched { result, seconds, middle_s: begun + seconds / 2.0 };
            }
            Step::Pause(pause) => {
                server.now += pause.as_secs_f64();
                search.record_pause(pause);
            }
            Step::Trial { rate, duration, ends_at, .. } => {
                let Outcome { verdict, cost_s, clean_s, completed, good, failed, seconds } =
                    server.trial(rate, duration.as_secs_f64(), ends_at);
                if verdict == Verdict::Invalid {
                    // The client is far from its ceiling: it was disturbed.
                    search.spend(Duration::from_secs_f64(cost_s));
                    continue;
                }
                search.record(TrialSummary {
                    rate,
                    duration: Duration::from_secs_f64(clean_s),
                    cost: Duration::from_secs_f64(cost_s),
                    verdict,
                    goodput: good,
                    completed,
                    p99_us: 0.0,
                    bad: Some(BadRequests::of_seconds(&seconds, failed)),
                });
            }
        }
    }
}

/// The widest interval that counts as one.
const WIDEST: f64 = 0.15;

/// The results of the searches of a cell.
#[derive(Default)]
struct Coverage {
    /// Searches with an interval, and those of them that are right.
    estimated: u64,
    right: u64,
    /// Searches whose interval is narrow enough.
    determined: u64,
    /// Searches whose interval lies below the truth.
    low: u64,
    searches: u64,
    widths: Vec<f64>,
    seconds: Vec<f64>,
}

impl Coverage {
    fn of(cell: &Cell, stolen: f64, searches: u64) -> Self {
        let mut coverage = Coverage { searches, ..Coverage::default() };
        for seed in 0..searches {
            let found = search(&cell.station, stolen, seed * 7919 + 13, plan(cell.station.limit_s));
            coverage.seconds.push(found.seconds);
            let Some(estimate) = found.result.estimate else { continue };
            coverage.widths.push(estimate.width());
            coverage.estimated += 1;
            coverage.determined += u64::from(estimate.width() <= WIDEST);
            let truth = cell.truth * (1.0 + cell.station.drift * found.middle_s);
            let [low, high] = estimate.interval95;
            let is_covered = low <= truth && truth <= high;
            coverage.low += u64::from(high < truth);
            coverage.right += u64::from(match cell.right {
                Right::Interval => is_covered,
                Right::IntervalOrDrift => is_covered || found.result.drift.is_some(),
                Right::Collapse { recovers } => {
                    is_covered && found.result.collapse.is_some_and(|seen| seen.recovery_s.is_some() == recovers)
                }
            });
        }
        coverage.widths.sort_by(f64::total_cmp);
        coverage.seconds.sort_by(f64::total_cmp);
        coverage
    }

    fn share_right(&self) -> f64 {
        self.right as f64 / self.estimated.max(1) as f64
    }

    /// The cell in JSON; times in seconds, widths relative to the threshold.
    fn line(&self, cell: &Cell, stolen: f64) -> serde_json::Value {
        let at = |sorted: &[f64], share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied();
        serde_json::json!({
            "model": cell.model,
            "rate": cell.rate,
            "truth": cell.truth,
            "limit_s": cell.station.limit_s,
            "stolen": stolen,
            "searches": self.searches,
            "estimated": self.estimated,
            "right": self.right,
            "below": self.low,
            "too_wide": self.searches - self.determined,
            "width": median(&self.widths),
            "seconds": at(&self.seconds, 0.5),
            "seconds_p95": at(&self.seconds, 0.95),
        })
    }
}

/// A few searches of some cells of the table: one in ten may miss, where one in twenty should.
#[test]
fn intervals_cover_the_truth() {
    let searches = if std::env::var_os("THALWEG_TEST_FULL").is_some() { 400 } else { 40 };
    let models = ["fixed", "M/M/1", "slow start", "drift down", "collapse", "collapse, recovery"];
    for cell in cells(|model, rate| rate == 1000.0 && models.contains(&model)) {
        let coverage = Coverage::of(&cell, 0.0, searches);
        assert!(coverage.share_right() >= 0.9, "{}: {}", cell.model, coverage.share_right());
        assert!(coverage.estimated * 10 >= searches * 9, "{}: {} of {searches}", cell.model, coverage.estimated);
    }
}

/// Few clusters of slow requests make a trial. A third less width would miss the truth in one of
/// five searches.
#[test]
fn intervals_of_a_two_point_server_are_wide_enough() {
    const SEARCHES: u64 = 200;
    let station = plain(1000.0, 1, Law::TwoPoint { share: 0.01, times: 20.0 });
    let cell = Cell { model: "two-point", rate: 1000.0, station, truth: 810.2, right: Right::Interval };
    let coverage = Coverage::of(&cell, 0.0, SEARCHES);
    assert!(coverage.right * 100 >= 90 * SEARCHES, "{} of {SEARCHES}", coverage.right);
}

#[test]
#[ignore = "prints the table of coverage; takes half an hour"]
#[expect(clippy::print_stdout, reason = "a line of JSON for each cell, made on request")]
fn table() {
    let setting = |name: &str| std::env::var(name).ok();
    let searches: u64 = setting("SEARCHES").and_then(|text| text.parse().ok()).unwrap_or(100);
    let (only, only_rate) = (setting("MODEL"), setting("RATE").and_then(|text| text.parse::<f64>().ok()));
    let wanted = |model: &str, rate: f64| {
        only.as_ref().is_none_or(|only| only.split(';').any(|one| one == model))
            && only_rate.is_none_or(|only| only == rate)
    };
    for cell in cells(wanted) {
        for stolen in setting("STOLEN").map_or(vec![0.0, 0.03], |text| vec![text.parse().unwrap()]) {
            println!("{}", Coverage::of(&cell, stolen, searches).line(&cell, stolen));
        }
    }
}
