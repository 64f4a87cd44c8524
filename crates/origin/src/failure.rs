//! Failures of attempts and of fetches: their kind, for counters and decisions, and a text for a
//! person.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

/// The kind of a failure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FailureKind {
    /// The request cannot be sent to this origin: its path or a field is not valid.
    Request,
    /// The origin's limit of requests is reached, and so is that of waiting ones.
    Overloaded,
    /// The origin is not asked at present, after failures.
    Down,
    /// There are no credentials, or they cannot be read.
    Credentials,
    /// The origin's name has no address.
    Unresolved,
    /// All addresses refused the connection.
    Refused,
    /// No address can be reached.
    Unreachable,
    /// The TLS handshake failed.
    Tls,
    /// A time limit passed.
    Timeout(Phase),
    /// The head of the response is longer than the limit.
    HeadTooLarge,
    /// The response violates its protocol.
    Protocol,
    /// The connection was closed before the head of the response was complete.
    Closed,
    /// The body of the response ended early.
    CutOff,
    /// The response has a status that says that the origin failed (500, 502, 503 or 504).
    Status,
    /// Reading from a local tree failed.
    Read,
    /// The origin does not list the path.
    NotListed,
}

/// The phase of an attempt whose time limit passed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Phase {
    /// Waiting for other requests to the same origin.
    Queue,
    /// Resolving the name.
    Resolve,
    /// Connecting.
    Connect,
    /// The TLS or HTTP/2 handshake.
    Handshake,
    /// Sending the request and waiting for the head of the response.
    Head,
    /// Waiting for the next bytes of the body.
    Body,
}

impl FailureKind {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 21] = [
        Self::Request,
        Self::Overloaded,
        Self::Down,
        Self::Credentials,
        Self::Unresolved,
        Self::Refused,
        Self::Unreachable,
        Self::Tls,
        Self::Timeout(Phase::Queue),
        Self::Timeout(Phase::Resolve),
        Self::Timeout(Phase::Connect),
        Self::Timeout(Phase::Handshake),
        Self::Timeout(Phase::Head),
        Self::Timeout(Phase::Body),
        Self::HeadTooLarge,
        Self::Protocol,
        Self::Closed,
        Self::CutOff,
        Self::Status,
        Self::Read,
        Self::NotListed,
    ];

    /// A name for metrics: lower case with underscores.
    pub fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Overloaded => "overloaded",
            Self::Down => "down",
            Self::Credentials => "credentials",
            Self::Unresolved => "unresolved",
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Tls => "tls",
            Self::Timeout(Phase::Queue) => "timeout_queue",
            Self::Timeout(Phase::Resolve) => "timeout_resolve",
            Self::Timeout(Phase::Connect) => "timeout_connect",
            Self::Timeout(Phase::Handshake) => "timeout_handshake",
            Self::Timeout(Phase::Head) => "timeout_head",
            Self::Timeout(Phase::Body) => "timeout_body",
            Self::HeadTooLarge => "head_too_large",
            Self::Protocol => "protocol",
            Self::Closed => "closed",
            Self::CutOff => "cut_off",
            Self::Status => "status",
            Self::Read => "read",
            Self::NotListed => "not_listed",
        }
    }

    /// Its place in [`ALL`](Self::ALL).
    pub(crate) fn index(self) -> usize {
        Self::ALL.iter().position(|kind| *kind == self).expect("all kinds are listed")
    }

    /// Whether the failure says that the origin itself is in trouble, as opposed to the request, to
    /// this side's limits, or to its settings.
    pub(crate) fn is_of_origin(self) -> bool {
        !matches!(
            self,
            Self::Request
                | Self::Overloaded
                | Self::Down
                | Self::Credentials
                | Self::Timeout(Phase::Queue)
                | Self::NotListed
        )
    }
}

/// A failure of one attempt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Its kind.
    pub kind: FailureKind,
    text: Arc<str>,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, text: impl Into<Arc<str>>) -> Self {
        Self { kind, text: text.into() }
    }

    pub(crate) fn timeout(phase: Phase, text: impl Into<Arc<str>>) -> Self {
        Self::new(FailureKind::Timeout(phase), text)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// One attempt of a fetch that gave no answer, or one that was passed over for the next origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attempt {
    /// The origin's name.
    pub origin: Arc<str>,
    /// The address that it was connected to, if it was.
    pub address: Option<SocketAddr>,
    /// The connection had carried requests before.
    pub is_reused: bool,
    /// The failure.
    pub failure: Failure,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "origin {}", self.origin)?;
        if let Some(address) = self.address {
            write!(f, " ({address}{})", if self.is_reused { ", a kept connection" } else { "" })?;
        }
        write!(f, ": {}", self.failure)
    }
}

/// The failure of a fetch or of a listing: no origin gave an answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchError {
    /// The method and the path that were asked for.
    pub asked: String,
    /// All attempts in their order; at least one.
    pub attempts: Vec<Attempt>,
}

impl FetchError {
    /// The kind of the last attempt's failure.
    pub fn kind(&self) -> FailureKind {
        self.attempts.last().map_or(FailureKind::Down, |attempt| attempt.failure.kind)
    }
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} failed", self.asked)?;
        for (index, attempt) in self.attempts.iter().enumerate() {
            write!(f, "{} {attempt}", if index == 0 { ":" } else { "; then" })?;
        }
        Ok(())
    }
}

impl std::error::Error for FetchError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names.len(), FailureKind::ALL.len());
        for (index, kind) in FailureKind::ALL.iter().enumerate() {
            assert_eq!(kind.index(), index, "{}", kind.name());
        }
    }

    #[test]
    fn an_error_tells_all_attempts() {
        let attempt = |origin: &str, address: Option<&str>, is_reused, text: &str| Attempt {
            origin: origin.into(),
            address: address.map(|address| address.parse().unwrap()),
            is_reused,
            failure: Failure::new(FailureKind::Closed, text),
        };
        let error = FetchError {
            asked: "GET /a".into(),
            attempts: vec![
                attempt("one", Some("127.0.0.1:80"), true, "it was closed"),
                attempt("two", None, false, "no address"),
            ],
        };
        assert_eq!(
            error.to_string(),
            "GET /a failed: origin one (127.0.0.1:80, a kept connection): it was closed; then origin two: no address"
        );
    }
}
