//! The destination of lines: a file that may be full, moved away or deleted, or a stream. Whole
//! lines only.
//!
//! A write that the disk takes a part of leaves half a line. In a file it is taken back at once, by
//! cutting the file off behind the last whole line: whatever then becomes of the file or of this
//! process, no half line is taken for a whole one, and no line continues it. A file that cannot be
//! cut off, because it may only grow or because another process has written behind the half line,
//! and a stream keep the half line; its rest goes first when there is room again, unless the file
//! has changed since. Lines that cannot be written are lost and counted, and nothing here waits for
//! a better time: the next write is the next try.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use crate::config::LogTarget;

/// A log names people's addresses: it is not for everybody.
const MODE: u32 = 0o640;

/// A destination of lines.
#[derive(Debug)]
pub(crate) struct Sink {
    target: LogTarget,
    /// Of a file that could be opened.
    file: Option<File>,
    /// The rest of a line of which the beginning was written, and could not be taken back.
    torn: Option<Torn>,
}

/// Half a line that stands at the end of what was written.
#[derive(Debug)]
struct Torn {
    rest: Vec<u8>,
    /// The beginning is this process's, and the line counts as written.
    is_own: bool,
    /// The length of the file with the half line at its end; a stream has no length.
    file_bytes: Option<u64>,
}

/// The fate of half a line.
enum Completion {
    /// There is none any more.
    Finished,
    /// It stays half, and the line is lost.
    Abandoned { is_own: bool },
    /// There is no room for it yet.
    Later(io::Error),
}

/// Lines that were not written.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) lines: u64,
    pub(crate) error: io::Error,
}

impl Sink {
    /// Opens the destination.
    ///
    /// # Errors
    /// A file cannot be opened for writing.
    pub(crate) fn open(target: LogTarget) -> io::Result<Self> {
        let mut sink = Self { target, file: None, torn: None };
        sink.reopen()?;
        Ok(sink)
    }

    /// Closes a file and opens what has its name now.
    ///
    /// # Errors
    /// It cannot be opened; what was open before still is.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        if let LogTarget::File(path) = &self.target {
            let (path, file) = (path.clone(), open(path)?);
            // The rest of a half line belongs into the old file; there is nothing in the new one
            // that it would be the rest of.
            self.complete();
            self.torn = half_line_of(&file, &path);
            self.file = Some(file);
        }
        Ok(())
    }

    /// Closes the destination. The half line is completed, if that can be done now.
    pub(crate) fn end(mut self) {
        // If it cannot, it stays torn: nothing writes here any more.
        self.complete();
    }

    /// Checks whether the file still has a name, and creates a new file if not: lines written to a
    /// deleted file are lost. A renamed file stays in use until the log rotation requests a reopen.
    ///
    /// # Errors
    /// There is no file, and none can be created.
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
    /// The number of lines that were lost, and the reason.
    pub(crate) fn write(&mut self, lines: &[u8]) -> Result<(), Lost> {
        let lines_torn_before = match self.complete() {
            Completion::Finished => 0,
            Completion::Abandoned { is_own } => u64::from(is_own),
            Completion::Later(error) => return Err(Lost { lines: count(lines), error }),
        };
        let (written, ended) = self.write_some(lines);
        let abandoned =
            || Lost { lines: lines_torn_before, error: io::Error::other("another process has written to it") };
        let Err(error) = ended else { return if lines_torn_before == 0 { Ok(()) } else { Err(abandoned()) } };
        let whole_bytes = lines[..written].iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut lost = lines_torn_before + count(&lines[whole_bytes..]);
        let torn_bytes = (written - whole_bytes) as u64;
        if torn_bytes > 0 && !self.take_back(torn_bytes) {
            let rest = &lines[written..];
            let end = rest.iter().position(|&byte| byte == b'\n').map_or(rest.len(), |at| at + 1);
            let file_bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|file| file.len());
            self.torn = Some(Torn { rest: rest[..end].to_vec(), is_own: true, file_bytes });
            // It is lost if it cannot be completed.
            lost -= 1;
        }
        Err(Lost { lines: lost, error })
    }

    /// Cuts off so many bytes at the end of the file, if they were written there last. Whether that
    /// was done.
    fn take_back(&mut self, bytes: u64) -> bool {
        let Some(file) = &mut self.file else { return false };
        // In a file that is appended to, the position is that behind one's own last byte.
        let (Ok(end), Ok(there)) = (file.stream_position(), file.metadata()) else { return false };
        there.is_file() && there.len() == end && end >= bytes && file.set_len(end - bytes).is_ok()
    }

    /// Writes the rest of a half line, if there is one and it still has its place.
    fn complete(&mut self) -> Completion {
        let Some(torn) = self.torn.take() else { return Completion::Finished };
        let file_bytes = self.file.as_ref().and_then(|file| file.metadata().ok()).map(|file| file.len());
        if torn.file_bytes != file_bytes {
            // Emptied, or written to by another process: the next line begins where that has ended.
            return Completion::Abandoned { is_own: torn.is_own };
        }
        let (written, ended) = self.write_some(&torn.rest);
        match ended {
            Ok(()) => Completion::Finished,
            Err(error) => {
                let file_bytes = file_bytes.map(|bytes| bytes + written as u64);
                self.torn = Some(Torn { rest: torn.rest[written..].to_vec(), file_bytes, ..torn });
                Completion::Later(error)
            }
        }
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

/// The incomplete line at the end of a file that was just opened, left there by a process that was
/// killed. Only its line end is assumed to be missing. A file that may not be read is assumed to be
/// complete.
fn half_line_of(file: &File, path: &Path) -> Option<Torn> {
    let there = file.metadata().ok().filter(|there| there.is_file() && there.len() > 0)?;
    let readable = File::open(path).ok()?;
    let same = readable.metadata().ok()?;
    if (same.dev(), same.ino()) != (there.dev(), there.ino()) {
        return None;
    }
    let mut last = [0];
    readable.read_exact_at(&mut last, there.len() - 1).ok()?;
    (last != *b"\n").then(|| Torn { rest: b"\n".to_vec(), is_own: false, file_bytes: Some(there.len()) })
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

/// The number of lines.
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
    fn half_a_line_is_taken_back_before_anybody_reads_it() {
        let folder = TempDir::new().unwrap();
        let mut sink = sink(&folder);
        sink.write(b"one\n").unwrap();
        assert_eq!(sink.write_some(b"tw").0, 2);
        assert!(sink.take_back(2));
        assert_eq!(log(&folder), "one\n");
        sink.write(b"three\n").unwrap();
        assert_eq!(log(&folder), "one\nthree\n");
        // Bytes that another process has written are not this one's to take back.
        assert_eq!(sink.write_some(b"fo").0, 2);
        fs::write(folder.path().join("log"), log(&folder) + "other\n").unwrap();
        assert!(!sink.take_back(2));
        assert_eq!(log(&folder), "one\nthree\nfoother\n");
    }

    #[test]
    fn a_line_that_was_torn_is_completed_first_if_it_is_still_the_last() {
        let folder = TempDir::new().unwrap();
        let torn = |sink: &mut Sink| {
            fs::write(folder.path().join("log"), "on").unwrap();
            sink.torn = Some(Torn { rest: b"e\n".to_vec(), is_own: true, file_bytes: Some(2) });
        };
        let mut sink = sink(&folder);
        torn(&mut sink);
        sink.write(b"two\n").unwrap();
        assert_eq!(log(&folder), "one\ntwo\n");
        // Emptied to make room, as some rotate logs.
        torn(&mut sink);
        fs::write(folder.path().join("log"), "").unwrap();
        assert_eq!(sink.write(b"two\n").unwrap_err().lines, 1, "the torn one is lost");
        assert_eq!(log(&folder), "two\n");
        torn(&mut sink);
        fs::write(folder.path().join("log"), "on\nother\n").unwrap();
        assert_eq!(sink.write(b"two\n").unwrap_err().lines, 1);
        assert_eq!(log(&folder), "on\nother\ntwo\n");
    }

    #[test]
    fn half_a_line_of_a_process_that_was_killed_is_not_continued() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("log"), "one\nhal").unwrap();
        let mut sink = sink(&folder);
        sink.write(b"two\n").unwrap();
        assert_eq!(log(&folder), "one\nhal\ntwo\n");
        // One that is being completed by a process that still writes is left to that.
        fs::write(folder.path().join("log"), "one\nhal").unwrap();
        sink.reopen().unwrap();
        fs::write(folder.path().join("log"), "one\nhalf\n").unwrap();
        sink.write(b"two\n").unwrap();
        assert_eq!(log(&folder), "one\nhalf\ntwo\n");
    }

    #[test]
    fn a_full_disk_gets_whole_lines_and_the_rest_of_one() {
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
