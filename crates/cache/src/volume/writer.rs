//! Appending: records gather in an open segment of their area, and leave in one write when the
//! stripe or the summary is full. Purges are entries of summaries and are durable before they
//! return. The step of a cursor to its next stripe is in `eviction`. A segment is written under the
//! writer's lock; syncs of purges alone are, too.

use super::state::{Index, Item, Open, Pending, Volume, Writer};
use crate::{
    bytes::{BLOCK_BYTES, Checksum, UNIT_BYTES},
    cursor::{MAIN, PROBATION},
    directory,
    error::Error,
    key::{Key, Part, PartHash},
    pieces::Pieces,
    record::{Description, HEADER_BYTES, Header, record_bytes},
    segment::{Durable, Entry, Summary},
};
use std::{io, sync::Arc};

/// A thing to purge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purge {
    /// All parts of an object.
    Key(Key),
    /// Everything that was appended with this group.
    Group(u32),
    /// All parts of an object become stale, and are still found.
    SoftKey(Key),
    /// Everything that was appended with this group becomes stale, and is still found.
    SoftGroup(u32),
}

/// How an attempt to append ends that did not succeed.
pub(super) enum Blocked {
    Failed(Error),
    /// A cursor may not go further before the checkpoint with this number.
    Checkpoint(u64),
}

impl From<Error> for Blocked {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Volume {
    /// Appends a fragment; it is found from now on, and durable some time later. Of two fragments
    /// with the same key and part, the newer one is found.
    pub fn append(&self, key: Key, part: Part, description: Description, body: impl Into<Pieces>) -> Result<(), Error> {
        self.append_pieces(key, part, description, body.into())
    }

    /// Appends a fragment if that needs no wait, neither for a write nor for another thread, and
    /// says whether it did.
    pub fn append_now(&self, key: Key, part: Part, description: Description, body: &Pieces) -> Result<bool, Error> {
        self.check_writable()?;
        self.check_length(body)?;
        let bytes = record_bytes(body.len());
        let (stripe_bytes, entries_max) = (self.geometry.stripe_bytes, Summary::capacity(self.geometry.summary_bytes));
        let Ok(mut writer) = self.writer.try_lock() else { return Ok(false) };
        // Which area it goes to is asked once: the ghost list forgets what it was asked for.
        if !writer.open.iter().all(|open| open.has_room(bytes, stripe_bytes, entries_max)) {
            return Ok(false);
        }
        let area = self.admission(PartHash::of(key, part));
        self.put_new(&mut writer, area, self.item(key, part, description, body.clone()));
        Ok(true)
    }

    fn append_pieces(&self, key: Key, part: Part, description: Description, body: Pieces) -> Result<(), Error> {
        self.check_writable()?;
        self.check_length(&body)?;
        let bytes = record_bytes(body.len());
        let mut item = Some(self.item(key, part, description, body));
        let mut area = None;
        self.attempt(|writer| {
            let area = *area.get_or_insert_with(|| self.admission(PartHash::of(key, part)));
            self.make_room(writer, area, bytes)?;
            self.put_new(writer, area, item.take().expect("only the last attempt comes here"));
            Ok(())
        })
    }

    fn check_length(&self, body: &Pieces) -> Result<(), Error> {
        let (bytes, most) = (body.len(), self.geometry.body_bytes_max());
        if bytes > most { Err(Error::FragmentTooLong { bytes, most }) } else { Ok(()) }
    }

    fn item(&self, key: Key, part: Part, description: Description, body: Pieces) -> Item {
        let mut sum = Checksum::of_volume(self.geometry.id);
        body.iter().for_each(|piece| sum.add(piece));
        let (stored_s, body_checksum) = ((self.settings.clock)(), sum.value());
        Item { key, part, description, stored_s, body, body_checksum, first_sequence: None, hits: 0 }
    }

    fn put_new(&self, writer: &mut Writer, area: usize, item: Item) {
        let mut index = self.index();
        index.statistics.appended += 1;
        index.statistics.appended_bytes += item.body.len() as u64;
        self.put(writer, &mut index, area, item);
    }

    /// Appends under the writer's lock; again, without it in between, after a checkpoint that a
    /// cursor needs.
    fn attempt(&self, mut append: impl FnMut(&mut Writer) -> Result<(), Blocked>) -> Result<(), Error> {
        loop {
            let ended = append(&mut self.writer());
            match ended {
                Ok(()) => return Ok(()),
                Err(Blocked::Failed(error)) => return Err(self.failed(error)),
                Err(Blocked::Checkpoint(number)) => self.checkpoint_numbered(number)?,
            }
        }
    }

    /// The area for a new fragment: main, if its forerunner is there or left probation lately, and
    /// as long as main has stripes that were never written and probation has not.
    fn admission(&self, hash: PartHash) -> usize {
        let mut index = self.index();
        let area = index.living(hash).map(|entry| index.log.area_of(index.log.stripe_of(entry)));
        if area == Some(MAIN) {
            return MAIN;
        }
        if index.ghost.take(hash) {
            index.statistics.ghost_hits += 1;
            return MAIN;
        }
        let [probation, main] = index.log.rings;
        if probation.is_full() && !main.is_full() {
            return MAIN;
        }
        PROBATION
    }

    /// Purges objects and groups: of what was appended before, nothing is found from now on, or all
    /// of it is stale by a soft purge; also after a crash once this has returned `Ok`.
    pub fn purge(&self, purges: &[Purge]) -> Result<(), Error> {
        // All that has gathered is written here, so that the sync under the writer's lock is short.
        // An error comes again there.
        let _ = self.medium.sync();
        let mut failed = None;
        // As many at once as a summary has entries: more might never fit between two checkpoints.
        for purges in purges.chunks(Summary::capacity(self.geometry.summary_bytes)) {
            if let Err(error) = self.purge_some(purges) {
                failed = failed.or(Some(error));
            }
        }
        failed.map_or(Ok(()), |error| Err(Error::PurgeNotDurable(Box::new(error))))
    }

    fn purge_some(&self, purges: &[Purge]) -> Result<(), Error> {
        self.index().statistics.purges += purges.len() as u64;
        self.attempt(|writer| {
            // Again for each attempt: a checkpoint in between knows of sequence numbers before it.
            let entries: Vec<_> = purges.iter().map(|purge| purge.entry(writer)).collect();
            let mut index = self.index();
            entries.iter().for_each(|entry| index.purges.apply(*entry));
            drop(index);
            self.write_purges(writer, &entries)
        })
    }

    /// Writes purges twice, in segments of their own blocks, so that damage to one of them does not
    /// undo a purge. They are counted when they are durable: a crash before must not make it seem
    /// that some are missing.
    fn write_purges(&self, writer: &mut Writer, entries: &[Entry]) -> Result<(), Blocked> {
        self.check_writable()?;
        for _ in 0..2 {
            for entry in entries {
                self.make_room(writer, MAIN, 0)?;
                writer.open[MAIN].entries.push(*entry);
            }
            self.flush(writer, MAIN)?;
        }
        self.medium.sync().map_err(Error::writing)?;
        writer.purges += entries.len() as u64;
        Ok(())
    }

    /// Makes everything durable that was appended so far.
    pub fn flush_all(&self) -> Result<(), Error> {
        self.check_writable()?;
        let durable = {
            let mut writer = self.writer();
            self.write_open(&mut writer).map_err(|error| self.failed(error))?;
            Durable { sequence: writer.sequence, records: writer.records }
        };
        // Appending goes on meanwhile.
        self.medium.sync().map_err(|error| self.failed(Error::writing(error)))?;
        self.writer().note_durable(durable);
        Ok(())
    }

    /// Writes the open segments if nothing was appended since the sequence number was `last`: its
    /// number now. What is on the medium leaves without a copy, and survives the process.
    pub fn write_idle(&self, last: u64) -> u64 {
        let mut writer = self.writer();
        if writer.sequence == last && self.check_writable().is_ok() {
            // A failure counts against the volume.
            let _ = self.write_open(&mut writer).map_err(|error| self.failed(error));
        }
        writer.sequence
    }

    /// Writes the open segments of both areas.
    pub(super) fn write_open(&self, writer: &mut Writer) -> Result<(), Error> {
        [PROBATION, MAIN].into_iter().try_for_each(|area| self.flush(writer, area))
    }

    /// Makes room in the open segment of an area for a record of `bytes`.
    pub(super) fn make_room(&self, writer: &mut Writer, area: usize, bytes: u64) -> Result<(), Blocked> {
        let stripe_bytes = self.geometry.stripe_bytes;
        let entries_max = Summary::capacity(self.geometry.summary_bytes);
        if writer.open[area].has_room(bytes, stripe_bytes, entries_max) {
            return Ok(());
        }
        self.flush(writer, area)?;
        if !writer.open[area].has_room(bytes, stripe_bytes, entries_max) {
            self.advance(writer, area, bytes)?;
        }
        Ok(())
    }

    /// Puts a fragment into the open segment of an area, which has room for it, and into the
    /// directory.
    pub(super) fn put(&self, writer: &mut Writer, index: &mut Index, area: usize, item: Item) {
        writer.sequence += 1;
        let sequence = writer.sequence;
        let open = &mut writer.open[area];
        let Item { key, part, description, stored_s, body, body_checksum, first_sequence, hits } = item;
        let bytes = record_bytes(body.len());
        let place = index.log.place(area, open.count, open.end);
        let body_bytes = body.len() as u32;
        let first_sequence = first_sequence.unwrap_or(sequence);
        let header =
            Header { key, part, description, place, sequence, stored_s, body_bytes, body_checksum, first_sequence };
        open.entries.push(Entry::Record { key, part, sequence, offset: open.end, bytes: bytes as u32 });
        let pending = Arc::new(Pending { header, body });
        open.records.push(Arc::clone(&pending));
        let offset_units = index.log.offset_units(area, open.count, open.end);
        open.end += bytes as u32;
        index.pending.insert(offset_units, pending);
        let hash = PartHash::of(key, part);
        let lap = index.log.rings[area].lap(open.count);
        let mut entry = directory::Entry::new(hash, offset_units, (bytes / UNIT_BYTES) as u16, lap);
        entry.hits = hits;
        index.enter(hash, entry);
    }

    /// Writes the open segment of an area, and begins the next one behind it.
    pub(super) fn flush(&self, writer: &mut Writer, area: usize) -> Result<(), Error> {
        let summary_bytes = self.geometry.summary_bytes;
        let open = &writer.open[area];
        if open.entries.is_empty() {
            return Ok(());
        }
        let (count, start) = (open.count, open.start);
        let end = open.end.next_multiple_of(BLOCK_BYTES as u32);
        let stripe = self.index().log.rings[area].stripe(count);
        let now = (self.settings.clock)();
        let offset = self.geometry.stripe_offset(stripe) + u64::from(start);
        self.assemble(writer, area, end - start, now);
        let written = self.medium.replace_at(&writer.buffer, offset);
        let open = &mut writer.open[area];
        let mut index = self.index();
        for pending in &open.records {
            let at = (pending.header.place % u64::from(self.geometry.stripe_bytes)) as u32;
            let offset_units = index.log.offset_units(area, count, at);
            index.pending.remove(&offset_units);
        }
        if let Err(error) = written {
            index.forget(area, count, open);
            drop(index);
            // A place that cannot be written is given up, and one on a full file system kept:
            // other stripes would have no room either.
            let no_space = error.kind() == io::ErrorKind::StorageFull;
            *open = Open::at(count, if no_space { start } else { self.geometry.stripe_bytes }, summary_bytes);
            return Err(Error::writing(error));
        }
        index.stripe_times[stripe as usize] = now as u32;
        index.statistics.stripe_bytes_written += u64::from(end - start);
        drop(index);
        writer.records += open.records.len() as u64;
        *open = Open::at(count, end, summary_bytes);
        Ok(())
    }

    /// Puts the bytes of a segment together.
    fn assemble(&self, writer: &mut Writer, area: usize, bytes: u32, now: u64) {
        let place = {
            let open = &writer.open[area];
            self.index().log.place(area, open.count, open.start)
        };
        let Writer { epoch, purges, durable, .. } = *writer;
        let open = &mut writer.open[area];
        let entries = std::mem::take(&mut open.entries);
        let summary = Summary { place, epoch, bytes, written_s: now, purges, durable, entries };
        writer.buffer.resize(bytes as usize);
        let (block, mut rest) = writer.buffer.split_at_mut(self.geometry.summary_bytes as usize);
        block.fill(0);
        summary.encode(block, self.geometry.id);
        open.entries = summary.entries;
        // They lie one behind the other.
        for pending in &open.records {
            let record;
            (record, rest) = rest.split_at_mut(pending.header.record_bytes() as usize);
            let (header, mut body) = record.split_at_mut(HEADER_BYTES);
            header.copy_from_slice(&pending.header.encode(self.geometry.id));
            for piece in pending.body.iter() {
                let place;
                (place, body) = body.split_at_mut(piece.len());
                place.copy_from_slice(piece);
            }
            body.fill(0);
        }
        rest.fill(0);
    }
}

impl Index {
    /// Takes out of the directory what could not be written.
    fn forget(&mut self, area: usize, count: u64, open: &Open) {
        for entry in &open.entries {
            let Entry::Record { key, part, offset, .. } = entry else { continue };
            let offset_units = self.log.offset_units(area, count, *offset);
            let hash = PartHash::of(*key, *part);
            if let Some(known) = self.living(hash)
                && known.offset_units == offset_units
            {
                self.directory.remove(hash, known);
                self.statistics.dropped += 1;
            }
        }
    }
}

impl Writer {
    pub(super) fn note_durable(&mut self, durable: Durable) {
        if durable.sequence > self.durable.sequence {
            self.durable = durable;
        }
    }
}

impl Purge {
    /// Its entry in a summary, with the next sequence number.
    fn entry(self, writer: &mut Writer) -> Entry {
        writer.sequence += 1;
        let sequence = writer.sequence;
        match self {
            Self::Key(key) => Entry::PurgeKey { key, sequence },
            Self::Group(group) => Entry::PurgeGroup { group, sequence },
            Self::SoftKey(key) => Entry::SoftPurgeKey { key, sequence },
            Self::SoftGroup(group) => Entry::SoftPurgeGroup { group, sequence },
        }
    }
}
