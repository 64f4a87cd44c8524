//! The effect of an overload on the target: points above the threshold, and their shape.

use super::end_reason::EndReason;
use super::recovery::{Collapse, Recovery};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Length of the trials, but for the last one.
pub(super) const TRIAL: Duration = Duration::from_secs(1);

/// Length of the last trial: an overload that does harm only after a while does it then. It is two
/// fifths of the longest trial that the estimate rests on.
pub(super) fn last_trial(longest: Duration) -> Duration {
    longest.mul_f64(0.4).clamp(TRIAL * 2, TRIAL * 4)
}

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

impl OverloadShape {
    /// The shape in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flat => "flat",
            Self::Decline => "slow decline",
            Self::Collapse => "collapse",
        }
    }
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
    /// The collapse of a target that these trials have changed for longer than they lasted.
    pub(super) fn collapse_by(&self, recovery: &Recovery, recovery_s: Option<f64>, now: Duration) -> Collapse {
        Collapse {
            held: self.return_rate,
            overload: self.points.last().map_or(self.return_rate, |point| point.offered_rate),
            failed: recovery.probe_rate,
            failed_probes: recovery.failed_probes,
            waited_s: now.saturating_sub(recovery.since).as_secs_f64(),
            recovery_s,
            times: 1,
        }
    }
}
