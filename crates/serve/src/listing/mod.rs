//! Listings: what a folder without an index is shown as.
//!
//! [`Listings`] keeps, per core and bounded in bytes, what was read of folders and the pages that were made of it; a page is an
//! [`Object`] like any file, so that conditions, HEAD and ranges mean the same. Reading and rendering are a [`Task`], which is done
//! aside because it may take long, and whose outcome is taken in when the request is answered again.
//!
//! Lacking on purpose: scripts, thumbnails, search, and a tree that is walked.

mod index;
mod json;
mod natural;
mod page;
mod read;
mod style;
mod text;
mod view;

use std::collections::HashMap;
use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::quality::RandomState;
use thalweg_sys::Instant;

use self::read::{Folder, Made, Task, Trust};
use self::style::{Style, Styles};
use self::view::View;
use crate::catalog::site::Sites;
use crate::config::{CacheConfig, Settings};
use crate::content::blocking_pool::{Job, JobKind, JobsDone};
use crate::content::local::namespace::Namespace;
use crate::content::local::watch::{FolderId, Folders};
use crate::content::object::Object;
use crate::content::refusal::Refusal;
use crate::date_cache::DateCache;

/// A file that grows in place leaves no trace in its folder: without one, a folder is read again after this long.
const READ_AGAIN_NS: u64 = 10_000_000_000;

/// Nor is a folder looked at more often than this times its number of entries, about twenty times what reading takes:
/// however often it changes, and whoever asks for it, reading it cannot become the server's main work.
const REST_NS_PER_ENTRY: u64 = 50_000;

/// Most pages of a folder, and most folders, that are kept.
const PAGES_MAX: usize = 16;
const FOLDERS_MAX: usize = 1024;

/// Most refusals that wait for those whose folders were refused.
const REFUSALS_MAX: usize = 1024;

/// What a request for a folder says.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) site: usize,
    /// The folder's canonical name.
    pub(crate) name: &'a [u8],
    pub(crate) query: Option<&'a [u8]>,
}

/// The folders that a core knows.
pub(crate) struct Listings {
    sites: Arc<Sites>,
    styles: Styles,
    age_ns: u64,
    bytes_max: usize,
    /// By canonical names that are marked with the site.
    folders: HashMap<Box<[u8]>, Known, RandomState>,
    bytes: usize,
    /// Counts uses, to tell what was used last.
    uses: u64,
    outcomes: Arc<Outcomes>,
    /// Those of the folders that were refused lately.
    refused: Vec<(Box<[u8]>, Refusal)>,
}

/// What was done aside and not taken in yet.
type Outcomes = Mutex<Vec<Outcome>>;

/// What came of a task.
struct Outcome {
    key: Box<[u8]>,
    made: Result<Made, Refusal>,
    epoch: Heard,
}

/// How much of what was told of a folder is taken into account. It holds the folder, so that one is told of it.
#[derive(Clone, Copy)]
struct Heard {
    folder: FolderId,
    changes: u64,
}

/// A folder, and what was made of it.
struct Known {
    folder: Arc<Folder>,
    read: Instant,
    checked: Instant,
    epoch: Heard,
    used: u64,
    pages: Vec<MadePage>,
}

struct MadePage {
    view: View,
    object: Object,
    used: u64,
}

/// What a request is for, looked up.
struct Wanted {
    key: Box<[u8]>,
    settings: Arc<Settings>,
    style: Arc<Style>,
    view: View,
}

impl Listings {
    /// Listings that know nothing yet.
    pub(crate) fn new(sites: Arc<Sites>, cache: &CacheConfig) -> Self {
        Self {
            sites,
            styles: Styles::default(),
            age_ns: u64::try_from(cache.age.as_nanos()).unwrap_or(u64::MAX),
            bytes_max: cache.listing_bytes_max,
            folders: HashMap::default(),
            bytes: 0,
            uses: 0,
            outcomes: Arc::default(),
            refused: Vec::new(),
        }
    }

    /// The page that a request asks for. If it is not there it is [`Refusal::NotYet`], unless the [job](Self::making) for it was
    /// done.
    #[cold]
    pub(crate) fn look_up(
        &mut self,
        asked: Asked<'_>,
        done: JobsDone,
        folders: &mut Folders<Sites>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Result<&mut Object, Refusal> {
        let Wanted { key, style, view, .. } = self.wanted(asked).ok_or(Refusal::NotFound)?;
        self.take_in_outcomes(folders, now);
        let was_made = done.has(JobKind::List);
        if was_made && let Some(&(_, refusal)) = self.refused.iter().find(|(refused, _)| *refused == key) {
            return Err(refusal);
        }
        let age_ns = self.age_ns;
        let is_fresh = |known: &Known| now.ns_since(known.checked) < known.fresh_ns(age_ns, folders);
        // What was made for a request is good enough for it, however fast it ages. If it has gone already, there is too little
        // memory for all that is asked for at once.
        let missing = if was_made { Refusal::Exhausted } else { Refusal::NotYet };
        let known = self.folders.get_mut(&key).filter(|known| was_made || is_fresh(known)).ok_or(missing)?;
        if known.folder.pages(&style) <= u64::from(view.page) {
            return Err(Refusal::NotFound);
        }
        self.uses += 1;
        known.used = self.uses;
        let page = known.pages.iter_mut().find(|page| page.view == view).ok_or(missing)?;
        page.used = self.uses;
        Ok(&mut page.object)
    }

    /// What has to be done aside before a page that was [not yet](Refusal::NotYet) there is looked up again.
    #[cold]
    pub(crate) fn making(
        &mut self,
        asked: Asked<'_>,
        done: JobsDone,
        folders: &mut Folders<Sites>,
        date_cache: &DateCache,
        now: Instant,
    ) -> Job {
        let wanted = self.wanted(asked).expect("what is not listed is refused before");
        let Wanted { key, settings, style, view } = wanted;
        self.refused.retain(|(refused, _)| *refused != key);
        let folder = folders.join(asked.site, asked.name, done.wait(JobKind::Open), now);
        let mut epoch = Heard { folder, changes: folders.changes() };
        let known = self.folders.get(&key).map(|known| {
            let was_told = folders.has_changed(known.epoch.folder, known.epoch.changes);
            let trust = if now.ns_since(known.checked) < known.fresh_ns(self.age_ns, folders) {
                epoch.changes = known.epoch.changes;
                Trust::Blind
            } else if !was_told && now.ns_since(known.read) < READ_AGAIN_NS {
                Trust::Checked
            } else {
                Trust::None
            };
            (Arc::clone(&known.folder), trust)
        });
        let is_made = self.folders.get(&key).is_some_and(|known| known.pages.iter().any(|page| page.view == view));
        let task = Task {
            sites: Arc::clone(&self.sites),
            site: asked.site,
            name: asked.name.into(),
            settings,
            style,
            view,
            known,
            is_made,
            index_bytes_max: self.bytes_max / 2,
            now_s: date_cache.second(),
        };
        let job_key = [&*key, view.link().as_bytes()].concat();
        let outcomes = Arc::clone(&self.outcomes);
        let work = move || {
            let outcome = Outcome { made: task.run(), key, epoch };
            outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(outcome);
        };
        Job { kind: JobKind::List, key: job_key, work: Box::new(work) }
    }

    /// `None` if the folder is not listed.
    fn wanted(&mut self, asked: Asked<'_>) -> Option<Wanted> {
        let folder = if asked.name == b"/" { b"" } else { asked.name };
        let settings = self.sites.site(asked.site).settings(folder, None);
        if settings.listing != Some(true) {
            return None;
        }
        let style = self.styles.of(&settings)?;
        let mut key = asked.name.to_vec();
        self.sites.mark(&mut key, asked.site);
        Some(Wanted { key: key.into(), settings, style, view: View::parse(asked.query) })
    }

    /// Keeps what was done aside.
    fn take_in_outcomes(&mut self, folders: &mut Folders<Sites>, now: Instant) {
        let outcomes = mem::take(&mut *self.outcomes.lock().unwrap_or_else(PoisonError::into_inner));
        for Outcome { key, made, epoch } in outcomes {
            match made {
                Ok(made) => {
                    let known = self.renewed(&key, made, epoch, (folders, now));
                    self.keep(key, known, folders);
                }
                Err(refusal) => {
                    folders.leave(epoch.folder);
                    self.forget(&key, folders);
                    if self.refused.len() >= REFUSALS_MAX {
                        self.refused.clear();
                    }
                    self.refused.push((key, refusal));
                }
            }
        }
    }

    /// What is known of a folder with what was made.
    fn renewed(
        &mut self,
        key: &[u8],
        made: Made,
        epoch: Heard,
        (folders, now): (&mut Folders<Sites>, Instant),
    ) -> Known {
        let Made { view, was_checked, folder, page, policy } = made;
        self.uses += 1;
        let used = self.uses;
        let before = self.take_out(key);
        if let Some(before) = &before {
            folders.leave(before.epoch.folder);
        }
        let mut known = match before {
            Some(known) if Arc::ptr_eq(&known.folder, &folder) => {
                let (checked, changes) =
                    if was_checked { (now, epoch.changes) } else { (known.checked, known.epoch.changes) };
                Known { checked, epoch: Heard { changes, ..epoch }, used, ..known }
            }
            _ => Known { folder, read: now, checked: now, epoch, used, pages: Vec::new() },
        };
        if let Some(page) = page {
            known.pages.retain(|made| made.view != view);
            if known.pages.len() >= PAGES_MAX {
                let oldest = known.pages.iter().enumerate().min_by_key(|(_, page)| page.used).map(|(at, _)| at);
                oldest.map(|at| known.pages.swap_remove(at));
            }
            let object = Object::of_page(&page.body, page.tag, page.last_modified, policy);
            known.pages.push(MadePage { view, object, used });
        }
        known
    }

    fn keep(&mut self, key: Box<[u8]>, known: Known, folders: &mut Folders<Sites>) {
        let bytes = known.bytes(&key);
        while !self.folders.is_empty() && (self.folders.len() >= FOLDERS_MAX || self.bytes + bytes > self.bytes_max) {
            self.evict_one(folders);
        }
        self.bytes += bytes;
        self.folders.insert(key, known);
    }

    fn take_out(&mut self, key: &[u8]) -> Option<Known> {
        let known = self.folders.remove(key)?;
        self.bytes -= known.bytes(key);
        Some(known)
    }

    fn forget(&mut self, key: &[u8], folders: &mut Folders<Sites>) {
        if let Some(known) = self.take_out(key) {
            folders.leave(known.epoch.folder);
        }
    }

    fn evict_one(&mut self, folders: &mut Folders<Sites>) {
        let oldest = self.folders.iter().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
        if let Some(key) = oldest {
            self.forget(&key, folders);
        }
    }
}

impl Known {
    fn bytes(&self, key: &[u8]) -> usize {
        key.len() + self.folder.bytes() + self.pages.iter().map(|page| page.object.bytes()).sum::<usize>()
    }

    /// For how long it is relied on after it was looked at.
    fn fresh_ns(&self, age_ns: u64, folders: &Folders<Sites>) -> u64 {
        if folders.has_changed(self.epoch.folder, self.epoch.changes) {
            self.rest_ns()
        } else {
            age_ns.max(self.rest_ns())
        }
    }

    /// For how long it is left alone after it was looked at.
    fn rest_ns(&self) -> u64 {
        REST_NS_PER_ENTRY.saturating_mul(self.folder.entries())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;
    use crate::config::{ListenAddr, ListingStyle, Rule, ServerConfig};
    use crate::content::local::watch::test_watcher::TestWatcher;

    const SECOND_NS: u64 = 1_000_000_000;

    fn listings(root: &Path, listing_bytes_max: usize, page_entries: usize) -> Listings {
        let mut config = ServerConfig::new(root, Vec::<ListenAddr>::new());
        let listing_style = Some(ListingStyle { page_entries, ..ListingStyle::default() });
        let settings = Settings { listing: Some(true), listing_style, ..Settings::default() };
        config.sites[0].rules.push(Rule { settings, ..Rule::default() });
        let cache = CacheConfig { listing_bytes_max, age: Duration::from_secs(1), ..CacheConfig::default() };
        Listings::new(Arc::new(Sites::open(&config).unwrap()), &cache)
    }

    /// Far ahead of the folders' time stamps: all of them are settled.
    fn date_cache() -> DateCache {
        DateCache::new(|_| 10_000_000_000, Instant::default())
    }

    fn asked<'a>(name: &'a str, query: &'a str) -> Asked<'a> {
        Asked { site: 0, name: name.as_bytes(), query: Some(query.as_bytes()) }
    }

    /// For listings of which nothing is told.
    fn unwatched(listings: &Listings) -> Folders<Sites> {
        Folders::new(Arc::clone(&listings.sites), None)
    }

    fn page(
        listings: &mut Listings,
        folders: &mut Folders<Sites>,
        asked: Asked<'_>,
        done: JobsDone,
        now: Instant,
    ) -> Result<String, Refusal> {
        let object = listings.look_up(asked, done, folders, &date_cache(), now)?;
        Ok(String::from_utf8(crate::http::h1::batch::rendered(object, &date_cache())).unwrap())
    }

    /// The page, and whether something had to be done for it.
    fn made(listings: &mut Listings, asked: Asked<'_>, at_ns: u64) -> Result<(String, bool), Refusal> {
        let mut folders = unwatched(listings);
        made_of(listings, &mut folders, asked, at_ns)
    }

    /// The same, with what is told of folders.
    fn made_of(
        listings: &mut Listings,
        folders: &mut Folders<Sites>,
        asked: Asked<'_>,
        at_ns: u64,
    ) -> Result<(String, bool), Refusal> {
        let now = Instant::from_ns(at_ns);
        match page(listings, folders, asked, JobsDone::NOTHING, now) {
            Err(Refusal::NotYet) => {
                (listings.making(asked, JobsDone::NOTHING, folders, &date_cache(), now).work)();
                Ok((page(listings, folders, asked, JobsDone::NOTHING.and(JobKind::List), now)?, true))
            }
            page => Ok((page?, false)),
        }
    }

    #[test]
    fn a_folder_is_looked_at_again_when_it_has_aged() {
        let root = TempDir::new().unwrap();
        fs::write(root.path().join("file"), "12345").unwrap();
        let mut listings = listings(root.path(), 1 << 20, 10);
        let mut check = |at_ns, expected: &[&str], expected_work| {
            let (text, work) = made(&mut listings, asked("/", "format=json"), at_ns).unwrap();
            assert!(expected.iter().all(|expected| text.contains(expected)), "{at_ns}: {text}");
            assert_eq!(work, expected_work, "{at_ns}");
        };
        check(0, &["\"size\":5"], true);
        check(SECOND_NS - 1, &["\"size\":5"], false);
        fs::write(root.path().join("file"), "123").unwrap();
        // The folder looks the same.
        check(SECOND_NS, &["\"size\":5"], true);
        check(2 * SECOND_NS - 1, &["\"size\":5"], false);
        check(READ_AGAIN_NS, &["\"size\":3"], true);
        fs::write(root.path().join("new"), "").unwrap();
        check(READ_AGAIN_NS + SECOND_NS - 1, &["\"files\":1"], false);
        check(READ_AGAIN_NS + SECOND_NS, &["\"files\":2", "\"name\":\"new\""], true);
    }

    #[test]
    fn what_is_told_of_a_folder_is_seen_at_once() {
        let root = TempDir::new().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir(root.path().join(folder)).unwrap();
            fs::write(root.path().join(folder).join("file"), "12345").unwrap();
        }
        let mut listings = listings(root.path(), 1 << 20, 10);
        listings.age_ns = 3600 * SECOND_NS;
        let watcher = TestWatcher::new();
        let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
        let mut check = |name, at_ns, expected: &str, expected_work| {
            watcher.apply_to(&mut folders);
            let asked = asked(name, "format=json");
            let (text, work) = made_of(&mut listings, &mut folders, asked, at_ns).unwrap();
            assert!(text.contains(expected), "{name} {at_ns}: {text}");
            assert_eq!(work, expected_work, "{name} {at_ns}");
        };
        for name in ["a/", "b/"] {
            check(name, 0, "\"size\":5", true);
            check(name, SECOND_NS, "\"size\":5", false);
        }
        // A file that grows, which leaves no trace in its folder.
        fs::write(root.path().join("a/file"), "123456").unwrap();
        check("a/", 2 * SECOND_NS, "\"size\":6", true);
        check("b/", 2 * SECOND_NS, "\"size\":5", false);
        fs::write(root.path().join("a/new"), "").unwrap();
        check("a/", 3 * SECOND_NS, "\"name\":\"new\"", true);
        // However often it changes, the folder is left in peace for a time.
        fs::remove_file(root.path().join("a/new")).unwrap();
        check("a/", 3 * SECOND_NS + 2 * REST_NS_PER_ENTRY - 1, "\"name\":\"new\"", false);
        check("a/", 3 * SECOND_NS + 2 * REST_NS_PER_ENTRY, "\"files\":1", true);
        check("a/", 4 * SECOND_NS, "\"files\":1", false);
    }

    #[test]
    fn a_change_while_a_folder_is_read_is_seen() {
        let root = TempDir::new().unwrap();
        let mut listings = listings(root.path(), 1 << 20, 10);
        listings.age_ns = 3600 * SECOND_NS;
        let watcher = TestWatcher::new();
        let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
        let asked = asked("/", "format=json");
        let job = listings.making(asked, JobsDone::NOTHING, &mut folders, &date_cache(), Instant::default());
        (job.work)();
        // It was read, and the outcome is not taken in yet.
        fs::write(root.path().join("new"), "").unwrap();
        watcher.apply_to(&mut folders);
        let done = JobsDone::NOTHING.and(JobKind::List);
        let text = page(&mut listings, &mut folders, asked, done, Instant::from_ns(1)).unwrap();
        assert!(text.contains("\"files\":0"), "{text}");
        let (text, work) = made_of(&mut listings, &mut folders, asked, SECOND_NS).unwrap();
        assert!(work && text.contains("\"files\":1"), "{text}");
    }

    #[test]
    fn watching_ends_with_what_is_known() {
        let root = TempDir::new().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir(root.path().join(folder)).unwrap();
        }
        // Room for one folder only.
        let mut listings = listings(root.path(), 0, 10);
        let watcher = TestWatcher::new();
        let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
        for (at, name) in ["a/", "b/", "a/", "a/"].into_iter().enumerate() {
            made_of(&mut listings, &mut folders, asked(name, ""), at as u64 * SECOND_NS).unwrap();
            assert_eq!(watcher.watched(), 1, "{at}: {name}");
        }
        fs::remove_dir(root.path().join("a")).unwrap();
        watcher.apply_to(&mut folders);
        assert_eq!(made_of(&mut listings, &mut folders, asked("a/", ""), 9 * SECOND_NS).err(), Some(Refusal::NotFound));
        assert_eq!(watcher.watched(), 0);
    }

    #[test]
    fn a_large_folder_is_left_alone_for_longer() {
        let root = TempDir::new().unwrap();
        let entries = 3 * SECOND_NS / REST_NS_PER_ENTRY / 100;
        for number in 0..entries {
            fs::write(root.path().join(number.to_string()), "").unwrap();
        }
        let mut listings = listings(root.path(), 1 << 20, 10);
        listings.age_ns = 0;
        let rest_ns = entries * REST_NS_PER_ENTRY;
        assert!(made(&mut listings, asked("/", ""), 0).unwrap().1);
        fs::write(root.path().join("new"), "").unwrap();
        let (text, work) = made(&mut listings, asked("/", ""), rest_ns - 1).unwrap();
        assert!(!work && text.contains(&format!("{entries} files")));
        // Another page of it is made of what is known.
        let (text, work) = made(&mut listings, asked("/", "page=2"), rest_ns - 1).unwrap();
        assert!(work && text.contains(&format!("{entries} files")));
        let (text, work) = made(&mut listings, asked("/", ""), rest_ns).unwrap();
        assert!(work && text.contains(&format!("{} files", entries + 1)));
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let root = TempDir::new().unwrap();
        for number in 0..40 {
            let folder = root.path().join(number.to_string());
            fs::create_dir(&folder).unwrap();
            for file in 0..20 {
                fs::write(folder.join(file.to_string()), "").unwrap();
            }
        }
        const BYTES_MAX: usize = 100_000;
        let mut listings = listings(root.path(), BYTES_MAX, 10);
        for number in 0..40 {
            let name = format!("{number}/");
            for page in ["page=1", "page=2", "order=desc", "sort=size"] {
                made(&mut listings, asked(&name, page), number).unwrap();
                assert!(listings.bytes <= BYTES_MAX, "{}", listings.bytes);
            }
            let (_, work) = made(&mut listings, asked("0/", "page=1"), number).unwrap();
            assert!(!work, "after {number} others");
        }
        assert!(listings.folders.len() < 40);
        let held: usize = listings.folders.iter().map(|(key, known)| known.bytes(key)).sum();
        assert_eq!(listings.bytes, held);
    }

    #[test]
    fn pages_of_one_folder_are_bounded() {
        let root = TempDir::new().unwrap();
        for file in 0..100 {
            fs::write(root.path().join(file.to_string()), "").unwrap();
        }
        let mut listings = listings(root.path(), 1 << 20, 1);
        for page in 1..=100 {
            made(&mut listings, asked("/", &format!("page={page}")), 0).unwrap();
        }
        assert_eq!(listings.folders[b"/".as_slice()].pages.len(), PAGES_MAX);
        assert_eq!(made(&mut listings, asked("/", "page=101"), 0).err(), Some(Refusal::NotFound));
    }

    #[test]
    fn a_listing_larger_than_the_bound_is_shown_all_the_same() {
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("sub")).unwrap();
        let mut listings = listings(root.path(), 0, 10);
        assert!(made(&mut listings, asked("/", ""), 0).unwrap().0.contains("sub"));
        assert!(made(&mut listings, asked("sub/", ""), 0).unwrap().0.contains("empty"));
        assert_eq!(listings.folders.len(), 1);
    }

    #[test]
    fn all_who_wait_for_a_folder_that_is_refused_are_told_so() {
        let root = TempDir::new().unwrap();
        let mut listings = listings(root.path(), 1 << 20, 10);
        let done = JobsDone::NOTHING.and(JobKind::List);
        let mut folders = unwatched(&listings);
        let asked_for = asked("missing/", "");
        (listings.making(asked_for, JobsDone::NOTHING, &mut folders, &date_cache(), Instant::default()).work)();
        for _ in 0..2 {
            let refused = page(&mut listings, &mut folders, asked("missing/", ""), done, Instant::default());
            assert_eq!(refused, Err(Refusal::NotFound));
        }
        // It is looked for again for whoever comes later.
        fs::create_dir(root.path().join("missing")).unwrap();
        assert!(made(&mut listings, asked("missing/", ""), 1).unwrap().1);
    }
}
