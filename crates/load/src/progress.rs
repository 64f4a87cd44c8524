//! The progress of a run: counters that its threads publish, and the request to stop that they
//! obey.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use thalweg_measure::trial::{RedirectSample, SoFar};
use thalweg_measure::{Course, IntervalPart, Outcome};
use thalweg_sys::Instant;

/// The progress of a run, shared between its threads and an observer.
#[derive(Debug)]
pub struct Progress {
    threads: Box<[ThreadProgress]>,
    stop: AtomicBool,
    /// Requests that end before this time are left out, in nanoseconds of the clock.
    left_out_until_ns: AtomicU64,
    /// By how much the measured part goes on beyond its length, in nanoseconds, and whether that is
    /// settled ([`SETTLED`]).
    extension_ns: AtomicU64,
    /// The first redirect that was not followed.
    redirect: OnceLock<RedirectSample>,
}

/// The bit of an extension that is not changed any more, since a thread has ended.
const SETTLED: u64 = 1 << 63;

/// One thread's counters, on cache lines of their own.
#[derive(Debug, Default)]
#[repr(align(128))]
struct ThreadProgress {
    offered: AtomicU64,
    good: AtomicU64,
    connections: AtomicU64,
    errors: AtomicU64,
    measured_ns: AtomicU64,
    lost_ns: AtomicU64,
    missing: AtomicU64,
    response_ns: AtomicU64,
    over: [AtomicU64; OVER],
    first_ends: AtomicU64,
    /// Intervals that have ended and that the observer has not moved yet.
    intervals: Mutex<Vec<IntervalPart>>,
}

/// How many limits are counted against.
const OVER: usize = SoFar::COUNTED_MAX;

/// Counters of the measured part so far, over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Requests offered.
    pub offered: u64,
    /// Good responses.
    pub good: u64,
    /// Requests that have failed.
    pub errors: u64,
    /// Connections open.
    pub connections: u64,
    /// How much of the measured part is over.
    pub measured: Duration,
    /// How much of that is left out because something else kept the threads from running.
    pub lost: Duration,
    /// The counts that may make FAIL certain.
    pub so_far: SoFar,
    /// How the first requests have ended.
    pub first_ends: FirstEnds,
}

/// How the first requests of a run have ended, or of one thread's share, those of the warm-up among
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstEnds {
    /// Requests that have ended, up to [`COUNTED_MAX`](Self::COUNTED_MAX) of each thread.
    pub ended: u32,
    /// Good ones among them.
    pub good: u32,
    /// How the first bad one has ended, with the status of its response, or 0 where there was none.
    pub bad: Option<(Outcome, u16)>,
}

impl FirstEnds {
    /// How many of each thread are looked at.
    pub const COUNTED_MAX: u32 = 10;

    /// Notes how a request has ended, if it is one of the first.
    #[inline]
    pub(crate) fn record(&mut self, outcome: Outcome, status: u16) {
        if self.ended < Self::COUNTED_MAX {
            self.ended += 1;
            match outcome {
                Outcome::Good => self.good += 1,
                bad => self.bad = self.bad.or(Some((bad, status))),
            }
        }
    }

    /// Whether as many as are looked at have ended, and all of them badly.
    pub fn are_all_bad(&self) -> bool {
        self.ended >= Self::COUNTED_MAX && self.good == 0
    }

    fn merge(self, other: Self) -> Self {
        Self { ended: self.ended + other.ended, good: self.good + other.good, bad: self.bad.or(other.bad) }
    }

    /// Both counts, the outcome by its place and the status, in one word.
    fn packed(self) -> u64 {
        let bad = self.bad.map_or(0, |(outcome, status)| ((outcome as u64 + 1) << 16) | u64::from(status));
        (bad << 16) | u64::from((self.ended << 8) | self.good)
    }

    fn unpacked(packed: u64) -> Self {
        let bad = packed >> 16;
        let outcome = ((bad >> 16) as usize).checked_sub(1).and_then(|place| Outcome::ALL.get(place).copied());
        Self {
            ended: (packed >> 8) as u32 & 0xff,
            good: packed as u32 & 0xff,
            bad: outcome.map(|outcome| (outcome, bad as u16)),
        }
    }
}

impl Progress {
    /// For so many threads.
    pub fn new(threads: usize) -> Self {
        Self {
            threads: (0..threads).map(|_| ThreadProgress::default()).collect(),
            stop: AtomicBool::new(false),
            left_out_until_ns: AtomicU64::new(0),
            extension_ns: AtomicU64::new(0),
            redirect: OnceLock::new(),
        }
    }

    /// Requests all threads to end the run now.
    pub fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// The counters as the threads published them last, a few hundredths of a second ago.
    pub fn snapshot(&self) -> Snapshot {
        let sum = |field: &dyn Fn(&ThreadProgress) -> &AtomicU64| -> u64 {
            self.threads.iter().map(|thread| field(thread).load(Ordering::Relaxed)).sum()
        };
        let max = |field: &dyn Fn(&ThreadProgress) -> &AtomicU64| {
            let ns = self.threads.iter().map(|thread| field(thread).load(Ordering::Relaxed)).max();
            Duration::from_nanos(ns.unwrap_or(0))
        };
        let errors = sum(&|thread| &thread.errors);
        let first_ends = self.threads.iter().map(|thread| thread.first_ends.load(Ordering::Relaxed));
        Snapshot {
            offered: sum(&|thread| &thread.offered),
            good: sum(&|thread| &thread.good),
            errors,
            connections: sum(&|thread| &thread.connections),
            measured: max(&|thread| &thread.measured_ns),
            lost: max(&|thread| &thread.lost_ns),
            so_far: SoFar {
                errors,
                missing: sum(&|thread| &thread.missing),
                response_ns: sum(&|thread| &thread.response_ns),
                over: std::array::from_fn(|limit| sum(&|thread| &thread.over[limit])),
            },
            first_ends: first_ends.map(FirstEnds::unpacked).fold(FirstEnds::default(), FirstEnds::merge),
        }
    }

    /// Moves the intervals that have ended into the course of the run. There are none unless the
    /// plan has them observed.
    pub fn move_intervals(&self, course: &mut Course) {
        for (thread, progress) in self.threads.iter().enumerate() {
            let mut intervals = progress.intervals.lock().unwrap_or_else(PoisonError::into_inner);
            let ended = std::mem::take(&mut *intervals);
            drop(intervals);
            course.add(thread, ended);
        }
    }

    /// How many threads there are.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Has the measured part go on for so much longer than its length, if no thread has come to its
    /// end. What the plan allows for bounds it.
    pub fn extend_by(&self, extension: Duration) {
        let wanted = u64::try_from(extension.as_nanos()).unwrap_or(u64::MAX).min(SETTLED - 1);
        let grow = |ns: u64| (ns & SETTLED == 0 && ns < wanted).then_some(wanted);
        // Refused is as good as settled.
        let _ = self.extension_ns.fetch_update(Ordering::AcqRel, Ordering::Acquire, grow);
    }

    /// The extension, for good.
    pub(crate) fn settle_extension(&self) -> Duration {
        Duration::from_nanos(self.extension_ns.fetch_or(SETTLED, Ordering::AcqRel) & !SETTLED)
    }

    /// The extension as it is now.
    pub(crate) fn extension(&self) -> Duration {
        Duration::from_nanos(self.extension_ns.load(Ordering::Acquire) & !SETTLED)
    }

    /// Has requests that end before `until` left out by all threads.
    pub(crate) fn leave_out(&self, until: Instant) {
        self.left_out_until_ns.fetch_max(until.as_ns(), Ordering::Relaxed);
    }

    /// Requests that end before this time are left out.
    #[inline]
    pub(crate) fn left_out_until(&self) -> Instant {
        Instant::from_ns(self.left_out_until_ns.load(Ordering::Relaxed))
    }

    /// The first redirect that was not followed, if there was one.
    pub fn redirect(&self) -> Option<&RedirectSample> {
        self.redirect.get()
    }

    pub(crate) fn note_redirect(&self, sample: &RedirectSample) {
        self.redirect.get_or_init(|| sample.clone());
    }

    pub(crate) fn stop_requested(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Hands intervals over, unless the observer is moving some: a load thread does not wait for
    /// it.
    pub(crate) fn hand_over(&self, thread: usize, ended: &mut Vec<IntervalPart>) {
        if let Ok(mut intervals) = self.threads[thread].intervals.try_lock() {
            intervals.append(ended);
        }
    }

    /// Hands the last intervals over.
    pub(crate) fn hand_over_last(&self, thread: usize, ended: &mut Vec<IntervalPart>) {
        self.threads[thread].intervals.lock().unwrap_or_else(PoisonError::into_inner).append(ended);
    }

    pub(crate) fn publish(&self, thread: usize, seen: Snapshot) {
        let own = &self.threads[thread];
        own.offered.store(seen.offered, Ordering::Relaxed);
        own.good.store(seen.good, Ordering::Relaxed);
        own.connections.store(seen.connections, Ordering::Relaxed);
        own.measured_ns.store(seen.measured.as_nanos() as u64, Ordering::Relaxed);
        own.lost_ns.store(seen.lost.as_nanos() as u64, Ordering::Relaxed);
        own.errors.store(seen.so_far.errors, Ordering::Relaxed);
        own.missing.store(seen.so_far.missing, Ordering::Relaxed);
        own.response_ns.store(seen.so_far.response_ns, Ordering::Relaxed);
        own.first_ends.store(seen.first_ends.packed(), Ordering::Relaxed);
        for (over, count) in own.over.iter().zip(seen.so_far.over) {
            over.store(count, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_ends_of_all_threads_are_seen_together() {
        let progress = Progress::new(2);
        let publish = |thread: usize, ends: &[(Outcome, u16)]| {
            let mut first_ends = FirstEnds::default();
            ends.iter().for_each(|(outcome, status)| first_ends.record(*outcome, *status));
            progress.publish(thread, Snapshot { first_ends, ..Snapshot::default() });
            progress.snapshot().first_ends
        };
        let bad = |count: usize| vec![(Outcome::BadStatus, 403); count];
        let seen = publish(0, &bad(4));
        assert_eq!((seen.ended, seen.bad, seen.are_all_bad()), (4, Some((Outcome::BadStatus, 403)), false));
        assert!(publish(1, &bad(6)).are_all_bad());
        assert!(!publish(1, &[bad(5), vec![(Outcome::Good, 200)]].concat()).are_all_bad(), "one was good");
        let seen = publish(1, &[(Outcome::NotSent, 0); 300]);
        assert_eq!((seen.ended, seen.bad), (14, Some((Outcome::BadStatus, 403))));
        let last = publish(0, &[(Outcome::NotSent, 999)]);
        assert_eq!((last.ended, last.bad), (11, Some((Outcome::NotSent, 999))));
    }
}
