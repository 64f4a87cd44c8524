//! Look-ups. Bodies that are not on the medium yet come from memory; short ones are read and
//! verified each time; long ones are verified once in the life of the process and then left to
//! `sendfile`.

use super::state::{Index, Pending, Volume};
use crate::{
    directory::Entry,
    error::Error,
    key::{Key, Part, PartHash},
    leases::Lease,
    record::{Description, HEADER_BYTES, Header, record_bytes},
};
use std::{fs, sync::Arc};

/// A fragment that was found.
#[derive(Debug)]
pub struct Fragment {
    /// Its description, from when it was appended.
    pub description: Description,
    /// When it was first stored, in seconds since 1970.
    pub stored_s: u64,
    /// Whether a soft purge came after the caller appended it.
    pub is_stale: bool,
    /// Its bytes.
    pub body: Body,
}

/// The bytes of a fragment.
#[derive(Debug)]
pub enum Body {
    /// In memory.
    Memory(Arc<[u8]>),
    /// On the medium.
    File(Location),
}

/// A range of a file that holds a fragment, and stays as it is while the location exists.
#[derive(Debug)]
pub struct Location {
    /// The volume's file.
    pub file: Arc<fs::File>,
    /// The offset of the fragment's first byte in the file.
    pub offset: u64,
    /// The length of the fragment in bytes.
    pub length: u32,
    /// Keeps the bytes as they are.
    pub lease: Lease,
}

/// The outcome of reading a record.
pub(super) enum Reading {
    Whole(Header, Arc<[u8]>),
    /// The header alone was read.
    Head(Header),
    /// A checksum is wrong, and no older record explains it.
    Damaged,
    /// Another record lies there: the one that was expected never became durable.
    Unwritten,
}

impl Volume {
    /// Looks a fragment up; `None` if it is not there, was purged, or is damaged.
    pub fn lookup(&self, key: Key, part: Part) -> Result<Option<Fragment>, Error> {
        let found = if self.is_lost() { Ok(None) } else { self.find(key, part) };
        if !matches!(found, Ok(Some(_))) {
            self.index().statistics.misses += 1;
        }
        found
    }

    fn find(&self, key: Key, part: Part) -> Result<Option<Fragment>, Error> {
        let hash = PartHash::of(key, part);
        let (mut entry, lease, place) = {
            let mut index = self.index();
            let Some(entry) = index.living(hash) else { return Ok(None) };
            if let Some(pending) = index.pending.get(&entry.offset_units).cloned() {
                return Ok(index.take_pending(hash, entry, &pending, key, part));
            }
            (entry, self.leases.lease(index.log.stripe_of(entry)), index.log.place_of(entry))
        };
        let file = self.medium.file();
        let in_memory = file.is_none()
            || u64::from(entry.size_units) * 512 <= record_bytes(self.settings.memory_bytes_max as usize);
        let _turn = (!in_memory && !entry.verified).then(|| self.verifications.take(entry));
        if _turn.is_some()
            && let Some(now) = self.index().living(hash)
        {
            // Another look-up may have verified it meanwhile.
            entry.verified = now.verified && (now.offset_units, now.lap) == (entry.offset_units, entry.lap);
        }
        let reading = self.read_record(entry, place, in_memory || !entry.verified);
        let reading = reading.map_err(|error| self.failed(error));
        let mut index = self.index();
        let (header, body) = match reading {
            Ok(Reading::Whole(header, body)) => (header, Some(body)),
            Ok(Reading::Head(header)) => (header, None),
            Ok(Reading::Damaged) => {
                index.statistics.damaged += 1;
                index.directory.remove(hash, entry);
                return Ok(None);
            }
            Ok(Reading::Unwritten) => {
                index.statistics.unwritten += 1;
                index.directory.remove(hash, entry);
                return Ok(None);
            }
            Err(error) => {
                index.directory.remove(hash, entry);
                return Err(error);
            }
        };
        if (header.key, header.part) != (key, part) {
            return Ok(None);
        }
        if index.purges.covers(&header) {
            index.directory.remove(hash, entry);
            return Ok(None);
        }
        index.directory.update(hash, entry, |entry| {
            entry.hit();
            entry.verified |= body.is_some();
        });
        index.statistics.hits += 1;
        index.statistics.hit_bytes += u64::from(header.body_bytes);
        let is_stale = index.purges.makes_stale(&header);
        drop(index);
        let body = match (body, file) {
            (Some(body), _) if in_memory => Body::Memory(body),
            (_, Some(file)) => {
                let offset = self.offset(entry.offset_units) + HEADER_BYTES as u64;
                Body::File(Location { file: Arc::clone(file), offset, length: header.body_bytes, lease })
            }
            (body, None) => Body::Memory(body.expect("without a file, whole records are read")),
        };
        Ok(Some(Fragment { description: header.description, stored_s: header.stored_s, is_stale, body }))
    }

    /// Reads the record of an entry, and verifies of it what was read. `place` is where the record
    /// must say that it was written.
    pub(super) fn read_record(&self, entry: Entry, place: u64, whole: bool) -> Result<Reading, Error> {
        let mut head = [0; HEADER_BYTES];
        let mut all = Vec::new();
        let record = if whole {
            all.resize(usize::from(entry.size_units) * 512, 0);
            &mut all[..]
        } else {
            // The usual look-up of a long fragment, which allocates nothing.
            &mut head[..]
        };
        self.medium.read_at(record, self.offset(entry.offset_units)).map_err(Error::reading)?;
        let Some(header) = Header::decode(record, self.geometry.id) else {
            // Nothing was ever written to a block of zeros.
            let blank = record[..HEADER_BYTES].iter().all(|byte| *byte == 0);
            return Ok(if blank { Reading::Unwritten } else { Reading::Damaged });
        };
        if header.place != place || header.record_bytes() != u64::from(entry.size_units) * 512 {
            return Ok(Reading::Unwritten);
        }
        if !whole {
            return Ok(Reading::Head(header));
        }
        let body = &record[HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize];
        if !header.vouches_for(body, self.geometry.id) {
            return Ok(Reading::Damaged);
        }
        Ok(Reading::Whole(header, body.into()))
    }
}

impl Index {
    fn take_pending(
        &mut self,
        hash: PartHash,
        entry: Entry,
        pending: &Pending,
        key: Key,
        part: Part,
    ) -> Option<Fragment> {
        let header = &pending.header;
        if (header.key, header.part) != (key, part) || self.purges.covers(header) {
            return None;
        }
        self.directory.update(hash, entry, Entry::hit);
        self.statistics.hits += 1;
        self.statistics.hit_bytes += u64::from(header.body_bytes);
        let body = Body::Memory(Arc::clone(&pending.body));
        let is_stale = self.purges.makes_stale(header);
        Some(Fragment { description: header.description, stored_s: header.stored_s, is_stale, body })
    }
}

impl Body {
    /// The length in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Self::Memory(bytes) => bytes.len() as u64,
            Self::File(location) => u64::from(location.length),
        }
    }
}
