//! Header blocks, and the streams that they begin.

use super::receive::Found;
use super::{Block, Charge, Connection, Role};
use crate::h2::error::{ErrorCode, Fault};
use crate::h2::frame::{self, FrameHead, flag};
use crate::hpack::{DecodeError, Decoder, FieldList};

impl<T: Default> Connection<T> {
    /// HEADERS (RFC 9113, 6.2).
    pub(super) fn on_headers(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let (block, depends_on) = fragment(head, payload)?;
        self.open_remote(head.stream)?;
        if depends_on == Some(head.stream) {
            // The block is decoded all the same, or the tables would differ.
            self.reset_for(head.stream, Fault::protocol("a stream depends on itself"), out)?;
        }
        let ends = head.has(flag::END_STREAM);
        if head.has(flag::END_HEADERS) {
            return self.on_block(head.stream, ends, block, list, out);
        }
        self.keep_block(Block { stream: head.stream, ends, bytes: Vec::new(), skipped: None }, block)?;
        Ok(Found::Nothing)
    }

    /// CONTINUATION (RFC 9113, 6.10).
    pub(super) fn on_continuation(
        &mut self,
        head: FrameHead,
        payload: &[u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        let block = self.block.take().ok_or(Fault::protocol("CONTINUATION outside of a header block"))?;
        self.pay(Charge::Continuation)?;
        self.keep_block(block, payload)?;
        if !head.has(flag::END_HEADERS) {
            return Ok(Found::Nothing);
        }
        let Block { stream, ends, bytes, skipped } = self.block.take().expect("the block that was kept");
        let Some(skipped) = skipped else { return self.on_block(stream, ends, &bytes, list, out) };
        Decoder::end_skipped(&skipped).map_err(compression)?;
        list.overflow();
        self.on_fields(stream, ends, out)
    }

    /// Keeps a part of a block. If it becomes too large, its stream can be refused and the others
    /// go on, as the tables are kept up to date.
    fn keep_block(&mut self, mut block: Block, more: &[u8]) -> Result<(), Fault> {
        // A field on the wire may be a little longer than what it is charged.
        let bytes_max = self.config.list.charge_max.saturating_mul(2);
        if block.skipped.is_none() && block.bytes.len() + more.len() <= bytes_max {
            block.bytes.extend_from_slice(more);
        } else {
            let skipped = block.skipped.get_or_insert_default();
            self.decoder.skip(skipped, &block.bytes).map_err(compression)?;
            block.bytes = Vec::new();
            self.decoder.skip(skipped, more).map_err(compression)?;
        }
        self.block = Some(block);
        Ok(())
    }

    /// Checks that a header block may come on this stream, and opens it if the peer may.
    fn open_remote(&mut self, id: u32) -> Result<(), Fault> {
        if id == 0 {
            return Err(Fault::protocol("HEADERS without a stream"));
        }
        if self.streams.get(id).is_some() {
            return Ok(());
        }
        if self.role == Role::Client || !self.is_remote_id(id) {
            let is_known = !self.is_stream_idle(id);
            return if is_known { Ok(()) } else { Err(Fault::protocol("HEADERS on a stream that cannot be opened")) };
        }
        if id <= self.last_remote {
            if self.streams.was_reset(id) {
                return Ok(());
            }
            return Err(Fault::new(ErrorCode::STREAM_CLOSED, "HEADERS on a closed stream"));
        }
        self.last_remote = id;
        if self.processes_up_to.is_some_and(|last| id > last) {
            return Ok(());
        }
        let stream = self.new_stream(id);
        self.streams.push(stream);
        Ok(())
    }

    /// A whole header block.
    fn on_block(
        &mut self,
        id: u32,
        ends: bool,
        block: &[u8],
        list: &mut FieldList,
        out: &mut Vec<u8>,
    ) -> Result<Found, Fault> {
        list.set_bounds(self.config.list);
        self.decoder.decode(block, list).map_err(compression)?;
        self.on_fields(id, ends, out)
    }

    /// The fields of a header block are in their list.
    #[inline]
    fn on_fields(&mut self, id: u32, ends: bool, out: &mut Vec<u8>) -> Result<Found, Fault> {
        let streams_max = self.config.settings.concurrent_streams_max as usize;
        let is_over = self.role == Role::Server && self.streams.len() > streams_max;
        let Some(stream) = self.streams.get_mut(id) else { return Ok(Found::Nothing) };
        if stream.is_reset {
            return Ok(Found::Nothing);
        }
        if stream.is_remote_closed {
            return self.reset_for(id, Fault::new(ErrorCode::STREAM_CLOSED, "HEADERS behind the end of a stream"), out);
        }
        let is_first = !stream.has_head;
        if !is_first && !ends {
            return self.reset_for(id, Fault::protocol("trailers that do not end the stream"), out);
        }
        if self.role == Role::Server && is_first {
            // It counted as soon as it came, and it is the owner's only when it is accepted.
            if is_over {
                stream.is_released = true;
                self.refuse(id, out)?;
                return Ok(Found::Nothing);
            }
            stream.has_head = true;
            self.credit.earn_request();
        }
        stream.note_end(ends).map_or(Ok(Found::Headers { stream: id, ends }), |fault| self.reset_for(id, fault, out))
    }

    /// Refuses a stream beyond the limit: it was not processed.
    fn refuse(&mut self, id: u32, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.pay(Charge::Reset)?;
        self.reset(id, ErrorCode::REFUSED_STREAM, out);
        Ok(())
    }
}

fn compression(_: DecodeError) -> Fault {
    Fault::new(ErrorCode::COMPRESSION_ERROR, "a header block cannot be decoded")
}

/// The part of a header block in a HEADERS frame, and the stream that this one depends on.
fn fragment(head: FrameHead, payload: &[u8]) -> Result<(&[u8], Option<u32>), Fault> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has(flag::PADDED) {
        let (len, behind) = rest.split_first().ok_or(Fault::size("HEADERS without the padding's length"))?;
        (padding, rest) = (usize::from(*len), behind);
    }
    let mut depends_on = None;
    if head.has(flag::PRIORITY) {
        let (priority, behind) = rest.split_first_chunk::<5>().ok_or(Fault::size("HEADERS without its priority"))?;
        depends_on = Some(frame::dependency(priority));
        rest = behind;
    }
    let len = rest.len().checked_sub(padding).ok_or(Fault::protocol("padding is longer than its frame"))?;
    Ok((&rest[..len], depends_on))
}
