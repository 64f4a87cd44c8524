//! Transports: the calls on the driver that a connection makes.
//!
//! A plain transport passes them on. One with [`tls`] decrypts what is received and encrypts what
//! is sent, here and nowhere else.

mod memory;
mod tls;

use thalweg_sys::{Driver, FileSpan, Instant, SendBuf, SocketId, SpanEnd};
use thalweg_tls::Version;

pub(crate) use self::memory::{Memory, TlsMemory};
pub(crate) use self::tls::{Negotiated, SendError, Tls};

/// The transport of a connection.
pub(crate) enum Transport {
    /// TCP or a Unix socket.
    Plain(SocketId),
    /// TLS over one of them.
    Tls(Box<Tls>),
}

impl Transport {
    /// The socket beneath.
    #[inline]
    pub(crate) fn socket(&self) -> SocketId {
        match self {
            Self::Plain(socket) => *socket,
            Self::Tls(tls) => tls.socket(),
        }
    }

    /// The state of TLS, if it is there.
    #[inline]
    pub(crate) fn tls(&mut self) -> Option<&mut Tls> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls),
        }
    }

    /// The protocol that is spoken; `None` in the handshake. Without TLS it is HTTP/1 until the
    /// first bytes say otherwise.
    pub(crate) fn negotiated(&self) -> Option<Negotiated> {
        match self {
            Self::Plain(_) => Some(Negotiated::Http1),
            Self::Tls(tls) => tls.negotiated(),
        }
    }

    /// The version of TLS, from its handshake on.
    #[inline]
    pub(crate) fn version(&self) -> Option<Version> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => Some(tls.version()),
        }
    }

    /// The SHA-256 digest of the client's certificate, if one was verified.
    #[inline]
    pub(crate) fn client_fingerprint(&self) -> Option<&[u8; 32]> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(tls) => tls.client_fingerprint(),
        }
    }

    /// Receives no more until [`resume`](Self::resume).
    pub(crate) fn pause<D: Driver>(&self, driver: &mut D) {
        driver.pause(self.socket());
    }

    /// Receives again.
    pub(crate) fn resume<D: Driver>(&self, driver: &mut D) {
        driver.resume(self.socket());
    }

    /// Sends bytes.
    #[inline]
    pub(crate) fn send<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>, bytes: SendBuf) {
        match self {
            Self::Plain(socket) => driver.send(*socket, bytes),
            Self::Tls(tls) => tls.send(driver, memory, bytes, false),
        }
    }

    /// Sends bytes that the end of the stream follows at once.
    #[inline]
    pub(crate) fn send_last<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>, bytes: SendBuf) {
        match self {
            Self::Plain(socket) => driver.send_last(*socket, bytes),
            Self::Tls(tls) => tls.send(driver, memory, bytes, true),
        }
    }

    /// Sends bytes and a span of a file behind them.
    #[inline]
    pub(crate) fn send_file<D: Driver>(
        &mut self,
        driver: &mut D,
        memory: Memory<'_>,
        bytes: SendBuf,
        (span, end): (FileSpan, SpanEnd),
    ) {
        match self {
            Self::Plain(socket) => driver.send_file(*socket, bytes, span, end),
            Self::Tls(tls) => tls.send_file(driver, memory, bytes, (span, end)),
        }
    }

    /// Ends our direction of the stream.
    pub(crate) fn finish<D: Driver>(&mut self, driver: &mut D, memory: Memory<'_>) {
        match self {
            Self::Plain(socket) => driver.finish(*socket),
            Self::Tls(tls) => tls.finish(driver, memory),
        }
    }

    /// Of so many bytes of a file behind others, those that fill whole segments, or whole records.
    pub(crate) fn whole_segments<D: Driver>(&self, driver: &D, bytes_before: u64, bytes: u64) -> u64 {
        match self {
            Self::Plain(socket) => driver.whole_segments(*socket, bytes_before, bytes),
            Self::Tls(_) => tls::whole_records(bytes),
        }
    }

    /// Bytes that the peer has not acknowledged.
    pub(crate) fn unacknowledged<D: Driver>(&self, driver: &D) -> u64 {
        match self {
            Self::Plain(socket) => driver.unacknowledged(*socket),
            Self::Tls(tls) => tls.unacknowledged(driver),
        }
    }

    /// When the present send began.
    pub(crate) fn sent_at<D: Driver>(&self, driver: &D) -> Instant {
        match self {
            Self::Plain(socket) => driver.sent_at(*socket),
            Self::Tls(tls) => tls.sent_at(),
        }
    }

    /// Bounds, or not, what the kernel takes ahead of the peer.
    pub(crate) fn bound_unsent<D: Driver>(&mut self, driver: &mut D, is_bounded: bool) {
        driver.bound_unsent(self.socket(), is_bounded);
        if let Self::Tls(tls) = self {
            tls.set_fast(!is_bounded);
        }
    }
}
