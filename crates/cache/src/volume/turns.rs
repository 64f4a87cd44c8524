//! Turns at making checkpoints: one at a time, by the thread that waits for them to be due or by an
//! append that may not go on without one. Checkpoints themselves are in `checkpoint`.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

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

    /// Waits until a checkpoint is due; `false` once the waiting has been ended.
    pub(crate) fn wait(&self) -> bool {
        let waiting = |wanted: &mut Wanted| !wanted.is_due && !wanted.has_ended;
        let mut wanted = self.changed.wait_while(self.wanted(), waiting).expect("no thread panics over a flag");
        wanted.is_due = false;
        !wanted.has_ended
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
