//! The plan of a search: its bounds, and the goals that follow from it.

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
    /// Relative width of the final bracket, `(upper - lower) / upper`.
    pub width: f64,
    /// Length of the first, short trials (*goal initial trial duration*).
    pub initial_trial: Duration,
    /// Length of the trials that confirm (*goal final trial duration*).
    pub final_trial: Duration,
    /// Summed length of final trials on which a load is judged (*goal duration sum*).
    pub duration_sum: Duration,
    /// Share of that sum that may fail (*goal exceed ratio*), at least 0 and below 1.
    pub exceed_ratio: f64,
    /// How many INVALID trials in a row are repeated before their rate is taken to be beyond the
    /// client.
    pub invalid_repeats: u32,
    /// How many trials are made at most.
    pub trials_max: u32,
    /// How much time the trials may take in all, by their [`super::TrialSummary::cost`].
    pub budget: Duration,
    /// How long a target that collapses under an overload is given to recover.
    pub recovery: Duration,
}

impl SearchPlan {
    /// A plan between two rates with the usual goal: 2 % width, 2 s trials at first and 10 s trials
    /// at last, 50 s in all per load with an exceed ratio of one half. So a load is decided by
    /// three final trials of at most five.
    ///
    /// Against a simulated target of which one verdict in ten is wrong, 968 of 1000 such searches
    /// held the capacity in their bracket. Two of three (30 s) held it in 896, at three quarters of
    /// the time.
    pub fn new(lowest_rate: f64, client_ceiling: f64) -> Self {
        SearchPlan {
            lowest_rate,
            client_ceiling,
            hint: None,
            width: 0.02,
            initial_trial: Duration::from_secs(2),
            final_trial: Duration::from_secs(10),
            duration_sum: Duration::from_secs(50),
            exceed_ratio: 0.5,
            invalid_repeats: 2,
            trials_max: 200,
            budget: Duration::from_secs(900),
            recovery: Duration::from_secs(60),
        }
    }

    pub(super) fn check(&self) -> Result<(), PlanError> {
        let positive = |rate: f64| rate.is_finite() && rate > 0.0;
        if !positive(self.lowest_rate) {
            return Err(PlanError::LowestRate(self.lowest_rate));
        }
        if !positive(self.client_ceiling) || self.client_ceiling < self.lowest_rate {
            return Err(PlanError::Ceiling { ceiling: self.client_ceiling, lowest: self.lowest_rate });
        }
        // Below a ten-thousandth, no schedule could distinguish the rates of neighbouring loads.
        if !(0.0001..1.0).contains(&self.width) {
            return Err(PlanError::Width(self.width));
        }
        if self.initial_trial.is_zero() || self.initial_trial > self.final_trial {
            return Err(PlanError::Lengths { initial: self.initial_trial, last: self.final_trial });
        }
        if !(0.0..1.0).contains(&self.exceed_ratio) {
            return Err(PlanError::ExceedRatio(self.exceed_ratio));
        }
        Ok(())
    }

    /// The goals in order. Each is twice as narrow as the one before; lengths grow geometrically.
    ///
    /// Before the last goal, a load is judged on twice the length of a trial. With an exceed ratio
    /// of one half a single pass is then enough, but a failure has to repeat itself. That asymmetry
    /// is wanted: passing too much costs a few short trials further up, while one wrong failure far
    /// below the capacity would leave the longest trials, one after the other, to climb all the way
    /// back.
    pub(super) fn goals(&self) -> Vec<Goal> {
        let (first, last) = (self.initial_trial, self.final_trial);
        let middle = Duration::from_secs_f64((first.as_secs_f64() * last.as_secs_f64()).sqrt());
        let width = |doublings: f64| (self.width * doublings).min(0.5_f64.max(self.width));
        // With one length for all there is nothing to prepare by shorter trials but the bracket
        // itself.
        let mut goals = vec![Goal { trial: first, sum: first * 2, exceed_ratio: self.exceed_ratio, width: width(4.0) }];
        if first < last {
            goals.push(Goal { trial: middle, sum: middle * 2, exceed_ratio: self.exceed_ratio, width: width(2.0) });
        }
        let sum = self.duration_sum.max(last);
        goals.push(Goal { trial: last, sum, exceed_ratio: self.exceed_ratio, width: self.width });
        goals
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
    #[error("the width {0} is not between 0.0001 and 1")]
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
