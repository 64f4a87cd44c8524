//! A connection of the sink, as bytes in and bytes out: TLS if there is any, and the protocol.

use std::collections::VecDeque;

use thalweg_tls::{Engine, Failure, ServerSettings};
use thalweg_wire::h2::{self, Event, Role, Settings};
use thalweg_wire::hpack::{FieldList, ListBounds};
use thalweg_wire::{Bounds, FIELDS_MAX, FieldSlots, RequestEvent, RequestReader, Version};

use super::response;

/// The bytes that are made ready at once.
const PART_BYTES: usize = 64 << 10;

/// Streams that a client may have open at once, and what it may send ahead.
const STREAMS_MAX: u32 = 1 << 16;
const WINDOW: u32 = 1 << 30;

/// Bounds of a request's header block.
const HEAD_BOUNDS: ListBounds = ListBounds { charge_max: 64 << 10, fields_max: FIELDS_MAX };

pub(super) struct Connection {
    tls: Option<Box<Engine>>,
    http: Http,
    /// The client has ended its direction by close_notify, and the sink has.
    is_client_closed: bool,
    is_closed: bool,
}

enum Http {
    One(Box<Http1>),
    Two(Box<Http2>),
}

struct Http1 {
    reader: RequestReader,
    /// Responses that are due, and the rest of the content of the one before them.
    due: u64,
    content_left: usize,
    closes: bool,
}

struct Http2 {
    connection: h2::Connection<()>,
    /// Streams with the content that they have yet to carry.
    contents: VecDeque<(u32, usize)>,
    output: Vec<u8>,
}

/// The response, as it is sent again and again.
pub(super) struct Prepared {
    /// Its head in HTTP/1, or its header block.
    head: Vec<u8>,
    content_bytes: usize,
    /// A part of its content.
    part: Vec<u8>,
}

impl Prepared {
    pub(super) fn new(version: Version, content_bytes: usize) -> Self {
        let head = match version {
            Version::Http2 => response::block(content_bytes),
            Version::Http10 | Version::Http11 => response::head(content_bytes),
        };
        Self { head, content_bytes, part: vec![b'x'; content_bytes.min(PART_BYTES)] }
    }
}

/// Working memory of all connections.
#[derive(Default)]
pub(super) struct Memory {
    records: Vec<u8>,
    plain: Vec<u8>,
    list: FieldList,
    part: Vec<u8>,
}

/// The peer has broken a protocol, or TLS has failed: the connection is of no use.
pub(super) struct Broken;

impl From<Failure> for Broken {
    fn from(_: Failure) -> Self {
        Self
    }
}

impl Connection {
    pub(super) fn new(version: Version, tls: Option<&ServerSettings>) -> Result<Self, Failure> {
        let tls = tls.map(Engine::accept).transpose()?.map(Box::new);
        let http = match version {
            Version::Http2 => Http::Two(Box::new(Http2::new())),
            Version::Http10 | Version::Http11 => Http::One(Box::new(Http1::new())),
        };
        Ok(Self { tls, http, is_client_closed: false, is_closed: false })
    }

    /// Takes bytes of the client. Those of TLS's own are appended to `wire`.
    pub(super) fn receive(&mut self, input: &[u8], memory: &mut Memory, wire: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else { return self.http.read(input, &mut memory.list) };
        memory.plain.clear();
        self.is_client_closed |= tls.receive(input, &mut memory.records, &mut memory.plain, wire)?.is_peer_closed;
        if memory.plain.is_empty() { Ok(()) } else { self.http.read(&memory.plain, &mut memory.list) }
    }

    /// Appends a part of what is to be sent to `wire`.
    pub(super) fn fill(&mut self, prepared: &Prepared, memory: &mut Memory, wire: &mut Vec<u8>) -> Result<(), Broken> {
        let Some(tls) = &mut self.tls else {
            self.http.fill(prepared, wire);
            return Ok(());
        };
        if !tls.is_established() {
            return Ok(());
        }
        memory.part.clear();
        self.http.fill(prepared, &mut memory.part);
        tls.seal(&memory.part, wire)?;
        if self.is_over() && !std::mem::replace(&mut self.is_closed, true) {
            self.tls.iter_mut().for_each(|tls| tls.close(wire));
        }
        Ok(())
    }

    /// Whether the connection ends behind what was made ready.
    pub(super) fn is_over(&self) -> bool {
        let has_ended = matches!(&self.http, Http::One(http) if http.closes && http.due == 0 && http.content_left == 0);
        self.is_client_closed || has_ended
    }
}

impl Http {
    fn read(&mut self, input: &[u8], list: &mut FieldList) -> Result<(), Broken> {
        match self {
            Self::One(http) => http.read(input),
            Self::Two(http) => http.read(input, list),
        }
    }

    fn fill(&mut self, prepared: &Prepared, out: &mut Vec<u8>) {
        match self {
            Self::One(http) => http.fill(prepared, out),
            Self::Two(http) => http.fill(prepared, out),
        }
    }
}

impl Http1 {
    fn new() -> Self {
        Self { reader: RequestReader::new(Bounds::requests()), due: 0, content_left: 0, closes: false }
    }

    fn read(&mut self, mut input: &[u8]) -> Result<(), Broken> {
        while !self.closes {
            let mut slots = FieldSlots::new();
            let progress = self.reader.read(input, &mut slots).map_err(|_| Broken)?;
            input = &input[progress.consumed..];
            match progress.event {
                Some(RequestEvent::Head(head)) => {
                    self.due += 1;
                    self.closes = !head.keep_alive();
                }
                Some(RequestEvent::Body(_) | RequestEvent::End) => {}
                None => break,
            }
        }
        Ok(())
    }

    fn fill(&mut self, prepared: &Prepared, out: &mut Vec<u8>) {
        while out.len() < PART_BYTES {
            if self.content_left > 0 {
                let len = self.content_left.min(PART_BYTES - out.len());
                out.extend_from_slice(&prepared.part[..len]);
                self.content_left -= len;
            } else if self.due > 0 {
                out.extend_from_slice(&prepared.head);
                self.due -= 1;
                self.content_left = prepared.content_bytes;
            } else {
                return;
            }
        }
    }
}

impl Http2 {
    fn new() -> Self {
        let settings = Settings {
            concurrent_streams_max: STREAMS_MAX,
            enable_push: false,
            initial_window: WINDOW,
            ..Settings::INITIAL
        };
        let config = h2::Config { settings, connection_window: WINDOW, list: HEAD_BOUNDS };
        let mut output = Vec::new();
        let connection = h2::Connection::new(Role::Server, config, &mut output);
        Self { connection, contents: VecDeque::new(), output }
    }

    fn read(&mut self, mut input: &[u8], list: &mut FieldList) -> Result<(), Broken> {
        loop {
            let progress = self.connection.read(input, list, &mut self.output).map_err(|_| Broken)?;
            input = &input[progress.consumed..];
            let (stream, ends) = match progress.event {
                None => return Ok(()),
                Some(Event::Headers { stream, ends, .. }) => (stream, ends),
                Some(Event::Data { stream, bytes, ends }) => {
                    self.connection.consume(stream, bytes.len() as u32, &mut self.output);
                    (stream, ends)
                }
                Some(Event::Reset { stream, .. }) => {
                    self.contents.retain(|(other, _)| *other != stream);
                    self.connection.release(stream, &mut self.output);
                    continue;
                }
                Some(_) => continue,
            };
            if ends {
                // Its length is known when it is begun.
                self.contents.push_back((stream, usize::MAX));
            }
        }
    }

    fn fill(&mut self, prepared: &Prepared, out: &mut Vec<u8>) {
        out.append(&mut self.output);
        let mut blocked = 0;
        while out.len() < PART_BYTES && blocked < self.contents.len() {
            let Some((stream, left)) = self.contents.pop_front() else { return };
            let left = if left == usize::MAX { self.begin(stream, prepared, out) } else { left };
            let len = left.min(self.connection.sendable(stream) as usize).min(PART_BYTES);
            if len > 0 {
                out.extend_from_slice(&self.connection.data(stream, len as u32, len == left));
                out.extend_from_slice(&prepared.part[..len]);
                blocked = 0;
            }
            if len < left {
                blocked += usize::from(len == 0);
                self.contents.push_back((stream, left - len));
            } else {
                self.connection.release(stream, out);
            }
        }
    }

    /// Begins a response. Returns the bytes of its content.
    fn begin(&mut self, stream: u32, prepared: &Prepared, out: &mut Vec<u8>) -> usize {
        self.connection.headers(stream, &prepared.head, prepared.content_bytes == 0, out);
        prepared.content_bytes
    }
}
