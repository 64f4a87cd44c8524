//! Writing heads into a caller's buffer.
//!
//! Everything that could end a line or a head before its time is refused: a CR, LF or NUL in a
//! value would let the author of the value inject fields or a second message. Framing is the
//! caller's: the writer does not add Content-Length, Date or Connection.

use crate::fields::{is_text_byte, is_token_byte};
use crate::framing::Version;
use crate::status;

/// The reasons why a head cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The method is no token.
    #[error("method is not a token")]
    Method,
    /// The target is empty or has a byte other than visible ASCII.
    #[error("invalid byte in the request target")]
    Target,
    /// The status code does not have three digits from 100 on.
    #[error("status code is not from 100 to 999")]
    Status,
    /// The field name is no token.
    #[error("field name is not a token")]
    FieldName,
    /// The field value has a control byte.
    #[error("control byte in a field value")]
    FieldValue,
}

/// Writes one head behind what the buffer holds. Unless [`end`](Self::end) is reached, the buffer
/// is put back as it was: it never holds half a head.
#[derive(Debug)]
pub struct HeadWriter<'b> {
    out: &'b mut Vec<u8>,
    start: usize,
    ended: bool,
}

impl<'b> HeadWriter<'b> {
    /// Begins a request.
    ///
    /// # Errors
    /// When method or target could not be read back as such.
    pub fn request(out: &'b mut Vec<u8>, method: &str, target: &[u8], version: Version) -> Result<Self, EncodeError> {
        if method.is_empty() || !method.bytes().all(is_token_byte) {
            return Err(EncodeError::Method);
        }
        if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
            return Err(EncodeError::Target);
        }
        let start = out.len();
        for part in [method.as_bytes(), b" ", target, b" ", version.name().as_bytes(), b"\r\n"] {
            out.extend_from_slice(part);
        }
        Ok(Self { out, start, ended: false })
    }

    /// Begins a reply, with the status code's own reason phrase.
    ///
    /// # Errors
    /// When the status code is out of range.
    pub fn response(out: &'b mut Vec<u8>, version: Version, status: u16) -> Result<Self, EncodeError> {
        if !(100..=999).contains(&status) {
            return Err(EncodeError::Status);
        }
        let start = out.len();
        out.extend_from_slice(version.name().as_bytes());
        out.push(b' ');
        push_decimal(out, u64::from(status));
        out.push(b' ');
        out.extend_from_slice(status::reason(status).as_bytes());
        out.extend_from_slice(b"\r\n");
        Ok(Self { out, start, ended: false })
    }

    /// Adds a field line.
    ///
    /// # Errors
    /// When name or value could not be read back as such; nothing is added then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<&mut Self, EncodeError> {
        push_field(self.out, name, value)?;
        Ok(self)
    }

    /// Adds a field line with a number for its value.
    ///
    /// # Errors
    /// When the name is no token.
    pub fn field_number(&mut self, name: &str, value: u64) -> Result<&mut Self, EncodeError> {
        push_field(self.out, name, decimal(value, &mut [0; DECIMAL_DIGITS_MAX]))?;
        Ok(self)
    }

    /// Adds field lines that were checked before.
    pub fn block(&mut self, block: &FieldBlock) -> &mut Self {
        self.out.extend_from_slice(&block.0);
        self
    }

    /// Closes the head with the empty line.
    pub fn end(mut self) {
        self.out.extend_from_slice(b"\r\n");
        self.ended = true;
    }
}

impl Drop for HeadWriter<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.out.truncate(self.start);
        }
    }
}

/// Field lines checked and encoded once, to be put into many heads by one copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldBlock(Vec<u8>);

impl FieldBlock {
    /// No field lines.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a field line.
    ///
    /// # Errors
    /// When name or value could not be read back as such; nothing is added then.
    pub fn field(&mut self, name: &str, value: &[u8]) -> Result<&mut Self, EncodeError> {
        push_field(&mut self.0, name, value)?;
        Ok(self)
    }

    /// The lines as they are sent, each with its CRLF.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn push_field(out: &mut Vec<u8>, name: &str, value: &[u8]) -> Result<(), EncodeError> {
    if name.is_empty() || !name.bytes().all(is_token_byte) {
        return Err(EncodeError::FieldName);
    }
    if !value.iter().copied().all(is_text_byte) {
        return Err(EncodeError::FieldValue);
    }
    for part in [name.as_bytes(), b": ", value, b"\r\n"] {
        out.extend_from_slice(part);
    }
    Ok(())
}

/// Digits of the largest number.
const DECIMAL_DIGITS_MAX: usize = 20;

/// Writes a number in decimal digits.
pub fn push_decimal(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(decimal(number, &mut [0; DECIMAL_DIGITS_MAX]));
}

/// Writes a number in hexadecimal digits without leading zeros.
pub fn push_hex(out: &mut Vec<u8>, number: u64) {
    let digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    out.extend((0..digits).rev().map(|digit| HEX_DIGITS[(number >> (4 * digit)) as usize & 0xf]));
}

const HEX_DIGITS: &[u8; 16] = b"0123456789abcdef";

fn decimal(mut number: u64, digits: &mut [u8; DECIMAL_DIGITS_MAX]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[start..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Result<&str, EncodeError>, write: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>) {
        let mut out = b"before|".to_vec();
        let outcome = write(&mut out);
        assert_eq!(outcome.err(), expected.err());
        let kept = format!("before|{}", expected.unwrap_or(""));
        assert_eq!(String::from_utf8_lossy(&out), kept);
    }

    #[test]
    fn heads() {
        check(Ok("GET /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 12\r\n\r\n"), |out| {
            let mut head = HeadWriter::request(out, "GET", b"/a?b", Version::Http11)?;
            head.field("Host", b"x")?.field_number("Content-Length", 12)?;
            head.end();
            Ok(())
        });
        check(Ok("HTTP/1.0 404 Not Found\r\nServer: t\r\nA: \r\n\r\n"), |out| {
            let mut block = FieldBlock::new();
            block.field("Server", b"t")?.field("A", b"")?;
            let mut head = HeadWriter::response(out, Version::Http10, 404)?;
            head.block(&block);
            head.end();
            Ok(())
        });
        check(Ok("HTTP/1.1 299 \r\n\r\n"), |out| {
            HeadWriter::response(out, Version::Http11, 299)?.end();
            Ok(())
        });
    }

    #[test]
    fn a_head_that_is_not_ended_leaves_nothing() {
        check(Ok(""), |out| HeadWriter::response(out, Version::Http11, 200).map(drop));
    }

    #[test]
    fn injection_is_refused() {
        let request = |method: &'static str, target: &'static [u8]| {
            move |out: &mut Vec<u8>| HeadWriter::request(out, method, target, Version::Http11).map(HeadWriter::end)
        };
        for method in ["", "GET ", "G\r\nET", "G\0", "G:"] {
            check(Err(EncodeError::Method), request(method, b"/"));
        }
        for target in [&b""[..], b"/ b", b"/\r\n", b"/\n", b"/\0", b"/\x7f", b"/\xc3\xa9"] {
            check(Err(EncodeError::Target), request("GET", target));
        }
        for status in [0, 99, 1000] {
            check(Err(EncodeError::Status), |out| {
                HeadWriter::response(out, Version::Http11, status).map(HeadWriter::end)
            });
        }
        let field = |name: &'static str, value: &'static [u8]| {
            move |out: &mut Vec<u8>| HeadWriter::response(out, Version::Http11, 200)?.field(name, value).map(drop)
        };
        for name in ["", "A:", "A B", "A\r\n", "A\0", "\u{e9}"] {
            check(Err(EncodeError::FieldName), field(name, b"x"));
        }
        for value in [&b"\r"[..], b"\n", b"x\r\nB: y", b"\0", b"\x7f", b"\x1b"] {
            check(Err(EncodeError::FieldValue), field("A", value));
        }
    }

    #[test]
    fn numbers() {
        for number in [0, 1, 9, 10, 15, 16, 255, 256, 4_294_967_296, u64::MAX] {
            let mut out = Vec::new();
            push_decimal(&mut out, number);
            out.push(b' ');
            push_hex(&mut out, number);
            assert_eq!(String::from_utf8_lossy(&out), format!("{number} {number:x}"));
        }
    }
}
