//! The suites whose figure is the highest rate: ACME's small files, its mix and its large files,
//! and SPECweb96.
//!
//! Each request is made on a connection of its own with HTTP/1.0, as http_load and SPECweb96's
//! clients made them. The rate is found by the lab's capacity search, as the highest without an
//! error at which 99 of 100 responses take less than a second, those of large files excepted.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::search::EstimateEnd;
use thalweg_measure::{Limit, Verdict};
use thalweg_report::document::{Find, LimitedBy, SuiteName, Trial, Unit};
use thalweg_units::display;
use thalweg_wire::Version;

use super::stage::{Stage, Stop};
use crate::conclusion::Conclusion;
use crate::search::SearchSettings;

/// The limit of the search. A connect that the server's queue has no room for is attempted again
/// after a second (RFC 6298, 2.1), so a server that keeps 1 % of its clients waiting so fails.
const LIMIT: &str = "p99<1s";
/// Longest trials of the search, and its time in all.
const TRIAL: Duration = Duration::from_secs(10);
const BUDGET: Duration = Duration::from_secs(600);
/// The least of both, and of the short trials.
const TRIAL_MIN: Duration = Duration::from_millis(500);
const BUDGET_MIN: Duration = Duration::from_secs(4);
const SHORT_TRIAL_MIN: Duration = Duration::from_millis(100);
/// The time for a server to come back from a collapse.
const RECOVERY: Duration = Duration::from_secs(10);
const RECOVERY_MIN: Duration = Duration::from_secs(1);
/// Relative width of the interval at which the search ends.
const WIDTH: f64 = 0.03;
/// Operations per second below which no search goes.
const LOWEST_RATE: f64 = 1.0;

/// Most connections at once. Large files are few at a time, or each would take a large share of a
/// trial.
const CONNECTIONS: usize = 256;
const CONNECTIONS_OF_LARGE_FILES: usize = 16;

/// Trials at this share of the highest rate or more show the server's CPU time at that rate.
const HIGHEST_SHARE: f64 = 0.95;

/// The names of the figures.
const OPERATIONS: &str = "operations";
const BITS: &str = "bits";

/// Measures one of these suites.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Stop> {
    declare(stage);
    choose(stage);
    let large = stage.measured.suite == SuiteName::AcmeBig;
    let arrivals = LoopPlan::at_rate(LOWEST_RATE);
    let trial = stage.settings.time(TRIAL, TRIAL_MIN);
    let plan = stage.plan(Version::Http10, arrivals, Extent::Duration(trial))?;
    let connections = if large { CONNECTIONS_OF_LARGE_FILES } else { CONNECTIONS }.max(stage.settings.cpus.len());
    let settings = SearchSettings {
        base: Plan { calls: Some(1), connections, ..plan },
        lowest_rate: LOWEST_RATE,
        initial_trial: (trial / 20).max(SHORT_TRIAL_MIN),
        final_trial: trial,
        end: EstimateEnd::Width(WIDTH),
        budget: stage.settings.time(BUDGET, BUDGET_MIN),
        recovery: stage.settings.time(RECOVERY, RECOVERY_MIN),
        overload: false,
        bottleneck: true,
    };
    let limits: Vec<Limit> = (!large).then(|| LIMIT.parse().expect("a valid limit")).into_iter().collect();
    let found = stage.search(&settings, &limits)?;
    conclude(stage, &found);
    stage.ensure_there()?;
    if stage.watcher.wants_stop() { Err(Stop::Interrupted) } else { Ok(()) }
}

/// The figures in the order of the documents' tables.
fn declare(stage: &mut Stage<'_>) {
    let operations = |stage: &mut Stage<'_>| stage.declare(OPERATIONS, "max ops/sec", Unit::PerSecond);
    let bits = |stage: &mut Stage<'_>, title| stage.declare(BITS, title, Unit::BitsPerSecond);
    if stage.measured.suite == SuiteName::AcmeBig {
        bits(stage, "bits/sec");
        operations(stage);
    } else {
        operations(stage);
        bits(stage, "max bits/sec");
    }
}

fn choose(stage: &mut Stage<'_>) {
    stage.choose(
        "HTTP/1.0, one request per connection without keep-alive, as ACME's http_load and the clients of SPECweb96 \
         requested",
    );
    let limit = match stage.measured.suite {
        SuiteName::AcmeBig => "that is kept up; response times have no limit, since a slow link needs seconds for 5 MB",
        _ => "at which the 99th percentile of the response time is below 1 s",
    };
    stage.choose(format!(
        "the maximum is that of the capacity search: the highest rate without an error {limit}; the documents do not say \
         when a server has reached its maximum"
    ));
    stage.choose(match stage.measured.suite {
        SuiteName::AcmeSmall | SuiteName::AcmeBig => "the file of each request is drawn at random, all alike",
        _ => "the file of each request is drawn at random by the shares of SPECweb96's classes and files",
    });
    stage.choose("each response is checked for its status and its length");
    stage.choose("bits are those of bodies: the rate times the mean size of a requested file");
    if stage.measured.suite == SuiteName::Specweb96 {
        stage.choose(
            "not SPEC-compliant: the rate is searched in trials of seconds, not held for SPECweb96's warm-up and run of \
             minutes; clients and server may share a host",
        );
    }
    let scaled = stage.settings.scaled("the search's trials and its time are shorter, its interval may be wider");
    stage.measured.choices.extend(scaled);
}

/// Puts the result of the search into the figures.
fn conclude(stage: &mut Stage<'_>, found: &Conclusion) {
    let find = &found.find;
    let at_least = find.is_lower_bound() || find.limit == LimitedBy::Client;
    let bits_per_operation = stage.tree.requested_bytes_mean() * 8.0;
    let words = words(find);
    for (name, unit_of_one) in [(OPERATIONS, 1.0), (BITS, bits_per_operation)] {
        let figure = stage.figure(name);
        figure.value = find.threshold.or(find.lower_bound).map(|rate| rate * unit_of_one);
        figure.interval95 = find.interval95.map(|ends| ends.map(|rate| rate * unit_of_one));
        figure.at_least = at_least && figure.value.is_some();
        figure.words.clone_from(&words);
    }
    let passed: Vec<&Trial> = found.trials.iter().filter(|trial| trial.verdict == Verdict::Pass).collect();
    let most = passed.iter().map(|trial| trial.rates.good).fold(0.0, f64::max);
    let highest: Vec<&Trial> = passed.into_iter().filter(|trial| trial.rates.good >= most * HIGHEST_SHARE).collect();
    stage.put_per_cpu_second("ops", &highest);
    if found.verdict != Verdict::Pass {
        stage.worsen(found.verdict, found.reasons.join("; "));
    }
    let within = stage.figure(OPERATIONS).value.zip(stage.tree.settings().load);
    if let Some((rate, load)) = within.filter(|(rate, load)| rate > load) {
        stage.measured.reasons.push(format!(
            "the tree was too small: it was made for {}, and {} were found; SPECweb96's run rules have the tree grow with \
             the load: write it again with `thalweg files specweb96 DIR --load {:.0}` and measure with --load {2:.0}",
            display::rate(load),
            display::rate(rate),
            (rate * 1.1).ceil()
        ));
    }
}

/// How the rate was found.
fn words(find: &Find) -> String {
    let found = find.capacity().map_or_else(
        || {
            find.lower_bound
                .map_or("no rate met the limits".to_owned(), |rate| format!("{} was met", display::rate(rate)))
        },
        |capacity| format!("capacity search: {capacity}"),
    );
    format!("{found}; bottleneck: {}", find.bottleneck())
}
