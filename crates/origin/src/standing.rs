//! The standing of one origin: its counters and its health, which attempts and bodies report to.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::HealthRules;
use crate::failure::{Failure, FailureKind, Phase};
use crate::health::{Admittance, Health, HealthState};

/// The figures of one origin.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OriginStatistics {
    /// Its name.
    pub name: Arc<str>,
    /// Its health.
    pub health: Health,
    /// Attempts: requests that were begun, also those that did not get a connection.
    pub attempts: u64,
    /// Responses whose head arrived.
    pub responses: u64,
    /// Responses whose body arrived whole.
    pub completed: u64,
    /// Bytes of bodies that arrived.
    pub body_bytes: u64,
    /// Failures by kind, without the kinds that did not occur.
    pub failures: Vec<(FailureKind, u64)>,
    /// Connections that were opened so far.
    pub connections_opened: u64,
    /// Connections that are open, or being opened.
    pub connections: u64,
    /// Open connections that no request uses.
    pub connections_idle: u64,
    /// Requests whose response is not complete.
    pub requests: u64,
    /// Requests that wait for others.
    pub requests_waiting: u64,
    /// For an S3 origin: the server's clock ahead of this host's, in seconds.
    pub clock_ahead_s: i64,
}

/// Counters and health.
#[derive(Debug)]
pub(crate) struct Standing {
    health: Mutex<HealthState>,
    pub(crate) attempts: AtomicU64,
    pub(crate) body_bytes: AtomicU64,
    pub(crate) connections_opened: AtomicU64,
    pub(crate) clock_ahead_s: AtomicI64,
    responses: AtomicU64,
    completed: AtomicU64,
    failures: [AtomicU64; FailureKind::ALL.len()],
}

impl Standing {
    pub(crate) fn new(rules: HealthRules) -> Self {
        Self {
            health: Mutex::new(HealthState::new(rules)),
            attempts: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            connections_opened: AtomicU64::new(0),
            clock_ahead_s: AtomicI64::new(0),
            responses: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            failures: [const { AtomicU64::new(0) }; FailureKind::ALL.len()],
        }
    }

    /// Asks for admission. A probe is given up when the returned guard is dropped before an
    /// outcome was reported.
    pub(crate) fn admit(self: &Arc<Self>) -> Result<Option<Probe>, Failure> {
        let admittance = self.health().admit(Instant::now());
        match admittance {
            Admittance::Yes => Ok(None),
            Admittance::AsProbe(number) => Ok(Some(Probe { standing: Arc::clone(self), number })),
            Admittance::No(wait) => {
                let until = match wait {
                    Some(wait) => format!("for {:.1} s more", wait.max(Duration::from_millis(100)).as_secs_f64()),
                    None => "while another request probes it".into(),
                };
                let failure = Failure::new(FailureKind::Down, format!("it is not asked {until}, after failures"));
                self.count(&failure);
                Err(failure)
            }
        }
    }

    /// The head of a response arrived.
    pub(crate) fn answered(&self) {
        self.responses.fetch_add(1, Ordering::Relaxed);
        self.health().answered();
    }

    /// A response is complete. One that says that the origin failed is counted and no success.
    pub(crate) fn completed(&self, is_success: bool) {
        self.completed.fetch_add(1, Ordering::Relaxed);
        if is_success {
            self.health().completed();
        }
    }

    /// An attempt failed, or the body of its response.
    pub(crate) fn failed(&self, failure: &Failure) {
        self.count(failure);
        if failure.kind.is_of_origin() {
            self.health().failed(Instant::now());
        }
    }

    /// A failure that says nothing about the origin.
    pub(crate) fn count(&self, failure: &Failure) {
        self.failures[failure.kind.index()].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn statistics(&self, name: &Arc<str>) -> OriginStatistics {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let failures = FailureKind::ALL.into_iter().zip(self.failures.iter().map(count));
        OriginStatistics {
            name: Arc::clone(name),
            health: self.health().health(Instant::now()),
            attempts: count(&self.attempts),
            responses: count(&self.responses),
            completed: count(&self.completed),
            body_bytes: count(&self.body_bytes),
            failures: failures.filter(|(_, count)| *count > 0).collect(),
            connections_opened: count(&self.connections_opened),
            connections: 0,
            connections_idle: 0,
            requests: 0,
            requests_waiting: 0,
            clock_ahead_s: self.clock_ahead_s.load(Ordering::Relaxed),
        }
    }

    fn health(&self) -> MutexGuard<'_, HealthState> {
        self.health.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The request that finds out whether an origin has recovered.
#[derive(Debug)]
pub(crate) struct Probe {
    standing: Arc<Standing>,
    number: u64,
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.standing.health().abandoned(self.number, Instant::now());
    }
}

/// The failure of a request that has to wait for longer than it may.
pub(crate) fn queue_timeout(what: &str, limit: Duration) -> Failure {
    let text = format!("{what} for {limit:?}; the origin is too slow for the load, or its limits are too low");
    Failure::timeout(Phase::Queue, text)
}
