//! The chunked transfer coding (RFC 9112, 7.1), read and written.
//!
//! The decoder hands chunk data on as slices of its input and keeps nothing but counters. Chunk
//! extensions and trailer fields are checked, bounded and dropped: neither half of the product has
//! a use for one, and RFC 9110, 6.5.1 lets a recipient discard trailers, which also settles the
//! forbidden ones (lengths, routing, authentication).

use crate::encode::push_hex;
use crate::fields::is_text_byte;
use crate::scan::{HeadFault, Scanned, Scanner, Section};
use crate::{Bounds, Progress};

/// A fault in a body in the chunked coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChunkFault {
    /// The size is empty or has a byte that is no hexadecimal digit: a sign, `0x`, whitespace. RFC
    /// 9112, 7.1.1 would have whitespace before an extension tolerated; recipients differ in where
    /// they look for the digits then.
    #[error("invalid chunk size")]
    InvalidSize,
    /// The size does not fit 64 bits.
    #[error("chunk size overflows")]
    SizeOverflow,
    /// A control byte in a chunk extension.
    #[error("invalid byte in a chunk extension")]
    InvalidExtension,
    /// One chunk line is longer than allowed.
    #[error("chunk line is too long")]
    LineTooLong,
    /// The extensions of all chunks together are longer than allowed.
    #[error("chunk extensions are too long")]
    ExtensionsTooLong,
    /// A chunk line ends in LF without CR.
    #[error("chunk line ends in LF without CR")]
    BareLf,
    /// A CR without LF in a chunk line.
    #[error("CR without LF in a chunk line")]
    BareCr,
    /// The data of a chunk is not followed by CRLF: the announced size is wrong.
    #[error("chunk data is not followed by CRLF")]
    UnterminatedData,
    /// The trailer section is malformed or too large.
    #[error("trailer section: {0}")]
    Trailers(HeadFault),
}

/// An event of the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChunkEvent<'a> {
    /// Body bytes; one chunk may come in several pieces.
    Data(&'a [u8]),
    /// The last chunk and the trailer section are read; the following bytes belong to the next
    /// message.
    End,
}

/// Decodes one body.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    at: At,
    /// Size of the chunk whose line is being read, then what is missing of its data.
    chunk_bytes: u64,
    line_bytes: u32,
    extension_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum At {
    Size { empty: bool },
    Extension,
    LineLf,
    Data,
    DataCr,
    DataLf,
    Trailers(Scanner),
    Done,
}

impl Decoder {
    /// A decoder at the beginning of a body.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: At::Size { empty: true }, chunk_bytes: 0, line_bytes: 0, extension_bytes: 0 }
    }

    /// Decodes up to the next piece of data or the end of the body. After `End` nothing more is
    /// consumed; after an error the decoder must not be used again.
    ///
    /// # Errors
    /// The first fault in the order of the bytes.
    pub fn read<'a>(&mut self, input: &'a [u8], bounds: &Bounds) -> Result<Progress<ChunkEvent<'a>>, ChunkFault> {
        let mut consumed = 0;
        loop {
            let rest = &input[consumed..];
            match &mut self.at {
                At::Done => {
                    return Ok(Progress { consumed, event: Some(ChunkEvent::End) });
                }
                _ if rest.is_empty() => {
                    return Ok(Progress { consumed, event: None });
                }
                At::Data => {
                    let data = self.take_data(rest);
                    consumed += data.len();
                    return Ok(Progress { consumed, event: Some(ChunkEvent::Data(data)) });
                }
                At::Trailers(scanner) => match scanner.scan(rest, bounds).map_err(ChunkFault::Trailers)? {
                    Scanned::Partial => consumed = input.len(),
                    Scanned::Complete(bytes) => {
                        consumed += bytes;
                        self.at = At::Done;
                    }
                },
                _ => {
                    self.step(rest[0], bounds)?;
                    consumed += 1;
                }
            }
        }
    }

    /// How many bytes of the current chunk's data are still to come; zero between chunks.
    #[must_use]
    pub const fn missing_of_chunk(&self) -> u64 {
        match self.at {
            At::Data => self.chunk_bytes,
            _ => 0,
        }
    }

    fn take_data<'a>(&mut self, input: &'a [u8]) -> &'a [u8] {
        let length = usize::try_from(self.chunk_bytes).map_or(input.len(), |missing| missing.min(input.len()));
        self.chunk_bytes -= length as u64;
        if self.chunk_bytes == 0 {
            self.at = At::DataCr;
        }
        &input[..length]
    }

    /// One byte of a chunk line or of the line end behind the data.
    fn step(&mut self, byte: u8, bounds: &Bounds) -> Result<(), ChunkFault> {
        self.count(bounds)?;
        if bounds.is_lenient
            && let Some(at) = self.lenient_step(byte)
        {
            self.at = at;
            return Ok(());
        }
        self.at = match (self.at, byte) {
            (At::Size { .. }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => {
                self.push_digit(byte)?;
                At::Size { empty: false }
            }
            (At::Size { empty: false }, b';') => At::Extension,
            (At::Size { empty: false } | At::Extension, b'\r') => At::LineLf,
            (At::Size { empty: false } | At::Extension, b'\n') => return Err(ChunkFault::BareLf),
            (At::Size { .. }, _) => return Err(ChunkFault::InvalidSize),
            (At::Extension, _) if is_text_byte(byte) => At::Extension,
            (At::Extension, _) => return Err(ChunkFault::InvalidExtension),
            (At::LineLf, b'\n') => self.end_line(),
            (At::LineLf, _) => return Err(ChunkFault::BareCr),
            (At::DataCr, b'\r') => At::DataLf,
            (At::DataLf, b'\n') => {
                self.line_bytes = 0;
                At::Size { empty: true }
            }
            _ => return Err(ChunkFault::UnterminatedData),
        };
        Ok(())
    }

    /// The state behind a byte that curl accepts and the grammar does not: anything between the
    /// digits of a size and the end of its line, and line ends without CR.
    fn lenient_step(&mut self, byte: u8) -> Option<At> {
        match (self.at, byte) {
            (At::Size { empty: false } | At::Extension, b'\n') => Some(self.end_line()),
            (At::Size { empty: false }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => None,
            (At::Size { empty: false } | At::Extension, _) => Some(At::Extension),
            (At::DataCr, b'\n') => {
                self.line_bytes = 0;
                Some(At::Size { empty: true })
            }
            _ => None,
        }
    }

    fn count(&mut self, bounds: &Bounds) -> Result<(), ChunkFault> {
        self.line_bytes += 1;
        if self.line_bytes > bounds.chunk_line_bytes_max {
            return Err(ChunkFault::LineTooLong);
        }
        if matches!(self.at, At::Extension) {
            self.extension_bytes += 1;
            if self.extension_bytes > bounds.chunk_extension_bytes_max {
                return Err(ChunkFault::ExtensionsTooLong);
            }
        }
        Ok(())
    }

    fn push_digit(&mut self, digit: u8) -> Result<(), ChunkFault> {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            _ => (digit | 0x20) - b'a' + 10,
        };
        self.chunk_bytes = self.chunk_bytes.checked_mul(16).ok_or(ChunkFault::SizeOverflow)? + u64::from(value);
        Ok(())
    }

    /// The state behind a chunk line: data, or after the last chunk the trailer section.
    const fn end_line(&mut self) -> At {
        self.line_bytes = 0;
        if self.chunk_bytes == 0 { At::Trailers(Scanner::new(Section::Trailers)) } else { At::Data }
    }
}

impl Default for Decoder {
    fn default() -> Self {
        Self::new()
    }
}

/// Writes one chunk. Empty data writes nothing, since an empty chunk would end the body.
pub fn push_chunk(out: &mut Vec<u8>, data: &[u8]) {
    if data.is_empty() {
        return;
    }
    push_chunk_line(out, data.len() as u64);
    out.extend_from_slice(data);
    out.extend_from_slice(b"\r\n");
}

/// Writes only the line before a chunk's data, for data that travels by another way (a file sent by
/// the kernel). The caller sends `size` bytes, which must not be zero, and CRLF after it.
pub fn push_chunk_line(out: &mut Vec<u8>, size: u64) {
    debug_assert!(size > 0, "a chunk of no bytes would end the body");
    push_hex(out, size);
    out.extend_from_slice(b"\r\n");
}

/// The last chunk and an empty trailer section.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes the input whole and byte by byte; what is expected is the body and what is left, or
    /// the fault.
    fn check(input: &str, expected: Result<(&str, &str), ChunkFault>) {
        for part_bytes in [usize::MAX, 1] {
            let shown = decode(input.as_bytes(), part_bytes);
            let expected = expected.map(|(body, rest)| Some((body.into(), rest.into())));
            assert_eq!(shown, expected, "{input:?} in parts of {part_bytes}");
        }
    }

    fn check_partial(input: &str) {
        assert_eq!(decode(input.as_bytes(), usize::MAX), Ok(None), "{input:?}");
        assert_eq!(decode(input.as_bytes(), 1), Ok(None), "{input:?}");
    }

    fn decode(input: &[u8], part_bytes: usize) -> Result<Option<(String, String)>, ChunkFault> {
        let bounds = Bounds {
            chunk_line_bytes_max: 20,
            chunk_extension_bytes_max: 24,
            trailer_bytes_max: 32,
            fields_max: 2,
            ..Bounds::requests()
        };
        let mut decoder = Decoder::new();
        let (mut body, mut offset) = (Vec::new(), 0);
        while offset < input.len() {
            let part = &input[offset..input.len().min(offset.saturating_add(part_bytes))];
            let progress = decoder.read(part, &bounds)?;
            offset += progress.consumed;
            match progress.event {
                Some(ChunkEvent::Data(data)) => body.extend_from_slice(data),
                Some(ChunkEvent::End) => {
                    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                    return Ok(Some((text(&body), text(&input[offset..]))));
                }
                None => assert_eq!(progress.consumed, part.len()),
            }
        }
        Ok(None)
    }

    #[test]
    fn bodies() {
        check("0\r\n\r\n", Ok(("", "")));
        check("5\r\nhello\r\n0\r\n\r\n", Ok(("hello", "")));
        check("5\r\nhello\r\n6\r\n world\r\n0\r\n\r\nGET", Ok(("hello world", "GET")));
        check("00000A\r\n0123456789\r\n000\r\n\r\n", Ok(("0123456789", "")));
        check("a\r\n0\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", Ok(("0\r\n\r\n0\r\n\r\n", "")));
    }

    #[test]
    fn extensions_and_trailers_are_dropped() {
        check("1;a=b;c=\"d e\"\r\nx\r\n0;z\r\n\r\n", Ok(("x", "")));
        check("0\r\nA: b\r\nContent-Length: 9\r\n\r\nrest", Ok(("", "rest")));
    }

    #[test]
    fn incomplete() {
        for input in ["", "5", "5\r", "5\r\n", "5\r\nhel", "5\r\nhello\r", "0\r\n", "0\r\n\r", "0\r\nA: b\r\n"] {
            check_partial(input);
        }
    }

    #[test]
    fn sizes() {
        for input in [
            "\r\n",
            ";a\r\n",
            "g\r\n",
            "+5\r\n",
            "-5\r\n",
            "0x5\r\n",
            " 5\r\n",
            "5 \r\n",
            "5 5\r\n",
            "5\t;a\r\n",
            "5_0\r\n",
            "5,\r\n",
            "\u{b}5\r\n",
        ] {
            check(input, Err(ChunkFault::InvalidSize));
        }
        check("10000000000000000\r\n", Err(ChunkFault::SizeOverflow));
        check_partial("ffffffffffffffff\r\nx");
        check_partial("00ffffffffffffffff\r\nx");
    }

    #[test]
    fn line_ends() {
        check("5\nhello", Err(ChunkFault::BareLf));
        check("5;a\nhello", Err(ChunkFault::BareLf));
        check("5\rhello", Err(ChunkFault::BareCr));
        check("5;a\rb\r\n", Err(ChunkFault::BareCr));
        check("5;a\0\r\n", Err(ChunkFault::InvalidExtension));
        check("5\r\nhello\n0\r\n\r\n", Err(ChunkFault::UnterminatedData));
        check("5\r\nhello!\r\n", Err(ChunkFault::UnterminatedData));
        check("5\r\nhello\r0\r\n\r\n", Err(ChunkFault::UnterminatedData));
        check("0\r\n\n", Err(ChunkFault::Trailers(HeadFault::BareLf)));
        check("0\r\nA: b\n\r\n", Err(ChunkFault::Trailers(HeadFault::BareLf)));
    }

    #[test]
    fn bounds() {
        check("00000000000000000000\r\n", Err(ChunkFault::LineTooLong));
        check_partial("000000000000000000\r\n");
        check("000000000000000001\r\nx\r\n0\r\n\r\n", Ok(("x", "")));
        check("1;345678901234567890\r\n", Err(ChunkFault::LineTooLong));
        let padded = "1;34567890123456\r\nx\r\n";
        check(&padded.repeat(2), Err(ChunkFault::ExtensionsTooLong));
        check("0\r\nA: 3456789012345678901234567890\r\n\r\n", Err(ChunkFault::Trailers(HeadFault::TooLarge)));
        check("0\r\nA: 1\r\nB: 2\r\nC: 3\r\n\r\n", Err(ChunkFault::Trailers(HeadFault::TooManyFields)));
        check("0\r\nA : 1\r\n\r\n", Err(ChunkFault::Trailers(HeadFault::WhitespaceBeforeColon)));
    }

    #[test]
    fn written_chunks_are_read_back() {
        let mut out = Vec::new();
        push_chunk(&mut out, b"hello");
        push_chunk(&mut out, b"");
        push_chunk(&mut out, &[b'x'; 26]);
        out.extend_from_slice(LAST_CHUNK);
        let body = format!("hello{}", "x".repeat(26));
        check(&String::from_utf8_lossy(&out), Ok((&body, "")));
    }
}
