//! PROXY headers of a loop: the listeners whose connections begin with one, the connections whose
//! header has not come, and what the others announced.

use std::collections::HashMap;

use thalweg_sys::{Instant, SocketId};

use crate::http::clients::Remote;

/// Connections without their header on a loop at once. A proxy sends it with the connection.
const ARRIVING_MAX: usize = 4096;

/// PROXY headers of a loop.
#[derive(Default)]
pub(crate) struct Announcements {
    /// The groups whose listeners begin with a header.
    groups: Vec<u32>,
    listeners: Vec<SocketId>,
    /// At the index of their socket.
    arriving: HashMap<usize, Arriving>,
    /// The other ends that were announced, at the index of their socket, which may be another's by
    /// now.
    announced: Vec<Option<(SocketId, Remote)>>,
}

/// A connection whose header has not come.
pub(crate) struct Arriving {
    pub(crate) socket: SocketId,
    pub(crate) listener: SocketId,
    /// The beginning of the header.
    pub(crate) bytes: Vec<u8>,
    pub(crate) deadline: Instant,
}

impl Announcements {
    /// Announcements of a loop; connections of listeners of these groups begin with a header.
    pub(crate) fn new(groups: Vec<u32>) -> Self {
        Self { groups, ..Self::default() }
    }

    /// Has the listeners of these groups begin with a header. Those that are `leaving` go on as
    /// they did.
    pub(crate) fn configure(&mut self, groups: Vec<u32>, listeners: &[(u32, SocketId)], leaving: &[SocketId]) {
        self.groups = groups;
        self.listeners.retain(|listener| leaving.contains(listener));
        listeners.iter().for_each(|&(group, listener)| self.add_listener(group, listener));
    }

    /// Has a listener begin with a header, if its group does.
    pub(crate) fn add_listener(&mut self, group: u32, listener: SocketId) {
        if self.groups.contains(&group) {
            self.listeners.push(listener);
        }
    }

    /// Whether the connections of a listener begin with a header.
    #[inline]
    pub(crate) fn are_at(&self, listener: SocketId) -> bool {
        !self.listeners.is_empty() && self.listeners.contains(&listener)
    }

    /// Whether one more connection may be without its header.
    pub(crate) fn may_arrive(&self) -> bool {
        self.arriving.len() < ARRIVING_MAX
    }

    /// A connection has come, without its header.
    pub(crate) fn push(&mut self, arriving: Arriving) {
        self.arriving.insert(arriving.socket.index(), arriving);
    }

    /// The connection of a socket, if its header has not come.
    pub(crate) fn arriving(&mut self, socket: SocketId) -> Option<&mut Arriving> {
        self.arriving.get_mut(&socket.index()).filter(|arriving| arriving.socket == socket)
    }

    /// The connection at an index of sockets, if its header has not come.
    pub(crate) fn arriving_at(&self, index: usize) -> Option<&Arriving> {
        self.arriving.get(&index)
    }

    /// The same, which is no longer waited for.
    pub(crate) fn take(&mut self, socket: SocketId) -> Option<Arriving> {
        let is_meant = self.arriving.get(&socket.index()).is_some_and(|arriving| arriving.socket == socket);
        if is_meant { self.arriving.remove(&socket.index()) } else { None }
    }

    /// All connections without their header.
    pub(crate) fn sockets(&self) -> Vec<SocketId> {
        self.arriving.values().map(|arriving| arriving.socket).collect()
    }

    /// Sets the other end that was announced for a connection.
    pub(crate) fn set(&mut self, socket: SocketId, remote: Remote) {
        let index = socket.index();
        if index >= self.announced.len() {
            self.announced.resize(index + 1, None);
        }
        self.announced[index] = Some((socket, remote));
    }

    /// The other end that was announced for a connection.
    #[inline]
    pub(crate) fn of(&self, socket: SocketId) -> Option<Remote> {
        let announced = self.announced.get(socket.index()).copied().flatten();
        announced.filter(|(announced, _)| *announced == socket).map(|(_, remote)| remote)
    }
}
