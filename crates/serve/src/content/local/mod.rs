//! The local origin: files beneath roots.

mod file_cache;
pub(crate) mod loaded_file;
mod metadata;
pub(crate) mod miss;
pub(crate) mod namespace;
pub(crate) mod origin;
pub(crate) mod readahead;
pub(crate) mod residency;
pub(crate) mod resolve;
pub(crate) mod tree;
pub(crate) mod watch;
