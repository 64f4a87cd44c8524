//! Misses: the reasons why a file of a tree was not opened or read.

use std::io;

use rustix::io::Errno;
use thalweg_sys::Fault;
use thalweg_sys::file::leads_nowhere;

use crate::content::refusal::Refusal;

/// The reason why a file was not opened or read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Miss {
    /// The kernel would have to wait for a disk.
    WouldBlock,
    /// The name is refused.
    Refused(Refusal),
}

impl Miss {
    pub(crate) const NOT_FOUND: Self = Self::Refused(Refusal::NotFound);
    pub(crate) const EXHAUSTED: Self = Self::Refused(Refusal::Exhausted);
    pub(crate) const FAILED: Self = Self::Refused(Refusal::Failed);

    /// The miss that an error of opening or reading comes to.
    pub(crate) fn of(error: &io::Error) -> Self {
        Self::Refused(match Errno::from_io_error(error) {
            Some(Errno::AGAIN) => return Self::WouldBlock,
            Some(Errno::ACCESS | Errno::PERM) => Refusal::Forbidden,
            Some(_) if leads_nowhere(error) => Refusal::NotFound,
            _ if Fault::of(error) == Fault::NoDescriptor => Refusal::Exhausted,
            _ => Refusal::Failed,
        })
    }
}

impl From<Miss> for Refusal {
    /// A kernel that would block though it was allowed to has too much to do.
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::WouldBlock => Self::Exhausted,
            Miss::Refused(refusal) => refusal,
        }
    }
}
