//! The table of all suites and servers: each server is started for each suite, measured by a client
//! process of its own, and ended.
//!
//! | module | owns |
//! | --- | --- |
//! | `folder` | the folder that keeps the cells, so that a table that was cut short goes on |
//! | `client` | the client process |
//! | `settings` | the suites, the servers, and how they are run |
//! | `watcher` | following a table |
//! | `key` | all that a cell depends on |
//! | `measure` | one cell |
//! | `run` | the cells one after the other |
//!
//! A cell is kept as soon as it is measured. Servers have no part in the client's process: one that
//! takes the client's memory or descriptors spoils its own cell alone.

mod client;
mod folder;
mod key;
mod measure;
mod run;
mod settings;
mod watcher;

pub use folder::{FolderError, TableFolder};
pub use run::{Table, TableError, run};
pub use settings::{TableServer, TableSettings, TableSuite};
pub use watcher::TableWatcher;
