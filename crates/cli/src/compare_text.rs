//! A comparison as text for a terminal.

use std::fmt::Write;

use thalweg_report::document::{Compare, Document, MetricComparison, ScaleLevel, ScaleResult};
use thalweg_units::display;

use crate::style;
use crate::table::{Align, Table};

/// Writes the text: the answer first, then what it rests on.
pub(crate) fn write(
    out: &mut String,
    document: &Document,
    compare: &Compare,
    columns: Option<usize>,
) -> std::fmt::Result {
    // The sentence is the verdict, but for a comparison that has been made in part.
    let verdict = match document.was_interrupted() {
        true => format!("{}  ", style::styled(document.verdict.title(), style::of(document.verdict))),
        false => String::new(),
    };
    writeln!(out, "{verdict}{}", compare.sentence)?;
    for reason in document.reasons.iter().filter(|reason| **reason != compare.sentence) {
        writeln!(out, "{reason}")?;
    }
    writeln!(out)?;
    let method = document.plan.settings.get("method").map_or_else(String::new, |method| format!("{method} "));
    for side in &compare.sides {
        let command = side.command.as_ref().map_or_else(String::new, |command| format!("  ({command})"));
        writeln!(out, "  {}  {method}{}{command}", side.name, side.target)?;
    }
    writeln!(out)?;
    let [a, b] = compare.names();
    let ratio = format!("{b} / {a}");
    let mut table = Table::new(&[
        ("", Align::Left),
        (a, Align::Right),
        (b, Align::Right),
        (&ratio, Align::Right),
        ("95 % interval", Align::Left),
        ("would see", Align::Right),
    ]);
    compare.metrics.iter().for_each(|metric| table.push(row(metric)));
    table.write(out, 2, columns)?;
    if let Some(scale) = &compare.scale {
        writeln!(out)?;
        let mut table = Table::new(&[
            ("", Align::Left),
            (compare.metrics[0].metric.as_str(), Align::Right),
            ("speedup", Align::Right),
            ("95 % interval", Align::Left),
        ]);
        scale.levels.iter().for_each(|level| table.push(self::level(scale, level, &compare.metrics[0].unit)));
        table.write(out, 2, columns)?;
        if let Some(law) = &scale.universal {
            writeln!(
                out,
                "  Universal Scalability Law: contention {} %, coherency {} %",
                in_percent(law.contention, law.contention95),
                in_percent(law.coherency, law.coherency95)
            )?;
        }
    }
    let planning = &compare.planning;
    writeln!(out, "\n  {} pairs of rounds that count, {} repeated", planning.pairs, planning.repeated)?;
    for note in &compare.notes {
        writeln!(out, "  {note}")?;
    }
    Ok(())
}

fn row(metric: &MetricComparison) -> [String; 6] {
    let dash = || "-".to_owned();
    let [a, b] = [metric.a, metric.b].map(|value| value.map_or_else(dash, |value| quantity(value, &metric.unit)));
    let ratio = metric.effect.map_or_else(dash, |effect| format!("{effect:.4}"));
    let interval = metric.interval95.map_or_else(dash, |[low, high]| format!("{low:.4} to {high:.4}"));
    let smallest = metric.smallest_detectable.map_or_else(dash, display::percent);
    let primary = if metric.primary { "*" } else { "" };
    [format!("{}{primary}", metric.metric), a, b, ratio, interval, smallest]
}

fn level(scale: &ScaleResult, level: &ScaleLevel, unit: &str) -> [String; 4] {
    let name = format!("{} {}", level.n, scale.parameter);
    let value = level.value.map_or_else(|| "-".to_owned(), |value| quantity(value, unit));
    let speedup = level.speedup.map_or_else(|| "-".to_owned(), |speedup| format!("{speedup:.3}"));
    let interval = level.speedup95.map_or_else(String::new, |[low, high]| format!("{low:.3} to {high:.3}"));
    [name, value, speedup, interval]
}

fn in_percent(share: f64, interval: Option<[f64; 2]>) -> String {
    let interval = interval
        .map_or_else(String::new, |[low, high]| format!(" (95 % interval {:.2} to {:.2})", 100.0 * low, 100.0 * high));
    format!("{:.2}{interval}", 100.0 * share)
}

fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "us" => display::time((value * 1e3).round() as u64),
        "B/s" => display::link_rate((value * 8.0) as u64),
        _ => display::rate(value),
    }
}
