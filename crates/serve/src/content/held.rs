//! Objects of the cache tier that a loop holds, to answer requests for them without asking.
//!
//! An object is held until it is stale, or the tier's generation has grown. Which requests may be
//! answered from here is decided elsewhere. The tier is told which objects are used: its store
//! evicts those that nobody asks it for.

use std::rc::Rc;

use thalweg_tier::Key;

use crate::config::CacheConfig;
use crate::content::clock_cache::{self, ClockCache};
use crate::content::object::Object;

/// The tier is told of an object at its first use, and after that at most once in this time.
const TOUCH_INTERVAL_S: i64 = 5;

/// Bounds of what a loop holds.
#[derive(Clone, Copy)]
pub(crate) struct HeldBounds {
    pub(crate) entries_max: usize,
    pub(crate) bytes_max: usize,
    /// Bodies in memory of up to so many bytes are kept with their heads.
    pub(crate) small_bytes_max: usize,
}

impl HeldBounds {
    /// Bounds as the cache of files has them.
    pub(crate) fn of(cache: &CacheConfig) -> Self {
        let CacheConfig { entries_max, bytes_max, small_file_bytes_max, .. } = *cache;
        Self { entries_max, bytes_max, small_bytes_max: small_file_bytes_max }
    }
}

/// Objects by the key of the requests that they answer.
pub(crate) struct HeldObjects {
    objects: ClockCache<Entry>,
    /// Objects that were used, by their keys in the tier, until it is told.
    used: Vec<Key>,
}

struct Entry {
    key: Rc<[u8]>,
    key_in_tier: Key,
    /// The second from which on a use is told to the tier.
    touch_s: i64,
    object: Object,
    generation: u64,
    stale_s: i64,
    is_used: bool,
}

impl clock_cache::Entry for Entry {
    fn key(&self) -> &Rc<[u8]> {
        &self.key
    }

    fn bytes(&self) -> usize {
        self.key.len() + self.object.bytes()
    }

    fn is_used(&mut self) -> &mut bool {
        &mut self.is_used
    }
}

impl HeldObjects {
    /// None, and room for so many, with so many bytes.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self { objects: ClockCache::new(entries_max, bytes_max), used: Vec::new() }
    }

    /// The object of a key, if it may be used at this second and generation.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8], second: i64, generation: u64) -> Option<&mut Object> {
        let slot = self.objects.find(key)?;
        let entry = self.objects.entry_mut(slot);
        if entry.stale_s <= second || entry.generation != generation {
            self.objects.remove(slot);
            return None;
        }
        let entry = self.objects.entry_mut(slot);
        entry.is_used = true;
        if entry.touch_s <= second {
            entry.touch_s = second + TOUCH_INTERVAL_S;
            self.used.push(entry.key_in_tier);
        }
        Some(&mut entry.object)
    }

    /// Holds an object, as it was at a generation. One that is larger than all room is not held.
    pub(crate) fn insert(
        &mut self,
        key: &[u8],
        (key_in_tier, object): (Key, Object),
        (generation, stale_s): (u64, i64),
    ) {
        let objects = &mut self.objects;
        if let Some(slot) = objects.find(key) {
            objects.remove(slot);
        }
        let entry = Entry { key: key.into(), key_in_tier, touch_s: 0, object, generation, stale_s, is_used: false };
        if objects.can_hold(clock_cache::Entry::bytes(&entry)) {
            while objects.evict_for(&entry).is_some() {}
            objects.insert(entry);
        }
    }

    /// Tells of the objects that were used, and not told of lately, if there are any.
    #[inline]
    pub(crate) fn report_used(&mut self, tell: impl FnOnce(&[Key])) {
        if !self.used.is_empty() {
            tell(&self.used);
            self.used.clear();
        }
    }

    /// The number of objects, and the bytes that they take.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        self.objects.size()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_caching::StoredFields;
    use thalweg_tier::{Content, Object as TierObject};

    use super::*;
    use crate::content::policy::ResponsePolicy;
    use crate::content::tier::Inbox;

    const KEY: Key = Key([7; 16]);

    fn object(bytes: usize) -> Object {
        object_with(bytes, usize::MAX)
    }

    fn object_with(bytes: usize, small_bytes_max: usize) -> Object {
        let object = TierObject {
            fields: Arc::new(StoredFields::default()),
            length: bytes as u64,
            content: Content::Memory(vec![1; bytes].into()),
            born_s: 0,
            stale_s: 100,
            cache_status: "".into(),
            held_key: None,
        };
        Object::forwarded(object, &Arc::new(ResponsePolicy::default()), 0, small_bytes_max, &Inbox::new(None))
    }

    #[test]
    fn an_object_is_held_until_it_is_stale_or_the_generation_grows() {
        #[track_caller]
        fn check(second: i64, generation: u64, is_there: bool) {
            let mut held = HeldObjects::new(10, 10_000);
            held.insert(b"a", (KEY, object(10)), (7, 100));
            assert_eq!(held.find(b"a", second, generation).is_some(), is_there, "{second} {generation}");
            assert_eq!(held.size().0, usize::from(is_there));
        }
        check(99, 7, true);
        check(100, 7, false);
        check(99, 8, false);
    }

    #[test]
    fn the_room_is_bounded_and_what_is_used_stays() {
        let mut held = HeldObjects::new(3, 100_000);
        for name in [b"a", b"b", b"c"] {
            held.insert(name, (KEY, object(10)), (0, 100));
        }
        assert!(held.find(b"a", 0, 0).is_some());
        held.insert(b"d", (KEY, object(10)), (0, 100));
        held.insert(b"d", (KEY, object(20)), (0, 100));
        assert_eq!(held.size().0, 3);
        assert!(held.find(b"a", 0, 0).is_some() && held.find(b"b", 0, 0).is_none() && held.find(b"d", 0, 0).is_some());
        held.insert(b"large", (KEY, object(99_000)), (0, 100));
        assert!(held.size().1 <= 100_000, "{:?}", held.size());
        assert!(held.find(b"large", 0, 0).is_some());
        held.insert(b"larger", (KEY, object(100_000)), (0, 100));
        assert!(held.find(b"larger", 0, 0).is_none() && held.find(b"large", 0, 0).is_some());
        held.insert(b"large", (KEY, object(10)), (0, 100));
        let before = held.size();
        held.insert(b"large", (KEY, object(10)), (0, 100));
        assert_eq!(held.size(), before, "nothing is counted twice");
    }

    #[test]
    fn a_body_in_memory_counts_whether_it_is_kept_with_its_head_or_not() {
        for small_bytes_max in [0, usize::MAX] {
            let mut held = HeldObjects::new(10, 100_000);
            held.insert(b"a", (KEY, object_with(50_000, small_bytes_max)), (0, 100));
            assert!((50_000..51_000).contains(&held.size().1), "{:?}", held.size());
            held.insert(b"b", (KEY, object_with(60_000, small_bytes_max)), (0, 100));
            assert_eq!(held.size().0, 1);
        }
    }

    #[test]
    fn the_tier_is_told_of_the_first_use_and_of_later_ones_now_and_then() {
        let mut held = HeldObjects::new(10, 10_000);
        held.insert(b"a", (KEY, object(10)), (0, 100));
        let mut told = |second: i64| {
            assert!(held.find(b"a", second, 0).is_some());
            let mut told = Vec::new();
            held.report_used(|keys| told.extend_from_slice(keys));
            told
        };
        let expected = [(50, true), (50, false), (54, false), (55, true), (59, false), (90, true)];
        for (second, is_told) in expected {
            assert_eq!(told(second), if is_told { vec![KEY] } else { Vec::new() }, "{second}");
        }
    }
}
