//! The cache of open files: entries by key, bounded in number and memory.
//!
//! Keys are chosen by clients, hence a seeded hash. Entries are evicted by the clock algorithm
//! (second chance): an entry that was used since the clock hand passed it is spared once. Loading,
//! freshness and watching are the [origin](super::origin)'s.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::quality::RandomState;
use thalweg_sys::Instant;

use crate::content::local::metadata::FileState;
use crate::content::local::watch::FolderId;
use crate::content::object::Object;

/// Entries by key.
pub(super) struct FileCache {
    entries_max: usize,
    bytes_max: usize,
    /// Slots by key.
    index: HashMap<Rc<[u8]>, usize, RandomState>,
    slots: Vec<Option<Entry>>,
    /// Slots without an entry.
    free: Vec<usize>,
    clock_hand: usize,
    bytes: usize,
}

/// An open file.
pub(super) struct Entry {
    /// The canonical name, marked with the site.
    pub(super) key: Rc<[u8]>,
    pub(super) site: usize,
    pub(super) mount: u16,
    /// The folder of the name, which is watched for the entry.
    pub(super) folder: FolderId,
    pub(super) object: Object,
    pub(super) state: FileState,
    /// The file had this state then.
    pub(super) checked: Instant,
    /// The changes of folders that the state takes into account.
    pub(super) epoch: u64,
    pub(super) is_used: bool,
}

impl Entry {
    fn bytes(&self) -> usize {
        self.key.len() + self.object.bytes()
    }
}

impl FileCache {
    /// An empty cache.
    pub(super) fn new(entries_max: usize, bytes_max: usize) -> Self {
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

    /// The slot of an entry.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<usize> {
        self.index.get(key).copied()
    }

    /// The entry in a slot that was found or filled just now.
    #[inline]
    pub(super) fn entry_mut(&mut self, slot: usize) -> &mut Entry {
        self.slots[slot].as_mut().expect("a key leads to an entry")
    }

    /// All entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.slots.iter().flatten()
    }

    /// The number of entries, and the bytes that they take.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.index.len(), self.bytes)
    }

    /// Removes an entry for which there is no room beside a new one; `None` if there is room, or
    /// nothing to remove. An entry larger than the whole cache is kept alone.
    pub(super) fn evict_for(&mut self, entry: &Entry) -> Option<Entry> {
        let is_full = self.index.len() >= self.entries_max || self.bytes + entry.bytes() > self.bytes_max;
        if self.index.is_empty() || !is_full {
            return None;
        }
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

    /// Keeps an entry, whose key has none. Its slot.
    pub(super) fn insert(&mut self, entry: Entry) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.bytes += entry.bytes();
        let before = self.index.insert(Rc::clone(&entry.key), slot);
        debug_assert!(before.is_none(), "each key has one entry");
        self.slots[slot] = Some(entry);
        slot
    }

    /// Removes the entry in a slot, if there is one.
    pub(super) fn remove(&mut self, slot: usize) -> Option<Entry> {
        let entry = self.slots[slot].take()?;
        self.index.remove(&entry.key);
        self.bytes -= entry.bytes();
        self.free.push(slot);
        Some(entry)
    }

    /// Removes all entries that hold an open file.
    pub(super) fn remove_descriptors(&mut self) -> Vec<Entry> {
        let holds_descriptor = |entry: &Entry| entry.object.holds_descriptor();
        let slots: Vec<usize> =
            (0..self.slots.len()).filter(|&slot| self.slots[slot].as_ref().is_some_and(holds_descriptor)).collect();
        slots.into_iter().filter_map(|slot| self.remove(slot)).collect()
    }
}
