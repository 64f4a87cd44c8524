//! The state directory: locked by one process, its files replaced as a whole.
//!
//! A file is written beside its place, brought to the disk, and renamed; so each name has all of an
//! old or all of a new version, whenever the process or the machine stops. Files have mode 0600.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::Builder;

use crate::problem::Problem;

const LOCK: &str = "lock";

/// The end of the names of files that are being written.
const UNFINISHED: &str = ".unfinished";

/// An own, locked state directory.
#[derive(Debug)]
pub(crate) struct StateDirectory {
    path: PathBuf,
    /// The lock lasts as long as this is open.
    _lock: File,
}

impl StateDirectory {
    /// Locks a directory, which is created with mode 0700 if there is none, and removes what was
    /// being written when a process was killed.
    pub(crate) fn open(path: &Path) -> Result<Self, Problem> {
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(|error| problem(path, &error))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(&lock_path);
        let lock = lock.map_err(|error| problem(&lock_path, &error))?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => Problem::Locked { path: path.into() },
            fs::TryLockError::Error(error) => problem(&lock_path, &error),
        })?;
        let directory = Self { path: path.into(), _lock: lock };
        directory.remove_unfinished().map_err(|error| problem(path, &error))?;
        Ok(directory)
    }

    fn remove_unfinished(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            if entry.file_name().as_encoded_bytes().ends_with(UNFINISHED.as_bytes()) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// The path of one of its files.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The content of a file, `None` if there is none.
    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>, Problem> {
        let path = self.path(name);
        match fs::read(&path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(problem(&path, &error)),
        }
    }

    /// A value from a file in JSON, `None` if there is none.
    pub(crate) fn read_value<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Problem> {
        let malformed = |error: serde_json::Error| Problem::State { path: self.path(name), error: error.to_string() };
        self.read(name)?.map(|content| serde_json::from_slice(&content).map_err(malformed)).transpose()
    }

    /// Replaces a file. When this returns, it is on the disk.
    pub(crate) fn write(&self, name: &str, content: &[u8]) -> Result<(), Problem> {
        let path = self.path(name);
        let replace = || -> io::Result<()> {
            let mut file = Builder::new().prefix(name).suffix(UNFINISHED).tempfile_in(&self.path)?;
            file.write_all(content)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            self.sync()
        };
        replace().map_err(|error| problem(&path, &error))
    }

    /// Replaces a file by a value in JSON.
    pub(crate) fn write_value(&self, name: &str, value: &impl Serialize) -> Result<(), Problem> {
        let mut content = serde_json::to_vec_pretty(value).expect("the values kept here can be written in JSON");
        content.push(b'\n');
        self.write(name, &content)
    }

    /// Removes a file, if there is one.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Problem> {
        let path = self.path(name);
        match fs::remove_file(&path) {
            Ok(()) => self.sync().map_err(|error| problem(&path, &error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(problem(&path, &error)),
        }
    }

    /// Brings changed names to the disk.
    fn sync(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }
}

fn problem(path: &Path, error: &io::Error) -> Problem {
    Problem::State { path: path.into(), error: error.to_string() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_is_replaced_as_a_whole() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let state = StateDirectory::open(&folder.path().join("a/b")).expect("it can be made");
        assert_eq!(state.read("file"), Ok(None));
        state.write("file", b"old").expect("it can be written");
        let old = File::open(state.path("file")).expect("it is there");
        state.write("file", b"new").expect("it can be written");
        assert_eq!(state.read("file"), Ok(Some(b"new".to_vec())));
        assert_eq!(io::read_to_string(old).expect("it is a text"), "old", "the old version is as it was");
        state.remove("file").expect("it can be removed");
        state.remove("file").expect("none is as good");
        assert_eq!(state.read("file"), Ok(None));
    }

    #[test]
    fn what_was_being_written_is_removed_at_the_next_start() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let unfinished = folder.path().join("certificate.pemXb3Tz.unfinished");
        fs::write(&unfinished, "-----BEGIN").expect("it can be written");
        let state = StateDirectory::open(folder.path()).expect("it is a folder");
        assert!(!unfinished.exists());
        assert_eq!(state.read("certificate.pem"), Ok(None));
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_named() {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let path = folder.path().join("file");
        fs::write(&path, "").expect("it can be written");
        let problem = StateDirectory::open(&path.join("state")).expect_err("it is below a file");
        assert!(problem.to_string().starts_with(&format!("{}: ", path.join("state").display())), "{problem}");
        let state = StateDirectory::open(folder.path()).expect("it is a folder");
        state.write("value.json", b"{").expect("it can be written");
        assert!(matches!(state.read_value::<String>("value.json"), Err(Problem::State { .. })));
        let mode = fs::metadata(state.path("value.json")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
