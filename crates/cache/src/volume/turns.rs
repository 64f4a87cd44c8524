//! Turns at making checkpoints: one at a time, by the thread that waits for them to be due or by an
//! append that may not go on without one. Checkpoints themselves are in `checkpoint`.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The end of a wait.
pub(crate) enum Turn {
    /// A checkpoint is due.
    Due,
    /// None was for as long as it waited.
    Pause,
    /// The waiting was ended.
    Ended,
}

#[derive(Default)]
pub(crate) struct Turns {
    under_way: Mutex<()>,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

#[derive(Default)]
struct Wanted {
    is_due: bool,
    has_ended: bool,
}

impl Turns {
    /// Waits for the checkpoint that is under way; none begins while the guard is held.
    pub(crate) fn take(&self) -> MutexGuard<'_, ()> {
        // The lock guards the medium, where a checkpoint without a mark does not count.
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread that waits for a checkpoint to be due.
    pub(crate) fn note_due(&self) {
        self.wanted().is_due = true;
        self.changed.notify_all();
    }

    /// Waits until a checkpoint is due, for at most so long.
    pub(crate) fn wait(&self, most: Duration) -> Turn {
        let waiting = |wanted: &mut Wanted| !wanted.is_due && !wanted.has_ended;
        let waited = self.changed.wait_timeout_while(self.wanted(), most, waiting);
        let (mut wanted, _) = waited.expect("no thread panics over a flag");
        match (wanted.has_ended, std::mem::take(&mut wanted.is_due)) {
            (true, _) => Turn::Ended,
            (false, true) => Turn::Due,
            (false, false) => Turn::Pause,
        }
    }

    /// Ends the waiting, now and later.
    pub(crate) fn end(&self) {
        self.wanted().has_ended = true;
        self.changed.notify_all();
    }

    fn wanted(&self) -> MutexGuard<'_, Wanted> {
        self.wanted.lock().expect("no thread panics over a flag")
    }
}
