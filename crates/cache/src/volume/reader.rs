//! Look-ups. Bodies that are not on the medium yet come from memory; short ones are read and
//! verified each time; long ones are verified once in the life of the process and then left to
//! `sendfile`.

use super::state::{Index, Pending, Volume};
use crate::{
    directory::Entry,
    error::Error,
    key::{Key, Part, PartHash},
    leases::Lease,
    pieces::Pieces,
    record::{Description, HEADER_BYTES, Header, record_bytes},
};
use bytes::Bytes;
use std::{
    fs,
    sync::{Arc, MutexGuard},
};

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
    Memory(Pieces),
    /// On the medium.
    File(Location),
}

/// The outcome of a look-up that does not wait.
#[derive(Debug)]
pub enum Looked {
    /// It was done; the fragment, if it is there.
    Done(Option<Fragment>),
    /// It may have to wait for the disk, and [`Volume::lookup`] has to be called where that does no
    /// harm.
    Waits,
}

/// Whether a look-up may wait for the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    Allowed,
    Avoided,
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
    Whole(Header, Bytes),
    /// The header alone was read.
    Head(Header),
    /// Nothing was read: it may have to wait for the disk.
    Waits,
    /// A checksum is wrong, and no older record explains it.
    Damaged,
    /// Another record lies there: the one that was expected never became durable.
    Unwritten,
}

impl Volume {
    /// Looks a fragment up; `None` if it is not there, was purged, or is damaged.
    pub fn lookup(&self, key: Key, part: Part) -> Result<Option<Fragment>, Error> {
        match self.count_miss(self.look_up(key, part, Waiting::Allowed))? {
            Looked::Done(found) => Ok(found),
            Looked::Waits => unreachable!("waiting was allowed"),
        }
    }

    /// Looks a fragment up, unless that may wait for the disk: what is short has to be in the page
    /// cache, and what is long has to have been verified.
    pub fn lookup_now(&self, key: Key, part: Part) -> Result<Looked, Error> {
        self.count_miss(self.look_up(key, part, Waiting::Avoided))
    }

    /// Counts a hit of a fragment that was answered from elsewhere.
    pub fn touch(&self, key: Key, part: Part) {
        let hash = PartHash::of(key, part);
        let mut index = self.index();
        if let Some(entry) = index.living(hash) {
            index.directory.update(hash, entry, Entry::hit);
        }
    }

    fn count_miss(&self, looked: Result<Looked, Error>) -> Result<Looked, Error> {
        if matches!(looked, Ok(Looked::Done(None)) | Err(_)) {
            self.index().statistics.misses += 1;
        }
        looked
    }

    fn look_up(&self, key: Key, part: Part, waiting: Waiting) -> Result<Looked, Error> {
        if self.is_lost() {
            return Ok(Looked::Done(None));
        }
        let hash = PartHash::of(key, part);
        let (mut entry, lease, place) = {
            let mut index = self.index();
            let Some(entry) = index.living(hash) else { return Ok(Looked::Done(None)) };
            if let Some(pending) = index.pending.get(&entry.offset_units).cloned() {
                return Ok(Looked::Done(index.take_pending(hash, entry, &pending, key, part)));
            }
            (entry, self.leases.lease(index.log.stripe_of(entry)), index.log.place_of(entry))
        };
        let file = self.medium.file();
        let in_memory = file.is_none()
            || u64::from(entry.size_units) * 512 <= record_bytes(self.settings.memory_bytes_max as usize);
        if waiting == Waiting::Avoided && !in_memory && !entry.verified {
            return Ok(Looked::Waits);
        }
        let _turn = (!in_memory && !entry.verified).then(|| self.wait_for_turn(hash, &mut entry));
        let reading = self.read_record(entry, place, in_memory || !entry.verified, waiting);
        let reading = reading.map_err(|error| self.failed(error));
        let mut index = self.index();
        let (header, body) = match reading {
            Ok(Reading::Whole(header, body)) => (header, Some(body)),
            Ok(Reading::Head(header)) => (header, None),
            Ok(Reading::Waits) => return Ok(Looked::Waits),
            Ok(Reading::Damaged) => {
                index.statistics.damaged += 1;
                index.directory.remove(hash, entry);
                return Ok(Looked::Done(None));
            }
            Ok(Reading::Unwritten) => {
                index.statistics.unwritten += 1;
                index.directory.remove(hash, entry);
                return Ok(Looked::Done(None));
            }
            Err(error) => {
                index.directory.remove(hash, entry);
                return Err(error);
            }
        };
        if (header.key, header.part) != (key, part) {
            return Ok(Looked::Done(None));
        }
        if index.purges.covers(&header) {
            index.directory.remove(hash, entry);
            return Ok(Looked::Done(None));
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
            (Some(body), _) if in_memory => Body::Memory(body.into()),
            (_, Some(file)) => {
                let offset = self.offset(entry.offset_units) + HEADER_BYTES as u64;
                Body::File(Location { file: Arc::clone(file), offset, length: header.body_bytes, lease })
            }
            (body, None) => Body::Memory(body.expect("without a file, whole records are read").into()),
        };
        let (description, stored_s) = (header.description, header.stored_s);
        Ok(Looked::Done(Some(Fragment { description, stored_s, is_stale, body })))
    }

    /// Waits for the turn to verify an entry, unless another look-up has verified it by then.
    fn wait_for_turn(&self, hash: PartHash, entry: &mut Entry) -> MutexGuard<'_, ()> {
        let turn = self.verifications.take(*entry);
        if let Some(now) = self.index().living(hash) {
            entry.verified = now.verified && (now.offset_units, now.lap) == (entry.offset_units, entry.lap);
        }
        turn
    }

    /// Reads the record of an entry, and verifies of it what was read. `place` is where the record
    /// must say that it was written.
    pub(super) fn read_record(
        &self,
        entry: Entry,
        place: u64,
        whole: bool,
        waiting: Waiting,
    ) -> Result<Reading, Error> {
        let mut head = [0; HEADER_BYTES];
        let mut all = Vec::new();
        let record = if whole {
            all.resize(usize::from(entry.size_units) * 512, 0);
            &mut all[..]
        } else {
            // The usual look-up of a long fragment, which allocates nothing.
            &mut head[..]
        };
        let offset = self.offset(entry.offset_units);
        let is_read = match waiting {
            Waiting::Allowed => self.medium.read_at(record, offset).map(|()| true),
            Waiting::Avoided => self.medium.read_now(record, offset),
        };
        if !is_read.map_err(Error::reading)? {
            return Ok(Reading::Waits);
        }
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
        let body = HEADER_BYTES..HEADER_BYTES + header.body_bytes as usize;
        if !header.vouches_for(&record[body.clone()], self.geometry.id) {
            return Ok(Reading::Damaged);
        }
        Ok(Reading::Whole(header, Bytes::from(all).slice(body)))
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
        let body = Body::Memory(pending.body.clone());
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
