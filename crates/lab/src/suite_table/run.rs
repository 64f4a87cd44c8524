//! The cells one after the other.
//!
//! The servers of a suite are measured next to each other in time, so that what changes on the host
//! falls on all of them alike. Each is started anew for each suite: a server that one suite has
//! left in a bad state does not spoil the next.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::cell::{Cell, CellState};
use super::client::{self, ClientEnd};
use super::folder::TableFolder;
use crate::document::SuiteName;
use crate::servers::{RunningServer, ServerSetting, ServerSpec, StartError};

/// The suites, the servers, and how they are run.
#[derive(Debug)]
pub struct TableSettings {
    /// The suites in the order of the table.
    pub suites: Vec<TableSuite>,
    /// The servers in the order of the table.
    pub servers: Vec<ServerSpec>,
    /// The setting that servers are started with.
    pub setting: ServerSetting,
    /// CPUs of the client processes.
    pub client_cpus: Vec<usize>,
}

/// A suite of a table.
#[derive(Debug, Clone)]
pub struct TableSuite {
    /// The suite.
    pub name: SuiteName,
    /// The folder of its tree, beneath the root of the servers.
    pub tree: String,
    /// Further arguments of `thalweg suite NAME URL`.
    pub arguments: Vec<OsString>,
}

/// Follows a table.
pub trait TableWatcher {
    /// A cell begins: its place from 1, and how many there are.
    fn on_cell(&mut self, suite: SuiteName, server: &str, number: usize, count: usize);
    /// A cell goes on.
    fn on_wait(&mut self);
    /// A cell has ended, or was there already.
    fn on_end(&mut self, cell: &Cell, was_there: bool);
    /// Whether the user wants to end.
    fn wants_stop(&self) -> bool;
}

/// The reason why a table could not go on. The cells before it are kept.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A cell cannot be kept.
    #[error(
        "cannot keep {suite} with {server} in {}: {source}; the cells before it are there: make room and go on with \
         --resume", folder.display()
    )]
    Keep {
        /// The suite.
        suite: SuiteName,
        /// The server.
        server: String,
        /// The folder.
        folder: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

/// Measures all cells that the folder does not have yet. Ends early, with the cells so far, when
/// the user wants it.
///
/// # Errors
/// See [`TableError`]. A server that fails, fails its cells alone.
pub fn run(
    settings: &TableSettings,
    folder: &TableFolder,
    watcher: &mut dyn TableWatcher,
) -> Result<Vec<Cell>, TableError> {
    let mut cells = Vec::new();
    let count = settings.suites.len() * settings.servers.len();
    let pairs = settings.suites.iter().flat_map(|suite| settings.servers.iter().map(move |server| (suite, server)));
    for (number, (suite, server)) in pairs.enumerate() {
        if server.suites.as_ref().is_some_and(|suites| !suites.iter().any(|name| name == suite.name.name())) {
            continue;
        }
        let key = key(settings, suite, server);
        let kept = folder.cell(suite.name, &server.name);
        if let Some(cell) = kept.filter(|cell| cell.key == key && cell.state == CellState::Complete) {
            watcher.on_end(&cell, true);
            cells.push(cell);
            continue;
        }
        if watcher.wants_stop() {
            continue;
        }
        watcher.on_cell(suite.name, &server.name, number + 1, count);
        let cell = measure(settings, suite, server, key, watcher);
        let kept = folder.keep(&cell);
        watcher.on_end(&cell, false);
        cells.push(cell);
        kept.map_err(|source| TableError::Keep {
            suite: suite.name,
            server: server.name.clone(),
            folder: folder.path().to_owned(),
            source,
        })?;
    }
    Ok(cells)
}

/// SHA-256 of all that a cell depends on and that a user can change between two runs.
fn key(settings: &TableSettings, suite: &TableSuite, server: &ServerSpec) -> String {
    let templates: Vec<String> = server
        .templates
        .iter()
        .map(|template| std::fs::read_to_string(settings.setting.here.join(template)).unwrap_or_default())
        .collect();
    let parts = format!(
        "{:?} {:?} {server:?} {templates:?} {:?} {:?}",
        suite.name, suite.arguments, settings.setting.cpus, settings.client_cpus
    );
    Sha256::digest(parts).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn measure(
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
        document: None,
    };
    match RunningServer::start(server, &settings.setting, &|| watcher.wants_stop()) {
        Err(error) => {
            cell.state = match error {
                StartError::Interrupted => CellState::Interrupted,
                _ => CellState::Failed,
            };
            cell.reasons.push(error.to_string());
        }
        Ok(running) => {
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
    if let (SuiteName::Specweb99, Some(path), Some(_)) = (suite.name, &server.dynamic, settings.setting.origin) {
        arguments.extend(["--dynamic".into(), path.into()]);
    }
    arguments
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
        Some(measured) if server_end.is_none() && measured.has_values() => CellState::Complete,
        _ => CellState::Failed,
    };
    cell.reasons = measured.map_or(messages, |measured| measured.reasons.clone());
    cell.reasons.extend(server_end);
    if cell.reasons.is_empty() && cell.state == CellState::Failed {
        cell.reasons.push("the client process has ended without a result".to_owned());
    }
}
