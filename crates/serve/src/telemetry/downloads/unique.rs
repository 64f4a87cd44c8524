//! The number of different byte strings, within 2 % and in 4 KiB: HyperLogLog (Flajolet and others,
//! 2007).
//!
//! The strings are hashed with a fixed seed, so that registers that were kept over a restart go on
//! counting.

use std::hash::BuildHasher;

use foldhash::quality::FixedState;

/// 2^12 registers: a standard error of 1.6 %.
const REGISTER_BITS: u32 = 12;
pub(crate) const REGISTERS: usize = 1 << REGISTER_BITS;

/// Any number will do as long as it never changes.
const SEED: u64 = 0x7468_616c_7765_6721;

/// Counts different byte strings.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Unique(Box<[u8]>);

impl Default for Unique {
    fn default() -> Self {
        Self(vec![0; REGISTERS].into())
    }
}

impl Unique {
    /// From registers that were kept; `None` if those are of another make.
    pub(crate) fn from_registers(registers: Vec<u8>) -> Option<Self> {
        let fits = registers.len() == REGISTERS && registers.iter().all(|&rank| u32::from(rank) <= 65 - REGISTER_BITS);
        fits.then(|| Self(registers.into()))
    }

    /// To be kept.
    pub(crate) fn registers(&self) -> &[u8] {
        &self.0
    }

    /// Counts a thing, if it was not counted before.
    pub(crate) fn insert(&mut self, thing: &[u8]) {
        let hash = FixedState::with_seed(SEED).hash_one(thing);
        let register = &mut self.0[(hash >> (64 - REGISTER_BITS)) as usize];
        // The bit behind the last makes a hash of zeros end.
        let rank = ((hash << REGISTER_BITS) | (1 << (REGISTER_BITS - 1))).leading_zeros() + 1;
        *register = (*register).max(rank as u8);
    }

    /// The number of different strings, about.
    pub(crate) fn estimate(&self) -> u64 {
        const REGISTERS_F: f64 = REGISTERS as f64;
        let alpha = 0.7213 / (1.0 + 1.079 / REGISTERS_F);
        let sum: f64 = self.0.iter().map(|&rank| (-f64::from(rank)).exp2()).sum();
        let raw = alpha * REGISTERS_F * REGISTERS_F / sum;
        let empty = self.0.iter().filter(|&&rank| rank == 0).count();
        // As long as registers are empty, their number says more: this is exact for a few.
        let estimate =
            if raw <= 2.5 * REGISTERS_F && empty > 0 { REGISTERS_F * (REGISTERS_F / empty as f64).ln() } else { raw };
        estimate.round() as u64
    }

    /// Counts what another has counted as well.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (register, &rank) in self.0.iter_mut().zip(&other.0) {
            *register = (*register).max(rank);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(things: std::ops::Range<u32>) -> Unique {
        let mut unique = Unique::default();
        for thing in things {
            unique.insert(format!("pub/file-{thing}.iso").as_bytes());
            unique.insert(format!("pub/file-{thing}.iso").as_bytes());
        }
        unique
    }

    #[test]
    fn estimates_are_near() {
        assert_eq!(Unique::default().estimate(), 0);
        for (things, off_max) in [(1, 0), (10, 0), (100, 3), (1000, 20), (10_000, 500), (300_000, 15_000)] {
            let estimate = counted(0..things).estimate();
            assert!(estimate.abs_diff(u64::from(things)) <= off_max, "{estimate} for {things}");
        }
    }

    #[test]
    fn merging_counts_what_either_has_seen() {
        let mut left = counted(0..6000);
        left.merge(&counted(3000..10_000));
        assert_eq!(left, counted(0..10_000));
    }

    #[test]
    fn registers_of_another_make_are_refused() {
        let unique = counted(0..100);
        assert_eq!(Unique::from_registers(unique.registers().to_vec()), Some(unique));
        assert_eq!(Unique::from_registers(vec![0; 5]), None);
        assert_eq!(Unique::from_registers(vec![200; REGISTERS]), None);
    }
}
