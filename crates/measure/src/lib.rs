//! The meaning of Thalweg's numbers: histograms, interval records, limits, trial verdicts,
//! statistics and the capacity search.
//!
//! Everything here is pure. No clock is read, nothing is printed, no thread is started: time comes
//! in as an argument, so that every rule can be tested without waiting. What a request *is* on the
//! wire, and who sends it, is not known here.
//!
//! | module | owns |
//! | --- | --- |
//! | [`histogram`] | latency distributions, their exact merge and their exchanged form |
//! | [`outcome`] | how a request can end, and that the ends add up |
//! | [`hdr_log`] | such distributions as a log that HdrHistogram's tools read |
//! | [`interval`] | the course of a trial over time, in bounded memory |
//! | [`limit`] | what PASS means, as the user wrote it |
//! | [`trial`] | the figures of one trial and its verdict |
//! | [`search`] | the capacity search as a state machine |
//! | [`status`] | responses by class and code of their status |
//! | [`statistics`] | estimates that hold for correlated and outlier-ridden series |
#![forbid(unsafe_code)]

mod compact;
pub mod hdr_log;
pub mod histogram;
pub mod interval;
pub mod limit;
pub mod outcome;
mod scale;
pub mod search;
#[cfg(test)]
mod simulation;
pub mod statistics;
pub mod status;
pub mod trial;

pub use histogram::{Histogram, Summary};
pub use interval::{Course, Interval, IntervalPart, IntervalSeries, IntervalSummary};
pub use limit::Limit;
pub use outcome::{Causes, Counts, Outcome, Outcomes};
pub use status::{StatusClasses, StatusCodes};
pub use trial::{LoopKind, Verdict, verdict};
