//! The result of a suite: its figures beside those of the source document, its curves, and the
//! choices that were made where the document is silent.

use maud::{Markup, html};

use super::chart::{Axis, Chart, Color, Dashes, Mark, Panel, Point, Series};
use super::words;
use crate::document::{Curve, Figure, Measured};
use crate::reference::{Reference, reference};

/// Height of each chart.
const HEIGHT: f64 = 300.0;
/// Marks that tell the lines of a curve apart without their colours.
const MARKS: [Mark; 4] = [Mark::Circle, Mark::Square, Mark::Diamond, Mark::Cross];

/// Figures, curves and choices.
pub(super) fn sections(measured: &Measured, target: &str) -> Markup {
    html! {
        section {
            h2 { (measured.suite.title()) }
            (table(measured, target))
            @if !measured.choices.is_empty() {
                h3 { "Rules and choices" }
                ul { @for choice in &measured.choices { li { (words::unbroken(choice)) "." } } }
            }
        }
        @if !measured.curves.is_empty() {
            section {
                h2 { "Curves" }
                @for chart in charts(measured) { (chart.figure()) }
            }
        }
    }
}

/// The figures, those of the document in columns beside them.
fn table(measured: &Measured, target: &str) -> Markup {
    let reference = reference(measured.suite);
    let columns = reference.map_or(&[][..], |reference| reference.columns);
    html! {
        div.scroll tabindex="0" role="region" aria-label="Figures" {
            table {
                @if let Some(reference) = reference {
                    caption { span { "Beside the figures of " (reference.source) } }
                }
                thead { tr {
                    th scope="col" { "figure" }
                    th.number scope="col" { (target) }
                    @for column in columns { th.number scope="col" { (column) } }
                    th scope="col" { "how" }
                } }
                tbody { @for figure in &measured.figures { (row(figure, reference.as_ref())) } }
            }
        }
    }
}

fn row(figure: &Figure, reference: Option<&Reference>) -> Markup {
    let columns = reference.map_or(0, |reference| reference.columns.len());
    let cells = reference.and_then(|reference| reference.rows.iter().find(|(name, _)| *name == figure.name));
    let cell = |column: usize| cells.map_or(words::NONE, |(_, cells)| cells[column]);
    html! {
        tr {
            th scope="row" { (figure.title) }
            td.number {
                (words::unbroken(&figure.text()))
                @if let Some([low, high]) = figure.interval95 {
                    br; small { "95 %: " (words::unbroken(&figure.unit.text(low))) " to " (words::unbroken(&figure.unit.text(high))) }
                }
            }
            @for column in 0..columns { td.number { (cell(column)) } }
            td { (figure.words) }
        }
    }
}

/// One chart for each curve.
pub(super) fn charts(measured: &Measured) -> Vec<Chart> {
    measured.curves.iter().filter(|curve| curve.lines.iter().any(|line| !line.points.is_empty())).map(chart).collect()
}

fn chart(curve: &Curve) -> Chart {
    let points = || curve.lines.iter().flat_map(|line| &line.points);
    let furthest = points().map(|[x, _]| *x).fold(0.0, f64::max);
    let highest = points().map(|[_, y]| *y).fold(0.0, f64::max);
    let line = |(position, line): (usize, &crate::document::CurveLine)| {
        let point = |[x, y]: &[f64; 2]| {
            let hover =
                format!("{}\n{}: {}\n{}: {}", line.name, curve.x_axis, words::rate(*x), curve.y_axis, words::rate(*y));
            Point::new(*x, Some(*y), hover)
        };
        let points = line.points.iter().map(point).collect();
        Series::line(&line.name, Color::Side(position), 2.0, Dashes::Solid, points)
            .marked(MARKS[position % MARKS.len()])
    };
    let series = curve.lines.iter().enumerate().map(line).collect();
    let panel = Panel::new(Axis::from_zero(highest * 1.08), HEIGHT, series).titled(&curve.y_axis);
    let x = Axis::from_zero(furthest * 1.04).titled(&curve.x_axis);
    Chart::new(format!("suite-{}", curve.name), &curve.title, x, panel).in_words(capitalised(&curve.words))
}

/// A clause as a sentence.
fn capitalised(clause: &str) -> String {
    let mut letters = clause.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::document::{CurveLine, Kind, SuiteName, Unit};

    #[test]
    fn figures_stand_beside_those_of_the_document() {
        let mut measured = Measured::new(SuiteName::Webbench, 0.5);
        let figure = Figure {
            value: Some(26_400.0),
            interval95: Some([26_000.0, 27_000.0]),
            at_least: true,
            words: "the peak is <high>".to_owned(),
            ..Figure::new("peak_requests", "peak requests/sec", Unit::PerSecond)
        };
        measured.figures = vec![figure, Figure::new("peak_threads", "threads at the peak", Unit::Threads)];
        measured.choices = vec!["HTTP/1.0 without keep-alive".to_owned()];
        let curve = |name: &str, points: Vec<[f64; 2]>| Curve {
            name: name.to_owned(),
            title: "Figure 4".to_owned(),
            x_axis: "test threads".to_owned(),
            y_axis: "requests per second".to_owned(),
            lines: vec![CurveLine { name: "a".to_owned(), points }],
            words: "the peak is high".to_owned(),
        };
        measured.curves = vec![curve("requests", vec![[2.0, 100.0], [32.0, 200.0]]), curve("throughput", Vec::new())];
        let document = crate::document::Document {
            suite: Some(measured),
            ..sample::document(Kind::Suite, vec![sample::trial("mix-1", 0.0, 100.0, 1.0)])
        };
        let page = super::super::html(&document);
        for part in [
            "webbench: peak requests/sec at least",
            "Linux/Apache 1.3.4",
            "<td class=\"number\">1,000</td>",
            "26,000/s",
            "the peak is &lt;high&gt;",
            "HTTP/1.0 without keep-alive.",
            "id=\"suite-requests\"",
            "The peak is high.",
        ] {
            assert!(page.contains(part), "{part}");
        }
        // A curve without points is not drawn.
        assert!(!page.contains("id=\"suite-throughput\""));
    }
}
