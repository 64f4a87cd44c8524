//! The comparison of two sides on the page: the answer, its metrics, the rounds behind it.

use maud::{Markup, html};
use thalweg_units::display;

use super::trials::sentences;
use crate::document::{Compare, MetricComparison, Round};

/// The section about a comparison.
pub(super) fn section(compare: &Compare) -> Markup {
    html! {
        section {
            h2 { "Comparison" }
            p { strong { (compare.sentence) } }
            @if !compare.notes.is_empty() { (sentences(&compare.notes)) }
            table {
                thead { tr {
                    th scope="col" { "metric" } th scope="col" { "A" } th scope="col" { "B" }
                    th scope="col" { "B / A" } th scope="col" { "95 % interval" } th scope="col" { "would see" }
                } }
                tbody { @for metric in &compare.metrics { (row(metric)) } }
            }
            p { "The interval is one of the ratio, from " (compare.planning.pairs) " pairs of interleaved rounds. "
                "A run like this one would see a difference of the last column in four of five cases." }
            @if let Some(metric) = compare.metrics.first() { (rounds(metric, &compare.rounds)) }
        }
    }
}

fn row(metric: &MetricComparison) -> Markup {
    let value = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| quantity(value, &metric.unit));
    let interval = metric.interval95.map_or_else(|| "–".to_owned(), |[low, high]| format!("{low:.3} to {high:.3}"));
    html! {
        tr {
            th scope="row" { (metric.metric) }
            td { (value(metric.a)) }
            td { (value(metric.b)) }
            td { (metric.effect.map_or_else(|| "–".to_owned(), |effect| format!("{effect:.3}"))) }
            td { (interval) }
            td { (metric.smallest_detectable.map_or_else(|| "–".to_owned(), display::percent)) }
        }
    }
}

/// The primary metric's value in each round, in the order in which they were made.
fn rounds(metric: &MetricComparison, rounds: &[Round]) -> Markup {
    let value = |round: &Round| {
        let value = round.values.first().copied().flatten();
        value.map_or_else(|| "–".to_owned(), |value| quantity(value, &metric.unit))
    };
    html! {
        details {
            summary { "Rounds" }
            table {
                thead { tr {
                    th scope="col" { "pair" } th scope="col" { "side" } th scope="col" { (metric.metric) }
                    th scope="col" { "counts" }
                } }
                tbody { @for round in rounds {
                    tr {
                        td { (round.pair) }
                        td { (round.side) }
                        td { (value(round)) }
                        td { (if round.counts { "yes" } else { "no" }) }
                    }
                } }
            }
        }
    }
}

fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "us" => display::time((value * 1e3).round() as u64),
        "1/s" => display::rate(value),
        "B/s" => display::link_rate((value * 8.0) as u64),
        _ => format!("{value:.3} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{CompareEnd, ComparedSide, Difference, Planning};

    #[test]
    fn a_comparison_shows_its_metrics_and_rounds() {
        let metric = MetricComparison {
            metric: "cpu_per_request".to_owned(),
            unit: "us".to_owned(),
            less_is_better: true,
            primary: true,
            a: Some(8.125),
            b: None,
            effect: Some(1.0312),
            interval95: Some([1.021, 1.042]),
            smallest_detectable: Some(0.012),
            p_value: Some(0.004),
            pairs: 8,
            difference: Difference::More,
            sentence: String::new(),
        };
        let round = |side: &str, value| Round {
            pair: 1,
            side: side.to_owned(),
            at_s: 0.0,
            counts: true,
            values: vec![value],
            trials: Vec::new(),
        };
        let compare = Compare {
            metric: metric.metric.clone(),
            a: metric.a,
            b: metric.b,
            effect: metric.effect,
            interval95: metric.interval95,
            smallest_detectable: metric.smallest_detectable,
            sentence: "B uses <3 %> more".to_owned(),
            difference: Difference::More,
            sides: vec![ComparedSide { name: "A".to_owned(), target: "http://h/".to_owned(), command: None }],
            metrics: vec![metric],
            rounds: vec![round("A", Some(8.0)), round("B", None)],
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
        };
        let html = section(&compare).into_string();
        for part in
            ["B uses &lt;3 %&gt; more", "8.13 us", "1.031", "1.021 to 1.042", "1.20 %", "a note", "8.00 us", "–"]
        {
            assert!(html.contains(part), "{part}: {html}");
        }
    }
}
