//! A regular file or a block device as a medium. The file has its full size from its creation, and
//! is locked while it is open, so that two processes never write the same volume.
//!
//! `sendfile` passes pages of the page cache to a socket, and on loopback, or between containers,
//! the receiver's queue has these very pages until the receiver reads them, long after TCP has
//! acknowledged them. A write through the page cache would change bytes that were sent. A direct
//! write leaves such pages alone: it takes them out of the page cache.

use super::Medium;
use crate::{aligned::Aligned, bytes::BLOCK_BYTES};
use rustix::{
    fs::{FallocateFlags, OFlags, fallocate, fstatfs},
    io::{Errno, ReadWriteFlags, preadv2},
};
use std::{
    fs::{OpenOptions, TryLockError},
    io::{self, IoSliceMut},
    os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt},
    path::Path,
    sync::Arc,
};

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
    /// The same file, for writes past the page cache, if its file system has such.
    direct: Option<std::fs::File>,
    size: u64,
    read_only: bool,
}

impl File {
    /// Makes a new file with this size; an existing one is an error. Other users may not read it:
    /// it will have what clients are only given by a server that knows who may have it.
    pub fn create(path: &Path, size: u64, allocation: Allocation) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(path)?;
        let sized = file.set_len(size).and_then(|()| match allocation {
            Allocation::Sparse => Ok(()),
            Allocation::Whole => fallocate(&file, FallocateFlags::empty(), 0, size).map_err(io::Error::from),
        });
        if let Err(error) = sized {
            // A file that could not get its size is of no use to anybody.
            let _ = std::fs::remove_file(path);
            return Err(error);
        }
        Self::locked(file, path, false)
    }

    /// Opens a file or block device for reading and writing, or for reading alone if writing is
    /// not permitted.
    pub fn open(path: &Path) -> io::Result<Self> {
        match openable().write(true).open(path) {
            Ok(file) => Self::locked(file, path, false),
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
        Self::locked(openable().open(path)?, path, true)
    }

    fn locked(file: std::fs::File, path: &Path, read_only: bool) -> io::Result<Self> {
        let kind = file.metadata()?.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is neither a file nor a block device"));
        }
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
        let direct = if read_only { None } else { direct(path, &file) };
        Ok(Self { file: Arc::new(file), direct, size, read_only })
    }

    fn check_bounds(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match offset.checked_add(bytes.len() as u64) {
            Some(end) if end <= self.size => Ok(()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a write beyond the volume's size")),
        }
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
        self.check_bounds(bytes, offset)?;
        self.file.write_all_at(bytes, offset)
    }

    fn replace_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_bounds(bytes, offset)?;
        self.direct.as_ref().unwrap_or(&self.file).write_all_at(bytes, offset)
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
        (self.read_only || self.direct.is_some()).then_some(&self.file)
    }
}

/// How volumes are opened. Opening a FIFO must not wait for its writer; on a regular file and on a
/// block device NONBLOCK means nothing.
fn openable() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NONBLOCK.bits() as i32);
    options
}

/// Opens a file a second time, for direct writes; `None` if they do not work.
fn direct(path: &Path, file: &std::fs::File) -> Option<std::fs::File> {
    let flags = OFlags::DIRECT.bits() as i32;
    let direct = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).ok()?;
    let (one, other) = (file.metadata().ok()?, direct.metadata().ok()?);
    if (one.dev(), one.ino(), one.rdev()) != (other.dev(), other.ino(), other.rdev()) {
        return None;
    }
    // A tmpfs permits direct writes, and makes them through the page cache, which it consists of.
    if fstatfs(file).ok()?.f_type as u64 == TMPFS_MAGIC {
        return None;
    }
    // A device may want larger blocks.
    let mut block = Aligned::default();
    block.resize(BLOCK_BYTES as usize);
    direct.read_at(&mut block, 0).ok()?;
    Some(direct)
}

/// The type of a tmpfs (statfs(2)).
const TMPFS_MAGIC: u64 = 0x0102_1994;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn other_users_cannot_read_a_volume() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("volume");
        File::create(&path, 4096, Allocation::Sparse).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_volume_is_refused_without_waiting_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for path in [&fifo, folder.path(), Path::new("/dev/null")] {
            let opened = [File::open_read_only(path), File::open(path)];
            assert!(opened.iter().all(Result::is_err), "{}", path.display());
        }
        let kind = File::open_read_only(&fifo).unwrap_err().kind();
        assert_eq!(kind, io::ErrorKind::InvalidInput);
    }

    #[test]
    fn bytes_that_were_acknowledged_and_not_read_stay_as_they_were() {
        const SIZE: usize = 64 << 10;
        let folder = tempfile::tempdir().unwrap();
        let medium = File::create(&folder.path().join("volume"), SIZE as u64, Allocation::Sparse).unwrap();
        let mut bytes = Aligned::default();
        bytes.resize(SIZE);
        bytes.fill(b'a');
        medium.replace_at(&bytes, 0).unwrap();
        // A tmpfs has none: its bodies are copied.
        let Some(file) = medium.file() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut receiver = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut sender, _) = listener.accept().unwrap();
        let sent = rustix::fs::sendfile(&sender, file, Some(&mut 0), SIZE / 2).unwrap();
        assert!(sent > 0);
        sender.write_all(b".").unwrap();
        // The mark behind them can be seen: they have arrived, and are not read.
        let mut seen = vec![0; SIZE];
        while receiver.peek(&mut seen).unwrap() <= sent {}
        bytes.fill(b'b');
        medium.replace_at(&bytes, 0).unwrap();
        let mut received = vec![0; sent];
        receiver.read_exact(&mut received).unwrap();
        assert!(received.iter().all(|byte| *byte == b'a'), "bytes have changed after they were sent");
        let mut now = vec![0; SIZE];
        medium.read_at(&mut now, 0).unwrap();
        assert!(now.iter().all(|byte| *byte == b'b'));
    }
}
