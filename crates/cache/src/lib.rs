//! The store of the disk cache: fragments of objects on files or block devices of a fixed size, in
//! cyclic logs, found by a directory in memory. A crash, a torn write, a flipped bit or a lost disk
//! costs entries of the cache, and never a wrong byte.
//!
//! Deliberately not here: sockets, HTTP, freshness, fetching from origins, and threads other than
//! those that make checkpoints. All calls that append or purge may wait for the disk, and a look-up
//! may where the page cache does not have the record: the caller keeps them off its loop.
//!
//! | module | owns |
//! | --- | --- |
//! | `key` | names of objects and their parts |
//! | `medium` | files, devices, and memory with faults |
//! | `pieces` | bodies in memory |
//! | `head` | names in heads |
//! | `geometry` | where things lie, the superblock |
//! | `record`, `segment` | the formats of what stripes hold |
//! | `cursor` | the arithmetic of the cyclic logs |
//! | `directory`, `ghost`, `purges`, `leases` | the tables in memory |
//! | `volume` | look-ups, appending, eviction, checkpoints, recovery |
//! | `cache` | several volumes as one |
//! | `maintenance` | the threads that make checkpoints |
#![forbid(unsafe_code)]

mod aligned;
mod bytes;
mod cache;
mod cursor;
mod directory;
mod error;
mod geometry;
mod ghost;
mod head;
mod key;
mod leases;
mod maintenance;
pub mod medium;
mod pieces;
mod purges;
mod record;
mod segment;
mod statistics;
mod volume;

pub use cache::Cache;
pub use error::Error;
pub use geometry::{FRAGMENT_BYTES_MAX, Shape};
pub use head::{Head, NAME_BYTES_MAX};
pub use key::{Key, NotAKey, Part};
pub use leases::Lease;
pub use maintenance::Maintenance;
pub use pieces::Pieces;
pub use record::{Description, GROUPS_MAX};
pub use statistics::Statistics;
pub use volume::{Body, Clock, Fragment, Location, Looked, Purge, Settings, Stored, StoredHead, Verification, Volume};
