//! The directory: for each fragment one entry of 8 bytes, in buckets of 8 that are a cache line
//! each. A fragment may stand in either of two buckets.
//!
//! An entry is a hint: the record that it points at has the full key and is compared by the reader.
//! Whether an entry's stripe has been overwritten since is arithmetic over the cursors, which the
//! caller passes in as an age.

use crate::{
    geometry::BUCKET_ENTRIES,
    key::{PartHash, below},
};
use std::ops::Range;

const HITS_MAX: u8 = 3;

/// Bits of an entry, from the lowest: 32 offset, 12 size, 14 tag, 3 lap, 2 hits, 1 verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The record's offset from the start of the log, in units.
    pub(crate) offset_units: u32,
    /// The record's size, in units.
    pub(crate) size_units: u16,
    tag: u16,
    /// The lap of the cursor in which the record was written, modulo 8.
    pub(crate) lap: u8,
    pub(crate) hits: u8,
    /// Whether this process has read the body from the medium and found it right.
    pub(crate) verified: bool,
}

impl Entry {
    pub(crate) fn new(hash: PartHash, offset_units: u32, size_units: u16, lap: u8) -> Self {
        Self { offset_units, size_units, tag: tag(hash), lap: lap & 7, hits: 0, verified: false }
    }

    fn pack(self) -> u64 {
        u64::from(self.offset_units)
            | u64::from(self.size_units) << 32
            | u64::from(self.tag) << 44
            | u64::from(self.lap) << 58
            | u64::from(self.hits) << 61
            | u64::from(self.verified) << 63
    }

    fn unpack(bits: u64) -> Self {
        Self {
            offset_units: bits as u32,
            size_units: (bits >> 32 & 0xFFF) as u16,
            tag: (bits >> 44 & 0x3FFF) as u16,
            lap: (bits >> 58 & 7) as u8,
            hits: (bits >> 61 & 3) as u8,
            verified: bits >> 63 == 1,
        }
    }
}

fn tag(hash: PartHash) -> u16 {
    (hash.second & 0x3FFF) as u16
}

pub(crate) struct Directory {
    /// 0 stands for no entry: no record begins at the start of the log, where a summary lies.
    slots: Vec<u64>,
    /// The slot at which the next sweep goes on.
    swept: usize,
}

impl Directory {
    pub(crate) fn new(buckets: u32) -> Self {
        Self { slots: vec![0; buckets as usize * BUCKET_ENTRIES], swept: 0 }
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(self.slots.as_slice()) as u64
    }

    pub(crate) fn slots(&mut self) -> &mut Vec<u64> {
        &mut self.slots
    }

    /// The entry that may be the fragment's.
    pub(crate) fn find(&self, hash: PartHash) -> Option<Entry> {
        self.position(hash).map(|at| Entry::unpack(self.slots[at]))
    }

    /// Changes the fragment's entry, if it still points where `known` does.
    pub(crate) fn update(&mut self, hash: PartHash, known: Entry, change: impl FnOnce(&mut Entry)) {
        let Some(at) = self.position(hash) else { return };
        let mut entry = Entry::unpack(self.slots[at]);
        if entry.offset_units == known.offset_units && entry.lap == known.lap {
            change(&mut entry);
            self.slots[at] = entry.pack();
        }
    }

    /// Takes out the fragment's entry, if it still points where `known` does.
    pub(crate) fn remove(&mut self, hash: PartHash, known: Entry) {
        let Some(at) = self.position(hash) else { return };
        let entry = Entry::unpack(self.slots[at]);
        if entry.offset_units == known.offset_units && entry.lap == known.lap {
            self.slots[at] = 0;
        }
    }

    /// Takes out an entry whose fragment is not known any more: looks for it everywhere.
    pub(crate) fn remove_entry(&mut self, entry: Entry) {
        let same = |bits: u64| {
            let held = Entry::unpack(bits);
            held.offset_units == entry.offset_units && held.lap == entry.lap
        };
        if let Some(bits) = self.slots.iter_mut().find(|bits| **bits != 0 && same(**bits)) {
            *bits = 0;
        }
    }

    /// Clears overwritten entries among the next `count` slots, in turn: laps are counted modulo 8,
    /// so that an entry must not stay for that many.
    pub(crate) fn sweep(&mut self, count: usize, is_living: impl Fn(Entry) -> bool) {
        for _ in 0..count.min(self.slots.len()) {
            let bits = &mut self.slots[self.swept];
            if *bits != 0 && !is_living(Entry::unpack(*bits)) {
                *bits = 0;
            }
            self.swept = (self.swept + 1) % self.slots.len();
        }
    }

    /// Puts an entry in, in place of the fragment's former one. `age` says how far behind the
    /// cursor an entry lies, and `None` if it has been overwritten. Returns whether a living entry
    /// of another fragment was displaced: the one with the fewest hits, of those the oldest.
    pub(crate) fn insert(&mut self, hash: PartHash, entry: Entry, age: impl Fn(Entry) -> Option<u64>) -> bool {
        if let Some(at) = self.position(hash) {
            self.slots[at] = entry.pack();
            self.clear_namesakes(hash, at);
            return false;
        }
        let mut displaced = None;
        let mut roomy: Option<(usize, usize)> = None;
        for bucket in self.buckets(hash) {
            let mut free = (0, None);
            for at in bucket * BUCKET_ENTRIES..(bucket + 1) * BUCKET_ENTRIES {
                let held = Entry::unpack(self.slots[at]);
                let age = if self.slots[at] == 0 { None } else { age(held) };
                match age {
                    None => free = (free.0 + 1, Some(at)),
                    Some(age) => {
                        let rank = (held.hits, u64::MAX - age);
                        if displaced.is_none_or(|(lowest, _)| rank < lowest) {
                            displaced = Some((rank, at));
                        }
                    }
                }
            }
            if let (count, Some(at)) = free
                && roomy.is_none_or(|(most, _)| count > most)
            {
                roomy = Some((count, at));
            }
        }
        let at = roomy.map(|(_, at)| at).or(displaced.map(|(_, at)| at)).expect("buckets have entries");
        self.slots[at] = entry.pack();
        roomy.is_none()
    }

    /// Clears what else has the fragment's tag in its buckets: an older version of it may stand
    /// there since the slot in use was another fragment's, and would be found when the newer entry
    /// goes.
    fn clear_namesakes(&mut self, hash: PartHash, kept: usize) {
        for bucket in self.buckets(hash) {
            for at in bucket * BUCKET_ENTRIES..(bucket + 1) * BUCKET_ENTRIES {
                if at != kept && self.slots[at] != 0 && Entry::unpack(self.slots[at]).tag == tag(hash) {
                    self.slots[at] = 0;
                }
            }
        }
    }

    /// All entries.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry> {
        self.entries_of(0..self.slots.len())
    }

    /// The entries in a range of slots.
    pub(crate) fn entries_of(&self, slots: Range<usize>) -> impl Iterator<Item = Entry> {
        self.slots[slots].iter().filter(|bits| **bits != 0).map(|bits| Entry::unpack(*bits))
    }

    /// The number of slots.
    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// Keeps the entries of a checkpoint for which this holds, and forgets which bodies were
    /// verified: a new process has verified none.
    pub(crate) fn adopt(&mut self, is_before_mark: impl Fn(Entry) -> bool) {
        for bits in self.slots.iter_mut().filter(|bits| **bits != 0) {
            *bits = if is_before_mark(Entry::unpack(*bits)) { *bits & !(1 << 63) } else { 0 };
        }
    }

    fn position(&self, hash: PartHash) -> Option<usize> {
        let wanted = tag(hash);
        let places = self.buckets(hash).into_iter().flat_map(|bucket| {
            let first = bucket * BUCKET_ENTRIES;
            first..first + BUCKET_ENTRIES
        });
        places.into_iter().find(|at| self.slots[*at] != 0 && Entry::unpack(self.slots[*at]).tag == wanted)
    }

    fn buckets(&self, hash: PartHash) -> [usize; 2] {
        let count = self.slots.len() / BUCKET_ENTRIES;
        // The tag is made of the lowest bits of the second hash; places use the upper ones.
        [below(hash.first, count), below(hash.second, count)]
    }
}

impl Entry {
    /// Counts a hit.
    pub(crate) fn hit(&mut self) {
        self.hits = (self.hits + 1).min(HITS_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_does_not_come_back_when_the_newer_entry_goes() {
        // Two fragments with the same tag share their first bucket.
        let buckets = 4;
        let in_bucket = |bucket: u64| (bucket << 62) | 1 << 61;
        let hash = |first: u64, second: u64| PartHash { first: in_bucket(first), second: in_bucket(second) | 7 };
        let (one, other) = (hash(0, 1), hash(0, 2));
        let mut directory = Directory::new(buckets);
        let mut enter = |hash, offset_units| {
            directory.insert(hash, Entry::new(hash, offset_units, 1, 0), |_| Some(0));
        };
        // The first bucket is fuller, so that the first version goes to the second one.
        let filler = |bucket, tag| PartHash { first: in_bucket(bucket), second: in_bucket(bucket) | tag };
        enter(filler(0, 8), 1);
        enter(one, 2);
        // The other one's second bucket is fuller still.
        enter(filler(2, 9), 5);
        enter(filler(2, 10), 6);
        enter(other, 3);
        enter(one, 4);
        let newest = directory.find(one).expect("it was entered");
        assert_eq!(newest.offset_units, 4);
        directory.remove(one, newest);
        assert_eq!(directory.find(one), None);
    }
}
