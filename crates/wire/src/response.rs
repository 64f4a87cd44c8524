//! Reading replies, the client's side of a connection.
//!
//! The length of a reply depends on its request, so each request is registered with the reader when
//! it is sent, in order; the reader keeps the queue. Bytes without a request are an error, never
//! skipped: no later reply could be assigned to its request.

use std::collections::VecDeque;

use crate::body::{Body, Piece};
use crate::chunked::ChunkFault;
use crate::fields::{FieldSlots, Fields, Slots};
use crate::framing::{BodyFraming, FramingFault, Survey, Version};
use crate::partial::{PartialHead, is_strict};
use crate::scan::{HeadFault, Section};
use crate::{Bounds, Progress};

/// The kind of a request, as far as the length of the reply depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A HEAD request: no body, whatever the fields say.
    Head,
    /// A CONNECT request: after a 2xx the connection is a tunnel. The reply is then `Head` and
    /// `End`; bytes behind it are the tunnel's and not for this reader.
    Connect,
    /// A request with Upgrade: 101 is final, and the bytes behind it belong to the other protocol.
    Upgrade,
    /// Any other request.
    Other,
}

/// How many bytes a reply had, by purpose. All numbers count what was read, not what was announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageBytes {
    /// Heads, with those of informational replies before the final one.
    pub header: u64,
    /// The body proper.
    pub body: u64,
    /// Chunk lines, the line ends behind chunks, and trailers.
    pub framing: u64,
}

/// An event of a [`ResponseReader`]: for each expected reply any number of `Informational`, one
/// `Head`, any number of `Body`, one `End`.
#[derive(Debug)]
pub enum ResponseEvent<'a> {
    /// A 1xx reply before the final one.
    Informational(ResponseHead<'a>),
    /// The head of the final reply.
    Head(ResponseHead<'a>),
    /// Some bytes of its body, never none.
    Body(&'a [u8]),
    /// The reply is complete.
    End(MessageBytes),
}

/// The head of a reply whose form and framing are in order.
#[derive(Clone, Copy, Debug)]
pub struct ResponseHead<'a> {
    /// The status code, from 100 to 999. Codes from 600 on are invalid but countable (RFC 9110,
    /// 15).
    pub status: u16,
    /// The reason phrase; empty when it is missing or not ASCII.
    pub reason: &'a str,
    /// The protocol version.
    pub version: Version,
    /// The field lines.
    pub fields: Fields<'a>,
    /// How the body ends.
    pub body: BodyFraming,
    keep_alive: bool,
    idle_seconds: Option<u32>,
}

impl<'a> ResponseHead<'a> {
    /// A head of HTTP/2, which was checked.
    pub(crate) const fn of_stream(status: u16, fields: Fields<'a>, body: BodyFraming) -> Self {
        Self { status, reason: "", version: Version::Http2, fields, body, keep_alive: true, idle_seconds: None }
    }

    /// The value of the first field line of that name, in whatever case.
    #[inline]
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.get(name)
    }

    /// Whether the connection can carry another request after this reply (RFC 9112, 9.3).
    #[inline]
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }
}

/// Why a reply is refused or incomplete. The connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseError {
    /// The head is malformed or too large.
    #[error("reply head: {0}")]
    Head(#[from] HeadFault),
    /// The length of the body cannot be trusted.
    #[error("reply framing: {0}")]
    Framing(#[from] FramingFault),
    /// The chunked body is malformed.
    #[error("reply body: {0}")]
    Chunk(#[from] ChunkFault),
    /// Bytes came while no reply was expected.
    #[error("surplus bytes behind the reply")]
    Unsolicited,
    /// 101 (Switching Protocols) without a request for it.
    #[error("unasked switch of protocols")]
    UnaskedSwitch,
    /// More informational replies than allowed.
    #[error("too many informational replies")]
    TooManyInformational,
    /// The connection was closed before the first byte of an expected reply. On a kept connection
    /// that is the usual race with the server's idle timeout, and a safe request may be sent again.
    #[error("connection closed before the reply")]
    ClosedIdle,
    /// The connection was closed after the first byte of a reply and before the end of its final
    /// head.
    #[error("connection closed inside the reply head")]
    TruncatedHead,
    /// The connection was closed inside a body of announced length.
    #[error("connection closed with {missing} bytes of the reply body missing")]
    TruncatedBody {
        /// Announced bytes that did not come.
        missing: u64,
    },
    /// The connection was closed inside a chunked body.
    #[error("connection closed inside a chunked reply body")]
    TruncatedChunks {
        /// Bytes of the current chunk that did not come; zero between chunks. How many chunks are
        /// missing is unknown.
        missing_of_chunk: u64,
    },
}

/// Reads the replies of one connection, one after the other.
#[derive(Debug)]
pub struct ResponseReader {
    bounds: Bounds,
    partial: PartialHead,
    stage: Stage,
    /// The kind of request that the current reply answers. Apart from the queue, so that a
    /// connection without pipelining needs no memory.
    expected: Option<RequestKind>,
    expected_later: VecDeque<RequestKind>,
    informational: u16,
    /// Seconds after which the server closes the connection if it is idle; 0: it has not said.
    idle_seconds: u16,
    bytes: MessageBytes,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Head,
    Body(Body),
    Failed(ResponseError),
}

impl ResponseReader {
    /// A reader at the beginning of a connection. It holds no memory until a head comes in parts.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            partial: PartialHead::new(Section::Response),
            stage: Stage::Head,
            expected: None,
            expected_later: VecDeque::new(),
            informational: 0,
            idle_seconds: 0,
            bytes: MessageBytes { header: 0, body: 0, framing: 0 },
        }
    }

    /// Says that a request of that kind was sent behind those before. To be called before its reply
    /// can come; how many are outstanding is the caller's to bound.
    #[inline]
    pub fn expect(&mut self, kind: RequestKind) {
        if self.expected.is_none() {
            self.expected = Some(kind);
        } else {
            self.expected_later.push_back(kind);
        }
    }

    /// Reads up to the next event. Call it again with the rest of the input, which may be empty,
    /// until no event comes.
    ///
    /// # Errors
    /// The first fault; the same again on every later call.
    // Its callers take events apart at once; called, it would hand over each of them through
    // memory, for a fortieth of a request's instructions on the client.
    #[inline(always)]
    pub fn read<'a>(
        &'a mut self,
        input: &'a [u8],
        slots: &'a mut FieldSlots<'a>,
    ) -> Result<Progress<ResponseEvent<'a>>, ResponseError> {
        let Self { bounds, partial, stage, expected, expected_later, informational, idle_seconds, bytes } = self;
        let outcome = match stage {
            Stage::Failed(error) => return Err(*error),
            Stage::Head => {
                // Only an informational head leaves something here: the final one is cleared when
                // its body is read.
                partial.forget_complete();
                read_head(partial, *expected, input, slots, bounds, bytes)
            }
            Stage::Body(body) => {
                partial.forget_complete();
                read_body(body, input, bounds, bytes)
            }
        };
        match &outcome {
            Err(error) => *stage = Stage::Failed(*error),
            Ok(Progress { event: Some(ResponseEvent::Informational(_)), .. }) => {
                *informational += 1;
                if *informational > bounds.informational_max {
                    *stage = Stage::Failed(ResponseError::TooManyInformational);
                    return Err(ResponseError::TooManyInformational);
                }
            }
            Ok(Progress { event: Some(ResponseEvent::Head(head)), .. }) => {
                *stage = Stage::Body(Body::new(head.body));
                if let Some(seconds) = head.idle_seconds {
                    *idle_seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
                }
            }
            Ok(Progress { event: Some(ResponseEvent::End(_)), .. }) => {
                *stage = Stage::Head;
                *expected = expected_later.pop_front();
                *informational = 0;
            }
            Ok(_) => {}
        }
        outcome
    }

    /// Seconds after which the server closes the connection if it is idle, as its latest Keep-Alive
    /// field says.
    #[inline]
    #[must_use]
    pub const fn idle_seconds(&self) -> Option<u16> {
        if self.idle_seconds == 0 { None } else { Some(self.idle_seconds) }
    }

    /// The fault for which a reply was refused.
    #[must_use]
    pub const fn fault(&self) -> Option<ResponseError> {
        match self.stage {
            Stage::Failed(error) => Some(error),
            Stage::Head | Stage::Body(_) => None,
        }
    }

    /// The reader's bounds.
    #[must_use]
    pub const fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The bytes so far of a head that is not whole.
    #[must_use]
    pub fn head_so_far(&self) -> &[u8] {
        self.partial.so_far()
    }

    /// Whether no byte of a reply was read since the last one ended.
    #[must_use]
    pub const fn idle(&self) -> bool {
        matches!(self.stage, Stage::Head) && self.partial.is_empty() && self.informational == 0
    }

    /// The bytes of the reply being read, as far as they were understood; for a report on one that
    /// failed.
    #[must_use]
    pub const fn bytes(&self) -> MessageBytes {
        self.bytes
    }

    /// Says that no more bytes will come. `Some`: that completes a reply whose body ends with the
    /// connection, as if [`ResponseEvent::End`] had come. `None`: no reply was expected.
    ///
    /// # Errors
    /// When an expected reply is missing or incomplete, or was refused before. Replies expected
    /// behind one that is completed here never come.
    pub fn finish(&mut self) -> Result<Option<MessageBytes>, ResponseError> {
        let error = match self.stage {
            Stage::Failed(error) => error,
            Stage::Body(Body::UntilClose | Body::Length(0)) => {
                self.stage = Stage::Head;
                self.expected = self.expected_later.pop_front();
                self.informational = 0;
                return Ok(Some(std::mem::take(&mut self.bytes)));
            }
            Stage::Body(Body::Length(missing)) => ResponseError::TruncatedBody { missing },
            Stage::Body(Body::Chunked(decoder)) => {
                ResponseError::TruncatedChunks { missing_of_chunk: decoder.missing_of_chunk() }
            }
            Stage::Head if self.expected.is_none() => return Ok(None),
            Stage::Head if self.idle() => ResponseError::ClosedIdle,
            Stage::Head => ResponseError::TruncatedHead,
        };
        self.stage = Stage::Failed(error);
        Err(error)
    }

    /// Bytes of memory held for heads that came in parts.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.partial.retained_bytes()
    }
}

#[inline]
fn read_head<'a>(
    partial: &'a mut PartialHead,
    expected: Option<RequestKind>,
    input: &'a [u8],
    slots: &'a mut FieldSlots<'a>,
    bounds: &Bounds,
    bytes: &mut MessageBytes,
) -> Result<Progress<ResponseEvent<'a>>, ResponseError> {
    if input.is_empty() {
        return Ok(Progress { consumed: 0, event: None });
    }
    let kind = expected.ok_or(ResponseError::Unsolicited)?;
    let Progress { consumed, event } = partial.read(input, slots, bounds, parse)?;
    let Some((head, length)) = event else {
        return Ok(Progress { consumed, event: None });
    };
    bytes.header += length as u64;
    let head = accept(head, kind, bounds)?;
    let event = match head.status {
        101 if kind != RequestKind::Upgrade => return Err(ResponseError::UnaskedSwitch),
        100 | 102..=199 => ResponseEvent::Informational(head),
        _ => ResponseEvent::Head(head),
    };
    Ok(Progress { consumed, event: Some(event) })
}

/// A head that is well-formed, before its fields are judged.
struct Parsed<'a> {
    status: u16,
    reason: &'a str,
    version: Version,
    fields: Fields<'a>,
}

/// The fast way: one pass of `httparse` over a head that is there as a whole.
#[inline(always)]
fn parse<'a>(bytes: &'a [u8], slots: &'a mut Slots<'a>, bounds: &Bounds) -> Option<(Parsed<'a>, usize)> {
    let mut response = httparse::Response::new(&mut []);
    let config = httparse::ParserConfig::default();
    let outcome = config.parse_response_with_uninit_headers(&mut response, bytes, slots.first(bounds.fields_max));
    let Ok(httparse::Status::Complete(length)) = outcome else {
        return None;
    };
    let parsed = Parsed {
        status: response.code?,
        reason: response.reason?,
        version: Version::from_minor(response.version?),
        fields: Fields(response.headers),
    };
    // `httparse` skips empty lines before a status line and lets codes below 100 pass; neither is
    // in the grammar.
    let is_strict = bytes[0] == b'H' && parsed.status >= 100 && is_strict(&bytes[..length], parsed.fields, bounds);
    is_strict.then_some((parsed, length))
}

/// Judges the framing (RFC 9112, 6.3).
#[inline]
fn accept<'a>(parsed: Parsed<'a>, kind: RequestKind, bounds: &Bounds) -> Result<ResponseHead<'a>, ResponseError> {
    let Parsed { status, reason, version, fields } = parsed;
    let survey = match Survey::of(fields, version) {
        Err(_) if bounds.is_lenient => Survey::lenient(fields)?,
        survey => survey?,
    };
    let body = match (kind, status) {
        (RequestKind::Head, _) | (_, 100..=199 | 204 | 304) | (RequestKind::Connect, 200..=299) => BodyFraming::None,
        _ if survey.chunked => BodyFraming::Chunked,
        _ => survey.content_length.map_or(BodyFraming::UntilClose, BodyFraming::Length),
    };
    let keep_alive = survey.persists(version) && body != BodyFraming::UntilClose;
    let idle_seconds = survey.idle_seconds;
    Ok(ResponseHead { status, reason, version, fields, body, keep_alive, idle_seconds })
}

#[inline]
fn read_body<'a>(
    body: &mut Body,
    input: &'a [u8],
    bounds: &Bounds,
    bytes: &mut MessageBytes,
) -> Result<Progress<ResponseEvent<'a>>, ResponseError> {
    let Progress { consumed, event } = body.read(input, bounds)?;
    let data_bytes = match event {
        Some(Piece::Data(data)) => data.len(),
        _ => 0,
    };
    bytes.body += data_bytes as u64;
    bytes.framing += (consumed - data_bytes) as u64;
    let event = event.map(|piece| match piece {
        Piece::Data(data) => ResponseEvent::Body(data),
        Piece::End => ResponseEvent::End(std::mem::take(bytes)),
    });
    Ok(Progress { consumed, event })
}
