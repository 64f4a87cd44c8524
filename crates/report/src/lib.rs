//! Results: the document that every command that measures leaves behind, and the report on it, one
//! HTML file for a team to read.
//!
//! The file is complete: no request leaves it, which its content security policy enforces whatever
//! its scripts do, so that it can be kept beside the result, mailed, and read on a machine without
//! a network. The same document gives the same bytes. The method defines the meaning of figures;
//! the page only shows the document's content.
//!
//! Deliberately not here: measuring, and the text and other tools' formats that the command prints.
//!
//! | module | owns |
//! | --- | --- |
//! | [`document`] | the result document, `thalweg.result/1` |
//! | [`cell`] | the result of one suite with one server |
//! | [`mod@reference`] | the source documents' own figures of suites |
//! | [`mod@file`] | files that are written whole or not at all |
//! | `sample` | documents for tests, here and in crates that depend on this one |
//! | `answer` | the answer in one sentence |
//! | `headline` | the trial that the answer rests on |
//! | `by_rate`, `course`, `spread`, `observed` | the charts: over the offered rate, over time, over the percentiles, of the target's host |
//! | `curve`, `several` | peak and shape of a target, and several targets in one figure |
//! | `chart` | the drawing of charts |
//! | `disk` | the page about a file system |
//! | `compare` | charts and the table of a comparison |
//! | `suite` | figures, curves and choices of a suite |
//! | `suite_table` | the suites of several servers |
//! | `lead` | which of several figures is the highest |
//! | `trials`, `sections` | tables and text |
//! | `words` | figures as the page writes them |

#![forbid(unsafe_code)]

mod answer;
mod by_rate;
pub mod cell;
mod chart;
mod compare;
mod course;
mod curve;
mod disk;
pub mod document;
pub mod file;
mod headline;
mod lead;
mod observed;
pub mod reference;
mod sections;
mod several;
mod spread;
mod suite;
mod suite_table;
mod trials;
mod words;

#[cfg(any(test, feature = "sample"))]
pub mod sample;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use thalweg_measure::Verdict;

use self::by_rate::ByRate;
use self::chart::Chart;
use self::curve::Curve;
use self::headline::headline_trial;
use crate::cell::Cell;
use crate::document::{Document, Kind, Trial};
use crate::file::write_whole;

/// The answer of `document` in one sentence.
pub fn sentence(document: &Document) -> String {
    answer::sentence(document)
}

/// The report on `document` as one HTML file.
pub fn html(document: &Document) -> String {
    whole(&answer::title(document), &document.version, &page(document))
}

/// A document with the label that it has in a report of several.
pub type Labelled<'a> = (Option<&'a str>, &'a Document);

/// The report on several documents side by side.
pub fn html_of_several(documents: &[Labelled<'_>]) -> String {
    let version = documents.first().map_or("", |(_, document)| &document.version);
    whole(&format!("{} runs – Thalweg", documents.len()), version, &several::page(documents))
}

/// The report on the suites of several servers; `absent` cells were to be measured and are not
/// there.
pub fn html_of_suites(cells: &[Cell], absent: usize) -> String {
    let version = cells.iter().find_map(|cell| cell.document.as_ref()).map_or("", |document| &document.version);
    whole(&format!("{} – Thalweg", suite_table::title(cells, absent)), version, &suite_table::page(cells, absent))
}

/// The figures of the suites of several servers as a table with tabs between fields: one line per
/// suite, server and figure.
pub fn tsv_of_suites(cells: &[Cell]) -> String {
    suite_table::rows(cells)
}

/// The report on a file system.
pub fn html_of_disk(document: &thalweg_disk::document::Document) -> String {
    whole(&disk::title(document), &document.version, &disk::page(document))
}

/// The main charts of documents as SVG files: a name and the content of each.
pub fn svg(documents: &[Labelled<'_>]) -> Vec<(String, String)> {
    let charts = match documents {
        [(_, document)] => charts(document),
        several => several::charts(&several::curves_of(several)),
    };
    charts.into_iter().map(|chart| (chart.id.clone(), chart.file())).collect()
}

/// The curves of several documents as a table with `separator` between fields: one line per target
/// and rate.
pub fn table_of_several(documents: &[Labelled<'_>], separator: char) -> String {
    several::rows(documents, separator)
}

fn charts(document: &Document) -> Vec<Chart> {
    let mut charts = Vec::new();
    match document.kind {
        Kind::Sweep => charts.extend(several::charts(&Curve::all_of(document))),
        Kind::Find => charts.extend(
            ByRate::of(document).into_iter().flat_map(|by_rate| [by_rate.throughput(), by_rate.response_time()]),
        ),
        Kind::Suite => charts.extend(document.suite.iter().flat_map(suite::charts)),
        Kind::Run | Kind::Compare | Kind::Replay => {}
    }
    if let Some(trial) = headline_trial(document) {
        charts.extend(course::chart(trial));
        charts.extend(spread::charts(trial));
    }
    charts
}

fn whole(title: &str, version: &str, content: &Markup) -> String {
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Thalweg " (version) };
                // A browser requests an icon if a served page names none.
                link rel="icon" href="data:,";
                title { (title) }
                style { (PreEscaped(chart::page_style())) (PreEscaped(STYLE)) }
            }
            body {
                main { (content) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// Writes the report to `path`, replacing what is there.
///
/// # Errors
/// Those of [`write_whole`].
pub fn write_html(document: &Document, path: &Path) -> io::Result<()> {
    write_whole(path, html(document).as_bytes())
}

/// The content security policy: the page runs its own scripts and styles, shows images made by
/// them, and fetches nothing.
const CONTENT_POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
                              img-src data: blob:; base-uri 'none'; form-action 'none'";

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

fn page(document: &Document) -> Markup {
    let notes = match (&document.compare, &document.find) {
        (Some(compare), None) => &compare.notes[..],
        (_, find) => find.as_ref().map_or(&[][..], |find| &find.notes),
    };
    markup! {
        header {
            p.kind { "Thalweg · " (match document.kind { Kind::Run => "run", Kind::Replay => "replay", Kind::Find => "capacity search", Kind::Sweep => "sweep", Kind::Compare => "comparison", Kind::Suite => "suite" }) }
            h1 { (words::unbroken(&answer::sentence(document))) }
            @if !document.reasons.is_empty() { div.why { (trials::sentences(&document.reasons)) } }
            (sections::facts(document))
            @if !notes.is_empty() { div.notice { (trials::sentences(notes)) } }
        }
        @if let (Kind::Find, Some(by_rate)) = (document.kind, ByRate::of(document)) {
            section {
                h2 { "Results by offered rate" }
                (by_rate.throughput().figure())
                (by_rate.response_time().figure())
            }
        }
        @if let Some(compare) = &document.compare { (compare::sections(compare)) }
        @if document.kind == Kind::Sweep { (swept(document)) }
        @if let Some(measured) = &document.suite { (suite::sections(measured, &document.plan.target)) }
        @if let Some(trial) = headline_trial(document) { (trial_in_full(document, trial)) }
        @if let Some(chart) = observed::chart(document) {
            section {
                h2 { "The server's host" }
                (chart.figure())
            }
        }
        @if let Some(find) = &document.find { (sections::limit(document, find)) }
        section {
            h2 { "Trials" }
            @if document.trials.is_empty() { p { "No trial was run." } } @else { (trials::table(document)) }
        }
        (sections::machine(&document.host, headline_trial(document)))
        (sections::repeat(document))
        (sections::glossary())
    }
}

/// The rates of a sweep, all targets in one figure.
fn swept(document: &Document) -> Markup {
    let curves = Curve::all_of(document);
    markup! {
        section {
            h2 { "Results by offered rate" }
            @for chart in several::charts(&curves) { (chart.figure()) }
            (several::table(&curves))
        }
    }
}

fn trial_in_full(document: &Document, trial: &Trial) -> Markup {
    let title = match (document.kind, trial.phase.as_str(), trial.verdict) {
        (Kind::Run | Kind::Replay, ..) => "The trial",
        (Kind::Find, "confirm", Verdict::Pass) => "The confirming trial",
        (Kind::Sweep, ..) => "The last trial that passed",
        (Kind::Compare, ..) => "The last round",
        (Kind::Find | Kind::Suite, ..) => "The most relevant trial",
    };
    markup! {
        section {
            h2 { (title) }
            p { (words::unbroken(&sections::shown_trial(document, trial))) }
            @match course::chart(trial) {
                Some(chart) => { (chart.figure()) }
                None => { p { "The intervals of this trial were not recorded." } }
            }
            div.pair { @for chart in spread::charts(trial) { (chart.figure()) } }
            (spread::table(trial))
            (sections::both_ends(trial))
        }
    }
}
