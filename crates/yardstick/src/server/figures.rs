//! The figures of a running yardstick: what it did, and whether it kept to its model.

use serde::Serialize;
use thalweg_measure::Histogram;

/// The figures since the start.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figures {
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Requests that came.
    pub arrived: u64,
    /// Requests that were served, those with faults included.
    pub served: u64,
    /// Requests that were refused with 503.
    pub refused: u64,
    /// Requests whose client left while they waited.
    pub abandoned: u64,
    /// Requests that wait now.
    pub waiting: usize,
    /// Requests that are in service now.
    pub in_service: usize,
    /// Most requests that waited at once.
    pub waiting_peak: usize,
    /// The time that servers were busy, all together.
    pub busy_s: f64,
    /// How often the capacity has collapsed.
    pub collapses: u64,
    /// Whether the capacity is lowered now.
    pub is_collapsed: bool,
    /// Responses by fault.
    pub faults: FaultCounts,
    /// Connections that are open.
    pub connections: usize,
    /// CPU time of the server's thread.
    pub cpu_s: f64,
    /// The part of it that the thread spent waiting for the next departure without sleeping.
    pub busy_wait_s: f64,
    /// How much later than computed responses left.
    pub lateness_us: Lateness,
}

/// Responses with faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct FaultCounts {
    /// Bodies with a wrong byte.
    pub wrong_bodies: u64,
    /// Connections that were reset.
    pub resets: u64,
    /// Bodies that ended half-way.
    pub truncated: u64,
    /// Responses with status 500.
    pub errors: u64,
}

/// The distribution of lateness, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Lateness {
    /// The median.
    pub p50: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The 99.9th percentile.
    pub p999: f64,
    /// The maximum.
    pub max: f64,
    /// Responses that it is known of.
    pub count: u64,
}

impl Lateness {
    pub(super) fn of(histogram: &Histogram) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let quantile = |q| histogram.quantile(q) as f64 / 1e3;
        Self {
            p50: quantile(0.5),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: histogram.max() as f64 / 1e3,
            count: histogram.count(),
        }
    }
}

impl Figures {
    /// Whether responses left so late that it shows in a measurement of its model: more than one in
    /// a thousand was later than a millisecond.
    pub fn fell_short(&self) -> bool {
        self.lateness_us.p999 > 1000.0
    }
}
