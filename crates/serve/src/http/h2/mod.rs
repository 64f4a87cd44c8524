//! HTTP/2 on the server's side (RFC 9113): header blocks, bodies under way, batches of frames, the
//! session on a connection. Frames, streams and flow control are `thalweg_wire::h2`'s.

mod answering;
mod batch;
mod body;
mod fields;
mod response;
mod sending;
pub(crate) mod session;
mod stream;
