//! The observation of the target's host while a command runs: by a thread of this process if it is
//! this host, else by an observer there (`thalweg observe`).
//!
//! Samples are taken once a second, and at the begin and the end of each trial, so that a trial's
//! summary is exactly of its time. An observer that is lost ends nothing: the trial says so.

mod server;
mod summary;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use thalweg_observe::remote::{PullError, RemoteObserver, Token};
use thalweg_observe::{LocalObserver, Sample, Series, ServerName, Settings, series};
use thalweg_sys::affinity::allowed_cpus;

use thalweg_report::document;

pub use server::LocalServer;

/// The time that an observer has for a sample at the begin or the end of a trial.
const PATIENCE: Duration = Duration::from_secs(1);
/// Samples further apart than this many intervals have a gap between them.
const GAP_INTERVALS: f64 = 3.0;

/// The observer of the target's host.
#[derive(Clone, Debug)]
pub struct HostObserver(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    source: Source,
    /// Trials during which the observer was lost, as times of the samples' clock.
    lost: Mutex<Vec<(f64, f64)>>,
}

#[derive(Debug)]
enum Source {
    Here(LocalObserver),
    There { address: String, observer: RemoteObserver },
}

/// The activity of the target's host during a trial.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// The summary, if the host was observed.
    pub server: Option<document::ServerObservation>,
    /// All figures; those of several samples are joined.
    pub sample: Option<Sample>,
    /// The reason why there are none, if the observer was lost.
    pub lost: Option<String>,
}

impl HostObserver {
    /// Observes this host, on other CPUs than those of the load if there are any.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn here(port: Option<u16>, load_cpus: &[usize]) -> std::io::Result<Self> {
        let server = port.map(ServerName::Port);
        let settings =
            Settings { server, cpus: spare_cpus(load_cpus), kept_max: series::SAMPLES_MAX * 4, ..Settings::default() };
        Ok(Self::of(Source::Here(LocalObserver::start(&settings)?)))
    }

    /// Pulls from the observer at `address`.
    ///
    /// # Errors
    /// It cannot be reached, refuses the token, or is no observer.
    pub fn there(address: &str, token: Option<Token>, load_cpus: &[usize]) -> Result<Self, PullError> {
        let observer = RemoteObserver::start(address, token, spare_cpus(load_cpus))?;
        Ok(Self::of(Source::There { address: address.to_owned(), observer }))
    }

    fn of(source: Source) -> Self {
        Self(Arc::new(Inner { source, lost: Mutex::new(Vec::new()) }))
    }

    /// All samples after the one of that number.
    pub fn samples_since(&self, number: u64) -> Vec<Sample> {
        match &self.0.source {
            Source::Here(observer) => observer.samples().since(number),
            Source::There { observer, .. } => observer.since(number),
        }
    }

    /// Ends the current interval and waits for its sample; whether there is one.
    fn cut(&self) -> bool {
        match &self.0.source {
            Source::Here(observer) => {
                let samples = observer.samples();
                let now_s = samples.unix_s();
                samples.cut();
                samples.wait_for(now_s, PATIENCE)
            }
            Source::There { observer, .. } => {
                let now_s = observer.unix_s();
                observer.cut();
                observer.wait_for(now_s, PATIENCE)
            }
        }
    }

    fn unix_s(&self) -> f64 {
        match &self.0.source {
            Source::Here(observer) => observer.samples().unix_s(),
            Source::There { observer, .. } => observer.unix_s(),
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self.0.source, Source::There { .. })
    }

    fn last_number(&self) -> u64 {
        self.samples_since(0).last().map_or(0, |sample| sample.number)
    }

    /// The course of the last `elapsed`, in the document's form; `None` if nothing was observed.
    pub fn document(&self, elapsed: Duration) -> Option<document::Observation> {
        let samples = series::bounded(self.samples_since(0));
        let (observer, host, offset) = match &self.0.source {
            Source::Here(observer) => (None, observer.samples().facts(), Default::default()),
            Source::There { address, observer } => (Some(address.clone()), observer.facts(), observer.clock_offset()),
        };
        let origin_s = self.unix_s() - elapsed.as_secs_f64();
        let (seconds, cost_us) =
            samples.iter().fold((0.0, 0), |sum, sample| (sum.0 + sample.seconds, sum.1 + sample.cost_us));
        let lost = self.lost_times(&samples, host.interval_s);
        let span = |(from, to): (f64, f64)| document::LostObserver { from_s: from - origin_s, to_s: to - origin_s };
        (!samples.is_empty()).then(|| document::Observation {
            observer,
            clock_offset_s: offset.seconds,
            clock_error_s: offset.error_s,
            cost: cost_us as f64 / 1e6 / seconds.max(1e-9),
            lost: lost.into_iter().map(span).collect(),
            series: Series::of(&samples, origin_s),
            host,
        })
    }

    /// The times without samples: those between two of them, and trials that had none.
    fn lost_times(&self, samples: &[Sample], interval_s: f64) -> Vec<(f64, f64)> {
        let gaps = samples.windows(2).map(|pair| (pair[0].unix_s, pair[1].begin_s()));
        let mut lost: Vec<(f64, f64)> = gaps.filter(|(from, to)| to - from > GAP_INTERVALS * interval_s).collect();
        let end_s = samples.last().map_or(0.0, |sample| sample.unix_s);
        let trials = self.0.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let after_last = trials.iter().filter(|(_, to)| *to > end_s);
        if let Some((from, to)) = after_last.copied().reduce(|all, trial| (all.0.min(trial.0), all.1.max(trial.1))) {
            lost.push((from.max(end_s), to));
        }
        lost
    }
}

/// The observation of a running trial.
#[derive(Debug)]
pub(crate) struct TrialObservation<'a> {
    observer: Option<&'a HostObserver>,
    /// The last sample before the trial.
    number: u64,
    begun_s: f64,
}

impl<'a> TrialObservation<'a> {
    /// A trial begins.
    pub(crate) fn begin(observer: Option<&'a HostObserver>) -> Self {
        if let Some(observer) = observer {
            observer.cut();
        }
        Self {
            observer,
            number: observer.map_or(0, HostObserver::last_number),
            begun_s: observer.map_or(0.0, HostObserver::unix_s),
        }
    }

    /// The trial has ended. `server` is whether its target is the observed server; the CPUs of the
    /// load are left out where they are of the same host.
    pub(crate) fn end(self, server: bool, load_cpus: &[usize]) -> Observation {
        let Some(observer) = self.observer else { return Observation::default() };
        let is_whole = observer.cut();
        let sample = Sample::joined_all(&observer.samples_since(self.number)).filter(|_| is_whole);
        let sample = sample.map(|sample| if server { sample } else { Sample { server: None, ..sample } });
        if sample.is_none() {
            let times = (self.begun_s, observer.unix_s());
            observer.0.lost.lock().unwrap_or_else(PoisonError::into_inner).push(times);
        }
        let reason = || match &observer.0.source {
            Source::There { observer, .. } => observer.lost().unwrap_or_else(|| "it sends no samples".to_owned()),
            Source::Here(_) => "its thread gets no CPU time".to_owned(),
        };
        let load_cpus = if observer.is_remote() { &[] } else { load_cpus };
        Observation {
            server: sample.as_ref().map(|sample| summary::of(sample, load_cpus)),
            lost: sample.is_none().then(reason),
            sample,
        }
    }
}

/// The CPUs of this host that the load leaves; none if it takes all.
fn spare_cpus(load_cpus: &[usize]) -> Vec<usize> {
    let mut spare = allowed_cpus().unwrap_or_default();
    spare.retain(|cpu| !load_cpus.contains(cpu));
    spare
}
