//! Folders: the names in one, and what each of them is, without opening it.
//!
//! Which of them may be served is for the server to decide; links are reported as links and never followed here.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;

use rustix::fs::{Access, AtFlags, FileType, RawDir, StatxFlags, StatxTimestamp, accessat, statx};

use crate::file::File;

/// What a name in a folder stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, FIFO or socket.
    Special,
    /// The file system does not say without a closer look.
    Unknown,
}

/// What a closer look at an entry has shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryState {
    /// What it is; never unknown.
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    /// Modification time: whole seconds since 1970-01-01 UTC.
    pub modified_s: i64,
    /// Change time (of the inode): whole seconds since 1970-01-01 UTC.
    pub changed_s: i64,
}

/// How much of a folder the kernel is asked for at once. Names have 255 bytes at most, so this holds a few hundred.
const ENTRIES_BYTES: usize = 32 << 10;

impl File {
    /// Visits the names in a folder, in no particular order, without `.` and `..`, until there are no more or the visitor has
    /// had enough. A folder can be read once after it was opened: the position is the descriptor's.
    ///
    /// # Errors
    /// Those of `getdents64`; `ENOTDIR` if this is no folder.
    pub fn visit_entries(&self, mut visit: impl FnMut(&CStr, EntryKind) -> ControlFlow<()>) -> io::Result<()> {
        let mut buffer = vec![MaybeUninit::uninit(); ENTRIES_BYTES];
        let mut entries = RawDir::new(self.fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = match entry {
                Ok(entry) => entry,
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if visit(name, kind_of(entry.file_type())).is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at an entry of this folder. A link is looked at itself.
    ///
    /// # Errors
    /// Those of `statx`: `ENOENT` when it has gone meanwhile, ...
    pub fn look_at(&self, name: &CStr) -> io::Result<EntryState> {
        let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::CTIME;
        let state = statx(self.fd(), name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, wanted)?;
        Ok(EntryState {
            kind: kind_of(FileType::from_raw_mode(state.stx_mode.into())),
            size: state.stx_size,
            modified_s: second_of(&state.stx_mtime),
            changed_s: second_of(&state.stx_ctime),
        })
    }

    /// Whether this process may read a file of this folder, or go into a folder in it.
    pub fn may_use(&self, name: &CStr, kind: EntryKind) -> bool {
        let access = if kind == EntryKind::Directory { Access::EXEC_OK } else { Access::READ_OK };
        accessat(self.fd(), name, access, AtFlags::EACCESS).is_ok()
    }
}

/// Time stamps before the epoch have negative seconds and nanoseconds that count forward.
fn second_of(time: &StatxTimestamp) -> i64 {
    time.tv_sec
}

fn kind_of(kind: FileType) -> EntryKind {
    match kind {
        FileType::RegularFile => EntryKind::Regular,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        FileType::Unknown => EntryKind::Unknown,
        _ => EntryKind::Special,
    }
}
