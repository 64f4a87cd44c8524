//! The load engine against a scripted server on a simulated network: what becomes of every request,
//! in virtual time.
//!
//! The server has its own naive splitter of requests, so that a defect of `wire` cannot vouch for
//! itself, and notes what it did with each of them. Client and server run in one loop over one
//! [`Sim`](thalweg_reactor::sim::Sim).

#![forbid(unsafe_code)]

mod accounting;
mod attribution;
mod closed_loop;
mod connections;
mod deadlines;
mod disturbance;
mod http2;
mod memory;
mod misbehaviour;
mod pace;
mod pipelining;
mod redirects;
mod replay;
#[path = "../responder/mod.rs"]
mod responder;
mod script;
mod server;
mod session_connections;
mod stall;
mod standstill;
mod streams;
mod tls;
mod users;
mod world;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Seeds that a random test runs: `few`, or as many as the environment says.
fn runs(few: u64) -> u64 {
    std::env::var("THALWEG_LOAD_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(few)
}

/// Makes a run with each of the seeds. One that fails is named, so that it can be made again alone.
fn with_seeds<T>(seeds: Range<u64>, run: impl Fn(u64) -> T) -> Vec<T> {
    let run_named = |seed| catch_unwind(AssertUnwindSafe(|| run(seed))).unwrap_or_else(|_| panic!("with seed {seed}"));
    seeds.map(run_named).collect()
}
