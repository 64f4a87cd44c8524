//! HTTP semantics: from a request to its response (RFC 9110).
//!
//! [`Responder`](respond::Responder) finds the object that a request is for, [`select`] evaluates
//! conditions, ranges and codings, and a [`Response`](response::Response) describes the response
//! independently of its encoding. `h1` is HTTP/1.0 and 1.1, `h2` is HTTP/2. Lacking on purpose:
//! files, sockets, rates, accounting.

pub(crate) mod challenges;
pub(crate) mod clients;
pub(crate) mod forwarder;
pub(crate) mod gate;
pub(crate) mod h1;
pub(crate) mod h2;
pub(crate) mod multipart;
pub(crate) mod respond;
pub(crate) mod response;
pub(crate) mod select;
pub(crate) mod services;
pub(crate) mod session;
