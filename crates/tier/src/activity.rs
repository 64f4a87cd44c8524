//! The activity on bodies in fragments: the fills that fetch them, and the readers behind.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use foldhash::quality::RandomState;
use thalweg_cache::Key;

use crate::cluster::PART_BYTES;
use crate::fill::Fill;
use crate::store::FRAGMENT_BYTES;

/// The fills and readers of one body, whichever objects stand for it.
#[derive(Default)]
pub(crate) struct Activity {
    fills: Mutex<Vec<Arc<Fill>>>,
    /// Held while a reader looks for a fragment and begins a fill.
    pub(crate) starts: tokio::sync::Mutex<()>,
    readers: Mutex<Vec<Arc<ReaderPlace>>>,
    /// The origin sends no parts, so that readers wait for the fill of the whole.
    pub(crate) has_no_parts: AtomicBool,
    /// The origin has another version.
    pub(crate) has_changed: AtomicBool,
}

impl Activity {
    pub(crate) fn fills(&self) -> MutexGuard<'_, Vec<Arc<Fill>>> {
        self.fills.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn readers(&self) -> MutexGuard<'_, Vec<Arc<ReaderPlace>>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a reader of the bytes from `position` up to `end`.
    pub(crate) fn add_reader(&self, position: u64, end: u64) -> Arc<ReaderPlace> {
        let place = Arc::new(ReaderPlace { position: AtomicU64::new(position), end });
        self.readers().push(Arc::clone(&place));
        place
    }

    pub(crate) fn remove_reader(&self, place: &Arc<ReaderPlace>) {
        self.readers().retain(|other| !Arc::ptr_eq(other, place));
    }

    /// Whether anybody reads what comes from `position` on: a reader that is behind it, and if the
    /// origin sends no parts also one that is in front of it.
    pub(crate) fn is_read_from(&self, position: u64) -> bool {
        let has_no_parts = self.has_no_parts.load(Ordering::Relaxed);
        // One that waits for a fill may be in front of it, in a cluster by a whole part.
        let reach = position.saturating_add(PART_BYTES + FRAGMENT_BYTES);
        let is_before = |place: &ReaderPlace| place.position.load(Ordering::Relaxed) < reach;
        self.readers().iter().any(|place| place.end > position && (has_no_parts || is_before(place)))
    }
}

/// A reader waits for a fill that is at most so many fragments behind it, and begins another one
/// otherwise. In a cluster it waits for any fill of the same part that the store gets.
pub(crate) const AHEAD_MAX: u32 = 4;

/// The place of a reader in an object.
pub(crate) struct ReaderPlace {
    pub(crate) position: AtomicU64,
    end: u64,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_is_read_by_those_behind_it() {
        let activity = Activity::default();
        let fragment = FRAGMENT_BYTES;
        assert!(!activity.is_read_from(0));
        let place = activity.add_reader(100 * fragment, 100 * fragment + 1);
        let check = |position: u64, expected: bool| assert_eq!(activity.is_read_from(position), expected, "{position}");
        check(0, false);
        check(83 * fragment, false);
        check(84 * fragment, true);
        check(100 * fragment, true);
        check(101 * fragment, false);
        activity.has_no_parts.store(true, Ordering::Relaxed);
        check(0, true);
        activity.remove_reader(&place);
        check(0, false);
    }
}
