//! The floor of TLS and HTTP/2, over epoll: the system calls of `epoll`, records sealed and opened
//! in place, and frames that are counted.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send};

use crate::account::{Start, Totals};
use crate::canned;
use crate::epoll::{EVENTS, LISTENER, STOP, ServerSockets, wait};
use crate::frames::{self, Exchange, Frames};
use crate::plan::Plan;
use crate::secure::{Handshake, Records, Settings, record_bytes};
use crate::stop::Stop;

/// Several records, and all streams' responses.
const RECEIVE_BYTES: usize = 256 * 1024;

/// A connection and its layers.
struct Connection {
    socket: OwnedFd,
    tls: Tls,
    /// The beginning of a record whose end has not come.
    rest: Vec<u8>,
    /// The end of the handshake, which leaves with what is sent next.
    unsent: Vec<u8>,
    frames: Option<Frames>,
    /// HTTP/1: bytes of the response that have not come. HTTP/2: the number of the next stream.
    next: u64,
    /// Requests that wait for their responses.
    pending: u64,
}

enum Tls {
    Off,
    /// Kept for a connection's only request: keys are not worth their extraction.
    Handshake(Box<Handshake>),
    Records(Box<Records>),
}

/// The result of a receive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Received {
    All,
    Ended,
}

/// Buffers of the loop, shared by its connections.
struct Buffers {
    received: Vec<u8>,
    plain: Vec<u8>,
    sealed: Vec<u8>,
}

impl Buffers {
    fn new() -> Self {
        Self { received: vec![0; RECEIVE_BYTES], plain: Vec::new(), sealed: Vec::new() }
    }
}

impl Connection {
    fn new(socket: OwnedFd, settings: Option<&Settings>, frames: Option<Frames>) -> io::Result<Self> {
        let tls = settings.map(Settings::begin).transpose()?;
        let tls = tls.map_or(Tls::Off, |handshake| Tls::Handshake(Box::new(handshake)));
        Ok(Self { socket, tls, rest: Vec::new(), unsent: Vec::new(), frames, next: 1, pending: 0 })
    }

    fn is_ready(&self) -> bool {
        !matches!(&self.tls, Tls::Handshake(handshake) if !handshake.is_over())
    }

    /// Receives until the socket is empty; `take` gets the plain bytes.
    fn receive(
        &mut self,
        plan: &Plan,
        buffers: &mut Buffers,
        mut take: impl FnMut(&mut Self, &[u8]) -> io::Result<()>,
    ) -> io::Result<Received> {
        loop {
            let begin = self.rest.len();
            buffers.received[..begin].copy_from_slice(&self.rest);
            self.rest.clear();
            let room = &mut buffers.received[begin..];
            let room_bytes = room.len();
            let bytes = match recv(&self.socket, room, RecvFlags::empty()) {
                Ok((0, _)) | Err(Errno::CONNRESET) => return Ok(Received::Ended),
                Ok((bytes, _)) => bytes,
                Err(Errno::AGAIN | Errno::INTR) => {
                    self.rest.extend_from_slice(&buffers.received[..begin]);
                    return Ok(Received::All);
                }
                Err(error) => return Err(error.into()),
            };
            let Buffers { received, plain, .. } = buffers;
            let received = &mut received[..begin + bytes];
            if matches!(self.tls, Tls::Off) {
                take(self, received)?;
            } else {
                self.records(plan, received, plain, &mut take)?;
            }
            if bytes < room_bytes {
                return Ok(Received::All);
            }
        }
    }

    fn records(
        &mut self,
        plan: &Plan,
        mut received: &mut [u8],
        plain: &mut Vec<u8>,
        take: &mut impl FnMut(&mut Self, &[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        while let Some(bytes) = record_bytes(received) {
            let (record, rest) = received.split_at_mut(bytes);
            received = rest;
            match &mut self.tls {
                Tls::Records(records) => {
                    // For the time of the call the connection is the closure's.
                    let opened = records.open(record)?;
                    if !opened.is_empty() {
                        take(self, opened)?;
                    }
                }
                Tls::Handshake(handshake) => {
                    plain.clear();
                    handshake.open(record, plain)?;
                    handshake.write(&mut self.unsent)?;
                    if handshake.is_over() && !plan.close {
                        self.extract()?;
                    }
                    if !plain.is_empty() {
                        take(self, plain)?;
                    }
                }
                Tls::Off => {}
            }
        }
        self.rest.extend_from_slice(received);
        if !self.is_ready() {
            transmit(&self.socket, &self.unsent)?;
            self.unsent.clear();
        }
        Ok(())
    }

    fn extract(&mut self) -> io::Result<()> {
        if let Tls::Handshake(handshake) = std::mem::replace(&mut self.tls, Tls::Off) {
            self.tls = Tls::Records(Box::new(handshake.into_records()?));
        }
        Ok(())
    }

    /// Sends the bytes as records.
    fn send(&mut self, plain: &[u8], sealed: &mut Vec<u8>) -> io::Result<()> {
        sealed.clear();
        sealed.append(&mut self.unsent);
        match &mut self.tls {
            Tls::Off => return transmit(&self.socket, plain),
            Tls::Handshake(handshake) => handshake.seal(plain, sealed)?,
            Tls::Records(records) => records.seal(plain, sealed)?,
        }
        transmit(&self.socket, sealed)
    }
}

/// One send: what is sent fits into an empty socket's buffer.
fn transmit(socket: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    match send(socket, bytes, SendFlags::NOSIGNAL) {
        Ok(sent) if sent == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::other("a send does not fit into the socket's buffer")),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn server(plan: &Plan) -> io::Result<Totals> {
    let settings = plan.certificate.as_ref().map(|certificate| Settings::server(plan, certificate)).transpose()?;
    let ServerSockets { epoll, listener, stop: _stop } = ServerSockets::open(plan)?;
    let response = canned::response(plan);
    let body = &response[response.len() - plan.bytes as usize..];
    let exchange = Exchange::response(body);
    let mut server = Server {
        plan,
        settings,
        epoll,
        listener,
        response: response.clone(),
        exchange,
        connections: Vec::new(),
        free: Vec::new(),
        served: 0,
    };
    server.serve()
}

struct Server<'a> {
    plan: &'a Plan,
    settings: Option<Settings>,
    epoll: OwnedFd,
    listener: OwnedFd,
    response: Vec<u8>,
    exchange: Exchange,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    served: u64,
}

impl Server<'_> {
    fn serve(&mut self) -> io::Result<Totals> {
        let (mut events, mut buffers, mut out) = (Vec::with_capacity(EVENTS), Buffers::new(), Vec::new());
        let mut going = wait(&self.epoll, &mut events)?;
        let start = Start::now()?;
        while going {
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    index => self.respond(index as usize, &mut buffers, &mut out),
                }
            }
            going = self.served < self.plan.requests_max() && wait(&self.epoll, &mut events)?;
        }
        start.totals(self.served)
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let socket = match accept_with(&self.listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
                Ok(socket) => socket,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::CONNABORTED | Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let frames = (self.plan.streams > 0).then(Frames::from_client);
            let index = self.free.pop().unwrap_or(self.connections.len());
            epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), EventFlags::IN | EventFlags::ET)?;
            let connection = Some(Connection::new(socket, self.settings.as_ref(), frames)?);
            if index == self.connections.len() {
                self.connections.push(connection);
            } else {
                self.connections[index] = connection;
            }
        }
    }

    /// Responds to what has come. A peer that does not understand the floor loses its connection.
    fn respond(&mut self, index: usize, buffers: &mut Buffers, out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connections[index] else { return };
        out.clear();
        let (mut requests, exchange, response) = (0, &self.exchange, &self.response);
        let received = connection.receive(self.plan, buffers, |connection, plain| {
            let Some(frames) = &mut connection.frames else {
                requests += 1;
                out.extend_from_slice(response);
                return Ok(());
            };
            frames.read(plain, |event| match event {
                frames::Event::Ended(stream) => {
                    requests += 1;
                    exchange.write(stream, out);
                }
                frames::Event::Settings => {
                    out.extend_from_slice(&frames::server_preface());
                    frames::acknowledge_settings(out);
                }
            })
        });
        let sent = if out.is_empty() { Ok(()) } else { connection.send(out, &mut buffers.sealed) };
        self.served += requests;
        let is_over = self.plan.close && requests > 0;
        if is_over || sent.is_err() || !matches!(received, Ok(Received::All)) {
            self.connections[index] = None;
            self.free.push(index);
        }
    }
}

pub(crate) fn client(plan: &Plan) -> io::Result<Totals> {
    let authority = format!("127.0.0.1:{}", plan.port);
    let mut client = Client {
        plan,
        settings: plan.tls.then(|| Settings::client(plan)).transpose()?,
        epoll: epoll::create(CreateFlags::CLOEXEC)?,
        request: canned::request(plan),
        requests: Exchange::requests(&plan.path, &authority, plan.tls),
        response_bytes: 0,
        connections: Vec::new(),
        started: 0,
        finished: 0,
    };
    client.run()
}

struct Client<'a> {
    plan: &'a Plan,
    settings: Option<Settings>,
    epoll: OwnedFd,
    request: Vec<u8>,
    requests: [Exchange; 2],
    /// HTTP/1: of a response, once the first one is over.
    response_bytes: u64,
    connections: Vec<Connection>,
    started: u64,
    finished: u64,
}

impl Client<'_> {
    fn run(&mut self) -> io::Result<Totals> {
        let stop = Stop::after(self.plan.seconds)?;
        for fd in stop.fds() {
            epoll::add(&self.epoll, fd, EventData::new_u64(STOP), EventFlags::IN | EventFlags::ET)?;
        }
        let mut buffers = Buffers::new();
        let start = Start::now()?;
        for index in 0..self.plan.connections.into() {
            let connection = self.connect(index, &mut buffers)?;
            self.connections.push(connection);
        }
        let mut events = Vec::with_capacity(EVENTS);
        while self.finished < self.plan.requests_max() && wait(&self.epoll, &mut events)? {
            for event in &events {
                self.advance(event.data.u64() as usize, &mut buffers)?;
            }
        }
        drop(stop);
        start.totals(self.finished)
    }

    /// A connection whose handshake, or whose first requests, are on their way.
    fn connect(&mut self, index: u64, buffers: &mut Buffers) -> io::Result<Connection> {
        let socket = canned::connection(self.plan.address())?;
        rustix::io::ioctl_fionbio(&socket, true)?;
        epoll::add(&self.epoll, &socket, EventData::new_u64(index), EventFlags::IN | EventFlags::ET)?;
        let frames = (self.plan.streams > 0).then(Frames::from_server);
        let mut connection = Connection::new(socket, self.settings.as_ref(), frames)?;
        if let Tls::Handshake(handshake) = &mut connection.tls {
            buffers.sealed.clear();
            handshake.write(&mut buffers.sealed)?;
            transmit(&connection.socket, &buffers.sealed)?;
        } else {
            self.ask(&mut connection, buffers)?;
        }
        Ok(connection)
    }

    /// Sends as many requests as the connection may have.
    fn ask(&mut self, connection: &mut Connection, buffers: &mut Buffers) -> io::Result<()> {
        let allowed = u64::from(self.plan.streams.max(1)) - connection.pending;
        let requests = allowed.min(self.plan.requests_max() - self.started);
        if requests == 0 {
            return Ok(());
        }
        self.started += requests;
        connection.pending += requests;
        let Some(frames) = &mut connection.frames else {
            connection.next = self.response_bytes;
            return connection.send(&self.request, &mut buffers.sealed);
        };
        let mut out = std::mem::take(&mut buffers.plain);
        out.clear();
        if frames.is_window_used() {
            frames::renew_window(&mut out);
        }
        for _ in 0..requests {
            let is_first = connection.next == 1;
            if is_first {
                out.extend_from_slice(&frames::client_preface());
            }
            self.requests[usize::from(!is_first)].write(connection.next as u32, &mut out);
            connection.next += 2;
        }
        let sent = connection.send(&out, &mut buffers.sealed);
        buffers.plain = out;
        sent
    }

    fn advance(&mut self, index: usize, buffers: &mut Buffers) -> io::Result<()> {
        let was_ready = self.connections[index].is_ready();
        let (plan, response_bytes) = (self.plan, &mut self.response_bytes);
        let (mut finished, mut settings) = (0, Vec::new());
        let received = self.connections[index].receive(plan, buffers, |connection, plain| {
            if let Some(frames) = &mut connection.frames {
                return frames.read(plain, |event| match event {
                    frames::Event::Ended(_) => finished += 1,
                    frames::Event::Settings => frames::acknowledge_settings(&mut settings),
                });
            }
            if *response_bytes == 0 {
                *response_bytes = canned::length_of_response(plan, plain)?;
            }
            if connection.next == 0 {
                connection.next = *response_bytes;
            }
            let Some(left) = connection.next.checked_sub(plain.len() as u64) else {
                return Err(io::Error::other("a response is longer than the first one was"));
            };
            connection.next = left;
            finished += u64::from(left == 0);
            Ok(())
        })?;
        if !settings.is_empty() {
            self.connections[index].send(&settings, &mut buffers.sealed)?;
        }
        self.finished += finished;
        self.connections[index].pending -= finished;
        if self.plan.close && finished > 0 {
            if self.started < self.plan.requests_max() {
                // The old socket is closed by its replacement.
                self.connections[index] = self.connect(index as u64, buffers)?;
            }
            return Ok(());
        }
        if received == Received::Ended && self.connections[index].pending > 0 {
            return Err(canned::ended(self.plan.address()));
        }
        // A server may close an unused connection.
        if received == Received::Ended || finished == 0 && (was_ready || !self.connections[index].is_ready()) {
            return Ok(());
        }
        // A place that is not looked at while the connection is lent.
        let mut connections = std::mem::take(&mut self.connections);
        let asked = self.ask(&mut connections[index], buffers);
        self.connections = connections;
        asked
    }
}
