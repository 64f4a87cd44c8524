//! What a run was like: counters and histograms, one set per thread, merged when all have ended.

use std::time::Duration;

use thalweg_measure::{Histogram, IntervalSeries, Outcome, Outcomes, StatusClasses};
use thalweg_sys::DriverKind;
use thalweg_sys::proc::CpuTime;

/// Intervals kept of a run; a longer run gets wider ones.
const INTERVALS_MAX: usize = 600;

/// The figures of a run, or of one thread's share.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Which driver carried it.
    pub driver: DriverKind,
    /// Length of the measured part.
    pub window: Duration,
    /// The run was ended before its time. Requests that were under way then are in none of the figures.
    pub interrupted: bool,
    /// How each offered request ended.
    pub outcomes: Outcomes,
    /// Requests whose first byte was handed to the kernel.
    pub sent: u64,
    /// What happened within the measured part: the basis of rates, free of what came after the end of the schedule.
    pub in_window: InWindow,
    /// Responses by class of status.
    pub status: StatusClasses,
    /// Bytes received: all, and those of contents.
    pub bytes_in: u64,
    /// Bytes received as content.
    pub body_bytes_in: u64,
    /// Bytes of requests that were sent.
    pub bytes_out: u64,
    /// Bytes that came on connections on which no answer was due.
    pub unsolicited_bytes: u64,
    /// Histograms of the measured requests.
    pub spread: Spread,
    /// The course of the run, which also holds the histogram of response times.
    pub series: IntervalSeries,
    /// Connections opened, those before the measured part included.
    pub connections_opened: u64,
    /// Connections open at once at most, summed over the threads.
    pub connections_peak: u64,
    /// Connections that carried at least 320,000 bit/s while a response came in (SPECweb99).
    pub connections_conforming: u64,
    /// What the threads used of their CPUs in the measured part.
    pub cores: Vec<CoreUse>,
}

/// Events between the start and the end of the schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InWindow {
    /// Requests handed to the kernel.
    pub sent: u64,
    /// Whole responses.
    pub completed: u64,
    /// Good responses.
    pub good: u64,
    /// Connections opened.
    pub connections: u64,
}

/// Distributions of times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    /// Last byte minus sent, of whole responses.
    pub service: Histogram,
    /// Sent minus the later of intended time and the time at which a connection was free: the client's own lateness.
    pub lag: Histogram,
    /// From intended time until a connection was free; 0 for most requests.
    pub queue: Histogram,
    /// From the start of connecting until the connection was established.
    pub connect: Histogram,
    /// First byte minus sent, of whole responses.
    pub first_byte: Histogram,
}

/// What a thread used of its CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreUse {
    /// The CPU.
    pub cpu: usize,
    /// CPU time of the thread.
    pub time: CpuTime,
    /// The length over which that was.
    pub elapsed: Duration,
    /// Nanoseconds in which the thread was ready and not run; `None` where the kernel keeps no account.
    pub run_queue_wait_ns: Option<u64>,
}

impl CoreUse {
    /// The share of the CPU that the thread used, 0 to 1.
    pub fn share(&self) -> f64 {
        if self.elapsed.is_zero() { 0.0 } else { self.time.total_ns() as f64 / self.elapsed.as_nanos() as f64 }
    }
}

impl Figures {
    pub(crate) fn new(driver: DriverKind, interval_ns: u64) -> Self {
        Self {
            driver,
            window: Duration::ZERO,
            interrupted: false,
            outcomes: Outcomes::default(),
            sent: 0,
            in_window: InWindow::default(),
            status: StatusClasses::default(),
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            unsolicited_bytes: 0,
            spread: Spread::default(),
            series: IntervalSeries::new(interval_ns, INTERVALS_MAX),
            connections_opened: 0,
            connections_peak: 0,
            connections_conforming: 0,
            cores: Vec::new(),
        }
    }

    /// Adds the figures of another thread of the same run.
    pub fn merge(&mut self, other: &Self) {
        self.window = self.window.max(other.window);
        self.interrupted |= other.interrupted;
        self.outcomes.merge(&other.outcomes);
        self.sent += other.sent;
        self.in_window.sent += other.in_window.sent;
        self.in_window.completed += other.in_window.completed;
        self.in_window.good += other.in_window.good;
        self.in_window.connections += other.in_window.connections;
        self.status.merge(&other.status);
        self.bytes_in += other.bytes_in;
        self.body_bytes_in += other.body_bytes_in;
        self.bytes_out += other.bytes_out;
        self.unsolicited_bytes += other.unsolicited_bytes;
        self.spread.merge(&other.spread);
        self.series.merge(&other.series);
        self.connections_opened += other.connections_opened;
        self.connections_peak += other.connections_peak;
        self.connections_conforming += other.connections_conforming;
        self.cores.extend_from_slice(&other.cores);
    }

    /// Requests that were offered: the sum over all outcomes.
    pub fn offered(&self) -> u64 {
        self.outcomes.total()
    }

    /// Good responses.
    pub fn good(&self) -> u64 {
        self.outcomes.count(Outcome::Good)
    }
}

impl Spread {
    fn merge(&mut self, other: &Self) {
        self.service.merge(&other.service);
        self.lag.merge(&other.lag);
        self.queue.merge(&other.queue);
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
    }
}
