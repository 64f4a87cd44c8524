//! The local origin: objects of the files in trees.
//!
//! A file that was loaded is kept open in a cache and is taken to be unchanged for a while: until
//! it has aged, or a change of its folder is reported. Then its state is compared with that of the
//! file which has the name now. The loop does all this as long as nothing has to wait for a disk;
//! else a job does it.

use std::rc::Rc;
use std::sync::Arc;

use thalweg_sys::{FileChanged, Instant, Wait};

use crate::config::CacheConfig;
use crate::content::blocking_pool::{Job, JobKind};
use crate::content::local::file_cache::{Entry, FileCache};
use crate::content::local::loaded_file::LoadedFile;
use crate::content::local::metadata::{FileState, object_of};
use crate::content::local::miss::Miss;
use crate::content::local::namespace::Namespace;
use crate::content::local::resolve::{self, OpenFile, Resolution};
use crate::content::local::watch::{Folders, Subscription};
use crate::content::name;
use crate::content::object::Object;
use crate::content::origin::{Opening, Origin, Outcome};
use crate::content::policy::ResponsePolicy;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;

/// A file that changes while it is read is tried so often.
const LOAD_ATTEMPTS: usize = 3;

/// The files of all sites, as far as they are known.
pub(crate) struct LocalOrigin<N: Namespace> {
    namespace: Arc<N>,
    cache: FileCache,
    /// The folders of these files, and of listings.
    pub(crate) folders: Folders<N>,
    age_ns: u64,
    small_file_bytes_max: usize,
    /// Look-ups for which a file was opened, or looked at again.
    misses: u64,
    /// Room for a path with its NUL.
    path: Vec<u8>,
}

/// The result of a job: a file that was loaded.
pub(crate) struct Loaded<N> {
    /// The namespace that the name was looked up in.
    namespace: Arc<N>,
    site: usize,
    /// The canonical name, marked with the site.
    key: Box<[u8]>,
    /// The job was submitted then, after so many changes of folders.
    submitted: Instant,
    epoch: u64,
    /// `None` for a folder.
    content: Result<Option<LoadedContent>, Refusal>,
}

/// A loaded file and what holds for it.
struct LoadedContent {
    file: LoadedFile,
    policy: Arc<ResponsePolicy>,
    mount: u16,
    /// The path beneath the root of its tree.
    path: Vec<u8>,
}

/// When, and after how many changes of folders, a file was known to have its state.
#[derive(Clone, Copy)]
struct Freshness {
    checked: Instant,
    epoch: u64,
}

/// The present of a look-up.
#[derive(Clone, Copy)]
struct Present {
    /// Seconds since 1970-01-01 UTC.
    second: i64,
    now: Instant,
    wait: Wait,
}

impl<N: Namespace> Origin for LocalOrigin<N> {
    type Loaded = Loaded<N>;

    #[inline]
    fn open(
        &mut self,
        site: usize,
        name: &mut Vec<u8>,
        outcome: Option<Outcome>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Opening<'_, Loaded<N>> {
        let is_waited_for = match outcome {
            None | Some(Outcome::Void) => false,
            Some(Outcome::Ready) => true,
            Some(Outcome::Folder) => return Opening::Folder,
            Some(Outcome::Refused(refusal)) => return Opening::Refused(refusal),
        };
        let name_bytes = name.len();
        self.namespace.mark(name, site);
        let found = self.cache.find(name);
        if let Some(slot) = found {
            // A request that has waited is the one that the file was loaded for.
            self.cache.entry_mut(slot).is_used |= !is_waited_for;
        }
        let slot = match found {
            Some(slot) if self.is_fresh(slot, now) => Ok(Some(slot)),
            found => self.open_stale(site, name, found, is_waited_for, date_cache, now),
        };
        let job = if slot == Err(Miss::WouldBlock) { Some(self.job(site, name, now)) } else { None };
        name.truncate(name_bytes);
        match (slot, job) {
            (Ok(Some(slot)), _) => {
                let entry = self.cache.entry_mut(slot);
                Opening::Object(&mut entry.object, entry.mount)
            }
            (Ok(None), _) => Opening::Folder,
            (Err(_), Some(job)) => Opening::Pending(Box::new(job)),
            (Err(miss), None) => Opening::Refused(miss.into()),
        }
    }

    #[cold]
    fn complete(&mut self, loaded: Loaded<N>, date_cache: &DateCache, now: Instant) -> Outcome {
        let Loaded { namespace, site, key, submitted, epoch, content } = loaded;
        if !Arc::ptr_eq(&namespace, &self.namespace) {
            return Outcome::Void;
        }
        match content {
            Ok(Some(content)) => {
                let freshness = Freshness { checked: submitted, epoch };
                let present = Present { second: date_cache.second(), now, wait: Wait::Never };
                self.keep(site, &key, content, freshness, present);
                Outcome::Ready
            }
            Ok(None) => {
                self.forget(&key);
                Outcome::Folder
            }
            Err(Refusal::Exhausted) => {
                // Better a file that was right a moment ago than none; without one, the loop tries
                // once more with what this releases.
                if self.cache.find(&key).is_none() {
                    self.release_descriptors();
                }
                Outcome::Ready
            }
            Err(refusal) => {
                self.forget(&key);
                Outcome::Refused(refusal)
            }
        }
    }
}

impl<N: Namespace> LocalOrigin<N> {
    /// An origin that knows nothing yet. Without a subscription it learns of changes by age alone.
    pub(crate) fn new(namespace: Arc<N>, config: &CacheConfig, subscription: Option<Subscription>) -> Self {
        Self {
            folders: Folders::new(Arc::clone(&namespace), subscription),
            namespace,
            cache: FileCache::new(config.entries_max, config.bytes_max),
            age_ns: u64::try_from(config.age.as_nanos()).unwrap_or(u64::MAX),
            small_file_bytes_max: config.small_file_bytes_max,
            misses: 0,
            path: Vec::new(),
        }
    }

    /// The names of its files.
    #[inline]
    pub(crate) fn namespace(&self) -> &Arc<N> {
        &self.namespace
    }

    /// Opens an object without a job, at the cost of waiting for a disk; `None` if there is none.
    #[cold]
    pub(crate) fn open_waiting(
        &mut self,
        site: usize,
        name: &[u8],
        date_cache: &DateCache,
        now: Instant,
    ) -> Option<&mut Object> {
        let mut key = name.to_vec();
        self.namespace.mark(&mut key, site);
        let present = Present { second: date_cache.second(), now, wait: Wait::Allowed };
        let slot = match self.cache.find(&key) {
            Some(slot) if self.is_fresh(slot, now) => slot,
            Some(slot) => self.check(slot, present).ok()??,
            None => self.load(site, &key, present).ok()??,
        };
        Some(&mut self.cache.entry_mut(slot).object)
    }

    /// Entries, bytes of memory, and misses so far.
    pub(crate) fn figures(&self) -> (usize, usize, u64) {
        let (entries, bytes) = self.cache.size();
        (entries, bytes, self.misses)
    }

    /// The path of a file that has changed, if it is known. Each entry is looked at.
    #[cold]
    pub(crate) fn name_of(&self, change: FileChanged) -> Option<String> {
        let entry = self.cache.entries().find(|entry| entry.object.is_sent_from(change))?;
        Some(format!("/{}", String::from_utf8_lossy(self.namespace.unmarked(&entry.key)).trim_start_matches('/')))
    }

    /// Goes on counting misses where another origin has stopped.
    pub(crate) fn succeeding(mut self, other: &Self) -> Self {
        self.misses = other.misses;
        self
    }

    /// Closes all open files, except for those that are being sent.
    #[cold]
    pub(crate) fn release_descriptors(&mut self) {
        for entry in self.cache.remove_all(|entry| entry.object.holds_descriptor()) {
            self.folders.leave(entry.folder);
        }
    }

    #[inline]
    fn is_fresh(&mut self, slot: usize, now: Instant) -> bool {
        let (age_ns, changes) = (self.age_ns, self.folders.changes());
        let entry = self.cache.entry_mut(slot);
        now.ns_since(entry.checked) < age_ns
            && !entry.object.has_changed()
            && (entry.epoch == changes || self.is_unconcerned(slot))
    }

    /// Whether no change since the entry's epoch is of its folder.
    #[cold]
    fn is_unconcerned(&mut self, slot: usize) -> bool {
        let entry = self.cache.entry_mut(slot);
        let is_concerned = self.folders.has_changed(entry.folder, entry.epoch);
        if !is_concerned {
            entry.epoch = self.folders.changes();
        }
        !is_concerned
    }

    /// Opens a marked name of which no fresh entry is known; `None` for a folder.
    #[cold]
    fn open_stale(
        &mut self,
        site: usize,
        key: &[u8],
        found: Option<usize>,
        is_waited_for: bool,
        date_cache: &DateCache,
        now: Instant,
    ) -> Result<Option<usize>, Miss> {
        let wait = if is_waited_for { Wait::Allowed } else { Wait::Never };
        let present = Present { second: date_cache.second(), now, wait };
        match found {
            // A file that was loaded for a request is good enough for it, however fast it ages.
            Some(slot) if is_waited_for && !self.cache.entry_mut(slot).object.has_changed() => Ok(Some(slot)),
            Some(slot) => self.check(slot, present),
            None => self.load(site, key, present),
        }
    }

    /// Compares an entry with the file that has its name now, and loads that if it is another one
    /// or has changed.
    fn check(&mut self, slot: usize, present: Present) -> Result<Option<usize>, Miss> {
        self.misses += 1;
        let Present { now, wait, .. } = present;
        let entry = self.cache.entry_mut(slot);
        self.folders.ensure_watched(entry.folder, wait, now);
        let (site, epoch) = (entry.site, self.folders.changes());
        let name = self.namespace.unmarked(&entry.key);
        let is_current = match resolve::open(&*self.namespace, site, name, wait, &mut self.path) {
            Ok(Resolution::File(OpenFile { file, tree, .. })) => {
                entry.state.is_of(&file, &mut |name| tree.open_companion(name, wait))
            }
            Ok(Resolution::Folder) => Ok(false),
            Err(miss) => Err(miss),
        };
        match is_current {
            Ok(true) => {
                (entry.checked, entry.epoch) = (now, epoch);
                Ok(Some(slot))
            }
            // Better a file that was right a moment ago than none.
            Err(Miss::EXHAUSTED) => Ok(Some(slot)),
            Err(Miss::WouldBlock) => Err(Miss::WouldBlock),
            _ => {
                let key = Rc::clone(&entry.key);
                self.load(site, &key, present)
            }
        }
    }

    /// Loads the file that a marked name leads to; `None` for a folder.
    fn load(&mut self, site: usize, key: &[u8], present: Present) -> Result<Option<usize>, Miss> {
        self.misses += 1;
        let freshness = Freshness { checked: present.now, epoch: self.folders.changes() };
        let mut content = self.read(site, key, present.wait);
        if let Err(Miss::EXHAUSTED) = content {
            self.release_descriptors();
            content = self.read(site, key, present.wait);
        }
        match content {
            Ok(Some(content)) => Ok(Some(self.keep(site, key, content, freshness, present))),
            other => {
                self.forget(key);
                other.map(|_| None)
            }
        }
    }

    fn read(&mut self, site: usize, key: &[u8], wait: Wait) -> Result<Option<LoadedContent>, Miss> {
        let name = self.namespace.unmarked(key);
        LoadedContent::read(&*self.namespace, site, name, wait, &mut self.path, self.small_file_bytes_max)
    }

    /// The job that loads the file which a marked name leads to.
    #[cold]
    fn job(&self, site: usize, key: &[u8], now: Instant) -> Job<Loaded<N>> {
        let (namespace, small_bytes_max) = (Arc::clone(&self.namespace), self.small_file_bytes_max);
        let result = {
            let (namespace, key, epoch) = (Arc::clone(&self.namespace), Box::from(key), self.folders.changes());
            move |content| Loaded { namespace, site, key, submitted: now, epoch, content }
        };
        let name: Vec<u8> = self.namespace.unmarked(key).into();
        let work = result.clone();
        let work = move || {
            let mut path = Vec::new();
            let content = LoadedContent::read(&*namespace, site, &name, Wait::Allowed, &mut path, small_bytes_max);
            work(content.map_err(Refusal::from))
        };
        Job::new(JobKind::Open, key.to_vec(), result(Err(Refusal::Failed)), work)
    }

    /// Keeps a loaded file. Its slot.
    fn keep(
        &mut self,
        site: usize,
        key: &[u8],
        content: LoadedContent,
        Freshness { checked, epoch }: Freshness,
        Present { second, now, wait }: Present,
    ) -> usize {
        let LoadedContent { file, policy, mount, path } = content;
        let (object, state) = object_of(file, &path, &policy, second);
        let known = self.cache.find(key).map(|slot| (slot, self.cache.entry_mut(slot).folder));
        if let Some((slot, folder)) = known {
            let entry = self.cache.entry_mut(slot);
            if is_same(entry, &state) {
                self.folders.ensure_watched(folder, wait, now);
                (entry.checked, entry.epoch) = (checked, epoch);
                return slot;
            }
            // The new entry has the same folder, which need not be watched anew.
            self.folders.hold(folder);
            self.remove_outdated(slot);
        }
        let folder = self.folders.join(site, name::split(self.namespace.unmarked(key)).0, wait, now);
        if let Some((_, folder)) = known {
            self.folders.leave(folder);
        }
        let key = Rc::from(key);
        let entry = Entry { key, site, mount, folder, object, state, checked, epoch, is_used: false };
        while let Some(evicted) = self.cache.evict_for(&entry) {
            self.folders.leave(evicted.folder);
        }
        self.cache.insert(entry)
    }

    /// Removes the entry of a marked name, whose file has gone.
    fn forget(&mut self, key: &[u8]) {
        if let Some(slot) = self.cache.find(key) {
            self.remove_outdated(slot);
        }
    }

    /// Removes an entry whose file has changed. If no change of its folder was reported, another
    /// folder may be watched in its place.
    fn remove_outdated(&mut self, slot: usize) {
        let Some(entry) = self.cache.remove(slot) else { return };
        if !self.folders.has_changed(entry.folder, entry.epoch) && !entry.state.is_unsettled() {
            self.folders.doubt(entry.folder);
        }
        self.folders.leave(entry.folder);
    }
}

/// Whether an entry is of the file that was read with this state.
fn is_same(entry: &Entry, state: &FileState) -> bool {
    entry.state == *state && !state.is_unsettled() && !entry.object.has_changed()
}

impl LoadedContent {
    /// Opens and reads the file that a name leads to; `None` for a folder. `path` is room to write
    /// in.
    fn read(
        namespace: &impl Namespace,
        site: usize,
        name: &[u8],
        wait: Wait,
        path: &mut Vec<u8>,
        small_bytes_max: usize,
    ) -> Result<Option<Self>, Miss> {
        let mut attempts = 1;
        loop {
            match Self::read_once(namespace, site, name, wait, path, small_bytes_max) {
                Err(Miss::FAILED) if attempts < LOAD_ATTEMPTS => attempts += 1,
                content => return content,
            }
        }
    }

    fn read_once(
        namespace: &impl Namespace,
        site: usize,
        name: &[u8],
        wait: Wait,
        path: &mut Vec<u8>,
        small_bytes_max: usize,
    ) -> Result<Option<Self>, Miss> {
        let OpenFile { file, policy, tree, mount } = match resolve::open(namespace, site, name, wait, path)? {
            Resolution::File(file) => file,
            Resolution::Folder => return Ok(None),
        };
        let mut open = |name: &[u8]| tree.open_companion(name, wait);
        let file = LoadedFile::read(file, path, &policy, small_bytes_max, &mut open)?;
        Ok(Some(Self { file, policy, mount, path: path.clone() }))
    }
}

#[cfg(test)]
mod tests;
