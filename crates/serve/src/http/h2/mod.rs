//! HTTP/2 on the server's side (RFC 9113): header blocks, bodies under way, batches of frames, the
//! session on a connection. Frames, streams and flow control are `thalweg_wire::h2`'s.

pub(crate) mod batch;
pub(crate) mod body;
pub(crate) mod fields;
pub(crate) mod response;
pub(crate) mod session;
pub(crate) mod stream;
