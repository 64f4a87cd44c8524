//! Creating, opening and emptying a volume. Opening takes the last whole checkpoint and the summaries
//! of the segments behind it, in the order of their sequence numbers. The work is bounded by the
//! distance between checkpoints, not by the volume.
//!
//! Segments that did not become durable before a crash are simply not there; a record of a segment
//! that did may be torn, and its reader finds out.

use super::{
    Index, Settings, Volume,
    checkpoint::{Mark, distances},
    writer::{Open, Writer},
};
use crate::{
    cursor::{Log, MAIN, PROBATION},
    directory,
    error::Error,
    geometry::{Geometry, Shape, UNIT_BYTES},
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
        let geometry = Geometry::plan(medium.size(), shape, rand::random())?;
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
        let mut index = Index::empty(&geometry);
        let mut marks: Vec<_> = [0, 1].into_iter().filter_map(|slot| Mark::read(&*medium, &geometry, slot)).collect();
        marks.sort_unstable_by_key(|mark| std::cmp::Reverse(mark.number));
        let last = marks.first().map_or(0, |mark| mark.number);
        let mut base = None;
        let written = if last == 0 { marks.len().max(1) as u64 } else { 2 };
        let mut damaged = written - marks.len() as u64;
        for mark in marks {
            if index.load(&*medium, &geometry, &mark) {
                base = Some(mark);
                break;
            }
            index = Index::empty(&geometry);
            damaged += 1;
        }
        let mark = base.unwrap_or_else(|| {
            // Records without a checkpoint cannot be told from purged ones.
            geometry.id = rand::random();
            geometry.epoch = 0;
            Mark::of_empty(&geometry)
        });
        if base.is_none() && !read_only {
            write_empty(&*medium, &geometry)?;
        }
        index.statistics.damaged_checkpoints = damaged;
        index.directory.distrust();
        let cursors = index.replay(&*medium, &geometry, &mark);
        geometry.epoch += 1;
        if !read_only {
            geometry.write(&*medium)?;
        }
        let open = [PROBATION, MAIN].map(|area| {
            let (count, start) = cursors[area];
            Open::at(count, start, geometry.summary_bytes)
        });
        let writer = Writer {
            open,
            sequence: u64::from(geometry.epoch) << EPOCH_SHIFT,
            epoch: geometry.epoch,
            checkpointed: mark.cursors.map(|(count, _)| count),
            // The slot of a damaged newer checkpoint is written first, not that of the base.
            checkpoint: if last > mark.number { last } else { mark.number + 1 },
            buffer: Vec::new(),
            set: geometry.set,
            set_change: geometry.set_change,
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
    pub(crate) fn join(&self, set: u64, change: u64) -> Result<(), Error> {
        self.check_writable()?;
        let mut writer = self.writer();
        let geometry = Geometry { set, set_change: change, epoch: writer.epoch, ..self.geometry };
        geometry.write(&*self.medium).map_err(|error| self.failed(error))?;
        (writer.set, writer.set_change) = (set, change);
        Ok(())
    }

    /// The set of volumes that the volume is in, and the number of its last change.
    pub(crate) fn membership(&self) -> (u64, u64) {
        let writer = self.writer();
        (writer.set, writer.set_change)
    }
}

/// Writes an empty checkpoint and then the superblock that makes it valid.
fn write_empty(medium: &dyn Medium, geometry: &Geometry) -> Result<(), Error> {
    Mark::of_empty(geometry).write(medium, geometry)?;
    medium.sync().map_err(Error::writing)?;
    geometry.write(medium)
}

/// A segment that was found behind a checkpoint.
struct Found {
    area: usize,
    count: u64,
    entry: Entry,
}

impl Index {
    /// Enters everything that was written after a checkpoint; for each area, the count of the last
    /// stripe and the end of what is in it.
    fn replay(&mut self, medium: &dyn Medium, geometry: &Geometry, mark: &Mark) -> [(u64, u32); 2] {
        let mut found = Vec::new();
        let limits = distances(geometry);
        let cursors = [PROBATION, MAIN].map(|area| {
            let ring = u64::from(self.log.rings[area].stripes);
            // From the older slot, a cursor may have gone twice as far.
            let distance = (2 * limits[area].most).min(ring - 1);
            self.scan(medium, geometry, area, mark.cursors[area], distance, &mut found)
        });
        for area in [PROBATION, MAIN] {
            self.log.rings[area].head = cursors[area].0;
        }
        found.sort_unstable_by_key(|found: &Found| found.entry.sequence());
        for Found { area, count, entry } in found {
            let Entry::Record { key, part, offset, bytes, .. } = entry else {
                self.apply_purge(entry);
                continue;
            };
            let hash = PartHash::of(key, part);
            let offset_units = self.log.offset_units(area, count, offset);
            let lap = self.log.rings[area].lap(count);
            self.enter(hash, directory::Entry::new(hash, offset_units, (u64::from(bytes) / UNIT_BYTES) as u16, lap));
        }
        cursors
    }

    /// Reads the summaries of an area from a cursor on, over `distance` stripes.
    fn scan(
        &mut self,
        medium: &dyn Medium,
        geometry: &Geometry,
        area: usize,
        from: (u64, u32),
        distance: u64,
        found: &mut Vec<Found>,
    ) -> (u64, u32) {
        let log = Log::new(geometry);
        let mut block = vec![0; geometry.summary_bytes as usize];
        let mut cursor = from;
        for count in from.0..=from.0 + distance {
            let stripe = log.rings[area].stripe(count);
            let mut start = if count == from.0 { from.1 } else { 0 };
            let mut epoch = 0;
            while start + geometry.summary_bytes <= geometry.stripe_bytes {
                let offset = geometry.stripe_offset(stripe) + u64::from(start);
                if medium.read_at(&mut block, offset).is_err() {
                    break;
                }
                let summary = Summary::decode(&block, geometry.id).filter(|summary| {
                    // What an earlier run left behind a lost segment is older than what is before it.
                    summary.place == log.place(area, count, start) && summary.epoch >= epoch
                });
                let Some(summary) = summary else { break };
                epoch = summary.epoch;
                start += summary.bytes;
                cursor = (count, start);
                self.stripe_times[stripe as usize] = summary.written_s as u32;
                found.extend(summary.entries.into_iter().map(|entry| Found { area, count, entry }));
            }
        }
        cursor
    }
}
