//! The course of one trial: three rows over one time axis.

use plotly::Trace;
use plotly::common::{Anchor, DashType};
use plotly::layout::{Axis, HoverMode};
use thalweg_measure::IntervalSummary;
use thalweg_units::display;

use super::chart::{self, Chart};
use super::words;
use crate::document::Trial;

/// The places of the rows, from top to bottom, as shares of the height. The gaps hold their titles.
const ROWS: [[f64; 2]; 3] = [[0.70, 0.97], [0.35, 0.62], [0.0, 0.27]];

/// One interval with events as rates, at its middle.
struct Point<'a> {
    at_s: f64,
    seconds: f64,
    interval: &'a IntervalSummary,
}

/// The chart of `trial`; `None` if its course was not recorded.
pub(super) fn chart(trial: &Trial) -> Option<Chart> {
    let points = points(trial);
    if points.is_empty() {
        return None;
    }
    let (response, response_axis) = response_time(&points);
    let mut traces = rates(&points);
    traces.extend(response);
    let answered = points.iter().any(|point| point.interval.p99_us > 0.0);
    let response_title = if answered { "response time" } else { "response time: no response received" };
    let row_titles = ["requests per second", response_title, "requests in flight"];
    let in_flight = |point: &Point| Some(point.interval.in_flight as f64);
    let style = chart::stroke("var(--series)", 1.5, DashType::Solid);
    let words = |point: &Point| format!("in flight {}", display::count(point.interval.in_flight));
    traces.push(series("in flight", &points, in_flight, words, style).y_axis("y3").show_legend(false));

    let end = trial.seconds.max(points.last().map_or(0.0, |point| point.at_s));
    let highest_rate = points.iter().map(|point| {
        let interval = point.interval;
        point.rate(interval.offered.max(interval.good).max(interval.errors))
    });
    let highest_in_flight = points.iter().map(|point| point.interval.in_flight as f64).fold(0.0, f64::max);
    let x_axis = chart::linear_axis(0.0, end).anchor("y3").tick_suffix(" s").title("since the start of the trial");
    let row = |position: usize, axis: Axis| axis.domain(&ROWS[position]).anchor("x");
    let layout = chart::layout()
        .hover_mode(HoverMode::XUnified)
        .x_axis(x_axis.hover_format(",.4~r"))
        .y_axis(row(0, chart::axis_from_zero(highest_rate.fold(0.0, f64::max) * 1.15).n_ticks(4)))
        .y_axis2(row(1, response_axis))
        .y_axis3(row(2, chart::axis_from_zero(highest_in_flight * 1.15).n_ticks(4)))
        .annotations(
            ROWS.iter()
                .zip(row_titles)
                .map(|(row, title)| {
                    let place = chart::note(title, "var(--muted)").x_ref("paper").x(0.0).x_anchor(Anchor::Left);
                    place.y_ref("paper").y(row[1]).y_anchor(Anchor::Bottom)
                })
                .collect(),
        );
    Some(Chart {
        id: "course",
        title: "Throughput, response time and requests in flight".to_owned(),
        alternative: in_words(trial, &points),
        height_px: 560,
        traces,
        layout,
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
        .map(|((seconds, start), interval)| Point { at_s: start + seconds / 2.0, seconds, interval })
        .collect()
}

impl Point<'_> {
    fn rate(&self, n: u64) -> f64 {
        n as f64 / self.seconds
    }
}

fn series(
    name: &str,
    points: &[Point],
    y: impl Fn(&Point) -> Option<f64>,
    hover: impl Fn(&Point) -> String,
    style: plotly::common::Line,
) -> Box<plotly::Scatter<f64, Option<f64>>> {
    let x = points.iter().map(|point| point.at_s).collect();
    let line = chart::line(name, x, points.iter().map(y).collect(), points.iter().map(hover).collect(), style);
    // All rows answer in one label, which has the time as its title and needs no further names.
    line.hover_template("%{hovertext}<extra></extra>")
}

fn rates(points: &[Point]) -> Vec<Box<dyn Trace>> {
    let of = |n: fn(&IntervalSummary) -> u64| move |point: &Point| Some(point.rate(n(point.interval)));
    let words = |name: &'static str, n: fn(&IntervalSummary) -> u64| {
        move |point: &Point| format!("{name} {}", words::per_second(point.rate(n(point.interval))))
    };
    let offered = chart::stroke("var(--muted)", 1.0, DashType::Dot);
    let good = chart::stroke("var(--series)", 2.0, DashType::Solid);
    let errors = chart::stroke("var(--errors)", 1.5, DashType::Dash);
    vec![
        series("offered", points, of(|i| i.offered), words("offered", |i| i.offered), offered),
        series("good", points, of(|i| i.good), words("good", |i| i.good), good),
        series("errors", points, of(|i| i.errors), words("errors", |i| i.errors), errors),
    ]
}

/// Median and 99th percentile with their axis. Where nothing ended there is a gap, not a zero.
fn response_time(points: &[Point]) -> (Vec<Box<dyn Trace>>, Axis) {
    let measured = |us: f64| (us > 0.0).then(|| chart::floored_us(us));
    let p50 = chart::stroke("var(--p50)", 1.5, DashType::Dot);
    let p99 = chart::stroke("var(--p99)", 2.0, DashType::Solid);
    let p50_words = |point: &Point| format!("p50 {}", words::time_us(point.interval.p50_us));
    let p99_words = |point: &Point| format!("p99 {}", words::time_us(point.interval.p99_us));
    let traces: Vec<Box<dyn Trace>> = vec![
        series("p50", points, |point| measured(point.interval.p50_us), p50_words, p50).y_axis("y2"),
        series("p99", points, |point| measured(point.interval.p99_us), p99_words, p99).y_axis("y2"),
    ];
    let drawn = points.iter().flat_map(|point| [point.interval.p50_us, point.interval.p99_us]);
    (traces, chart::time_axis(drawn.filter(|us| *us > 0.0)))
}

fn in_words(trial: &Trial, points: &[Point]) -> String {
    let range = |values: Vec<f64>, shown: fn(f64) -> String| {
        let (low, high) = values.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(*v), high.max(*v)));
        let (low, high) = (shown(low), shown(high));
        if low == high { format!("at {low}") } else { format!("between {low} and {high}") }
    };
    let good = range(points.iter().map(|point| point.rate(point.interval.good)).collect(), words::per_second);
    let failing = points.iter().filter(|point| point.interval.errors > 0).count();
    let errors = match failing {
        0 => "no errors".to_owned(),
        n => format!("errors in {n} of {}", words::counted(points.len() as u64, "interval")),
    };
    let p99: Vec<f64> = points.iter().map(|point| point.interval.p99_us).filter(|us| *us > 0.0).collect();
    let response = if p99.is_empty() { String::new() } else { format!("; p99 {}", range(p99, words::time_us)) };
    let in_flight = points.iter().map(|point| point.interval.in_flight).max().unwrap_or(0);
    format!(
        "In {}: good responses {good}, {errors}{response}; at most {} in flight.",
        words::seconds(trial.seconds),
        words::counted(in_flight, "request")
    )
}
