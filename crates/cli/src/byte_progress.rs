//! The progress of work on files, in bytes, as a line on the terminal.

use std::time::{Duration, Instant};

use thalweg_units::display;

use crate::terminal;

/// A line that follows the work. Nothing is drawn if stderr is no terminal.
#[derive(Debug)]
pub(crate) struct ByteProgress {
    what: String,
    total: u64,
    begun: Instant,
}

impl ByteProgress {
    /// The work on so many bytes, which is called `what`.
    pub(crate) fn begin(what: impl Into<String>, total: u64) -> Self {
        Self { what: what.into(), total, begun: Instant::now() }
    }

    /// Shows that so many bytes are done.
    pub(crate) fn show(&self, done: u64) {
        terminal::show_line_at_times(|| line(&self.what, done, self.total, self.begun.elapsed()));
    }
}

impl Drop for ByteProgress {
    fn drop(&mut self) {
        terminal::clear();
    }
}

fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let per_second = done as f64 / elapsed.as_secs_f64().max(1e-9);
    let left = total.saturating_sub(done) as f64 / per_second;
    let left = if left.is_finite() { format!(", {left:.0} s left") } else { String::new() };
    let [done, total, speed] = [done, total, per_second as u64].map(display::bytes);
    format!("{what} {done} of {total}, {speed}/s{left}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_is_left() {
        let after = Duration::from_secs(2);
        assert_eq!(line("writing", 2_000_000, 5_000_000, after), "writing 2.00 MB of 5.00 MB, 1.00 MB/s, 3 s left");
        assert_eq!(line("writing", 0, 5_000_000, after), "writing 0 B of 5.00 MB, 0 B/s");
    }
}
