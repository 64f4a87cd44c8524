//! A comparison on the page: the effect on each metric, the pairs that it rests on, and the values
//! of all rounds in the order of time.

use maud::{Markup, html};

use super::chart::{Across, Axis, Chart, Color, Dashes, Mark, Panel, Point, Rule, Series};
use super::words;
use crate::document::{Compare, MetricComparison, Round, ScaleResult};

const HEIGHT: f64 = 260.0;

/// The sections on a comparison.
pub(super) fn sections(compare: &Compare) -> Markup {
    let effects = effects(compare);
    html! {
        section {
            h2 { "The comparison" }
            @if let Some(chart) = effects { (chart.figure()) }
            (table(compare))
            @if let Some(scale) = &compare.scale { (scaling(compare, scale).figure()) }
        }
        section {
            h2 { "Rounds" }
            @if compare.scale.is_none() && let Some(chart) = pairs(compare) { (chart.figure()) }
            @if let Some(chart) = rounds(compare) { (chart.figure()) }
        }
    }
}

/// The difference of a ratio from 1, in percent.
fn percent(ratio: f64) -> f64 {
    100.0 * (ratio - 1.0)
}

/// The forest plot: an effect with its interval for each metric.
fn effects(compare: &Compare) -> Option<Chart> {
    let metrics = || compare.metrics.iter().enumerate();
    let point = |(position, metric): (usize, &MetricComparison)| {
        let (effect, ends) = (metric.effect?, metric.interval95?.map(percent));
        let hover =
            format!("{}\n{:+.2} %, 95 % interval {:+.2} to {:+.2} %", metric.metric, percent(effect), ends[0], ends[1]);
        Some(Point::new(position as f64 + 1.0, Some(percent(effect)), hover).within(ends))
    };
    let points: Vec<Point> = metrics().filter_map(point).collect();
    if points.is_empty() {
        return None;
    }
    let [a, b] = compare.names();
    let ends = metrics().filter_map(|(_, metric)| metric.interval95).flatten().map(percent);
    let names = metrics().map(|(position, metric)| (position as f64 + 1.0, metric.metric.clone())).collect();
    let mut panel = Panel::new(
        spanning(ends),
        HEIGHT,
        vec![Series::marks(format!("{b} against {a}"), Color::Series, Mark::Diamond, points)],
    );
    panel.rules.push(Rule::new(Across::Y(0.0), Color::Muted, Dashes::Short, "no difference"));
    let x = Axis::linear(0.5, compare.metrics.len() as f64 + 0.5).labelled(names);
    let sentences: Vec<String> = compare.metrics.iter().map(|metric| words::as_sentence(&metric.sentence)).collect();
    Some(
        Chart::new("effects", format!("Difference of {b} from {a} with its 95 % interval, %"), x, panel)
            .in_words(sentences.join(" ")),
    )
}

/// The difference of each pair that counts, for the primary metric.
fn pairs(compare: &Compare) -> Option<Chart> {
    let of_pair = |pair: usize, side: &str| {
        let mut rounds = compare.rounds.iter().filter(|round| round.counts && round.pair == pair);
        rounds.find(|round| round.side == side)?.values[0]
    };
    let last = compare.rounds.iter().map(|round| round.pair).max()?;
    let [a, b] = compare.names();
    let differences: Vec<(f64, f64)> =
        (1..=last).filter_map(|pair| Some((pair as f64, percent(of_pair(pair, b)? / of_pair(pair, a)?)))).collect();
    let points = differences
        .iter()
        .map(|&(pair, difference)| Point::new(pair, Some(difference), format!("pair {pair:.0}\n{difference:+.2} %")));
    let series = Series::marks("pairs", Color::Series, Mark::Circle, points.collect());
    let zero = std::iter::once(0.0);
    let mut panel = Panel::new(spanning(differences.iter().map(|one| one.1).chain(zero)), HEIGHT, vec![series]);
    panel.rules.push(Rule::new(Across::Y(0.0), Color::Muted, Dashes::Short, "no difference"));
    if let (Some(effect), Some([low, high])) = (compare.effect.map(percent), compare.interval95) {
        panel.rules.push(Rule::new(Across::Y(effect), Color::Series, Dashes::Solid, "effect"));
        panel.rules.push(Rule::new(Across::Y(percent(low)), Color::Series, Dashes::Dotted, ""));
        panel.rules.push(Rule::new(Across::Y(percent(high)), Color::Series, Dashes::Dotted, ""));
    }
    let x = Axis::linear(0.0, last as f64 + 1.0).titled("pair in order of time");
    let title = format!("{}: difference of {b} from {a} in each pair, %", compare.metric);
    let alternative = format!(
        "{} pairs of rounds; the solid line is their effect, the dotted lines are the ends of its 95 % interval.",
        differences.len()
    );
    Some(Chart::new("pairs", title, x, panel).in_words(alternative))
}

/// The primary metric's value of each round.
fn rounds(compare: &Compare) -> Option<Chart> {
    let last = compare.rounds.last()?.at_s;
    let primary = &compare.metrics[0];
    let series = compare.sides.iter().enumerate().map(|(position, side)| {
        let of_side = compare.rounds.iter().filter(|round| round.side == side.name && round.counts);
        let point = |round: &Round| {
            let value = round.values[0]?;
            let hover = format!("{}, pair {}\n{}", round.side, round.pair, quantity(value, &primary.unit));
            Some(Point::new(round.at_s, Some(value), hover))
        };
        Series::marks(&side.name, Color::Side(position), Mark::Circle, of_side.filter_map(point).collect())
    });
    let values = compare.rounds.iter().filter(|round| round.counts).filter_map(|round| round.values[0]);
    let highest = values.fold(0.0, f64::max);
    let panel = Panel::new(Axis::from_zero(highest * 1.1), HEIGHT, series.collect());
    let x = Axis::linear(0.0, last.max(1.0)).titled("time").in_unit(" s");
    let unit = if primary.unit == "us" { "µs" } else { &primary.unit };
    let title = format!("{} of each round, {unit}", compare.metric);
    let alternative = format!(
        "{} of {} rounds count; their order was chosen at random and is balanced.",
        compare.rounds.iter().filter(|round| round.counts).count(),
        compare.rounds.len()
    );
    Some(Chart::new("rounds", title, x, panel).in_words(alternative))
}

/// The speed-up over the levels of a parameter.
fn scaling(compare: &Compare, scale: &ScaleResult) -> Chart {
    let highest = scale.levels.last().map_or(1.0, |level| f64::from(level.n));
    let first = scale.levels.first().map_or(1.0, |level| f64::from(level.n));
    let points = scale.levels.iter().filter_map(|level| {
        let hover = format!("{} {}\n{:.3}-fold", level.n, scale.parameter, level.speedup?);
        let point = Point::new(f64::from(level.n), level.speedup, hover);
        Some(level.speedup95.map_or(point.clone(), |ends| point.within(ends)))
    });
    let series = Series::line("measured", Color::Series, 2.0, Dashes::Solid, points.collect()).marked(Mark::Circle);
    let ideal = [first, highest].map(|n| Point::new(n, Some(n / first), ""));
    let ideal = Series::line("in proportion", Color::Muted, 1.0, Dashes::Short, ideal.into());
    let fastest = scale.levels.iter().filter_map(|level| level.speedup).fold(highest / first, f64::max);
    let panel = Panel::new(Axis::from_zero(fastest * 1.1), HEIGHT, vec![ideal, series]);
    let x = Axis::linear(0.0, highest * 1.05).titled(scale.parameter.clone());
    let title = format!("{} in relation to the lowest level", compare.metric);
    Chart::new("scaling", title, x, panel).in_words(words::as_sentence(&scale.sentence))
}

/// A linear axis that holds all values and zero, with a margin.
fn spanning(values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = values.fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let margin = ((high - low) * 0.1).max(0.1);
    Axis::linear(low - margin, high + margin).in_unit(" %")
}

fn table(compare: &Compare) -> Markup {
    let [first, last] = [compare.sides.first(), compare.sides.last()].map(|side| side.map_or("", |side| &side.name));
    html! {
        div.scroll.broad tabindex="0" role="region" aria-label="Metrics" {
            table {
                caption { span {
                    (words::counted(compare.planning.pairs as u64, "pair")) " of rounds that count; the primary metric comes first"
                } }
                thead { tr {
                    th scope="col" { "metric" }
                    th.number scope="col" { (first) }
                    th.number scope="col" { (last) }
                    th.number scope="col" { (last) " / " (first) }
                    th.number scope="col" { "95 % interval" }
                    th.number scope="col" { "smallest detectable difference" }
                    th scope="col" { "finding" }
                } }
                tbody { @for metric in &compare.metrics { (row(metric)) } }
            }
        }
    }
}

fn row(metric: &MetricComparison) -> Markup {
    let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| quantity(value, &metric.unit));
    html! {
        tr {
            th scope="row" { (metric.metric) }
            td.number { (value(metric.a)) }
            td.number { (value(metric.b)) }
            td.number { (metric.effect.map_or_else(|| "–".to_owned(), |effect| format!("{effect:.4}"))) }
            td.number { (metric.interval95.map_or_else(|| "–".to_owned(), |[low, high]| format!("{low:.4} to {high:.4}"))) }
            td.number { (metric.smallest_detectable.map_or_else(|| "–".to_owned(), |share| format!("{:.2} %", 100.0 * share))) }
            td.reasons { (words::unbroken(&metric.sentence)) }
        }
    }
}

fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "us" => words::time_us(value),
        "1/s" => words::per_second(value),
        _ => format!("{} {unit}", words::rate(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{html as page, sample};
    use super::*;
    use crate::document::{CompareEnd, ComparedSide, Difference, Kind, Planning, ScaleLevel};

    fn compared() -> Compare {
        let round = |position: usize| Round {
            pair: position / 2 + 1,
            side: if [0, 3].contains(&(position % 4)) { "A" } else { "B" }.to_owned(),
            at_s: position as f64,
            counts: true,
            values: vec![Some(if [0, 3].contains(&(position % 4)) { 100.0 } else { 103.0 })],
            trials: vec![0],
        };
        let side = |name: &str| ComparedSide { name: name.to_owned(), target: "http://h/".to_owned(), command: None };
        let metric = MetricComparison {
            metric: "cpu_per_request".to_owned(),
            unit: "us".to_owned(),
            less_is_better: true,
            primary: true,
            a: Some(100.0),
            b: Some(103.0),
            effect: Some(1.03),
            interval95: Some([1.02, 1.04]),
            smallest_detectable: Some(0.015),
            p_value: Some(0.001),
            pairs: 8,
            difference: Difference::More,
            sentence: "B uses 3.0 % more <server> CPU per request than A".to_owned(),
        };
        Compare {
            metric: metric.metric.clone(),
            a: metric.a,
            b: metric.b,
            effect: metric.effect,
            interval95: metric.interval95,
            smallest_detectable: metric.smallest_detectable,
            sentence: metric.sentence.clone(),
            difference: metric.difference,
            sides: vec![side("A"), side("B")],
            metrics: vec![metric],
            rounds: (0..16).map(round).collect(),
            planning: Planning {
                detect: None,
                planned: 8,
                needed: None,
                pairs: 8,
                repeated: 0,
                ended: CompareEnd::Complete,
            },
            max_regression: None,
            scale: None,
            notes: vec!["a note".to_owned()],
        }
    }

    #[test]
    fn the_page_has_the_answer_the_pairs_and_the_rounds() {
        let mut document = sample::document(Kind::Compare, vec![sample::trial("compare-a", 0.0, 100.0, 2.0)]);
        document.compare = Some(compared());
        let html = page(&document);
        for part in [
            "more &lt;server&gt; CPU per request than A.",
            "<title>B / A = 1.030",
            "id=\"effects\"",
            "id=\"pairs\"",
            "id=\"rounds\"",
            "1.0200 to 1.0400",
            "a note",
        ] {
            assert!(html.contains(part), "{part} is missing");
        }
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn a_scaling_is_drawn_against_proportion() {
        let mut compare = compared();
        let level = |n: u32, speedup: f64| ScaleLevel {
            n,
            value: Some(speedup),
            speedup: Some(speedup),
            speedup95: (n > 1).then_some([speedup - 0.1, speedup + 0.1]),
        };
        compare.scale = Some(ScaleResult {
            parameter: "cores".to_owned(),
            levels: vec![level(1, 1.0), level(2, 1.8)],
            serial_share: Some(0.1),
            serial_share95: None,
            universal: None,
            sentence: "throughput grows".to_owned(),
        });
        let html = sections(&compare).into_string();
        assert!(html.contains("in proportion") && html.contains("Throughput grows."), "{html}");
        assert!(!html.contains("id=\"pairs\""), "levels are no pairs");
    }

    #[test]
    fn a_comparison_without_a_valid_pair_is_still_a_page() {
        let mut compare = compared();
        compare.rounds.iter_mut().for_each(|round| {
            round.counts = false;
            round.values = vec![None];
        });
        compare.metrics[0] = MetricComparison {
            effect: None,
            interval95: None,
            smallest_detectable: None,
            ..compare.metrics[0].clone()
        };
        compare.effect = None;
        assert!(!sections(&compare).into_string().contains("NaN"));
        compare.rounds.clear();
        assert!(!sections(&compare).into_string().contains("NaN"));
    }
}
