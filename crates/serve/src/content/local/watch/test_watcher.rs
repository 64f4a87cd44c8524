//! A watcher without a thread, for tests: it receives changes when it is polled.

use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use super::folders::Folders;
use super::watcher::{Notice, Outlets, Subscription, WatchCounts, Watcher};
use crate::content::local::namespace::Namespace;

pub(crate) struct TestWatcher {
    watcher: Watcher,
    /// Notices by loop, unless they are delivered elsewhere.
    notices: Arc<[Mutex<Vec<Notice>>]>,
    counts: Arc<WatchCounts>,
}

impl TestWatcher {
    /// A watcher for a single loop.
    pub(crate) fn new() -> Self {
        Self::with_loops(1)
    }

    /// A watcher for several loops, which keeps their notices.
    pub(crate) fn with_loops(loops: usize) -> Self {
        let notices: Arc<[Mutex<Vec<Notice>>]> = (0..loops).map(|_| Mutex::default()).collect();
        let kept = Arc::clone(&notices);
        Self::open(loops, notices, move |loop_index, notices| kept[loop_index].lock().unwrap().extend(notices))
    }

    /// A watcher for a single loop that delivers notices to `deliver`.
    pub(crate) fn delivering(deliver: impl Fn(Vec<Notice>) + Send + Sync + 'static) -> Self {
        Self::open(1, Arc::default(), move |_, notices| deliver(notices))
    }

    fn open(
        loops: usize,
        notices: Arc<[Mutex<Vec<Notice>>]>,
        deliver: impl Fn(usize, Vec<Notice>) + Send + Sync + 'static,
    ) -> Self {
        let counts = Arc::new(WatchCounts::default());
        let outlets =
            Outlets { loops, deliver: Box::new(deliver), report: Box::new(|_| {}), counts: Arc::clone(&counts) };
        Self { watcher: Watcher::without_thread(outlets).unwrap(), notices, counts }
    }

    pub(crate) fn subscription(&self) -> Subscription {
        self.subscription_of(0)
    }

    pub(crate) fn subscription_of(&self, loop_index: usize) -> Subscription {
        self.watcher.subscription(loop_index)
    }

    /// Delivers notices of what has changed until now. Whether there are any.
    pub(crate) fn poll(&self) -> bool {
        self.watcher.poll()
    }

    /// Takes the notices of a loop.
    pub(crate) fn take(&self, loop_index: usize) -> Vec<Notice> {
        mem::take(&mut *self.notices[loop_index].lock().unwrap())
    }

    /// Has folders apply what has changed until now. Whether there was anything.
    pub(crate) fn apply_to(&self, folders: &mut Folders<impl Namespace>) -> bool {
        self.poll();
        let notices = self.take(0);
        if !notices.is_empty() {
            folders.apply(&notices);
        }
        !notices.is_empty()
    }

    /// How often the kernel has had no room for changes.
    pub(crate) fn overflows(&self) -> u64 {
        self.counts.overflows.load(Relaxed)
    }

    /// How many folders are watched.
    pub(crate) fn watched(&self) -> u64 {
        self.counts.folders.load(Relaxed)
    }
}
