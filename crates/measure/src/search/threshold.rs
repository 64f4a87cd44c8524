//! The threshold of a target, estimated from the bad requests of trials at several rates.
//!
//! A request is *bad* if it is slower than the limit's bound, or failed. The threshold is the rate
//! at which their share is the allowed one in the long run. Around it the log of the share grows
//! with the rate, as it does in heavy traffic. The slope is not known: 3 to 15 for a slow server
//! with random arrivals, so much that the target holds or does not for one with even ones. Bad
//! requests come in *clusters*, so that their number varies more than that of independent events.
//! How much more is seen from the seconds of the trials, and between trials.
//!
//! The interval holds the thresholds that fit the trials nearly as well as the best one does: a
//! profile of the quasi-likelihood of an overdispersed Poisson variable (McCullagh and Nelder,
//! "Generalized Linear Models", 1989, chapter 9). Simulated searches show what it covers.
//!
//! Two properties of trials enter it. A queue that starts empty needs time to fill, so a trial of
//! length T under a limit of L passes up to about `L / T` above the rate that the target sustains;
//! of that *build-up* only a bound is known. And the result of a trial may have nothing to do with
//! the rate: no trial tells more than [`TRUST`] lets it.

use serde::Serialize;

/// A trial as evidence about the threshold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Evidence {
    pub(super) rate: f64,
    /// Requests that were judged, and those of them that were bad.
    pub(super) judged: f64,
    pub(super) bad: f64,
    /// The trial has ended early, or failed by something else: at least so many were bad.
    pub(super) at_least: bool,
    /// The largest relative excess that a queue may hide in it.
    pub(super) build_up: f64,
    /// It has the length that the estimate rests on.
    pub(super) is_full: bool,
    /// The middle of the trial, in seconds of the search.
    pub(super) at_s: f64,
    /// Variance over mean of the bad requests of its seconds, and the degrees of freedom of that.
    pub(super) dispersion: Option<(f64, f64)>,
}

/// The allowed share of bad requests, and the bound from which on one is bad, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Allowed {
    pub(super) share: f64,
    pub(super) bound_s: f64,
    /// Most bad requests have failed: the bound says nothing about them.
    pub(super) failures: bool,
}

/// A way in which the bad requests grow around the threshold.
#[derive(Debug, Clone, Copy)]
struct Shape {
    /// The growth of the log of their share with the relative rate.
    slope: f64,
    /// The share of the build-up that applies.
    build_up: f64,
    bound_s: f64,
    /// The time that their clusters last at the threshold, and at least anywhere.
    cluster_s: f64,
    cluster_least_s: f64,
    /// Requests in a cluster, at least.
    least: f64,
    /// The log of their share over the allowed one at which all requests are bad.
    saturated: f64,
}

impl Shape {
    /// A queue in heavy traffic is a Brownian motion with a drift towards empty. If one request in
    /// `1 / share` is above the bound, the slope is that of the drift, and the time which the queue
    /// spends above the bound around a crossing is `slope * bound / ln(share)^2`.
    fn of(slope: f64, build_up: f64, allowed: Allowed, seen_s: f64) -> Self {
        let saturated = -allowed.share.ln();
        let bound_s = if allowed.failures { 0.0 } else { allowed.bound_s };
        let cluster_s = (bound_s * (slope / saturated.powi(2) * CLUSTERS_LONGER + CLUSTERS_OF_BOUND)).max(seen_s);
        let least = if allowed.failures { FAILED_IN_CLUSTER } else { 1.0 };
        Shape { slope, build_up, bound_s, cluster_s, cluster_least_s: bound_s * CLUSTER_LEAST, least, saturated }
    }
}

/// An estimate of the threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The threshold that fits best, requests per second.
    pub threshold: f64,
    /// The interval that holds the truth in 95 of 100 searches.
    pub interval95: [f64; 2],
    /// Relative standard deviation of the threshold as one trial shows it.
    pub spread: f64,
}

/// The most that a trial of the estimate's length tells, in units of deviance; and a shorter one.
const TRUST: [f64; 2] = [9.0, 1.5];
/// The same where verdicts alone are known: one of them decides nothing.
const TRUST_OF_VERDICT: [f64; 2] = [3.0, 1.0];
/// Growths of the log of the share of bad requests with the relative rate.
const SLOPES: [f64; 11] = [2.5, 4.0, 6.0, 10.0, 14.0, 20.0, 40.0, 80.0, 180.0, 500.0, 2000.0];
/// Shares of the build-up that may apply to all trials.
const BUILD_UPS: [f64; 2] = [0.0, 1.0];
/// The deviance above the best one's at which a threshold is still in the interval: Student's
/// distribution at 97.5 % with about six degrees of freedom, squared.
const DEVIANCE_95: f64 = 4.0;
/// The deviance at which a threshold is as good as the best one, for the middle of those.
const DEVIANCE_BEST: f64 = 0.25;
/// The time that clusters last at least, as a share of the bound.
const CLUSTER_LEAST: f64 = 0.1;
/// Requests that fail come in clusters of so many at least: those that find a queue full.
const FAILED_IN_CLUSTER: f64 = 10.0;
/// Clusters last longer than in heavy traffic.
const CLUSTERS_LONGER: f64 = 1.3;
/// And by so many bounds, where few requests fit into one.
const CLUSTERS_OF_BOUND: f64 = 0.8;
/// Clusters grow with the inverse square of the free capacity: this power of the share, for one in
/// a hundred.
const GROWTH_OF_CLUSTERS: f64 = 0.43;
/// Beyond saturation, a share of bad requests that is so many times the allowed one is as good as
/// all of them: the rest came before the queue had filled.
const SATURATED: f64 = 20.0;
/// The most that small slopes cost, in units of deviance.
const UNUSUAL: f64 = 8.0;
/// Slopes that are so shallow that chance alone decides about the interval gain so much deviance.
/// The gain vanishes where slope times build-up is this large.
const SHALLOW: f64 = 2.0;
const NOT_SHALLOW: f64 = 0.5;
/// Points of the grid along the threshold.
const POINTS: usize = 48;
/// How often the grid moves closer.
const CLOSER: usize = 3;
/// How far from the rates tried the threshold may be at most.
const REACH: f64 = 2.0;

/// The thresholds that fit, each with its deviance above the best one's.
#[derive(Debug, Clone)]
pub(super) struct Profile {
    log_rates: Vec<f64>,
    deviances: Vec<f64>,
    /// The best one's own deviance.
    pub(super) least: f64,
    spread: f64,
    /// The thresholds go on below the first and above the last one that was looked at.
    bounded: [bool; 2],
}

impl Profile {
    /// Of these trials, of which there is one at least.
    pub(super) fn of(trials: &[Evidence], allowed: Allowed) -> Self {
        let seen_s = clusters_seen(trials, allowed.share);
        let shapes: Vec<Shape> = BUILD_UPS
            .iter()
            .flat_map(|build_up| SLOPES.iter().map(move |slope| Shape::of(*slope, *build_up, allowed, seen_s)))
            .collect();
        let rates = || trials.iter().map(|trial| trial.rate);
        let lowest = rates().fold(f64::INFINITY, f64::min) / REACH;
        let highest = rates().fold(0.0, f64::max) * REACH;
        let terms: Vec<Term> = trials.iter().map(|trial| Term::of(trial, allowed)).collect();
        let (mut low, mut high) = (lowest.ln(), highest.ln());
        let mut profile = Self::on(&terms, &shapes, low, high);
        for _ in 0..CLOSER {
            let step = (high - low) / (POINTS - 1) as f64;
            let (from, to) = profile.range(2.0 * DEVIANCE_95);
            if to - from + 4.0 * step > 0.7 * (high - low) {
                break;
            }
            (low, high) = (from - 2.0 * step, to + 2.0 * step);
            profile = Self::on(&terms, &shapes, low, high);
        }
        let (from, to) = profile.range(DEVIANCE_95);
        profile.bounded = [from > lowest.ln() * (1.0 + 1e-9), to < highest.ln() * (1.0 - 1e-9)];
        profile
    }

    fn on(terms: &[Term], shapes: &[Shape], low: f64, high: f64) -> Self {
        let log_rates: Vec<f64> =
            (0..POINTS).map(|point| low + (high - low) * point as f64 / (POINTS - 1) as f64).collect();
        let build_up = terms.iter().filter(|term| term.is_full).map(|term| term.build_up).fold(0.0, f64::max);
        let mut best = (f64::INFINITY, &shapes[0], 0.0);
        let mut deviances: Vec<f64> = Vec::with_capacity(POINTS);
        for threshold in &log_rates {
            let mut least = f64::INFINITY;
            for shape in shapes {
                let usual = threshold.exp() * shape.bound_s / shape.slope;
                let shallow = match shape.bound_s > 0.0 {
                    true => SHALLOW * (1.0 - shape.slope * build_up / NOT_SHALLOW).max(0.0),
                    false => 0.0,
                };
                let unusual = usual.max(1.0).ln().powi(2).min(UNUSUAL) - shallow;
                let deviance = unusual + terms.iter().map(|term| term.deviance(*threshold, shape)).sum::<f64>();
                if deviance < best.0 {
                    best = (deviance, shape, *threshold);
                }
                least = least.min(deviance);
            }
            deviances.push(least);
        }
        // Trials that disagree by more than their clusters explain are trusted the less.
        let full = || terms.iter().filter(|term| term.is_full);
        let left: f64 = full().map(|term| term.deviance(best.2, best.1)).sum();
        let excess = (left / (full().count() as f64 - 1.0).max(1.0)).max(1.0);
        deviances.iter_mut().for_each(|deviance| *deviance = (*deviance - best.0) / excess);
        let relative = full().map(|term| best.1.cluster_s * term.rate / term.root_allowed.powi(2)).fold(0.0, f64::max);
        Profile {
            log_rates,
            deviances,
            least: best.0,
            spread: (2.0 * relative * excess).sqrt() / best.1.slope,
            bounded: [true; 2],
        }
    }

    /// The lowest and the highest threshold up to this deviance.
    fn range(&self, deviance: f64) -> (f64, f64) {
        let fits = |at: &usize| self.deviances[*at] <= deviance;
        let first = (0..POINTS).find(fits).unwrap_or(0);
        let last = (0..POINTS).rfind(fits).unwrap_or(POINTS - 1);
        // The place between two points.
        let between = |inside: usize, outside: usize| {
            let (a, b) = (self.deviances[inside], self.deviances[outside]);
            let part = if b > a { ((deviance - a) / (b - a)).clamp(0.0, 1.0) } else { 1.0 };
            self.log_rates[inside] + part * (self.log_rates[outside] - self.log_rates[inside])
        };
        let low = if first > 0 { between(first, first - 1) } else { self.log_rates[0] };
        let high = if last < POINTS - 1 { between(last, last + 1) } else { self.log_rates[POINTS - 1] };
        (low, high)
    }

    /// The estimate, if the trials bound the threshold on both sides.
    pub(super) fn estimate(&self) -> Option<Estimate> {
        (self.bounded == [true; 2]).then(|| {
            let (low, high) = self.range(DEVIANCE_95);
            let (from, to) = self.range(DEVIANCE_BEST);
            Estimate { threshold: ((from + to) / 2.0).exp(), interval95: [low.exp(), high.exp()], spread: self.spread }
        })
    }

    /// The ends of the interval, each if the trials bound it.
    pub(super) fn bounds(&self) -> [Option<f64>; 2] {
        let (low, high) = self.range(DEVIANCE_95);
        [self.bounded[0].then(|| low.exp()), self.bounded[1].then(|| high.exp())]
    }
}

/// The time that clusters of bad requests last, by the seconds of the trials near the threshold.
fn clusters_seen(trials: &[Evidence], share: f64) -> f64 {
    let near = trials.iter().filter(|trial| trial.bad > 0.0 && trial.bad < 5.0 * share * trial.judged);
    let seen =
        near.filter_map(|trial| trial.dispersion.map(|(dispersion, degrees)| (dispersion / trial.rate, degrees)));
    let (sum, degrees) = seen.fold((0.0, 0.0), |(sum, all), (time, degrees)| (sum + time * degrees, all + degrees));
    // Of exponential sizes, the mean is half of variance over mean.
    if degrees > 0.0 { sum / degrees / 2.0 } else { 0.0 }
}

/// A trial's part of the deviance.
struct Term {
    rate: f64,
    log_rate: f64,
    build_up: f64,
    /// Square roots of the bad requests, of those that were allowed, and of those that are as good
    /// as all.
    root_bad: f64,
    root_allowed: f64,
    root_most: f64,
    root_judged: f64,
    at_least: bool,
    trust: f64,
    is_full: bool,
}

impl Term {
    fn of(trial: &Evidence, limit: Allowed) -> Self {
        let allowed = limit.share * trial.judged;
        let trust = if limit.bound_s > 0.0 { TRUST } else { TRUST_OF_VERDICT };
        let most = (SATURATED * allowed).min(trial.judged);
        Term {
            rate: trial.rate,
            log_rate: trial.rate.ln(),
            build_up: trial.build_up,
            root_bad: trial.bad.sqrt(),
            root_judged: trial.judged.sqrt(),
            root_allowed: allowed.sqrt(),
            root_most: most.sqrt(),
            at_least: trial.at_least,
            trust: trust[usize::from(!trial.is_full)],
            is_full: trial.is_full,
        }
    }

    /// The deviance of this trial from a threshold, if clusters last so long there. Clusters come
    /// at random and have exponential sizes: of their sum, the log probability is the squared
    /// difference of roots over the mean size.
    fn deviance(&self, threshold: f64, shape: &Shape) -> f64 {
        let log_share = (self.log_rate - threshold - shape.build_up * self.build_up).exp_m1() * shape.slope;
        let (root_expected, cluster_s) = match log_share {
            log_share if log_share > shape.saturated => (self.root_most.max(self.root_bad), shape.cluster_least_s),
            log_share if log_share < -20.0 => (0.0, shape.cluster_s * 1e-2),
            log_share => {
                let growth = (log_share * GROWTH_OF_CLUSTERS).exp();
                ((self.root_allowed * (log_share / 2.0).exp()).min(self.root_judged), shape.cluster_s * growth)
            }
        };
        let difference = root_expected - self.root_bad;
        if self.at_least && difference >= 0.0 {
            return 0.0;
        }
        let cluster = (cluster_s.max(shape.cluster_least_s) * self.rate).max(shape.least);
        (2.0 * difference * difference / cluster).min(self.trust)
    }
}
