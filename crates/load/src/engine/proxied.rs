//! PROXY headers in front of connections: they leave before TLS and before the protocol, and the
//! time that this takes is a part of connecting.

use std::net::SocketAddr;

use thalweg_sys::{Driver, PeerAddr, SendBuf, SocketId};
use thalweg_wire::proxy_protocol;

use super::state::Engine;
use crate::connection::State;
use crate::protocol::Protocol;
use crate::transport::Transport;

/// The first port of a client in a header, and how many there are.
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 65_536 - FIRST_PORT;

impl<P: Protocol> Engine<P> {
    /// Sends the header of a connection that was just made.
    #[cold]
    #[inline(never)]
    pub(super) fn send_proxy_header<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let Some(plan) = self.plan.proxy_header else { return };
        let connection = &self.connections[id.index()];
        let source = self.plan.sources.get(usize::from(connection.source)).copied().unwrap_or(plan.source);
        let peer = self.plan.peers.get(usize::from(connection.peer)).unwrap_or(&self.plan.peer);
        let port = (FIRST_PORT + (self.proxied * self.plan.cpus.len() as u32 + self.thread as u32) % PORTS) as u16;
        self.proxied = self.proxied.wrapping_add(1) % PORTS;
        let addresses = match peer {
            PeerAddr::Tcp(peer) => Some((SocketAddr::new(source, port), *peer)),
            PeerAddr::Unix(_) => None,
        };
        let mut header = Vec::new();
        proxy_protocol::write(plan.version, addresses, &mut header);
        driver.send(id, SendBuf::Owned(header));
    }

    /// Whether what was sent on a connection is its PROXY header: nothing else is sent before its
    /// transport is there.
    #[inline]
    pub(super) fn is_proxy_header(&self, id: SocketId) -> bool {
        let connection = &self.connections[id.index()];
        self.plan.proxy_header.is_some()
            && matches!(connection.state, State::Connecting)
            && matches!(connection.transport, Transport::Plain)
    }

    /// The header has left: the connection is as one without.
    #[cold]
    #[inline(never)]
    pub(super) fn on_proxy_header_sent<D: Driver>(&mut self, driver: &mut D, id: SocketId) {
        let now = driver.now();
        if !self.begin_handshake(driver, id, 0, now) {
            self.read_now(driver, id);
            let ready_ns = now.ns_since(self.connection(id).since);
            self.on_established(driver, id, ready_ns, now);
        }
    }
}
