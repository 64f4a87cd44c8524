//! Reading and writing little-endian numbers in blocks of the volume, and their checksum. The
//! layouts themselves are with those who own them.

use std::hash::Hasher;
use twox_hash::XxHash3_64;

/// The smallest unit in which the volume is written.
pub(crate) const BLOCK_BYTES: u64 = 4096;

/// Records are aligned to this many bytes, the unit of all offsets in the directory.
pub(crate) const UNIT_BYTES: u64 = 512;

/// The checksum of bytes that belong to the volume with this id: 64 bits of XXH3 with the id as its
/// seed, so that what another volume left in the same blocks does not pass.
pub(crate) fn checksum(volume: u64, bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(volume, bytes)
}

/// The same checksum of bytes that come in pieces.
pub(crate) struct Checksum(XxHash3_64);

impl Checksum {
    pub(crate) fn of_volume(volume: u64) -> Self {
        Self(XxHash3_64::with_seed(volume))
    }

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.finish()
    }
}

/// Takes fields out of a block, in order.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl Fields<'_> {
    pub(crate) fn array<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk::<N>().expect("the block has all its fields");
        self.0 = rest;
        *field
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

/// Rounds up to a multiple of `unit`.
pub(crate) fn rounded_up(value: u64, unit: u64) -> u64 {
    value.div_ceil(unit) * unit
}
