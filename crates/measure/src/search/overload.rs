//! The effect of an overload on the target: points above the threshold, and their shape.

use super::end_reason::EndReason;
use super::recovery::{Collapse, Recovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Length of the trials. The last one is twice as long, so that an overload that does harm only
/// after a while does it.
pub(super) const TRIAL: Duration = Duration::from_secs(1);

/// The state of the last part.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Closing {
    /// Rates that are left, descending.
    pub(super) rates: Vec<f64>,
    pub(super) points: Vec<OverloadPoint>,
    /// The rate at which the recovery is probed.
    pub(super) return_rate: f64,
    /// Whether the probes have ended with a pass, and the time until then.
    pub(super) recovered: Option<Option<f64>>,
    /// Why the estimate had ended.
    pub(super) ended: EndReason,
}

/// The form of goodput over the offered rate beyond the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverloadShape {
    /// At the highest rate the goodput is at least 95 % of its peak.
    Flat,
    /// It is less, but at least half.
    Decline,
    /// It is less than half of the peak, or the target failed afterwards at rates that it had
    /// carried before.
    Collapse,
}

/// Goodput at the highest rate, as a share of the peak, from which on the shape is flat.
const FLAT: f64 = 0.95;
/// And below which it is a collapse.
const COLLAPSED: f64 = 0.5;

/// The shape of these points, ascending by rate; `carried` is the goodput at the highest rate that
/// passed. `None` without points.
pub fn shape_of(points: &[OverloadPoint], carried: f64) -> Option<OverloadShape> {
    let last = points.last()?;
    let peak = points.iter().map(|point| point.good_rate).fold(carried, f64::max);
    // Twice the standard deviation of the count, which is a Poisson variable at most.
    let by_chance = 2.0 / (last.good_rate * TRIAL.as_secs_f64() * 2.0).max(1.0).sqrt();
    let share = last.good_rate / peak.max(f64::MIN_POSITIVE);
    Some(match share {
        share if share + by_chance.min(0.1) >= FLAT => OverloadShape::Flat,
        share if share >= COLLAPSED => OverloadShape::Decline,
        _ => OverloadShape::Collapse,
    })
}

/// A trial under overload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverloadPoint {
    /// Requests per second that the schedule called for.
    pub offered_rate: f64,
    /// Good requests per second.
    pub good_rate: f64,
    /// Completed requests per second.
    pub completed_rate: f64,
    /// 99th percentile of the response time in microseconds.
    pub p99_us: f64,
}

impl Closing {
    /// The collapse of a target that does not recover from these trials.
    pub(super) fn collapse_by(&self, recovery: &Recovery, now: Duration) -> Collapse {
        Collapse {
            held: self.return_rate,
            overload: self.points.last().map_or(self.return_rate, |point| point.offered_rate),
            failed: recovery.probe_rate,
            failed_probes: recovery.failed_probes,
            waited_s: now.saturating_sub(recovery.since).as_secs_f64(),
            recovery_s: None,
            times: 1,
        }
    }
}
