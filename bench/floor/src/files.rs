//! The floor of large files, over epoll: a receive, the head with MSG_MORE, and `sendfile` until
//! the kernel has enough.
//!
//! Connections take turns with chunks of one size. What a chunk of that size costs, and how much of
//! it is the kernel's, is what this is here to show; a chunk as large as the file is the loop that
//! sends until the socket is full.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll::{self, Event, EventData, EventFlags};
use rustix::fs::sendfile;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags, accept_with, recv, send, sockopt};

use crate::account::{Start, Totals};
use crate::canned;
use crate::epoll::{EVENTS, LISTENER, STOP, ServerSockets};
use crate::plan::Plan;

const REQUEST_BYTES_MAX: usize = 2048;
const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

pub(crate) fn server(plan: &Plan) -> io::Result<Totals> {
    let ServerSockets { epoll, listener, stop: _stop } = ServerSockets::open(plan)?;
    let mut files = Vec::new();
    for path in &plan.file {
        let explain = |error: io::Error| io::Error::new(error.kind(), format!("--file {}: {error}", path.display()));
        let file = File::open(path).map_err(explain)?;
        let bytes = file.metadata().map_err(explain)?.len();
        files.push((file, bytes, canned::head(plan, bytes).into_bytes()));
    }
    let (connections, turns) = (Vec::new(), VecDeque::new());
    Server { plan, epoll, listener, files, connections, turns, requests: 0, served: 0 }.serve()
}

struct Server<'a> {
    plan: &'a Plan,
    epoll: OwnedFd,
    listener: OwnedFd,
    /// With their lengths and the heads that go before them.
    files: Vec<(File, u64, Vec<u8>)>,
    connections: Vec<Option<Connection>>,
    /// Whose next chunk may find room.
    turns: VecDeque<usize>,
    requests: usize,
    served: u64,
}

struct Connection {
    socket: OwnedFd,
    file: usize,
    offset: u64,
    /// Bytes of the file that have not gone.
    left: u64,
}

impl Server<'_> {
    fn serve(mut self) -> io::Result<Totals> {
        let (mut events, mut buffer) = (Vec::with_capacity(EVENTS), vec![0; REQUEST_BYTES_MAX]);
        let start = Start::now()?;
        while self.served < self.plan.requests_max() {
            events.clear();
            let sleep = if self.turns.is_empty() { None } else { Some(&NOW) };
            match epoll::wait(&self.epoll, spare_capacity(&mut events), sleep) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let Event { flags, data } = *event;
                match data.u64() {
                    STOP => return start.totals(self.served),
                    LISTENER => self.accept()?,
                    index => self.on_event(index as usize, flags, &mut buffer),
                }
            }
            for _ in 0..self.turns.len() {
                if let Some(index) = self.turns.pop_front() {
                    self.send_chunk(index);
                }
            }
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
            sockopt::set_tcp_nodelay(&socket, true)?;
            let free = self.connections.iter().position(Option::is_none);
            let index = free.unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
            epoll::add(&self.epoll, &socket, EventData::new_u64(index as u64), flags)?;
            self.connections[index] = Some(Connection { socket, file: 0, offset: 0, left: 0 });
        }
    }

    /// Takes the next request, if the response to the last one is complete, and continues the
    /// response in turn.
    fn on_event(&mut self, index: usize, flags: EventFlags, buffer: &mut [u8]) {
        let Some(connection) = &mut self.connections[index] else { return };
        if flags.contains(EventFlags::IN) && connection.left == 0 {
            match recv(&connection.socket, buffer, RecvFlags::empty()) {
                Ok((1.., _)) => {
                    connection.file = self.requests % self.files.len();
                    self.requests += 1;
                    let (_, bytes, head) = &self.files[connection.file];
                    (connection.offset, connection.left) = (0, *bytes);
                    if send(&connection.socket, head, SendFlags::NOSIGNAL | SendFlags::MORE).is_err() {
                        return self.connections[index] = None;
                    }
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Ok((0, _)) | Err(_) => return self.connections[index] = None,
            }
        }
        if connection.left > 0 && !self.turns.contains(&index) {
            self.turns.push_back(index);
        }
    }

    /// Sends a chunk, and stays in line unless the kernel has enough.
    fn send_chunk(&mut self, index: usize) {
        let Some(connection) = self.connections[index].as_mut().filter(|connection| connection.left > 0) else {
            return;
        };
        let wanted = connection.left.min(self.plan.chunk);
        let (file, ..) = &self.files[connection.file];
        match sendfile(&connection.socket, file, Some(&mut connection.offset), wanted as usize) {
            Err(Errno::AGAIN) => return,
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return self.connections[index] = None,
            Ok(sent) => connection.left -= sent as u64,
        }
        if connection.left > 0 {
            self.turns.push_back(index);
        } else {
            self.served += 1;
        }
    }
}
