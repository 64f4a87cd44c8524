//! A tree: a folder of the host that is served, opened, with the rules by which names in it are
//! opened.
//!
//! A path cannot lead out of a tree for two reasons: canonical names have no dot segments, and the
//! kernel resolves them beneath the root, symbolic links included.

use std::ffi::CStr;
use std::io;
use std::path::Path;

use thalweg_sys::file::{FileKind, Links};
use thalweg_sys::{File, Root, Wait};

use crate::config::Symlinks;
use crate::content::local::miss::Miss;
use crate::content::refusal::Refusal;

/// An open tree. Names are relative to its root.
pub(crate) struct Tree {
    root: Root,
    /// The same root for a first try, which does not wait for a disk.
    root_at_once: Root,
    /// Names that begin with a dot are served.
    dot_files: bool,
    /// The root is the topmost folder of its site.
    is_topmost: bool,
}

impl Tree {
    /// Opens the folder at a path.
    ///
    /// # Errors
    /// The folder cannot be opened.
    pub(crate) fn open(path: &Path, symlinks: Symlinks, dot_files: bool, is_topmost: bool) -> io::Result<Self> {
        let links = match symlinks {
            Symlinks::Deny => Links::None,
            Symlinks::Beneath => Links::Beneath,
            Symlinks::OwnerMatch => Links::OfOwner,
        };
        let root = Root::open(path)?.following(links);
        Ok(Self { root_at_once: root.at_once(), root, dot_files, is_topmost })
    }

    /// Opens a file or folder. `room` is room to write in, and has the name afterwards.
    pub(crate) fn open_file(&self, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<File, Miss> {
        if self.hides(name) {
            return Err(Miss::NOT_FOUND);
        }
        self.open_beneath(name, wait, room)
    }

    /// Opens a folder, whose name is empty for the root itself and else ends with a slash.
    pub(crate) fn open_folder(&self, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<File, Miss> {
        if name.is_empty() { self.open_beneath(b".", wait, room) } else { self.open_file(name, wait, room) }
    }

    /// Opens a companion of a file, under the rules for all files of the tree; `None` if there is
    /// none that would be served.
    pub(crate) fn open_companion(&self, name: &[u8], wait: Wait) -> Result<Option<File>, Miss> {
        match self.open_file(name, wait, &mut Vec::new()) {
            Ok(file) => Ok(Some(file).filter(|file| file.kind == FileKind::Regular)),
            Err(miss @ (Miss::EXHAUSTED | Miss::WouldBlock)) => Err(miss),
            Err(_) => Ok(None),
        }
    }

    fn open_beneath(&self, name: &[u8], wait: Wait, room: &mut Vec<u8>) -> Result<File, Miss> {
        let root = match wait {
            Wait::Allowed => &self.root,
            Wait::Never => &self.root_at_once,
        };
        room.clear();
        room.extend_from_slice(name);
        room.push(0);
        let path = CStr::from_bytes_with_nul(room).map_err(|_| Miss::Refused(Refusal::Malformed))?;
        let opened = root.open_beneath(path).map_err(|error| Miss::of(&error));
        room.pop();
        opened
    }

    /// Whether a name is not served because of a dot at the beginning of one of its parts.
    pub(crate) fn hides(&self, name: &[u8]) -> bool {
        !self.dot_files && has_hidden_part(name, self.is_topmost)
    }
}

/// Whether one of the parts of a name begins with a dot. `.well-known` in the topmost folder of a
/// site does not count (RFC 8615): its contents are meant for the world.
pub(crate) fn has_hidden_part(name: &[u8], is_topmost: bool) -> bool {
    let at_top = is_topmost.then(|| name.strip_prefix(b".well-known")).flatten();
    let parts = at_top.filter(|rest| matches!(rest, [] | [b'/', ..])).unwrap_or(name);
    parts.split(|&byte| byte == b'/').any(|part| part.starts_with(b"."))
}
