//! The HTTP/2 streams of a trial: how many there were, and those that the server did not answer.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, Summary};

/// The HTTP/2 streams of one trial, those of its warm-up included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StreamFigures {
    /// Streams of each connection that carried any, in thousandths.
    pub per_connection: Histogram,
    /// Streams opened.
    pub opened: u64,
    /// Streams open at once on one connection, at most.
    pub concurrent_max: u64,
    /// RST_STREAM frames received, by error code.
    pub resets: BTreeMap<&'static str, u64>,
    /// GOAWAY frames received, by error code.
    pub goaways: BTreeMap<&'static str, u64>,
    /// Requests that the server has not processed.
    pub refused: u64,
    /// Requests of these that were sent again.
    pub retried: u64,
}

/// The HTTP/2 streams of a trial in the result document, those of its warm-up included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StreamsSummary {
    /// Streams opened: the requests that were sent.
    pub opened: u64,
    /// Streams of each connection that carried any. `count` is the number of these connections.
    pub per_connection: Summary,
    /// Streams open at once on one connection, at most.
    pub concurrent_max: u64,
    /// Streams that the server has reset, by error code (RFC 9113, 7): `CANCEL`, `INTERNAL_ERROR`
    /// and so on; `UNKNOWN` for codes that RFC 9113 does not define.
    pub resets: BTreeMap<String, u64>,
    /// GOAWAY frames received, by error code.
    pub goaways: BTreeMap<String, u64>,
    /// Requests that the server has not processed: reset with REFUSED_STREAM, or above the last
    /// stream of a GOAWAY.
    pub refused: u64,
    /// How often such a request was sent again (`--retry-refused`).
    pub retried: u64,
}

impl StreamFigures {
    /// Counts the streams of a connection that has carried some.
    pub fn record_connection(&mut self, streams: u64, concurrent_max: u64) {
        self.opened += streams;
        self.per_connection.record(streams * SUMMARY_UNIT);
        self.concurrent_max = self.concurrent_max.max(concurrent_max);
    }

    /// Adds the streams of another load thread.
    pub fn merge(&mut self, other: &Self) {
        self.per_connection.merge(&other.per_connection);
        self.opened += other.opened;
        self.concurrent_max = self.concurrent_max.max(other.concurrent_max);
        for (mine, theirs) in [(&mut self.resets, &other.resets), (&mut self.goaways, &other.goaways)] {
            theirs.iter().for_each(|(code, count)| *mine.entry(code).or_default() += count);
        }
        self.refused += other.refused;
        self.retried += other.retried;
    }

    /// The figures as the result document has them.
    pub fn summary(&self) -> StreamsSummary {
        let named = |counts: &BTreeMap<&'static str, u64>| {
            counts.iter().map(|(code, count)| ((*code).to_owned(), *count)).collect()
        };
        StreamsSummary {
            opened: self.opened,
            per_connection: self.per_connection.summary(),
            concurrent_max: self.concurrent_max,
            resets: named(&self.resets),
            goaways: named(&self.goaways),
            refused: self.refused,
            retried: self.retried,
        }
    }
}

/// A summary is in thousands of what a histogram has recorded.
const SUMMARY_UNIT: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_threads_add_up() {
        let mut merged = StreamFigures { refused: 1, resets: [("CANCEL", 1)].into(), ..StreamFigures::default() };
        merged.record_connection(10, 4);
        let mut other = StreamFigures { retried: 2, ..StreamFigures::default() };
        other.resets = [("CANCEL", 2), ("INTERNAL_ERROR", 1)].into();
        other.goaways = [("NO_ERROR", 1)].into();
        other.record_connection(20, 3);
        merged.merge(&other);
        let summary = merged.summary();
        assert_eq!((summary.opened, summary.concurrent_max, summary.refused, summary.retried), (30, 4, 1, 2));
        assert_eq!(summary.resets, [("CANCEL".to_owned(), 3), ("INTERNAL_ERROR".to_owned(), 1)].into());
        assert_eq!(summary.goaways, [("NO_ERROR".to_owned(), 1)].into());
        let each = &summary.per_connection;
        assert_eq!((each.count, each.min, each.max, each.mean), (2, 10.0, 20.0, 15.0));
    }
}
