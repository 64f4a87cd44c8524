//! The progress of a table: a line for each cell that has ended, and one that follows the running
//! cell.

use std::time::Instant;

use thalweg_lab::suite_table::TableWatcher;
use thalweg_report::cell::Cell;
use thalweg_report::document::SuiteName;

use crate::exit::remark;
use crate::interrupt::Interrupt;
use crate::terminal;

#[derive(Debug)]
pub(super) struct TableLine {
    interrupt: Interrupt,
    begun: Instant,
    cell: String,
}

impl TableLine {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self { interrupt, begun: Instant::now(), cell: String::new() }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        terminal::clear();
    }
}

impl TableWatcher for TableLine {
    fn on_cell(&mut self, suite: SuiteName, server: &str, number: usize, count: usize) {
        self.cell = format!("{suite} with {server}, {number} of {count}");
        self.begun = Instant::now();
        self.on_wait();
    }

    fn on_wait(&mut self) {
        terminal::show_line(&format!("{}: {} s", self.cell, self.begun.elapsed().as_secs()));
    }

    fn on_end(&mut self, cell: &Cell, was_there: bool) {
        let (suite, server) = (cell.suite, &cell.server);
        let how = if was_there { "measured before".to_owned() } else { format!("{:.0} s", cell.seconds) };
        let line = format!("{suite} with {server} ({how}): {}", cell.sentence());
        // A table takes hours: its log says how far it is, on a terminal or not.
        remark(&line);
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.is_wanted()
    }
}
