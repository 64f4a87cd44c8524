//! HTTP semantics: from a request to its response (RFC 9110).

pub(crate) mod h1;
pub(crate) mod multipart;
pub(crate) mod respond;
