//! Output files of a command, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file as a [`WholeFile`].
///
/// # Errors
/// The error of the step that failed; no partial file is left behind.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write_all(content)?;
    file.finish()
}

/// A file that replaces an existing one when it is complete, and is removed otherwise.
///
/// It is written beside its path and renamed at its end, so a full disk or a crash leaves either
/// the old file or the new one. A device or a pipe is written to directly: a file in its place
/// would have no reader. Links are followed.
#[derive(Debug)]
pub struct WholeFile {
    file: File,
    /// Its names until its end and from then on; `None` for what is written to directly.
    names: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// Begins a file.
    ///
    /// # Errors
    /// It cannot be created.
    pub fn create(path: &Path) -> io::Result<Self> {
        if is_stream(path) {
            return Ok(Self { file: OpenOptions::new().write(true).open(path)?, names: None });
        }
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let (partial, file) = create_beside(&target)?;
        Ok(Self { file, names: Some((partial, target)) })
    }

    /// Ends it and gives it its name.
    ///
    /// # Errors
    /// The error of the step that failed; no partial file is left behind.
    pub fn finish(mut self) -> io::Result<()> {
        if let Some((partial, target)) = &self.names {
            self.file.sync_all()?;
            fs::rename(partial, target)?;
            self.names = None;
        }
        Ok(())
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((partial, _)) = &self.names {
            // An earlier error is reported; a failure to remove the partial file adds nothing.
            let _ = fs::remove_file(partial);
        }
    }
}

/// Whether `path` takes bytes and is no regular file: a device, a pipe, a terminal.
pub fn is_stream(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir())
}

/// Creates a file with a new name in the folder of `path`.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    const ATTEMPTS: u32 = 100;
    let name = path.file_name().ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            "the path does not name a \
        file",
        )
    })?;
    for attempt in 0..ATTEMPTS {
        let mut partial_name = std::ffi::OsString::from(".");
        partial_name.push(name);
        partial_name.push(format!(".{}-{attempt}.partial", std::process::id()));
        let partial = path.with_file_name(partial_name);
        match OpenOptions::new().write(true).create_new(true).open(&partial) {
            Ok(file) => return Ok((partial, file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "too many unfinished files are beside the path"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn devices_and_links_are_written_through_not_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let (full, link, real) = (folder.path().join("full"), folder.path().join("link"), folder.path().join("real"));
        symlink("/dev/full", &full).expect("a link can be made");
        let error = write_whole(&full, b"x").expect_err("there is no room");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        symlink("real", &link).expect("a link can be made");
        fs::write(&real, "old").expect("a file can be written");
        write_whole(&link, b"new").expect("there is room");
        assert_eq!(fs::read(&real).expect("it is there"), b"new");
        for path in [&full, &link] {
            assert!(path.is_symlink(), "{} is still a link", path.display());
        }
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 3);
    }

    #[test]
    fn a_file_that_is_not_finished_leaves_the_old_one() {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("file");
        fs::write(&path, "old").expect("a file can be written");
        let mut file = WholeFile::create(&path).expect("it can be created");
        file.write_all(b"new").expect("there is room");
        drop(file);
        assert_eq!(fs::read(&path).expect("it is there"), b"old");
        assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 1);
    }
}
