//! The state of a search: its plan, the loads tried, and the history of its trials.

use super::load::{Goal, Load};
use super::overload::Closing;
use super::plan::{PlanError, SearchPlan};
use super::recovery::{Collapse, Recovery};
use super::trial::{HistoryEntry, Phase, PhaseCounts, TrialSummary};
use crate::trial::Verdict;
use std::time::Duration;

/// A capacity search in progress.
#[derive(Debug, Clone)]
pub struct Search {
    pub(super) plan: SearchPlan,
    /// Goals of the bracket and of the estimate.
    pub(super) goals: [Goal; 2],
    /// Index of the goal worked on.
    pub(super) goal: usize,
    /// Every load tried, ascending by rate.
    pub(super) loads: Vec<Load>,
    /// Every valid trial's rate, length and goodput.
    pub(super) goodputs: Vec<(f64, Duration, f64)>,
    /// All trials whose results count, in the order in which they were made, and recovery probes.
    pub(super) history: Vec<HistoryEntry>,
    /// The recovery that is waited for.
    pub(super) recovery: Option<Recovery>,
    /// The collapse with the longest recovery so far.
    pub(super) collapse: Option<Collapse>,
    /// The trials under overload, once the threshold is known.
    pub(super) closing: Option<Closing>,
    /// The trial that is being made.
    pub(super) pending: Option<(f64, Phase)>,
    /// The rate of the last trial.
    pub(super) last_rate: Option<f64>,
    /// Ratio of the next step outwards; squared with every step.
    pub(super) reach: f64,
    pub(super) trials: PhaseCounts,
    pub(super) spent: Duration,
    /// The time that bracket and estimate have taken, once they are over.
    pub(super) estimated_at: Option<Duration>,
}

/// Index of the goal of short trials that bracket the capacity.
pub(super) const BRACKET: usize = 0;
/// Index of the goal of trials that estimate the threshold.
pub(super) const ESTIMATE: usize = 1;
/// Steps outwards at most double the rate.
pub(super) const REACH_MAX: f64 = 2.0;

impl Search {
    /// A search that has not begun.
    pub fn new(plan: SearchPlan) -> Result<Self, PlanError> {
        plan.check()?;
        let goals = plan.goals();
        Ok(Search {
            plan,
            goals,
            goal: BRACKET,
            loads: Vec::new(),
            goodputs: Vec::new(),
            history: Vec::new(),
            recovery: None,
            collapse: None,
            closing: None,
            pending: None,
            last_rate: None,
            reach: REACH_MAX,
            trials: PhaseCounts::default(),
            spent: Duration::ZERO,
            estimated_at: None,
        })
    }

    /// Enters a trial with its load.
    pub(super) fn enter(&mut self, trial: &TrialSummary) {
        if trial.verdict != Verdict::Invalid {
            self.goodputs.push((trial.rate, trial.duration, trial.goodput));
        }
        let position = self.loads.partition_point(|load| load.rate < trial.rate);
        if self.loads.get(position).is_none_or(|load| load.rate != trial.rate) {
            self.loads.insert(position, Load::new(trial.rate, self.plan.invalid_repeats));
        }
        self.loads[position].record(trial);
    }

    /// Works on an earlier goal again, beginning with the load of this rate if it is undecided.
    pub(super) fn return_to(&mut self, goal: usize, rate: f64) {
        self.goal = goal;
        self.last_rate = Some(rate);
        self.reach = REACH_MAX;
    }
}
