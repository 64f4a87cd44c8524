//! The slow way through a head: byte by byte, resumable at any byte, and exact about what is wrong.
//!
//! A head that came whole is parsed by `httparse` and never meets this module. A head that came in
//! parts is followed here, so that each byte is looked at once however small the parts are, and
//! parsed once it is complete. A head that the fast way refused is walked here to name the fault.
//! All errors about the form of a head therefore come from one place and depend on the bytes alone,
//! never on where they were cut.

use crate::Bounds;
use crate::fields::{FIELDS_MAX, is_text_byte, is_token_byte};

/// A fault in the form of a head or of a trailer section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadFault {
    /// The method is empty or has a byte that is no token byte.
    #[error("invalid byte in the method")]
    InvalidMethod,
    /// The request target is empty or has a byte that is not visible ASCII.
    #[error("invalid byte in the request target")]
    InvalidTarget,
    /// There is no `HTTP/digit.digit` where the version belongs.
    #[error("malformed protocol version")]
    InvalidVersion,
    /// A version other than 1.0 and 1.1. Minor versions above 1 were never defined and are refused
    /// rather than guessed.
    #[error("protocol version is neither 1.0 nor 1.1")]
    UnsupportedVersion,
    /// The status code is not three digits from 100 on, or the reason phrase has a control byte.
    #[error("malformed status line")]
    InvalidStatus,
    /// A line ends in LF without CR. RFC 9112, 2.2 allows to accept it; peers that disagree about
    /// it see different messages, so it is refused.
    #[error("line ends in LF without CR")]
    BareLf,
    /// A CR without LF (RFC 9112, 2.2: replace or refuse; refused).
    #[error("CR without LF")]
    BareCr,
    /// A line that begins with whitespace: obsolete line folding in a request or a trailer section
    /// (RFC 9112, 5.2), or whitespace before the first field.
    #[error("line begins with whitespace")]
    ObsoleteFold,
    /// Whitespace inside a field name or before its colon (RFC 9112, 5.1: must be refused).
    #[error("whitespace before the colon of a field")]
    WhitespaceBeforeColon,
    /// A field name is empty, has a byte that is no token byte, or lacks its colon.
    #[error("invalid byte in a field name")]
    InvalidFieldName,
    /// A control byte in a field value.
    #[error("invalid byte in a field value")]
    InvalidFieldValue,
    /// The request line or status line is longer than allowed.
    #[error("start line is too long")]
    StartLineTooLong,
    /// The head or trailer section is longer than allowed.
    #[error("head is too large")]
    TooLarge,
    /// More field lines than allowed.
    #[error("too many field lines")]
    TooManyFields,
    /// The two parsers of this crate disagree about the head. Nobody knows such a head; it is
    /// refused because a head that can be read in two ways must not be served in either.
    #[error("head cannot be parsed in one way only")]
    Ambiguous,
}

/// The end of a scan of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scanned {
    /// All bytes belong to the section and it goes on.
    Partial,
    /// The section ended after this many of the bytes.
    Complete(usize),
}

/// The kind of a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    Request,
    Response,
    Trailers,
}

/// Follows one head or trailer section through any number of parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scanner {
    section: Section,
    at: At,
    bytes: u32,
    fields: u32,
    folds: bool,
}

/// The next thing that must come. Numbers count the bytes of an element already seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Method {
        empty: bool,
    },
    Target {
        empty: bool,
    },
    /// `known` as long as the version can be one that this crate speaks.
    Version {
        seen: u8,
        known: bool,
    },
    VersionEnd {
        known: bool,
    },
    Code(u8),
    Reason,
    StartLf,
    FieldStart,
    FieldName,
    FieldValue,
    FieldLf,
    SectionLf,
}

impl Scanner {
    pub(crate) const fn new(section: Section) -> Self {
        let at = match section {
            Section::Request => At::Method { empty: true },
            Section::Response => At::VERSION,
            Section::Trailers => At::FieldStart,
        };
        Self { section, at, bytes: 0, fields: 0, folds: false }
    }

    /// Whether no byte was seen yet.
    pub(crate) const fn at_start(&self) -> bool {
        self.bytes == 0
    }

    /// Notes that bytes were seen that another reader follows.
    pub(crate) fn begin(&mut self) {
        self.bytes = self.bytes.max(1);
    }

    /// Whether there were folded lines.
    pub(crate) const fn has_folds(&self) -> bool {
        self.folds
    }

    /// Looks at more bytes of the section, each exactly once.
    pub(crate) fn scan(&mut self, input: &[u8], bounds: &Bounds) -> Result<Scanned, HeadFault> {
        for (index, &byte) in input.iter().enumerate() {
            self.count(bounds)?;
            if bounds.is_lenient && self.section == Section::Trailers {
                if self.at == At::FieldStart && byte == b'\n' {
                    return Ok(Scanned::Complete(index + 1));
                }
                self.at = match byte {
                    b'\n' => At::FieldStart,
                    b'\r' => self.at,
                    _ => At::FieldValue,
                };
                continue;
            }
            if self.at == At::SectionLf && byte == b'\n' {
                return Ok(Scanned::Complete(index + 1));
            }
            if self.at == At::FieldStart && is_token_byte(byte) {
                self.fields += 1;
                if self.fields > bounds.fields_max.min(FIELDS_MAX as u32) {
                    return Err(HeadFault::TooManyFields);
                }
            }
            // RFC 9112, 5.2: a user agent reads a folded line of a response as one with spaces in
            // it. A server refuses it, and whitespace before the first field has no defined
            // meaning.
            if self.at == At::FieldStart && self.section == Section::Response && self.fields > 0 && is_blank(byte) {
                self.folds = true;
                self.at = At::FieldValue;
                continue;
            }
            self.at = match self.section {
                Section::Request => self.at.after_in_request_line(byte),
                Section::Response => self.at.after_in_status_line(byte),
                Section::Trailers => self.at.after_in_fields(byte),
            }?;
        }
        Ok(Scanned::Partial)
    }

    /// Counts one more byte against the bounds.
    fn count(&mut self, bounds: &Bounds) -> Result<(), HeadFault> {
        self.bytes = self.bytes.saturating_add(1);
        let section_bytes_max = match self.section {
            Section::Trailers => bounds.trailer_bytes_max,
            Section::Request | Section::Response => bounds.head_bytes_max,
        };
        if self.at.is_in_start_line() && self.bytes > bounds.start_line_bytes_max {
            return Err(HeadFault::StartLineTooLong);
        }
        if self.bytes > section_bytes_max {
            return Err(HeadFault::TooLarge);
        }
        Ok(())
    }
}

impl At {
    const VERSION: Self = Self::Version { seen: 0, known: true };

    const fn is_in_start_line(self) -> bool {
        !matches!(self, Self::FieldStart | Self::FieldName | Self::FieldValue | Self::FieldLf | Self::SectionLf)
    }

    /// RFC 9112, 3: `method SP request-target SP HTTP-version CRLF`, each space exactly one.
    fn after_in_request_line(self, byte: u8) -> Result<Self, HeadFault> {
        match (self, byte) {
            (Self::Method { empty: false }, b' ') => Ok(Self::Target { empty: true }),
            (Self::Method { .. }, _) if is_token_byte(byte) => Ok(Self::Method { empty: false }),
            (Self::Method { .. }, _) => Err(HeadFault::InvalidMethod),
            (Self::Target { empty: false }, b' ') => Ok(Self::VERSION),
            (Self::Target { .. }, b'!'..=b'~') => Ok(Self::Target { empty: false }),
            (Self::Target { .. }, _) => Err(HeadFault::InvalidTarget),
            (Self::VersionEnd { known: false }, b'\r') => Err(HeadFault::UnsupportedVersion),
            (Self::VersionEnd { .. }, _) => line_end(byte, HeadFault::InvalidVersion),
            _ => self.after_in_version(byte),
        }
    }

    /// RFC 9112, 4: `HTTP-version SP status-code SP [ reason-phrase ] CRLF`. The second space may
    /// be missing when there is no phrase: common servers leave it out, and nothing can be read two
    /// ways for it.
    fn after_in_status_line(self, byte: u8) -> Result<Self, HeadFault> {
        match (self, byte) {
            (Self::VersionEnd { known: true }, b' ') => Ok(Self::Code(0)),
            (Self::VersionEnd { known: false }, b' ') => Err(HeadFault::UnsupportedVersion),
            (Self::VersionEnd { .. }, _) => Err(HeadFault::InvalidVersion),
            (Self::Code(0), b'1'..=b'9') => Ok(Self::Code(1)),
            (Self::Code(seen @ 1..=2), b'0'..=b'9') => Ok(Self::Code(seen + 1)),
            (Self::Code(3), b' ') => Ok(Self::Reason),
            (Self::Code(3), _) => line_end(byte, HeadFault::InvalidStatus),
            (Self::Code(_), _) => Err(HeadFault::InvalidStatus),
            (Self::Reason, _) if is_text_byte(byte) => Ok(Self::Reason),
            (Self::Reason, _) => line_end(byte, HeadFault::InvalidStatus),
            _ => self.after_in_version(byte),
        }
    }

    /// RFC 9112, 2.3: `HTTP/` DIGIT `.` DIGIT, in capitals. Only a version of that form can be one
    /// that is not supported; the end of it decides.
    fn after_in_version(self, byte: u8) -> Result<Self, HeadFault> {
        const NAME: &[u8] = b"HTTP/";
        match (self, byte) {
            (Self::Version { seen: seen @ 0..=4, known }, _) if byte == NAME[usize::from(seen)] => {
                Ok(Self::Version { seen: seen + 1, known })
            }
            (Self::Version { seen: 5, .. }, b'0'..=b'9') => Ok(Self::Version { seen: 6, known: byte == b'1' }),
            (Self::Version { seen: 6, known }, b'.') => Ok(Self::Version { seen: 7, known }),
            (Self::Version { seen: 7, known }, b'0'..=b'9') => {
                Ok(Self::VersionEnd { known: known && matches!(byte, b'0' | b'1') })
            }
            (Self::Version { .. }, _) => Err(HeadFault::InvalidVersion),
            (Self::StartLf, b'\n') => Ok(Self::FieldStart),
            (Self::StartLf, _) => Err(HeadFault::BareCr),
            _ => self.after_in_fields(byte),
        }
    }

    /// RFC 9112, 5: `*( field-name ":" OWS field-value OWS CRLF ) CRLF`.
    fn after_in_fields(self, byte: u8) -> Result<Self, HeadFault> {
        match (self, byte) {
            (Self::FieldStart, b'\r') => Ok(Self::SectionLf),
            (Self::FieldStart, b'\n') => Err(HeadFault::BareLf),
            (Self::FieldStart, b' ' | b'\t') => Err(HeadFault::ObsoleteFold),
            (Self::FieldName, b':') => Ok(Self::FieldValue),
            (Self::FieldName, b' ' | b'\t') => Err(HeadFault::WhitespaceBeforeColon),
            (Self::FieldStart | Self::FieldName, _) if is_token_byte(byte) => Ok(Self::FieldName),
            (Self::FieldStart | Self::FieldName, _) => Err(HeadFault::InvalidFieldName),
            (Self::FieldValue, b'\r') => Ok(Self::FieldLf),
            (Self::FieldValue, b'\n') => Err(HeadFault::BareLf),
            (Self::FieldValue, _) if is_text_byte(byte) => Ok(Self::FieldValue),
            (Self::FieldValue, _) => Err(HeadFault::InvalidFieldValue),
            (Self::FieldLf, b'\n') => Ok(Self::FieldStart),
            _ => Err(HeadFault::BareCr),
        }
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// The state when only the end of the start line may come.
fn line_end(byte: u8, otherwise: HeadFault) -> Result<At, HeadFault> {
    match byte {
        b'\r' => Ok(At::StartLf),
        b'\n' => Err(HeadFault::BareLf),
        _ => Err(otherwise),
    }
}
