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
    use super::super::interleaving::order;
    use super::*;
    use crate::simulation::Random;

    /// How the logarithms of rounds scatter; each with the standard deviation of a quiet round.
    #[derive(Debug, Clone, Copy)]
    enum Noise {
        /// Normal.
        Normal(f64),
        /// One round in eight is slower, by up to a third: other programs run in bursts.
        Bursts(f64),
        /// The machine becomes slower and faster over some rounds (AR(1) with 0.9), and every round
        /// that begins a pair is slower by as much as the standard deviation.
        Drift(f64),
    }

    const NOISES: [Noise; 3] = [Noise::Normal(0.01), Noise::Bursts(0.01), Noise::Drift(0.01)];

    struct Machine {
        random: Random,
        noise: Noise,
        state: f64,
    }

    impl Machine {
        fn new(seed: u64, noise: Noise) -> Self {
            Self { random: Random((seed + 1).wrapping_mul(0x2545_f491_4f6c_dd1d)), noise, state: 0.0 }
        }

        /// By Box and Muller.
        fn normal(&mut self, deviation: f64) -> f64 {
            let (radius, angle) = (self.random.exponential(0.5).sqrt(), self.random.uniform());
            deviation * radius * (std::f64::consts::TAU * angle).cos()
        }

        /// The logarithm of one round.
        fn round(&mut self, is_first: bool) -> f64 {
            match self.noise {
                Noise::Normal(deviation) => self.normal(deviation),
                Noise::Bursts(deviation) => {
                    let burst = if self.random.uniform() < 0.125 { self.random.uniform() * 0.3 } else { 0.0 };
                    self.normal(deviation) + burst
                }
                Noise::Drift(deviation) => {
                    self.state = 0.9 * self.state + self.normal(deviation);
                    self.state + self.normal(deviation) + if is_first { deviation } else { 0.0 }
                }
            }
        }

        /// The difference of one pair, in the order of the interleaving.
        fn pair(&mut self, seed: u64, pair: usize, effect: f64) -> f64 {
            let (first, second) = (self.round(true), self.round(false));
            effect + if order(seed, pair, 2)[0] == 0 { second - first } else { first - second }
        }
    }

    /// Shares of simulated comparisons, and means over them.
    #[derive(Default, Debug)]
    struct Simulated {
        called_different: f64,
        covered: f64,
        covered_by_student: f64,
        half_width: f64,
        half_width_of_student: f64,
        pairs: f64,
    }

    /// Carries comparisons out as the command does, up to `pairs_max` pairs.
    fn simulate(noise: Noise, effect: f64, plan: PairPlan, pairs_max: usize, runs: u64) -> Simulated {
        let mut simulated = Simulated::default();
        let weight = 1.0 / runs as f64;
        let share = |holds: bool| if holds { weight } else { 0.0 };
        for seed in 0..runs {
            let mut machine = Machine::new(seed, noise);
            let mut differences = Vec::new();
            while let Some(goal) = plan.goal(&differences).filter(|_| differences.len() < pairs_max) {
                while differences.len() < goal.min(pairs_max) {
                    differences.push(machine.pair(seed, differences.len(), effect));
                }
            }
            let ranks = SignedRank::of(&differences).unwrap();
            let confidence = if let PairPlan::Fixed(_) = plan { CONFIDENCE } else { CONFIDENCE_PLANNED };
            let interval = ranks.interval(confidence).unwrap();
            let n = differences.len() as f64;
            let mean = differences.iter().sum::<f64>() / n;
            let variance = differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (n - 1.0);
            let student = StudentsT::new(0.0, 1.0, n - 1.0).unwrap().inverse_cdf(0.5 + confidence / 2.0);
            let student = student * (variance / n).sqrt();
            simulated.called_different += share(ranks.p_value() <= SIGNIFICANCE);
            simulated.covered += share(!interval.excludes(effect));
            simulated.covered_by_student += share((mean - effect).abs() <= student);
            simulated.half_width += weight * interval.half_width();
            simulated.half_width_of_student += weight * student;
            simulated.pairs += weight * n;
        }
        simulated
    }

    const RUNS: u64 = 3_000;
    /// Three standard errors of a share of 95 % and of 1 % over so many runs.
    const COVERAGE_ERROR: f64 = 0.012;
    const FALSE_POSITIVE_ERROR: f64 = 0.0055;
    const AUTO: PairPlan = PairPlan::Detect { detect: 0.0198 };
    /// The number of pairs that a budget may allow.
    const PAIRS_MAX: usize = 60;

    #[test]
    fn intervals_cover_the_effect_under_every_noise() {
        for noise in NOISES {
            for plan in [PairPlan::Fixed(8), PairPlan::Fixed(20), AUTO] {
                let simulated = simulate(noise, 0.03, plan, PAIRS_MAX, RUNS);
                assert!(simulated.covered > CONFIDENCE - COVERAGE_ERROR, "{noise:?} {plan:?}: {simulated:?}");
            }
        }
    }

    /// Neither the noise nor the planned number of pairs makes differences out of nothing.
    #[test]
    fn equal_sides_are_rarely_called_different() {
        for noise in NOISES {
            for plan in [PairPlan::Fixed(8), PairPlan::Fixed(20), AUTO] {
                let simulated = simulate(noise, 0.0, plan, PAIRS_MAX, RUNS);
                let most = SIGNIFICANCE + FALSE_POSITIVE_ERROR;
                assert!(simulated.called_different < most, "{noise:?} {plan:?}: {simulated:?}");
                // The acceptance over 20 comparisons: at least 19 say "no difference".
                assert!(simulated.covered > CONFIDENCE - COVERAGE_ERROR, "{noise:?} {plan:?}: {simulated:?}");
            }
        }
    }

    #[test]
    fn a_planned_comparison_sees_the_difference_that_it_was_planned_for() {
        for noise in NOISES {
            let simulated = simulate(noise, 0.0198, AUTO, 1000, RUNS / 8);
            assert!(simulated.called_different > POWER, "{noise:?}: {simulated:?}");
            // Half as much again is hardly ever missed.
            let simulated = simulate(noise, 0.0296, AUTO, 1000, RUNS / 8);
            assert!(simulated.called_different > 0.97, "{noise:?}: {simulated:?}");
        }
    }

    /// A few disturbed rounds do not make the plan endless.
    #[test]
    fn a_plan_asks_for_no_more_pairs_than_it_needs() {
        let quiet = simulate(Noise::Normal(0.003), 0.0, AUTO, 1000, 200);
        assert!(quiet.pairs < PAIRS_MIN as f64 + 0.1, "{quiet:?}");
        let normal = simulate(Noise::Normal(0.02), 0.0, AUTO, 1000, 200);
        // Known scatter would need (2.58 + 0.84)^2 2 0.02^2 / 0.0198^2 pairs, and 5 % more for the
        // rank test.
        assert!((24.0..40.0).contains(&normal.pairs), "{normal:?}");
    }

    /// Why not Student's interval of the same pairs: under bursts it is half as wide again.
    #[test]
    fn the_rank_interval_is_narrower_under_bursts_and_hardly_wider_without() {
        let bursts = simulate(Noise::Bursts(0.01), 0.0, PairPlan::Fixed(20), PAIRS_MAX, 1_000);
        assert!(bursts.half_width_of_student > 1.4 * bursts.half_width, "{bursts:?}");
        let normal = simulate(Noise::Normal(0.01), 0.0, PairPlan::Fixed(20), PAIRS_MAX, 1_000);
        assert!(normal.half_width < 1.06 * normal.half_width_of_student, "{normal:?}");
        assert!(bursts.covered_by_student > 0.94 && normal.covered_by_student > 0.93, "{bursts:?} {normal:?}");
    }

    /// A difference of just the size that is called detectable is seen in about four of five runs.
    #[test]
    fn the_smallest_detectable_difference_is_seen_as_often_as_it_says() {
        for pairs in [8, 12, 30] {
            let differences = |seed: u64, effect: f64| -> Vec<f64> {
                let mut machine = Machine::new(seed, Noise::Normal(0.01));
                (0..pairs).map(|pair| machine.pair(seed, pair, effect)).collect()
            };
            let detectable = (0..2000).map(|seed| smallest_detectable(&differences(seed, 0.0)).unwrap());
            let detectable = detectable.sum::<f64>() / 2000.0;
            let seen = |seed: &u64| SignedRank::of(&differences(*seed, detectable)).unwrap().p_value() <= SIGNIFICANCE;
            let share = (2000..4000).filter(seen).count() as f64 / 2000.0;
            assert!((POWER - 0.1..POWER + 0.1).contains(&share), "{pairs} pairs: {share}");
        }
    }

    #[test]
    fn a_plan_begins_with_a_pilot_and_never_more_than_doubles() {
        assert_eq!(AUTO.goal(&[]), Some(PILOT_PAIRS));
        assert_eq!(AUTO.goal(&[0.9, -0.9, 0.8, -0.8, 0.5, -0.4]), Some(12));
        assert_eq!(AUTO.goal(&[0.001, -0.001, 0.002, 0.0, 0.001, 0.0]), Some(8));
        assert_eq!(AUTO.goal(&[0.001; 8]), None);
        assert_eq!([PairPlan::Fixed(9).goal(&[]), PairPlan::Fixed(9).goal(&[0.0; 9])], [Some(9), None]);
    }
}
