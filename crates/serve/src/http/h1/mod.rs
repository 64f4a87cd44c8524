//! HTTP/1.0 and 1.1 (RFC 9112).

pub(crate) mod head;
