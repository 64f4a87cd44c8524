//! Settings of one side of a connection (RFC 9113, 6.5).

use super::error::{ErrorCode, Fault};
use super::frame::{self, PAYLOAD_MAX_INITIAL, flag, kind};
use crate::hpack::SIZE_INITIAL;

/// The largest window.
pub const WINDOW_MAX: u32 = (1 << 31) - 1;
/// Every window at first.
pub const WINDOW_INITIAL: u32 = 65_535;
const PAYLOAD_MAX_MAX: u32 = (1 << 24) - 1;
const ENTRY_LEN: usize = 6;

mod id {
    pub(super) const HEADER_TABLE_SIZE: u16 = 0x1;
    pub(super) const ENABLE_PUSH: u16 = 0x2;
    pub(super) const MAX_CONCURRENT_STREAMS: u16 = 0x3;
    pub(super) const INITIAL_WINDOW_SIZE: u16 = 0x4;
    pub(super) const MAX_FRAME_SIZE: u16 = 0x5;
    pub(super) const MAX_HEADER_LIST_SIZE: u16 = 0x6;
    pub(super) const NO_RFC7540_PRIORITIES: u16 = 0x9;
}

/// Settings of one side: limits for what the other one sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Bytes of the dynamic table of the side's decoder.
    pub header_table_size: u32,
    /// Whether the side takes PUSH_PROMISE.
    pub enable_push: bool,
    /// Streams that the other side may have open at once; `u32::MAX`: any number.
    pub concurrent_streams_max: u32,
    /// The window of each new stream.
    pub initial_window: u32,
    /// Bytes of a frame's payload.
    pub payload_max: u32,
    /// Bytes of a header list, 32 for each field included; `u32::MAX`: any number.
    pub header_list_max: u32,
    /// Whether priorities of RFC 7540 are unused (RFC 9218, 2.1).
    pub no_old_priorities: bool,
}

impl Settings {
    /// The settings of a side that has sent none yet.
    pub const INITIAL: Self = Self {
        header_table_size: SIZE_INITIAL as u32,
        enable_push: true,
        concurrent_streams_max: u32::MAX,
        initial_window: WINDOW_INITIAL,
        payload_max: PAYLOAD_MAX_INITIAL,
        header_list_max: u32::MAX,
        no_old_priorities: false,
    };

    /// Appends a SETTINGS frame with what differs from the initial values.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let initial = Self::INITIAL;
        let all = [
            (id::HEADER_TABLE_SIZE, self.header_table_size, initial.header_table_size),
            (id::ENABLE_PUSH, self.enable_push.into(), initial.enable_push.into()),
            (id::MAX_CONCURRENT_STREAMS, self.concurrent_streams_max, initial.concurrent_streams_max),
            (id::INITIAL_WINDOW_SIZE, self.initial_window, initial.initial_window),
            (id::MAX_FRAME_SIZE, self.payload_max, initial.payload_max),
            (id::MAX_HEADER_LIST_SIZE, self.header_list_max, initial.header_list_max),
            (id::NO_RFC7540_PRIORITIES, self.no_old_priorities.into(), initial.no_old_priorities.into()),
        ];
        let mut payload = Vec::with_capacity(all.len() * ENTRY_LEN);
        for (id, value, _) in all.into_iter().filter(|(_, value, initial)| value != initial) {
            payload.extend_from_slice(&id.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        frame::write(kind::SETTINGS, 0, 0, &payload, out);
    }

    /// Takes over the entries of a SETTINGS frame in order. Unknown ones are ignored.
    /// `allows_push`: they are those of a client, which alone may enable pushes (RFC 9113, 6.5.2).
    pub(super) fn apply(&mut self, payload: &[u8], allows_push: bool) -> Result<(), Fault> {
        if !payload.len().is_multiple_of(ENTRY_LEN) {
            return Err(Fault::size("SETTINGS with a part of an entry"));
        }
        for entry in payload.chunks_exact(ENTRY_LEN) {
            let value = u32::from_be_bytes([entry[2], entry[3], entry[4], entry[5]]);
            match u16::from_be_bytes([entry[0], entry[1]]) {
                id::HEADER_TABLE_SIZE => self.header_table_size = value,
                id::ENABLE_PUSH if value > 1 => return Err(Fault::protocol("ENABLE_PUSH is neither 0 nor 1")),
                id::ENABLE_PUSH if value == 1 && !allows_push => {
                    return Err(Fault::protocol("ENABLE_PUSH of a server is 1"));
                }
                id::ENABLE_PUSH => self.enable_push = value == 1,
                id::MAX_CONCURRENT_STREAMS => self.concurrent_streams_max = value,
                id::INITIAL_WINDOW_SIZE if value > WINDOW_MAX => {
                    return Err(Fault::new(ErrorCode::FLOW_CONTROL_ERROR, "INITIAL_WINDOW_SIZE above 2^31-1"));
                }
                id::INITIAL_WINDOW_SIZE => self.initial_window = value,
                id::MAX_FRAME_SIZE if !(PAYLOAD_MAX_INITIAL..=PAYLOAD_MAX_MAX).contains(&value) => {
                    return Err(Fault::protocol("MAX_FRAME_SIZE outside of 2^14 to 2^24-1"));
                }
                id::MAX_FRAME_SIZE => self.payload_max = value,
                id::MAX_HEADER_LIST_SIZE => self.header_list_max = value,
                id::NO_RFC7540_PRIORITIES if value > 1 => {
                    return Err(Fault::protocol("NO_RFC7540_PRIORITIES is neither 0 nor 1"));
                }
                id::NO_RFC7540_PRIORITIES => self.no_old_priorities = value == 1,
                _ => {}
            }
        }
        Ok(())
    }
}

/// Appends the acknowledgement of SETTINGS.
pub(super) fn write_acknowledgement(out: &mut Vec<u8>) {
    frame::write(kind::SETTINGS, flag::ACK, 0, &[], out);
}
