//! Collapsing: one request asks the origin for an object, and others wait for what comes of that.
//!
//! All that wait are released at the same moment. Each then looks at what is stored, is answered by
//! the response itself, or asks the origin side by side with the others; so nobody waits for more
//! than one response that is of no use to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use foldhash::quality::RandomState;
use thalweg_cache::Key;
use thalweg_caching::{FieldLines, StoredFields, Vary};
use tokio::sync::watch;

use crate::upstream::UpstreamFailure;

/// A fetch that requests share.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(crate) struct FetchKey {
    /// The part of the object that is asked for first.
    pub(crate) part: u64,
    /// The secondary key of the requests, if the stored responses vary: each variant is fetched by
    /// itself.
    pub(crate) variant: Option<Key>,
}

/// The outcome of a fetch for those that waited for it.
#[derive(Clone)]
pub(crate) enum FetchOutcome {
    /// The store may have changed, or what came was purged meanwhile: look again.
    Stored,
    /// It was for one request alone: ask the origin side by side.
    Alone,
    /// A response that is not stored, and answers those that have its secondary key.
    Response(Arc<SharedResponse>),
    /// The origin gave no response.
    Failed(UpstreamFailure),
    /// The origin failed with this status, and a stale response stood in.
    FailedWith(u16),
}

impl FetchOutcome {
    /// The outcome of a response that was to be stored: if the store did not take it, all that wait
    /// would find nothing, one after the other. One that was purged meanwhile says nothing about
    /// the next.
    pub(crate) fn of_storing(put: Put) -> Self {
        match put {
            Put::Stored | Put::Purged => Self::Stored,
            Put::Refused => Self::Alone,
        }
    }
}

/// The fate of a response that was to be stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    Stored,
    /// It was purged since it was asked for.
    Purged,
    /// The store did not take it.
    Refused,
}

/// A response that answers all requests that waited for it.
pub(crate) struct SharedResponse {
    pub(crate) status: u16,
    pub(crate) fields: StoredFields,
    pub(crate) bytes: Bytes,
    vary: Vary,
    key: Option<Box<[u8]>>,
}

impl SharedResponse {
    /// The response to a request with these fields.
    pub(crate) fn new(status: u16, fields: &StoredFields, bytes: Bytes, request: &impl FieldLines) -> Self {
        let vary = Vary::of(fields);
        let key = vary.key(request);
        Self { status, fields: fields.clone(), bytes, vary, key }
    }

    /// Whether it answers a request with these fields, too.
    pub(crate) fn answers(&self, request: &impl FieldLines) -> bool {
        self.key.is_some() && self.vary.key(request) == self.key
    }
}

type Outcome = Option<FetchOutcome>;

/// The fetches of an object that requests may wait for.
#[derive(Default)]
pub(crate) struct SharedFetches(Mutex<HashMap<FetchKey, watch::Receiver<Outcome>, RandomState>>);

/// The role of a request in a shared fetch.
pub(crate) enum Role {
    /// It asks the origin.
    Fetches(FetchOwner),
    /// It waits for the one that does.
    Waits(FetchWaiter),
}

/// The request that asks the origin. Dropping it has those that wait look at the store.
pub(crate) struct FetchOwner {
    fetches: Arc<SharedFetches>,
    key: FetchKey,
    sender: watch::Sender<Outcome>,
    is_closed: bool,
}

/// A request that waits.
pub(crate) struct FetchWaiter(watch::Receiver<Outcome>);

impl SharedFetches {
    /// Joins a fetch that is under way, or begins it.
    pub(crate) fn join(self: &Arc<Self>, key: FetchKey) -> Role {
        let mut fetches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = fetches.get(&key) {
            return Role::Waits(FetchWaiter(receiver.clone()));
        }
        let (sender, receiver) = watch::channel(None);
        fetches.insert(key, receiver);
        Role::Fetches(FetchOwner { fetches: Arc::clone(self), key, sender, is_closed: false })
    }

    /// A fetch of a part that is under way.
    pub(crate) fn under_way(&self, part: u64) -> Option<FetchWaiter> {
        let fetches = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = fetches.iter().find(|(key, _)| key.part == part);
        found.map(|(_, receiver)| FetchWaiter(receiver.clone()))
    }
}

impl FetchOwner {
    /// Lets nobody join any more; whether somebody waits.
    pub(crate) fn close(&mut self) -> bool {
        if !std::mem::replace(&mut self.is_closed, true) {
            self.fetches.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        }
        self.sender.receiver_count() > 0
    }

    /// Releases those that wait.
    pub(crate) fn release(mut self, outcome: FetchOutcome) {
        self.close();
        self.sender.send_replace(Some(outcome));
    }
}

impl Drop for FetchOwner {
    fn drop(&mut self) {
        self.close();
    }
}

impl FetchWaiter {
    /// Waits for the outcome.
    pub(crate) async fn outcome(mut self) -> FetchOutcome {
        let outcome = self.0.wait_for(Option::is_some).await;
        outcome.ok().and_then(|outcome| outcome.clone()).unwrap_or(FetchOutcome::Stored)
    }
}

/// Releases those that wait for a request, if it asks the origin for them.
pub(crate) fn release(owner: &mut Option<FetchOwner>, outcome: FetchOutcome) {
    if let Some(owner) = owner.take() {
        owner.release(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_its_own<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn owner(fetches: &Arc<SharedFetches>) -> FetchOwner {
        match fetches.join(FetchKey::default()) {
            Role::Fetches(owner) => owner,
            Role::Waits(_) => panic!("nobody fetches"),
        }
    }

    fn waiter(fetches: &Arc<SharedFetches>) -> FetchWaiter {
        match fetches.join(FetchKey::default()) {
            Role::Waits(waiter) => waiter,
            Role::Fetches(_) => panic!("somebody fetches"),
        }
    }

    #[test]
    fn those_that_wait_are_released_together() {
        on_its_own(async {
            let fetches = Arc::new(SharedFetches::default());
            let first = owner(&fetches);
            let waiting: Vec<_> = (0..1000).map(|_| waiter(&fetches)).collect();
            first.release(FetchOutcome::Alone);
            let next = owner(&fetches);
            for waiter in waiting {
                assert!(matches!(waiter.outcome().await, FetchOutcome::Alone));
            }
            let late = waiter(&fetches);
            drop(next);
            assert!(matches!(late.outcome().await, FetchOutcome::Stored), "the request has ended");
            assert!(fetches.0.lock().unwrap().is_empty());
        });
    }

    #[test]
    fn nobody_joins_a_fetch_that_is_closed() {
        let fetches = Arc::new(SharedFetches::default());
        let mut first = owner(&fetches);
        assert!(!first.close());
        let second = owner(&fetches);
        drop(first);
        let waiting = waiter(&fetches);
        let mut second = second;
        assert!(second.close() && fetches.under_way(0).is_none());
        drop(waiting);
        assert!(!second.close());
    }

    #[test]
    fn a_shared_response_answers_its_variant() {
        let of = |lines: &[(&str, &str)]| {
            let mut fields = StoredFields::default();
            lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
            fields
        };
        let check = |vary: &str, one: &str, other: &str, expected: bool| {
            let (one, other) = (of(&[("Accept", one)]), of(&[("Accept", other)]));
            let response = SharedResponse::new(404, &of(&[("Vary", vary)]), Bytes::new(), &one);
            assert_eq!(response.answers(&other), expected, "{vary}");
        };
        check("", "a", "b", true);
        check("Accept", "a", "a", true);
        check("Accept", "a", "b", false);
        check("*", "a", "a", false);
    }
}
