//! Settings that cannot be had.

use std::io;

/// The reason for which settings cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A text is no PEM, or lacks a part.
    #[error("{0}")]
    Pem(String),
    /// Certificate and key do not belong together, or the key is of an unsupported kind.
    #[error("{0}")]
    Key(String),
    /// A name is unknown.
    #[error("{what} {name:?} is not known; known are {known}")]
    Unknown {
        /// The kind of name: `group`, `suite` or `version`.
        what: &'static str,
        /// The name.
        name: String,
        /// All known ones, with commas.
        known: String,
    },
    /// The choice of versions, suites and groups leaves nothing to negotiate.
    #[error("{0}")]
    Selection(String),
    /// There is no certificate at all.
    #[error("there is no certificate to serve with")]
    NoCertificate,
    /// The trusted authorities cannot be had.
    #[error("{0}")]
    Roots(String),
    /// A name cannot be a server's.
    #[error("{0:?} is neither a host name nor an IP address")]
    Name(String),
    /// The system has no randomness, or another call has failed.
    #[error("{0}")]
    System(#[from] io::Error),
}
