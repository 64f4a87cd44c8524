//! The arithmetic of the cyclic logs. Each of the two areas, probation and main, is a ring of
//! stripes with one cursor. Stripes are counted without end; the count of a stripe's last writing
//! follows from the cursor alone, and so does whether an entry has been overwritten.

use crate::{bytes::UNIT_BYTES, directory::Entry, geometry::Geometry};

/// New fragments are written to this area.
pub(crate) const PROBATION: usize = 0;
/// Fragments that were asked for again are moved to this area.
pub(crate) const MAIN: usize = 1;

/// A ring of stripes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ring {
    first: u32,
    pub(crate) stripes: u32,
    /// The count of the stripe that is being written. It starts at a whole lap, so that counts of
    /// the lap before exist for all stripes.
    pub(crate) head: u64,
}

impl Ring {
    /// The stripe of the volume that has this count.
    pub(crate) fn stripe(&self, count: u64) -> u32 {
        self.first + (count % u64::from(self.stripes)) as u32
    }

    /// The count with which a stripe was last written.
    fn count_of(&self, stripe: u32) -> u64 {
        let stripes = u64::from(self.stripes);
        let index = u64::from(stripe - self.first);
        self.head - (self.head % stripes + stripes - index) % stripes
    }

    /// The lap that a count lies in, as entries hold it.
    pub(crate) fn lap(&self, count: u64) -> u8 {
        (count / u64::from(self.stripes) % 8) as u8
    }

    /// Whether each stripe has been written since the volume was emptied.
    pub(crate) fn is_full(&self) -> bool {
        self.filled() == u64::from(self.stripes)
    }

    /// The number of stripes that have been written since the volume was emptied, at most all.
    pub(crate) fn filled(&self) -> u64 {
        (self.head + 1).saturating_sub(u64::from(self.stripes)).min(u64::from(self.stripes))
    }
}

/// Both rings of a volume.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    pub(crate) rings: [Ring; 2],
    stripe_bytes: u32,
}

impl Log {
    pub(crate) fn new(geometry: &Geometry) -> Self {
        let ring = |first, stripes| Ring { first, stripes, head: u64::from(stripes) };
        let rings = [ring(0, geometry.probation_stripes), ring(geometry.probation_stripes, geometry.main_stripes)];
        Self { rings, stripe_bytes: geometry.stripe_bytes }
    }

    /// The area that a stripe belongs to.
    pub(crate) fn area_of(&self, stripe: u32) -> usize {
        if stripe < self.rings[MAIN].first { PROBATION } else { MAIN }
    }

    pub(crate) fn stripe_of(&self, entry: Entry) -> u32 {
        (u64::from(entry.offset_units) * UNIT_BYTES / u64::from(self.stripe_bytes)) as u32
    }

    /// The offset of a place from the start of the log, in units.
    pub(crate) fn offset_units(&self, area: usize, count: u64, offset: u32) -> u32 {
        let stripe = u64::from(self.rings[area].stripe(count));
        ((stripe * u64::from(self.stripe_bytes) + u64::from(offset)) / UNIT_BYTES) as u32
    }

    /// The place of a byte: unique over all laps of both areas.
    pub(crate) fn place(&self, area: usize, count: u64, offset: u32) -> u64 {
        (area as u64) << 63 | (count * u64::from(self.stripe_bytes) + u64::from(offset))
    }

    /// The place that the record of this entry must have.
    pub(crate) fn place_of(&self, entry: Entry) -> u64 {
        let stripe = self.stripe_of(entry);
        let area = self.area_of(stripe);
        let offset = u64::from(entry.offset_units) * UNIT_BYTES % u64::from(self.stripe_bytes);
        self.place(area, self.rings[area].count_of(stripe), offset as u32)
    }

    /// How many stripes the cursor is ahead of an entry; `None` if the entry's stripe has been
    /// overwritten or given up since.
    pub(crate) fn age(&self, entry: Entry) -> Option<u64> {
        let stripe = self.stripe_of(entry);
        let ring = self.rings[self.area_of(stripe)];
        let count = ring.count_of(stripe);
        (ring.lap(count) == entry.lap).then(|| ring.head - count)
    }

    /// Whether an entry of the stripes at the cursors lies behind their offsets.
    pub(crate) fn is_behind(&self, entry: Entry, cursors: [(u64, u32); 2]) -> bool {
        let stripe = self.stripe_of(entry);
        let area = self.area_of(stripe);
        let (count, offset) = cursors[area];
        let at = u64::from(entry.offset_units) * UNIT_BYTES % u64::from(self.stripe_bytes);
        self.rings[area].stripe(count) == stripe && at >= u64::from(offset)
    }

    /// Whether an entry's stripe was written since the stripes of these counts were begun.
    pub(crate) fn is_since(&self, entry: Entry, heads: [u64; 2]) -> bool {
        let stripe = self.stripe_of(entry);
        let area = self.area_of(stripe);
        self.rings[area].count_of(stripe) >= heads[area]
    }

    /// The count with which a stripe of this area was last written.
    pub(crate) fn count_of(&self, area: usize, stripe: u32) -> u64 {
        self.rings[area].count_of(stripe)
    }
}
