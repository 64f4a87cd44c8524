//! Walks over everything that is stored, in the order of the medium: for `verify` and `ls`. A walk
//! takes the directory's memory a second time while it goes on.

use super::{
    reader::Reading,
    state::{Index, Volume},
};
use crate::{
    directory::Entry,
    key::{Key, Part, PartHash},
    record::{Description, Header},
};

/// The outcome of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verification {
    /// Fragments that are found and right, and the bytes of their bodies.
    pub fragments: u64,
    /// The bytes of their bodies.
    pub bytes: u64,
    /// Records with a wrong checksum; they are not found any more.
    pub damaged: u64,
    /// Records that never became durable; they are not found any more.
    pub unwritten: u64,
    /// Records that could not be read.
    pub unreadable: u64,
    /// Records that were purged.
    pub purged: u64,
}

impl Verification {
    /// Adds that of another volume.
    pub fn add(&mut self, other: &Self) {
        self.fragments += other.fragments;
        self.bytes += other.bytes;
        self.damaged += other.damaged;
        self.unwritten += other.unwritten;
        self.unreadable += other.unreadable;
        self.purged += other.purged;
    }
}

/// A stored fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored {
    /// The object's key.
    pub key: Key,
    /// Which part of the object it is.
    pub part: Part,
    /// Its description.
    pub description: Description,
    /// When it was first stored, in seconds since 1970.
    pub stored_s: u64,
    /// The length of the fragment.
    pub bytes: u32,
}

impl Volume {
    /// Reads every fragment and verifies its checksums. Damaged ones are taken out.
    pub fn verify(&self) -> Verification {
        self.walk(true, &mut |_| {})
    }

    /// Tells of every stored fragment. Heads of records are read and verified, bodies are not.
    pub fn list(&self, each: &mut dyn FnMut(Stored)) -> Verification {
        self.walk(false, each)
    }

    fn walk(&self, whole: bool, each: &mut dyn FnMut(Stored)) -> Verification {
        let mut entries: Vec<Entry> = {
            let index = self.index();
            index.directory.entries().filter(|entry| index.log.age(*entry).is_some()).collect()
        };
        entries.sort_unstable_by_key(|entry| entry.offset_units);
        let mut outcome = Verification::default();
        for entry in entries {
            self.visit(entry, whole, each, &mut outcome);
        }
        outcome
    }

    fn visit(&self, entry: Entry, whole: bool, each: &mut dyn FnMut(Stored), outcome: &mut Verification) {
        let (place, _lease) = {
            let index = self.index();
            // The cursor may have come by since the walk began.
            if index.log.age(entry).is_none() {
                return;
            }
            if let Some(pending) = index.pending.get(&entry.offset_units) {
                let header = pending.header;
                index.note(&header, each, outcome);
                return;
            }
            (index.log.place_of(entry), self.leases.lease(index.log.stripe_of(entry)))
        };
        let reading = self.read_record(entry, place, whole);
        let mut index = self.index();
        match reading {
            Ok(Reading::Whole(header, _)) => {
                let hash = PartHash::of(header.key, header.part);
                index.directory.update(hash, entry, |entry| entry.verified = true);
                index.note(&header, each, outcome);
            }
            Ok(Reading::Head(header)) => index.note(&header, each, outcome),
            Ok(Reading::Damaged) => {
                outcome.damaged += 1;
                index.statistics.damaged += 1;
                index.directory.remove_entry(entry);
            }
            Ok(Reading::Unwritten) => {
                outcome.unwritten += 1;
                index.statistics.unwritten += 1;
                index.directory.remove_entry(entry);
            }
            Err(error) => {
                outcome.unreadable += 1;
                self.failed(error);
            }
        }
    }
}

impl Index {
    fn note(&self, header: &Header, each: &mut dyn FnMut(Stored), outcome: &mut Verification) {
        if self.purges.covers(header) {
            outcome.purged += 1;
            return;
        }
        outcome.fragments += 1;
        outcome.bytes += u64::from(header.body_bytes);
        let Header { key, part, description, stored_s, body_bytes, .. } = *header;
        each(Stored { key, part, description, stored_s, bytes: body_bytes });
    }
}
