//! The buckets of distributions: which values share one. They are those of HdrHistogram.
//!
//! The counts in them belong to `histogram` and `compact`.

/// A scale whose buckets are at most a certain part of their values wide.
///
/// Values below `2^bits` have a bucket each; above, every doubling has half as many as that. So a
/// bucket takes two shifts to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scale {
    bits: u32,
}

impl Scale {
    /// A scale of `2^bits` buckets, and half as many for every doubling.
    pub(crate) const fn new(bits: u32) -> Self {
        Self { bits }
    }

    /// The number of the bucket that a value falls into.
    #[inline]
    pub(crate) const fn index_of(self, value: u64) -> u64 {
        let shift = (u64::BITS - value.leading_zeros()).saturating_sub(self.bits);
        ((shift as u64) << (self.bits - 1)) + (value >> shift)
    }

    /// The smallest value of a bucket.
    pub(crate) const fn lowest_of(self, index: u64) -> u64 {
        let shift = (index >> (self.bits - 1)).saturating_sub(1);
        (index - (shift << (self.bits - 1))) << shift
    }

    /// The largest value of a bucket.
    pub(crate) const fn highest_of(self, index: u64) -> u64 {
        self.lowest_of(index + 1) - 1
    }

    /// The middle of a bucket: of two, the larger one.
    pub(crate) const fn middle_of(self, index: u64) -> u64 {
        let lowest = self.lowest_of(index);
        lowest + (self.lowest_of(index + 1) - lowest) / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        const LONGEST: u64 = 3_600_000_000_000;
        for scale in [8, 11].map(Scale::new) {
            assert_eq!(scale.lowest_of(0), 0);
            for index in 1..scale.index_of(LONGEST) {
                assert_eq!(scale.index_of(scale.lowest_of(index)), index);
                assert_eq!(scale.index_of(scale.highest_of(index - 1)), index - 1);
            }
        }
    }
}
