//! Checkpoints: the directory, the purges and the cursors, written to two slots in turn, so that
//! the older one is whole while the newer one is written.
//!
//! A checkpoint is due after a distance of the cursor that keeps its cost at about an eighth of all
//! writes. There is a distance that no cursor goes without one: half of its ring, so that recovery
//! from the older slot meets every stripe at most once.

use super::state::{Index, Volume, Writer};
use crate::{
    bytes::{BLOCK_BYTES, Checksum, Fields, checksum},
    cursor::{MAIN, PROBATION},
    error::Error,
    geometry::Geometry,
    medium::Medium,
};

const MAGIC: u32 = 0x5450_4B43;
const HEADER_BYTES: usize = 4096;
const PIECE_BYTES: usize = 1 << 20;

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
        for number in [self.number, self.sequence, self.purges, self.payload_bytes, self.payload_checksum] {
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
        let [number, sequence, purges, payload_bytes, payload_checksum] = [(); 5].map(|()| fields.u64());
        let cursors = [(); 2].map(|()| (fields.u64(), fields.u32()));
        Some(Self { number, sequence, purges, cursors, payload_bytes, payload_checksum })
    }
}

fn slot(number: u64) -> usize {
    (number % 2) as usize
}

impl Volume {
    /// Makes a checkpoint, after which a start has nothing to scan.
    pub fn checkpoint(&self) -> Result<(), Error> {
        self.check_writable()?;
        let mut writer = self.writer();
        self.make_checkpoint(&mut writer).map_err(|error| self.failed(error))
    }

    pub(super) fn is_checkpoint_due(&self, writer: &Writer) -> bool {
        let distances = distances(&self.geometry);
        [PROBATION, MAIN].iter().any(|area| {
            let area = *area;
            writer.open[area].count - writer.checkpointed[area] >= distances[area].due
        })
    }

    /// The highest count that an area's cursor may reach before the next checkpoint.
    pub(super) fn count_max(&self, writer: &Writer, area: usize) -> u64 {
        writer.checkpointed[area] + distances(&self.geometry)[area].most
    }

    pub(super) fn make_checkpoint(&self, writer: &mut Writer) -> Result<(), Error> {
        self.flush_both(writer)?;
        let number = writer.checkpoint;
        let offset = self.geometry.slot_offset(slot(number)) + BLOCK_BYTES;
        let mut sum = Checksum::of_volume(self.geometry.id);
        let mut written = 0;
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        loop {
            // The index is locked for a piece at a time. A look-up in between changes hits and
            // drops entries at most: appending waits.
            piece.clear();
            self.index().encode(written, &mut piece);
            if piece.is_empty() {
                break;
            }
            sum.add(&piece);
            self.medium.write_at(&piece, offset + written).map_err(Error::writing)?;
            written += piece.len() as u64;
        }
        self.medium.sync().map_err(Error::writing)?;
        let cursors = [PROBATION, MAIN].map(|area| (writer.open[area].count, writer.open[area].start));
        let mark = Mark {
            number,
            sequence: writer.sequence,
            purges: writer.purges,
            cursors,
            payload_bytes: written,
            payload_checksum: sum.value(),
        };
        mark.write(&*self.medium, &self.geometry)?;
        self.medium.sync().map_err(Error::writing)?;
        writer.checkpoint = number + 1;
        writer.checkpointed = cursors.map(|(count, _)| count);
        let mut index = self.index();
        index.statistics.checkpoints += 1;
        index.statistics.checkpoint_bytes_written += written + BLOCK_BYTES;
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
        let [keys, groups] = self.purges.tables();
        for table in [self.directory.slots(), keys, groups] {
            let rest = &table[skip.min(table.len())..];
            skip = skip.saturating_sub(table.len());
            let room = (PIECE_BYTES - piece.len()) / 8;
            piece.extend(rest.iter().take(room).flat_map(|number| number.to_le_bytes()));
        }
        if piece.len() < PIECE_BYTES && skip == 0 {
            piece.extend(self.stripe_times.iter().flat_map(|time| time.to_le_bytes()));
        }
    }

    /// Fills the tables from a checkpoint; whether it is whole.
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
        let [keys, groups] = self.purges.tables();
        for table in [self.directory.slots(), keys, groups] {
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
        whole && sum.value() == mark.payload_checksum
    }
}
