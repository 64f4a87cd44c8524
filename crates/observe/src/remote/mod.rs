//! An observation over the network: the side that answers, on the observed host, and the side that
//! pulls.
//!
//! The protocol is HTTP/1.1 with JSON: `GET /host` gives [`HostReply`], `GET /samples?since=N`
//! gives [`SamplesReply`] (with `&cut`, the current interval is ended, too), and
//! `GET /path?bytes=N` gives that many bytes, to measure a path with. Each request carries the
//! token, if there is one.

mod client;
mod server;
mod token;

use serde::{Deserialize, Serialize};

use crate::facts::HostFacts;
use crate::sample::Sample;

pub use client::{ClockOffset, PullError, RemoteObserver, path_request};
pub use server::ObserverServer;
pub use token::{Token, TokenError};

/// The response to `GET /host`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostReply {
    /// The host.
    pub host: HostFacts,
    /// The time of the response by the observer's clock, in seconds since 1970.
    pub now_s: f64,
}

/// The response to `GET /samples`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SamplesReply {
    /// The time of the response by the observer's clock, in seconds since 1970.
    pub now_s: f64,
    /// When the observer was started, by its clock: another one counts samples from 1 again.
    pub started_s: f64,
    /// Samples after the requested number, the oldest first; at most [`SAMPLES_PER_REPLY_MAX`].
    pub samples: Vec<Sample>,
}

/// Samples in one response.
pub const SAMPLES_PER_REPLY_MAX: usize = 60;
/// The most bytes that `GET /path` gives.
pub const PATH_BYTES_MAX: u64 = 1 << 40;
