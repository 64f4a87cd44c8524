//! What to offer: a checked value with every default filled in. Nothing here can fail any more.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use thalweg_sys::DriverChoice;

pub use crate::check::Check;
use crate::request::PreparedRequest;

/// One load at one level for one length.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The server.
    pub peer: SocketAddr,
    /// Local addresses to come from, used in turn; none leaves the choice to the kernel.
    pub sources: Vec<IpAddr>,
    /// What to ask for, ready to be sent; never empty.
    pub requests: Arc<[PreparedRequest]>,
    /// In which order.
    pub pick: Pick,
    /// When.
    pub arrivals: LoopPlan,
    /// How long or how many.
    pub extent: Extent,
    /// Time before the measured part, at the same level and on the same connections, of which nothing is counted.
    pub warmup: Duration,
    /// How long after its intended time a request may take until it counts as a timeout, wherever it is then: waiting for a
    /// connection, on its way, or being answered.
    pub timeout: Duration,
    /// How long after the end of the schedule requests that still wait for a connection may be sent. Those that are left then end as
    /// *not sent*.
    pub drain: Duration,
    /// Most connections open at once.
    pub connections: usize,
    /// Requests per connection; `None`: as many as the server allows.
    pub calls: Option<u32>,
    /// What makes a response good.
    pub check: Check,
    /// CPUs to run on, one thread each; never empty.
    pub cpus: Vec<usize>,
    /// Which driver.
    pub driver: DriverChoice,
    /// Seed of everything random.
    pub seed: u64,
}

/// When requests are offered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LoopPlan {
    /// Arrivals do not wait for answers.
    Open {
        /// Requests per second.
        rate: f64,
    },
    /// Each worker asks when its last answer has come.
    Closed {
        /// How many workers, each with a connection of its own.
        workers: usize,
        /// From an answer to the next request.
        think: Duration,
    },
}

/// The measured part of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A length.
    Duration(Duration),
    /// A number of requests.
    Requests(u64),
}

/// The order in which requests are taken from the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Pick {
    /// One after the other, and from the start again.
    #[default]
    Sequential,
    /// Each with the same probability.
    Random,
}

impl Plan {
    /// How long the measured part is; zero where a closed loop makes a number of requests, which takes as long as it takes.
    pub fn schedule_length(&self) -> Duration {
        match (self.extent, self.arrivals) {
            (Extent::Duration(length), _) => length,
            (Extent::Requests(total), LoopPlan::Open { rate }) => Duration::from_secs_f64(total as f64 / rate),
            (Extent::Requests(_), LoopPlan::Closed { .. }) => Duration::ZERO,
        }
    }

    /// The share of one of the threads: its index of `0..cpus.len()` decides which arrivals and connections are its own.
    pub(crate) fn share_of(&self, total: usize, core: usize) -> usize {
        let cores = self.cpus.len();
        total / cores + usize::from(core < total % cores)
    }
}
