//! Objects that requests are busy with: the fetches that they share, and which changes the head.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use thalweg_cache::Key;

use crate::collapsing::SharedFetches;

/// The objects that requests are busy with.
#[derive(Default)]
pub(crate) struct Entries(Mutex<HashMap<Key, Arc<Entry>, RandomState>>);

/// An object that requests are busy with.
#[derive(Default)]
pub(crate) struct Entry {
    /// The fetches that requests for it share.
    pub(crate) fetches: Arc<SharedFetches>,
    /// Held while the head is read, changed and written.
    pub(crate) change: tokio::sync::Mutex<()>,
    /// The number of changes of the head while this was in use.
    changes: AtomicU64,
    /// Whether it is validated beside the requests that got a stale response.
    pub(crate) is_validated: AtomicBool,
}

impl Entry {
    /// The number of changes of the head while the entry was in use.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Notes that the head was changed.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }
}

/// An entry in use. The last one that is dropped removes it.
#[derive(Clone)]
pub(crate) struct InUse {
    entries: Arc<Entries>,
    key: Key,
    entry: Arc<Entry>,
}

impl Entries {
    /// The entry of an object.
    pub(crate) fn enter(self: &Arc<Self>, key: Key) -> InUse {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Arc::clone(map.entry(key).or_default());
        drop(map);
        InUse { entries: Arc::clone(self), key, entry }
    }

    /// Forgets entries that nobody uses: two that are dropped at the same time leave theirs.
    pub(crate) fn forget_old(&self) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, entry| Arc::strong_count(entry) > 1);
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
        if Arc::strong_count(&self.entry) == 2 {
            map.remove(&self.key);
        }
    }
}
