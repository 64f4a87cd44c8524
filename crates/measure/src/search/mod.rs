//! The capacity search as a state machine: it requests the next trial, receives the trial's result,
//! and ends with a bracket of the capacity. It runs no trial itself.
//!
//! A search works through *goals* (RFC 9971, MLRsearch) of growing strictness: first short trials
//! that each decide a load, then longer ones, at last the final length, at which a load is judged
//! on the sum of its trials with an exceed ratio. Each goal starts from the bracket of the one
//! before and verifies it, so what a short trial got wrong, a longer one mends: where a bound does
//! not hold, the search reaches out again, in growing steps.
//!
//! Loads need not behave: one may fail below another that passes. Then the higher one is no bound.
//! The lower bound is the highest load that passed with no failed load at or below it.
//!
//! Targets need not stay as they are either: one may collapse under an overload, for a while or for
//! good. `suspicion` treats that case.

mod load;
mod plan;
mod recovery;
mod state;
mod suspicion;
#[cfg(test)]
mod tests;
mod trial;

pub use load::{JudgedLoad, LoadClass};
pub use plan::{PlanError, SearchPlan};
pub use recovery::Collapse;
pub use state::Search;
pub use trial::{Phase, PhaseCounts, TrialSummary};

use crate::trial::Verdict;
use recovery::RecoveryStep;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use state::REACH_MAX;
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
    /// The bracket is confirmed and as narrow as requested.
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
    /// The relative width reached, `(upper - lower) / upper`.
    pub width: Option<f64>,
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

/// The loads that matter at one goal.
#[derive(Debug, Clone, Copy)]
struct Bounds {
    /// Highest load that passed below every failed one.
    lower: Option<f64>,
    /// Lowest load that failed.
    upper: Option<f64>,
    /// Lowest load above `lower` that is beyond the client, if it is below `upper`.
    client: Option<f64>,
}

/// The decision that the loads tried so far lead to.
enum Decision {
    Try(f64),
    GoalReached,
}

impl Search {
    /// The next step. It stays the same until the trial that it requests is recorded.
    pub fn step(&mut self) -> Step {
        if let Some((rate, phase)) = self.pending {
            return Step::Trial { rate, duration: self.length_of(phase), phase };
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
        loop {
            match self.decide() {
                Decision::Try(rate) => {
                    let phase = self.phase();
                    return self.request(rate, phase);
                }
                Decision::GoalReached if self.goal + 1 == self.goals.len() => return Step::Done(self.result(None)),
                Decision::GoalReached => {
                    self.reach = 1.0 / (1.0 - self.goals[self.goal].width);
                    self.goal += 1;
                    self.last_rate = None;
                }
            }
        }
    }

    /// Requests a trial, if there is time for it.
    fn request(&mut self, rate: f64, phase: Phase) -> Step {
        let duration = self.length_of(phase);
        if self.trials.total() >= self.plan.trials_max {
            return Step::Done(self.result(Some(EndReason::TrialsSpent)));
        }
        if self.spent.saturating_add(duration) > self.plan.budget {
            return Step::Done(self.result(Some(EndReason::BudgetSpent)));
        }
        self.pending = Some((rate, phase));
        Step::Trial { rate, duration, phase }
    }

    fn length_of(&self, phase: Phase) -> Duration {
        if phase == Phase::Recover { self.plan.initial_trial } else { self.goals[self.goal].trial }
    }

    /// Records the trial that [`Search::step`] requested.
    ///
    /// # Panics
    /// If no trial was requested, or one at another rate.
    pub fn record(&mut self, trial: TrialSummary) {
        let (rate, phase) = self.pending.take().expect("a trial is recorded after it was asked for");
        assert!(rate == trial.rate, "the trial was asked for at {rate}/s, not at {}/s", trial.rate);
        match phase {
            Phase::Bracket => self.trials.bracket += 1,
            Phase::Narrow => self.trials.narrow += 1,
            Phase::Confirm => self.trials.confirm += 1,
            Phase::Recover => self.trials.recover += 1,
        }
        self.spent = self.spent.saturating_add(trial.cost.max(trial.duration));
        let trial = TrialSummary { duration: nominal(trial.duration, self.length_of(phase)), ..trial };
        if phase == Phase::Recover {
            return self.record_probe(trial);
        }
        self.last_rate = Some(rate);
        self.history.push(HistoryEntry { trial, goal: self.goal, probe: false });
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

    /// The next step towards the present goal.
    fn decide(&mut self) -> Decision {
        let bounds = self.bounds(self.goal);
        let top = bounds.top();
        if let Some(rate) = self.unfinished(&bounds) {
            return Decision::Try(rate);
        }
        let previous = self.goal.checked_sub(1).map(|goal| self.bounds(goal));
        match (bounds.lower, top) {
            (None, None) => Decision::Try(self.first_rate(previous)),
            (Some(lower), None) if lower >= self.plan.client_ceiling => Decision::GoalReached,
            (Some(lower), None) => {
                let known = previous.and_then(|previous| previous.upper).filter(|upper| *upper > lower);
                let rate = known.unwrap_or_else(|| lower * self.step_outwards());
                Decision::Try(rate.min(self.plan.client_ceiling))
            }
            (None, Some(top)) if top <= self.plan.lowest_rate => Decision::GoalReached,
            (None, Some(top)) => {
                let known = previous.and_then(|previous| previous.lower).filter(|lower| *lower < top);
                let rate = known.unwrap_or_else(|| top / self.step_outwards());
                Decision::Try(rate.max(self.plan.lowest_rate))
            }
            (Some(lower), Some(top)) if relative_width(lower, top) <= self.goals[self.goal].width => {
                Decision::GoalReached
            }
            (Some(lower), Some(top)) => Decision::Try(between(lower, top)),
        }
    }

    /// The last load, if its trials have not decided it and it still matters.
    fn unfinished(&self, bounds: &Bounds) -> Option<f64> {
        let load = self.loads.iter().find(|load| Some(load.rate) == self.last_rate)?;
        let matters =
            bounds.lower.is_none_or(|lower| load.rate > lower) && bounds.top().is_none_or(|top| load.rate < top);
        let undecided = load.class(&self.goals[self.goal]) == LoadClass::Undecided;
        (undecided && matters).then_some(load.rate)
    }

    /// The first rate of a goal: the bracket of the goal before; for the first one half the hint or
    /// the lowest rate.
    fn first_rate(&self, previous: Option<Bounds>) -> f64 {
        let known = previous.and_then(|previous| previous.lower.or(previous.top()));
        let half_hint = self.plan.hint.filter(|hint| hint.is_finite()).map(|hint| hint / 2.0);
        let rate = known.or(half_hint).unwrap_or(self.plan.lowest_rate);
        rate.clamp(self.plan.lowest_rate, self.plan.client_ceiling)
    }

    fn step_outwards(&mut self) -> f64 {
        let step = self.reach.min(REACH_MAX);
        self.reach = step * step;
        step
    }

    fn phase(&self) -> Phase {
        let bounds = self.bounds(self.goal);
        if self.goal + 1 == self.goals.len() {
            Phase::Confirm
        } else if self.goal == 0 && (bounds.lower.is_none() || bounds.top().is_none()) {
            Phase::Bracket
        } else {
            Phase::Narrow
        }
    }

    fn bounds(&self, goal: usize) -> Bounds {
        let classes = || self.loads.iter().map(|load| (load.rate, load.class(&self.goals[goal])));
        let is = |wanted: LoadClass| move |(rate, class): (f64, LoadClass)| (class == wanted).then_some(rate);
        let upper = classes().find_map(is(LoadClass::Upper));
        let below_upper = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        let lower = classes().filter_map(is(LoadClass::Lower)).rfind(below_upper);
        let above_lower = |rate: &f64| lower.is_none_or(|lower| *rate > lower);
        let client = classes().filter_map(is(LoadClass::BeyondClient)).find(above_lower).filter(below_upper);
        Bounds { lower, upper, client }
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

    /// The result of all trials so far. Where a search ran out of time, a bound that the final goal
    /// lacks is taken from the strictest goal that has one, and is marked as unconfirmed.
    ///
    /// Of a target that has not recovered nothing counts that was measured after its overload.
    fn result(&self, cut_short: Option<EndReason>) -> SearchResult {
        let search = self.without_damage();
        let answer = search.answer_by_loads(cut_short);
        match search.collapse.filter(|collapse| collapse.recovery_s.is_none()) {
            None => answer,
            Some(collapse) => {
                // One failure need not decide a load, but this one has changed the target.
                let upper = answer.upper_bound.map_or(collapse.overload, |upper| upper.min(collapse.overload));
                let held = Some(collapse.held).filter(|held| *held < upper);
                let lower = answer.lower_bound.filter(|lower| *lower < upper).or(held);
                let width = lower.map(|lower| relative_width(lower, upper));
                let upper_confirmed = answer.upper_confirmed && answer.upper_bound == Some(upper);
                let lower_confirmed = answer.lower_confirmed && answer.lower_bound == lower;
                let goodput = lower.and_then(|lower| search.goodput_at(lower));
                let upper_bound = Some(upper);
                SearchResult {
                    lower_bound: lower,
                    lower_confirmed,
                    goodput,
                    upper_bound,
                    upper_confirmed,
                    width,
                    ..answer
                }
            }
        }
    }

    fn answer_by_loads(&self, cut_short: Option<EndReason>) -> SearchResult {
        let last = self.goals.len() - 1;
        let confirmed = self.bounds(last);
        let earlier = || (0..last).rev().map(|goal| self.bounds(goal));
        let above = |rate: &f64| confirmed.lower.is_none_or(|lower| *rate > lower);
        let upper = confirmed.upper.or_else(|| earlier().find_map(|bounds| bounds.upper.filter(above)));
        let below = |rate: &f64| upper.is_none_or(|upper| *rate < upper);
        let lower = confirmed.lower.or_else(|| earlier().find_map(|bounds| bounds.lower.filter(below)));
        let bracket = lower.zip(upper);
        let at_ceiling = lower.is_some_and(|lower| lower >= self.plan.client_ceiling);
        let limited_by_client = at_ceiling || confirmed.client.is_some();
        let ended = cut_short.unwrap_or(match lower {
            None => EndReason::LowestRate,
            Some(_) if limited_by_client => EndReason::ClientCeiling,
            Some(_) => EndReason::WidthReached,
        });
        SearchResult {
            lower_bound: lower,
            lower_confirmed: confirmed.lower.is_some(),
            goodput: lower.and_then(|lower| self.goodput_at(lower)),
            upper_bound: upper,
            upper_confirmed: confirmed.upper.is_some(),
            width: bracket.map(|(lower, upper)| relative_width(lower, upper)),
            limited_by_client,
            ended,
            collapse: self.collapse,
            contradicted: upper.and_then(|upper| self.contradicting(upper)),
            trials: self.trials,
            loads: self.loads.iter().map(|load| load.judged(&self.goals[last])).collect(),
            spent_s: self.spent.as_secs_f64(),
        }
    }

    fn goodput_at(&self, rate: f64) -> Option<f64> {
        let trials = || self.goodputs.iter().filter(|(at, _, _)| *at == rate);
        let seconds: f64 = trials().map(|(_, length, _)| length.as_secs_f64()).sum();
        let good: f64 = trials().map(|(_, length, goodput)| length.as_secs_f64() * goodput).sum();
        (seconds > 0.0).then(|| good / seconds)
    }
}

impl Bounds {
    /// The load to stay below, because the client or the target could not carry it.
    fn top(&self) -> Option<f64> {
        self.client.or(self.upper)
    }
}

/// The requested length, if the measured one is within a hundredth of it: clocks and last requests
/// are not exact, and a trial that ended slightly early is not a short one.
fn nominal(measured: Duration, asked: Duration) -> Duration {
    if measured.abs_diff(asked) <= asked / 100 { asked } else { measured }
}

fn relative_width(lower: f64, upper: f64) -> f64 {
    (upper - lower) / upper
}

/// The geometric mean, rounded to five digits where that keeps it strictly between: a rate that a
/// person can repeat.
fn between(lower: f64, upper: f64) -> f64 {
    let mean = (lower * upper).sqrt();
    let power = 10_f64.powi(4 - mean.log10().floor() as i32);
    let rounded = (mean * power).round() / power;
    if lower < rounded && rounded < upper { rounded } else { mean }
}
