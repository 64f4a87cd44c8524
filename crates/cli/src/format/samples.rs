//! Rates sampled every five seconds, as httperf does: their spread says how steady a server was.

use thalweg_measure::IntervalSummary;
use thalweg_report::document::Trial;

use super::quantities::span_s;

/// httperf's sampling period.
const PERIOD_S: f64 = 5.0;

/// Rates per second over consecutive samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Samples {
    /// Whole samples in the trial.
    pub count: u64,
    pub min: f64,
    pub mean: f64,
    pub max: f64,
    /// Standard deviation of the sample.
    pub stddev: f64,
}

impl Samples {
    /// Samples the count that `counted` reads from each interval of a trial. A sample consists of
    /// as many whole intervals as come nearest to five seconds; the intervals of a very long trial
    /// are longer, and then each is a sample. An incomplete sample at the end is dropped.
    pub(super) fn of(trial: &Trial, counted: fn(&IntervalSummary) -> u64) -> Self {
        let width_s = trial.interval_s;
        if width_s <= 0.0 {
            return Self::default();
        }
        let per_sample = (PERIOD_S / width_s).round().max(1.0);
        let length_s = per_sample * width_s;
        // The last interval may have been cut short by the trial's end.
        let whole = ((span_s(trial) + width_s * 1e-6) / length_s) as usize;
        let groups = trial.intervals.chunks_exact(per_sample as usize).take(whole);
        Self::over(groups.map(|group| group.iter().map(counted).sum::<u64>() as f64 / length_s))
    }

    fn over(rates: impl Iterator<Item = f64>) -> Self {
        let rates: Vec<f64> = rates.collect();
        let (count, n) = (rates.len() as u64, rates.len() as f64);
        if rates.is_empty() {
            return Self::default();
        }
        let mean = rates.iter().sum::<f64>() / n;
        let squares = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        let stddev = if count > 1 { (squares / (n - 1.0)).sqrt() } else { 0.0 };
        let min = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let max = rates.iter().copied().fold(0.0, f64::max);
        Self { count, min, mean, max, stddev }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    /// A trial of `counts.len()` intervals in which so many responses were completed.
    #[track_caller]
    fn check(counts: &[u64], width_s: f64, span: f64, expected: Samples) {
        let mut trial = fixture::trial();
        trial.interval_s = width_s;
        trial.seconds = 0.0;
        trial.span_s = span;
        trial.intervals = fixture::intervals(counts, width_s);
        assert_eq!(Samples::of(&trial, |interval| interval.completed), expected);
    }

    #[test]
    fn rates_are_sampled_over_five_seconds() {
        let none = Samples::default();
        check(&[100; 4], 1.0, 4.0, none);
        check(&[100; 5], 1.0, 5.0, Samples { count: 1, min: 100.0, mean: 100.0, max: 100.0, stddev: 0.0 });
        let two = Samples { count: 2, min: 10.0, mean: 15.0, max: 20.0, stddev: 50.0_f64.sqrt() };
        check(&[50, 0, 0, 0, 0, 0, 0, 0, 0, 100, 7], 1.0, 11.0, two);
        // Ten intervals, but the last of them ended early.
        let one = Samples { count: 1, min: 1.0, mean: 1.0, max: 1.0, stddev: 0.0 };
        check(&[1; 10], 1.0, 9.5, one);
        check(&[300; 3], 8.0, 24.0, Samples { count: 3, min: 37.5, mean: 37.5, max: 37.5, stddev: 0.0 });
        check(&[], 1.0, 100.0, none);
        check(&[1], 0.0, 100.0, none);
    }
}
