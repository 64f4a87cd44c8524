//! Purges in bounded tables: a key or a group has two slots of a table, and a slot has the sequence
//! number of the last purge that falls into it. What has a lower number than both of its slots is
//! purged. A purge is never forgotten; in exchange, purges take along what happens to have slots
//! that they fall into, too: `(1 - exp(-2 n / m))^2` of what was there before the last `n` of them,
//! in a table of `m` slots. Soft purges, which make stale what they name, have smaller tables of
//! their own: to ask an origin once more costs less than to lose a fragment.

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
        let (table, hashes, sequence) = match entry {
            Entry::PurgeKey { key, sequence } => (&mut self.keys, of_key(key), sequence),
            Entry::PurgeGroup { group, sequence } => (&mut self.groups, of_group(group), sequence),
            Entry::SoftPurgeKey { key, sequence } => (&mut self.soft_keys, of_key(key), sequence),
            Entry::SoftPurgeGroup { group, sequence } => (&mut self.soft_groups, of_group(group), sequence),
            Entry::Record { .. } => return,
        };
        for hash in hashes {
            let place = below(hash, table.len());
            table[place] = sequence.max(table[place]);
        }
    }

    pub(crate) fn covers_key(&self, key: Key, sequence: u64) -> bool {
        is_purged(&self.keys, of_key(key), sequence)
    }

    pub(crate) fn covers(&self, header: &Header) -> bool {
        self.covers_key(header.key, header.sequence) || covers_groups(&self.groups, header, header.sequence)
    }

    /// Whether a soft purge has made a fragment stale. What counts is when the caller appended it,
    /// and not when the store moved it.
    pub(crate) fn makes_stale(&self, header: &Header) -> bool {
        let sequence = header.first_sequence;
        is_purged(&self.soft_keys, of_key(header.key), sequence) || covers_groups(&self.soft_groups, header, sequence)
    }

    /// All numbers, as the checkpoint holds them.
    pub(crate) fn tables(&mut self) -> [&mut Vec<u64>; 4] {
        [&mut self.keys, &mut self.groups, &mut self.soft_keys, &mut self.soft_groups]
    }
}

fn covers_groups(table: &[u64], header: &Header, sequence: u64) -> bool {
    let groups = header.description.groups.iter().filter(|group| **group != 0);
    groups.into_iter().any(|group| is_purged(table, of_group(*group), sequence))
}

fn is_purged(table: &[u64], hashes: [u64; 2], sequence: u64) -> bool {
    hashes.into_iter().all(|hash| sequence < table[below(hash, table.len())])
}

fn of_key(key: Key) -> [u64; 2] {
    let (low, high) = key.halves();
    [mixed(low), mixed(high)]
}

fn of_group(group: u32) -> [u64; 2] {
    let hash = mixed(u64::from(group));
    [hash, mixed(hash.rotate_left(32))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purges_are_not_forgotten_and_take_few_along() {
        let key = |number: u32| Key::of(&number.to_le_bytes());
        let mut purges = Purges::new(1024);
        for number in 0..50 {
            purges.apply(Entry::PurgeKey { key: key(number), sequence: 1000 + u64::from(number) });
            purges.apply(Entry::PurgeGroup { group: number + 1, sequence: 1000 });
        }
        let is_purged = |number, sequence| purges.covers_key(key(number), sequence);
        assert!((0..50).all(|number| is_purged(number, 999 + u64::from(number))));
        assert!(!(0..50).any(|number| is_purged(number, 1100)));
        // Of others, (1 - exp(-2 * 50 / 1024))^2: 0.86 %.
        let taken_along = (50..10_050).filter(|number| is_purged(*number, 500)).count();
        assert!((50..130).contains(&taken_along), "{taken_along}");
        let groups = (51..10_051).filter(|group| super::is_purged(&purges.groups, of_group(*group), 500)).count();
        assert!((50..130).contains(&groups), "{groups}");
    }
}
