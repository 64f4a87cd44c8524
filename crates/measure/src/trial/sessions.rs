//! Sessions: several calls that belong together, of which the next depends on the last.
//!
//! Which calls make a session, and when one has failed, is the load engine's to say.

use crate::histogram::{Histogram, Summary};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest session that is counted by its length, in calls; longer ones count as this one. It
/// bounds the memory, and is far above the sessions of any recorded log.
pub(super) const CALLS_MAX: usize = 4095;

/// The sessions of a trial. Times in nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sessions {
    /// Sessions that came to their end.
    pub completed: u64,
    /// Sessions that were aborted because one of their calls had failed.
    pub failed: u64,
    /// Connections that the completed ones used.
    pub connections: u64,
    /// Calls of failed sessions that were never offered, since the session was over before they
    /// were due.
    pub calls_not_offered: u64,
    /// From the start of a completed session to its end.
    pub lifetime: Histogram,
    /// From the start of a failed session to its failure.
    pub fail_time: Histogram,
    /// How many sessions carried so many calls to their end, by that number.
    lengths: Vec<u64>,
}

impl Sessions {
    /// Counts a session that came to its end.
    pub fn record_completed(&mut self, lifetime_ns: u64, calls_completed: u64, connections: u64) {
        self.completed += 1;
        self.connections += connections;
        self.lifetime.record(lifetime_ns);
        self.record_length(calls_completed);
    }

    /// Counts an aborted session, with its finished calls and the calls that it never offered.
    pub fn record_failed(&mut self, lifetime_ns: u64, calls_completed: u64, calls_not_offered: u64) {
        self.failed += 1;
        self.calls_not_offered += calls_not_offered;
        self.fail_time.record(lifetime_ns);
        self.record_length(calls_completed);
    }

    fn record_length(&mut self, calls: u64) {
        let length = usize::try_from(calls).unwrap_or(CALLS_MAX).min(CALLS_MAX);
        if self.lengths.len() <= length {
            self.lengths.resize(length + 1, 0);
        }
        self.lengths[length] += 1;
    }

    /// Adds the sessions of another load thread.
    pub fn merge(&mut self, other: &Sessions) {
        self.completed += other.completed;
        self.failed += other.failed;
        self.connections += other.connections;
        self.calls_not_offered += other.calls_not_offered;
        self.lifetime.merge(&other.lifetime);
        self.fail_time.merge(&other.fail_time);
        if self.lengths.len() < other.lengths.len() {
            self.lengths.resize(other.lengths.len(), 0);
        }
        for (count, more) in self.lengths.iter_mut().zip(&other.lengths) {
            *count += more;
        }
    }

    /// The sessions as they stand in the result document.
    pub fn summary(&self) -> SessionsSummary {
        SessionsSummary {
            completed: self.completed,
            failed: self.failed,
            connections: self.connections,
            calls_not_offered: self.calls_not_offered,
            lengths: self.lengths.clone(),
            lifetime_us: self.lifetime.summary(),
            fail_time_us: self.fail_time.summary(),
        }
    }
}

/// Sessions as they stand in the result document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionsSummary {
    /// Sessions that came to their end.
    pub completed: u64,
    /// Sessions that were aborted because one of their calls had failed.
    pub failed: u64,
    /// Connections that the completed ones used.
    pub connections: u64,
    /// Calls of failed sessions that were never offered.
    pub calls_not_offered: u64,
    /// How many sessions carried 0, 1, 2 and so on calls to their end; the last of 4096 places
    /// counts all longer ones too.
    pub lengths: Vec<u64>,
    /// From the start of a completed session to its end.
    pub lifetime_us: Summary,
    /// From the start of a failed session to its failure.
    pub fail_time_us: Summary,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy)]
    struct Session {
        failed: bool,
        calls: u64,
        lifetime_ns: u64,
    }

    fn recorded(all: &[Session]) -> Sessions {
        let mut sessions = Sessions::default();
        for session in all {
            match session.failed {
                false => sessions.record_completed(session.lifetime_ns, session.calls, 2),
                true => sessions.record_failed(session.lifetime_ns, session.calls, 3),
            }
        }
        sessions
    }

    fn sessions() -> impl Strategy<Value = Vec<Session>> {
        let one = (any::<bool>(), 0_u64..20, 1_u64..1_000_000_000_000);
        let one = one.prop_map(|(failed, calls, lifetime_ns)| Session { failed, calls, lifetime_ns });
        prop::collection::vec(one, 0..40)
    }

    proptest! {
        #[test]
        fn merging_threads_equals_recording_into_one(a in sessions(), b in sessions()) {
            let mut merged = recorded(&a);
            merged.merge(&recorded(&b));
            let all = [a, b].concat();
            prop_assert_eq!(&merged, &recorded(&all));
            prop_assert_eq!(merged.summary().lengths.iter().sum::<u64>(), all.len() as u64);
        }
    }

    #[test]
    fn memory_is_bounded_however_long_a_session_is() {
        let mut sessions = recorded(&[Session { failed: false, calls: 0, lifetime_ns: 1 }]);
        sessions.record_completed(1, u64::MAX, 1);
        sessions.record_failed(1, 5000, 1);
        let lengths = sessions.summary().lengths;
        assert_eq!((lengths.len(), lengths[0], lengths[CALLS_MAX]), (CALLS_MAX + 1, 1, 2));
    }
}
