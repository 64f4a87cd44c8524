//! Connections through a proxy: the tunnel comes first, then TLS, then the protocol. The time that
//! it takes is a part of connecting.

use thalweg_measure::Outcome;
use thalweg_sys::{Driver, Instant, SendBuf, SocketId};

use super::state::Engine;
use crate::protocol::Protocol;
use crate::transport::Transport;
use crate::tunnel::Tunnel;

impl<P: Protocol> Engine<P> {
    /// Begins the tunnel of a connection to the proxy that was just made.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_tunnel<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let plan = self.plan.clone();
        let Some(proxy) = &plan.proxy else { return };
        self.connection(id).transport = Transport::Tunnel(Box::new(Tunnel::new(proxy)));
        self.read_now(driver, id);
        self.go_on_with_tunnel(driver, id, driver.now());
    }

    /// Bytes of the proxy have come.
    #[cold]
    #[inline(never)]
    pub(super) fn on_tunnel_received<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let plan = self.plan.clone();
        let (Some(proxy), Transport::Tunnel(tunnel)) = (&plan.proxy, &mut self.connection(id).transport) else {
            return;
        };
        match tunnel.read(driver.received(), proxy) {
            Ok(()) => {
                self.read_now(driver, id);
                self.go_on_with_tunnel(driver, id, now);
            }
            Err(reason) => self.on_tunnel_refused(driver, id, reason, now),
        }
    }

    /// Bytes for the proxy have left, if the connection has a tunnel that is not there yet.
    #[cold]
    #[inline(never)]
    pub(super) fn on_tunnel_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        if matches!(self.connection(id).transport, Transport::Tunnel(_)) {
            self.go_on_with_tunnel(driver, id, driver.now());
        }
    }

    fn go_on_with_tunnel<D: Driver>(&mut self, driver: &mut D, id: SocketId, now: Instant) {
        let Transport::Tunnel(tunnel) = &mut self.connection(id).transport else { return };
        if let Some(bytes) = tunnel.take_output() {
            return driver.send(id, SendBuf::Owned(bytes));
        }
        let Some(rest) = tunnel.opened() else { return };
        let connection = self.connection(id);
        connection.transport = Transport::Plain;
        let ready_ns = now.ns_since(connection.since);
        if self.begin_handshake(driver, id, 0, now) {
            if !rest.is_empty() && self.is_live(id) {
                self.on_tunnel_refused(driver, id, "the server spoke before TLS".to_owned(), now);
            }
            return;
        }
        self.on_established(driver, id, ready_ns, now);
        if !rest.is_empty() && self.is_live(id) {
            self.on_opened(driver, id, Some(&rest), now);
        }
    }

    /// The proxy makes no tunnel, for this reason: the server cannot be reached.
    #[cold]
    #[inline(never)]
    pub(super) fn on_tunnel_refused<D: Driver>(&mut self, driver: &mut D, id: SocketId, reason: String, now: Instant) {
        let trial = &mut self.figures.trial;
        trial.proxy_refusals += 1;
        trial.proxy_refusal.get_or_insert(reason);
        self.on_connect_failed(driver, id, Some(Outcome::Unreachable), now);
    }
}
