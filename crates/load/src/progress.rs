//! The progress of a run: counters that its threads publish, and the request to stop that they
//! obey.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use thalweg_measure::trial::SoFar;

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
    connections: AtomicU64,
    errors: AtomicU64,
    missing: AtomicU64,
    response_ns: AtomicU64,
    over: [AtomicU64; OVER],
}

/// How many limits are counted against.
const OVER: usize = SoFar::COUNTED_MAX;

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
    /// The counts that may make FAIL certain.
    pub so_far: SoFar,
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
        let sum = |field: &dyn Fn(&ThreadProgress) -> &AtomicU64| -> u64 {
            self.threads.iter().map(|thread| field(thread).load(Ordering::Relaxed)).sum()
        };
        let errors = sum(&|thread| &thread.errors);
        Snapshot {
            offered: sum(&|thread| &thread.offered),
            good: sum(&|thread| &thread.good),
            errors,
            connections: sum(&|thread| &thread.connections),
            so_far: SoFar {
                errors,
                missing: sum(&|thread| &thread.missing),
                response_ns: sum(&|thread| &thread.response_ns),
                over: std::array::from_fn(|limit| sum(&|thread| &thread.over[limit])),
            },
        }
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    pub(crate) fn publish(&self, thread: usize, seen: Snapshot) {
        let own = &self.threads[thread];
        own.offered.store(seen.offered, Ordering::Relaxed);
        own.good.store(seen.good, Ordering::Relaxed);
        own.connections.store(seen.connections, Ordering::Relaxed);
        own.errors.store(seen.so_far.errors, Ordering::Relaxed);
        own.missing.store(seen.so_far.missing, Ordering::Relaxed);
        own.response_ns.store(seen.so_far.response_ns, Ordering::Relaxed);
        for (over, count) in own.over.iter().zip(seen.so_far.over) {
            over.store(count, Ordering::Relaxed);
        }
    }
}
