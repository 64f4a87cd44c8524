//! The report: one HTML file about one result, for a team to read.
//!
//! The file is complete: no request leaves it, which its content security policy enforces whatever
//! its scripts do, so that it can be kept beside the result, mailed, and read on a machine without
//! a network. The same document gives the same bytes. The method defines the meaning of figures;
//! the page only shows the document's content.
//!
//! | module | owns |
//! | --- | --- |
//! | `answer` | the answer in one sentence |
//! | `headline` | the trial that the answer rests on |
//! | `by_rate`, `course`, `spread` | the charts: over the offered rate, over time, over the percentiles |
//! | `chart` | the drawing of charts |
//! | `compare` | charts and the table of a comparison |
//! | `trials`, `sections` | tables and text |
//! | `words` | figures as the page writes them |

mod answer;
mod by_rate;
mod chart;
mod compare;
mod course;
mod headline;
mod sections;
mod spread;
mod trials;
mod words;

#[cfg(test)]
pub(crate) mod sample;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html as markup};

use thalweg_measure::Verdict;

use self::headline::headline_trial;
use crate::document::{Document, Kind, Trial};
use crate::file::write_whole;

/// The report on `document` as one HTML file.
pub fn html(document: &Document) -> String {
    markup! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(CONTENT_POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "Thalweg " (document.version) };
                // A browser requests an icon if a served page names none.
                link rel="icon" href="data:,";
                title { (answer::title(document)) }
                style { (PreEscaped(chart::page_style())) (PreEscaped(STYLE)) }
            }
            body {
                main { (page(document)) }
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
            p.kind { "Thalweg · " (match document.kind { Kind::Run => "run", Kind::Replay => "replay", Kind::Find => "capacity search", Kind::Compare => "comparison" }) }
            h1 { (words::unbroken(&answer::sentence(document))) }
            @if !document.reasons.is_empty() { div.why { (trials::sentences(&document.reasons)) } }
            (sections::facts(document))
            @if !notes.is_empty() { div.notice { (trials::sentences(notes)) } }
        }
        @if let (Kind::Find, Some(by_rate)) = (document.kind, by_rate::ByRate::of(document)) {
            section {
                h2 { "Results by offered rate" }
                (by_rate.throughput().figure())
                (by_rate.response_time().figure())
            }
        }
        @if let Some(compare) = &document.compare { (compare::sections(compare)) }
        @if let Some(trial) = headline_trial(document) { (trial_in_full(document, trial)) }
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

fn trial_in_full(document: &Document, trial: &Trial) -> Markup {
    let title = match (document.kind, trial.phase.as_str(), trial.verdict) {
        (Kind::Run | Kind::Replay, ..) => "The trial",
        (Kind::Find, "confirm", Verdict::Pass) => "The confirming trial",
        (Kind::Compare, ..) => "The last round",
        (Kind::Find, ..) => "The most relevant trial",
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
