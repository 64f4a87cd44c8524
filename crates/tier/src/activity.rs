//! The activity on bodies in fragments: the fills that fetch them, and the readers behind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::quality::RandomState;
use thalweg_cache::Key;

use crate::fill::Fill;

/// The fills and readers of one body, whichever objects stand for it.
#[derive(Default)]
pub(crate) struct Activity {
    fills: Mutex<Vec<Arc<Fill>>>,
    /// Held by the reader that begins a fill in a part.
    pub(crate) starts: PartLocks,
    pub(crate) readers: AtomicUsize,
    /// The origin has another version.
    pub(crate) has_changed: AtomicBool,
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

impl Activity {
    pub(crate) fn fills(&self) -> MutexGuard<'_, Vec<Arc<Fill>>> {
        self.fills.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The bodies that something is going on for.
#[derive(Default)]
pub(crate) struct Bodies(Mutex<HashMap<Key, Weak<Activity>, RandomState>>);

impl Bodies {
    pub(crate) fn enter(&self, key: Key) -> Arc<Activity> {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(activity) = map.get(&key).and_then(Weak::upgrade) {
            return activity;
        }
        let activity = Arc::new(Activity::default());
        map.insert(key, Arc::downgrade(&activity));
        activity
    }

    /// Forgets those that nothing is going on for any more.
    pub(crate) fn forget_old(&self) {
        let mut map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        map.retain(|_, activity| activity.strong_count() > 0);
    }
}
