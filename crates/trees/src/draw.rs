//! Random numbers that stay the same with each version of the program and of its libraries.
//!
//! The generator is PCG with 128 bits of state, seeded with a digest: neither `seed_from_u64` nor
//! the distributions of `rand` promise to stay as they are.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use sha2::{Digest, Sha256};

use crate::name::TreeName;

/// A stream of random numbers that belongs to a tree, a seed and a text.
#[derive(Debug)]
pub(crate) struct Draw(Pcg64Mcg);

impl Draw {
    /// The stream of that text, such as a file's path.
    pub(crate) fn new(tree: TreeName, seed: u64, text: &str) -> Self {
        let digest = Sha256::new()
            .chain_update(b"thalweg tree 1\0")
            .chain_update(seed.to_le_bytes())
            .chain_update(tree.as_str())
            .chain_update(b"\0")
            .chain_update(text)
            .finalize();
        let mut seed = [0; 16];
        seed.copy_from_slice(&digest[..16]);
        Self(Pcg64Mcg::from_seed(seed))
    }

    /// Fills `bytes`.
    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// A number below `bound`, each with the same probability but for one part in 2^64 / `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}
