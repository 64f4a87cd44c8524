//! A volume: two cyclic logs on one medium, with a directory in memory. Reading is in `reader`,
//! appending and eviction in `writer` and `eviction`, durability in `checkpoint`, `recovery` and
//! `replay`, walks over everything in `walk`; `state` and `turns` are what they share. Several
//! volumes as one cache are in `cache`.

mod checkpoint;
mod eviction;
mod reader;
mod recovery;
mod replay;
mod state;
mod turns;
mod verifications;
mod walk;
mod writer;

pub use reader::{Body, Fragment, Location, Looked};
pub use state::{Clock, Settings, Volume};
pub(crate) use turns::Turn;
pub use walk::{Stored, StoredHead, Verification};
pub use writer::Purge;
