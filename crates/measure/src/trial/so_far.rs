//! Counts of a trial while it lasts, against the limits of its verdict.

use crate::limit::Limit;

/// Response times from which on a request misses a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thresholds {
    ns: [u64; SoFar::COUNTED_MAX],
    lowest_ns: u64,
}

/// Counts of a trial that never fall while it lasts. Those of load threads add up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SoFar {
    /// Requests that ended in an error.
    pub errors: u64,
    /// Requests that ended without a whole response.
    pub missing: u64,
    /// Sum of all response times in nanoseconds.
    pub response_ns: u64,
    /// Response times at or above each of the [`Thresholds`].
    pub over: [u64; SoFar::COUNTED_MAX],
}

/// Counts response times against thresholds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverLimits {
    thresholds: Thresholds,
    over: [u64; SoFar::COUNTED_MAX],
    response_ns: u64,
}

impl SoFar {
    /// Response-time limits that are counted while a trial lasts. Others count at its end only.
    pub const COUNTED_MAX: usize = 4;
}

impl Default for Thresholds {
    fn default() -> Self {
        Self::of(&[])
    }
}

impl Thresholds {
    /// The thresholds of those of `limits` that are on response times, in their order.
    pub fn of(limits: &[Limit]) -> Self {
        let mut ns = [u64::MAX; SoFar::COUNTED_MAX];
        for (slot, threshold) in ns.iter_mut().zip(limits.iter().filter_map(threshold_of)) {
            *slot = threshold;
        }
        Self { ns, lowest_ns: ns.into_iter().fold(u64::MAX, u64::min) }
    }
}

/// A histogram reports the upper end of a bucket, so a time from here on is never reported as one
/// that meets the limit.
pub(super) fn threshold_of(limit: &Limit) -> Option<u64> {
    let Limit::ResponseTime { inclusive, bound, .. } = limit else { return None };
    let bound_ns = u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    Some(bound_ns.saturating_add(u64::from(*inclusive)))
}

impl OverLimits {
    /// Nothing counted yet.
    pub fn new(thresholds: Thresholds) -> Self {
        Self { thresholds, over: [0; SoFar::COUNTED_MAX], response_ns: 0 }
    }

    /// The same thresholds with nothing counted.
    pub(super) fn emptied(&self) -> Self {
        Self::new(self.thresholds)
    }

    /// Counts a response time.
    #[inline]
    pub fn record(&mut self, response_ns: u64) {
        self.response_ns = self.response_ns.saturating_add(response_ns);
        if response_ns >= self.thresholds.lowest_ns {
            for (over, threshold) in self.over.iter_mut().zip(self.thresholds.ns) {
                *over += u64::from(response_ns >= threshold);
            }
        }
    }

    /// Adds the counts of another load thread.
    pub fn merge(&mut self, other: &Self) {
        self.response_ns = self.response_ns.saturating_add(other.response_ns);
        for (over, more) in self.over.iter_mut().zip(other.over) {
            *over += more;
        }
    }

    /// The counts, together with those of outcomes.
    pub fn so_far(&self, errors: u64, missing: u64) -> SoFar {
        SoFar { errors, missing, response_ns: self.response_ns, over: self.over }
    }
}
