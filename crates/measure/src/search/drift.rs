//! Movement of the threshold during a search.
//!
//! Trials at one rate disagree by chance, in any order. Where early ones pass and late ones fail
//! (or the reverse), more than chance explains, the threshold has moved. The hypothesis "one
//! threshold" is compared with "one before and another one after a trial" by the deviance that is
//! left, for each such trial. If the second one fits much better, the interval covers both
//! thresholds.

use super::threshold::{Allowed, Estimate, Evidence, Profile};
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
const TRIALS_MIN: usize = 2;
/// The deviance that two thresholds have to explain.
const GAIN_MIN: f64 = 10.0;

/// The movement that these trials show, in order of time.
pub(super) fn seen(trials: &[Evidence], allowed: Allowed) -> Option<Drift> {
    if trials.len() < 2 * TRIALS_MIN {
        return None;
    }
    let single = Profile::of(trials, allowed).least;
    let split_at = |split: usize| {
        let (before, after) = trials.split_at(split);
        (Profile::of(before, allowed), Profile::of(after, allowed))
    };
    let splits = TRIALS_MIN..=trials.len() - TRIALS_MIN;
    let gains = splits.map(|split| {
        let (before, after) = split_at(split);
        (single - before.least - after.least, split)
    });
    let (_, split) = gains.filter(|(gain, _)| *gain >= GAIN_MIN).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let (before, after) = split_at(split);
    let interval = |profile: &Profile| {
        let [low, high] = profile.bounds();
        let known = low.or(high);
        known.map(|known| [low.unwrap_or(known), high.unwrap_or(known)])
    };
    let (before, after) = (interval(&before)?, interval(&after)?);
    Some(Drift { before, after, trials_before: split, trials_after: trials.len() - split })
}

impl Drift {
    /// The estimate, with an interval that covers both thresholds.
    pub(super) fn widen(&self, estimate: Estimate) -> Estimate {
        let [low, high] = estimate.interval95;
        let interval95 = [low.min(self.before[0]).min(self.after[0]), high.max(self.before[1]).max(self.after[1])];
        Estimate { interval95, ..estimate }
    }
}
