//! The settings of a server. It owns values only.

use std::net::SocketAddr;

use thalweg_sys::DriverChoice;

use crate::model::Model;
use crate::truth::Truth;

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The model that it follows.
    pub model: Model,
    /// The truth that its status page shows.
    pub truth: Truth,
    /// Bytes of a response's body.
    pub body_bytes: usize,
    /// The seconds of a Retry-After field in responses with status 503.
    pub retry_after_s: Option<u64>,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The CPUs of its threads; without any, the kernel chooses.
    pub cpus: Vec<usize>,
    /// Whether threads burn CPU time for the service times, instead of computing departures.
    pub burn: bool,
    /// The driver.
    pub driver: DriverChoice,
    /// Most connections open at once. Further ones wait in the listener's queue.
    pub connections_max: usize,
    /// The time before a departure from which on the thread does not sleep, in nanoseconds.
    pub wake_early_ns: u64,
}
