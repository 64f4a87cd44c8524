//! The HTTP/2 streams of a trial: how many there were, and those that the server did not answer.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_units::display;

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
    /// Connections that the server has ended in order: by GOAWAY without an error.
    pub ended_in_order: EndedInOrder,
    /// Requests that the server has not processed.
    pub refused: u64,
    /// Requests of these that were sent again.
    pub retried: u64,
}

/// Connections that a server has ended by GOAWAY with NO_ERROR: because of its own limit on
/// requests or time, or because it goes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct EndedInOrder {
    /// How many.
    pub connections: u64,
    /// Requests that one of them carried, as its GOAWAY says: the fewest.
    pub requests_min: u64,
    /// The most.
    pub requests_max: u64,
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
    /// Connections that the server has ended in order: by a GOAWAY without an error.
    #[serde(default)]
    pub ended_in_order: EndedInOrder,
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
        self.ended_in_order.merge(other.ended_in_order);
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
            ended_in_order: self.ended_in_order,
            refused: self.refused,
            retried: self.retried,
        }
    }
}

impl EndedInOrder {
    /// Counts a connection that has carried so many requests.
    pub fn record(&mut self, requests: u64) {
        self.merge(Self { connections: 1, requests_min: requests, requests_max: requests });
    }

    fn merge(&mut self, other: Self) {
        if other.connections == 0 {
            return;
        }
        let is_first = self.connections == 0;
        self.connections += other.connections;
        self.requests_min = if is_first { other.requests_min } else { self.requests_min.min(other.requests_min) };
        self.requests_max = self.requests_max.max(other.requests_max);
    }
}

impl fmt::Display for EndedInOrder {
    /// A sentence without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { connections, requests_min, requests_max } = *self;
        let connections = match connections {
            1 => "1 connection".to_owned(),
            many => format!("{} connections", display::count(many)),
        };
        write!(f, "the target ended {connections} in order (GOAWAY) after {}", display::count(requests_max))?;
        match (connections.starts_with("1 "), requests_min == requests_max) {
            (true, _) => write!(f, " requests"),
            (false, true) => write!(f, " requests each"),
            (false, false) => write!(f, " requests at most and {} at least", display::count(requests_min)),
        }
    }
}

impl StreamsSummary {
    /// How the server has ended connections in order, and what it has not processed, as a sentence
    /// without a full stop.
    pub fn endings(&self) -> Option<String> {
        let ended = (self.ended_in_order.connections > 0).then(|| self.ended_in_order.to_string());
        let not_processed = (self.refused > 0).then(|| {
            let (count, were) = if self.refused == 1 {
                ("1 request".to_owned(), "was")
            } else {
                (format!("{} requests", display::count(self.refused)), "were")
            };
            let again = match self.retried {
                0 => String::new(),
                all if all == self.refused => format!(", and {were} sent again"),
                some => format!(", and sent again {} times", display::count(some)),
            };
            format!("{count} {were} not processed{again}")
        });
        match (ended, not_processed) {
            (Some(ended), Some(not_processed)) => Some(format!("{ended}; {not_processed}")),
            (ended, not_processed) => ended.or(not_processed),
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
        [1000, 998].into_iter().for_each(|requests| other.ended_in_order.record(requests));
        merged.ended_in_order.record(10);
        other.record_connection(20, 3);
        merged.merge(&other);
        let summary = merged.summary();
        assert_eq!((summary.opened, summary.concurrent_max, summary.refused, summary.retried), (30, 4, 1, 2));
        assert_eq!(summary.resets, [("CANCEL".to_owned(), 3), ("INTERNAL_ERROR".to_owned(), 1)].into());
        assert_eq!(summary.goaways, [("NO_ERROR".to_owned(), 1)].into());
        assert_eq!(summary.ended_in_order, EndedInOrder { connections: 3, requests_min: 10, requests_max: 1000 });
        let each = &summary.per_connection;
        assert_eq!((each.count, each.min, each.max), (2, 10.0, 20.0));
        assert!((each.mean - 15.0).abs() < 0.015, "the buckets are 0.1 % wide: {}", each.mean);
    }

    #[test]
    fn connections_that_ended_in_order_are_a_sentence() {
        let sentence = |connections: &[u64]| {
            let mut ended = EndedInOrder::default();
            connections.iter().for_each(|&requests| ended.record(requests));
            ended.to_string()
        };
        assert_eq!(
            sentence(&[1000; 188]),
            "the target ended 188 connections in order (GOAWAY) after 1,000 requests each"
        );
        assert_eq!(sentence(&[7]), "the target ended 1 connection in order (GOAWAY) after 7 requests");
        let uneven = "the target ended 2 connections in order (GOAWAY) after 12 requests at most and 3 at least";
        assert_eq!(sentence(&[3, 12]), uneven);
    }
}
