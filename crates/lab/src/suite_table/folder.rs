//! The folder of a table: one file for each cell, written whole or not at all.
//!
//! ```text
//! FOLDER/lock               held by the process that works on it
//! FOLDER/cells/SUITE.SERVER.json
//! FOLDER/trees/...          unless the trees are elsewhere
//! FOLDER/report.html, table.tsv
//! ```

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use thalweg_report::cell::Cell;
use thalweg_report::document::SuiteName;
use thalweg_report::file::write_whole;

use crate::servers::file_name;

/// An open folder, which no other process works on.
#[derive(Debug)]
pub struct TableFolder {
    path: PathBuf,
    /// Released by the kernel with the process, however that ends.
    _lock: File,
}

/// The reasons why a folder cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// It has results.
    #[error("{} has results of an earlier table; --resume goes on with it, or choose another folder by --out", .0.display())]
    HasResults(PathBuf),
    /// There is nothing to go on with.
    #[error("{} has no results to go on with; leave out --resume", .0.display())]
    HasNone(PathBuf),
    /// Another process works on it.
    #[error("another process works on {}; wait for its end, or choose another folder by --out", .0.display())]
    Locked(PathBuf),
    /// It cannot be read or written.
    #[error("cannot use the folder {}: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl TableFolder {
    /// Opens a folder for a new table, or one that goes on.
    ///
    /// # Errors
    /// See [`FolderError`].
    pub fn open(path: &Path, resume: bool) -> Result<Self, FolderError> {
        let failed = |source| FolderError::Io { path: path.to_owned(), source };
        let cells = path.join("cells");
        let is_table = cells.is_dir();
        let has_results = is_table && fs::read_dir(&cells).map_err(failed)?.next().is_some();
        match resume {
            false if has_results => return Err(FolderError::HasResults(path.to_owned())),
            // A full disk may have left a table without a cell.
            true if !is_table => return Err(FolderError::HasNone(path.to_owned())),
            _ => fs::create_dir_all(&cells).map_err(failed)?,
        }
        let lock = File::create(path.join("lock")).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FolderError::Locked(path.to_owned())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let path = fs::canonicalize(path).map_err(failed)?;
        Ok(Self { path, _lock: lock })
    }

    /// Its path, absolute.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Keeps a cell, in place of an earlier one.
    ///
    /// # Errors
    /// The disk is full, or the folder has gone.
    pub fn keep(&self, cell: &Cell) -> io::Result<()> {
        let json = serde_json::to_vec(cell).expect("cells have nothing that JSON lacks");
        write_whole(&self.cell_path(cell.suite, &cell.server), &json)
    }

    /// The kept cell of a suite and a server. One that cannot be read is none: it is measured
    /// again.
    pub fn cell(&self, suite: SuiteName, server: &str) -> Option<Cell> {
        let json = fs::read(self.cell_path(suite, server)).ok()?;
        serde_json::from_slice(&json).ok()
    }

    fn cell_path(&self, suite: SuiteName, server: &str) -> PathBuf {
        self.path.join("cells").join(format!("{suite}.{}.json", file_name(server)))
    }
}

#[cfg(test)]
mod tests {
    use thalweg_report::cell::CellState;

    use super::*;

    fn cell(key: &str) -> Cell {
        Cell {
            suite: SuiteName::AcmeSmall,
            server: "Apache event".into(),
            key: key.into(),
            state: CellState::Failed,
            reasons: vec!["it has ended".into()],
            started: "2026-01-01T00:00:00Z".into(),
            seconds: 1.5,
            server_facts: None,
            client_cpus: vec![1],
            choices: Vec::new(),
            document: None,
        }
    }

    #[test]
    fn a_folder_goes_on_only_when_asked_to() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("table");
        assert!(matches!(TableFolder::open(&path, true), Err(FolderError::HasNone(_))));
        let folder = TableFolder::open(&path, false).unwrap();
        assert!(matches!(TableFolder::open(&path, false), Err(FolderError::Locked(_))));
        folder.keep(&cell("a")).unwrap();
        folder.keep(&cell("b")).unwrap();
        drop(folder);
        assert!(matches!(TableFolder::open(&path, false), Err(FolderError::HasResults(_))));
        let folder = TableFolder::open(&path, true).unwrap();
        assert_eq!(folder.cell(SuiteName::AcmeSmall, "Apache event"), Some(cell("b")));
        assert_eq!(folder.cell(SuiteName::AcmeBig, "Apache event"), None);
        fs::write(path.join("cells/acme-small.Apache-event.json"), "{").unwrap();
        assert_eq!(folder.cell(SuiteName::AcmeSmall, "Apache event"), None);
    }
}
