//! The engine against itself, over bytes that arrive in any fragments.

mod authority;
mod certificates;
mod handshakes;
mod pair;
mod streams;
