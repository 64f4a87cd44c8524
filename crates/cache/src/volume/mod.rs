//! A volume: two cyclic logs on one medium, with a directory in memory. Reading is in `reader`,
//! appending and eviction in `writer` and `eviction`, durability in `checkpoint` and `recovery`,
//! walks over everything in `walk`; `state` is what they share. Several volumes as one cache are in
//! `cache`.

mod checkpoint;
mod eviction;
mod reader;
mod recovery;
mod state;
mod walk;
mod writer;

pub use reader::{Body, Fragment, Location};
pub use state::{Clock, Settings, Volume};
pub use walk::{Stored, Verification};
pub use writer::Purge;
