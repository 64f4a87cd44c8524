//! The intervals of a search as a watcher sees them, from which live views and streams are made.

use std::time::Duration;

use thalweg_lab::trial::Watcher;
use thalweg_load::{Plan, Snapshot};
use thalweg_measure::Interval;
use thalweg_report::document::Trial;
use thalweg_virtual_lab::ClientModel;

use crate::stage::{fixed, search, short};

/// Sums up what it is shown.
#[derive(Default)]
struct Sums {
    trials: usize,
    judged: usize,
    offered: u64,
    estimates: usize,
}

impl Watcher for Sums {
    fn on_trial(&mut self, _phase: &str, _plan: &Plan) {
        self.trials += 1;
    }

    fn on_progress(&mut self, _snapshot: Snapshot, _elapsed: Duration) {}

    fn wants_intervals(&self) -> bool {
        true
    }

    fn on_interval(&mut self, interval: &Interval) {
        self.offered += interval.offered;
    }

    fn on_pause(&mut self, _failed_probes: u32, _elapsed: Duration, _patience: Duration) {}

    fn on_estimate(&mut self, _interval95: [f64; 2]) {
        self.estimates += 1;
    }

    fn on_judged(&mut self, _trial: &Trial) {
        self.judged += 1;
    }

    fn wants_stop(&self) -> bool {
        false
    }
}

#[test]
fn a_stream_of_a_search_has_its_trials() {
    let mut sums = Sums::default();
    let conclusion = search(fixed(500.0), ClientModel::default(), &short(), &mut sums);
    let trials = &conclusion.trials;
    assert_eq!((sums.trials, sums.judged), (trials.len(), trials.len()));
    let of_trials = trials.iter().flat_map(|trial| &trial.intervals).map(|interval| interval.offered).sum::<u64>();
    assert_eq!(sums.offered, of_trials);
    assert!(sums.estimates > 0);
}
