//! Folders: the names in one, and what each of them is, without opening it.
//!
//! Which of them may be served is for the server to decide; links are reported as links and never
//! followed here.

use std::ffi::CStr;
use std::io;
use std::mem::MaybeUninit;
use std::ops::ControlFlow;

use rustix::fs::{Access, AtFlags, FileType, RawDir, StatxFlags, accessat, statx};

use crate::file::File;

/// The kind of an entry of a folder.
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

/// The state of an entry, as `statx` reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EntryState {
    /// Its kind; never unknown.
    pub kind: EntryKind,
    /// Bytes.
    pub size: u64,
    /// Modification time: whole seconds since 1970-01-01 UTC.
    pub modified_s: i64,
    /// Change time (of the inode): whole seconds since 1970-01-01 UTC.
    pub changed_s: i64,
}

/// The buffer size of one read of a folder. Names have 255 bytes at most, so it holds a few hundred
/// entries.
const ENTRIES_BYTES: usize = 32 << 10;

impl File {
    /// Visits the names in a folder, in no particular order, without `.` and `..`, until there are
    /// no more or the visitor has had enough. A folder can be read once after it was opened: the
    /// position is the descriptor's.
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
            modified_s: state.stx_mtime.tv_sec,
            changed_s: state.stx_ctime.tv_sec,
        })
    }

    /// Whether this process may read a file of this folder, or go into a folder in it.
    pub fn may_use(&self, name: &CStr, kind: EntryKind) -> bool {
        let access = if kind == EntryKind::Directory { Access::EXEC_OK } else { Access::READ_OK };
        accessat(self.fd(), name, access, AtFlags::EACCESS).is_ok()
    }
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    use rustix::fs::{CWD, Mode, mknodat};

    use super::*;
    use crate::Root;

    /// A folder that is removed when the test ends.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(test: &str) -> Self {
            let path = std::env::temp_dir().join(format!("thalweg-{test}-{}", std::process::id()));
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn open(&self) -> File {
            Root::open(&self.0).unwrap().open_beneath(c".").unwrap()
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn entries(folder: &File) -> BTreeMap<Vec<u8>, EntryKind> {
        let mut entries = BTreeMap::new();
        let visit = |name: &CStr, kind| {
            let before = entries.insert(name.to_bytes().to_vec(), kind);
            assert!(before.is_none(), "{name:?} came twice");
            ControlFlow::Continue(())
        };
        folder.visit_entries(visit).unwrap();
        entries
    }

    #[test]
    fn entries_are_told_apart_and_links_are_not_followed() {
        let scratch = Scratch::new("entries");
        let path = |name: &str| scratch.0.join(name);
        fs::write(path("file"), "12345").unwrap();
        fs::create_dir(path("sub")).unwrap();
        symlink("sub", path("link")).unwrap();
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        fs::write(scratch.0.join(OsStr::from_bytes(b"\xff\n")), "").unwrap();
        let folder = scratch.open();
        let found = entries(&folder);
        let expected = [
            (b"fifo".to_vec(), EntryKind::Special),
            (b"file".to_vec(), EntryKind::Regular),
            (b"link".to_vec(), EntryKind::Link),
            (b"sub".to_vec(), EntryKind::Directory),
            (b"\xff\n".to_vec(), EntryKind::Regular),
        ];
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.iter().map(|(name, _)| name).collect::<Vec<_>>());
        for (name, kind) in &expected {
            // Some file systems do not say what an entry is until it is looked at.
            assert!([*kind, EntryKind::Unknown].contains(&found[name]), "{}", name.escape_ascii());
            let name = std::ffi::CString::new(name.clone()).unwrap();
            assert_eq!(folder.look_at(&name).unwrap().kind, *kind, "{name:?}");
        }
        let state = folder.look_at(c"file").unwrap();
        let modified = fs::metadata(path("file")).unwrap().modified().unwrap();
        let modified_s = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert_eq!((state.size, state.modified_s), (5, modified_s as i64));
        assert!(folder.may_use(c"file", EntryKind::Regular));
        assert!(!folder.may_use(c"missing", EntryKind::Regular));
        assert!(folder.look_at(c"missing").is_err());
    }

    #[test]
    fn more_entries_than_fit_the_buffer_all_come_once() {
        let scratch = Scratch::new("many-entries");
        for number in 0..1500 {
            fs::write(scratch.0.join(format!("{number:0>100}")), "").unwrap();
        }
        assert_eq!(entries(&scratch.open()).len(), 1500);
        let mut seen = 0;
        let stop_early = |_: &CStr, _| {
            seen += 1;
            if seen == 10 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        scratch.open().visit_entries(stop_early).unwrap();
        assert_eq!(seen, 10);
    }

    #[test]
    fn a_file_has_no_entries() {
        let scratch = Scratch::new("no-entries");
        fs::write(scratch.0.join("file"), "").unwrap();
        let file = Root::open(&scratch.0).unwrap().open_beneath(c"file").unwrap();
        assert!(file.visit_entries(|_, _| ControlFlow::Continue(())).is_err());
    }
}
