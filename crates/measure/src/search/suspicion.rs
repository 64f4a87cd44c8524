//! Collapses and recoveries of the target, as the order of a search's trials shows them.
//!
//! A search judges each load by itself, whenever its trials were made. That is wrong for a target
//! that an overload has changed: its later trials measure a damaged target. A contradiction in the
//! history shows the change: loads that fail although a higher one had passed. Close to the
//! capacity chance makes such contradictions too. So a suspicion is followed by *recovery probes*,
//! short trials at a load well below the one that had passed, and only probes that fail in a row
//! show a collapse. The probes go on with growing pauses until one passes or the time for the
//! recovery is over.
//!
//! A single pass may itself have been luck. The deeper a load that fails lies below it, the less it
//! takes to rule that out: where too little supports the first load, probes at half of it, and at
//! half of that, have to fail as well. If one of those passes instead, the first load has to pass
//! now, again and again: then it was the target that changed, and it is back.

use super::recovery::{Collapse, LASTING_S, Recovery, Stage};
use super::state::{ESTIMATE, Search};
use super::trial::{HistoryEntry, TrialSummary};
use crate::trial::Verdict;
use std::time::Duration;

/// A failing load at or below this share of the last load that passed is suspicious at once.
///
/// Noise of a few percent, and trials that were too short for a queue to build up, move a verdict
/// by less.
const SUSPICIOUS_SHARE: f64 = 0.85;
/// A failing trial that completed at most this share of the last load that passed is suspicious at
/// once: under an overload most targets still complete what they can carry. It also supports the
/// load, so that failed probes show a collapse.
const STARVED_SHARE: f64 = 0.6;
/// A load in between that was as much higher makes two failures at or below the last load that
/// passed suspicious.
const OVERLOAD_RATIO: f64 = 1.5;
/// Probes are made at this share of the last load that passed.
const PROBE_SHARE: f64 = 0.75;
/// Probes that fail in a row until the target counts as collapsed.
const FAILED_PROBES: u32 = 3;
/// The support that a load needs for its failed probes to show a collapse, by how often it was
/// halved before. A pass at or above it counts one; the hint, if its throughput was above it,
/// counts as much as [`HINT_SUPPORT`] passes. At the first load noise can explain anything: passes
/// near the capacity are many, and some of them are luck.
const SUPPORT_NEEDED: [usize; 3] = [usize::MAX, 3, 0];
const HINT_SUPPORT: usize = 2;
/// Probes that pass in a row, after others at the same load failed, until that is taken for a
/// recovery.
const PASSED_PROBES: u32 = 5;

impl Search {
    /// Examines the history after a failed trial: if it contradicts an earlier pass, recovery
    /// probes follow.
    pub(super) fn suspect(&mut self) {
        let passed = |past: &HistoryEntry| past.trial.verdict == Verdict::Pass;
        let Some(last_pass) = self.history.iter().rposition(passed) else { return };
        let held = self.history[last_pass].trial.rate;
        let since = &self.history[last_pass + 1..];
        let failed = || since.iter().filter(|past| past.trial.verdict == Verdict::Fail).map(|past| past.trial.rate);
        let Some(latest) = failed().next_back() else { return };
        let overloaded = failed().any(|rate| rate >= held * OVERLOAD_RATIO);
        let below = failed().filter(|rate| *rate <= held).count();
        let starved = self.history.last().is_some_and(|past| past.trial.completed <= held * STARVED_SHARE);
        // Steps towards a hint overload a target little. Then long trials fail where short ones
        // have passed.
        let repeated = self.goal == ESTIMATE && below == 2;
        let suspicious = starved || latest <= held * SUSPICIOUS_SHARE || (overloaded && below >= 2) || repeated;
        // A target that has collapsed once is probed after each failure, before any other trial.
        let known = self.collapse.is_some();
        let searched = |past: &&HistoryEntry| !past.probe && passed(past);
        let held =
            if known { self.history.iter().rev().find(searched).map_or(held, |past| past.trial.rate) } else { held };
        let probe_rate = held * PROBE_SHARE;
        if (suspicious || known) && probe_rate >= self.plan.lowest_rate {
            let first = since.iter().position(|past| past.trial.verdict == Verdict::Fail).expect("one failed");
            let overload = last_pass + 1 + first;
            let mut overloads = self.history[overload..].iter().filter(|past| past.trial.rate > held);
            let overload_end = overloads.next_back().map_or(self.spent, |past| past.ended);
            let stage = Stage::Suspected { halved: 0 };
            self.recovery = Some(Recovery {
                stage,
                overload,
                overload_end,
                starved,
                ..Recovery::after_overload(probe_rate, self.spent)
            });
        }
    }

    /// Records a probe.
    pub(super) fn record_probe(&mut self, trial: TrialSummary, begun: Duration) {
        let Some(mut recovery) = self.recovery.take() else { return };
        self.history.push(HistoryEntry { trial, goal: self.goal, probe: true, ended: self.spent });
        let goes_on = match trial.verdict {
            Verdict::Pass => self.on_passed_probe(&mut recovery, begun),
            Verdict::Fail => self.on_failed_probe(&mut recovery),
            Verdict::Invalid => {
                recovery.wait(self.spent);
                true
            }
        };
        self.recovery = goes_on.then_some(recovery);
    }

    /// Whether the probes go on after one that has failed.
    fn on_failed_probe(&mut self, recovery: &mut Recovery) -> bool {
        recovery.fail(self.spent);
        match recovery.stage {
            Stage::Suspected { halved } if recovery.failed_probes as usize >= (halved + 1) * FAILED_PROBES as usize => {
                let supported = recovery.starved || self.support(recovery) >= SUPPORT_NEEDED[halved];
                if self.collapse.is_some() || supported {
                    recovery.stage = Stage::Shown;
                } else {
                    recovery.stage = Stage::Suspected { halved: halved + 1 };
                    recovery.probe_rate = (recovery.probe_rate / 2.0).max(self.plan.lowest_rate);
                }
            }
            Stage::Suspected { .. } | Stage::Shown => {}
            Stage::Returning { .. } => recovery.stage = Stage::Returning { passed: 0 },
            // The target carries a part of the load and not all of it, and little evidence shows
            // that it ever did.
            Stage::Verified { .. } => return false,
        }
        true
    }

    /// The evidence that the target had carried the load of the probes, in passes.
    fn support(&self, recovery: &Recovery) -> usize {
        let passed =
            |past: &&HistoryEntry| past.trial.verdict == Verdict::Pass && past.trial.rate >= recovery.probe_rate;
        let hinted = self.plan.hint.is_some_and(|hint| hint >= recovery.probe_rate);
        let passes = self.history[..recovery.overload].iter().filter(passed).count();
        passes + if hinted { HINT_SUPPORT } else { 0 }
    }

    /// Whether the probes go on after one that has passed.
    fn on_passed_probe(&mut self, recovery: &mut Recovery, begun: Duration) -> bool {
        recovery.pause = None;
        match recovery.stage {
            Stage::Suspected { halved: 0 } => false,
            Stage::Suspected { .. } => {
                recovery.stage = Stage::Verified { passed: 0 };
                recovery.probe_rate = recovery.first_rate;
                true
            }
            Stage::Verified { passed } if passed + 1 < PASSED_PROBES => {
                recovery.stage = Stage::Verified { passed: passed + 1 };
                true
            }
            Stage::Verified { .. } | Stage::Shown => {
                self.on_recovered(recovery, begun);
                false
            }
            Stage::Returning { passed: 0 } => {
                recovery.stage = Stage::Returning { passed: 1 };
                recovery.passed_from = begun;
                true
            }
            Stage::Returning { .. } => {
                let recovery_s = recovery.recovery_s(recovery.passed_from);
                if let Some(closing) = &mut self.closing {
                    closing.recovered = Some(Some(recovery_s));
                    if recovery_s >= LASTING_S {
                        // Its time is better known than that of one in mid-search, in which the
                        // trials went on for a while.
                        let times = self.collapse.map_or(0, |before| before.times) + 1;
                        let collapse = closing.collapse_by(recovery, Some(recovery_s), self.spent);
                        self.collapse = Some(Collapse { times, ..collapse });
                    }
                }
                false
            }
        }
    }

    /// The target is as it was. The trials in between are dropped, and the search goes on from the
    /// state in which it was at the overload.
    fn on_recovered(&mut self, recovery: &Recovery, begun: Duration) {
        self.collapse = Some(self.collapse_by(recovery, Some(recovery.recovery_s(begun))));
        let probe = self.history.pop().expect("the probe that passed");
        self.forget_after(recovery.overload);
        self.history.push(probe);
    }

    /// Drops all entries behind this index of the history.
    fn forget_after(&mut self, overload: usize) {
        let (goal, rate) = (self.history[overload].goal, self.history[overload].trial.rate);
        self.history.truncate(overload + 1);
        let kept = std::mem::take(&mut self.history);
        self.loads.clear();
        self.goodputs.clear();
        for past in &kept {
            if !past.probe {
                self.enter(&past.trial);
            }
        }
        self.history = kept;
        self.return_to(goal, rate);
    }

    /// The search without the trials of a damaged target, for a recovery that has not come, and
    /// with the collapse, if the probes have shown one.
    pub(super) fn without_damage(&self) -> Search {
        let mut search = self.clone();
        if let Some(recovery) = search.recovery.take().filter(|recovery| recovery.failed_probes > 0) {
            if let (Stage::Returning { .. }, Some(closing)) = (recovery.stage, &mut search.closing) {
                closing.recovered = Some(None);
                search.collapse = Some(closing.collapse_by(&recovery, None, self.spent));
                return search;
            }
            if recovery.stage == Stage::Shown {
                search.collapse = Some(self.collapse_by(&recovery, None));
            }
            search.forget_after(recovery.overload);
        }
        search
    }

    /// The highest load that passed although it lies well above the upper bound.
    pub(super) fn contradicting(&self, upper: f64) -> Option<f64> {
        let passed = self.history.iter().filter(|past| past.trial.verdict == Verdict::Pass).map(|past| past.trial.rate);
        passed.filter(|rate| rate * PROBE_SHARE >= upper).reduce(f64::max)
    }

    /// The collapse that a recovery is from, together with earlier ones.
    fn collapse_by(&self, recovery: &Recovery, recovery_s: Option<f64>) -> Collapse {
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
            failed_probes: recovery.failed_probes,
            waited_s,
            recovery_s,
            times: 1,
        };
        let times = self.collapse.map_or(0, |before| before.times) + 1;
        match self.collapse.filter(|before| this.recovery_s.is_some() && before.recovery_s >= this.recovery_s) {
            Some(longest) => Collapse { times, ..longest },
            None => Collapse { times, ..this },
        }
    }
}
