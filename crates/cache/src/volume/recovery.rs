//! Creating, opening and emptying a volume. Opening takes the last whole checkpoint and what
//! `replay` finds behind it. The work is bounded by the distance between checkpoints, not by the
//! volume.
//!
//! A volume begins empty where a purge is missing, or a record that was durable: what is found may
//! have been purged, or have a newer version that is not found any more.

use super::{
    checkpoint::Mark,
    replay::{Reach, Replay},
    state::{Index, Open, Settings, Volume, Writer},
    turns::Turns,
    verifications::Verifications,
};
use crate::{
    aligned::Aligned,
    error::Error,
    geometry::{Geometry, Membership, Shape},
    leases::Leases,
    medium::Medium,
    segment::{Durable, epoch_of, first_sequence},
};
use std::sync::{Arc, Mutex, atomic::AtomicU64};

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
        geometry.empty();
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
                geometry.empty();
                if !read_only {
                    write_empty(&*medium, &geometry)?;
                }
                let mut index = Index::empty(&geometry);
                index.statistics.damaged_checkpoints = damaged;
                index.statistics.emptied = 1;
                (index, Recovered::nothing(&geometry))
            }
        };
        geometry.epoch += 1;
        if recovered.has_gap {
            geometry.gap_epoch = geometry.epoch;
        }
        if !read_only {
            geometry.write(&*medium)?;
        }
        let open = recovered.cursors.map(|(count, start)| Open::at(count, start, geometry.summary_bytes));
        let writer = Writer {
            open,
            sequence: first_sequence(geometry.epoch),
            purges: recovered.purges,
            records: recovered.records,
            durable: recovered.durable,
            epoch: geometry.epoch,
            checkpointed: recovered.mark.cursors.map(|(count, _)| count),
            checkpoint: recovered.next_checkpoint,
            buffer: Aligned::default(),
            set: geometry.set,
        };
        Ok(Self {
            medium,
            geometry,
            settings,
            read_only,
            leases: Leases::new(geometry.stripes()),
            verifications: Verifications::default(),
            failures: AtomicU64::new(0),
            index: Mutex::new(index),
            writer: Mutex::new(writer),
            turns: Turns::default(),
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
    // Records that were found count as durable: they are when the superblock is, which is written
    // next.
    purges: u64,
    records: u64,
    durable: Durable,
    has_gap: bool,
}

impl Recovered {
    fn nothing(geometry: &Geometry) -> Self {
        let mark = Mark::of_empty(geometry);
        let (cursors, durable) = (mark.cursors, Durable::default());
        Self { mark, next_checkpoint: 1, cursors, purges: 0, records: 0, durable, has_gap: false }
    }
}

/// Loads the last whole checkpoint and replays what follows it. The error is the number of damaged
/// checkpoints, where there is no whole one, or where something is missing behind it.
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
        index.statistics.damaged_checkpoints = damaged;
        let is_older = damaged > 0 || is_alone;
        // Records before a gap behind this mark are found in no other way.
        let is_thorough = geometry.gap_epoch > epoch_of(mark.sequence);
        let mut replay = Replay::scan(medium, geometry, &mark, Reach { is_older, is_thorough });
        if !is_thorough && !replay.is_complete(&mark, last.purges) {
            replay = Replay::scan(medium, geometry, &mark, Reach { is_older, is_thorough: true });
        }
        if !replay.is_complete(&mark, last.purges) {
            return Err(damaged);
        }
        // The slot of a damaged newer checkpoint is written first, not that of the base.
        let next_checkpoint = last.number.max(mark.number + 1);
        let Replay { cursors, has_gap, .. } = replay;
        let (purges, durable) = (replay.purges_found(&mark), replay.all(&mark));
        replay.enter(&mut index);
        let records = durable.records;
        return Ok((index, Recovered { mark, next_checkpoint, cursors, purges, records, durable, has_gap }));
    }
    Err(damaged)
}
