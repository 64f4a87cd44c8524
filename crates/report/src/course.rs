//! The course of one trial: three rows over one time axis.

use thalweg_measure::IntervalSummary;
use thalweg_units::display;

use super::chart::Point as ChartPoint;
use super::chart::{Axis, Chart, Color, Dashes, Panel, Series};
use super::words;
use crate::document::Trial;

/// Height of each row.
const HEIGHT: f64 = 118.0;
/// The starts of intervals are rounded to this much.
const WINDOW_END_TOLERANCE_S: f64 = 1e-6;

/// One interval with events as rates, at its middle.
struct Point<'a> {
    at_s: f64,
    seconds: f64,
    /// Whether it begins before the window ends. Rates refer to the window; behind it only the
    /// last responses come in.
    is_in_window: bool,
    interval: &'a IntervalSummary,
}

/// The chart of `trial`; `None` if its course was not recorded.
pub(super) fn chart(trial: &Trial) -> Option<Chart> {
    let points = points(trial);
    if points.is_empty() {
        return None;
    }
    let answered = points.iter().any(|point| point.interval.p99_us > 0.0);
    let response_title = if answered { "response time" } else { "response time: no response received" };
    let in_flight = |point: &Point| Some(point.interval.in_flight as f64);
    let in_flight_words = |point: &Point| format!("in flight {}", display::count(point.interval.in_flight));
    let in_flight =
        Series::line("in flight", Color::Series, 1.5, Dashes::Solid, series(&points, in_flight, in_flight_words));

    let end = trial.seconds.max(points.last().map_or(0.0, |point| point.at_s));
    let highest_rate = points.iter().map(|point| {
        let interval = point.interval;
        point.rate(interval.offered.max(interval.good).max(interval.errors))
    });
    let highest_rate = highest_rate.fold(0.0, f64::max);
    let highest_in_flight = points.iter().map(|point| point.interval.in_flight as f64).fold(0.0, f64::max);
    let (response, response_axis) = response_time(&points);
    Some(Chart {
        id: "course".to_owned(),
        title: "Throughput, response time and requests in flight".to_owned(),
        alternative: in_words(trial, &points),
        x: Axis::from_zero(end).in_unit(" s").titled("since the start of the trial"),
        panels: vec![
            Panel::new(Axis::from_zero(highest_rate * 1.15), HEIGHT, rates(&points)).titled("requests per second"),
            Panel::new(response_axis, HEIGHT, response).titled(response_title),
            Panel::new(Axis::from_zero(highest_in_flight * 1.15), HEIGHT, vec![in_flight.unlisted()])
                .titled("requests in flight"),
        ],
        by_column: true,
    })
}

/// The intervals with their lengths. All but the last have the same; the last may be cut off by the
/// trial's end.
fn points(trial: &Trial) -> Vec<Point<'_>> {
    let intervals = &trial.intervals;
    let width = match intervals.as_slice() {
        [first, second, ..] => second.t - first.t,
        _ => trial.seconds,
    };
    let point = |(position, interval): (usize, &'_ IntervalSummary)| {
        let rest = trial.seconds - interval.t;
        let cut_off = position + 1 == intervals.len() && rest > 0.0 && rest < width;
        (if cut_off { rest } else { width }, interval.t)
    };
    let lengths: Vec<(f64, f64)> = intervals.iter().enumerate().map(point).collect();
    lengths
        .into_iter()
        .zip(intervals)
        .filter(|((seconds, start), _)| *seconds > 0.0 && start.is_finite())
        .map(|((seconds, start), interval)| Point {
            at_s: start + seconds / 2.0,
            seconds,
            is_in_window: start + WINDOW_END_TOLERANCE_S < trial.seconds,
            interval,
        })
        .collect()
}

impl Point<'_> {
    fn rate(&self, n: u64) -> f64 {
        n as f64 / self.seconds
    }
}

fn series(points: &[Point], y: impl Fn(&Point) -> Option<f64>, hover: impl Fn(&Point) -> String) -> Vec<ChartPoint> {
    points.iter().map(|point| ChartPoint::new(point.at_s, y(point), hover(point))).collect()
}

fn rates(points: &[Point]) -> Vec<Series> {
    let of = |name: &'static str, color, width, dash, n: fn(&IntervalSummary) -> u64| {
        let rate = |point: &Point| point.rate(n(point.interval));
        let words = |point: &Point| format!("{name} {}", words::per_second(rate(point)));
        Series::line(name, color, width, dash, series(points, |point| point.is_in_window.then(|| rate(point)), words))
    };
    vec![
        of("offered", Color::Muted, 1.0, Dashes::Dotted, |interval| interval.offered),
        of("good", Color::Series, 2.0, Dashes::Solid, |interval| interval.good),
        of("errors", Color::Errors, 1.5, Dashes::Short, |interval| interval.errors),
    ]
}

/// Median and 99th percentile with their axis. Where nothing ended there is a gap, not a zero.
fn response_time(points: &[Point]) -> (Vec<Series>, Axis) {
    let of = |name: &'static str, color, width, dash, us: fn(&IntervalSummary) -> f64| {
        let measured = |point: &Point| Some(us(point.interval)).filter(|us| *us > 0.0);
        let words = |point: &Point| format!("{name} {}", words::time_us(us(point.interval)));
        Series::line(name, color, width, dash, series(points, measured, words))
    };
    let lines = vec![
        of("p50", Color::P50, 1.5, Dashes::Dotted, |interval| interval.p50_us),
        of("p99", Color::P99, 2.0, Dashes::Solid, |interval| interval.p99_us),
    ];
    let drawn = points.iter().flat_map(|point| [point.interval.p50_us, point.interval.p99_us]);
    (lines, Axis::times_us(drawn.filter(|us| *us > 0.0)))
}

fn in_words(trial: &Trial, points: &[Point]) -> String {
    let range = |values: Vec<f64>, shown: fn(f64) -> String| {
        let (low, high) = values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
        let (low, high) = (shown(low), shown(high));
        if low == high { format!("at {low}") } else { format!("between {low} and {high}") }
    };
    let in_window = points.iter().filter(|point| point.is_in_window);
    let good = range(in_window.map(|point| point.rate(point.interval.good)).collect(), words::per_second);
    let failing = points.iter().filter(|point| point.interval.errors > 0).count();
    let errors = match failing {
        0 => "no errors".to_owned(),
        n => format!("errors in {n} of {}", words::counted(points.len() as u64, "interval")),
    };
    let p99: Vec<f64> = points.iter().map(|point| point.interval.p99_us).filter(|us| *us > 0.0).collect();
    let response = if p99.is_empty() { String::new() } else { format!("; p99 {}", range(p99, words::time_us)) };
    let in_flight = points.iter().map(|point| point.interval.in_flight).max().unwrap_or(0);
    // They are counted at the ends of intervals; fast ones are in flight at none of them.
    let in_flight = match in_flight {
        0 => String::new(),
        n => format!("; at most {} in flight", words::counted(n, "request")),
    };
    format!("In {}: good responses {good}, {errors}{response}{in_flight}.", words::seconds(trial.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn responses_behind_the_window_do_not_lower_its_rate() {
        let mut trial = sample::trial("run", 0.0, 1000.0, 5.0);
        let last = trial.intervals.last().expect("the sample has intervals").clone();
        let behind = IntervalSummary { t: trial.seconds, offered: 0, good: 2, in_flight: 0, ..last };
        trial.intervals.push(behind);
        let points = points(&trial);
        assert_eq!(points.iter().filter(|point| !point.is_in_window).count(), 1);
        let words = in_words(&trial, &points);
        let rates = words.split("good responses ").nth(1).expect("the rates are named");
        assert!(rates.starts_with("at 1,000/s") || rates.starts_with("between 9"), "{words}");
    }

    #[test]
    fn requests_that_no_interval_ended_with_are_not_counted_as_none() {
        let mut trial = sample::trial("run", 0.0, 1000.0, 5.0);
        trial.intervals.iter_mut().for_each(|interval| interval.in_flight = 0);
        let words = in_words(&trial, &points(&trial));
        assert!(!words.contains("in flight"), "{words}");
    }
}
