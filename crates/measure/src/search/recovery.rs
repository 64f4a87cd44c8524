//! A recovery that a search waits for, and the collapse before it: the pauses and probes of the
//! state machine in `suspicion`.

use serde::Serialize;
use std::time::Duration;

/// Pauses between probes grow with the time that the target has had, so that its recovery is known
/// to within a tenth of it.
const PAUSE_SHARE: f64 = 0.05;
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// A target that fails for so long after the overload, at a rate that it had carried, has
/// collapsed. To work off what an overload has left behind takes less.
pub(super) const LASTING_S: f64 = 1.0;

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

impl Collapse {
    /// Whether the target took longer to recover than its queues take to empty.
    pub(super) fn is_lasting(&self) -> bool {
        self.recovery_s.is_none_or(|time| time >= LASTING_S)
    }
}

/// A recovery that is being waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recovery {
    /// The rate of the probes.
    pub(super) probe_rate: f64,
    /// The rate of the first of them.
    pub(super) first_rate: f64,
    pub(super) stage: Stage,
    /// Whether the target had completed much less than it had carried before.
    pub(super) starved: bool,
    /// Index of the overload in the history.
    pub(super) overload: usize,
    /// Time spent by the search when the probes began.
    pub(super) since: Duration,
    /// Probes that failed.
    pub(super) failed_probes: u32,
    /// The pause that comes before the next probe.
    pub(super) pause: Option<Duration>,
    /// When the overload was over, and the last probe that failed.
    pub(super) overload_end: Duration,
    pub(super) failed_until: Duration,
    /// When the first of the probes began that have passed in a row.
    pub(super) passed_from: Duration,
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
    /// Probes after the trials under overload, of which so many have passed in a row.
    Returning { passed: u32 },
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
            Some(_) if left.is_zero() && matches!(self.stage, Stage::Shown | Stage::Returning { .. }) => {
                RecoveryStep::GiveUp
            }
            Some(_) if left.is_zero() => RecoveryStep::Probe,
            Some(pause) => RecoveryStep::Pause(pause.min(left)),
        }
    }

    /// A recovery after the trials under overload.
    pub(super) fn after_overload(probe_rate: f64, now: Duration) -> Self {
        Recovery {
            probe_rate,
            first_rate: probe_rate,
            stage: Stage::Returning { passed: 0 },
            starved: false,
            overload: usize::MAX,
            since: now,
            failed_probes: 0,
            pause: None,
            overload_end: now,
            failed_until: now,
            passed_from: now,
        }
    }

    /// Notes a failed probe that ended now, and plans the pause behind it.
    pub(super) fn fail(&mut self, now: Duration) {
        self.failed_probes += 1;
        self.failed_until = now;
        self.wait(now);
    }

    /// Plans a pause before the next probe.
    pub(super) fn wait(&mut self, now: Duration) {
        let elapsed = now.saturating_sub(self.overload_end);
        self.pause = Some(elapsed.mul_f64(PAUSE_SHARE).clamp(PAUSE_MIN, PAUSE_MAX));
    }

    /// The time of a recovery that lies between the last failed probe and one that began at `begun`
    /// and passed, in seconds since the overload.
    pub(super) fn recovery_s(&self, begun: Duration) -> f64 {
        if self.failed_probes == 0 {
            return 0.0;
        }
        let middle = (self.failed_until + begun.max(self.failed_until)) / 2;
        middle.saturating_sub(self.overload_end).as_secs_f64()
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
