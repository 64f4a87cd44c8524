//! Turns of the look-ups that verify long fragments. A fragment that many readers come to at the
//! same time is read and verified by one of them, not by each; and few are in memory at a time.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::directory::Entry;

/// Fragments that are verified at the same time, at most.
const AT_ONCE_MAX: usize = 64;

pub(super) struct Verifications([Mutex<()>; AT_ONCE_MAX]);

impl Default for Verifications {
    fn default() -> Self {
        Self([const { Mutex::new(()) }; AT_ONCE_MAX])
    }
}

impl Verifications {
    /// Waits until no other look-up verifies this fragment, or one that shares its turn.
    pub(super) fn take(&self, entry: Entry) -> MutexGuard<'_, ()> {
        let place = entry.offset_units as usize % AT_ONCE_MAX;
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner)
    }
}
