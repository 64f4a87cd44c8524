//! The intervals of one load thread, given out while the trial goes on.
//!
//! A series keeps a bounded number of intervals and makes them wider in the course of a long trial.
//! For an observer they keep the width that they began with, and nothing of them stays here: the
//! load thread hands them over between batches of work.

use super::record::{Interval, Tally};
use crate::compact::CompactHistogram;
use crate::histogram::Histogram;

/// Most intervals that one look at the clock ends. A thread that was stopped for longer, with its
/// whole host perhaps, leaves a gap in the course.
const ENDED_AT_ONCE_MAX: usize = 1_000;

/// The share of one load thread in one interval of the course.
#[derive(Debug, Clone, PartialEq)]
pub struct IntervalPart {
    start_ns: u64,
    width_ns: u64,
    tally: Tally,
    in_flight: u64,
    response_time: Option<CompactHistogram>,
}

/// The open interval of an observed series, and those that have ended.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    width_ns: u64,
    start_ns: u64,
    /// The counts of the series' open interval at the start of this one.
    before: Tally,
    response_time: Option<CompactHistogram>,
    pub(super) ended: Vec<IntervalPart>,
}

impl IntervalPart {
    /// Its beginning, in nanoseconds from the start of the trial.
    pub fn start_ns(&self) -> u64 {
        self.start_ns
    }

    /// Its end, in nanoseconds from the start of the trial.
    pub fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.width_ns)
    }

    /// Requests of this thread that were offered and not ended at its end.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// Adds requests in flight of a thread that has ended.
    pub(super) fn add_in_flight(&mut self, in_flight: u64) {
        self.in_flight += in_flight;
    }

    /// Adds the part of another thread in the same interval.
    pub(super) fn merge(&mut self, other: &IntervalPart) {
        self.tally.add(&other.tally);
        self.in_flight += other.in_flight;
        add(&mut self.response_time, other.response_time.as_ref());
    }

    /// The interval of all parts that were merged.
    pub(super) fn interval(&self) -> Interval {
        let response_time = self.response_time.as_ref().map_or_else(Histogram::new, CompactHistogram::restored);
        Interval::new(self.start_ns, self.width_ns, &self.tally, self.in_flight, response_time)
    }
}

impl Parts {
    pub(super) fn new(width_ns: u64) -> Self {
        Self { width_ns, start_ns: 0, before: Tally::default(), response_time: None, ended: Vec::new() }
    }

    /// Whether the open one ends by this time.
    pub(super) fn is_due(&self, until_ns: u64) -> bool {
        until_ns.saturating_sub(self.start_ns) >= self.width_ns
    }

    /// Adds response times to the open one.
    pub(super) fn record(&mut self, response_time: &CompactHistogram) {
        add(&mut self.response_time, Some(response_time));
    }

    /// Ends those that end by this time. All that was counted since the last end belongs to the
    /// first of them.
    pub(super) fn end_until(&mut self, until_ns: u64, open: &Tally, in_flight: u64) {
        for _ in 0..ENDED_AT_ONCE_MAX {
            if !self.is_due(until_ns) {
                return;
            }
            self.end(open, in_flight);
        }
        self.start_ns = until_ns - until_ns % self.width_ns;
    }

    /// Ends the open one, if anything is in it.
    pub(super) fn end_last(&mut self, open: &Tally, in_flight: u64) {
        if *open != self.before || self.response_time.is_some() {
            self.end(open, in_flight);
        }
    }

    /// The series begins an interval, whose counts start at zero.
    pub(super) fn begin_interval(&mut self) {
        self.before = Tally::default();
    }

    fn end(&mut self, open: &Tally, in_flight: u64) {
        self.ended.push(IntervalPart {
            start_ns: self.start_ns,
            width_ns: self.width_ns,
            tally: open.since(&self.before),
            in_flight,
            response_time: self.response_time.take(),
        });
        self.start_ns = self.start_ns.saturating_add(self.width_ns);
        self.before = *open;
    }
}

fn add(sum: &mut Option<CompactHistogram>, more: Option<&CompactHistogram>) {
    match (sum, more) {
        (Some(sum), Some(more)) => sum.merge(more),
        (sum @ None, Some(more)) => *sum = Some(more.clone()),
        (_, None) => {}
    }
}
