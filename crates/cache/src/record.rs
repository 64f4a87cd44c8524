//! A record: a header of 128 bytes, then the body. The header says which fragment it is and where
//! the record was written, so that a reader tells it from whatever else may lie in its place.

use crate::{
    bytes::{Fields, UNIT_BYTES, checksum},
    key::{Key, Part},
};

pub(crate) const HEADER_BYTES: usize = 128;

const MAGIC: u32 = 0x5247_4654;

/// Groups that a fragment can be in.
pub const GROUPS_MAX: usize = 4;

/// The caller's description of a fragment, beside its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Description {
    /// Binds the fragments of one version of an object: a hash of validator and length.
    pub version: u64,
    /// The length of the whole object; 0 if it is unknown.
    pub object_bytes: u64,
    /// Groups that are purged together, such as a mount, as hashes; 0 stands for none.
    pub groups: [u32; GROUPS_MAX],
}

/// The header of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) key: Key,
    pub(crate) part: Part,
    pub(crate) description: Description,
    /// The place in the log: see `cursor::Place`. No two records of a volume have the same one
    /// in runs that know of each other.
    pub(crate) place: u64,
    pub(crate) sequence: u64,
    /// When the fragment was first stored, in seconds since 1970.
    pub(crate) stored_s: u64,
    pub(crate) body_bytes: u32,
    pub(crate) body_checksum: u64,
    /// The sequence number with which the caller appended the fragment; lower than the other one if
    /// the store has moved it since.
    pub(crate) first_sequence: u64,
}

/// The size of a record on the volume.
pub(crate) fn record_bytes(body_bytes: usize) -> u64 {
    ((HEADER_BYTES + body_bytes) as u64).next_multiple_of(UNIT_BYTES)
}

impl Header {
    pub(crate) fn encode(&self, volume: u64) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            header[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC.to_le_bytes());
        put(&self.body_bytes.to_le_bytes());
        put(&self.key.0);
        put(&self.part.raw().to_le_bytes());
        self.description.groups.iter().for_each(|group| put(&group.to_le_bytes()));
        for number in [self.description.version, self.description.object_bytes, self.place, self.sequence] {
            put(&number.to_le_bytes());
        }
        put(&self.stored_s.to_le_bytes());
        put(&self.body_checksum.to_le_bytes());
        put(&self.first_sequence.to_le_bytes());
        let sum = checksum(volume, &header[..HEADER_BYTES - 8]);
        header[HEADER_BYTES - 8..].copy_from_slice(&sum.to_le_bytes());
        header
    }

    /// The header in these bytes; none if the checksum is wrong.
    pub(crate) fn decode(bytes: &[u8], volume: u64) -> Option<Self> {
        let (body, sum) = bytes.get(..HEADER_BYTES)?.split_at(HEADER_BYTES - 8);
        let mut fields = Fields(body);
        if fields.u32() != MAGIC || Fields(sum).u64() != checksum(volume, body) {
            return None;
        }
        let body_bytes = fields.u32();
        let key = Key(fields.array());
        let part = Part::from_raw(fields.u32());
        let groups = [(); GROUPS_MAX].map(|()| fields.u32());
        let [version, object_bytes, place, sequence] = [(); 4].map(|()| fields.u64());
        let [stored_s, body_checksum, first_sequence] = [(); 3].map(|()| fields.u64());
        let description = Description { version, object_bytes, groups };
        Some(Self { key, part, description, place, sequence, stored_s, body_bytes, body_checksum, first_sequence })
    }

    /// Whether these are the bytes of the record's body.
    pub(crate) fn vouches_for(&self, body: &[u8], volume: u64) -> bool {
        body.len() == self.body_bytes as usize && checksum(volume, body) == self.body_checksum
    }

    pub(crate) fn record_bytes(&self) -> u64 {
        record_bytes(self.body_bytes as usize)
    }
}
