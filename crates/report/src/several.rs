//! Several targets in one figure: of a sweep, or of several documents.

use maud::{Markup, html};
use thalweg_units::display;

use super::chart::{Axis, Band, Chart, Color, Dashes, Mark, Panel, Point, Series};
use super::curve::{Curve, CurvePoint};
use super::{answer, sections, trials, words};
use crate::document::Document;

/// Height of each chart.
const HEIGHT: f64 = 300.0;

/// Marks and dashes that tell targets apart without their colours.
const MARKS: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Diamond, Mark::Cross];
const DASHES: [Dashes; 3] = [Dashes::Solid, Dashes::Short, Dashes::Long];

/// Good responses and the 99th percentile of the response time over the offered rate.
pub(super) fn charts(curves: &[Curve]) -> Vec<Chart> {
    let highest = curves.iter().flat_map(|curve| &curve.points).map(|point| point.offered).fold(0.0, f64::max);
    if highest <= 0.0 {
        return Vec::new();
    }
    let x = || Axis::from_zero(highest * 1.04).titled("offered requests per second");
    let good = |point: &CurvePoint| Some(point.good);
    let mut series = vec![Series::line(
        "all good",
        Color::Muted,
        1.0,
        Dashes::Dotted,
        [0.0, highest].map(|rate| Point::new(rate, Some(rate), "")).into(),
    )];
    series.extend(lines(curves, good));
    let most = curves.iter().flat_map(|curve| &curve.points).map(|point| point.good).fold(0.0, f64::max);
    let mut throughput = Panel::new(Axis::from_zero(most.max(highest * 0.25) * 1.1), HEIGHT, series);
    throughput.bands = curves.iter().enumerate().filter_map(band).collect();
    let p99 = |point: &CurvePoint| point.p99_us;
    let times = Axis::times_us(curves.iter().flat_map(|curve| &curve.points).filter_map(p99));
    let slowest = curves.iter().filter_map(|curve| {
        let last = curve.points.last()?;
        Some(format!("{} {} at {}", curve.name, words::time_us(last.p99_us?), words::per_second(last.offered)))
    });
    let slowest = words::enumerated(&slowest.collect::<Vec<_>>());
    vec![
        Chart::new("targets-throughput", "Good responses per second", x(), throughput)
            .in_words(curves.iter().map(Curve::sentence).collect::<Vec<_>>().join(" ")),
        Chart::new(
            "targets-response-time",
            "99th percentile of the response time",
            x(),
            Panel::new(times, HEIGHT, lines(curves, p99)),
        )
        .in_words(format!("p99 at the highest rate tried: {slowest}.")),
    ]
}

fn lines(curves: &[Curve], y: impl Fn(&CurvePoint) -> Option<f64>) -> Vec<Series> {
    let line = |(position, curve): (usize, &Curve)| {
        let points = curve.points.iter().map(|point| Point::new(point.offered, y(point), in_hover(curve, point)));
        let dash = DASHES[position / MARKS.len() % DASHES.len()];
        Series::line(&curve.name, Color::Side(position), 2.0, dash, points.collect())
            .marked(MARKS[position % MARKS.len()])
    };
    curves.iter().enumerate().map(line).collect()
}

fn band((position, curve): (usize, &Curve)) -> Option<Band> {
    let [from, to] = curve.interval95?;
    Some(Band { from, to, color: Color::Side(position) })
}

fn in_hover(curve: &Curve, point: &CurvePoint) -> String {
    let mut text =
        format!("{}\n{} offered, {} good", curve.name, words::per_second(point.offered), words::per_second(point.good));
    if point.errors > 0.0 {
        text.push_str(&format!("\nerrors {}", words::per_second(point.errors)));
    }
    if let Some(p99) = point.p99_us {
        text.push_str(&format!("\np99 {}", words::time_us(p99)));
    }
    text
}

/// Capacity, peak and shape of each curve, as a table.
pub(super) fn table(curves: &[Curve]) -> Markup {
    let searched = curves.iter().any(|curve| curve.limit.is_some());
    html! {
        div.scroll tabindex="0" role="region" aria-label="Targets" {
            table {
                caption { span { "Peak, where it occurs, and what follows; rates per second" } }
                thead { tr {
                    th scope="col" { "target" }
                    @if searched {
                        th.number scope="col" { "capacity" }
                        th.number scope="col" { "95 % interval" }
                    }
                    th.number scope="col" { "meets the limits up to" }
                    th.number scope="col" { "most good" }
                    th.number scope="col" { "at offered" }
                    th.number scope="col" { "least beyond" }
                    th scope="col" { "shape" }
                    @if searched { th scope="col" { "bottleneck" } }
                } }
                tbody { @for curve in curves { (row(curve, searched)) } }
            }
        }
    }
}

fn row(curve: &Curve, searched: bool) -> Markup {
    use super::curve::Shape;
    let rate = |rate: Option<f64>| rate.map_or_else(|| words::NONE.to_owned(), words::rate);
    let (peak, shape) = (curve.peak(), curve.shape());
    let interval = curve.interval95.map(|[low, high]| format!("{} to {}", words::rate(low), words::rate(high)));
    let share = shape.zip(peak).map(|((_, lowest), peak)| display::percent(lowest.good / peak.good));
    html! {
        tr {
            th scope="row" { (curve.name) }
            @if searched {
                td.number { (rate(curve.capacity)) }
                td.number { (interval.unwrap_or_else(|| words::NONE.to_owned())) }
            }
            td.number { (rate(curve.passed)) }
            td.number { (rate(peak.map(|peak| peak.good))) }
            td.number { (rate(peak.map(|peak| peak.offered))) }
            td.number { (share.unwrap_or_else(|| words::NONE.to_owned())) }
            td { (match shape {
                None => "not known",
                Some((Shape::Flat, _)) => "flat",
                Some((Shape::Decline, _)) => "slow decline",
                Some((Shape::Collapse, _)) => "collapse",
            }) }
            @if searched { td { (curve.limit.as_deref().unwrap_or(words::NONE)) } }
        }
    }
}

/// The curves of several documents, under names that tell them apart: the label or the target,
/// with the server where the targets alone are the same.
pub(super) fn curves_of(documents: &[(Option<&str>, &Document)]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for (label, document) in documents {
        for mut curve in Curve::all_of(document) {
            if let Some(label) = label {
                curve.name =
                    if document.sweep.is_some() { format!("{label}: {}", curve.name) } else { (*label).to_owned() };
            }
            let wanted = curve.name.clone();
            let mut number = 2;
            while curves.iter().any(|other| other.name == curve.name) {
                curve.name = format!("{wanted} ({number})");
                number += 1;
            }
            curves.push(curve);
        }
    }
    curves
}

/// The curves as lines of a table. Fields have neither separators nor white space.
pub(super) fn rows(documents: &[(Option<&str>, &Document)], separator: char) -> String {
    let names = ["target", "offered_rate", "good_rate", "error_rate", "response_p99_us", "verdict"];
    let mut lines = vec![names.map(str::to_owned)];
    for curve in curves_of(documents) {
        let is_unfit = |c: char| c.is_whitespace() || c == separator;
        let name: String = curve.name.chars().map(|c| if is_unfit(c) { '_' } else { c }).collect();
        lines.extend(curve.points.iter().map(|point| {
            let p99 = point.p99_us.map_or_else(|| "-".to_owned(), |us| format!("{us:.3}"));
            let [offered, good, errors] = [point.offered, point.good, point.errors].map(|rate| format!("{rate:.3}"));
            [name.clone(), offered, good, errors, p99, if point.passed { "pass" } else { "fail" }.to_owned()]
        }));
    }
    lines.iter().map(|line| line.join(&separator.to_string()) + "\n").collect()
}

/// The page's body about several documents.
pub(super) fn page(documents: &[(Option<&str>, &Document)]) -> Markup {
    let curves = curves_of(documents);
    let offered: Vec<&Curve> = curves.iter().filter(|curve| !curve.points.is_empty()).collect();
    html! {
        header {
            p.kind { "Thalweg · " (documents.len()) " runs side by side" }
            h1 { (headline(&curves)) }
            (comparability(documents))
        }
        @if !offered.is_empty() {
            section {
                h2 { "Results by offered rate" }
                @for chart in charts(&curves) { (chart.figure()) }
                (table(&curves))
            }
        }
        @for (position, (label, document)) in documents.iter().enumerate() {
            section {
                h2 { (position + 1) ". " (label.unwrap_or(&document.plan.target)) }
                p { (words::unbroken(&answer::sentence(document))) }
                (sections::facts(document))
                @if let Some(find) = &document.find { (sections::evidence(find)) }
                details { summary { "Trials" } (trials::table(document)) }
                details { summary { "Machine and plan" } (sections::machine_facts(&document.host, None)) (sections::plan_facts(document)) }
            }
        }
        (sections::glossary())
    }
}

/// Which target meets the limits up to the highest rate.
fn headline(curves: &[Curve]) -> String {
    let mut ranked: Vec<(f64, &str)> =
        curves.iter().filter_map(|curve| Some((curve.passed?, curve.name.as_str()))).collect();
    ranked.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    let told: Vec<String> =
        ranked.iter().map(|(rate, name)| format!("{name} up to {} requests/s", words::rate(*rate))).collect();
    match told.is_empty() {
        true => format!("{} runs, none of which met its limits.", curves.len()),
        false => format!("Limits are met by {}.", words::enumerated(&told)),
    }
}

/// The differences of runs apart from their targets: figures of different hosts, limits or versions
/// are no comparison.
fn comparability(documents: &[(Option<&str>, &Document)]) -> Markup {
    type Fact = (&'static str, fn(&Document) -> String);
    const FACTS: [Fact; 6] = [
        ("limits", |document| words::limits(&document.plan.limits)),
        ("measuring host", |document| document.host.name.clone()),
        ("kernel", |document| document.host.kernel.clone()),
        ("version of Thalweg", |document| document.version.clone()),
        ("CPUs of the load", |document| format!("{:?}", document.host.load_cpus)),
        ("load", |document| document.plan.load.clone()),
    ];
    let differs = |(_, of): &&Fact| documents.windows(2).any(|pair| of(pair[0].1) != of(pair[1].1));
    let differing: Vec<String> = FACTS.iter().filter(differs).map(|(name, _)| (*name).to_owned()).collect();
    html! {
        @if !differing.is_empty() {
            p.notice { strong { "These runs differ in more than their targets: " } (words::enumerated(&differing)) ". Their figures are no "
                "comparison of the targets alone; " code { "thalweg compare" } " makes one." }
        } @else {
            p.notice { "The runs were made one after the other on one host, with the same limits and load. To test a small difference, use "
                code { "thalweg compare" } "." }
        }
    }
}
