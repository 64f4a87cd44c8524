//! The shaper: grants a connection its next bytes within the rates of the connection, its client,
//! its mount and of all, at once.
//!
//! A connection requests a grant before each send. Either it may send some bytes now, which are
//! charged to all four rates, or it waits: for its own rate on the timer wheel, for a shared one in
//! a wait queue. When its wait ends, the connection requests again from the start, so that no rate
//! is charged for bytes that another rate holds back.
//!
//! The size of a grant depends on its cost. A send takes the kernel some ten microseconds however
//! small it is, so many connections at modem speed get grants of several seconds each; a few get
//! grants of a tenth of a second, which a client sees as an even flow.
//!
//! Without rate limits there is no shaper.

use std::collections::VecDeque;
use std::mem;
use std::net::IpAddr;
use std::sync::Arc;

use thalweg_reactor::Wheel;
use thalweg_sys::{Instant, SendBuf, SocketId};

use super::bucket::{Bucket, Lease, Rate, SharedBucket};
use super::client::{Clients, SharedClients, TooMany};
use super::fair::{ClientIndex, Fair};
use super::requests::RequestLimits;
use crate::config::{Bandwidth, Limits, ServerConfig};

/// Resolution of the times at which connections go on. Being late costs no rate:
/// [`bucket`](super::bucket) makes up for it.
const TICK_NS: u64 = 1_000_000;

/// A grant should last this long per waiting connection: 10,000 sends a second take about a tenth
/// of a loop's time.
const TURN_NS_PER_WAITING: u64 = 100_000;

/// A few connections get as little as lasts so long, many get as much. Longer than the latter, and
/// clients would take the connection for dead, and the flow for uneven.
const TURN_NS_MIN: u64 = 100_000_000;
const TURN_NS_MAX: u64 = 3_000_000_000;

/// The bounds of a grant: not less than a segment of Ethernet carries, nor more than is passed to a
/// driver at once.
const TURN_BYTES_MIN: u64 = 1460;
const TURN_BYTES_MAX: u64 = 512 << 10;

/// For each client that waits, a loop reserves as much of a shared rate as it is given in one
/// grant, or as lasts so long, so that a loop which is late a little does not lose its part to the
/// others; of all of them not more than lasts so long.
const SLICE_NS_PER_CLIENT: u64 = 5_000_000;
const SLICE_NS_MAX: u64 = 200_000_000;

/// The rates that all loops share.
#[derive(Debug)]
pub(crate) struct SharedRateLimits {
    connection: Option<Rate>,
    clients: Arc<SharedClients>,
    knows_clients: bool,
    mounts: Box<[Option<Shared>]>,
    total: Option<Shared>,
    /// How many requests clients may make, if that is limited.
    requests: Option<Arc<RequestLimits>>,
}

/// A rate that all loops share.
#[derive(Debug)]
struct Shared {
    rate: Rate,
    bucket: SharedBucket,
}

impl Shared {
    fn new(bytes_per_s: u64, now: Instant) -> Option<Self> {
        Rate::new(bytes_per_s).map(|rate| Self { rate, bucket: SharedBucket::new(rate, now) })
    }
}

impl SharedRateLimits {
    /// The limits of a server: those of all connections, and those of each mount in bytes per
    /// second, 0 for none.
    pub(crate) fn new(
        limits: &Limits,
        bandwidth: Bandwidth,
        mounts: impl IntoIterator<Item = u64>,
        now: Instant,
    ) -> Self {
        let clients = SharedClients::new(Rate::new(bandwidth.per_client), limits.connections_per_client_max);
        let total = Shared::new(bandwidth.total, now);
        let mounts: Box<[_]> = mounts.into_iter().map(|bytes_per_s| Shared::new(bytes_per_s, now)).collect();
        // A rate that clients share has to be shared fairly.
        let is_shared = total.is_some() || mounts.iter().any(Option::is_some) || bandwidth.per_client > 0;
        Self {
            connection: Rate::new(bandwidth.per_connection),
            clients: Arc::new(clients),
            knows_clients: is_shared || limits.connections_per_client_max > 0,
            mounts,
            total,
            requests: RequestLimits::of_server(limits).map(Arc::new),
        }
    }

    /// Those of a configuration.
    pub(crate) fn of(config: &ServerConfig, now: Instant) -> Self {
        let mounts = config.sites.iter().flat_map(|site| &site.mounts).map(|mount| mount.bytes_per_s_max);
        let requests = RequestLimits::of(config).map(Arc::new);
        Self { requests, ..Self::new(&config.limits, config.bandwidth, mounts, now) }
    }

    /// How many requests clients may make, if that is limited.
    pub(crate) fn requests(&self) -> Option<&Arc<RequestLimits>> {
        self.requests.as_ref()
    }

    /// Whether the address of a client makes any difference.
    pub(crate) fn knows_clients(&self) -> bool {
        self.knows_clients
    }

    /// Whether a connection has to be let in by a [`Shaper`] and leave through it.
    pub(crate) fn are_on(&self) -> bool {
        self.knows_clients || self.connection.is_some()
    }

    /// The rate that the connections of several clients share.
    fn rate_of(&self, scope: RateScope) -> Option<&Shared> {
        match scope {
            RateScope::Mount(mount) => self.mounts.get(usize::from(mount))?.as_ref(),
            RateScope::Total => self.total.as_ref(),
            RateScope::Connection(_) | RateScope::Client(_) => None,
        }
    }

    fn have_rates(&self) -> bool {
        let of_mounts = self.mounts.iter().any(Option::is_some);
        self.connection.is_some() || self.clients.rate().is_some() || of_mounts || self.total.is_some()
    }
}

/// The limits on one loop.
pub(crate) struct Shaper {
    shared: Arc<SharedRateLimits>,
    have_rates: bool,
    clients: Clients,
    mounts: Box<[WaitQueue]>,
    total: WaitQueue,
    /// Connections that wait for their own rate, and lines whose rate has nothing to give.
    wheel: Wheel,
    /// Lines whose rate may have something to give.
    open: VecDeque<RateScope>,
    /// Connections that wait for anything.
    waiting: usize,
}

/// Connections of this loop that wait for a rate that clients share.
#[derive(Default)]
struct WaitQueue {
    lease: Lease,
    fair: Fair,
    /// It stands in the wheel or is open.
    is_known: bool,
}

/// The state of a connection towards the shaper.
pub(crate) struct ShapingState {
    bucket: Bucket,
    client: ClientIndex,
    /// The scope that has ended its wait, until it requests again.
    turn: Option<RateScope>,
    /// It waits for a grant.
    pub(crate) is_waiting: bool,
    /// Bytes that are to be sent at the grant, ahead of a file.
    pub(crate) held: Option<SendBuf>,
    /// Bytes that it was granted and has not used.
    kept_bytes: u64,
}

/// The scope of a rate: what a connection can wait for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RateScope {
    /// Its own rate.
    Connection(SocketId),
    /// The rate of its client.
    Client(ClientIndex),
    /// The rate of its mount.
    Mount(u16),
    /// The rate of all.
    Total,
}

impl Shaper {
    /// A shaper without connections.
    pub(crate) fn new(shared: Arc<SharedRateLimits>, now: Instant) -> Self {
        Self {
            have_rates: shared.have_rates(),
            clients: Clients::new(Arc::clone(&shared.clients)),
            mounts: shared.mounts.iter().map(|_| WaitQueue::default()).collect(),
            total: WaitQueue::default(),
            wheel: Wheel::new(now, TICK_NS),
            open: VecDeque::new(),
            waiting: 0,
            shared,
        }
    }

    /// The rates that all loops share.
    pub(crate) fn shared(&self) -> &SharedRateLimits {
        &self.shared
    }

    /// Lets a connection in. `address` may be `None` if addresses make no difference, or for those
    /// that have none.
    pub(crate) fn enter(&mut self, address: Option<IpAddr>, now: Instant) -> Result<Box<ShapingState>, TooMany> {
        let client = self.clients.enter(address, now)?;
        Ok(Box::new(self.shaping_state(client, now)))
    }

    fn shaping_state(&self, client: ClientIndex, now: Instant) -> ShapingState {
        // Without a rate of its own, the bucket is not used.
        let bucket = self.shared.connection.map_or_else(Bucket::default, |rate| Bucket::new(rate, now));
        ShapingState { bucket, client, turn: None, is_waiting: false, held: None, kept_bytes: 0 }
    }

    /// Lets a connection in that is open already, under other limits or none, and takes over what
    /// it has to send. If it waited, its wait ends at once.
    pub(crate) fn take_over(
        &mut self,
        before: Option<Box<ShapingState>>,
        socket: SocketId,
        address: Option<IpAddr>,
        now: Instant,
    ) -> Box<ShapingState> {
        let client = self.clients.enter_anyway(address, now);
        let mut shaping_state = self.shaping_state(client, now);
        if let Some(before) = before {
            shaping_state.held = before.held;
            shaping_state.is_waiting = before.is_waiting;
        }
        if shaping_state.is_waiting {
            self.waiting += 1;
            self.wheel.arm(RateScope::Connection(socket).to_bits(), now);
        }
        Box::new(shaping_state)
    }

    /// A connection has gone. If it waits in a queue, its entry stays there and is skipped later.
    pub(crate) fn leave(&mut self, shaping_state: &ShapingState, now: Instant) {
        self.waiting -= self.clients.leave(shaping_state.client, now);
    }

    /// The bytes that a connection with so much to send for a mount may send now. `None`: it is
    /// granted later ([`Shaper::pop`]).
    pub(crate) fn ask(
        &mut self,
        shaping_state: &mut ShapingState,
        socket: SocketId,
        mount: u16,
        bytes: u64,
        now: Instant,
    ) -> Option<u64> {
        if !self.have_rates || bytes == 0 {
            return Some(bytes);
        }
        if shaping_state.kept_bytes > 0 {
            return Some(mem::take(&mut shaping_state.kept_bytes).min(bytes));
        }
        let turn = shaping_state.turn.take();
        let most = self.turn_bytes(shaping_state.client, Some(mount));
        shaping_state.is_waiting = self.must_wait(shaping_state, turn, socket, mount, most, now);
        if shaping_state.is_waiting {
            self.waiting += 1;
            return None;
        }
        let bytes = bytes.min(most);
        if let Some(rate) = self.shared.connection {
            shaping_state.bucket.take(rate, bytes, now);
        }
        self.clients.take(shaping_state.client, bytes);
        let loops = self.clients.loops(shaping_state.client);
        for scope in [RateScope::Mount(mount), RateScope::Total] {
            let is_limited = self.shared.rate_of(scope).is_some();
            if let Some(queue) = queue_of(&mut self.mounts, &mut self.total, scope).filter(|_| is_limited) {
                queue.lease.take(bytes);
                queue.fair.charge(shaping_state.client, bytes, loops);
            }
        }
        Some(bytes)
    }

    /// The next connection whose wait ends, and the scope of its queue. It has to
    /// [`ask`](Shaper::ask) again, after [`ShapingState::come_up`].
    pub(crate) fn pop(&mut self, now: Instant) -> Option<(SocketId, RateScope)> {
        loop {
            let Some(&scope) = self.open.front() else {
                match RateScope::of(self.wheel.pop_due(now)?) {
                    scope @ RateScope::Connection(socket) => {
                        self.waiting -= 1;
                        return Some((socket, scope));
                    }
                    scope => self.open.push_back(scope),
                }
                continue;
            };
            match self.pop_from(scope, now) {
                Ok(socket) => {
                    self.waiting -= 1;
                    return Some((socket, scope));
                }
                Err(until) => {
                    self.open.pop_front();
                    if let Some(until) = until {
                        self.wheel.arm(scope.to_bits(), until);
                    }
                }
            }
        }
    }

    /// The time at which the next wait ends, if no connection requests a grant until then. It may
    /// end earlier.
    pub(crate) fn next_due(&self, now: Instant) -> Option<Instant> {
        if self.open.is_empty() { self.wheel.next_due() } else { Some(now) }
    }

    /// Whether a connection has to wait for one of its rates; it stands in queue then.
    fn must_wait(
        &mut self,
        shaping_state: &ShapingState,
        turn: Option<RateScope>,
        socket: SocketId,
        mount: u16,
        most: u64,
        now: Instant,
    ) -> bool {
        if let Some(rate) = self.shared.connection {
            let at = shaping_state.bucket.ready_at(rate);
            if at > now {
                self.wheel.arm(RateScope::Connection(socket).to_bits(), at);
                return true;
            }
        }
        if self.shared.clients.rate().is_some() && self.waits_for_client(shaping_state.client, turn, socket, most, now)
        {
            return true;
        }
        for scope in [RateScope::Mount(mount), RateScope::Total] {
            let Some(rate) = self.shared.rate_of(scope) else { continue };
            let Some(queue) = queue_of(&mut self.mounts, &mut self.total, scope) else { continue };
            // A connection that was granted here, or by a later scope, does not queue again.
            let may_pass = queue.fair.is_empty() || turn == Some(scope) || turn == Some(RateScope::Total);
            // The rate is checked only for a connection that may pass: the size of the loop's
            // reservation depends on the waiting connections.
            let mut ready = Ok(());
            if may_pass {
                let slice = slice_bytes(rate.rate, most, queue.fair.clients_waiting());
                ready = queue.lease.ready(&rate.bucket, rate.rate, slice, now);
                if ready.is_ok() {
                    continue;
                }
            }
            queue.fair.push(shaping_state.client, socket);
            if !mem::replace(&mut queue.is_known, true) {
                self.wait_for(scope, ready);
            }
            return true;
        }
        false
    }

    fn waits_for_client(
        &mut self,
        client: ClientIndex,
        turn: Option<RateScope>,
        socket: SocketId,
        most: u64,
        now: Instant,
    ) -> bool {
        let has_come_up = !matches!(turn, None | Some(RateScope::Connection(_)));
        let ready = self.clients.ready(client, most, now);
        let Some(queue) = self.clients.queue(client) else { return false };
        if ready.is_ok() && (has_come_up || queue.sockets.is_empty()) {
            return false;
        }
        if has_come_up {
            queue.sockets.push_front(socket);
        } else {
            queue.sockets.push_back(socket);
        }
        if !mem::replace(&mut queue.is_known, true) {
            self.wait_for(RateScope::Client(client), ready);
        }
        true
    }

    /// Has a queue looked at: at once, or when its rate has something to give.
    fn wait_for(&mut self, scope: RateScope, ready: Result<(), Instant>) {
        match ready {
            Ok(()) => self.open.push_back(scope),
            Err(at) => self.wheel.arm(scope.to_bits(), at),
        }
    }

    /// The first connection in a queue, if its rate has bytes available; otherwise the time of the
    /// next check, if the queue is not empty.
    fn pop_from(&mut self, scope: RateScope, now: Instant) -> Result<SocketId, Option<Instant>> {
        if let RateScope::Client(client) = scope {
            let most = self.turn_bytes(client, None);
            let queue = self.clients.queue(client).ok_or(None)?;
            if queue.sockets.is_empty() {
                queue.is_known = false;
                return Err(None);
            }
            self.clients.ready(client, most, now).map_err(Some)?;
            return self.clients.queue(client).and_then(|queue| queue.sockets.pop_front()).ok_or(None);
        }
        let rate = self.shared.rate_of(scope).ok_or(None)?;
        let most = self.share_of(rate.rate);
        let queue = queue_of(&mut self.mounts, &mut self.total, scope).ok_or(None)?;
        if queue.fair.is_empty() {
            queue.is_known = false;
            return Err(None);
        }
        let slice = slice_bytes(rate.rate, most, queue.fair.clients_waiting());
        queue.lease.ready(&rate.bucket, rate.rate, slice, now).map_err(Some)?;
        queue.fair.pop().ok_or(None)
    }

    /// The size of a grant.
    fn turn_bytes(&self, client: ClientIndex, mount: Option<u16>) -> u64 {
        let turn_ns = self.turn_ns();
        let of_connection = self.shared.connection.map(|rate| rate.bytes_in(turn_ns));
        let siblings = u64::from(self.clients.connections(client).max(1));
        let of_client = self.shared.clients.rate().map(|rate| rate.bytes_in(turn_ns) / siblings);
        let of_mount = mount.and_then(|mount| self.shared.rate_of(RateScope::Mount(mount)));
        let of_mount = of_mount.map(|shared| self.share_of(shared.rate));
        let of_all = self.shared.total.as_ref().map(|shared| self.share_of(shared.rate));
        let bytes = [of_connection, of_client, of_mount, of_all].into_iter().flatten().min();
        bytes.unwrap_or(TURN_BYTES_MAX).clamp(TURN_BYTES_MIN, TURN_BYTES_MAX)
    }

    /// The part of a shared rate that each waiting connection gets in one grant.
    fn share_of(&self, rate: Rate) -> u64 {
        let bytes = rate.bytes_in(self.turn_ns()) / (self.waiting as u64).max(1);
        bytes.clamp(TURN_BYTES_MIN, TURN_BYTES_MAX)
    }

    fn turn_ns(&self) -> u64 {
        (self.waiting as u64).saturating_mul(TURN_NS_PER_WAITING).clamp(TURN_NS_MIN, TURN_NS_MAX)
    }
}

fn queue_of<'l>(mounts: &'l mut [WaitQueue], total: &'l mut WaitQueue, scope: RateScope) -> Option<&'l mut WaitQueue> {
    match scope {
        RateScope::Mount(mount) => mounts.get_mut(usize::from(mount)),
        RateScope::Total => Some(total),
        RateScope::Connection(_) | RateScope::Client(_) => None,
    }
}

impl ShapingState {
    /// It is granted.
    pub(crate) fn come_up(&mut self, scope: RateScope) {
        self.is_waiting = false;
        self.turn = Some(scope);
    }

    /// It could not use all of its grant, and keeps the rest for its next send.
    pub(crate) fn keep(&mut self, bytes: u64) {
        self.kept_bytes = bytes;
    }
}

/// The part of a shared rate that a loop reserves: more with more clients waiting, so that it gets
/// the clients' share.
fn slice_bytes(rate: Rate, turn_bytes: u64, clients: usize) -> u64 {
    let of_client = turn_bytes.max(rate.bytes_in(SLICE_NS_PER_CLIENT));
    of_client.saturating_mul(clients.max(1) as u64).min(rate.bytes_in(SLICE_NS_MAX)).max(turn_bytes)
}

/// As keys of the wheel: sockets' bits end below 2^56.
impl RateScope {
    const CLIENT: u64 = 1 << 61;
    const MOUNT: u64 = 1 << 62;
    const TOTAL: u64 = 1 << 63;

    fn to_bits(self) -> u64 {
        match self {
            Self::Connection(socket) => socket.to_bits(),
            Self::Client(client) => Self::CLIENT | u64::from(client),
            Self::Mount(mount) => Self::MOUNT | u64::from(mount),
            Self::Total => Self::TOTAL,
        }
    }

    fn of(bits: u64) -> Self {
        if bits & Self::TOTAL != 0 {
            Self::Total
        } else if bits & Self::MOUNT != 0 {
            Self::Mount(bits as u16)
        } else if bits & Self::CLIENT != 0 {
            Self::Client(bits as ClientIndex)
        } else {
            Self::Connection(SocketId::from_bits(bits))
        }
    }
}

#[cfg(test)]
mod tests;
