//! Creating, opening and emptying a volume. Opening takes the last whole checkpoint and the
//! summaries of the segments behind it, in the order of their sequence numbers. The work is bounded
//! by the distance between checkpoints, not by the volume.
//!
//! Segments that did not become durable before a crash are simply not there; a record of a segment
//! that did may be torn, and its reader finds out.

use super::{
    checkpoint::{Mark, distances},
    state::{Index, Open, Settings, Volume, Writer},
};
use crate::{
    bytes::{BLOCK_BYTES, UNIT_BYTES},
    cursor::{Log, MAIN, PROBATION},
    directory,
    error::Error,
    geometry::{Geometry, Membership, Shape},
    key::PartHash,
    leases::Leases,
    medium::Medium,
    segment::{Entry, Summary},
};
use std::sync::{Arc, Mutex, atomic::AtomicU64};

/// Sequence numbers of a run begin at its epoch, so that they are above all of earlier runs, known
/// or lost.
const EPOCH_SHIFT: u32 = 40;

impl Volume {
    /// Makes an empty volume on a medium, whatever is on it.
    pub fn create(medium: &dyn Medium, shape: Shape) -> Result<(), Error> {
        Self::create_with_id(medium, shape, rand::random())
    }

    /// The same with a chosen id, for tests that are to be repeatable. An id that was used on this
    /// medium before would make its old records valid.
    pub fn create_with_id(medium: &dyn Medium, shape: Shape, id: u64) -> Result<(), Error> {
        let geometry = Geometry::plan(medium.size(), shape, id)?;
        write_empty(medium, &geometry)
    }

    /// Opens a volume. Without a whole checkpoint it begins empty.
    pub fn open(medium: Arc<dyn Medium>, settings: Settings) -> Result<Self, Error> {
        let geometry = Geometry::read(&*medium)?;
        Self::open_known(medium, geometry, settings)
    }

    /// Empties a volume and opens it: nothing that was on it is found again.
    pub(crate) fn open_emptied(
        medium: Arc<dyn Medium>,
        mut geometry: Geometry,
        settings: Settings,
    ) -> Result<Self, Error> {
        geometry.id = rand::random();
        geometry.epoch = 0;
        if !medium.is_read_only() {
            write_empty(&*medium, &geometry)?;
        }
        Self::open_known(medium, geometry, settings)
    }

    pub(crate) fn open_known(
        medium: Arc<dyn Medium>,
        mut geometry: Geometry,
        settings: Settings,
    ) -> Result<Self, Error> {
        let read_only = medium.is_read_only();
        let (index, recovered) = match recover(&*medium, &geometry) {
            Ok(recovered) => recovered,
            Err(damaged) => {
                // Records that are there cannot be told from purged ones.
                (geometry.id, geometry.epoch) = (rand::random(), 0);
                if !read_only {
                    write_empty(&*medium, &geometry)?;
                }
                let mut index = Index::empty(&geometry);
                index.statistics.damaged_checkpoints = damaged;
                (index, Recovered::nothing(&geometry))
            }
        };
        geometry.epoch += 1;
        if !read_only {
            geometry.write(&*medium)?;
        }
        let open = recovered.cursors.map(|(count, start)| Open::at(count, start, geometry.summary_bytes));
        let writer = Writer {
            open,
            sequence: u64::from(geometry.epoch) << EPOCH_SHIFT,
            purges: recovered.purges,
            epoch: geometry.epoch,
            checkpointed: recovered.mark.cursors.map(|(count, _)| count),
            checkpoint: recovered.next_checkpoint,
            buffer: Vec::new(),
            set: geometry.set,
        };
        Ok(Self {
            medium,
            geometry,
            settings,
            read_only,
            leases: Leases::new(geometry.stripes()),
            failures: AtomicU64::new(0),
            index: Mutex::new(index),
            writer: Mutex::new(writer),
        })
    }

    /// Notes that the set of volumes has changed; a volume that misses a change is emptied when it
    /// comes back.
    pub(crate) fn join(&self, set: Membership) -> Result<(), Error> {
        self.check_writable()?;
        let mut writer = self.writer();
        let geometry = Geometry { set, epoch: writer.epoch, ..self.geometry };
        geometry.write(&*self.medium).map_err(|error| self.failed(error))?;
        writer.set = set;
        Ok(())
    }

    /// The set of volumes that the volume is in.
    pub(crate) fn membership(&self) -> Membership {
        self.writer().set
    }

    /// The number that the volume's share of the keys follows from.
    pub(crate) fn seat(&self) -> u64 {
        self.geometry.seat
    }
}

/// Writes an empty checkpoint and then the superblock that makes it valid.
fn write_empty(medium: &dyn Medium, geometry: &Geometry) -> Result<(), Error> {
    Mark::of_empty(geometry).write(medium, geometry)?;
    medium.sync().map_err(Error::writing)?;
    geometry.write(medium)
}

/// The state of the log at a start.
struct Recovered {
    mark: Mark,
    next_checkpoint: u64,
    /// For each area, the count of the last stripe and the end of what is in it.
    cursors: [(u64, u32); 2],
    purges: u64,
}

impl Recovered {
    fn nothing(geometry: &Geometry) -> Self {
        let mark = Mark::of_empty(geometry);
        Self { mark, next_checkpoint: 1, cursors: mark.cursors, purges: 0 }
    }
}

/// Loads the last whole checkpoint and replays what follows it. The error is the number of damaged
/// checkpoints, where there is no whole one, or where purges are missing behind it.
fn recover(medium: &dyn Medium, geometry: &Geometry) -> Result<(Index, Recovered), u64> {
    let mut marks: Vec<_> = [0, 1].into_iter().filter_map(|slot| Mark::read(medium, geometry, slot)).collect();
    marks.sort_unstable_by_key(|mark| std::cmp::Reverse(mark.number));
    let Some(last) = marks.first().copied() else { return Err(2) };
    // Both slots are in use from the second checkpoint on.
    let is_alone = marks.len() == 1;
    let mut damaged = u64::from(last.number > 0 && is_alone);
    for mark in marks {
        let mut index = Index::empty(geometry);
        if !index.load(medium, geometry, &mark) {
            damaged += 1;
            continue;
        }
        index.directory.distrust();
        index.statistics.damaged_checkpoints = damaged;
        let is_older = damaged > 0 || is_alone;
        let mut replay = Replay::scan(medium, geometry, &mark, Reach { is_older, is_thorough: false });
        if replay.purges_found(&mark) < replay.purges.max(last.purges) {
            replay = Replay::scan(medium, geometry, &mark, Reach { is_older, is_thorough: true });
        }
        let purges = replay.purges.max(last.purges);
        if replay.purges_found(&mark) < purges {
            return Err(damaged);
        }
        // The slot of a damaged newer checkpoint is written first, not that of the base.
        let next_checkpoint = last.number.max(mark.number + 1);
        let cursors = replay.cursors;
        replay.enter(&mut index);
        return Ok((index, Recovered { mark, next_checkpoint, cursors, purges }));
    }
    Err(damaged)
}

/// An entry of a segment that was found behind a checkpoint.
struct Found {
    area: usize,
    count: u64,
    entry: Entry,
}

/// How far a scan goes.
#[derive(Clone, Copy)]
struct Reach {
    /// There may have been a checkpoint after the one that the scan begins at.
    is_older: bool,
    /// A damaged summary does not hide those behind it: all blocks up to the last stripe are
    /// looked at.
    is_thorough: bool,
}

/// All that was written after a checkpoint and became durable.
struct Replay {
    found: Vec<Found>,
    cursors: [(u64, u32); 2],
    /// The number of purges by the last summary.
    purges: u64,
    /// When stripes were written.
    times: Vec<(u32, u64)>,
}

impl Replay {
    /// Reads the summaries behind a checkpoint.
    fn scan(medium: &dyn Medium, geometry: &Geometry, mark: &Mark, reach: Reach) -> Self {
        let mut replay = Self { found: Vec::new(), cursors: mark.cursors, purges: mark.purges, times: Vec::new() };
        let limits = distances(geometry);
        for area in [PROBATION, MAIN] {
            let ring = u64::from([geometry.probation_stripes, geometry.main_stripes][area]);
            // From the older slot, a cursor may have gone twice as far.
            let checkpoints = if reach.is_older { 2 } else { 1 };
            let distance = (checkpoints * limits[area].most).min(ring - 1);
            let from = mark.cursors[area];
            let seen = replay.found.len();
            replay.scan_area(medium, geometry, area, distance, false);
            if reach.is_thorough {
                let distance = replay.cursors[area].0 - from.0;
                replay.found.truncate(seen);
                replay.cursors[area] = from;
                replay.scan_area(medium, geometry, area, distance, true);
            }
        }
        replay.found.sort_unstable_by_key(|found| found.entry.sequence());
        replay
    }

    fn scan_area(&mut self, medium: &dyn Medium, geometry: &Geometry, area: usize, distance: u64, thorough: bool) {
        let log = Log::new(geometry);
        let mut block = vec![0; geometry.summary_bytes as usize];
        let from = self.cursors[area];
        for count in from.0..=from.0 + distance {
            let stripe = log.rings[area].stripe(count);
            let mut start = if count == from.0 { from.1 } else { 0 };
            let mut epoch = 0;
            while start + geometry.summary_bytes <= geometry.stripe_bytes {
                let offset = geometry.stripe_offset(stripe) + u64::from(start);
                let read = medium.read_at(&mut block, offset).ok();
                let summary = read.and_then(|()| Summary::decode(&block, geometry.id)).filter(|summary| {
                    // A segment of an earlier run may lie behind one of this run that was lost.
                    summary.place == log.place(area, count, start) && summary.epoch >= epoch
                });
                match summary {
                    Some(summary) => {
                        epoch = summary.epoch;
                        start += summary.bytes;
                        self.take(area, count, start, stripe, summary);
                    }
                    None if thorough => start += BLOCK_BYTES as u32,
                    None => break,
                }
            }
        }
    }

    fn take(&mut self, area: usize, count: u64, end: u32, stripe: u32, summary: Summary) {
        self.cursors[area] = (count, end);
        self.purges = self.purges.max(summary.purges);
        self.times.push((stripe, summary.written_s));
        self.found.extend(summary.entries.into_iter().map(|entry| Found { area, count, entry }));
    }

    /// The number of purges that are known: those of the checkpoint, and those found behind it, of
    /// which each was written twice.
    fn purges_found(&self, mark: &Mark) -> u64 {
        let purges = self.found.iter().filter(|found| !matches!(found.entry, Entry::Record { .. }));
        let mut sequences: Vec<_> = purges.map(|found| found.entry.sequence()).collect();
        sequences.dedup();
        mark.purges + sequences.len() as u64
    }

    /// Enters everything into the directory, in the order in which it was written.
    fn enter(self, index: &mut Index) {
        for area in [PROBATION, MAIN] {
            index.log.rings[area].head = self.cursors[area].0;
        }
        for (stripe, written_s) in self.times {
            index.stripe_times[stripe as usize] = written_s as u32;
        }
        for Found { area, count, entry } in self.found {
            let Entry::Record { key, part, offset, bytes, .. } = entry else {
                index.apply_purge(entry);
                continue;
            };
            let hash = PartHash::of(key, part);
            let offset_units = index.log.offset_units(area, count, offset);
            let lap = index.log.rings[area].lap(count);
            index.enter(hash, directory::Entry::new(hash, offset_units, (u64::from(bytes) / UNIT_BYTES) as u16, lap));
        }
    }
}
