//! The stage that all suites share: the tree, the server, the settings, and the result so far.

use thalweg_doctor::needs::DESCRIPTORS_BESIDE;
use thalweg_load::{Extent, LoopPlan, Pick, Plan, RequestList};
use thalweg_measure::{Limit, Verdict};
use thalweg_report::document::{Curve, Figure, Measured, SuiteName, Trial, Unit};
use thalweg_sys::resource_limits::raise_descriptors;
use thalweg_trees::{Tree, TreeFile};
use thalweg_units::display;
use thalweg_wire::Version;

use super::dynamic;
use super::requests;
use super::settings::{SuiteError, SuiteSettings};
use crate::conclusion::Conclusion;
use crate::search::{self, SearchError, SearchSettings};
use crate::trial::{TestBed, TrialRequest, TrialResult, Watcher};

/// The name of the figure beside a rate.
const PER_CPU_SECOND: &str = "per_cpu_second";

/// Why a suite goes no further.
#[derive(Debug)]
pub(super) enum Stop {
    /// The user ended it.
    Interrupted,
    /// The server answers no more, in words.
    Gone(String),
    /// It cannot be run at all.
    Failed(SuiteError),
}

impl<E: Into<SuiteError>> From<E> for Stop {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// A suite under way.
pub(super) struct Stage<'a> {
    pub(super) tree: &'a Tree,
    pub(super) test_bed: &'a TestBed,
    pub(super) settings: &'a SuiteSettings,
    pub(super) watcher: &'a mut dyn Watcher,
    pub(super) measured: Measured,
}

impl Stage<'_> {
    /// A load of the whole tree, each file by its weight.
    pub(super) fn plan(&self, version: Version, arrivals: LoopPlan, extent: Extent) -> Result<Plan, SuiteError> {
        let Self { test_bed, settings, tree, .. } = self;
        let requests = match (&settings.dynamic, self.measured.suite) {
            (Some(path), SuiteName::Specweb99) => {
                dynamic::requests(tree.files(), path, &test_bed.target, version, settings)?
            }
            _ => requests::of(tree.files(), &test_bed.target, version, settings)?,
        };
        Ok(Plan { pick: Pick::Weighted, ..self.plan_with(requests, arrivals, extent) })
    }

    /// A load of some files, one after the other.
    pub(super) fn plan_of(
        &self,
        files: &[TreeFile],
        version: Version,
        arrivals: LoopPlan,
        extent: Extent,
    ) -> Result<Plan, SuiteError> {
        let requests = requests::of(files, &self.test_bed.target, version, self.settings)?;
        Ok(self.plan_with(requests, arrivals, extent))
    }

    /// A load of these requests.
    pub(super) fn plan_with(&self, requests: RequestList, arrivals: LoopPlan, extent: Extent) -> Plan {
        let Self { test_bed, settings, .. } = self;
        Plan {
            tls: settings.tls.clone(),
            sources: settings.sources.clone(),
            timeout: settings.timeout,
            drain: settings.timeout,
            cpus: settings.cpus.clone(),
            driver: settings.driver,
            seed: settings.seed,
            ..Plan::new(test_bed.target.address.clone(), requests, arrivals, extent)
        }
    }

    /// Makes a trial and keeps it.
    pub(super) fn trial(&mut self, phase: &str, plan: Plan, limits: &[Limit]) -> Result<TrialResult, Stop> {
        let test_bed = TestBed { limits: limits.to_vec(), ..self.test_bed.clone() };
        // A number of requests cannot be made up for, so none of them is left out.
        // A limit that cannot be raised shows in the trial, as connections that have no descriptor.
        let _ = raise_descriptors(plan.connections as u64 + DESCRIPTORS_BESIDE);
        let request = TrialRequest { make_up: plan.is_extensible(), ..TrialRequest::new(phase, plan) };
        let result = test_bed.trial(&request, self.watcher)?;
        if self.watcher.wants_stop() {
            return Err(Stop::Interrupted);
        }
        self.measured.trials.push(result.trial.clone());
        if result.trial.counts.good == 0 {
            self.ensure_there()?;
        }
        Ok(result)
    }

    /// Searches the highest rate that meets `limits`.
    pub(super) fn search(&mut self, settings: &SearchSettings, limits: &[Limit]) -> Result<Conclusion, Stop> {
        let test_bed = TestBed { limits: limits.to_vec(), ..self.test_bed.clone() };
        let found = match search::find(&test_bed, settings, self.watcher) {
            Ok(found) => found,
            Err(SearchError::Interrupted) => return Err(Stop::Interrupted),
            Err(error @ SearchError::NothingGood { .. }) => {
                self.ensure_there()?;
                return Err(Stop::Failed(SuiteError::Search(error)));
            }
            Err(error) => return Err(Stop::Failed(SuiteError::Search(error))),
        };
        self.measured.trials.extend(found.trials.iter().cloned());
        Ok(found)
    }

    /// Whether the server still accepts connections.
    pub(super) fn ensure_there(&self) -> Result<(), Stop> {
        let Self { test_bed, settings, .. } = self;
        let reached = test_bed.environment.reach(&test_bed.target, settings.timeout, &settings.sources);
        reached.map_err(|error| Stop::Gone(format!("the server is gone: {error}")))
    }

    /// Declares a figure that is to come, so that its place is the same whatever comes of it.
    pub(super) fn declare(&mut self, name: &str, title: &str, unit: Unit) {
        self.measured.figures.push(Figure::new(name, title, unit));
    }

    /// Adds the rate of good responses per second of the server's CPU time, if its CPU time was
    /// observed. Beside a client that falls short it still tells servers apart.
    pub(super) fn put_per_cpu_second(&mut self, what: &str, trials: &[&Trial]) {
        let good: f64 = trials.iter().map(|trial| trial.rates.good).sum();
        let cpus: f64 = trials.iter().filter_map(|trial| Some(trial.server.as_ref()?.cpu_cores)).sum();
        if cpus <= 0.0 || trials.iter().any(|trial| trial.server.is_none()) {
            return;
        }
        self.measured.figures.retain(|figure| figure.name != PER_CPU_SECOND);
        self.declare(PER_CPU_SECOND, &format!("{what} per CPU second of the server"), Unit::PerSecond);
        let figure = self.figure(PER_CPU_SECOND);
        figure.value = Some(good / cpus);
        let (good, cpus) = (good / trials.len() as f64, cpus / trials.len() as f64);
        figure.words = format!("{} with {} of a CPU", display::rate(good), display::percent(cpus));
    }

    /// The declared figure of this name.
    ///
    /// # Panics
    /// There is none.
    pub(super) fn figure(&mut self, name: &str) -> &mut Figure {
        let figure = self.measured.figures.iter_mut().find(|figure| figure.name == name);
        figure.expect("a figure is declared before it is set")
    }

    /// Puts a curve in the place of that of the same name.
    pub(super) fn put_curve(&mut self, curve: Curve) {
        match self.measured.curves.iter_mut().find(|other| other.name == curve.name) {
            Some(other) => *other = curve,
            None => self.measured.curves.push(curve),
        }
    }

    /// Notes a choice.
    pub(super) fn choose(&mut self, choice: impl Into<String>) {
        self.measured.choices.push(choice.into());
    }

    /// Worsens the verdict, with a reason.
    pub(super) fn worsen(&mut self, verdict: Verdict, reason: String) {
        let rank = |verdict| match verdict {
            Verdict::Pass => 0,
            Verdict::Fail => 1,
            Verdict::Invalid => 2,
        };
        if rank(verdict) > rank(self.measured.verdict) {
            self.measured.verdict = verdict;
        }
        self.measured.reasons.push(reason);
    }
}
