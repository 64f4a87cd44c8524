//! Header blocks (RFC 7541), with nothing of the server's own code. Written is only the plainest
//! form; all forms are read.

use std::collections::HashMap;
use std::sync::LazyLock;

/// Bits of the Huffman code of each byte (RFC 7541, appendix B). Codes of the same length count up
/// in the order of the bytes, so that the lengths say all of the code.
#[rustfmt::skip]
const CODE_BITS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The static table (RFC 7541, appendix A).
#[rustfmt::skip]
const STATIC: [&str; 61] = [
    ":authority", ":method GET", ":method POST", ":path /", ":path /index.html", ":scheme http", ":scheme https",
    ":status 200", ":status 204", ":status 206", ":status 304", ":status 400", ":status 404", ":status 500",
    "accept-charset", "accept-encoding gzip, deflate", "accept-language", "accept-ranges", "accept",
    "access-control-allow-origin", "age", "allow", "authorization", "cache-control", "content-disposition",
    "content-encoding", "content-language", "content-length", "content-location", "content-range", "content-type",
    "cookie", "date", "etag", "expect", "expires", "from", "host", "if-match", "if-modified-since", "if-none-match",
    "if-range", "if-unmodified-since", "last-modified", "link", "location", "max-forwards", "proxy-authenticate",
    "proxy-authorization", "range", "referer", "refresh", "retry-after", "server", "set-cookie",
    "strict-transport-security", "transfer-encoding", "user-agent", "vary", "via", "www-authenticate",
];

/// Bytes by the length and the value of their codes.
static CODES: LazyLock<HashMap<(u8, u32), u8>> = LazyLock::new(|| {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.sort_by_key(|&byte| (CODE_BITS[usize::from(byte)], byte));
    let (mut codes, mut code, mut before) = (HashMap::new(), 0, 0);
    for byte in bytes {
        let bits = CODE_BITS[usize::from(byte)];
        code <<= bits - before;
        codes.insert((bits, code), byte);
        (code, before) = (code + 1, bits);
    }
    codes
});

pub(crate) type Fields = Vec<(String, String)>;

/// The decoder of one direction of a connection.
#[derive(Default)]
pub(crate) struct Decoder {
    /// The newest entry first. Nothing is evicted: an encoder refers to no entry that it evicted.
    table: Vec<(String, String)>,
}

impl Decoder {
    /// The fields of a block; `None` if it is none.
    pub(crate) fn decode(&mut self, mut block: &[u8]) -> Option<Fields> {
        let mut fields = Fields::new();
        while let &[first, ..] = block {
            let (prefix, is_indexed) = match first {
                0x80.. => {
                    let index = integer(&mut block, 7)?;
                    fields.push(self.entry(index)?);
                    continue;
                }
                0x20..0x40 => {
                    integer(&mut block, 5)?;
                    continue;
                }
                0x40..0x80 => (6, true),
                _ => (4, false),
            };
            let name = match integer(&mut block, prefix)? {
                0 => string(&mut block)?,
                index => self.entry(index)?.0,
            };
            let field = (name, string(&mut block)?);
            if is_indexed {
                self.table.insert(0, field.clone());
            }
            fields.push(field);
        }
        Some(fields)
    }

    fn entry(&self, index: usize) -> Option<(String, String)> {
        let index = index.checked_sub(1)?;
        match STATIC.get(index) {
            Some(entry) => {
                let (name, value) = entry.split_once(' ').unwrap_or((entry, ""));
                Some((name.to_owned(), value.to_owned()))
            }
            None => self.table.get(index - STATIC.len()).cloned(),
        }
    }
}

fn integer(input: &mut &[u8], prefix: u32) -> Option<usize> {
    let (&first, mut rest) = input.split_first()?;
    let mask = (1 << prefix) - 1;
    let mut value = usize::from(first) & mask;
    if value == mask {
        for shift in (0..28).step_by(7) {
            let (&byte, behind) = rest.split_first()?;
            rest = behind;
            value += usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
    }
    *input = rest;
    Some(value)
}

fn string(input: &mut &[u8]) -> Option<String> {
    let is_huffman = input.first()? & 0x80 != 0;
    let length = integer(input, 7)?;
    let (text, rest) = input.split_at_checked(length)?;
    *input = rest;
    let text = if is_huffman { huffman(text) } else { text.to_vec() };
    String::from_utf8(text).ok()
}

fn huffman(text: &[u8]) -> Vec<u8> {
    let (mut out, mut code, mut bits) = (Vec::new(), 0, 0);
    for bit in text.iter().flat_map(|byte| (0..8).rev().map(move |place| u32::from(byte >> place & 1))) {
        (code, bits) = (code << 1 | bit, bits + 1);
        if let Some(&byte) = CODES.get(&(bits, code)) {
            out.push(byte);
            (code, bits) = (0, 0);
        }
    }
    out
}

/// Appends a field as a literal that changes no table.
pub(crate) fn write(name: &[u8], value: &[u8], block: &mut Vec<u8>) {
    block.push(0);
    for text in [name, value] {
        if text.len() < 0x7f {
            block.push(text.len() as u8);
        } else {
            block.push(0x7f);
            let mut rest = text.len() - 0x7f;
            while rest >= 0x80 {
                block.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            block.push(rest as u8);
        }
        block.extend_from_slice(text);
    }
}
