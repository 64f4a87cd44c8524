//! The progress line of `thalweg disk` on a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use thalweg_disk::Watcher;

use crate::interrupt::Interrupt;

/// A line that follows the running pass. Nothing is drawn if stderr is no terminal.
#[derive(Debug)]
pub(super) struct Line {
    bar: ProgressBar,
    interrupt: Interrupt,
    pass: String,
}

impl Line {
    pub(super) fn new(interrupt: Interrupt) -> Self {
        let bar = ProgressBar::new_spinner();
        bar.set_style(ProgressStyle::with_template("{spinner} {wide_msg}").expect("a valid template"));
        Self { bar, interrupt, pass: String::new() }
    }

    /// Removes the line.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

impl Watcher for Line {
    fn on_pass(&mut self, pass: &str) {
        self.pass = pass.to_owned();
    }

    fn on_progress(&mut self, done: u64, of: u64) {
        let percent = done as f64 / of.max(1) as f64 * 100.0;
        self.bar.set_message(format!("{}: {percent:.0} %", self.pass));
        self.bar.tick();
    }

    fn wants_stop(&self) -> bool {
        self.interrupt.is_wanted()
    }
}
