//! The errors with which a server does not start, or ends.

use std::io;
use std::path::PathBuf;

use crate::catalog::check::ConfigFault;
use crate::catalog::error::CatalogError;
use crate::config::ListenAddr;
use crate::server::tls_error::TlsError;
use crate::telemetry::log::OpenError;

/// The reason why a server could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// There is nothing to listen on.
    #[error("no address to listen on")]
    NoAddress,
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(ConfigFault),
    /// A site cannot be opened.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// TLS cannot be spoken.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A log cannot be written.
    #[error("cannot open the log {}: {error}", path.display())]
    Log {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// An address cannot be had.
    #[error("cannot listen on {address}: {error}")]
    Listen {
        /// The address.
        address: ListenAddr,
        /// Why.
        error: io::Error,
    },
    /// A thread cannot run on the CPU that it was meant for.
    #[error("cannot run on CPU {cpu}: {error}")]
    Pin {
        /// The CPU.
        cpu: usize,
        /// Why.
        error: io::Error,
    },
    /// The driver was refused by the kernel.
    #[error("cannot open the I/O driver: {0}")]
    Driver(io::Error),
    /// The process or host has no thread or descriptor left.
    #[error("cannot start a loop: {0}")]
    Loop(io::Error),
}

impl From<OpenError> for StartError {
    fn from(OpenError { path, error }: OpenError) -> Self {
        Self::Log { path, error }
    }
}

/// The reason why a server ended that was not stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The driver of a loop has become unusable.
    #[error("the I/O driver failed: {0}")]
    Driver(#[from] io::Error),
    /// A loop has met a broken invariant.
    #[error("a loop has panicked: {0}")]
    Panicked(String),
}
