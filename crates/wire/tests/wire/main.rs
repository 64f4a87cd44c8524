//! The readers from outside, as `load` and `serve` use them.
#![forbid(unsafe_code)]

mod cuts;
mod requests;
mod responses;
mod round_trips;
mod smuggling;
mod transcript;
