//! The sink's server over HTTP/2 and over TLS: sockets, and the connections on them.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_reactor::{App, LoopControl};
use thalweg_sys::driver::Listen;
use thalweg_sys::{Completion, Driver, Instant, SendBuf, SocketId};
use thalweg_tls::ServerSettings;
use thalweg_wire::Version;

use super::connection::{Broken, Connection, Memory, Prepared};

pub(super) struct Server {
    version: Version,
    tls: Option<ServerSettings>,
    prepared: Prepared,
    /// At the indexes of their sockets.
    peers: Vec<Option<Peer>>,
    memory: Memory,
    /// The listener, while it does not accept for want of room.
    full: Option<SocketId>,
    stop: Arc<AtomicBool>,
}

struct Peer {
    socket: SocketId,
    connection: Connection,
    /// Bytes that wait until the driver has sent those before, and those.
    waiting: Vec<u8>,
    in_flight: Rc<Vec<u8>>,
    is_sending: bool,
}

impl Server {
    pub(super) fn new(version: Version, tls: Option<ServerSettings>, body_bytes: usize, stop: Arc<AtomicBool>) -> Self {
        let prepared = Prepared::new(version, body_bytes);
        Self { version, tls, prepared, peers: Vec::new(), memory: Memory::default(), full: None, stop }
    }

    pub(super) fn listen<D: Driver>(&self, driver: &mut D, at: Listen) -> io::Result<SocketAddr> {
        let listener = driver.listen(at)?;
        driver.local_addr(listener)
    }

    fn on_accepted<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        let Ok(connection) = Connection::new(self.version, self.tls.as_ref()) else { return driver.close(socket) };
        if self.peers.len() <= socket.index() {
            self.peers.resize_with(socket.index() + 1, || None);
        }
        let peer = Peer { socket, connection, waiting: Vec::new(), in_flight: Rc::default(), is_sending: false };
        self.peers[socket.index()] = Some(peer);
        self.serve(driver, socket, false);
    }

    /// Takes what the driver has received, if it has, and sends what is to be sent.
    fn serve<D: Driver>(&mut self, driver: &mut D, socket: SocketId, has_received: bool) {
        let Self { peers, memory, prepared, .. } = self;
        let Some(Some(peer)) = peers.get_mut(socket.index()) else { return };
        let received = if has_received { driver.received() } else { &[] };
        if peer.advance(received, prepared, memory).is_err() {
            return self.close(driver, socket);
        }
        if peer.is_sending {
            return;
        }
        if !peer.waiting.is_empty() {
            let in_flight = Rc::get_mut(&mut peer.in_flight).expect("the driver has sent it");
            in_flight.clear();
            std::mem::swap(in_flight, &mut peer.waiting);
            peer.is_sending = true;
            driver.send(peer.socket, SendBuf::Shared(Rc::clone(&peer.in_flight)));
        } else if peer.connection.is_over() {
            driver.finish(peer.socket);
        }
    }

    fn on_sent<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if let Some(Some(peer)) = self.peers.get_mut(socket.index()) {
            peer.is_sending = false;
        }
        self.serve(driver, socket, false);
    }

    fn close<D: Driver>(&mut self, driver: &mut D, socket: SocketId) {
        if self.peers.get_mut(socket.index()).is_some_and(|peer| peer.take().is_some()) {
            driver.close(socket);
            self.full.take().into_iter().for_each(|listener| driver.resume_accept(listener));
        }
    }
}

impl Peer {
    /// Takes bytes of the client, and has a part of the responses wait.
    fn advance(&mut self, received: &[u8], prepared: &Prepared, memory: &mut Memory) -> Result<(), Broken> {
        if !received.is_empty() {
            self.connection.receive(received, memory, &mut self.waiting)?;
        }
        if self.is_sending { Ok(()) } else { self.connection.fill(prepared, memory, &mut self.waiting) }
    }
}

impl<D: Driver> App<D> for Server {
    fn on_completion(&mut self, driver: &mut D, completion: Completion) {
        match completion {
            Completion::Accepted { socket, .. } => self.on_accepted(driver, socket),
            Completion::Received { socket } => self.serve(driver, socket, true),
            Completion::Sent { socket } => self.on_sent(driver, socket),
            Completion::Ended { socket } | Completion::Failed { socket, .. } => self.close(driver, socket),
            Completion::AcceptFailed { listener, .. } => self.full = Some(listener),
            Completion::Connected { .. } | Completion::Woken => {}
        }
    }

    fn on_iteration(&mut self, _driver: &mut D, _now: Instant) -> LoopControl {
        if self.stop.load(Ordering::Acquire) { LoopControl::Stop } else { LoopControl::WaitUntil(None) }
    }
}
