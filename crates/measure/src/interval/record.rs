//! An interval: its counts, and the form in which readers see it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;

/// One interval as a reader sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Interval {
    /// Its beginning, in nanoseconds from the start of the trial.
    pub start_ns: u64,
    /// Its width in nanoseconds; the last interval of a series may be filled in part.
    pub width_ns: u64,
    /// Requests whose intended time lies in it.
    pub offered: u64,
    /// Requests whose first byte left in it.
    pub sent: u64,
    /// Whole responses that ended in it, good or not.
    pub completed: u64,
    /// Good responses that ended in it.
    pub good: u64,
    /// Errors that happened in it.
    pub errors: u64,
    /// Sessions that came to their end in it.
    pub sessions: u64,
    /// Requests offered but not ended at its end, those that wait for a connection included.
    pub in_flight: u64,
    /// Bytes received in it.
    pub bytes_in: u64,
    /// Response times of the requests that ended in it, to two significant digits.
    pub response_time: Histogram,
}

/// One interval as it stands in the result document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalSummary {
    /// Its beginning, in seconds from the start of the trial.
    pub t: f64,
    /// Requests whose intended time lies in it.
    pub offered: u64,
    /// Good responses that ended in it.
    pub good: u64,
    /// Errors that happened in it.
    pub errors: u64,
    /// Requests offered but not ended at its end.
    pub in_flight: u64,
    /// Median response time in microseconds; 0 if nothing ended in it.
    pub p50_us: f64,
    /// 99th percentile of the response time in microseconds; 0 if nothing ended in it.
    pub p99_us: f64,
    /// Whole responses that ended in it, good or not.
    #[serde(default)]
    pub completed: u64,
    /// Sessions that came to their end in it.
    #[serde(default)]
    pub sessions: u64,
    /// Response times of the requests that ended in it, see [`Histogram::to_hdr_base64_us`]; empty
    /// if there were none.
    #[serde(default)]
    pub hdr: String,
}

/// The counts of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) offered: u64,
    pub(super) sent: u64,
    pub(super) completed: u64,
    pub(super) good: u64,
    pub(super) errors: u64,
    pub(super) sessions: u64,
    pub(super) bytes_in: u64,
}

impl Interval {
    pub(super) fn new(start_ns: u64, width_ns: u64, tally: &Tally, in_flight: u64, response_time: Histogram) -> Self {
        Self {
            start_ns,
            width_ns,
            offered: tally.offered,
            sent: tally.sent,
            completed: tally.completed,
            good: tally.good,
            errors: tally.errors,
            sessions: tally.sessions,
            in_flight,
            bytes_in: tally.bytes_in,
            response_time,
        }
    }

    /// The interval as it stands in the result document.
    pub fn summary(&self) -> IntervalSummary {
        let none = self.response_time.is_empty();
        IntervalSummary {
            t: self.start_ns as f64 / 1e9,
            offered: self.offered,
            good: self.good,
            errors: self.errors,
            in_flight: self.in_flight,
            p50_us: self.response_time.quantile(0.5) as f64 / 1e3,
            p99_us: self.response_time.quantile(0.99) as f64 / 1e3,
            completed: self.completed,
            sessions: self.sessions,
            hdr: if none { String::new() } else { self.response_time.to_hdr_base64_us() },
        }
    }
}

impl Tally {
    /// Adds the counts of another time or of another load thread.
    pub(super) fn add(&mut self, other: &Tally) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.completed += other.completed;
        self.good += other.good;
        self.errors += other.errors;
        self.sessions += other.sessions;
        self.bytes_in += other.bytes_in;
    }

    /// The counts since `earlier`, a state of the same counts.
    pub(super) fn since(&self, earlier: &Tally) -> Tally {
        Tally {
            offered: self.offered - earlier.offered,
            sent: self.sent - earlier.sent,
            completed: self.completed - earlier.completed,
            good: self.good - earlier.good,
            errors: self.errors - earlier.errors,
            sessions: self.sessions - earlier.sessions,
            bytes_in: self.bytes_in - earlier.bytes_in,
        }
    }
}
