//! A thread's schedule once its start is known: its arrivals, the measured part and what is counted of it.

use thalweg_measure::IntervalSeries;
use thalweg_sys::Instant;

use crate::arrivals::{Arrivals, ClosedLoop, OpenLoop};
use crate::figures::ThreadUse;
use crate::plan::{Extent, LoopPlan, Plan};

pub(crate) struct Schedule {
    pub(crate) arrivals: Arrivals,
    /// The measured part. A number of requests has no end in time: then it ends with the last of them.
    pub(crate) start: Instant,
    pub(crate) end: Option<Instant>,
    /// After this, what still waits is not sent any more.
    pub(crate) drain_end: Option<Instant>,
    /// Measured arrivals: that were taken, and that the series knows of.
    taken: u64,
    pub(crate) recorded: u64,
    pub(crate) begun: Option<ThreadUse>,
    pub(crate) ended: bool,
}

impl Schedule {
    /// The share of thread `core` of a plan whose warm-up begins at `start`.
    pub(crate) fn new(plan: &Plan, core: usize, start: Instant) -> Self {
        let measured = start + plan.warmup;
        let length = plan.schedule_length();
        let end = (!length.is_zero()).then(|| measured + length);
        let arrivals = match plan.arrivals {
            LoopPlan::Open { rate } => {
                let total = match plan.extent {
                    Extent::Duration(length) => (rate * length.as_secs_f64()).round() as u64,
                    Extent::Requests(total) => total,
                };
                let warmup = (rate * plan.warmup.as_secs_f64()).round() as u64;
                Arrivals::Open(OpenLoop::new(measured, rate, warmup, total, core, plan.cpus.len()))
            }
            LoopPlan::Closed { workers, think } => {
                let total = match plan.extent {
                    Extent::Duration(_) => u64::MAX,
                    Extent::Requests(total) => plan.share_of(total as usize, core) as u64,
                };
                let workers = plan.share_of(workers, core);
                let end = end.unwrap_or(Instant::from_ns(u64::MAX));
                let think_ns = think.as_nanos() as u64;
                Arrivals::Closed(ClosedLoop::new(start, measured, end, workers, think_ns, total))
            }
        };
        let drain_end = end.map(|end| end + plan.drain);
        Self { arrivals, start: measured, end, drain_end, taken: 0, recorded: 0, begun: None, ended: false }
    }

    /// When the oldest arrival that is due and not taken was due.
    pub(crate) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        self.arrivals.next().filter(|&at| at <= now)
    }

    /// Takes the next arrival: when it was due, and whether it is measured.
    ///
    /// The series hears of arrivals once per turn; one that is taken before then is told now, since it may also end before then.
    pub(crate) fn take(&mut self, series: &mut IntervalSeries) -> (Instant, bool) {
        let intended = self.arrivals.take();
        let measured = intended >= self.start;
        self.taken += u64::from(measured);
        if self.taken > self.recorded {
            series.record_offered();
            self.recorded += 1;
        }
        (intended, measured)
    }

    /// Tells the series of the time and of the arrivals that have come due.
    pub(crate) fn record(&mut self, series: &mut IntervalSeries, now: Instant) {
        series.advance_to(now.ns_since(self.start));
        let offered = self.arrivals.offered(now);
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
