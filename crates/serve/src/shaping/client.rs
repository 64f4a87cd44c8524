//! Clients: the connections of each on all loops, and the bytes that it has taken of its rate.
//!
//! A client is an IPv4 address or an IPv6 /64, because one subscriber gets a /64 and can use any
//! number of addresses from it. Connections that come over a Unix socket have no address: each is a
//! client of its own, and their number is up to the proxy that they come from.
//!
//! A client is looked up when a connection is accepted, and only if a limit needs it; a request
//! never looks it up.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use foldhash::fast::RandomState;
use thalweg_sys::{Instant, SocketId};

use super::bucket::{Lease, Rate, SharedBucket};
use super::fair::ClientIndex;

/// An IPv4 address, or the first 64 bits of an IPv6 one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum ClientKey {
    /// An address.
    V4(u32),
    /// A network.
    V6(u64),
}

impl ClientKey {
    /// The client at an address.
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

/// The clients of all loops.
#[derive(Debug)]
pub(crate) struct SharedClients {
    rate: Option<Rate>,
    connections_max: u32,
    /// Several, so that loops that accept at the same time seldom meet.
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

const SHARDS: usize = 16;

#[derive(Default, Debug)]
struct Shard {
    clients: HashMap<ClientKey, Arc<SharedClient>, RandomState>,
    sweep_at: usize,
}

/// Fewer clients than this are not worth looking for those that have gone.
const SWEEP_MIN: usize = 64;

/// The state of a client that all loops share.
#[derive(Debug)]
struct SharedClient {
    connections: AtomicU32,
    /// Loops that have at least one of them.
    loops: AtomicU32,
    /// Used if there is a rate.
    bucket: SharedBucket,
}

/// A client has as many connections as it may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TooMany;

impl SharedClients {
    /// No clients yet. 0 connections are any number.
    pub(crate) fn new(rate: Option<Rate>, connections_max: usize) -> Self {
        let connections_max = match u32::try_from(connections_max) {
            Ok(0) | Err(_) => u32::MAX,
            Ok(connections) => connections,
        };
        Self { rate, connections_max, shards: Default::default(), hasher: RandomState::default() }
    }

    /// The rate that each client has.
    pub(super) fn rate(&self) -> Option<Rate> {
        self.rate
    }

    /// Counts a connection of a client in.
    fn enter(&self, key: ClientKey, connections_max: u32, now: Instant) -> Result<Arc<SharedClient>, TooMany> {
        let shard = &self.shards[self.hasher.hash_one(key) as usize % SHARDS];
        // A loop that panicked has left nothing half done here.
        let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
        if shard.clients.len() >= shard.sweep_at.max(SWEEP_MIN) {
            shard.clients.retain(|_, client| client.is_there(self.rate, now));
            shard.sweep_at = 2 * shard.clients.len();
        }
        let client = shard.clients.entry(key).or_insert_with(|| Arc::new(SharedClient::new(self.rate, now)));
        // Under the lock, so that two loops cannot both take the last connection.
        if client.connections.load(Relaxed) >= connections_max {
            return Err(TooMany);
        }
        client.connections.fetch_add(1, Relaxed);
        Ok(Arc::clone(client))
    }
}

impl SharedClient {
    fn new(rate: Option<Rate>, now: Instant) -> Self {
        // Without a rate, the bucket is not used.
        let bucket = rate.or(Rate::new(1)).map(|rate| SharedBucket::new(rate, now)).expect("1 is a rate");
        Self { connections: AtomicU32::new(0), loops: AtomicU32::new(0), bucket }
    }

    /// Whether it must be known: a client that ends its connections and comes back must not be rid
    /// of its debt.
    fn is_there(&self, rate: Option<Rate>, now: Instant) -> bool {
        self.connections.load(Relaxed) > 0 || rate.is_some_and(|rate| self.bucket.is_in_debt(rate, now))
    }
}

/// The clients that have connections on this loop.
pub(crate) struct Clients {
    shared: Arc<SharedClients>,
    places: Vec<Option<Client>>,
    free: Vec<ClientIndex>,
    by_key: HashMap<ClientKey, ClientIndex, RandomState>,
}

/// A client with connections on this loop.
pub(crate) struct Client {
    key: Option<ClientKey>,
    shared: Arc<SharedClient>,
    connections: u32,
    lease: Lease,
    line: Line,
}

/// The connections of a client that wait for its rate, in the order in which they came.
#[derive(Default)]
pub(super) struct Line {
    pub(super) sockets: VecDeque<SocketId>,
    /// The shaper has an entry for this queue.
    pub(super) is_known: bool,
}

impl Clients {
    /// No clients yet.
    pub(crate) fn new(shared: Arc<SharedClients>) -> Self {
        Self { shared, places: Vec::new(), free: Vec::new(), by_key: HashMap::default() }
    }

    /// A connection has come; `address` is `None` for those that have none.
    pub(crate) fn enter(&mut self, address: Option<IpAddr>, now: Instant) -> Result<ClientIndex, TooMany> {
        self.enter_up_to(self.shared.connections_max, address, now)
    }

    /// A connection is there already, however many there are of its client.
    pub(crate) fn enter_anyway(&mut self, address: Option<IpAddr>, now: Instant) -> ClientIndex {
        self.enter_up_to(u32::MAX, address, now).expect("fewer connections than that")
    }

    fn enter_up_to(
        &mut self,
        connections_max: u32,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Result<ClientIndex, TooMany> {
        let Some(key) = address.map(ClientKey::of) else {
            let own = SharedClient::new(self.shared.rate, now);
            own.connections.store(1, Relaxed);
            return Ok(self.insert(None, Arc::new(own)));
        };
        let shared = self.shared.enter(key, connections_max, now)?;
        if let Entry::Occupied(known) = self.by_key.entry(key) {
            let index = *known.get();
            self.place(index).connections += 1;
            return Ok(index);
        }
        let index = self.insert(Some(key), shared);
        self.by_key.insert(key, index);
        Ok(index)
    }

    /// A connection has gone. How many of the client's others had been waiting here, if it was the
    /// last one on this loop.
    pub(crate) fn leave(&mut self, index: ClientIndex, now: Instant) -> usize {
        let rate = self.shared.rate;
        let client = self.place(index);
        client.connections -= 1;
        if client.connections > 0 {
            client.shared.connections.fetch_sub(1, Relaxed);
            return 0;
        }
        let Some(client) = self.places[index as usize].take() else { return 0 };
        self.free.push(index);
        if let Some(key) = client.key {
            self.by_key.remove(&key);
        }
        // The debt first: a client without connections and without debt may be forgotten at any
        // time.
        if let Some(rate) = rate {
            client.lease.settle(&client.shared.bucket, rate, now);
        }
        client.shared.loops.fetch_sub(1, Relaxed);
        client.shared.connections.fetch_sub(1, Relaxed);
        client.line.sockets.len()
    }

    /// The connections of a client that wait for its rate; `None` if the client has gone.
    pub(super) fn queue(&mut self, index: ClientIndex) -> Option<&mut Line> {
        self.places.get_mut(index as usize)?.as_mut().map(|client| &mut client.line)
    }

    /// The number of connections that a client has on this loop.
    pub(crate) fn connections(&self, index: ClientIndex) -> u32 {
        self.places[index as usize].as_ref().map_or(0, |client| client.connections)
    }

    /// On how many loops a client has connections.
    pub(crate) fn loops(&self, index: ClientIndex) -> u32 {
        self.places[index as usize].as_ref().map_or(1, |client| client.shared.loops.load(Relaxed).max(1))
    }

    /// Whether a client may take bytes of its rate now; else from when on.
    pub(crate) fn ready(&mut self, index: ClientIndex, slice_bytes: u64, now: Instant) -> Result<(), Instant> {
        let Some(rate) = self.shared.rate else { return Ok(()) };
        let client = self.place(index);
        client.lease.ready(&client.shared.bucket, rate, slice_bytes, now)
    }

    /// A client takes bytes of its rate.
    pub(crate) fn take(&mut self, index: ClientIndex, bytes: u64) {
        if self.shared.rate.is_some() {
            self.place(index).lease.take(bytes);
        }
    }

    fn place(&mut self, index: ClientIndex) -> &mut Client {
        self.places[index as usize].as_mut().expect("a connection's client is known")
    }

    fn insert(&mut self, key: Option<ClientKey>, shared: Arc<SharedClient>) -> ClientIndex {
        shared.loops.fetch_add(1, Relaxed);
        let client = Client { key, shared, connections: 1, lease: Lease::default(), line: Line::default() };
        match self.free.pop() {
            Some(index) => {
                self.places[index as usize] = Some(client);
                index
            }
            None => {
                self.places.push(Some(client));
                (self.places.len() - 1) as ClientIndex
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_ns(1_000_000_000);

    fn address(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        #[track_caller]
        fn check(one: &str, other: &str, same: bool) {
            let keys = [one, other].map(|text| ClientKey::of(text.parse().unwrap()));
            assert_eq!(keys[0] == keys[1], same, "{one} {other}");
        }
        check("192.0.2.1", "192.0.2.1", true);
        check("192.0.2.1", "192.0.2.2", false);
        check("192.0.2.1", "::ffff:192.0.2.1", true);
        check("2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true);
        check("2001:db8:0:1::1", "2001:db8:0:2::1", false);
        check("::1", "::2", true);
    }

    #[test]
    fn a_client_has_so_many_connections_and_no_more() {
        let shared = Arc::new(SharedClients::new(None, 3));
        let mut loops = [Clients::new(Arc::clone(&shared)), Clients::new(shared)];
        let one = address("192.0.2.1");
        let first = loops[0].enter(one, NOW).unwrap();
        assert_eq!(loops[0].enter(one, NOW), Ok(first));
        let other = loops[1].enter(one, NOW).unwrap();
        assert_eq!(loops[0].loops(first), 2);
        assert_eq!(loops[0].enter(one, NOW), Err(TooMany));
        assert_eq!(loops[1].enter(one, NOW), Err(TooMany));
        assert!(loops[1].enter(address("192.0.2.2"), NOW).is_ok());
        assert!(loops[1].enter(None, NOW).is_ok());
        assert_eq!(loops[1].leave(other, NOW), 0);
        assert_eq!(loops[0].loops(first), 1);
        assert!(loops[0].enter(one, NOW).is_ok());
        assert_eq!(loops[0].connections(first), 3);
    }

    #[test]
    fn a_client_that_comes_back_finds_its_debt() {
        let shared = Arc::new(SharedClients::new(Rate::new(1000), 0));
        let mut clients = Clients::new(shared);
        let one = address("192.0.2.1");
        let index = clients.enter(one, NOW).unwrap();
        assert_eq!(clients.ready(index, 100, NOW), Ok(()));
        clients.take(index, 10_100);
        assert_eq!(clients.leave(index, NOW), 0);
        let index = clients.enter(one, NOW).unwrap();
        let ready = clients.ready(index, 100, NOW).unwrap_err();
        assert_eq!(ready, NOW.plus_ns(10_100_000_000));
        assert_eq!(clients.ready(index, 100, ready), Ok(()));
    }

    #[test]
    fn clients_that_have_gone_are_forgotten() {
        let shared = Arc::new(SharedClients::new(Rate::new(1_000_000), 0));
        let mut clients = Clients::new(Arc::clone(&shared));
        for number in 0..100_000u32 {
            let index = clients.enter(Some(IpAddr::V4(number.into())), NOW).unwrap();
            assert_eq!(index, 0);
            clients.leave(index, NOW);
        }
        assert!(clients.by_key.is_empty());
        let known: usize = shared.shards.iter().map(|shard| shard.lock().unwrap().clients.len()).sum();
        assert!(known <= 2 * SWEEP_MIN * SHARDS, "{known}");
    }
}
