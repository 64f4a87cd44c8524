//! The connections of a trial by how they ended.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Connections of a trial, those that were opened ahead of its measured part included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Connections {
    /// Attempts to connect, those that came to nothing included.
    #[serde(default)]
    pub attempted: u64,
    /// Opened in all.
    pub opened: u64,
    /// Wanted open before the start, and not to be had for want of descriptors, local addresses or
    /// ports.
    #[serde(default)]
    pub lacking: u64,
    /// Connections that ended in an error of any kind, when connecting or later. A connection that
    /// the server closed while it was idle is not counted.
    #[serde(default)]
    pub failed: u64,
    /// Opened and closed again, by whichever side; those that are closed because the trial is over
    /// count too.
    #[serde(default)]
    pub closed: u64,
    /// Whole responses that the closed ones had carried.
    #[serde(default)]
    pub replies: u64,
    /// Whole responses after which the server left the connection open for another request.
    #[serde(default)]
    pub kept: u64,
    /// Requests that were sent on a connection which the server had kept open after a response, and
    /// closed before any byte of the next one. Over HTTP/1.
    #[serde(default)]
    pub met_close: u64,
    /// How often such a request was sent again (`--retry-idle`).
    #[serde(default)]
    pub sent_again: u64,
    /// Open at once, at most. Merged over load threads it is the sum of their peaks, which need not
    /// have coincided.
    pub peak: u64,
    /// Attempts begun in one iteration of an event loop, at most.
    #[serde(default)]
    pub burst: u64,
    /// Connections whose responses arrived at the rate that a limit names, or, without such a
    /// limit, at 320,000 bit/s, which SPECweb99 calls conforming.
    pub conforming: u64,
    /// Open at once at the end of the measured part.
    #[serde(default)]
    pub held: u64,
    /// Of the held ones, those that received something in the second half of the measured part.
    #[serde(default)]
    pub progressing: u64,
}

impl Connections {
    /// Counts a connection that was open and is not any more, with the whole responses that it has
    /// carried.
    pub fn record_close(&mut self, replies: u64, failed: bool) {
        self.closed += 1;
        self.replies += replies;
        self.failed += u64::from(failed);
    }

    /// Adds the connections of another load thread. They were there at the same time, so what was
    /// open at once adds up; a burst is one loop's own.
    pub fn merge(&mut self, other: &Connections) {
        self.attempted += other.attempted;
        self.opened += other.opened;
        self.lacking += other.lacking;
        self.failed += other.failed;
        self.closed += other.closed;
        self.replies += other.replies;
        self.kept += other.kept;
        self.met_close += other.met_close;
        self.sent_again += other.sent_again;
        self.peak += other.peak;
        self.burst = self.burst.max(other.burst);
        self.conforming += other.conforming;
        self.held += other.held;
        self.progressing += other.progressing;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_open_at_once_add_up_and_a_burst_does_not() {
        let mut merged =
            Connections { attempted: 12, opened: 11, lacking: 2, peak: 5, burst: 3, held: 4, ..Connections::default() };
        merged.record_close(7, false);
        merged.record_close(0, true);
        let mut other =
            Connections { attempted: 1, opened: 1, lacking: 1, peak: 1, burst: 4, held: 1, progressing: 1, ..merged };
        other.record_close(2, false);
        merged.merge(&other);
        let expected = Connections {
            attempted: 13,
            opened: 12,
            lacking: 3,
            failed: 2,
            closed: 5,
            replies: 16,
            kept: 0,
            met_close: 0,
            sent_again: 0,
            peak: 6,
            burst: 4,
            conforming: 0,
            held: 5,
            progressing: 1,
        };
        assert_eq!(merged, expected);
    }

    /// A document from before these counts were taken can still be read.
    #[test]
    fn older_documents_are_read() {
        let older: Connections = serde_json::from_str(r#"{"opened":3,"peak":2,"conforming":1}"#).unwrap();
        assert_eq!(older, Connections { opened: 3, peak: 2, conforming: 1, ..Connections::default() });
    }
}
