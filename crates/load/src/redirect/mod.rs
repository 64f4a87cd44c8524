//! Redirects on the same host: where a response leads, and the request that goes there.
//!
//! A redirect is followed within the call whose response it is: the call stays the one request that
//! was offered, due when it was. When it is made again, and on which connection, is the engine's.

mod follower;
mod location;

pub(crate) use self::follower::{Follower, HopId};
