//! Latency distributions: recorded in nanoseconds, merged exactly, exchanged as HDR histograms.
//!
//! A percentile of two distributions cannot be computed from their percentiles, so percentiles are
//! never averaged here: distributions are merged, and percentiles are taken from the merged one.
//!
//! A load thread records several times of each request, so recording is as short as it can be: the
//! counts lie here, in the buckets of HdrHistogram, and that crate reads and writes what is
//! exchanged.
//!
//! Not owned here: which times are recorded (see `trial`) and their course over time (see
//! `interval`).

use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scale::Scale;

/// The longest time that is resolved, one hour in nanoseconds. Longer times are recorded as this
/// one.
pub const NS_MAX: u64 = 3_600_000_000_000;

/// Three significant digits: a bucket is at most a thousandth of its value wide.
const DIGITS: u8 = 3;
const SCALE: Scale = Scale::new(11);
const BUCKETS: usize = SCALE.index_of(NS_MAX) as usize + 1;
const NS_PER_US: u64 = 1000;

/// A distribution of times in nanoseconds from 1 ns to 1 h with three significant digits.
///
/// Memory is fixed at about 270 KB whatever is recorded, and recording never allocates or fails.
/// Smallest and largest value are kept exactly; everything between is exact to its bucket.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    /// How many values were recorded.
    count: u64,
    /// Smallest recorded value; `u64::MAX` while empty, so that a minimum needs no branch.
    min: u64,
    /// Largest recorded value; 0 while empty.
    max: u64,
}

/// The rank, from 1, of the value that is the `q` quantile of `count` values in ascending order.
pub(crate) fn rank_of_quantile(q: f64, count: u64) -> u64 {
    // A product that is whole in decimals may come out a hair above it in binary (0.9999 * 10000),
    // and rounding that up would name the next value. The allowance is far below one request.
    let exact = q.clamp(0.0, 1.0) * count as f64;
    ((exact - exact * 1e-12).ceil() as u64).clamp(1, count.max(1))
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        // By way of a vector: an array would be on the stack first.
        let counts = vec![0; BUCKETS].into_boxed_slice().try_into().expect("there are that many");
        Histogram { counts, count: 0, min: u64::MAX, max: 0 }
    }

    /// Records one time. Values above [`NS_MAX`] count as that.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        let ns = ns.min(NS_MAX);
        self.counts[SCALE.index_of(ns) as usize] += 1;
        self.count += 1;
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Records `n` equal times.
    pub fn record_n(&mut self, ns: u64, n: u64) {
        if n == 0 {
            return;
        }
        let ns = ns.min(NS_MAX);
        let count = &mut self.counts[SCALE.index_of(ns) as usize];
        *count = count.saturating_add(n);
        self.count = self.count.saturating_add(n);
        self.min = self.min.min(ns);
        self.max = self.max.max(ns);
    }

    /// Adds all that `other` recorded. Exact: the result is as if every value had been recorded
    /// here.
    pub fn merge(&mut self, other: &Histogram) {
        for (index, more) in other.filled() {
            let count = &mut self.counts[index as usize];
            *count = count.saturating_add(more);
        }
        self.count = self.count.saturating_add(other.count);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        let range = self.range();
        self.counts[range].fill(0);
        (self.count, self.min, self.max) = (0, u64::MAX, 0);
    }

    /// The buckets that may hold something.
    fn range(&self) -> Range<usize> {
        let end = SCALE.index_of(self.max) as usize + 1;
        // While nothing was recorded, the smallest value is beyond all buckets.
        (SCALE.index_of(self.min) as usize).min(end)..end
    }

    /// The numbers of the buckets that are not empty, ascending, and their counts.
    fn filled(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let range = self.range();
        let counts = (range.start as u64..).zip(&self.counts[range]);
        counts.filter(|(_, count)| **count > 0).map(|(index, count)| (index, *count))
    }

    /// How many values were recorded.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of the values were above this one, to the width of a bucket.
    pub fn count_above(&self, ns: u64) -> u64 {
        let last = SCALE.index_of(ns.min(NS_MAX));
        self.filled().filter(|(index, _)| *index > last).map(|(_, count)| count).sum()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The smallest recorded value in nanoseconds, exactly; 0 if there is none.
    pub fn min(&self) -> u64 {
        if self.is_empty() { 0 } else { self.min }
    }

    /// The largest recorded value in nanoseconds, exactly; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean in nanoseconds, each value taken as the middle of its bucket; 0 if there is none.
    pub fn mean(&self) -> f64 {
        // Buckets have a width, and the extremes are exact: the mean of a few values could lie
        // beside them.
        self.mean_of_middles().clamp(self.min() as f64, self.max() as f64)
    }

    fn mean_of_middles(&self) -> f64 {
        let sum = self.filled().fold(0.0, |sum, (index, count)| sum + SCALE.middle_of(index) as f64 * count as f64);
        sum / self.count.max(1) as f64
    }

    /// The standard deviation of the recorded values in nanoseconds (of the population, not of the
    /// mean).
    pub fn stddev(&self) -> f64 {
        let mean = self.mean_of_middles();
        let square = |index, count: u64| (SCALE.middle_of(index) as f64 - mean).powi(2) * count as f64;
        let squares = self.filled().fold(0.0, |sum, (index, count)| sum + square(index, count));
        (squares / self.count.max(1) as f64).sqrt()
    }

    /// The `q` quantile in nanoseconds: the smallest recorded value `v` such that at least
    /// `q * count` of the recorded values are at most `v`. No interpolation; 0 if nothing was
    /// recorded.
    ///
    /// Of the bucket that holds `v` the upper end is returned, at most 0.1 % above `v`, and never
    /// more than the exact maximum: a quantile never flatters. `q` outside 0..=1 is taken as the
    /// nearer end.
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = rank_of_quantile(q, self.count);
        let mut reached = 0_u64;
        let bucket = self.filled().find(|(_, count)| {
            reached = reached.saturating_add(*count);
            reached >= rank
        });
        bucket.map_or(0, |(index, _)| SCALE.highest_of(index).clamp(self.min, self.max))
    }

    /// Each non-empty bucket, ascending: the largest value that falls into it, in nanoseconds, and
    /// its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.filled().map(|(index, count)| (SCALE.highest_of(index), count))
    }

    /// The distribution as base64 of an HDR V2 (deflate) histogram in **microseconds**.
    ///
    /// This is the exchanged form: common HDR tools read it, and its unit is that of the field
    /// names in the result document. Each bucket's middle is rounded to the nearest microsecond, so
    /// what is below a microsecond is lost; counts are kept exactly.
    pub fn to_hdr_base64_us(&self) -> String {
        let mut exported = empty_us();
        for (index, n) in self.filled() {
            let middle = SCALE.middle_of(index).clamp(self.min, self.max);
            exported.saturating_record_n((middle + NS_PER_US / 2) / NS_PER_US, n);
        }
        let mut bytes = Vec::new();
        V2DeflateSerializer::new()
            .serialize(&exported, &mut bytes)
            .expect("writing to memory succeeds and 64-bit counts are encodable");
        BASE64.encode(bytes)
    }

    /// Reads what [`Histogram::to_hdr_base64_us`] wrote, or any other HDR V2 histogram in
    /// microseconds.
    pub fn from_hdr_base64_us(text: &str) -> Result<Self, HdrError> {
        let bytes = BASE64.decode(text.trim()).map_err(|error| HdrError::Base64(error.to_string()))?;
        let imported: Hdr<u64> = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| HdrError::Histogram(format!("{error:?}")))?;
        let mut histogram = Histogram::new();
        for bucket in imported.iter_recorded() {
            let us = imported.median_equivalent(bucket.value_iterated_to());
            histogram.record_n(us.saturating_mul(NS_PER_US), bucket.count_at_value());
        }
        Ok(histogram)
    }

    /// Smallest and largest value; `u64::MAX` and 0 while empty.
    pub(crate) fn extremes(&self) -> (u64, u64) {
        (self.min, self.max)
    }

    /// Takes over extremes that were lost in coarser buckets.
    pub(crate) fn widen_extremes(&mut self, min: u64, max: u64) {
        self.min = self.min.min(min);
        self.max = self.max.max(max);
    }

    /// The same counts as a histogram of the crate that others read, by nanoseconds.
    pub(crate) fn to_hdr_ns(&self) -> Hdr<u64> {
        let mut exported = Hdr::new_with_bounds(1, NS_MAX, DIGITS).expect("the bounds are valid constants");
        self.buckets().for_each(|(ns, count)| exported.saturating_record_n(ns, count));
        exported
    }

    /// The figures of this distribution as they stand in the result document.
    pub fn summary(&self) -> Summary {
        let us = |ns: u64| ns as f64 / NS_PER_US as f64;
        let quantile = |q| us(self.quantile(q));
        Summary {
            min: us(self.min()),
            mean: self.mean() / NS_PER_US as f64,
            stddev: self.stddev() / NS_PER_US as f64,
            p50: quantile(0.5),
            p75: quantile(0.75),
            p90: quantile(0.9),
            p95: quantile(0.95),
            p99: quantile(0.99),
            p999: quantile(0.999),
            p9999: quantile(0.9999),
            max: us(self.max()),
            count: self.count(),
            hdr: self.to_hdr_base64_us(),
        }
    }
}

impl PartialEq for Histogram {
    /// Equal if the same values were recorded, as far as buckets distinguish them.
    fn eq(&self, other: &Self) -> bool {
        self.min == other.min && self.max == other.max && self.counts == other.counts
    }
}

/// A distribution of times in **microseconds**, as in the result document.
///
/// Two summaries cannot be combined; merge the histograms in `hdr` instead.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Smallest value, exact.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the values.
    pub stddev: f64,
    /// Median.
    pub p50: f64,
    /// Upper quartile.
    pub p75: f64,
    /// 90 % are at most this.
    pub p90: f64,
    /// 95 % are at most this.
    pub p95: f64,
    /// 99 % are at most this.
    pub p99: f64,
    /// 99.9 % are at most this.
    pub p999: f64,
    /// 99.99 % are at most this.
    pub p9999: f64,
    /// Largest value, exact.
    pub max: f64,
    /// Number of values.
    pub count: u64,
    /// The whole distribution, see [`Histogram::to_hdr_base64_us`].
    pub hdr: String,
}

/// A text that is not an exchanged histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HdrError {
    /// Not base64.
    #[error("the histogram is not base64: {0}")]
    Base64(String),
    /// Base64, but not of an HDR V2 histogram.
    #[error("the bytes are not an HDR V2 histogram: {0}")]
    Histogram(String),
}

fn empty_us() -> Hdr<u64> {
    Hdr::new_with_bounds(1, NS_MAX / NS_PER_US, DIGITS).expect("the bounds are valid constants")
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

    fn assert_near(actual: f64, expected: f64, relative: f64) {
        assert!((actual - expected).abs() <= relative * expected.abs(), "{actual} is not near {expected}");
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        let summary = Histogram::new().summary();
        for figure in [summary.min, summary.mean, summary.stddev, summary.p50, summary.p9999, summary.max] {
            assert_eq!(figure, 0.0);
        }
        assert_eq!(summary.count, 0);
        assert_eq!(Histogram::from_hdr_base64_us(&summary.hdr).unwrap(), Histogram::new());
    }

    #[test]
    fn a_mean_lies_between_the_extremes() {
        // Buckets are a microsecond wide and more up here.
        for values in [&[1_000_001][..], &[1_000_001, 1_000_003], &[7_654_321; 3], &[1_000_999, 1_000_999]] {
            let histogram = of(values);
            let (min, mean, max) = (histogram.min() as f64, histogram.mean(), histogram.max() as f64);
            assert!((min..=max).contains(&mean), "{values:?}: {min}, {mean}, {max}");
        }
    }

    #[test]
    fn quantiles_are_recorded_values() {
        let one_to_ten: Vec<u64> = (1..=10).collect();
        let thousand: Vec<u64> = (1..=1000).collect();
        for (values, q, expected) in [
            (&one_to_ten, 0.0, 1),
            (&one_to_ten, 0.1, 1),
            (&one_to_ten, 0.11, 2),
            (&one_to_ten, 0.5, 5),
            (&one_to_ten, 0.99, 10),
            (&one_to_ten, 1.0, 10),
            (&one_to_ten, 7.0, 10),
            (&thousand, 0.29, 290),
            (&thousand, 0.57, 570),
            (&thousand, 0.99, 990),
            (&thousand, 0.999, 999),
            (&thousand, 0.9991, 1000),
        ] {
            assert_eq!(of(values).quantile(q), expected, "q {q} of {} values", values.len());
        }
    }

    #[test]
    fn extremes_are_exact_and_saturate_at_an_hour() {
        let histogram = of(&[123_456_789_123, 9_876_543_211, 0]);
        assert_eq!((histogram.min(), histogram.max()), (0, 123_456_789_123));
        assert_eq!(histogram.quantile(1.0), 123_456_789_123);
        let long = of(&[u64::MAX]);
        assert_eq!((long.min(), long.max(), long.quantile(0.5)), (NS_MAX, NS_MAX, NS_MAX));
    }

    #[test]
    fn clearing_leaves_nothing() {
        let mut histogram = of(&[5, 50_000]);
        histogram.clear();
        assert_eq!(histogram, Histogram::new());
        histogram.record(7);
        assert_eq!(histogram, of(&[7]));
    }

    #[test]
    fn the_exported_form_is_in_microseconds() {
        let mut histogram = Histogram::new();
        histogram.record_n(1_500_000, 3);
        histogram.record_n(62_000_000, 2);
        let bytes = BASE64.decode(histogram.to_hdr_base64_us()).unwrap();
        let exported: Hdr<u64> = Deserializer::new().deserialize(&mut bytes.as_slice()).unwrap();
        assert_eq!(exported.len(), 5);
        assert_near(exported.min() as f64, 1500.0, 0.001);
        assert_near(exported.max() as f64, 62_000.0, 0.001);
        let back = Histogram::from_hdr_base64_us(&histogram.to_hdr_base64_us()).unwrap();
        assert_eq!(back.count(), 5);
        assert_near(back.max() as f64, 62e6, 0.001);
    }

    #[test]
    fn foreign_text_is_refused() {
        assert!(matches!(Histogram::from_hdr_base64_us("§"), Err(HdrError::Base64(_))));
        assert!(matches!(Histogram::from_hdr_base64_us("AAAA"), Err(HdrError::Histogram(_))));
    }

    #[test]
    fn the_summary_survives_json() {
        let summary = of(&[1000, 2500, 1_000_000]).summary();
        let json = serde_json::to_value(&summary).unwrap();
        assert_eq!(json["max"], 1000.0);
        assert_eq!(json["p50"], 2.501, "the upper end of the bucket of 2500 ns");
        assert_eq!(serde_json::from_value::<Summary>(json).unwrap(), summary);
    }

    /// A server that stalls for 1 s in 10 s at 1000/s makes 1000 requests wait from 1 s down to
    /// nothing.
    #[test]
    fn a_stall_shows_as_what_it_is() {
        const MS: u64 = 1_000_000;
        let mut histogram = Histogram::new();
        histogram.record_n(MS / 10, 9000);
        (1..=1000).for_each(|waited| histogram.record(waited * MS));
        assert!(histogram.quantile(0.90) < MS);
        assert_near(histogram.quantile(0.95) as f64, 500e6, 0.01);
        assert_near(histogram.quantile(0.99) as f64, 900e6, 0.01);
        assert_eq!(histogram.max(), 1000 * MS);
    }

    fn times() -> impl Strategy<Value = Vec<u64>> {
        prop::collection::vec(prop_oneof![0_u64..5000, 0_u64..10_000_000_000, Just(NS_MAX), any::<u64>()], 0..200)
    }

    proptest! {
        #[test]
        fn merging_equals_recording_into_one(a in times(), b in times()) {
            let all = of(&[a.clone(), b.clone()].concat());
            let mut dense = of(&a);
            dense.merge(&of(&b));
            prop_assert_eq!(&dense, &all);
        }

        #[test]
        fn counts_and_figures_are_those_of_the_crate_of_the_format(values in times(), q in 0.0_f64..=1.0, at in 0_u64..5000) {
            let (ours, mut theirs) = (of(&values), Hdr::<u64>::new_with_bounds(1, NS_MAX, DIGITS).unwrap());
            values.iter().for_each(|value| theirs.saturating_record((*value).min(NS_MAX)));
            let recorded = theirs.iter_recorded().map(|bucket| (bucket.value_iterated_to(), bucket.count_at_value()));
            prop_assert_eq!(ours.buckets().collect::<Vec<_>>(), recorded.collect::<Vec<_>>());
            prop_assert_eq!(ours.to_hdr_ns(), theirs.clone());
            prop_assert_eq!(ours.count_above(at), theirs.len() - theirs.count_between(0, at));
            let (mean, stddev) = (theirs.mean(), theirs.stdev());
            let differs = |ours: f64, theirs: f64| (ours - theirs).abs() > (mean + theirs) * 1e-9;
            prop_assert!(!differs(ours.mean_of_middles(), mean) && !differs(ours.stddev(), stddev));
            let aimed = (rank_of_quantile(q, theirs.len()) as f64 - 0.5) / theirs.len().max(1) as f64;
            let quantile = if values.is_empty() { 0 } else { theirs.value_at_quantile(aimed).clamp(ours.min, ours.max) };
            prop_assert_eq!(ours.quantile(q), quantile);
        }

        #[test]
        fn quantiles_are_within_a_thousandth(values in times(), q in 0.0_f64..=1.0) {
            prop_assume!(!values.is_empty());
            let mut sorted: Vec<u64> = values.iter().map(|value| (*value).min(NS_MAX)).collect();
            sorted.sort_unstable();
            let rank = ((q * sorted.len() as f64) * (1.0 - 1e-12)).ceil().max(1.0) as usize;
            let (expected, actual) = (sorted[rank - 1], of(&values).quantile(q));
            prop_assert!(actual >= expected && actual - expected <= expected / 1000, "{} for {}", actual, expected);
        }

        #[test]
        fn the_exchanged_form_keeps_counts_and_quantiles(values in times(), q in 0.0_f64..=1.0) {
            let histogram = of(&values);
            let back = Histogram::from_hdr_base64_us(&histogram.to_hdr_base64_us()).unwrap();
            prop_assert_eq!(back.count(), histogram.count());
            let (there, here) = (histogram.quantile(q) as f64, back.quantile(q) as f64);
            prop_assert!((there - here).abs() <= 1000.0 + there * 0.002, "{} became {}", there, here);
        }
    }
}
