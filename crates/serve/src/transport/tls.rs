//! TLS over a socket: records instead of bytes.
//!
//! A send of the connection is encrypted part by part: the next part when the kernel has taken the
//! one before, so that a client that reads slowly ties up two records and no more. Bytes of TLS's
//! own (handshake, tickets, alerts) leave with the next part, or by themselves if there is none.
//! The driver has one send at a time, and only the last one of a connection's send is reported.

use std::io;
use std::mem;
use std::rc::Rc;

use thalweg_sys::{Driver, File, FileChanged, FileSpan, Instant, SendBuf, SocketId, SpanEnd};
use thalweg_tls::{
    ClientCertificateMode, Engine, Facts, Failure, Received, ServerSettings, TLS_ALPN_CHALLENGE, Version,
};

use super::memory::{Memory, PART_BYTES, RECORD_BYTES, TlsMemory};

/// The most that is encrypted at once for a client that is known to be fast.
const PART_BYTES_FAST: usize = 8 * RECORD_BYTES;

/// The protocol that is spoken over a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Negotiated {
    /// HTTP/1, by ALPN or because nothing else was negotiated.
    Http1,
    /// HTTP/2, by ALPN.
    Http2,
    /// Nothing: the handshake has proved the control of a name (RFC 8737), and the connection ends.
    Challenge,
}

/// The state of TLS on a connection.
pub(crate) struct Tls {
    socket: SocketId,
    engine: Engine,
    /// The handshake has been completed, whatever came after it.
    is_established: bool,
    version: Version,
    /// Whether the client was asked for a certificate, and the digest of the one that was verified.
    client_mode: ClientCertificateMode,
    client_fingerprint: Option<Box<[u8; 32]>>,
    /// Bytes of TLS's own that wait to be sent.
    own: Vec<u8>,
    /// Input of the handshake that waits to be processed.
    waiting: Vec<u8>,
    /// The connection's send.
    job: Option<Job>,
    /// The buffer that the driver is sending.
    in_flight: Option<Rc<Vec<u8>>>,
    /// When the connection's send began.
    begun: Instant,
    is_fast: bool,
    /// This direction has ended by close_notify.
    is_closed: bool,
    /// The socket's direction is to be ended when all has been sent.
    finishes: bool,
    /// The peer may still be sending when this direction has ended.
    lingers: bool,
    /// Why the connection's send cannot be completed.
    error: Option<SendError>,
}

/// The reason for which a send cannot be completed.
#[derive(Debug)]
pub(crate) enum SendError {
    /// Its file was modified.
    Changed(FileChanged),
    /// Its file cannot be read, or the connection cannot encrypt.
    Other,
}

/// A send of the connection that is not encrypted whole.
struct Job {
    bytes: SendBuf,
    /// How many of the bytes are encrypted.
    done: usize,
    /// The rest of the span behind them.
    file: Option<(FileSpan, SpanEnd)>,
    /// The end of the stream follows.
    is_last: bool,
}

impl Tls {
    /// A connection that was just accepted.
    pub(crate) fn accept(socket: SocketId, settings: &ServerSettings, now: Instant) -> Result<Self, Failure> {
        Ok(Self {
            socket,
            engine: Engine::accept(settings)?,
            is_established: false,
            version: Version::Tls13,
            client_mode: ClientCertificateMode::None,
            client_fingerprint: None,
            own: Vec::new(),
            waiting: Vec::new(),
            job: None,
            in_flight: None,
            begun: now,
            is_fast: false,
            is_closed: false,
            finishes: false,
            lingers: false,
            error: None,
        })
    }

    pub(super) fn socket(&self) -> SocketId {
        self.socket
    }

    pub(super) fn negotiated(&self) -> Option<Negotiated> {
        self.is_established.then(|| match self.engine.alpn() {
            Some(b"h2") => Negotiated::Http2,
            Some(TLS_ALPN_CHALLENGE) => Negotiated::Challenge,
            _ => Negotiated::Http1,
        })
    }

    /// Whether the handshake has been completed.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// The negotiated parameters, when the handshake has just been completed.
    pub(crate) fn begin(&mut self) -> Option<Facts> {
        let facts = self.engine.facts()?;
        self.is_established = true;
        self.version = facts.version;
        self.client_mode = self.engine.client_certificate_mode();
        if facts.is_peer_verified {
            self.client_fingerprint = self.engine.peer_fingerprint().map(Box::new);
        }
        Some(facts)
    }

    /// Whether the client was asked for a certificate, and whether it has one that was verified.
    #[inline]
    pub(crate) fn client(&self) -> (ClientCertificateMode, bool) {
        (self.client_mode, self.client_fingerprint.is_some())
    }

    /// The SHA-256 digest of the client's certificate, if one was verified.
    pub(crate) fn client_fingerprint(&self) -> Option<&[u8; 32]> {
        self.client_fingerprint.as_deref()
    }

    /// The version; the newest one in the handshake.
    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Keeps input of the handshake for later. Whether it is the first that waits.
    pub(crate) fn keep(&mut self, input: &[u8]) -> bool {
        let is_first = self.waiting.is_empty();
        self.waiting.extend_from_slice(input);
        is_first
    }

    /// The input that has waited.
    pub(crate) fn take_waiting(&mut self) -> Vec<u8> {
        mem::take(&mut self.waiting)
    }

    /// Decrypts bytes that have come in, into `plain`.
    ///
    /// # Errors
    /// The connection has failed; an alert waits to be sent.
    pub(crate) fn receive(
        &mut self,
        input: &[u8],
        memory: &mut TlsMemory,
        plain: &mut Vec<u8>,
    ) -> Result<Received, Failure> {
        let received = self.engine.receive(input, &mut memory.records, plain, &mut self.own);
        // A close with unread input would discard the alert.
        self.lingers |= received.is_err();
        received
    }

    pub(super) fn send<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>, bytes: SendBuf, is_last: bool) {
        self.start(driver, memory, Job { bytes, done: 0, file: None, is_last });
    }

    pub(super) fn send_file<D: Driver>(
        &mut self,
        driver: &mut D,
        memory: Memory<'_>,
        bytes: SendBuf,
        file: (FileSpan, SpanEnd),
    ) {
        self.start(driver, memory, Job { bytes, done: 0, file: Some(file), is_last: false });
    }

    fn start<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>, job: Job) {
        assert!(self.job.is_none(), "a connection has one send at a time");
        self.begun = driver.now();
        self.job = Some(job);
        self.send_part(driver, memory);
    }

    /// The driver has sent what it was given. Whether that was the last of the connection's send.
    pub(crate) fn on_sent<D: Driver>(&mut self, driver: &mut D, mut memory: Memory<'_>) -> bool {
        if let Some(buffer) = self.in_flight.take() {
            memory.put(buffer);
        }
        if self.job.as_ref().is_some_and(Job::is_encrypted) {
            self.job = None;
            return true;
        }
        self.send_part(driver, memory.again());
        if self.finishes && self.in_flight.is_none() {
            self.finishes = false;
            driver.finish(self.socket);
        }
        false
    }

    /// Sends bytes of TLS's own, unless something is being sent.
    pub(crate) fn flush<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>) {
        if !self.own.is_empty() {
            self.send_part(driver, memory);
        }
    }

    /// Ends this direction, behind all that is being sent.
    pub(super) fn finish<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>) {
        self.close_engine();
        let is_waiting = self.in_flight.is_some();
        self.send_part(driver, memory);
        if is_waiting {
            self.finishes = true;
        } else {
            driver.finish(self.socket);
        }
    }

    /// Sends the end of this direction, or an alert, before the socket is closed. Whether there is
    /// anything to send and to wait for.
    pub(crate) fn begin_close<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>) -> bool {
        if self.in_flight.is_some() || self.job.is_some() || self.error.is_some() {
            return false;
        }
        self.close_engine();
        if self.own.is_empty() {
            return false;
        }
        self.start(driver, memory, Job { bytes: SendBuf::empty(), done: 0, file: None, is_last: true });
        // Nothing of the connection's is under way.
        self.job = None;
        true
    }

    /// The end of this direction, for a socket that is closed at once; empty if that would come in
    /// the middle of something.
    pub(crate) fn last_bytes(&mut self) -> Vec<u8> {
        if self.in_flight.is_some() || self.job.is_some() || self.error.is_some() {
            return Vec::new();
        }
        self.close_engine();
        mem::take(&mut self.own)
    }

    /// Bytes of buffers that the connection holds.
    #[cfg(test)]
    pub(crate) fn held_bytes(&self) -> usize {
        self.own.capacity() + self.in_flight.as_ref().map_or(0, |buffer| buffer.capacity()) + self.engine.kept_bytes()
    }

    fn close_engine(&mut self) {
        if !self.is_closed {
            self.is_closed = true;
            self.engine.close(&mut self.own);
        }
    }

    /// Whether the peer's direction has to be drained before the socket is closed.
    pub(crate) fn lingers(&self) -> bool {
        self.lingers
    }

    /// Why a send cannot be completed, once.
    pub(crate) fn take_error(&mut self) -> Option<SendError> {
        self.error.take()
    }

    /// Encrypts the next part and passes it to the driver, unless it has one.
    fn send_part<D: Driver>(&mut self, driver: &mut D, mut memory: Memory<'_>) {
        if self.in_flight.is_some() || self.error.is_some() {
            return;
        }
        let bytes_max = if self.is_fast { PART_BYTES_FAST } else { PART_BYTES };
        let now = self.job.as_ref().map_or(0, Job::rest_bytes).min(bytes_max as u64) as usize;
        let mut buffer = memory.take(now);
        let wire = Rc::get_mut(&mut buffer).expect("a taken buffer has no other owner");
        // The exact size, so that the buffer does not grow by doubling.
        wire.reserve_exact(self.own.len() + Engine::sealed_bytes_max(now));
        wire.append(&mut self.own);
        // An idle connection holds no buffer.
        self.own = Vec::new();
        let mut is_last = false;
        if let Some(job) = &mut self.job {
            if let Err(error) = job.encrypt(&mut self.engine, bytes_max, &mut memory.tls.file, wire) {
                self.error = Some(error);
                return memory.put(buffer);
            }
            is_last = job.is_last && job.is_encrypted();
            if is_last && !self.is_closed {
                self.is_closed = true;
                self.engine.close(wire);
            }
        }
        if wire.is_empty() && self.job.is_none() {
            return memory.put(buffer);
        }
        self.in_flight = Some(Rc::clone(&buffer));
        match is_last {
            true => driver.send_last(self.socket, SendBuf::Shared(buffer)),
            false => driver.send(self.socket, SendBuf::Shared(buffer)),
        }
    }

    pub(super) fn unacknowledged<D: Driver>(&self, driver: &D) -> u64 {
        driver.unacknowledged(self.socket) + self.job.as_ref().map_or(0, Job::rest_bytes)
    }

    pub(super) fn sent_at(&self) -> Instant {
        self.begun
    }

    pub(super) fn set_fast(&mut self, is_fast: bool) {
        self.is_fast = is_fast;
    }
}

impl Job {
    fn rest_bytes(&self) -> u64 {
        let of_file = self.file.as_ref().map_or(0, |(span, _)| span.len);
        (self.bytes.len() - self.done) as u64 + of_file
    }

    fn is_encrypted(&self) -> bool {
        self.rest_bytes() == 0
    }

    /// Encrypts the next bytes, at most so many, into `wire`.
    fn encrypt(
        &mut self,
        engine: &mut Engine,
        bytes_max: usize,
        scratch: &mut Vec<u8>,
        wire: &mut Vec<u8>,
    ) -> Result<(), SendError> {
        let mut room = bytes_max;
        let bytes = &self.bytes.as_slice()[self.done..];
        let now = &bytes[..bytes.len().min(room)];
        engine.seal(now, wire).map_err(|_| SendError::Other)?;
        self.done += now.len();
        // Whole records of a file, beside a head that leaves with them.
        room -= now.len().next_multiple_of(RECORD_BYTES).min(room);
        let Some((span, end)) = self.file.as_mut().filter(|_| self.done == self.bytes.len()) else { return Ok(()) };
        let of_file = span.len.min(room as u64) as usize;
        if of_file == 0 {
            return Ok(());
        }
        if scratch.len() < of_file {
            scratch.resize(of_file, 0);
        }
        let part = &mut scratch[..of_file];
        read_whole(&span.file, part, span.offset)?;
        span.offset += of_file as u64;
        span.len -= of_file as u64;
        if span.len == 0 && *end == SpanEnd::EndsResponse {
            span.file.ensure_unchanged().map_err(|error| SendError::of(&error))?;
        }
        engine.seal(part, wire).map_err(|_| SendError::Other)
    }
}

/// Fills a buffer from a file. The pages were in memory a moment ago: where that was wrong, the
/// loop waits, as it does in a send of the kernel's.
fn read_whole(file: &File, part: &mut [u8], offset: u64) -> Result<(), SendError> {
    let read = match file.read_at(part, offset) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => file.clone().waiting().read_at(part, offset),
        read => read,
    };
    match read {
        Ok(read) if read == part.len() => Ok(()),
        Ok(_) => Err(SendError::of(&file.note_change(io::ErrorKind::UnexpectedEof))),
        Err(_) => Err(SendError::Other),
    }
}

impl SendError {
    fn of(error: &io::Error) -> Self {
        FileChanged::cause_of(error).map_or(Self::Other, Self::Changed)
    }
}

/// Of so many bytes, those that fill whole records; all of them if they are less than one.
pub(super) fn whole_records(bytes: u64) -> u64 {
    match bytes - bytes % RECORD_BYTES as u64 {
        0 => bytes,
        whole => whole,
    }
}
