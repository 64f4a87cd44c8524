//! The curve of one target: what came of each rate that it was offered, and the curve in words: its
//! peak, where that is, and its shape after it.

use thalweg_measure::{LoopKind, Verdict};

use super::words;
use crate::document::{Document, Find, Kind, Trial};

/// The curve of one target.
pub(crate) struct Curve {
    /// Its name in legends and tables.
    pub(crate) name: String,
    /// From the lowest to the highest rate, one for each.
    pub(crate) points: Vec<CurvePoint>,
    /// The highest rate that met the limits.
    pub(crate) passed: Option<f64>,
    /// The interval of the capacity, where a search gave one.
    pub(crate) interval95: Option<[f64; 2]>,
    /// The capacity, requests per second, and the bottleneck in words, where a search has found
    /// them.
    pub(crate) capacity: Option<f64>,
    pub(crate) limit: Option<String>,
}

/// The outcome of one offered rate, over all of its valid trials.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CurvePoint {
    pub(crate) offered: f64,
    pub(crate) good: f64,
    pub(crate) errors: f64,
    /// The highest of the trials': percentiles are not averaged.
    pub(crate) p99_us: Option<f64>,
    pub(crate) passed: bool,
}

/// The shape of a curve beyond its peak, from the lowest goodput there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// At least 95 % of the peak.
    Flat,
    /// At least half of it.
    Decline,
    /// Less than half.
    Collapse,
}

const FLAT_SHARE: f64 = 0.95;
const DECLINE_SHARE: f64 = 0.5;

impl Curve {
    /// The curves of a document: one for each target that was offered rates.
    pub(crate) fn all_of(document: &Document) -> Vec<Curve> {
        let Some(sweep) = &document.sweep else {
            let curve = Self::of(&document.plan.target, document.trials.iter());
            let find = document.find.as_ref();
            return vec![Curve {
                passed: if document.kind == Kind::Find { find.and_then(|find| find.lower_bound) } else { curve.passed },
                interval95: find.and_then(|find: &Find| find.interval95),
                capacity: find.and_then(|find| find.interval95.and(find.threshold)),
                limit: find.map(Find::bottleneck),
                ..curve
            }];
        };
        let of_target = |target: &crate::document::SweptTarget| {
            let trials = target.trials.iter().filter_map(|position| document.trials.get(*position));
            Curve { passed: target.passed, ..Self::of(&target.name, trials) }
        };
        sweep.targets.iter().map(of_target).collect()
    }

    fn of<'a>(name: &str, trials: impl Iterator<Item = &'a Trial>) -> Curve {
        let counts = |trial: &&Trial| {
            trial.phase != "calibrate" && trial.loop_kind == LoopKind::Open && trial.verdict != Verdict::Invalid
        };
        let mut trials: Vec<(f64, &Trial)> = trials
            .filter(counts)
            .filter_map(|trial| Some((trial.offered_rate.filter(|rate| rate.is_finite() && *rate > 0.0)?, trial)))
            .collect();
        trials.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        let points: Vec<CurvePoint> = trials.chunk_by(|(a, _), (b, _)| a == b).map(CurvePoint::of).collect();
        let passed = points.iter().take_while(|point| point.passed).last().map(|point| point.offered);
        Curve { name: name.to_owned(), points, passed, interval95: None, capacity: None, limit: None }
    }

    /// The point with the highest goodput, the lowest rate first.
    pub(crate) fn peak(&self) -> Option<&CurvePoint> {
        // Of goodputs that are the same within a thousandth, the first is where the peak begins.
        let most = self.points.iter().map(|point| point.good).fold(0.0, f64::max);
        self.points.iter().find(|point| most > 0.0 && point.good >= most * 0.999)
    }

    /// The shape beyond the peak, and the lowest point there; `None` if the peak is at the highest
    /// rate.
    pub(crate) fn shape(&self) -> Option<(Shape, &CurvePoint)> {
        let peak = self.peak()?;
        let beyond = self.points.iter().filter(|point| point.offered > peak.offered);
        let lowest = beyond.min_by(|a, b| a.good.total_cmp(&b.good))?;
        let shape = match lowest.good / peak.good {
            share if share >= FLAT_SHARE => Shape::Flat,
            share if share >= DECLINE_SHARE => Shape::Decline,
            _ => Shape::Collapse,
        };
        Some((shape, lowest))
    }

    /// Capacity, peak and shape in a sentence that begins with the name.
    pub(crate) fn sentence(&self) -> String {
        let name = &self.name;
        let passed = match self.passed {
            Some(rate) => format!("{name} meets the limits up to {}", words::per_second(rate)),
            None => format!("{name} met the limits at none of the rates"),
        };
        let Some(peak) = self.peak() else {
            return format!("{name} gave no good response in a valid trial.");
        };
        let top = format!("{} good at {} offered", words::per_second(peak.good), words::per_second(peak.offered));
        match self.shape() {
            None => format!("{passed}; the most is {top}, the highest rate tried."),
            Some((shape, lowest)) => {
                let share = format!("{:.0} %", lowest.good / peak.good * 100.0);
                let at = words::per_second(lowest.offered);
                let after = match shape {
                    Shape::Flat => format!("stays flat ({share} of it or more)"),
                    Shape::Decline => format!("declines, to {share} of it at {at}"),
                    Shape::Collapse => format!("collapses, to {share} of it at {at}"),
                };
                format!("{passed}; it peaks with {top} and then {after}.")
            }
        }
    }
}

impl CurvePoint {
    /// The point of all trials at one rate.
    fn of(trials: &[(f64, &Trial)]) -> CurvePoint {
        let seconds: f64 = trials.iter().map(|(_, trial)| trial.seconds).sum::<f64>().max(f64::MIN_POSITIVE);
        let good: f64 = trials.iter().map(|(_, trial)| trial.rates.good * trial.seconds).sum();
        let errors: u64 = trials.iter().map(|(_, trial)| trial.outcomes.errors()).sum();
        let measured = trials.iter().map(|(_, trial)| &trial.response_time_us).filter(|summary| summary.count > 0);
        let (passed, failed) = trials.iter().fold((0.0, 0.0), |(passed, failed), (_, trial)| match trial.verdict {
            Verdict::Pass => (passed + trial.seconds, failed),
            _ => (passed, failed + trial.seconds),
        });
        CurvePoint {
            offered: trials[0].0,
            good: good / seconds,
            errors: errors as f64 / seconds,
            p99_us: measured.map(|summary| summary.p99).reduce(f64::max),
            passed: passed > failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(f64, f64)]) -> Curve {
        let point = |(offered, good): &(f64, f64)| CurvePoint {
            offered: *offered,
            good: *good,
            errors: 0.0,
            p99_us: Some(100.0),
            passed: good == offered,
        };
        let points: Vec<CurvePoint> = points.iter().map(point).collect();
        Curve { name: "a".into(), passed: Some(500.0), points, interval95: None, capacity: None, limit: None }
    }

    #[test]
    fn curves_are_told_by_what_follows_their_peak() {
        let check = |points: &[(f64, f64)], expected: &str| {
            let sentence = curve(points).sentence();
            let (_, told) = sentence.split_once("; ").unwrap_or(("", &sentence));
            assert_eq!(told, expected);
        };
        check(&[(500.0, 500.0)], "the most is 500/s good at 500/s offered, the highest rate tried.");
        let flat = "it peaks with 600/s good at 700/s offered and then stays flat (98 % of it or more).";
        check(&[(500.0, 500.0), (700.0, 600.0), (900.0, 590.0), (1100.0, 599.9)], flat);
        let decline = "it peaks with 600/s good at 700/s offered and then declines, to 50 % of it at 1,100/s.";
        check(&[(500.0, 500.0), (700.0, 600.0), (900.0, 590.0), (1100.0, 300.0)], decline);
        let collapse = "it peaks with 600/s good at 700/s offered and then collapses, to 10 % of it at 900/s.";
        check(&[(700.0, 600.0), (900.0, 60.0), (1100.0, 599.0)], collapse);
        check(&[], "a gave no good response in a valid trial.");
        check(&[(500.0, 0.0)], "a gave no good response in a valid trial.");
    }
}
