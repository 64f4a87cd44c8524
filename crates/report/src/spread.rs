//! How the times of one trial are spread: the percentile spectrum, the histogram, and the figures
//! as a table.

use maud::{Markup, html};
use thalweg_measure::Summary;
use thalweg_measure::histogram::Histogram;
use thalweg_units::display;

use super::chart::{Axis, Chart, Color, Dashes, Panel, Point, Series};
use super::words;
use crate::document::Trial;

/// One distribution with the looks that it has in both charts.
struct Spread {
    name: &'static str,
    histogram: Histogram,
    color: Color,
    width: f64,
    dash: Dashes,
}

/// Height of both charts.
const HEIGHT: f64 = 250.0;

/// The spectrum and the histogram of `trial`; empty if nothing was measured or the distributions
/// cannot be read.
pub(super) fn charts(trial: &Trial) -> Vec<Chart> {
    let spread = |name, summary: &Summary, color, width, dash| {
        let histogram = Histogram::from_hdr_base64_us(&summary.hdr).ok().filter(|histogram| !histogram.is_empty())?;
        Some(Spread { name, histogram, color, width, dash })
    };
    let response = spread("response time", &trial.response_time_us, Color::Series, 2.5, Dashes::Solid);
    let service = spread("service time", &trial.service_time_us, Color::Service, 1.5, Dashes::Short);
    let spreads: Vec<Spread> = [response, service].into_iter().flatten().collect();
    if spreads.is_empty() {
        return Vec::new();
    }
    vec![spectrum(trial, &spreads), histogram(&spreads)]
}

/// Percentiles on an axis on which each further nine takes the same room.
fn spectrum(trial: &Trial, spreads: &[Spread]) -> Chart {
    let lines = spreads.iter().map(|spread| {
        let point = |(quantile, us): (f64, f64)| {
            let hover = format!("{}: {} within {}", spread.name, percentage(quantile), words::time_us(us));
            Point::new(nines(quantile), Some(us), hover)
        };
        let points = spectrum_points(&spread.histogram).into_iter().map(point).collect();
        Series::line(spread.name, spread.color, spread.width, spread.dash, points)
    });
    let count = spreads.iter().map(|spread| spread.histogram.count()).max().unwrap_or(1);
    let ends = spreads.iter().flat_map(|spread| [spread.histogram.min(), spread.histogram.max()]);
    let panel = Panel::new(Axis::times_us(ends.map(|ns| ns as f64 / 1000.0)), HEIGHT, lines.collect());
    let response = &trial.response_time_us;
    Chart::new("spectrum", "Percentile spectrum", percentile_axis(count), panel).in_words(format!(
        "50 % of the requests took at most {}, 99 % at most {}, 99.9 % at most {}; the slowest took {}.",
        words::time_us(response.p50),
        words::time_us(response.p99),
        words::time_us(response.p999),
        words::time_us(response.max)
    ))
}

/// The place of a quantile on the axis: 0.9 at 1, 0.99 at 2, 0.999 at 3.
fn nines(quantile: f64) -> f64 {
    -(1.0 - quantile).log10()
}

/// Quantiles, evenly spread over the axis, with their times in microseconds. The maximum comes
/// last, at the middle of the last request's share, since it lies at infinity otherwise.
fn spectrum_points(histogram: &Histogram) -> Vec<(f64, f64)> {
    const STEPS: u32 = 160;
    let us = |ns: u64| ns as f64 / 1000.0;
    let count = histogram.count() as f64;
    let last = count.log10();
    let quantile = |step: u32| 1.0 - 10_f64.powf(-last * f64::from(step) / f64::from(STEPS));
    let mut points: Vec<(f64, f64)> = vec![(0.0, us(histogram.min()))];
    points.extend((1..=STEPS).map(quantile).filter(|q| *q > 0.0).map(|q| (q, us(histogram.quantile(q)))));
    points.push((1.0 - 0.5 / count, us(histogram.max())));
    points
}

fn percentile_axis(count: u64) -> Axis {
    let end = nines(1.0 - 0.5 / count.max(1) as f64);
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999, 0.999_999_9];
    let ticks: Vec<f64> = quantiles.into_iter().filter(|quantile| nines(*quantile) <= end).collect();
    let ticks = ticks.into_iter().map(|quantile| (nines(quantile), percentage(quantile))).collect();
    Axis::from_zero(end * 1.02).labelled(ticks).titled("percentile")
}

/// As many digits as are needed to distinguish a percentile from 100 %.
fn percentage(quantile: f64) -> String {
    let decimals = (nines(quantile) - 1.0).max(0.0).ceil() as usize;
    let text = format!("{:.*}", decimals.min(7), quantile * 100.0);
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text} %")
}

/// Shares of requests by time, in bins of equal width on the logarithmic axis.
fn histogram(spreads: &[Spread]) -> Chart {
    let mut outlines: Vec<Series> = Vec::new();
    let mut tallest = 0.0_f64;
    let mut ends: Vec<f64> = Vec::new();
    for (position, spread) in spreads.iter().enumerate() {
        let bins = bins(&spread.histogram);
        tallest = bins.iter().map(|bin| bin.share).fold(tallest, f64::max);
        ends.extend(bins.iter().flat_map(|bin| [bin.from_us, bin.to_us]));
        // The outline begins and ends on the axis.
        let edge = |bin: Option<&Bin>, us: fn(&Bin) -> f64| bin.map(|bin| Point::new(us(bin), Some(0.0), ""));
        let mut outline: Vec<Point> = edge(bins.first(), |bin| bin.from_us).into_iter().collect();
        for bin in &bins {
            let text = format!(
                "{}: {} between {} and {}",
                spread.name,
                display::percent(bin.share),
                words::time_us(bin.from_us),
                words::time_us(bin.to_us)
            );
            outline.extend([bin.from_us, bin.to_us].map(|us| Point::new(us, Some(bin.share * 100.0), text.clone())));
        }
        outline.extend(edge(bins.last(), |bin| bin.to_us));
        let series = Series::line(spread.name, spread.color, spread.width, spread.dash, outline);
        // Only the first is filled: two fills on top of each other hide which line is whose.
        outlines.push(if position == 0 { series.filled() } else { series });
    }
    let panel = Panel::new(Axis::from_zero(tallest * 108.0).in_unit(" %"), HEIGHT, outlines);
    let chart = Chart::new("histogram", "Distribution of times", Axis::times_us(ends).titled("time"), panel);
    chart.in_words(histogram_in_words(spreads))
}

/// Requests whose time lies between two bounds, in microseconds.
#[derive(Debug, PartialEq)]
struct Bin {
    from_us: f64,
    to_us: f64,
    share: f64,
}

/// Each bin is about 12 % wide: fine enough to separate two peaks, coarse enough not to show noise.
const BINS_PER_DECADE: f64 = 20.0;

/// The bins from the first that holds a request to the last, empty ones between them included.
///
/// The exchanged histogram counts whole microseconds, so edges lie halfway between two of them:
/// otherwise bins of a few microseconds would differ by how many whole numbers happen to fall into
/// them at their edges.
fn bins(histogram: &Histogram) -> Vec<Bin> {
    let ratio = 10_f64.powf(1.0 / BINS_PER_DECADE);
    let us = |ns: u64| ns as f64 / 1000.0;
    let count = histogram.count() as f64;
    let mut buckets = histogram.buckets().map(|(ns, n)| (us(ns.min(histogram.max())), n)).peekable();
    let mut from_us = (us(histogram.min()).floor() - 0.5).max(0.5);
    let mut bins = Vec::new();
    // Each bin is wider than the last by a constant factor and times end at an hour, so this ends
    // after some hundred.
    while buckets.peek().is_some() {
        let to_us = (from_us * ratio).max(from_us + 1.0).floor() + 0.5;
        let mut n = 0;
        while let Some((_, in_bucket)) = buckets.next_if(|(us, _)| *us <= to_us) {
            n += in_bucket;
        }
        bins.push(Bin { from_us, to_us, share: n as f64 / count });
        from_us = to_us;
    }
    bins
}

fn histogram_in_words(spreads: &[Spread]) -> String {
    let most_common = |spread: &Spread| {
        let bin = bins(&spread.histogram).into_iter().max_by(|a, b| a.share.total_cmp(&b.share))?;
        Some(format!(
            "{} is mostly {} to {} ({} of requests)",
            spread.name,
            words::time_us(bin.from_us),
            words::time_us(bin.to_us),
            display::percent(bin.share)
        ))
    };
    let told: Vec<String> = spreads.iter().filter_map(most_common).collect();
    format!("The {}.", words::enumerated(&told))
}

/// All times of `trial` that were measured, as a table.
pub(super) fn table(trial: &Trial) -> Markup {
    type Figure = (&'static str, fn(&Summary) -> f64);
    const FIGURES: [Figure; 8] = [
        ("min", |s| s.min),
        ("mean", |s| s.mean),
        ("p50", |s| s.p50),
        ("p90", |s| s.p90),
        ("p99", |s| s.p99),
        ("p99.9", |s| s.p999),
        ("p99.99", |s| s.p9999),
        ("max", |s| s.max),
    ];
    let rows = [
        ("response time", &trial.response_time_us),
        ("service time", &trial.service_time_us),
        ("lag", &trial.lag_us),
        ("without lag", &trial.without_lag_us),
        ("queue", &trial.queue_us),
        ("first byte", &trial.first_byte_us),
        ("connect", &trial.connect_us),
    ];
    html! {
        div.scroll tabindex="0" role="region" aria-label="Times of the trial" {
            table {
                caption { span { "Times of a request and their parts" } }
                thead { tr {
                    th scope="col" { "time" }
                    @for (name, _) in FIGURES { th.number scope="col" { (name) } }
                    th.number scope="col" { "count" }
                } }
                tbody { @for (name, summary) in rows { tr {
                    th scope="row" { (name) }
                    @for (_, figure) in FIGURES {
                        td.number { (if summary.count == 0 { words::NONE.to_owned() } else { words::time_us(figure(summary)) }) }
                    }
                    td.number { (display::count(summary.count)) }
                } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_us(us: impl IntoIterator<Item = u64>) -> Histogram {
        let mut histogram = Histogram::new();
        us.into_iter().for_each(|us| histogram.record(us * 1000));
        histogram
    }

    #[test]
    fn percentages_are_told_from_a_hundred() {
        for (quantile, expected) in
            [(0.0, "0 %"), (0.5, "50 %"), (0.9, "90 %"), (0.99, "99 %"), (0.9995, "99.95 %"), (0.99999, "99.999 %")]
        {
            assert_eq!(percentage(quantile), expected);
        }
    }

    #[test]
    fn spectra_rise_from_minimum_to_maximum() {
        for histogram in [of_us([0]), of_us([7]), of_us(1..=10_000)] {
            let points = spectrum_points(&histogram);
            assert!(points.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1), "{points:?}");
            assert!(points.iter().all(|(q, _)| (0.0..1.0).contains(q)), "{points:?}");
            assert_eq!(points[0].1 * 1000.0, histogram.min() as f64);
            assert_eq!(points[points.len() - 1].1 * 1000.0, histogram.max() as f64);
        }
    }

    #[test]
    fn bins_hold_every_request_once() {
        for histogram in [of_us([0]), of_us([3_599_000_000]), of_us((1..=3000).map(|i| i * i))] {
            let bins = bins(&histogram);
            let total: f64 = bins.iter().map(|bin| bin.share).sum();
            assert!((total - 1.0).abs() < 1e-9, "{total}");
            assert!(bins.len() < 300, "{}", bins.len());
            assert!(bins.windows(2).all(|pair| pair[0].to_us == pair[1].from_us));
        }
    }
}
