//! Movement of the threshold during a search.
//!
//! Trials at one rate disagree by chance, in any order. Where early ones pass and late ones fail
//! (or the reverse), more than the spread explains, the threshold has moved. The hypothesis "one
//! threshold" is compared with "one before and another one after a trial" by their Bayes factor,
//! averaged over all such trials. If the second one is much more likely, the interval covers both
//! thresholds.

use super::threshold::{Estimate, Likelihoods};
use super::trial::Evidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A threshold that moved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Drift {
    /// Interval of the threshold before the movement, requests per second.
    pub before: [f64; 2],
    /// Interval after it.
    pub after: [f64; 2],
    /// Trials of the final length before it.
    pub trials_before: usize,
    /// Trials of the final length after it.
    pub trials_after: usize,
}

/// With fewer trials on one side, one of them by chance could look like a movement.
const TRIALS_MIN: usize = 3;
/// Bayes factor from which on a movement is said. Jeffreys calls 10 strong.
const FACTOR_MIN: f64 = 10.0;
/// The threshold may have moved as far as this, relative to the rate.
const RANGE: f64 = 0.12;

/// The movement that these trials show around an estimate, in order of time.
pub(super) fn seen(trials: &[Evidence], estimate: &Estimate) -> Option<Drift> {
    if trials.len() < 2 * TRIALS_MIN {
        return None;
    }
    let centre = estimate.threshold.ln();
    let likelihoods = Likelihoods::of(trials, centre - RANGE, centre + RANGE);
    let splits = TRIALS_MIN..=trials.len() - TRIALS_MIN;
    let factors: Vec<(f64, usize)> = splits.map(|split| (likelihoods.factor_of_change(split), split)).collect();
    let mean = factors.iter().map(|(factor, _)| factor).sum::<f64>() / factors.len() as f64;
    if mean < FACTOR_MIN {
        return None;
    }
    let (_, split) = factors.into_iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let interval = |trials: &[Evidence]| {
        super::threshold::Posterior::of(trials, (centre - RANGE).exp(), (centre + RANGE).exp()).estimate().interval95
    };
    let (before, after) = trials.split_at(split);
    Some(Drift { before: interval(before), after: interval(after), trials_before: split, trials_after: after.len() })
}

impl Drift {
    /// The estimate, with an interval that covers both thresholds.
    pub(super) fn widen(&self, estimate: Estimate) -> Estimate {
        let [low, high] = estimate.interval95;
        let interval95 = [low.min(self.before[0]).min(self.after[0]), high.max(self.before[1]).max(self.after[1])];
        Estimate { interval95, ..estimate }
    }
}
