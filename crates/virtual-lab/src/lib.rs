//! The lab in virtual time: the real load engine offers its load to a yardstick over the simulated
//! network, and the procedures of `lab` search, compare and sweep there as they do on a host.
//!
//! [`VirtualLab`] is the environment that they are given. Its client has a model too
//! ([`ClientModel`]): the cost of a request, its lag, and the time that others take from it. So
//! calibrations, INVALID trials and disturbances are those that a client of this speed would have.
//! [`search()`] carries one whole search out.
//!
//! Nothing depends on the speed of the machine, and nothing sleeps: one seed gives one result.
//!
//! Deliberately not here: yardsticks that speak HTTP/2 or TLS, in whose place there are sinks; more
//! than one load thread; and judgements, which are all those of `lab` and `measure`.
#![forbid(unsafe_code)]

mod client;
mod environment;
mod load;
mod search;
mod servers;
mod watcher;
mod world;

pub use client::{ClientModel, Theft};
pub use environment::VirtualLab;
pub use load::{plan, target};
pub use search::{Found, SearchCase, search, settings};
pub use watcher::Quiet;
