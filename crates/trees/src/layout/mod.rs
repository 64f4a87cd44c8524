//! The files of each tree, as its source describes them.

mod archive;
pub mod flat;
pub mod mirror;
pub mod spec;
pub mod webbench;

use crate::file::TreeFile;

/// The files of a tree and the names of their classes.
#[derive(Debug, Default)]
pub struct Layout {
    /// The files; their weights are in proportion to requests.
    pub files: Vec<TreeFile>,
    /// The names that [`TreeFile::class`] points to.
    pub classes: Vec<String>,
}
