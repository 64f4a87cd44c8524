//! The second part of a search: trials of the final length, each at the rate where it is expected
//! to tell most about the threshold per second, until the threshold's interval is narrow enough.

use super::EndReason;
use super::bracket::{Decision, between, round};
use super::load::LoadClass;
use super::state::{BRACKET, ESTIMATE, Search};
use super::threshold::{Estimate, Posterior};
use super::trial::{Evidence, Sensitivity, TrialEvidence, TrialSummary};
use crate::trial::Verdict;
use std::time::Duration;

/// The estimate never rests on fewer trials of the final length.
const TRIALS_MIN: usize = 4;
/// Share of trials of the final length whose result has nothing to do with the rate.
const LAPSE: f64 = 0.01;
/// The same of shorter ones, which are too short to be trusted with more than a rough place.
const LAPSE_SHORT: f64 = 0.08;
/// Rates are tried at distances of this share of the interval's final width, so that some of them
/// are tried again.
const RATES_OF_WIDTH: f64 = 1.0 / 3.0;
/// Time that a trial takes beside warm-up and schedule: connections to open, requests to end.
const OVERHEAD: f64 = 0.25;
/// Share of its length after which a trial far above the threshold is certain to fail.
const EARLIEST_END: f64 = 0.1;
/// Rates that are compared at most.
const RATES_MAX: i64 = 24;
/// How far from the rates tried the threshold may be at most.
const REACH: f64 = 2.0;

impl Search {
    /// Fixes the length of the trials that the estimate rests on, which depends on the rate.
    pub(super) fn begin_estimate(&mut self) {
        let bounds = self.bounds(self.goal);
        if let Some(rate) = bounds.lower.or(bounds.top()) {
            let trial = self.plan.estimate_trial(rate);
            self.goals[ESTIMATE].trial = trial;
            self.goals[ESTIMATE].sum = trial;
        }
        self.goal = ESTIMATE;
        self.last_rate = None;
    }

    /// The next step of the estimate.
    pub(super) fn estimate_on(&mut self) -> Decision {
        let bounds = self.bounds(ESTIMATE);
        let lowest = self.plan.lowest_rate;
        if bounds.lower.is_none() && bounds.top().is_some_and(|top| top <= lowest) {
            return Decision::GoalReached;
        }
        let cap = self.cap();
        if self.is_at_cap() {
            return Decision::GoalReached;
        }
        let posterior = self.posterior();
        if self.is_narrow(&posterior.estimate()) {
            return Decision::GoalReached;
        }
        let rate = self.most_telling(&posterior, cap).clamp(lowest, cap.max(lowest));
        Decision::Try(rate)
    }

    /// The highest rate that the client may be able to offer: its ceiling, or half way to a rate
    /// that was beyond it.
    fn cap(&self) -> f64 {
        let Some(client) = self.bounds(ESTIMATE).client else { return self.plan.client_ceiling };
        let lower = self.bounds(ESTIMATE).lower.or(self.bounds(BRACKET).lower);
        let lower = lower.filter(|lower| *lower < client).unwrap_or(self.plan.lowest_rate);
        if (client - lower) / client <= self.plan.width { lower } else { between(lower, client) }
    }

    /// Whether the highest rate that the client can offer is carried.
    fn is_at_cap(&self) -> bool {
        let bounds = self.bounds(ESTIMATE);
        let close =
            bounds.client.zip(bounds.lower).is_some_and(|(client, lower)| (client - lower) / client <= self.plan.width);
        (bounds.client.is_none() || close) && self.is_carried_twice(self.cap())
    }

    /// Whether the load of this rate is judged as carried on more than one trial.
    fn is_carried_twice(&self, rate: f64) -> bool {
        let goal = &self.goals[ESTIMATE];
        let mut loads = self.loads.iter().filter(|load| load.rate >= rate * (1.0 - 1e-9));
        loads.any(|load| load.class(goal) == LoadClass::Lower && load.full_trials(goal) >= 2)
    }

    fn is_narrow(&self, estimate: &Estimate) -> bool {
        let results = self.evidence();
        let full = results.iter().filter(|trial| trial.sensitivity.spread_scale == 1.0);
        let (passed, failed): (Vec<&Evidence>, Vec<&Evidence>) = full.partition(|trial| trial.passed);
        let enough = passed.len() + failed.len() >= TRIALS_MIN && !passed.is_empty() && !failed.is_empty();
        enough && estimate.width() <= self.plan.width
    }

    /// The rate whose trial is expected to tell most per second.
    fn most_telling(&self, posterior: &Posterior, cap: f64) -> f64 {
        let estimate = posterior.estimate();
        let trial = self.sensitivity(estimate.threshold, self.goals[ESTIMATE].trial);
        let step = self.plan.width * RATES_OF_WIDTH;
        let (low, high) = posterior.range();
        let (first, last) = ((low / step).floor() as i64 - 2, (high / step).ceil() as i64 + 2);
        // A wide range is looked over in larger steps.
        let stride = ((last - first) / RATES_MAX).max(1) as usize;
        let rates = (first..=last).step_by(stride).map(|place| place as f64 * step).filter(|log| log.exp() <= cap);
        let value = |log_rate: f64| {
            let (information, pass) = posterior.information(log_rate, &trial);
            information / self.expected_cost(log_rate, pass, &estimate, &trial)
        };
        // A threshold that seems to lie beyond the client has to be shown by the highest rate.
        if posterior.information(cap.ln(), &trial).1 > 0.5 {
            return cap;
        }
        let best = rates.map(|rate| (value(rate), rate)).max_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(cap, |(_, log_rate)| round(log_rate.exp()).min(cap))
    }

    /// Seconds that a trial of the final length takes on average. One that fails ends as soon as
    /// that is certain, the earlier the further it lies above the threshold.
    fn expected_cost(&self, log_rate: f64, pass: f64, estimate: &Estimate, trial: &Sensitivity) -> f64 {
        let length = self.goals[ESTIMATE].trial;
        let excess = (log_rate - estimate.threshold.ln()).max(1e-9);
        let until_certain = ((trial.build_up + estimate.spread) / excess).clamp(EARLIEST_END, 1.0);
        let share = pass + (1.0 - pass) * until_certain;
        super::SearchPlan::warmup(length).as_secs_f64() + OVERHEAD + length.as_secs_f64() * share
    }

    /// The posterior of the threshold after all trials whose results count.
    pub(super) fn posterior(&self) -> Posterior {
        let trials = self.evidence();
        let rates = || trials.iter().map(|trial| trial.log_rate.exp());
        let lowest = rates().fold(f64::INFINITY, f64::min);
        let highest = rates().fold(0.0, f64::max);
        Posterior::of(&trials, lowest / REACH, highest * REACH)
    }

    /// The trials whose results count, as evidence.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let counts = self.history.iter().filter(|past| !past.probe && past.trial.verdict != Verdict::Invalid);
        counts
            .map(|past| Evidence {
                log_rate: past.trial.rate.ln(),
                passed: past.trial.verdict == Verdict::Pass,
                result: self.trial_evidence(&past.trial),
                sensitivity: self.sensitivity(past.trial.rate, past.trial.duration),
            })
            .collect()
    }

    /// A trial that was made to its end tells by the number of slow requests how far it was from
    /// the limit. One that was ended early tells only that it failed: it was ended in the middle of
    /// a cluster of slow requests, whose rest is not known.
    fn trial_evidence(&self, trial: &TrialSummary) -> TrialEvidence {
        let passed = trial.verdict == Verdict::Pass;
        let whole = trial.rate * trial.duration.as_secs_f64();
        match trial.slow.zip(self.plan.tail) {
            Some(((slow, judged), tail)) if self.is_full(trial.duration) && judged as f64 >= 0.98 * whole => {
                let (slow, allowed) = (slow as f64, judged as f64 * tail.share);
                if passed == (slow <= allowed) {
                    TrialEvidence::Tail { slow, allowed }
                } else {
                    TrialEvidence::Bit { passed }
                }
            }
            _ => TrialEvidence::Bit { passed },
        }
    }

    fn is_full(&self, length: Duration) -> bool {
        length >= self.goals[ESTIMATE].trial.mul_f64(0.99)
    }

    fn sensitivity(&self, rate: f64, length: Duration) -> Sensitivity {
        let (is_full, full) = (self.is_full(length), self.goals[ESTIMATE].trial.as_secs_f64());
        Sensitivity {
            build_up: self.plan.build_up(rate, length),
            spread_scale: if is_full { 1.0 } else { (full / length.as_secs_f64().max(1e-3)).sqrt() },
            lapse: if is_full { LAPSE } else { LAPSE_SHORT },
            tail: is_full && self.plan.tail.is_some(),
        }
    }

    /// The estimate so far, if the threshold is bounded on both sides.
    pub fn estimate(&self) -> Option<Estimate> {
        let trials = self.evidence();
        let bounded = trials.iter().any(|trial| trial.passed) && trials.iter().any(|trial| !trial.passed);
        bounded.then(|| self.posterior().estimate())
    }

    /// Why an estimate ends that was not cut short.
    pub(super) fn natural_end(&self) -> EndReason {
        let bounds = self.bounds(ESTIMATE);
        match bounds.lower {
            None => EndReason::LowestRate,
            Some(_) if self.is_at_cap() => EndReason::ClientCeiling,
            Some(_) => EndReason::WidthReached,
        }
    }

    /// The length of a recovery probe.
    pub(super) fn probe_length(&self) -> Duration {
        self.plan.initial_trial
    }
}

impl Estimate {
    /// The interval's width relative to the threshold.
    pub fn width(&self) -> f64 {
        (self.interval95[1] - self.interval95[0]) / self.threshold
    }
}
