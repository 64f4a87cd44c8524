//! The thread that hears of changes, and who is to be told of them.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use foldhash::quality::RandomState;
use rustix::io::Errno;
use thalweg_sys::inotify::{Event, Inotify, WatchId};
use thalweg_sys::{File, Waker};

use crate::config::Level;
use crate::log::ErrorLog;
use crate::metrics::Observed;
use crate::orders::Inbox;

/// How long the thread rests after it has told of changes. However fast a folder changes, its files are looked at no more often than
/// this allows; the kernel's queue of 16,384 events runs over at 300,000 a second.
const REST: Duration = Duration::from_millis(50);

/// How often events are fetched before what they come to is told.
const FETCHES_MAX: usize = 64;

/// What a core is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// Something in the folder has changed.
    Changed(WatchId),
    /// The same, and the watch is no more.
    Gone(WatchId),
    /// Notices were lost: anything may have changed, and any watch may be no more.
    Lost,
}

/// The thread. It ends when this is dropped.
pub(crate) struct Watcher {
    shared: Arc<Shared>,
    ending: Arc<Ending>,
}

/// How the thread is ended. Not for cores: a core with a table of descriptors of its own does not have this one there, and must not be the last
/// to let go of it.
struct Ending {
    waker: Waker,
    is_over: AtomicBool,
}

/// A core's end: what it wants to hear of.
#[derive(Clone)]
pub(crate) struct Ear {
    shared: Arc<Shared>,
    core: usize,
}

/// Why a folder is not watched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unwatched {
    /// This one cannot be.
    Folder,
    /// None can be, for now.
    All,
}

struct Shared {
    inotify: Inotify,
    /// Who wants to hear of what. Watches begin and end while this is locked, so that no core ends what another begins.
    listeners: Mutex<HashMap<WatchId, Vec<usize>, RandomState>>,
    inboxes: Arc<[Inbox]>,
    wakers: Arc<[Waker]>,
    observed: Arc<Observed>,
    error_log: ErrorLog,
    /// It was said that there are folders which are not watched.
    has_complained: AtomicBool,
}

impl Watcher {
    /// Starts the thread, which belongs into the process's own table of descriptors. If the kernel has no queue or thread for it there is
    /// none, which is said if anybody wants to hear of changes now; the next configuration may, too.
    pub(crate) fn start(
        is_wanted: bool,
        (inboxes, wakers): (&Arc<[Inbox]>, &Arc<[Waker]>),
        observed: &Arc<Observed>,
        error_log: &ErrorLog,
    ) -> Option<Self> {
        let prepared =
            Self::without_thread(Arc::clone(inboxes), Arc::clone(wakers), Arc::clone(observed), error_log.clone());
        let started = prepared.and_then(|watcher| {
            let (shared, ending) = (Arc::clone(&watcher.shared), Arc::clone(&watcher.ending));
            thread::Builder::new().name("watch".to_owned()).spawn(move || shared.run(&ending)).map(|_| watcher)
        });
        match started {
            Ok(watcher) => Some(watcher),
            Err(error) => {
                if is_wanted {
                    complain(error_log, &error);
                }
                None
            }
        }
    }

    /// The same, for those who look by themselves.
    ///
    /// # Errors
    /// The kernel gives no queue.
    pub(crate) fn without_thread(
        inboxes: Arc<[Inbox]>,
        wakers: Arc<[Waker]>,
        observed: Arc<Observed>,
        error_log: ErrorLog,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inotify: Inotify::open()?,
            listeners: Mutex::default(),
            inboxes,
            wakers,
            observed,
            error_log,
            has_complained: AtomicBool::new(false),
        });
        Ok(Self { shared, ending: Arc::new(Ending { waker: Waker::new()?, is_over: AtomicBool::new(false) }) })
    }

    /// A core's end.
    pub(crate) fn ear(&self, core: usize) -> Ear {
        Ear { shared: Arc::clone(&self.shared), core }
    }

    /// Tells what has happened until now. Whether there was anything to tell.
    #[cfg(test)]
    pub(crate) fn look(&self) -> bool {
        self.shared.look().unwrap()
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
    fn run(&self, ending: &Ending) {
        loop {
            let told = self.inotify.wait(&ending.waker).and_then(|()| self.look());
            if ending.is_over.load(Relaxed) {
                return;
            }
            if let Err(error) = told {
                return self.complain(&error);
            }
            // Who is to end is woken from this too.
            ending.waker.wait(REST);
        }
    }

    /// Takes in events, and tells those who want to hear of them. Whether anybody was told.
    fn look(&self) -> io::Result<bool> {
        let mut gathered = Gathered::default();
        for _ in 0..FETCHES_MAX {
            if !self.inotify.take_events(|event| gathered.take_in(event))? {
                break;
            }
        }
        let counts = &self.observed.watch;
        counts.events.fetch_add(gathered.events, Relaxed);
        counts.overflows.fetch_add(u64::from(gathered.is_incomplete), Relaxed);
        let mut is_told = false;
        for (core, notices) in
            self.address(&gathered).into_iter().enumerate().filter(|(_, notices)| !notices.is_empty())
        {
            self.inboxes[core].notify(notices, &self.wakers[core]);
            is_told = true;
        }
        Ok(is_told)
    }

    /// What each core is to be told.
    fn address(&self, gathered: &Gathered) -> Vec<Vec<Notice>> {
        let lost = if gathered.is_incomplete { vec![Notice::Lost] } else { Vec::new() };
        let mut told = vec![lost; self.inboxes.len()];
        let mut listeners = self.listeners();
        for (&id, &is_gone) in &gathered.folders {
            let Some(cores) = listeners.get(&id) else { continue };
            let notice = if is_gone { Notice::Gone(id) } else { Notice::Changed(id) };
            cores.iter().for_each(|&core| told[core].push(notice));
            if is_gone {
                // One that was moved is still watched.
                self.inotify.unwatch(id);
                listeners.remove(&id);
            }
        }
        self.publish(&listeners);
        told
    }

    fn publish(&self, listeners: &MutexGuard<'_, HashMap<WatchId, Vec<usize>, RandomState>>) {
        self.observed.watch.folders.store(listeners.len() as u64, Relaxed);
    }

    /// Says once that folders are not watched.
    fn complain(&self, error: &io::Error) {
        if !self.has_complained.swap(true, Relaxed) {
            complain(&self.error_log, error);
        }
    }

    fn listeners(&self) -> MutexGuard<'_, HashMap<WatchId, Vec<usize>, RandomState>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Says that folders are not watched, and what to do about it.
fn complain(error_log: &ErrorLog, error: &io::Error) {
    let advice = match Errno::from_io_error(error) {
        Some(Errno::NOSPC) => "raise fs.inotify.max_user_watches",
        Some(Errno::MFILE) => "raise fs.inotify.max_user_instances or LimitNOFILE=",
        Some(Errno::NOENT) => "see that /proc is mounted",
        _ => "see that the kernel allows inotify",
    };
    error_log.say(
        Level::Warning,
        format_args!("cannot watch folders for changes: {error}; changes are seen when cache.age has passed; {advice}"),
    );
}

impl Ear {
    /// Wants to hear of a folder that the calling thread has open.
    pub(crate) fn begin(&self, folder: &File) -> Result<WatchId, Unwatched> {
        let Self { shared, core } = self;
        let mut listeners = shared.listeners();
        match shared.inotify.watch(folder) {
            Ok(id) => {
                let cores = listeners.entry(id).or_default();
                if !cores.contains(core) {
                    cores.push(*core);
                }
                shared.publish(&listeners);
                Ok(id)
            }
            Err(error) => {
                drop(listeners);
                shared.observed.watch.refused.fetch_add(1, Relaxed);
                // What may be passed through and not read is the operator's intention.
                if matches!(Errno::from_io_error(&error), Some(Errno::ACCESS | Errno::PERM | Errno::NOTDIR)) {
                    return Err(Unwatched::Folder);
                }
                shared.complain(&error);
                Err(Unwatched::All)
            }
        }
    }

    /// Wants to hear no more of it.
    pub(crate) fn end(&self, id: WatchId) {
        let mut listeners = self.shared.listeners();
        let Some(cores) = listeners.get_mut(&id) else { return };
        cores.retain(|&core| core != self.core);
        if cores.is_empty() {
            self.shared.inotify.unwatch(id);
            listeners.remove(&id);
        }
        self.shared.publish(&listeners);
    }
}

/// For keeping it in a table of descriptors of a core's own.
impl AsFd for Ear {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.inotify.as_fd()
    }
}

/// Events by folder: many of one are told as one.
#[derive(Default)]
struct Gathered {
    /// With whether the watch is at its end.
    folders: HashMap<WatchId, bool, RandomState>,
    events: u64,
    is_incomplete: bool,
}

impl Gathered {
    fn take_in(&mut self, event: Event) {
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

    use tempfile::TempDir;
    use thalweg_sys::Root;
    use thalweg_sys::resource_limits::own_table_with;

    use super::*;
    use crate::orders::Order;
    use crate::watch::tests::Teller;

    #[test]
    fn a_core_with_a_table_of_its_own_may_be_the_last_to_let_go() {
        let wakers: Arc<[Waker]> = Arc::new([Waker::new().unwrap()]);
        let error_log = ErrorLog::new(std::sync::mpsc::sync_channel(1).0, Level::Error);
        let (inboxes, observed) = (Arc::new([Inbox::default()]), Arc::new(Observed::new(1, false)));
        let watcher = Watcher::without_thread(inboxes, Arc::clone(&wakers), observed, error_log).unwrap();
        let (ear, kept) = (watcher.ear(0), Arc::clone(&wakers));
        let (gone, goes) = std::sync::mpsc::channel();
        let core = thread::spawn(move || {
            own_table_with(&[ear.as_fd(), kept[0].as_fd()]).unwrap();
            goes.recv().unwrap();
            // To close what is not open in this table ends the process, in a build with checks.
            drop(ear);
        });
        drop(watcher);
        gone.send(()).unwrap();
        core.join().unwrap();
    }

    #[test]
    fn a_folder_is_watched_once_for_all_cores_until_the_last_wants_no_more() {
        let root = TempDir::new().unwrap();
        let folder = Root::open(root.path()).unwrap().open_beneath(c".").unwrap();
        let inboxes: Arc<[Inbox]> = (0..3).map(|_| Inbox::default()).collect();
        let teller = Teller::of(Arc::clone(&inboxes));
        let ears = [0, 2].map(|core| teller.ear_of(core));
        let ids = ears.each_ref().map(|ear| ear.begin(&folder).unwrap());
        assert_eq!((ids[0], teller.watched()), (ids[1], 1));
        let told = || {
            fs::write(root.path().join("file"), "text").unwrap();
            teller.look();
            let notices = |inbox: &Inbox| match inbox.take().as_slice() {
                [] => Vec::new(),
                [Order::Heed(notices)] => notices.clone(),
                other => panic!("{other:?}"),
            };
            inboxes.iter().map(notices).collect::<Vec<_>>()
        };
        let changed = || vec![Notice::Changed(ids[0])];
        assert_eq!(told(), [changed(), vec![], changed()]);
        // The one who did not begin it ends nothing.
        teller.ear_of(1).end(ids[0]);
        ears[0].end(ids[0]);
        assert_eq!((told(), teller.watched()), (vec![vec![], vec![], changed()], 1));
        ears[1].end(ids[0]);
        assert_eq!((told(), teller.watched()), (vec![vec![]; 3], 0));
    }

    #[test]
    fn the_thread_tells_and_ends() {
        let root = TempDir::new().unwrap();
        let folder = Root::open(root.path()).unwrap().open_beneath(c".").unwrap();
        let inboxes: Arc<[Inbox]> = Arc::new([Inbox::default()]);
        let wakers: Arc<[Waker]> = Arc::new([Waker::new().unwrap()]);
        let observed = Arc::new(Observed::new(1, false));
        let error_log = ErrorLog::new(std::sync::mpsc::sync_channel(1).0, Level::Error);
        let watcher = Watcher::start(true, (&inboxes, &wakers), &observed, &error_log).unwrap();
        let id = watcher.ear(0).begin(&folder).unwrap();
        for name in ["a", "b"] {
            fs::write(root.path().join(name), "").unwrap();
            let told = loop {
                match inboxes[0].take().pop() {
                    Some(order) => break order,
                    None => thread::yield_now(),
                }
            };
            assert!(matches!(&told, Order::Heed(notices) if notices[..] == [Notice::Changed(id)]), "{told:?}");
        }
        let shared = Arc::downgrade(&watcher.shared);
        drop(watcher);
        while shared.upgrade().is_some() {
            thread::yield_now();
        }
    }
}
