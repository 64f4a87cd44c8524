//! Checkpoints: the directory, the purges and the cursors, written to two slots in turn, so that
//! the older one is whole while the newer one is written.
//!
//! Appending and look-ups go on meanwhile. The cursors are taken first; the tables follow a piece
//! at a time and may have entries of what was appended since, which a start drops and takes from
//! the summaries behind the cursors instead. The mark is written when the tables and all segments
//! before the cursors are durable.
//!
//! A checkpoint is due after a distance of the cursor that keeps its cost at about an eighth of all
//! writes. There is a distance that no cursor goes without one: half of its ring, so that recovery
//! from the older slot meets every stripe at most once. An append that would go further waits for
//! the checkpoint that is under way, or makes it.

use super::{
    state::{Index, Volume, Writer},
    writer::Blocked,
};
use crate::{
    bytes::{BLOCK_BYTES, Checksum, Fields, checksum},
    cursor::{MAIN, PROBATION},
    error::Error,
    geometry::Geometry,
    medium::Medium,
    segment::Durable,
};

const MAGIC: u32 = 0x5450_4B43;
const HEADER_BYTES: usize = 4096;
/// The bytes of the tables that are copied under the lock of the index at once.
const PIECE_BYTES: usize = 256 << 10;

/// Between checkpoints, the stripes have at least this many bytes written, where the ring is long
/// enough: a sync for each stripe would cost more than it saves.
const DISTANCE_BYTES_MIN: u64 = 64 << 20;

/// The point of the log at which a checkpoint was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) number: u64,
    pub(super) sequence: u64,
    /// The number of purges in the life of the volume.
    pub(super) purges: u64,
    /// The number of records in the life of the volume.
    pub(super) records: u64,
    /// For each area, the count of the open stripe, and the offset in it of the next segment.
    pub(super) cursors: [(u64, u32); 2],
    /// 0 for the first checkpoint of an empty volume, which has no tables.
    payload_bytes: u64,
    payload_checksum: u64,
}

impl Mark {
    /// The first checkpoint of an empty volume.
    pub(super) fn of_empty(geometry: &Geometry) -> Self {
        let rings = [geometry.probation_stripes, geometry.main_stripes];
        Self {
            number: 0,
            sequence: 0,
            purges: 0,
            records: 0,
            cursors: rings.map(|stripes| (u64::from(stripes), 0)),
            payload_bytes: 0,
            payload_checksum: 0,
        }
    }

    pub(super) fn write(&self, medium: &dyn Medium, geometry: &Geometry) -> Result<(), Error> {
        let mut block = [0; HEADER_BYTES];
        let mut fields = Vec::new();
        fields.extend([0; 8]);
        fields.extend(MAGIC.to_le_bytes());
        let Self { number, sequence, purges, records, payload_bytes, payload_checksum, .. } = *self;
        for number in [number, sequence, purges, records, payload_bytes, payload_checksum] {
            fields.extend(number.to_le_bytes());
        }
        for (count, offset) in self.cursors {
            fields.extend(count.to_le_bytes());
            fields.extend(offset.to_le_bytes());
        }
        block[..fields.len()].copy_from_slice(&fields);
        let sum = checksum(geometry.id, &block[8..]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
        medium.write_at(&block, geometry.slot_offset(slot(self.number))).map_err(Error::writing)
    }

    /// The mark in a slot; none if it is damaged or was never written.
    pub(super) fn read(medium: &dyn Medium, geometry: &Geometry, slot: usize) -> Option<Self> {
        let mut block = [0; HEADER_BYTES];
        medium.read_at(&mut block, geometry.slot_offset(slot)).ok()?;
        let mut fields = Fields(&block);
        if fields.u64() != checksum(geometry.id, &block[8..]) || fields.u32() != MAGIC {
            return None;
        }
        let [number, sequence, purges, records, payload_bytes, payload_checksum] = [(); 6].map(|()| fields.u64());
        let cursors = [(); 2].map(|()| (fields.u64(), fields.u32()));
        Some(Self { number, sequence, purges, records, cursors, payload_bytes, payload_checksum })
    }
}

fn slot(number: u64) -> usize {
    (number % 2) as usize
}

impl Volume {
    /// Makes a checkpoint, after which a start has nothing to scan but what is appended meanwhile.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.check_writable()?;
        let _turn = self.turns.take();
        self.make_checkpoint().map_err(|error| self.failed(error))
    }

    /// Makes a checkpoint if one is due; whether it was.
    pub fn maintain(&self) -> Result<bool, Error> {
        let (is_due, number) = {
            let writer = self.writer();
            (self.is_checkpoint_due(&writer), writer.checkpoint)
        };
        if is_due {
            self.checkpoint_numbered(number)?;
        }
        Ok(is_due)
    }

    /// Notes that a checkpoint is due, if it is.
    pub(super) fn note_distance(&self, writer: &Writer) {
        if self.is_checkpoint_due(writer) {
            self.turns.note_due();
        }
    }

    /// Makes the checkpoint with this number, unless another thread has made it meanwhile.
    pub(super) fn checkpoint_numbered(&self, number: u64) -> Result<(), Error> {
        self.check_writable()?;
        let _turn = self.turns.take();
        if self.writer().checkpoint != number {
            return Ok(());
        }
        self.make_checkpoint().map_err(|error| self.failed(error))
    }

    fn is_checkpoint_due(&self, writer: &Writer) -> bool {
        let distances = distances(&self.geometry);
        [PROBATION, MAIN].iter().any(|area| {
            let area = *area;
            writer.open[area].count - writer.checkpointed[area] >= distances[area].due
        })
    }

    /// Whether an area's cursor may go to this count before the next checkpoint.
    pub(super) fn check_distance(&self, writer: &Writer, area: usize, count: u64) -> Result<(), Blocked> {
        if count <= writer.checkpointed[area] + distances(&self.geometry)[area].most {
            return Ok(());
        }
        // A checkpoint would not help.
        if writer.checkpointed[area] == writer.open[area].count {
            return Err(Error::Busy.into());
        }
        Err(Blocked::Checkpoint(writer.checkpoint))
    }

    fn make_checkpoint(&self) -> Result<(), Error> {
        let mut mark = self.mark()?;
        self.write_tables(&mut mark)?;
        // Everything that the mark vouches for is durable before it, and the mark is before the
        // older checkpoint or a stripe that it needs is overwritten.
        self.medium.sync().map_err(Error::writing)?;
        mark.write(&*self.medium, &self.geometry)?;
        self.medium.sync().map_err(Error::writing)?;
        let mut writer = self.writer();
        writer.checkpoint = mark.number + 1;
        writer.checkpointed = mark.cursors.map(|(count, _)| count);
        writer.note_durable(Durable { sequence: mark.sequence, records: mark.records });
        drop(writer);
        let mut index = self.index();
        index.statistics.checkpoints += 1;
        index.statistics.checkpoint_bytes_written += mark.payload_bytes + BLOCK_BYTES;
        Ok(())
    }

    /// Writes what is open, and takes the point behind it.
    fn mark(&self) -> Result<Mark, Error> {
        let mut writer = self.writer();
        self.write_open(&mut writer)?;
        Ok(Mark {
            number: writer.checkpoint,
            sequence: writer.sequence,
            purges: writer.purges,
            records: writer.records,
            cursors: [PROBATION, MAIN].map(|area| (writer.open[area].count, writer.open[area].start)),
            payload_bytes: 0,
            payload_checksum: 0,
        })
    }

    fn write_tables(&self, mark: &mut Mark) -> Result<(), Error> {
        let offset = self.geometry.slot_offset(slot(mark.number)) + BLOCK_BYTES;
        let mut sum = Checksum::of_volume(self.geometry.id);
        let mut written = 0;
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        loop {
            piece.clear();
            self.index().encode(written, &mut piece);
            if piece.is_empty() {
                break;
            }
            sum.add(&piece);
            self.medium.write_at(&piece, offset + written).map_err(Error::writing)?;
            written += piece.len() as u64;
        }
        (mark.payload_bytes, mark.payload_checksum) = (written, sum.value());
        Ok(())
    }
}

/// Distances of a cursor between checkpoints, in stripes.
pub(super) struct Distances {
    pub(super) due: u64,
    pub(super) most: u64,
}

pub(super) fn distances(geometry: &Geometry) -> [Distances; 2] {
    let bytes = (8 * geometry.checkpoint_bytes()).max(DISTANCE_BYTES_MIN);
    let stripes = bytes.div_ceil(u64::from(geometry.stripe_bytes));
    [geometry.probation_stripes, geometry.main_stripes].map(|ring| {
        let due = stripes.clamp(1, u64::from(ring) / 4);
        Distances { due, most: due.max(u64::from(ring) / 2 - 1).min(2 * due) }
    })
}

impl Index {
    /// The tables of a checkpoint one after the other as bytes, from `from`, a piece at most.
    fn encode(&mut self, from: u64, piece: &mut Vec<u8>) {
        let mut skip = (from / 8) as usize;
        let [keys, groups, soft_keys, soft_groups] = self.purges.tables();
        for table in [self.directory.slots(), keys, groups, soft_keys, soft_groups] {
            let rest = &table[skip.min(table.len())..];
            skip = skip.saturating_sub(table.len());
            let room = (PIECE_BYTES - piece.len()) / 8;
            piece.extend(rest.iter().take(room).flat_map(|number| number.to_le_bytes()));
        }
        if piece.len() < PIECE_BYTES && skip == 0 {
            piece.extend(self.stripe_times.iter().flat_map(|time| time.to_le_bytes()));
        }
    }

    /// Fills the tables from a checkpoint, without entries of what was appended while it was made;
    /// whether it is whole.
    pub(super) fn load(&mut self, medium: &dyn Medium, geometry: &Geometry, mark: &Mark) -> bool {
        if mark.payload_bytes == 0 {
            return true;
        }
        if mark.payload_bytes != geometry.checkpoint_bytes() {
            return false;
        }
        let mut sum = Checksum::of_volume(geometry.id);
        let mut offset = geometry.slot_offset(slot(mark.number)) + BLOCK_BYTES;
        let mut bytes = vec![0; PIECE_BYTES];
        let mut read = |length: usize, each: &mut dyn FnMut(&[u8])| {
            let mut left = length;
            while left > 0 {
                let piece = &mut bytes[..left.min(PIECE_BYTES)];
                if medium.read_at(piece, offset).is_err() {
                    return false;
                }
                sum.add(piece);
                each(piece);
                offset += piece.len() as u64;
                left -= piece.len();
            }
            true
        };
        let [keys, groups, soft_keys, soft_groups] = self.purges.tables();
        for table in [self.directory.slots(), keys, groups, soft_keys, soft_groups] {
            let mut at = 0;
            let whole = read(table.len() * 8, &mut |piece| {
                for number in piece.chunks_exact(8) {
                    table[at] = Fields(number).u64();
                    at += 1;
                }
            });
            if !whole {
                return false;
            }
        }
        let mut at = 0;
        let whole = read(self.stripe_times.len() * 4, &mut |piece| {
            for number in piece.chunks_exact(4) {
                self.stripe_times[at] = Fields(number).u32();
                at += 1;
            }
        });
        if !whole || sum.value() != mark.payload_checksum {
            return false;
        }
        self.adopt(mark);
        true
    }

    /// Keeps what lies before the cursors of a mark.
    fn adopt(&mut self, mark: &Mark) {
        for (ring, (count, _)) in self.log.rings.iter_mut().zip(mark.cursors) {
            ring.head = count;
        }
        let log = self.log;
        self.directory.adopt(|entry| log.age(entry).is_some() && !log.is_behind(entry, mark.cursors));
    }
}
