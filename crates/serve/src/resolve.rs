//! From a request's path to an open file beneath the root, or to the reason why there is none.
//!
//! That a path cannot lead out is ensured twice: `wire` removes dot segments from the name, and the kernel resolves what is
//! left beneath the root, symbolic links included. Names that begin with a dot are served like any other; folders are
//! never listed.

use std::ffi::CStr;
use std::io;

use rustix::io::Errno;
use thalweg_sys::file::FileKind;
use thalweg_sys::{Fault, File, Root};
use thalweg_wire::target::{PathFault, relative_path};

/// What a folder is served as.
const INDEX: &[u8] = b"index.html";

/// What a path names.
pub(crate) enum Found {
    /// A regular file, of a folder its index.
    File(File),
    /// A folder that was asked for without the slash at the end.
    Folder,
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

/// Opens what a canonical name means. `path` is room to write in.
pub(crate) fn open(root: &Root, name: &[u8], path: &mut Vec<u8>) -> Result<Found, Refusal> {
    path.clear();
    let wants_folder = name.ends_with(b"/");
    path.extend_from_slice(if name == b"/" { b"" } else { name });
    if wants_folder {
        path.extend_from_slice(INDEX);
    }
    path.push(0);
    let path = CStr::from_bytes_with_nul(path).map_err(|_| Refusal::Malformed)?;
    let file = root.open_beneath(path).map_err(|error| Refusal::of(&error))?;
    match file.kind {
        FileKind::Regular => Ok(Found::File(file)),
        FileKind::Directory if !wants_folder => Ok(Found::Folder),
        FileKind::Directory | FileKind::Special => Err(Refusal::NotFound),
    }
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
