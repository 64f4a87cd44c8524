//! The files of each tree, as its source describes them.

mod archive;
pub(crate) mod flat;
pub(crate) mod mirror;
pub(crate) mod spec;
pub(crate) mod webbench;

use crate::file::TreeFile;

/// The files of a tree and the names of their classes.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    /// The files; their weights are in proportion to requests.
    pub files: Vec<TreeFile>,
    /// The names that [`TreeFile::class`] points to.
    pub classes: Vec<String>,
}
