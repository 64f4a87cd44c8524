//! The last part of a search: short trials above the threshold show what an overload does to the
//! target, then probes below it whether it recovers, and when.

use super::end_reason::EndReason;
use super::overload::{Closing, OverloadPoint, TRIAL, last_trial};
use super::recovery::Recovery;
use super::state::Search;
use super::step::Step;
use super::trial::{Phase, TrialSummary};
use std::time::Duration;

/// Rates of the trials, in multiples of the threshold.
const MULTIPLES: [f64; 4] = [1.1, 1.25, 1.5, 2.0];
/// The recovery is probed at this share of the interval's lower end, where chance makes few trials
/// fail.
const RETURN_SHARE: f64 = 0.9;

impl Search {
    /// Ends the estimate, and begins the trials under overload where the threshold is known.
    pub(super) fn begin_closing(&mut self) -> Step {
        let ended = self.natural_end();
        self.estimated_at = Some(self.spent);
        let estimate = self
            .estimate()
            .filter(|_| self.plan.overload && matches!(ended, EndReason::WidthReached | EndReason::TimeOver));
        let Some(estimate) = estimate else { return Step::Done(self.result(None)) };
        let ceiling = self.plan.client_ceiling;
        let mut rates: Vec<f64> =
            MULTIPLES.iter().map(|multiple| (estimate.threshold * multiple).round().min(ceiling)).collect();
        rates.dedup();
        rates.retain(|rate| *rate > estimate.interval95[1]);
        rates.reverse();
        let lower = estimate.interval95[0] * RETURN_SHARE;
        let return_rate =
            self.answer_by_loads(None).lower_bound.map_or(lower, |bound| bound.min(lower)).max(self.plan.lowest_rate);
        self.closing = Some(Closing { rates, points: Vec::new(), return_rate, recovered: None, ended });
        self.close()
    }

    /// The next step of the last part.
    pub(super) fn close(&mut self) -> Step {
        let Some(closing) = &self.closing else { return Step::Done(self.result(None)) };
        if let Some(rate) = closing.rates.last() {
            return self.request(*rate, Phase::Overload);
        }
        if closing.recovered.is_none() && !closing.points.is_empty() {
            self.recovery = Some(Recovery::after_overload(closing.return_rate, self.spent));
            return self.step();
        }
        Step::Done(self.result(None))
    }

    pub(super) fn overload_trial(&self) -> Duration {
        let is_last = self.closing.as_ref().is_some_and(|closing| closing.rates.len() == 1);
        if is_last { last_trial(self.plan.final_trial) } else { TRIAL }
    }

    pub(super) fn record_overload(&mut self, trial: &TrialSummary) {
        let Some(closing) = &mut self.closing else { return };
        closing.rates.pop();
        closing.points.push(OverloadPoint {
            offered_rate: trial.rate,
            good_rate: trial.goodput,
            completed_rate: trial.completed,
            p99_us: trial.p99_us,
        });
    }
}
