//! The load engine against a scripted server on a simulated network: what becomes of every request, in virtual time.
//!
//! The server has its own naive splitter of requests, so that a defect of `wire` cannot vouch for itself, and notes what it did
//! with each of them. Client and server run in one loop over one [`Sim`](thalweg_reactor::sim::Sim).

#![forbid(unsafe_code)]

mod accounting;
mod attribution;
mod closed_loop;
mod deadlines;
mod misbehaviour;
mod script;
mod server;
mod stall;
mod world;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;
