//! Violations of a protocol by the server, in words.

use std::borrow::Cow;

use thalweg_measure::trial::{FIRST_BYTES, RuleOf};
use thalweg_wire::chunked::ChunkFault;
use thalweg_wire::{Bounds, FramingFault, HeadFault, ResponseError};

/// A violation: what is wrong, by whose rule, and the bytes from where it was found.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The fault in words.
    pub cause: Cow<'static, str>,
    /// Whose rule is broken.
    pub rule: RuleOf,
    /// The first bytes of what could not be read.
    pub bytes: Vec<u8>,
}

impl Violation {
    /// A violation, of which the bytes begin with these parts.
    pub(crate) fn new(cause: impl Into<Cow<'static, str>>, rule: RuleOf, parts: [&[u8]; 2]) -> Self {
        let bytes = parts.concat_first(FIRST_BYTES);
        Self { cause: cause.into(), rule, bytes }
    }

    /// A response of HTTP/1 that was refused.
    pub(crate) fn of_response(error: ResponseError, bounds: &Bounds, parts: [&[u8]; 2]) -> Self {
        let (cause, rule) = words(error, bounds);
        // A lenient reader has accepted what it can.
        let rule = if rule == RuleOf::Strictness && bounds.is_lenient { RuleOf::Protocol } else { rule };
        Self::new(cause, rule, parts)
    }
}

trait ConcatFirst {
    fn concat_first(&self, bytes_max: usize) -> Vec<u8>;
}

impl ConcatFirst for [&[u8]; 2] {
    fn concat_first(&self, bytes_max: usize) -> Vec<u8> {
        self.iter().flat_map(|part| part.iter()).take(bytes_max).copied().collect()
    }
}

fn words(error: ResponseError, bounds: &Bounds) -> (Cow<'static, str>, RuleOf) {
    use RuleOf::{Client, Protocol, Strictness};
    let own = |text: String| (Cow::Owned(text), Client);
    let kib = |bytes: u32| bytes >> 10;
    let said = |text: &'static str, rule| (Cow::Borrowed(text), rule);
    match error {
        ResponseError::Head(fault) => match fault {
            HeadFault::TooLarge => own(format!("a head of more than {} KiB", kib(bounds.head_bytes_max))),
            HeadFault::TooManyFields => own(format!("a head of more than {} fields", bounds.fields_max)),
            HeadFault::StartLineTooLong => {
                own(format!("a status line of more than {} KiB", kib(bounds.start_line_bytes_max)))
            }
            HeadFault::BareLf => said("a line of the head ends in LF without CR", Strictness),
            HeadFault::WhitespaceBeforeColon => said("white space before the colon of a field", Strictness),
            HeadFault::ObsoleteFold => said("a line of the head begins with white space", Protocol),
            HeadFault::InvalidFieldName => said("a field name that is empty, invalid or without a colon", Protocol),
            HeadFault::InvalidFieldValue => said("a control byte in a field value", Strictness),
            HeadFault::InvalidVersion => said("no response of HTTP/1: no HTTP/1.x at its beginning", Protocol),
            other => (Cow::Owned(format!("a head that cannot be read: {other}")), Protocol),
        },
        ResponseError::Framing(fault) => match fault {
            FramingFault::RepeatedContentLength => said("two lengths: Content-Length more than once", Strictness),
            FramingFault::LengthBesideCoding => {
                said("two lengths: Content-Length beside Transfer-Encoding", Strictness)
            }
            FramingFault::CodingInHttp10 => said("Transfer-Encoding in a response of HTTP/1.0", Strictness),
            other => (Cow::Owned(other.to_string()), Protocol),
        },
        ResponseError::Chunk(fault) => match fault {
            ChunkFault::InvalidSize => said("a chunk size that is no plain hexadecimal number", Strictness),
            ChunkFault::BareLf => said("the line of a chunk size ends in LF without CR", Strictness),
            ChunkFault::LineTooLong => {
                own(format!("the line of a chunk size has more than {} bytes", bounds.chunk_line_bytes_max))
            }
            ChunkFault::ExtensionsTooLong => {
                own(format!("chunk extensions of more than {} KiB", kib(bounds.chunk_extension_bytes_max)))
            }
            ChunkFault::UnterminatedData => said("a chunk is longer than its size says", Protocol),
            ChunkFault::Trailers(HeadFault::TooLarge) => {
                own(format!("trailers of more than {} KiB", kib(bounds.trailer_bytes_max)))
            }
            ChunkFault::Trailers(HeadFault::TooManyFields) => {
                own(format!("trailers of more than {} fields", bounds.fields_max))
            }
            other => (Cow::Owned(other.to_string()), Protocol),
        },
        ResponseError::Unsolicited => said("bytes behind the end of the response", Strictness),
        ResponseError::UnaskedSwitch => said("101 (Switching Protocols) that was not asked for", Protocol),
        ResponseError::TooManyInformational => own(format!("more than {} interim responses", bounds.informational_max)),
        other => (Cow::Owned(other.to_string()), Protocol),
    }
}
