//! A driver with a witness: operations go through it, and every completion is held against what the
//! contract allows.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;

use thalweg_sys::driver::{Completion, Connect, Driver, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd};
use thalweg_sys::{Instant, SocketId, Waker};

pub(crate) const LOOPBACK_V4: &str = "127.0.0.1:0";
pub(crate) const LOOPBACK_V6: &str = "[::1]:0";

/// The window of connections that receive on demand: a slow line's.
pub(crate) const ON_DEMAND_WINDOW_BYTES: u32 = 8192;

/// How a scenario gets drivers: by the size of their socket tables.
pub(crate) type Open<'a, D> = &'a dyn Fn(usize) -> Stage<D>;

pub(crate) struct Stage<D> {
    pub(crate) driver: D,
    pub(crate) waker: Option<Waker>,
    pub(crate) woken: usize,
    patience_ns: u64,
    sockets: BTreeMap<SocketId, Socket>,
    listeners: BTreeMap<SocketId, Listener>,
    last_now: Instant,
}

/// The events seen on a connection.
#[derive(Default, Debug)]
pub(crate) struct Socket {
    pub(crate) connected: bool,
    pub(crate) received: Vec<u8>,
    /// How many bytes were received before a scenario took them away.
    pub(crate) taken: usize,
    pub(crate) ended: bool,
    pub(crate) failed: Option<io::Error>,
    pub(crate) sending: bool,
    pub(crate) finished: bool,
    pub(crate) on_demand: bool,
    /// Receive on demand: bytes requested and not yet delivered; 0 if none are.
    pub(crate) asked: u32,
    /// The time of the latest send request; zero if there was none.
    pub(crate) send_begun: Instant,
}

impl Socket {
    pub(crate) fn send_begun_ever(&self) -> bool {
        self.send_begun != Instant::default()
    }

    /// Whether a completion has reported the end of the peer.
    pub(crate) fn is_over(&self) -> bool {
        self.ended || self.failed.is_some()
    }
}

#[derive(Default)]
struct Listener {
    accepted: VecDeque<SocketId>,
    stopped: usize,
}

impl<D: Driver> Stage<D> {
    pub(crate) fn new(driver: D, patience_ns: u64, waker: Option<Waker>) -> Self {
        let last_now = driver.now();
        Self { driver, waker, woken: 0, patience_ns, sockets: BTreeMap::new(), listeners: BTreeMap::new(), last_now }
    }

    pub(crate) fn listen(&mut self, addr: &str) -> (SocketId, SocketAddr) {
        let addr = addr.parse().expect("an address");
        let listener = self.driver.listen(Listen::Address(addr)).expect("loopback can be listened on");
        self.note_listener(listener);
        (listener, self.driver.local_addr(listener).expect("a listener has an address"))
    }

    pub(crate) fn note_listener(&mut self, listener: SocketId) {
        let before = self.listeners.insert(listener, Listener::default());
        assert!(before.is_none(), "{listener:?} was given out twice");
    }

    pub(crate) fn try_connect(&mut self, to: &Connect) -> io::Result<SocketId> {
        let socket = self.driver.connect(to)?;
        let on_demand = matches!(to.receive_mode, ReceiveMode::OnDemand { .. });
        let before = self.sockets.insert(socket, Socket { on_demand, ..Socket::default() });
        assert!(before.is_none(), "{socket:?} was given out twice");
        Ok(socket)
    }

    pub(crate) fn connect(&mut self, peer: SocketAddr) -> SocketId {
        self.try_connect(&Connect::tcp(peer)).expect("the connect can be attempted")
    }

    /// A connection from both sides: the connector and the accepted one.
    pub(crate) fn pair(&mut self, listener: SocketId, addr: SocketAddr) -> (SocketId, SocketId) {
        self.pair_to(listener, &Connect::tcp(addr))
    }

    /// The same, with a connector that receives on demand.
    pub(crate) fn on_demand_pair(&mut self, listener: SocketId, addr: SocketAddr) -> (SocketId, SocketId) {
        let receive_mode = ReceiveMode::OnDemand { window_bytes: ON_DEMAND_WINDOW_BYTES };
        self.pair_to(listener, &Connect { receive_mode, ..Connect::tcp(addr) })
    }

    pub(crate) fn pair_to(&mut self, listener: SocketId, to: &Connect) -> (SocketId, SocketId) {
        let client = self.try_connect(to).expect("the connect can be attempted");
        let server = self.accept(listener);
        self.until("connected", |stage| stage.socket(client).connected);
        (client, server)
    }

    /// The next connection that the listener accepts.
    pub(crate) fn accept(&mut self, listener: SocketId) -> SocketId {
        self.until("a connection is accepted", |stage| !stage.listeners[&listener].accepted.is_empty());
        self.accepted(listener).expect("there is one")
    }

    /// A connection that was accepted already.
    pub(crate) fn accepted(&mut self, listener: SocketId) -> Option<SocketId> {
        self.listeners.get_mut(&listener).expect("a listener of this stage").accepted.pop_front()
    }

    /// How often the listener has stopped to accept.
    pub(crate) fn stopped(&self, listener: SocketId) -> usize {
        self.listeners[&listener].stopped
    }

    pub(crate) fn send(&mut self, socket: SocketId, bytes: impl Into<Vec<u8>>) {
        self.begin_send(socket);
        self.driver.send(socket, SendBuf::Owned(bytes.into()));
    }

    pub(crate) fn send_last(&mut self, socket: SocketId, bytes: impl Into<Vec<u8>>) {
        self.begin_send(socket);
        self.driver.send_last(socket, SendBuf::Owned(bytes.into()));
    }

    pub(crate) fn send_file(&mut self, socket: SocketId, head: &[u8], span: FileSpan) {
        self.begin_send(socket);
        self.driver.send_file(socket, SendBuf::Owned(head.to_vec()), span, SpanEnd::EndsResponse);
    }

    pub(crate) fn begin_send(&mut self, socket: SocketId) {
        let now = self.driver.now();
        let state = self.socket_mut(socket);
        state.sending = true;
        state.send_begun = now;
    }

    /// Requests bytes of a socket that receives on demand.
    pub(crate) fn ask(&mut self, socket: SocketId, bytes_max: u32) {
        let state = self.socket_mut(socket);
        if !state.is_over() {
            state.asked = bytes_max;
        }
        self.driver.receive(socket, bytes_max);
    }

    pub(crate) fn finish(&mut self, socket: SocketId) {
        self.socket_mut(socket).finished = true;
        self.driver.finish(socket);
    }

    pub(crate) fn close(&mut self, socket: SocketId) {
        self.sockets.remove(&socket).expect("an open socket");
        self.driver.close(socket);
    }

    pub(crate) fn close_behind(&mut self, socket: SocketId, last: &[u8]) {
        self.sockets.remove(&socket).expect("an open socket");
        self.driver.close_behind(socket, last);
    }

    pub(crate) fn reset(&mut self, socket: SocketId) {
        self.sockets.remove(&socket).expect("an open socket");
        self.driver.reset(socket);
    }

    pub(crate) fn close_listener(&mut self, listener: SocketId) {
        self.listeners.remove(&listener).expect("an open listener");
        self.driver.close(listener);
    }

    pub(crate) fn socket(&self, socket: SocketId) -> &Socket {
        self.sockets.get(&socket).unwrap_or_else(|| panic!("{socket:?} is not an open connection"))
    }

    pub(crate) fn socket_mut(&mut self, socket: SocketId) -> &mut Socket {
        self.sockets.get_mut(&socket).unwrap_or_else(|| panic!("{socket:?} is not an open connection"))
    }

    /// Waits once and witnesses what comes of it; how many completions that was.
    pub(crate) fn iterate(&mut self, until: Option<Instant>) -> usize {
        self.wait(until);
        std::iter::from_fn(|| self.witness_next().then_some(())).count()
    }

    pub(crate) fn wait(&mut self, until: Option<Instant>) {
        self.driver.wait(until).expect("the driver can wait");
    }

    /// Witnesses the next completion of a wake-up; whether there was one.
    pub(crate) fn witness_next(&mut self) -> bool {
        let completion = self.driver.next();
        completion.map(|completion| self.witness(completion)).is_some()
    }

    /// Turns until something is so.
    pub(crate) fn until(&mut self, what: &str, so: impl Fn(&Self) -> bool) {
        let deadline = self.driver.now().plus_ns(self.patience_ns);
        while !so(self) {
            assert!(self.driver.now() < deadline, "gave up waiting until {what}");
            self.iterate(Some(deadline));
        }
    }

    pub(crate) fn until_sent(&mut self, socket: SocketId) {
        self.until("the send is through", |stage| !stage.socket(socket).sending);
    }

    /// Turns until a socket has received that many bytes in all, and takes them.
    pub(crate) fn until_received(&mut self, socket: SocketId, bytes: usize) -> Vec<u8> {
        self.until("the bytes are received", |stage| {
            let state = stage.socket(socket);
            assert!(
                state.received.len() >= bytes || !state.is_over(),
                "the connection is over before its bytes are here"
            );
            state.received.len() >= bytes
        });
        self.take_received(socket)
    }

    pub(crate) fn take_received(&mut self, socket: SocketId) -> Vec<u8> {
        let state = self.socket_mut(socket);
        state.taken += state.received.len();
        std::mem::take(&mut state.received)
    }

    /// Turns for long enough that what is possible has happened, on the scale of the driver's
    /// clock.
    pub(crate) fn settle(&mut self) {
        self.linger(self.patience_ns / 600);
    }

    /// Turns for a while in which nothing has to happen, to see what must not.
    pub(crate) fn linger(&mut self, ns: u64) {
        let until = self.driver.now().plus_ns(ns);
        while self.driver.now() < until {
            self.iterate(Some(until));
        }
    }

    fn witness(&mut self, completion: Completion) {
        let now = self.driver.now();
        assert!(now >= self.last_now, "the clock went back from {:?} to {now:?}", self.last_now);
        self.last_now = now;
        match completion {
            Completion::Woken => self.woken += 1,
            Completion::Accepted { listener, socket } => {
                let state = Socket { connected: true, ..Socket::default() };
                assert!(self.sockets.insert(socket, state).is_none(), "{socket:?} was given out twice");
                let listener = self.listeners.get_mut(&listener).expect("accepted by an open listener");
                listener.accepted.push_back(socket);
            }
            Completion::AcceptFailed { listener, .. } => {
                self.listeners.get_mut(&listener).expect("an open listener").stopped += 1;
            }
            Completion::Connected { socket } => {
                let state = self.unbroken(socket);
                assert!(!state.connected, "{socket:?} is connected twice");
                state.connected = true;
            }
            Completion::Received { socket } => self.witness_received(socket),
            Completion::Sent { socket } => {
                let sent_at = self.driver.sent_at(socket);
                let state = self.unbroken(socket);
                assert!(std::mem::take(&mut state.sending), "{socket:?} has sent what it was not given");
                assert!(sent_at >= state.send_begun, "sent before it was asked for");
            }
            Completion::Ended { socket } => {
                let state = self.unbroken(socket);
                assert!(state.connected, "{socket:?} ended before it was connected");
                assert!(!state.ended, "{socket:?} ended twice");
                assert!(!state.on_demand || state.asked > 0, "{socket:?} was told an end without asking");
                state.ended = true;
                state.asked = 0;
            }
            Completion::Failed { socket, error } => {
                let state = self.unbroken(socket);
                let may_be_told =
                    !state.on_demand || !state.connected || state.asked > 0 || state.sending || state.ended;
                assert!(may_be_told, "{socket:?} was told a failure without asking: {error}");
                state.failed = Some(error);
                state.sending = false;
                state.asked = 0;
            }
        }
    }

    fn witness_received(&mut self, socket: SocketId) {
        let bytes = self.driver.received().to_vec();
        assert!(!bytes.is_empty(), "{socket:?} received nothing");
        assert!(bytes.len() <= 64 * 1024, "{socket:?} received more than a buffer");
        let state = self.unbroken(socket);
        assert!(state.connected, "{socket:?} received before it was connected");
        assert!(!state.ended, "{socket:?} received after its end");
        if state.on_demand {
            let asked = std::mem::take(&mut state.asked) as usize;
            assert!(bytes.len() <= asked, "{socket:?} received {} bytes and had asked for {asked}", bytes.len());
        }
        state.received.extend(bytes);
    }

    /// A socket that completions may name: open, and not failed.
    fn unbroken(&mut self, socket: SocketId) -> &mut Socket {
        let state =
            self.sockets.get_mut(&socket).unwrap_or_else(|| panic!("{socket:?} was told something after close"));
        assert!(state.failed.is_none(), "{socket:?} was told something after it failed");
        state
    }
}

/// Bytes of which every stream and every position has its own, so that nothing lost, doubled or
/// mixed up goes unseen.
pub(crate) fn pattern(stream: u64, from: u64, len: usize) -> Vec<u8> {
    (from..from + len as u64)
        .map(|position| (position.wrapping_add(stream << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 37) as u8)
        .collect()
}

/// Fails with the first place where two byte strings differ, not with all of their bytes.
#[track_caller]
pub(crate) fn assert_same(seen: &[u8], expected: &[u8]) {
    let differs = seen.iter().zip(expected).position(|(seen, expected)| seen != expected);
    assert_eq!(differs, None, "first difference, of {} bytes seen and {} expected", seen.len(), expected.len());
    assert_eq!(seen.len(), expected.len(), "lengths");
}
