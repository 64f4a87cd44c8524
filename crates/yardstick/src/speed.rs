//! The speed at which the servers work over time: stalls, slow start, and collapse under overload.
//!
//! A service time is the work of a request at speed 1. The speed is looked up when a service begins
//! and holds until its end; stalls interrupt a service that is under way.

use serde::Serialize;

/// Pauses of all servers at regular times.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Stall {
    /// The length of a pause, in nanoseconds.
    pub length_ns: u64,
    /// The time from the end of a pause to the end of the next one. The first pause ends that long
    /// after the start.
    pub every_ns: u64,
}

impl Stall {
    /// The end of a service of `work_ns` that begins at `start` (ns since the start of the server).
    fn end(&self, start: u64, work_ns: u64) -> u64 {
        let active_ns = self.every_ns - self.length_ns;
        let within = start % self.every_ns;
        let (cycle, done_ns) =
            if within < active_ns { (start - within, within) } else { (start - within + self.every_ns, 0) };
        let total_ns = done_ns.saturating_add(work_ns);
        // A service that needs the whole rest of a cycle ends before the pause.
        let pauses = total_ns.saturating_sub(1) / active_ns;
        cycle.saturating_add(total_ns).saturating_add(pauses.saturating_mul(self.length_ns))
    }

    /// The share of the time in which the servers work.
    pub fn active_share(&self) -> f64 {
        1.0 - self.length_ns as f64 / self.every_ns as f64
    }
}

/// A capacity that grows with use: after the first request, and after each time without requests.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct SlowStart {
    /// The time in which the speed grows to 1, in nanoseconds.
    pub ramp_ns: u64,
    /// The speed at the beginning.
    pub from: f64,
    /// The time without requests after which the servers are cold again.
    pub idle_ns: u64,
}

/// A capacity that an overload lowers.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Collapse {
    /// The overload that is too much.
    #[serde(flatten)]
    pub above: Overload,
    /// The speed that is left.
    pub left: f64,
    /// The time from the end of the overload to the full speed, in nanoseconds; `None` is never.
    pub recovery_ns: Option<u64>,
}

/// The threshold of an overload.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Overload {
    /// More requests than this arrived within the last second.
    RatePerS(f64),
    /// More requests than this wait.
    Waiting(usize),
}

/// The course of the speed, as a state machine over arrivals.
#[derive(Debug)]
pub(crate) struct Speed {
    stall: Option<Stall>,
    slow_start: Option<SlowStart>,
    collapse: Option<Collapse>,
    ramp_start: Option<u64>,
    last_arrival: u64,
    arrivals: Window,
    /// The last time of an overload, if the servers have collapsed.
    collapsed: Option<u64>,
    collapses: u64,
}

impl Speed {
    pub(crate) fn new(stall: Option<Stall>, slow_start: Option<SlowStart>, collapse: Option<Collapse>) -> Self {
        Self {
            stall,
            slow_start,
            collapse,
            ramp_start: None,
            last_arrival: 0,
            arrivals: Window::default(),
            collapsed: None,
            collapses: 0,
        }
    }

    /// Takes note of an arrival that finds `waiting` requests in the queue.
    pub(crate) fn on_arrival(&mut self, now: u64, waiting: usize) {
        if let Some(slow_start) = self.slow_start {
            let is_cold = self.ramp_start.is_none() || now.saturating_sub(self.last_arrival) >= slow_start.idle_ns;
            if is_cold {
                self.ramp_start = Some(now);
            }
        }
        self.last_arrival = now;
        let Some(collapse) = self.collapse else { return };
        let is_overload = match collapse.above {
            Overload::RatePerS(rate) => self.arrivals.count(now) as f64 > rate,
            Overload::Waiting(bound) => waiting > bound,
        };
        if is_overload {
            self.collapses += u64::from(!self.is_collapsed(now));
            self.collapsed = Some(now);
        }
    }

    /// The end of a service of `work_ns` that begins at `start`.
    pub(crate) fn end(&self, start: u64, work_ns: f64) -> u64 {
        let mut speed = 1.0;
        if let (Some(slow_start), Some(begin)) = (self.slow_start, self.ramp_start) {
            let part = start.saturating_sub(begin) as f64 / slow_start.ramp_ns as f64;
            speed *= slow_start.from + (1.0 - slow_start.from) * part.min(1.0);
        }
        if self.is_collapsed(start) {
            speed *= self.collapse.map_or(1.0, |collapse| collapse.left);
        }
        let work_ns = (work_ns / speed).round() as u64;
        self.stall.map_or(start.saturating_add(work_ns), |stall| stall.end(start, work_ns))
    }

    /// Whether the capacity is lowered at `now`.
    pub(crate) fn is_collapsed(&self, now: u64) -> bool {
        let (Some(since), Some(collapse)) = (self.collapsed, self.collapse) else { return false };
        collapse.recovery_ns.is_none_or(|recovery| now < since.saturating_add(recovery))
    }

    /// How often the capacity was lowered.
    pub(crate) const fn collapses(&self) -> u64 {
        self.collapses
    }
}

/// The arrivals of the last second, counted in tenths.
#[derive(Debug, Default)]
struct Window {
    counts: [u64; Window::PARTS as usize],
    /// The number of the newest part since the start.
    newest: u64,
    sum: u64,
}

impl Window {
    const PARTS: u64 = 10;
    const PART_NS: u64 = 1_000_000_000 / Self::PARTS;

    /// Counts an arrival. Returns the number in the present part and the nine before.
    fn count(&mut self, now: u64) -> u64 {
        let part = now / Self::PART_NS;
        for passed in self.newest + 1..=part.min(self.newest + Self::PARTS) {
            let slot = &mut self.counts[(passed % Self::PARTS) as usize];
            self.sum -= std::mem::take(slot);
        }
        if part > self.newest + Self::PARTS {
            self.counts = Default::default();
            self.sum = 0;
        }
        self.newest = self.newest.max(part);
        self.counts[(self.newest % Self::PARTS) as usize] += 1;
        self.sum += 1;
        self.sum
    }
}
