//! The seam between the local origin and its catalog: where in which tree a name leads, and what
//! holds there.

use std::sync::Arc;

use crate::content::local::tree::Tree;
use crate::content::policy::ResponsePolicy;

/// The sites of a server as the local origin sees them. Sites have numbers; names are canonical.
pub(crate) trait Namespace: Send + Sync + 'static {
    /// The place that a name of a site leads to.
    fn place<'s, 'n>(&'s self, site: usize, name: &'n [u8]) -> Place<'s, 'n>;

    /// Whether mounts lie beneath a folder, whose name may lack the slash at its end.
    fn has_mounts_beneath(&self, site: usize, folder: &[u8]) -> bool;

    /// The response policy of a file in a folder. The folder's name ends with a slash, or is empty
    /// for the topmost.
    fn policy(&self, site: usize, folder: &[u8], file: &[u8]) -> Arc<ResponsePolicy>;

    /// The names of files that are sent for a folder, the first that exists.
    fn index_names(&self, site: usize, folder: &[u8]) -> Arc<[String]>;

    /// Puts the site behind a name, which makes a key that is unique among all sites.
    fn mark(&self, name: &mut Vec<u8>, site: usize);

    /// The name of a key, without the site.
    fn unmarked<'k>(&self, key: &'k [u8]) -> &'k [u8];
}

/// The place that a name leads to.
pub(crate) enum Place<'s, 'n> {
    /// A file or folder of a tree: the tree, the number of its mount, and the name beneath the
    /// tree's root, which is empty for the root itself.
    Within { tree: &'s Tree, mount: u16, name: &'n [u8] },
    /// The path of a mount, without the slash at its end.
    MountPoint,
    /// No tree. It may still be a folder that exists only as the parent of mounts.
    Outside,
}
