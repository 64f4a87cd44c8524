//! A connection on which frames are sent and looked for in what comes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use super::frame::{self, Frame, PREFACE};
use super::hpack::{Decoder, Fields};

/// Longer than any frame here takes to come.
const PATIENCE: Duration = Duration::from_secs(30);

/// The side of the connection that we play.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A frame that has come, and the fields of its header block.
#[derive(Debug)]
pub(crate) struct Received {
    pub(crate) frame: Frame,
    pub(crate) fields: Fields,
}

/// A connection, and what came on it.
pub(crate) struct Connection {
    stream: TcpStream,
    decoder: Decoder,
    /// All bytes that came.
    pub(crate) received: Vec<u8>,
    /// How many of them have been made frames of.
    parsed: usize,
    is_ended: bool,
    /// Frames that were not looked for yet.
    pub(crate) waiting: Vec<Received>,
    /// Streams in the order in which the peer has ended them.
    pub(crate) ended: Vec<u32>,
}

impl Connection {
    /// A connection, begun properly unless it `is_bare`: prefaces and SETTINGS of both sides are
    /// exchanged and acknowledged.
    pub(crate) fn begin(stream: TcpStream, side: Side, is_bare: bool) -> Result<Self, String> {
        stream.set_nodelay(true).expect("a socket has no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a socket has a timeout");
        let (decoder, received, waiting, ended) = (Decoder::default(), Vec::new(), Vec::new(), Vec::new());
        let mut connection = Self { stream, decoder, received, parsed: 0, is_ended: false, waiting, ended };
        if side == Side::Server {
            while connection.received.len() < PREFACE.len() && connection.read()? {}
            if !connection.received.starts_with(PREFACE) {
                return Err(format!("no preface: {}", connection.received.escape_ascii()));
            }
            connection.parsed = PREFACE.len();
            connection.parse()?;
        }
        if is_bare {
            return Ok(connection);
        }
        if side == Side::Client {
            connection.send(PREFACE);
        }
        for flags in [0, frame::ACK] {
            connection.send(&Frame::new(frame::SETTINGS_KIND, flags, 0, &[]).to_bytes(None));
        }
        for flags in [0, frame::ACK] {
            let is_wanted = |frame: &Frame| frame.kind == frame::SETTINGS_KIND && frame.flags == flags;
            connection.take(is_wanted)?.ok_or("no SETTINGS, or no acknowledgement of ours")?;
        }
        Ok(connection)
    }

    /// A peer may close before it has read all, so that a failure is none.
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Finishes our direction.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Takes the first frame of this kind. `None` if the connection has ended without one.
    pub(crate) fn take(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Result<Option<Received>, String> {
        loop {
            if let Some(place) = self.waiting.iter().position(|received| is_wanted(&received.frame)) {
                return Ok(Some(self.waiting.remove(place)));
            }
            if !self.read()? {
                return Ok(None);
            }
        }
    }

    /// Waits for the end of the connection, and keeps what comes before.
    pub(crate) fn drain(&mut self) -> Result<(), String> {
        while self.read()? {}
        Ok(())
    }

    /// Reads what there is. Whether something came.
    fn read(&mut self) -> Result<bool, String> {
        if self.is_ended {
            return Ok(false);
        }
        let mut part = [0; 65536];
        match self.stream.read(&mut part) {
            Ok(0) => self.is_ended = true,
            Ok(bytes) => self.received.extend_from_slice(&part[..bytes]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Err(format!("nothing more within {PATIENCE:?}"));
            }
            // Reset: that is an end too.
            Err(_) => self.is_ended = true,
        }
        self.parse()?;
        Ok(!self.is_ended)
    }

    fn parse(&mut self) -> Result<(), String> {
        while let Some((frame, bytes)) = Frame::parse(&self.received[self.parsed..]) {
            self.parsed += bytes;
            let mut fields = Fields::new();
            if frame.kind == frame::HEADERS {
                let skipped = if frame.has(frame::HAS_PRIORITY) { 5 } else { 0 };
                fields = self.decoder.decode(&frame.payload[skipped..]).ok_or("a header block that is none")?;
            }
            if matches!(frame.kind, frame::DATA | frame::HEADERS) && frame.has(frame::END_STREAM) {
                self.ended.push(frame.stream);
            }
            self.waiting.push(Received { frame, fields });
        }
        Ok(())
    }
}
