//! From a canonical name to an open file of a tree, or to the reason why there is none.

use std::sync::Arc;

use thalweg_sys::file::FileKind;
use thalweg_sys::{File, Wait};

use crate::content::local::miss::Miss;
use crate::content::local::namespace::{Namespace, Place};
use crate::content::local::tree::{Tree, has_hidden_part};
use crate::content::name::split;
use crate::content::policy::ResponsePolicy;

/// The file or folder that a name leads to.
pub(crate) enum Resolution<'s> {
    /// A regular file, of a folder its index.
    File(OpenFile<'s>),
    /// A folder whose name lacks the slash at the end.
    Folder,
}

/// An open file with what holds for it.
pub(crate) struct OpenFile<'s> {
    pub(crate) file: File,
    pub(crate) policy: Arc<ResponsePolicy>,
    /// The tree that the file is in, and the number of its mount.
    pub(crate) tree: &'s Tree,
    pub(crate) mount: u16,
}

/// Opens the file that a name of a site means. Afterwards `room` has the file's name beneath the
/// root of its tree.
pub(crate) fn open<'s>(
    namespace: &'s impl Namespace,
    site: usize,
    name: &[u8],
    wait: Wait,
    room: &mut Vec<u8>,
) -> Result<Resolution<'s>, Miss> {
    let place = namespace.place(site, name);
    let is_hidden = match place {
        Place::Within { tree, name, .. } => tree.hides(name),
        Place::MountPoint => false,
        Place::Outside => has_hidden_part(name, true),
    };
    let opened = match place {
        Place::Within { tree, mount, name: within } => {
            open_in(namespace, site, (tree, mount), within, name, wait, room)
        }
        Place::MountPoint => Ok(Resolution::Folder),
        Place::Outside => Err(Miss::NOT_FOUND),
    };
    match opened {
        // A folder that no tree has, and that has mounts in it, is a folder without an index.
        Err(Miss::NOT_FOUND) if !name.ends_with(b"/") && !is_hidden && namespace.has_mounts_beneath(site, name) => {
            Ok(Resolution::Folder)
        }
        opened => opened,
    }
}

/// Opens the file that a name means in the tree that it leads to.
fn open_in<'s>(
    namespace: &impl Namespace,
    site: usize,
    (tree, mount): (&'s Tree, u16),
    within: &[u8],
    name: &[u8],
    wait: Wait,
    room: &mut Vec<u8>,
) -> Result<Resolution<'s>, Miss> {
    if within.is_empty() || within.ends_with(b"/") {
        let folder = name.strip_prefix(b"/").unwrap_or(name);
        let indices = namespace.index_names(site, folder);
        let (file, index) = open_index(tree, within, &indices, wait, room)?;
        let policy = namespace.policy(site, folder, index.as_bytes());
        return Ok(Resolution::File(OpenFile { file, policy, tree, mount }));
    }
    let file = tree.open_file(within, wait, room)?;
    match file.kind {
        FileKind::Regular => {
            let (folder, file_name) = split(name);
            let policy = namespace.policy(site, folder, file_name);
            Ok(Resolution::File(OpenFile { file, policy, tree, mount }))
        }
        FileKind::Directory => Ok(Resolution::Folder),
        FileKind::Special => Err(Miss::NOT_FOUND),
    }
}

/// Opens the first file that a folder may be served as. The file and its name in the folder.
fn open_index<'i>(
    tree: &Tree,
    folder: &[u8],
    indices: &'i [String],
    wait: Wait,
    room: &mut Vec<u8>,
) -> Result<(File, &'i str), Miss> {
    for index in indices {
        match tree.open_file(&[folder, index.as_bytes()].concat(), wait, room) {
            Ok(file) if file.kind == FileKind::Regular => return Ok((file, index)),
            Ok(_) | Err(Miss::NOT_FOUND) => {}
            Err(miss) => return Err(miss),
        }
    }
    Err(Miss::NOT_FOUND)
}
