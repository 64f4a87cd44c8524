//! Reading requests, the server's side of a connection.

use crate::authority::{self, HostFault};
use crate::body::{Body, Piece};
use crate::chunked::ChunkFault;
use crate::fields::{FieldSlots, Fields, Slots};
use crate::framing::{BodyFraming, FramingFault, Survey, Version};
use crate::partial::{PartialHead, is_strict};
use crate::scan::{HeadFault, Section};
use crate::{Bounds, Method, Progress};

/// Reads the requests of one connection, one after the other.
#[derive(Debug)]
pub struct RequestReader {
    bounds: Bounds,
    partial: PartialHead,
    stage: Stage,
    /// Bytes of the empty lines before the current request; odd when a CR still waits for its LF.
    empty_line_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    Head,
    Body(Body),
    Failed(RequestError),
}

/// An event of a [`RequestReader`]: for each request one `Head`, any number of `Body`, one `End`.
#[derive(Debug)]
pub enum RequestEvent<'a> {
    /// The head of a request.
    Head(RequestHead<'a>),
    /// Some bytes of its body, never none.
    Body(&'a [u8]),
    /// The request is complete; what follows is the next one.
    End,
}

/// The head of a request whose form, Host and framing are in order.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'a> {
    /// The method.
    pub method: Method<'a>,
    /// The request target exactly as sent: visible ASCII, in a form for [`target`](crate::target)
    /// to tell.
    pub target: &'a [u8],
    /// The protocol version.
    pub version: Version,
    /// The field lines.
    pub fields: Fields<'a>,
    /// How the body ends.
    pub body: BodyFraming,
    host_field: Option<&'a str>,
    keep_alive: bool,
    expects_continue: bool,
}

impl<'a> RequestHead<'a> {
    /// A head of HTTP/2, which was checked. `host` is the authority.
    pub(crate) const fn of_stream(
        method: Method<'a>,
        target: &'a [u8],
        fields: Fields<'a>,
        body: BodyFraming,
        host: Option<&'a str>,
        expects_continue: bool,
    ) -> Self {
        let version = Version::Http2;
        Self { method, target, version, fields, body, host_field: host, keep_alive: true, expects_continue }
    }

    /// The host, with its port if given, that the request is for: that of the target in absolute
    /// form, which overrides the Host field (RFC 9112, 3.2.2), else that of the field. It may be
    /// empty; only HTTP/1.0 can do without.
    #[inline]
    #[must_use]
    pub fn host(&self) -> Option<&'a str> {
        if self.target.starts_with(b"/") {
            return self.host_field;
        }
        match authority::of_absolute_target(self.target) {
            Some(authority) => authority::check(authority),
            None => self.host_field,
        }
    }

    /// The value of the first field line of that name, in whatever case.
    #[inline]
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.fields.get(name)
    }

    /// Whether the client is ready to send another request on this connection (RFC 9112, 9.3).
    #[inline]
    #[must_use]
    pub const fn keep_alive(&self) -> bool {
        self.keep_alive
    }

    /// Whether the client waits for 100 (Continue) before it sends the body. Never so for HTTP/1.0,
    /// where the expectation is to be ignored, nor without a body (RFC 9110, 10.1.1).
    #[inline]
    #[must_use]
    pub const fn expects_continue(&self) -> bool {
        self.expects_continue
    }
}

/// Why a request is refused. The connection cannot be used for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The head is malformed or too large.
    #[error("request head: {0}")]
    Head(#[from] HeadFault),
    /// More empty lines before the request than allowed.
    #[error("too many empty lines before the request")]
    EmptyLines,
    /// The Host field is missing, repeated or invalid.
    #[error(transparent)]
    Host(#[from] HostFault),
    /// The length of the body cannot be trusted.
    #[error("request framing: {0}")]
    Framing(#[from] FramingFault),
    /// The chunked body is malformed.
    #[error("request body: {0}")]
    Chunk(#[from] ChunkFault),
    /// The connection was closed inside the head.
    #[error("connection closed inside the request head")]
    TruncatedHead,
    /// The connection was closed inside the body.
    #[error("connection closed inside the request body")]
    TruncatedBody,
}

impl RequestError {
    /// The status code to answer with before closing.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::Head(HeadFault::StartLineTooLong) => 414,
            Self::Head(HeadFault::TooLarge | HeadFault::TooManyFields)
            | Self::Chunk(ChunkFault::Trailers(HeadFault::TooLarge | HeadFault::TooManyFields)) => 431,
            Self::Head(HeadFault::UnsupportedVersion) => 505,
            Self::Framing(FramingFault::UnsupportedCoding) => 501,
            _ => 400,
        }
    }
}

impl RequestReader {
    /// A reader at the beginning of a connection. It holds no memory until a head comes in parts.
    #[must_use]
    pub const fn new(bounds: Bounds) -> Self {
        Self { bounds, partial: PartialHead::new(Section::Request), stage: Stage::Head, empty_line_bytes: 0 }
    }

    /// Reads up to the next event. Call it again with the rest of the input, which may be empty,
    /// until no event comes.
    ///
    /// # Errors
    /// The first fault; the same again on every later call.
    #[inline]
    pub fn read<'a>(
        &'a mut self,
        input: &'a [u8],
        slots: &'a mut FieldSlots<'a>,
    ) -> Result<Progress<RequestEvent<'a>>, RequestError> {
        let Self { bounds, partial, stage, empty_line_bytes } = self;
        let outcome = match stage {
            Stage::Failed(error) => return Err(*error),
            Stage::Head => read_head(partial, empty_line_bytes, input, slots, bounds),
            Stage::Body(body) => {
                partial.forget_complete();
                read_body(body, input, bounds)
            }
        };
        match &outcome {
            Err(error) => *stage = Stage::Failed(*error),
            Ok(Progress { event: Some(RequestEvent::Head(head)), .. }) => {
                *stage = Stage::Body(Body::new(head.body));
                *empty_line_bytes = 0;
            }
            Ok(Progress { event: Some(RequestEvent::End), .. }) => *stage = Stage::Head,
            Ok(_) => {}
        }
        outcome
    }

    /// Whether nothing of a request was read since the last one ended: an end of input is no loss
    /// then.
    #[must_use]
    pub const fn idle(&self) -> bool {
        matches!(self.stage, Stage::Head) && self.partial.is_empty() && self.empty_line_bytes.is_multiple_of(2)
    }

    /// Whether all of a head but nothing or not all of its body was read.
    #[must_use]
    pub const fn in_body(&self) -> bool {
        matches!(self.stage, Stage::Body(_))
    }

    /// Says that no more bytes will come.
    ///
    /// # Errors
    /// When a request was begun and not finished, or was refused before.
    pub const fn finish(&self) -> Result<(), RequestError> {
        match self.stage {
            Stage::Failed(error) => Err(error),
            Stage::Body(Body::Length(0)) => Ok(()),
            Stage::Body(_) => Err(RequestError::TruncatedBody),
            Stage::Head if self.idle() => Ok(()),
            Stage::Head => Err(RequestError::TruncatedHead),
        }
    }

    /// Bytes of memory held for heads that came in parts.
    #[must_use]
    pub const fn retained_bytes(&self) -> usize {
        self.partial.retained_bytes()
    }
}

fn read_head<'a>(
    partial: &'a mut PartialHead,
    empty_line_bytes: &mut u32,
    input: &'a [u8],
    slots: &'a mut FieldSlots<'a>,
    bounds: &Bounds,
) -> Result<Progress<RequestEvent<'a>>, RequestError> {
    let skipped = if partial.is_empty() { skip_empty_lines(input, empty_line_bytes, bounds)? } else { 0 };
    let input = &input[skipped..];
    if input.is_empty() {
        return Ok(Progress { consumed: skipped, event: None });
    }
    let Progress { consumed, event } = partial.read(input, slots, bounds, parse)?;
    let event = match event {
        Some((parsed, _)) => Some(RequestEvent::Head(accept(parsed)?)),
        None => None,
    };
    Ok(Progress { consumed: skipped + consumed, event })
}

/// RFC 9112, 2.2: some clients send a superfluous CRLF behind a body. How many bytes of the input
/// are empty lines.
#[inline]
fn skip_empty_lines(input: &[u8], seen: &mut u32, bounds: &Bounds) -> Result<usize, RequestError> {
    for (index, &byte) in input.iter().enumerate() {
        let lf_is_due = !seen.is_multiple_of(2);
        match byte {
            b'\r' if !lf_is_due && *seen / 2 >= u32::from(bounds.empty_lines_max) => {
                return Err(RequestError::EmptyLines);
            }
            b'\r' if !lf_is_due => *seen += 1,
            b'\n' if lf_is_due => *seen += 1,
            b'\n' => return Err(HeadFault::BareLf.into()),
            _ if lf_is_due => return Err(HeadFault::BareCr.into()),
            _ => return Ok(index),
        }
    }
    Ok(input.len())
}

/// A head that is well-formed, before its fields are judged.
struct Parsed<'a> {
    method: &'a str,
    target: &'a str,
    version: Version,
    fields: Fields<'a>,
}

/// The fast way: one pass of `httparse` over a head that is there as a whole.
#[inline]
fn parse<'a>(bytes: &'a [u8], slots: &'a mut Slots<'a>, bounds: &Bounds) -> Option<(Parsed<'a>, usize)> {
    let mut request = httparse::Request::new(&mut []);
    let outcome = request.parse_with_uninit_headers(bytes, slots.first(bounds.fields_max));
    let Ok(httparse::Status::Complete(length)) = outcome else {
        return None;
    };
    let parsed = Parsed {
        method: request.method?,
        target: request.path?,
        version: Version::from_minor(request.version?),
        fields: Fields(request.headers),
    };
    // `httparse` lets UTF-8 pass; a URI is ASCII (RFC 3986, 2).
    (parsed.target.is_ascii() && is_strict(&bytes[..length], parsed.fields, bounds)).then_some((parsed, length))
}

/// Judges Host and framing.
#[inline]
fn accept(parsed: Parsed<'_>) -> Result<RequestHead<'_>, RequestError> {
    let Parsed { method, target, version, fields } = parsed;
    let survey = Survey::of(fields, version)?;
    let host_field = match survey.host {
        _ if survey.repeated_host => return Err(HostFault::Repeated.into()),
        Some(value) => Some(authority::check(value).ok_or(HostFault::Invalid)?),
        None if version == Version::Http11 => return Err(HostFault::Missing.into()),
        None => None,
    };
    let body = match survey.content_length {
        _ if survey.chunked => BodyFraming::Chunked,
        Some(bytes) => BodyFraming::Length(bytes),
        None => BodyFraming::None,
    };
    let has_body = !matches!(body, BodyFraming::None | BodyFraming::Length(0));
    Ok(RequestHead {
        method: Method::from_name(method),
        target: target.as_bytes(),
        version,
        fields,
        body,
        host_field,
        keep_alive: survey.persists(version),
        expects_continue: survey.expects_continue && has_body && version == Version::Http11,
    })
}

#[inline]
fn read_body<'a>(
    body: &mut Body,
    input: &'a [u8],
    bounds: &Bounds,
) -> Result<Progress<RequestEvent<'a>>, RequestError> {
    let Progress { consumed, event } = body.read(input, bounds)?;
    let event = event.map(|piece| match piece {
        Piece::Data(data) => RequestEvent::Body(data),
        Piece::End => RequestEvent::End,
    });
    Ok(Progress { consumed, event })
}
