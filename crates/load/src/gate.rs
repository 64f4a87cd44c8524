//! The common start of all threads of a run.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use thalweg_sys::Instant;

/// Lets all threads begin together, once each has opened its connections.
#[derive(Debug, Default)]
pub struct Gate {
    expected: usize,
    arrived: AtomicUsize,
    start_ns: AtomicU64,
}

impl Gate {
    /// From the last arrival at the gate to the common start.
    const NOTICE_NS: u64 = 2_000_000;

    /// A gate for so many threads.
    pub fn new(threads: usize) -> Self {
        Self { expected: threads, ..Self::default() }
    }

    pub(crate) fn arrive(&self, now: Instant) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.expected {
            self.start_ns.store(now.plus_ns(Self::NOTICE_NS).as_ns(), Ordering::Release);
        }
    }

    /// When all begin, once that is known.
    pub(crate) fn start(&self) -> Option<Instant> {
        let ns = self.start_ns.load(Ordering::Acquire);
        (ns != 0).then(|| Instant::from_ns(ns))
    }
}
