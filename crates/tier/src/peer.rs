//! A peer of a cluster, and whether it answers.
//!
//! A peer that keeps a request waiting is asked a question of its own, so that one that hangs is
//! told from one whose origin is slow. One that is down is asked again while there are requests
//! that it would get.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use thalweg_caching::StoredFields;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::upstream::{Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// A wait after which a peer is asked whether it is there, and the time in which it has to answer:
/// together a second.
const PATIENCE: Duration = Duration::from_millis(250);
const ANSWER_TIME: Duration = Duration::from_millis(750);

/// The time in which a peer answers that has something stored.
const SOON: Duration = Duration::from_millis(500);

/// The pause between two questions to a peer that is down.
const DOWN_TIME: Duration = Duration::from_secs(1);

/// Another server of a cluster.
pub struct Peer {
    name: Box<str>,
    /// Sends requests to the peer's mount.
    upstream: Arc<dyn Upstream>,
    /// Asks whether it is there, on connections of its own.
    probe: Arc<dyn Upstream>,
    is_down: watch::Sender<bool>,
    /// When it was found down, or up again.
    changed: Mutex<Option<Instant>>,
    /// When a peer that is down is asked again.
    next_probe: Mutex<Instant>,
    /// The time of the last answer to a question. It is held during a question.
    answered: tokio::sync::Mutex<Option<Instant>>,
}

impl Peer {
    /// A peer. `upstream` sends requests to its mount, and `probe` the question whether it answers
    /// at all.
    pub fn new(name: impl Into<Box<str>>, upstream: Arc<dyn Upstream>, probe: Arc<dyn Upstream>) -> Self {
        Self {
            name: name.into(),
            upstream,
            probe,
            is_down: watch::Sender::new(false),
            changed: Mutex::new(None),
            next_probe: Mutex::new(Instant::now()),
            answered: tokio::sync::Mutex::default(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// When it was last found down, or up again.
    pub(crate) fn changed(&self) -> Option<Instant> {
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it may be asked. If not, it may be found up again beside.
    pub(crate) fn is_up(self: &Arc<Self>) -> bool {
        if !*self.is_down.borrow() {
            return true;
        }
        let mut next = self.next_probe.lock().unwrap_or_else(PoisonError::into_inner);
        if *next <= Instant::now() {
            *next = Instant::now() + DOWN_TIME;
            let this = Arc::clone(self);
            tokio::spawn(async move { this.ask(true).await });
        }
        false
    }

    /// Fetches from it. After a failure, it is known whether it is up.
    pub(crate) async fn fetch(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        let fetched = tokio::select! {
            biased;
            fetched = self.upstream.fetch(request) => fetched,
            () = self.lost() => {
                return Err(UpstreamFailure { status: 504, reason: format!("the peer {} is down", self.name).into() });
            }
        };
        if fetched.is_err() {
            self.ask(false).await;
        }
        fetched
    }

    /// Fetches something from it that can be had elsewhere, if it answers soon.
    pub(crate) async fn fetch_soon(self: &Arc<Self>, request: UpstreamRequest) -> Option<UpstreamResponse> {
        let fetched = timeout(SOON, self.upstream.fetch(request)).await;
        if !matches!(fetched, Ok(Ok(_))) {
            let this = Arc::clone(self);
            tokio::spawn(async move { this.ask(false).await });
        }
        fetched.ok()?.ok()
    }

    /// Ends when the peer is down; it is asked now and then.
    pub(crate) async fn lost(&self) {
        let mut is_down = self.is_down.subscribe();
        loop {
            tokio::select! {
                _ = is_down.wait_for(|is_down| *is_down) => return,
                () = sleep(PATIENCE) => {}
            }
            let is_known = self.answered.lock().await.is_some_and(|answered| answered.elapsed() < PATIENCE);
            if !is_known {
                self.ask(false).await;
            }
        }
    }

    /// Asks whether it is there, unless it is known to be down and `is_down` does not ask for that.
    async fn ask(&self, is_down: bool) {
        let mut answered = self.answered.lock().await;
        if *self.is_down.borrow() && !is_down {
            return;
        }
        let (method, target) = ("OPTIONS".into(), "/".into());
        let question = UpstreamRequest { method, target, fields: StoredFields::default(), content: Bytes::new() };
        let is_there = matches!(timeout(ANSWER_TIME, self.probe.fetch(question)).await, Ok(Ok(_)));
        if is_there {
            *answered = Some(Instant::now());
        } else {
            *self.next_probe.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + DOWN_TIME;
        }
        if self.is_down.send_if_modified(|known| std::mem::replace(known, !is_there) == is_there) {
            *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }
}
