//! Connections at a pace read slowly, so that the server holds them for as long as a slow client
//! would make it.
//!
//! Such a connection reads a piece, and the next one when the bytes of the first would have come
//! over its line. The receive window is small, so that what is not read stays with the server. On a
//! long path the first piece of a response is read when it is there, so that an end or a reset is
//! not missed, and held until a round trip has passed since its request.

use thalweg_sys::{Driver, Instant, SocketId};

use super::state::Engine;
use crate::protocol::Protocol;

impl<P: Protocol> Engine<P> {
    /// Lets a new connection at a pace read its first bytes.
    pub(super) fn read_now<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        if let Some(pacer) = &self.pacer {
            let bytes_max = pacer.read_bytes;
            self.connections[id.index()].transport.receive(driver, id, bytes_max);
        }
    }

    /// Notes that a connection at a pace has read so many bytes and may read again when they would
    /// have come.
    pub(super) fn pace(&mut self, id: SocketId, bytes: usize, now: Instant) {
        let Some(pacer) = &mut self.pacer else { return };
        let connection = &mut self.connections[id.index()];
        // The next read is due that long after this one was, however late it came, unless the line
        // was idle.
        let since = if now.ns_since(connection.read_at) < pacer.cycle_ns { connection.read_at } else { now };
        connection.read_at = since.plus_ns(pacer.pace.time_ns(bytes as u64));
        pacer.wheel.arm(id.to_bits(), connection.read_at);
    }

    /// Holds bytes that begin a response and cannot have come over its path yet. They came as
    /// `received` bytes of the transport; `latest` is when the driver began the connection's latest
    /// send. Returns whether they are held.
    pub(super) fn hold(&mut self, id: SocketId, bytes: &[u8], received: usize, latest: Instant, now: Instant) -> bool {
        let Some(pacer) = self.pacer.as_mut().filter(|pacer| !pacer.path_delay().is_zero()) else { return false };
        let connection = &mut self.connections[id.index()];
        if let Some(buffers) = connection.buffers.as_mut().filter(|buffers| !buffers.held.is_empty()) {
            // The order of the bytes is kept, also where the beginning has come and is about to be
            // taken in.
            buffers.held.extend_from_slice(bytes);
            self.pace(id, received, now);
            return true;
        }
        let Some(oldest) = connection.calls.first() else { return false };
        let call = &mut self.calls[oldest];
        let comes_at = call.sent_or(latest) + pacer.path_delay();
        let has_left = call.has_left(latest, connection.submitted_at);
        if !has_left || call.first_byte.get().is_some() || comes_at <= now {
            return false;
        }
        call.deadline = comes_at + self.plan.timeout;
        connection.buffers.get_or_insert_default().held.extend_from_slice(bytes);
        connection.read_at = connection.read_at.max(comes_at);
        pacer.arrivals.arm(id.to_bits(), comes_at);
        self.pace(id, received, comes_at);
        true
    }

    /// Reads the held responses whose beginnings have come by now.
    pub(super) fn take_in_held<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        while let Some(key) = self.pacer.as_mut().and_then(|pacer| pacer.arrivals.pop_due(now)) {
            let id = SocketId::from_bits(key);
            let connection = &mut self.connections[id.index()];
            if connection.id == id
                && connection.is_open()
                && let Some(buffers) = &mut connection.buffers
            {
                let held = std::mem::take(&mut buffers.held);
                self.take_in(driver, id, Some(&held), now);
            }
        }
    }

    /// Lets those connections read whose time has come.
    pub(super) fn read_due<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let Some(pacer) = &mut self.pacer else { return };
        while let Some(key) = pacer.wheel.pop_due(now) {
            let id = SocketId::from_bits(key);
            let connection = &mut self.connections[id.index()];
            if connection.id == id && connection.is_open() {
                connection.transport.receive(driver, id, pacer.read_bytes);
            }
        }
    }
}
