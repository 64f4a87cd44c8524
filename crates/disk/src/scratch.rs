//! The folder of a run, beneath the one that is measured, and those of runs that were killed.
//!
//! A folder is ours if it has our name and a lock file of ours that nobody has locked: nothing else
//! is ever removed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How the folder's name begins; the process's number follows.
const PREFIX: &str = "thalweg-disk.";

/// The file in it that the run keeps locked.
const LOCK: &str = "lock";

/// The content of that file.
const MARK: &str = "A folder of `thalweg disk`. It may be removed while no such run is under way.\n";

/// A folder that is removed with everything in it.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    _lock: File,
}

/// A folder of another run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Its run was killed; it is removed now.
    Removed(PathBuf),
    /// Its run was killed, and it cannot be removed.
    Stays(PathBuf, String),
    /// Its run is under way.
    Running(PathBuf),
}

impl Scratch {
    /// Makes the folder.
    ///
    /// # Errors
    /// The parent does not exist, is not writable or full.
    pub(crate) fn new(parent: &Path) -> io::Result<Self> {
        let path = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path)?;
        let made = locked_mark(&path);
        if made.is_err() {
            // The first error is reported.
            let _ = fs::remove_dir_all(&path);
        }
        made.map(|lock| Self { path, _lock: lock })
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder that stays is found and reported by the next run.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn locked_mark(folder: &Path) -> io::Result<File> {
    let mut lock = File::create_new(folder.join(LOCK))?;
    lock.lock()?;
    lock.write_all(MARK.as_bytes())?;
    Ok(lock)
}

/// Removes the folders of runs that were killed, and tells of those and of others.
///
/// # Errors
/// The parent cannot be read.
pub(crate) fn others(parent: &Path) -> io::Result<Vec<Other>> {
    let mut others = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_ours = number.is_some_and(|number| number.parse::<u32>().is_ok());
        // The type of a link is that of the link itself: it is not followed.
        if is_ours && entry.file_type()?.is_dir() {
            others.extend(other(entry.path()));
        }
    }
    Ok(others)
}

fn other(path: PathBuf) -> Option<Other> {
    let lock = File::open(path.join(LOCK)).ok()?;
    if !fs::read_to_string(path.join(LOCK)).is_ok_and(|mark| MARK.starts_with(&mark)) {
        return None;
    }
    Some(match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Other::Running(path),
        Err(TryLockError::Error(error)) => Other::Stays(path, error.to_string()),
        Ok(()) => match fs::remove_dir_all(&path) {
            Ok(()) => Other::Removed(path),
            Err(error) => Other::Stays(path, error.to_string()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_killed_runs_are_removed_and_no_others() {
        let parent = tempfile::tempdir().expect("a temporary folder can be made");
        let at = |name: &str| parent.path().join(name);
        let killed = at("thalweg-disk.1");
        fs::create_dir(&killed).expect("a folder can be made");
        fs::write(killed.join(LOCK), MARK).expect("a file can be written");
        fs::write(killed.join("data"), "x").expect("a file can be written");
        let strange = [at("thalweg-disk.2"), at("thalweg-disk.mine"), at("thalweg-disk")];
        for folder in &strange {
            fs::create_dir(folder).expect("a folder can be made");
        }
        fs::write(strange[0].join(LOCK), "something else").expect("a file can be written");
        let running = Scratch::new(parent.path()).expect("the folder can be made");
        let mut found = others(parent.path()).expect("the folder can be read");
        found.sort_by_key(|other| matches!(other, Other::Running(_)));
        assert_eq!(found, [Other::Removed(killed.clone()), Other::Running(running.path().to_owned())]);
        assert!(!killed.exists() && strange.iter().all(|folder| folder.exists()));
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists());
    }
}
