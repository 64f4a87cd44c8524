//! Results in the forms that other tools print and read: httperf's, ApacheBench's, h2load's, a
//! table, a log of histograms, and those of pipelines: JUnit's XML, GitHub's annotations,
//! Prometheus' metrics.
//!
//! Each is made of the result document alone, so that a stored result can be printed in any of
//! them. `docs/formats.md` says which figure stands for which of the other tool's, and where the
//! two differ. The text for people is in `text`.

mod ab;
mod autobench;
mod cases;
#[cfg(test)]
pub(crate) mod fixture;
mod github;
mod h2load;
mod hdr;
mod httperf;
mod junit;
mod prometheus;
mod quantities;
mod samples;
mod tsv;

pub(crate) use ab::ab;
pub(crate) use github::{github, github_failure, github_summary};
pub(crate) use h2load::h2load;
pub(crate) use hdr::hdr_log;
pub(crate) use httperf::httperf;
pub(crate) use junit::{junit, junit_of_failure};
pub(crate) use prometheus::prometheus;

use thalweg_report::document::Document;

/// The table with tabs between fields: one line per trial, or autobench's of a sweep.
pub(crate) fn tsv(document: &Document) -> String {
    table(document, '\t')
}

/// The same with commas.
pub(crate) fn csv(document: &Document) -> String {
    table(document, ',')
}

fn table(document: &Document, separator: char) -> String {
    match &document.sweep {
        Some(sweep) => autobench::table(document, sweep, separator),
        None => tsv::table(document, separator),
    }
}
