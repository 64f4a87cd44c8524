//! HTTP/1.0 and 1.1 on the server's side (RFC 9112): heads, batches of responses, the session on a
//! connection.

pub(crate) mod batch;
pub(crate) mod head;
pub(crate) mod services;
pub(crate) mod session;
pub(crate) mod streamed;
mod waiting;
