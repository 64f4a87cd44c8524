//! Whether requests pile up: a load that a target cannot sustain may still meet every limit in a
//! short trial, but its requests in flight grow from beginning to end.

use super::figures::TrialFigures;
use crate::statistics::{mann_kendall_score, theil_sen_slope};

/// With fewer intervals no order of values is rare enough to speak of a trend.
const INTERVALS_MIN: usize = 8;
/// One-sided 1 % of the standard normal distribution.
const SCORE_MIN: f64 = 2.326;
/// A rise within this share of the offered requests is within the tolerance that completions have.
const RISE_OF_OFFERED: f64 = 0.01;
/// The course of requests in flight over the trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Backlog {
    /// No upward trend.
    Steady,
    /// They rose by about this many from the first interval to the last.
    Growing {
        /// The rise along the fitted line, in requests.
        rise: f64,
    },
    /// Too few intervals to judge.
    Unjudged {
        /// Complete intervals in the schedule's time.
        intervals: usize,
    },
}

/// Judges the intervals within the schedule; what drains afterwards is no trend.
///
/// Growth is a rising order (Mann-Kendall) *and* a fitted rise (Theil-Sen) that matters. Both rest
/// on medians and orders, so that one burst that drains, wherever it lies, does not make a trend.
pub(super) fn judge(figures: &TrialFigures) -> Backlog {
    let schedule_ns = figures.duration.as_nanos();
    let points: Vec<(f64, f64)> = figures
        .intervals
        .in_flight_at_ends()
        .filter(|(end_ns, _)| u128::from(*end_ns) <= schedule_ns)
        .map(|(end_ns, in_flight)| (end_ns as f64 / 1e9, in_flight as f64))
        .collect();
    if points.len() < INTERVALS_MIN {
        return Backlog::Unjudged { intervals: points.len() };
    }
    let levels: Vec<f64> = points.iter().map(|(_, level)| *level).collect();
    let slope = theil_sen_slope(&points).unwrap_or(0.0);
    let rise = slope * (points[points.len() - 1].0 - points[0].0);
    let offered = figures.counts.offered as f64;
    let matters = (RISE_OF_OFFERED * offered).max(chance_rise(offered));
    if rise > matters && mann_kendall_score(&levels) > SCORE_MIN {
        return Backlog::Growing { rise };
    }
    Backlog::Steady
}

/// How far the requests in flight of a queue close to its capacity wander in a trial without any
/// trend: every arrival and every departure is a step of one, in either direction by chance, and so
/// many steps lead as far as the root of their number. Rank tests cannot distinguish such a walk
/// from a trend, since neighbouring levels are correlated.
fn chance_rise(offered: f64) -> f64 {
    (2.0 * offered).sqrt()
}
