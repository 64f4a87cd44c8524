//! Caches of a loop: entries by key, bounded in number and memory.
//!
//! Keys are chosen by clients, hence a seeded hash. Entries are evicted by the clock algorithm
//! (second chance): an entry that was used since the clock hand passed it is spared once. Loading
//! and freshness are their users'.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::quality::RandomState;

/// An entry of a cache.
pub(crate) trait Entry {
    fn key(&self) -> &Rc<[u8]>;

    /// Bytes of memory that it takes, which stay the same.
    fn bytes(&self) -> usize;

    /// Whether it was used since the clock hand passed it.
    fn is_used(&mut self) -> &mut bool;
}

/// Entries by key.
pub(crate) struct ClockCache<E> {
    entries_max: usize,
    bytes_max: usize,
    /// Slots by key.
    index: HashMap<Rc<[u8]>, usize, RandomState>,
    slots: Vec<Option<E>>,
    /// Slots without an entry.
    free: Vec<usize>,
    clock_hand: usize,
    bytes: usize,
}

impl<E: Entry> ClockCache<E> {
    /// An empty cache.
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

    /// The slot of an entry.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<usize> {
        self.index.get(key).copied()
    }

    /// The entry in a slot that was found or filled just now.
    #[inline]
    pub(crate) fn entry_mut(&mut self, slot: usize) -> &mut E {
        self.slots[slot].as_mut().expect("a key leads to an entry")
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &E> {
        self.slots.iter().flatten()
    }

    /// The number of entries, and the bytes that they take.
    pub(crate) fn size(&self) -> (usize, usize) {
        (self.index.len(), self.bytes)
    }

    /// Whether an entry of so many bytes is one that the bounds allow at all.
    pub(crate) fn can_hold(&self, bytes: usize) -> bool {
        self.entries_max > 0 && bytes <= self.bytes_max
    }

    /// Removes an entry for which there is no room beside a new one; `None` if there is room, or
    /// nothing to remove. An entry larger than the whole cache is kept alone.
    pub(crate) fn evict_for(&mut self, entry: &E) -> Option<E> {
        let is_full = self.index.len() >= self.entries_max || self.bytes + entry.bytes() > self.bytes_max;
        if self.index.is_empty() || !is_full {
            return None;
        }
        loop {
            let slot = self.clock_hand;
            self.clock_hand = (self.clock_hand + 1) % self.slots.len();
            match self.slots[slot].as_mut().map(E::is_used) {
                Some(is_used) if *is_used => *is_used = false,
                Some(_) => return self.remove(slot),
                None => {}
            }
        }
    }

    /// Keeps an entry, whose key has none. Its slot.
    pub(crate) fn insert(&mut self, entry: E) -> usize {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.bytes += entry.bytes();
        let before = self.index.insert(Rc::clone(entry.key()), slot);
        debug_assert!(before.is_none(), "each key has one entry");
        self.slots[slot] = Some(entry);
        slot
    }

    /// Removes the entry in a slot, if there is one.
    pub(crate) fn remove(&mut self, slot: usize) -> Option<E> {
        let entry = self.slots[slot].take()?;
        self.index.remove(entry.key());
        self.bytes -= entry.bytes();
        self.free.push(slot);
        Some(entry)
    }

    /// Removes all entries of which something holds.
    pub(crate) fn remove_all(&mut self, holds: impl Fn(&E) -> bool) -> Vec<E> {
        let slots: Vec<usize> =
            (0..self.slots.len()).filter(|&slot| self.slots[slot].as_ref().is_some_and(&holds)).collect();
        slots.into_iter().filter_map(|slot| self.remove(slot)).collect()
    }
}
