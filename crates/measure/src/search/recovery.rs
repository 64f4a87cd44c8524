//! Collapses and recoveries: what the order of a search's trials says about the target's state.
//!
//! A search judges each load by itself, whenever its trials were made. That is wrong for a target that an overload has
//! changed: its later trials say what a damaged target carries. A contradiction in the history shows the change: loads
//! that fail although a higher one had passed. Close to the capacity chance makes such contradictions too. So a
//! suspicion is followed by *looks*, short trials at a load well below the one that had passed, and only looks that fail
//! in a row show a collapse. The looks go on with growing pauses until one passes or the time for the recovery is over.
//!
//! A single pass may itself have been luck. The deeper a load that fails lies below it, the less it takes to rule that
//! out: where too little supports the first load, looks at half of it, and at half of that, have to fail as well. If one
//! of those passes instead, the first load has to pass now, again and again: then it was the target that changed, and it is back.

use super::{Search, TrialSummary};
use crate::trial::Verdict;
use serde::Serialize;
use std::time::Duration;

/// A failing load at or below this share of the last load that passed is suspicious at once.
///
/// Noise of a few percent, and trials that were too short for a queue to build up, move a verdict by less.
const SUSPICIOUS_SHARE: f64 = 0.85;
/// A load in between that was as much higher makes two failures at or below the last load that passed suspicious.
const OVERLOAD_RATIO: f64 = 1.5;
/// Looks are made at this share of the last load that passed.
const LOOK_SHARE: f64 = 0.75;
/// Looks that fail in a row until the target counts as collapsed.
const FAILED_LOOKS: u32 = 3;
/// The support that a load needs for its failed looks to show a collapse, by how often it was halved before. A pass at or
/// above it counts one; the probe, if its throughput was above it, counts as much as [`PROBE_SUPPORT`] passes. At the
/// first load noise can explain anything: passes near the capacity are many, and some of them are luck.
const SUPPORT_NEEDED: [usize; 3] = [usize::MAX, 3, 0];
const PROBE_SUPPORT: usize = 2;
/// Looks that pass in a row, after others at the same load failed, until that is taken for a recovery.
const PASSED_LOOKS: u32 = 5;
/// Pauses between looks double from the first to the last.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(16);

/// A collapse of the target: an overload after which it failed at loads that it had carried.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Collapse {
    /// The highest load that passed before the overload, in requests per second.
    pub held: f64,
    /// The load after which the target was a different one.
    pub overload: f64,
    /// The lowest load that failed after it.
    pub failed: f64,
    /// Looks that failed.
    pub looks: u32,
    /// How long the target was given so far: from the end of the last trial of the search to the last look.
    pub waited_s: f64,
    /// The same until the look that passed; `None` as long as none has.
    pub recovery_s: Option<f64>,
    /// How many times the target has collapsed in the search. The figures are those of the longest recovery.
    pub times: u32,
}

/// One trial of a search, in the order in which they were made. INVALID ones say nothing about the target's state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Past {
    pub(super) trial: TrialSummary,
    /// Index of the goal that it was made for.
    pub(super) goal: usize,
    /// It was a look, which counts for no load.
    pub(super) look: bool,
}

/// A recovery that is being waited for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recovery {
    /// Where the looks are made.
    pub(super) look_rate: f64,
    /// Where the first of them were made.
    first_rate: f64,
    stage: Stage,
    /// Index of the overload in the history.
    overload: usize,
    /// Time spent by the search when the looks began.
    since: Duration,
    /// Looks that failed.
    looks: u32,
    /// The pause that comes before the next look, and the one before that.
    pause: Option<Duration>,
    last_pause: Duration,
}

/// How far the looks have come in telling a collapse from luck.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Stage {
    /// Looks of which [`FAILED_LOOKS`] have to fail, at the first load halved so many times.
    Suspected { halved: usize },
    /// One at a lower load than the first has passed; so many looks at the first load have passed since.
    Verified { passed: u32 },
    /// There is no doubt left.
    Shown,
}

/// What a recovery asks for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Next {
    Pause(Duration),
    Look,
    GiveUp,
}

impl Recovery {
    /// What comes next when `spent` is the search's time so far and `patience` what a recovery may take.
    pub(super) fn next(&self, spent: Duration, patience: Duration) -> Next {
        let left = patience.saturating_sub(spent.saturating_sub(self.since));
        match self.pause {
            None => Next::Look,
            Some(_) if left.is_zero() && self.stage == Stage::Shown => Next::GiveUp,
            Some(_) if left.is_zero() => Next::Look,
            Some(pause) => Next::Pause(pause.min(left)),
        }
    }

    fn longer_pause(&mut self) -> Duration {
        self.last_pause = (self.last_pause * 2).clamp(PAUSE_MIN, PAUSE_MAX);
        self.last_pause
    }

    /// How many looks have failed, and how long the target was given by now.
    pub(super) fn so_far(&self, spent: Duration) -> (u32, Duration) {
        (self.looks, spent.saturating_sub(self.since))
    }

    /// Notes that the pause is over.
    pub(super) fn end_pause(&mut self) {
        self.pause = None;
    }
}

impl Search {
    /// Looks at the history after a failed trial: whether it contradicts what had passed. If so, looks are made.
    pub(super) fn suspect(&mut self) {
        let passed = |past: &Past| past.trial.verdict == Verdict::Pass;
        let Some(last_pass) = self.history.iter().rposition(passed) else { return };
        let held = self.history[last_pass].trial.rate;
        let since = &self.history[last_pass + 1..];
        let failed = || since.iter().filter(|past| past.trial.verdict == Verdict::Fail).map(|past| past.trial.rate);
        let Some(latest) = failed().next_back() else { return };
        let overloaded = failed().any(|rate| rate >= held * OVERLOAD_RATIO);
        let below = failed().filter(|rate| *rate <= held).count();
        let suspicious = latest <= held * SUSPICIOUS_SHARE || (overloaded && below >= 2);
        // A target that has collapsed once is looked at after each failure, before it is asked for anything else.
        let known = self.collapse.is_some();
        let searched = |past: &&Past| !past.look && passed(past);
        let held =
            if known { self.history.iter().rev().find(searched).map_or(held, |past| past.trial.rate) } else { held };
        let look_rate = held * LOOK_SHARE;
        if (suspicious || known) && look_rate >= self.plan.lowest_rate {
            let first = since.iter().position(|past| past.trial.verdict == Verdict::Fail).expect("one failed");
            let overload = last_pass + 1 + first;
            let stage = Stage::Suspected { halved: 0 };
            self.recovery = Some(Recovery {
                look_rate,
                first_rate: look_rate,
                stage,
                overload,
                since: self.spent,
                looks: 0,
                last_pause: Duration::ZERO,
                pause: None,
            });
        }
    }

    /// Takes in a look.
    pub(super) fn record_look(&mut self, trial: TrialSummary) {
        let Some(mut recovery) = self.recovery.take() else { return };
        self.history.push(Past { trial, goal: self.goal, look: true });
        let goes_on = match trial.verdict {
            Verdict::Pass => self.on_passed_look(&mut recovery),
            Verdict::Fail => self.on_failed_look(&mut recovery),
            Verdict::Invalid => {
                recovery.pause = Some(PAUSE_MIN);
                true
            }
        };
        self.recovery = goes_on.then_some(recovery);
    }

    /// Whether the looks go on after one that has failed.
    fn on_failed_look(&mut self, recovery: &mut Recovery) -> bool {
        recovery.looks += 1;
        match recovery.stage {
            Stage::Suspected { halved } if recovery.looks as usize >= (halved + 1) * FAILED_LOOKS as usize => {
                if self.collapse.is_some() || self.support(recovery) >= SUPPORT_NEEDED[halved] {
                    recovery.stage = Stage::Shown;
                } else {
                    recovery.stage = Stage::Suspected { halved: halved + 1 };
                    recovery.look_rate = (recovery.look_rate / 2.0).max(self.plan.lowest_rate);
                }
            }
            Stage::Suspected { .. } | Stage::Shown => {}
            // The target carries a part of the load and not all of it. That it ever did rests on little.
            Stage::Verified { .. } => return false,
        }
        recovery.pause = Some(match recovery.stage {
            Stage::Shown => recovery.longer_pause(),
            Stage::Suspected { .. } | Stage::Verified { .. } => PAUSE_MIN,
        });
        true
    }

    /// What speaks for the target's having carried the load of the looks.
    fn support(&self, recovery: &Recovery) -> usize {
        let passed = |past: &&Past| past.trial.verdict == Verdict::Pass && past.trial.rate >= recovery.look_rate;
        let probed = self.plan.hint.is_some_and(|hint| hint >= recovery.look_rate);
        let passes = self.history[..recovery.overload].iter().filter(passed).count();
        passes + if probed { PROBE_SUPPORT } else { 0 }
    }

    /// Whether the looks go on after one that has passed.
    fn on_passed_look(&mut self, recovery: &mut Recovery) -> bool {
        recovery.pause = None;
        match recovery.stage {
            Stage::Suspected { halved: 0 } => false,
            Stage::Suspected { .. } => {
                recovery.stage = Stage::Verified { passed: 0 };
                recovery.look_rate = recovery.first_rate;
                true
            }
            Stage::Verified { passed } if passed + 1 < PASSED_LOOKS => {
                recovery.stage = Stage::Verified { passed: passed + 1 };
                true
            }
            Stage::Verified { .. } | Stage::Shown => {
                self.on_recovered(recovery);
                false
            }
        }
    }

    /// The target is what it was. What was measured in between is forgotten, and the search goes on from where it was when
    /// the overload came.
    fn on_recovered(&mut self, recovery: &Recovery) {
        self.collapse = Some(self.collapse_by(recovery, true));
        let look = self.history.pop().expect("the look that passed");
        self.forget_after(recovery.overload);
        self.history.push(look);
    }

    /// Forgets what came after the trial with this index in the history.
    fn forget_after(&mut self, overload: usize) {
        let (goal, rate) = (self.history[overload].goal, self.history[overload].trial.rate);
        self.history.truncate(overload + 1);
        let kept = std::mem::take(&mut self.history);
        self.loads.clear();
        self.goodputs.clear();
        for past in &kept {
            if !past.look {
                self.enter(&past.trial);
            }
        }
        self.history = kept;
        self.return_to(goal, rate);
    }

    /// The search as it stands if a recovery that has not come is taken for what it is: without the trials of a damaged
    /// target, and with its collapse, if the looks have shown one.
    pub(super) fn without_damage(&self) -> Search {
        let mut search = self.clone();
        if let Some(recovery) = search.recovery.take().filter(|recovery| recovery.looks > 0) {
            if recovery.stage == Stage::Shown {
                search.collapse = Some(self.collapse_by(&recovery, false));
            }
            search.forget_after(recovery.overload);
        }
        search
    }

    /// The highest load that passed although it lies well above the upper bound.
    pub(super) fn contradicting(&self, upper: f64) -> Option<f64> {
        let passed = self.history.iter().filter(|past| past.trial.verdict == Verdict::Pass).map(|past| past.trial.rate);
        passed.filter(|rate| rate * LOOK_SHARE >= upper).reduce(f64::max)
    }

    /// The collapse that a recovery is from, together with earlier ones.
    fn collapse_by(&self, recovery: &Recovery, recovered: bool) -> Collapse {
        let overload = self.history[recovery.overload].trial.rate;
        let passed = self.history[..recovery.overload].iter().filter(|past| past.trial.verdict == Verdict::Pass);
        let passed = passed.map(|past| past.trial.rate);
        let held = passed.clone().filter(|rate| *rate < overload).reduce(f64::max);
        let failed = self.history[recovery.overload..].iter().filter(|past| past.trial.verdict == Verdict::Fail);
        let waited_s = self.spent.saturating_sub(recovery.since).as_secs_f64();
        let this = Collapse {
            held: held.or(passed.reduce(f64::max)).unwrap_or(overload),
            overload,
            failed: failed.map(|past| past.trial.rate).fold(overload, f64::min),
            looks: recovery.looks,
            waited_s,
            recovery_s: recovered.then_some(waited_s),
            times: 1,
        };
        let times = self.collapse.map_or(0, |before| before.times) + 1;
        match self.collapse.filter(|before| this.recovery_s.is_some() && before.recovery_s >= this.recovery_s) {
            Some(longest) => Collapse { times, ..longest },
            None => Collapse { times, ..this },
        }
    }
}
