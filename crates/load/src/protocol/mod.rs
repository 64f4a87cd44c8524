//! Protocols: how requests become bytes, and received bytes become responses, on one connection.
//!
//! The engine is generic over a [`Protocol`], which has a value per connection. A call under way is
//! a *stream* to it, named by a [`StreamId`]. HTTP/1 ends streams in the order of their requests
//! and writes no name; a multiplexed protocol names them on the wire and ends them in any order.
//! Transports and sockets lie below; outcomes, deadlines and figures are the engine's.

mod http1;
mod http2;
mod interface;
mod violation;

pub use self::http1::{Http1, Http1Encoder};
pub use self::http2::{Http2, Http2Encoder};
pub use self::interface::{Encoder, End, Protocol, ProtocolSettings, Responses, Step, StreamId};
pub use self::violation::Violation;
