//! Estimates for series that are correlated and have outliers, as series of measurements are.
//!
//! Formulas for independent samples are left out on purpose: neighbouring seconds of a trial
//! resemble each other, and an interval that ignores it is too narrow.

pub mod interleaving;
pub mod rounds;
pub mod scaling;
pub mod signed_rank;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean with its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MeanInterval {
    /// The mean of the whole series.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// The geometric mean of independent positive values with its interval at `confidence`, by
/// Student's t on their logarithms. `None` of fewer than two values, or if one is not positive.
pub fn geometric_mean(values: &[f64], confidence: f64) -> Option<MeanInterval> {
    assert!(0.0 < confidence && confidence < 1.0, "a confidence is a share of 1");
    if values.len() < 2 || !values.iter().all(|value| value.is_finite() && *value > 0.0) {
        return None;
    }
    let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    let interval = mean_interval(&logs, confidence);
    let [mean, low, high] = [interval.mean, interval.low, interval.high].map(f64::exp);
    Some(MeanInterval { mean, low, high })
}

/// The mean of independent values, at least two, by Student's t.
fn mean_interval(values: &[f64], confidence: f64) -> MeanInterval {
    let (centre, degrees) = (mean(values), (values.len() - 1) as f64);
    let variance = values.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / degrees;
    let student = StudentsT::new(0.0, 1.0, degrees).expect("the degrees of freedom are positive");
    let half = student.inverse_cdf(0.5 + confidence / 2.0) * (variance / values.len() as f64).sqrt();
    MeanInterval { mean: centre, low: centre - half, high: centre + half }
}

/// The median; the mean of the middle two for an even number, `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    let middle = sorted.len() / 2;
    let (below, upper, _) = sorted.select_nth_unstable_by(middle, f64::total_cmp);
    if values.len() % 2 == 1 {
        return Some(*upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    Some(lower + (*upper - lower) / 2.0)
}

/// The Theil-Sen slope of the points `(x, y)`: the median of the slopes of all pairs, which up to
/// 29 % of wild points cannot turn. `None` if no two points differ in `x`. Quadratic in the number
/// of points.
pub fn theil_sen_slope(points: &[(f64, f64)]) -> Option<f64> {
    let slopes: Vec<f64> =
        pairs(points).filter(|((x1, _), (x2, _))| x1 != x2).map(|((x1, y1), (x2, y2))| (y2 - y1) / (x2 - x1)).collect();
    median(&slopes)
}

/// The Mann-Kendall statistic of a series in order of time, as a standard normal score: how surely
/// it rises (positive) or falls, whatever the shape of the trend. 0 for fewer than three values or
/// for constant ones.
///
/// Corrected for ties and for continuity, but not for correlation: a score alone is no proof that a
/// correlated series trends, so pair it with a threshold on the size of the rise. Quadratic in the
/// number of values.
pub fn mann_kendall_score(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    if n < 3.0 {
        return 0.0;
    }
    let rises: f64 = pairs(values).map(|(earlier, later)| sign(later - earlier)).sum();
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let spread = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let tied: f64 = sorted.chunk_by(|a, b| a == b).map(|group| spread(group.len() as f64)).sum();
    let variance = (spread(n) - tied) / 18.0;
    if variance <= 0.0 || rises == 0.0 {
        return 0.0;
    }
    (rises - sign(rises)) / variance.sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// -1, 0 or 1; `f64::signum` calls zero positive.
fn sign(value: f64) -> f64 {
    if value == 0.0 { 0.0 } else { value.signum() }
}

/// Every pair of `items`, the earlier one first.
fn pairs<T: Copy>(items: &[T]) -> impl Iterator<Item = (T, T)> {
    items.iter().enumerate().flat_map(|(position, first)| items[position + 1..].iter().map(|second| (*first, *second)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_near(actual: f64, expected: f64, tolerance: f64) {
        assert!((actual - expected).abs() <= tolerance, "{actual} is not {expected}");
    }

    #[test]
    fn medians() {
        for (values, expected) in [
            (&[][..], None),
            (&[3.0], Some(3.0)),
            (&[4.0, 1.0], Some(2.5)),
            (&[9.0, 1.0, 5.0], Some(5.0)),
            (&[1.0, 2.0, 3.0, 1000.0], Some(2.5)),
        ] {
            assert_eq!(median(values), expected, "{values:?}");
        }
    }

    #[test]
    fn slopes_ignore_outliers() {
        let mut points: Vec<(f64, f64)> = (0..20).map(|x| (f64::from(x), 3.0 * f64::from(x) + 7.0)).collect();
        assert_near(theil_sen_slope(&points).unwrap(), 3.0, 1e-12);
        points[4].1 = 1e9;
        points[11].1 = -1e9;
        assert_near(theil_sen_slope(&points).unwrap(), 3.0, 0.2);
        assert_eq!(theil_sen_slope(&[(1.0, 2.0), (1.0, 5.0)]), None);
        assert_eq!(theil_sen_slope(&[]), None);
    }

    #[test]
    fn mann_kendall_matches_a_worked_example() {
        // Six rising values: S = 15, variance 6*5*17/18, score 14 / sqrt(28.33).
        assert_near(mann_kendall_score(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2.630, 0.001);
        assert_near(mann_kendall_score(&[6.0, 5.0, 4.0, 3.0, 2.0, 1.0]), -2.630, 0.001);
        // Ties: S = 5, variance (4*3*13 - 2*1*9) / 18.
        assert_near(mann_kendall_score(&[1.0, 2.0, 2.0, 3.0]), 4.0 / (138.0_f64 / 18.0).sqrt(), 1e-12);
        assert_eq!(mann_kendall_score(&[5.0; 10]), 0.0);
        assert_eq!(mann_kendall_score(&[1.0, 2.0]), 0.0);
    }
}
