//! The errors of opening what TLS needs.

use std::io;
use std::path::PathBuf;

use thalweg_tls::SettingsError;

/// The reason for which TLS cannot be spoken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The content of files is of no use.
    #[error("{}: {error}", path.display())]
    File {
        /// The file, or the first of the two.
        path: PathBuf,
        /// Why.
        error: SettingsError,
    },
    /// The settings contradict each other.
    #[error("tls: {0}")]
    Settings(#[from] SettingsError),
    /// The system has no randomness.
    #[error("cannot make keys for TLS: {0}")]
    Keys(#[from] io::Error),
}
