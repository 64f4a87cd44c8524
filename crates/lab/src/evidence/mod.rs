//! Measurements that are made for the bottleneck alone: the *diagnosis*, a trial above the upper
//! bound with samples of path and server beside it.
//!
//! They are made after the search, since a sample costs the server a little: a connection that
//! carries nothing, ten times a second. Judging them is in [`crate::bottleneck`].

mod figures;
mod sampler;

pub use figures::{Diagnosis, HandshakeTimes, PathFigures, ServerFigures, TaskFigures};

use std::thread;
use std::time::Duration;

use thalweg_load::{LoadError, Plan};
use thalweg_measure::Verdict;

use crate::document::Trial;
use crate::trial::{TestBed, TrialRequest, Watcher};
use sampler::Sampler;

/// The phase of the diagnosis in documents.
pub const PHASE: &str = "diagnose";
/// Length of the trial.
pub const LENGTH: Duration = Duration::from_secs(3);
/// The load, as a multiple of the upper bound: an overload that a search meets anyway.
pub const OVERLOAD: f64 = 1.25;
/// The share of its ceiling that the client is sure to offer.
pub const CEILING_SHARE: f64 = 0.9;
/// A pause before the trial in which queues of the trial before drain.
const PAUSE: Duration = Duration::from_millis(300);
/// Trials that are made if the client does not keep up.
const ATTEMPTS: usize = 2;

/// Makes the trial of `plan`, an overload, with the samples beside it. Appends it to `trials`.
///
/// # Errors
/// The trial could not be made.
pub fn diagnose(
    test_bed: &TestBed,
    plan: &Plan,
    trials: &mut Vec<Trial>,
    watcher: &mut dyn Watcher,
) -> Result<Option<Diagnosis>, LoadError> {
    let sampler = Sampler::new(test_bed, plan);
    let mut diagnosis = None;
    for _ in 0..ATTEMPTS {
        thread::sleep(PAUSE);
        if watcher.wants_stop() {
            break;
        }
        let idle = sampler.idle_handshakes();
        let request = TrialRequest::new(PHASE, plan.clone());
        let (trial, samples) = sampler.beside(|| test_bed.trial(&request, watcher));
        let trial = trial?.trial;
        trials.push(trial.clone());
        let is_valid = trial.verdict != Verdict::Invalid;
        diagnosis = Some(Diagnosis::of(trial, idle, samples));
        if is_valid {
            break;
        }
    }
    Ok(diagnosis)
}
