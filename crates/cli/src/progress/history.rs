//! The last seconds of load: figures for a chart, and those of the last second.

use std::collections::VecDeque;

use thalweg_measure::{Histogram, Interval};

/// Bins that are kept: a chart on the widest terminal, and a margin.
const BINS_MAX: usize = 400;
/// The least time that a bin covers.
const BIN_S: f64 = 0.2;
/// The time that the figures of the last second cover, or a little more.
const LAST_S: f64 = 1.0;

/// Figures of a time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Bin {
    /// Its length in seconds.
    pub seconds: f64,
    /// Requests offered.
    pub offered: u64,
    /// Good responses.
    pub good: u64,
    /// Errors.
    pub errors: u64,
    /// Median and 99th percentile of the response time in nanoseconds, if a response has ended.
    pub times_ns: Option<[u64; 2]>,
}

/// The bins of the trials so far.
#[derive(Debug, Default)]
pub(super) struct History {
    /// In order of time; `None` stands between two trials.
    bins: VecDeque<Option<Bin>>,
    open: Sum,
    /// The bins of the last second, of one trial alone.
    last: VecDeque<Sum>,
    /// The last second is that of a trial that has ended.
    is_last_over: bool,
}

/// The sum of intervals.
#[derive(Clone, Debug, Default)]
struct Sum {
    seconds: f64,
    offered: u64,
    good: u64,
    errors: u64,
    response_time: Option<Histogram>,
}

impl History {
    /// A trial begins. The last second stays that of the trial before until there is one of this.
    pub(super) fn begin_trial(&mut self) {
        self.close();
        self.is_last_over = true;
        if self.bins.back().is_some_and(Option::is_some) {
            self.push(None);
        }
    }

    /// Adds an interval of the running trial.
    pub(super) fn add(&mut self, interval: &Interval) {
        self.open.add(interval);
        if self.open.seconds >= BIN_S {
            self.close();
        }
    }

    /// Forgets all of it: what follows has nothing to do with what was.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The figures of the last second; `None` before the first bin of all.
    pub(super) fn last_second(&self) -> Option<Bin> {
        let mut sum = Sum::default();
        self.last.iter().for_each(|one| sum.join(one));
        (sum.seconds > 0.0).then(|| sum.bin())
    }

    /// The last bins, at most so many.
    pub(super) fn bins(&self, count: usize) -> impl Iterator<Item = Option<&Bin>> {
        self.bins.iter().skip(self.bins.len().saturating_sub(count)).map(Option::as_ref)
    }

    /// Ends the open bin.
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if open.seconds == 0.0 {
            return;
        }
        self.push(Some(open.bin()));
        if std::mem::take(&mut self.is_last_over) {
            self.last.clear();
        }
        self.last.push_back(open);
        let mut spare = self.last.iter().map(|sum| sum.seconds).sum::<f64>() - LAST_S;
        // Rounding must not keep one more.
        while self.last.front().is_some_and(|first| first.seconds <= spare + 1e-9) {
            spare -= self.last.pop_front().map_or(0.0, |first| first.seconds);
        }
    }

    fn push(&mut self, bin: Option<Bin>) {
        if self.bins.len() == BINS_MAX {
            self.bins.pop_front();
        }
        self.bins.push_back(bin);
    }
}

impl Sum {
    fn add(&mut self, interval: &Interval) {
        self.seconds += interval.width_ns as f64 / 1e9;
        self.offered += interval.offered;
        self.good += interval.good;
        self.errors += interval.errors;
        if !interval.response_time.is_empty() {
            self.response_time.get_or_insert_default().merge(&interval.response_time);
        }
    }

    fn join(&mut self, other: &Self) {
        self.seconds += other.seconds;
        self.offered += other.offered;
        self.good += other.good;
        self.errors += other.errors;
        if let Some(times) = &other.response_time {
            self.response_time.get_or_insert_default().merge(times);
        }
    }

    fn bin(&self) -> Bin {
        Bin {
            seconds: self.seconds,
            offered: self.offered,
            good: self.good,
            errors: self.errors,
            times_ns: self.response_time.as_ref().map(|times| [times.quantile(0.5), times.quantile(0.99)]),
        }
    }
}

impl Bin {
    /// A count as a rate.
    pub(super) fn per_second(&self, count: u64) -> f64 {
        count as f64 / self.seconds.max(1e-9)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An interval in which `offered` requests were offered, and all but `errors` of them took
    /// `ms`.
    pub(crate) fn interval(width_ms: u64, offered: u64, errors: u64, ms: u64) -> Interval {
        let mut response_time = Histogram::new();
        response_time.record_n(ms * 1_000_000, offered - errors);
        Interval {
            start_ns: 0,
            width_ns: width_ms * 1_000_000,
            offered,
            sent: offered,
            completed: offered - errors,
            good: offered - errors,
            errors,
            sessions: 0,
            in_flight: 0,
            bytes_in: 0,
            response_time,
        }
    }

    fn goods(history: &History) -> Vec<Option<u64>> {
        history.bins(9).map(|bin| bin.map(|bin| bin.good)).collect()
    }

    #[test]
    fn short_intervals_are_joined_and_trials_are_kept_apart() {
        let mut history = History::default();
        history.begin_trial();
        (1..=5).for_each(|offered| history.add(&interval(100, offered, 0, 1)));
        assert_eq!(goods(&history), [Some(3), Some(7)]);
        history.begin_trial();
        assert_eq!(goods(&history), [Some(3), Some(7), Some(5), None]);
        history.begin_trial();
        history.add(&interval(1_000, 9, 1, 1));
        assert_eq!(goods(&history), [Some(3), Some(7), Some(5), None, Some(8)]);
    }

    #[test]
    fn the_last_second_is_that_of_the_running_trial() {
        let mut history = History::default();
        (0..20).for_each(|number| history.add(&interval(100, 10, u64::from(number < 10), number)));
        let last = history.last_second().expect("there are intervals");
        assert_eq!((last.offered, last.good, last.errors), (100, 100, 0));
        assert!((last.seconds - 1.0).abs() < 1e-6, "{last:?}");
        let [p50, p99] = last.times_ns.expect("there are responses").map(|ns| ns / 1_000_000);
        assert_eq!((p50, p99), (14, 19));
        history.begin_trial();
        assert_eq!(history.last_second(), Some(last));
        history.add(&interval(2_000, 4, 4, 1));
        let last = history.last_second().expect("there are intervals");
        assert_eq!((last.per_second(last.offered), last.per_second(last.errors), last.times_ns), (2.0, 2.0, None));
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::default();
        assert_eq!(history.last_second(), None);
        (0..2_000).for_each(|_| history.add(&interval(1_000, 1, 0, 1)));
        assert_eq!((history.bins(usize::MAX).count(), history.last.len()), (BINS_MAX, 1));
    }
}
