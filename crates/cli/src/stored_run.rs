//! A run on its way into the store.
//!
//! A fault of the store never costs a measurement: it is said once on stderr, the command goes on,
//! and its result is printed as ever.

use std::path::PathBuf;
use std::time::Duration;

use thalweg_lab::result::{self, Invocation, Measurement};
use thalweg_lab::trial::{TestBed, Watcher};
use thalweg_load::{Plan, Snapshot};
use thalweg_measure::{Interval, Verdict};
use thalweg_report as report;
use thalweg_report::document::{Document, Trial};
use thalweg_store::{FinishedRun, NewRun, Store, StoreError, default_path};

use crate::exit::remark;
use crate::options::{StoreOptions, StorePath, StorePlace};
use crate::progress::Progress;

/// The reason of a document that was left without an end.
const UNFINISHED: &str = "the command did not come to its end: its process was killed, or the host went down";

/// The file of the store; `None` if nothing is to be stored.
///
/// # Errors
/// There is no place for it.
pub(crate) fn store_path(place: &StorePlace) -> Result<Option<PathBuf>, StoreError> {
    match &place.store {
        None => default_path().map(Some),
        Some(StorePath::None) => Ok(None),
        Some(StorePath::File(path)) => Ok(Some(path.clone())),
    }
}

/// A run whose trials are stored as they end.
#[derive(Debug)]
pub(crate) struct StoredRun {
    /// `None` where nothing is stored, or no more.
    store: Option<Store>,
    id: String,
}

impl StoredRun {
    /// Enters the run, whose document has no trials yet.
    pub(crate) fn begin(invocation: &Invocation, test_bed: &TestBed, plan: &Plan, options: &StoreOptions) -> Self {
        let unfinished = Measurement::new(Verdict::Invalid, vec![UNFINISHED.to_owned()], Vec::new());
        let head = &result::document(invocation, test_bed, plan, unfinished);
        let begun = open(options).and_then(|store| {
            let Some(store) = store else { return Ok(None) };
            store.begin(&new_run(head, options), &json(head)).map(|()| Some(store))
        });
        let store = begun.unwrap_or_else(|error| {
            remark(&format!("this run is not stored until its end: {error}"));
            None
        });
        Self { store, id: head.id.clone() }
    }

    /// Stores a trial that has ended.
    pub(crate) fn add_trial(&mut self, trial: &Trial) {
        let Some(store) = &self.store else { return };
        let trial = serde_json::to_string(trial).expect("documents have nothing that JSON lacks");
        if let Err(error) = store.add_trial(&self.id, &trial) {
            remark(&format!("the trials of this run are not stored before its end: {error}"));
            self.store = None;
        }
    }

    /// An observer of trials that shows their progress and stores each trial.
    pub(crate) fn watching<'a>(&'a mut self, progress: &'a mut Progress) -> StoringWatcher<'a> {
        StoringWatcher { run: self, progress }
    }
}

impl Drop for StoredRun {
    /// A command that failed before its first trial leaves nothing behind.
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            // The entry that is left then is one of a run without trials.
            let _ = store.delete_empty(&self.id);
        }
    }
}

/// Stores a document at the end of its command. If it cannot be stored, that is said.
pub(crate) fn store(document: &Document, options: &StoreOptions) {
    let stored = open(options).and_then(|store| {
        let Some(mut store) = store else { return Ok(()) };
        let end = FinishedRun {
            verdict: document.verdict.name(),
            capacity: document.find.as_ref().and_then(|find| find.lower_bound),
            answer: &report::sentence(document),
            interrupted: document.was_interrupted(),
        };
        store.finish(&new_run(document, options), &end, &json(document))
    });
    if let Err(error) = stored {
        remark(&format!("the run was not stored: {error}"));
    }
}

fn open(options: &StoreOptions) -> Result<Option<Store>, StoreError> {
    store_path(&options.place)?.map(|path| Store::open(&path)).transpose()
}

fn new_run<'a>(document: &'a Document, options: &'a StoreOptions) -> NewRun<'a> {
    NewRun {
        id: &document.id,
        kind: document.kind.name(),
        started: &document.started,
        target: &document.plan.target,
        label: options.label.as_deref(),
        note: options.note.as_deref(),
    }
}

fn json(document: &Document) -> String {
    serde_json::to_string(document).expect("documents have nothing that JSON lacks")
}

/// Shows progress and stores trials.
#[derive(Debug)]
pub(crate) struct StoringWatcher<'a> {
    run: &'a mut StoredRun,
    progress: &'a mut Progress,
}

impl Watcher for StoringWatcher<'_> {
    fn on_trial(&mut self, phase: &str, plan: &Plan) {
        self.progress.on_trial(phase, plan);
    }

    fn on_progress(&mut self, snapshot: Snapshot, elapsed: Duration) {
        self.progress.on_progress(snapshot, elapsed);
    }

    fn wants_intervals(&self) -> bool {
        self.progress.wants_intervals()
    }

    fn on_interval(&mut self, interval: &Interval) {
        self.progress.on_interval(interval);
    }

    fn on_estimate(&mut self, interval95: [f64; 2]) {
        self.progress.on_estimate(interval95);
    }

    fn on_pause(&mut self, failed_probes: u32, elapsed: Duration, patience: Duration) {
        self.progress.on_pause(failed_probes, elapsed, patience);
    }

    fn on_warning(&mut self, warning: &str) {
        self.progress.on_warning(warning);
    }

    fn on_judged(&mut self, trial: &Trial) {
        self.progress.on_judged(trial);
        self.run.add_trial(trial);
    }

    fn wants_stop(&self) -> bool {
        self.progress.wants_stop()
    }
}
