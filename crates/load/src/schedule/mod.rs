//! A thread's schedule once its start is known: its arrivals, the measured part, and counts of
//! both.

use std::sync::Arc;
use std::time::Duration;

use thalweg_measure::IntervalSeries;
use thalweg_sys::Instant;

mod arrivals;
mod oversleep;

pub use self::arrivals::{Arrival, Arrivals, ClosedLoop, OpenLoop, RecordedLoop, Share};
use self::oversleep::Oversleeps;
use crate::figures::ThreadUse;
use crate::plan::{Extent, LoopPlan, Plan, RateProfile, Spacing};
use crate::progress::Progress;
use crate::replay::Feed;

pub(crate) struct Schedule {
    pub(crate) arrivals: Arrivals,
    pub(crate) oversleeps: Oversleeps,
    share: Share,
    /// The measured part. A number of requests has no end in time: then it ends with the last of
    /// them.
    pub(crate) start: Instant,
    pub(crate) end: Option<Instant>,
    /// After this, what still waits is not sent any more.
    pub(crate) drain_end: Option<Instant>,
    drain: Duration,
    /// The end without an extension, if the plan allows for one, and the longest one.
    planned_end: Option<Instant>,
    extension_max: Duration,
    /// Arrivals in all, and measured ones: that were taken, and that the series knows of.
    taken: u64,
    taken_measured: u64,
    recorded: u64,
    /// Measured calls of users after their first, which the series knows of.
    follow_ups: u64,
    pub(crate) begun: Option<ThreadUse>,
    /// By how much the thread has overslept in the measured part.
    pub(crate) overslept_ns: u64,
    /// The measured part has ended; what was under way then was left out.
    pub(crate) ended: bool,
}

/// An arrival that was taken from its schedule.
pub(crate) struct TakenArrival {
    pub(crate) arrival: Arrival,
    /// When the thread first saw that it was due.
    pub(crate) noticed: Instant,
    pub(crate) measured: bool,
}

impl Schedule {
    /// The share of thread `thread` of a plan whose warm-up begins at `start`. A recording's
    /// requests come through `feed`; without, they are all read now.
    pub(crate) fn new(plan: &Plan, thread: usize, start: Instant, feed: Option<Feed>) -> Self {
        let measured = start + plan.warmup;
        let length = plan.schedule_length();
        let end = (!length.is_zero()).then(|| measured + length);
        let share = Share { thread, threads: plan.cpus.len(), seed: plan.seed };
        let arrivals = match &plan.arrivals {
            LoopPlan::Open { rate, spacing } => Arrivals::Open(open_loop(plan, measured, rate, *spacing, share)),
            LoopPlan::Recorded { recording } => {
                let feed = feed.unwrap_or_else(|| Feed::whole(recording, thread, plan.cpus.len()));
                Arrivals::Recorded(RecordedLoop::new(measured, feed))
            }
            LoopPlan::Closed { workers, think, stagger } => {
                let total = match plan.extent {
                    Extent::Duration(_) => u64::MAX,
                    Extent::Requests(total) => plan.share_of(total as usize, thread) as u64,
                };
                let workers = plan.share_of(*workers, thread);
                let end = end.unwrap_or(Instant::from_ns(u64::MAX));
                let think_ns = think.as_nanos() as u64;
                let closed = ClosedLoop::new(start, measured, end, workers, think_ns, total);
                Arrivals::Closed(closed.staggered(stagger.as_nanos() as u64, share))
            }
        };
        let drain_end = end.map(|end| end + plan.drain);
        let planned_end = end.filter(|_| !plan.extension_max.is_zero());
        Self {
            arrivals,
            oversleeps: Oversleeps::default(),
            share,
            start: measured,
            end,
            drain_end,
            drain: plan.drain,
            planned_end,
            extension_max: plan.extension_max,
            taken: 0,
            taken_measured: 0,
            recorded: 0,
            follow_ups: 0,
            begun: None,
            overslept_ns: 0,
            ended: false,
        }
    }

    /// When the next arrival that was not taken yet is due. A schedule that may go on has more of
    /// them than are offered.
    pub(crate) fn next_arrival(&self) -> Option<Instant> {
        self.arrivals.next().filter(|&at| self.planned_end.is_none() || self.offers(at))
    }

    /// When the oldest arrival that is due and not taken was due.
    pub(crate) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        self.next_arrival().filter(|&at| at <= now)
    }

    /// Whether the measured part, whose end has come, is over for good.
    pub(crate) fn is_over(&mut self, progress: &Progress) -> bool {
        let before = self.end;
        if self.planned_end.is_some() && !self.ended {
            self.extend(progress.settle_extension());
        }
        self.end == before
    }

    /// Goes on for so long after the planned end.
    pub(crate) fn extend(&mut self, extension: Duration) {
        let Some(planned_end) = self.planned_end.filter(|_| !self.ended) else { return };
        let end = planned_end + extension.min(self.extension_max);
        if self.end.is_some_and(|present| present < end) {
            (self.end, self.drain_end) = (Some(end), Some(end + self.drain));
            self.arrivals.end_at(end);
        }
    }

    /// The number of the next arrival in the whole run.
    pub(crate) fn next_number(&self) -> u64 {
        self.share.thread as u64 + self.taken * self.share.threads as u64
    }

    /// Notes that the thread looks at the schedule, after it has overslept by so much.
    #[inline]
    pub(crate) fn look(&mut self, now: Instant, overslept_ns: u64) {
        if overslept_ns == 0 && self.oversleeps.is_empty() {
            return;
        }
        if self.waiting_since(now).is_some() {
            self.oversleeps.look(now, overslept_ns);
        } else {
            self.oversleeps.clear();
        }
    }

    /// Takes the next arrival.
    ///
    /// The series learns of arrivals once per iteration; of one that is taken before then it learns
    /// now, since it may also end before then.
    pub(crate) fn take(&mut self, series: &mut IntervalSeries) -> TakenArrival {
        let arrival = self.arrivals.take();
        let measured = arrival.at >= self.start;
        self.taken += 1;
        self.taken_measured += u64::from(measured);
        if self.taken_measured > self.recorded {
            series.record_offered();
            self.recorded += 1;
        }
        // An arrival that was not known before cannot have been noticed.
        let noticed = self.oversleeps.noticed(arrival.at).max(arrival.known);
        TakenArrival { arrival, noticed, measured }
    }

    /// Gives up the arrivals that have not been read yet, though they are due. Returns how many
    /// there were.
    pub(crate) fn give_up_unread(&mut self, series: &mut IntervalSeries) -> u64 {
        let left = self.arrivals.give_up_unread();
        self.taken += left;
        self.taken_measured += left;
        series.record_offered_n(self.taken_measured.saturating_sub(self.recorded));
        self.recorded = self.recorded.max(self.taken_measured);
        left
    }

    /// Offers a call that follows another one of its user, and says whether it is measured. `None`:
    /// it came due after the end.
    pub(crate) fn follow_up(&mut self, due: Instant, series: &mut IntervalSeries) -> Option<bool> {
        if !self.offers(due) {
            return None;
        }
        let measured = due >= self.start;
        if measured {
            series.record_offered();
            self.follow_ups += 1;
        }
        Some(measured)
    }

    /// Whether an arrival or call that comes due then is still part of the load.
    pub(crate) fn offers(&self, due: Instant) -> bool {
        self.end.is_none_or(|end| due < end)
    }

    /// Measured requests offered so far.
    pub(crate) fn offered(&self) -> u64 {
        self.recorded + self.follow_ups
    }

    /// Advances the series to `now` and records the arrivals that have come due.
    pub(crate) fn record(&mut self, series: &mut IntervalSeries, now: Instant) {
        series.advance_to(now.ns_since(self.start));
        let last = self.end.filter(|_| self.planned_end.is_some()).map_or(now, |end| now.min(end.minus_ns(1)));
        let offered = self.arrivals.offered(last);
        series.record_offered_n(offered.saturating_sub(self.recorded));
        self.recorded = self.recorded.max(offered);
    }

    /// Whether `now` lies in the measured part.
    pub(crate) fn is_in_window(&self, now: Instant) -> bool {
        now >= self.start && self.end.is_none_or(|end| now < end)
    }

    pub(crate) fn is_drained(&self, now: Instant) -> bool {
        self.drain_end.is_some_and(|end| now >= end)
    }
}

/// A thread's share of the arrivals at a rate.
fn open_loop(plan: &Plan, start: Instant, rate: &Arc<RateProfile>, spacing: Spacing, share: Share) -> OpenLoop {
    let warmup = rate.first() * plan.warmup.as_secs_f64();
    let (mean, exactly) = match plan.extent {
        Extent::Duration(length) => (rate.count_until((length + plan.extension_max).as_secs_f64()), None),
        Extent::Requests(total) => (total as f64, Some(total)),
    };
    match spacing {
        Spacing::Constant => OpenLoop::even(start, rate.clone(), warmup.round() as u64, mean.round() as u64, share),
        Spacing::Poisson => OpenLoop::poisson(start, rate.clone(), warmup, mean, exactly, share),
    }
}
