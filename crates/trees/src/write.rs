//! Writing a tree, so that nothing half-written is left.
//!
//! A directory that does not exist is written as a temporary one beside it, which is then renamed.
//! One that exists may be a mount point, and keeps its owner and mode: the tree is written to a
//! temporary directory inside it, from which the top level is then moved up. A process that is
//! killed leaves the temporary directory, whose name begins with a dot.

use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::content::Contents;
use crate::error::TreeError;
use crate::file::TreeFile;

/// The part of a tree that is written, or compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that are complete.
    pub files: u64,
    /// Bytes of them and of the one that is under way.
    pub bytes: u64,
}

/// A tree that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// Files.
    pub files: u64,
    /// Bytes, holes among them.
    pub bytes: u64,
}

/// Writes `files` to `directory`.
pub(crate) fn write(
    contents: Contents,
    files: &[TreeFile],
    directory: &Path,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Written, TreeError> {
    let staging = Staging::new(directory)?;
    let mut writer = Writer { contents, root: staging.folder.path(), made: BTreeSet::new(), done: Progress::default() };
    let written = files.iter().try_for_each(|file| writer.write(file, progress));
    let done = writer.done;
    written.and_then(|()| staging.publish()).map_err(|error| name_full_disk(error, directory, files))?;
    Ok(Written { files: done.files, bytes: done.bytes })
}

/// A full disk is an error of the whole tree, whichever file it came from.
fn name_full_disk(error: TreeError, directory: &Path, files: &[TreeFile]) -> TreeError {
    let is_full = |source: &io::Error| matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded);
    match error {
        TreeError::Io { source, .. } if is_full(&source) => {
            let bytes = files.iter().map(|file| file.random).sum();
            TreeError::Full { path: directory.to_owned(), bytes, reason: source }
        }
        other => other,
    }
}

/// The temporary directory of a tree that is being written. It is removed when it is dropped.
#[derive(Debug)]
struct Staging {
    folder: TempDir,
    directory: PathBuf,
    exists: bool,
}

impl Staging {
    fn new(directory: &Path) -> Result<Self, TreeError> {
        let exists = match fs::read_dir(directory) {
            Ok(mut entries) => match entries.next() {
                None => true,
                Some(_) => return Err(TreeError::NotEmpty(directory.to_owned())),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => false,
            Err(error) if error.kind() == ErrorKind::NotADirectory => {
                return Err(TreeError::NotDirectory(directory.to_owned()));
            }
            Err(source) => return Err(TreeError::Io { action: "read", path: directory.to_owned(), source }),
        };
        let place = if exists { directory } else { parent_of(directory) };
        // The process's mask applies, as to every other directory that it makes.
        let permissions = Permissions::from_mode(0o777);
        let folder = tempfile::Builder::new().prefix(".thalweg-files-").permissions(permissions).tempdir_in(place);
        let failed = |error: io::Error| match error.kind() {
            ErrorKind::NotFound => TreeError::NoParent(place.to_owned()),
            _ => TreeError::Io { action: "make a directory in", path: place.to_owned(), source: error },
        };
        Ok(Self { folder: folder.map_err(failed)?, directory: directory.to_owned(), exists })
    }

    /// Moves the tree to its place.
    fn publish(self) -> Result<(), TreeError> {
        if !self.exists {
            let failed = |source| TreeError::Io { action: "make", path: self.directory.clone(), source };
            fs::rename(self.folder.path(), &self.directory).map_err(failed)?;
            // The directory has another name by now; nothing is to be removed.
            let _ = self.folder.keep();
            return Ok(());
        }
        let mut moved = Vec::new();
        let result = self.move_up(&mut moved);
        if result.is_err() {
            for path in moved {
                let _ = fs::rename(&path, self.folder.path().join(path.file_name().unwrap_or_default()));
            }
        }
        result.map_err(|source| TreeError::Io { action: "write to", path: self.directory.clone(), source })
    }

    fn move_up(&self, moved: &mut Vec<PathBuf>) -> io::Result<()> {
        for entry in fs::read_dir(self.folder.path())? {
            let entry = entry?;
            let place = self.directory.join(entry.file_name());
            fs::rename(entry.path(), &place)?;
            moved.push(place);
        }
        Ok(())
    }
}

fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    }
}

/// Writes files below a root.
struct Writer<'a> {
    contents: Contents,
    root: &'a Path,
    /// Directories that exist.
    made: BTreeSet<PathBuf>,
    done: Progress,
}

impl Writer<'_> {
    fn write(
        &mut self,
        file: &TreeFile,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Result<(), TreeError> {
        let path = self.root.join(&file.path);
        let failed = |source| TreeError::Io { action: "write", path: PathBuf::from(&file.path), source };
        if let Some(directory) = path.parent()
            && !self.made.contains(directory)
        {
            fs::create_dir_all(directory).map_err(failed)?;
            self.made.insert(directory.to_owned());
        }
        let mut output = File::create_new(&path).map_err(failed)?;
        let mut blocks = self.contents.of(file);
        loop {
            let block = blocks.next();
            if block.is_empty() {
                break;
            }
            output.write_all(block).map_err(failed)?;
            self.done.bytes += block.len() as u64;
            if progress(self.done).is_break() {
                return Err(TreeError::Interrupted);
            }
        }
        if file.is_sparse() {
            output.set_len(file.size).map_err(failed)?;
            self.done.bytes += file.size - file.random;
        }
        self.done.files += 1;
        if progress(self.done).is_break() { Err(TreeError::Interrupted) } else { Ok(()) }
    }
}
