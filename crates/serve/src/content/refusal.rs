//! Refusals: the reasons why an origin has no object for a name.

use std::io;

use rustix::io::Errno;
use thalweg_sys::Fault;

/// The reason why a name leads to nothing that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The path cannot be a name.
    Malformed,
    /// There is no such file, or none that is served.
    NotFound,
    /// The file system does not let this process read it.
    Forbidden,
    /// This process or host has no descriptor or memory left, or more to do than it can, for now.
    Exhausted,
    /// The kernel would have to wait for a disk to find out.
    NotYet,
    /// The file keeps changing, or the file system is broken.
    Failed,
}

impl Refusal {
    /// The refusal that an error of opening or reading comes to.
    pub(crate) fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::ACCESS | Errno::PERM) => Self::Forbidden,
            Some(Errno::AGAIN) => Self::NotYet,
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
                | Errno::ILSEQ,
            ) => Self::NotFound,
            _ if Fault::of(error) == Fault::NoDescriptor => Self::Exhausted,
            _ => Self::Failed,
        }
    }
}
