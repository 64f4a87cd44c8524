//! Where lines end up: a file that may be full, moved away or deleted, or a stream. Whole lines only.
//!
//! A write that the disk takes a part of leaves half a line; its rest is kept and goes first when there is room again.
//! What cannot be written is lost and counted, and nothing here waits for a better time: the next write is the next try.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::config::LogTarget;

/// A log names people's addresses: it is not for everybody.
const MODE: u32 = 0o640;

/// A place for lines.
#[derive(Debug)]
pub(crate) struct Sink {
    target: LogTarget,
    /// Of a file that could be opened.
    file: Option<File>,
    /// The rest of a line of which the beginning was written.
    torn: Vec<u8>,
}

/// What became of lines.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) lines: u64,
    pub(crate) error: io::Error,
}

impl Sink {
    /// Opens the place.
    ///
    /// # Errors
    /// A file cannot be opened for writing.
    pub(crate) fn open(target: LogTarget) -> io::Result<Self> {
        let mut sink = Self { target, file: None, torn: Vec::new() };
        sink.reopen()?;
        Ok(sink)
    }

    /// Closes a file and opens what has its name now.
    ///
    /// # Errors
    /// It cannot be opened; what was open before still is.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let LogTarget::File(path) = &self.target {
            let file = open(path)?;
            // The half line stays in the old file; there is nothing in the new one that it would be the rest of.
            if let Some(mut old) = self.file.replace(file) {
                let _ = old.write_all(&self.torn);
            }
            self.torn.clear();
        }
        Ok(())
    }

    /// Lets go of the place. The half line is completed, if that can be done now.
    pub(crate) fn end(mut self) {
        let torn = std::mem::take(&mut self.torn);
        // If it cannot, it stays torn: nobody looks after this place any more.
        let _ = self.write_some(&torn);
    }

    /// Looks whether the file still has a name, and makes a new one if not: what is written to a deleted file is lost. A
    /// file that was renamed is left alone; whoever did that says when to reopen.
    ///
    /// # Errors
    /// There is no file, and none can be made.
    pub(crate) fn look_after(&mut self) -> io::Result<()> {
        let is_named = self.file.as_ref().is_some_and(|file| file.metadata().is_ok_and(|there| there.nlink() > 0));
        if matches!(self.target, LogTarget::File(_)) && !is_named {
            self.file = None;
            self.reopen()?;
        }
        Ok(())
    }

    /// Writes whole lines, as far as they can be written.
    ///
    /// # Errors
    /// How many lines were lost, and why.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Lost> {
        let lost = |rest: &[u8], error| Lost { lines: count(rest), error };
        let torn = std::mem::take(&mut self.torn);
        let (written, ended) = self.write_some(&torn);
        if let Err(error) = ended {
            self.torn = torn[written..].to_vec();
            return Err(lost(lines, error));
        }
        let (written, ended) = self.write_some(lines);
        let Err(error) = ended else { return Ok(()) };
        let rest = &lines[written..];
        let is_torn = written > 0 && lines[written - 1] != b'\n';
        let torn_bytes = if is_torn { rest.iter().position(|&byte| byte == b'\n').map_or(0, |at| at + 1) } else { 0 };
        self.torn = rest[..torn_bytes].to_vec();
        Err(lost(&rest[torn_bytes..], error))
    }

    /// Writes until an error; how many bytes, and which.
    fn write_some(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        match (&self.target, &mut self.file) {
            (LogTarget::Stdout, _) => write_some(&mut io::stdout().lock(), bytes),
            (LogTarget::Stderr, _) => write_some(&mut io::stderr().lock(), bytes),
            (LogTarget::File(_), Some(file)) => write_some(file, bytes),
            (LogTarget::File(_), None) => (0, Err(io::ErrorKind::NotFound.into())),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}

fn write_some(to: &mut impl Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while written < bytes.len() {
        match to.write(&bytes[written..]) {
            Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
            Ok(more) => written += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written, to.flush())
}

/// How many lines there are.
fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn sink(folder: &TempDir) -> Sink {
        Sink::open(LogTarget::File(folder.path().join("log"))).unwrap()
    }

    fn log(folder: &TempDir) -> String {
        fs::read_to_string(folder.path().join("log")).unwrap()
    }

    #[test]
    fn lines_go_behind_those_that_are_there() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("log"), "old\n").unwrap();
        sink(&folder).write(b"a\nb\n").unwrap();
        assert_eq!(log(&folder), "old\na\nb\n");
    }

    #[test]
    fn a_renamed_file_is_written_to_until_it_is_reopened() {
        let folder = TempDir::new().unwrap();
        let mut sink = sink(&folder);
        fs::rename(folder.path().join("log"), folder.path().join("log.1")).unwrap();
        sink.look_after().unwrap();
        sink.write(b"a\n").unwrap();
        sink.reopen().unwrap();
        sink.write(b"b\n").unwrap();
        assert_eq!(fs::read(folder.path().join("log.1")).unwrap(), b"a\n");
        assert_eq!(log(&folder), "b\n");
    }

    #[test]
    fn a_deleted_file_is_made_again_as_soon_as_it_can_be() {
        let folder = TempDir::new().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let mut sink = Sink::open(LogTarget::File(inner.join("log"))).unwrap();
        fs::remove_dir_all(&inner).unwrap();
        assert!(sink.look_after().is_err());
        assert_eq!(sink.write(b"a\nb\n").unwrap_err().lines, 2);
        fs::create_dir(&inner).unwrap();
        sink.look_after().unwrap();
        sink.write(b"c\n").unwrap();
        assert_eq!(fs::read(inner.join("log")).unwrap(), b"c\n");
    }

    #[test]
    fn a_full_disk_loses_lines_and_counts_them() {
        let mut sink = Sink::open(LogTarget::File("/dev/full".into())).unwrap();
        let lost = sink.write(b"a\nb\nc\n").unwrap_err();
        assert_eq!((lost.lines, lost.error.raw_os_error()), (3, Some(28)));
    }

    #[test]
    fn a_line_that_was_torn_is_completed_first() {
        let folder = TempDir::new().unwrap();
        let mut sink = sink(&folder);
        // As if the disk had been full after the first two bytes.
        fs::write(folder.path().join("log"), "on").unwrap();
        sink.torn = b"e\n".to_vec();
        sink.write(b"two\n").unwrap();
        assert_eq!(log(&folder), "one\ntwo\n");
    }

    #[test]
    fn what_a_full_disk_takes_is_whole_lines_and_the_rest_of_one() {
        /// Takes so many bytes, and no more.
        struct Room(usize);
        impl Write for Room {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                let taken = bytes.len().min(self.0);
                self.0 -= taken;
                if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        for room in 0..9 {
            let (written, ended) = write_some(&mut Room(room), b"one\ntwo\n");
            assert_eq!((written, ended.is_ok()), (room.min(8), room >= 8));
        }
    }
}
