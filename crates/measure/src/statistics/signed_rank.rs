//! Wilcoxon's signed-rank statistic: the estimate, the interval and the test for differences of
//! pairs.
//!
//! They assume that the differences scatter symmetrically around the effect, which the random order
//! within each pair brings about, and nothing about the tails. Sources: Hodges and Lehmann,
//! "Estimates of location based on rank tests" (1963); Hollander, Wolfe and Chicken,
//! "Nonparametric Statistical Methods", 3rd edition, sections 3.1 to 3.3.

use statrs::distribution::{ContinuousCDF, Normal};

/// Up to so many pairs the distribution of the statistic is computed exactly; the normal
/// approximation of more is off by less than 1e-3.
const EXACT_PAIRS_MAX: usize = 100;

/// The differences of pairs, as the averages of all pairs of them (Walsh averages).
#[derive(Debug, Clone)]
pub struct SignedRank {
    pairs: usize,
    /// In ascending order; each difference is averaged with itself, too.
    averages: Vec<f64>,
}

/// An interval for the effect.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The probability with which it covers the effect: at least the one that was asked for, since
    /// the statistic takes whole numbers only.
    pub confidence: f64,
}

impl Interval {
    /// Half of its width.
    pub fn half_width(&self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether `value` lies outside of it.
    #[cfg(test)]
    pub(crate) fn excludes(&self, value: f64) -> bool {
        value < self.low || self.high < value
    }
}

impl SignedRank {
    /// Of these differences; `None` if there are none or if one is not finite.
    pub fn of(differences: &[f64]) -> Option<Self> {
        if differences.is_empty() || differences.iter().any(|difference| !difference.is_finite()) {
            return None;
        }
        let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
        for (position, first) in differences.iter().enumerate() {
            averages.extend(differences[position..].iter().map(|second| (first + second) / 2.0));
        }
        averages.sort_unstable_by(f64::total_cmp);
        Some(Self { pairs: differences.len(), averages })
    }

    /// The Hodges-Lehmann estimate of the effect: the median of the Walsh averages. Up to 29 % of
    /// wild pairs cannot carry it away.
    pub fn centre(&self) -> f64 {
        let middle = self.averages.len() / 2;
        match self.averages.len() % 2 {
            1 => self.averages[middle],
            _ => (self.averages[middle - 1] + self.averages[middle]) / 2.0,
        }
    }

    /// The interval that covers the effect with at least this probability; `None` if no interval of
    /// so few pairs does (six are needed for 95 %, eight for 99 %).
    pub fn interval(&self, confidence: f64) -> Option<Interval> {
        assert!(0.0 < confidence && confidence < 1.0, "a confidence is a share of 1");
        let lower_tail = lower_tail(self.pairs, self.averages.len());
        let tail = (1.0 - confidence) / 2.0;
        let left_out = lower_tail.iter().take_while(|&&probability| probability <= tail).count().checked_sub(1)?;
        let (low, high) = (self.averages[left_out], self.averages[self.averages.len() - 1 - left_out]);
        Some(Interval { low, high, confidence: 1.0 - 2.0 * lower_tail[left_out] })
    }

    /// The probability of differences at least as one-sided as these if there is no effect.
    pub fn p_value(&self) -> f64 {
        let above = self.averages.iter().filter(|average| **average > 0.0).count();
        let zero = self.averages.iter().filter(|average| **average == 0.0).count();
        // A difference of zero speaks for neither side; half of it counts for each.
        let smaller_rank_sum = above.min(self.averages.len() - above - zero) + zero / 2;
        (2.0 * lower_tail(self.pairs, self.averages.len())[smaller_rank_sum]).min(1.0)
    }
}

/// The probability that the rank sum of `pairs` fair signs is at most k, for each k up to the
/// middle of the `sum_max + 1` possible values.
fn lower_tail(pairs: usize, sum_max: usize) -> Vec<f64> {
    if pairs > EXACT_PAIRS_MAX {
        return lower_tail_of_many(pairs, sum_max);
    }
    let mut probability = vec![0.0; sum_max / 2 + 1];
    probability[0] = 1.0;
    for rank in 1..=pairs {
        for sum in (0..probability.len()).rev() {
            let with = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = (probability[sum] + with) / 2.0;
        }
    }
    let mut sum = 0.0;
    probability.iter_mut().for_each(|probability| {
        sum += *probability;
        *probability = sum;
    });
    probability
}

/// The same by the normal distribution, with the correction for continuity.
fn lower_tail_of_many(pairs: usize, sum_max: usize) -> Vec<f64> {
    let n = pairs as f64;
    let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    let normal = Normal::new(sum_max as f64 / 2.0, deviation).expect("the deviation is positive");
    (0..=sum_max / 2).map(|sum| normal.cdf(sum as f64 + 0.5)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    /// The depression scores of Hollander and Wolfe, table 3.1; R's `wilcox.test(d, conf.int =
    /// TRUE)` says V = 5, p = 0.03906, estimate -0.46, and 96.1 % from -0.786 to -0.010.
    #[test]
    #[expect(clippy::approx_constant, reason = "3.14 is a patient's score")]
    fn a_worked_example() {
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before.iter().zip(after).map(|(before, after)| after - before).collect();
        let ranks = SignedRank::of(&differences).unwrap();
        assert_near(ranks.p_value(), 0.03906, 1e-5);
        assert_near(ranks.centre(), -0.46, 1e-9);
        let interval = ranks.interval(0.95).unwrap();
        assert_near(interval.low, -0.786, 1e-9);
        assert_near(interval.high, -0.010, 1e-9);
        assert_near(interval.confidence, 1.0 - 0.03906, 1e-5);
    }

    /// Critical values of the usual tables: the largest rank sum whose two-sided probability is at
    /// most 5 % and 1 %.
    #[test]
    fn critical_values_are_those_of_the_tables() {
        for (pairs, five_percent, one_percent) in [
            (5, None, None),
            (6, Some(0), None),
            (8, Some(3), Some(0)),
            (12, Some(13), Some(7)),
            (20, Some(52), Some(37)),
            (50, Some(434), Some(373)),
        ] {
            let tail = lower_tail(pairs, pairs * (pairs + 1) / 2);
            let critical = |level: f64| tail.iter().take_while(|tail| 2.0 * **tail <= level).count().checked_sub(1);
            assert_eq!([critical(0.05), critical(0.01)], [five_percent, one_percent], "{pairs} pairs");
        }
    }

    #[test]
    fn the_approximation_joins_the_exact_values() {
        let pairs = EXACT_PAIRS_MAX;
        let sum_max = pairs * (pairs + 1) / 2;
        for (exact, approximate) in lower_tail(pairs, sum_max).iter().zip(lower_tail_of_many(pairs, sum_max)) {
            assert_near(*exact, approximate, 1e-3);
        }
    }

    #[test]
    fn equal_sides_have_no_difference() {
        let ranks = SignedRank::of(&[0.0; 10]).unwrap();
        assert_eq!((ranks.centre(), ranks.p_value()), (0.0, 1.0));
        let interval = ranks.interval(0.95).unwrap();
        assert!(!interval.excludes(0.0) && interval.excludes(1e-9), "{interval:?}");
        assert!(SignedRank::of(&[]).is_none() && SignedRank::of(&[1.0, f64::NAN]).is_none());
    }
}
