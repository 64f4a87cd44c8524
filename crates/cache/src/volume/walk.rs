//! Walks over everything that is stored: to verify it, and to list it, whole or by the names in
//! heads.
//!
//! Two kinds of walks differ in their order. To verify and to list takes the directory's memory a
//! second time, and reads in the order of the medium. A walk over heads goes on beside requests: it
//! takes a part of the directory at a time, so that look-ups wait for no more than that.

use super::{
    reader::{Reading, Waiting},
    state::{Index, Volume},
};
use crate::{
    directory::Entry,
    head::Head,
    key::{Key, Part, PartHash},
    record::{Description, Header},
};

/// Slots of the directory that a walk over heads takes at a time: half a megabyte.
const PART_SLOTS: usize = 1 << 16;

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
    /// Look-ups that found it lately, from 0 to 3: it loses one with each second chance.
    pub hits: u8,
    /// Whether a soft purge came after the caller appended it.
    pub is_stale: bool,
}

/// The head of a stored object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredHead<'a> {
    /// The object's name; `None` if the content is not that of a [`Head`].
    pub name: Option<&'a str>,
    /// The caller's bytes behind the name.
    pub rest: &'a [u8],
    /// The head as a part.
    pub stored: Stored,
}

/// How much of records a walk reads, and of what it tells.
enum Visitor<'a> {
    /// All bodies.
    Whole,
    /// Of each record the header.
    Each(&'a mut dyn FnMut(Stored)),
    /// Of each record the header, and heads whole.
    Heads(&'a mut dyn FnMut(StoredHead<'_>)),
}

impl Volume {
    /// Reads every fragment and verifies its checksums. Damaged ones are taken out.
    pub fn verify(&self) -> Verification {
        self.walk(&mut Visitor::Whole)
    }

    /// Tells of every stored fragment. Heads of records are read and verified, bodies are not.
    pub fn list(&self, each: &mut dyn FnMut(Stored)) -> Verification {
        self.walk(&mut Visitor::Each(each))
    }

    /// Tells of the head of every stored object, with its name. A head that was appended before the
    /// call and is stored when it returns is told of at least once, wherever the store moves it
    /// meanwhile. `each` is called under a lock that look-ups take: it must be quick.
    pub fn list_heads(&self, each: &mut dyn FnMut(StoredHead<'_>)) -> Verification {
        let visitor = &mut Visitor::Heads(each);
        let (heads, moves) = self.index().heads_and_moves();
        let mut outcome = Verification::default();
        self.walk_by_parts(visitor, &mut outcome, |_, _| true);
        if self.index().heads_and_moves().1 != moves {
            // A fragment that was moved meanwhile may have come to a part that was walked before,
            // and lies in a stripe that was written since. It moves again after a whole lap.
            self.walk_by_parts(visitor, &mut outcome, |index, entry| index.log.is_since(entry, heads));
        }
        outcome
    }

    /// Visits the entries for which this holds, by parts of the directory.
    fn walk_by_parts(
        &self,
        visitor: &mut Visitor<'_>,
        outcome: &mut Verification,
        is_meant: impl Fn(&Index, Entry) -> bool,
    ) {
        let slots = self.index().directory.len();
        for first in (0..slots).step_by(PART_SLOTS) {
            let mut entries: Vec<Entry> = {
                let index = self.index();
                let part = index.directory.entries_of(first..(first + PART_SLOTS).min(slots));
                part.filter(|entry| index.log.age(*entry).is_some() && is_meant(&index, *entry)).collect()
            };
            entries.sort_unstable_by_key(|entry| entry.offset_units);
            for entry in entries {
                self.visit(entry, visitor, outcome);
            }
        }
    }

    fn walk(&self, visitor: &mut Visitor<'_>) -> Verification {
        let mut entries: Vec<Entry> = {
            let index = self.index();
            index.directory.entries().filter(|entry| index.log.age(*entry).is_some()).collect()
        };
        entries.sort_unstable_by_key(|entry| entry.offset_units);
        let mut outcome = Verification::default();
        for entry in entries {
            self.visit(entry, visitor, &mut outcome);
        }
        outcome
    }

    fn visit(&self, entry: Entry, visitor: &mut Visitor<'_>, outcome: &mut Verification) {
        let (place, _lease) = {
            let index = self.index();
            // The cursor may have come by since the walk began.
            if index.log.age(entry).is_none() {
                return;
            }
            if let Some(pending) = index.pending.get(&entry.offset_units) {
                index.note(entry, &pending.header, &pending.body.joined(), visitor, outcome);
                return;
            }
            (index.log.place_of(entry), self.leases.lease(index.log.stripe_of(entry)))
        };
        let mut reading = self.read_record(entry, place, matches!(visitor, Visitor::Whole), Waiting::Allowed);
        if let (Ok(Reading::Head(header)), Visitor::Heads(_)) = (&reading, &*visitor)
            && header.part == Part::HEAD
        {
            reading = self.read_record(entry, place, true, Waiting::Allowed);
        }
        let mut index = self.index();
        match reading {
            Ok(Reading::Whole(header, body)) => {
                let hash = PartHash::of(header.key, header.part);
                index.directory.update(hash, entry, |entry| entry.verified = true);
                index.note(entry, &header, &body, visitor, outcome);
            }
            Ok(Reading::Head(header)) => index.note(entry, &header, &[], visitor, outcome),
            Ok(Reading::Waits) => {}
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
    /// The counts of the stripes that are being written, and how many fragments were moved so far.
    fn heads_and_moves(&self) -> ([u64; 2], u64) {
        (self.log.rings.map(|ring| ring.head), self.statistics.promoted + self.statistics.second_chances)
    }

    fn note(&self, entry: Entry, header: &Header, body: &[u8], visitor: &mut Visitor<'_>, outcome: &mut Verification) {
        if self.purges.covers(header) {
            outcome.purged += 1;
            return;
        }
        outcome.fragments += 1;
        outcome.bytes += u64::from(header.body_bytes);
        let Header { key, part, description, stored_s, body_bytes, .. } = *header;
        let is_stale = self.purges.makes_stale(header);
        let stored = Stored { key, part, description, stored_s, bytes: body_bytes, hits: entry.hits, is_stale };
        match visitor {
            Visitor::Whole => {}
            Visitor::Each(each) => each(stored),
            Visitor::Heads(each) if part == Part::HEAD => {
                let head = Head::decode(body);
                let rest = head.as_ref().map_or(&[][..], |head| head.rest);
                each(StoredHead { name: head.as_ref().map(|head| head.name), rest, stored });
            }
            Visitor::Heads(_) => {}
        }
    }
}
