//! Frames other than those of messages (RFC 9113, 6.3 to 6.9), and DATA's effect on the windows.

use super::receive::Found;
use super::{Charge, Connection, Priority, Role, Stage};
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::frame::{self, FrameHead, flag, kind};
use crate::h2::settings::{WINDOW_MAX, write_acknowledgement};
use crate::hpack::FieldList;

impl<T: Default> Connection<T> {
    /// A whole frame that is not DATA.
    pub(super) fn on_frame(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        match head.kind {
            kind::HEADERS => self.on_headers(head, payload, list, out),
            kind::CONTINUATION => self.on_continuation(head, payload, list, out),
            kind::SETTINGS => self.on_settings(head, payload, out),
            kind::WINDOW_UPDATE => self.on_window_update(head, payload, out),
            kind::RST_STREAM => self.on_reset(head, payload),
            kind::PING => self.on_ping(head, payload, out),
            kind::GOAWAY => self.on_go_away(head, payload),
            kind::PRIORITY => self.on_priority(head, payload, out),
            kind::PRIORITY_UPDATE => self.on_priority_update(head, payload),
            kind::PUSH_PROMISE => Err(Fault::protocol("PUSH_PROMISE, which is disabled")),
            _ => self.pay(Charge::Unknown).map(|()| Found::Nothing),
        }
    }

    fn on_settings(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<Found, Fault> {
        if head.stream != 0 {
            return Err(Fault::protocol("SETTINGS of a stream"));
        }
        if head.has(flag::ACK) {
            if !payload.is_empty() {
                return Err(Fault::size("acknowledged SETTINGS with entries"));
            }
            self.unacknowledged = self.unacknowledged.saturating_sub(1);
            self.decoder.set_size_max(self.config.settings.header_table_size as usize);
            return Ok(Found::Nothing);
        }
        self.pay(Charge::Settings)?;
        self.has_begun = true;
        let before = self.remote.initial_window;
        self.remote.apply(payload, self.role == Role::Server)?;
        let change = i64::from(self.remote.initial_window) - i64::from(before);
        for stream in self.streams.iter_mut() {
            stream.send_window += change;
            if stream.send_window > i64::from(WINDOW_MAX) {
                return Err(Fault::new(ErrorCode::FLOW_CONTROL_ERROR, "SETTINGS let a window exceed 2^31-1"));
            }
        }
        write_acknowledgement(out);
        Ok(Found::Settings)
    }

    fn on_window_update(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<Found, Fault> {
        let increment: [u8; 4] =
            payload.try_into().map_err(|_| Fault::size("WINDOW_UPDATE that is not 4 bytes long"))?;
        let increment = u32::from_be_bytes(increment) & WINDOW_MAX;
        self.pay(Charge::WindowUpdate)?;
        let nothing = Fault::protocol("WINDOW_UPDATE by nothing");
        let too_large = Fault::new(ErrorCode::FLOW_CONTROL_ERROR, "WINDOW_UPDATE lets a window exceed 2^31-1");
        if head.stream == 0 {
            if increment == 0 {
                return Err(nothing);
            }
            self.send_window += i64::from(increment);
            return if self.send_window > i64::from(WINDOW_MAX) { Err(too_large) } else { Ok(Found::WindowOpened) };
        }
        self.check_not_idle(head.stream, "WINDOW_UPDATE on an idle stream")?;
        let Some(stream) = self.streams.get_mut(head.stream).filter(|stream| !stream.is_reset) else {
            return Ok(Found::Nothing);
        };
        if increment == 0 {
            return self.reset_for(head.stream, nothing, out);
        }
        stream.send_window += i64::from(increment);
        if stream.send_window > i64::from(WINDOW_MAX) {
            return self.reset_for(head.stream, too_large, out);
        }
        Ok(Found::WindowOpened)
    }

    fn on_reset(&mut self, head: FrameHead, payload: &[u8]) -> Result<Found, Fault> {
        let code: [u8; 4] = payload.try_into().map_err(|_| Fault::size("RST_STREAM that is not 4 bytes long"))?;
        let code = ErrorCode(u32::from_be_bytes(code));
        if head.stream == 0 {
            return Err(Fault::protocol("RST_STREAM without a stream"));
        }
        self.check_not_idle(head.stream, "RST_STREAM on an idle stream")?;
        self.pay(Charge::Reset)?;
        let Some(stream) = self.streams.get_mut(head.stream).filter(|stream| !stream.is_reset) else {
            return Ok(Found::Nothing);
        };
        (stream.is_reset, stream.is_reset_by_peer) = (true, true);
        stream.wants_to_send = false;
        Ok(Found::Reset { stream: head.stream, code, fault: None })
    }

    fn on_ping(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<Found, Fault> {
        let data: [u8; 8] = payload.try_into().map_err(|_| Fault::size("PING that is not 8 bytes long"))?;
        if head.stream != 0 {
            return Err(Fault::protocol("PING of a stream"));
        }
        if head.has(flag::ACK) {
            return Ok(Found::Pong(data));
        }
        self.pay(Charge::Ping)?;
        frame::write(kind::PING, flag::ACK, 0, &data, out);
        Ok(Found::Nothing)
    }

    fn on_go_away(&mut self, head: FrameHead, payload: &[u8]) -> Result<Found, Fault> {
        let Some((fixed, _)) = payload.split_first_chunk::<8>() else {
            return Err(Fault::size("GOAWAY that is shorter than 8 bytes"));
        };
        if head.stream != 0 {
            return Err(Fault::protocol("GOAWAY of a stream"));
        }
        let [a, b, c, d, code @ ..] = *fixed;
        self.is_refusing = true;
        self.pay(Charge::Settings)?;
        let last_stream = u32::from_be_bytes([a, b, c, d]) & WINDOW_MAX;
        Ok(Found::GoAway { last_stream, code: ErrorCode(u32::from_be_bytes(code)) })
    }

    /// PRIORITY of RFC 7540, of which only the form is looked at.
    fn on_priority(&mut self, head: FrameHead, payload: &[u8], out: &mut Vec<u8>) -> Result<Found, Fault> {
        if head.stream == 0 {
            return Err(Fault::protocol("PRIORITY without a stream"));
        }
        self.pay(Charge::Priority)?;
        let Ok(priority) = <&[u8; 5]>::try_from(payload) else {
            return self.reset_for(head.stream, Fault::size("PRIORITY that is not 5 bytes long"), out);
        };
        if frame::dependency(priority) == head.stream {
            return self.reset_for(head.stream, Fault::protocol("a stream depends on itself"), out);
        }
        Ok(Found::Nothing)
    }

    /// PRIORITY_UPDATE (RFC 9218, 7.1). One for a stream that has not begun is kept for it.
    fn on_priority_update(&mut self, head: FrameHead, payload: &[u8]) -> Result<Found, Fault> {
        if self.role == Role::Client {
            return Err(Fault::protocol("PRIORITY_UPDATE of a server"));
        }
        let Some((id, value)) = payload.split_first_chunk::<4>() else {
            return Err(Fault::size("PRIORITY_UPDATE without a stream's number"));
        };
        let id = u32::from_be_bytes(*id) & WINDOW_MAX;
        if head.stream != 0 || id == 0 {
            return Err(Fault::protocol("PRIORITY_UPDATE of a stream, or for none"));
        }
        if !self.is_remote_id(id) {
            return Err(Fault::protocol("PRIORITY_UPDATE for a pushed stream, of which there is none"));
        }
        self.pay(Charge::Priority)?;
        self.streams.update_priority(id, Priority::read(value), self.is_stream_idle(id));
        Ok(Found::Nothing)
    }

    /// Charges the windows for a DATA frame that begins.
    pub(super) fn check_data(&mut self, head: FrameHead) -> Result<(), Fault> {
        if head.stream == 0 {
            return Err(Fault::protocol("DATA without a stream"));
        }
        self.check_not_idle(head.stream, "DATA on an idle stream")?;
        if head.len == 0 && !head.has(flag::END_STREAM) {
            self.pay(Charge::EmptyData)?;
        }
        self.receive_window -= i64::from(head.len);
        let too_much = Fault::new(ErrorCode::FLOW_CONTROL_ERROR, "DATA beyond the window");
        if self.receive_window < 0 {
            return Err(too_much);
        }
        if let Some(stream) = self.streams.get_mut(head.stream) {
            stream.receive_window -= i64::from(head.len);
            if stream.receive_window < 0 && !stream.is_reset {
                return Err(too_much);
            }
        }
        Ok(())
    }

    /// Bytes of a DATA frame, and perhaps the end of its stream.
    #[inline]
    pub(super) fn on_data(&mut self, id: u32, bytes: &[u8], ends: bool, out: &mut Vec<u8>) -> Result<Found, Fault> {
        let closed = Fault::new(ErrorCode::STREAM_CLOSED, "DATA on a closed stream");
        let Some(stream) = self.streams.get_mut(id) else {
            self.consume(id, bytes.len() as u32, out);
            if self.streams.was_reset(id) || self.processes_up_to.is_some_and(|last| id > last) {
                return Ok(Found::Nothing);
            }
            return self.reset_for(id, closed, out);
        };
        if stream.is_reset {
            self.consume(id, bytes.len() as u32, out);
            return Ok(Found::Nothing);
        }
        if stream.is_remote_closed {
            self.consume(id, bytes.len() as u32, out);
            return self.reset_for(id, closed, out);
        }
        if let Some(left) = &mut stream.length_left {
            let Some(rest) = left.checked_sub(bytes.len() as u64) else {
                self.consume(id, bytes.len() as u32, out);
                return self.reset_for(id, Fault::protocol("a body is longer than its Content-Length"), out);
            };
            *left = rest;
        }
        match stream.note_end(ends) {
            Some(fault) => self.reset_for(id, fault, out),
            None => Ok(Found::Data { stream: id, len: bytes.len(), ends }),
        }
    }

    fn check_not_idle(&self, stream: u32, reason: &'static str) -> Result<(), Fault> {
        if self.is_stream_idle(stream) { Err(Fault::protocol(reason)) } else { Ok(()) }
    }

    /// Resets a stream for a fault of the peer's.
    pub(super) fn reset_for(&mut self, id: u32, fault: Fault, out: &mut Vec<u8>) -> Result<Found, Fault> {
        self.pay(Charge::Reset)?;
        let is_client = self.role == Role::Client;
        let mut is_owned = false;
        if let Some(stream) = self.streams.get_mut(id) {
            // A stream that no event has named to an owner is not waited for.
            stream.is_released |= !is_client && !stream.has_head;
            is_owned = !stream.is_released && !stream.is_reset;
        }
        self.reset(id, fault.code, out);
        let event = Found::Reset { stream: id, code: fault.code, fault: Some(fault) };
        Ok(if is_owned { event } else { Found::Nothing })
    }

    /// Ends the connection for a fault of the peer's.
    pub(super) fn fail(&mut self, fault: Fault, out: &mut Vec<u8>) {
        if !matches!(self.stage, Stage::Failed(_)) {
            frame::write_go_away(self.last_remote, fault.code, fault.reason, out);
            self.stage = Stage::Failed(fault);
        }
    }
}
