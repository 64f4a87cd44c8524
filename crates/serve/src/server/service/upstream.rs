//! The sockets of remote origins, by the socket and by the number that the origin knows it by.

use std::collections::HashMap;

use foldhash::quality::RandomState;
use thalweg_sys::{Completion, SocketId};

use crate::content::remote::OriginConnection;
use crate::content::stream::Wakes;

/// The sockets of remote origins.
#[derive(Default)]
pub(super) struct Upstreams {
    /// The index of its origin, and the number by which that knows it.
    pub(super) by_socket: HashMap<SocketId, (usize, OriginConnection), RandomState>,
    pub(super) by_connection: HashMap<(usize, OriginConnection), SocketId, RandomState>,
    pub(super) wakes: Wakes,
}

impl Upstreams {
    /// The socket of a completion, if an origin has it.
    #[inline]
    pub(super) fn concerned(&self, completion: &Completion) -> Option<SocketId> {
        if self.by_socket.is_empty() {
            return None;
        }
        completion.subject().filter(|socket| self.by_socket.contains_key(socket))
    }

    pub(super) fn insert(&mut self, origin: usize, connection: OriginConnection, socket: SocketId) {
        self.by_socket.insert(socket, (origin, connection));
        self.by_connection.insert((origin, connection), socket);
    }

    pub(super) fn remove(&mut self, origin: usize, connection: OriginConnection) -> Option<SocketId> {
        let socket = self.by_connection.remove(&(origin, connection))?;
        self.by_socket.remove(&socket);
        Some(socket)
    }
}
