//! The capacity search as a state machine: it requests the next trial, receives the trial's result,
//! and ends with an estimate of the capacity. It runs no trial itself.
//!
//! A search has three parts. Short trials *bracket* the capacity (`bracket`). Trials of the final
//! length *estimate* the threshold: the rate at which a trial is as likely to pass as to fail, with
//! its 95 % interval (`estimate`, `threshold`). Short trials above it show the effect of an
//! *overload*, and probes below it the recovery (`closing`).
//!
//! Beside the estimate, every load is judged by the trials made at it, with the rules of RFC 9971
//! (MLRsearch; `load`). Loads need not behave: one may fail below another that passes. Then the
//! higher one is no bound. The lower bound is the highest load that passed with no failed load at
//! or below it. The bounds are what trials have shown, and no interval.
//!
//! Targets need not stay as they are either: one may collapse under an overload, for a while or for
//! good. `suspicion` treats that case.

mod bracket;
mod closing;
mod drift;
mod end_reason;
mod estimate;
mod load;
mod overload;
mod plan;
mod recovery;
mod result;
#[cfg(test)]
mod simulated;
mod state;
mod step;
mod suspicion;
#[cfg(test)]
mod tests;
mod threshold;
mod trial;

pub use drift::Drift;
pub use end_reason::EndReason;
pub use load::{JudgedLoad, LoadClass};
pub use overload::{OverloadPoint, OverloadShape, shape_of};
pub use plan::{EstimateEnd, PlanError, SearchPlan, TailLimit};
pub use recovery::Collapse;
pub use state::Search;
pub use step::{SearchResult, Step, USUAL_WIDTH};
pub use threshold::Estimate;
pub use trial::{BadRequests, Phase, PhaseCounts, TrialSummary};

use crate::trial::Verdict;
use bracket::Decision;
use recovery::RecoveryStep;
use state::{BRACKET, ESTIMATE};
use std::time::Duration;
use trial::HistoryEntry;

/// FAIL is certain if so many times the allowed requests are bad.
const CERTAIN: f64 = 1.05;
/// So many of them tell that a trial is far above the threshold.
const CERTAIN_ESTIMATE: f64 = 25.0;

impl Search {
    /// The next step. It stays the same until the trial that it requests is recorded.
    pub fn step(&mut self) -> Step {
        if let Some((rate, phase)) = self.pending {
            return self.trial(rate, phase);
        }
        if let Some(recovery) = self.recovery {
            return match recovery.next(self.spent, self.plan.recovery) {
                RecoveryStep::Probe => self.request(recovery.probe_rate, Phase::Recover),
                RecoveryStep::GiveUp => Step::Done(self.result(Some(EndReason::NotRecovered))),
                RecoveryStep::Pause(pause) if self.spent.saturating_add(pause) > self.plan.budget => {
                    Step::Done(self.result(Some(EndReason::BudgetSpent)))
                }
                RecoveryStep::Pause(pause) => Step::Pause(pause),
            };
        }
        if self.closing.is_some() {
            return self.close();
        }
        loop {
            let decision = if self.goal == BRACKET { self.bracket() } else { self.estimate_on() };
            match decision {
                Decision::Try(rate) => {
                    let phase = self.phase();
                    return self.request(rate, phase);
                }
                Decision::GoalReached if self.goal == BRACKET => self.begin_estimate(),
                Decision::GoalReached => return self.begin_closing(),
            }
        }
    }

    /// Requests a trial, if there is time for it.
    fn request(&mut self, rate: f64, phase: Phase) -> Step {
        if self.trials.total() >= self.plan.trials_max {
            return Step::Done(self.result(Some(EndReason::TrialsSpent)));
        }
        if self.spent.saturating_add(self.length_of(phase)) > self.plan.budget {
            return Step::Done(self.result(Some(EndReason::BudgetSpent)));
        }
        self.pending = Some((rate, phase));
        self.trial(rate, phase)
    }

    fn trial(&self, rate: f64, phase: Phase) -> Step {
        // The rest of a trial after a certain FAIL shows how the target fares under the overload. A
        // trial of the estimate tells more by all of its bad requests than by its verdict.
        let ends_at = match phase {
            Phase::Overload | Phase::Bracket | Phase::Narrow => None,
            Phase::Confirm => Some(CERTAIN_ESTIMATE),
            Phase::Recover => Some(CERTAIN),
        };
        Step::Trial { rate, duration: self.length_of(phase), phase, ends_at }
    }

    fn length_of(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Bracket | Phase::Narrow => self.goals[BRACKET].trial,
            Phase::Confirm => self.goals[ESTIMATE].trial,
            Phase::Overload => self.overload_trial(),
            Phase::Recover => self.probe_length(),
        }
    }

    fn phase(&self) -> Phase {
        let bounds = self.bounds(self.goal);
        match self.goal {
            ESTIMATE => Phase::Confirm,
            _ if bounds.lower.is_none() || bounds.top().is_none() => Phase::Bracket,
            _ => Phase::Narrow,
        }
    }

    /// Records the trial that [`Search::step`] requested.
    ///
    /// # Panics
    /// If no trial was requested, or one at another rate.
    pub fn record(&mut self, trial: TrialSummary) {
        let (rate, phase) = self.pending.take().expect("a trial is recorded after it was asked for");
        assert!(rate == trial.rate, "the trial was asked for at {rate}/s, not at {}/s", trial.rate);
        self.trials.count(phase);
        let begun = self.spent;
        self.spent = self.spent.saturating_add(trial.cost);
        let trial = TrialSummary { duration: nominal(trial.duration, self.length_of(phase), phase), ..trial };
        match phase {
            Phase::Recover => return self.record_probe(trial, begun),
            Phase::Overload => return self.record_overload(&trial),
            Phase::Bracket | Phase::Narrow | Phase::Confirm => {}
        }
        self.last_rate = Some(rate);
        self.history.push(HistoryEntry { trial, goal: self.goal, probe: false, ended: self.spent });
        self.enter(&trial);
        if trial.verdict == Verdict::Fail {
            self.suspect();
        }
    }

    /// Records the end of a pause that [`Search::step`] requested. `lasted` is at least its length.
    pub fn record_pause(&mut self, lasted: Duration) {
        self.spent = self.spent.saturating_add(lasted);
        if let Some(recovery) = &mut self.recovery {
            recovery.end_pause();
        }
    }

    /// Counts time against the budget that went into a trial which is not recorded.
    pub fn spend(&mut self, time: Duration) {
        self.spent = self.spent.saturating_add(time);
    }

    /// Ends the search now, with the result known so far.
    pub fn end(&self, why: EndReason) -> SearchResult {
        self.result(Some(why))
    }

    /// Recovery probes that have failed so far, and the time that the target has had.
    pub fn recovery(&self) -> Option<(u32, Duration)> {
        self.recovery.as_ref().map(|recovery| recovery.so_far(self.spent))
    }
}

/// The requested length, if the measured one is close to it: clocks and last requests are not
/// exact, and a trial that lost a little to a disturbance is not a short one. The short trials of
/// the bracket may lose half.
fn nominal(measured: Duration, asked: Duration, phase: Phase) -> Duration {
    let enough = if phase == Phase::Confirm { 0.9 } else { 0.5 };
    if measured >= asked.mul_f64(enough) { asked } else { measured }
}
