//! The faults of a store, as a user can act on them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no place for it.
    #[error("neither XDG_DATA_HOME nor HOME is set, so the run store has no place; use --store PATH")]
    NoHome,
    /// A newer version of this program has written it.
    #[error(
        "the run store {} was written by a newer version of thalweg (format {found}, this one knows {known}); it was left \
         unchanged; use that version, or another store with --store PATH",
        path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
        /// The latest version that is known here.
        known: i64,
    },
    /// The file is no store, or parts of it were overwritten.
    #[error("the run store {} is damaged: {what}; move it away, or use another one with --store PATH", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// The disk has no room.
    #[error("the disk with the run store {} is full", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// The file or its folder cannot be written to.
    #[error("the run store {} cannot be written to: {what}; use another one with --store PATH", path.display())]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// Another process has written for longer than this one waits.
    #[error("the run store {} is in use by another process", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// Another fault.
    #[error("cannot use the run store {}: {what}", path.display())]
    Other {
        /// The file.
        path: PathBuf,
        /// The fault.
        what: String,
    },
    /// No run has this name.
    #[error("no run {name:?} is in the store {}; \"thalweg runs\" lists them", path.display())]
    Unknown {
        /// The name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// Several runs have ids that begin like this.
    #[error("{name:?} may be each of these runs: {}", ids.join(", "))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their ids.
        ids: Vec<String>,
    },
}

/// Whether the disk with the store has no room for a page.
fn is_full(path: &Path) -> bool {
    let probe = path.with_extension(format!("{}.probe", std::process::id()));
    let written = fs::write(&probe, [0; 4096]);
    // It may not have been made.
    let _ = fs::remove_file(&probe);
    written.is_err_and(|error| error.kind() == io::ErrorKind::StorageFull)
}

impl StoreError {
    pub(crate) fn of(path: &Path, error: rusqlite::Error) -> Self {
        let (path, what) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full { path },
            // SQLite has no other word for a log that cannot grow.
            Some(ErrorCode::SystemIoFailure) if is_full(&path) => Self::Full { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                Self::ReadOnly { path, what }
            }
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => Self::Damaged { path, what },
            // A file that is SQLite's but no store lacks its tables.
            Some(ErrorCode::Unknown) if what.contains("no such") => Self::Damaged { path, what },
            _ => Self::Other { path, what },
        }
    }

    pub(crate) fn folder(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull => Self::Full { path: path.to_owned() },
            _ => Self::ReadOnly { path: path.to_owned(), what: error.to_string() },
        }
    }
}
