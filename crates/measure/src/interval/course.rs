//! The course of a running trial, as an observer sees it: the intervals of all load threads joined.

use std::collections::BTreeMap;

use super::parts::IntervalPart;
use super::record::Interval;

/// The intervals of a running trial. An interval is complete when every thread has ended it.
#[derive(Debug, Clone)]
pub struct Course {
    /// The end of each thread's last interval, and its requests in flight then.
    threads: Vec<(u64, u64)>,
    /// The joined parts of intervals that are not complete, by their start.
    open: BTreeMap<u64, IntervalPart>,
}

impl Course {
    /// The course of a trial with so many load threads.
    pub fn new(threads: usize) -> Self {
        Self { threads: vec![(0, 0); threads], open: BTreeMap::new() }
    }

    /// Adds intervals of a thread, in order.
    pub fn add(&mut self, thread: usize, parts: Vec<IntervalPart>) {
        for part in parts {
            self.threads[thread] = (part.end_ns(), part.in_flight());
            match self.open.get_mut(&part.start_ns()) {
                Some(sum) => sum.merge(&part),
                None => drop(self.open.insert(part.start_ns(), part)),
            }
        }
    }

    /// Takes the intervals that are complete, in order.
    pub fn take_complete(&mut self) -> Vec<Interval> {
        let until_ns = self.threads.iter().map(|(end_ns, _)| *end_ns).min().unwrap_or(0);
        let open = self.open.split_off(&until_ns);
        let complete = std::mem::replace(&mut self.open, open);
        complete.values().map(IntervalPart::interval).collect()
    }

    /// Takes all intervals that are left, when all threads have ended.
    pub fn take_rest(&mut self) -> Vec<Interval> {
        let mut rest = std::mem::take(&mut self.open);
        for (start_ns, part) in &mut rest {
            // A thread that ended earlier keeps its requests in flight.
            let ended = self.threads.iter().filter(|(end_ns, _)| end_ns <= start_ns);
            part.add_in_flight(ended.map(|(_, in_flight)| in_flight).sum());
        }
        rest.values().map(IntervalPart::interval).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interval::{IntervalSeries, IntervalSummary};
    use crate::outcome::Outcome;
    use proptest::prelude::*;

    /// A request as (intended offset, response time), both in nanoseconds.
    type Request = (u64, u64);

    const WIDTH: u64 = 10;

    /// Plays requests into one observed series each, which stops at its time, and joins them: the
    /// course as it was observed, and the series afterwards.
    fn played(threads: &[(&[Request], u64)], intervals_max: usize) -> (Vec<Interval>, IntervalSeries) {
        let mut course = Course::new(threads.len());
        let mut observed = Vec::new();
        let mut series = Vec::new();
        for (thread, (requests, until)) in threads.iter().enumerate() {
            let mut one = IntervalSeries::new(WIDTH, intervals_max).observed();
            let begins = requests.iter().map(|(start, _)| (*start, None));
            let ends = requests.iter().map(|(start, took)| (start + took, Some(*took)));
            let mut events: Vec<(u64, Option<u64>)> = begins.chain(ends).collect();
            events.sort_by_key(|(at, ended)| (*at, ended.is_some()));
            for (at, ended) in events {
                one.advance_to(at);
                // Response times that are left out of the whole are in the course.
                one.leave_out(at % 3 == 0);
                match ended {
                    None => one.record_offered(),
                    Some(took) => one.record_end(Outcome::Good, Some(took)),
                }
                course.add(thread, std::mem::take(one.parts().expect("it is observed")));
                observed.extend(course.take_complete());
            }
            one.advance_to(*until);
            one.end_last_part();
            course.add(thread, std::mem::take(one.parts().expect("it is observed")));
            observed.extend(course.take_complete());
            series.push(one);
        }
        observed.extend(course.take_rest());
        let mut whole = series.remove(0);
        series.iter().for_each(|other| whole.merge(other));
        (observed, whole)
    }

    fn summaries(intervals: &[Interval]) -> Vec<IntervalSummary> {
        intervals.iter().map(Interval::summary).collect()
    }

    #[test]
    fn an_interval_is_complete_when_every_thread_has_ended_it() {
        let mut threads = [(); 2].map(|()| IntervalSeries::new(WIDTH, 600).observed());
        let mut course = Course::new(2);
        let mut taken = |ends: [u64; 2]| {
            for (thread, (series, end)) in threads.iter_mut().zip(ends).enumerate() {
                series.record_offered();
                series.advance_to(end);
                course.add(thread, std::mem::take(series.parts().expect("it is observed")));
            }
            course.take_complete().iter().map(|interval| (interval.start_ns, interval.offered)).collect::<Vec<_>>()
        };
        assert_eq!(taken([WIDTH, WIDTH - 1]), []);
        assert_eq!(taken([3 * WIDTH, WIDTH]), [(0, 3)]);
        assert_eq!(taken([3 * WIDTH, 2 * WIDTH]), [(WIDTH, 2)]);
    }

    #[test]
    fn a_thread_that_was_stopped_for_hours_leaves_a_gap() {
        let mut series = IntervalSeries::new(WIDTH, 600).observed();
        series.record_offered();
        series.advance_to(u64::MAX - 5);
        let parts = series.parts().expect("it is observed");
        assert_eq!(parts.len(), 1_000);
        assert_eq!(parts.iter().map(|part| part.interval().offered).sum::<u64>(), 1);
        parts.clear();
        series.record_end(Outcome::Good, Some(1));
        series.end_last_part();
        assert_eq!(series.parts().expect("it is observed").len(), 1);
    }

    fn requests() -> impl Strategy<Value = Vec<Request>> {
        prop::collection::vec((0_u64..1000, 1_u64..300), 0..60)
    }

    proptest! {
        #[test]
        fn the_observed_course_is_that_of_the_document(
            a in requests(), b in requests(), ends in [0_u64..3000, 0_u64..3000],
        ) {
            let (observed, whole) = played(&[(&a, ends[0]), (&b, ends[1])], 600);
            prop_assert_eq!(summaries(&observed), whole.summaries());
        }

        #[test]
        fn a_long_trial_keeps_its_width_for_the_observer(a in requests(), until in 0_u64..3000) {
            let (observed, whole) = played(&[(&a, until)], 8);
            let sum = |count: fn(&Interval) -> u64, of: &[Interval]| of.iter().map(count).sum::<u64>();
            let kept: Vec<Interval> = whole.intervals().collect();
            let counts: [fn(&Interval) -> u64; 3] = [|i| i.offered, |i| i.good, |i| i.response_time.count()];
            for count in counts {
                prop_assert_eq!(sum(count, &observed), sum(count, &kept));
            }
            let starts: Vec<u64> = observed.iter().map(|interval| interval.start_ns).collect();
            let expected: Vec<u64> = (0..observed.len() as u64).map(|number| number * WIDTH).collect();
            prop_assert_eq!(starts, expected);
        }
    }
}
