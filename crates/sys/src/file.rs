//! Files: opening beneath a root without a race, and what a server wants to know of one.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};

/// An open file or directory with what `fstat` said of it when it was opened.
#[derive(Debug)]
pub struct File {
    fd: OwnedFd,
    /// What it is.
    pub kind: FileKind,
    /// Its identity and state at the time it was opened.
    pub stamp: Stamp,
}

/// What a path names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A device, FIFO, socket or anything else that a file server has no business to read.
    Special,
}

/// Identity and state of a file. Equal stamps: the same file, unchanged as far as the file system can tell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The device that the file is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time: whole seconds since 1970-01-01 UTC.
    pub modified_s: i64,
    /// Modification time: nanoseconds within the second.
    pub modified_ns: u32,
    /// Change time (of the inode) in nanoseconds; moves even when a program sets the modification time back.
    pub changed_ns: i128,
}

impl File {
    fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        let stat = fstat(&fd)?;
        let kind = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => FileKind::Regular,
            FileType::Directory => FileKind::Directory,
            _ => FileKind::Special,
        };
        Ok(Self { fd, kind, stamp: stamp(&stat) })
    }

    /// Reads at `offset` until `buffer` is full or the file ends; the number of bytes read.
    ///
    /// # Errors
    /// Those of `pread`.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match rustix::io::pread(&self.fd, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(filled)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn stamp(stat: &Stat) -> Stamp {
    Stamp {
        device: stat.st_dev,
        inode: stat.st_ino,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        modified_s: stat.st_mtime,
        modified_ns: stat.st_mtime_nsec as u32,
        changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
    }
}

/// How often an open that the kernel wants to be repeated is tried.
const OPEN_TRIES: u32 = 16;

/// The directory that a server serves. Paths are resolved beneath it by the kernel (openat2, Linux 5.6), so that neither `..`
/// nor a symbolic link nor a rename in between can lead out.
#[derive(Debug)]
pub struct Root {
    directory: OwnedFd,
}

impl Root {
    /// Opens the directory.
    ///
    /// # Errors
    /// It does not exist, is no directory, or is not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory })
    }

    /// Opens a path relative to the root for reading. Symbolic links are followed as long as they stay beneath the root.
    ///
    /// # Errors
    /// Those of `openat2`: `EXDEV` for a way out of the root, `ELOOP`, `ENOENT`, `ENOTDIR`, `EACCES`, ...
    pub fn open_beneath(&self, path: &CStr) -> io::Result<File> {
        // NONBLOCK: opening a FIFO must not wait for its writer. It means nothing on a regular file.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let mut tries_left = OPEN_TRIES;
        loop {
            tries_left -= 1;
            match openat2(&self.directory, path, flags, Mode::empty(), resolve) {
                // The kernel could not rule out that a rename raced with `..`; it says so and expects another try. A file under
                // a lease says the same, for as long as its holder takes, so there is an end to trying.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) if tries_left > 0 => {}
                Err(errno) => return Err(errno.into()),
                Ok(fd) => return File::from_fd(fd),
            }
        }
    }
}
