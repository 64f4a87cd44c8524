//! The figures of a curve of throughput by read size: its height, and its jitter.

/// Sizes from `first` to `last` that divide each power of ten into `per_decade` steps, as whole
/// numbers.
pub(crate) fn sizes(first: u64, last: u64, per_decade: u32) -> Vec<u64> {
    let step = 10_f64.powf(1.0 / f64::from(per_decade));
    let steps = ((last as f64 / first as f64).log10() * f64::from(per_decade)).ceil() as u32;
    let mut sizes: Vec<u64> =
        (0..=steps).map(|n| ((first as f64 * step.powf(f64::from(n))).round() as u64).min(last)).collect();
    sizes.dedup();
    sizes
}

/// The deviation of a point from the line through its two neighbours, as a share: the square root
/// of its mean square, over all points that have two neighbours.
///
/// Line and deviation are those of the logarithms of throughput over the logarithms of size, where
/// a constant cost per call and a constant cost per byte give nearly straight lines, so that the
/// curve's own course adds little. The deviation of each point is divided by its expectation for
/// points that scatter independently with a standard deviation of 1: a curve whose points scatter
/// by 2 % has a jitter of 0.02, whatever the distances between the sizes. It is the second
/// difference, scaled.
pub(crate) fn jitter(points: &[(u64, f64)]) -> f64 {
    let logs: Vec<(f64, f64)> =
        points.iter().filter(|(_, y)| *y > 0.0).map(|(x, y)| ((*x as f64).ln(), y.ln())).collect();
    let squares: Vec<f64> = logs
        .windows(3)
        .map(|near| {
            let [(left, before), (at, here), (right, after)] = [near[0], near[1], near[2]];
            let weight = (at - left) / (right - left);
            let deviation = here - (before * (1.0 - weight) + after * weight);
            deviation.powi(2) / (1.0 + weight.powi(2) + (1.0 - weight).powi(2))
        })
        .collect();
    if squares.is_empty() { 0.0 } else { (squares.iter().sum::<f64>() / squares.len() as f64).sqrt() }
}

/// The median; 0 of nothing.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[odd / 2],
        even => f64::midpoint(values[even / 2 - 1], values[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// Throughput of reads that cost 100 ns each and 0.1 ns per byte.
    fn ideal(size: u64) -> f64 {
        size as f64 / (100e-9 + size as f64 * 0.1e-9)
    }

    #[test]
    fn sizes_are_whole_ascending_and_reach_both_ends() {
        let sizes = sizes(1, 102_400, 24);
        assert_eq!((sizes[0], sizes[1], sizes[sizes.len() - 1]), (1, 2, 102_400));
        assert!(sizes.is_sorted_by(|a, b| a < b), "{sizes:?}");
        assert!((90..=121).contains(&sizes.len()), "{}", sizes.len());
        assert_eq!(super::sizes(512, 512, 24), [512]);
    }

    #[test]
    fn a_smooth_curve_has_nearly_no_jitter() {
        let points: Vec<_> = sizes(1, 102_400, 24).into_iter().map(|size| (size, ideal(size))).collect();
        assert!(jitter(&points) < 0.002, "{}", jitter(&points));
    }

    #[test]
    fn jitter_is_the_scatter_of_the_points() {
        let mut random = Pcg64Mcg::seed_from_u64(1);
        for share in [0.01, 0.05] {
            // Uniform within ±share: a standard deviation of share / √3.
            let scattered = |size| (size, ideal(size) * (1.0 + random.random_range(-share..share)));
            let points: Vec<_> = sizes(1, 102_400, 500).into_iter().map(scattered).collect();
            let expected = share / 3_f64.sqrt();
            assert!((jitter(&points) / expected - 1.0).abs() < 0.15, "{} for {expected}", jitter(&points));
        }
    }

    #[test]
    fn short_and_empty_curves_have_none() {
        assert_eq!((jitter(&[]), jitter(&[(1, 1.0), (2, 5.0)])), (0.0, 0.0));
        assert_eq!(jitter(&[(1, 0.0), (2, 5.0), (3, 1.0)]), 0.0);
        assert_eq!((median([]), median([3.0, 1.0, 2.0]), median([1.0, 2.0])), (0.0, 2.0, 1.5));
    }
}
