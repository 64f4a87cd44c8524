//! A file of the kernel that stays open and is read again from its beginning each time, which
//! saves the look-up of its path.

use std::borrow::Cow;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The most that is read of a file; longer ones are cut there.
const FILE_BYTES_MAX: usize = 4 << 20;
/// The least room for a read; the kernel gives most of its tables in pieces of a page.
const READ_BYTES: usize = 16 << 10;

/// An open file of `/proc` or `/sys`.
#[derive(Debug)]
pub(crate) struct KernelFile(File);

impl KernelFile {
    /// Opens a file and reads it once, since some can be opened only.
    ///
    /// # Errors
    /// The kernel does not have it, or does not let this user read it.
    pub(crate) fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(path)?;
        file.read_at(&mut [0; 1], 0)?;
        Ok(Self(file))
    }

    /// Reads all of it into `buffer`; `None` if what it describes is gone.
    pub(crate) fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Option<Cow<'b, str>> {
        let mut filled = 0;
        loop {
            if buffer.len() < filled + READ_BYTES {
                buffer.resize(filled + READ_BYTES, 0);
            }
            match self.0.read_at(&mut buffer[filled..], filled as u64) {
                Ok(0) => break,
                Ok(bytes) => filled += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            if filled >= FILE_BYTES_MAX {
                break;
            }
        }
        Some(String::from_utf8_lossy(&buffer[..filled]))
    }
}
