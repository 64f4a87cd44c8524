//! HTTP/2 (RFC 9113) in both roles, without I/O: bytes in, events out, frames appended to a buffer.
//!
//! Owned here: frames, streams and their states, flow control, priorities (RFC 9218), the heads of
//! messages, and the bounds on what a peer may cause. Lacking on purpose: bodies, which pass
//! through as slices of the input and leave behind a frame's head that the caller sends; and the
//! meaning of requests and responses.

mod connection;
mod credit;
mod error;
mod frame;
mod message;
mod priority;
mod settings;
mod stream;
#[cfg(test)]
mod tests;

pub use connection::{Config, Connection, Event, Role};
pub use error::{ErrorCode, Fault};
pub use frame::{FrameHead, HEAD_LEN, PAYLOAD_MAX_INITIAL, PREFACE};
pub use message::{HeadFields, Malformed, RequestFault};
pub use priority::Priority;
pub use settings::{Settings, WINDOW_INITIAL, WINDOW_MAX};
