//! The files that a configuration names for both logs, open.

use std::io;
use std::path::PathBuf;

use super::sink::Sink;
use crate::config::{LogConfig, LogTarget};

/// Both logs' files.
#[derive(Debug)]
pub(crate) struct LogFiles {
    pub(super) config: LogConfig,
    pub(super) access: Option<Sink>,
    pub(super) errors: Sink,
}

/// A log that cannot be opened.
#[derive(Debug)]
pub(crate) struct OpenError {
    pub(crate) path: PathBuf,
    pub(crate) error: io::Error,
}

impl LogFiles {
    /// Opens the files, to append to them.
    ///
    /// # Errors
    /// One cannot be opened.
    pub(crate) fn open(config: &LogConfig) -> Result<Self, OpenError> {
        let open = |target: &LogTarget| {
            Sink::open(target.clone()).map_err(|error| OpenError { path: target.to_string().into(), error })
        };
        let access = config.access.as_ref().map(open).transpose()?;
        Ok(Self { config: config.clone(), access, errors: open(&config.error)? })
    }
}
