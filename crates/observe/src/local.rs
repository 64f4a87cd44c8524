//! A running observation of this host: a thread that takes samples, and the latest of them.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thalweg_sys::affinity::pin_to;

use crate::clock::Clock;
use crate::facts::HostFacts;
use crate::sample::Sample;
use crate::sampler::Sampler;
use crate::server::ServerName;

/// The settings of an observation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The time between two samples.
    pub interval: Duration,
    /// The server to observe.
    pub server: Option<ServerName>,
    /// The CPUs that the observer may use; empty for any.
    pub cpus: Vec<usize>,
    /// Samples that are kept; the oldest are dropped.
    pub kept_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self { interval: Duration::from_secs(1), server: None, cpus: Vec::new(), kept_max: 3600 }
    }
}

/// A sample that was requested is taken no sooner than this after the one before.
const LEAST_INTERVAL: Duration = Duration::from_millis(20);

/// A thread that takes samples; dropping it ends it.
#[derive(Debug)]
pub struct LocalObserver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    kept_max: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    facts: HostFacts,
    samples: VecDeque<Sample>,
    stop: bool,
    /// A sample was requested before its time.
    cut: bool,
}

impl LocalObserver {
    /// Starts to observe this host.
    ///
    /// # Errors
    /// There can be no further thread.
    pub fn start(settings: &Settings) -> io::Result<Self> {
        let clock = Clock::start();
        let Settings { interval, server, cpus, .. } = settings.clone();
        let sampler = Sampler::new(server, clock, interval);
        let shared = Arc::new(Shared {
            clock,
            kept_max: settings.kept_max.max(1),
            state: Mutex::new(State { facts: sampler.facts().clone(), ..State::default() }),
            changed: Condvar::new(),
        });
        let theirs = Arc::clone(&shared);
        let body = move || {
            if !cpus.is_empty() {
                // Another CPU does as well, if these have gone.
                let _ = pin_to(&cpus);
            }
            run(&theirs, sampler, interval);
        };
        let thread = thread::Builder::new().name("observer".to_owned()).spawn(body)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// A handle for reading, which may outlive the observer.
    pub fn samples(&self) -> Samples {
        Samples(Arc::clone(&self.shared))
    }
}

impl Drop for LocalObserver {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic has been printed already.
            let _ = thread.join();
        }
    }
}

/// Reads the samples of a running observation.
#[derive(Clone, Debug)]
pub struct Samples(Arc<Shared>);

impl Samples {
    /// The observed host.
    pub fn facts(&self) -> HostFacts {
        self.0.lock().facts.clone()
    }

    /// The time by the clock of the samples.
    pub fn unix_s(&self) -> f64 {
        self.0.clock.unix_s()
    }

    /// When the observation was started, by the same clock.
    pub fn started_s(&self) -> f64 {
        self.0.clock.started_s()
    }

    /// The samples that are kept, from the one after `number` on.
    pub fn since(&self, number: u64) -> Vec<Sample> {
        let state = self.0.lock();
        let first = state.samples.partition_point(|sample| sample.number <= number);
        state.samples.range(first..).cloned().collect()
    }

    /// Ends the current interval now, so that samples begin and end with an event; does not wait.
    pub fn cut(&self) {
        self.0.lock().cut = true;
        self.0.changed.notify_all();
    }

    /// Waits until there is a sample whose interval ends at `unix_s` or later; whether there is.
    pub fn wait_for(&self, unix_s: f64, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.0.lock();
        while state.samples.back().is_none_or(|sample| sample.unix_s < unix_s) {
            let Some(left) = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
                return false;
            };
            state = self.0.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
        }
        true
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The state is valid after each of its steps.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn run(shared: &Shared, mut sampler: Sampler, interval: Duration) {
    sampler.sample();
    let mut taken = Instant::now();
    let mut next = taken + interval;
    loop {
        if !wait_until(shared, next, taken + LEAST_INTERVAL) {
            return;
        }
        taken = Instant::now();
        let sample = sampler.sample();
        let mut state = shared.lock();
        if state.facts.unavailable.len() != sampler.facts().unavailable.len() {
            state.facts = sampler.facts().clone();
        }
        state.samples.extend(sample);
        while state.samples.len() > shared.kept_max {
            state.samples.pop_front();
        }
        drop(state);
        shared.changed.notify_all();
        // Intervals that were missed are not made up for: the next sample is of a longer one.
        while next <= taken {
            next += interval;
        }
    }
}

/// Waits until `next`, or until a sample is requested, but then at least until `earliest`; `false`
/// if the observation is to end.
fn wait_until(shared: &Shared, next: Instant, earliest: Instant) -> bool {
    let mut state = shared.lock();
    loop {
        if state.stop {
            return false;
        }
        let due = if state.cut { next.min(earliest) } else { next };
        let Some(left) = due.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) else {
            state.cut = false;
            return true;
        };
        state = shared.changed.wait_timeout(state, left).unwrap_or_else(|poisoned| poisoned.into_inner()).0;
    }
}
