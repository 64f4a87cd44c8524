//! Laws of scaling: how throughput grows with the number of CPUs, interfaces or processes.
//!
//! Amdahl ("Validity of the single processor approach", AFIPS 1967): X(n) = X(1) n / (1 + s (n -
//! 1)), with the serial share s. Gunther's Universal Scalability Law ("Guerrilla Capacity
//! Planning", 2007, chapter 4) adds the cost of keeping everything coherent: X(n) = X(1) n / (1 + s
//! (n - 1) + k n (n - 1)). In y = n / X(n) both are linear, and least squares of the relative
//! errors have a closed form.

/// The coefficients of a law.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScalingLaw {
    /// The serial share: contention. Less than zero is more than linear growth.
    pub contention: f64,
    /// The cost of coherency; 0 in Amdahl's law.
    pub coherency: f64,
}

impl ScalingLaw {
    /// Amdahl's law through these points of `n` and X(n); `None` of fewer than two different `n`.
    pub fn amdahl(points: &[(f64, f64)]) -> Option<Self> {
        let rows = points.iter().map(|&(n, throughput)| row([1.0, n - 1.0], n / throughput));
        let [first, slope] = least_squares(rows)?;
        Some(Self { contention: slope / first, coherency: 0.0 })
    }

    /// The universal law; `None` of fewer than three different `n`.
    pub fn universal(points: &[(f64, f64)]) -> Option<Self> {
        let rows = points.iter().map(|&(n, throughput)| row([1.0, n - 1.0, n * (n - 1.0)], n / throughput));
        let [first, contention, coherency] = least_squares(rows)?;
        Some(Self { contention: contention / first, coherency: coherency / first })
    }

    /// The `n` beyond which throughput falls, if there is one.
    pub fn peak(&self) -> Option<f64> {
        let squared = (1.0 - self.contention) / self.coherency;
        (self.coherency > 0.0 && squared >= 1.0).then(|| squared.sqrt())
    }

    /// X(n) / X(1).
    pub fn speedup(&self, n: f64) -> f64 {
        n / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))
    }
}

/// A row of the linear system, divided by its right side so that all errors are relative.
fn row<const N: usize>(terms: [f64; N], y: f64) -> [f64; N] {
    terms.map(|term| term / y)
}

/// The coefficients with which the terms of each row come closest to 1.
fn least_squares<const N: usize>(rows: impl Iterator<Item = [f64; N]>) -> Option<[f64; N]> {
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for row in rows {
        for i in 0..N {
            right[i] += row[i];
            (0..N).for_each(|j| matrix[i][j] += row[i] * row[j]);
        }
    }
    // Gauss and Jordan; the normal equations of two or three terms are small enough for it.
    for pivot in 0..N {
        let largest = (pivot..N).max_by(|&i, &j| matrix[i][pivot].abs().total_cmp(&matrix[j][pivot].abs()))?;
        matrix.swap(pivot, largest);
        right.swap(pivot, largest);
        let scale = matrix[pivot][pivot];
        if scale.abs() < 1e-12 * matrix.iter().flatten().fold(0.0_f64, |most, term| most.max(term.abs()))
            || scale == 0.0
        {
            return None;
        }
        for other in (0..N).filter(|other| *other != pivot) {
            let factor = matrix[other][pivot] / scale;
            (0..N).for_each(|column| matrix[other][column] -= factor * matrix[pivot][column]);
            right[other] -= factor * right[pivot];
        }
    }
    let mut solution = [0.0; N];
    (0..N).for_each(|i| solution[i] = right[i] / matrix[i][i]);
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Random;
    use crate::statistics::signed_rank::SignedRank;

    fn points(law: ScalingLaw, levels: &[f64]) -> Vec<(f64, f64)> {
        levels.iter().map(|&n| (n, 7_000.0 * law.speedup(n))).collect()
    }

    #[test]
    fn exact_points_give_their_law_back() {
        let amdahl = ScalingLaw { contention: 0.08, coherency: 0.0 };
        let fitted = ScalingLaw::amdahl(&points(amdahl, &[1.0, 2.0])).unwrap();
        assert!((fitted.contention - 0.08).abs() < 1e-9, "{fitted:?}");
        assert_eq!(fitted.peak(), None);
        let universal = ScalingLaw { contention: 0.05, coherency: 0.004 };
        let fitted = ScalingLaw::universal(&points(universal, &[1.0, 2.0, 4.0, 8.0])).unwrap();
        assert!((fitted.contention - 0.05).abs() < 1e-9 && (fitted.coherency - 0.004).abs() < 1e-9, "{fitted:?}");
        assert!((fitted.peak().unwrap() - (0.95_f64 / 0.004).sqrt()).abs() < 1e-6);
    }

    #[test]
    fn too_few_levels_give_no_law() {
        let law = ScalingLaw { contention: 0.1, coherency: 0.0 };
        assert_eq!(ScalingLaw::amdahl(&points(law, &[2.0])), None);
        assert_eq!(ScalingLaw::amdahl(&points(law, &[2.0, 2.0])), None);
        assert_eq!(ScalingLaw::universal(&points(law, &[1.0, 2.0])), None);
        assert_eq!(ScalingLaw::amdahl(&[]), None);
    }

    /// A law fitted to each cycle, and the rank interval over the cycles: its coverage, with the
    /// noise of a shared machine (2 %, one round in ten slower by up to 20 %).
    #[test]
    fn the_interval_over_cycles_covers_the_serial_share() {
        let law = ScalingLaw { contention: 0.06, coherency: 0.0 };
        let mut random = Random(11);
        let mut covered = 0;
        const RUNS: usize = 1_000;
        for _ in 0..RUNS {
            let mut cycle = || {
                let mut noise = |throughput: f64| {
                    let around = (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0;
                    let burst = if random.uniform() < 0.1 { random.uniform() * 0.2 } else { 0.0 };
                    throughput * (0.02 * around - burst).exp()
                };
                let noisy: Vec<_> =
                    points(law, &[1.0, 2.0, 4.0]).into_iter().map(|(n, throughput)| (n, noise(throughput))).collect();
                ScalingLaw::amdahl(&noisy).unwrap().contention
            };
            let shares: Vec<f64> = (0..8).map(|_| cycle()).collect();
            let interval = SignedRank::of(&shares).unwrap().interval(0.95).unwrap();
            covered += usize::from(!interval.excludes(0.06));
        }
        assert!(covered > RUNS * 93 / 100, "{covered} of {RUNS}");
    }
}
