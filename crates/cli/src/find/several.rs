//! Several targets: one search after the other, each stored on its own, and one report about all.

use std::process::ExitCode;

use thalweg_measure::Verdict;
use thalweg_report::document::{Document, Find};
use thalweg_report::file::write_whole;
use thalweg_report::{self as report, Labelled};
use thalweg_units::display;

use super::one::{Prepared, search};
use crate::exit::{Exit, Failure, remark};
use crate::interrupt::Interrupt;
use crate::options::{FindOptions, Format, OnInterruptOption, ProgressForm, StoreOptions};
use crate::progress::result_line;
use crate::table::{Align, Table};
use crate::terminal;
use crate::{format, output, pipelines, stored_run};

/// Searches the targets. One that fails does not keep the others from being measured.
pub(super) fn find(options: &FindOptions, targets: Vec<Prepared>, interrupt: &Interrupt) -> Result<ExitCode, Failure> {
    let form = form(options)?;
    let is_stream = options.output.progress.form() == ProgressForm::Json;
    let count = targets.len();
    let mut found: Vec<(Option<String>, Document)> = Vec::new();
    let mut failure = None;
    for (number, target) in (1..).zip(targets) {
        if interrupt.is_wanted() {
            break;
        }
        let (name, shown) = (target.name.clone(), target.target.shown.clone());
        let title = name.as_ref().map_or_else(|| shown.clone(), |name| format!("{name} ({shown})"));
        remark(&format!("{number} of {count}: {title}"));
        let label = name.clone().or_else(|| options.output.store.label.clone());
        let store = StoreOptions { label, ..options.output.store.clone() };
        match search(options, target, interrupt, &store) {
            Ok(document) => {
                stored_run::store(&document, &store);
                if form == Format::Text {
                    let text = output::in_form((None, &document), Format::Text, terminal::columns_of_stdout())?;
                    output::print_text(&format!("{title}\n{text}\n"))?;
                }
                if is_stream {
                    output::print(&result_line(&document))?;
                }
                found.push((name, document));
            }
            Err(error) => {
                remark(&format!("{title}: {}", error.line()));
                failure = Some(error);
            }
        }
    }
    let labelled: Vec<Labelled<'_>> = found.iter().map(|(name, document)| (name.as_deref(), document)).collect();
    if labelled.is_empty() {
        return Err(failure.unwrap_or_else(|| Failure::invalid("interrupted before the first search")));
    }
    let left = count - labelled.len();
    let cut_short = interrupt.is_wanted() && left > 0 && options.output.on_interrupt == OnInterruptOption::Invalid;
    if cut_short {
        remark(&format!("INVALID: interrupted; {left} of {count} targets were not measured"));
    }
    let documents: Vec<&Document> = found.iter().map(|(_, document)| document).collect();
    output::print_text(&match form {
        // Each was printed when it was found.
        Format::Json if is_stream => String::new(),
        Format::Json => serde_json::to_string_pretty(&documents).map_err(Failure::unreachable)? + "\n",
        Format::Tsv => report::table_of_several(&labelled, '\t'),
        Format::Csv => report::table_of_several(&labelled, ','),
        Format::Github => format::github(&labelled),
        Format::Prometheus => format::prometheus(&labelled),
        _ => summary(&labelled),
    })?;
    pipelines::write_junit(&labelled, &options.output)?;
    pipelines::summarize(&labelled, form);
    if let Some(path) = &options.output.out {
        write_whole(path, report::html_of_several(&labelled).as_bytes())
            .map_err(|error| Failure::unreachable(format!("cannot write the report {}: {error}", path.display())))?;
        if form == Format::Text {
            output::print(&format!("\nreport: {}\n", path.display()))?;
        }
    }
    Ok(exit(&documents, failure.is_some(), cut_short).into())
}

/// The form of the output; what makes no sense for several targets is refused before the first one.
pub(super) fn form(options: &FindOptions) -> Result<Format, Failure> {
    let refuse =
        |option: &str| Err(Failure::usage(format!("{option} takes one URL; {} are given", options.targets.len())));
    let form = options.output.form();
    match form {
        _ if options.restarts.is_some() => refuse("--restarts"),
        _ if options.load.unix_socket.is_some() => refuse("--unix-socket"),
        _ if options.output.hdr.is_some() => refuse("--hdr"),
        Format::Httperf => refuse("--format httperf"),
        Format::Ab => refuse("--format ab"),
        Format::H2load => refuse("--format h2load"),
        form => Ok(form),
    }
}

/// A line for each target: capacity, shape and bottleneck.
fn summary(found: &[Labelled<'_>]) -> String {
    let mut table = Table::new(&[
        ("target", Align::Left),
        ("capacity", Align::Right),
        ("95 % interval", Align::Right),
        ("beyond it", Align::Left),
        ("bottleneck", Align::Left),
    ]);
    for (name, document) in found {
        if let Some(find) = &document.find {
            table.push(row(name.unwrap_or(&document.plan.target), find));
        }
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = table.write(&mut text, 0, terminal::columns_of_stdout());
    text
}

fn row(name: &str, find: &Find) -> [String; 5] {
    let none = || "-".to_owned();
    let rate = find.threshold.map(display::rate);
    let at_least = || find.lower_bound.map(|bound| format!(">= {}", display::rate(bound)));
    let interval = find.interval95.map(|[low, high]| {
        format!("{} to {}", display::rate(low).trim_end_matches("/s"), display::rate(high).trim_end_matches("/s"))
    });
    [
        name.to_owned(),
        rate.or_else(at_least).unwrap_or_else(none),
        interval.unwrap_or_else(none),
        find.overload.as_ref().map_or_else(none, |overload| overload.shape.name().to_owned()),
        find.bottleneck(),
    ]
}

/// The exit code of the worst result.
fn exit(documents: &[&Document], failed: bool, cut_short: bool) -> Exit {
    let has = |verdict: Verdict| documents.iter().any(|document| document.verdict == verdict);
    match () {
        () if failed => Exit::Unreachable,
        () if cut_short || has(Verdict::Invalid) => Exit::Invalid,
        () if has(Verdict::Fail) => Exit::NotMet,
        () => Exit::Met,
    }
}
