//! Purges in a bounded table: for each slot, the sequence number before which everything that falls
//! into the slot is purged. A purge is never forgotten; in exchange it takes along what happens to
//! share its slot, one fragment in as many as there are slots.

use crate::{
    key::{Key, below, mixed},
    record::{Description, Header},
};

pub(crate) struct Purges {
    keys: Vec<u64>,
    groups: Vec<u64>,
}

impl Purges {
    pub(crate) fn new(slots: u32) -> Self {
        Self { keys: vec![0; slots as usize], groups: vec![0; slots as usize] }
    }

    pub(crate) fn purge_key(&mut self, key: Key, sequence: u64) {
        let slot = self.key_slot(key);
        self.keys[slot] = self.keys[slot].max(sequence);
    }

    pub(crate) fn purge_group(&mut self, group: u32, sequence: u64) {
        let slot = self.group_slot(group);
        self.groups[slot] = self.groups[slot].max(sequence);
    }

    pub(crate) fn covers_key(&self, key: Key, sequence: u64) -> bool {
        sequence < self.keys[self.key_slot(key)]
    }

    pub(crate) fn covers(&self, header: &Header) -> bool {
        self.covers_key(header.key, header.sequence) || self.covers_groups(&header.description, header.sequence)
    }

    fn covers_groups(&self, description: &Description, sequence: u64) -> bool {
        let groups = description.groups.iter().filter(|group| **group != 0);
        groups.into_iter().any(|group| sequence < self.groups[self.group_slot(*group)])
    }

    /// All numbers, as the checkpoint holds them.
    pub(crate) fn tables(&mut self) -> [&mut Vec<u64>; 2] {
        [&mut self.keys, &mut self.groups]
    }

    fn key_slot(&self, key: Key) -> usize {
        below(mixed(key.halves().0), self.keys.len())
    }

    fn group_slot(&self, group: u32) -> usize {
        below(mixed(u64::from(group)), self.groups.len())
    }
}
