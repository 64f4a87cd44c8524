//! The threshold of a target, estimated from trials that pass and fail by chance near it.
//!
//! Near its capacity a target answers the question "does it hold at this rate" as a person answers
//! "did you hear this tone": now yes, now no. Psychophysics estimates such a threshold with a
//! *psychometric function*, here a logistic curve over the logarithm of the rate, whose threshold,
//! spread and lapses are known only as a probability distribution on a grid (Kontsevich & Tyler
//! 1999; Wichmann & Hill 2001). The next rate is the one whose trial is expected to tell most about
//! the threshold per second that it costs (Watson 2017, QUEST+).
//!
//! One parameter is special to queues. A queue that starts empty needs time to fill, so a trial of
//! length T under a limit of L passes up to about `L / T` above the rate that the target sustains.
//! That *build-up* is known only as a bound; the share of it that applies is a further parameter of
//! the grid, with a flat prior.

use super::trial::{Evidence, Sensitivity, TrialEvidence};
use serde::Serialize;
use statrs::function::gamma::{gamma_lr, ln_gamma};
use std::f64::consts::PI;
use std::sync::LazyLock;

/// The posterior distribution of the threshold.
#[derive(Debug, Clone)]
pub(super) struct Posterior {
    /// Natural logarithms of rates, ascending at equal distances.
    thresholds: Vec<f64>,
    /// Probability of each combination, the threshold running slowest.
    cells: Vec<f64>,
}

/// A way in which trials turn from pass to fail around the threshold, with all parameters but the
/// threshold itself.
#[derive(Debug, Clone, Copy)]
struct Shape {
    family: Family,
    /// Share of the build-up that applies.
    build_up: f64,
}

/// The two kinds of shape.
#[derive(Debug, Clone, Copy)]
enum Family {
    /// The target holds or it does not: a logistic curve. The spread is the standard deviation of
    /// the log threshold from trial to trial, for trials of the estimate's length.
    /// `lapse` is the share of trials whose result has nothing to do with the rate.
    Step { spread: f64, lapse: f64 },
    /// Slow requests come in clusters, at a rate that grows with the load: `slope` is that of the
    /// log share of slow requests over the log rate. The threshold is where that share is the
    /// allowed one in the long run; more than half of the trials pass there, if clusters are large.
    Queue { slope: f64, cluster: usize },
}

/// An estimate of the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The median of the threshold, requests per second.
    pub threshold: f64,
    /// The interval that holds the truth in 95 of 100 searches.
    pub interval95: [f64; 2],
    /// Relative standard deviation of the threshold from trial to trial: the mean of what is
    /// plausible.
    pub spread: f64,
}

/// Prior probability of all queues together, relative to that of all steps.
const QUEUES_PRIOR: f64 = 0.2;
/// Spreads considered. Below the first one a threshold is a step for every purpose here; beyond the
/// last one no rate could be named.
const SPREADS: [f64; 8] = [0.0005, 0.0015, 0.004, 0.008, 0.014, 0.022, 0.035, 0.06];
/// Slopes considered. A limit L makes it about `rate * L` for a queue with random arrivals.
const SLOPES: [f64; 8] = [10.0, 20.0, 40.0, 80.0, 140.0, 240.0, 400.0, 700.0];
/// Sizes of clusters considered, in units of the slow requests that a trial may have.
const CLUSTERS: [f64; 4] = [0.05, 0.2, 0.8, 2.5];
/// Shares of the build-up considered.
const BUILD_UPS: [f64; 2] = [0.05, 0.95];
/// Shares of lapses considered, and their prior.
const LAPSES: [(f64, f64); 2] = [(0.01, 0.93), (0.08, 0.07)];
const STEPS: usize = SPREADS.len() * LAPSES.len();
const QUEUES: usize = SLOPES.len() * CLUSTERS.len();
const SHAPES: usize = (STEPS + QUEUES) * BUILD_UPS.len();
/// Larger spreads are the less likely beforehand.
const SPREAD_USUAL: f64 = 0.005;
/// A step's trials pass without a single slow request, but for so many of them.
const SLOW_BELOW_STEP: f64 = 0.1;
/// Probability on either side of the interval. A search ends when its interval happens to be
/// narrow, and no target follows the model exactly; simulations show what is left of 97 %.
const OUTSIDE: f64 = 0.015;
/// Points of the grid along the threshold.
const POINTS: usize = 64;
/// Share of the probability that a closer look at the grid may leave out on either side.
const NEGLIGIBLE: f64 = 1e-5;
/// Cells that are so much less likely than the likeliest one are left out.
const HOPELESS: f64 = 1e-9;
/// The logistic distribution's standard deviation in units of its scale.
const LOGISTIC_SD: f64 = PI / 1.732_050_807_568_877_2;

/// The shapes on a grid of this step. None is sharper than the grid, or a threshold between two of
/// its points would be overlooked.
fn shapes(step: f64) -> Vec<Shape> {
    let of_build_up = |build_up| {
        let steps = (0..STEPS).map(move |index| Family::Step {
            spread: SPREADS[index % SPREADS.len()].max(step),
            lapse: LAPSES[index / SPREADS.len()].0,
        });
        let queues = (0..QUEUES).map(move |index| Family::Queue {
            slope: SLOPES[index % SLOPES.len()].min(1.0 / step),
            cluster: index / SLOPES.len(),
        });
        steps.chain(queues).map(move |family| Shape { family, build_up })
    };
    BUILD_UPS.into_iter().flat_map(of_build_up).collect()
}

impl Shape {
    /// Standard deviation of the log rate at which a trial of the estimate's length turns from pass
    /// to fail.
    fn spread(&self) -> f64 {
        match self.family {
            Family::Step { spread, .. } => spread,
            Family::Queue { slope, cluster } => (CLUSTERS[cluster] * (1.0 + 1.0 / SIZE_SHAPE)).sqrt() / slope,
        }
    }

    /// Most targets hold or do not, and turn within a narrow range; a wide one takes evidence. All
    /// queues are equally likely: a preference for small clusters would end searches too early.
    fn prior(&self) -> f64 {
        match self.family {
            Family::Step { lapse, spread } => {
                let usual = (SPREAD_USUAL / spread).min(1.0);
                let of_lapse = LAPSES.iter().find(|(share, _)| *share == lapse).map_or(0.0, |(_, prior)| *prior);
                usual * of_lapse / SPREADS.len() as f64
            }
            Family::Queue { .. } => QUEUES_PRIOR / QUEUES as f64,
        }
    }

    /// Probability that a trial passes at `excess`, the log of its rate over the threshold.
    fn pass(&self, excess: f64, trial: &Sensitivity) -> f64 {
        // Slow requests come in clusters, so that more than half of the trials pass at the rate
        // where their share is the allowed one in the long run: by about a spread, if they do at
        // all.
        let half = if trial.tail && matches!(self.family, Family::Step { .. }) { self.spread() } else { 0.0 };
        let excess = excess - self.build_up * (trial.build_up + half);
        let pass = match self.family {
            Family::Queue { slope, cluster } if trial.tail => {
                let (clusters, size) = clusters_at(slope * excess, CLUSTERS[cluster]);
                within(clusters, size)
            }
            _ => 1.0 / (1.0 + (excess * LOGISTIC_SD / (self.spread() * trial.spread_scale)).exp()),
        };
        let lapse = if let Family::Step { lapse, .. } = self.family { lapse.max(trial.lapse) } else { trial.lapse };
        lapse + (1.0 - 2.0 * lapse) * pass
    }

    /// Likelihood of a trial's result.
    fn likelihood(&self, excess: f64, trial: &Evidence) -> f64 {
        let (slow, allowed) = match trial.result {
            TrialEvidence::Bit { passed: true } => return self.pass(excess, &trial.sensitivity),
            TrialEvidence::Bit { passed: false } => return 1.0 - self.pass(excess, &trial.sensitivity),
            TrialEvidence::Tail { slow, allowed } => (slow, allowed),
        };
        let any = if slow <= 0.0 { 1.0 - SLOW_BELOW_STEP } else { SLOW_BELOW_STEP / allowed };
        match self.family {
            Family::Step { .. } if slow <= allowed => self.pass(excess, &trial.sensitivity) * any,
            Family::Step { .. } => (1.0 - self.pass(excess, &trial.sensitivity)) * allowed / (slow * slow),
            Family::Queue { slope, cluster } => {
                let excess = excess - self.build_up * trial.sensitivity.build_up;
                let (clusters, size) = clusters_at(slope * excess, CLUSTERS[cluster]);
                let usual = clustered(slow, clusters * size * allowed, (size * allowed).max(1.0));
                let lapse = trial.sensitivity.lapse;
                (1.0 - lapse) * usual + lapse * any
            }
        }
    }
}

/// The number of clusters and their mean size, where the log of the share of slow requests has
/// risen so far above the allowed one. A queue that comes closer to saturation has larger clusters:
/// in heavy traffic (a Brownian queue) their size grows with the inverse square of the free
/// capacity.
fn clusters_at(log_share: f64, size: f64) -> (f64, f64) {
    let log_share = log_share.min(SATURATED.ln());
    let size = size * (GROWTH_OF_CLUSTERS * log_share).exp();
    (log_share.exp() / size, size)
}

/// Share of the growth of the slow requests that is a growth of their clusters: `2 / ln(1 / tail)`,
/// here of a limit on p99.
const GROWTH_OF_CLUSTERS: f64 = 0.43;
/// The share of slow requests, in units of the allowed one, at which everything is slow.
const SATURATED: f64 = 100.0;

/// The density of a number of events that come in clusters: their number is a Poisson variable, and
/// their sizes are gamma variables with this mean (a compound Poisson or Tweedie distribution). At
/// 0 it is the probability of no event.
fn clustered(events: f64, expected: f64, size: f64) -> f64 {
    let clusters = expected / size;
    if events <= 0.0 {
        return (-clusters).exp();
    }
    if clusters > CLUSTERS_FEW {
        let variance = clusters * size * size * (1.0 + 1.0 / SIZE_SHAPE);
        return (-(events - expected).powi(2) / (2.0 * variance)).exp() / (2.0 * PI * variance).sqrt();
    }
    // The log of each term, from that of one cluster on.
    let (log_clusters, log_events) = (clusters.ln(), SIZE_SHAPE * (events * SIZE_SHAPE / size).ln());
    let of_all = -clusters - events * SIZE_SHAPE / size - events.ln();
    let mut sum = 0.0;
    for (n, log_gammas) in (1..).zip(LOG_GAMMAS.iter()) {
        let term = (of_all + f64::from(n) * (log_clusters + log_events) - log_gammas).exp();
        sum += term;
        if f64::from(n) > clusters && term < sum * 1e-9 {
            break;
        }
    }
    sum
}

/// Shape of the gamma distribution of cluster sizes. Most clusters are small, and few are large: at
/// this shape the chance that a trial passes is that of simulated queues.
const SIZE_SHAPE: f64 = 0.45;
/// Above this number of clusters the sum of their sizes is a normal variable.
const CLUSTERS_FEW: f64 = 100.0;

/// `ln n! + ln gamma(n * SIZE_SHAPE)` from n = 1 on.
static LOG_GAMMAS: LazyLock<Vec<f64>> = LazyLock::new(|| {
    let term = |n: u32| ln_gamma(f64::from(n) + 1.0) + ln_gamma(f64::from(n) * SIZE_SHAPE);
    (1..=1000).map(term).collect()
});

/// The probability that the clusters of a trial have no more events than it may have, by the
/// expected number of clusters.
struct Within(Vec<f64>);

/// Steps of the table per doubling of the expected number, and its lowest exponent of 2.
const PER_DOUBLING: f64 = 8.0;
const EXPONENT_MIN: f64 = -12.0;

/// Rows of the table per doubling of the size, and the lowest exponent of 2 of a size.
const ROWS_PER_DOUBLING: f64 = 2.0;
const SIZE_EXPONENT_MIN: f64 = -8.0;
const ROWS: u32 = 29;

static WITHIN: LazyLock<Vec<Within>> = LazyLock::new(|| {
    let sizes = (0..ROWS).map(|row| (SIZE_EXPONENT_MIN + f64::from(row) / ROWS_PER_DOUBLING).exp2());
    sizes.map(Within::of).collect()
});

/// The probability that clusters of this expected number and mean size, relative to the allowed
/// number, have no more events than are allowed.
fn within(clusters: f64, size: f64) -> f64 {
    let row = ((size.log2() - SIZE_EXPONENT_MIN) * ROWS_PER_DOUBLING).clamp(0.0, f64::from(ROWS - 1));
    let below = (row as usize).min(ROWS as usize - 2);
    let part = row - below as f64;
    WITHIN[below].at(clusters) * (1.0 - part) + WITHIN[below + 1].at(clusters) * part
}

impl Within {
    /// For clusters of this mean size relative to the allowed number.
    fn of(size: f64) -> Self {
        let reached: Vec<f64> = (1..=400).map(|n| gamma_lr(f64::from(n) * SIZE_SHAPE, SIZE_SHAPE / size)).collect();
        let at = |clusters: f64| {
            let mut log = -clusters;
            let mut sum = log.exp();
            for (n, reached) in (1..).zip(&reached) {
                log += clusters.ln() - f64::from(n).ln();
                sum += log.exp() * reached;
            }
            sum
        };
        let exponents =
            (0..).map(|step| EXPONENT_MIN + f64::from(step) / PER_DOUBLING).take_while(|exponent| *exponent < 8.0);
        Within(exponents.map(|exponent| at(exponent.exp2())).collect())
    }

    fn at(&self, clusters: f64) -> f64 {
        let place = ((clusters.log2() - EXPONENT_MIN) * PER_DOUBLING).clamp(0.0, (self.0.len() - 1) as f64);
        let below = (place as usize).min(self.0.len() - 2);
        let part = place - below as f64;
        self.0[below] * (1.0 - part) + self.0[below + 1] * part
    }
}

impl Posterior {
    /// The posterior after these trials, of a threshold that lies anywhere between two rates.
    pub(super) fn of(trials: &[Evidence], lowest: f64, highest: f64) -> Self {
        let (mut low, mut high) = (lowest.ln(), highest.ln());
        let mut posterior = Posterior::on(trials, low, high);
        // The grid moves closer until it is fine enough for the narrow part of the distribution.
        for _ in 0..5 {
            let step = posterior.step();
            let (from, to) = (
                posterior.log_quantile(NEGLIGIBLE) - 2.0 * step,
                posterior.log_quantile(1.0 - NEGLIGIBLE) + 2.0 * step,
            );
            if to - from > 0.7 * (high - low) {
                break;
            }
            (low, high) = (from.max(low), to.min(high));
            posterior = Posterior::on(trials, low, high);
        }
        posterior
    }

    fn on(trials: &[Evidence], low: f64, high: f64) -> Self {
        let thresholds: Vec<f64> = points(low, high).collect();
        let step = thresholds[1] - thresholds[0];
        let shapes = shapes(step);
        let priors: Vec<f64> = shapes.iter().map(Shape::prior).collect();
        let mut cells = priors.repeat(POINTS);
        for trial in trials {
            for (threshold, cells) in thresholds.iter().zip(cells.chunks_exact_mut(SHAPES)) {
                for (cell, shape) in cells.iter_mut().zip(&shapes).filter(|(cell, _)| **cell > 0.0) {
                    *cell *= shape.likelihood(trial.log_rate - threshold, trial);
                }
            }
            let highest = cells.iter().copied().fold(0.0, f64::max);
            cells.iter_mut().for_each(|cell| *cell = if *cell > highest * HOPELESS { *cell / highest } else { 0.0 });
        }
        let total: f64 = cells.iter().sum();
        cells.iter_mut().for_each(|cell| *cell /= total);
        Posterior { thresholds, cells }
    }

    /// The likelihood of a trial's result at each point of a grid.
    fn likelihood(trial: &Evidence, low: f64, high: f64) -> Vec<f64> {
        let shapes = shapes((high - low) / (POINTS - 1) as f64);
        let at = |threshold: f64| shapes.iter().map(move |shape| shape.likelihood(trial.log_rate - threshold, trial));
        points(low, high).flat_map(at).collect()
    }

    /// The log thresholds between which nearly all of the probability lies.
    pub(super) fn range(&self) -> (f64, f64) {
        (self.log_quantile(0.005), self.log_quantile(0.995))
    }

    fn step(&self) -> f64 {
        self.thresholds[1] - self.thresholds[0]
    }

    /// Probability of each threshold.
    fn marginal(&self) -> impl Iterator<Item = f64> {
        self.cells.chunks_exact(SHAPES).map(|cells| cells.iter().sum())
    }

    /// The quantile of the log threshold, interpolated within a step of the grid.
    fn log_quantile(&self, share: f64) -> f64 {
        let mut below = 0.0;
        for (threshold, probability) in self.thresholds.iter().zip(self.marginal()) {
            if below + probability >= share {
                return threshold + ((share - below) / probability - 0.5) * self.step();
            }
            below += probability;
        }
        self.thresholds[POINTS - 1]
    }

    pub(super) fn estimate(&self) -> Estimate {
        let shapes = shapes(self.step());
        let spread = self.cells.chunks_exact(SHAPES).flat_map(|cells| cells.iter().zip(&shapes));
        Estimate {
            threshold: self.log_quantile(0.5).exp(),
            interval95: [self.log_quantile(OUTSIDE).exp(), self.log_quantile(1.0 - OUTSIDE).exp()],
            spread: spread.map(|(cell, shape)| cell * shape.spread()).sum(),
        }
    }

    /// Information in nats that a trial at this log rate is expected to give about the threshold,
    /// and the probability that it passes.
    pub(super) fn information(&self, log_rate: f64, trial: &Sensitivity) -> (f64, f64) {
        let (mut pass_overall, mut doubt_within) = (0.0, 0.0);
        let shapes = shapes(self.step());
        for (threshold, cells) in self.thresholds.iter().zip(self.cells.chunks_exact(SHAPES)) {
            let probability: f64 = cells.iter().sum();
            if probability < 1e-7 {
                continue;
            }
            let likely = cells.iter().zip(&shapes).filter(|(cell, _)| **cell > 1e-8);
            let pass: f64 = likely.map(|(cell, shape)| cell * shape.pass(log_rate - threshold, trial)).sum();
            pass_overall += pass;
            doubt_within += probability * entropy(pass / probability);
        }
        (entropy(pass_overall) - doubt_within, pass_overall)
    }
}

/// The likelihood of each of a series of trials at each point of a grid.
pub(super) struct Likelihoods {
    /// Products over the first trials, from none to all of them.
    of_first: Vec<Vec<f64>>,
    /// Products over the last trials, from all of them to none.
    of_last: Vec<Vec<f64>>,
}

impl Likelihoods {
    /// Over log thresholds from `low` to `high`.
    pub(super) fn of(trials: &[Evidence], low: f64, high: f64) -> Self {
        let one = vec![1.0; POINTS * SHAPES];
        let products = |trials: &mut dyn Iterator<Item = &Evidence>| {
            let mut products = vec![one.clone()];
            for trial in trials {
                let single = Posterior::likelihood(trial, low, high);
                let before = products.last().expect("the empty product");
                products.push(before.iter().zip(single).map(|(product, single)| product * single).collect());
            }
            products
        };
        let of_first = products(&mut trials.iter());
        let mut of_last = products(&mut trials.iter().rev());
        of_last.reverse();
        Likelihoods { of_first, of_last }
    }

    /// The Bayes factor of two thresholds, one before and one after so many trials, over a single
    /// one.
    pub(super) fn factor_of_change(&self, split: usize) -> f64 {
        let priors: Vec<f64> = shapes(1e-3).iter().map(Shape::prior).collect();
        let total = |of: &dyn Fn(usize) -> f64| (0..SHAPES).map(|shape| priors[shape] * of(shape)).sum::<f64>();
        let mean = |cells: &[f64], shape: usize| cells.iter().skip(shape).step_by(SHAPES).sum::<f64>() / POINTS as f64;
        let all = &self.of_first[self.of_first.len() - 1];
        let (before, after) = (&self.of_first[split], &self.of_last[split]);
        let single = total(&|shape| mean(all, shape));
        let double = total(&|shape| mean(before, shape) * mean(after, shape));
        double / single
    }
}

/// The log thresholds of a grid.
fn points(low: f64, high: f64) -> impl Iterator<Item = f64> {
    (0..POINTS).map(move |point| low + (high - low) * point as f64 / (POINTS - 1) as f64)
}

/// Entropy of an event in nats.
fn entropy(probability: f64) -> f64 {
    let term = |p: f64| if p > 0.0 { -p * p.ln() } else { 0.0 };
    term(probability) + term(1.0 - probability)
}
