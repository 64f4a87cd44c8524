//! The capacity search as a state machine: it requests the next trial, receives the trial's result,
//! and ends with an estimate of the capacity. It runs no trial itself.
//!
//! A search has three parts. Short trials *bracket* the capacity (`bracket`). Trials of the final
//! length *estimate* the threshold: the rate at which a trial is as likely to pass as to fail, with
//! its 95 % interval (`estimate`, `threshold`). Short trials above it show the effect of an
//! *overload*, and probes below it the recovery (`overload`).
//!
//! Beside the estimate, every load is judged by the trials made at it, with the rules of RFC 9971
//! (MLRsearch; `load`). Loads need not behave: one may fail below another that passes. Then the
//! higher one is no bound. The lower bound is the highest load that passed with no failed load at
//! or below it. The bounds are what trials have shown, and no interval.
//!
//! Targets need not stay as they are either: one may collapse under an overload, for a while or for
//! good. `suspicion` treats that case.

mod bracket;
mod drift;
mod estimate;
mod load;
mod overload;
mod plan;
mod recovery;
mod result;
#[cfg(test)]
mod simulated;
mod state;
mod suspicion;
#[cfg(test)]
mod tests;
mod threshold;
mod trial;

pub use drift::Drift;
pub use load::{JudgedLoad, LoadClass};
pub use overload::{OverloadPoint, OverloadShape, shape_of};
pub use plan::{PlanError, SearchPlan, TailLimit};
pub use recovery::Collapse;
pub use state::Search;
pub use threshold::Estimate;
pub use trial::{Phase, PhaseCounts, TrialSummary};

use crate::trial::Verdict;
use bracket::Decision;
use recovery::RecoveryStep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::{BRACKET, ESTIMATE};
use std::time::Duration;
use trial::HistoryEntry;

/// The next step of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// A trial to make and to pass to [`Search::record`].
    Trial {
        /// Requests per second to offer.
        rate: f64,
        /// Length of the trial, without warm-up.
        duration: Duration,
        /// Its purpose.
        phase: Phase,
        /// Whether it may end as soon as FAIL is certain.
        stop_when_certain: bool,
    },
    /// A pause in which nothing is offered, so that the target can recover;
    /// [`Search::record_pause`] takes its length.
    Pause(Duration),
    /// The search is over.
    Done(SearchResult),
}

/// The reason why a search ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Ended")]
pub enum EndReason {
    /// The interval of the threshold is as narrow as requested.
    WidthReached,
    /// The highest load that the client can offer is confirmed: the capacity lies above.
    ClientCeiling,
    /// Already the lowest rate fails, or is beyond the client.
    LowestRate,
    /// The next trial would have exceeded the time budget.
    BudgetSpent,
    /// All allowed trials were made.
    TrialsSpent,
    /// The target collapsed under an overload and did not recover in the time that it was given.
    NotRecovered,
    /// The caller has ended the search, see [`Search::end`].
    Interrupted,
    /// The caller has ended the search because something else kept the measuring host from
    /// measuring.
    Disturbed,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SearchResult {
    /// The highest rate that is shown to be carried; `None` if no rate was.
    pub lower_bound: Option<f64>,
    /// Whether the lower bound was judged at the final length.
    pub lower_confirmed: bool,
    /// Goodput at the lower bound: the mean over its valid trials, weighted by length.
    pub goodput: Option<f64>,
    /// The lowest rate that is shown not to be carried; `None` if the client could not offer one.
    pub upper_bound: Option<f64>,
    /// Whether the upper bound was judged at the final length.
    pub upper_confirmed: bool,
    /// The threshold with its 95 % interval; `None` if no rate passed, or none failed.
    pub estimate: Option<Estimate>,
    /// The movement of the threshold during the search, if the trials show one.
    pub drift: Option<Drift>,
    /// The trials under overload, ascending by rate.
    pub overload: Vec<OverloadPoint>,
    /// Whether the target was seen to carry its load again after the overload, and how long that
    /// took in seconds; `None` if it was not tried.
    pub recovered: Option<Option<f64>>,
    /// Length of the trials that the estimate rests on.
    pub estimate_trial: Duration,
    /// Requests that each of them should have for the limit's quantile.
    pub samples_wanted: Option<u64>,
    /// Whether the client, not the target, keeps the result from being higher or narrower.
    pub limited_by_client: bool,
    /// Why the search ended.
    pub ended: EndReason,
    /// The collapse that the target has shown. If it has not recovered, the bounds are those from
    /// before the collapse.
    pub collapse: Option<Collapse>,
    /// A load that passed once, above what the target was found to carry by a third or more: either
    /// by chance, or because an overload has changed the target in a way that the probes could not
    /// distinguish from chance.
    pub contradicted: Option<f64>,
    /// Trials by phase.
    pub trials: PhaseCounts,
    /// All loads that were tried, ascending.
    pub loads: Vec<JudgedLoad>,
    /// Time spent by the costs of the trials, in seconds.
    pub spent_s: f64,
}

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
        // The rest of a trial after a certain FAIL shows how the target fares under the overload.
        let stop_when_certain = phase != Phase::Overload;
        Step::Trial { rate, duration: self.length_of(phase), phase, stop_when_certain }
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
        let trial = TrialSummary { duration: nominal(trial.duration, self.length_of(phase)), ..trial };
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

/// The requested length, if the measured one is within a hundredth of it: clocks and last requests
/// are not exact, and a trial that ended slightly early is not a short one.
fn nominal(measured: Duration, asked: Duration) -> Duration {
    if measured.abs_diff(asked) <= asked / 100 { asked } else { measured }
}
