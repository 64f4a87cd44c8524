//! The thread that receives changes from the kernel, and the loops that subscribe to them.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use foldhash::quality::RandomState;
use rustix::io::Errno;
use thalweg_sys::inotify::{Event, Inotify, WatchId};
use thalweg_sys::{File, Waker};

/// The thread rests for this long after it has delivered notices. However fast a folder changes,
/// its files are looked at no more often than this allows; the kernel's queue of 16,384 events runs
/// over at 300,000 a second.
const REST: Duration = Duration::from_millis(50);

/// The thread fetches events so often at most before it delivers the notices that they come to.
const FETCHES_MAX: usize = 64;

/// A change as a loop learns of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// Something in the folder has changed.
    Changed(WatchId),
    /// The same, and the watch is no more.
    Gone(WatchId),
    /// Notices were lost: anything may have changed, and any watch may be no more.
    Lost,
}

/// The outlets of a watcher: it knows neither the loops nor the log.
pub(crate) struct Outlets {
    /// The number of loops.
    pub(crate) loops: usize,
    /// Delivers notices to the loop of this index, and wakes it.
    pub(crate) deliver: Box<dyn Fn(usize, Vec<Notice>) + Send + Sync>,
    /// Reports to the operator why folders are not watched, and the remedy.
    pub(crate) report: Box<dyn Fn(&str) + Send + Sync>,
    /// The watcher's counters, which telemetry reads.
    pub(crate) counts: Arc<WatchCounts>,
}

/// The counters of a watcher.
#[derive(Debug, Default)]
pub(crate) struct WatchCounts {
    /// Folders that are watched now.
    pub(crate) folders: AtomicU64,
    /// Events received.
    pub(crate) events: AtomicU64,
    /// How often the kernel had no room for events.
    pub(crate) overflows: AtomicU64,
    /// How often the kernel would not watch a folder.
    pub(crate) refused: AtomicU64,
}

/// The watcher's thread. It ends when this is dropped.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    ending: Arc<Ending>,
}

/// The means to end the thread. Not for loops: a loop with a table of descriptors of its own does
/// not have this one there, and must not be the last to release it.
struct Ending {
    waker: Waker,
    is_over: AtomicBool,
}

/// A loop's subscription to changes of folders.
#[derive(Clone)]
pub(crate) struct Subscription {
    shared: Arc<Shared>,
    loop_index: usize,
}

/// The reason why a folder is not watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwatched {
    /// This one cannot be.
    Folder,
    /// None can be, for now.
    All,
}

/// The loops that watch each folder, by index.
type Subscribers = HashMap<WatchId, Vec<usize>, RandomState>;

struct Shared {
    inotify: Inotify,
    /// Watches begin and end while this is locked, so that no loop ends what another begins.
    subscribers: Mutex<Subscribers>,
    outlets: Outlets,
    /// The operator knows that there are folders which are not watched.
    is_reported: AtomicBool,
}

impl Watcher {
    /// Starts the thread, which belongs into the process's own table of descriptors. If the kernel
    /// has no queue or thread for it there is none, which is reported if changes are to be watched
    /// now; the next configuration may want it, too.
    pub(crate) fn start(is_wanted: bool, outlets: Outlets) -> Option<Self> {
        let shared = match Inotify::open() {
            Ok(inotify) => Shared::new(inotify, outlets),
            Err(error) => {
                if is_wanted {
                    (outlets.report)(&report_of(&error));
                }
                return None;
            }
        };
        let shared = Arc::new(shared);
        let started = Self::over(Arc::clone(&shared)).and_then(|watcher| {
            let (shared, ending) = (Arc::clone(&watcher.shared), Arc::clone(&watcher.ending));
            thread::Builder::new().name("watch".to_owned()).spawn(move || shared.run(&ending)).map(|_| watcher)
        });
        if let Err(error) = &started
            && is_wanted
        {
            shared.report(error);
        }
        started.ok()
    }

    /// A watcher that is polled instead.
    ///
    /// # Errors
    /// The kernel gives no queue.
    #[cfg(test)]
    pub(crate) fn without_thread(outlets: Outlets) -> io::Result<Self> {
        Self::over(Arc::new(Shared::new(Inotify::open()?, outlets)))
    }

    fn over(shared: Arc<Shared>) -> io::Result<Self> {
        Ok(Self { shared, ending: Arc::new(Ending { waker: Waker::new()?, is_over: AtomicBool::new(false) }) })
    }

    /// The subscription of a loop, to no folder yet.
    pub(crate) fn subscription(&self, loop_index: usize) -> Subscription {
        Subscription { shared: Arc::clone(&self.shared), loop_index }
    }

    /// Delivers notices of what has happened until now. Whether there were any.
    #[cfg(test)]
    pub(crate) fn poll(&self) -> bool {
        self.shared.poll().unwrap()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.ending.is_over.store(true, Relaxed);
        self.ending.waker.wake();
    }
}

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Watcher")
    }
}

impl Shared {
    fn new(inotify: Inotify, outlets: Outlets) -> Self {
        Self { inotify, subscribers: Mutex::default(), outlets, is_reported: AtomicBool::new(false) }
    }

    fn run(&self, ending: &Ending) {
        loop {
            let polled = self.inotify.wait(&ending.waker).and_then(|()| self.poll());
            if ending.is_over.load(Relaxed) {
                return;
            }
            if let Err(error) = polled {
                return self.report(&error);
            }
            // The end interrupts the rest.
            ending.waker.wait(REST);
        }
    }

    /// Receives events, and delivers the notices that they come to. Whether there were any.
    fn poll(&self) -> io::Result<bool> {
        let mut batch = EventBatch::default();
        for _ in 0..FETCHES_MAX {
            if !self.inotify.take_events(|event| batch.add(event))? {
                break;
            }
        }
        let counts = &self.outlets.counts;
        counts.events.fetch_add(batch.events, Relaxed);
        counts.overflows.fetch_add(u64::from(batch.is_incomplete), Relaxed);
        let mut is_any_delivered = false;
        for (loop_index, notices) in self.notices_by_loop(&batch).into_iter().enumerate() {
            if !notices.is_empty() {
                (self.outlets.deliver)(loop_index, notices);
                is_any_delivered = true;
            }
        }
        Ok(is_any_delivered)
    }

    fn notices_by_loop(&self, batch: &EventBatch) -> Vec<Vec<Notice>> {
        let lost = if batch.is_incomplete { vec![Notice::Lost] } else { Vec::new() };
        let mut notices = vec![lost; self.outlets.loops];
        let mut subscribers = self.subscribers();
        for (&id, &is_gone) in &batch.folders {
            let Some(loops) = subscribers.get(&id) else { continue };
            let notice = if is_gone { Notice::Gone(id) } else { Notice::Changed(id) };
            loops.iter().for_each(|&loop_index| notices[loop_index].push(notice));
            if is_gone {
                // One that was moved is still watched.
                self.inotify.unwatch(id);
                subscribers.remove(&id);
            }
        }
        self.count_folders(&subscribers);
        notices
    }

    fn count_folders(&self, subscribers: &Subscribers) {
        self.outlets.counts.folders.store(subscribers.len() as u64, Relaxed);
    }

    /// Reports once that folders are not watched.
    fn report(&self, error: &io::Error) {
        if !self.is_reported.swap(true, Relaxed) {
            (self.outlets.report)(&report_of(error));
        }
    }

    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A message that folders are not watched, with the remedy.
fn report_of(error: &io::Error) -> String {
    let advice = match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => "raise fs.inotify.max_user_watches",
        Some(Errno::MFILE) => "raise fs.inotify.max_user_instances or LimitNOFILE=",
        Some(Errno::NOENT) => "check that /proc is mounted",
        _ => "check that the kernel supports inotify",
    };
    format!("cannot watch folders for changes: {error}; changes are detected after cache.age; {advice}")
}

impl Subscription {
    /// Subscribes to a folder that the calling thread has open.
    pub(crate) fn begin(&self, folder: &File) -> Result<WatchId, Unwatched> {
        let Self { shared, loop_index } = self;
        let mut subscribers = shared.subscribers();
        match shared.inotify.watch(folder) {
            Ok(id) => {
                let loops = subscribers.entry(id).or_default();
                if !loops.contains(loop_index) {
                    loops.push(*loop_index);
                }
                shared.count_folders(&subscribers);
                Ok(id)
            }
            Err(error) => {
                drop(subscribers);
                shared.outlets.counts.refused.fetch_add(1, Relaxed);
                // A folder that may be passed through and not read is the operator's intention.
                if matches!(Errno::from_io_error(&error), Some(Errno::ACCESS | Errno::PERM | Errno::NOTDIR)) {
                    return Err(Unwatched::Folder);
                }
                shared.report(&error);
                Err(Unwatched::All)
            }
        }
    }

    /// Ends the subscription to a folder.
    pub(crate) fn end(&self, id: WatchId) {
        let mut subscribers = self.shared.subscribers();
        let Some(loops) = subscribers.get_mut(&id) else { return };
        loops.retain(|&loop_index| loop_index != self.loop_index);
        if loops.is_empty() {
            self.shared.inotify.unwatch(id);
            subscribers.remove(&id);
        }
        self.shared.count_folders(&subscribers);
    }
}

/// For keeping it in a table of descriptors of a loop's own.
impl AsFd for Subscription {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.inotify.as_fd()
    }
}

/// Events by folder: many of one come to one notice.
#[derive(Default)]
struct EventBatch {
    /// With whether the watch is at its end.
    folders: HashMap<WatchId, bool, RandomState>,
    events: u64,
    is_incomplete: bool,
}

impl EventBatch {
    fn add(&mut self, event: Event) {
        self.events += 1;
        match event {
            Event::Changed(id) => {
                self.folders.entry(id).or_insert(false);
            }
            // A folder's name means more than the folder: what it leads to now is another one.
            Event::Moved(id) | Event::Ended(id) => {
                self.folders.insert(id, true);
            }
            Event::Overflow => self.is_incomplete = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::mpsc;

    use tempfile::TempDir;
    use thalweg_sys::Root;
    use thalweg_sys::resource_limits::own_table_with;

    use super::*;
    use crate::content::local::watch::test_watcher::TestWatcher;

    #[test]
    fn a_loop_with_a_table_of_its_own_may_be_the_last_to_release_the_watcher() {
        let wakers: Arc<[Waker]> = Arc::new([Waker::new().unwrap()]);
        let woken = Arc::clone(&wakers);
        let deliver = Box::new(move |loop_index: usize, _| woken[loop_index].wake());
        let outlets = Outlets { loops: 1, deliver, report: Box::new(|_| {}), counts: Arc::default() };
        let watcher = Watcher::without_thread(outlets).unwrap();
        let subscription = watcher.subscription(0);
        let (gone, goes) = mpsc::channel();
        let of_loop = thread::spawn(move || {
            own_table_with(&[subscription.as_fd(), wakers[0].as_fd()]).unwrap();
            goes.recv().unwrap();
            // To close what is not open in this table ends the process, in a build with checks.
            drop(subscription);
        });
        drop(watcher);
        gone.send(()).unwrap();
        of_loop.join().unwrap();
    }

    #[test]
    fn a_folder_is_watched_once_for_all_loops_until_the_last_wants_no_more() {
        let root = TempDir::new().unwrap();
        let folder = Root::open(root.path()).unwrap().open_beneath(c".").unwrap();
        let watcher = TestWatcher::with_loops(3);
        let subscriptions = [0, 2].map(|loop_index| watcher.subscription_of(loop_index));
        let ids = subscriptions.each_ref().map(|subscription| subscription.begin(&folder).unwrap());
        assert_eq!((ids[0], watcher.watched()), (ids[1], 1));
        let delivered = || {
            fs::write(root.path().join("file"), "text").unwrap();
            watcher.poll();
            [0, 1, 2].map(|loop_index| watcher.take(loop_index))
        };
        let changed = || vec![Notice::Changed(ids[0])];
        assert_eq!(delivered(), [changed(), vec![], changed()]);
        // The one that did not begin it ends nothing.
        watcher.subscription_of(1).end(ids[0]);
        subscriptions[0].end(ids[0]);
        assert_eq!((delivered(), watcher.watched()), ([vec![], vec![], changed()], 1));
        subscriptions[1].end(ids[0]);
        assert_eq!((delivered(), watcher.watched()), ([vec![], vec![], vec![]], 0));
    }

    #[test]
    fn the_thread_delivers_and_ends() {
        let root = TempDir::new().unwrap();
        let folder = Root::open(root.path()).unwrap().open_beneath(c".").unwrap();
        let (deliver, delivered) = mpsc::channel();
        let deliver = Box::new(move |loop_index, notices| deliver.send((loop_index, notices)).unwrap());
        let outlets = Outlets { loops: 1, deliver, report: Box::new(|_| {}), counts: Arc::default() };
        let watcher = Watcher::start(true, outlets).unwrap();
        let id = watcher.subscription(0).begin(&folder).unwrap();
        for name in ["a", "b"] {
            fs::write(root.path().join(name), "").unwrap();
            assert_eq!(delivered.recv().unwrap(), (0, vec![Notice::Changed(id)]));
        }
        let shared = Arc::downgrade(&watcher.shared);
        drop(watcher);
        while shared.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
