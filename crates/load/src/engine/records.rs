//! Connections over TLS: handshakes, and records that are opened before the protocol reads them.

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SocketId};
use thalweg_tls::{Failure, Handshake, Resume, Version};

use super::state::Engine;
use crate::connection::State;
use crate::protocol::Protocol;
use crate::transport::{Tls, Transport, cause_of};

impl<P: Protocol> Engine<P> {
    /// Begins the handshake of a connection that is there since a moment, of which the thread has
    /// learned with that delay. Returns whether TLS is spoken at all.
    pub(super) fn begin_handshake<D: Driver>(
        &mut self,
        driver: &mut D,
        id: SocketId,
        notice_delay_ns: u64,
        now: Instant,
    ) -> bool {
        let Some(plan) = &self.plan.tls else { return false };
        match Tls::begin(driver, id, plan, &mut self.tls_memory, notice_delay_ns) {
            Ok(tls) => {
                self.connection(id).transport = Transport::Tls(Box::new(tls));
                self.read_now(driver, id);
            }
            Err(failure) => {
                self.note_failure(&failure);
                self.on_connect_failed(driver, id, Some(Outcome::TlsFailure), now);
            }
        }
        true
    }

    /// Opens records that the driver has received, and takes in what they carry.
    pub(super) fn on_records<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let mut memory = std::mem::take(&mut self.tls_memory);
        let opened = match &mut self.connection(id).transport {
            Transport::Plain | Transport::Tunnel(_) => Ok(()),
            Transport::Tls(tls) => tls.open(driver.received(), &mut memory),
        };
        match opened {
            Ok(()) => self.on_progress(driver, id, &memory.plain, now),
            Err(failure) => self.on_tls_failed(driver, id, &failure, now),
        }
        self.tls_memory = memory;
    }

    /// Takes in the plain bytes of records, and goes on with the handshake.
    fn on_progress<D: Driver>(&mut self, driver: &mut D, id: SocketId, plain: &[u8], now: Instant) {
        if matches!(self.connection(id).state, State::Connecting) {
            let Some(tls) = self.tls_of(id) else { return };
            if !tls.is_established() {
                tls.flush(driver, id);
                return self.read_now(driver, id);
            }
            self.on_handshake(driver, id, now);
        } else {
            // Tickets come before anything else (RFC 8446, 4.6.1).
            self.awaits_ticket = false;
        }
        if !plain.is_empty() && self.is_live(id) {
            self.on_opened(driver, id, Some(plain), now);
        } else if self.is_live(id) {
            self.pace_records(driver, id, now);
        }
        let Some(tls) = self.tls_of(id) else { return };
        tls.flush(driver, id);
        if tls.is_peer_closed() {
            self.on_ended(driver, id);
        }
    }

    /// The handshake is complete: the connection can carry calls.
    fn on_handshake<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let connection = &self.connections[id.index()];
        let Transport::Tls(tls) = &connection.transport else { return };
        let figures = self.figures.trial.tls.get_or_insert_default();
        let Some(facts) = tls.record(figures, now) else { return };
        let ready_ns = now.ns_since(connection.since).saturating_sub(tls.notice_delay_ns());
        figures.ready.record(ready_ns);
        if self.plan.version() == thalweg_wire::Version::Http2 && facts.alpn.as_deref() != Some(b"h2") {
            figures
                .record_failure("no_http2", "the server did not choose HTTP/2 (h2 of ALPN), which --http 2 requires");
            return self.on_connect_failed(driver, id, Some(Outcome::TlsFailure), now);
        }
        if self.plan.tls.as_ref().is_some_and(|plan| plan.resume == Resume::Always) {
            if facts.handshake != Handshake::Resumed && self.has_session {
                figures.record_failure(
                    "not_resumed",
                    "the server did not resume a session, which --resume always requires",
                );
                return self.on_connect_failed(driver, id, Some(Outcome::TlsFailure), now);
            }
            self.has_session = true;
            // In TLS 1.2 the ticket is a part of the handshake.
            self.awaits_ticket = facts.version == Version::Tls13;
        }
        self.on_established(driver, id, ready_ns, now);
    }

    /// Reads on at the connection's pace, after a part of a record.
    fn pace_records<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        if self.pacer.is_none() {
            return;
        }
        self.pace(id, driver.received().len(), now);
        let connection = &self.connections[id.index()];
        if let Some(oldest) = connection.calls.first() {
            self.calls[oldest].deadline = connection.read_at.max(now) + self.plan.timeout;
        }
    }

    /// TLS has failed, in the handshake or later. Its alert leaves if the kernel takes it at once.
    fn on_tls_failed<D: Driver>(&mut self, driver: &mut D, id: SocketId, failure: &Failure, now: Instant) {
        self.note_failure(failure);
        if let Some(tls) = self.tls_of(id) {
            tls.flush(driver, id);
        }
        match self.connection(id).state {
            State::Connecting => self.on_connect_failed(driver, id, Some(Outcome::TlsFailure), now),
            _ => self.break_connection(driver, id, Outcome::TlsFailure, now),
        }
    }

    /// The server has ended the connection within the handshake.
    pub(super) fn on_handshake_ended<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        if matches!(self.connection(id).transport, Transport::Tunnel(_)) {
            return self.on_tunnel_refused(driver, id, "it ended the connection".to_owned(), now);
        }
        self.note_failure(&Failure::ended());
        self.on_connect_failed(driver, id, Some(Outcome::TlsFailure), now);
    }

    /// Ends TLS on all connections, since the run is over.
    pub(super) fn end_transports<D: Driver>(&mut self, driver: &mut D, now: Instant) {
        let mut waits = false;
        for connection in self.connections.iter_mut().filter(|connection| connection.is_established()) {
            waits |= connection.transport.close_notify(driver, connection.id);
        }
        if waits {
            // The kernel gets it before the sockets are closed; an error concerns no result any
            // more.
            let _ = driver.wait(Some(now));
        }
    }

    fn note_failure(&mut self, failure: &Failure) {
        let figures = self.figures.trial.tls.get_or_insert_default();
        figures.record_failure(&cause_of(failure), &failure.to_string());
    }

    /// TLS on a connection that is still open.
    fn tls_of(&mut self, id: SocketId) -> Option<&mut Tls> {
        if !self.is_live(id) {
            return None;
        }
        match &mut self.connections[id.index()].transport {
            Transport::Plain | Transport::Tunnel(_) => None,
            Transport::Tls(tls) => Some(tls),
        }
    }
}
