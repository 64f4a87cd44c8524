//! How long a message is and whether the connection outlives it (RFC 9112, 6 and 9.3).
//!
//! One pass over the field lines finds all that decides it. Where the RFC lets a recipient repair a
//! doubtful message, this crate refuses it: the repair of one recipient is the smuggled request of
//! the next.

use crate::fields::{Fields, list_elements, trim_ows};

/// The protocol version of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
}

impl Version {
    /// The version as it stands in a start line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
        }
    }

    pub(crate) const fn from_minor(minor: u8) -> Self {
        if minor == 0 { Self::Http10 } else { Self::Http11 }
    }
}

/// How the end of a message's body is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyFraming {
    /// There is no body.
    None,
    /// The body has this many bytes; zero is possible.
    Length(u64),
    /// The body comes in the chunked coding.
    Chunked,
    /// The body ends with the connection (replies in HTTP/1) or with its stream.
    UntilClose,
}

/// Why the length of a message cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FramingFault {
    /// Content-Length is not a plain decimal number of at most 64 bits.
    #[error("invalid Content-Length")]
    InvalidContentLength,
    /// Content-Length several times, as lines or as a list. RFC 9110, 8.6 allows to accept equal
    /// values; that such a message came at all says that something on its way merged or copied
    /// lengths, so equal ones are refused as well.
    #[error("repeated Content-Length")]
    RepeatedContentLength,
    /// Content-Length beside Transfer-Encoding (RFC 9112, 6.1: may be refused, and is a sign of
    /// smuggling).
    #[error("Content-Length beside Transfer-Encoding")]
    LengthBesideCoding,
    /// Transfer-Encoding in an HTTP/1.0 message (RFC 9112, 6.1: the framing is to be treated as
    /// faulty).
    #[error("Transfer-Encoding in HTTP/1.0")]
    CodingInHttp10,
    /// Several Transfer-Encoding lines, or `chunked` anywhere but once at the end.
    #[error("chunked is not the one last transfer coding")]
    MisplacedChunked,
    /// A proper list of codings that has others than `chunked`.
    #[error("unsupported transfer coding")]
    UnsupportedCoding,
}

/// The field lines on length, persistence and expectation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Survey<'a> {
    pub(crate) content_length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) close: bool,
    pub(crate) keep_alive: bool,
    /// Seconds after which the peer closes an idle connection, if it says so.
    pub(crate) idle_seconds: Option<u32>,
    pub(crate) expects_continue: bool,
    pub(crate) host: Option<&'a [u8]>,
    pub(crate) repeated_host: bool,
}

impl<'a> Survey<'a> {
    /// Looks at each field line once; length and first letter tell almost all others apart without
    /// a comparison.
    #[inline]
    pub(crate) fn of(fields: Fields<'a>, version: Version) -> Result<Self, FramingFault> {
        let mut survey = Self::default();
        for (name, value) in fields.iter() {
            match (name.len(), name.as_bytes()[0] | 0x20) {
                (4, b'h') if name.eq_ignore_ascii_case("host") => {
                    survey.repeated_host |= survey.host.replace(value).is_some();
                }
                (6, b'e') if name.eq_ignore_ascii_case("expect") => {
                    survey.expects_continue |= value.eq_ignore_ascii_case(b"100-continue");
                }
                (10, b'c') if name.eq_ignore_ascii_case("connection") => survey.connection(value),
                (10, b'k') if name.eq_ignore_ascii_case("keep-alive") => {
                    survey.idle_seconds = idle_seconds(value);
                }
                (14, b'c') if name.eq_ignore_ascii_case("content-length") => {
                    survey.content_length(value)?;
                }
                (17, b't') if name.eq_ignore_ascii_case("transfer-encoding") => {
                    survey.transfer_encoding(value, version)?;
                }
                _ => {}
            }
        }
        if survey.chunked && survey.content_length.is_some() {
            return Err(FramingFault::LengthBesideCoding);
        }
        Ok(survey)
    }

    /// RFC 9112, 9.3: `close` wins; 1.1 persists by default, 1.0 only with `keep-alive`.
    #[inline]
    pub(crate) const fn persists(&self, version: Version) -> bool {
        !self.close && (matches!(version, Version::Http11) || self.keep_alive)
    }

    pub(crate) fn connection(&mut self, value: &[u8]) {
        for option in list_elements(value) {
            self.close |= option.eq_ignore_ascii_case(b"close");
            self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }

    fn content_length(&mut self, value: &[u8]) -> Result<(), FramingFault> {
        if self.content_length.is_some() || value.contains(&b',') {
            return Err(FramingFault::RepeatedContentLength);
        }
        self.content_length = Some(decimal(value).ok_or(FramingFault::InvalidContentLength)?);
        Ok(())
    }

    fn transfer_encoding(&mut self, value: &[u8], version: Version) -> Result<(), FramingFault> {
        if version == Version::Http10 {
            return Err(FramingFault::CodingInHttp10);
        }
        if self.chunked {
            return Err(FramingFault::MisplacedChunked);
        }
        if !value.eq_ignore_ascii_case(b"chunked") {
            return Err(coding_fault(value));
        }
        self.chunked = true;
        Ok(())
    }
}

/// RFC 9112, 6.1 gives a request with unknown codings 501; one whose last coding is not `chunked`,
/// or that has it twice, has no length at all (6.3) and is malformed.
fn coding_fault(value: &[u8]) -> FramingFault {
    let is_chunked = |coding: &[u8]| trim_ows(coding).eq_ignore_ascii_case(b"chunked");
    let mut codings = value.rsplit(|&byte| byte == b',');
    let ends_chunked = codings.next().is_some_and(is_chunked);
    if ends_chunked && codings.all(|coding| !is_chunked(coding) && !trim_ows(coding).is_empty()) {
        FramingFault::UnsupportedCoding
    } else {
        FramingFault::MisplacedChunked
    }
}

/// The parameter `timeout` of a Keep-Alive field (RFC 2068, 19.7.1.1).
#[cold]
pub(crate) fn idle_seconds(value: &[u8]) -> Option<u32> {
    value.split(|byte| *byte == b',').find_map(|parameter| {
        let (name, seconds) = parameter.split_at(parameter.iter().position(|byte| *byte == b'=')?);
        let seconds = decimal(trim_ows(&seconds[1..]))?;
        trim_ows(name).eq_ignore_ascii_case(b"timeout").then(|| u32::try_from(seconds).unwrap_or(u32::MAX))
    })
}

/// A plain decimal number: digits only, no sign, no space, no overflow.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_idle_connections_is_a_parameter() {
        for (value, seconds) in [
            ("timeout=5", Some(5)),
            ("timeout=5, max=100", Some(5)),
            ("max=100 , Timeout = 15", Some(15)),
            ("timeout=99999999999", Some(u32::MAX)),
            ("max=5", None),
            ("timeout", None),
            ("timeout=", None),
            ("", None),
        ] {
            assert_eq!(idle_seconds(value.as_bytes()), seconds, "{value:?}");
        }
    }
}
