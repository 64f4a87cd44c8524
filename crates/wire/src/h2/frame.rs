//! Frames: their heads, and writing them (RFC 9113, 4 and 6).

use super::error::ErrorCode;

/// The bytes with which a client begins (RFC 9113, 3.4).
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Bytes of a frame's head.
pub const HEAD_LEN: usize = 9;
/// The largest payload that every peer accepts.
pub const PAYLOAD_MAX_INITIAL: u32 = 16 << 10;

/// Kinds of frames.
pub(super) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
    pub(crate) const PRIORITY_UPDATE: u8 = 0x10;
}

/// Flags of frames.
pub(super) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub len: u32,
    /// The kind.
    pub kind: u8,
    /// The flags.
    pub flags: u8,
    /// The stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads a head; its reserved bit is ignored.
    #[inline]
    #[must_use]
    pub const fn read(bytes: &[u8; HEAD_LEN]) -> Self {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes;
        Self {
            len: u32::from_be_bytes([0, a, b, c]),
            kind,
            flags,
            stream: u32::from_be_bytes([s0, s1, s2, s3]) & 0x7fff_ffff,
        }
    }

    /// The bytes of a head.
    #[inline]
    #[must_use]
    pub const fn to_bytes(self) -> [u8; HEAD_LEN] {
        let [_, a, b, c] = self.len.to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [a, b, c, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The stream that a priority of RFC 7540 depends on.
pub(super) fn dependency(priority: &[u8; 5]) -> u32 {
    let [a, b, c, d, _] = *priority;
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}

/// Appends a frame.
pub(super) fn write(kind: u8, flags: u8, stream: u32, payload: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&FrameHead { len: payload.len() as u32, kind, flags, stream }.to_bytes());
    out.extend_from_slice(payload);
}

/// The head of a DATA frame.
#[inline]
pub(super) const fn data_head(stream: u32, len: u32, ends: bool) -> [u8; HEAD_LEN] {
    FrameHead { len, kind: kind::DATA, flags: if ends { flag::END_STREAM } else { 0 }, stream }.to_bytes()
}

/// Appends a header block: HEADERS, and CONTINUATION for what exceeds the peer's frames.
pub(super) fn write_headers(stream: u32, block: &[u8], ends: bool, payload_max: u32, out: &mut Vec<u8>) {
    let end = if ends { flag::END_STREAM } else { 0 };
    let (mut kind, mut flags, mut rest) = (kind::HEADERS, end, block);
    loop {
        let (payload, behind) = rest.split_at(rest.len().min(payload_max as usize));
        if behind.is_empty() {
            return write(kind, flags | flag::END_HEADERS, stream, payload, out);
        }
        write(kind, flags, stream, payload, out);
        (kind, flags, rest) = (kind::CONTINUATION, 0, behind);
    }
}

pub(super) fn write_window_update(stream: u32, increment: u32, out: &mut Vec<u8>) {
    write(kind::WINDOW_UPDATE, 0, stream, &increment.to_be_bytes(), out);
}

pub(super) fn write_reset(stream: u32, code: ErrorCode, out: &mut Vec<u8>) {
    write(kind::RST_STREAM, 0, stream, &code.0.to_be_bytes(), out);
}

pub(super) fn write_go_away(last_stream: u32, code: ErrorCode, reason: &str, out: &mut Vec<u8>) {
    let mut payload = Vec::with_capacity(8 + reason.len());
    payload.extend_from_slice(&last_stream.to_be_bytes());
    payload.extend_from_slice(&code.0.to_be_bytes());
    payload.extend_from_slice(reason.as_bytes());
    write(kind::GOAWAY, 0, 0, &payload, out);
}
