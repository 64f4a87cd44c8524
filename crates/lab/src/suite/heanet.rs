//! HEAnet's tests of its mirror: `ab` on files of four sizes, autobench's run over rates, and the
//! most concurrent downloads.

use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan, UserPlan};
use thalweg_measure::Verdict;
use thalweg_measure::trial::Reason;
use thalweg_report::document::{Curve, CurveLine, Unit};
use thalweg_trees::TreeFile;
use thalweg_units::display;
use thalweg_wire::Version;

use super::modem;
use super::stage::{Stage, Stop};
use crate::trial::TrialResult;

/// `ab -c 100 -n 1000`.
const AB_CONCURRENCY: usize = 100;
const AB_REQUESTS: u64 = 1000;
/// The percentiles of ab's table.
const AB_PERCENTILES: [f64; 9] = [50.0, 66.0, 75.0, 80.0, 90.0, 95.0, 98.0, 99.0, 100.0];

/// `autobench --low_rate 20 --high_rate 200 --rate_step 20 --num_call 10 --num_conn 5000 --timeout
/// 5`. Its rates are connections per second.
const RATES: [u32; 10] = [20, 40, 60, 80, 100, 120, 140, 160, 180, 200];
const CALLS: u32 = 10;
const CONNECTIONS: u64 = 5000;
const TIMEOUT: Duration = Duration::from_secs(5);
/// The fewest connections of a rate.
const CONNECTIONS_MIN: u64 = 20;
/// Most connections at once: those of one rate within the timeout of each of its calls.
const CONNECTIONS_AT_ONCE: usize = 16_384;
/// The file of autobench's requests, where the document has the front page of the site.
const AUTOBENCH_BYTES: u64 = 10_000;

/// The names of figures and curves.
const ANSWERED: &str = "autobench_answered";
const DOWNLOADS: &str = "connections";
const PERCENTILES_CURVE: &str = "percentiles";
const AUTOBENCH_CURVE: &str = "autobench";

/// Runs the three tests.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Stop> {
    let files = stage.tree.files().to_vec();
    for file in &files {
        let bytes = file.size;
        stage.declare(&format!("requests_{bytes}"), &format!("ab, {bytes} bytes: requests/sec"), Unit::PerSecond);
        stage.declare(&format!("p50_{bytes}"), &format!("ab, {bytes} bytes: median time"), Unit::Milliseconds);
        stage.declare(&format!("p99_{bytes}"), &format!("ab, {bytes} bytes: 99 % within"), Unit::Milliseconds);
    }
    stage.declare(ANSWERED, "autobench: highest rate without an error", Unit::PerSecond);
    stage.declare(DOWNLOADS, "max concurrent downloads", Unit::Connections);
    choose(stage);
    let mut percentiles = Vec::new();
    for file in &files {
        ab(stage, file, &mut percentiles)?;
    }
    let requested = files.iter().find(|file| file.size == AUTOBENCH_BYTES).or(files.last());
    autobench(stage, requested.expect("a tree has files"))?;
    modem::search(stage, DOWNLOADS, stage.settings.pace_bits_per_s)
}

fn choose(stage: &mut Stage<'_>) {
    stage.choose("ab: `ab -c 100 -n 1000` on each file: 100 workers in a closed loop, HTTP/1.0 without keep-alive");
    stage.choose(
        "autobench: rates from 20 to 200 connections per second by 20, 10 calls each, 5,000 connections, timeout 5 s; the \
         file of 10,000 bytes stands for the document's front page; HTTP/1.1 with keep-alive, as httperf has it",
    );
    stage.choose(format!(
        "concurrent downloads: at {}, a pace that the document does not name, file after file on connections that are kept",
        display::link_rate(stage.settings.pace_bits_per_s)
    ));
    stage.choose(
        "a client late by milliseconds makes no figure of ab or autobench invalid, since none has a limit on times; such \
         lateness is part of ab's times",
    );
    let scaled =
        stage.settings.scaled("fewer requests of ab (at least 100), fewer connections of autobench (at least 20)");
    stage.measured.choices.extend(scaled);
}

/// One run of ab.
fn ab(stage: &mut Stage<'_>, file: &TreeFile, lines: &mut Vec<CurveLine>) -> Result<(), Stop> {
    let requests = stage.settings.number(AB_REQUESTS, AB_CONCURRENCY as u64);
    let arrivals = LoopPlan::of_workers(AB_CONCURRENCY, Duration::ZERO);
    let plan = stage.plan_of(std::slice::from_ref(file), Version::Http10, arrivals, Extent::Requests(requests))?;
    let connections = AB_CONCURRENCY.max(stage.settings.cpus.len());
    let plan = Plan { calls: Some(1), connections, ..plan };
    let bytes = file.size;
    let result = stage.trial(&format!("ab-{bytes}"), plan, &[])?;
    // Requests over the time that all took: ab's own figure, without those that failed.
    let figures = &result.figures.trial;
    let seconds = figures.span().as_secs_f64().max(f64::MIN_POSITIVE);
    let (good, errors) = (figures.counts.good, figures.outcomes.errors());
    let times = figures.response_time();
    let ms = |percent: f64| times.quantile(percent / 100.0) as f64 / 1e6;
    let words = format!("{} requests, {} failed", display::count(requests), display::count(errors));
    for (name, value) in [("requests", good as f64 / seconds), ("p50", ms(50.0)), ("p99", ms(99.0))] {
        let figure = stage.figure(&format!("{name}_{bytes}"));
        figure.value = (good > 0).then_some(value);
        figure.words.clone_from(&words);
    }
    if good == 0 {
        stage.worsen(Verdict::Fail, format!("ab had no good response of {bytes} bytes"));
    }
    if client_fell_short(stage, &result, &format!("ab on {bytes} bytes")) {
        let requests = stage.figure(&format!("requests_{bytes}"));
        requests.at_least = requests.value.is_some();
    }
    lines.push(CurveLine {
        name: format!("{bytes} bytes"),
        points: AB_PERCENTILES.map(|percent| [percent, ms(percent)]).to_vec(),
    });
    stage.put_curve(Curve {
        name: PERCENTILES_CURVE.to_owned(),
        title: "ab: percentage of the requests served within a certain time".to_owned(),
        x_axis: "percentage of the requests".to_owned(),
        y_axis: "milliseconds".to_owned(),
        lines: lines.clone(),
        words: "response times of ab's runs; 100 % is the longest request".to_owned(),
    });
    Ok(())
}

/// autobench's rates, from the lowest to the highest.
fn autobench(stage: &mut Stage<'_>, file: &TreeFile) -> Result<(), Stop> {
    let connections = stage.settings.number(CONNECTIONS, CONNECTIONS_MIN);
    let (mut answered, mut errors, mut fell_short_from) = (Vec::new(), Vec::new(), None);
    for rate in RATES {
        let arrivals = LoopPlan::at_rate(f64::from(rate));
        let plan =
            stage.plan_of(std::slice::from_ref(file), Version::Http11, arrivals, Extent::Requests(connections))?;
        let plan = Plan {
            user: Some(UserPlan::Calls(CALLS)),
            connections: CONNECTIONS_AT_ONCE.min(usize::try_from(connections).unwrap_or(CONNECTIONS_AT_ONCE)),
            timeout: TIMEOUT,
            drain: TIMEOUT,
            ..plan
        };
        let result = stage.trial("autobench", plan, &[])?;
        let demanded = f64::from(rate * CALLS);
        let figures = &result.figures.trial;
        let wanted = connections * u64::from(CALLS);
        let seconds = figures.span().as_secs_f64().max(f64::MIN_POSITIVE);
        answered.push([demanded, figures.counts.good as f64 / seconds]);
        errors.push([demanded, 100.0 * (1.0 - figures.counts.good as f64 / wanted as f64)]);
        note_autobench(stage, &answered, &errors);
        if client_fell_short(stage, &result, &format!("autobench at {demanded}/s")) {
            fell_short_from = fell_short_from.or(Some(demanded));
        }
        // Errors of a client that fell short say nothing of the server.
        let figure = stage.figure(ANSWERED);
        figure.at_least = fell_short_from.is_some_and(|from| figure.value.is_some_and(|highest| highest < from));
    }
    if stage.figure(ANSWERED).value.is_none() {
        stage.worsen(Verdict::Fail, "autobench: every rate had errors".to_owned());
    }
    Ok(())
}

fn note_autobench(stage: &mut Stage<'_>, answered: &[[f64; 2]], errors: &[[f64; 2]]) {
    let without = errors.iter().take_while(|[_, percent]| *percent <= 0.0).last().map(|[demanded, _]| *demanded);
    let words = match (without, errors.iter().find(|[_, percent]| *percent > 0.0)) {
        (_, Some([demanded, percent])) => {
            format!("{percent:.2} % of the calls had no good response at {}", display::rate(*demanded))
        }
        (Some(_), None) => "the highest rate tried".to_owned(),
        (None, None) => "no rate was tried".to_owned(),
    };
    let figure = stage.figure(ANSWERED);
    figure.value = without;
    figure.words.clone_from(&words);
    let line = |name: &str, points: &[[f64; 2]]| CurveLine { name: name.to_owned(), points: points.to_vec() };
    for (name, title, y_axis, line) in [
        (AUTOBENCH_CURVE, "autobench: demanded and answered rate", "replies per second", line("answered", answered)),
        ("autobench-errors", "autobench: errors", "percent of the calls", line("errors", errors)),
    ] {
        stage.put_curve(Curve {
            name: name.to_owned(),
            title: title.to_owned(),
            x_axis: "demanded requests per second".to_owned(),
            y_axis: y_axis.to_owned(),
            lines: vec![line],
            words: words.clone(),
        });
    }
}

/// Notes a trial in which the client fell short, and whether it did. Being late by milliseconds
/// does not count, since these figures have no limit on times: a hundred workers begin at once, as
/// those of ab do.
fn client_fell_short(stage: &mut Stage<'_>, result: &TrialResult, what: &str) -> bool {
    let fell_short = result.judgement.verdict == Verdict::Invalid && result.judgement.reasons.iter().any(is_by_client);
    if fell_short {
        stage.worsen(Verdict::Invalid, format!("{what}: {}", result.trial.reasons.join("; ")));
    }
    fell_short
}

/// Whether a reason says that the client did not do its part, beyond being late.
fn is_by_client(reason: &Reason) -> bool {
    use Reason::{
        AddressesRanOut, ConnectionsLacking, CpuStarved, DescriptorsRanOut, Disturbed, Miscounted, NothingOffered,
        Unsent,
    };
    matches!(
        reason,
        AddressesRanOut { .. }
            | ConnectionsLacking { .. }
            | CpuStarved { .. }
            | DescriptorsRanOut { .. }
            | Disturbed { .. }
            | Miscounted(_)
            | NothingOffered
            | Unsent { .. }
    )
}
