//! Files that a user names: URL lists, session files and checks, read with the place of each error.
//!
//! Opening files and reading bodies is the caller's. Access logs are read by the replay, which
//! makes requests of them at once.

pub(crate) mod check;
pub(crate) mod list;
pub(crate) mod packing;
pub(crate) mod sessions;
pub(crate) mod text;
