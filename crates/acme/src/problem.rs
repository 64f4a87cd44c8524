//! Failures by kind: of the state directory, of the way to the authority, and its refusals.

use std::path::PathBuf;
use std::time::SystemTime;

use thiserror::Error;

use crate::challenge::ChallengeKind;

/// Why there is no (new) certificate. `Display` says what failed, on what, and what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum Problem {
    /// A setting makes no sense.
    #[error("{0}")]
    Settings(String),
    /// The file of trusted authorities cannot be used.
    #[error("{}: {error}; expected certificates in PEM, of the authorities that sign the directory's own", path.display())]
    Roots {
        /// The file.
        path: PathBuf,
        /// The system's message, or how it is malformed.
        error: String,
    },
    /// A file or folder of the state directory cannot be used.
    #[error("{}: {error}; the state directory is for this server alone, and its user must be able to write there", path.display())]
    State {
        /// Which one.
        path: PathBuf,
        /// The system's message, or how it is malformed.
        error: String,
    },
    /// Another process uses the state directory.
    #[error("{}: another process uses this state directory; give each server its own", path.display())]
    Locked {
        /// The state directory.
        path: PathBuf,
    },
    /// The authority does not answer: no address, no route, a refused connection, silence.
    #[error("{url}: {error}; the server must be able to reach it, directly or by the proxy that HTTPS_PROXY names")]
    Unreachable {
        /// The URL asked for.
        url: String,
        /// How it failed.
        error: String,
    },
    /// The certificate of the authority's own server is not trusted, or there is no TLS.
    #[error(
        "{url}: no trusted TLS connection: {error}; a private authority needs its root certificate named as a PEM file"
    )]
    Tls {
        /// The URL asked for.
        url: String,
        /// How it failed.
        error: String,
    },
    /// The answer is none of ACME.
    #[error("{url}: the answer is not one of an ACME server: {error}; check the URL of the directory")]
    Malformed {
        /// The URL asked for.
        url: String,
        /// How it is malformed.
        error: String,
    },
    /// The authority's server has an error of its own, or is being maintained.
    #[error("{url}: the authority has an error of its own (status {status}): {detail}")]
    Unavailable {
        /// The URL asked for.
        url: String,
        /// The HTTP status.
        status: u16,
        /// The authority's words.
        detail: String,
        /// When it suggests to come back.
        retry_after: Option<SystemTime>,
    },
    /// The authority does not know the account, or does not accept it any more.
    #[error("the authority does not accept the account any more: {detail}")]
    AccountGone {
        /// The authority's words.
        detail: String,
    },
    /// The authority has had too many requests, orders or failures.
    #[error("the authority limits the rate: {detail}")]
    RateLimited {
        /// The authority's words.
        detail: String,
        /// When it suggests to come back.
        retry_after: Option<SystemTime>,
    },
    /// The authority could not confirm the control of a name.
    #[error("{name}: the authority could not verify it by {kind}: {detail}; {}", needed(*kind))]
    Challenge {
        /// The name.
        name: String,
        /// How it was tried.
        kind: ChallengeKind,
        /// The authority's words.
        detail: String,
    },
    /// The authority offers no challenge that this server can answer.
    #[error("{name}: the authority offers no challenge that this server can answer, only {offered}")]
    NoChallenge {
        /// The name.
        name: String,
        /// The kinds that it offers.
        offered: String,
    },
    /// The authority refuses a request.
    #[error("the authority refuses {operation}: {detail} ({kind}){}", advice(kind))]
    Refused {
        /// The request, as a noun.
        operation: &'static str,
        /// The last part of the error's URN (RFC 8555, 6.7).
        kind: String,
        /// The authority's words.
        detail: String,
    },
    /// The authority did not get on with an order in time.
    #[error("{url}: the authority has not finished {operation} after {seconds} s")]
    Slow {
        /// The order.
        url: String,
        /// The awaited step, as a noun.
        operation: &'static str,
        /// How long.
        seconds: u64,
    },
    /// The server has not taken a challenge or a certificate.
    #[error("the server has not taken {what}: {error}")]
    Host {
        /// A challenge or a certificate.
        what: &'static str,
        /// The server's words.
        error: String,
    },
}

impl Problem {
    /// It may be over soon without anybody doing anything.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Unavailable { .. } | Self::Slow { .. } | Self::Host { .. })
    }
}

/// The condition for challenges of this kind to succeed.
fn needed(kind: ChallengeKind) -> &'static str {
    match kind {
        ChallengeKind::Http01 => "port 80 of this name must lead to this server, from everywhere",
        ChallengeKind::TlsAlpn01 => {
            "port 443 of this name must lead to this server, from everywhere, with nothing between that ends TLS"
        }
    }
}

/// Advice on refusals of this kind (RFC 8555, 6.7), to be appended.
fn advice(kind: &str) -> &'static str {
    match kind {
        "externalAccountRequired" => {
            "; it wants accounts to be made beforehand (external account binding), which is not supported: choose \
             another authority"
        }
        "userActionRequired" => "; follow what it demands, then the next attempt succeeds",
        "invalidContact" | "unsupportedContact" => "; change the contact address",
        "caa" => "; allow this authority in the CAA records of the name",
        "rejectedIdentifier" | "unsupportedIdentifier" => "; leave the name out",
        _ => "",
    }
}

/// The longest text of an authority that is passed on.
const TEXT_MAX: usize = 1000;

/// A text of an authority as one line without control characters, shortened if it is long.
pub(crate) fn printable(text: &str) -> String {
    let words = text.split(|character: char| character.is_whitespace() || character.is_control());
    let line = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}...", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_an_authority_are_one_line() {
        let check = |text: &str, expected: &str| assert_eq!(printable(text), expected);
        check("no such domain", "no such domain");
        check(" two\r\nlines\x1b[31m ", "two lines [31m");
        check(&"é".repeat(2000), &format!("{}...", "é".repeat(1000)));
    }
}
