//! The common start of all threads of a run, and their common end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

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

/// Has threads close their connections only when nobody measures any more: to close tens of thousands takes a CPU for seconds, in which
/// another thread's last requests would wait.
#[derive(Debug, Default)]
pub(crate) struct Finish {
    at_work: Mutex<usize>,
    nobody: Condvar,
}

/// A thread that is at work. It ends with this, whatever has happened to it.
#[derive(Debug)]
pub(crate) struct AtWork(Arc<Finish>);

impl AtWork {
    /// One more.
    pub(crate) fn begin(finish: &Arc<Finish>) -> Self {
        *finish.at_work.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(finish))
    }

    /// Ends, and waits until all others have.
    pub(crate) fn end_with_others(self) {
        let finish = Arc::clone(&self.0);
        drop(self);
        let at_work = finish.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        drop(finish.nobody.wait_while(at_work, |at_work| *at_work > 0));
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        *self.0.at_work.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.nobody.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn nobody_is_through_before_all_have_ended() {
        const THREADS: usize = 8;
        let (finish, ended) = (Arc::new(Finish::default()), Arc::new(AtomicUsize::new(0)));
        let all: Vec<_> = (0..THREADS).map(|_| AtWork::begin(&finish)).collect();
        let failed = AtWork::begin(&finish);
        let mut threads = Vec::new();
        for (before, at_work) in all.into_iter().enumerate() {
            let ended = Arc::clone(&ended);
            threads.push(thread::spawn(move || {
                ended.fetch_add(1, Ordering::AcqRel);
                at_work.end_with_others();
                ended.load(Ordering::Acquire)
            }));
            // The next one ends when this one has, and would be through if nothing held it.
            while *finish.at_work.lock().unwrap() > THREADS - before {
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
