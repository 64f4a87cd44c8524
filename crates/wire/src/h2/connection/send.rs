//! Opening streams, sending on them, and ending them.

use super::{Connection, Role};
use crate::h2::error::ErrorCode;
use crate::h2::frame::{self, HEAD_LEN};
use crate::h2::settings::WINDOW_MAX;

impl<T: Default> Connection<T> {
    /// Whether [`open`](Self::open) would succeed.
    #[must_use]
    pub fn can_open(&self) -> bool {
        !self.is_ending() && self.streams.len() < self.streams_max()
    }

    /// Whether no more streams can be opened, now or later: the peer has sent GOAWAY, or no number
    /// is left.
    #[must_use]
    pub const fn is_ending(&self) -> bool {
        self.is_refusing || self.next_local > WINDOW_MAX
    }

    /// Streams that a client may have open at once, by the peer's setting.
    #[must_use]
    pub const fn streams_max(&self) -> usize {
        self.remote.concurrent_streams_max as usize
    }

    /// Opens a stream for a request. `None`: the peer allows no more, or no number is left.
    pub fn open(&mut self, owner: T) -> Option<u32> {
        if self.role == Role::Server || !self.can_open() {
            return None;
        }
        let id = self.next_local;
        self.next_local += 2;
        let mut stream = self.new_stream(id);
        stream.owner = owner;
        self.streams.push(stream);
        Some(id)
    }

    /// Appends a message's head or its trailers, as a header block. Returns false, and appends
    /// nothing, if the stream is dead.
    pub fn headers(&mut self, id: u32, block: &[u8], ends: bool, out: &mut Vec<u8>) -> bool {
        let payload_max = self.remote.payload_max;
        let Some(stream) = self.streams.get_mut(id).filter(|stream| !stream.is_reset && !stream.is_local_closed) else {
            return false;
        };
        stream.is_local_closed = ends;
        frame::write_headers(id, block, ends, payload_max, out);
        true
    }

    /// Notes that the final head of a response has come: what follows is its body or trailers.
    pub fn expect_body(&mut self, id: u32, length: Option<u64>) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.has_head = true;
            stream.length_left = length;
        }
    }

    /// Bytes of a body that a stream may send at once, in one frame.
    #[inline]
    #[must_use]
    pub fn sendable(&self, id: u32) -> u32 {
        let Some(stream) = self.streams.get(id).filter(|stream| !stream.is_reset) else { return 0 };
        let window = stream.send_window.min(self.send_window).clamp(0, i64::from(self.remote.payload_max));
        window as u32
    }

    /// The head of a DATA frame, whose payload of at most [`sendable`](Self::sendable) bytes the
    /// caller sends behind it.
    ///
    /// # Panics
    /// More than that.
    #[inline]
    pub fn data(&mut self, id: u32, len: u32, ends: bool) -> [u8; HEAD_LEN] {
        assert!(len <= self.sendable(id), "DATA within the windows");
        if let Some(stream) = self.streams.get_mut(id) {
            self.send_window -= i64::from(len);
            stream.send_window -= i64::from(len);
            stream.is_local_closed = ends;
            stream.wants_to_send &= !ends;
        }
        self.credit.earn_data();
        frame::data_head(id, len, ends)
    }

    /// Notes whether a stream has body to send.
    pub fn set_wants_to_send(&mut self, id: u32, wants: bool) {
        if let Some(stream) = self.streams.get_mut(id) {
            stream.wants_to_send = wants && !stream.is_reset;
        }
    }

    /// The stream that should send the next DATA frame, by priority and in turn. `None`: none has
    /// body to send and a window for it.
    pub fn next_sender(&mut self) -> Option<u32> {
        if self.send_window <= 0 { None } else { self.streams.next_sender() }
    }

    /// Whether a stream has body to send and no window for it.
    #[must_use]
    pub fn is_starved(&self) -> bool {
        self.streams.iter().any(|stream| stream.wants_to_send && stream.send_window.min(self.send_window) <= 0)
    }

    /// Returns the window of received bytes, which the peer learns of when they are many.
    #[inline]
    pub fn consume(&mut self, id: u32, len: u32, out: &mut Vec<u8>) {
        self.note_consumed(id, len);
        if self.unreturned > self.config.connection_window / 2 {
            self.receive_window += i64::from(self.unreturned);
            frame::write_window_update(0, std::mem::take(&mut self.unreturned), out);
        }
        let window = self.config.settings.initial_window;
        if let Some(stream) = self.streams.get_mut(id)
            && stream.unreturned > window / 2
            && !stream.is_remote_closed
            && !stream.is_reset
        {
            stream.receive_window += i64::from(stream.unreturned);
            frame::write_window_update(id, std::mem::take(&mut stream.unreturned), out);
        }
    }

    pub(super) fn note_consumed(&mut self, id: u32, len: u32) {
        self.unreturned += len;
        if let Some(stream) = self.streams.get_mut(id) {
            stream.unreturned += len;
        }
    }

    /// Resets a stream. It counts until its owner releases it.
    pub fn reset(&mut self, id: u32, code: ErrorCode, out: &mut Vec<u8>) {
        match self.streams.get_mut(id) {
            Some(stream) if stream.is_reset => return,
            Some(stream) => {
                stream.is_reset = true;
                stream.wants_to_send = false;
            }
            // The rest of the frame for which it is reset is ignored.
            None => self.streams.note_reset(id),
        }
        frame::write_reset(id, code, out);
        self.streams.remove_if_over(id);
    }

    /// Notes that the owner has ended its work on a stream. What the peer still sends on it is not
    /// wanted.
    #[inline]
    pub fn release(&mut self, id: u32, out: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(id) else { return };
        stream.is_released = true;
        stream.wants_to_send = false;
        if !stream.is_reset && !stream.is_closed() {
            let code = if stream.is_local_closed && self.role == Role::Server {
                // The response is whole, and the rest of the request is not needed (RFC 9113, 8.1).
                ErrorCode::NO_ERROR
            } else {
                ErrorCode::CANCEL
            };
            return self.reset(id, code, out);
        }
        self.streams.remove_if_over(id);
    }

    /// Announces the end of the connection: streams above those that have come are not processed.
    pub fn go_away(&mut self, code: ErrorCode, reason: &str, out: &mut Vec<u8>) {
        self.processes_up_to = Some(self.last_remote);
        frame::write_go_away(self.last_remote, code, reason, out);
    }

    /// Returns memory that an idle connection does not need.
    pub fn shrink(&mut self) {
        if self.partial.is_empty() {
            self.partial = Vec::new();
        }
        self.streams.shrink();
    }
}
