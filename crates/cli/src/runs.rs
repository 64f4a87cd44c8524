//! `thalweg runs`: the stored runs.

use std::process::ExitCode;

use serde_json::{Value, json};
use thalweg_measure::Verdict;
use thalweg_store::{Filter, RunRecord, Store, StoreError};
use thalweg_units::display;

use crate::exit::{Exit, Failure};
use crate::options::{RunsOptions, StorePlace};
use crate::output;
use crate::page;
use crate::stored_run::store_path;
use crate::style;
use crate::table::{Align, Table};
use crate::terminal;

/// Runs the command.
///
/// # Errors
/// The store cannot be read or written, or has no run of a given name.
pub(crate) fn runs(options: &RunsOptions) -> Result<ExitCode, Failure> {
    if !options.delete.is_empty() || options.prune.is_some() {
        return delete(options);
    }
    let kind = options.kind.and_then(|kind| clap::ValueEnum::to_possible_value(&kind));
    let filter = Filter {
        kind: kind.map(|kind| kind.get_name().to_owned()),
        label: options.label.clone(),
        limit: options.limit,
    };
    let runs = match open(&options.place)? {
        Some(store) => store.list(&filter).map_err(Failure::usage)?,
        None => Vec::new(),
    };
    if options.json {
        let runs: Vec<Value> = runs.iter().map(entry).collect();
        output::print(&(serde_json::to_string_pretty(&runs).map_err(Failure::unreachable)? + "\n"))?;
    } else if runs.is_empty() {
        output::print("no runs are stored\n")?;
    } else {
        let columns = terminal::columns_of_stdout();
        output::print_text(&page::fitted(&table(&runs, columns), columns))?;
    }
    Ok(Exit::Met.into())
}

/// Opens the store for reading; `None` if nothing was ever stored.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn open(place: &StorePlace) -> Result<Option<Store>, Failure> {
    let path = store_path(place).map_err(Failure::usage)?;
    let path = path.ok_or_else(|| Failure::usage("--store none has no runs; name the store's file"))?;
    Store::open_to_read(&path).map_err(Failure::usage)
}

fn delete(options: &RunsOptions) -> Result<ExitCode, Failure> {
    if open(&options.place)?.is_none() {
        return Err(Failure::usage("no runs are stored, so there is none to delete"));
    }
    let path = store_path(&options.place).map_err(Failure::usage)?.expect("an open store has a path");
    let removed = || -> Result<usize, StoreError> {
        let store = Store::open(&path)?;
        let mut removed = 0;
        if let Some(age) = options.prune {
            let before =
                jiff::Timestamp::now() - jiff::SignedDuration::try_from(age).unwrap_or(jiff::SignedDuration::MAX);
            removed += store.delete_before(&format!("{before:.3}"))?;
        }
        // All names are looked up first: `last` means the same for each of them.
        let runs: Vec<RunRecord> = options.delete.iter().map(|name| store.find(name)).collect::<Result<_, _>>()?;
        for run in &runs {
            store.delete(&run.id)?;
        }
        store.compact()?;
        Ok(removed + runs.len())
    };
    let removed = removed().map_err(Failure::usage)?;
    output::print(&format!("{removed} run{} deleted\n", if removed == 1 { "" } else { "s" }))?;
    Ok(Exit::Met.into())
}

fn entry(run: &RunRecord) -> Value {
    json!({
        "id": run.id, "kind": run.kind, "started": run.started, "target": run.target, "label": run.label, "note": run.note,
        "state": run.state.name(), "verdict": run.verdict, "capacity": run.capacity, "answer": run.answer, "bytes": run.bytes,
    })
}

fn table(runs: &[RunRecord], columns: Option<usize>) -> String {
    let capacity = |run: &RunRecord| run.capacity.map_or_else(|| "-".to_owned(), display::rate);
    // To the second: milliseconds are in the id.
    let started = |run: &RunRecord| run.started.get(..19).unwrap_or(&run.started).replace('T', " ");
    let names = ["ID", "STARTED (UTC)", "KIND", "STATE", "VERDICT", "CAPACITY", "LABEL", "TARGET"];
    let mut table = Table::new(&names.map(|name| (name, Align::Left)));
    for run in runs {
        let verdict = run.verdict.as_deref().map_or_else(|| "-".to_owned(), styled_verdict);
        let label = run.label.clone().unwrap_or_else(|| "-".to_owned());
        let state = run.state.name().to_owned();
        table.push([
            run.id.clone(),
            started(run),
            run.kind.clone(),
            state,
            verdict,
            capacity(run),
            label,
            run.target.clone(),
        ]);
    }
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = table.write(&mut text, 0, columns);
    text
}

/// A verdict's name in the verdict's style.
fn styled_verdict(name: &str) -> String {
    let known = Verdict::ALL.into_iter().find(|verdict| verdict.name() == name);
    known.map_or_else(|| name.to_owned(), |verdict| style::styled(name, style::of(verdict)))
}
