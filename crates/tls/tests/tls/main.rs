//! The engine against itself, over bytes that arrive in any fragments.

#![forbid(unsafe_code)]

#[path = "../../../../tests/end_to_end/authority.rs"]
mod authority;
mod certificates;
mod handshakes;
mod pair;
mod streams;
