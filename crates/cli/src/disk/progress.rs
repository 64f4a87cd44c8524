//! The progress line of `thalweg disk` on a terminal.

use thalweg_disk::Watcher;

use crate::interrupt::Interrupt;
use crate::terminal;

/// A line that follows the running pass. Nothing is drawn if stderr is no terminal.
#[derive(Debug)]
pub(super) struct Line {
    interrupt: Interrupt,
    pass: String,
}

impl Line {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        Self { interrupt, pass: String::new() }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        terminal::clear();
    }
}

impl Watcher for Line {
    fn on_pass(&mut self, pass: &str) {
        self.pass = pass.to_owned();
    }

    fn on_progress(&mut self, done: u64, of: u64) {
        let percent = done as f64 / of.max(1) as f64 * 100.0;
        terminal::show_line(&format!("{}: {percent:.0} %", self.pass));
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.is_wanted()
    }
}
