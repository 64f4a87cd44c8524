//! Failures of trees.

use std::io;
use std::path::PathBuf;

use crate::name::TreeName;

/// Settings that fit no tree, or not this one.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SettingError {
    /// The tree has no such setting.
    #[error("{setting} has no effect on {tree}; it is a setting of {trees}")]
    Unknown {
        /// The tree.
        tree: TreeName,
        /// The setting, as its option is named.
        setting: &'static str,
        /// The trees that have it.
        trees: &'static str,
    },
    /// The value is out of bounds.
    #[error("{setting} {value} is out of bounds; it may be from {low} to {high}")]
    Range {
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: f64,
        /// The least.
        low: f64,
        /// The greatest.
        high: f64,
    },
}

/// A tree that cannot be written or compared.
#[derive(Debug, thiserror::Error)]
pub enum TreeError {
    /// A setting is wrong.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The directory contains something already.
    #[error("{} is not empty; name a directory that is empty or does not exist", .0.display())]
    NotEmpty(PathBuf),
    /// The path is a file or something else.
    #[error("{} is not a directory", .0.display())]
    NotDirectory(PathBuf),
    /// The directory in which the tree's directory would lie does not exist.
    #[error("{} does not exist; make it first", .0.display())]
    NoParent(PathBuf),
    /// The file system has no room for the tree.
    #[error("cannot write {}, which takes {bytes} bytes on disk: {reason}; nothing of it was kept", path.display())]
    Full {
        /// The directory that was to be written.
        path: PathBuf,
        /// Bytes of the whole tree, without holes.
        bytes: u64,
        /// The refusal.
        reason: io::Error,
    },
    /// Another failure of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// The attempt.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The observer of the progress requested an end.
    #[error("interrupted")]
    Interrupted,
}
