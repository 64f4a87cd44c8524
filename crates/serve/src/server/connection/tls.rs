//! A connection over TLS: its handshake, input in records, and an end that says so.

use std::mem;

use thalweg_sys::{Driver, Instant};
use thalweg_tls::{Failure, Handshake, Version};

use super::{Connection, Fate, Shared, Stage};
use crate::config::Level;
use crate::session::{Activity, Session as _};
use crate::transport::{Negotiated, SendError, Transport};

impl Connection {
    /// Whether its handshake is not complete.
    pub(crate) fn is_in_handshake(&self) -> bool {
        self.transport.negotiated().is_none()
    }

    /// Bytes have come in over TLS.
    #[inline(never)]
    pub(super) fn on_records<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        match self.stage {
            Stage::Closing => return Fate::Stays,
            // Nobody will read it.
            Stage::Lingering { .. } => {
                let taken = self.take_input(shared, driver.now(), driver.received());
                return self.follow_input(driver, shared, taken);
            }
            Stage::Open | Stage::Arriving => {}
        }
        self.on_handshake_input(driver, shared, None)
    }

    /// Decrypts input, which has just been received unless it came with a PROXY header. That of a
    /// handshake may have to wait.
    #[inline]
    pub(super) fn on_handshake_input<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        announced: Option<&[u8]>,
    ) -> Fate {
        if self.is_in_handshake() && !shared.handshake_budget.take() {
            return self.wait_for_handshake_budget(driver, shared, announced);
        }
        self.decrypt(driver, shared, announced)
    }

    /// Keeps input of the handshake for a later iteration, and takes no more until then.
    #[cold]
    fn wait_for_handshake_budget<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        announced: Option<&[u8]>,
    ) -> Fate {
        let socket = self.socket();
        if self.transport.tls().is_some_and(|tls| tls.keep(announced.unwrap_or_else(|| driver.received()))) {
            shared.handshake_budget.wait(socket);
            self.pause(driver);
        }
        Fate::Stays
    }

    /// The loop has time for the input of the handshake that has waited.
    pub(crate) fn on_handshake_budget<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        let waiting = self.transport.tls().map(|tls| tls.take_waiting()).unwrap_or_default();
        if waiting.is_empty() || !matches!(self.stage, Stage::Open | Stage::Arriving) {
            return Fate::Stays;
        }
        self.hold_input(driver);
        self.decrypt(driver, shared, Some(&waiting))
    }

    /// Decrypts input, which has just been received unless it has waited.
    fn decrypt<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, waited: Option<&[u8]>) -> Fate {
        // The session borrows all that is shared while it reads this.
        let mut plain = mem::take(&mut shared.tls_memory.plain);
        plain.clear();
        let fate = self.on_decrypted(driver, shared, waited, &mut plain);
        shared.tls_memory.plain = plain;
        fate
    }

    /// The driver has sent records that do not complete a send of the connection's.
    pub(super) fn on_part_sent<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared) -> Fate {
        if self.stage != Stage::Closing {
            return Fate::Stays;
        }
        if !self.transport.tls().is_some_and(|tls| tls.lingers()) {
            return Fate::Over;
        }
        self.transport.finish(driver, shared.memory());
        self.linger(driver, &shared.times);
        Fate::Stays
    }

    /// The bytes that say over TLS that the connection ends here, and not by an accident: none
    /// while a response is under way, which would be taken for whole.
    pub(crate) fn last_bytes(&mut self) -> Vec<u8> {
        let is_responding = matches!(self.session.activity(), Activity::Responding { .. });
        match self.transport.tls().filter(|_| !is_responding) {
            Some(tls) => tls.last_bytes(),
            None => Vec::new(),
        }
    }

    fn on_decrypted<D: Driver>(
        &mut self,
        driver: &mut D,
        shared: &mut Shared,
        waited: Option<&[u8]>,
        plain: &mut Vec<u8>,
    ) -> Fate {
        let Some(tls) = self.transport.tls() else { return Fate::Stays };
        let was_established = tls.is_established();
        let input = waited.unwrap_or_else(|| driver.received());
        let received = match tls.receive(input, &mut shared.tls_memory, plain) {
            Ok(received) => received,
            Err(failure) => return self.on_tls_failure(shared, was_established, &failure),
        };
        let now = driver.now();
        if received.is_established && !was_established && self.on_established(shared, now) == Fate::Over {
            return Fate::Over;
        }
        let fate = match plain.is_empty() {
            true => Fate::Stays,
            false => {
                let taken = self.take_input(shared, now, plain);
                self.follow_input(driver, shared, taken)
            }
        };
        match fate {
            Fate::Stays if received.is_peer_closed => self.on_ended(driver, shared),
            fate => fate,
        }
    }

    /// The handshake is complete: the head of a request has its own time.
    fn on_established(&mut self, shared: &mut Shared, now: Instant) -> Fate {
        let facts = self.transport.tls().and_then(|tls| tls.begin());
        if let Some(facts) = facts {
            match facts.version {
                Version::Tls12 => shared.totals.handshakes_tls12 += 1,
                Version::Tls13 => shared.totals.handshakes_tls13 += 1,
            }
            shared.totals.handshakes_resumed += u64::from(facts.handshake == Handshake::Resumed);
        }
        shared.handshakes -= 1;
        self.deadline = now.plus_ns(shared.times.head_ns);
        match self.transport.negotiated() {
            // Such a connection has served its purpose by its handshake.
            Some(Negotiated::Challenge) => return Fate::Over,
            Some(Negotiated::Http2) => {
                self.with_session(shared, now, |session, services| session.begin_http2(services));
            }
            Some(Negotiated::Http1) | None => {}
        }
        Fate::Stays
    }

    #[cold]
    fn on_tls_failure(&mut self, shared: &mut Shared, was_established: bool, failure: &Failure) -> Fate {
        if !was_established {
            shared.totals.handshakes_failed += 1;
            if let Some(error_log) = &shared.error_log {
                // Most are those of scanners.
                error_log.say_once_a_minute(Level::Notice, "TLS handshake", || {
                    format!("a TLS handshake has failed: {failure}")
                });
            }
        }
        Fate::Over
    }

    /// Completes an event of a connection over TLS: what TLS itself has to send leaves, a send that
    /// cannot be completed ends the connection, and its end is announced to the client.
    #[inline(never)]
    pub(crate) fn settle<D: Driver>(&mut self, driver: &mut D, shared: &mut Shared, fate: Fate) -> Fate {
        let Transport::Tls(tls) = &mut self.transport else { return fate };
        match tls.take_error() {
            None => {}
            Some(SendError::Changed(change)) => {
                shared.file_change = Some(change);
                return Fate::FileChanged;
            }
            Some(SendError::Other) => return Fate::Abandoned,
        }
        match fate {
            Fate::Stays => {
                tls.flush(driver, shared.memory());
                fate
            }
            Fate::Over if self.stage != Stage::Closing && tls.begin_close(driver, shared.memory()) => {
                self.stage = Stage::Closing;
                self.deadline = driver.now().plus_ns(shared.times.linger_ns);
                Fate::Stays
            }
            fate => fate,
        }
    }
}
