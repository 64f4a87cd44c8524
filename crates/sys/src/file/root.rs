//! Roots: opening files beneath a directory without a race.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, ResolveFlags, open};

use super::{File, READING, Wait, open_at, walk};

/// The directory that a server serves. Paths are resolved beneath it by the kernel (openat2, Linux
/// 5.6), so that neither `..` nor a symbolic link nor a rename in between can lead out.
#[derive(Clone, Debug)]
pub struct Root {
    directory: Arc<OwnedFd>,
    links: Links,
    wait: Wait,
}

impl Root {
    /// Opens the directory. Links beneath it are followed.
    ///
    /// # Errors
    /// It does not exist, is no directory, or is not readable.
    pub fn open(path: &Path) -> io::Result<Self> {
        let directory = open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { directory: Arc::new(directory), links: Links::Beneath, wait: Wait::Allowed })
    }

    /// The same, with other links followed.
    #[must_use]
    pub fn following(self, links: Links) -> Self {
        Self { links, ..self }
    }

    /// The same directory, for a thread that must not wait for a disk: opening an uncached name
    /// fails with `EAGAIN`, and so does reading from the files that were opened. File systems that
    /// ask another host about each name always fail; kernels before 5.12 open everything, and wait.
    #[must_use]
    pub fn at_once(&self) -> Self {
        Self { wait: Wait::Never, ..self.clone() }
    }

    /// Opens a path relative to the root for reading, through the links that are
    /// [followed](Self::following).
    ///
    /// # Errors
    /// Those of `openat2`: `EXDEV` for a way out of the root, `ELOOP`, `ENOENT`, `ENOTDIR`,
    /// `EACCES`, ...; `EAGAIN` as [`at_once`](Self::at_once) has it.
    pub fn open_beneath(&self, path: &CStr) -> io::Result<File> {
        let resolve = match self.links {
            Links::None => ResolveFlags::NO_SYMLINKS,
            Links::Beneath => ResolveFlags::empty(),
            Links::OfOwner => return walk::open(&self.directory, path.to_bytes(), self.wait),
        };
        open_at(&self.directory, path, READING, resolve, self.wait).and_then(|fd| File::from_fd(fd, self.wait))
    }
}

/// Which symbolic links are followed on the way to a file. None leads out of the root.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Links {
    /// None: the way ends there with `ELOOP`.
    None,
    /// Those that stay beneath the root.
    Beneath,
    /// Of those the ones whose owner owns what they lead to as well; the way ends at others with
    /// `ELOOP`.
    ///
    /// The kernel has no such rule, so the path is walked name by name, at two system calls each
    /// and two more for the file.
    OfOwner,
}
