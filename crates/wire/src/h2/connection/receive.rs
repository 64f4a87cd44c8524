//! Reading frames from received bytes.

use super::{Connection, Event, Stage};
use crate::Progress;
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::frame::{FrameHead, HEAD_LEN, PREFACE, flag, kind};
use crate::hpack::FieldList;

/// The result of one frame, or of a part of one.
pub(super) enum Found {
    Nothing,
    Headers {
        stream: u32,
        ends: bool,
    },
    /// So many bytes at the place that was read last.
    Data {
        stream: u32,
        len: usize,
        ends: bool,
    },
    Reset {
        stream: u32,
        code: ErrorCode,
        fault: Option<Fault>,
    },
    WindowOpened,
    Settings,
    GoAway {
        last_stream: u32,
        code: ErrorCode,
    },
    Pong([u8; 8]),
}

impl<T: Default> Connection<T> {
    /// Reads up to the next event. Call it again with the rest of the input until no event comes.
    /// Frames that the protocol calls for are appended to `out`.
    ///
    /// # Errors
    /// The first fault of the connection, for which GOAWAY was appended; the same again on every
    /// later call.
    #[inline]
    pub fn read<'a>(
        &mut self,
        input: &'a [u8],
        list: &'a mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Progress<Event<'a>>, Fault> {
        let mut rest = input;
        let found = loop {
            // A step that needs more takes all that is left; one more may end an empty frame.
            let is_last = rest.is_empty();
            match self.step(&mut rest, list, out) {
                Ok(Found::Nothing) if is_last => break Found::Nothing,
                Ok(Found::Nothing) => {}
                Ok(found) => break found,
                Err(fault) => {
                    self.fail(fault, out);
                    return Err(fault);
                }
            }
        };
        let consumed = input.len() - rest.len();
        let event = match found {
            Found::Nothing => None,
            Found::Headers { stream, ends } => Some(Event::Headers { stream, fields: list, ends }),
            Found::Data { stream, len, ends } => {
                Some(Event::Data { stream, bytes: &input[consumed - len..consumed], ends })
            }
            Found::Reset { stream, code, fault } => Some(Event::Reset { stream, code, fault }),
            Found::WindowOpened => Some(Event::WindowOpened),
            Found::Settings => Some(Event::Settings),
            Found::GoAway { last_stream, code } => Some(Event::GoAway { last_stream, code }),
            Found::Pong(data) => Some(Event::Pong(data)),
        };
        Ok(Progress { consumed, event })
    }

    /// Reads one frame, or what there is of it.
    fn step(&mut self, rest: &mut &[u8], list: &mut FieldList, out: &mut Vec<u8>) -> Result<Found, Fault> {
        match self.stage {
            Stage::Failed(fault) => Err(fault),
            Stage::Preface(got) => self.read_preface(rest, got),
            Stage::First | Stage::Head => {
                if let Some(head) = self.read_head(rest) {
                    self.begin_frame(head)?;
                }
                // A frame without a payload ends where its head does.
                if let Stage::Payload(head) = self.stage
                    && head.len == 0
                {
                    self.stage = Stage::Head;
                    return self.on_frame(head, &[], list, out);
                }
                Ok(Found::Nothing)
            }
            Stage::Payload(head) => self.read_payload(head, rest, list, out),
            Stage::Padding(head) => {
                let Some((padding, behind)) = rest.split_first() else { return Ok(Found::Nothing) };
                *rest = behind;
                self.begin_data(head, u32::from(*padding), head.len - 1)?;
                Ok(Found::Nothing)
            }
            Stage::Data { stream, left, padding, ends } => self.read_data(stream, left, padding, ends, rest, out),
        }
    }

    fn read_preface(&mut self, rest: &mut &[u8], got: u8) -> Result<Found, Fault> {
        let expected = &PREFACE[usize::from(got)..];
        let len = expected.len().min(rest.len());
        let (bytes, behind) = rest.split_at(len);
        if bytes != &expected[..len] {
            return Err(Fault::protocol("the client did not begin with the preface of HTTP/2"));
        }
        *rest = behind;
        self.stage = if len == expected.len() { Stage::First } else { Stage::Preface(got + len as u8) };
        Ok(Found::Nothing)
    }

    #[inline]
    fn read_head(&mut self, rest: &mut &[u8]) -> Option<FrameHead> {
        if self.partial.is_empty()
            && let Some((head, behind)) = rest.split_first_chunk()
        {
            *rest = behind;
            return Some(FrameHead::read(head));
        }
        self.collect(HEAD_LEN, rest)?;
        let head = FrameHead::read(self.partial.first_chunk().expect("a whole head"));
        self.partial.clear();
        Some(head)
    }

    /// Collects bytes until there are so many. Returns whether there are.
    fn collect(&mut self, wanted: usize, rest: &mut &[u8]) -> Option<()> {
        let (bytes, behind) = rest.split_at(rest.len().min(wanted - self.partial.len()));
        self.partial.extend_from_slice(bytes);
        *rest = behind;
        (self.partial.len() == wanted).then_some(())
    }

    /// Checks a frame's head, before anything of its payload is kept.
    fn begin_frame(&mut self, head: FrameHead) -> Result<(), Fault> {
        if head.len > self.config.settings.payload_max {
            return Err(Fault::size("a frame is larger than SETTINGS_MAX_FRAME_SIZE"));
        }
        if matches!(self.stage, Stage::First) && (head.kind != kind::SETTINGS || head.has(flag::ACK)) {
            return Err(Fault::protocol("the first frame is not SETTINGS"));
        }
        if let Some(block) = &self.block
            && (head.kind != kind::CONTINUATION || head.stream != block.stream)
        {
            return Err(Fault::protocol("another frame inside a header block"));
        }
        if head.kind != kind::DATA {
            self.stage = Stage::Payload(head);
            return Ok(());
        }
        self.check_data(head)?;
        if head.has(flag::PADDED) {
            if head.len == 0 {
                return Err(Fault::size("a padded frame without the padding's length"));
            }
            self.stage = Stage::Padding(head);
            return Ok(());
        }
        self.begin_data(head, 0, head.len)
    }

    fn begin_data(&mut self, head: FrameHead, padding: u32, len: u32) -> Result<(), Fault> {
        let left = len.checked_sub(padding).ok_or(Fault::protocol("padding is longer than its frame"))?;
        // Nobody consumes the padding.
        self.note_consumed(head.stream, head.len - left);
        self.stage = Stage::Data { stream: head.stream, left, padding, ends: head.has(flag::END_STREAM) };
        Ok(())
    }

    #[inline]
    fn read_payload(
        &mut self,
        head: FrameHead,
        rest: &mut &[u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let len = head.len as usize;
        if self.partial.is_empty()
            && let Some((payload, behind)) = rest.split_at_checked(len)
        {
            *rest = behind;
            self.stage = Stage::Head;
            return self.on_frame(head, payload, list, out);
        }
        if self.collect(len, rest).is_none() {
            return Ok(Found::Nothing);
        }
        self.stage = Stage::Head;
        let mut payload = std::mem::take(&mut self.partial);
        let found = self.on_frame(head, &payload, list, out);
        // The memory serves the next frame that comes in parts.
        payload.clear();
        self.partial = payload;
        found
    }

    /// Hands on what there is of a DATA frame.
    fn read_data(
        &mut self,
        stream: u32,
        left: u32,
        padding: u32,
        ends: bool,
        rest: &mut &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let len = rest.len().min(left as usize);
        let (bytes, behind) = rest.split_at(len);
        let left = left - len as u32;
        if left > 0 {
            self.stage = Stage::Data { stream, left, padding, ends };
            if len == 0 {
                return Ok(Found::Nothing);
            }
            *rest = behind;
            return self.on_data(stream, bytes, false, out);
        }
        // The bytes are handed on first, and the padding is dropped at the next step.
        if len > 0 && padding > 0 {
            *rest = behind;
            self.stage = Stage::Data { stream, left: 0, padding, ends };
            return self.on_data(stream, bytes, false, out);
        }
        let skipped = behind.len().min(padding as usize);
        *rest = &behind[skipped..];
        let padding = padding - skipped as u32;
        if padding > 0 {
            self.stage = Stage::Data { stream, left: 0, padding, ends };
            return Ok(Found::Nothing);
        }
        self.stage = Stage::Head;
        if len == 0 && !ends {
            return Ok(Found::Nothing);
        }
        self.on_data(stream, bytes, ends, out)
    }
}
