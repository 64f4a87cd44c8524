//! Distributions that are kept by the hundreds: coarser than those that are recorded into, and no
//! larger than what is in them.

use crate::histogram::{Histogram, NS_MAX};
use crate::scale::Scale;

/// A distribution of times in nanoseconds with two significant digits: a bucket is at most a
/// hundredth of its value wide. Smallest and largest value are kept exactly.
///
/// A bucket that is not empty takes two or three bytes: how many buckets lie between it and the one
/// before, and its count, both in the variable-length form of LEB128. A second of a busy server
/// comes to about a kilobyte.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CompactHistogram {
    buckets: Vec<u8>,
    min: u64,
    max: u64,
}

/// Two significant digits.
const SCALE: Scale = Scale::new(8);

impl CompactHistogram {
    /// Keeps what `histogram` recorded.
    pub(crate) fn of(histogram: &Histogram) -> Self {
        let mut buckets = Packed::default();
        for (ns, count) in histogram.buckets() {
            // The recorded bucket lies wholly in one of these.
            buckets.add(SCALE.index_of(ns.min(NS_MAX)), count);
        }
        let (min, max) = histogram.extremes();
        Self { buckets: buckets.finish(), min, max }
    }

    /// Adds all that `other` holds.
    pub(crate) fn merge(&mut self, other: &CompactHistogram) {
        let mut merged = Packed::default();
        let (mut left, mut right) = (self.buckets().peekable(), other.buckets().peekable());
        while let Some((a, b)) = left.peek().zip(right.peek()) {
            let next = if a.0 <= b.0 { left.next() } else { right.next() };
            next.into_iter().for_each(|(index, count)| merged.add(index, count));
        }
        left.chain(right).for_each(|(index, count)| merged.add(index, count));
        self.buckets = merged.finish();
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// As a histogram to read quantiles from. What is in a bucket counts as its largest value, so
    /// that none comes out too small.
    pub(crate) fn restored(&self) -> Histogram {
        let mut histogram = Histogram::new();
        for (index, count) in self.buckets() {
            histogram.record_n(SCALE.highest_of(index).clamp(self.min, self.max), count);
        }
        histogram.widen_extremes(self.min, self.max);
        histogram
    }

    /// Buckets that are not empty, in order, with their counts.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut bytes = self.buckets.iter();
        let mut index = 0;
        std::iter::from_fn(move || {
            index += take(&mut bytes)?;
            take(&mut bytes).map(|count| (index, count))
        })
    }
}

/// Buckets on their way into bytes. They come in order, the same one several times if need be.
#[derive(Default)]
struct Packed {
    bytes: Vec<u8>,
    /// The last index that was written, and the bucket that is still being added to.
    written: u64,
    index: u64,
    count: u64,
}

impl Packed {
    fn add(&mut self, index: u64, count: u64) {
        if index != self.index {
            self.write();
            self.index = index;
        }
        self.count = self.count.saturating_add(count);
    }

    fn write(&mut self) {
        if self.count > 0 {
            push(&mut self.bytes, self.index - self.written);
            push(&mut self.bytes, self.count);
            self.written = self.index;
            self.count = 0;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        self.write();
        self.bytes.shrink_to_fit();
        self.bytes
    }
}

fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values.iter().for_each(|value| histogram.record(*value));
        histogram
    }

    fn times() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0_u64..5000, 0_u64..10_000_000_000, Just(NS_MAX), any::<u64>()], 0..200)
    }

    #[test]
    fn a_second_of_a_busy_server_takes_about_a_kilobyte() {
        let mut histogram = Histogram::new();
        for n in 0..100_000 {
            // From 0.2 ms to 20 ms, most of them short.
            histogram.record(200_000 + 20_000_000 / (1 + n % 1000));
        }
        let compact = CompactHistogram::of(&histogram);
        assert!(compact.buckets.len() < 1500, "{} bytes", compact.buckets.len());
    }

    proptest! {
        #[test]
        fn merging_equals_recording_into_one(a in times(), b in times()) {
            let mut merged = CompactHistogram::of(&of(&a));
            merged.merge(&CompactHistogram::of(&of(&b)));
            prop_assert_eq!(merged, CompactHistogram::of(&of(&[a, b].concat())));
        }

        #[test]
        fn counts_and_extremes_are_kept_and_quantiles_within_a_hundredth(values in times(), q in 0.0_f64..=1.0) {
            let (there, back) = (of(&values), CompactHistogram::of(&of(&values)).restored());
            prop_assert_eq!((back.count(), back.min(), back.max()), (there.count(), there.min(), there.max()));
            let (exact, coarse) = (there.quantile(q), back.quantile(q));
            prop_assert!(coarse + exact / 1000 + 1 >= exact && coarse <= exact + exact / 100 + 1, "{} became {}", exact, coarse);
        }
    }
}
