//! A driver whose network is in memory and whose clock is virtual.
//!
//! [`Sim`] is a [`Driver`] like those over io_uring and epoll, so that a loop, a load engine and a
//! server run on it unchanged, both sides of each connection in one process and one thread. Nothing
//! sleeps: [`Driver::wait`] moves the clock to the next event. What is random comes from one seed,
//! so that a failure that was seen once can be seen again.
//!
//! It models what a program can notice of TCP: bounded buffers in each direction, latency, bytes
//! that arrive in other pieces than they were sent in, orderly ends, resets that lose what was on
//! its way, silence, refusal, full backlogs and tables, and a process that is held up. It does not
//! model congestion, loss of packets or addresses beyond matching a listener; both sides must be
//! sockets of the same `Sim`.
//!
//! When nothing is scheduled and the owner waits without end, `wait` returns an error: what would
//! hang for ever on a real driver ends a test at once.

mod agenda;
mod config;
mod connection;
mod connections;
mod network;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::io::Errno;
use thalweg_sys::driver::{Completion, Connect, Driver, DriverKind, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd};
use thalweg_sys::table::Table;
use thalweg_sys::{Instant, PeerAddr, PortRange, SocketId, socket};

use agenda::{Agenda, Event};
pub use config::SimConfig;
use connection::{Connection, End, EndId, EndState, Finish, Intake, Sending, Side};
use connections::Connections;

/// The virtual time at which a simulation begins: not zero, so that a time that was never set is
/// seen to be wrong.
const START: Instant = Instant::from_ns(1_000_000_000);

/// Most completions of one wake-up.
const COMPLETIONS_PER_WAIT: usize = 512;

/// Bytes of a segment, over Ethernet with time stamps.
const SEGMENT_BYTES: u64 = 1448;

/// A simulated network with all its sockets. See the [module's documentation](self).
pub struct Sim {
    config: SimConfig,
    random: Pcg64Mcg,
    now: Instant,
    agenda: Agenda,
    sockets: Table<Socket>,
    connections: Connections,
    listeners: BTreeMap<SocketAddr, SocketId>,
    ports_given: u64,
    stalls: Vec<Stall>,
    ready: VecDeque<Ready>,
    received: Vec<u8>,
    bounds_lifted: u64,
    overslept_ns: u64,
}

enum Socket {
    Listener(Listener),
    End(EndId),
}

struct Listener {
    addr: SocketAddr,
    backlog: VecDeque<u64>,
    accepting: bool,
}

/// A process that is held up.
struct Stall {
    process: Process,
    from: Instant,
    until: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Process {
    /// All sockets with this address.
    At(SocketAddr),
    /// All sockets with addresses of this host.
    Host(IpAddr),
}

impl Process {
    /// Whether the socket with that address is one of the process.
    fn has(self, addr: SocketAddr) -> bool {
        self == Self::At(addr) || self == Self::Host(addr.ip())
    }
}

struct Ready {
    completion: Completion,
    bytes: Vec<u8>,
}

impl Sim {
    /// An empty network.
    pub fn new(config: SimConfig) -> Self {
        Self {
            random: Pcg64Mcg::seed_from_u64(config.seed),
            now: START,
            agenda: Agenda::default(),
            sockets: Table::new(config.sockets_max),
            connections: Connections::default(),
            listeners: BTreeMap::new(),
            ports_given: 0,
            stalls: Vec::new(),
            ready: VecDeque::new(),
            received: Vec::new(),
            bounds_lifted: 0,
            overslept_ns: 0,
            config,
        }
    }

    /// Holds up the process behind `addr`, a listener's address, as if it were stopped: from `from`
    /// until `until` nothing is accepted there and its connections get no completions. Its kernel
    /// goes on: connections are established and buffers fill.
    pub fn stall(&mut self, addr: SocketAddr, from: Instant, until: Instant) {
        self.add_stall(Stall { process: Process::At(addr), from, until });
    }

    /// Stalls everything that runs on the host with that address likewise. Its application must not
    /// run meanwhile, and [`Sim::oversleep`] reports afterwards how late it is.
    pub fn stall_host(&mut self, host: IpAddr, from: Instant, until: Instant) {
        self.add_stall(Stall { process: Process::Host(host), from, until });
    }

    fn add_stall(&mut self, stall: Stall) {
        self.stalls.retain(|earlier| earlier.until > self.now);
        self.stalls.push(stall);
    }

    /// Ends all processes of the host with that address, whose sockets are closed.
    pub fn end_host(&mut self, host: IpAddr) {
        self.end_all(Process::Host(host));
    }

    /// Ends the process behind `addr`, a listener's address, likewise.
    pub fn end_process(&mut self, addr: SocketAddr) {
        self.end_all(Process::At(addr));
    }

    fn end_all(&mut self, process: Process) {
        let is_of = |socket: &Socket| match socket {
            Socket::Listener(listener) => process.has(listener.addr),
            Socket::End(id) => process.has(self.end(*id).addr),
        };
        let sockets: Vec<SocketId> =
            self.sockets.iter().filter(|(_, socket)| is_of(socket)).map(|(id, _)| id).collect();
        sockets.into_iter().for_each(|socket| self.close(socket));
    }

    /// Makes [`Driver::overslept_ns`] say this until the next [`Driver::wait`].
    pub fn oversleep(&mut self, ns: u64) {
        self.overslept_ns = ns;
    }

    /// Resets the connection of `socket` from the middle: both sides see it, this one first. Bytes
    /// on their way are lost, and bytes that have arrived may be.
    pub fn reset(&mut self, socket: SocketId) {
        let end = self.end_of(socket);
        self.agenda.add(self.now, Event::ArriveReset { to: end });
        self.agenda.add(self.now.plus_ns(self.config.latency_ns), Event::ArriveReset { to: end.peer() });
    }

    /// Makes the network swallow all that the connection of `socket` carries from now on, in both
    /// directions.
    pub fn mute(&mut self, socket: SocketId) {
        let end = self.end_of(socket);
        if let Some(connection) = self.connections.get_mut(end.connection) {
            connection.mute = true;
        }
    }

    /// Has the next [`Driver::wait`] report [`Completion::Woken`], as a
    /// [`Waker`](thalweg_sys::Waker) does for the drivers of the kernel.
    pub fn wake(&mut self) {
        self.wake_at(self.now);
    }

    /// Reports [`Completion::Woken`] at a time to come.
    pub fn wake_at(&mut self, at: Instant) {
        self.agenda.add(at, Event::Wake);
    }

    /// How many bytes were delivered to `socket` so far.
    pub fn bytes_delivered(&self, socket: SocketId) -> u64 {
        self.end(self.end_of(socket).peer()).flow.delivered
    }

    /// How often a socket was let off its bound on what is not sent yet. Nothing else comes of that
    /// here.
    pub fn bounds_lifted(&self) -> u64 {
        self.bounds_lifted
    }

    /// How many sockets are open, listeners included.
    pub fn sockets_open(&self) -> usize {
        self.sockets.len()
    }

    fn socket(&self, id: SocketId) -> &Socket {
        self.sockets.entry(id).expect("the socket is open")
    }

    fn end_of(&self, id: SocketId) -> EndId {
        match self.socket(id) {
            Socket::End(end) => *end,
            Socket::Listener(_) => panic!("a listener neither sends nor receives"),
        }
    }

    fn end(&self, id: EndId) -> &End {
        self.connections[id.connection].end(id.side)
    }

    fn end_mut(&mut self, id: EndId) -> &mut End {
        let connection = self.connections.get_mut(id.connection).expect("a connection lives as long as its ends");
        connection.end_mut(id.side)
    }

    fn insert(&mut self, socket: Socket) -> io::Result<SocketId> {
        self.sockets.insert(socket).map_err(|_| Errno::MFILE.into())
    }

    /// A port of the range, or else of the one that Linux gives out by itself.
    fn next_port(&mut self, range: Option<PortRange>) -> u16 {
        let range = range.or(PortRange::new(32_768, 60_999)).expect("a range with ports in it");
        let port = range.first() + (self.ports_given % range.count() as u64) as u16;
        self.ports_given += 1;
        port
    }

    fn chance(&mut self, probability: f64) -> bool {
        probability > 0.0 && self.random.random_bool(probability)
    }

    /// How much longer something takes than it has to: nothing, half of the time.
    fn jitter(&mut self) -> u64 {
        if self.config.jitter_ns == 0 || self.random.random() {
            return 0;
        }
        self.random.random_range(0..=self.config.jitter_ns)
    }

    fn submit(&mut self, socket: SocketId, head: SendBuf, span: Option<(FileSpan, SpanEnd)>) {
        let id = self.end_of(socket);
        let end = self.end_mut(id);
        assert!(end.sending.is_none(), "a send is under way on this socket already");
        assert!(!matches!(end.state, EndState::Connecting(_)), "a socket sends once it is connected");
        if end.finish == Finish::No {
            end.sending = Some(Sending::new(head, span));
            self.schedule_transmit(id, self.now);
        } else {
            self.fail(id, Errno::PIPE.into());
        }
    }

    /// Closes the socket of a listener: connections that wait there are ended.
    fn close_listener(&mut self, listener: Listener) {
        self.listeners.remove(&listener.addr);
        for connection in listener.backlog {
            self.abandon(EndId { connection, side: Side::Acceptor });
        }
    }

    /// Whether a completion may still be reported to an owner: a closed socket is not named again.
    fn is_current(&mut self, completion: &Completion) -> bool {
        match *completion {
            Completion::Woken => true,
            Completion::AcceptFailed { listener, .. } => self.sockets.entry(listener).is_some(),
            Completion::Accepted { listener, socket } => {
                let current = self.sockets.entry(listener).is_some();
                if !current {
                    self.close(socket);
                }
                current
            }
            Completion::Connected { socket }
            | Completion::Received { socket }
            | Completion::Sent { socket }
            | Completion::Ended { socket }
            | Completion::Failed { socket, .. } => self.sockets.entry(socket).is_some(),
        }
    }

    fn stuck(&self) -> io::Error {
        let open = self.sockets.len();
        let sending = self.sockets.iter().filter(|(_, socket)| match socket {
            Socket::End(end) => self.end(*end).is_sending(),
            Socket::Listener(_) => false,
        });
        let message = format!(
            "the simulation is stuck at {:?}: nothing is scheduled and the loop waits without end; {open} sockets are open, \
             {} sends under way",
            self.now,
            sending.count(),
        );
        io::Error::new(io::ErrorKind::Deadlock, message)
    }
}

impl Driver for Sim {
    fn kind(&self) -> DriverKind {
        DriverKind::Simulated
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, at: Listen) -> io::Result<SocketId> {
        let Listen::Address(mut addr) = at else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a simulation has neither a kernel's sockets nor files",
            ));
        };
        if addr.port() == 0 {
            addr.set_port(self.next_port(None));
        }
        if self.listeners.contains_key(&addr) {
            return Err(Errno::ADDRINUSE.into());
        }
        let id = self.insert(Socket::Listener(Listener { addr, backlog: VecDeque::new(), accepting: true }))?;
        self.listeners.insert(addr, id);
        Ok(id)
    }

    fn resume_accept(&mut self, listener: SocketId) {
        match self.sockets.entry_mut(listener).expect("the socket is open") {
            Socket::Listener(state) => state.accepting = true,
            Socket::End(_) => panic!("only a listener accepts"),
        }
        self.agenda.add(self.now, Event::Accept { listener });
    }

    fn connect(&mut self, to: &Connect) -> io::Result<SocketId> {
        if self.chance(self.config.connect_failure_probability) {
            return Err(if self.random.random() { Errno::MFILE } else { Errno::ADDRNOTAVAIL }.into());
        }
        let PeerAddr::Tcp(peer) = to.peer else { return Err(Errno::AFNOSUPPORT.into()) };
        let source = to.source.unwrap_or(match peer {
            SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
        });
        if source.is_ipv4() != peer.is_ipv4() {
            return Err(Errno::AFNOSUPPORT.into());
        }
        let connection = self.connections.next_number();
        let socket = self.insert(Socket::End(EndId { connection, side: Side::Connector }))?;
        let local = SocketAddr::new(source, self.next_port(to.ports));
        let mut made = Connection::new(local, peer, socket, self.now);
        if let ReceiveMode::OnDemand { .. } = to.receive_mode {
            made.end_mut(Side::Connector).intake = Intake::Asked { bytes: 0 };
        }
        self.connections.add(made);
        self.send_syn(connection);
        Ok(socket)
    }

    fn send(&mut self, socket: SocketId, bytes: SendBuf) {
        self.submit(socket, bytes, None);
    }

    fn send_last(&mut self, socket: SocketId, bytes: SendBuf) {
        self.send(socket, bytes);
    }

    fn send_file(&mut self, socket: SocketId, head: SendBuf, span: FileSpan, end: SpanEnd) {
        self.submit(socket, head, Some((span, end)));
    }

    fn sent_at(&self, socket: SocketId) -> Instant {
        self.end(self.end_of(socket)).sent_at
    }

    fn whole_segments(&self, _socket: SocketId, head_bytes: u64, bytes: u64) -> u64 {
        socket::fill(SEGMENT_BYTES, head_bytes, bytes)
    }

    /// A simulated kernel has no buffer beyond what the network holds.
    fn bound_unsent(&mut self, socket: SocketId, bounded: bool) {
        self.end_of(socket);
        self.bounds_lifted += u64::from(!bounded);
    }

    fn receive(&mut self, socket: SocketId, bytes_max: u32) {
        let id = self.end_of(socket);
        let end = self.end_mut(id);
        assert!(
            !matches!(end.state, EndState::Connecting(_)),
            "receive on demand: only on a connected socket of that mode"
        );
        if matches!(end.state, EndState::Failed(_)) || end.ended {
            return;
        }
        assert!(end.intake == Intake::Asked { bytes: 0 }, "receive on demand: the last call is not answered yet");
        assert!(bytes_max > 0, "a receive is of something");
        end.intake = Intake::Asked { bytes: bytes_max };
        self.schedule_deliver(id, self.now);
    }

    fn pause(&mut self, socket: SocketId) {
        match self.sockets.entry_mut(socket).expect("the socket is open") {
            Socket::Listener(listener) => listener.accepting = false,
            Socket::End(end) => {
                let end = *end;
                self.end_mut(end).intake.set_paused(true);
            }
        }
    }

    fn resume(&mut self, socket: SocketId) {
        match *self.socket(socket) {
            Socket::Listener(_) => self.resume_accept(socket),
            Socket::End(end) => {
                self.end_mut(end).intake.set_paused(false);
                self.schedule_deliver(end, self.now);
            }
        }
    }

    fn finish(&mut self, socket: SocketId) {
        let id = self.end_of(socket);
        let end = self.end_mut(id);
        assert!(!matches!(end.state, EndState::Connecting(_)), "a socket ends its direction once it is connected");
        if end.finish == Finish::No {
            end.finish = Finish::Asked;
            self.schedule_transmit(id, self.now);
        }
    }

    fn close(&mut self, socket: SocketId) {
        match self.sockets.remove(socket).expect("the socket is open") {
            Socket::Listener(listener) => self.close_listener(listener),
            Socket::End(end) => self.abandon(end),
        }
    }

    fn close_behind(&mut self, socket: SocketId, last: &[u8]) {
        let end = self.end_of(socket);
        assert!(self.end(end).sending.is_none(), "a send is under way on this socket");
        if self.end(end).finish == Finish::No {
            self.end_mut(end).sending = Some(Sending::new(SendBuf::Owned(last.to_vec()), None));
            self.transmit(end);
        }
        self.close(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        Self::reset(self, socket);
        self.close(socket);
    }

    fn unacknowledged(&self, socket: SocketId) -> u64 {
        let end = self.end(self.end_of(socket));
        end.flow.held.len() as u64 + end.sending.as_ref().map_or(0, Sending::left)
    }

    fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        let id = self.end_of(socket);
        match self.end(id).state {
            EndState::Open(_) => Ok(self.end(id.peer()).addr),
            _ => Err(Errno::NOTCONN.into()),
        }
    }

    fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        match self.socket(socket) {
            Socket::Listener(listener) => Ok(listener.addr),
            Socket::End(end) => Ok(self.end(*end).addr),
        }
    }

    fn overslept_ns(&self) -> u64 {
        self.overslept_ns
    }

    fn handshake_ns(&self, socket: SocketId) -> Option<u64> {
        self.connections[self.end_of(socket).connection].handshake_ns()
    }

    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.received.clear();
        self.overslept_ns = 0;
        self.run_until(self.now);
        if !self.ready.is_empty() {
            return Ok(());
        }
        while self.ready.is_empty() {
            match (self.agenda.next_at(), until) {
                (Some(at), None) => self.run_until(at),
                (Some(at), Some(until)) if at <= until => self.run_until(at),
                (_, Some(until)) if until > self.now => {
                    self.run_until(until);
                    break;
                }
                (_, Some(_)) => return Ok(()),
                (None, None) => return Err(self.stuck()),
            }
        }
        if self.config.oversleep_ns > 0 {
            let late = self.random.random_range(0..=self.config.oversleep_ns);
            self.run_until(self.now.plus_ns(late));
            self.overslept_ns = until.map_or(0, |until| self.now.ns_since(until));
        }
        Ok(())
    }

    fn next(&mut self) -> Option<Completion> {
        loop {
            let Ready { completion, bytes } = self.ready.pop_front()?;
            if !self.is_current(&completion) {
                continue;
            }
            if let Completion::Sent { socket } = completion {
                let end = self.end_of(socket);
                self.end_mut(end).sending = None;
            }
            self.received = bytes;
            return Some(completion);
        }
    }

    fn received(&self) -> &[u8] {
        &self.received
    }
}
