//! Transports: the calls on the driver that a connection makes.
//!
//! A plain transport passes them on. One with TLS would decrypt what is received and encrypt what
//! is sent, here and nowhere else; it is a second variant.

use thalweg_sys::{Driver, FileSpan, Instant, SendBuf, SocketId, SpanEnd};

/// The transport of a connection.
pub(crate) enum Transport {
    /// TCP or a Unix socket.
    Plain(SocketId),
}

impl Transport {
    /// The socket beneath.
    #[inline]
    pub(crate) fn socket(&self) -> SocketId {
        match self {
            Self::Plain(socket) => *socket,
        }
    }

    /// The bytes that have come in.
    #[inline]
    pub(crate) fn received<'d, D: Driver>(&self, driver: &'d D) -> &'d [u8] {
        match self {
            Self::Plain(_) => driver.received(),
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
    pub(crate) fn send<D: Driver>(&self, driver: &mut D, bytes: SendBuf) {
        driver.send(self.socket(), bytes);
    }

    /// Sends bytes that the end of the stream follows at once.
    #[inline]
    pub(crate) fn send_last<D: Driver>(&self, driver: &mut D, bytes: SendBuf) {
        driver.send_last(self.socket(), bytes);
    }

    /// Sends bytes and a span of a file behind them.
    #[inline]
    pub(crate) fn send_file<D: Driver>(&self, driver: &mut D, bytes: SendBuf, span: FileSpan, end: SpanEnd) {
        driver.send_file(self.socket(), bytes, span, end);
    }

    /// Ends our direction of the stream.
    pub(crate) fn finish<D: Driver>(&self, driver: &mut D) {
        driver.finish(self.socket());
    }

    /// Of so many bytes of a file behind others, those that fill whole segments.
    pub(crate) fn whole_segments<D: Driver>(&self, driver: &D, bytes_before: u64, bytes: u64) -> u64 {
        driver.whole_segments(self.socket(), bytes_before, bytes)
    }

    /// Bytes that the peer has not acknowledged.
    pub(crate) fn unacknowledged<D: Driver>(&self, driver: &D) -> u64 {
        driver.unacknowledged(self.socket())
    }

    /// When the present send began.
    pub(crate) fn sent_at<D: Driver>(&self, driver: &D) -> Instant {
        driver.sent_at(self.socket())
    }

    /// Bounds, or not, what the kernel takes ahead of the peer.
    pub(crate) fn bound_unsent<D: Driver>(&self, driver: &mut D, is_bounded: bool) {
        driver.bound_unsent(self.socket(), is_bounded);
    }
}
