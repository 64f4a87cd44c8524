//! Frames of HTTP/2 as bytes (RFC 9113, 4 and 6), with nothing of the server's own code.

/// The preface of a client (RFC 9113, 3.4).
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEAD_BYTES: usize = 9;

/// Kinds by number.
const KINDS: [&str; 17] = [
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
    "0xa",
    "0xb",
    "0xc",
    "0xd",
    "0xe",
    "0xf",
    "PRIORITY_UPDATE",
];

/// Error codes by number.
const CODES: [&str; 14] = [
    "NO_ERROR",
    "PROTOCOL_ERROR",
    "INTERNAL_ERROR",
    "FLOW_CONTROL_ERROR",
    "SETTINGS_TIMEOUT",
    "STREAM_CLOSED",
    "FRAME_SIZE_ERROR",
    "REFUSED_STREAM",
    "CANCEL",
    "COMPRESSION_ERROR",
    "CONNECT_ERROR",
    "ENHANCE_YOUR_CALM",
    "INADEQUATE_SECURITY",
    "HTTP_1_1_REQUIRED",
];

/// Settings by number.
const SETTINGS: [&str; 10] = [
    "0x0",
    "HEADER_TABLE_SIZE",
    "ENABLE_PUSH",
    "MAX_CONCURRENT_STREAMS",
    "INITIAL_WINDOW_SIZE",
    "MAX_FRAME_SIZE",
    "MAX_HEADER_LIST_SIZE",
    "0x7",
    "ENABLE_CONNECT_PROTOCOL",
    "NO_RFC7540_PRIORITIES",
];

pub(crate) const DATA: u8 = 0x0;
pub(crate) const HEADERS: u8 = 0x1;
pub(crate) const PRIORITY: u8 = 0x2;
pub(crate) const RST_STREAM: u8 = 0x3;
pub(crate) const SETTINGS_KIND: u8 = 0x4;
pub(crate) const PING: u8 = 0x6;
pub(crate) const GOAWAY: u8 = 0x7;
pub(crate) const WINDOW_UPDATE: u8 = 0x8;
pub(crate) const CONTINUATION: u8 = 0x9;
pub(crate) const PRIORITY_UPDATE: u8 = 0x10;

/// Of DATA and HEADERS.
pub(crate) const END_STREAM: u8 = 0x1;
/// Of SETTINGS and PING.
pub(crate) const ACK: u8 = 0x1;
pub(crate) const END_HEADERS: u8 = 0x4;
pub(crate) const PADDED: u8 = 0x8;
pub(crate) const HAS_PRIORITY: u8 = 0x20;

/// A frame.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl Frame {
    pub(crate) fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    /// The bytes, with a head that says this length instead of the true one if there is one.
    pub(crate) fn to_bytes(&self, length: Option<u32>) -> Vec<u8> {
        let length = length.unwrap_or(self.payload.len() as u32).to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind, self.flags];
        bytes.extend_from_slice(&self.stream.to_be_bytes());
        bytes.extend_from_slice(&self.payload);
        bytes
    }

    /// The first frame of these bytes, and how many it takes.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Self, usize)> {
        let (head, rest) = bytes.split_first_chunk::<HEAD_BYTES>()?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let payload = rest.get(..length)?;
        let stream = number(&head[5..]) & 0x7fff_ffff;
        Some((Self::new(head[3], head[4], stream, payload), HEAD_BYTES + length))
    }

    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// In the notation of the transcripts.
    pub(crate) fn describe(&self) -> String {
        let payload = match self.kind {
            RST_STREAM if self.payload.len() == 4 => code_name(number(&self.payload)),
            GOAWAY if self.payload.len() >= 8 => {
                let (last, code) = (number(&self.payload[..4]), code_name(number(&self.payload[4..8])));
                format!("last {last} {code} {}", self.payload[8..].escape_ascii())
            }
            _ => self.payload[..self.payload.len().min(80)].escape_ascii().to_string(),
        };
        let kind =
            KINDS.get(usize::from(self.kind)).map_or_else(|| format!("{:#x}", self.kind), |&kind| kind.to_owned());
        format!("{kind} {} flags={:#x}: {payload}", self.stream, self.flags)
    }
}

/// A number of up to four bytes.
pub(crate) fn number(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// The number of a kind, by name or as `0x…`.
pub(crate) fn kind(name: &str) -> Option<u8> {
    lookup(&KINDS, name).and_then(|kind| u8::try_from(kind).ok())
}

/// The number of an error code.
pub(crate) fn code(name: &str) -> Option<u32> {
    lookup(&CODES, name)
}

pub(crate) fn code_name(code: u32) -> String {
    CODES.get(code as usize).map_or_else(|| format!("{code:#x}"), |&name| name.to_owned())
}

/// Settings as their frame has them, from `NAME=VALUE NAME=VALUE`.
pub(crate) fn settings(text: &str) -> Option<Vec<u8>> {
    let mut payload = Vec::new();
    for entry in text.split_whitespace() {
        let (name, value) = entry.split_once('=')?;
        payload.extend_from_slice(&u16::try_from(lookup(&SETTINGS, name)?).ok()?.to_be_bytes());
        payload.extend_from_slice(&value.parse::<u32>().ok()?.to_be_bytes());
    }
    Some(payload)
}

fn lookup(names: &[&str], name: &str) -> Option<u32> {
    if let Some(number) = name.strip_prefix("0x") {
        return u32::from_str_radix(number, 16).ok();
    }
    names.iter().position(|&known| known == name).map(|place| place as u32)
}
