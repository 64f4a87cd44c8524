//! The plan of a search: its bounds, and the lengths of its trials.

use super::load::Goal;
use std::time::Duration;

/// The plan of a search, checked by [`super::Search::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct SearchPlan {
    /// The rate to begin at, and the lowest that is tried, in requests per second.
    pub lowest_rate: f64,
    /// The highest rate that the client was calibrated for. No trial exceeds it.
    pub client_ceiling: f64,
    /// Throughput of a closed-loop probe. Only moves the first trial to half of it.
    pub hint: Option<f64>,
    /// When the estimate ends.
    pub end: EstimateEnd,
    /// Length of the first, short trials (*goal initial trial duration*).
    pub initial_trial: Duration,
    /// Longest of the trials that the estimate rests on (*goal final trial duration*). They are
    /// shorter where the rate is high enough for as many samples.
    pub final_trial: Duration,
    /// The tightest limit on a tail of the response times.
    pub tail: Option<TailLimit>,
    /// Share of the trials of a load that may fail (*goal exceed ratio*), at least 0 and below 1.
    pub exceed_ratio: f64,
    /// How many INVALID trials in a row are repeated before their rate is taken to be beyond the
    /// client.
    pub invalid_repeats: u32,
    /// How many trials are made at most.
    pub trials_max: u32,
    /// How much time the trials may take in all, by their [`super::TrialSummary::cost`].
    pub budget: Duration,
    /// Whether the search ends with trials above the threshold, to see what an overload does.
    pub overload: bool,
    /// How long a target that collapses under an overload is given to recover.
    pub recovery: Duration,
}

/// A limit on the response times: at most `share` of them may be above `bound`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TailLimit {
    /// Share that may be above the bound: 0.01 for a limit on p99.
    pub share: f64,
    /// The bound.
    pub bound: Duration,
}

/// When the estimate of a search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum EstimateEnd {
    /// When the threshold's 95 % interval is so narrow, relative to the threshold.
    Width(f64),
    /// With the interval that it has when bracket and estimate have taken so much time.
    Time(Duration),
}

impl EstimateEnd {
    /// That of a search which was asked for no width and no budget: with its other parts it takes
    /// about 45 s.
    pub const DEFAULT: Self = EstimateEnd::Time(Duration::from_secs(33));

    /// That of a search whose trials may take so much time in all.
    pub fn within(budget: Duration) -> Self {
        EstimateEnd::Time(budget.saturating_sub(CLOSING).max(budget / 2))
    }

    /// The width at which it ends in any case.
    pub(super) fn width(self) -> f64 {
        if let EstimateEnd::Width(width) = self { width } else { NARROWEST }
    }

    pub(super) fn time(self) -> Option<Duration> {
        if let EstimateEnd::Time(time) = self { Some(time) } else { None }
    }
}

/// About the time of the trials after the estimate: overload and recovery.
const CLOSING: Duration = Duration::from_secs(10);
/// A search that has time left does not need a narrower interval.
const NARROWEST: f64 = 0.01;

/// Samples beyond a quantile that its estimate needs, in units of one over the quantile's tail.
const SAMPLES_OF_TAIL: f64 = 1000.0;
/// Samples alone make a trial no longer than this share of the longest one.
const SAMPLING_SHARE: f64 = 0.4;
/// So many trials have to fit into the time of a search that is asked for no width.
const TRIALS_IN_TIME: u32 = 5;
/// A queue that starts empty may hide this relative excess in a trial that is long enough.
const BUILD_UP_MAX: f64 = 0.0125;
/// A relative excess that shows by missing completions, whatever the limit on the response time.
const MISSING_SHOWS: f64 = 0.012;
/// Width of the bracket at which the short trials end.
const BRACKET_WIDTH: f64 = 0.16;

impl SearchPlan {
    /// A plan between two rates with the usual goals: an interval 3 % wide, by trials of 0.5 s at
    /// first and 10 s at last.
    pub fn new(lowest_rate: f64, client_ceiling: f64) -> Self {
        SearchPlan {
            lowest_rate,
            client_ceiling,
            hint: None,
            end: EstimateEnd::Width(0.03),
            initial_trial: Duration::from_millis(500),
            final_trial: Duration::from_secs(10),
            tail: None,
            exceed_ratio: 0.5,
            invalid_repeats: 2,
            trials_max: 200,
            budget: Duration::from_secs(600),
            overload: true,
            recovery: Duration::from_secs(60),
        }
    }

    /// Length of the warm-up before a trial: long enough to bring every connection into use and
    /// fill caches, and short enough not to prolong the search.
    pub fn warmup(trial: Duration) -> Duration {
        trial.mul_f64(0.2).min(Duration::from_secs(1))
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let positive = |rate: f64| rate.is_finite() && rate > 0.0;
        if !positive(self.lowest_rate) {
            return Err(PlanError::LowestRate(self.lowest_rate));
        }
        if !positive(self.client_ceiling) || self.client_ceiling < self.lowest_rate {
            return Err(PlanError::Ceiling { ceiling: self.client_ceiling, lowest: self.lowest_rate });
        }
        // Below a thousandth, the build-up of queues alone is wider than the interval.
        let width = self.end.width();
        if !(0.001..1.0).contains(&width) {
            return Err(PlanError::Width(width));
        }
        if self.initial_trial.is_zero() || self.initial_trial > self.final_trial {
            return Err(PlanError::Lengths { initial: self.initial_trial, last: self.final_trial });
        }
        if !(0.0..1.0).contains(&self.exceed_ratio) {
            return Err(PlanError::ExceedRatio(self.exceed_ratio));
        }
        Ok(())
    }

    /// Length of the trials that the estimate rests on: it yields enough samples of the limit's
    /// tail, and gives a queue time to build up, but no more than the plan allows.
    pub(super) fn estimate_trial(&self, rate: f64) -> Duration {
        let Some(tail) = self.tail else { return self.final_trial };
        let samples = SAMPLES_OF_TAIL / tail.share / rate;
        let build_up = tail.bound.as_secs_f64() / BUILD_UP_MAX;
        let longest =
            self.end.time().map_or(self.final_trial, |time| self.final_trial.min(time / TRIALS_IN_TIME)).as_secs_f64();
        // More and shorter trials tell as much as few long ones, and place themselves better.
        let wanted = samples.min(longest * SAMPLING_SHARE).max(build_up).min(longest);
        Duration::from_secs_f64(wanted).clamp(self.initial_trial, self.final_trial)
    }

    /// The samples that the limit's quantile wants of a trial.
    pub(super) fn samples_wanted(&self) -> Option<u64> {
        self.tail.map(|tail| (SAMPLES_OF_TAIL / tail.share).round() as u64)
    }

    /// The largest relative excess over the sustained rate that a queue may hide in a trial which
    /// it begins empty: it takes so much to reach the limit on the tail, or without one to leave
    /// completions missing.
    pub(super) fn build_up(&self, trial: Duration) -> f64 {
        let seconds = (Self::warmup(trial) + trial).as_secs_f64();
        self.tail.map_or(MISSING_SHOWS, |tail| tail.bound.as_secs_f64() / seconds)
    }

    /// The goals in order: a bracket by short trials, and trials of the final length.
    ///
    /// A load is judged on twice the length of a short trial. With an exceed ratio of one half a
    /// single pass is then enough, but a failure has to repeat itself. That asymmetry is wanted:
    /// passing too much costs a few short trials further up, while one wrong failure far below the
    /// capacity would leave the longest trials, one after the other, to climb all the way back.
    pub(super) fn goals(&self) -> [Goal; 2] {
        let goal = |trial: Duration, sum, width| Goal { trial, sum, exceed_ratio: self.exceed_ratio, width };
        [
            goal(self.initial_trial, self.initial_trial * 2, BRACKET_WIDTH.max(self.end.width())),
            goal(self.final_trial, self.final_trial, self.end.width()),
        ]
    }
}

/// A plan that cannot be searched.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum PlanError {
    /// The lowest rate is no rate.
    #[error("the lowest rate {0}/s is not a positive number")]
    LowestRate(f64),
    /// There is no room between the lowest rate and the ceiling.
    #[error("the client's ceiling {ceiling}/s is below the lowest rate {lowest}/s")]
    Ceiling {
        /// The ceiling.
        ceiling: f64,
        /// The lowest rate.
        lowest: f64,
    },
    /// The width is no relative width.
    #[error("the width {0} is not between 0.001 and 1")]
    Width(f64),
    /// Trial lengths out of order.
    #[error("trials of {initial:?} at first and {last:?} at last do not grow from above zero")]
    Lengths {
        /// Initial length.
        initial: Duration,
        /// Final length.
        last: Duration,
    },
    /// The exceed ratio is no share.
    #[error("the exceed ratio {0} is not at least 0 and below 1")]
    ExceedRatio(f64),
}
