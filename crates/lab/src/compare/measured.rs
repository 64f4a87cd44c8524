//! The rounds of a comparison, and the differences of their pairs.

use std::time::Duration;

use thalweg_report::document::CompareEnd;

use super::round::MeasuredRound;
use super::settings::{A, CompareSettings};

/// The rounds of a comparison, as far as it came.
#[derive(Debug)]
pub(super) struct Measured {
    /// B, or the highest level of a scaling.
    pub last_side: usize,
    pub rounds: Vec<MeasuredRound>,
    pub ended: CompareEnd,
    /// The number of pairs planned for at last.
    pub planned: usize,
    pub repeated: usize,
    /// Why the comparison ended, if the target or the client is the reason.
    pub reason: Option<String>,
    pub elapsed: Duration,
}

impl Measured {
    /// None yet.
    pub(super) fn new(settings: &CompareSettings) -> Self {
        Self {
            last_side: settings.sides.len() - 1,
            rounds: Vec::new(),
            ended: CompareEnd::Complete,
            planned: 0,
            repeated: 0,
            reason: None,
            elapsed: Duration::ZERO,
        }
    }

    /// The logarithms of B / A of the metric at this position, of the pairs that count; in a
    /// scaling those of its highest and its lowest level.
    pub(super) fn differences(&self, metric: usize) -> Vec<f64> {
        self.log_ratios(metric, A, self.last_side)
    }

    /// The logarithms of the ratios of two sides, of the pairs (or cycles) that count.
    pub(super) fn log_ratios(&self, metric: usize, from: usize, to: usize) -> Vec<f64> {
        let value = |pair: usize, side: usize| {
            let is_it = |round: &&MeasuredRound| round.counts && round.pair == pair && round.side == side;
            self.rounds.iter().find(is_it)?.values[metric]
        };
        let pairs = self.rounds.iter().filter(|round| round.side == from).map(|round| round.pair);
        pairs.filter_map(|pair| Some((value(pair, to)? / value(pair, from)?).ln())).collect()
    }
}
