//! The socket table: dense indices that are used again, with generations that distinguish an old
//! holder from a new one.

/// Names one open socket of one driver.
///
/// The index is dense and small, so that an owner can keep its own state in a plain `Vec` at the
/// same index. The generation makes an id unique over the driver's life (up to wrap-around after
/// 2^24 uses of one index): a completion that arrives for a socket that was closed meanwhile is
/// recognised and dropped.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct SocketId {
    index: u32,
    generation: u32,
}

/// Generations fit into 24 bits, so that index, generation and operation share one 64-bit token.
const GENERATION_MASK: u32 = 0x00FF_FFFF;

impl SocketId {
    /// The dense index, `0..sockets_max`.
    pub const fn index(self) -> usize {
        self.index as usize
    }

    /// Index and generation as one integer below 2^56.
    pub const fn to_bits(self) -> u64 {
        ((self.generation as u64) << 32) | self.index as u64
    }

    /// The inverse of [`SocketId::to_bits`]; bits from 56 up are ignored.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: bits as u32, generation: (bits >> 32) as u32 & GENERATION_MASK }
    }
}

struct Slot<T> {
    generation: u32,
    entry: Option<T>,
}

/// A slab of at most `capacity` entries, addressed by [`SocketId`]. Freed indices are used again
/// last-in first-out, so that a small working set stays in the same cache lines.
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    capacity: usize,
}

impl<T> Table<T> {
    /// Memory of one entry, in bytes.
    #[cfg(test)]
    pub(crate) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    /// An empty table; memory grows with use.
    pub fn new(capacity: usize) -> Self {
        assert!(u32::try_from(capacity).is_ok(), "a socket table holds at most 2^32 entries");
        Self { slots: Vec::new(), free: Vec::new(), capacity }
    }

    /// Puts an entry in. Gives it back if the table is full.
    pub fn insert(&mut self, entry: T) -> Result<SocketId, T> {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.entry = Some(entry);
            return Ok(SocketId { index, generation: slot.generation });
        }
        if self.slots.len() == self.capacity {
            return Err(entry);
        }
        let index = self.slots.len() as u32;
        self.slots.push(Slot { generation: 0, entry: Some(entry) });
        Ok(SocketId { index, generation: 0 })
    }

    /// The entry, if `id` is still its name.
    pub fn entry(&self, id: SocketId) -> Option<&T> {
        let slot = self.slots.get(id.index())?;
        if slot.generation == id.generation { slot.entry.as_ref() } else { None }
    }

    /// The entry, if `id` is still its name.
    pub fn entry_mut(&mut self, id: SocketId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation == id.generation { slot.entry.as_mut() } else { None }
    }

    /// Takes the entry out and retires its id.
    pub fn remove(&mut self, id: SocketId) -> Option<T> {
        let slot = self.slots.get_mut(id.index())?;
        if slot.generation != id.generation {
            return None;
        }
        let entry = slot.entry.take()?;
        slot.generation = (slot.generation + 1) & GENERATION_MASK;
        self.free.push(id.index);
        Some(entry)
    }

    /// How many entries are in the table.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether there is no room for another entry.
    pub fn is_full(&self) -> bool {
        self.free.is_empty() && self.slots.len() == self.capacity
    }

    /// Whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries with their ids, in index order.
    pub fn iter(&self) -> impl Iterator<Item = (SocketId, &T)> {
        self.slots.iter().enumerate().filter_map(|(index, slot)| {
            let id = SocketId { index: index as u32, generation: slot.generation };
            slot.entry.as_ref().map(|entry| (id, entry))
        })
    }

    /// All ids in use, in index order.
    pub fn ids(&self) -> Vec<SocketId> {
        self.iter().map(|(id, _)| id).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_id_does_not_reach_the_next_tenant() {
        let mut table = Table::new(2);
        let first = table.insert('a').unwrap();
        assert_eq!(table.remove(first), Some('a'));
        let second = table.insert('b').unwrap();
        assert_eq!(first.index(), second.index());
        assert_eq!(table.entry(first), None);
        assert_eq!(table.remove(first), None);
        assert_eq!(table.entry(second), Some(&'b'));
    }

    #[test]
    fn a_full_table_gives_the_entry_back() {
        let mut table = Table::new(1);
        table.insert(1).unwrap();
        assert_eq!(table.insert(2), Err(2));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn ids_survive_the_trip_through_a_token() {
        let mut table = Table::new(3);
        for _ in 0..3 {
            let id = table.insert(()).unwrap();
            table.remove(id);
            let id = table.insert(()).unwrap();
            assert_eq!(SocketId::from_bits(id.to_bits() | 0xAB << 56), id);
        }
    }
}
