//! Clients of requests: the other ends of their connections or, behind proxies that are trusted,
//! those whom these name.
//!
//! A connection is looked at when it is accepted. A request of one that is no proxy's costs nothing
//! here but the look at that; only a proxy's requests have their fields read.

use std::net::IpAddr;
use std::sync::Arc;

use thalweg_caching::PreviousHop;
use thalweg_sys::SocketId;
use thalweg_wire::forwarded::ClientField;
use thalweg_wire::{Fields, RequestHead};

use crate::catalog::proxies::TrustedProxies;

/// The other end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Remote {
    /// Its address; `None` on a Unix socket, and for one that has gone.
    pub(crate) address: Option<IpAddr>,
    /// It is a proxy that is trusted.
    pub(crate) is_proxy: bool,
    /// A proxy has said that it speaks TLS with that.
    pub(crate) is_secure: bool,
}

impl Remote {
    /// The client whose connection it is, for what is limited by connections; `None`: it is a
    /// client of its own, as one connection of a proxy may be many clients'.
    pub(crate) fn of_connection(self) -> Option<IpAddr> {
        self.address.filter(|_| !self.is_proxy)
    }
}

/// The clients of open connections.
#[derive(Default)]
pub(crate) struct Clients {
    proxies: Option<Arc<TrustedProxies>>,
    /// The field in which origins are told of clients.
    field: ClientField,
    /// At the index of their socket.
    remotes: Vec<Remote>,
}

impl Clients {
    /// Clients of a server that trusts these proxies, and names clients to origins in this field.
    pub(crate) fn new(proxies: Option<Arc<TrustedProxies>>, field: ClientField) -> Self {
        Self { proxies, field, remotes: Vec::new() }
    }

    /// Trusts other proxies from now on.
    pub(crate) fn trust(&mut self, proxies: Option<Arc<TrustedProxies>>) {
        self.proxies = proxies;
    }

    /// Sets the other end of a connection.
    pub(crate) fn set(&mut self, socket: SocketId, remote: Remote) {
        let index = socket.index();
        if index >= self.remotes.len() {
            self.remotes.resize(index + 1, Remote::default());
        }
        self.remotes[index] = remote;
    }

    /// The other end of a connection.
    #[inline]
    pub(crate) fn remote(&self, socket: SocketId) -> Remote {
        self.remotes.get(socket.index()).copied().unwrap_or_default()
    }

    /// The address of the client of a request: of a proxy whom it names, or its own if it names
    /// nobody.
    #[inline]
    pub(crate) fn address(&self, socket: SocketId, request: Option<&RequestHead<'_>>) -> Option<IpAddr> {
        let remote = self.remote(socket);
        match request {
            Some(request) if remote.is_proxy => self.named(request.fields).map(Some).unwrap_or(remote.address),
            _ => remote.address,
        }
    }

    /// The hop that an origin is told of, for a request that has come by a connection.
    pub(crate) fn previous_hop(&self, socket: SocketId) -> PreviousHop {
        let Remote { address, is_proxy, .. } = self.remote(socket);
        PreviousHop { address, is_trusted: is_proxy, field: self.field }
    }

    #[cold]
    fn named(&self, fields: Fields<'_>) -> Option<IpAddr> {
        self.proxies.as_ref()?.client(fields).map(|client| client.address)
    }

    /// Whether the client of a request speaks TLS with a proxy that is trusted.
    #[cold]
    pub(crate) fn is_secure(&self, socket: SocketId, fields: Fields<'_>) -> bool {
        let remote = self.remote(socket);
        let named = self.proxies.as_ref().filter(|_| remote.is_proxy).and_then(|proxies| proxies.client(fields));
        named.and_then(|client| client.is_secure).unwrap_or(remote.is_secure)
    }
}
