//! Handshakes of a loop, and how many are under way.
//!
//! A handshake takes a hundred times the work of a request, and a client can begin many without
//! completing one. So their number is bounded: beyond it the oldest one gives way, which is the
//! most likely one never to be completed. In an iteration a few are calculated, and the input of
//! the others waits, so that requests of connections that are established go on.

use thalweg_sys::{Driver, Instant, SocketId};

use super::{Service, Slot};
use crate::server::connection::Connection;
use crate::transport::{Tls, Transport};

impl Service {
    /// The transport of a connection that was just accepted; `None` if TLS cannot be begun.
    #[inline]
    pub(super) fn transport_of<D: Driver>(
        &mut self,
        driver: &mut D,
        listener: SocketId,
        socket: SocketId,
    ) -> Option<Transport> {
        match &self.tls {
            None => Some(Transport::Plain(socket)),
            Some(tls) if !tls.listeners.contains(&listener) => Some(Transport::Plain(socket)),
            Some(_) => self.begin_handshake(driver, socket),
        }
    }

    fn begin_handshake<D: Driver>(&mut self, driver: &mut D, socket: SocketId) -> Option<Transport> {
        let tls = self.tls.as_mut()?;
        let transport = Tls::accept(socket, &tls.settings, driver.now()).ok()?;
        tls.begun.push_back(socket);
        self.shared.handshakes += 1;
        if self.shared.handshakes > tls.handshakes_max {
            self.shed_handshake(driver);
        }
        let is_under_way = |slots: &[Slot], socket: SocketId| {
            let connection = slots.get(socket.index()).and_then(|slot| slot.connection.as_ref());
            connection.is_some_and(|connection| connection.socket() == socket && connection.is_in_handshake())
        };
        let slots = &self.slots;
        let tls = self.tls.as_mut()?;
        // The new one has no connection yet, and stays.
        while tls.begun.len() > 1 && tls.begun.front().is_some_and(|&socket| !is_under_way(slots, socket)) {
            tls.begun.pop_front();
        }
        // One that is slow in front of many that were fast.
        if tls.begun.len() > 2 * tls.handshakes_max + 64 {
            tls.begun.retain(|&begun| begun == socket || is_under_way(slots, begun));
        }
        Some(Transport::Tls(Box::new(transport)))
    }

    /// Ends the oldest handshake.
    #[cold]
    fn shed_handshake<D: Driver>(&mut self, driver: &mut D) {
        while let Some(oldest) = self.tls.as_mut().and_then(|tls| tls.begun.pop_front()) {
            let slot = self.slots.get(oldest.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            if connection.is_some_and(|connection| connection.socket() == oldest && connection.is_in_handshake()) {
                self.shared.totals.handshakes_shed += 1;
                return self.abandon(driver, oldest);
            }
        }
    }

    /// Goes on with handshakes whose input waits, in order.
    #[cold]
    pub(super) fn advance_handshakes<D: Driver>(&mut self, driver: &mut D, waiting: usize) {
        for _ in 0..waiting {
            let Some(socket) = self.shared.handshake_budget.pop() else { return };
            let slot = self.slots.get(socket.index());
            let connection = slot.and_then(|slot| slot.connection.as_ref());
            // It may have been closed meanwhile, and its slot reused.
            if connection.is_some_and(|connection| connection.socket() == socket) {
                self.shared.handshake_budget.use_one();
                self.react(driver, socket, Connection::on_handshake_budget);
            }
        }
    }

    /// The end of the time for a handshake that begins now.
    pub(super) fn handshake_deadline(&self, now: Instant) -> Instant {
        let ns = self.tls.as_ref().and_then(|tls| tls.handshake_ns);
        now.plus_ns(ns.unwrap_or(self.shared.times.head_ns()))
    }
}
