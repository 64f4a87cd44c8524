//! Challenges (RFC 8555, 8): ways to prove the control of a name.

use std::fmt;

/// A way to prove the control of a name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ChallengeKind {
    /// A file over plain HTTP on port 80 (RFC 8555, 8.3).
    Http01,
    /// A certificate in a TLS handshake on port 443 (RFC 8737).
    TlsAlpn01,
}

impl fmt::Display for ChallengeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http01 => "http-01",
            Self::TlsAlpn01 => "tls-alpn-01",
        })
    }
}

/// A challenge that the server answers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Challenge {
    /// By [`http_challenge`](crate::Host::http_challenge).
    Http {
        /// The token in the URL's path.
        token: String,
    },
    /// By [`alpn_challenge`](crate::Host::alpn_challenge).
    Alpn {
        /// The name that the handshake asks for.
        name: String,
    },
}
