//! The connections to one server: kept ones, those of HTTP/2 that several requests share, limits of
//! both, and requests that wait for one.
//!
//! A request leases a connection. Of HTTP/1 it has it alone, and gives it back when the response is
//! complete; a lease that is dropped before that closes the connection.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use hyper::Response;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::{Limits, Times};
use crate::connection::{Opened, Outgoing, SendFailure, Sender, StreamsMax, open};
use crate::failure::Failure;
use crate::network::{Connect, Spoken};
use crate::standing::{Standing, queue_timeout};

type Content = http_body_util::Full<bytes::Bytes>;

pub(crate) struct Pool {
    connector: Box<dyn Connect>,
    limits: Limits,
    times: Times,
    standing: Arc<Standing>,
    state: Mutex<State>,
    /// Wakes one request for each connection or stream that became free.
    freed: Notify,
}

#[derive(Default)]
struct State {
    /// Connections, also those that are being established.
    open: usize,
    connecting: usize,
    /// Whether the server speaks HTTP/2, as far as connections so far have shown.
    is_multiplexed: Option<bool>,
    /// Connections of HTTP/1 without a request, the one that was used last behind.
    idle: Vec<Idle>,
    shared: Vec<Shared>,
    /// Failures to connect so far, and the last one, for those that waited for it.
    failures: u64,
    last_failure: Option<Failure>,
    next_id: u64,
    is_reaped: bool,
}

/// The facts about a connection that outlive each use of it.
#[derive(Clone, Copy)]
struct Origin {
    opened: Instant,
    address: Option<SocketAddr>,
}

struct Idle {
    sender: http1::SendRequest<Content>,
    origin: Origin,
    since: Instant,
}

struct Shared {
    id: u64,
    sender: http2::SendRequest<Content>,
    origin: Origin,
    streams: usize,
    /// The server's limit of them.
    streams_max: StreamsMax,
    /// The last time at which a stream ended.
    since: Instant,
    /// It gets no further requests.
    is_retired: bool,
}

/// A failure to get a connection.
#[derive(Debug)]
pub(crate) struct LeaseFailure {
    pub(crate) failure: Failure,
    /// It is the failure of another request's attempt, for which this one waited.
    pub(crate) is_of_another: bool,
}

enum Choice {
    Lease(Lease),
    Connect(Slot),
    /// Wait, for the outcome of a connection under way if the number of failures is given.
    Wait(Option<u64>),
}

/// The longest time in which a connection has to become ready after a complete response.
const READY_TIME: Duration = Duration::from_secs(1);

impl Pool {
    pub(crate) fn new(connector: Box<dyn Connect>, limits: Limits, times: Times, standing: Arc<Standing>) -> Arc<Self> {
        Arc::new(Self { connector, limits, times, standing, state: Mutex::default(), freed: Notify::new() })
    }

    /// A connection, kept or new; a new one or a shared one if it has to be `fresh`.
    pub(crate) async fn lease(self: &Arc<Self>, fresh: bool) -> Result<Lease, LeaseFailure> {
        let own = |failure| LeaseFailure { failure, is_of_another: false };
        let limit = self.times.queue;
        let chosen = timeout(limit, self.wait(fresh)).await;
        let slot = match chosen.map_err(|_| own(queue_timeout("all connections were in use", limit)))?? {
            Ok(lease) => return Ok(lease),
            Err(slot) => slot,
        };
        self.connect(slot).await.map_err(own)
    }

    /// Connections, and those of them that are not in use.
    pub(crate) fn figures(&self) -> (u64, u64) {
        let state = self.state();
        let unused = state.shared.iter().filter(|shared| shared.streams == 0).count();
        (state.open as u64, (state.idle.len() + unused) as u64)
    }

    /// Waits for a connection, or for the room to make one.
    async fn wait(self: &Arc<Self>, fresh: bool) -> Result<Result<Lease, Slot>, LeaseFailure> {
        loop {
            let mut freed = pin!(self.freed.notified());
            freed.as_mut().enable();
            let failures = match self.choose(fresh) {
                Choice::Lease(lease) => return Ok(Ok(lease)),
                Choice::Connect(slot) => return Ok(Err(slot)),
                Choice::Wait(failures) => failures,
            };
            freed.await;
            let state = self.state();
            if failures.is_some_and(|failures| failures != state.failures)
                && let Some(failure) = state.last_failure.clone()
            {
                return Err(LeaseFailure { failure, is_of_another: true });
            }
        }
    }

    fn choose(self: &Arc<Self>, fresh: bool) -> Choice {
        let mut state = self.state();
        state.discard(&self.times);
        if !fresh {
            while let Some(Idle { sender, origin, .. }) = state.idle.pop() {
                if sender.is_ready() {
                    return Choice::Lease(self.lease_of(Held::Alone(sender), origin, true));
                }
            }
        }
        let streams_max = self.limits.streams_max.max(1);
        let has_room = |shared: &&mut Shared| {
            let allowed = shared.streams_max.load(Ordering::Relaxed).max(1);
            !shared.is_retired && shared.streams < streams_max.min(allowed)
        };
        if let Some(shared) = state.shared.iter_mut().find(has_room) {
            shared.streams += 1;
            let held = Held::Shared { id: shared.id, sender: shared.sender.clone() };
            return Choice::Lease(self.lease_of(held, shared.origin, true));
        }
        if state.connecting > 0 && self.connector.may_multiplex() && state.is_multiplexed != Some(false) {
            return Choice::Wait(Some(state.failures));
        }
        if state.open < self.limits.connections_max.max(1) {
            state.open += 1;
            state.connecting += 1;
            return Choice::Connect(Slot { pool: Arc::downgrade(self), is_connecting: true });
        }
        if fresh && !state.idle.is_empty() {
            // Makes room: its end wakes a request.
            state.idle.remove(0);
        }
        Choice::Wait(None)
    }

    async fn connect(self: &Arc<Self>, mut slot: Slot) -> Result<Lease, Failure> {
        let connected = async {
            let link = self.connector.connect().await?;
            let origin = Origin { opened: Instant::now(), address: link.address };
            let spoken = link.spoken;
            open(link, &self.limits).await.map(|opened| (opened, origin, spoken))
        };
        let (Opened { sender, driver, streams_max }, origin, spoken) = match connected.await {
            Ok(connected) => connected,
            Err(failure) => {
                slot.ended(|state| {
                    state.failures += 1;
                    state.last_failure = Some(failure.clone());
                });
                return Err(failure);
            }
        };
        self.standing.connections_opened.fetch_add(1, Ordering::Relaxed);
        let held = match sender {
            Sender::Http1(sender) => Held::Alone(sender),
            Sender::Http2(sender) => {
                let mut state = self.state();
                let id = state.next_id;
                state.next_id += 1;
                let (since, kept) = (origin.opened, sender.clone());
                let shared = Shared { id, sender: kept, origin, streams: 1, streams_max, since, is_retired: false };
                state.shared.push(shared);
                Held::Shared { id, sender }
            }
        };
        slot.ended(|state| state.is_multiplexed = Some(spoken == Spoken::Http2));
        tokio::spawn(async move {
            driver.await;
            drop(slot);
        });
        Ok(self.lease_of(held, origin, false))
    }

    fn lease_of(self: &Arc<Self>, held: Held, origin: Origin, is_reused: bool) -> Lease {
        Lease { pool: Arc::clone(self), held: Some(held), origin, is_reused }
    }

    /// Keeps a connection of HTTP/1 for the next request.
    fn keep(self: &Arc<Self>, sender: http1::SendRequest<Content>, origin: Origin) {
        let mut state = self.state();
        state.idle.push(Idle { sender, origin, since: Instant::now() });
        state.discard(&self.times);
        if state.idle.len() > self.limits.idle_max {
            state.idle.remove(0);
        }
        self.reap(&mut state);
        drop(state);
        self.freed.notify_one();
    }

    fn release(self: &Arc<Self>, id: u64, is_retired: bool) {
        let mut state = self.state();
        if let Some(shared) = state.shared.iter_mut().find(|shared| shared.id == id) {
            shared.streams -= 1;
            shared.since = Instant::now();
            shared.is_retired |= is_retired;
        }
        state.discard(&self.times);
        self.reap(&mut state);
        drop(state);
        self.freed.notify_one();
    }

    /// Has unused connections closed when their time is over.
    fn reap(self: &Arc<Self>, state: &mut State) {
        let Ok(runtime) = Handle::try_current() else { return };
        if state.is_reaped || state.unused_until(self.times.idle).is_none() {
            return;
        }
        state.is_reaped = true;
        let pool = Arc::downgrade(self);
        runtime.spawn(async move {
            while let Some(until) = pool.upgrade().and_then(|pool| pool.discard_unused()) {
                sleep_until(until).await;
            }
        });
    }

    /// Closes connections whose time is over; when the next one's is.
    fn discard_unused(&self) -> Option<Instant> {
        let mut state = self.state();
        state.discard(&self.times);
        let until = state.unused_until(self.times.idle);
        state.is_reaped = until.is_some();
        until
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Drops connections that are closed, too old, or unused for too long.
    fn discard(&mut self, times: &Times) {
        self.idle.retain(|idle| {
            !idle.sender.is_closed()
                && idle.since.elapsed() < times.idle
                && idle.origin.opened.elapsed() < times.connection_age
        });
        for shared in &mut self.shared {
            shared.is_retired |= shared.sender.is_closed() || shared.origin.opened.elapsed() >= times.connection_age;
        }
        self.shared.retain(|shared| shared.streams > 0 || (!shared.is_retired && shared.since.elapsed() < times.idle));
    }

    /// When the first unused connection has to be closed.
    fn unused_until(&self, idle_time: Duration) -> Option<Instant> {
        let idle = self.idle.iter().map(|idle| idle.since);
        let shared = self.shared.iter().filter(|shared| shared.streams == 0).map(|shared| shared.since);
        idle.chain(shared).min().map(|since| since + idle_time)
    }
}

/// A place among the connections, from before it is established until it is closed.
struct Slot {
    pool: Weak<Pool>,
    is_connecting: bool,
}

impl Slot {
    /// The attempt to connect has ended, in whatever way.
    fn ended(&mut self, note: impl FnOnce(&mut State)) {
        let Some(pool) = self.pool.upgrade() else { return };
        if std::mem::take(&mut self.is_connecting) {
            let mut state = pool.state();
            state.connecting -= 1;
            note(&mut state);
            drop(state);
            pool.freed.notify_waiters();
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.ended(|_| {});
        let Some(pool) = self.pool.upgrade() else { return };
        let mut state = pool.state();
        state.open -= 1;
        state.discard(&pool.times);
        drop(state);
        pool.freed.notify_one();
    }
}

enum Held {
    Alone(http1::SendRequest<Content>),
    Shared { id: u64, sender: http2::SendRequest<Content> },
}

/// The use of a connection by one request.
pub(crate) struct Lease {
    pool: Arc<Pool>,
    held: Option<Held>,
    origin: Origin,
    /// The connection has carried a request before.
    pub(crate) is_reused: bool,
}

impl Lease {
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.origin.address
    }

    /// Sends a request and waits for the head of its response.
    pub(crate) async fn send(&mut self, outgoing: &Outgoing) -> Result<Response<Incoming>, SendFailure> {
        match self.held.take().expect("a lease holds its connection") {
            Held::Alone(sender) => {
                let mut sender = Sender::Http1(sender);
                let sent = sender.send(outgoing).await;
                let Sender::Http1(sender) = sender else { unreachable!("it was made of HTTP/1") };
                self.held = Some(Held::Alone(sender));
                sent
            }
            Held::Shared { id, sender } => {
                // The stream is released with the lease, also if this future is dropped.
                self.held = Some(Held::Shared { id, sender: sender.clone() });
                Sender::Http2(sender).send(outgoing).await
            }
        }
    }

    /// The response is complete: the connection is free for others, as soon as it is ready.
    pub(crate) async fn give_back(mut self) {
        if let Some(Held::Alone(mut sender)) = self.held.take_if(|held| matches!(held, Held::Alone(_)))
            && matches!(timeout(READY_TIME, sender.ready()).await, Ok(Ok(())))
        {
            self.pool.keep(sender, self.origin);
        }
    }

    /// The same for a caller that cannot wait.
    pub(crate) fn give_back_later(self) {
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(self.give_back());
        }
    }

    /// The connection failed this request and gets no further ones.
    pub(crate) fn retire(mut self) {
        if let Some(Held::Shared { id, .. }) = self.held.take() {
            self.pool.release(id, true);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(Held::Shared { id, .. }) = self.held.take() {
            self.pool.release(id, false);
        }
    }
}
