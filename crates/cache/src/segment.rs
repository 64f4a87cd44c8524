//! A segment: what one write appends to a stripe, a summary of its records and the records. The
//! summaries are what recovery and eviction read instead of all records; purges stand in them, too.

use crate::{
    bytes::{Fields, checksum},
    key::{Key, Part},
};

const MAGIC: u32 = 0x5347_4D54;
const HEAD_BYTES: usize = 64;
const ENTRY_BYTES: usize = 32;

/// An entry of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A record, at this offset of the stripe and of this size.
    Record { key: Key, part: Part, sequence: u64, offset: u32, bytes: u32 },
    /// Everything of this object with a lower sequence number is purged.
    PurgeKey { key: Key, sequence: u64 },
    /// Everything in this group with a lower sequence number is purged.
    PurgeGroup { group: u32, sequence: u64 },
}

/// The summary of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Summary {
    /// The place of the segment's first byte.
    pub(crate) place: u64,
    /// The run that wrote it.
    pub(crate) epoch: u32,
    /// The size of the whole segment.
    pub(crate) bytes: u32,
    pub(crate) written_s: u64,
    /// The number of purges in the life of the volume, with those of this segment.
    pub(crate) purges: u64,
    pub(crate) entries: Vec<Entry>,
}

impl Entry {
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Self::Record { sequence, .. } | Self::PurgeKey { sequence, .. } | Self::PurgeGroup { sequence, .. } => {
                *sequence
            }
        }
    }

    fn encode(&self, base: u64) -> [u8; ENTRY_BYTES] {
        let (kind, key, number, offset, units) = match *self {
            Self::Record { key, part, offset, bytes, .. } => (0_u16, key, part.raw(), offset, bytes / 512),
            Self::PurgeKey { key, .. } => (1, key, 0, 0, 0),
            Self::PurgeGroup { group, .. } => (2, Key([0; 16]), group, 0, 0),
        };
        let mut entry = [0; ENTRY_BYTES];
        entry[..16].copy_from_slice(&key.0);
        entry[16..20].copy_from_slice(&number.to_le_bytes());
        entry[20..24].copy_from_slice(&offset.to_le_bytes());
        entry[24..26].copy_from_slice(&(units as u16).to_le_bytes());
        entry[26..28].copy_from_slice(&kind.to_le_bytes());
        entry[28..].copy_from_slice(&((self.sequence() - base) as u32).to_le_bytes());
        entry
    }

    fn decode(entry: &mut Fields<'_>, base: u64) -> Option<Self> {
        let (key, number, offset) = (Key(entry.array()), entry.u32(), entry.u32());
        let (units, kind) = (entry.u16(), entry.u16());
        let sequence = base + u64::from(entry.u32());
        Some(match kind {
            0 => {
                let (part, bytes) = (Part::from_raw(number), u32::from(units) * 512);
                Self::Record { key, part, sequence, offset, bytes }
            }
            1 => Self::PurgeKey { key, sequence },
            2 => Self::PurgeGroup { group: number, sequence },
            _ => return None,
        })
    }
}

impl Summary {
    /// The number of entries that a summary of this size has room for.
    pub(crate) fn capacity(summary_bytes: u32) -> usize {
        (summary_bytes as usize - HEAD_BYTES) / ENTRY_BYTES
    }

    /// Writes the summary to the start of `block`, which is as large as all summaries of a volume.
    pub(crate) fn encode(&self, block: &mut [u8], volume: u64) {
        block.fill(0);
        let base = self.entries.iter().map(Entry::sequence).min().unwrap_or(0);
        let mut head = Vec::with_capacity(HEAD_BYTES);
        head.extend([0; 8]);
        for number in [MAGIC, self.epoch, self.bytes, self.entries.len() as u32] {
            head.extend(number.to_le_bytes());
        }
        for number in [self.place, self.written_s, base, self.purges] {
            head.extend(number.to_le_bytes());
        }
        block[..head.len()].copy_from_slice(&head);
        for (entry, room) in self.entries.iter().zip(block[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
            room.copy_from_slice(&entry.encode(base));
        }
        let sum = checksum(volume, &block[8..]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The summary in this block; none if the checksum is wrong.
    pub(crate) fn decode(block: &[u8], volume: u64) -> Option<Self> {
        let mut head = Fields(&block[..HEAD_BYTES]);
        let sum = head.u64();
        if head.u32() != MAGIC || sum != checksum(volume, &block[8..]) {
            return None;
        }
        let [epoch, bytes, count] = [(); 3].map(|()| head.u32());
        let [place, written_s, base, purges] = [(); 4].map(|()| head.u64());
        let mut fields = Fields(block.get(HEAD_BYTES..)?.get(..count as usize * ENTRY_BYTES)?);
        let entries = (0..count).map(|_| Entry::decode(&mut fields, base)).collect::<Option<_>>()?;
        Some(Self { place, epoch, bytes, written_s, purges, entries })
    }
}
