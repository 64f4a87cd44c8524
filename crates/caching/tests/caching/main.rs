//! The crate as a server uses it: whole exchanges with an origin, and properties of any input.
#![forbid(unsafe_code)]

mod exchanges;
mod model;
mod properties;
