//! The files that a core knows: bounded in number, memory and age.
//!
//! Keys are canonical names, chosen by whoever sends requests, hence a seeded hash. What is thrown out is chosen by the clock
//! algorithm (second chance): an entry that was used since the hand passed it is spared once. Refusals are not
//! kept, so that asking for what does not exist cannot drive out what does.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::quality::RandomState;
use thalweg_sys::{File, Instant, Root};

use crate::calendar::Calendar;
use crate::config::CacheConfig;
use crate::entity::Entity;
use crate::material::Material;
use crate::presentation::Presentation;
use crate::resolve::{self, Found, Refusal};

/// How often a file that changes while it is read is tried again.
const LOAD_ATTEMPTS: usize = 3;

/// The files beneath a root, as far as they are known.
pub(crate) struct FileCache {
    root: Root,
    presentation: Rc<Presentation>,
    config: CacheConfig,
    age_ns: u64,
    places: HashMap<Rc<[u8]>, usize, RandomState>,
    entries: Vec<Option<Entry>>,
    /// Empty places among the entries.
    free: Vec<usize>,
    hand: usize,
    bytes: usize,
    /// Room for a path with its NUL.
    path: Vec<u8>,
}

struct Entry {
    name: Rc<[u8]>,
    entity: Entity,
    checked: Instant,
    used: bool,
}

/// What a name leads to.
pub(crate) enum Lookup<'c> {
    /// A file.
    File(&'c mut Entity),
    /// A folder that was asked for without the slash at the end.
    Folder,
}

impl FileCache {
    /// A cache that knows nothing yet.
    pub(crate) fn new(root: Root, presentation: Rc<Presentation>, config: CacheConfig) -> Self {
        Self {
            root,
            presentation,
            age_ns: u64::try_from(config.age.as_nanos()).unwrap_or(u64::MAX),
            config,
            places: HashMap::default(),
            entries: Vec::new(),
            free: Vec::new(),
            hand: 0,
            bytes: 0,
            path: Vec::new(),
        }
    }

    /// What a canonical name leads to.
    #[inline]
    pub(crate) fn look_up(&mut self, name: &[u8], calendar: &Calendar, now: Instant) -> Result<Lookup<'_>, Refusal> {
        let place = match self.places.get(name) {
            Some(&place) => {
                self.entry_mut(place).used = true;
                if self.is_fresh(place, now) { Some(place) } else { self.check_again(place, calendar, now)? }
            }
            None => self.open(name, calendar, now)?,
        };
        Ok(match place {
            Some(place) => Lookup::File(&mut self.entry_mut(place).entity),
            None => Lookup::Folder,
        })
    }

    fn entry_mut(&mut self, place: usize) -> &mut Entry {
        self.entries[place].as_mut().expect("a name leads to an entry")
    }

    fn is_fresh(&self, place: usize, now: Instant) -> bool {
        self.entries[place].as_ref().is_some_and(|entry| now.ns_since(entry.checked) < self.age_ns)
    }

    /// Looks whether an entry still is what its name leads to, and replaces it if not.
    #[cold]
    fn check_again(&mut self, place: usize, calendar: &Calendar, now: Instant) -> Result<Option<usize>, Refusal> {
        let entry = self.entries[place].as_mut().expect("a name leads to an entry");
        match resolve::open(&self.root, &entry.name, &mut self.path) {
            Ok(Found::File(file)) if entry.entity.is_still(&file, &mut |name| open_neighbour(&self.root, name)) => {
                entry.checked = now;
                Ok(Some(place))
            }
            // Better a file that was right a moment ago than none.
            Err(Refusal::Exhausted) => Ok(Some(place)),
            _ => {
                let name = Rc::clone(&entry.name);
                self.remove(place);
                self.open(&name, calendar, now)
            }
        }
    }

    /// Opens what a name leads to and keeps it; `None` for a folder.
    #[cold]
    fn open(&mut self, name: &[u8], calendar: &Calendar, now: Instant) -> Result<Option<usize>, Refusal> {
        let mut refusal = Refusal::Failed;
        for _ in 0..LOAD_ATTEMPTS {
            let loaded = match resolve::open(&self.root, name, &mut self.path) {
                Ok(Found::Folder) => return Ok(None),
                Ok(Found::File(file)) => {
                    // Without its NUL: the file's own path, which for a folder is its index's.
                    let path = &self.path[..self.path.len() - 1];
                    let small_bytes_max = self.config.small_file_bytes_max;
                    let mut open = |name: &[u8]| open_neighbour(&self.root, name);
                    Material::read(file, path, &self.presentation, small_bytes_max, &mut open)
                        .map(|material| Entity::new(material, path, &self.presentation, calendar))
                }
                Err(refusal) => Err(refusal),
            };
            match loaded {
                Ok(entity) => return Ok(Some(self.insert(name, entity, now))),
                Err(Refusal::Failed) => {}
                Err(Refusal::Exhausted) => self.release_descriptors(),
                Err(other) => return Err(other),
            }
            refusal = loaded.err().unwrap_or(refusal);
        }
        Err(refusal)
    }

    fn insert(&mut self, name: &[u8], entity: Entity, now: Instant) -> usize {
        let name: Rc<[u8]> = name.into();
        let bytes = name.len() + entity.bytes();
        while !self.places.is_empty()
            && (self.places.len() >= self.config.entries_max || self.bytes + bytes > self.config.bytes_max)
        {
            self.evict_one();
        }
        let entry = Entry { name: Rc::clone(&name), entity, checked: now, used: false };
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
            self.bytes -= entry.name.len() + entry.entity.bytes();
            self.free.push(place);
        }
    }

    /// Lets go of all open files, except for those that are being sent.
    #[cold]
    pub(crate) fn release_descriptors(&mut self) {
        for place in 0..self.entries.len() {
            if self.entries[place].as_ref().is_some_and(|entry| entry.entity.holds_descriptor()) {
                self.remove(place);
            }
        }
    }
}

/// Opens what belongs to a file by its name, under the rules for all files.
fn open_neighbour(root: &Root, name: &[u8]) -> Option<File> {
    match resolve::open(root, name, &mut Vec::new()) {
        Ok(Found::File(file)) => Some(file),
        Ok(Found::Folder) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use tempfile::TempDir;

    use super::*;

    const AGE_NS: u64 = 1_000_000_000;

    fn cache(dir: &Path, entries_max: usize, bytes_max: usize) -> FileCache {
        let config = CacheConfig { entries_max, bytes_max, small_file_bytes_max: 100, ..CacheConfig::default() };
        FileCache::new(Root::open(dir).unwrap(), Rc::default(), config)
    }

    /// Far ahead of the files' time stamps: all of them are settled.
    fn calendar() -> Calendar {
        Calendar::new(|_| 10_000_000_000, Instant::default())
    }

    fn body(cache: &mut FileCache, name: &str, now: Instant) -> Result<Vec<u8>, Refusal> {
        match cache.look_up(name.as_bytes(), &calendar(), now)? {
            Lookup::Folder => Ok(b"folder".to_vec()),
            Lookup::File(entity) => {
                let (ready, _) = entity.ready(&calendar());
                let end = ready.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
                Ok(ready[end + 4..].to_vec())
            }
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
    fn a_file_read_right_after_a_change_is_read_again_whatever_its_stamp() {
        let dir = TempDir::new().unwrap();
        let mut cache = cache(dir.path(), 10, 10_000);
        fs::write(dir.path().join("a"), "old").unwrap();
        // 1970: before any change, as a clock that has just changed would be.
        let at_once = Calendar::new(|_| 0, Instant::default());
        cache.look_up(b"a", &at_once, Instant::default()).unwrap();
        let first = Rc::clone(cache.entries[0].as_mut().unwrap().entity.ready(&at_once).0);
        cache.look_up(b"a", &at_once, Instant::from_ns(AGE_NS)).unwrap();
        assert!(!Rc::ptr_eq(cache.entries[0].as_mut().unwrap().entity.ready(&at_once).0, &first));
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
