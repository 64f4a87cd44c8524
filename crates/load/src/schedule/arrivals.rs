//! Arrivals: schedules as pure functions of their parameters and of the time that is passed in.
//!
//! An arrival that cannot be served at once, because every connection is busy, stays here: what
//! waits is the difference between what is due and what was taken, so a queue of any length needs
//! no memory.

use std::collections::VecDeque;
use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use thalweg_sys::Instant;

use crate::plan::RateProfile;
use crate::replay::{Feed, RecordedRequest};

/// The arrivals of one thread.
#[derive(Debug)]
pub enum Arrivals {
    /// On a schedule.
    Open(OpenLoop),
    /// At recorded times, with their requests.
    Recorded(RecordedLoop),
    /// On responses.
    Closed(ClosedLoop),
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it is due.
    pub at: Instant,
    /// Since when that is known, if it is not part of a plan.
    pub known: Instant,
}

/// A thread's share of a schedule: it has number `thread` of every `threads` arrivals of an even or
/// recorded schedule, and a Poisson process of its own at its part of the rate. Sums of such
/// processes are Poisson processes.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    /// Which thread, from 0.
    pub thread: usize,
    /// Of how many.
    pub threads: usize,
    /// Seed of the whole schedule.
    pub seed: u64,
}

/// Arrivals that do not wait for responses.
#[derive(Debug)]
pub struct OpenLoop {
    start: Instant,
    /// The next arrival that has not come due, and how many of the measured part have.
    coming: Timeline,
    due: u64,
    due_measured: u64,
    /// The next arrival that was not taken, and how many were.
    untaken: Timeline,
    taken: u64,
}

/// The arrivals of a schedule in their order, from a place on.
#[derive(Clone, Debug)]
struct Timeline {
    start: Instant,
    next: Option<Arrival>,
    pattern: Pattern,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Number `number` of the schedule, where those before the start are negative, until `end`.
    Even {
        profile: Arc<RateProfile>,
        number: i64,
        stride: i64,
        end: i64,
    },
    Poisson(Poisson),
}

/// A Poisson process, made at the rate of one and stretched over the profile.
#[derive(Clone, Debug)]
struct Poisson {
    profile: Arc<RateProfile>,
    random: Pcg64Mcg,
    threads: f64,
    /// Its position and its end, in arrivals of the whole schedule from its start.
    at: f64,
    end: f64,
    /// If the number of arrivals is given, how many are left: then they lie as that many of a
    /// Poisson process do over its length, which is evenly distributed and in order.
    left: Option<u64>,
}

impl OpenLoop {
    /// The share of a schedule with `total` arrivals from `start` on, and `warmup` before it in the
    /// same rhythm.
    pub fn even(start: Instant, profile: Arc<RateProfile>, warmup: u64, total: u64, share: Share) -> Self {
        let (thread, stride) = (share.thread as i64, share.threads as i64);
        let number = thread - warmup as i64;
        Self::over(start, Pattern::Even { profile, number, stride, end: total as i64 })
    }

    /// The share of a Poisson process over so many mean arrivals before and after `start`. With
    /// `exactly`, there are as many as that after the start.
    pub fn poisson(
        start: Instant,
        profile: Arc<RateProfile>,
        warmup: f64,
        mean: f64,
        exactly: Option<u64>,
        share: Share,
    ) -> Self {
        let Share { thread, threads, seed } = share;
        let left = exactly.map(|total| total / threads as u64 + u64::from((thread as u64) < total % threads as u64));
        let random = Pcg64Mcg::seed_from_u64(seed.rotate_left(32) ^ thread as u64);
        let threads = threads as f64;
        Self::over(start, Pattern::Poisson(Poisson { profile, random, threads, at: -warmup, end: mean, left }))
    }

    fn over(start: Instant, pattern: Pattern) -> Self {
        let mut coming = Timeline { start, next: None, pattern };
        coming.advance();
        let untaken = coming.clone();
        Self { start, coming, due: 0, due_measured: 0, untaken, taken: 0 }
    }

    /// Passes by the arrivals that are due until `now`.
    fn advance_to(&mut self, now: Instant) {
        while let Some(arrival) = self.coming.next.filter(|arrival| arrival.at <= now) {
            self.due += 1;
            self.due_measured += u64::from(arrival.at >= self.start);
            self.coming.advance();
        }
    }
}

/// Arrivals at recorded times, which come while they are served.
#[derive(Debug)]
pub struct RecordedLoop {
    start: Instant,
    feed: Feed,
    due: u64,
    taken: u64,
}

impl RecordedLoop {
    /// A thread's share of a recorded schedule that begins at `start`.
    pub fn new(start: Instant, feed: Feed) -> Self {
        Self { start, feed, due: 0, taken: 0 }
    }

    fn next(&self) -> Option<Instant> {
        self.feed.next_ns().map(|ns| self.start.plus_ns(ns))
    }

    fn advance_to(&mut self, now: Instant) {
        self.due += self.feed.advance_to(self.start, now);
    }
}

impl Timeline {
    fn advance(&mut self) {
        let from_start = |ns: i64| Instant::from_ns(self.start.as_ns().saturating_add_signed(ns));
        self.next = match &mut self.pattern {
            Pattern::Even { profile, number, stride, end } => {
                let at = (*number < *end).then(|| from_start(profile.due_ns(*number as f64)));
                *number += *stride;
                at.map(|at| Arrival { at, known: Instant::default() })
            }
            Pattern::Poisson(poisson) => {
                poisson.step().map(|ns| Arrival { at: from_start(ns), known: Instant::default() })
            }
        };
    }
}

impl Poisson {
    /// When the next arrival is due, in nanoseconds from the start.
    fn step(&mut self) -> Option<i64> {
        // In (0, 1], so that its logarithm is finite.
        let uniform = |random: &mut Pcg64Mcg| 1.0 - random.random::<f64>();
        let begun = self.at >= 0.0;
        if !begun || self.left.is_none() {
            self.at -= uniform(&mut self.random).ln() * self.threads;
        }
        if let Some(left) = self.left.as_mut().filter(|_| self.at >= 0.0) {
            let from = if begun { self.at } else { 0.0 };
            let remaining = (*left > 0).then_some(*left)?;
            *left -= 1;
            // The smallest of so many evenly distributed over what is left.
            self.at = self.end - (self.end - from) * uniform(&mut self.random).powf(1.0 / remaining as f64);
        }
        (self.at < self.end).then(|| self.profile.due_ns(self.at))
    }
}

/// Arrivals that follow responses: each worker's next request is due `think` after its last one has
/// ended.
#[derive(Debug)]
pub struct ClosedLoop {
    /// When the workers that have not yet begun will, in ascending order.
    beginning: VecDeque<Instant>,
    /// When the others that do not wait for a response will ask, in ascending order, since all
    /// think equally long.
    ready: VecDeque<Instant>,
    think_ns: u64,
    /// The measured part: when it begins, how many requests it still has, and when none begins any
    /// more.
    start: Instant,
    left: u64,
    end: Instant,
    taken_measured: u64,
}

impl ClosedLoop {
    /// `workers` workers that begin at `warmup`. From `start` on they send at most `total` requests
    /// together, and none at or after `end`.
    pub fn new(warmup: Instant, start: Instant, end: Instant, workers: usize, think_ns: u64, total: u64) -> Self {
        let beginning = std::iter::repeat_n(warmup, workers).collect();
        Self { beginning, ready: VecDeque::new(), think_ns, start, left: total, end, taken_measured: 0 }
    }

    /// Lets the workers begin at random times within `stagger_ns`.
    #[must_use]
    pub fn staggered(mut self, stagger_ns: u64, share: Share) -> Self {
        if stagger_ns > 0 {
            let mut random = Pcg64Mcg::seed_from_u64(share.seed.rotate_left(32) ^ share.thread as u64);
            for at in &mut self.beginning {
                *at = at.plus_ns(random.random_range(0..stagger_ns));
            }
            self.beginning.make_contiguous().sort_unstable();
        }
        self
    }

    fn next(&self) -> Option<Instant> {
        let at = match (self.beginning.front(), self.ready.front()) {
            (None, None) => return None,
            (Some(&at), None) | (None, Some(&at)) => at,
            (Some(&beginning), Some(&ready)) => beginning.min(ready),
        };
        (at < self.end && (at < self.start || self.left > 0)).then_some(at)
    }

    fn pop(&mut self) {
        let begins = match (self.beginning.front(), self.ready.front()) {
            (Some(beginning), Some(ready)) => beginning <= ready,
            (beginning, _) => beginning.is_some(),
        };
        if begins {
            self.beginning.pop_front()
        } else {
            self.ready.pop_front()
        };
    }

    fn waiting(&self, now: Instant) -> impl Iterator<Item = Instant> {
        let due = move |queue: &VecDeque<Instant>| queue.partition_point(|&at| at <= now && at < self.end);
        let (beginning, ready) = (due(&self.beginning), due(&self.ready));
        self.beginning.iter().take(beginning).chain(self.ready.iter().take(ready)).copied()
    }
}

impl Arrivals {
    /// When the next arrival that was not taken yet is due; `None` if there will be none. In a
    /// closed loop a response may bring one all the same.
    pub fn next(&self) -> Option<Instant> {
        match self {
            Self::Open(open) => open.untaken.next.map(|arrival| arrival.at),
            Self::Recorded(recorded) => recorded.next(),
            Self::Closed(closed) => closed.next(),
        }
    }

    /// Takes the next arrival, to be served or given up.
    ///
    /// # Panics
    /// There is none.
    pub fn take(&mut self) -> Arrival {
        match self {
            Self::Open(open) => {
                let arrival = open.untaken.next.expect("there is an arrival to take");
                open.untaken.advance();
                open.taken += 1;
                arrival
            }
            Self::Recorded(recorded) => {
                let at = recorded.next().expect("there is an arrival to take");
                recorded.feed.take();
                recorded.taken += 1;
                Arrival { at, known: recorded.feed.read_at() }
            }
            Self::Closed(closed) => {
                let at = closed.next().expect("there is an arrival to take");
                closed.pop();
                if at >= closed.start {
                    closed.left -= 1;
                    closed.taken_measured += 1;
                }
                Arrival { at, known: Instant::default() }
            }
        }
    }

    /// The request of the arrival that was taken last, if that is part of the schedule.
    pub(crate) fn taken_request(&self) -> Option<RecordedRequest<'_>> {
        if let Self::Recorded(recorded) = self { Some(recorded.feed.taken()) } else { None }
    }

    /// Whether there are arrivals of which it is not known yet when they are due: the log has not
    /// been read so far.
    pub(crate) fn is_behind(&self) -> bool {
        matches!(self, Self::Recorded(recorded) if recorded.feed.next_ns().is_none() && recorded.feed.left() > 0)
    }

    /// Gives up the arrivals that have not been taken, of which it may not be known when they are
    /// due. Returns how many there were.
    pub(crate) fn give_up_unread(&mut self) -> u64 {
        let Self::Recorded(recorded) = self else { return 0 };
        let left = recorded.feed.give_up();
        recorded.taken += left;
        left
    }

    /// Notes that an arrival that was taken has ended.
    pub fn on_end(&mut self, now: Instant) {
        if let Self::Closed(closed) = self {
            closed.ready.push_back(now.plus_ns(closed.think_ns));
        }
    }

    /// Has the workers of a closed loop go on until `end`.
    pub(crate) fn end_at(&mut self, end: Instant) {
        if let Self::Closed(closed) = self {
            closed.end = end;
        }
    }

    /// How many arrivals are kept in memory: none of a schedule, one per worker of a closed loop.
    pub(crate) fn entries(&self) -> usize {
        match self {
            Self::Open(_) | Self::Recorded(_) => 0,
            Self::Closed(closed) => closed.beginning.len() + closed.ready.len(),
        }
    }

    /// How many arrivals of the measured part have been due until `now`, taken or not.
    pub fn offered(&mut self, now: Instant) -> u64 {
        match self {
            Self::Open(open) => {
                open.advance_to(now);
                open.due_measured
            }
            // A recording has no warm-up.
            Self::Recorded(recorded) => {
                recorded.advance_to(now);
                recorded.due
            }
            Self::Closed(closed) => {
                let waiting = closed.waiting(now).filter(|&at| at >= closed.start).count() as u64;
                closed.taken_measured + waiting.min(closed.left)
            }
        }
    }

    /// How many are due and not taken.
    pub fn waiting(&mut self, now: Instant) -> u64 {
        match self {
            Self::Open(open) => {
                open.advance_to(now);
                open.due.saturating_sub(open.taken)
            }
            Self::Recorded(recorded) => {
                recorded.advance_to(now);
                recorded.due.saturating_sub(recorded.taken)
            }
            Self::Closed(closed) => {
                let (mut warmup, mut measured) = (0, 0);
                closed.waiting(now).for_each(|at| if at < closed.start { warmup += 1 } else { measured += 1 });
                warmup + closed.left.min(measured)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::{OpenLog, Recording, ReplayHead, ReplayOrders};

    const START: Instant = Instant::from_ns(1_000_000);

    fn share(thread: usize, threads: usize) -> Share {
        Share { thread, threads, seed: 7 }
    }

    fn constant(rate: f64) -> Arc<RateProfile> {
        Arc::new(RateProfile::constant(rate))
    }

    fn open(rate: f64, total: u64, thread: usize, threads: usize) -> Arrivals {
        Arrivals::Open(OpenLoop::even(START, constant(rate), 0, total, share(thread, threads)))
    }

    /// The times of all arrivals, in nanoseconds from the start.
    fn all(mut arrivals: Arrivals) -> Vec<i64> {
        let take = |arrivals: &mut Arrivals| arrivals.next().map(|_| arrivals.take().at);
        std::iter::from_fn(|| take(&mut arrivals).map(|at| at.as_ns() as i64 - START.as_ns() as i64)).collect()
    }

    #[test]
    fn arrivals_keep_to_the_rate_without_drift() {
        let times = all(open(3.0, 31, 0, 1));
        assert_eq!(times.len(), 31);
        assert_eq!((times[1], times[3], times[30]), (333_333_333, 1_000_000_000, 10_000_000_000));
    }

    #[test]
    fn the_shares_of_all_cores_are_the_whole_schedule() {
        for (rate, total, threads) in [(5000.0, 1001, 1), (5000.0, 1001, 3), (0.7, 5, 4), (123_456.7, 2, 8)] {
            let mut together: Vec<i64> =
                (0..threads).flat_map(|thread| all(open(rate, total, thread, threads))).collect();
            together.sort_unstable();
            assert_eq!(together, all(open(rate, total, 0, 1)), "rate {rate}, {total} arrivals, {threads} threads");
        }
    }

    #[test]
    fn due_entries_are_those_that_can_be_taken() {
        let poisson = |exactly| OpenLoop::poisson(START, constant(300.0), 0.0, 100.0, exactly, share(0, 1));
        let text = "h - - [10/Oct/2025:13:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n".repeat(2000);
        let log: OpenLog = Box::new(move || Ok(Box::new(std::io::Cursor::new(text.clone()))));
        let head = ReplayHead { authority: "h", version: thalweg_wire::Version::Http11, fields: &[] };
        let recording = Arc::new(Recording::scan("log", log, &ReplayOrders::at_speed(4.0), &head, None).unwrap());
        let recorded = Arrivals::Recorded(RecordedLoop::new(START, Feed::whole(&recording, 1, 3)));
        for (name, mut arrivals) in [
            ("1000/s", open(1000.0, 100, 0, 1)),
            ("a third", open(333.3, 100, 1, 3)),
            ("slow", open(7.0, 100, 2, 5)),
            ("fast", open(1e6, 100, 0, 2)),
            ("Poisson", Arrivals::Open(poisson(None))),
            ("so many of Poisson", Arrivals::Open(poisson(Some(100)))),
            ("recorded", recorded),
        ] {
            let mut taken = 0;
            for step in 0..400u64 {
                let now = START.plus_ns(step * 777_777);
                let (due, waiting) = (arrivals.offered(now), arrivals.waiting(now));
                let before = taken;
                while arrivals.next().is_some_and(|at| at <= now) {
                    arrivals.take();
                    taken += 1;
                }
                assert_eq!((taken, taken - before), (due, waiting), "{name}, step {step}");
                assert_eq!(arrivals.waiting(now), 0);
            }
        }
    }

    #[test]
    fn the_warm_up_keeps_the_rhythm_and_is_not_offered() {
        let new = || Arrivals::Open(OpenLoop::even(START, constant(1e4), 3, 2, share(0, 1)));
        assert_eq!(all(new()), [-300_000, -200_000, -100_000, 0, 100_000]);
        assert_eq!(new().offered(START.plus_ns(u64::from(u32::MAX))), 2);
        assert_eq!(new().offered(Instant::from_ns(START.as_ns() - 1)), 0);
    }

    #[test]
    fn a_schedule_of_the_same_seed_is_the_same() {
        let times = |seed| {
            all(Arrivals::Open(OpenLoop::poisson(START, constant(1e3), 0.0, 1e3, None, Share { seed, ..share(0, 1) })))
        };
        assert_eq!(times(1), times(1));
        assert_ne!(times(1), times(2));
    }

    #[test]
    fn the_gaps_of_a_poisson_process_are_exponential() {
        // Over all threads: 100,000 arrivals at 1000/s. The bounds are five standard errors.
        for exactly in [None, Some(100_000)] {
            let mut times: Vec<i64> = (0..3)
                .flat_map(|thread| {
                    all(Arrivals::Open(OpenLoop::poisson(START, constant(1e3), 0.0, 1e5, exactly, share(thread, 3))))
                })
                .collect();
            times.sort_unstable();
            let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e6).collect();
            let count = gaps.len() as f64;
            assert!((count - 1e5).abs() < 5.0 * 1e5f64.sqrt(), "{count} arrivals");
            assert!(exactly.is_none_or(|exactly| times.len() as u64 == exactly));
            let mean = gaps.iter().sum::<f64>() / count;
            let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / count;
            assert!((mean - 1.0).abs() < 5.0 / count.sqrt(), "mean {mean}");
            assert!((variance - 1.0).abs() < 5.0 * (8.0 / count).sqrt(), "variance {variance}");
            // Kolmogorov-Smirnov against 1 - exp(-x); 1.95 is the bound for one in a thousand.
            let mut sorted = gaps;
            sorted.sort_unstable_by(f64::total_cmp);
            let distance =
                sorted.iter().enumerate().map(|(rank, gap)| (rank as f64 / count - (1.0 - (-gap).exp())).abs());
            let distance = distance.fold(0.0, f64::max);
            assert!(distance < 1.95 / count.sqrt(), "distance {distance}");
        }
    }

    #[test]
    fn a_poisson_process_follows_its_ramp() {
        let profile =
            Arc::new("0/s..2000/s".parse::<crate::RateText>().unwrap().over(std::time::Duration::from_secs(10)));
        let times = all(Arrivals::Open(OpenLoop::poisson(START, profile, 0.0, 1e4, None, share(0, 1))));
        let first_half = times.iter().filter(|&&at| at < 5_000_000_000).count() as f64;
        assert!((first_half - 2500.0).abs() < 5.0 * 2500f64.sqrt(), "{first_half} of 2500");
    }

    #[test]
    fn a_poisson_warm_up_comes_before_the_start() {
        for exactly in [None, Some(50)] {
            let times = all(Arrivals::Open(OpenLoop::poisson(START, constant(1e6), 100.0, 50.0, exactly, share(0, 1))));
            let warmup = times.iter().filter(|&&at| at < 0).count();
            assert!((50..150).contains(&warmup), "{warmup} of 100");
            assert!(times.is_sorted());
            assert!(exactly.is_none_or(|exactly| times.len() - warmup == exactly as usize));
        }
    }

    fn closed(warmup: Instant, start: Instant, end: Instant, think_ns: u64, workers: usize, total: u64) -> Arrivals {
        Arrivals::Closed(ClosedLoop::new(warmup, start, end, workers, think_ns, total))
    }

    #[test]
    fn workers_think_between_a_response_and_the_next_request() {
        let end = START.plus_ns(1_000);
        let mut arrivals = closed(START, START, end, 100, 2, 3);
        assert_eq!(arrivals.waiting(START), 2);
        assert_eq!((arrivals.take().at, arrivals.take().at), (START, START));
        assert_eq!(arrivals.next(), None);
        arrivals.on_end(START.plus_ns(50));
        assert_eq!(arrivals.next(), Some(START.plus_ns(150)));
        assert_eq!(arrivals.waiting(START.plus_ns(149)), 0);
        arrivals.take();
        arrivals.on_end(START.plus_ns(160));
        assert_eq!(arrivals.next(), None, "the number of requests is used up");
        assert_eq!(arrivals.offered(end), 3);
    }

    #[test]
    fn a_closed_loop_s_warm_up_does_not_use_up_its_requests() {
        let start = START.plus_ns(1_000);
        let mut arrivals = closed(START, start, start.plus_ns(500), 0, 1, 1);
        for ns in [0, 400, 800] {
            assert_eq!(arrivals.take().at, START.plus_ns(ns));
            arrivals.on_end(START.plus_ns(ns + 400));
        }
        assert_eq!(arrivals.offered(START.plus_ns(1_200)), 1);
        assert_eq!(arrivals.take().at, START.plus_ns(1_200));
        arrivals.on_end(START.plus_ns(1_210));
        assert_eq!(arrivals.next(), None);
    }

    #[test]
    fn no_worker_begins_after_the_end() {
        let end = START.plus_ns(100);
        let mut arrivals = closed(START, START, end, 100, 1, u64::MAX);
        arrivals.take();
        arrivals.on_end(START);
        assert_eq!(arrivals.next(), None);
    }

    #[test]
    fn staggered_workers_begin_in_order_between_the_others_requests() {
        let end = START.plus_ns(u64::from(u32::MAX));
        let workers = ClosedLoop::new(START, START, end, 100, 1, u64::MAX).staggered(1_000, share(0, 1));
        let mut arrivals = Arrivals::Closed(workers);
        let mut last = START;
        for _ in 0..1_000 {
            let at = arrivals.take().at;
            assert!(at >= last, "in order");
            last = at;
            arrivals.on_end(at.plus_ns(99));
        }
        assert!(last > START.plus_ns(1_000));
    }
}
