//! The figures of a trial by the address that connections went to, where they went to several.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thalweg_units::display;

use crate::histogram::{Histogram, Summary};
use crate::outcome::{Outcome, Outcomes};

/// The connections to one address, and the requests on them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AddressFigures {
    /// Connections opened, those before the measured part among them.
    pub opened: u64,
    /// Attempts to connect that came to nothing.
    pub failed: u64,
    /// How the requests ended that were sent there.
    pub outcomes: Outcomes,
    /// Their response times.
    pub response_time: Histogram,
}

/// The figures of one address in the result document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AddressSummary {
    /// The address.
    pub address: String,
    /// Connections opened, those before the measured part among them.
    pub opened: u64,
    /// Attempts to connect that came to nothing; the requests that they were for are in no
    /// address's counts.
    pub failed: u64,
    /// Requests that were sent there and have ended.
    pub ended: u64,
    /// Good ones among them.
    pub good: u64,
    /// Response times in microseconds.
    pub response_time_us: Summary,
}

impl AddressFigures {
    /// Counts a request, with its response time if it has one.
    pub fn record(&mut self, outcome: Outcome, response_ns: Option<u64>) {
        self.outcomes.record(outcome);
        response_ns.into_iter().for_each(|ns| self.response_time.record(ns));
    }

    /// Adds the figures of another load thread.
    pub fn merge(&mut self, other: &Self) {
        self.opened += other.opened;
        self.failed += other.failed;
        self.outcomes.merge(&other.outcomes);
        self.response_time.merge(&other.response_time);
    }

    /// The figures as the result document has them.
    pub fn summary(&self, address: String) -> AddressSummary {
        AddressSummary {
            address,
            opened: self.opened,
            failed: self.failed,
            ended: self.outcomes.total(),
            good: self.outcomes.count(Outcome::Good),
            response_time_us: self.response_time.summary(),
        }
    }
}

impl fmt::Display for AddressSummary {
    /// A line without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (opened, ended, good) =
            (display::count(self.opened), display::count(self.ended), display::count(self.good));
        write!(f, "{}: {opened} connections, {good} of {ended} requests good", self.address)?;
        if self.failed > 0 {
            write!(f, ", {} attempts to connect failed", display::count(self.failed))?;
        }
        if self.response_time_us.count > 0 {
            write!(f, ", p99 {}", display::time((self.response_time_us.p99 * 1e3).round() as u64))?;
        }
        Ok(())
    }
}
