//! The local origin: files beneath roots.

pub(crate) mod file_cache;
pub(crate) mod loaded_file;
pub(crate) mod namespace;
pub(crate) mod readahead;
pub(crate) mod residency;
pub(crate) mod resolve;
pub(crate) mod tree;
pub(crate) mod watch;
