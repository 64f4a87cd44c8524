//! The choices of the operator.

use std::fmt;
use std::path::PathBuf;

/// The directory of Let's Encrypt, the default authority.
pub const LETS_ENCRYPT: &str = "https://acme-v02.api.letsencrypt.org/directory";

/// The directory of Let's Encrypt for trying things out: its limits are generous and browsers do
/// not trust its certificates.
pub const LETS_ENCRYPT_STAGING: &str = "https://acme-staging-v02.api.letsencrypt.org/directory";

/// The choices of the operator. With an ACME client the operator agrees to the terms of service of
/// the authority (RFC 8555, 7.3): the client sends the agreement with the account.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settings {
    /// The URL of the authority's directory (RFC 8555, 7.1.1), `https` alone.
    pub directory: String,
    /// Authorities that sign the directory's own certificate, as a file in PEM, for a private ACME
    /// server; `None` stands for those of the system.
    pub roots: Option<PathBuf>,
    /// The host names of the certificate, at least one.
    pub names: Vec<String>,
    /// Where the authority may write to: URLs such as `mailto:admin@example.org` (RFC 8555, 7.3).
    pub contact: Vec<String>,
    /// The folder of the account, the certificate and its key. It is created with mode 0700.
    pub state: PathBuf,
    /// The kinds of challenges that the server can answer, the preferred one first, at least one.
    /// After one has failed, the next one is tried.
    pub challenges: Vec<ChallengeKind>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            directory: LETS_ENCRYPT.into(),
            roots: None,
            names: Vec::new(),
            contact: Vec::new(),
            state: PathBuf::new(),
            challenges: vec![ChallengeKind::TlsAlpn01, ChallengeKind::Http01],
        }
    }
}

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
