//! Objects of the cache tier that a loop holds, to answer requests for them without asking.
//!
//! An object is held until it is stale, or the tier's generation has grown. Entries are bounded in
//! number and memory, and evicted by the clock algorithm (second chance), as files are. Which
//! requests may be answered from here is decided elsewhere.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::quality::RandomState;

use crate::config::CacheConfig;
use crate::content::object::Object;

/// Bounds of what a loop holds.
#[derive(Clone, Copy)]
pub(crate) struct HeldBounds {
    pub(crate) entries_max: usize,
    pub(crate) bytes_max: usize,
    /// Bodies in memory of up to so many bytes are kept with their heads.
    pub(crate) small_bytes_max: usize,
}

impl HeldBounds {
    /// Those of the cache of files.
    pub(crate) fn of(cache: &CacheConfig) -> Self {
        let CacheConfig { entries_max, bytes_max, small_file_bytes_max, .. } = *cache;
        Self { entries_max, bytes_max, small_bytes_max: small_file_bytes_max }
    }
}

/// Objects by key.
pub(crate) struct HeldObjects {
    entries_max: usize,
    bytes_max: usize,
    index: HashMap<Rc<[u8]>, usize, RandomState>,
    slots: Vec<Option<Entry>>,
    /// Slots without an entry.
    free: Vec<usize>,
    clock_hand: usize,
    bytes: usize,
}

struct Entry {
    key: Rc<[u8]>,
    object: Object,
    bytes: usize,
    generation: u64,
    stale_s: i64,
    is_used: bool,
}

impl HeldObjects {
    /// None, and room for so many, with so many bytes.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Self {
        Self {
            entries_max,
            bytes_max,
            index: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            clock_hand: 0,
            bytes: 0,
        }
    }

    /// The object of a key, if it may be used at this second and generation.
    #[inline]
    pub(crate) fn find(&mut self, key: &[u8], second: i64, generation: u64) -> Option<&mut Object> {
        let slot = *self.index.get(key)?;
        let entry = self.slots[slot].as_mut().expect("a key leads to an entry");
        if entry.stale_s <= second || entry.generation != generation {
            self.remove(slot);
            return None;
        }
        entry.is_used = true;
        Some(&mut self.slots[slot].as_mut().expect("it was there just now").object)
    }

    /// Holds an object, as it was at a generation. One that is larger than all room is not held.
    pub(crate) fn insert(&mut self, key: &[u8], object: Object, (generation, stale_s): (u64, i64)) {
        let bytes = object.bytes() + 2 * key.len();
        if let Some(&slot) = self.index.get(key) {
            self.remove(slot);
        }
        if self.entries_max == 0 || bytes > self.bytes_max {
            return;
        }
        while self.index.len() >= self.entries_max || self.bytes + bytes > self.bytes_max {
            self.evict();
        }
        let key: Rc<[u8]> = key.into();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.bytes += bytes;
        self.index.insert(Rc::clone(&key), slot);
        self.slots[slot] = Some(Entry { key, object, bytes, generation, stale_s, is_used: false });
    }

    /// The number of objects, and the bytes that they take.
    #[cfg(test)]
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.index.len(), self.bytes)
    }

    /// Removes an entry that was not used since the hand passed it. There is one at least.
    fn evict(&mut self) {
        loop {
            let slot = self.clock_hand;
            self.clock_hand = (self.clock_hand + 1) % self.slots.len();
            match &mut self.slots[slot] {
                Some(entry) if entry.is_used => entry.is_used = false,
                Some(_) => return self.remove(slot),
                None => {}
            }
        }
    }

    fn remove(&mut self, slot: usize) {
        let Some(entry) = self.slots[slot].take() else { return };
        self.index.remove(&entry.key);
        self.bytes -= entry.bytes;
        self.free.push(slot);
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

    fn object(bytes: usize) -> Object {
        let object = TierObject {
            fields: Arc::new(StoredFields::default()),
            length: bytes as u64,
            content: Content::Memory(vec![1; bytes].into()),
            born_s: 0,
            stale_s: 100,
            cache_status: "".into(),
            may_be_held: true,
        };
        Object::forwarded(object, &Arc::new(ResponsePolicy::default()), 0, usize::MAX, &Inbox::new(None))
    }

    #[test]
    fn an_object_is_held_until_it_is_stale_or_the_generation_grows() {
        #[track_caller]
        fn check(second: i64, generation: u64, is_there: bool) {
            let mut held = HeldObjects::new(10, 10_000);
            held.insert(b"a", object(10), (7, 100));
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
            held.insert(name, object(10), (0, 100));
        }
        assert!(held.find(b"a", 0, 0).is_some());
        held.insert(b"d", object(10), (0, 100));
        held.insert(b"d", object(20), (0, 100));
        assert_eq!(held.size().0, 3);
        assert!(held.find(b"a", 0, 0).is_some() && held.find(b"b", 0, 0).is_none() && held.find(b"d", 0, 0).is_some());
        held.insert(b"large", object(99_000), (0, 100));
        assert!(held.size().1 <= 100_000, "{:?}", held.size());
        assert!(held.find(b"large", 0, 0).is_some());
        held.insert(b"larger", object(100_000), (0, 100));
        assert!(held.find(b"larger", 0, 0).is_none() && held.find(b"large", 0, 0).is_some());
        held.insert(b"large", object(10), (0, 100));
        let before = held.size();
        held.insert(b"large", object(10), (0, 100));
        assert_eq!(held.size(), before, "nothing is counted twice");
    }
}
