//! The tables of header fields that a header block refers to by number (RFC 7541, 2.3).

use std::collections::VecDeque;

/// Bytes that an entry is charged beside its name and its value (RFC 7541, 4.1).
pub const ENTRY_CHARGE: usize = 32;

/// The static table (RFC 7541, appendix A); its first entry has the number 1.
#[rustfmt::skip]
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""), (":method", "GET"), (":method", "POST"), (":path", "/"), (":path", "/index.html"),
    (":scheme", "http"), (":scheme", "https"), (":status", "200"), (":status", "204"), (":status", "206"),
    (":status", "304"), (":status", "400"), (":status", "404"), (":status", "500"), ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"), ("accept-language", ""), ("accept-ranges", ""), ("accept", ""),
    ("access-control-allow-origin", ""), ("age", ""), ("allow", ""), ("authorization", ""), ("cache-control", ""),
    ("content-disposition", ""), ("content-encoding", ""), ("content-language", ""), ("content-length", ""),
    ("content-location", ""), ("content-range", ""), ("content-type", ""), ("cookie", ""), ("date", ""), ("etag", ""),
    ("expect", ""), ("expires", ""), ("from", ""), ("host", ""), ("if-match", ""), ("if-modified-since", ""),
    ("if-none-match", ""), ("if-range", ""), ("if-unmodified-since", ""), ("last-modified", ""), ("link", ""),
    ("location", ""), ("max-forwards", ""), ("proxy-authenticate", ""), ("proxy-authorization", ""), ("range", ""),
    ("referer", ""), ("refresh", ""), ("retry-after", ""), ("server", ""), ("set-cookie", ""),
    ("strict-transport-security", ""), ("transfer-encoding", ""), ("user-agent", ""), ("vary", ""), ("via", ""),
    ("www-authenticate", ""),
];

/// The dynamic table: the newest entries, as many as its size holds (RFC 7541, 2.3.2).
///
/// Names and values stand one behind the other in one buffer, in which the live ones are moved to
/// the front when it has grown to twice the table's size: an entry costs no allocation of its own.
#[derive(Debug, Default)]
pub(super) struct DynamicTable {
    bytes: Vec<u8>,
    /// Oldest first.
    entries: VecDeque<Entry>,
    /// The charge of all entries.
    size: usize,
    size_max: usize,
    /// Entries that were ever inserted.
    inserted: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    start: u32,
    name_len: u32,
    value_len: u32,
}

impl Entry {
    fn charge(&self) -> usize {
        (self.name_len + self.value_len) as usize + ENTRY_CHARGE
    }
}

impl DynamicTable {
    pub(super) fn new(size_max: usize) -> Self {
        Self { size_max, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn size_max(&self) -> usize {
        self.size_max
    }

    /// Changes with each insertion, so that the numbers of a block made before no longer hold.
    pub(super) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Name and value of an entry; 0 is the newest.
    pub(super) fn entry(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let entry = self.entries.get(self.entries.len().checked_sub(index + 1)?)?;
        let (name, rest) = self.bytes[entry.start as usize..].split_at(entry.name_len as usize);
        Some((name, &rest[..entry.value_len as usize]))
    }

    /// All entries, newest first.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        (0..self.len()).map_while(|index| self.entry(index))
    }

    /// Sets the size, and evicts what no longer fits (RFC 7541, 4.3).
    pub(super) fn resize(&mut self, size_max: usize) {
        self.size_max = size_max;
        self.evict(0);
        if self.entries.is_empty() {
            self.bytes = Vec::new();
        }
    }

    /// Inserts an entry, and evicts the oldest ones for it. One that is larger than the table
    /// empties it (RFC 7541, 4.4).
    pub(super) fn insert(&mut self, name: &[u8], value: &[u8]) {
        self.inserted += 1;
        let charge = name.len() + value.len() + ENTRY_CHARGE;
        self.evict(charge);
        if charge > self.size_max {
            return;
        }
        self.make_room(name.len() + value.len());
        let entry =
            Entry { start: self.bytes.len() as u32, name_len: name.len() as u32, value_len: value.len() as u32 };
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.entries.push_back(entry);
        self.size += charge;
    }

    /// Inserts an entry that is larger than the table, whatever it is.
    pub(super) fn insert_too_large(&mut self) {
        self.inserted += 1;
        self.entries.clear();
        self.size = 0;
    }

    /// Evicts the oldest entries until so much more fits, or none is left.
    fn evict(&mut self, more: usize) {
        while self.size + more > self.size_max {
            let Some(oldest) = self.entries.pop_front() else { return };
            self.size -= oldest.charge();
        }
    }

    /// Moves the live bytes to the front of the buffer when it is full.
    fn make_room(&mut self, more: usize) {
        if self.bytes.len() + more <= 2 * self.size_max {
            return;
        }
        let start = self.entries.front().map_or(self.bytes.len(), |oldest| oldest.start as usize);
        self.bytes.drain(..start);
        for entry in &mut self.entries {
            entry.start -= start as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_entries_make_room() {
        let mut table = DynamicTable::new(100);
        table.insert(b"a", b"1");
        table.insert(b"b", b"22");
        assert_eq!(table.entries().collect::<Vec<_>>(), [(&b"b"[..], &b"22"[..]), (b"a", b"1")]);
        table.insert(b"c", b"333");
        assert_eq!(table.entries().collect::<Vec<_>>(), [(&b"c"[..], &b"333"[..]), (b"b", b"22")]);
        table.resize(40);
        assert_eq!(table.entries().collect::<Vec<_>>(), [(&b"c"[..], &b"333"[..])]);
        table.insert(b"name", &[b'x'; 40]);
        assert_eq!((table.len(), table.inserted()), (0, 4), "an entry larger than the table empties it");
    }

    #[test]
    fn the_buffer_stays_below_twice_the_table() {
        let mut table = DynamicTable::new(4096);
        for number in 0..10_000_u32 {
            let value = vec![b'v'; (number % 97) as usize];
            table.insert(&number.to_be_bytes(), &value);
            assert_eq!(table.entry(0), Some((&number.to_be_bytes()[..], &value[..])));
            assert!(table.bytes.len() <= 2 * 4096 && table.size <= 4096);
        }
        let oldest = table.entry(table.len() - 1).expect("the oldest entry");
        assert_eq!(oldest.0.len(), 4);
        assert_eq!(table.entry(table.len()), None);
    }
}
