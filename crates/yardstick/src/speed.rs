//! The speed at which the servers work over time: stalls, slow start, drift, and collapse under
//! overload.
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
    /// Requests have waited without a break for so long, in nanoseconds. Connections that wait for
    /// responses bound the rate and the queue, but not this.
    BusyForNs(u64),
}

/// A drift leaves this much of the speed.
const SPEED_MIN: f64 = 0.01;

/// The course of the speed, as a state machine over arrivals.
#[derive(Debug)]
pub(crate) struct Speed {
    stall: Option<Stall>,
    slow_start: Option<SlowStart>,
    collapse: Option<Collapse>,
    drift_per_s: f64,
    ramp_start: Option<u64>,
    last_arrival: u64,
    arrivals: Window,
    /// The time since which requests have waited without a break.
    busy_since: Option<u64>,
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
            drift_per_s: 0.0,
            ramp_start: None,
            last_arrival: 0,
            arrivals: Window::default(),
            busy_since: None,
            collapsed: None,
            collapses: 0,
        }
    }

    /// The same, with a speed that grows by this share of the first per second.
    pub(crate) fn drifting(self, drift_per_s: f64) -> Self {
        Self { drift_per_s, ..self }
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
            Overload::BusyForNs(bound) => self.has_been_busy_for(bound, now),
        };
        if is_overload {
            self.collapse_at(now);
        }
    }

    /// Takes note that requests wait from `now` on.
    pub(crate) fn on_waiting(&mut self, now: u64) {
        self.busy_since.get_or_insert(now);
    }

    /// Takes note that no request waits any more.
    pub(crate) fn on_empty(&mut self, now: u64) {
        if let Some(Collapse { above: Overload::BusyForNs(bound), .. }) = self.collapse
            && self.has_been_busy_for(bound, now)
        {
            self.collapse_at(now);
        }
        self.busy_since = None;
    }

    fn has_been_busy_for(&self, bound: u64, now: u64) -> bool {
        self.busy_since.is_some_and(|since| now.saturating_sub(since) >= bound)
    }

    fn collapse_at(&mut self, now: u64) {
        self.collapses += u64::from(!self.is_collapsed(now));
        self.collapsed = Some(now);
    }

    /// The end of a service of `work_ns` that begins at `start`.
    pub(crate) fn end(&self, start: u64, work_ns: f64) -> u64 {
        let mut speed = (1.0 + self.drift_per_s * start as f64 / 1e9).max(SPEED_MIN);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: u64 = 1_000_000;
    const S: u64 = 1000 * MS;

    const STALL: Stall = Stall { length_ns: S, every_ns: 10 * S };

    #[test]
    fn a_stall_interrupts_services() {
        for (start_ms, work_ms, end_ms) in [
            (0, 5, 5),
            (8_990, 10, 9_000),
            (8_990, 11, 10_001),
            (9_000, 5, 10_005),
            (9_999, 5, 10_005),
            (10_000, 9_000, 19_000),
            (10_000, 9_001, 20_001),
            (8_000, 19_000, 29_000),
            (8_000, 19_001, 30_001),
        ] {
            let end = STALL.end(start_ms * MS, work_ms * MS);
            assert_eq!(end / MS, end_ms, "{work_ms} ms from {start_ms} ms on");
        }
    }

    proptest! {
        #[test]
        fn a_service_works_as_long_as_it_needs(start in 0..100 * S, work in 1..50 * S, length in 1..9 * S) {
            let stall = Stall { length_ns: length, every_ns: 10 * S };
            let active = |until: u64| until / stall.every_ns * (stall.every_ns - length)
                + (until % stall.every_ns).min(stall.every_ns - length);
            let end = stall.end(start, work);
            prop_assert_eq!(active(end) - active(start), work);
            prop_assert!(active(end - 1) < active(end), "it ends while the servers work");
        }

        #[test]
        fn the_window_counts_the_last_second(gaps in prop::collection::vec(0_u64..3 * S, 1..200)) {
            let (mut window, mut now, mut all) = (Window::default(), 0, Vec::new());
            for gap in gaps {
                now += gap / 7;
                all.push(now);
                let oldest = (now / Window::PART_NS).saturating_sub(Window::PARTS - 1) * Window::PART_NS;
                let expected = all.iter().filter(|&&at| at >= oldest).count() as u64;
                prop_assert_eq!(window.count(now), expected);
            }
        }
    }

    #[test]
    fn a_slow_start_begins_with_the_first_request_and_after_idle_times() {
        let slow_start = SlowStart { ramp_ns: 10 * S, from: 0.1, idle_ns: 30 * S };
        let mut speed = Speed::new(None, Some(slow_start), None);
        let mut check = |arrival: u64, at: u64, expected: f64| {
            speed.on_arrival(arrival * S, 0);
            let took = speed.end(at * S, 1e6) - at * S;
            assert!((1e6 / took as f64 - expected).abs() < 1e-3, "{took} ns at {at} s");
        };
        check(5, 5, 0.1);
        check(9, 10, 0.55);
        check(14, 15, 1.0);
        check(40, 43, 1.0);
        check(70, 70, 0.1);
        check(80, 80, 1.0);
    }

    #[test]
    fn a_collapse_lasts_until_its_recovery() {
        let collapse = |recovery_ns| Collapse { above: Overload::RatePerS(100.0), left: 0.25, recovery_ns };
        for (recovery, collapsed_later) in [(Some(5 * S), false), (None, true)] {
            let mut speed = Speed::new(None, None, Some(collapse(recovery)));
            // 99 per second are no overload, and 110 per second are.
            (0..5 * 99).for_each(|number| speed.on_arrival(number * S / 99, 0));
            assert!(!speed.is_collapsed(5 * S));
            (0..5 * 110).for_each(|number| speed.on_arrival(5 * S + number * S / 110, 0));
            assert!(speed.is_collapsed(10 * S));
            assert_eq!(speed.end(10 * S, 1e6), 10 * S + 4 * MS);
            // The last overload was just before 10 s.
            assert!(speed.is_collapsed(14 * S + 980 * MS));
            assert_eq!(speed.is_collapsed(15 * S), collapsed_later);
            // An overload while the capacity is lowered is no collapse of its own.
            assert_eq!(speed.collapses(), 1);
        }
    }

    #[test]
    fn a_queue_that_never_empties_is_an_overload_too() {
        let collapse = Collapse { above: Overload::BusyForNs(3 * S), left: 0.5, recovery_ns: Some(5 * S) };
        let mut speed = Speed::new(None, None, Some(collapse));
        for begin in [0, 10 * S] {
            // A break begins the time anew.
            speed.on_waiting(begin);
            speed.on_arrival(begin + 2 * S, 9);
            speed.on_empty(begin + 2 * S + 900 * MS);
            speed.on_waiting(begin + 3 * S);
            speed.on_arrival(begin + 4 * S, 9);
            assert!(!speed.is_collapsed(begin + 4 * S));
            speed.on_empty(begin + 4 * S);
        }
        speed.on_waiting(20 * S);
        speed.on_arrival(23 * S, 9);
        assert!(speed.is_collapsed(23 * S));
        // The overload ends when nobody waits, and not with the last arrival.
        speed.on_empty(26 * S);
        assert!(speed.is_collapsed(31 * S - 1) && !speed.is_collapsed(31 * S));
        assert_eq!(speed.collapses(), 1);
    }

    #[test]
    fn a_drift_changes_the_speed_steadily() {
        let speed = Speed::new(None, None, None).drifting(-0.001);
        for (at_s, took_us) in [(0, 1000), (500, 2000), (900, 10_000), (5000, 100_000)] {
            assert_eq!((speed.end(at_s * S, 1e6) - at_s * S + 500) / 1000, took_us, "at {at_s} s");
        }
    }

    #[test]
    fn a_queue_too_long_is_an_overload_as_well() {
        let collapse = Collapse { above: Overload::Waiting(10), left: 0.5, recovery_ns: Some(S) };
        let mut speed = Speed::new(None, None, Some(collapse));
        speed.on_arrival(S, 10);
        assert!(!speed.is_collapsed(S));
        speed.on_arrival(2 * S, 11);
        assert!(speed.is_collapsed(2 * S));
        assert!(!speed.is_collapsed(3 * S));
    }
}
