//! From a request's path to an open file beneath the root, or to the reason why there is none.
//!
//! That a path cannot lead out is ensured twice: `wire` removes dot segments from the name, and the kernel resolves what is
//! left beneath the root, symbolic links included.

use std::ffi::CStr;
use std::io;
use std::sync::Arc;

use rustix::io::Errno;
use thalweg_sys::file::FileKind;
use thalweg_sys::{Fault, File, Root, Wait};
use thalweg_wire::target::{PathFault, relative_path};

use crate::catalog::site::{Mount, Place, Site};
use crate::content::policy::ResponsePolicy;

/// What a folder is served as, unless its settings say otherwise.
const INDEX: &str = "index.html";

/// What a path names.
pub(crate) enum Found<'s> {
    /// A regular file, of a folder its index.
    File(FoundFile<'s>),
    /// A folder that was asked for without the slash at the end.
    Folder,
}

/// A file with what holds for it.
pub(crate) struct FoundFile<'s> {
    pub(crate) file: File,
    pub(crate) policy: Arc<ResponsePolicy>,
    /// The mount that it was found in.
    pub(crate) mount: &'s Mount,
}

/// Why a path names nothing that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Refusal {
    /// The path cannot be a name.
    Malformed,
    /// There is no such file, or none that is served.
    NotFound,
    /// The file system does not let us read it.
    Forbidden,
    /// This process or host has no descriptor or memory left, or more to do than it can, for now.
    Exhausted,
    /// To find out, one would have to wait for a disk.
    NotYet,
    /// The file keeps changing, or the file system is broken.
    Failed,
}

impl Refusal {
    /// The status to answer with.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::NotFound => 404,
            Self::Forbidden => 403,
            Self::Exhausted | Self::NotYet => 503,
            Self::Failed => 500,
        }
    }

    /// What an error of opening or reading means.
    pub(crate) fn of(error: &io::Error) -> Self {
        match Errno::from_io_error(error) {
            Some(Errno::ACCESS | Errno::PERM) => Self::Forbidden,
            Some(Errno::AGAIN) => Self::NotYet,
            Some(
                Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::XDEV
                | Errno::NAMETOOLONG
                | Errno::NXIO
                | Errno::NODEV
                | Errno::ISDIR
                | Errno::INVAL
                | Errno::ILSEQ,
            ) => Self::NotFound,
            _ if Fault::of(error) == Fault::NoDescriptor => Self::Exhausted,
            _ => Self::Failed,
        }
    }
}

/// Writes the canonical form of a path into `name`, which all spellings of one file share: relative, decoded, and with
/// a slash at its end if a folder is meant. The root is `/`.
pub(crate) fn canonical_name(path: &[u8], name: &mut Vec<u8>) -> Result<(), Refusal> {
    match relative_path(path, name) {
        Ok(shape) => {
            if shape.trailing_slash {
                name.push(b'/');
            }
            Ok(())
        }
        // No file name has a slash in it, so this is the name of nothing.
        Err(PathFault::EncodedSlash) => Err(Refusal::NotFound),
        Err(_) => Err(Refusal::Malformed),
    }
}

/// Opens what a canonical name means. Afterwards `room` has the file's name, relative to its mount's root.
pub(crate) fn open<'s>(site: &'s Site, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<Found<'s>, Refusal> {
    let (mount, within) = match site.place(name) {
        Place::Within(mount, within) => (mount, within),
        Place::MountPoint => return Ok(Found::Folder),
        Place::Outside => return Err(Refusal::NotFound),
    };
    if within.is_empty() || within.ends_with(b"/") {
        return open_index(site, (mount, within), name, wait, room);
    }
    let file = mount.open_file(within, wait, room)?;
    match file.kind {
        FileKind::Regular => {
            let (folder, file_name) = split(name);
            let policy = site.policy(folder, file_name);
            Ok(Found::File(FoundFile { file, policy, mount }))
        }
        FileKind::Directory => Ok(Found::Folder),
        FileKind::Special => Err(Refusal::NotFound),
    }
}

/// Opens the first file that a folder may be served as.
fn open_index<'s>(
    site: &'s Site,
    (mount, within): (&'s Mount, &[u8]),
    name: &[u8],
    wait: Wait,
    room: &mut Vec<u8>,
) -> Result<Found<'s>, Refusal> {
    let folder = name.strip_prefix(b"/").unwrap_or(name);
    let of_folder = site.settings(folder, None);
    let usual = [INDEX.to_owned()];
    for index in of_folder.index.as_deref().unwrap_or(&usual) {
        match mount.open_file(&[within, index.as_bytes()].concat(), wait, room) {
            Ok(file) if file.kind == FileKind::Regular => {
                let policy = site.policy(folder, index.as_bytes());
                return Ok(Found::File(FoundFile { file, policy, mount }));
            }
            Ok(_) | Err(Refusal::NotFound) => {}
            Err(refusal) => return Err(refusal),
        }
    }
    Err(Refusal::NotFound)
}

/// Opens what has this name beneath a root. Afterwards `room` has the name.
pub(crate) fn open_beneath(root: &Root, name: &[u8], room: &mut Vec<u8>) -> Result<File, Refusal> {
    room.clear();
    room.extend_from_slice(name);
    room.push(0);
    let path = CStr::from_bytes_with_nul(room).map_err(|_| Refusal::Malformed)?;
    let opened = root.open_beneath(path).map_err(|error| Refusal::of(&error));
    room.pop();
    opened
}

/// The folder of a file, with the slash at its end, and the file's name in it.
pub(crate) fn split(name: &[u8]) -> (&[u8], &[u8]) {
    name.split_at(name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_file_share_a_name() {
        let cases: &[(&str, Result<&str, Refusal>)] = &[
            ("/", Ok("/")),
            ("/.", Ok("/")),
            ("/a", Ok("a")),
            ("//a", Ok("a")),
            ("/%61", Ok("a")),
            ("/b/../a", Ok("a")),
            ("/a/", Ok("a/")),
            ("/a/.", Ok("a/")),
            ("/.hidden", Ok(".hidden")),
            ("/../a", Err(Refusal::Malformed)),
            ("/%2e%2e/a", Err(Refusal::Malformed)),
            ("/a%00", Err(Refusal::Malformed)),
            ("/a%2", Err(Refusal::Malformed)),
            ("/a%2f..", Err(Refusal::NotFound)),
        ];
        for (path, expected) in cases {
            let mut name = Vec::new();
            let result = canonical_name(path.as_bytes(), &mut name).map(|()| String::from_utf8(name).unwrap());
            assert_eq!(result.as_deref(), expected.as_ref().map(|name| *name), "{path}");
        }
    }
}
