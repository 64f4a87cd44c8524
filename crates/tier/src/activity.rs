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
    /// Held while a reader looks for a fragment and begins a fill.
    pub(crate) starts: tokio::sync::Mutex<()>,
    pub(crate) readers: AtomicUsize,
    /// The origin has another version.
    pub(crate) has_changed: AtomicBool,
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
