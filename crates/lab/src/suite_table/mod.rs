//! The table of all suites and servers: each server is started for each suite, measured by a client
//! process of its own, and ended.
//!
//! | module | owns |
//! | --- | --- |
//! | `cell` | the result of one suite with one server |
//! | `folder` | the folder that keeps the cells, so that a table that was cut short goes on |
//! | `client` | the client process |
//! | `run` | the cells one after the other |
//!
//! A cell is kept as soon as it is measured. Servers have no part in the client's process: one that
//! takes the client's memory or descriptors spoils its own cell alone.

mod cell;
mod client;
mod folder;
mod run;

pub use cell::{Cell, CellState};
pub use folder::{FolderError, TableFolder};
pub use run::{TableError, TableSettings, TableSuite, TableWatcher, run};
