//! A recovery that a search waits for, and the collapse before it: the pauses and probes of the
//! state machine in `suspicion`.

use serde::Serialize;
use std::time::Duration;

/// Pauses between probes double from the first to the last.
pub(super) const PAUSE_MIN: Duration = Duration::from_secs(1);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(16);

/// A collapse of the target: an overload after which it failed at loads that it had carried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Collapse {
    /// The highest load that passed before the overload, in requests per second.
    pub held: f64,
    /// The load after which the target carried less.
    pub overload: f64,
    /// The lowest load that failed after it.
    pub failed: f64,
    /// Probes that failed.
    pub failed_probes: u32,
    /// The time that the target has had so far: from the end of the last trial of the search to the
    /// last probe.
    pub waited_s: f64,
    /// The time until the probe that passed; `None` as long as none has.
    pub recovery_s: Option<f64>,
    /// How many times the target has collapsed in the search. The figures are those of the longest
    /// recovery.
    pub times: u32,
}

/// A recovery that is being waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recovery {
    /// The rate of the probes.
    pub(super) probe_rate: f64,
    /// The rate of the first of them.
    pub(super) first_rate: f64,
    pub(super) stage: Stage,
    /// Index of the overload in the history.
    pub(super) overload: usize,
    /// Time spent by the search when the probes began.
    pub(super) since: Duration,
    /// Probes that failed.
    pub(super) failed_probes: u32,
    /// The pause that comes before the next probe, and the one before that.
    pub(super) pause: Option<Duration>,
    pub(super) last_pause: Duration,
}

/// The progress of the probes in telling a collapse from luck.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stage {
    /// Probes of which `FAILED_PROBES` have to fail, at the first load halved so many times.
    Suspected { halved: usize },
    /// One at a lower load than the first has passed; so many probes at the first load have passed
    /// since.
    Verified { passed: u32 },
    /// The collapse is shown.
    Shown,
}

/// The next step of a recovery.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum RecoveryStep {
    Pause(Duration),
    Probe,
    GiveUp,
}

impl Recovery {
    /// The next step, when `spent` is the search's time so far and `patience` the longest time of a
    /// recovery.
    pub(super) fn next(&self, spent: Duration, patience: Duration) -> RecoveryStep {
        let left = patience.saturating_sub(spent.saturating_sub(self.since));
        match self.pause {
            None => RecoveryStep::Probe,
            Some(_) if left.is_zero() && self.stage == Stage::Shown => RecoveryStep::GiveUp,
            Some(_) if left.is_zero() => RecoveryStep::Probe,
            Some(pause) => RecoveryStep::Pause(pause.min(left)),
        }
    }

    pub(super) fn longer_pause(&mut self) -> Duration {
        self.last_pause = (self.last_pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.last_pause
    }

    /// The probes that have failed, and the time that the target has had so far.
    pub(super) fn so_far(&self, spent: Duration) -> (u32, Duration) {
        (self.failed_probes, spent.saturating_sub(self.since))
    }

    /// Notes that the pause is over.
    pub(super) fn end_pause(&mut self) {
        self.pause = None;
    }
}
