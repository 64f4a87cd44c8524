//! The files that a core knows: bounded in number, memory and age, and looked at again when their folder has changed.
//!
//! Keys are canonical names, chosen by whoever sends requests, hence a seeded hash. What is thrown out is chosen by the clock
//! algorithm (second chance): an entry that was used since the hand passed it is spared once. Refusals are not
//! kept, so that asking for what does not exist cannot drive out what does.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use foldhash::quality::RandomState;
use thalweg_sys::{FileChanged, Instant, Wait};

use crate::config::CacheConfig;
use crate::content::blocking_pool::{Job, JobKind, JobsDone};
use crate::content::local::loaded_file::LoadedFile;
use crate::content::local::namespace::Namespace;
use crate::content::local::resolve::{self, OpenFile, Resolution};
use crate::content::local::watch::{FolderId, Folders, Subscription};
use crate::content::name;
use crate::content::object::Object;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;

/// How often a file that changes while it is read is tried again.
const LOAD_ATTEMPTS: usize = 3;

/// The files of all sites, as far as they are known.
pub(crate) struct FileCache<N: Namespace> {
    namespace: Arc<N>,
    config: CacheConfig,
    /// The folders of these files, and of listings.
    pub(crate) folders: Folders<N>,
    age_ns: u64,
    places: HashMap<Rc<[u8]>, usize, RandomState>,
    entries: Vec<Option<Entry>>,
    /// Empty places among the entries.
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    /// Look-ups for which a file was opened, or looked at again.
    misses: u64,
    /// Room for a path with its NUL.
    path: Vec<u8>,
}

struct Entry {
    /// The canonical name, marked with the site.
    name: Rc<[u8]>,
    site: usize,
    mount: u16,
    folder: FolderId,
    object: Object,
    checked: Instant,
    /// Of what was told of its folder, how much it takes into account.
    epoch: u64,
    used: bool,
}

/// What a name leads to.
pub(crate) enum Lookup<'c> {
    /// A file, and the number of the mount that it is in.
    File(&'c mut Object, u16),
    /// A folder that was asked for without the slash at the end.
    Folder,
}

impl<N: Namespace> FileCache<N> {
    /// A cache that knows nothing yet. Without an ear it learns of changes by age alone.
    pub(crate) fn new(namespace: Arc<N>, config: CacheConfig, subscription: Option<Subscription>) -> Self {
        Self {
            folders: Folders::new(Arc::clone(&namespace), subscription),
            namespace,
            age_ns: u64::try_from(config.age.as_nanos()).unwrap_or(u64::MAX),
            config,
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            misses: 0,
            path: Vec::new(),
        }
    }

    /// The names of these files.
    #[inline]
    pub(crate) fn namespace(&self) -> &Arc<N> {
        &self.namespace
    }

    /// What a canonical name leads to in a site. If that cannot be said without waiting for a disk, it is [`Refusal::NotYet`], unless
    /// the [job](Self::opening) for it was done.
    #[inline]
    pub(crate) fn look_up(
        &mut self,
        site: usize,
        name: &mut Vec<u8>,
        done: JobsDone,
        date_cache: &DateCache,
        now: Instant,
    ) -> Result<Lookup<'_>, Refusal> {
        let name_bytes = name.len();
        self.namespace.mark(name, site);
        let place = match self.places.get(name.as_slice()) {
            Some(&place) => {
                self.entry_mut(place).used = true;
                if self.is_fresh(place, now) { Ok(Some(place)) } else { self.check_again(place, done, date_cache, now) }
            }
            None => self.open(site, name, done, date_cache, now),
        };
        name.truncate(name_bytes);
        Ok(match place? {
            Some(place) => {
                let entry = self.entry_mut(place);
                Lookup::File(&mut entry.object, entry.mount)
            }
            None => Lookup::Folder,
        })
    }

    /// Entries, bytes of memory, and misses so far.
    pub(crate) fn figures(&self) -> (usize, usize, u64) {
        (self.places.len(), self.bytes, self.misses)
    }

    /// The path of a file that has changed, if it is known. It looks at every entry.
    #[cold]
    pub(crate) fn name_of(&self, change: FileChanged) -> Option<String> {
        let mut entries = self.entries.iter().flatten();
        let entry = entries.find(|entry| entry.object.is_sent_from(change))?;
        Some(format!("/{}", String::from_utf8_lossy(self.namespace.unmarked(&entry.name)).trim_start_matches('/')))
    }

    /// Goes on counting misses where another cache has stopped.
    pub(crate) fn succeeding(mut self, other: &Self) -> Self {
        self.misses = other.misses;
        self
    }

    fn entry_mut(&mut self, place: usize) -> &mut Entry {
        self.entries[place].as_mut().expect("a name leads to an entry")
    }

    fn is_fresh(&mut self, place: usize, now: Instant) -> bool {
        let (age_ns, changes) = (self.age_ns, self.folders.changes());
        let entry = self.entry_mut(place);
        now.ns_since(entry.checked) < age_ns
            && !entry.object.has_changed()
            && (entry.epoch == changes || self.is_unconcerned(place))
    }

    /// Whether what was told lately is not about the folder of an entry.
    #[cold]
    fn is_unconcerned(&mut self, place: usize) -> bool {
        let entry = self.entries[place].as_mut().expect("a name leads to an entry");
        let is_concerned = self.folders.has_changed(entry.folder, entry.epoch);
        if !is_concerned {
            entry.epoch = self.folders.changes();
        }
        !is_concerned
    }

    /// Looks whether an entry still is what its name leads to, and replaces it if not.
    #[cold]
    fn check_again(
        &mut self,
        place: usize,
        done: JobsDone,
        date_cache: &DateCache,
        now: Instant,
    ) -> Result<Option<usize>, Refusal> {
        self.misses += 1;
        let entry = self.entries[place].as_mut().expect("a name leads to an entry");
        let (site, wait) = (entry.site, done.wait(JobKind::Open));
        let was_told = self.folders.has_changed(entry.folder, entry.epoch);
        self.folders.ensure_watched(entry.folder, wait, now);
        let epoch = self.folders.changes();
        let is_still =
            match resolve::open(&*self.namespace, site, self.namespace.unmarked(&entry.name), wait, &mut self.path) {
                Ok(Resolution::File(OpenFile { file, tree, .. })) => {
                    entry.object.is_still(&file, &mut |name| tree.open_companion(name, wait))
                }
                Ok(Resolution::Folder) => Ok(false),
                Err(refusal) => Err(refusal),
            };
        match is_still {
            Ok(true) => {
                (entry.checked, entry.epoch) = (now, epoch);
                Ok(Some(place))
            }
            // Better a file that was right a moment ago than none.
            Err(Refusal::Exhausted) => Ok(Some(place)),
            Err(Refusal::NotYet) => Err(Refusal::NotYet),
            _ => {
                if !was_told && !entry.object.is_unsettled() {
                    self.folders.doubt(entry.folder);
                }
                let (name, folder) = (Rc::clone(&entry.name), entry.folder);
                // What takes its place has the same folder most likely, which need not be watched anew.
                self.folders.hold(folder);
                self.remove(place);
                let opened = self.open(site, &name, done, date_cache, now);
                self.folders.leave(folder);
                opened
            }
        }
    }

    /// Opens what a marked name leads to and keeps it; `None` for a folder.
    #[cold]
    fn open(
        &mut self,
        site: usize,
        name: &[u8],
        done: JobsDone,
        date_cache: &DateCache,
        now: Instant,
    ) -> Result<Option<usize>, Refusal> {
        self.misses += 1;
        let mut refusal = Refusal::Failed;
        let epoch = self.folders.changes();
        for _ in 0..LOAD_ATTEMPTS {
            let (canonical, wait) = (self.namespace.unmarked(name), done.wait(JobKind::Open));
            let loaded = load(&*self.namespace, site, canonical, wait, &mut self.path, &self.config, date_cache);
            match loaded {
                Ok(None) => return Ok(None),
                Ok(Some((object, mount))) => {
                    let folder = self.folders.join(site, name::split(canonical).0, wait, now);
                    let name = Rc::from(name);
                    let entry = Entry { name, site, mount, folder, object, checked: now, epoch, used: false };
                    return Ok(Some(self.insert(entry)));
                }
                Err(Refusal::Failed) => {}
                Err(Refusal::Exhausted) => self.release_descriptors(),
                Err(other) => return Err(other),
            }
            refusal = loaded.err().unwrap_or(refusal);
        }
        Err(refusal)
    }

    /// What has to be done aside before a name that was [not yet](Refusal::NotYet) known is looked up again: the same as would be
    /// done here, with nothing kept but what the kernel keeps.
    #[cold]
    pub(crate) fn opening(&self, site: usize, name: &[u8], date_cache: &DateCache) -> Job {
        let (namespace, config, date_cache) = (Arc::clone(&self.namespace), self.config.clone(), date_cache.clone());
        let mut key = name.to_vec();
        self.namespace.mark(&mut key, site);
        let name = name.to_vec();
        let work = move || {
            let mut path = Vec::new();
            drop(load(&*namespace, site, &name, Wait::Allowed, &mut path, &config, &date_cache));
        };
        Job { kind: JobKind::Open, key, work: Box::new(work) }
    }

    fn insert(&mut self, entry: Entry) -> usize {
        let name = Rc::clone(&entry.name);
        let bytes = name.len() + entry.object.bytes();
        while !self.places.is_empty()
            && (self.places.len() >= self.config.entries_max || self.bytes + bytes > self.config.bytes_max)
        {
            self.evict_one();
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        self.entries[place] = Some(entry);
        self.places.insert(name, place);
        self.bytes += bytes;
        place
    }

    /// Throws out the next entry that was not used since the hand passed it last.
    fn evict_one(&mut self) {
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.entries.len();
            match &mut self.entries[place] {
                Some(entry) if entry.used => entry.used = false,
                Some(_) => return self.remove(place),
                None => {}
            }
        }
    }

    fn remove(&mut self, place: usize) {
        if let Some(entry) = self.entries[place].take() {
            self.places.remove(&entry.name);
            self.bytes -= entry.name.len() + entry.object.bytes();
            self.folders.leave(entry.folder);
            self.free.push(place);
        }
    }

    /// Lets go of all open files, except for those that are being sent.
    #[cold]
    pub(crate) fn release_descriptors(&mut self) {
        for place in 0..self.entries.len() {
            if self.entries[place].as_ref().is_some_and(|entry| entry.object.holds_descriptor()) {
                self.remove(place);
            }
        }
    }
}

/// Opens what a canonical name leads to and makes it ready, with the number of its mount; `None` for a folder. `path` is room to
/// write in.
fn load(
    namespace: &impl Namespace,
    site: usize,
    name: &[u8],
    wait: Wait,
    path: &mut Vec<u8>,
    config: &CacheConfig,
    date_cache: &DateCache,
) -> Result<Option<(Object, u16)>, Refusal> {
    match resolve::open(namespace, site, name, wait, path)? {
        Resolution::Folder => Ok(None),
        Resolution::File(OpenFile { file, policy, tree, mount }) => {
            let small_bytes_max = config.small_file_bytes_max;
            let mut open = |name: &[u8]| tree.open_companion(name, wait);
            let loaded = LoadedFile::read(file, path, &policy, small_bytes_max, &mut open)?;
            Ok(Some((Object::new(loaded, path, &policy, date_cache), mount)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, symlink};
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;
    use crate::catalog::site::Sites;
    use crate::config::{ListenAddr, Rule, ServerConfig, Settings};
    use crate::content::local::watch::test_watcher::TestWatcher;

    const AGE_NS: u64 = 1_000_000_000;

    fn cache(dir: &Path, entries_max: usize, bytes_max: usize) -> FileCache<Sites> {
        cache_of(dir, entries_max, bytes_max, None)
    }

    fn cache_of(
        dir: &Path,
        entries_max: usize,
        bytes_max: usize,
        subscription: Option<Subscription>,
    ) -> FileCache<Sites> {
        let config = CacheConfig { entries_max, bytes_max, small_file_bytes_max: 100, ..CacheConfig::default() };
        let mut server = ServerConfig::new(dir, Vec::<ListenAddr>::new());
        let settings = Settings { precompressed: Some(true), ..Settings::default() };
        server.sites[0].rules.push(Rule { settings, ..Rule::default() });
        FileCache::new(Arc::new(Sites::open(&server).unwrap()), config, subscription)
    }

    /// Far ahead of the files' time stamps: all of them are settled.
    fn date_cache() -> DateCache {
        DateCache::new(|_| 10_000_000_000, Instant::default())
    }

    fn body(cache: &mut FileCache<Sites>, name: &str, now: Instant) -> Result<Vec<u8>, Refusal> {
        match cache.look_up(0, &mut name.into(), JobsDone::NOTHING.and(JobKind::Open), &date_cache(), now)? {
            Lookup::Folder => Ok(b"folder".to_vec()),
            Lookup::File(object, _) => Ok(object.bytes_in_memory().unwrap().to_vec()),
        }
    }

    #[test]
    fn a_change_is_seen_when_the_entry_has_aged() {
        let dir = TempDir::new().unwrap();
        let mut cache = cache(dir.path(), 10, 10_000);
        fs::write(dir.path().join("a"), "old").unwrap();
        let start = Instant::from_ns(5);
        assert_eq!(body(&mut cache, "a", start).unwrap(), b"old");
        fs::write(dir.path().join("new"), "newer").unwrap();
        fs::rename(dir.path().join("new"), dir.path().join("a")).unwrap();
        assert_eq!(body(&mut cache, "a", start.plus_ns(AGE_NS - 1)).unwrap(), b"old");
        assert_eq!(body(&mut cache, "a", start.plus_ns(AGE_NS)).unwrap(), b"newer");
        fs::remove_file(dir.path().join("a")).unwrap();
        assert_eq!(body(&mut cache, "a", start.plus_ns(3 * AGE_NS)), Err(Refusal::NotFound));
        assert!(cache.places.is_empty());
        assert_eq!(cache.bytes, 0);
    }

    #[test]
    fn a_change_whose_modification_time_was_put_back_is_seen_and_has_another_tag() {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("a");
        let mut cache = cache(dir.path(), 10, 10_000);
        let mut tag_and_body = |now| {
            let found =
                cache.look_up(0, &mut "a".into(), JobsDone::NOTHING.and(JobKind::Open), &date_cache(), now).unwrap();
            let Lookup::File(object, _) = found else { panic!("a folder") };
            let tag = object.validators().etag.unwrap().opaque.to_vec();
            (tag, object.bytes_in_memory().unwrap().to_vec())
        };
        fs::write(&path, "old").unwrap();
        let before = fs::metadata(&path).unwrap();
        let first = tag_and_body(Instant::from_ns(0));
        fs::write(&path, "new").unwrap();
        let changed = |state: &fs::Metadata| (state.ctime(), state.ctime_nsec());
        let file = fs::File::options().write(true).open(&path).unwrap();
        // More than once where the clock's ticks are long, on kernels before 6.13.
        while {
            file.set_modified(before.modified().unwrap()).unwrap();
            changed(&file.metadata().unwrap()) == changed(&before)
        } {}
        let second = tag_and_body(Instant::from_ns(AGE_NS));
        assert_eq!([&*first.1, &*second.1], [b"old", b"new"]);
        assert_ne!(first.0, second.0);
        // Another name is another state too, as far as a tag can tell.
        fs::hard_link(&path, dir.path().join("b")).unwrap();
        assert_ne!(tag_and_body(Instant::from_ns(2 * AGE_NS)).0, second.0);
    }

    /// What happens to files, and what is there afterwards.
    type Step = (fn(&Path), &'static [(&'static str, Result<&'static str, Refusal>)]);

    #[test]
    fn what_is_told_is_seen_long_before_the_entry_has_aged() {
        let write = |path: &Path, text: &str| fs::write(path, text).unwrap();
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        write(&dir.path().join("sub/a"), "old");
        let watcher = TestWatcher::new();
        let mut cache = cache_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
        let steps: [Step; 7] = [
            (|_| {}, &[("sub/a", Ok("old")), ("sub/b", Err(Refusal::NotFound)), ("sub/", Err(Refusal::NotFound))]),
            (|dir| fs::write(dir.join("sub/a"), "written").unwrap(), &[("sub/a", Ok("written"))]),
            (
                |dir| {
                    fs::write(dir.join("new"), "renamed over").unwrap();
                    fs::rename(dir.join("new"), dir.join("sub/a")).unwrap();
                },
                &[("sub/a", Ok("renamed over"))],
            ),
            (|dir| fs::write(dir.join("sub/index.html"), "index").unwrap(), &[("sub/", Ok("index"))]),
            (|dir| fs::remove_file(dir.join("sub/index.html")).unwrap(), &[("sub/", Err(Refusal::NotFound))]),
            (|dir| fs::remove_file(dir.join("sub/a")).unwrap(), &[("sub/a", Err(Refusal::NotFound))]),
            (|dir| fs::write(dir.join("sub/a"), "again").unwrap(), &[("sub/a", Ok("again"))]),
        ];
        for (number, (change, expected)) in steps.into_iter().enumerate() {
            change(dir.path());
            watcher.apply_to(&mut cache.folders);
            for &(name, expected) in expected {
                for round in 0..3 {
                    let found = body(&mut cache, name, Instant::from_ns(5));
                    let expected = expected.map(|text| text.as_bytes().to_vec());
                    assert_eq!(found, expected, "step {number}, {name}, round {round}");
                }
            }
        }
    }

    #[test]
    fn a_neighbour_that_comes_and_goes_is_seen_at_once() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a"), "old").unwrap();
        let watcher = TestWatcher::new();
        let mut cache = cache_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
        let mut has_variants = || {
            watcher.apply_to(&mut cache.folders);
            let done = JobsDone::NOTHING.and(JobKind::Open);
            match cache.look_up(0, &mut "a".into(), done, &date_cache(), Instant::default()).unwrap() {
                Lookup::File(object, _) => object.has_variants(),
                Lookup::Folder => panic!("a folder"),
            }
        };
        assert!(!has_variants());
        fs::write(dir.path().join("a.gz"), "gz").unwrap();
        assert!(has_variants());
        fs::remove_file(dir.path().join("a.gz")).unwrap();
        assert!(!has_variants());
    }

    #[test]
    fn nothing_is_looked_at_while_nothing_is_told_of_its_folder() {
        let dir = TempDir::new().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("file"), "text").unwrap();
        }
        let watcher = TestWatcher::new();
        let mut cache = cache_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
        let mut misses = |name: &str| {
            watcher.apply_to(&mut cache.folders);
            let before = cache.misses;
            body(&mut cache, name, Instant::default()).unwrap();
            cache.misses - before
        };
        // A folder is watched after its first file was read, which is why that is looked at once more.
        for (name, expected) in [("a/file", 1), ("a/file", 1), ("b/file", 1), ("b/file", 1), ("a/file", 0)] {
            assert_eq!(misses(name), expected, "{name}");
        }
        fs::write(dir.path().join("a/other"), "text").unwrap();
        for (name, expected) in [("b/file", 0), ("a/file", 1), ("a/other", 1), ("a/other", 0), ("a/file", 0)] {
            assert_eq!(misses(name), expected, "{name}");
        }
        assert_eq!(watcher.watched(), 2);
    }

    #[test]
    fn there_are_no_more_watches_than_files_known() {
        let dir = TempDir::new().unwrap();
        let watcher = TestWatcher::new();
        let mut cache = cache_of(dir.path(), 3, 10_000, Some(watcher.subscription()));
        for index in 0..20 {
            fs::create_dir(dir.path().join(index.to_string())).unwrap();
            fs::write(dir.path().join(format!("{index}/file")), "text").unwrap();
            body(&mut cache, &format!("{index}/file"), Instant::default()).unwrap();
            body(&mut cache, &format!("{index}/missing"), Instant::default()).unwrap_err();
            assert!(watcher.watched() <= 3);
        }
        fs::remove_dir_all(dir.path()).unwrap();
        watcher.apply_to(&mut cache.folders);
        for index in 0..20 {
            body(&mut cache, &format!("{index}/file"), Instant::default()).unwrap_err();
        }
        assert_eq!(watcher.watched(), 0);
    }

    #[test]
    fn age_finds_what_is_not_told_and_has_the_right_folder_watched() {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("above/sub")).unwrap();
        fs::write(dir.path().join("above/sub/a"), "old").unwrap();
        let watcher = TestWatcher::new();
        let mut cache = cache_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
        let mut found = |at_ns| {
            watcher.apply_to(&mut cache.folders);
            String::from_utf8(body(&mut cache, "above/sub/a", Instant::from_ns(at_ns)).unwrap()).unwrap()
        };
        assert_eq!([found(0), found(1)], ["old", "old"]);
        fs::rename(dir.path().join("above"), dir.path().join("aside")).unwrap();
        fs::create_dir_all(dir.path().join("above/sub")).unwrap();
        fs::write(dir.path().join("above/sub/a"), "new").unwrap();
        assert_eq!([found(AGE_NS), found(AGE_NS + 1), found(AGE_NS + 2)], ["old", "new", "new"]);
        fs::write(dir.path().join("above/sub/a"), "newer").unwrap();
        assert_eq!(found(AGE_NS + 3), "newer");
    }

    #[test]
    fn a_file_read_right_after_a_change_is_read_again_whatever_its_stamp() {
        let dir = TempDir::new().unwrap();
        let mut cache = cache(dir.path(), 10, 10_000);
        fs::write(dir.path().join("a"), "old").unwrap();
        // 1970: before any change, as a clock that has just changed would be.
        let at_once = DateCache::new(|_| 0, Instant::default());
        cache.look_up(0, &mut "a".into(), JobsDone::NOTHING.and(JobKind::Open), &at_once, Instant::default()).unwrap();
        let first = Rc::clone(&cache.entries[0].as_mut().unwrap().object.rendering().bytes);
        cache
            .look_up(0, &mut "a".into(), JobsDone::NOTHING.and(JobKind::Open), &at_once, Instant::from_ns(AGE_NS))
            .unwrap();
        assert!(!Rc::ptr_eq(&cache.entries[0].as_mut().unwrap().object.rendering().bytes, &first));
    }

    #[test]
    fn number_and_bytes_are_bounded() {
        let dir = TempDir::new().unwrap();
        for index in 0..100 {
            fs::write(dir.path().join(format!("{index}")), "x".repeat(50)).unwrap();
        }
        let mut few = cache(dir.path(), 7, 1 << 20);
        let mut small = cache(dir.path(), 100, 2000);
        for round in 0..3 {
            for index in 0..100 {
                let name = index.to_string();
                body(&mut few, &name, Instant::from_ns(round)).unwrap();
                body(&mut small, &name, Instant::from_ns(round)).unwrap();
                assert!(few.places.len() <= 7 && few.entries.len() <= 7);
                assert!(small.bytes <= 2000, "{}", small.bytes);
            }
        }
        assert_eq!(few.places.len(), 7);
        assert!(small.places.len() > 1);
    }

    #[test]
    fn what_is_used_stays() {
        let dir = TempDir::new().unwrap();
        for index in 0..50 {
            fs::write(dir.path().join(format!("{index}")), "x").unwrap();
        }
        let mut cache = cache(dir.path(), 5, 1 << 20);
        for index in 1..50 {
            body(&mut cache, "0", Instant::default()).unwrap();
            body(&mut cache, &index.to_string(), Instant::default()).unwrap();
            assert!(cache.places.contains_key(b"0".as_slice()), "after {index} others");
        }
    }

    #[test]
    fn an_entry_larger_than_the_bound_is_served_all_the_same() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("a"), "x").unwrap();
        let mut cache = cache(dir.path(), 5, 10);
        assert_eq!(body(&mut cache, "a", Instant::default()).unwrap(), b"x");
    }

    #[test]
    fn only_what_lies_beneath_the_root_is_found() {
        let outside = TempDir::new().unwrap();
        fs::write(outside.path().join("secret"), "secret").unwrap();
        let dir = TempDir::new().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/index.html"), "index").unwrap();
        fs::write(dir.path().join("a"), "a").unwrap();
        symlink("../a", dir.path().join("sub/inside")).unwrap();
        symlink(outside.path().join("secret"), dir.path().join("absolute")).unwrap();
        symlink("../../../../../../../etc/passwd", dir.path().join("relative")).unwrap();
        symlink("loop", dir.path().join("loop")).unwrap();
        let long = "x".repeat(300);
        let mut cache = cache(dir.path(), 10, 10_000);
        for (name, expected) in [
            ("sub", Ok("folder")),
            ("sub/", Ok("index")),
            ("sub/inside", Ok("a")),
            ("/", Err(Refusal::NotFound)),
            ("a/", Err(Refusal::NotFound)),
            ("absolute", Err(Refusal::NotFound)),
            ("relative", Err(Refusal::NotFound)),
            ("loop", Err(Refusal::NotFound)),
            ("../a", Err(Refusal::NotFound)),
            (&long, Err(Refusal::NotFound)),
        ] {
            let found = body(&mut cache, name, Instant::default());
            assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{name}");
        }
    }
}
