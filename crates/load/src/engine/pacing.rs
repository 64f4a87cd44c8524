//! Reading slowly, so that the server holds a connection for as long as a slow client would make it.
//!
//! A connection at a pace reads a piece, and the next one when the bytes of the first would have come over its line. The receive
//! window is small, so that what is not read stays with the server. On a long path the first piece of a response is read when it is there,
//! so that an end or a reset is not missed, and held until a round trip has passed since its request.

use std::time::Duration;

use thalweg_reactor::Wheel;
use thalweg_sys::{Driver, Instant, ReceiveMode, SocketId};

use super::Engine;
use crate::connection::State;
use crate::plan::Pace;

/// How long the bytes of one read take at the pace. The longer, the coarser the stream and the cheaper: a read of a modem's line costs
/// about 30 us, with the packets that it lets the server send. So it is longer the more connections a CPU has to read from, which then
/// takes a bounded share of it.
const CYCLE_NS_MIN: u64 = 250_000_000;
const CYCLE_NS_MAX: u64 = 4_000_000_000;
const CYCLE_NS_PER_CONNECTION: u64 = 120_000;

/// Reads are due at a common beat, so that many of them share a wake-up.
const TICK_NS: u64 = 2_000_000;

/// A round trip is no coarser than other times of the client.
const ARRIVAL_TICK_NS: u64 = 100_000;

/// Most bytes of one read.
const READ_BYTES_MAX: u64 = 64 * 1024;

/// A smaller receive window costs more packets, and with them CPU time, without holding back much more of a response.
const WINDOW_BYTES_MIN: u32 = 16 * 1024;

pub(super) struct Pacing {
    pace: Pace,
    cycle_ns: u64,
    read_bytes: u32,
    /// When connections may read, and when what they hold has come.
    wheel: Wheel,
    arrivals: Wheel,
}

impl Pace {
    /// How long so many bytes take.
    fn time_ns(self, bytes: u64) -> u64 {
        match self.bytes_per_s {
            Some(rate) => (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64,
            None => self.delay.as_nanos() as u64,
        }
    }
}

impl Pacing {
    /// For so many connections on a CPU.
    pub(super) fn new(pace: Pace, connections_per_cpu: usize, now: Instant) -> Self {
        let cycle_ns = (connections_per_cpu as u64 * CYCLE_NS_PER_CONNECTION).clamp(CYCLE_NS_MIN, CYCLE_NS_MAX);
        let read_bytes = pace.bytes_per_s.map_or(READ_BYTES_MAX, |rate| {
            let bytes = u128::from(rate) * u128::from(cycle_ns) / 1_000_000_000;
            bytes.clamp(1, u128::from(READ_BYTES_MAX)) as u64
        });
        let (wheel, arrivals) = (Wheel::new(now, TICK_NS), Wheel::new(now, ARRIVAL_TICK_NS));
        Self { pace, cycle_ns, read_bytes: read_bytes as u32, wheel, arrivals }
    }

    /// How connections are made that are read so: with a receive window that has the next read there in time and leaves the rest with the
    /// server.
    pub(super) fn receive_mode(&self) -> ReceiveMode {
        ReceiveMode::OnDemand { window_bytes: (self.read_bytes * 2).max(WINDOW_BYTES_MIN) }
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

impl Engine {
    /// Lets a connection at a pace read what comes first.
    pub(super) fn read_now<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        if let Some(pacing) = &self.pacing {
            driver.receive(id, pacing.read_bytes);
        }
    }

    /// Notes that a connection at a pace has read so many bytes and may read again when they would have come.
    pub(super) fn pace(&mut self, id: SocketId, bytes: usize, now: Instant) {
        let Some(pacing) = &mut self.pacing else { return };
        let connection = &mut self.connections[id.index()];
        // The next read is due that long after this one was, however late it came, unless the line was idle.
        let since = if now.ns_since(connection.read_at) < pacing.cycle_ns { connection.read_at } else { now };
        connection.read_at = since.plus_ns(pacing.pace.time_ns(bytes as u64));
        pacing.wheel.arm(id.to_bits(), connection.read_at);
    }

    /// Holds what was read if it is the beginning of a response that cannot have come over its path yet. `latest` is when the driver began
    /// the connection's latest send. Whether it is held.
    pub(super) fn hold(&mut self, id: SocketId, bytes: &[u8], latest: Instant, now: Instant) -> bool {
        let Some(pacing) = self.pacing.as_mut().filter(|pacing| !pacing.path_delay().is_zero()) else { return false };
        let connection = &mut self.connections[id.index()];
        if let Some(line) = connection.buffers.as_mut().filter(|line| !line.held.is_empty()) {
            // The order of the bytes is kept, also where the beginning has come and is about to be taken in.
            line.held.extend_from_slice(bytes);
            self.pace(id, bytes.len(), now);
            return true;
        }
        let State::Busy(call) = &mut connection.state else { return false };
        let comes_at = call.sent_or(latest) + pacing.path_delay();
        let has_left = call.submitted && (call.sent.get().is_some() || latest >= connection.submitted_at);
        if !has_left || call.first_byte.get().is_some() || comes_at <= now {
            return false;
        }
        call.deadline = comes_at + self.plan.timeout;
        connection.buffers.get_or_insert_default().held.extend_from_slice(bytes);
        connection.read_at = connection.read_at.max(comes_at);
        pacing.arrivals.arm(id.to_bits(), comes_at);
        self.pace(id, bytes.len(), comes_at);
        true
    }

    /// Takes in the responses whose beginnings have come by now.
    pub(super) fn take_in_held<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(key) = self.pacing.as_mut().and_then(|pacing| pacing.arrivals.pop_due(now)) {
            let id = SocketId::from_bits(key);
            let connection = &mut self.connections[id.index()];
            if connection.id == id
                && connection.is_open()
                && let Some(line) = &mut connection.buffers
            {
                let held = std::mem::take(&mut line.held);
                self.take_in(driver, id, Some(&held), now);
            }
        }
    }

    /// Lets those connections read whose time has come.
    pub(super) fn read_due<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Some(pacing) = &mut self.pacing else { return };
        while let Some(key) = pacing.wheel.pop_due(now) {
            let id = SocketId::from_bits(key);
            let connection = &self.connections[id.index()];
            if connection.id == id && connection.is_open() {
                driver.receive(id, pacing.read_bytes);
            }
        }
    }
}

impl Pace {
    /// At so many bits per second, over a path with that round trip.
    pub fn new(bits_per_s: Option<u64>, delay: Duration) -> Self {
        Self { bytes_per_s: bits_per_s.map(|bits| (bits / 8).max(1)), delay }
    }
}
