//! The state of a file as `fstat` reports it, and whether two states have the same content.

use std::{error, fmt, io};

use rustix::fs::Stat;

/// Identity and state of a file. Equal stamps: the same file, unchanged as far as the file system
/// shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Stamp {
    /// The device that the file is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
    /// Bytes.
    pub size: u64,
    /// Modification time: whole seconds since 1970-01-01 UTC.
    pub modified_s: i64,
    /// Modification time: nanoseconds within the second.
    pub modified_ns: u32,
    /// Change time (of the inode) in nanoseconds; moves even when a program sets the modification
    /// time back.
    pub changed_ns: i128,
    /// The names that the file has; 0 when another file was renamed over its last one, or that was
    /// removed.
    pub links: u64,
    /// Its type and permissions.
    pub mode: u32,
    /// The user who owns it.
    pub user: u32,
    /// The group that owns it.
    pub group: u32,
}

impl Stamp {
    #[allow(clippy::useless_conversion, reason = "the number of links has 32 bits on other processors")]
    pub(super) fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified_s: stat.st_mtime,
            modified_ns: stat.st_mtime_nsec as u32,
            changed_ns: i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec),
            links: stat.st_nlink.into(),
            mode: stat.st_mode,
            user: stat.st_uid,
            group: stat.st_gid,
        }
    }

    /// Whether this state of a file has the content that it had in an earlier one: size and
    /// modification time are the same, and so is the change time, unless the number of names, the
    /// permissions or the owner explain why that has moved. A rename over the file, a removal, a
    /// hard link, `chmod` and `chown` are explained in this way. A write whose modification time
    /// was put back is not, unless one of those came with it.
    pub fn has_content_of(&self, earlier: &Self) -> bool {
        let content = |stamp: &Self| (stamp.size, stamp.modified_s, stamp.modified_ns);
        let attributes = |stamp: &Self| (stamp.links, stamp.mode, stamp.user, stamp.group);
        content(self) == content(earlier)
            && (self.changed_ns == earlier.changed_ns || attributes(self) != attributes(earlier))
    }
}

/// The error of sending or reading a file whose content is no longer that of its stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileChanged {
    /// The device that the file is on.
    pub device: u64,
    /// Its inode there.
    pub inode: u64,
}

impl FileChanged {
    /// The change that is the cause of an error, if it is one.
    pub fn cause_of(error: &io::Error) -> Option<Self> {
        error.get_ref()?.downcast_ref().copied()
    }
}

impl fmt::Display for FileChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the file has changed since it was opened")
    }
}

impl error::Error for FileChanged {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_content_is_told_from_one_of_names_and_rights() {
        let earlier = Stamp {
            size: 3,
            modified_s: 4,
            modified_ns: 5,
            changed_ns: 6,
            links: 1,
            mode: 0o100_644,
            ..Stamp::default()
        };
        #[track_caller]
        fn check(now: Stamp, earlier: &Stamp, same: bool) {
            assert_eq!(now.has_content_of(earlier), same, "{now:?}");
        }
        check(earlier, &earlier, true);
        check(Stamp { size: 4, ..earlier }, &earlier, false);
        check(Stamp { modified_s: 5, changed_ns: 7, ..earlier }, &earlier, false);
        check(Stamp { modified_ns: 6, changed_ns: 7, ..earlier }, &earlier, false);
        // Written, with the modification time put back; or renamed, which looks the same.
        check(Stamp { changed_ns: 7, ..earlier }, &earlier, false);
        // Renamed over, linked, chmod, chown.
        check(Stamp { changed_ns: 7, links: 0, ..earlier }, &earlier, true);
        check(Stamp { changed_ns: 7, links: 2, ..earlier }, &earlier, true);
        check(Stamp { changed_ns: 7, mode: 0o100_640, ..earlier }, &earlier, true);
        check(Stamp { changed_ns: 7, user: 1, ..earlier }, &earlier, true);
        check(Stamp { changed_ns: 7, group: 1, ..earlier }, &earlier, true);
        // They explain nothing else.
        check(Stamp { changed_ns: 7, links: 0, size: 4, ..earlier }, &earlier, false);
        check(Stamp { changed_ns: 7, links: 0, modified_ns: 4, ..earlier }, &earlier, false);
    }
}
