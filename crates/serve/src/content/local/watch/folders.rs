//! The folders of the files and listings that a loop has cached.
//!
//! A cached file or listing has an epoch: the count of changes when it was looked at. A notice
//! raises the count, and the folder remembers it: applying a notice costs the same for a folder of
//! one cached file as for one of a million, and a request for a file compares two numbers. Only if
//! they differ, the folder's own is compared.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::quality::RandomState;
use thalweg_sys::inotify::WatchId;
use thalweg_sys::{Instant, Wait};

use super::watcher::{Notice, Subscription, Unwatched};
use crate::content::local::miss::Miss;
use crate::content::local::namespace::{Namespace, Place};

/// No folder is watched anew for so long after the kernel has refused one.
const RETRY_NS: u64 = 10_000_000_000;

/// The folders of cached entries. There are no more of them than entries.
pub(crate) struct Folders<N: Namespace> {
    namespace: Arc<N>,
    /// `None`: nothing is watched.
    subscription: Option<Subscription>,
    /// By canonical names with the slash at their end, marked with the site.
    index: HashMap<Rc<[u8]>, FolderId, RandomState>,
    /// Several names may lead to one folder.
    watched: HashMap<WatchId, Vec<FolderId>, RandomState>,
    folders: Vec<Option<Folder>>,
    free: Vec<FolderId>,
    /// Counts the notices that were applied.
    changes: u64,
    /// The count when notices were lost.
    lost: u64,
    /// Until then nothing more is watched.
    rest_ends: Instant,
}

/// A folder of cached entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FolderId(u32);

impl FolderId {
    /// The folder of everything if nothing is watched.
    const NONE: Self = Self(u32::MAX);
}

struct Folder {
    name: Rc<[u8]>,
    site: usize,
    users: usize,
    watch: Option<WatchId>,
    /// The count of changes when it was watched, or last found to be the right one to watch.
    ensured: u64,
    /// Its watch may not be that of the folder which has the name now.
    is_doubtful: bool,
    /// The count of changes at which something of it has changed.
    changed: u64,
    retry_at: Instant,
}

impl<N: Namespace> Folders<N> {
    /// No folders yet.
    pub(crate) fn new(namespace: Arc<N>, subscription: Option<Subscription>) -> Self {
        Self {
            namespace,
            subscription,
            index: HashMap::default(),
            watched: HashMap::default(),
            folders: Vec::new(),
            free: Vec::new(),
            changes: 0,
            lost: 0,
            rest_ends: Instant::default(),
        }
    }

    /// The count of changes so far, which is the epoch of a file that is looked at now.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether a change of a folder was reported since an epoch, so that its files have to be
    /// looked at again.
    pub(crate) fn has_changed(&self, id: FolderId, since: u64) -> bool {
        self.folder(id).is_some_and(|folder| folder.changed.max(self.lost) > since)
    }

    /// Adds an entry of the folder with this canonical name, which is empty or ends with a slash.
    /// If the folder was not watched until now it counts as changed: the entry was looked at
    /// before.
    pub(crate) fn join(&mut self, site: usize, name: &[u8], wait: Wait, now: Instant) -> FolderId {
        if self.subscription.is_none() {
            return FolderId::NONE;
        }
        let mut key = if name.is_empty() { b"/".to_vec() } else { name.to_vec() };
        self.namespace.mark(&mut key, site);
        let id = self.index.get(key.as_slice()).copied().unwrap_or_else(|| self.add(key.into(), site));
        self.hold(id);
        self.ensure_watched(id, wait, now);
        id
    }

    /// Adds one more entry of a folder.
    pub(crate) fn hold(&mut self, id: FolderId) {
        if let Some(folder) = self.folder_mut(id) {
            folder.users += 1;
        }
    }

    /// The opposite of [`join`](Self::join) and [`hold`](Self::hold). With the last, the watch
    /// ends.
    pub(crate) fn leave(&mut self, id: FolderId) {
        let Some(folder) = self.folder_mut(id) else { return };
        folder.users -= 1;
        if folder.users == 0 {
            self.set_watch(id, None);
            if let Some(folder) = self.folders[id.0 as usize].take() {
                self.index.remove(&folder.name);
                self.free.push(id);
            }
        }
    }

    /// Doubts that the right folder is watched: a change was not reported, so that an ancestor may
    /// have been renamed.
    pub(crate) fn doubt(&mut self, id: FolderId) {
        if let Some(folder) = self.folder_mut(id) {
            folder.is_doubtful = true;
        }
    }

    /// Watches the folder that has the name now, if that is not known to be so already. To be
    /// called before something of it is looked at again.
    pub(crate) fn ensure_watched(&mut self, id: FolderId, wait: Wait, now: Instant) {
        let (lost, rest_ends) = (self.lost, self.rest_ends);
        let Some(folder) = self.folder_mut(id) else { return };
        let is_sure = folder.watch.is_some() && !folder.is_doubtful && folder.ensured >= lost;
        if is_sure || now < folder.retry_at.max(rest_ends) {
            return;
        }
        let (site, name) = (folder.site, Rc::clone(&folder.name));
        let opened = match self.namespace.place(site, self.namespace.unmarked(&name)) {
            Place::Within { tree, name, .. } => tree.open_folder(name, wait, &mut Vec::new()),
            Place::MountPoint | Place::Outside => Err(Miss::NOT_FOUND),
        };
        let begun = match (opened, &self.subscription) {
            (Ok(opened), Some(subscription)) => subscription.begin(&opened),
            // It is tried again with whatever is looked at next.
            (Err(Miss::WouldBlock), _) => return,
            _ => Err(Unwatched::Folder),
        };
        let is_new = self.set_watch(id, begun.ok());
        self.changes += u64::from(is_new);
        let changes = self.changes;
        if begun == Err(Unwatched::All) {
            self.rest_ends = now.plus_ns(RETRY_NS);
        }
        let Some(folder) = self.folder_mut(id) else { return };
        folder.ensured = changes;
        folder.is_doubtful = false;
        if begun.is_err() {
            folder.retry_at = now.plus_ns(RETRY_NS);
        } else if is_new {
            folder.changed = changes;
        }
    }

    /// Applies notices.
    pub(crate) fn apply(&mut self, notices: &[Notice]) {
        self.changes += 1;
        for notice in notices {
            let (id, is_gone) = match *notice {
                Notice::Changed(id) => (id, false),
                Notice::Gone(id) => (id, true),
                Notice::Lost => {
                    self.lost = self.changes;
                    continue;
                }
            };
            for folder in self.watched.get(&id).into_iter().flatten() {
                let Some(folder) = &mut self.folders[folder.0 as usize] else { continue };
                folder.changed = self.changes;
                folder.is_doubtful |= is_gone;
            }
        }
    }

    fn add(&mut self, name: Rc<[u8]>, site: usize) -> FolderId {
        let folder = Folder {
            name: Rc::clone(&name),
            site,
            users: 0,
            watch: None,
            ensured: 0,
            is_doubtful: false,
            changed: 0,
            retry_at: Instant::default(),
        };
        let id = self.free.pop().unwrap_or_else(|| {
            self.folders.push(None);
            FolderId(u32::try_from(self.folders.len() - 1).expect("files are fewer than that"))
        });
        self.folders[id.0 as usize] = Some(folder);
        self.index.insert(name, id);
        id
    }

    /// Gives a folder another watch. Whether it has a new one then.
    fn set_watch(&mut self, id: FolderId, watch: Option<WatchId>) -> bool {
        let Some(folder) = self.folder_mut(id) else { return false };
        let before = std::mem::replace(&mut folder.watch, watch);
        if before == watch {
            return false;
        }
        if let Some(before) = before
            && let Some(sharers) = self.watched.get_mut(&before)
        {
            sharers.retain(|&sharer| sharer != id);
            if sharers.is_empty() {
                self.watched.remove(&before);
                if let Some(subscription) = &self.subscription {
                    subscription.end(before);
                }
            }
        }
        if let Some(watch) = watch {
            self.watched.entry(watch).or_default().push(id);
        }
        watch.is_some()
    }

    fn folder(&self, id: FolderId) -> Option<&Folder> {
        self.folders.get(id.0 as usize)?.as_ref()
    }

    fn folder_mut(&mut self, id: FolderId) -> Option<&mut Folder> {
        self.folders.get_mut(id.0 as usize)?.as_mut()
    }
}

impl<N: Namespace> Drop for Folders<N> {
    /// The next configuration watches its own folders.
    fn drop(&mut self) {
        if let Some(subscription) = &self.subscription {
            self.watched.keys().for_each(|&id| subscription.end(id));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use tempfile::TempDir;

    use super::*;
    use crate::catalog::site::Sites;
    use crate::config::{ListenAddr, MountConfig, ServerConfig, SiteConfig};
    use crate::content::local::watch::test_watcher::TestWatcher;

    /// Two sites, with one tree beneath two paths of the first.
    struct Fixture {
        root: TempDir,
        watcher: TestWatcher,
        folders: Folders<Sites>,
    }

    impl Fixture {
        fn new() -> Self {
            let root = TempDir::new().unwrap();
            for folder in ["a/deep", "b"] {
                fs::create_dir_all(root.path().join(folder)).unwrap();
            }
            let mut config = ServerConfig::new(root.path(), Vec::<ListenAddr>::new());
            config.sites[0].mounts.push(MountConfig::new("/again/", root.path()));
            config.sites.push(SiteConfig { names: vec!["b.example".to_owned()], ..SiteConfig::new(root.path()) });
            let watcher = TestWatcher::new();
            let folders = Folders::new(Arc::new(Sites::open(&config).unwrap()), Some(watcher.subscription()));
            Self { root, watcher, folders }
        }

        fn join(&mut self, site: usize, name: &str) -> FolderId {
            self.folders.join(site, name.as_bytes(), Wait::Allowed, Instant::default())
        }

        fn write(&self, name: &str) {
            fs::write(self.root.path().join(name), "text").unwrap();
        }

        /// Whether a change of each folder was reported since the last call.
        fn reported<const N: usize>(&mut self, of: [FolderId; N]) -> [bool; N] {
            let before = self.folders.changes();
            self.watcher.apply_to(&mut self.folders);
            of.map(|id| self.folders.has_changed(id, before))
        }
    }

    #[test]
    fn a_change_is_reported_of_its_folder_by_all_names() {
        let mut fixture = Fixture::new();
        let ids = [(0, "a/"), (0, "again/a/"), (1, "a/"), (0, "b/"), (0, ""), (0, "a/deep/")];
        let ids = ids.map(|(site, name)| fixture.join(site, name));
        assert_eq!(fixture.watcher.watched(), 4);
        assert_eq!(fixture.reported(ids), [false; 6]);
        fixture.write("a/file");
        assert_eq!(fixture.reported(ids), [true, true, true, false, false, false]);
        fixture.write("file");
        assert_eq!(fixture.reported(ids), [false, false, false, false, true, false]);
        fixture.write("a/deep/file");
        assert_eq!(fixture.reported(ids), [false, false, false, false, false, true]);
        for id in ids {
            fixture.folders.leave(id);
        }
        assert_eq!(fixture.watcher.watched(), 0);
        assert!(fixture.folders.index.is_empty() && fixture.folders.watched.is_empty());
        fixture.write("a/other");
        assert!(!fixture.watcher.apply_to(&mut fixture.folders));
    }

    #[test]
    fn a_check_before_a_folder_was_watched_is_repeated() {
        let mut fixture = Fixture::new();
        let before = fixture.folders.changes();
        let first = fixture.join(0, "a/");
        assert!(fixture.folders.has_changed(first, before));
        let before = fixture.folders.changes();
        let second = fixture.join(0, "a/");
        assert!(second == first && !fixture.folders.has_changed(first, before));
        fixture.folders.leave(first);
        fixture.write("a/file");
        assert_eq!(fixture.reported([first]), [true], "an entry is left");
    }

    #[test]
    fn the_folder_that_has_the_name_now_is_watched() {
        let mut fixture = Fixture::new();
        let ids = [fixture.join(0, "a/"), fixture.join(0, "a/deep/")];
        fs::rename(fixture.root.path().join("a"), fixture.root.path().join("c")).unwrap();
        fs::create_dir_all(fixture.root.path().join("a/deep")).unwrap();
        // No change of the deeper one is reported.
        assert_eq!(fixture.reported(ids), [true, false]);
        fixture.write("a/file");
        assert_eq!(fixture.reported(ids), [false; 2]);
        // Age has shown that the deeper one is another, and the other is looked at since its change
        // was reported.
        fixture.folders.doubt(ids[1]);
        for id in ids {
            fixture.folders.ensure_watched(id, Wait::Allowed, Instant::default());
        }
        assert_eq!(fixture.watcher.watched(), 2);
        fixture.write("a/deep/file");
        fixture.write("c/file");
        assert_eq!(fixture.reported(ids), [false, true]);
        fixture.write("a/file");
        assert_eq!(fixture.reported(ids), [true, false]);
    }

    #[test]
    fn a_folder_that_was_deleted_is_watched_when_it_is_there_again() {
        let mut fixture = Fixture::new();
        let id = fixture.join(0, "b/");
        fs::remove_dir(fixture.root.path().join("b")).unwrap();
        assert_eq!(fixture.reported([id]), [true]);
        assert_eq!(fixture.watcher.watched(), 0);
        let before = fixture.folders.changes() - 1;
        fixture.folders.ensure_watched(id, Wait::Allowed, Instant::default());
        assert!(fixture.folders.has_changed(id, before), "it still has to be looked at");
        fs::create_dir(fixture.root.path().join("b")).unwrap();
        let later = Instant::default().plus_ns(RETRY_NS);
        fixture.folders.ensure_watched(id, Wait::Allowed, later);
        fixture.reported([id]);
        fixture.write("b/file");
        assert_eq!(fixture.reported([id]), [true]);
    }

    #[test]
    fn after_lost_notices_everything_is_in_doubt_once() {
        let mut fixture = Fixture::new();
        let ids = [fixture.join(0, "a/"), fixture.join(0, "b/")];
        let before = fixture.folders.changes();
        fixture.folders.apply(&[Notice::Lost]);
        assert!(ids.iter().all(|&id| fixture.folders.has_changed(id, before)));
        for id in ids {
            fixture.folders.ensure_watched(id, Wait::Allowed, Instant::default());
        }
        assert_eq!((fixture.watcher.watched(), fixture.folders.watched.len()), (2, 2));
        assert_eq!(fixture.reported(ids), [false; 2]);
        fixture.write("b/file");
        assert_eq!(fixture.reported(ids), [false, true]);
    }

    #[test]
    fn a_queue_that_runs_over_puts_everything_in_doubt_and_is_gone_on_with() {
        let mut fixture = Fixture::new();
        let ids = [fixture.join(0, "a/"), fixture.join(0, "b/")];
        let text = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let most: usize = text.trim().parse().unwrap();
        // Equal events that follow each other are made one.
        let files = ["a/even", "a/odd"].map(|name| fs::File::create(fixture.root.path().join(name)).unwrap());
        for number in 0..=most {
            files[number % 2].write_all_at(b"text", 0).unwrap();
        }
        assert_eq!(fixture.reported(ids), [true; 2]);
        assert_eq!(fixture.watcher.overflows(), 1);
        for id in ids {
            fixture.folders.ensure_watched(id, Wait::Allowed, Instant::default());
        }
        while fixture.watcher.apply_to(&mut fixture.folders) {}
        fixture.write("b/file");
        assert_eq!(fixture.reported(ids), [false, true]);
    }

    #[test]
    fn a_burst_is_told_once() {
        let mut fixture = Fixture::new();
        let id = fixture.join(0, "a/");
        for number in 0..1000 {
            fixture.write(&format!("a/{}", number % 7));
        }
        fixture.watcher.poll();
        let before = fixture.folders.changes();
        assert_eq!(fixture.reported([id]), [true]);
        assert_eq!(fixture.folders.changes(), before + 1);
    }

    #[test]
    fn another_configuration_lets_go_of_what_the_one_before_has_watched() {
        let mut fixture = Fixture::new();
        fixture.join(0, "a/");
        fixture.join(1, "b/");
        fixture.folders = Folders::new(Arc::clone(&fixture.folders.namespace), None);
        assert_eq!(fixture.watcher.watched(), 0);
        let id = fixture.join(0, "a/");
        assert_eq!((id, fixture.watcher.watched()), (FolderId::NONE, 0));
    }
}
