//! The pacer of reads: their size, the time that each takes, and when the next one of a connection
//! is due.

use std::time::Duration;

use thalweg_reactor::Wheel;
use thalweg_sys::{Instant, ReceiveMode};

use crate::plan::Pace;

/// The time that the bytes of one read take at the pace: the longer, the coarser the stream and the
/// cheaper. It grows with the connections of a CPU, so that reading takes a bounded share of that;
/// see bench/TRIED.md, "Reads of throttled connections".
const CYCLE_NS_MIN: u64 = 250_000_000;
const CYCLE_NS_MAX: u64 = 4_000_000_000;
const CYCLE_NS_PER_CONNECTION: u64 = 120_000;

/// Reads are due at common ticks, so that many of them share a wake-up.
const TICK_NS: u64 = 2_000_000;

/// A round trip is no coarser than other times of the client.
const ARRIVAL_TICK_NS: u64 = 100_000;

/// Most bytes of one read.
const READ_BYTES_MAX: u64 = 64 * 1024;

/// A smaller receive window costs CPU time without holding back much more of a response; see
/// bench/TRIED.md, "Window and segment size of throttled connections".
const WINDOW_BYTES_MIN: u32 = 16 * 1024;

pub(super) struct Pacer {
    pub(super) pace: Pace,
    pub(super) cycle_ns: u64,
    pub(super) read_bytes: u32,
    /// When connections may read, and when what they hold has come.
    pub(super) wheel: Wheel,
    pub(super) arrivals: Wheel,
}

impl Pace {
    /// The longest time between two reads of a connection, with so many of them on a CPU. Reads are
    /// more frequent where a read would bring more than 64 KiB.
    pub fn read_cycle(connections_per_cpu: usize) -> Duration {
        let cycle_ns = connections_per_cpu as u64 * CYCLE_NS_PER_CONNECTION;
        Duration::from_nanos(cycle_ns.clamp(CYCLE_NS_MIN, CYCLE_NS_MAX))
    }

    /// How long so many bytes take.
    pub(super) fn time_ns(self, bytes: u64) -> u64 {
        match self.bytes_per_s {
            Some(rate) => (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64,
            None => self.delay.as_nanos() as u64,
        }
    }
}

impl Pacer {
    /// For so many connections on a CPU.
    pub(super) fn new(pace: Pace, connections_per_cpu: usize, now: Instant) -> Self {
        let cycle_ns = Pace::read_cycle(connections_per_cpu).as_nanos() as u64;
        let read_bytes = pace.bytes_per_s.map_or(READ_BYTES_MAX, |rate| {
            let bytes = u128::from(rate) * u128::from(cycle_ns) / 1_000_000_000;
            bytes.clamp(1, u128::from(READ_BYTES_MAX)) as u64
        });
        let (wheel, arrivals) = (Wheel::new(now, TICK_NS), Wheel::new(now, ARRIVAL_TICK_NS));
        Self { pace, cycle_ns, read_bytes: read_bytes as u32, wheel, arrivals }
    }

    /// How connections are made that are read so: with a receive window that has the next read
    /// there in time and leaves the rest with the server.
    pub(super) fn receive_mode(&self) -> ReceiveMode {
        ReceiveMode::OnDemand { window_bytes: self.window_bytes() }
    }

    /// Bytes that a server may send ahead of what was read.
    pub(super) fn window_bytes(&self) -> u32 {
        (self.read_bytes * 2).max(WINDOW_BYTES_MIN)
    }

    /// The time that the path adds to each response.
    pub(super) fn path_delay(&self) -> Duration {
        self.pace.delay
    }

    /// How many reads are to come.
    pub(super) fn entries(&self) -> usize {
        self.wheel.len() + self.arrivals.len()
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        [self.wheel.next_due(), self.arrivals.next_due()].into_iter().flatten().min()
    }
}
