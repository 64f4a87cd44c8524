//! The streams of one connection, counted.

use thalweg_measure::trial::StreamFigures;
use thalweg_wire::h2::ErrorCode;

/// Streams of a connection, and the frames of the server that have ended some of them.
#[derive(Debug, Default)]
pub(super) struct Tally {
    opened: u32,
    concurrent_max: u32,
    refused: u32,
    /// Requests that the server has taken, by its latest GOAWAY without an error.
    taken: Option<u32>,
    /// RST_STREAM and GOAWAY frames by error code: at most as many entries as there are codes.
    resets: Vec<(&'static str, u32)>,
    goaways: Vec<(&'static str, u32)>,
}

impl Tally {
    /// Counts a stream that was opened; with it, so many are open.
    #[inline]
    pub(super) fn record_open(&mut self, concurrent: u32) {
        self.opened += 1;
        self.concurrent_max = self.concurrent_max.max(concurrent);
    }

    /// Counts a request that the server has not processed.
    pub(super) fn record_refusal(&mut self) {
        self.refused += 1;
    }

    /// Counts a stream that the server has reset.
    pub(super) fn record_reset(&mut self, code: ErrorCode) {
        add(&mut self.resets, code);
    }

    /// Counts a GOAWAY of the server, which processes the streams up to that one.
    pub(super) fn record_goaway(&mut self, code: ErrorCode, last_stream: u32) {
        if code == ErrorCode::NO_ERROR {
            // A client's streams have odd numbers. A first GOAWAY may allow all that there are.
            self.taken = Some(last_stream.div_ceil(2).min(self.opened));
        }
        add(&mut self.goaways, code);
    }

    /// Adds the connection to the figures of a trial.
    pub(super) fn add_to(&self, figures: &mut StreamFigures) {
        if self.opened > 0 {
            figures.record_connection(u64::from(self.opened), u64::from(self.concurrent_max));
        }
        for (code, count) in &self.resets {
            *figures.resets.entry(code).or_default() += u64::from(*count);
        }
        for (code, count) in &self.goaways {
            *figures.goaways.entry(code).or_default() += u64::from(*count);
        }
        self.taken.into_iter().for_each(|requests| figures.ended_in_order.record(u64::from(requests)));
        figures.refused += u64::from(self.refused);
    }
}

fn add(counts: &mut Vec<(&'static str, u32)>, code: ErrorCode) {
    let name = code.name().unwrap_or("UNKNOWN");
    match counts.iter_mut().find(|(counted, _)| *counted == name) {
        Some((_, count)) => *count += 1,
        None => counts.push((name, 1)),
    }
}
