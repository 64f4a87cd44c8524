//! The epoll driver: completions made from readiness.
//!
//! Every operation is tried at once. The socket waits for an event only when the kernel returns
//! `EAGAIN`. Sockets are registered once, edge-triggered for all events, so no further `epoll_ctl`
//! is needed. Edges require bookkeeping: a socket stays on a ready list until the kernel has
//! returned `EAGAIN` for it.

mod accept;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use crate::address::PeerAddr;
use crate::clock::Instant;
use crate::driver::{
    Completion, Connect, Driver, DriverConfig, DriverKind, FileSpan, Listen, ReceiveMode, SendBuf, SpanEnd,
    overslept_ns,
};
use crate::socket::{self, Nagle, Sending, Step};
use crate::table::{SocketId, Table};
use crate::wake::Waker;

/// Events taken from the kernel in one wait.
const EVENTS_PER_WAIT: usize = 512;

/// Receives, sends and accepts tried between two waits, so that sockets that are always ready
/// cannot keep timers waiting.
const STEPS_PER_WAIT: usize = 1024;

/// Sends continued between two waits: a new request should not have to wait until many downloads
/// had their chunks; see bench/TRIED.md, "Chunks beside slow readers".
const SENDS_PER_WAIT: usize = 16;

/// The token of the waker; no socket has it, because ids stay below 2^56.
const WAKER_TOKEN: u64 = u64::MAX;

/// Not to sleep at all.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A driver over epoll.
pub struct Epoll {
    epoll: OwnedFd,
    sockets: Table<Socket>,
    waker: Waker,
    events: Vec<Event>,
    /// Completions that are ready to be taken.
    done: VecDeque<Completion>,
    /// Accepted since the last wait, and not watched yet.
    unwatched: Vec<SocketId>,
    /// Sockets that may have something to receive or accept.
    readable: VecDeque<SocketId>,
    /// Sockets that can take more of a send.
    writable: VecDeque<SocketId>,
    /// Those of them that have had their chunk of a file; they go on after the next wait.
    served: Vec<SocketId>,
    writes_first: bool,
    steps_left: usize,
    sends_left: usize,
    last_port: u16,
    buffer: Box<[u8]>,
    wake_early_ns: u64,
    busy_wait_ns: u64,
    overslept_ns: u64,
    received: usize,
    now: Instant,
}

struct Socket {
    fd: OwnedFd,
    state: State,
    /// The kernel may have something for us: set by an edge, cleared by "not now".
    readable: bool,
    /// On the `readable` list.
    listed: bool,
    paused: bool,
    /// The socket receives on demand; see `bytes_wanted`.
    on_demand: bool,
    /// Receive on demand: bytes requested and not yet delivered; 0 if none are.
    bytes_wanted: u32,
    /// An edge has reported that the peer's direction has ended or that the connection is broken.
    end_seen: bool,
    /// The peer has ended its direction, and this was reported to the owner.
    ended: bool,
    /// The reason why the socket is unusable; reported after the bytes before it are delivered.
    broken: Option<Errno>,
    failed: bool,
    finish_after_send: bool,
    nagle: Nagle,
    sending: Option<Sending>,
    sent_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Listening,
    Connecting,
    Connected,
}

impl Socket {
    fn new(fd: OwnedFd, state: State) -> Self {
        Self {
            fd,
            state,
            readable: false,
            listed: false,
            paused: false,
            on_demand: false,
            bytes_wanted: 0,
            end_seen: false,
            ended: false,
            broken: None,
            failed: false,
            finish_after_send: false,
            nagle: Nagle::Off,
            sending: None,
            sent_at: Instant::default(),
        }
    }

    /// Whether the owner wants nothing at present.
    fn is_held(&self) -> bool {
        self.paused || (self.on_demand && self.bytes_wanted == 0)
    }
}

impl Epoll {
    /// Opens the driver.
    ///
    /// # Errors
    /// No descriptor is left.
    pub fn open(config: &DriverConfig) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, config.waker.fd(), EventData::new_u64(WAKER_TOKEN), EventFlags::IN)?;
        Ok(Self {
            epoll,
            sockets: Table::new(config.sockets_max),
            waker: config.waker.clone(),
            events: Vec::with_capacity(EVENTS_PER_WAIT),
            done: VecDeque::new(),
            unwatched: Vec::new(),
            readable: VecDeque::new(),
            writable: VecDeque::new(),
            served: Vec::new(),
            writes_first: false,
            steps_left: 0,
            sends_left: 0,
            last_port: 0,
            buffer: vec![0; config.receive_buffer_bytes].into_boxed_slice(),
            wake_early_ns: config.wake_early_ns,
            busy_wait_ns: 0,
            overslept_ns: 0,
            received: 0,
            now: Instant::now(),
        })
    }

    fn add(&mut self, fd: OwnedFd, state: State) -> io::Result<SocketId> {
        let id = self.sockets.insert(Socket::new(fd, state)).map_err(|_| io::Error::from(Errno::MFILE))?;
        if let Err(error) = self.watch(id) {
            self.sockets.remove(id);
            return Err(error);
        }
        Ok(id)
    }

    fn watch(&self, id: SocketId) -> io::Result<()> {
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        Ok(epoll::add(&self.epoll, self.live(id).fd.as_fd(), EventData::new_u64(id.to_bits()), flags)?)
    }

    /// Watches accepted connections that are still open: one that is closed after its first
    /// response needs no watch. Events of the others since they were accepted are reported at once.
    fn watch_accepted(&mut self) {
        let mut unwatched = mem::take(&mut self.unwatched);
        for id in unwatched.drain(..) {
            if self.sockets.entry(id).is_some()
                && let Err(error) = self.watch(id)
            {
                self.fail(id, error);
            }
        }
        self.unwatched = unwatched;
    }

    fn live(&self, id: SocketId) -> &Socket {
        self.sockets.entry(id).expect("the socket is open")
    }

    fn live_mut(&mut self, id: SocketId) -> &mut Socket {
        self.sockets.entry_mut(id).expect("the socket is open")
    }

    /// Notes that there may be something to receive or accept.
    fn mark_readable(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.entry_mut(id) else { return };
        socket.readable = true;
        if !socket.listed && !socket.is_held() {
            socket.listed = true;
            self.readable.push_back(id);
        }
    }

    /// Takes the kernel's word about one socket.
    fn on_event(&mut self, id: SocketId, flags: EventFlags) {
        // An event for a socket that was closed between the wait and now, or whose connect has
        // failed at once.
        let Some(socket) = self.sockets.entry_mut(id).filter(|socket| !socket.failed) else { return };
        if socket.state == State::Connecting {
            if flags.intersects(EventFlags::OUT | EventFlags::ERR | EventFlags::HUP) {
                self.on_connect(id, flags);
            }
            return;
        }
        if flags.contains(EventFlags::ERR) && (socket.paused || socket.ended) {
            // The socket does not receive, so the error would not be noticed otherwise.
            let error = socket::pending_error(&socket.fd).unwrap_or_else(|| Errno::CONNRESET.into());
            self.fail(id, error);
            return;
        }
        if flags.contains(EventFlags::OUT) && socket.sending.is_some() {
            self.writable.push_back(id);
        }
        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        socket.end_seen |= flags.intersects(end);
        if flags.intersects(EventFlags::IN | end) {
            self.mark_readable(id);
        }
    }

    fn on_connect(&mut self, id: SocketId, flags: EventFlags) {
        let socket = self.live_mut(id);
        socket.state = State::Connected;
        // A failed connect shows as an error besides being writable, so a success needs no query.
        let may_have_failed = flags.intersects(EventFlags::ERR | EventFlags::HUP);
        match may_have_failed.then(|| socket::pending_error(&socket.fd)).flatten() {
            Some(error) => self.fail(id, error),
            None => {
                self.done.push_back(Completion::Connected { socket: id });
                self.mark_readable(id);
            }
        }
    }

    /// Reports to the owner, once, that the socket is unusable.
    fn fail(&mut self, id: SocketId, error: io::Error) {
        let socket = self.live_mut(id);
        socket.sending = None;
        socket.readable = false;
        if !socket.failed {
            socket.failed = true;
            self.done.push_back(Completion::Failed { socket: id, error });
        }
    }

    /// Continues a send until it is complete, the kernel takes no more, or a chunk of a file was
    /// sent and other sockets come first.
    fn push(&mut self, id: SocketId) {
        let Some(socket) = self.sockets.entry_mut(id) else { return };
        let Some(sending) = &mut socket.sending else { return };
        match sending.step(&socket.fd) {
            Ok(Step::Done) => {
                socket.sending = None;
                if socket.finish_after_send {
                    socket::finish(&socket.fd);
                }
                self.done.push_back(Completion::Sent { socket: id });
            }
            Ok(Step::Full) => {}
            Ok(Step::More) => self.served.push(id),
            Err(error) => self.on_send_error(id, error),
        }
    }

    /// A send has failed. What the peer sent before it broke the connection may still be in the
    /// socket, an early error response for example; it is delivered first.
    fn on_send_error(&mut self, id: SocketId, error: io::Error) {
        let socket = self.live_mut(id);
        socket.sending = None;
        // An error without a number is not the connection's but the file's, which was too short.
        match Errno::from_io_error(&error) {
            Some(errno) if !socket.is_held() && !socket.ended => {
                socket.broken = Some(errno);
                self.mark_readable(id);
            }
            _ => self.fail(id, error),
        }
    }

    fn try_receive(&mut self, id: SocketId) -> Option<Completion> {
        let socket = self.sockets.entry_mut(id)?;
        socket.listed = false;
        if socket.is_held() || !socket.readable || socket.ended || socket.failed {
            return None;
        }
        if socket.state == State::Listening {
            return self.accept(id);
        }
        let most =
            if socket.on_demand { self.buffer.len().min(socket.bytes_wanted as usize) } else { self.buffer.len() };
        match recv(&socket.fd, &mut self.buffer[..most], RecvFlags::empty()) {
            Ok((_, 0)) => {
                socket.ended = true;
                self.now = Instant::now();
                match socket.broken.take() {
                    Some(broken) => self.fail(id, broken.into()),
                    None => return Some(Completion::Ended { socket: id }),
                }
                None
            }
            Ok((_, received)) => {
                // A short read has emptied the socket, as epoll(7) promises for streams: the next
                // bytes make a new edge. Not so for an end whose edge came together with the bytes'
                // one: then another try is due.
                socket.readable = received == most || socket.end_seen || socket.broken.is_some();
                socket.bytes_wanted = 0;
                if socket.readable && !socket.on_demand {
                    socket.listed = true;
                    self.readable.push_back(id);
                }
                self.received = received;
                self.now = Instant::now();
                Some(Completion::Received { socket: id })
            }
            Err(Errno::AGAIN) => {
                socket.readable = false;
                if let Some(broken) = socket.broken.take() {
                    self.fail(id, broken.into());
                }
                None
            }
            Err(Errno::INTR) => {
                self.mark_readable(id);
                None
            }
            Err(errno) => {
                let errno = socket.broken.take().unwrap_or(errno);
                self.fail(id, errno.into());
                None
            }
        }
    }

    fn names_open_socket(&self, completion: &Completion) -> bool {
        completion.subject().is_none_or(|id| self.sockets.entry(id).is_some())
    }

    fn start_send(&mut self, id: SocketId, sending: Sending) {
        let socket = self.live_mut(id);
        assert!(socket.sending.is_none(), "one send at a time");
        assert!(socket.state == State::Connected, "sends start once connected");
        if socket.failed || socket.broken.is_some() {
            return;
        }
        socket.nagle.before(&socket.fd, &sending);
        socket.sending = Some(sending);
        // The completion may come within this wake-up, and must not be stamped earlier than the
        // send.
        self.now = Instant::now();
        self.live_mut(id).sent_at = self.now;
        self.push(id);
    }
}

impl Driver for Epoll {
    fn kind(&self) -> DriverKind {
        DriverKind::Epoll
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn listen(&mut self, at: Listen) -> io::Result<SocketId> {
        let id = self.add(socket::listener(at)?, State::Listening)?;
        self.mark_readable(id);
        Ok(id)
    }

    fn resume_accept(&mut self, listener: SocketId) {
        self.resume(listener);
    }

    fn connect(&mut self, to: &Connect) -> io::Result<SocketId> {
        if self.sockets.is_full() {
            return Err(Errno::MFILE.into());
        }
        // An iteration may open many connections, each at its own time.
        self.now = Instant::now();
        let connecting = socket::connecting(to, &mut self.last_port)?;
        let is_unix = matches!(to.peer, PeerAddr::Unix(_));
        let refused =
            match connecting.connect(&to.peer.encoded()).map_err(|error| socket::connect_error(is_unix, error)) {
                Ok(()) => None,
                Err(error) if Errno::from_io_error(&error) == Some(Errno::INPROGRESS) => None,
                Err(error) if socket::prevents_attempt(&error) => return Err(error),
                Err(error) => Some(error),
            };
        let id = self.add(connecting.into(), State::Connecting)?;
        let socket = self.live_mut(id);
        socket.on_demand = matches!(to.receive_mode, ReceiveMode::OnDemand { .. });
        socket.nagle = if is_unix { Nagle::Off } else { Nagle::Unused };
        if let Some(error) = refused {
            self.fail(id, error);
        }
        Ok(id)
    }

    fn send(&mut self, socket: SocketId, bytes: SendBuf) {
        self.start_send(socket, Sending::bytes(bytes));
    }

    fn send_last(&mut self, socket: SocketId, bytes: SendBuf) {
        self.start_send(socket, Sending::last(bytes));
    }

    fn send_file(&mut self, socket: SocketId, head: SendBuf, span: FileSpan, end: SpanEnd) {
        self.start_send(socket, Sending::file(head, span, end));
    }

    fn sent_at(&self, socket: SocketId) -> Instant {
        self.live(socket).sent_at
    }

    fn whole_segments(&self, socket: SocketId, head_bytes: u64, bytes: u64) -> u64 {
        socket::whole_segments(&self.live(socket).fd, head_bytes, bytes)
    }

    fn bound_unsent(&mut self, socket: SocketId, bounded: bool) {
        socket::bound_unsent(&self.live(socket).fd, bounded);
    }

    fn receive(&mut self, socket: SocketId, bytes_max: u32) {
        let entry = self.live_mut(socket);
        assert!(
            entry.on_demand && entry.state == State::Connected,
            "receive on demand: only on a connected socket of that mode"
        );
        if entry.ended || entry.failed {
            return;
        }
        assert!(entry.bytes_wanted == 0 && bytes_max > 0, "one receive at a time, of something");
        entry.bytes_wanted = bytes_max;
        if entry.readable {
            self.mark_readable(socket);
        }
    }

    fn pause(&mut self, socket: SocketId) {
        let entry = self.live_mut(socket);
        assert!(!entry.on_demand, "a receive-on-demand socket needs no pause");
        entry.paused = true;
    }

    fn resume(&mut self, socket: SocketId) {
        let entry = self.live_mut(socket);
        assert!(!entry.on_demand, "a receive-on-demand socket needs no resume");
        entry.paused = false;
        if entry.readable {
            self.mark_readable(socket);
        }
    }

    fn finish(&mut self, socket: SocketId) {
        let socket = self.live_mut(socket);
        if socket.sending.is_some() {
            socket.finish_after_send = true;
        } else {
            socket::finish(&socket.fd);
        }
    }

    fn close(&mut self, socket: SocketId) {
        // Closing the only descriptor takes it out of the epoll set too, but a listener may have
        // duplicates: it would stay in the set, and a later duplicate with the same number could
        // not be added.
        let closing = self.live(socket);
        if closing.state == State::Listening {
            let _ = epoll::delete(&self.epoll, &closing.fd);
        }
        self.sockets.remove(socket).expect("the socket is open");
    }

    fn close_behind(&mut self, socket: SocketId, last: &[u8]) {
        let closing = self.live(socket);
        assert!(closing.sending.is_none(), "a send is under way on this socket");
        socket::send_now(&closing.fd, last);
        self.close(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        socket::abandon(&self.live(socket).fd);
        self.close(socket);
    }

    fn unacknowledged(&self, socket: SocketId) -> u64 {
        let socket = self.live(socket);
        socket.sending.as_ref().map_or(0, Sending::left) + socket::unacknowledged(&socket.fd)
    }

    fn peer_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        socket::peer_addr(&self.live(socket).fd)
    }

    fn local_addr(&self, socket: SocketId) -> io::Result<SocketAddr> {
        socket::local_addr(&self.live(socket).fd)
    }

    fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        self.received = 0;
        self.steps_left = STEPS_PER_WAIT;
        self.sends_left = SENDS_PER_WAIT;
        self.watch_accepted();
        self.writable.extend(self.served.drain(..));
        let busy = !(self.done.is_empty() && self.readable.is_empty() && self.writable.is_empty());
        let asleep_until = until.map(|until| until.minus_ns(self.wake_early_ns));
        let (last_wake, mut entry) = (self.now, self.now);
        let mut timeout = match asleep_until {
            _ if busy => Some(AT_ONCE),
            None => None,
            Some(until) => {
                entry = Instant::now();
                let ns = until.ns_since(entry);
                Some(Timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 })
            }
        };
        let mut events = mem::take(&mut self.events);
        events.clear();
        let mut awake_from = None;
        loop {
            match epoll::wait(&self.epoll, spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            self.now = Instant::now();
            self.overslept_ns = overslept_ns(until.filter(|_| !busy), entry, last_wake, self.now);
            let awake_from = *awake_from.get_or_insert(self.now);
            let rest = until.filter(|&until| !busy && events.is_empty() && self.now < until);
            if rest.is_none() || asleep_until.is_some_and(|until| self.now < until) {
                self.busy_wait_ns += self.now.ns_since(awake_from);
                break;
            }
            // Woken early: what is left is too short for a sleep.
            timeout = Some(AT_ONCE);
        }
        for event in &events {
            let token = event.data.u64();
            if token == WAKER_TOKEN {
                self.waker.drain();
                self.done.push_back(Completion::Woken);
            } else {
                self.on_event(SocketId::from_bits(token), event.flags);
            }
        }
        self.events = events;
        Ok(())
    }

    fn busy_wait_ns(&self) -> u64 {
        self.busy_wait_ns
    }

    fn overslept_ns(&self) -> u64 {
        self.overslept_ns
    }

    fn handshake_ns(&self, socket: SocketId) -> Option<u64> {
        socket::handshake_ns(&self.live(socket).fd)
    }

    fn next(&mut self) -> Option<Completion> {
        loop {
            while let Some(completion) = self.done.pop_front() {
                if self.names_open_socket(&completion) {
                    return Some(completion);
                }
            }
            if self.steps_left == 0 {
                return None;
            }
            self.steps_left -= 1;
            // Reads and writes alternate, so that neither endless input nor endless output can
            // starve the other.
            self.writes_first = !self.writes_first;
            let writes = self.writes_first || self.readable.is_empty();
            let writable = if writes && self.sends_left > 0 { self.writable.pop_front() } else { None };
            if let Some(id) = writable {
                self.sends_left -= 1;
                self.push(id);
            } else if let Some(id) = self.readable.pop_front() {
                let completion = self.try_receive(id);
                if completion.is_some() {
                    return completion;
                }
            } else {
                return None;
            }
        }
    }

    fn received(&self) -> &[u8] {
        &self.buffer[..self.received]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_idle_socket_takes_little_memory() {
        let bytes = Table::<Socket>::SLOT_BYTES;
        assert!(bytes <= 96, "{bytes} bytes");
    }
}
