//! The progress of a run: counters that its threads publish, and the request to stop that they
//! obey.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The progress of a run, shared between its threads and an observer.
#[derive(Debug)]
pub struct Progress {
    threads: Box<[ThreadProgress]>,
    stop: AtomicBool,
}

/// One thread's counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    offered: AtomicU64,
    good: AtomicU64,
    errors: AtomicU64,
    connections: AtomicU64,
}

/// Counters of the measured part so far, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests offered.
    pub offered: u64,
    /// Good responses.
    pub good: u64,
    /// Requests that have failed.
    pub errors: u64,
    /// Connections open.
    pub connections: u64,
}

impl Progress {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads: (0..threads).map(|_| ThreadProgress::default()).collect(), stop: AtomicBool::new(false) }
    }

    /// Requests all threads to end the run now.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// The counters as the threads published them last, a few hundredths of a second ago.
    pub fn snapshot(&self) -> Snapshot {
        let sum = |field: fn(&ThreadProgress) -> &AtomicU64| -> u64 {
            self.threads.iter().map(|thread| field(thread).load(Ordering::Relaxed)).sum()
        };
        Snapshot {
            offered: sum(|thread| &thread.offered),
            good: sum(|thread| &thread.good),
            errors: sum(|thread| &thread.errors),
            connections: sum(|thread| &thread.connections),
        }
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, thread: usize, offered: u64, good: u64, errors: u64, connections: u64) {
        let own = &self.threads[thread];
        own.offered.store(offered, Ordering::Relaxed);
        own.good.store(good, Ordering::Relaxed);
        own.errors.store(errors, Ordering::Relaxed);
        own.connections.store(connections, Ordering::Relaxed);
    }
}
