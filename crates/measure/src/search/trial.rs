//! The trials of a search: their purpose, their result, their number.

use crate::trial::Verdict;
use serde::Serialize;
use std::time::Duration;

/// The purpose of a trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// To get the capacity between two loads.
    Bracket,
    /// To bring the two closer.
    Narrow,
    /// To estimate the threshold and judge rates at the final length.
    Confirm,
    /// To see what an overload does to the target.
    Overload,
    /// To see whether the target still carries a load that had passed.
    Recover,
}

impl Phase {
    /// The name as documents have it.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Bracket => "bracket",
            Phase::Narrow => "narrow",
            Phase::Confirm => "confirm",
            Phase::Overload => "overload",
            Phase::Recover => "recover",
        }
    }
}

/// The result of a trial, as far as the search needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSummary {
    /// The requested rate, in requests per second.
    pub rate: f64,
    /// The measured length without disturbed seconds. A trial that ended early because its verdict
    /// was certain counts as long as it was asked to be.
    pub duration: Duration,
    /// The time that it took in all, with warm-up, draining and pauses; at least the duration.
    pub cost: Duration,
    /// Its verdict.
    pub verdict: Verdict,
    /// Good requests per second.
    pub goodput: f64,
    /// Completed requests per second.
    pub completed: f64,
    /// 99th percentile of the response time in microseconds.
    pub p99_us: f64,
    /// The requests that count against the plan's limit on the tail.
    pub bad: Option<BadRequests>,
}

/// The bad requests of a trial: those above the bound of the limit, and those that failed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadRequests {
    /// Requests that were judged.
    pub judged: u64,
    /// The bad ones.
    pub bad: u64,
    /// Failed ones among the bad.
    pub failed: u64,
    /// Variance over mean of their number in a second, and the degrees of freedom of that; `None`
    /// if there were none, or only one second.
    pub dispersion: Option<(f64, f64)>,
}

impl BadRequests {
    /// By seconds, or other parts of a trial: the requests judged and the bad ones of each.
    pub fn of_seconds(seconds: &[(u64, u64)], failed: u64) -> Self {
        let (judged, bad) = seconds.iter().fold((0, 0), |(judged, bad), second| (judged + second.0, bad + second.1));
        let share = bad as f64 / judged.max(1) as f64;
        let parts = seconds.iter().filter(|second| second.0 > 0);
        let excess = |(judged, bad): &(u64, u64)| (*bad as f64 - share * *judged as f64).powi(2);
        let pearson: f64 = parts.clone().map(|second| excess(second) / (share * second.0 as f64)).sum();
        let degrees = parts.count().saturating_sub(1) as f64;
        let dispersion = (bad > 0 && degrees > 0.0).then(|| (pearson / degrees, degrees));
        BadRequests { judged, bad, failed, dispersion }
    }
}

#[cfg(test)]
impl TrialSummary {
    pub(super) const EXAMPLE: TrialSummary = TrialSummary {
        rate: 100.0,
        duration: Duration::from_secs(10),
        cost: Duration::from_secs(10),
        verdict: Verdict::Pass,
        goodput: 0.0,
        completed: 0.0,
        p99_us: 0.0,
        bad: None,
    };
}

/// One trial of a search, in the order in which they were made. INVALID ones say nothing about the
/// target's state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct HistoryEntry {
    pub(super) trial: TrialSummary,
    /// Index of the goal that it was made for.
    pub(super) goal: usize,
    /// It was a probe, which counts for no load.
    pub(super) probe: bool,
    /// The time that the search had spent at its end.
    pub(super) ended: Duration,
}

/// The number of trials of each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct PhaseCounts {
    /// Trials to bracket.
    pub bracket: u32,
    /// Trials to narrow.
    pub narrow: u32,
    /// Trials to confirm.
    pub confirm: u32,
    /// Trials under overload.
    pub overload: u32,
    /// Probes whether the target has recovered.
    pub recover: u32,
}

impl PhaseCounts {
    pub(super) fn count(&mut self, phase: Phase) {
        *match phase {
            Phase::Bracket => &mut self.bracket,
            Phase::Narrow => &mut self.narrow,
            Phase::Confirm => &mut self.confirm,
            Phase::Overload => &mut self.overload,
            Phase::Recover => &mut self.recover,
        } += 1;
    }

    /// All trials.
    pub fn total(&self) -> u32 {
        self.bracket + self.narrow + self.confirm + self.overload + self.recover
    }
}
