//! Objects that requests are busy with: which of them fetches an object, and which changes its
//! head.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use thalweg_cache::Key;

/// The seconds for which requests for an object are not collapsed after a response that could not
/// be stored, and after a failure: each would wait for the one before it in vain.
const NOT_STORED_S: i64 = 10;
const FAILED_S: i64 = 1;

/// The objects that requests are busy with.
#[derive(Default)]
pub(crate) struct Entries(Mutex<HashMap<Key, Arc<Entry>, RandomState>>);

/// An object that requests are busy with.
#[derive(Default)]
pub(crate) struct Entry {
    /// Held by the request that asks the origin for a part, until others can use what it has got;
    /// in a cluster also by the reader that does.
    pub(crate) leads: PartLocks,
    /// Held while the head is read, changed and written.
    pub(crate) change: tokio::sync::Mutex<()>,
    /// The number of changes of the head while this was in use.
    changes: AtomicU64,
    /// Whether it is validated beside the requests that got a stale response.
    pub(crate) is_validated: AtomicBool,
    /// The second until which requests are not collapsed.
    unshared_until: AtomicI64,
}

impl Entry {
    pub(crate) fn is_shared(&self, now: i64) -> bool {
        self.unshared_until.load(Ordering::Relaxed) <= now
    }

    /// Notes that a response could not be stored.
    pub(crate) fn note_not_stored(&self, now: i64) {
        self.unshared_until.store(now + NOT_STORED_S, Ordering::Relaxed);
    }

    /// Notes that the origin failed.
    pub(crate) fn note_failed(&self, now: i64) {
        self.unshared_until.store(now + FAILED_S, Ordering::Relaxed);
    }

    /// The number of changes of the head while the entry was in use.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that the head was changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Notes that a response was stored.
    pub(crate) fn note_stored(&self) {
        self.unshared_until.store(0, Ordering::Relaxed);
    }
}

/// A lock for each part of an object. Servers of a cluster wait for one another's parts, each for
/// those of servers in front of it in the ranks of the part: one lock for all parts would let them
/// wait in a circle.
#[derive(Default)]
pub(crate) struct PartLocks(Mutex<HashMap<u64, Arc<tokio::sync::Mutex<()>>, RandomState>>);

impl PartLocks {
    /// The lock of a part.
    pub(crate) fn of(&self, part: u64) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        Arc::clone(locks.entry(part).or_default())
    }
}

/// An entry in use. The last one that is dropped removes it, unless it has to remember something.
#[derive(Clone)]
pub(crate) struct InUse {
    entries: Arc<Entries>,
    key: Key,
    entry: Arc<Entry>,
    now: i64,
}

impl Entries {
    /// The entry of an object.
    pub(crate) fn enter(self: &Arc<Self>, key: Key, now: i64) -> InUse {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Arc::clone(map.entry(key).or_default());
        drop(map);
        InUse { entries: Arc::clone(self), key, entry, now }
    }

    /// Forgets what entries that nobody uses remember, once it holds no more.
    pub(crate) fn forget_old(&self, now: i64) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, entry| Arc::strong_count(entry) > 1 || !entry.is_shared(now));
    }
}

impl std::ops::Deref for InUse {
    type Target = Entry;

    fn deref(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for InUse {
    fn drop(&mut self) {
        let mut map = self.entries.0.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's and this one.
        if Arc::strong_count(&self.entry) == 2 && self.entry.is_shared(self.now) {
            map.remove(&self.key);
        }
    }
}
