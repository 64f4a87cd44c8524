//! The server's side of an HTTP/2 connection, for tests: requests in, responses out.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::BTreeMap;

use thalweg_wire::h2::{Config, Connection, ErrorCode, Event, Role, Settings};
use thalweg_wire::hpack::{FieldList, ListBounds, encode_stateless};

pub(crate) struct Responder {
    connection: Connection<()>,
    list: FieldList,
    /// Requests whose bodies are still to come.
    open: BTreeMap<u32, Request>,
    /// The highest number of streams at once.
    pub(crate) streams_max: usize,
}

/// A whole request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) stream: u32,
    pub(crate) fields: Vec<(String, String)>,
    pub(crate) body_bytes: usize,
}

impl Request {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }
}

impl Responder {
    /// Takes so many streams at once.
    pub(crate) fn new(streams_max: u32, out: &mut Vec<u8>) -> Self {
        let settings = Settings { concurrent_streams_max: streams_max, enable_push: false, ..Settings::INITIAL };
        let config = Config {
            settings,
            connection_window: 1 << 20,
            list: ListBounds { charge_max: 1 << 16, ..ListBounds::default() },
        };
        let connection = Connection::new(Role::Server, config, out);
        Self { connection, list: FieldList::default(), open: BTreeMap::new(), streams_max: 0 }
    }

    /// Reads all of the input. Returns the requests that are whole with it.
    pub(crate) fn read(&mut self, mut input: &[u8], out: &mut Vec<u8>) -> Vec<Request> {
        let mut whole = Vec::new();
        loop {
            let progress = self.connection.read(input, &mut self.list, out).expect("the client obeys the protocol");
            input = &input[progress.consumed..];
            let (stream, ends) = match progress.event {
                None => return whole,
                Some(Event::Headers { stream, fields, ends }) => {
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("fields are ASCII");
                    let fields = fields.iter().map(|(name, value)| (text(name), text(value))).collect();
                    self.open.insert(stream, Request { stream, fields, body_bytes: 0 });
                    (stream, ends)
                }
                Some(Event::Data { stream, bytes, ends }) => {
                    self.connection.consume(stream, bytes.len() as u32, out);
                    if let Some(request) = self.open.get_mut(&stream) {
                        request.body_bytes += bytes.len();
                    }
                    (stream, ends)
                }
                Some(Event::Reset { stream, .. }) => {
                    self.open.remove(&stream);
                    self.connection.release(stream, out);
                    continue;
                }
                Some(_) => continue,
            };
            self.streams_max = self.streams_max.max(self.connection.stream_count());
            if ends {
                whole.extend(self.open.remove(&stream));
            }
        }
    }

    /// Appends a response, whose content fits into the windows.
    pub(crate) fn respond(&mut self, stream: u32, content: &[u8], out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encode_stateless(b":status", b"200", &mut block);
        encode_stateless(b"server", b"test", &mut block);
        encode_stateless(b"content-length", content.len().to_string().as_bytes(), &mut block);
        if self.connection.headers(stream, &block, content.is_empty(), out) && !content.is_empty() {
            out.extend_from_slice(&self.connection.data(stream, content.len() as u32, true));
            out.extend_from_slice(content);
        }
        self.connection.release(stream, out);
    }

    /// Appends a redirect.
    pub(crate) fn redirect(&mut self, stream: u32, status: &str, location: &str, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encode_stateless(b":status", status.as_bytes(), &mut block);
        encode_stateless(b"location", location.as_bytes(), &mut block);
        self.connection.headers(stream, &block, true, out);
        self.connection.release(stream, out);
    }

    /// Appends a response with a status that is no number.
    pub(crate) fn malformed(&mut self, stream: u32, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encode_stateless(b":status", b"2xx", &mut block);
        self.connection.headers(stream, &block, true, out);
        self.connection.release(stream, out);
    }

    /// Appends a response with so many fields of 1,000 bytes.
    pub(crate) fn large_head(&mut self, stream: u32, fields: usize, out: &mut Vec<u8>) {
        let mut block = Vec::new();
        encode_stateless(b":status", b"200", &mut block);
        for number in 0..fields {
            encode_stateless(format!("x-{number}").as_bytes(), &[b'b'; 1000], &mut block);
        }
        self.connection.headers(stream, &block, true, out);
        self.connection.release(stream, out);
    }

    pub(crate) fn reset(&mut self, stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
        self.connection.reset(stream, code, out);
        self.connection.release(stream, out);
    }

    /// Announces the end of the connection.
    pub(crate) fn go_away(&mut self, out: &mut Vec<u8>) {
        self.connection.go_away(ErrorCode::NO_ERROR, "", out);
    }
}
