//! The model of a server: all that its behaviour follows from, besides the arrivals.

use serde::Serialize;

use crate::faults::Faults;
use crate::law::Law;
use crate::speed::{Collapse, SlowStart, Stall};

/// A model. It has been checked by [`Model::check`] before anything is made of it.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Model {
    /// Servers that work at the same time.
    pub servers: usize,
    /// The time that one of them needs for a request.
    #[serde(flatten)]
    pub law: Law,
    /// Most requests that wait for a server; one that finds so many is refused with 503.
    pub queue_max: Option<usize>,
    /// The share of requests that only the first server carries; the others serve the rest.
    pub hot_share: Option<f64>,
    /// Pauses.
    pub stall: Option<Stall>,
    /// Growth of the capacity with use.
    pub slow_start: Option<SlowStart>,
    /// Loss of capacity by overload.
    pub collapse: Option<Collapse>,
    /// Growth of the capacity per second, as a share of that at the start.
    pub drift_per_s: f64,
    /// Faults in responses.
    pub faults: Faults,
    /// Seed of all that is random.
    pub seed: u64,
}

/// A model that cannot be.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ModelError {
    /// There are no servers, or too many.
    #[error("a model has 1 to {SERVERS_MAX} servers, not {0}")]
    Servers(usize),
    /// The service times are too short or too long, or the longer one is the shorter.
    #[error("{0}")]
    Times(&'static str),
    /// A share is not one.
    #[error("{0}")]
    Share(&'static str),
    /// A stall does not end before the next.
    #[error("stalls of {length} every {every} leave no time to work; the length must be less than the distance")]
    Stall {
        /// Its length.
        length: String,
        /// The distance from one to the next.
        every: String,
    },
}

/// Most servers of a model.
pub const SERVERS_MAX: usize = 4096;

impl Model {
    /// Servers in a row that do nothing special.
    pub fn plain(servers: usize, law: Law) -> Self {
        Self {
            servers,
            law,
            queue_max: None,
            hot_share: None,
            stall: None,
            slow_start: None,
            collapse: None,
            drift_per_s: 0.0,
            faults: Faults::default(),
            seed: 1,
        }
    }

    /// Checks that the parts go together.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self) -> Result<(), ModelError> {
        const SHORTEST_S: f64 = 1e-6;
        const LONGEST_S: f64 = 3600.0;
        if !(1..=SERVERS_MAX).contains(&self.servers) {
            return Err(ModelError::Servers(self.servers));
        }
        if !(SHORTEST_S..=LONGEST_S).contains(&self.law.mean_s()) {
            return Err(ModelError::Times("a service takes from 1us to 1h in the mean; change --rate or --service"));
        }
        if let Law::TwoPoint { short_s, long_s, long_share } = self.law {
            if long_s < short_s {
                return Err(ModelError::Times("--slow must not be shorter than --service"));
            }
            if !(0.0..=1.0).contains(&long_share) {
                return Err(ModelError::Share("the share of slow requests must be from 0% to 100%"));
            }
        }
        if self.hot_share.is_some() && self.servers < 2 {
            return Err(ModelError::Share("one hot server needs others beside it: --servers 2 or more"));
        }
        if self.faults.share() > 1.0 {
            return Err(ModelError::Share("the shares of faults add up to more than 100%"));
        }
        match self.stall {
            Some(Stall { length_ns, every_ns }) if length_ns >= every_ns || length_ns == 0 => {
                let shown = |ns| thalweg_units::display::exact_time(std::time::Duration::from_nanos(ns));
                Err(ModelError::Stall { length: shown(length_ns), every: shown(every_ns) })
            }
            _ => Ok(()),
        }
    }

    /// The highest rate, in requests per second, at which the queue does not grow without end:
    /// without collapse, after a slow start, and before a drift. A bounded queue refuses what is
    /// beyond it.
    pub fn capacity(&self) -> f64 {
        let one = self.stall.map_or(1.0, |stall| stall.active_share()) / self.law.mean_s();
        let servers = self.servers as f64;
        match self.hot_share {
            None => servers * one,
            Some(share) => {
                let (hot, others) = (one / share, (servers - 1.0) * one / (1.0 - share));
                hot.min(others)
            }
        }
    }
}
