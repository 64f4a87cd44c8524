//! Files: opening beneath a root without a race, and what a server wants to know of one.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

mod walk;

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat2};
use rustix::io::Errno;

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

impl FileKind {
    fn of(stat: &Stat) -> Self {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Self::Regular,
            FileType::Directory => Self::Directory,
            _ => Self::Special,
        }
    }
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
        Ok(Self { fd, kind: FileKind::of(&stat), stamp: stamp(&stat) })
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
                Err(Errno::INTR) => {}
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
    links: Links,
}

impl Root {
    /// Opens the directory. Links beneath it are followed.
    ///
    /// # Errors
    /// It does not exist, is no directory, or is not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory, links: Links::Beneath })
    }

    /// The same, with other links followed.
    #[must_use]
    pub fn following(self, links: Links) -> Self {
        Self { links, ..self }
    }

    /// Opens a path relative to the root for reading, through the links that are [followed](Self::following).
    ///
    /// # Errors
    /// Those of `openat2`: `EXDEV` for a way out of the root, `ELOOP`, `ENOENT`, `ENOTDIR`, `EACCES`, ...
    pub fn open_beneath(&self, path: &CStr) -> io::Result<File> {
        match self.links {
            Links::None => open_at(&self.directory, path, ResolveFlags::NO_SYMLINKS).and_then(File::from_fd),
            Links::Beneath => open_at(&self.directory, path, ResolveFlags::empty()).and_then(File::from_fd),
            Links::OfOwner => walk::open(&self.directory, path.to_bytes()),
        }
    }
}

/// Which symbolic links are followed on the way to a file. None leads out of the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// None: the way ends there with `ELOOP`.
    None,
    /// Those that stay beneath the root.
    Beneath,
    /// Of those the ones whose owner owns what they lead to as well; the way ends at others with `ELOOP`.
    ///
    /// The kernel has no such rule, so the path is walked name by name, at two system calls each and two more for the file.
    OfOwner,
}

/// Opens for reading what lies beneath a directory.
fn open_at(directory: &OwnedFd, path: &CStr, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    // NONBLOCK: opening a FIFO must not wait for its writer. It means nothing on a regular file.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = resolve | ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries_left = OPEN_TRIES;
    loop {
        tries_left -= 1;
        match openat2(directory, path, flags, Mode::empty(), resolve) {
            // The kernel could not rule out that a rename raced with `..`; it says so and expects another try. A file under
            // a lease says the same, for as long as its holder takes, so there is an end to trying.
            Err(Errno::AGAIN | Errno::INTR) if tries_left > 0 => {}
            opened => return Ok(opened?),
        }
    }
}
