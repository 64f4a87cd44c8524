//! The layout of a volume, and the superblock that it follows from.
//!
//! ```text
//! superblock | checkpoint slot 0 | checkpoint slot 1 | probation stripes | main stripes | superblock
//! ```
//!
//! Everything follows from the numbers in the superblock; what checkpoints and stripes hold is with
//! their owners.

use crate::{
    bytes::{BLOCK_BYTES, Fields, UNIT_BYTES, checksum, rounded_up},
    error::Error,
    medium::Medium,
    purges::Purges,
};

/// The version of the format that this crate reads and writes.
pub(crate) const FORMAT: u32 = 2;

const MAGIC: [u8; 8] = *b"THWGCACH";
const SUPERBLOCK_BYTES: usize = 4096;

/// The longest body of a record.
pub const FRAGMENT_BYTES_MAX: usize = 1 << 20;

/// Entries of a bucket of the directory: as many as one cache line has.
pub(crate) const BUCKET_ENTRIES: usize = 8;

/// The share of the directory's entries in use when the volume is full of fragments of the mean
/// size (bench/TRIED.md, "Constants of the eviction policy").
const DIRECTORY_LOAD: f64 = 0.7;

/// One stripe in this many belongs to probation (the same entry).
const PROBATION_SHARE: u32 = 20;

const PROBATION_STRIPES_MIN: u32 = 4;
const MAIN_STRIPES_MIN: u32 = 8;

/// The choices at a volume's creation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// The size of a stripe: the longest write, and the unit in which space is given up. A power of
    /// two from 64 KiB to 64 MiB.
    pub stripe_bytes: u32,
    /// The mean size of fragments that the directory is made for. Smaller ones are displaced from
    /// the directory before their space is overwritten.
    pub fragment_bytes_mean: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { stripe_bytes: 4 << 20, fragment_bytes_mean: 16 << 10 }
    }
}

/// The set of volumes that together are a cache, as one of them knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Membership {
    pub(crate) id: u64,
    /// The number of the last change of the set.
    pub(crate) change: u64,
    /// The number of volumes since then.
    pub(crate) volumes: u64,
}

/// The superblock: identity and layout of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// The volume's id, drawn when it was last emptied.
    pub(crate) id: u64,
    /// Counts the openings for writing; the upper bits of all sequence numbers of a run.
    pub(crate) epoch: u32,
    /// The epoch of the last run that began behind a gap: its start found segments or records that
    /// no segment leads to. 0 if there was none.
    pub(crate) gap_epoch: u32,
    /// The volume's share of the keys follows from this number, which stays when it is emptied.
    pub(crate) seat: u64,
    /// The set of volumes that the volume is in.
    pub(crate) set: Membership,
    pub(crate) size: u64,
    pub(crate) stripe_bytes: u32,
    pub(crate) summary_bytes: u32,
    pub(crate) buckets: u32,
    pub(crate) purge_slots: u32,
    pub(crate) probation_stripes: u32,
    pub(crate) main_stripes: u32,
}

impl Geometry {
    /// Lays out a volume of `size` bytes.
    pub(crate) fn plan(size: u64, shape: Shape, id: u64) -> Result<Self, Error> {
        let stripe = u64::from(shape.stripe_bytes);
        if !shape.stripe_bytes.is_power_of_two() || !(64 << 10..=64 << 20).contains(&shape.stripe_bytes) {
            let message = format!("a stripe of {stripe} bytes; it must be a power of two from 64 KiB to 64 MiB");
            return Err(Error::Setting(message));
        }
        let mean = u64::from(shape.fragment_bytes_mean);
        if !(UNIT_BYTES..=FRAGMENT_BYTES_MAX as u64).contains(&mean) {
            let message = format!("a mean fragment of {mean} bytes; it must be from 512 bytes to 1 MiB");
            return Err(Error::Setting(message));
        }
        // Offsets in the directory are 32-bit numbers of units.
        if size > UNIT_BYTES << 32 {
            return Err(Error::Setting(format!("a volume of {size} bytes; the largest one has 2 TiB")));
        }
        let entries = (size / mean) as f64 / DIRECTORY_LOAD;
        let buckets = (entries / BUCKET_ENTRIES as f64).ceil().max(8.0) as u32;
        let mut geometry = Self {
            id,
            epoch: 0,
            gap_epoch: 0,
            seat: id,
            set: Membership { id, change: 0, volumes: 1 },
            size,
            stripe_bytes: shape.stripe_bytes,
            summary_bytes: (shape.stripe_bytes / 256).max(4096),
            buckets,
            purge_slots: (buckets / 8).next_power_of_two().clamp(1 << 10, 1 << 16),
            probation_stripes: 0,
            main_stripes: 0,
        };
        let fixed = |geometry: &Self| 2 * BLOCK_BYTES + 2 * geometry.slot_bytes();
        // The slots hold a time for each stripe; there are no more stripes than without slots.
        geometry.main_stripes = (size / stripe) as u32;
        let stripes = (size.saturating_sub(fixed(&geometry)) / stripe) as u32;
        geometry.probation_stripes = (stripes / PROBATION_SHARE).max(PROBATION_STRIPES_MIN);
        if stripes < PROBATION_STRIPES_MIN + MAIN_STRIPES_MIN {
            let least = fixed(&geometry) + stripe * u64::from(PROBATION_STRIPES_MIN + MAIN_STRIPES_MIN);
            let message = format!("a volume of {size} bytes; with these stripes the smallest one has about {least}");
            return Err(Error::Setting(message));
        }
        geometry.main_stripes = stripes - geometry.probation_stripes;
        Ok(geometry)
    }

    /// Makes this the superblock of an empty volume: its new id makes invalid all that lies there.
    pub(crate) fn empty(&mut self) {
        (self.id, self.epoch, self.gap_epoch) = (rand::random(), 0, 0);
    }

    /// Reads the superblock from the first of its two places where it is whole.
    pub(crate) fn read(medium: &dyn Medium) -> Result<Self, Error> {
        let size = medium.size();
        if size < 2 * BLOCK_BYTES {
            return Err(Error::NotAVolume);
        }
        let mut some_magic = false;
        let mut failed = None;
        for offset in [0, size / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES] {
            let mut block = [0; SUPERBLOCK_BYTES];
            if let Err(error) = medium.read_at(&mut block, offset) {
                failed = Some(error);
                continue;
            }
            some_magic |= block[..8] == MAGIC;
            if let Some(geometry) = Self::decode(&block)? {
                if geometry.size != size {
                    return Err(Error::SizeChanged { created: geometry.size, found: size });
                }
                return Ok(geometry);
            }
        }
        match failed {
            Some(error) => Err(Error::reading(error)),
            None if some_magic => Err(Error::SuperblocksDamaged),
            None => Err(Error::NotAVolume),
        }
    }

    /// Writes the superblock at both places, one after the other, so that one is always whole.
    pub(crate) fn write(&self, medium: &dyn Medium) -> Result<(), Error> {
        let block = self.encode();
        for offset in [0, self.size / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES] {
            medium.write_at(&block, offset).and_then(|()| medium.sync()).map_err(Error::writing)?;
        }
        Ok(())
    }

    fn encode(&self) -> [u8; SUPERBLOCK_BYTES] {
        let mut fields = Vec::with_capacity(SUPERBLOCK_BYTES);
        fields.extend(MAGIC);
        fields.extend(FORMAT.to_le_bytes());
        fields.extend(self.epoch.to_le_bytes());
        let Membership { id: set, change, volumes } = self.set;
        for number in [self.id, self.seat, set, change, volumes, self.size] {
            fields.extend(number.to_le_bytes());
        }
        let sizes = [self.stripe_bytes, self.summary_bytes, self.buckets, self.purge_slots];
        for number in sizes.into_iter().chain([self.probation_stripes, self.main_stripes]) {
            fields.extend(number.to_le_bytes());
        }
        // Volumes of before this number have 0 here.
        fields.extend(self.gap_epoch.to_le_bytes());
        let mut block = [0; SUPERBLOCK_BYTES];
        block[..fields.len()].copy_from_slice(&fields);
        let sum = checksum(0, &block[..SUPERBLOCK_BYTES - 8]);
        block[SUPERBLOCK_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        block
    }

    fn decode(block: &[u8; SUPERBLOCK_BYTES]) -> Result<Option<Self>, Error> {
        let (body, sum) = block.split_at(SUPERBLOCK_BYTES - 8);
        if Fields(sum).u64() != checksum(0, body) {
            return Ok(None);
        }
        let mut fields = Fields(body);
        if fields.array() != MAGIC {
            return Ok(None);
        }
        let format = fields.u32();
        if format != FORMAT {
            return Err(Error::Format { found: format, known: FORMAT });
        }
        let epoch = fields.u32();
        let [id, seat, set, change, volumes, size] = [(); 6].map(|()| fields.u64());
        let set = Membership { id: set, change, volumes };
        let [stripe_bytes, summary_bytes, buckets, purge_slots] = [(); 4].map(|()| fields.u32());
        let [probation_stripes, main_stripes, gap_epoch] = [(); 3].map(|()| fields.u32());
        Ok(Some(Self {
            id,
            epoch,
            gap_epoch,
            seat,
            set,
            size,
            stripe_bytes,
            summary_bytes,
            buckets,
            purge_slots,
            probation_stripes,
            main_stripes,
        }))
    }

    pub(crate) fn stripes(&self) -> u32 {
        self.probation_stripes + self.main_stripes
    }

    /// The bytes of a checkpoint without its header: the directory, the tables of purges, and the
    /// times of all stripes.
    pub(crate) fn checkpoint_bytes(&self) -> u64 {
        u64::from(self.buckets) * BUCKET_ENTRIES as u64 * 8
            + Purges::bytes(self.purge_slots)
            + u64::from(self.stripes()) * 4
    }

    fn slot_bytes(&self) -> u64 {
        BLOCK_BYTES + rounded_up(self.checkpoint_bytes(), BLOCK_BYTES)
    }

    /// The offset of a checkpoint slot.
    pub(crate) fn slot_offset(&self, slot: usize) -> u64 {
        BLOCK_BYTES + slot as u64 * self.slot_bytes()
    }

    /// The offset of a stripe, probation's first. Stripes end right before the second superblock,
    /// so that the slots may have been planned for more stripes than there are.
    pub(crate) fn stripe_offset(&self, stripe: u32) -> u64 {
        let stripe_bytes = u64::from(self.stripe_bytes);
        let end = self.size / BLOCK_BYTES * BLOCK_BYTES - BLOCK_BYTES;
        end - stripe_bytes * u64::from(self.stripes() - stripe)
    }

    /// The offset of the first stripe.
    pub(crate) fn log_offset(&self) -> u64 {
        self.stripe_offset(0)
    }

    /// The longest body that a record can have.
    pub(crate) fn body_bytes_max(&self) -> usize {
        let room = self.stripe_bytes as usize - self.summary_bytes as usize - crate::record::HEADER_BYTES;
        room.min(FRAGMENT_BYTES_MAX)
    }
}
