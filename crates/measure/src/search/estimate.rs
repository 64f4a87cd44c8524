//! The second part of a search: trials of the final length, each in the middle of the interval that
//! the trials so far leave, until the time is over or the interval is narrow enough.

use super::EndReason;
use super::bracket::{Decision, between, round};
use super::load::LoadClass;
use super::state::{BRACKET, ESTIMATE, Search};
use super::threshold::{Allowed, Estimate, Evidence, Profile};
use super::trial::HistoryEntry;
use crate::trial::Verdict;
use std::time::Duration;

/// The estimate never rests on fewer trials of the final length.
const TRIALS_MIN: usize = 3;
/// Time that a trial takes beside warm-up and schedule: connections to open, requests to end.
const OVERHEAD: Duration = Duration::from_millis(250);
/// Rates are tried at distances of this share of the interval, so that some of them are tried
/// again.
const RATES_OF_WIDTH: f64 = 0.125;
/// An interval that is open on one side is followed in steps of this ratio.
const FOLLOW: f64 = 1.03;
/// The first rate, as a share of the highest that a short trial has passed.
const BELOW_BRACKET: f64 = 0.97;
/// Bad requests of a trial that failed by something else, in units of those that it may have.
const FAILED_OTHERWISE: f64 = 3.0;
/// A verdict alone stands for so many clusters of bad requests at the threshold.
const CLUSTERS_OF_VERDICT: f64 = 2.5;
/// Of so many requests.
const REQUESTS_OF_VERDICT: f64 = 250.0;
/// A queue may hide at most this share of a width: longer trials would show it.
const HIDDEN_MOST: f64 = 0.5;
/// No prediction goes beyond so many times the time that a search has taken.
const TIMES_MOST: f64 = 1000.0;
/// An estimate that does not know its threshold after so many times its time ends.
const PATIENCE: u32 = 2;

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
        if self.is_at_cap() {
            return Decision::GoalReached;
        }
        let profile = self.profile();
        let estimate = profile.as_ref().and_then(Profile::estimate);
        if self.is_narrow(estimate.as_ref()) || self.is_over(estimate.as_ref()) {
            return Decision::GoalReached;
        }
        let cap = self.cap();
        let rate = profile.map_or(cap, |profile| self.most_telling(&profile));
        Decision::Try(rate.clamp(lowest, cap.max(lowest)))
    }

    /// The highest rate that the client may be able to offer: its ceiling, or half way to a rate
    /// that was beyond it.
    fn cap(&self) -> f64 {
        let Some(client) = self.bounds(ESTIMATE).client else { return self.plan.client_ceiling };
        let lower = self.bounds(ESTIMATE).lower.or(self.bounds(BRACKET).lower);
        let lower = lower.filter(|lower| *lower < client).unwrap_or(self.plan.lowest_rate);
        if (client - lower) / client <= self.plan.end.width() { lower } else { between(lower, client) }
    }

    /// Whether the highest rate that the client can offer is carried.
    fn is_at_cap(&self) -> bool {
        let bounds = self.bounds(ESTIMATE);
        let close = bounds
            .client
            .zip(bounds.lower)
            .is_some_and(|(client, lower)| (client - lower) / client <= self.plan.end.width());
        (bounds.client.is_none() || close) && self.is_carried_twice(self.cap())
    }

    /// Whether the load of this rate is judged as carried on more than one trial.
    fn is_carried_twice(&self, rate: f64) -> bool {
        let goal = &self.goals[ESTIMATE];
        let mut loads = self.loads.iter().filter(|load| load.rate >= rate * (1.0 - 1e-9));
        loads.any(|load| load.class(goal) == LoadClass::Lower && load.full_trials(goal) >= 2)
    }

    /// Whether the interval is as narrow as requested.
    fn is_narrow(&self, estimate: Option<&Estimate>) -> bool {
        self.full_trials() >= TRIALS_MIN && estimate.is_some_and(|estimate| estimate.width() <= self.plan.end.width())
    }

    /// Whether the time of a search is over that ends with the interval which it has.
    fn is_over(&self, estimate: Option<&Estimate>) -> bool {
        let Some(time) = self.plan.end.time() else { return false };
        let length = self.goals[ESTIMATE].trial;
        let next = length + super::SearchPlan::warmup(length) + OVERHEAD;
        let is_known = estimate.is_some() && self.full_trials() >= TRIALS_MIN - 1;
        self.spent + next > if is_known { time } else { time * PATIENCE }
    }

    fn full_trials(&self) -> usize {
        let valid = self.history.iter().filter(|past| past.trial.verdict != Verdict::Invalid && !past.probe);
        valid.filter(|past| self.is_full(past.trial.duration)).count()
    }

    /// The middle of the interval, or the next rate on its open side: short trials only hint at it.
    fn most_telling(&self, profile: &Profile) -> f64 {
        let full = self.history.iter().filter(|past| !past.probe && self.is_full(past.trial.duration));
        let full = || full.clone().filter(|past| past.trial.verdict != Verdict::Invalid).map(|past| past.trial.rate);
        let (lowest, highest) = (full().fold(f64::INFINITY, f64::min), full().fold(0.0, f64::max));
        let bracket = self.bounds(BRACKET);
        match (profile.bounds(), bracket.lower) {
            ([Some(low), Some(high)], _) => {
                let step = ((high / low).ln() * RATES_OF_WIDTH).max(1e-4);
                round((((low * high).sqrt().ln() / step).round() * step).exp().clamp(low, high))
            }
            (_, Some(lower)) if highest == 0.0 => round(lower * BELOW_BRACKET),
            ([Some(_), None], _) if highest > 0.0 => {
                let top = bracket.top().unwrap_or(highest);
                round((highest * top).sqrt().max(highest * FOLLOW))
            }
            ([None, _], _) if highest > 0.0 => {
                let bottom = bracket.lower.unwrap_or(lowest);
                round((lowest * bottom).sqrt().min(lowest / FOLLOW))
            }
            (_, _) => round(bracket.top().map_or(self.plan.lowest_rate, |top| top / FOLLOW)),
        }
    }

    /// The thresholds that fit the trials whose results count.
    pub(super) fn profile(&self) -> Option<Profile> {
        let trials = self.evidence();
        (!trials.is_empty()).then(|| Profile::of(&trials, self.allowed()))
    }

    pub(super) fn allowed(&self) -> Allowed {
        let counted = self.history.iter().filter(|past| !past.probe).filter_map(|past| past.trial.bad);
        let (bad, failed) = counted.fold((0, 0), |(bad, failed), trial| (bad + trial.bad, failed + trial.failed));
        let failures = failed > bad / 2;
        match self.plan.tail {
            Some(tail) => Allowed { share: tail.share, bound_s: tail.bound.as_secs_f64(), failures },
            None => Allowed { share: CLUSTERS_OF_VERDICT / REQUESTS_OF_VERDICT, bound_s: 0.0, failures: false },
        }
    }

    /// The trials whose results count, as evidence.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let counts = self.history.iter().filter(|past| !past.probe && past.trial.verdict != Verdict::Invalid);
        counts.map(|past| self.trial_evidence(past)).collect()
    }

    /// A trial as evidence by the number of its bad requests. One that failed by something else has
    /// too few: it tells that there are so many at least.
    fn trial_evidence(&self, past: &HistoryEntry) -> Evidence {
        let trial = &past.trial;
        let share = self.allowed().share;
        let whole = match self.plan.tail {
            Some(_) => trial.rate * trial.duration.as_secs_f64(),
            None => REQUESTS_OF_VERDICT,
        };
        let failed = trial.verdict == Verdict::Fail;
        let counted = trial.bad.filter(|_| self.plan.tail.is_some());
        let (judged, bad) = counted.map_or((whole, 0.0), |bad| (bad.judged as f64, bad.bad as f64));
        let is_whole = judged >= 0.9 * whole;
        let (judged, bad, at_least) = match failed {
            true if bad <= judged * share => (whole, whole * share * FAILED_OTHERWISE, true),
            _ => (judged, bad, false),
        };
        let dispersion = counted.filter(|_| is_whole).and_then(|counted| counted.dispersion);
        Evidence {
            rate: trial.rate,
            judged,
            bad,
            at_least,
            build_up: self.plan.build_up(trial.duration),
            is_full: self.is_full(trial.duration),
            at_s: past.ended.as_secs_f64() - trial.duration.as_secs_f64() / 2.0,
            dispersion,
        }
    }

    fn is_full(&self, length: Duration) -> bool {
        length >= self.goals[ESTIMATE].trial.mul_f64(0.9)
    }

    /// The estimate so far, if the threshold is bounded on both sides.
    pub fn estimate(&self) -> Option<Estimate> {
        self.profile()?.estimate()
    }

    /// About the time that the estimate would take to an interval of this relative width: what
    /// chance adds to it shrinks with the square root of the time, and what a queue may hide stays.
    pub(super) fn time_to(&self, width: f64) -> Option<Duration> {
        let (estimate, trial) = (self.estimate()?, self.goals[ESTIMATE].trial);
        let hidden = self.plan.build_up(trial).min(width * HIDDEN_MOST);
        let ratio = (estimate.width() - hidden).max(0.0) / (width - hidden);
        Some(self.estimated_at?.mul_f64((ratio * ratio).min(TIMES_MOST)))
    }

    /// Why an estimate ends that was not cut short.
    pub(super) fn natural_end(&self) -> EndReason {
        let bounds = self.bounds(ESTIMATE);
        match bounds.lower {
            None if bounds.top().is_some_and(|top| top <= self.plan.lowest_rate) => EndReason::LowestRate,
            Some(_) if self.is_at_cap() => EndReason::ClientCeiling,
            _ if self.is_narrow(self.estimate().as_ref()) => EndReason::WidthReached,
            _ => EndReason::TimeOver,
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
