//! The watcher of trials that draws nothing.

use std::time::Duration;

use thalweg_lab::trial::Watcher;
use thalweg_load::{Plan, Snapshot};
use thalweg_report::document::Trial;

/// Watches in silence, and never wants a stop.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Watcher for Quiet {
    fn on_trial(&mut self, _phase: &str, _plan: &Plan) {}

    fn on_progress(&mut self, _snapshot: Snapshot, _elapsed: Duration) {}

    fn on_pause(&mut self, _failed_probes: u32, _elapsed: Duration, _patience: Duration) {}

    fn on_judged(&mut self, _trial: &Trial) {}

    fn wants_stop(&self) -> bool {
        false
    }
}
