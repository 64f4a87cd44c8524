//! A regular file or a block device as a medium. The file has its full size from its creation, and
//! is locked while it is open, so that two processes never write the same volume.

use super::Medium;
use rustix::{
    fs::{FallocateFlags, fallocate},
    io::{Errno, ReadWriteFlags, preadv2, pwritev},
};
use std::{
    fs::{OpenOptions, TryLockError},
    io::{self, IoSlice, IoSliceMut},
    os::unix::fs::FileExt,
    path::Path,
    sync::Arc,
};

/// Most pieces that one call of the kernel writes (IOV_MAX).
const PIECES_MAX: usize = 1024;

/// Whether the blocks of a new file are taken from the file system at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Allocation {
    /// Blocks are taken as they are written; the file system may be full by then.
    #[default]
    Sparse,
    /// All blocks are taken at creation.
    Whole,
}

/// An open file or block device.
#[derive(Debug)]
pub struct File {
    file: Arc<std::fs::File>,
    size: u64,
    read_only: bool,
}

impl File {
    /// Makes a new file with this size; an existing one is an error.
    pub fn create(path: &Path, size: u64, allocation: Allocation) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(path)?;
        let sized = file.set_len(size).and_then(|()| match allocation {
            Allocation::Sparse => Ok(()),
            Allocation::Whole => fallocate(&file, FallocateFlags::empty(), 0, size).map_err(io::Error::from),
        });
        if let Err(error) = sized {
            // A file that could not get its size is of no use to anybody.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Self::locked(file, false)
    }

    /// Opens a file or block device for reading and writing, or for reading alone if writing is
    /// not permitted.
    pub fn open(path: &Path) -> io::Result<Self> {
        match OpenOptions::new().read(true).write(true).open(path) {
            Ok(file) => Self::locked(file, false),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) =>
            {
                Self::open_read_only(path)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens a file or block device for reading alone.
    pub fn open_read_only(path: &Path) -> io::Result<Self> {
        Self::locked(std::fs::File::open(path)?, true)
    }

    fn locked(file: std::fs::File, read_only: bool) -> io::Result<Self> {
        let lock = if read_only { file.try_lock_shared() } else { file.try_lock() };
        match lock {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, "another process has the volume open"));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
        // The end of a block device is where a seek to it leads; its metadata says 0.
        let size = io::Seek::seek(&mut &file, io::SeekFrom::End(0))?;
        Ok(Self { file: Arc::new(file), size, read_only })
    }

    fn check_end(&self, offset: u64, bytes: usize) -> io::Result<()> {
        if offset.checked_add(bytes as u64).is_none_or(|end| end > self.size) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the volume's size"));
        }
        Ok(())
    }
}

impl Medium for File {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }

    fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<bool> {
        let bytes = buffer.len();
        match preadv2(&self.file, &mut [IoSliceMut::new(buffer)], offset, ReadWriteFlags::NOWAIT) {
            Ok(read) => Ok(read == bytes),
            // The page cache does not have it, or the file system cannot tell.
            Err(Errno::AGAIN | Errno::OPNOTSUPP | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_end(offset, bytes.len())?;
        self.file.write_all_at(bytes, offset)
    }

    fn write_pieces_at(&self, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        let bytes: usize = pieces.iter().map(|piece| piece.len()).sum();
        self.check_end(offset, bytes)?;
        while !pieces.is_empty() {
            let count = pieces.len().min(PIECES_MAX);
            match pwritev(&self.file, &pieces[..count], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut pieces, written);
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn size(&self) -> u64 {
        self.size
    }

    fn is_read_only(&self) -> bool {
        self.read_only
    }

    fn file(&self) -> Option<&Arc<std::fs::File>> {
        Some(&self.file)
    }
}
