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
    /// To judge at the final length.
    Confirm,
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
            Phase::Recover => "recover",
        }
    }
}

/// The result of a trial, as far as the search needs it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialSummary {
    /// The requested rate, in requests per second.
    pub rate: f64,
    /// The measured length.
    pub duration: Duration,
    /// The time that it took in all, with warm-up, draining and pauses; at least the duration.
    pub cost: Duration,
    /// Its verdict.
    pub verdict: Verdict,
    /// Good requests per second.
    pub goodput: f64,
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
    /// Probes whether the target has recovered.
    pub recover: u32,
}

impl PhaseCounts {
    /// All trials.
    pub fn total(&self) -> u32 {
        self.bracket + self.narrow + self.confirm + self.recover
    }
}
