//! The tier as loops see it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ask::{Answered, Ask};

/// The tier of a process.
pub struct Tier {
    generation: AtomicU64,
}

impl Tier {
    /// Answers a request: `answered` is called from the tier's thread.
    pub fn ask(&self, ask: Ask, answered: Answered) {
        let _ = (ask, answered);
    }

    /// A number that grows when objects that loops hold may have become invalid before they are
    /// stale.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }
}
