//! The TLS handshakes of a trial: how long they took, what was negotiated, and why some failed.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::histogram::{Histogram, Summary};

/// Most causes of failures that are told apart. All further ones count as `other`.
const CAUSES_MAX: usize = 64;

/// The TLS handshakes of one trial, those of connections that were opened ahead of its measured
/// part included.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TlsFigures {
    /// From the established TCP connection to the completed handshake, in nanoseconds.
    pub handshake: Histogram,
    /// From the attempt to connect to the completed handshake, in nanoseconds.
    pub ready: Histogram,
    /// Full handshakes.
    pub full: u64,
    /// Of them, those with a second hello because the server chose another group.
    pub retried: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Handshakes by the parameters that were negotiated.
    pub negotiated: BTreeMap<Negotiated, u64>,
    /// Bytes of the server's certificates, of the longest chain.
    pub chain_bytes: u64,
    /// Failed connections by cause.
    pub failures: BTreeMap<String, u64>,
    /// The first failure, as a sentence.
    pub first_failure: Option<String>,
}

/// The parameters of a TLS connection, by the names of TLS's registries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Negotiated {
    /// The version, such as `TLSv1.3`.
    pub version: String,
    /// The cipher suite.
    pub suite: String,
    /// The group of the key exchange; `null` where a session of TLS 1.2 was resumed, which has
    /// none.
    pub group: Option<String>,
    /// The application protocol; `null` if none was negotiated.
    pub alpn: Option<String>,
}

/// The TLS handshakes of a trial in the result document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TlsSummary {
    /// From the established TCP connection to the completed handshake.
    pub handshake_us: Summary,
    /// From the attempt to connect to the completed handshake.
    #[serde(default)]
    pub ready_us: Summary,
    /// Full handshakes.
    pub full: u64,
    /// Of them, those with a second hello because the server chose another group.
    pub retried: u64,
    /// Resumed sessions.
    pub resumed: u64,
    /// Negotiated parameters, the most frequent first.
    pub negotiated: Vec<NegotiatedCount>,
    /// Bytes of the server's certificates, of the longest chain; 0 if all sessions were resumed
    /// ones of TLS 1.2.
    pub chain_bytes: u64,
    /// Failed connections by cause: `certificate_` and the fault, `alert_` and its name, or the
    /// kind of failure.
    pub failures: BTreeMap<String, u64>,
    /// The first failure, as a sentence.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_failure: Option<String>,
}

/// Parameters, and the handshakes that negotiated them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NegotiatedCount {
    /// The parameters.
    #[serde(flatten)]
    pub parameters: Negotiated,
    /// The handshakes.
    pub handshakes: u64,
}

impl TlsFigures {
    /// Counts a connection that has failed in TLS, with a sentence on it.
    pub fn record_failure(&mut self, cause: &str, sentence: &str) {
        let is_told_apart = self.failures.len() < CAUSES_MAX || self.failures.contains_key(cause);
        let cause = if is_told_apart { cause } else { "other" };
        *self.failures.entry(cause.to_owned()).or_default() += 1;
        if self.first_failure.is_none() {
            self.first_failure = Some(sentence.to_owned());
        }
    }

    /// Adds the handshakes of another load thread.
    pub fn merge(&mut self, other: &Self) {
        self.handshake.merge(&other.handshake);
        self.ready.merge(&other.ready);
        self.full += other.full;
        self.retried += other.retried;
        self.resumed += other.resumed;
        for (parameters, handshakes) in &other.negotiated {
            *self.negotiated.entry(parameters.clone()).or_default() += handshakes;
        }
        self.chain_bytes = self.chain_bytes.max(other.chain_bytes);
        for (cause, count) in &other.failures {
            *self.failures.entry(cause.clone()).or_default() += count;
        }
        if self.first_failure.is_none() {
            self.first_failure.clone_from(&other.first_failure);
        }
    }

    /// The figures as the result document has them.
    pub fn summary(&self) -> TlsSummary {
        let counted = |(parameters, handshakes): (&Negotiated, &u64)| NegotiatedCount {
            parameters: parameters.clone(),
            handshakes: *handshakes,
        };
        let mut negotiated: Vec<_> = self.negotiated.iter().map(counted).collect();
        negotiated.sort_by_key(|entry| std::cmp::Reverse(entry.handshakes));
        TlsSummary {
            handshake_us: self.handshake.summary(),
            ready_us: self.ready.summary(),
            full: self.full,
            retried: self.retried,
            resumed: self.resumed,
            negotiated,
            chain_bytes: self.chain_bytes,
            failures: self.failures.clone(),
            first_failure: self.first_failure.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handshakes_of_threads_add_up_and_the_most_frequent_come_first() {
        let parameters = |version: &str| Negotiated {
            version: version.into(),
            suite: "TLS_AES_128_GCM_SHA256".into(),
            group: None,
            alpn: Some("h2".into()),
        };
        let mut merged = TlsFigures { full: 1, chain_bytes: 900, ..TlsFigures::default() };
        merged.negotiated.insert(parameters("TLSv1.2"), 1);
        merged.record_failure("certificate_expired", "it has expired");
        let mut other = TlsFigures { full: 1, resumed: 4, chain_bytes: 500, ..TlsFigures::default() };
        other.negotiated.insert(parameters("TLSv1.3"), 5);
        other.record_failure("certificate_expired", "later");
        merged.merge(&other);
        let summary = merged.summary();
        assert_eq!((summary.full, summary.resumed, summary.chain_bytes), (2, 4, 900));
        assert_eq!(summary.negotiated[0].handshakes, 5);
        assert_eq!(summary.failures["certificate_expired"], 2);
        assert_eq!(summary.first_failure.as_deref(), Some("it has expired"));
    }

    #[test]
    fn causes_are_bounded() {
        let mut figures = TlsFigures::default();
        for cause in 0..1000 {
            figures.record_failure(&format!("cause {cause}"), "");
        }
        assert_eq!(figures.failures.len(), CAUSES_MAX + 1);
        assert_eq!(figures.failures.values().sum::<u64>(), 1000);
    }
}
