//! The floor of epoll: every socket is registered once and edge-triggered, and every operation is
//! tried before it is waited for.
//!
//! Level-triggered, a socket would go through the ready list twice per event. On loopback a
//! handshake is over before `connect` returns, so a connection per request can send at once; the
//! send that comes too early says so and waits for its edge.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, accept_with, recv, send, socket_with};

use crate::account::{Start, Totals};
use crate::canned;
use crate::plan::Plan;
use crate::stop::Stop;

/// Events taken per wait.
pub(crate) const EVENTS: usize = 512;

/// More than one response, so that a receive that comes up short has emptied the socket and no
/// second one is needed to know.
const RECEIVE_BYTES: usize = 256 * 1024;

/// The owner of an event that is no connection's.
pub(crate) const STOP: u64 = u64::MAX;
pub(crate) const LISTENER: u64 = u64::MAX - 1;

/// Sockets that a server holds at most; more wait in the backlog.
const SOCKETS_MAX: usize = 65_536;

pub(crate) fn client(plan: &Plan) -> io::Result<Totals> {
    let mut client = Client {
        plan,
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        request: canned::request(plan),
        response_bytes: canned::response_bytes(plan)?,
        connections: Vec::new(),
        started: 0,
        finished: 0,
    };
    if plan.close { client.one_request_each() } else { client.keep() }
}

struct Client<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    request: Vec<u8>,
    response_bytes: usize,
    connections: Vec<Connection>,
    started: u64,
    finished: u64,
}

struct Connection {
    socket: OwnedFd,
    /// The request waits for the handshake to end.
    unsent: bool,
    /// Bytes of the response that have not come; none while no request is pending.
    left: usize,
}

impl Client<'_> {
    fn keep(&mut self) -> io::Result<Totals> {
        for index in 0..self.plan.connections.into() {
            let socket = canned::connection(self.plan.address())?;
            rustix::io::ioctl_fionbio(&socket, true)?;
            self.watch(&socket, index, EventFlags::IN)?;
            self.connections.push(Connection { socket, unsent: false, left: 0 });
        }
        let stop = self.stop()?;
        let start = Start::now()?;
        for index in 0..self.connections.len() {
            if self.started < self.plan.requests_max() {
                self.ask(index)?;
            }
        }
        let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; RECEIVE_BYTES]);
        while self.finished < self.plan.requests_max() && wait(&self.epoll, &mut events)? {
            for event in &events {
                let index = event.data.u64() as usize;
                if self.receive(index, &mut buffer)? && self.started < self.plan.requests_max() {
                    self.ask(index)?;
                }
            }
        }
        drop(stop);
        start.totals(self.finished)
    }

    fn one_request_each(&mut self) -> io::Result<Totals> {
        let stop = self.stop()?;
        let start = Start::now()?;
        for index in 0..self.plan.connections.into() {
            if self.started < self.plan.requests_max() {
                let connection = self.connect(index)?;
                self.connections.push(connection);
            }
        }
        let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; RECEIVE_BYTES]);
        while self.finished < self.plan.requests_max() && wait(&self.epoll, &mut events)? {
            for event in &events {
                let index = event.data.u64() as usize;
                if self.connections[index].unsent {
                    self.ask_when_connected(index)?;
                } else if self.receive(index, &mut buffer)? && self.started < self.plan.requests_max() {
                    // The old socket is closed by its replacement, which also takes it out of the
                    // epoll set.
                    self.connections[index] = self.connect(index as u64)?;
                }
            }
        }
        drop(stop);
        start.totals(self.finished)
    }

    fn stop(&self) -> io::Result<Stop> {
        let stop = Stop::after(self.plan.seconds)?;
        for fd in stop.fds() {
            self.watch(fd, STOP, EventFlags::IN)?;
        }
        Ok(stop)
    }

    fn watch(&self, socket: impl AsFd, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(data), flags | EventFlags::ET)?)
    }

    /// Sends a request on an idle connection, whose buffer always has room for it.
    fn ask(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        send(&connection.socket, &self.request, SendFlags::NOSIGNAL)?;
        connection.left = self.response_bytes;
        self.started += 1;
        Ok(())
    }

    fn connect(&mut self, index: u64) -> io::Result<Connection> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
        match rustix::net::connect(&socket, &self.plan.address()) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(canned::no_connection(self.plan.address(), error)),
        }
        let unsent = match send(&socket, &self.request, SendFlags::NOSIGNAL) {
            Ok(_) => false,
            Err(Errno::AGAIN) => true,
            Err(error) => return Err(error.into()),
        };
        self.watch(&socket, index, if unsent { EventFlags::IN | EventFlags::OUT } else { EventFlags::IN })?;
        self.started += 1;
        Ok(Connection { socket, unsent, left: self.response_bytes })
    }

    fn ask_when_connected(&mut self, index: usize) -> io::Result<()> {
        let connection = &mut self.connections[index];
        match send(&connection.socket, &self.request, SendFlags::NOSIGNAL) {
            Ok(_) => connection.unsent = false,
            Err(Errno::AGAIN) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// Receives what is there; whether the response is over with it.
    fn receive(&mut self, index: usize, buffer: &mut [u8]) -> io::Result<bool> {
        let connection = &mut self.connections[index];
        if connection.left == 0 {
            // A server may close an unused connection.
            return Ok(false);
        }
        while connection.left > 0 {
            let bytes = match recv(&connection.socket, &mut *buffer, RecvFlags::empty()) {
                Ok((0, _)) => return Err(canned::ended(self.plan.address())),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(false),
                Err(error) => return Err(error.into()),
            };
            if bytes > connection.left {
                return Err(io::Error::other("a response is longer than the first one was"));
            }
            connection.left -= bytes;
            if connection.left > 0 && bytes < buffer.len() {
                return Ok(false);
            }
        }
        self.finished += 1;
        Ok(true)
    }
}

/// Waits for events; false if one of them is the end of the run.
pub(crate) fn wait(epoll: &OwnedFd, events: &mut Vec<Event>) -> io::Result<bool> {
    events.clear();
    match epoll::wait(epoll, spare_capacity(events), None) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(events.iter().all(|event| event.data.u64() != STOP))
}

/// The descriptors that a server waits on.
pub(crate) struct ServerSockets {
    pub epoll: OwnedFd,
    pub listener: OwnedFd,
    pub stop: Stop,
}

impl ServerSockets {
    pub(crate) fn open(plan: &Plan) -> io::Result<Self> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let listener = canned::listener(plan)?;
        // Level-triggered: what one wake-up leaves in the backlog is told again.
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        let stop = Stop::after(plan.seconds)?.or_when_asked()?;
        for fd in stop.fds() {
            epoll::add(&epoll, fd, EventData::new_u64(STOP), EventFlags::IN)?;
        }
        Ok(Self { epoll, listener, stop })
    }
}

pub(crate) fn server(plan: &Plan) -> io::Result<Totals> {
    // Held until the run is over.
    let ServerSockets { epoll, listener, stop: _stop } = ServerSockets::open(plan)?;
    let response = canned::response(plan);
    let mut server = Server { plan, epoll, listener, response, sockets: Vec::new(), free: Vec::new(), served: 0 };
    server.serve()
}

struct Server<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    listener: OwnedFd,
    response: Vec<u8>,
    sockets: Vec<Option<OwnedFd>>,
    free: Vec<usize>,
    served: u64,
}

impl Server<'_> {
    fn serve(&mut self) -> io::Result<Totals> {
        let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; RECEIVE_BYTES]);
        let mut going = wait(&self.epoll, &mut events)?;
        let start = Start::now()?;
        while going {
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(&mut buffer)?,
                    index => self.respond(index as usize, &mut buffer),
                }
            }
            going = self.served < self.plan.requests_max() && wait(&self.epoll, &mut events)?;
        }
        start.totals(self.served)
    }

    /// Accepts what is in the backlog. Where a connection carries one request, that is mostly there
    /// already.
    fn accept(&mut self, buffer: &mut [u8]) -> io::Result<()> {
        while self.sockets.len() - self.free.len() < SOCKETS_MAX {
            let socket = match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            if self.plan.close && exchange(&socket, &self.response, buffer, self.plan.close) == Exchange::Served {
                self.served += 1;
                continue;
            }
            let index = self.free.pop().unwrap_or(self.sockets.len());
            epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ET)?;
            if index == self.sockets.len() {
                self.sockets.push(Some(socket));
            } else {
                self.sockets[index] = Some(socket);
            }
        }
        Ok(())
    }

    fn respond(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(socket) = &self.sockets[index] else { return };
        let exchange = exchange(socket, &self.response, buffer, self.plan.close);
        self.served += u64::from(exchange == Exchange::Served);
        if exchange == Exchange::Ended || (exchange == Exchange::Served && self.plan.close) {
            self.sockets[index] = None;
            self.free.push(index);
        }
    }
}

#[derive(PartialEq, Eq)]
enum Exchange {
    Served,
    NothingYet,
    Ended,
}

/// One receive and one send. The response fits into an empty socket's buffer; a client that does
/// not read has itself to blame.
fn exchange(socket: &OwnedFd, response: &[u8], buffer: &mut [u8], close: bool) -> Exchange {
    // The end of the stream shares a segment with what is sent before it.
    let more = if close { SendFlags::MORE } else { SendFlags::empty() };
    match recv(socket, buffer, RecvFlags::empty()) {
        Ok((0, _)) => Exchange::Ended,
        Ok(_) => match send(socket, response, SendFlags::NOSIGNAL | more) {
            Ok(sent) if sent == response.len() => Exchange::Served,
            _ => Exchange::Ended,
        },
        Err(Errno::AGAIN | Errno::INTR) => Exchange::NothingYet,
        Err(_) => Exchange::Ended,
    }
}
