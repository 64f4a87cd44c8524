//! Protocols: how requests become bytes, and received bytes become responses, on one connection.
//!
//! The engine is generic over a [`Protocol`] and asks it for four things: its capacity for calls under way, to begin a call, to read
//! received bytes, and to finish where the server has ended. A call is a stream, which the engine names; a protocol that answers in order
//! needs no name for it on the wire. Sockets are below ([`crate::transport`]), outcomes and figures above.

mod http1;

pub use self::http1::Http1Encoder;
use crate::request::{RequestView, Templates};

/// Encodes the requests of a load thread: what requests share once, the rest when they are sent.
pub trait Encoder {
    /// An encoder for requests with these templates.
    fn new(templates: &Templates) -> Self;

    /// Writes a request behind what the buffer holds. `last`: no call follows it on its connection.
    fn write(&self, request: &RequestView<'_>, last: bool, out: &mut Vec<u8>);
}
