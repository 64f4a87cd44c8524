//! The ghost list: fingerprints of fragments that left probation without a hit. One that comes back
//! while its fingerprint is still here goes to the main log at once.
//!
//! Buckets of eight, each a queue of its own, so that the list is bounded and has no links. It is
//! not kept over a restart.

use crate::key::{PartHash, below};

const BUCKET: usize = 8;

pub(crate) struct Ghost {
    fingerprints: Vec<[u32; BUCKET]>,
}

impl Ghost {
    /// A list of about this many fingerprints.
    pub(crate) fn new(entries: usize) -> Self {
        Self { fingerprints: vec![[0; BUCKET]; entries.div_ceil(BUCKET).max(1)] }
    }

    pub(crate) fn insert(&mut self, hash: PartHash) {
        let (bucket, fingerprint) = self.place(hash);
        bucket.rotate_right(1);
        bucket[0] = fingerprint;
    }

    /// Takes a fragment off the list; whether it was there.
    pub(crate) fn take(&mut self, hash: PartHash) -> bool {
        let (bucket, fingerprint) = self.place(hash);
        let Some(at) = bucket.iter().position(|held| *held == fingerprint) else { return false };
        bucket[at..].rotate_left(1);
        bucket[BUCKET - 1] = 0;
        true
    }

    pub(crate) fn bytes(&self) -> u64 {
        size_of_val(self.fingerprints.as_slice()) as u64
    }

    fn place(&mut self, hash: PartHash) -> (&mut [u32; BUCKET], u32) {
        let bucket = below(hash.first, self.fingerprints.len());
        // 0 stands for an empty place.
        (&mut self.fingerprints[bucket], (hash.second as u32).max(1))
    }
}
