//! One cell: a server is started, measured by a client process, and ended.

use std::ffi::OsString;
use std::io;
use std::time::Instant;

use thalweg_report::cell::{Cell, CellState, ServerFacts};
use thalweg_report::document::SuiteName;
use thalweg_units::display;

use super::client::{self, ClientEnd};
use super::settings::{TableSettings, TableSuite};
use super::watcher::TableWatcher;
use crate::servers::{RunningServer, ServerSpec, StartError};

/// Starts the server, measures it and ends it.
pub(super) fn measure(
    settings: &TableSettings,
    suite: &TableSuite,
    server: &ServerSpec,
    key: String,
    watcher: &mut dyn TableWatcher,
) -> Cell {
    let begun = Instant::now();
    let mut cell = Cell {
        suite: suite.name,
        server: server.name.clone(),
        key,
        state: CellState::Failed,
        reasons: Vec::new(),
        started: jiff::Timestamp::now().to_string(),
        seconds: 0.0,
        server_facts: None,
        client_cpus: settings.client_cpus.clone(),
        choices: Vec::new(),
        document: None,
    };
    match RunningServer::start(server, &settings.setting(suite), &|| watcher.wants_stop()) {
        Err(error) => {
            cell.state = match error {
                StartError::Interrupted => CellState::Interrupted,
                _ => CellState::Failed,
            };
            cell.reasons.push(error.to_string());
        }
        Ok(running) => {
            cell.choices = choices(settings, suite, &running.facts);
            cell.server_facts = Some(running.facts.clone());
            let arguments = arguments(settings, suite, server, &running);
            let mut wants_stop = || {
                watcher.on_wait();
                watcher.wants_stop()
            };
            let ended = client::run(&settings.setting.program, &arguments, &settings.client_cpus, &mut wants_stop);
            conclude(&mut cell, ended, running.end_in_words(), watcher.wants_stop());
        }
    }
    cell.seconds = begun.elapsed().as_secs_f64();
    cell
}

fn arguments(
    settings: &TableSettings,
    suite: &TableSuite,
    server: &ServerSpec,
    running: &RunningServer,
) -> Vec<OsString> {
    let url = format!("{}{}/", running.url, suite.tree);
    let cores: Vec<String> = settings.client_cpus.iter().map(ToString::to_string).collect();
    let mut arguments: Vec<OsString> = ["suite", suite.name.name(), &url, "--json", "--store", "none", "--cores"]
        .iter()
        .map(OsString::from)
        .chain([cores.join(",").into()])
        .chain(suite.arguments.iter().cloned())
        .collect();
    if let Some(path) = settings.dynamic(suite.name, server) {
        arguments.extend(["--dynamic".into(), path.into()]);
    }
    arguments
}

/// The table's own choices for a suite, which decide what its figures mean.
fn choices(settings: &TableSettings, suite: &TableSuite, facts: &ServerFacts) -> Vec<String> {
    let mut choices = Vec::new();
    if matches!(suite.name, SuiteName::AcmeModem | SuiteName::Heanet | SuiteName::Specweb99) {
        choices.push(format!(
            "each process may open {} descriptors; a server whose configuration names a bound on connections has {}, \
             unless its configuration below says otherwise",
            display::count(facts.descriptors),
            display::count(facts.connections)
        ));
    }
    let without = settings.without_dynamic(suite.name);
    if suite.name == SuiteName::Specweb99 && !without.is_empty() {
        choices.push(format!(
            "no server gets dynamic requests, since these forward none and all have the same load: {}",
            without.join(", ")
        ));
    }
    choices
}

/// Judges the cell by the ends of client and server.
fn conclude(cell: &mut Cell, client: io::Result<ClientEnd>, server_end: Option<String>, interrupted: bool) {
    let messages = match client {
        Ok(end) => {
            cell.document = end.document;
            end.messages
        }
        Err(error) => vec![format!("the client process could not be run: {error}")],
    };
    let measured = cell.document.as_ref().and_then(|document| document.suite.as_ref());
    cell.state = match measured {
        _ if interrupted || measured.is_some_and(|measured| measured.interrupted) => CellState::Interrupted,
        Some(measured) if server_end.is_none() && measured.has_values() => match cell.missing().is_empty() {
            true => CellState::Complete,
            false => CellState::Partial,
        },
        _ => CellState::Failed,
    };
    cell.reasons = measured.map_or(messages, |measured| measured.reasons.clone());
    cell.reasons.extend(server_end);
    if cell.reasons.is_empty() && cell.state == CellState::Failed {
        cell.reasons.push("the client process has ended without a result".to_owned());
    }
}
