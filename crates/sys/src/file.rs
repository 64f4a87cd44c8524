//! Files: opening beneath a root without a race, what a server wants to know of one, and whether
//! that would wait for a disk.

mod root;
mod samples;
mod stamp;
mod walk;

use std::any::Any;
use std::cell::Cell;
use std::ffi::CStr;
use std::fs;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, accessat, fstat, openat2};
use rustix::io::{Errno, ReadWriteFlags, pread, preadv2};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

pub use self::root::{Links, Root};
use self::samples::Samples;
pub use self::stamp::{FileChanged, Stamp};

/// Whether a path led to no regular file or folder beneath its root, by the error of opening it or
/// of reading from it: nothing is wrong with the file system.
pub fn leads_nowhere(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(
            Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV
                | Errno::ISDIR
                | Errno::INVAL
                | Errno::ILSEQ
        )
    )
}

/// Whether a call may wait for a disk or for another host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// It may.
    Allowed,
    /// It fails with `EAGAIN` instead, as far as the kernel and the file system can know
    /// beforehand.
    Never,
}

/// Whether this process may make files in the folder of a path, and remove them there.
///
/// # Errors
/// It may not, or there is no such folder.
pub fn may_make(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(accessat(CWD, folder, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?)
}

/// Whether this process may write to a file, which it makes if it is not there.
///
/// # Errors
/// It may not, or there is no folder for it.
pub fn may_write(path: &Path) -> io::Result<()> {
    match accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS) {
        Err(Errno::NOENT) => may_make(path),
        outcome => Ok(outcome?),
    }
}

/// An open file or directory with the result of `fstat` when it was opened. A clone is the same
/// open file.
#[derive(Clone, Debug)]
pub struct File {
    fd: Arc<fs::File>,
    wait: Wait,
    /// Keeps the bytes of a part of the file as they are; nothing is known of the rest.
    lease: Option<Arc<dyn Any + Send + Sync>>,
    /// It was found to have other content than when it was opened.
    changed: Cell<bool>,
    /// Set for a file that may grow.
    samples: Option<Arc<Samples>>,
    /// Its kind.
    pub kind: FileKind,
    /// Its identity and state at the time it was opened.
    pub stamp: Stamp,
}

/// The kind of file that a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A device, FIFO, socket or anything else that a file server has no business to read.
    Special,
}

impl FileKind {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            _ => Self::Special,
        }
    }
}

impl File {
    fn from_fd(fd: OwnedFd, wait: Wait) -> io::Result<Self> {
        let stat = fstat(&fd)?;
        let (kind, stamp) = (FileKind::of(&stat), Stamp::of(&stat));
        Ok(Self { fd: Arc::new(fd.into()), wait, lease: None, changed: Cell::new(false), samples: None, kind, stamp })
    }

    /// A part of a file that others write to, while the bytes of this part stay as they are: for as
    /// long as the lease exists, which goes with the last clone. Reading does not wait.
    ///
    /// Its stamp tells it from other files of this process, and nothing else.
    pub fn leased(file: Arc<fs::File>, lease: Arc<dyn Any + Send + Sync>) -> Self {
        let inode = u64::from(file.as_raw_fd().unsigned_abs());
        let stamp = Stamp { device: u64::MAX, inode, ..Stamp::default() };
        Self {
            fd: file,
            wait: Wait::Never,
            lease: Some(lease),
            changed: Cell::new(false),
            samples: None,
            kind: FileKind::Regular,
            stamp,
        }
    }

    /// Whether its bytes stay as they are by a [lease](Self::leased).
    pub fn is_leased(&self) -> bool {
        self.lease.is_some()
    }

    /// Compares the file's present state with its [stamp](Self::stamp). One that was
    /// [sampled](Self::sampled_if_recent) may have grown, as far as its samples are the same.
    ///
    /// # Errors
    /// [`FileChanged`], if its content may be another now, which is
    /// [remembered](Self::has_changed); those of `fstat`. A [lease](Self::leased) is enough.
    pub fn ensure_unchanged(&self) -> io::Result<()> {
        if self.is_leased() {
            return Ok(());
        }
        let now = Stamp::of(&fstat(&*self.fd)?);
        if now.has_content_of(&self.stamp) || self.has_only_grown(&now) {
            return Ok(());
        }
        Err(self.note_change(io::ErrorKind::InvalidData))
    }

    /// Samples a file that was modified not long before `now_s`, in seconds since 1970-01-01 UTC.
    /// If it only grows afterwards, it [has not changed](Self::ensure_unchanged). Its stamp is then
    /// of the moment at which it was sampled. All others are left as they are, and nothing is read;
    /// so is one that changes all the time.
    ///
    /// # Errors
    /// The errors of [`read_at`](Self::read_at) and of `fstat`.
    pub fn sampled_if_recent(mut self, now_s: i64) -> io::Result<Self> {
        if now_s.saturating_sub(self.stamp.modified_s) >= RECENT_S {
            return Ok(self);
        }
        for _ in 0..SAMPLE_ATTEMPTS {
            let samples = Samples::take(self.stamp.size, |block, offset| self.read_at(block, offset))?;
            let stamp = Stamp::of(&fstat(&*self.fd)?);
            // A write between the stamp and the samples could have been one in place.
            if stamp == self.stamp {
                self.samples = Some(samples.into());
                break;
            }
            self.stamp = stamp;
        }
        Ok(self)
    }

    #[cold]
    fn has_only_grown(&self, now: &Stamp) -> bool {
        now.size > self.stamp.size && self.samples.as_ref().is_some_and(|samples| samples.are_in(&self.fd))
    }

    /// Whether it was found to have other content than when it was opened. Clones made before that
    /// do not know.
    pub fn has_changed(&self) -> bool {
        self.changed.get()
    }

    /// Marks the content as different from that of the stamp. Returns the error for it.
    pub fn note_change(&self, kind: io::ErrorKind) -> io::Error {
        self.changed.set(true);
        io::Error::new(kind, FileChanged { device: self.stamp.device, inode: self.stamp.inode })
    }

    /// The same open file, from which reading may wait.
    #[must_use]
    pub fn waiting(self) -> Self {
        Self { wait: Wait::Allowed, ..self }
    }

    /// Reads at `offset` until `buffer` is full or the file ends; the number of bytes read.
    ///
    /// # Errors
    /// Those of `pread`; `EAGAIN` if the file was opened by a root that does not wait
    /// ([`Root::at_once`]) and not all of this is in memory.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_once(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(filled)
    }

    fn read_once(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
        match self.wait {
            Wait::Allowed => pread(&*self.fd, buffer, offset),
            Wait::Never => match read_without_waiting(&self.fd, buffer, offset) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => pread(&*self.fd, buffer, offset),
                result => result,
            },
        }
    }

    /// Whether the byte at `offset` is in memory, or can be read without waiting for a disk for
    /// another reason. Where the file system does not know, and behind the end, the result is true.
    /// A check of an absent byte makes the kernel begin to read it.
    ///
    /// Not by `cachestat` (Linux 6.5): see bench/TRIED.md, "Page-cache residency".
    pub fn is_in_memory(&self, offset: u64) -> bool {
        read_without_waiting(&self.fd, &mut [0], offset) != Err(Errno::AGAIN)
    }

    /// Reads these bytes into the kernel's memory, and waits until they are there.
    ///
    /// # Errors
    /// Those of `pread`. The caller may ignore them: a send of these bytes meets the same error.
    pub fn read_ahead(&self, offset: u64, len: u64) -> io::Result<()> {
        let end = offset.saturating_add(len);
        let mut at = offset;
        while at < end {
            match self.read_into_pipe(at, end - at).or_else(|_| self.read_into_buffer(at, end - at)) {
                Ok(0) => break,
                Ok(read) => at += read,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// The first of these bytes, into a pipe that is thrown away. Nothing is copied, and the kernel
    /// reads as much at once as the pipe would hold, into large pages if the file system has them;
    /// see bench/TRIED.md, "Reading into a pipe".
    fn read_into_pipe(&self, offset: u64, len: u64) -> Result<u64, Errno> {
        let (_drain, pipe) = pipe_with(PipeFlags::CLOEXEC)?;
        // A user has room for some large pipes; beyond that, small ones do.
        let _ = fcntl_setpipe_size(&pipe, PIPE_BYTES);
        let len = len.min(PIPE_BYTES as u64) as usize;
        splice(&*self.fd, Some(&mut { offset }), &pipe, None, len, SpliceFlags::empty()).map(|read| read as u64)
    }

    /// The same where there is no pipe to be had, or the file system does not know how.
    fn read_into_buffer(&self, offset: u64, len: u64) -> Result<u64, Errno> {
        let mut buffer = [0; BUFFER_BYTES];
        let len = len.min(BUFFER_BYTES as u64) as usize;
        pread(&*self.fd, &mut buffer[..len], offset).map(|read| read as u64)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A file may be growing if it was modified within this time: a day, since there are logs with few
/// lines.
const RECENT_S: i64 = 86_400;

/// How often a file is sampled that changes meanwhile.
const SAMPLE_ATTEMPTS: usize = 8;

/// How much [`File::read_ahead`] reads at once: the largest pipe that everybody may have (pipe(7)).
const PIPE_BYTES: usize = 1 << 20;

/// The same without a pipe.
const BUFFER_BYTES: usize = 32 << 10;

fn read_without_waiting(fd: &fs::File, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    preadv2(fd, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT)
}

/// How often an open that the kernel wants to be repeated is tried.
const OPEN_TRIES: u32 = 16;

/// How files are opened. NONBLOCK: opening a FIFO must not wait for its writer. It means nothing on
/// a regular file.
const READING: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Opens what lies beneath a directory.
fn open_at(directory: &OwnedFd, path: &CStr, flags: OFlags, resolve: ResolveFlags, wait: Wait) -> io::Result<OwnedFd> {
    let mut resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    if wait == Wait::Never {
        resolve |= ResolveFlags::CACHED;
    }
    let mut tries_left = OPEN_TRIES;
    loop {
        tries_left -= 1;
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            // The kernel does not know the flag.
            Err(Errno::INVAL) if resolve.contains(ResolveFlags::CACHED) => resolve -= ResolveFlags::CACHED,
            Err(Errno::AGAIN) if resolve.contains(ResolveFlags::CACHED) => return Err(Errno::AGAIN.into()),
            // The kernel could not rule out that a rename raced with `..`, and expects another
            // attempt. A file under a lease returns the same error until its holder releases it, so
            // the attempts are bounded.
            Err(Errno::AGAIN | Errno::INTR) if tries_left > 0 => {}
            opened => return Ok(opened?),
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{Advice, fadvise};

    use super::*;

    /// A file in a folder of its own, after a request to the kernel to drop its pages; `None` where
    /// the file system keeps them, as one in memory does.
    fn cold_file(test: &str) -> Option<File> {
        let scratch = tempfile::TempDir::with_prefix(test).unwrap();
        let folder = scratch.path();
        fs::write(folder.join("cold"), vec![7; 1 << 20]).unwrap();
        fs::File::open(folder.join("cold")).unwrap().sync_all().unwrap();
        let file = Root::open(folder).unwrap().at_once().open_beneath(c"cold").unwrap();
        fadvise(&*file.fd, 0, None, Advice::DontNeed).unwrap();
        let is_cold = !file.is_in_memory(0);
        is_cold.then_some(file)
    }

    #[test]
    fn the_right_to_write_depends_on_the_folder() {
        let kind = |asked: io::Result<()>| asked.err().map(|error| error.kind());
        let there = std::env::temp_dir();
        assert_eq!((kind(may_make(&there.join("new"))), kind(may_write(&there.join("new")))), (None, None));
        for path in ["/nowhere/at/all", "/proc/version/file"] {
            let kinds = [kind(may_make(Path::new(path))), kind(may_write(Path::new(path)))];
            assert!(kinds.iter().all(Option::is_some), "{path}: {kinds:?}");
        }
    }

    #[test]
    fn a_leased_part_is_sent_though_the_rest_is_written_to() {
        let scratch = tempfile::TempDir::with_prefix("leased").unwrap();
        let path = scratch.path().join("volume");
        fs::write(&path, "the first part, the second part").unwrap();
        let lease = Arc::new(());
        let file = File::leased(Arc::new(fs::File::open(&path).unwrap()), lease.clone());
        let clone = file.clone();
        fs::write(&path, "the first part, and more than before").unwrap();
        file.ensure_unchanged().unwrap();
        drop(file);
        assert_eq!(Arc::strong_count(&lease), 2, "a clone keeps it");
        let mut bytes = [0; 14];
        assert_eq!(clone.read_at(&mut bytes, 0).unwrap(), 14);
        assert_eq!(&bytes, b"the first part");
        drop(clone);
        assert_eq!(Arc::strong_count(&lease), 1);
    }

    #[test]
    fn missing_pages_are_reported_and_read_ahead() {
        let Some(file) = cold_file("read-ahead") else { return };
        // The kernel may not drop pages at once that it still uses, and a fast disk may read the
        // requested pages before the call returns.
        let mut attempts = (0..100).map(|attempt| {
            std::thread::sleep(std::time::Duration::from_millis(attempt));
            fadvise(&*file.fd, 0, None, Advice::DontNeed).unwrap();
            file.read_at(&mut [0; 100], 500_000)
        });
        assert!(attempts.any(|read| read.is_err_and(|error| Errno::from_io_error(&error) == Some(Errno::AGAIN))));
        file.read_ahead(0, 1 << 20).unwrap();
        assert!((0..1 << 20).step_by(4096).all(|at| file.is_in_memory(at)));
        let mut bytes = [0; 100];
        assert_eq!(file.read_at(&mut bytes, 500_000).unwrap(), 100);
        assert_eq!(bytes, [7; 100]);
    }

    #[test]
    fn a_span_beyond_the_end_is_not_waited_for() {
        let Some(file) = cold_file("beyond") else { return };
        assert!(file.is_in_memory(2 << 20));
        file.read_ahead(2 << 20, 1 << 20).unwrap();
        file.read_ahead(0, 4 << 20).unwrap();
    }

    #[test]
    fn without_a_pipe_a_file_is_read_ahead_too() {
        let Some(file) = cold_file("buffer") else { return };
        let mut at = 0;
        while at < 1 << 20 {
            let read = file.read_into_buffer(at, u64::MAX).unwrap();
            assert!(read > 0, "the end after {at} bytes");
            at += read;
        }
        assert!((0..1 << 20).step_by(4096).all(|at| file.is_in_memory(at)));
        assert_eq!(file.read_into_buffer(at, u64::MAX), Ok(0));
    }
}
