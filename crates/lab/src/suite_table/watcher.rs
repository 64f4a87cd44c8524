//! Following a table.

use thalweg_report::cell::Cell;
use thalweg_report::document::SuiteName;

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
