//! The cells one after the other.
//!
//! The servers of a suite are measured next to each other in time, so that what changes on the host
//! falls on all of them alike. Each is started anew for each suite: a server that one suite has
//! left in a bad state does not spoil the next.

use std::io;
use std::path::PathBuf;

use thalweg_report::cell::{Cell, CellState};
use thalweg_report::document::SuiteName;

use super::folder::TableFolder;
use super::key::key;
use super::measure::measure;
use super::settings::{TableServer, TableSettings, TableSuite};
use super::watcher::TableWatcher;
use crate::servers;

/// The cells of a table, measured now and before.
#[derive(Debug, Default)]
pub struct Table {
    /// The cells, those of a suite next to each other.
    pub cells: Vec<Cell>,
    /// How many pairs of a suite and a server were to be measured and have no cell.
    pub absent: usize,
    /// Whether the user has ended it before all was measured.
    pub is_interrupted: bool,
    /// Why it could not go on; the cells so far are there.
    pub error: Option<TableError>,
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

/// A suite and a server that takes part in it.
struct Pair<'a> {
    suite: &'a TableSuite,
    server: &'a TableServer,
    key: String,
}

impl Pair<'_> {
    fn is_chosen(&self) -> bool {
        self.suite.is_chosen && self.server.is_chosen
    }
}

/// Measures all chosen cells that the folder does not have yet; the table has the folder's others,
/// too, unless something that they depend on has changed. Ends early when the user wants it, or
/// when a cell cannot be kept. A server that fails, fails its cells alone.
pub fn run(settings: &TableSettings, folder: &TableFolder, watcher: &mut dyn TableWatcher) -> Table {
    let pairs = pairs(settings);
    let count = pairs.iter().filter(|pair| pair.is_chosen()).count();
    let mut table = Table::default();
    let mut number = 0;
    for pair in &pairs {
        let kept = folder.cell(pair.suite.name, &pair.server.spec.name).filter(|cell| cell.key == pair.key);
        if !pair.is_chosen() {
            table.cells.extend(kept);
            continue;
        }
        number += 1;
        if let Some(cell) = kept.as_ref().filter(|cell| cell.state == CellState::Complete) {
            watcher.on_end(cell, true);
            table.cells.extend(kept);
        } else if table.error.is_some() || watcher.wants_stop() {
            table.is_interrupted |= table.error.is_none();
            table.absent += usize::from(kept.is_none());
            table.cells.extend(kept);
        } else {
            watcher.on_cell(pair.suite.name, &pair.server.spec.name, number, count);
            let cell = measure(settings, pair.suite, &pair.server.spec, pair.key.clone(), watcher);
            watcher.on_end(&cell, false);
            table.add(cell, kept, folder);
        }
    }
    table
}

impl Table {
    /// Adds a cell that was measured, or the one that was there if that is worth more.
    fn add(&mut self, cell: Cell, kept: Option<Cell>, folder: &TableFolder) {
        self.is_interrupted |= cell.state == CellState::Interrupted;
        if let Some(kept) = kept.filter(|kept| kept.worth() > cell.worth()) {
            self.cells.push(kept);
            return;
        }
        if let Err(source) = folder.keep(&cell) {
            let (suite, server) = (cell.suite, cell.server.clone());
            self.error = Some(TableError::Keep { suite, server, folder: folder.path().to_owned(), source });
        }
        self.cells.push(cell);
    }
}

fn pairs(settings: &TableSettings) -> Vec<Pair<'_>> {
    let of_server = |server: &TableServer| servers::version(&server.spec, &settings.setting);
    let versions: Vec<Option<String>> = settings.servers.iter().map(of_server).collect();
    let mut pairs = Vec::new();
    for suite in &settings.suites {
        for (server, version) in settings.servers.iter().zip(&versions) {
            if server.spec.takes_part(suite.name) {
                pairs.push(Pair { suite, server, key: key(settings, suite, &server.spec, version.as_deref()) });
            }
        }
    }
    pairs
}
