//! The text of a suite's result.

use std::fmt::{self, Write};

use thalweg_report::document::Measured;
use thalweg_report::document::{Document, Figure};
use thalweg_report::reference::reference;

use crate::style;
use crate::table::{Align, Table};

/// Writes figures, curves, choices and reasons, as far as there are some.
pub(crate) fn write(out: &mut String, document: &Document, measured: &Measured, columns: Option<usize>) -> fmt::Result {
    let title = measured.suite.title();
    let verdict = format!("{:?}", measured.verdict).to_uppercase();
    let verdict = style::styled(&verdict, style::of(measured.verdict));
    writeln!(out, "{verdict}  {title}, {}", document.plan.target)?;
    for reason in &measured.reasons {
        writeln!(out, "  {reason}")?;
    }
    writeln!(out)?;
    let width = measured.figures.iter().map(|figure| figure.title.chars().count()).max().unwrap_or(0);
    for figure in &measured.figures {
        writeln!(out, "  {:<width$}  {:>20}{}  {}", figure.title, figure.text(), interval(figure), figure.words)?;
    }
    for curve in &measured.curves {
        writeln!(out, "\n  {}: {}", curve.title, curve.words)?;
        for line in &curve.lines {
            writeln!(out, "    {}", line.name)?;
            for [x, y] in &line.points {
                writeln!(out, "    {x:>10} {y:>16.1}")?;
            }
        }
    }
    documented(out, measured, columns)?;
    writeln!(out, "\n  rules and choices")?;
    measured.choices.iter().try_for_each(|choice| writeln!(out, "  * {choice}"))
}

fn interval(figure: &Figure) -> String {
    let ends = figure.interval95.map(|ends| ends.map(|end| figure.unit.text(end)));
    ends.map_or_else(String::new, |[low, high]| format!("  (95 %: {low} to {high})"))
}

/// The figures of the source document.
fn documented(out: &mut String, measured: &Measured, columns: Option<usize>) -> fmt::Result {
    let Some(reference) = reference(measured.suite) else { return Ok(()) };
    writeln!(out, "\n  {}", reference.source)?;
    let names = reference.columns.iter().map(|column| (*column, Align::Right));
    let mut table = Table::new(&std::iter::once(("", Align::Left)).chain(names).collect::<Vec<_>>());
    for (name, cells) in reference.rows {
        let title = measured.figure(name).map_or(*name, |figure| &figure.title);
        table.push(std::iter::once(title).chain(cells.iter().copied()).map(str::to_owned));
    }
    table.write(out, 2, columns)
}
