//! When requests are due: schedules as pure functions of their parameters and of the time that is passed in.
//!
//! An arrival that cannot be served at once, because every connection is busy, stays here: what waits is the difference between
//! what is due and what was taken, so a queue of any length needs no memory.

use std::collections::VecDeque;

use thalweg_sys::Instant;

/// The arrivals of one thread.
#[derive(Debug)]
pub enum Arrivals {
    /// At a rate.
    Open(OpenLoop),
    /// On answers.
    Closed(ClosedLoop),
}

/// Arrivals at a constant rate: number `n` of the measured part is due at `start + n / rate`, those of the warm-up come before
/// it in the same rhythm. A thread has every `stride`-th of them.
#[derive(Debug)]
pub struct OpenLoop {
    start: Instant,
    period_ns: f64,
    /// Arrivals of the whole run before `start`.
    warmup: u64,
    first: u64,
    stride: u64,
    /// This thread's arrivals: before `start`, in all, and taken so far.
    own_warmup: u64,
    own: u64,
    taken: u64,
}

impl OpenLoop {
    /// The share `core` of `cores` of a schedule with `total` arrivals from `start` on, at `rate` per second, and `warmup` before.
    pub fn new(start: Instant, rate: f64, warmup: u64, total: u64, core: usize, cores: usize) -> Self {
        let (first, stride) = (core as u64, cores as u64);
        let share = |arrivals: u64| arrivals.saturating_sub(first).div_ceil(stride);
        let (own_warmup, own) = (share(warmup), share(warmup + total));
        Self { start, period_ns: 1e9 / rate, warmup, first, stride, own_warmup, own, taken: 0 }
    }

    /// When this thread's arrival number `n` is due.
    fn at(&self, n: u64) -> Instant {
        let number = (self.first + n * self.stride) as i64 - self.warmup as i64;
        // Exact to the nanosecond up to 2^53 ns, 104 days.
        let offset_ns = (number as f64 * self.period_ns).round() as i64;
        Instant::from_ns(self.start.as_ns().saturating_add_signed(offset_ns))
    }

    /// How many of this thread's arrivals have been due until `now`.
    fn due(&self, now: Instant) -> u64 {
        let elapsed_ns = now.as_ns() as f64 - self.start.as_ns() as f64;
        let whole = (elapsed_ns / self.period_ns).floor() as i64 + self.warmup as i64 + 1;
        // The quotient is off by one at most, by rounding; the schedule itself decides.
        let mut due = u64::try_from(whole).unwrap_or(0).saturating_sub(self.first).div_ceil(self.stride).min(self.own);
        while due > 0 && self.at(due - 1) > now {
            due -= 1;
        }
        while due < self.own && self.at(due) <= now {
            due += 1;
        }
        due
    }
}

/// Arrivals that follow answers: each worker's next request is due `think` after its last one has ended.
#[derive(Debug)]
pub struct ClosedLoop {
    /// When the workers that do not wait for an answer will ask, in ascending order, since all think equally long.
    ready: VecDeque<Instant>,
    think_ns: u64,
    /// The measured part: when it begins, how many requests it still has, and when none begins any more.
    start: Instant,
    left: u64,
    end: Instant,
    taken: u64,
    taken_measured: u64,
}

impl ClosedLoop {
    /// `workers` who all begin at `warmup`. From `start` on they ask at most `total` times together, and not at or after `end`.
    pub fn new(warmup: Instant, start: Instant, end: Instant, workers: usize, think_ns: u64, total: u64) -> Self {
        let ready = std::iter::repeat_n(warmup, workers).collect();
        Self { ready, think_ns, start, left: total, end, taken: 0, taken_measured: 0 }
    }

    fn next(&self) -> Option<Instant> {
        let may_begin = |at: Instant| at < self.end && (at < self.start || self.left > 0);
        self.ready.front().copied().filter(|&at| may_begin(at))
    }

    fn waiting(&self, now: Instant) -> impl Iterator<Item = Instant> {
        self.ready.iter().copied().take_while(move |&at| at <= now && at < self.end)
    }
}

impl Arrivals {
    /// When the next arrival that was not taken yet is due; `None` if there will be none. In a closed loop an answer may bring
    /// one all the same.
    pub fn next(&self) -> Option<Instant> {
        match self {
            Self::Open(open) => (open.taken < open.own).then(|| open.at(open.taken)),
            Self::Closed(closed) => closed.next(),
        }
    }

    /// Takes the next arrival, to be served or given up.
    ///
    /// # Panics
    /// There is none.
    pub fn take(&mut self) -> Instant {
        let next = self.next().expect("there is an arrival to take");
        match self {
            Self::Open(open) => open.taken += 1,
            Self::Closed(closed) => {
                closed.ready.pop_front();
                closed.taken += 1;
                if next >= closed.start {
                    closed.left -= 1;
                    closed.taken_measured += 1;
                }
            }
        }
        next
    }

    /// Notes that an arrival that was taken has ended.
    pub fn on_end(&mut self, now: Instant) {
        if let Self::Closed(closed) = self {
            closed.ready.push_back(now.plus_ns(closed.think_ns));
        }
    }

    /// How many arrivals of the measured part have been due until `now`, taken or not.
    pub fn offered(&self, now: Instant) -> u64 {
        match self {
            Self::Open(open) => open.due(now).saturating_sub(open.own_warmup),
            Self::Closed(closed) => {
                let waiting = closed.waiting(now).filter(|&at| at >= closed.start).count() as u64;
                closed.taken_measured + waiting.min(closed.left)
            }
        }
    }

    /// How many are due and not taken.
    pub fn waiting(&self, now: Instant) -> u64 {
        match self {
            Self::Open(open) => open.due(now).saturating_sub(open.taken),
            Self::Closed(closed) => closed.waiting(now).count() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant::from_ns(1_000_000);

    fn open(rate: f64, total: u64, core: usize, cores: usize) -> Arrivals {
        Arrivals::Open(OpenLoop::new(START, rate, 0, total, core, cores))
    }

    #[test]
    fn arrivals_keep_to_the_rate_without_drift() {
        let mut arrivals = open(3.0, 31, 0, 1);
        let times: Vec<u64> = std::iter::from_fn(|| arrivals.next().map(|_| arrivals.take().ns_since(START))).collect();
        assert_eq!(times.len(), 31);
        assert_eq!(times[1], 333_333_333);
        assert_eq!(times[3], 1_000_000_000);
        assert_eq!(times[30], 10_000_000_000);
    }

    #[test]
    fn the_shares_of_all_cores_are_the_whole_schedule() {
        for (rate, total, cores) in [(5000.0, 1001, 1), (5000.0, 1001, 3), (0.7, 5, 4), (123_456.7, 2, 8)] {
            let mut together = Vec::new();
            for core in 0..cores {
                let mut share = open(rate, total, core, cores);
                while share.next().is_some() {
                    together.push(share.take());
                }
            }
            together.sort_unstable();
            let mut whole = open(rate, total, 0, 1);
            let expected: Vec<Instant> = std::iter::from_fn(|| whole.next().map(|_| whole.take())).collect();
            assert_eq!(together, expected, "rate {rate}, {total} arrivals, {cores} cores");
        }
    }

    #[test]
    fn what_is_due_is_what_can_be_taken() {
        for (rate, core, cores) in [(1000.0, 0, 1), (333.3, 1, 3), (7.0, 2, 5), (1e6, 0, 2)] {
            let mut arrivals = open(rate, 100, core, cores);
            let mut taken = 0;
            for step in 0..400u64 {
                let now = START.plus_ns(step * 777_777);
                let (due, waiting) = (arrivals.offered(now), arrivals.waiting(now));
                let before = taken;
                while arrivals.next().is_some_and(|at| at <= now) {
                    arrivals.take();
                    taken += 1;
                }
                assert_eq!((taken, taken - before), (due, waiting), "rate {rate}, core {core} of {cores}, step {step}");
                assert_eq!(arrivals.waiting(now), 0);
            }
        }
    }

    #[test]
    fn the_warm_up_keeps_the_rhythm_and_is_not_offered() {
        let start = START.plus_ns(1_000_000_000);
        let mut arrivals = Arrivals::Open(OpenLoop::new(start, 100.0, 3, 2, 0, 1));
        let times: Vec<i64> = std::iter::from_fn(|| {
            arrivals.next()?;
            Some(arrivals.take().as_ns() as i64 - start.as_ns() as i64)
        })
        .collect();
        assert_eq!(times, [-30_000_000, -20_000_000, -10_000_000, 0, 10_000_000]);
        assert_eq!(arrivals.offered(start.plus_ns(u64::from(u32::MAX))), 2);
        assert_eq!(arrivals.offered(Instant::from_ns(start.as_ns() - 1)), 0);
    }

    #[test]
    fn workers_think_between_an_answer_and_the_next_request() {
        let end = START.plus_ns(1_000);
        let mut arrivals = Arrivals::Closed(ClosedLoop::new(START, START, end, 2, 100, 3));
        assert_eq!(arrivals.waiting(START), 2);
        assert_eq!((arrivals.take(), arrivals.take()), (START, START));
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
        let mut arrivals = Arrivals::Closed(ClosedLoop::new(START, start, start.plus_ns(500), 1, 0, 1));
        for ns in [0, 400, 800] {
            assert_eq!(arrivals.take(), START.plus_ns(ns));
            arrivals.on_end(START.plus_ns(ns + 400));
        }
        assert_eq!(arrivals.offered(START.plus_ns(1_200)), 1);
        assert_eq!(arrivals.take(), START.plus_ns(1_200));
        arrivals.on_end(START.plus_ns(1_210));
        assert_eq!(arrivals.next(), None);
    }

    #[test]
    fn no_worker_begins_after_the_end() {
        let end = START.plus_ns(100);
        let mut arrivals = Arrivals::Closed(ClosedLoop::new(START, START, end, 1, 100, u64::MAX));
        arrivals.take();
        arrivals.on_end(START);
        assert_eq!(arrivals.next(), None);
    }
}
