//! The file system with a folder, from `/proc/self/mountinfo` (proc_pid_mountinfo(5)).

use std::fs;
use std::path::Path;

/// A mounted file system.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mount {
    /// Its type.
    pub(crate) kind: String,
    /// Its device or other source.
    pub(crate) source: String,
    /// Its mount options.
    pub(crate) options: String,
}

/// The file system with this folder, whose path is absolute and has no links. Nothing is filled in
/// if the kernel does not tell.
pub(crate) fn of(folder: &Path) -> Mount {
    fs::read_to_string("/proc/self/mountinfo").map(|text| find(&text, folder)).unwrap_or_default()
}

/// The last mount with the longest mount point above the folder is the one that is seen there.
fn find(mountinfo: &str, folder: &Path) -> Mount {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        let point = unescaped(before.split(' ').nth(4)?);
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?.to_owned(), unescaped(after.next()?));
        let options = before.split(' ').nth(5)?.to_owned();
        folder.starts_with(&point).then_some((point.len(), Mount { kind, source, options }))
    });
    mounts.max_by_key(|(length, _)| *length).map(|(_, mount)| mount).unwrap_or_default()
}

/// Spaces, tabs, line ends and backslashes stand as octal numbers.
fn unescaped(text: &str) -> String {
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (escape, character)| text.replace(escape, character))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_last_mount_is_that_of_a_folder() {
        let table = "21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw\n\
                     22 21 0:30 / /srv\\040a rw,noatime - xfs /dev/vdb rw\n\
                     23 21 0:31 / /srv\\040a rw - tmpfs none rw,size=64k\n";
        let check = |folder: &str, kind: &str, source: &str| {
            let mount = find(table, Path::new(folder));
            assert_eq!((mount.kind.as_str(), mount.source.as_str()), (kind, source), "{folder}");
        };
        check("/home", "ext4", "/dev/vda");
        check("/srv a/b", "tmpfs", "none");
        check("/srv ab", "ext4", "/dev/vda");
        assert_eq!(find("", Path::new("/")), Mount::default());
    }
}
