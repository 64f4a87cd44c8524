//! The record of changed settings, on the disk before the first of them changes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use thalweg_sys::host::user_id;

use crate::finding::Change;
use crate::host::Host;

/// The value of [`Record::schema`].
const SCHEMA: &str = "thalweg.undo/1";

/// Settings with the values to put back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    schema: String,
    /// The start of the host in which the settings were changed: a restart undoes them itself.
    boot: String,
    /// The network namespace whose settings they are.
    network: String,
    /// In the order in which they were changed.
    pub entries: Vec<Entry>,
}

/// One changed setting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The file.
    pub path: String,
    /// The value before the first change; `None` if there was no file.
    pub before: Option<String>,
    /// The value that was written, or is about to be.
    pub after: Option<String>,
}

/// The record cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// Another `--fix` or `--undo` is under way.
    #[error("another thalweg doctor changes settings at this time ({0} is locked); wait for its end")]
    Busy(PathBuf),
    /// The file system refuses.
    #[error("cannot keep the record of changed settings in {path}: {source}; nothing further was changed")]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Another user has written the record.
    #[error(
        "{path} belongs to the user {owner}, not to the one who runs this; it is not trusted, and nothing was changed"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Number of the user.
        owner: u32,
    },
    /// The file is not a record.
    #[error("{path} is no record of changed settings ({reason}); move it away if it is of no use")]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: String,
    },
}

impl Record {
    /// An empty record for a host.
    pub(super) fn of(host: &Host) -> Self {
        Self { schema: SCHEMA.to_owned(), boot: boot(host), network: network(host), entries: Vec::new() }
    }

    /// Forgets the kernel's settings if the host has been restarted since, because they are gone.
    /// Files on the disk remain. Returns whether it was.
    pub(super) fn restart_if_stale(&mut self, host: &Host) -> bool {
        let now = boot(host);
        if self.boot == now {
            return false;
        }
        self.entries.retain(|entry| !entry.path.starts_with("/proc/") && !entry.path.starts_with("/sys/"));
        (self.boot, self.network) = (now, network(host));
        true
    }

    /// Whether the settings of the network are those of another namespace.
    pub(super) fn is_of_another_namespace(&self, host: &Host) -> bool {
        self.network != network(host)
    }

    /// Notes a change that is about to be made. A setting that was changed before keeps the value
    /// from before its first change.
    pub(super) fn plan(&mut self, change: &Change, before: Option<String>) {
        let after = Some(change.value.clone());
        match self.entries.iter_mut().find(|entry| entry.path == change.path) {
            Some(entry) => entry.after = after,
            None => self.entries.push(Entry { path: change.path.clone(), before, after }),
        }
    }

    /// Notes the value that a setting shows after it was written.
    pub(super) fn written(&mut self, path: &str, after: Option<String>) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == path) {
            entry.after = after;
        }
    }

    /// Notes that a setting was not written and still has the value `now`.
    pub(super) fn not_written(&mut self, path: &str, now: Option<&str>) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == path) {
            entry.after = now.map(str::to_owned);
        }
        self.entries.retain(|entry| entry.path != path || entry.after != entry.before);
    }

    /// Forgets a setting.
    pub(super) fn forget(&mut self, path: &str) {
        self.entries.retain(|entry| entry.path != path);
    }
}

fn boot(host: &Host) -> String {
    host.text("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}

fn network(host: &Host) -> String {
    let link = fs::read_link(host.path("/proc/self/ns/net")).unwrap_or_default();
    link.to_string_lossy().into_owned()
}

/// The file of the record, locked against other processes while this value exists.
pub(super) struct Store {
    path: PathBuf,
    _lock: File,
}

impl Store {
    /// Opens the store in a folder, which is created if needed.
    pub(super) fn open(folder: &Path) -> Result<Self, RecordError> {
        let of = |path: &Path| {
            let path = path.to_owned();
            move |source| RecordError::Io { path, source }
        };
        fs::create_dir_all(folder).map_err(of(folder))?;
        let lock_path = folder.join("doctor.lock");
        let lock = File::options().create(true).append(true).open(&lock_path).map_err(of(&lock_path))?;
        lock.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => RecordError::Busy(lock_path.clone()),
            fs::TryLockError::Error(source) => RecordError::Io { path: lock_path.clone(), source },
        })?;
        Ok(Self { path: folder.join("doctor-undo.json"), _lock: lock })
    }

    /// The record; `None` if there is none.
    pub(super) fn read(&self) -> Result<Option<Record>, RecordError> {
        let text = match File::open(&self.path).and_then(|file| Ok((file.metadata()?.uid(), io::read_to_string(file)?)))
        {
            Ok((owner, text)) if owner == user_id() => text,
            // It says what root is about to write; the home folder may be another user's (sudo).
            Ok((owner, _)) => return Err(RecordError::Foreign { path: self.path.clone(), owner }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(self.io(source)),
        };
        let malformed = |reason: String| RecordError::Malformed { path: self.path.clone(), reason };
        let record: Record = serde_json::from_str(&text).map_err(|error| malformed(error.to_string()))?;
        if record.schema != SCHEMA {
            return Err(malformed(format!("its schema is {:?}, expected {SCHEMA:?}", record.schema)));
        }
        Ok(Some(record))
    }

    /// Replaces the record; it is on the disk when this returns.
    pub(super) fn write(&self, record: &Record) -> Result<(), RecordError> {
        let json = serde_json::to_vec_pretty(record).expect("a record is made of strings");
        write_whole(&self.path, &json).map_err(|source| self.io(source))
    }

    /// Removes the record.
    pub(super) fn remove(&self) -> Result<(), RecordError> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.io(error)),
            _ => Ok(()),
        }
    }

    fn io(&self, source: io::Error) -> RecordError {
        RecordError::Io { path: self.path.clone(), source }
    }
}

/// Replaces a file as a whole: a crash leaves the old one or the new one, and the new one is on the
/// disk when this returns.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    // The lock keeps other processes away, so one name will do; a crash leaves it to the next.
    let partial = folder.join(format!(".{name}.partial"));
    // A file that a crash has left. The new one is not opened through a link.
    let _ = fs::remove_file(&partial);
    let mut file = File::create_new(&partial)?;
    let written = file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        // The first error is reported; a failure to remove the partial file as well adds nothing.
        let _ = fs::remove_file(&partial);
    }
    written?;
    // The rename itself is on the disk when the folder is.
    File::open(folder)?.sync_all()
}
