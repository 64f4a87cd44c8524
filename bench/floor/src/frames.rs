//! HTTP/2 as far as a canned exchange needs it (RFC 9113): where frames end, and blocks that are
//! encoded before the run.
//!
//! Windows are as large as they can be, so no frame about them is needed in between; a response
//! fits into one DATA frame or several of the least size that every peer takes.

use std::io;

const HEAD_BYTES: usize = 9;
const FRAME_BYTES_MAX: usize = 16_384;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 0x1;
const ACK: u8 = 0x1;
const END_HEADERS: u8 = 0x4;

/// The largest window (RFC 9113, 6.9.1), and the one that a connection begins with.
const WINDOW_MAX: u32 = (1 << 31) - 1;
const WINDOW_FIRST: u32 = 65_535;

/// A client renews the connection's window when so much of it is used.
const RENEW_BYTES: u64 = 1 << 30;

/// The state of a reader between two receives.
pub(crate) struct Frames {
    head: [u8; HEAD_BYTES],
    head_bytes: usize,
    /// Bytes of the payload that have not come.
    left: usize,
    /// Bytes that have come since the window was renewed.
    bytes: u64,
}

/// An event that a canned peer acts on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The peer has ended this stream.
    Ended(u32),
    /// The peer's settings want an acknowledgement.
    Settings,
}

impl Frames {
    /// Of a server.
    pub(crate) fn from_server() -> Self {
        Self { head: [0; HEAD_BYTES], head_bytes: 0, left: 0, bytes: 0 }
    }

    /// Of a client, which sends the preface first: it is passed over as the payload of a frame
    /// without a meaning.
    pub(crate) fn from_client() -> Self {
        let head = [0, 0, PREFACE.len() as u8, u8::MAX, 0, 0, 0, 0, 0];
        Self { head, head_bytes: HEAD_BYTES, left: PREFACE.len(), bytes: 0 }
    }

    /// Reads what has come.
    ///
    /// # Errors
    /// The peer gives up a stream or the connection.
    pub(crate) fn read(&mut self, mut bytes: &[u8], mut event: impl FnMut(Event)) -> io::Result<()> {
        self.bytes += bytes.len() as u64;
        loop {
            let missing = HEAD_BYTES - self.head_bytes;
            let Some((head, rest)) = bytes.split_at_checked(missing) else {
                self.head[self.head_bytes..self.head_bytes + bytes.len()].copy_from_slice(bytes);
                self.head_bytes += bytes.len();
                return Ok(());
            };
            if missing > 0 {
                self.head[self.head_bytes..].copy_from_slice(head);
                self.head_bytes = HEAD_BYTES;
                let [a, b, c, ..] = self.head;
                self.left = u32::from_be_bytes([0, a, b, c]) as usize;
            }
            let Some((_, rest)) = rest.split_at_checked(self.left) else {
                self.left -= rest.len();
                return Ok(());
            };
            bytes = rest;
            self.head_bytes = 0;
            let [_, _, _, kind, flags, stream @ ..] = self.head;
            match kind {
                DATA | HEADERS if flags & END_STREAM != 0 => event(Event::Ended(u32::from_be_bytes(stream))),
                SETTINGS if flags & ACK == 0 => event(Event::Settings),
                RST_STREAM | GOAWAY => return Err(io::Error::other("the peer gives up a stream or the connection")),
                _ => {}
            }
        }
    }

    /// Whether the client has to open the connection's window again.
    pub(crate) fn is_window_used(&mut self) -> bool {
        let used = self.bytes >= RENEW_BYTES;
        if used {
            self.bytes = 0;
        }
        used
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The beginning of a connection of a client: windows and streams as many as there can be.
pub(crate) fn client_preface() -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    // ENABLE_PUSH 0, INITIAL_WINDOW_SIZE.
    let mut settings = vec![0, 2, 0, 0, 0, 0, 0, 4];
    settings.extend_from_slice(&WINDOW_MAX.to_be_bytes());
    frame(&mut out, SETTINGS, 0, 0, &settings);
    frame(&mut out, WINDOW_UPDATE, 0, 0, &(WINDOW_MAX - WINDOW_FIRST).to_be_bytes());
    out
}

/// The beginning of a connection of a server.
pub(crate) fn server_preface() -> Vec<u8> {
    let mut out = Vec::new();
    // MAX_CONCURRENT_STREAMS.
    frame(&mut out, SETTINGS, 0, 0, &[0, 3, 0, 0, 4, 0]);
    out
}

pub(crate) fn acknowledge_settings(out: &mut Vec<u8>) {
    frame(out, SETTINGS, ACK, 0, &[]);
}

pub(crate) fn renew_window(out: &mut Vec<u8>) {
    frame(out, WINDOW_UPDATE, 0, 0, &(RENEW_BYTES as u32).to_be_bytes());
}

/// Frames of one exchange, in which the stream's number is all that is written in the run.
pub(crate) struct Exchange {
    bytes: Vec<u8>,
    /// The places of the stream's number.
    streams: Vec<usize>,
}

impl Exchange {
    fn add(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        self.streams.push(self.bytes.len() + HEAD_BYTES - 4);
        frame(&mut self.bytes, kind, flags, 0, payload);
    }

    fn empty() -> Self {
        Self { bytes: Vec::new(), streams: Vec::new() }
    }

    pub(crate) fn write(&self, stream: u32, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend_from_slice(&self.bytes);
        for place in &self.streams {
            out[begin + place..][..4].copy_from_slice(&stream.to_be_bytes());
        }
    }

    /// The requests of a client: the first one of a connection enters path and authority into the
    /// peer's table, the others refer to them (RFC 7541, 6.1 and 6.2.1).
    pub(crate) fn requests(path: &str, authority: &str, is_tls: bool) -> [Self; 2] {
        let scheme = if is_tls { 0x87 } else { 0x86 };
        let mut block = vec![0x82, scheme];
        for (name, value) in [(0x44, path), (0x41, authority)] {
            // Values are short enough for a length of one byte.
            block.extend_from_slice(&[name, value.len().min(126) as u8]);
            block.extend_from_slice(&value.as_bytes()[..value.len().min(126)]);
        }
        [block, vec![0x82, scheme, 0x80 | 63, 0x80 | 62]].map(|block| {
            let mut request = Self::empty();
            request.add(HEADERS, END_HEADERS | END_STREAM, &block);
            request
        })
    }

    /// The response of a server: `:status` 200 and content-length, and the body.
    pub(crate) fn response(body: &[u8]) -> Self {
        let length = body.len().to_string();
        let mut response = Self::empty();
        response.add(HEADERS, END_HEADERS, &[&[0x88, 0x0f, 0x0d, length.len() as u8], length.as_bytes()].concat());
        let mut chunks = body.chunks(FRAME_BYTES_MAX).peekable();
        while let Some(chunk) = chunks.next() {
            response.add(DATA, if chunks.peek().is_none() { END_STREAM } else { 0 }, chunk);
        }
        response
    }
}
