//! Barriers between the threads of a run: all begin together, and none closes its connections
//! before all have ended.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use thalweg_sys::Instant;

/// Starts all threads together, once each has opened its connections.
#[derive(Debug, Default)]
pub struct StartBarrier {
    expected: usize,
    arrived: AtomicUsize,
    start_ns: AtomicU64,
}

impl StartBarrier {
    /// From the last arrival at the start barrier to the common start.
    const NOTICE_NS: u64 = 2_000_000;

    /// A start barrier for so many threads.
    pub fn new(threads: usize) -> Self {
        Self { expected: threads, ..Self::default() }
    }

    pub(crate) fn arrive(&self, now: Instant) {
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.expected {
            self.start_ns.store(now.plus_ns(Self::NOTICE_NS).as_ns(), Ordering::Release);
        }
    }

    /// When all begin, once that is known.
    pub fn start(&self) -> Option<Instant> {
        let ns = self.start_ns.load(Ordering::Acquire);
        (ns != 0).then(|| Instant::from_ns(ns))
    }
}

/// Holds threads back from closing their connections until no thread measures any more: closing
/// tens of thousands takes a CPU for seconds, in which another thread's last requests would wait.
#[derive(Debug, Default)]
pub(crate) struct EndBarrier {
    running: Mutex<usize>,
    all_ended: Condvar,
}

/// Registers a thread as running until it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct RunningThread(Arc<EndBarrier>);

impl RunningThread {
    /// Registers one more.
    pub(crate) fn begin(barrier: &Arc<EndBarrier>) -> Self {
        *barrier.running.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(barrier))
    }

    /// Ends, and waits until all others have.
    pub(crate) fn end_with_others(self) {
        let barrier = Arc::clone(&self.0);
        drop(self);
        let running = barrier.running.lock().unwrap_or_else(PoisonError::into_inner);
        drop(barrier.all_ended.wait_while(running, |running| *running > 0));
    }
}

impl Drop for RunningThread {
    fn drop(&mut self) {
        *self.0.running.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.all_ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn no_thread_passes_before_all_have_ended() {
        const THREADS: usize = 8;
        let (barrier, ended) = (Arc::new(EndBarrier::default()), Arc::new(AtomicUsize::new(0)));
        let all: Vec<_> = (0..THREADS).map(|_| RunningThread::begin(&barrier)).collect();
        let failed = RunningThread::begin(&barrier);
        let mut threads = Vec::new();
        for (before, running_thread) in all.into_iter().enumerate() {
            let ended = Arc::clone(&ended);
            threads.push(thread::spawn(move || {
                ended.fetch_add(1, Ordering::AcqRel);
                running_thread.end_with_others();
                ended.load(Ordering::Acquire)
            }));
            // The next one ends when this one has, and would be through if nothing held it.
            while *barrier.running.lock().unwrap() > THREADS - before {
                thread::yield_now();
            }
        }
        let failed = thread::spawn(move || {
            let _at_work = failed;
            panic!("on purpose");
        });
        assert!(failed.join().is_err());
        for thread in threads {
            assert_eq!(thread.join().unwrap(), THREADS);
        }
    }
}
