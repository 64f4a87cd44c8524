//! Purges in bounded tables: for each slot, the sequence number before which everything that falls
//! into the slot is purged. A purge is never forgotten; in exchange it takes along what happens to
//! share its slot, one fragment in as many as there are slots. Soft purges, which make stale what
//! they name, have smaller tables of their own: to ask an origin once more costs less than to lose
//! a fragment.

use crate::{
    key::{Key, below, mixed},
    record::Header,
    segment::Entry,
};

pub(crate) struct Purges {
    keys: Vec<u64>,
    groups: Vec<u64>,
    soft_keys: Vec<u64>,
    soft_groups: Vec<u64>,
}

/// The slots of a table of soft purges, for so many of the others.
fn soft_slots(slots: u32) -> u32 {
    slots / 4
}

impl Purges {
    pub(crate) fn new(slots: u32) -> Self {
        let [hard, soft] = [slots, soft_slots(slots)].map(|slots| vec![0; slots as usize]);
        Self { keys: hard.clone(), groups: hard, soft_keys: soft.clone(), soft_groups: soft }
    }

    /// The bytes of all tables.
    pub(crate) fn bytes(slots: u32) -> u64 {
        16 * (u64::from(slots) + u64::from(soft_slots(slots)))
    }

    /// Notes a purge of a summary.
    pub(crate) fn apply(&mut self, entry: Entry) {
        let (held, sequence) = match entry {
            Entry::PurgeKey { key, sequence } => (key_slot(&mut self.keys, key), sequence),
            Entry::PurgeGroup { group, sequence } => (group_slot(&mut self.groups, group), sequence),
            Entry::SoftPurgeKey { key, sequence } => (key_slot(&mut self.soft_keys, key), sequence),
            Entry::SoftPurgeGroup { group, sequence } => (group_slot(&mut self.soft_groups, group), sequence),
            Entry::Record { .. } => return,
        };
        *held = sequence.max(*held);
    }

    pub(crate) fn covers_key(&self, key: Key, sequence: u64) -> bool {
        sequence < self.keys[key_place(&self.keys, key)]
    }

    pub(crate) fn covers(&self, header: &Header) -> bool {
        self.covers_key(header.key, header.sequence) || covers_groups(&self.groups, header, header.sequence)
    }

    /// Whether a soft purge has made a fragment stale. What counts is when the caller appended it,
    /// and not when the store moved it.
    pub(crate) fn makes_stale(&self, header: &Header) -> bool {
        let sequence = header.first_sequence;
        sequence < self.soft_keys[key_place(&self.soft_keys, header.key)]
            || covers_groups(&self.soft_groups, header, sequence)
    }

    /// All numbers, as the checkpoint holds them.
    pub(crate) fn tables(&mut self) -> [&mut Vec<u64>; 4] {
        [&mut self.keys, &mut self.groups, &mut self.soft_keys, &mut self.soft_groups]
    }
}

fn covers_groups(table: &[u64], header: &Header, sequence: u64) -> bool {
    let groups = header.description.groups.iter().filter(|group| **group != 0);
    groups.into_iter().any(|group| sequence < table[group_place(table, *group)])
}

fn key_place(table: &[u64], key: Key) -> usize {
    below(mixed(key.halves().0), table.len())
}

fn group_place(table: &[u64], group: u32) -> usize {
    below(mixed(u64::from(group)), table.len())
}

fn key_slot(table: &mut [u64], key: Key) -> &mut u64 {
    let place = key_place(table, key);
    &mut table[place]
}

fn group_slot(table: &mut [u64], group: u32) -> &mut u64 {
    let place = group_place(table, group);
    &mut table[place]
}
