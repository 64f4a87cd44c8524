//! The gate: which requests are answered at all, by the network of their client and by the number
//! of its requests.
//!
//! It exists only if a configuration limits either. It keeps the clients of open connections, so
//! that a request costs no system call, and for each the mount that it was let in to last. Of a
//! trusted proxy's connection the client is looked for with each request.

use std::sync::Arc;

use thalweg_sys::{Instant, SocketId};
use thalweg_wire::Fields;

use crate::catalog::networks::NetworkAccess;
use crate::catalog::proxies::TrustedProxies;
use crate::http::clients::Remote;
use crate::shaping::requests::{RequestClient, RequestLimits};

/// The gate of a loop.
pub(crate) struct Gate {
    limits: Option<Arc<RequestLimits>>,
    proxies: Option<Arc<TrustedProxies>>,
    /// The client of each connection, at the index of its socket.
    clients: Vec<Option<GateClient>>,
}

#[derive(Clone, Copy)]
struct GateClient {
    remote: Remote,
    of_limits: Option<RequestClient>,
    /// The site and mount that it was let in to last: lists are not searched for each request.
    let_in: Option<(usize, Option<u16>)>,
}

/// Why a request is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closed {
    /// Its client is in a network that is not let in.
    Network,
    /// Its client has made too many requests, and may make the next in so many seconds.
    Rate { wait_s: u64 },
}

/// Counters of refused requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct RefusedRequests {
    /// By networks.
    pub(crate) denied: u64,
    /// By rates of requests.
    pub(crate) limited: u64,
}

impl Gate {
    /// The gate that networks and limits need, if any.
    pub(crate) fn of(
        networks: Option<&NetworkAccess>,
        proxies: Option<&Arc<TrustedProxies>>,
        limits: Option<Arc<RequestLimits>>,
    ) -> Option<Box<Self>> {
        let is_needed = networks.is_some() || limits.is_some();
        is_needed.then(|| Box::new(Self { limits, proxies: proxies.cloned(), clients: Vec::new() }))
    }

    /// Sets the other end of a connection that was accepted.
    pub(crate) fn set_client(&mut self, socket: SocketId, remote: Remote) {
        let index = socket.index();
        if index >= self.clients.len() {
            self.clients.resize(index + 1, None);
        }
        let of_limits = self.limits.as_ref().map(|limits| limits.client(remote.address, socket));
        self.clients[index] = Some(GateClient { remote, of_limits, let_in: None });
    }

    /// Whether a request is let in. Its place is a site and, if that has any, a mount; `None` is
    /// neither. `is_first` is whether it is counted: it may be looked at again
    /// when its object is ready.
    pub(crate) fn pass(
        &mut self,
        (socket, fields): (SocketId, Fields<'_>),
        networks: Option<&NetworkAccess>,
        place: Option<(usize, Option<u16>)>,
        is_first: bool,
        now: Instant,
    ) -> Result<(), Closed> {
        let client = self.clients.get_mut(socket.index()).and_then(Option::as_mut);
        let client = client.expect("the client of each connection is set");
        if client.remote.is_proxy
            && let Some(named) = self.proxies.as_ref().and_then(|proxies| proxies.client(fields))
        {
            // The next request may be another client's.
            client.let_in = None;
            let address = Some(named.address);
            if networks.is_some_and(|networks| !networks.let_in(place, address)) {
                return Err(Closed::Network);
            }
            let limits = self.limits.as_ref().filter(|_| is_first);
            return limits.map_or(Ok(()), |limits| take(limits, limits.client(address, socket), place, now));
        }
        if let Some(networks) = networks
            && (place.is_none() || client.let_in != place)
        {
            if !networks.let_in(place, client.remote.address) {
                return Err(Closed::Network);
            }
            client.let_in = place;
        }
        if let (true, Some(limits), Some(of_limits)) = (is_first, &self.limits, client.of_limits) {
            take(limits, of_limits, place, now)?;
        }
        Ok(())
    }
}

fn take(
    limits: &RequestLimits,
    client: RequestClient,
    place: Option<(usize, Option<u16>)>,
    now: Instant,
) -> Result<(), Closed> {
    let taken = limits.take(client, place, now);
    taken.map_err(|refused| Closed::Rate { wait_s: refused.wait_ns.div_ceil(1_000_000_000).max(1) })
}
