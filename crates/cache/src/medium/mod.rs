//! Media that volumes lie on: bytes that are read and written at offsets, and made durable. Two
//! implementations: [`File`], a regular file or a block device, and [`Faulty`], memory with the
//! faults of disks. Layout and checksums are not known here.

mod faulty;
mod file;

pub use faulty::{Faults, Faulty, Kept};
pub use file::{Allocation, File};

use std::{io, sync::Arc};

/// The device that a volume lies on. Sizes are fixed: nothing is ever written beyond
/// [`size`](Medium::size).
pub trait Medium: Send + Sync {
    /// Fills `buffer` from `offset`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;

    /// Fills `buffer` from `offset` if that needs no wait for a disk, and says whether it did.
    fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        self.read_at(buffer, offset).map(|()| true)
    }

    /// Writes all of `bytes` at `offset`; durable only after the next [`sync`](Medium::sync).
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Writes all of `bytes` at `offset`, both multiples of 4 KiB, in the place of bytes that
    /// sockets may still have. Those stay as they were, if the medium has a
    /// [`file`](Medium::file). Durable as with [`write_at`](Medium::write_at).
    fn replace_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_at(bytes, offset)
    }

    /// Makes durable what has been written.
    fn sync(&self) -> io::Result<()>;

    /// The size in bytes.
    fn size(&self) -> u64;

    /// Whether writes are refused from the start.
    fn is_read_only(&self) -> bool {
        false
    }

    /// The file behind the medium, if there is one that `sendfile` can read.
    fn file(&self) -> Option<&Arc<std::fs::File>> {
        None
    }
}
