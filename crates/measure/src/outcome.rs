//! How requests end, and the proof that none is lost: every offered request has exactly one
//! [`Outcome`].
//!
//! Deciding which outcome a request has is the load engine's part. What the counts mean for a
//! verdict is in `trial`.

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// The one way in which an intended request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// A complete and valid response within the time limit.
    Good,
    /// A complete response with an unexpected status.
    BadStatus,
    /// A complete response whose length, digest or other check failed.
    FailedCheck,
    /// The response ended before its announced length.
    Truncated,
    /// No complete response within the time limit, wherever the time went.
    Timeout,
    /// The target refused the connection.
    Refused,
    /// The connection was reset or closed before a response began.
    Reset,
    /// No route, host or name.
    Unreachable,
    /// This host had no file descriptor left: the client's fault.
    NoDescriptor,
    /// This host had no local address and port left: the client's fault.
    NoAddress,
    /// The TLS handshake or a record failed.
    TlsFailure,
    /// The peer broke the protocol.
    ProtocolError,
    /// The schedule ended before the request left.
    NotSent,
    /// The target certainly did not process the request, and said so: REFUSED_STREAM, or above the
    /// last stream of its GOAWAY.
    NotProcessed,
}

impl Outcome {
    /// All outcomes, in the order of the result document.
    pub const ALL: [Outcome; 14] = [
        Outcome::Good,
        Outcome::BadStatus,
        Outcome::FailedCheck,
        Outcome::Truncated,
        Outcome::Timeout,
        Outcome::Refused,
        Outcome::Reset,
        Outcome::Unreachable,
        Outcome::NoDescriptor,
        Outcome::NoAddress,
        Outcome::TlsFailure,
        Outcome::ProtocolError,
        Outcome::NotSent,
        Outcome::NotProcessed,
    ];

    /// The name in the result document.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Good => "good",
            Outcome::BadStatus => "bad_status",
            Outcome::FailedCheck => "failed_check",
            Outcome::Truncated => "truncated",
            Outcome::Timeout => "timeout",
            Outcome::Refused => "refused",
            Outcome::Reset => "reset",
            Outcome::Unreachable => "unreachable",
            Outcome::NoDescriptor => "no_descriptor",
            Outcome::NoAddress => "no_address",
            Outcome::TlsFailure => "tls_failure",
            Outcome::ProtocolError => "protocol_error",
            Outcome::NotSent => "not_sent",
            Outcome::NotProcessed => "not_processed",
        }
    }

    /// Whether a whole response came back, good or not.
    pub fn is_completed(self) -> bool {
        matches!(self, Outcome::Good | Outcome::BadStatus | Outcome::FailedCheck)
    }

    /// Whether this counts as an error: every request that was sent or attempted and is not good.
    ///
    /// `not_sent` is no error: the target received no request and cannot have failed. It is not
    /// lost either, since it stays in *offered*: requests held back by a slow target are missing
    /// from the completions, and those held back by the client make the trial invalid (see
    /// `verdict` in `trial`).
    pub fn is_error(self) -> bool {
        !matches!(self, Outcome::Good | Outcome::NotSent)
    }
}

impl fmt::Display for Outcome {
    /// The name in words, for sentences: `bad status`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name().replace('_', " "))
    }
}

/// How often each outcome came. Serialises as a map that names all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcomes {
    counts: [u64; Outcome::ALL.len()],
}

impl Outcomes {
    /// Counts one more request that ended with `outcome`.
    pub fn record(&mut self, outcome: Outcome) {
        self.record_n(outcome, 1);
    }

    /// Counts `n` more requests that ended with `outcome`.
    pub fn record_n(&mut self, outcome: Outcome, n: u64) {
        self.counts[outcome as usize] += n;
    }

    /// How many requests ended with `outcome`.
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[outcome as usize]
    }

    /// All requests that ended; equals *offered* once a trial is over.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Requests that ended in an error, see [`Outcome::is_error`].
    pub fn errors(&self) -> u64 {
        self.sum(Outcome::is_error)
    }

    /// Requests for which a whole response came back.
    pub fn completed(&self) -> u64 {
        self.sum(Outcome::is_completed)
    }

    /// Adds the counts of another load thread or trial.
    pub fn merge(&mut self, other: &Outcomes) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }

    /// Each outcome with its count, in the order of the result document.
    pub fn iter(&self) -> impl Iterator<Item = (Outcome, u64)> {
        Outcome::ALL.into_iter().zip(self.counts)
    }

    fn sum(&self, counted: fn(Outcome) -> bool) -> u64 {
        self.iter().filter(|(outcome, _)| counted(*outcome)).map(|(_, count)| count).sum()
    }
}

impl Serialize for Outcomes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Outcome::ALL.len()))?;
        for (outcome, count) in self.iter() {
            map.serialize_entry(outcome.name(), &count)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Outcomes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Counted;

        impl<'de> Visitor<'de> for Counted {
            type Value = Outcomes;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map from outcome to count")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Outcomes, A::Error> {
                let mut outcomes = Outcomes::default();
                while let Some((outcome, count)) = map.next_entry::<Outcome, u64>()? {
                    let slot = &mut outcomes.counts[outcome as usize];
                    *slot = slot.checked_add(count).ok_or_else(|| A::Error::custom("count out of range"))?;
                }
                Ok(outcomes)
            }
        }

        deserializer.deserialize_map(Counted)
    }
}

/// Failures by cause, in more detail than by outcome, for tools that need it. Each is also counted
/// as the outcome named here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Causes {
    /// Of *unreachable*: the kernel gave up waiting for the peer (ETIMEDOUT), before our own time
    /// limit.
    pub socket_timeout: u64,
    /// Of *no descriptor*: the whole host had none left (ENFILE), not this process (EMFILE).
    pub file_table_full: u64,
    /// Of *unreachable*, if it was met while connecting, else of *reset*: errors of no known kind.
    #[serde(default)]
    pub unknown: u64,
    /// The number of the first such error; 0 if it had none.
    #[serde(default)]
    pub unknown_errno: Option<i32>,
}

impl Causes {
    /// Adds the counts of another load thread or trial.
    pub fn merge(&mut self, other: &Causes) {
        self.socket_timeout += other.socket_timeout;
        self.file_table_full += other.file_table_full;
        self.unknown += other.unknown;
        self.unknown_errno = self.unknown_errno.or(other.unknown_errno);
    }
}

/// The four counts that every result leads with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Requests that the schedule called for.
    pub offered: u64,
    /// Requests whose first byte was passed to the kernel.
    pub sent: u64,
    /// Requests for which a whole response came back in time.
    pub completed: u64,
    /// Completed and valid.
    pub good: u64,
}

impl Counts {
    /// The counts of a finished trial: all but *sent* follow from the outcomes.
    pub fn of(outcomes: &Outcomes, sent: u64) -> Self {
        Counts { offered: outcomes.total(), sent, completed: outcomes.completed(), good: outcomes.count(Outcome::Good) }
    }

    /// Adds the counts of another load thread or trial.
    pub fn merge(&mut self, other: &Counts) {
        self.offered += other.offered;
        self.sent += other.sent;
        self.completed += other.completed;
        self.good += other.good;
    }

    /// Verifies that `outcomes` account for every offered request and agree with the other counts.
    pub fn check(&self, outcomes: &Outcomes) -> Result<(), CountsError> {
        let expected = Counts::of(outcomes, self.sent);
        let not_sent = outcomes.count(Outcome::NotSent);
        if self.offered != expected.offered {
            return Err(CountsError::Offered { offered: self.offered, ended: expected.offered });
        }
        if self.completed != expected.completed {
            return Err(CountsError::Completed { completed: self.completed, ended: expected.completed });
        }
        if self.good != expected.good {
            return Err(CountsError::Good { good: self.good, ended: expected.good });
        }
        if self.sent < self.completed || self.sent > self.offered - not_sent {
            return Err(CountsError::Sent {
                sent: self.sent,
                completed: self.completed,
                tried: self.offered - not_sent,
            });
        }
        Ok(())
    }
}

/// Counts that contradict the outcomes: a defect of the client, never of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CountsError {
    /// A request was lost or counted twice.
    #[error("{offered} requests were offered but {ended} have an outcome")]
    Offered {
        /// Requests offered.
        offered: u64,
        /// Sum of the outcomes.
        ended: u64,
    },
    /// The completed count is not that of the outcomes.
    #[error("{completed} requests are counted as completed but {ended} have an outcome that says so")]
    Completed {
        /// Requests counted as completed.
        completed: u64,
        /// Sum of the outcomes that complete.
        ended: u64,
    },
    /// The good count is not that of the outcomes.
    #[error("{good} requests are counted as good but {ended} have that outcome")]
    Good {
        /// Requests counted as good.
        good: u64,
        /// Count of the outcome.
        ended: u64,
    },
    /// More responses than requests, or more requests sent than were tried.
    #[error("{sent} requests are counted as sent, which is not between {completed} completed and {tried} tried")]
    Sent {
        /// Requests counted as sent.
        sent: u64,
        /// Requests completed.
        completed: u64,
        /// Requests offered less those not sent.
        tried: u64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn order_and_names_are_those_of_the_result_document() {
        let names = "good bad_status failed_check truncated timeout refused reset unreachable no_descriptor no_address \
                     tls_failure protocol_error not_sent not_processed";
        let mut outcomes = Outcomes::default();
        for (position, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome as usize, position);
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.name());
            outcomes.record_n(outcome, position as u64 + 1);
        }
        let document = serde_json::to_string(&outcomes).unwrap();
        let expected: Vec<String> =
            names.split_whitespace().zip(1..).map(|(name, n)| format!("\"{name}\":{n}")).collect();
        assert_eq!(document, format!("{{{}}}", expected.join(",")));
        assert_eq!(serde_json::from_str::<Outcomes>(&document).unwrap(), outcomes);
        assert!(serde_json::from_str::<Outcomes>(r#"{"lost": 1}"#).is_err());
    }

    #[test]
    fn contradictions_are_found() {
        let mut outcomes = Outcomes::default();
        outcomes.record_n(Outcome::Good, 90);
        outcomes.record_n(Outcome::BadStatus, 4);
        outcomes.record_n(Outcome::Refused, 3);
        outcomes.record_n(Outcome::NotSent, 3);
        let counts = Counts { offered: 100, sent: 94, completed: 94, good: 90 };
        assert_eq!(counts.check(&outcomes), Ok(()));
        assert_eq!(outcomes.errors(), 7);
        let check = |wrong: Counts, part: &str| {
            let error = wrong.check(&outcomes).expect_err(part);
            assert!(error.to_string().contains(part), "{error}");
        };
        check(Counts { offered: 101, ..counts }, "101 requests were offered");
        check(Counts { completed: 93, ..counts }, "93 requests are counted as completed");
        check(Counts { good: 91, ..counts }, "91 requests are counted as good");
        check(Counts { sent: 93, ..counts }, "93 requests are counted as sent");
        check(Counts { sent: 98, ..counts }, "98 requests are counted as sent");
    }

    proptest! {
        #[test]
        fn merged_counts_add_up(a in any::<[u32; Outcome::ALL.len()]>(), b in any::<[u32; Outcome::ALL.len()]>()) {
            let of = |counts: [u32; Outcome::ALL.len()]| Outcomes { counts: counts.map(u64::from) };
            let (mut left, right) = (of(a), of(b));
            let mut counts = Counts::of(&left, left.completed());
            counts.merge(&Counts::of(&right, right.completed()));
            left.merge(&right);
            prop_assert_eq!(counts.check(&left), Ok(()));
            let parts = left.count(Outcome::Good) + left.errors() + left.count(Outcome::NotSent);
            prop_assert_eq!(parts, left.total());
        }
    }
}
