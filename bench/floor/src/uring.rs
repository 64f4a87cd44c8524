//! The floor of io_uring: one `enter` per wake-up, registered files, multishot operations, no
//! completion without new information.

#![allow(unsafe_code)]

mod buffers;
mod client;
mod ring;
mod server;

pub(crate) use self::client::client;
pub(crate) use self::server::server;
