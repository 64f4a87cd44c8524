//! The ring's table of registered files. A socket has the same index in it as in the socket table.
//!
//! An operation that names its socket by descriptor takes and releases a reference to the file: two
//! atomic operations on an unshared cache line, for each send. An operation that names an index of
//! this table does not. A registration costs a system call and its removal a submission, so only
//! sockets that send more than once are registered.
//!
//! An entry of this table keeps its socket open: closing the descriptor is not enough.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use io_uring::Submitter;
use io_uring::types::Fixed;

use crate::resource_limits::descriptors;
use crate::table::SocketId;

/// The table of one ring.
pub(super) struct Files {
    /// How many places there are; sockets beyond are named by descriptor.
    places: usize,
}

impl Files {
    /// Makes a table for so many sockets, as far as the kernel allows: not more than descriptors.
    pub(super) fn register(submitter: &Submitter<'_>, sockets_max: usize) -> Self {
        /// IORING_MAX_FIXED_FILES of the kernel.
        const PLACES_MAX: usize = 1 << 20;
        let allowed = usize::try_from(descriptors().soft).unwrap_or(usize::MAX);
        let places = sockets_max.min(allowed).min(PLACES_MAX);
        // A ring without the table works as well, only dearer.
        let registered = submitter.register_files_sparse(places as u32);
        Self { places: if registered.is_ok() { places } else { 0 } }
    }

    /// Puts a socket in; whether it is there now.
    pub(super) fn put(&self, submitter: &Submitter<'_>, id: SocketId, fd: &OwnedFd) -> bool {
        let put = || -> io::Result<usize> { submitter.register_files_update(id.index() as u32, &[fd.as_raw_fd()]) };
        id.index() < self.places && put().is_ok()
    }

    /// The place of a socket, as operations name it.
    pub(super) fn place(id: SocketId) -> Fixed {
        Fixed(id.index() as u32)
    }
}
