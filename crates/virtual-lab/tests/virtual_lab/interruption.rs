//! Searches that the user ends.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use thalweg_lab::search::{SearchError, find};
use thalweg_lab::trial::{TrialRequest, Watcher};
use thalweg_load::{Extent, LoopPlan, Plan, RateProfile, Snapshot, Spacing};
use thalweg_measure::Verdict;
use thalweg_measure::search::EndReason;
use thalweg_measure::trial::OnInterrupt;
use thalweg_report::document::{LimitedBy, Trial};
use thalweg_virtual_lab::{ClientModel, VirtualLab, plan};
use thalweg_yardstick::{Law, Model};

use crate::stage::{fixed, search, short, test_bed};

/// Interrupts in the middle of a trial, as a user does.
#[derive(Clone, Copy, Debug)]
struct StopAfter {
    /// Trials that come to their end before.
    trials: usize,
    judged: usize,
    /// Looks at the trial after them.
    looks: usize,
}

impl StopAfter {
    fn trials(trials: usize) -> Self {
        Self { trials, judged: 0, looks: 0 }
    }
}

impl Watcher for StopAfter {
    fn on_trial(&mut self, _phase: &str, _plan: &Plan) {}

    fn on_progress(&mut self, _snapshot: Snapshot, _elapsed: Duration) {
        self.looks += usize::from(self.judged == self.trials);
    }

    fn on_pause(&mut self, _failed_probes: u32, _elapsed: Duration, _patience: Duration) {}

    fn on_judged(&mut self, _trial: &Trial) {
        self.judged += 1;
    }

    fn wants_stop(&self) -> bool {
        self.looks >= 3
    }
}

/// It once named the server, by what was left.
#[test]
fn an_interrupted_search_gives_what_it_found_so_far() {
    let mut watcher = StopAfter::trials(6);
    let conclusion = search(fixed(500.0), ClientModel::default(), &short(), &mut watcher);
    let find = &conclusion.find;
    assert!(find.notes.iter().any(|note| note.contains("interrupted")), "{find:#?}");
    assert_eq!((find.limit, find.ended), (LimitedBy::Undetermined, Some(EndReason::Interrupted)), "{find:#?}");
    assert!(find.evidence.iter().any(|line| line.contains("interrupted")), "{find:#?}");
    // The trial that was cut off is not among them.
    assert_eq!((conclusion.trials.len(), watcher.judged), (6, 7));
}

/// It passed, and the interruption stood in the fifth line.
#[test]
fn a_stopped_run_never_passes() {
    let check = |on_interrupt: OnInterrupt, expected: Verdict| {
        let lab = Rc::new(VirtualLab::new(fixed(500.0), ClientModel::default()));
        let rate = Arc::new(RateProfile::constant(50.0));
        let plan = Plan {
            arrivals: LoopPlan::Open { rate, spacing: Spacing::Constant },
            extent: Extent::Duration(Duration::from_secs(60)),
            ..plan()
        };
        let request = TrialRequest { on_interrupt, ..TrialRequest::new("run", plan) };
        let made = test_bed(&lab).trial(&request, &mut StopAfter::trials(0)).expect("the target responds");
        let reasons = &made.trial.reasons;
        assert_eq!(made.trial.verdict, expected, "{reasons:?}");
        assert!(made.trial.counts.good > 0 && made.trial.seconds < 60.0, "what was measured is there");
        assert!(reasons.iter().any(|reason| reason.starts_with("the run was interrupted")), "{reasons:?}");
        if expected == Verdict::Invalid {
            assert!(reasons[0].contains(" of 1.00 min, before its planned end"), "{reasons:?}");
        }
    };
    check(OnInterrupt::Invalid, Verdict::Invalid);
    check(OnInterrupt::Judge, Verdict::Pass);
}

#[test]
fn a_search_that_is_interrupted_at_once_has_nothing_to_say_but_that() {
    // No response comes before the interruption.
    let silent = Model::plain(1, Law::Fixed { time_s: 100.0 });
    let lab = Rc::new(VirtualLab::new(silent, ClientModel::default()));
    let conclusion = find(&test_bed(&lab), &short(), &mut StopAfter::trials(0));
    assert!(matches!(conclusion, Err(SearchError::Interrupted)));
}
