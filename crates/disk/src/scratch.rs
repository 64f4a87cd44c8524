//! The folder of a run, beneath the one that is measured, and those of runs that were killed.
//!
//! A folder is ours if it has our name and a lock file of ours that nobody has locked: nothing else
//! is ever removed. The lock file goes last, so that what a second kill leaves is still ours.

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

/// A folder of another run, or with the name of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Other {
    /// Its run was killed; it is removed now.
    Removed(PathBuf),
    /// Its run was killed, and it cannot be removed.
    Stays(PathBuf, String),
    /// Its run is under way.
    Running(PathBuf),
    /// It has no lock file of a run: it is left as it is.
    Unknown(PathBuf),
}

impl Other {
    /// The folder's state in a sentence.
    pub(crate) fn sentence(&self) -> String {
        match self {
            Self::Removed(path) => format!("removed {}, which a run that was killed had left", path.display()),
            Self::Stays(path, why) => {
                format!("{}, which a run that was killed has left, cannot be removed: {why}", path.display())
            }
            Self::Running(path) => format!(
                "another run measures this folder at the same time (in {}): both have wrong figures",
                path.display()
            ),
            Self::Unknown(path) => format!(
                "{} has the name of a run's folder without a run's lock file and is left as it is; remove it if nothing \
                 in it is needed",
                path.display()
            ),
        }
    }
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
            let _ = remove(&path);
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
        let _ = remove(&self.path);
    }
}

/// Removes a folder of a run: everything else first, then the lock file, then the folder.
fn remove(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == LOCK {
            continue;
        }
        // A link is removed, not what it leads to.
        if entry.file_type()?.is_dir() { fs::remove_dir_all(entry.path()) } else { fs::remove_file(entry.path()) }?;
    }
    match fs::remove_file(folder.join(LOCK)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    fs::remove_dir(folder)
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
            others.push(other(entry.path()));
        }
    }
    Ok(others)
}

fn other(path: PathBuf) -> Other {
    let mark = fs::read_to_string(path.join(LOCK));
    let (Ok(lock), Ok(MARK)) = (File::open(path.join(LOCK)), mark.as_deref()) else {
        return Other::Unknown(path);
    };
    match lock.try_lock() {
        Err(TryLockError::WouldBlock) => Other::Running(path),
        Err(TryLockError::Error(error)) => Other::Stays(path, error.to_string()),
        Ok(()) => match remove(&path) {
            Ok(()) => Other::Removed(path),
            Err(error) => Other::Stays(path, error.to_string()),
        },
    }
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
        fs::create_dir(killed.join("sequential")).expect("a folder can be made");
        fs::write(killed.join("sequential/data"), "x").expect("a file can be written");
        let [foreign, empty, without] = [at("thalweg-disk.2"), at("thalweg-disk.3"), at("thalweg-disk.4")];
        let strange = [foreign, empty, without, at("thalweg-disk.mine"), at("thalweg-disk")];
        for folder in &strange {
            fs::create_dir(folder).expect("a folder can be made");
        }
        fs::write(strange[0].join(LOCK), "something else").expect("a file can be written");
        // A lock file of somebody else's program as a rule.
        fs::write(strange[1].join(LOCK), "").expect("a file can be written");
        let running = Scratch::new(parent.path()).expect("the folder can be made");
        let mut found = others(parent.path()).expect("the folder can be read");
        found.sort_by_key(Other::sentence);
        let mut expected = vec![Other::Removed(killed.clone()), Other::Running(running.path().to_owned())];
        expected.extend(strange[..3].iter().cloned().map(Other::Unknown));
        expected.sort_by_key(Other::sentence);
        assert_eq!(found, expected);
        assert!(!killed.exists() && strange.iter().all(|folder| folder.exists()));
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists());
    }

    #[test]
    fn the_lock_file_stays_while_anything_else_does() {
        use std::os::unix::fs::PermissionsExt;
        let parent = tempfile::tempdir().expect("a temporary folder can be made");
        let folder = parent.path().join("thalweg-disk.1");
        let closed = folder.join("closed");
        fs::create_dir_all(&closed).expect("a folder can be made");
        fs::write(folder.join(LOCK), MARK).expect("a file can be written");
        fs::write(closed.join("data"), "x").expect("a file can be written");
        let permit = |mode| fs::set_permissions(&closed, fs::Permissions::from_mode(mode));
        permit(0o500).expect("they can be changed");
        // Root may remove it all the same.
        let is_removed = remove(&folder).is_ok();
        assert_ne!(is_removed, folder.join(LOCK).exists());
        if !is_removed {
            permit(0o700).expect("they can be changed");
            assert_eq!(other(folder.clone()), Other::Removed(folder));
        }
    }
}
