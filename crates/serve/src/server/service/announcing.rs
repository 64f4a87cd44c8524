//! The other ends of connections: as the kernel has them, or as a proxy announces them in a PROXY
//! header, which comes before anything else.

use thalweg_sys::{Driver, Instant, SocketId};
use thalweg_wire::proxy_protocol::{self, ProxyHeader, ProxyHeaderFault};

use super::Service;
use crate::config::Level;
use crate::http::clients::Remote;
use crate::server::announcements::Arriving;
use crate::server::connection::Connection;

impl Service {
    /// The other end of a connection.
    pub(super) fn remote_of<D: Driver>(&self, driver: &D, socket: SocketId) -> Remote {
        let announced = self.announcements.of(socket);
        let remote = announced.unwrap_or_else(|| Remote {
            address: driver.peer_addr(socket).ok().map(|peer| peer.ip().to_canonical()),
            ..Remote::default()
        });
        // A peer that has gone has no address either.
        let is_known = remote.address.is_some() || driver.local_addr(socket).is_err();
        let proxies = self.shared.responder.origin.namespace().proxies.as_ref().filter(|_| is_known);
        Remote { is_proxy: proxies.is_some_and(|proxies| proxies.are_at(remote.address)), ..remote }
    }

    /// Whether anything is done by the other ends of connections.
    #[inline]
    pub(super) fn wants_remotes(&self) -> bool {
        let shared = &self.shared;
        shared.responder.gate.is_some()
            || shared.responder.clients.is_some()
            || shared.accounting.as_ref().is_some_and(|accounting| accounting.wants_clients())
            || shared.shaper.as_ref().is_some_and(|shaper| shaper.shared().knows_clients())
    }

    /// Makes the other end of a connection known to all that is done by it.
    #[inline(never)]
    pub(super) fn introduce<D: Driver>(&mut self, driver: &D, socket: SocketId) -> Remote {
        let remote = self.remote_of(driver, socket);
        let responder = &mut self.shared.responder;
        if let Some(gate) = &mut responder.gate {
            gate.set_client(socket, remote);
        }
        if let Some(clients) = &mut responder.clients {
            clients.set(socket, remote);
        }
        if let Some(accounting) = self.shared.accounting.as_mut().filter(|accounting| accounting.wants_clients()) {
            accounting.clients().set(socket, remote);
        }
        remote
    }

    /// Has a connection that was just accepted wait for its header, if it is that of a proxy that
    /// is trusted: other peers could name any address.
    #[cold]
    pub(super) fn await_announcement<D: Driver>(&mut self, driver: &mut D, listener: SocketId, socket: SocketId) {
        let remote = self.remote_of(driver, socket);
        if remote.address.is_none() && driver.local_addr(socket).is_ok() {
            // It has gone already, as after a check of the port.
            return driver.close(socket);
        }
        if !remote.is_proxy {
            self.shared.totals.denied += 1;
            self.report_announcement(remote, || "it is not among the trusted_proxies".to_owned());
            return driver.close(socket);
        }
        if !self.announcements.may_arrive() {
            self.shared.totals.refused += 1;
            self.report_announcement(remote, || "too many connections wait for their PROXY header".to_owned());
            return driver.close(socket);
        }
        let index = socket.index();
        if index >= self.slots.len() {
            self.slots.resize_with(index + 1, Default::default);
        }
        let now = driver.now();
        let slot = &mut self.slots[index];
        if !slot.armed {
            slot.armed = true;
            self.wheel.arm(index as u64, now.plus_ns(self.look_ns));
        }
        self.open += 1;
        let deadline = now.plus_ns(self.shared.times.head_ns());
        self.announcements.push(Arriving { socket, listener, bytes: Vec::new(), deadline });
    }

    /// Bytes have come in on a connection whose header was not whole.
    #[cold]
    #[inline(never)]
    pub(super) fn on_announcement<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Some(arriving) = self.announcements.arriving(socket) else { return };
        arriving.bytes.extend_from_slice(driver.received());
        let read = proxy_protocol::read(&arriving.bytes);
        let remote = self.remote_of(driver, socket);
        let (header, header_bytes) = match read {
            Ok(Some(read)) => read,
            Ok(None) => return,
            Err(ProxyHeaderFault(fault)) => {
                self.report_announcement(remote, || format!("it sent no valid PROXY header: {fault}"));
                return self.close(driver, socket);
            }
        };
        let Some(Arriving { listener, bytes, .. }) = self.announcements.take(socket) else { return };
        self.open -= 1;
        if let ProxyHeader::Client { address, is_secure } = header {
            self.announcements.set(socket, Remote { address, is_secure, is_proxy: false });
        }
        self.enter(driver, listener, socket);
        let connection = self.slots.get(socket.index()).and_then(|slot| slot.connection.as_ref());
        // It may have been closed at once.
        let is_there = connection.is_some_and(|connection| connection.socket() == socket);
        if is_there && header_bytes < bytes.len() {
            self.react(driver, socket, |connection: &mut Connection, driver, shared| {
                connection.on_first_input(driver, shared, &bytes[header_bytes..])
            });
        }
    }

    /// Closes the connection at an index of sockets if its header is late. Whether it is still
    /// waited for.
    #[cold]
    pub(super) fn look_at_announcement<D: Driver>(&mut self, driver: &mut D, index: usize, now: Instant) -> bool {
        let Some(arriving) = self.announcements.arriving_at(index) else { return false };
        let (socket, deadline) = (arriving.socket, arriving.deadline);
        if deadline <= now {
            self.close(driver, socket);
            return false;
        }
        self.wheel.arm(index as u64, deadline.min(now.plus_ns(self.look_ns)));
        true
    }

    /// Forgets a connection whose header has not come.
    #[cold]
    pub(super) fn forget_announcement(&mut self, socket: SocketId) {
        if self.announcements.take(socket).is_some() {
            self.open -= 1;
        }
    }

    fn report_announcement(&self, remote: Remote, why: impl FnOnce() -> String) {
        let Some(error_log) = &self.shared.error_log else { return };
        error_log.say_once_a_minute(Level::Warning, "PROXY protocol", || {
            let from = remote.address.map_or_else(|| "a Unix socket".to_owned(), |address| address.to_string());
            format!("a connection from {from} was closed: {}", why())
        });
    }
}
