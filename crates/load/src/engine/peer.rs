//! The server's conduct beside its responses: limits that it names, and violations of the protocol.

use thalweg_measure::trial::{RuleOf, TrialFigures};
use thalweg_sys::{Driver, Instant, SocketId};

use super::state::Engine;
use crate::protocol::{Protocol, Violation};

impl<P: Protocol> Engine<P> {
    /// Counts a violation that the connection's protocol has found; `rest` has the input from
    /// there.
    #[cold]
    #[inline(never)]
    pub(super) fn note_violation(&mut self, id: SocketId, rest: &[u8]) {
        record_violation(&mut self.connections[id.index()].protocol, &mut self.figures.trial, rest);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn note_protocol_error(&mut self, cause: &str, rule: RuleOf, bytes: &[u8]) {
        self.figures.trial.protocol_errors.record(cause, rule, bytes);
    }

    /// The server has named its limits, or changed them: the connection may have room for what
    /// waits.
    #[cold]
    #[inline(never)]
    pub(super) fn on_limits<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let notice_delay_ns = self.notice_delay_ns();
        let connection = &mut self.connections[id.index()];
        if !connection.calls.is_empty() {
            connection.make_room(notice_delay_ns, now);
        }
        match connection.user {
            Some(user) => self.go_on(driver, user, now),
            None => self.offer_room(id),
        }
    }
}

/// Counts a violation that a connection's protocol has found; `rest` has the input from there.
#[cold]
#[inline(never)]
pub(super) fn record_violation<P: Protocol>(protocol: &mut P, trial: &mut TrialFigures, rest: &[u8]) {
    if let Some(Violation { cause, rule, bytes }) = protocol.take_violation(rest) {
        trial.protocol_errors.record(&cause, rule, &bytes);
    }
}
