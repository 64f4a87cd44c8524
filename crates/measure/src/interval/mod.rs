//! The course of a trial over time, in bounded memory whatever the trial's length.
//!
//! Each load thread keeps one [`IntervalSeries`] and never shares it; afterwards the series of all
//! threads merge exactly. If somebody observes the trial while it goes on, a series also gives its
//! intervals out as they end ([`IntervalPart`]), and a [`Course`] joins those of all threads. What
//! the course means, such as a trend, is decided in `trial`.

mod course;
mod parts;
mod record;

pub use self::course::Course;
pub use self::parts::IntervalPart;
pub use self::record::{Interval, IntervalSummary};

use self::parts::Parts;
use self::record::Tally;
use crate::compact::CompactHistogram;
use crate::histogram::Histogram;
use crate::outcome::Outcome;

/// Most intervals that are kept by default.
pub const INTERVALS_MAX: usize = 600;

/// A trial cut into intervals of equal width from its start.
///
/// [`IntervalSeries::new`] sets the most intervals that are kept. When there would be more,
/// neighbours are merged in pairs and the width doubles, so a day of records takes no more memory
/// than ten minutes. Counts are exact, and so are the response times of the whole
/// ([`IntervalSeries::response_time`]); those of a single interval keep two significant digits,
/// about a kilobyte a second.
///
/// Recording costs a few additions and one histogram record. Closing an interval scans its
/// histogram, and that is in [`IntervalSeries::advance_to`], which the caller places between
/// batches of work. Doubling the width would stop a load thread for milliseconds if all histograms
/// were merged at once; so pairs are only put side by side then, and each interval that closes
/// afterwards merges one pair. All are merged when the next doubling comes.
#[derive(Debug, Clone)]
pub struct IntervalSeries {
    width_ns: u64,
    intervals_max: usize,
    /// Requests offered and not yet ended, now.
    in_flight: u64,
    closed: Vec<Closed>,
    /// Closed intervals before this one have merged their pair of histograms.
    settled: usize,
    open: Tally,
    open_response_time: Histogram,
    /// The content of the open interval beside those: an interval that was closed before the width
    /// doubled.
    reopened: Option<CompactHistogram>,
    /// The response times that count, of all intervals but those in `open_response_time`.
    closed_response_time: Histogram,
    /// Those that are left out of the whole ([`IntervalSeries::leave_out`]), and whether those in
    /// `open_response_time` are of them.
    left_out_response_time: Option<Box<Histogram>>,
    leaves_out: bool,
    /// The same course for an observer of the running trial, if there is one.
    parts: Option<Box<Parts>>,
}

#[derive(Debug, Clone)]
struct Closed {
    tally: Tally,
    in_flight: u64,
    response_time: CompactHistogram,
    /// The response times of the later half, if the two are not merged yet.
    later_half: Option<CompactHistogram>,
}

impl IntervalSeries {
    /// A series that begins with intervals of `width_ns` and keeps at most `intervals_max` of them,
    /// an even number.
    ///
    /// A width of a second suits trials of minutes. A short trial needs a finer one, a twentieth of
    /// its length or less, or its trend cannot be judged.
    ///
    /// # Panics
    /// If `width_ns` is zero or `intervals_max` is odd or zero.
    pub fn new(width_ns: u64, intervals_max: usize) -> Self {
        assert!(width_ns > 0, "an interval has a width");
        assert!(intervals_max > 0 && intervals_max.is_multiple_of(2), "pairs are merged, so the number kept is even");
        IntervalSeries {
            width_ns,
            intervals_max,
            in_flight: 0,
            closed: Vec::with_capacity(intervals_max),
            settled: 0,
            open: Tally::default(),
            open_response_time: Histogram::new(),
            reopened: None,
            closed_response_time: Histogram::new(),
            left_out_response_time: None,
            leaves_out: false,
            parts: None,
        }
    }

    /// The same series, which also gives its intervals out as they end ([`IntervalSeries::parts`]).
    #[must_use]
    pub fn observed(self) -> Self {
        let parts = Some(Box::new(Parts::new(self.width_ns)));
        Self { parts, ..self }
    }

    /// The intervals that have ended and were not taken yet, in order; `None` if nobody observes.
    /// They keep the width that the series began with.
    pub fn parts(&mut self) -> Option<&mut Vec<IntervalPart>> {
        self.parts.as_mut().map(|parts| &mut parts.ended)
    }

    /// Ends the open interval for the observer, if anything is in it.
    pub fn end_last_part(&mut self) {
        if self.parts.is_some() {
            self.fold();
        }
        if let Some(parts) = &mut self.parts {
            parts.end_last(&self.open, self.in_flight);
        }
    }

    /// From now on leaves response times out of the whole, or does not. They still are in the
    /// intervals.
    pub fn leave_out(&mut self, leaves_out: bool) {
        if self.leaves_out != leaves_out {
            self.fold();
            self.leaves_out = leaves_out;
        }
    }

    /// Whether response times are left out of the whole now.
    pub fn leaves_out(&self) -> bool {
        self.leaves_out
    }

    /// Adds the response times that were left out to the whole after all.
    pub fn take_back(&mut self) {
        self.leave_out(false);
        if let Some(left_out) = self.left_out_response_time.take() {
            self.closed_response_time.merge(&left_out);
        }
    }

    /// Counts a request whose intended time has come; it is in flight until
    /// [`IntervalSeries::record_end`].
    pub fn record_offered(&mut self) {
        self.open.offered += 1;
        self.in_flight += 1;
    }

    /// Counts `n` requests whose intended times have come since the last call.
    pub fn record_offered_n(&mut self, n: u64) {
        self.open.offered += n;
        self.in_flight += n;
    }

    /// Counts a request whose first byte has left.
    pub fn record_sent(&mut self) {
        self.open.sent += 1;
    }

    /// Counts a request that ended, with its response time in nanoseconds if it has one.
    ///
    /// # Panics
    /// If more requests end than were offered.
    pub fn record_end(&mut self, outcome: Outcome, response_ns: Option<u64>) {
        assert!(self.in_flight > 0, "a request ends once, after it was offered");
        self.in_flight -= 1;
        self.open.completed += u64::from(outcome.is_completed());
        self.open.good += u64::from(outcome == Outcome::Good);
        self.open.errors += u64::from(outcome.is_error());
        if let Some(ns) = response_ns {
            self.open_response_time.record(ns);
        }
    }

    /// Counts a session that came to its end.
    pub fn record_session(&mut self) {
        self.open.sessions += 1;
    }

    /// Counts bytes received.
    pub fn record_bytes_in(&mut self, bytes: u64) {
        self.open.bytes_in += bytes;
    }

    /// Moves on to `offset_ns` from the start of the trial: closes the intervals that end at or
    /// before it. An offset in the past changes nothing, so records are never put into an interval
    /// that is closed.
    pub fn advance_to(&mut self, offset_ns: u64) {
        // Widening doubles the width, so even a jump over years takes a bounded number of rounds.
        // An interval that ends is the end of a part, too.
        self.end_parts(offset_ns);
        while offset_ns.saturating_sub(self.open_start_ns()) >= self.width_ns {
            self.close();
        }
    }

    /// Requests offered and not ended.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The present width of an interval in nanoseconds.
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Adds the series of another load thread with the same start. Exact: the result is as if one
    /// series had recorded everything. The finer of the two is widened to the coarser.
    ///
    /// # Panics
    /// If the widths differ by anything but doublings.
    pub fn merge(&mut self, other: &IntervalSeries) {
        let mut other = other.clone();
        // Nobody observes a trial that has ended.
        (self.parts, other.parts) = (None, None);
        self.leave_out(false);
        other.leave_out(false);
        let (coarse, fine) = (self.width_ns.max(other.width_ns), self.width_ns.min(other.width_ns));
        assert!(
            coarse.is_multiple_of(fine) && (coarse / fine).is_power_of_two(),
            "series to merge began with the same width"
        );
        // Going on to the other's place may widen once more, hence the loop.
        while self.width_ns != other.width_ns || self.closed.len() != other.closed.len() {
            let (behind, ahead) = if self.width_ns < other.width_ns
                || (self.width_ns == other.width_ns && self.closed.len() < other.closed.len())
            {
                (&mut *self, &mut other)
            } else {
                (&mut other, &mut *self)
            };
            if behind.width_ns < ahead.width_ns {
                behind.widen();
            } else {
                behind.advance_to(ahead.open_start_ns());
            }
        }
        for (mine, theirs) in self.closed.iter_mut().zip(&other.closed) {
            mine.merge(theirs);
        }
        self.open.add(&other.open);
        self.open_response_time.merge(&other.open_response_time);
        self.reopened = match (self.reopened.take(), other.reopened) {
            (Some(mut mine), Some(theirs)) => {
                mine.merge(&theirs);
                Some(mine)
            }
            (mine, theirs) => mine.or(theirs),
        };
        self.closed_response_time.merge(&other.closed_response_time);
        if let Some(theirs) = &other.left_out_response_time {
            self.left_out_response_time.get_or_insert_default().merge(theirs);
        }
        self.in_flight += other.in_flight;
    }

    /// All intervals in order, the open one last unless it is still empty.
    pub fn intervals(&self) -> impl Iterator<Item = Interval> + '_ {
        let closed = self.closed.iter().zip(0..).map(|(closed, position)| {
            self.interval(position, &closed.tally, closed.in_flight, closed.settled().restored())
        });
        let begun = self.open != Tally::default() || !self.open_response_time.is_empty();
        let open = begun.then(|| {
            let position = self.closed.len() as u64;
            self.interval(position, &self.open, self.in_flight, self.opened().restored())
        });
        closed.chain(open)
    }

    /// All intervals as they stand in the result document.
    pub fn summaries(&self) -> Vec<IntervalSummary> {
        self.intervals().map(|interval| interval.summary()).collect()
    }

    /// Requests in flight at the end of each closed interval, with that end in nanoseconds. Cheaper
    /// than [`IntervalSeries::intervals`], which rebuilds every histogram.
    pub fn in_flight_at_ends(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.closed.iter().zip(1..).map(|(closed, number)| (self.width_ns.saturating_mul(number), closed.in_flight))
    }

    /// The response times of the whole trial, exactly those recorded and not left out.
    pub fn response_time(&self) -> Histogram {
        let mut total = self.closed_response_time.clone();
        if !self.leaves_out {
            total.merge(&self.open_response_time);
        }
        total
    }

    /// The response times of the open interval.
    fn opened(&self) -> CompactHistogram {
        let mut all = CompactHistogram::of(&self.open_response_time);
        self.reopened.iter().for_each(|reopened| all.merge(reopened));
        all
    }

    fn interval(&self, position: u64, tally: &Tally, in_flight: u64, response_time: Histogram) -> Interval {
        Interval::new(self.width_ns.saturating_mul(position), self.width_ns, tally, in_flight, response_time)
    }

    fn open_start_ns(&self) -> u64 {
        self.width_ns.saturating_mul(self.closed.len() as u64)
    }

    /// Ends the parts for the observer that end by this time.
    fn end_parts(&mut self, until_ns: u64) {
        if !self.parts.as_ref().is_some_and(|parts| parts.is_due(until_ns)) {
            return;
        }
        self.fold();
        if let Some(parts) = &mut self.parts {
            parts.end_until(until_ns, &self.open, self.in_flight);
        }
    }

    /// Moves the response times of the open interval to where those of whole intervals are.
    fn fold(&mut self) {
        if self.open_response_time.is_empty() {
            return;
        }
        let recorded = CompactHistogram::of(&self.open_response_time);
        if let Some(parts) = &mut self.parts {
            parts.record(&recorded);
        }
        match &mut self.reopened {
            Some(before) => before.merge(&recorded),
            None => self.reopened = Some(recorded),
        }
        self.flush();
    }

    fn close(&mut self) {
        if let Some(parts) = &mut self.parts {
            parts.begin_interval();
        }
        self.closed.push(Closed {
            response_time: self.opened(),
            tally: std::mem::take(&mut self.open),
            in_flight: self.in_flight,
            later_half: None,
        });
        self.reopened = None;
        self.settle_one();
        self.flush();
        if self.closed.len() == self.intervals_max {
            self.widen();
        }
    }

    /// Empties the open interval's response times into those of the whole, or those left out.
    fn flush(&mut self) {
        if self.open_response_time.is_empty() {
            return;
        }
        let whole = match self.leaves_out {
            true => self.left_out_response_time.get_or_insert_default(),
            false => &mut self.closed_response_time,
        };
        whole.merge(&self.open_response_time);
        self.open_response_time.clear();
    }

    /// Merges the histograms of the next closed interval that still holds a pair.
    fn settle_one(&mut self) {
        if let Some(closed) = self.closed.get_mut(self.settled) {
            closed.settle();
            self.settled += 1;
        }
    }

    /// Joins neighbours in pairs. A closed interval without a partner is reopened: its partner is
    /// the open one.
    fn widen(&mut self) {
        while self.settled < self.closed.len() {
            self.settle_one();
        }
        self.width_ns = self.width_ns.saturating_mul(2);
        if !self.closed.len().is_multiple_of(2)
            && let Some(last) = self.closed.pop()
        {
            self.open.add(&last.tally);
            let mut reopened = last.response_time;
            self.reopened.iter().for_each(|before| reopened.merge(before));
            self.reopened = Some(reopened);
        }
        let mut halves = std::mem::take(&mut self.closed).into_iter();
        self.closed.reserve(self.intervals_max);
        while let (Some(mut earlier), Some(later)) = (halves.next(), halves.next()) {
            earlier.tally.add(&later.tally);
            earlier.in_flight = later.in_flight;
            earlier.later_half = Some(later.response_time);
            self.closed.push(earlier);
        }
        self.settled = 0;
    }
}

impl PartialEq for IntervalSeries {
    /// Equal if the same was recorded, whichever pairs are merged already.
    fn eq(&self, other: &Self) -> bool {
        self.width_ns == other.width_ns
            && self.in_flight == other.in_flight
            && self.intervals().eq(other.intervals())
            && self.response_time() == other.response_time()
    }
}

impl Closed {
    /// Adds the counts of another load thread in the same interval.
    fn merge(&mut self, other: &Closed) {
        self.settle();
        self.tally.add(&other.tally);
        self.in_flight += other.in_flight;
        self.response_time.merge(&other.response_time);
        if let Some(later_half) = &other.later_half {
            self.response_time.merge(later_half);
        }
    }

    fn settle(&mut self) {
        if let Some(later_half) = self.later_half.take() {
            self.response_time.merge(&later_half);
        }
    }

    /// All its response times.
    fn settled(&self) -> CompactHistogram {
        let mut all = self.response_time.clone();
        self.later_half.iter().for_each(|later_half| all.merge(later_half));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    /// A request as (intended offset, response time), both in nanoseconds.
    type Request = (u64, u64);

    /// Plays requests into a new series in order of time and leaves it at `until`.
    fn played(requests: &[Request], width_ns: u64, intervals_max: usize, until: u64) -> IntervalSeries {
        let begins = requests.iter().map(|(start, _)| (*start, None));
        let ends = requests.iter().map(|(start, took)| (start + took, Some(*took)));
        let mut events: Vec<(u64, Option<u64>)> = begins.chain(ends).collect();
        // At the same moment a request begins before one ends.
        events.sort_by_key(|(at, ended)| (*at, ended.is_some()));
        let mut series = IntervalSeries::new(width_ns, intervals_max);
        for (at, ended) in events {
            series.advance_to(at);
            match ended {
                None => {
                    series.record_offered();
                    series.record_sent();
                    series.record_bytes_in(100);
                }
                Some(took) => {
                    let outcome = if took.is_multiple_of(7) { Outcome::Timeout } else { Outcome::Good };
                    series.record_end(outcome, Some(took));
                    if took.is_multiple_of(3) {
                        series.record_session();
                    }
                }
            }
        }
        series.advance_to(until);
        series
    }

    #[test]
    fn intervals_hold_what_happened_in_them() {
        let series = played(&[(0, 100), (SECOND - 1, SECOND), (2 * SECOND, 700)], SECOND, 600, 3 * SECOND);
        let seen: Vec<_> = series.summaries().iter().map(|i| (i.t, i.offered, i.good, i.errors, i.in_flight)).collect();
        assert_eq!(seen, [(0.0, 2, 1, 0, 1), (1.0, 0, 1, 0, 0), (2.0, 1, 0, 1, 0)]);
        let last = series.intervals().last().unwrap();
        assert_eq!((last.sent, last.bytes_in, last.response_time.max()), (1, 100, 700));
        let ended: Vec<_> = series.summaries().iter().map(|i| (i.completed, i.sessions, i.hdr.is_empty())).collect();
        assert_eq!(ended, [(1, 0, false), (1, 0, false), (0, 0, false)]);
    }

    #[test]
    fn the_result_document_names_its_fields_so() {
        let series = played(&[(0, 2_000_000)], SECOND, 600, SECOND);
        let json = serde_json::to_value(series.summaries()).unwrap();
        assert_eq!(json[0]["p99_us"], 2000.0);
        let names: Vec<&str> = json[0].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names.len(), 10, "{names:?}");
    }

    #[test]
    fn a_long_run_keeps_its_sums_and_its_bound() {
        let requests: Vec<Request> = (0..5000).map(|n| (n * SECOND, 1 + n)).collect();
        let series = played(&requests, SECOND, 10, 5000 * SECOND);
        assert!(series.intervals().count() <= 10);
        assert_eq!(series.width_ns(), 512 * SECOND);
        assert_eq!(series.intervals().map(|interval| interval.offered).sum::<u64>(), 5000);
        assert_eq!(series.response_time().count(), 5000);
        assert_eq!(series.response_time().max(), 5000);
    }

    #[test]
    fn a_jump_over_years_ends() {
        let mut series = IntervalSeries::new(1, INTERVALS_MAX);
        series.record_offered();
        series.advance_to(u64::MAX);
        series.advance_to(5);
        assert_eq!(series.intervals().map(|interval| interval.offered).sum::<u64>(), 1);
        assert!(series.in_flight_at_ends().all(|(_, in_flight)| in_flight == 1));
    }

    #[test]
    #[should_panic(expected = "same width")]
    fn series_of_unrelated_widths_do_not_merge() {
        IntervalSeries::new(SECOND, 600).merge(&IntervalSeries::new(3 * SECOND, 600));
    }

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        prop::collection::vec((0_u64..1000, 1_u64..300), 0..60)
    }

    proptest! {
        #[test]
        fn merging_threads_equals_recording_into_one(
            a in requests(), b in requests(), doublings in 0_u32..4, until in 0_u64..3000,
        ) {
            let all = [a.clone(), b.clone()].concat();
            let width = 5;
            let end = all.iter().map(|(start, took)| start + took).max().unwrap_or(0).max(until);
            let single = played(&all, width << doublings, 16, end);
            // The first thread stops early now and then, the second may have begun coarser.
            let mut merged = played(&a, width, 16, 0);
            merged.merge(&played(&b, width << doublings, 16, end));
            // A series that was finer may be at most as coarse as the single one; bring both to one
            // width.
            prop_assert_eq!(merged.width_ns(), single.width_ns());
            prop_assert_eq!(merged, single);
        }

        #[test]
        fn the_intervals_sum_up_to_the_whole(all in requests(), width in 1_u64..40) {
            let series = played(&all, width, 8, 0);
            let mut whole = Histogram::new();
            all.iter().for_each(|(_, took)| whole.record(*took));
            prop_assert_eq!(series.response_time(), whole.clone());
            let mut summed = Histogram::new();
            series.intervals().for_each(|interval| summed.merge(&interval.response_time));
            // An interval's own are coarser, but none is lost and the extremes are exact.
            prop_assert_eq!((summed.count(), summed.min(), summed.max()), (whole.count(), whole.min(), whole.max()));
            prop_assert!(series.intervals().count() <= 8);
        }
    }
}
