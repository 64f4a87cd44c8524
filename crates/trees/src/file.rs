//! Files of a tree and their classes.

/// A file of a tree.
#[derive(Clone, Debug, PartialEq)]
pub struct TreeFile {
    /// The path in the tree, without a leading slash. Its characters need no encoding in a URL.
    pub path: String,
    /// Bytes.
    pub size: u64,
    /// The share of requests; those of all files add up to 1.
    pub weight: f64,
    /// The place of the file's class in [`Tree::classes`](crate::Tree::classes).
    pub class: usize,
    /// Bytes at the beginning that are random. A hole follows if the file has more.
    pub random: u64,
}

impl TreeFile {
    /// A file with random content.
    pub(crate) fn new(path: impl Into<String>, size: u64, weight: f64, class: usize) -> Self {
        Self { path: path.into(), size, weight, class, random: size }
    }

    /// Whether a part of the file is a hole.
    pub fn is_sparse(&self) -> bool {
        self.random < self.size
    }
}

/// Files that a source counts as one class.
#[derive(Clone, Debug, PartialEq)]
pub struct FileClass {
    /// The name.
    pub name: String,
    /// Files.
    pub files: u64,
    /// Bytes of all of them.
    pub bytes: u64,
    /// The share of requests.
    pub share: f64,
}
