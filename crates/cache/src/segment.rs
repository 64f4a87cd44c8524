//! A segment: what one write appends to a stripe, a summary of its records and the records. The
//! summaries are what recovery and eviction read instead of all records; purges stand in them, too.

use crate::{
    bytes::{Fields, checksum},
    key::{Key, Part},
};

const MAGIC: u32 = 0x5347_4D54;
const HEAD_BYTES: usize = 96;
const ENTRY_BYTES: usize = 32;

/// Sequence numbers of a run begin at its epoch, so that they are above all of earlier runs, known
/// or lost.
const EPOCH_SHIFT: u32 = 40;

pub(crate) fn first_sequence(epoch: u32) -> u64 {
    u64::from(epoch) << EPOCH_SHIFT
}

/// The run in which a sequence number was given.
pub(crate) fn epoch_of(sequence: u64) -> u32 {
    (sequence >> EPOCH_SHIFT) as u32
}

/// An entry of a summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// A record, at this offset of the stripe and of this size.
    Record { key: Key, part: Part, sequence: u64, offset: u32, bytes: u32 },
    /// Everything of this object with a lower sequence number is purged.
    PurgeKey { key: Key, sequence: u64 },
    /// Everything in this group with a lower sequence number is purged.
    PurgeGroup { group: u32, sequence: u64 },
    /// Everything of this object with a lower first sequence number is stale.
    SoftPurgeKey { key: Key, sequence: u64 },
    /// Everything in this group with a lower first sequence number is stale.
    SoftPurgeGroup { group: u32, sequence: u64 },
}

/// The extent of the last sync: a summary that has it tells a lost segment from one that never
/// became durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Durable {
    /// The highest sequence number.
    pub(crate) sequence: u64,
    /// The number of records with this sequence number or a lower one, in the life of the volume.
    pub(crate) records: u64,
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
    /// The number of purges in the life of the volume that were durable before this segment.
    pub(crate) purges: u64,
    pub(crate) durable: Durable,
    pub(crate) entries: Vec<Entry>,
}

impl Entry {
    pub(crate) fn sequence(&self) -> u64 {
        match self {
            Self::Record { sequence, .. }
            | Self::PurgeKey { sequence, .. }
            | Self::PurgeGroup { sequence, .. }
            | Self::SoftPurgeKey { sequence, .. }
            | Self::SoftPurgeGroup { sequence, .. } => *sequence,
        }
    }

    pub(crate) fn is_record(&self) -> bool {
        matches!(self, Self::Record { .. })
    }

    fn encode(&self, base: u64) -> [u8; ENTRY_BYTES] {
        let (kind, key, number, offset, units) = match *self {
            Self::Record { key, part, offset, bytes, .. } => (0_u16, key, part.raw(), offset, bytes / 512),
            Self::PurgeKey { key, .. } => (1, key, 0, 0, 0),
            Self::PurgeGroup { group, .. } => (2, Key([0; 16]), group, 0, 0),
            Self::SoftPurgeKey { key, .. } => (3, key, 0, 0, 0),
            Self::SoftPurgeGroup { group, .. } => (4, Key([0; 16]), group, 0, 0),
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
            3 => Self::SoftPurgeKey { key, sequence },
            4 => Self::SoftPurgeGroup { group: number, sequence },
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
        let Durable { sequence, records } = self.durable;
        for number in [self.place, self.written_s, base, self.purges, sequence, records] {
            head.extend(number.to_le_bytes());
        }
        block[..head.len()].copy_from_slice(&head);
        for (entry, room) in self.entries.iter().zip(block[HEAD_BYTES..].chunks_exact_mut(ENTRY_BYTES)) {
            room.copy_from_slice(&entry.encode(base));
        }
        let sum = checksum(volume, &block[8..]);
        block[..8].copy_from_slice(&sum.to_le_bytes());
    }

    /// The place of the summary that seems to begin here: its checksum may be wrong.
    pub(crate) fn claimed_place(bytes: &[u8]) -> Option<u64> {
        let mut head = Fields(bytes.get(8..32)?);
        let is_summary = head.u32() == MAGIC;
        let _numbers: [u8; 12] = head.array();
        is_summary.then(|| head.u64())
    }

    /// The summary in this block; none if the checksum is wrong.
    pub(crate) fn decode(block: &[u8], volume: u64) -> Option<Self> {
        let mut head = Fields(&block[..HEAD_BYTES]);
        let sum = head.u64();
        if head.u32() != MAGIC || sum != checksum(volume, &block[8..]) {
            return None;
        }
        let [epoch, bytes, count] = [(); 3].map(|()| head.u32());
        let [place, written_s, base, purges, sequence, records] = [(); 6].map(|()| head.u64());
        let durable = Durable { sequence, records };
        let mut fields = Fields(block.get(HEAD_BYTES..)?.get(..count as usize * ENTRY_BYTES)?);
        let entries = (0..count).map(|_| Entry::decode(&mut fields, base)).collect::<Option<_>>()?;
        Some(Self { place, epoch, bytes, written_s, purges, durable, entries })
    }
}
