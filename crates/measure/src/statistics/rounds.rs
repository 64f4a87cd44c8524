//! How many pairs of rounds a comparison needs, from the scatter of those that it has.
//!
//! The plan looks at the scatter of the differences only, never at their mean, so that a comparison
//! does not end because its effect happens to look large. Looking at the scatter alone changes the
//! rate of false positives little (Wittes and Brittain, "The role of internal pilot studies in
//! increasing the efficiency of clinical trials", Statistics in Medicine 9, 1990; Stein, Annals of
//! Mathematical Statistics 16, 1945); how little, the simulations below show.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::signed_rank::SignedRank;

/// The probability of the intervals that are reported.
pub const CONFIDENCE: f64 = 0.95;
/// The same after a planned number of pairs: looking at the scatter costs up to one percent of
/// coverage.
pub const CONFIDENCE_PLANNED: f64 = 0.96;
/// A difference is called one if the exact test has a p value of at most this. It is stricter than
/// the interval: at 5 %, one comparison of equal sides in twenty would report a difference.
pub const SIGNIFICANCE: f64 = 0.01;
/// The probability with which a run sees the smallest difference that it calls detectable.
pub const POWER: f64 = 0.8;
/// Fewest pairs that can show a difference at [`SIGNIFICANCE`].
pub const PAIRS_MIN: usize = 8;
/// Pairs of the pilot, whose scatter the first plan is made from.
pub const PILOT_PAIRS: usize = 6;

/// The interval that the plan takes the scatter from. One pair by itself cannot widen it as it does
/// those of a higher confidence.
const SCATTER_CONFIDENCE: f64 = 0.8;

/// The number of pairs that a comparison aims at.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PairPlan {
    /// As many.
    Fixed(usize),
    /// As many as it takes to see a difference of the logarithms of at least `detect`.
    Detect {
        /// The difference of the logarithms.
        detect: f64,
    },
}

impl PairPlan {
    /// The number of pairs to have before asking again, after these `differences`; `None` when they
    /// are enough.
    pub fn goal(&self, differences: &[f64]) -> Option<usize> {
        let pairs = differences.len();
        match *self {
            Self::Fixed(fixed) => (pairs < fixed).then_some(fixed),
            Self::Detect { .. } if pairs < PILOT_PAIRS => Some(PILOT_PAIRS),
            Self::Detect { detect } => {
                let enough = smallest_detectable(differences).is_some_and(|smallest| smallest <= detect);
                let needed = pairs_needed(differences, detect).max(PAIRS_MIN);
                if enough && needed <= pairs {
                    return None;
                }
                // A few disturbed pairs make the first plans too long, so none more than doubles
                // the pairs; blocks of two pairs are balanced.
                let goal = needed.clamp(pairs + (pairs / 4).max(2), 2 * pairs);
                Some(goal.next_multiple_of(2))
            }
        }
    }
}

/// The smallest difference of the logarithms that pairs like these show at [`SIGNIFICANCE`] with a
/// probability of [`POWER`]; `None` of fewer than [`PAIRS_MIN`].
pub fn smallest_detectable(differences: &[f64]) -> Option<f64> {
    let interval = SignedRank::of(differences)?.interval(1.0 - SIGNIFICANCE)?;
    let [beyond_zero, power] = quantiles(differences.len(), interval.confidence);
    Some(interval.half_width() * (beyond_zero + power) / beyond_zero)
}

/// The number of pairs with this scatter that would show a difference of `detect`.
pub fn pairs_needed(differences: &[f64], detect: f64) -> usize {
    const PAIRS_MAX: usize = 100_000;
    let Some(scatter) = scatter(differences).filter(|_| detect > 0.0) else { return PAIRS_MAX };
    let detectable = |pairs: usize| {
        let [beyond_zero, power] = quantiles(pairs, 1.0 - SIGNIFICANCE);
        (beyond_zero + power) * scatter / (pairs as f64).sqrt()
    };
    // It falls with the number of pairs.
    let (mut few, mut enough) = (1, PAIRS_MAX);
    while enough - few > 1 {
        let middle = few.midpoint(enough);
        if detectable(middle) <= detect { enough = middle } else { few = middle }
    }
    enough
}

/// A robust standard deviation of one difference.
fn scatter(differences: &[f64]) -> Option<f64> {
    let interval = SignedRank::of(differences)?.interval(SCATTER_CONFIDENCE)?;
    let [quantile, _] = quantiles(differences.len(), interval.confidence);
    Some(interval.half_width() / quantile * (differences.len() as f64).sqrt())
}

/// Student's quantiles for a two-sided interval of this confidence, and for [`POWER`].
fn quantiles(pairs: usize, confidence: f64) -> [f64; 2] {
    let student = StudentsT::new(0.0, 1.0, (pairs - 1).max(1) as f64).expect("the degrees of freedom are positive");
    [0.5 + confidence / 2.0, POWER].map(|probability| student.inverse_cdf(probability))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::Random;

    /// The logarithms of one side's rounds in relation to the other's, as machines scatter.
    #[derive(Debug, Clone, Copy)]
    enum Noise {
        /// Normal, of this standard deviation.
        Normal(f64),
        /// The same, and one round in eight is slower by up to a third.
        Bursts(f64),
        /// A machine that becomes slower and faster over some rounds (AR(1), 0.9).
        Drift(f64),
    }

    struct Machine {
        random: Random,
        noise: Noise,
        state: f64,
    }

    impl Machine {
        fn new(seed: u64, noise: Noise) -> Self {
            Self { random: Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d)), noise, state: 0.0 }
        }

        fn normal(&mut self) -> f64 {
            let (radius, angle) = (self.random.exponential(0.5).sqrt(), self.random.uniform());
            radius * (std::f64::consts::TAU * angle).cos()
        }

        /// The logarithm of one round.
        fn round(&mut self) -> f64 {
            match self.noise {
                Noise::Normal(deviation) => self.normal() * deviation,
                Noise::Bursts(deviation) => {
                    let burst = if self.random.uniform() < 0.125 { self.random.uniform() * 0.3 } else { 0.0 };
                    self.normal() * deviation + burst
                }
                Noise::Drift(deviation) => {
                    self.state = 0.9 * self.state + self.normal() * deviation;
                    self.state + self.normal() * deviation
                }
            }
        }

        /// The difference of one pair, in the order of the interleaving.
        fn pair(&mut self, seed: u64, pair: usize, effect: f64) -> f64 {
            let (first, second) = (self.round(), self.round());
            let difference =
                if super::super::interleaving::begins_with_a(seed, pair) { second - first } else { first - second };
            difference + effect
        }
    }

    #[derive(Default, Debug)]
    struct Shares {
        called_different: f64,
        covered: f64,
        covered_by_student: f64,
        pairs: f64,
        detectable: f64,
    }

    /// Carries comparisons out as the command does, up to `pairs_max` pairs.
    fn simulate(noise: Noise, effect: f64, plan: PairPlan, pairs_max: usize, runs: u64) -> Shares {
        let mut shares = Shares::default();
        let weight = 1.0 / runs as f64;
        for seed in 0..runs {
            let mut machine = Machine::new(seed + 1, noise);
            let mut differences = Vec::new();
            while let Some(goal) = plan.goal(&differences).filter(|_| differences.len() < pairs_max) {
                while differences.len() < goal.min(pairs_max) {
                    differences.push(machine.pair(seed, differences.len(), effect));
                }
            }
            let ranks = SignedRank::of(&differences).unwrap();
            let covers = !ranks.interval(CONFIDENCE).unwrap().excludes(effect);
            let n = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / n;
            let deviation = (differences.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
            let student = StudentsT::new(0.0, 1.0, n - 1.0).unwrap().inverse_cdf(0.975) * deviation / n.sqrt();
            shares.called_different += if ranks.p_value() <= SIGNIFICANCE { weight } else { 0.0 };
            shares.covered += if covers { weight } else { 0.0 };
            shares.covered_by_student += if (mean - effect).abs() <= student { weight } else { 0.0 };
            shares.pairs += n * weight;
            shares.detectable += smallest_detectable(&differences).unwrap_or(0.0) * weight;
        }
        shares
    }

    #[test]
    fn explore() {
        for noise in [Noise::Normal(0.01), Noise::Normal(0.03), Noise::Bursts(0.01), Noise::Drift(0.01)] {
            for (plan, max) in [
                (PairPlan::Fixed(8), 8),
                (PairPlan::Fixed(20), 20),
                (PairPlan::Detect { detect: 0.02 }, 60),
                (PairPlan::Detect { detect: 0.02 }, 400),
            ] {
                for effect in [0.0, 0.02, 0.03] {
                    println!(
                        "{noise:?} {plan:?} max {max} effect {effect}: {:?}",
                        simulate(noise, effect, plan, max, 2000)
                    );
                }
            }
        }
    }
}
