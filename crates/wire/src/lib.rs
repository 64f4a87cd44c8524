//! HTTP/1.0, HTTP/1.1 and [HTTP/2](h2) in both directions, without I/O: bytes in, events out.
//!
//! Owned here for HTTP/1: reading requests ([`RequestReader`]) and replies ([`ResponseReader`]),
//! writing heads ([`encode`]), the chunked coding ([`chunked`]), dates, ranges, validators, what a
//! client wants of codings and digests, what proxies say of clients, and the way from a request
//! target to a safe file path. Lacking on purpose: sockets, files and clocks (a caller that needs a
//! time passes it in), content codings, HTTP/3, and every policy of a server or a client.
//!
//! Two properties shape the code. It stands on the hot path of a load generator and of a file
//! server, so a head that arrived whole is parsed where it lies, bodies are handed on as slices of
//! the input, and only a partial head is ever copied. And it stands on a border: framing is read in
//! one way or refused, because two readings of one message are what request smuggling is made of
//! (RFC 9112, 11.2).
//!
//! Both readers are driven alike: give the bytes at hand and a fresh [`FieldSlots`], drop as many
//! bytes as were consumed, and repeat until no event comes. However the bytes were cut, the events
//! and the errors are the same.
//!
//! ```
//! use thalweg_wire::{FieldSlots, Bounds, RequestEvent, RequestReader};
//!
//! let mut reader = RequestReader::new(Bounds::requests());
//! let mut input: &[u8] = b"GET /a HTTP/1.1\r\nHost: example.org\r\n\r\n";
//! let mut targets = Vec::new();
//! loop {
//!     let mut slots = FieldSlots::new();
//!     let progress = reader.read(input, &mut slots)?;
//!     input = &input[progress.consumed..];
//!     match progress.event {
//!         Some(RequestEvent::Head(head)) => targets.push(head.target.to_vec()),
//!         Some(RequestEvent::Body(_) | RequestEvent::End) => {}
//!         None => break,
//!     }
//! }
//! assert_eq!(targets, [b"/a"]);
//! # Ok::<(), thalweg_wire::RequestError>(())
//! ```
#![forbid(unsafe_code)]

pub mod accept;
mod authority;
mod body;
mod bounds;
pub mod chunked;
pub mod coding;
pub mod date;
pub mod digest;
pub mod encode;
mod fields;
pub mod forwarded;
mod framing;
pub mod h2;
pub mod hpack;
mod lenient;
mod method;
mod partial;
mod progress;
pub mod proxy_protocol;
pub mod range;
mod request;
mod response;
mod scan;
pub mod status;
pub mod target;
pub mod validator;

pub use authority::HostFault;
pub use bounds::Bounds;
pub use fields::{FIELDS_MAX, FieldSlots, Fields, is_token_byte, trim_ows};
pub use framing::{BodyFraming, FramingFault, Version};
pub use method::Method;
pub use progress::Progress;
pub use request::{RequestError, RequestEvent, RequestHead, RequestReader};
pub use response::{MessageBytes, RequestKind, ResponseError, ResponseEvent, ResponseHead, ResponseReader};
pub use scan::HeadFault;
