//! The summary of a conversion, as text or JSON, and lines of no log.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde::Serialize;
use thalweg_sessions::{Detected, LogFault, Summary};
use thalweg_units::display;

use crate::exit::{Failure, remark};
use crate::options::SessionsOptions;

/// Lines of no log that are shown.
const SHOWN_MAX: usize = 5;

/// Sessions of a file that httperf 0.9 reads.
const HTTPERF_SESSIONS_MAX: u64 = 1000;

/// Calls of a file that `run --session` reads.
const ENTRIES_MAX: u64 = thalweg_load::ENTRIES_MAX as u64;

/// The first lines of no log.
#[derive(Debug)]
pub(super) struct BadLines<'a> {
    options: &'a SessionsOptions,
    /// The number of the line that was read last.
    pub line: u64,
    shown: Vec<String>,
    /// The log's format.
    format: String,
    /// The detection, if it was not given.
    detected: Option<Detected>,
}

impl<'a> BadLines<'a> {
    /// None so far.
    pub(super) fn new(options: &'a SessionsOptions, format: String, detected: Option<Detected>) -> Self {
        Self { options, line: 0, shown: Vec::new(), format, detected }
    }

    /// Adds the line that was read last.
    ///
    /// # Errors
    /// No such line is permitted.
    pub(super) fn add(&mut self, line: &[u8], fault: &LogFault) -> Result<(), Failure> {
        // Characters, counted by the bytes that begin one.
        let column = 1 + line[..fault.at.min(line.len())].iter().filter(|&&byte| byte & 0xc0 != 0x80).count();
        self.add_fault(column, &fault.to_string())
    }

    /// Adds a line that was too long to be read.
    ///
    /// # Errors
    /// As for [`add`](Self::add).
    pub(super) fn add_long(&mut self) -> Result<(), Failure> {
        self.add_fault(1, "it is longer than 1 MiB")
    }

    /// The first of them, each with its place.
    pub(super) fn shown(&self) -> &[String] {
        &self.shown
    }

    fn add_fault(&mut self, column: usize, fault: &str) -> Result<(), Failure> {
        if self.shown.len() < SHOWN_MAX || self.options.strict {
            let (name, line) = (self.options.log.display(), self.line);
            let what = format!("not a line of an access log in {} format", self.format);
            self.shown.push(format!("{name}:{line}:{column}: {what}: {fault}"));
        }
        if self.options.strict {
            return Err(Failure::usage(format!("{}; --strict permits none", self.shown.join("\n"))));
        }
        Ok(())
    }
}

/// Prints the summary on stderr.
pub(super) fn print(log: &str, summary: &Summary, bad_lines: &BadLines<'_>) {
    for line in bad_lines.shown() {
        remark(line);
    }
    let more = summary.bad_lines.saturating_sub(bad_lines.shown().len() as u64);
    if more > 0 {
        remark(&format!("{} more lines of no log", display::count(more)));
    }
    if let Some(detected) = &bad_lines.detected {
        remark(&format!("{log}: log format {detected}"));
    }
    for line in text(log, summary).lines() {
        remark(line);
    }
}

fn text(log: &str, summary: &Summary) -> String {
    let count = display::count;
    let mean = |number: u64| number as f64 / summary.sessions.max(1) as f64;
    let time = |unix_s: Option<i64>| unix_s.and_then(|unix_s| Timestamp::from_second(unix_s).ok());
    let mut text = format!("{log}: {} lines", count(summary.lines));
    if let Some((first, last)) = time(summary.first_unix_s).zip(time(summary.last_unix_s)) {
        let _ = write!(text, ", sessions from {first} to {last}");
    }
    let _ = write!(
        text,
        "\n{} sessions with {} requests in {} bursts: {:.1} requests and {:.1} bursts each on average, at most {} requests",
        count(summary.sessions),
        count(summary.requests),
        count(summary.bursts),
        mean(summary.requests),
        mean(summary.bursts),
        count(summary.session_requests_max),
    );
    let thinks = &summary.thinks;
    let percentiles = [50.0, 90.0, 99.0, 100.0].map(|percent| thinks.percentile(percent));
    if let ([Some(p50), Some(p90), Some(p99), Some(max)], Some(mean)) = (percentiles, thinks.mean()) {
        let _ = write!(text, "\nthink times: mean {mean:.1} s, p50 {p50} s, p90 {p90} s, p99 {p99} s, at most {max} s");
    }
    if summary.thinks_shortened > 0 {
        let _ = write!(text, "; {} shortened by --max-think", count(summary.thinks_shortened));
    }
    if summary.dropped.total() > 0 {
        let reasons = summary.dropped.reasons().into_iter().filter(|(count, _)| *count > 0);
        let reasons: Vec<_> = reasons.map(|(number, reason)| format!("{} {reason}", count(number))).collect();
        let _ = write!(text, "\n{} requests dropped: {}", count(summary.dropped.total()), reasons.join(", "));
    }
    let notes = [
        (
            if summary.sessions > HTTPERF_SESSIONS_MAX { summary.sessions } else { 0 },
            "sessions are more than httperf reads (1,000); --max-sessions 1000 takes the first ones",
        ),
        (
            if summary.requests > ENTRIES_MAX { summary.requests } else { 0 },
            "requests are more than run --session reads (16,777,216); --max-sessions or --sample take fewer",
        ),
        (summary.displaced, "requests were out of order in the log and are in order of time"),
        (
            summary.steps_back,
            "times the log went on at an earlier time; all sessions end there. Sort the log by time to avoid this",
        ),
        (summary.closed_for_memory, "sessions ended early for lack of memory; --memory gives more"),
        (summary.closed_for_length, "sessions ended at 10,000 requests"),
        (summary.out_of_order, "sessions come behind some that began later; --memory gives more of it to wait"),
    ];
    for (number, note) in notes.into_iter().filter(|(number, _)| *number > 0) {
        let _ = write!(text, "\n{} {note}", count(number));
    }
    text
}

/// The summary as a JSON document.
///
/// # Errors
/// None but of the program itself.
pub(super) fn json(summary: &Summary, bad_lines: &BadLines<'_>) -> Result<String, Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: &'static str,
        log: String,
        format: &'a str,
        #[serde(flatten)]
        summary: &'a Summary,
        bad_lines_shown: &'a [String],
    }
    let log = bad_lines.options.log.display().to_string();
    let document = Document {
        schema: "thalweg.sessions/1",
        log,
        format: &bad_lines.format,
        summary,
        bad_lines_shown: bad_lines.shown(),
    };
    let mut text = serde_json::to_string_pretty(&document).map_err(Failure::unreachable)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_their_readers_refuse_are_named() {
        let text = |sessions, requests| text("log", &Summary { sessions, requests, ..Summary::default() });
        assert!(!text(1000, ENTRIES_MAX).contains("more than"));
        assert!(text(1001, 5000).contains("\n1,001 sessions are more than httperf reads (1,000)"));
        assert!(
            text(9, ENTRIES_MAX + 1).contains("\n16,777,217 requests are more than run --session reads (16,777,216)")
        );
    }
}
