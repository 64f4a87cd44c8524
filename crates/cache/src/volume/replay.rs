//! Finding what was appended behind a checkpoint: by the summaries of the segments, and where one
//! is damaged, by the headers of its records. All that was found is entered in the order of the
//! sequence numbers.
//!
//! A crash may keep a segment and not the one before it. Behind such a gap, the next run goes on
//! where the last thing was found, and what it writes moves the place at which a later start looks
//! for more. So a start notes a gap in the superblock, and until there is a checkpoint of a later
//! run, starts read stripes whole.
//!
//! Segments that did not become durable before a crash are simply not there; a record of a segment
//! that did may be torn, and its reader finds out.

use super::{
    checkpoint::{Mark, distances},
    state::Index,
};
use crate::{
    bytes::{BLOCK_BYTES, UNIT_BYTES},
    cursor::{Log, MAIN, PROBATION},
    directory,
    geometry::Geometry,
    key::PartHash,
    medium::Medium,
    record::{HEADER_BYTES, Header},
    segment::{Durable, Entry, Summary, epoch_of},
};

/// An entry of a segment that was found behind a checkpoint.
struct Found {
    area: usize,
    count: u64,
    entry: Entry,
}

/// How far a scan goes.
#[derive(Clone, Copy)]
pub(super) struct Reach {
    /// There may have been a checkpoint after the one that the scan begins at.
    pub(super) is_older: bool,
    /// All stripes up to the last one are read whole.
    pub(super) is_thorough: bool,
}

/// All that was written after a checkpoint and became durable.
pub(super) struct Replay {
    found: Vec<Found>,
    /// For each area, the count of the last stripe and the end of what is in it.
    pub(super) cursors: [(u64, u32); 2],
    /// The number of purges by the last summary.
    purges: u64,
    /// The durable part of the log by the last summary.
    durable: Durable,
    /// When stripes were written.
    times: Vec<(u32, u64)>,
    damaged_summaries: u64,
    /// Whether segments alone may not lead to all that was found.
    pub(super) has_gap: bool,
}

/// A scan of an area.
struct Scan<'a> {
    medium: &'a dyn Medium,
    geometry: &'a Geometry,
    log: Log,
    area: usize,
    /// The last sequence number before the checkpoint. A segment with a lower one lies behind it by
    /// an accident: an earlier run wrote it there, and a crash hid it from the later one.
    mark_sequence: u64,
    /// The run that wrote what was found last: what an earlier run wrote behind it is left over.
    epoch: u32,
}

/// The content of a stripe at an offset.
enum Piece {
    Segment(Summary),
    /// Nothing that is whole, but something follows that belongs to a segment here.
    Hole,
    Nothing,
}

impl Scan<'_> {
    fn summary(&self, block: &[u8], count: u64, offset: u32) -> Option<Summary> {
        let block = block.get(..self.geometry.summary_bytes as usize)?;
        Summary::decode(block, self.geometry.id).filter(|summary| {
            let is_later = summary.entries.iter().all(|entry| entry.sequence() > self.mark_sequence);
            summary.place == self.log.place(self.area, count, offset) && summary.epoch >= self.epoch && is_later
        })
    }

    fn record(&self, bytes: &[u8], count: u64, offset: u32) -> Option<Header> {
        Header::decode(bytes, self.geometry.id).filter(|header| {
            let is_later = header.sequence > self.mark_sequence;
            header.place == self.log.place(self.area, count, offset)
                && epoch_of(header.sequence) >= self.epoch
                && is_later
        })
    }

    /// The content here, and whether anything lies behind it if it is no summary: the first record
    /// of a segment, or the next segment, where this one has purges alone. `window` has room for a
    /// summary and the head of what follows.
    fn piece(&self, window: &mut [u8], count: u64, offset: u32) -> Piece {
        let (stripe_bytes, summary_bytes) = (self.geometry.stripe_bytes, self.geometry.summary_bytes);
        let length = window.len().min((stripe_bytes - offset) as usize);
        let window = &mut window[..length];
        if self.read(window, count, offset).is_none() {
            // A summary may lie there: all the others are looked for.
            return Piece::Hole;
        }
        if let Some(summary) = self.summary(window, count, offset) {
            return Piece::Segment(summary);
        }
        let (behind, offset) = (&window[summary_bytes as usize..], offset + summary_bytes);
        let is_segment = Summary::claimed_place(behind) == Some(self.log.place(self.area, count, offset));
        if is_segment || self.record(behind, count, offset).is_some() { Piece::Hole } else { Piece::Nothing }
    }

    fn read(&self, bytes: &mut [u8], count: u64, offset: u32) -> Option<()> {
        let stripe = self.log.rings[self.area].stripe(count);
        self.medium.read_at(bytes, self.geometry.stripe_offset(stripe) + u64::from(offset)).ok()
    }
}

impl Replay {
    /// Reads the summaries behind a checkpoint.
    pub(super) fn scan(medium: &dyn Medium, geometry: &Geometry, mark: &Mark, reach: Reach) -> Self {
        let mut replay = Self {
            found: Vec::new(),
            cursors: mark.cursors,
            purges: mark.purges,
            durable: Durable { sequence: mark.sequence, records: mark.records },
            times: Vec::new(),
            damaged_summaries: 0,
            has_gap: false,
        };
        let limits = distances(geometry);
        for area in [PROBATION, MAIN] {
            let ring = u64::from([geometry.probation_stripes, geometry.main_stripes][area]);
            // From the older slot, a cursor may have gone twice as far.
            let checkpoints = if reach.is_older { 2 } else { 1 };
            let distance = (checkpoints * limits[area].most).min(ring - 1);
            let from = mark.cursors[area];
            let mut scan = Scan {
                medium,
                geometry,
                log: Log::new(geometry),
                area,
                mark_sequence: mark.sequence,
                epoch: epoch_of(mark.sequence),
            };
            for count in from.0..=from.0 + distance {
                let start = if count == from.0 { from.1 } else { 0 };
                replay.scan_stripe(&mut scan, count, start, reach.is_thorough);
            }
            replay.scan_beyond(&mut scan, from.0 + distance);
        }
        replay.has_gap = reach.is_thorough || replay.damaged_summaries > 0;
        replay.found.sort_unstable_by_key(|found| found.entry.sequence());
        replay
    }

    /// Follows the segments of a stripe from one to the next.
    fn scan_stripe(&mut self, scan: &mut Scan<'_>, count: u64, mut start: u32, is_thorough: bool) {
        if is_thorough {
            return self.scan_whole(scan, count, start);
        }
        let mut window = vec![0; scan.geometry.summary_bytes as usize + HEADER_BYTES];
        while start + scan.geometry.summary_bytes <= scan.geometry.stripe_bytes {
            match scan.piece(&mut window, count, start) {
                Piece::Segment(summary) => {
                    start += summary.bytes;
                    self.take(scan, count, start, summary);
                }
                Piece::Hole => {
                    self.damaged_summaries += 1;
                    return self.scan_whole(scan, count, start);
                }
                Piece::Nothing => return,
            }
        }
    }

    /// Looks for more behind the last segment, in its stripe and the next one: the newest summary
    /// says what was durable, and must not be hidden by damage before it.
    fn scan_beyond(&mut self, scan: &mut Scan<'_>, last: u64) {
        loop {
            let seen = self.cursors[scan.area];
            self.scan_whole(scan, seen.0, seen.1);
            if seen.0 < last {
                self.scan_whole(scan, seen.0 + 1, 0);
            }
            if self.cursors[scan.area] == seen {
                return;
            }
            self.damaged_summaries += 1;
        }
    }

    /// Looks for summaries and records in all of a stripe.
    fn scan_whole(&mut self, scan: &mut Scan<'_>, count: u64, start: u32) {
        let mut bytes = vec![0; (scan.geometry.stripe_bytes - start) as usize];
        // Around what cannot be read, the rest is.
        for (at, piece) in (start..).step_by(BLOCK_BYTES as usize).zip(bytes.chunks_mut(BLOCK_BYTES as usize)) {
            if scan.read(piece, count, at).is_none() {
                piece.fill(0);
            }
        }
        let mut at = start;
        while at < scan.geometry.stripe_bytes {
            let rest = &bytes[(at - start) as usize..];
            if u64::from(at).is_multiple_of(BLOCK_BYTES)
                && let Some(summary) = scan.summary(rest, count, at)
            {
                at += summary.bytes;
                self.take(scan, count, at, summary);
            } else if rest.len() >= HEADER_BYTES
                && let Some(header) = scan.record(rest, count, at)
            {
                let bytes = header.record_bytes() as u32;
                let Header { key, part, sequence, .. } = header;
                let entry = Entry::Record { key, part, sequence, offset: at, bytes };
                scan.epoch = epoch_of(sequence);
                self.found.push(Found { area: scan.area, count, entry });
                at += bytes;
                self.cursors[scan.area] = (count, at.next_multiple_of(BLOCK_BYTES as u32));
            } else {
                at += UNIT_BYTES as u32;
            }
        }
    }

    fn take(&mut self, scan: &mut Scan<'_>, count: u64, end: u32, summary: Summary) {
        scan.epoch = summary.epoch;
        self.cursors[scan.area] = (count, end);
        self.purges = self.purges.max(summary.purges);
        if summary.durable.sequence > self.durable.sequence {
            self.durable = summary.durable;
        }
        self.times.push((scan.log.rings[scan.area].stripe(count), summary.written_s));
        self.found.extend(summary.entries.into_iter().map(|entry| Found { area: scan.area, count, entry }));
    }

    /// Whether nothing is missing that had become durable: neither a purge, of which a checkpoint
    /// may know more, nor a record.
    pub(super) fn is_complete(&self, mark: &Mark, purges: u64) -> bool {
        let Durable { sequence, records } = self.durable;
        self.purges_found(mark) >= self.purges.max(purges) && self.records_found(mark, sequence) >= records
    }

    /// The number of purges that are known: those of the checkpoint, and those found behind it, of
    /// which each was written twice.
    pub(super) fn purges_found(&self, mark: &Mark) -> u64 {
        let purges = self.found.iter().filter(|found| !found.entry.is_record());
        let mut sequences: Vec<_> = purges.map(|found| found.entry.sequence()).collect();
        sequences.dedup();
        mark.purges + sequences.len() as u64
    }

    /// The extent of the checkpoint and all that was found behind it.
    pub(super) fn all(&self, mark: &Mark) -> Durable {
        let sequence = self.found.last().map_or(mark.sequence, |found| found.entry.sequence());
        Durable { sequence, records: self.records_found(mark, sequence) }
    }

    /// The number of records that are known up to a sequence number.
    fn records_found(&self, mark: &Mark, sequence: u64) -> u64 {
        let records = self.found.iter().filter(|found| found.entry.is_record() && found.entry.sequence() <= sequence);
        mark.records + records.count() as u64
    }

    /// Enters everything into the directory, in the order in which it was written.
    pub(super) fn enter(self, index: &mut Index) {
        for area in [PROBATION, MAIN] {
            index.log.rings[area].head = self.cursors[area].0;
        }
        for (stripe, written_s) in self.times {
            index.stripe_times[stripe as usize] = written_s as u32;
        }
        index.statistics.damaged_summaries = self.damaged_summaries;
        for Found { area, count, entry } in self.found {
            let Entry::Record { key, part, offset, bytes, .. } = entry else {
                index.purges.apply(entry);
                continue;
            };
            let hash = PartHash::of(key, part);
            let offset_units = index.log.offset_units(area, count, offset);
            let lap = index.log.rings[area].lap(count);
            index.enter(hash, directory::Entry::new(hash, offset_units, (u64::from(bytes) / UNIT_BYTES) as u16, lap));
            index.statistics.replayed += 1;
        }
    }
}
