//! WebBench's static test as Mindcraft ran it: mixes of 1, 16, 32 ... clients with two threads
//! each, in a closed loop. Figures 4 and 5 of the document, the peak, where it is, and the shape of
//! the curve after it.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_load::{Extent, LoopPlan, Plan};
use thalweg_measure::Verdict;
use thalweg_measure::interval::Interval;
use thalweg_report::document::{Curve, CurveLine, Unit};
use thalweg_units::display;
use thalweg_wire::Version;

use super::settings::CLIENTS;
use super::shape::{COLLAPSED_SHARE, FLAT_SHARE, Peak};
use super::stage::{Stage, Stop};
use crate::trial::TrialResult;

/// Worker threads of a client.
const THREADS_PER_CLIENT: u32 = 2;
/// The time of a mix, ramps included, and each of the two ramps, in which nothing is counted.
const LENGTH: Duration = Duration::from_secs(300);
const RAMP: Duration = Duration::from_secs(30);
/// The receive buffer of a thread.
const RECEIVE_BUFFER_BYTES: usize = 4096;
/// The shortest time that is measured.
const MEASURED_MIN: Duration = Duration::from_millis(500);

/// The names of the figures and curves.
const PEAK_REQUESTS: &str = "peak_requests";
const PEAK_BYTES: &str = "peak_bytes";
const PEAK_THREADS: &str = "peak_threads";
const LOWEST_SHARE: &str = "lowest_share";
const REQUESTS_CURVE: &str = "requests";
const BYTES_CURVE: &str = "throughput";

/// One mix.
#[derive(Clone, Copy, Debug)]
struct Mix {
    threads: u32,
    requests_per_s: f64,
    bytes_per_s: f64,
    /// Whether the client fell short.
    client_fell_short: bool,
}

/// Runs the mixes from the smallest to the largest.
pub(super) fn measure(stage: &mut Stage<'_>) -> Result<(), Stop> {
    stage.declare(PEAK_REQUESTS, "peak requests/sec", Unit::PerSecond);
    stage.declare(PEAK_BYTES, "peak throughput", Unit::BytesPerSecond);
    stage.declare(PEAK_THREADS, "threads at the peak", Unit::Threads);
    stage.declare(LOWEST_SHARE, "lowest beyond the peak", Unit::Share);
    choose(stage);
    let mut mixes: Vec<Mix> = Vec::new();
    for clients in stage.settings.clients.clone() {
        let threads = clients * THREADS_PER_CLIENT;
        let (plan, counted) = plan(stage, threads)?;
        let result = stage.trial(&format!("mix-{clients}"), plan, &[])?;
        let mix = mix(&result, threads, counted);
        if mixes.iter().all(|other| other.requests_per_s < mix.requests_per_s) {
            stage.put_per_cpu_second("requests at the peak", &[&result.trial]);
        }
        mixes.push(mix);
        conclude(stage, &mixes);
    }
    judge(stage, &mixes);
    Ok(())
}

/// The load of a mix, and how long it is counted: the ramp up is its warm-up, the ramp down the end
/// of its measured part, which is left out.
fn plan(stage: &Stage<'_>, threads: u32) -> Result<(Plan, Duration), Stop> {
    let settings = stage.settings;
    let ramp = settings.time(RAMP, Duration::ZERO);
    let counted = settings.time(LENGTH - 2 * RAMP, MEASURED_MIN);
    let start_delay = settings.time(settings.start_delay, Duration::ZERO);
    let arrivals = LoopPlan::Closed { workers: threads as usize, think: Duration::ZERO, stagger: start_delay };
    let plan = stage.plan(Version::Http10, arrivals, Extent::Duration(counted + ramp))?;
    let connections = (threads as usize).max(settings.cpus.len());
    let plan = Plan { receive_buffer_bytes: RECEIVE_BUFFER_BYTES, ..plan };
    Ok((Plan { calls: Some(1), connections, warmup: ramp, ..plan }, counted))
}

/// The figures of a mix: those of the intervals before the ramp down. The trial is longer by what
/// is left out of it, and an interval in a second of which something is left out is not counted; if
/// that is all of them, they count, as those of a client that fell short.
fn mix(result: &TrialResult, threads: u32, counted: Duration) -> Mix {
    const SECOND_NS: u64 = 1_000_000_000;
    let figures = &result.figures.trial;
    let disturbed: BTreeSet<u64> = figures.left_out.seconds().map(|(second, _)| second).collect();
    let is_clean = |interval: &Interval| {
        let last_ns = interval.start_ns + interval.width_ns - 1;
        disturbed.range(interval.start_ns / SECOND_NS..=last_ns / SECOND_NS).next().is_none()
    };
    let (clean, others): (Vec<Interval>, Vec<Interval>) = figures.intervals.intervals().partition(is_clean);
    let has_clean = !clean.is_empty();
    let (mut good, mut bytes, mut ns) = (0, 0, 0);
    for interval in if has_clean { clean } else { others } {
        if u128::from(ns + interval.width_ns) <= counted.as_nanos() {
            good += interval.good;
            bytes += interval.bytes_in;
            ns += interval.width_ns;
        }
    }
    let seconds = (ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    Mix {
        threads,
        requests_per_s: good as f64 / seconds,
        bytes_per_s: bytes as f64 / seconds,
        client_fell_short: result.judgement.verdict == Verdict::Invalid || !has_clean,
    }
}

/// Figures and curves of the mixes so far.
fn conclude(stage: &mut Stage<'_>, mixes: &[Mix]) {
    let points = |of: fn(&Mix) -> f64| mixes.iter().map(|mix| [f64::from(mix.threads), of(mix)]).collect::<Vec<_>>();
    let (requests, bytes) = (points(|mix| mix.requests_per_s), points(|mix| mix.bytes_per_s));
    let described = |points: &[[f64; 2]], unit: Unit| match Peak::of(points) {
        Some(peak) => peak.sentence(&unit.text(peak.value), "threads"),
        None => "no request was answered".to_owned(),
    };
    for (name, title, y_axis, points, unit) in [
        (REQUESTS_CURVE, "Figure 4: HTTP requests per second", "requests per second", &requests, Unit::PerSecond),
        (BYTES_CURVE, "Figure 5: web server throughput", "bytes per second", &bytes, Unit::BytesPerSecond),
    ] {
        stage.put_curve(Curve {
            name: name.to_owned(),
            title: title.to_owned(),
            x_axis: "test threads".to_owned(),
            y_axis: y_axis.to_owned(),
            lines: vec![CurveLine { name: stage.test_bed.target.shown.clone(), points: points.clone() }],
            words: described(points, unit),
        });
    }
    let Some(peak) = Peak::of(&requests) else { return };
    let peak_of_bytes = Peak::of(&bytes);
    // A mix for which the client fell short may have been the peak, if it is not below it.
    let at_least = |peak: &Peak| from(mixes, peak.at).any(|mix| mix.client_fell_short);
    let lowest = match peak.beyond {
        None => "no larger mix was run".to_owned(),
        Some(beyond) => {
            let by_client = from(mixes, beyond.lowest[0]).next().is_some_and(|mix| mix.client_fell_short);
            let client = if by_client { ", where the client fell short" } else { "" };
            format!("of the peak, at {} threads{client}", display::count(beyond.lowest[0] as u64))
        }
    };
    let mut set = |name: &str, value: Option<f64>, at_least: bool, words: String| {
        let figure = stage.figure(name);
        (figure.value, figure.at_least, figure.words) = (value, at_least, words);
    };
    let height = Unit::PerSecond.text(peak.value);
    set(PEAK_REQUESTS, Some(peak.value), at_least(&peak), peak.sentence(&height, "threads"));
    set(
        PEAK_BYTES,
        peak_of_bytes.map(|peak| peak.value),
        peak_of_bytes.is_some_and(|peak| at_least(&peak)),
        described(&bytes, Unit::BytesPerSecond),
    );
    set(PEAK_THREADS, Some(peak.at), false, format!("shape beyond the peak: {}", peak.shape()));
    set(LOWEST_SHARE, peak.beyond.map(|beyond| beyond.share), false, lowest);
}

/// The mixes of so many threads or more.
fn from(mixes: &[Mix], threads: f64) -> impl Iterator<Item = &Mix> {
    mixes.iter().filter(move |mix| f64::from(mix.threads) >= threads)
}

/// The verdict on all mixes.
fn judge(stage: &mut Stage<'_>, mixes: &[Mix]) {
    if stage.figure(PEAK_REQUESTS).value.is_none() {
        return stage.worsen(Verdict::Fail, "no mix had a good response".to_owned());
    }
    let short: Vec<String> =
        mixes.iter().filter(|mix| mix.client_fell_short).map(|mix| mix.threads.to_string()).collect();
    if short.is_empty() {
        return;
    }
    let reason = format!("the client, not the server, bounded the rate with {} threads", short.join(", "));
    if stage.figure(PEAK_REQUESTS).at_least {
        stage.worsen(Verdict::Invalid, reason);
    } else {
        stage.measured.reasons.push(reason);
    }
}

fn choose(stage: &mut Stage<'_>) {
    let delay = match stage.settings.time(stage.settings.start_delay, Duration::ZERO) {
        Duration::ZERO => "no random start delay".to_owned(),
        delay => format!("a random start delay of at most {}", display::exact_time_spaced(delay)),
    };
    stage.choose("HTTP/1.0 without keep-alive; each thread requests again when its response has come");
    stage.choose(format!("two threads a client, no think time, {delay}"));
    stage.choose("a mix takes 300 s; of the first and the last 30 s nothing is counted");
    stage.choose(
        "the files and their shares are those of the tree `webbench`: the document's test suite zd_static_v20.tst is not \
         published",
    );
    stage.choose(
        "bytes per second are all bytes that the server sends, heads included; requests per second are good responses",
    );
    stage.choose(format!(
        "the shape beyond the peak is flat at {} of it or more, declines at {} or more, and collapses below; the \
         document's Apache fell to 7 %",
        display::percent(FLAT_SHARE),
        display::percent(COLLAPSED_SHARE)
    ));
    stage.choose(format!("a read takes at most {RECEIVE_BUFFER_BYTES} bytes, the receive buffer of the document"));
    if stage.settings.clients != CLIENTS {
        stage.choose("not the document's mixes of 1, 16, 32 ... 144 clients");
    }
    let scaled = stage.settings.scaled("the time of a mix, its ramps and its start delay are shorter");
    stage.measured.choices.extend(scaled);
}
