//! Responses independent of their encoding: a status, fields, and a body.
//!
//! A response writes its fields to a [`FieldSink`], which each protocol implements: lines in
//! HTTP/1, compressed field sections in later versions. Framing is the protocol's, too.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use percent_encoding::percent_encode;
use thalweg_sys::FileSpan;
use thalweg_wire::RequestHead;
use thalweg_wire::date;
use thalweg_wire::digest::{Algorithm, push_repr_digest};
use thalweg_wire::encode::{FieldBlock, push_decimal};
use thalweg_wire::range::{ByteRange, push_content_range, push_unsatisfied_content_range};
use thalweg_wire::status;
use thalweg_wire::validator::EntityTag;

use crate::content::forwarded::Forwarded;
use crate::content::name::PATH_ESCAPED;
use crate::content::object::{Object, Source};
use crate::content::policy::PreflightFields;
use crate::content::relay::BodyReader;
use crate::date_cache::DateCache;
use crate::http::multipart::Multipart;

/// Takes the fields of a response, in their order.
pub(crate) trait FieldSink {
    /// A field whose value is written in place.
    fn field_with(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>));

    /// Fields that were checked and encoded before.
    fn block(&mut self, fields: &FieldBlock);

    /// A field.
    fn field(&mut self, name: &str, value: &[u8]) {
        self.field_with(name, |out| out.extend_from_slice(value));
    }
}

/// Takes responses: a protocol encodes them at once, so that a response borrows what it is made of.
pub(crate) trait Encoder {
    /// Encodes a response behind those before it.
    fn encode(&mut self, response: Response<'_>, date_cache: &DateCache);
}

/// A response.
pub(crate) enum Response<'o> {
    /// 200 to a GET for the whole. A protocol may keep what it renders of it with the object.
    Whole(&'o mut Object),
    /// 200 or 206 with as much of an object as was selected.
    Selected(Selected<'o>),
    /// 304.
    NotModified(&'o Object),
    /// 200 with a short text that is made for this response.
    Text(Text<'o>),
    /// A response of an origin as it is.
    Relayed(Relayed<'o>),
    /// Any other: an error or a redirect with a short page, or 204.
    Page(Page<'o>),
}

/// As much of an object as a request selects.
pub(crate) struct Selected<'o> {
    pub(crate) object: &'o Object,
    pub(crate) part: Part<'o>,
    /// The response is to a HEAD: its body is not sent. RFC 9110, 14.2 has it be about the whole.
    pub(crate) is_head: bool,
    /// The digest to be sent, which the object has.
    pub(crate) digest: Option<Algorithm>,
}

/// How much of an object.
pub(crate) enum Part<'o> {
    /// All of it.
    Whole,
    /// One range.
    Range(ByteRange),
    /// Several ranges.
    Ranges(Multipart<'o>),
}

/// A short text, as bytes of no particular type.
pub(crate) struct Text<'o> {
    pub(crate) text: &'o str,
    pub(crate) is_head: bool,
}

/// A response of an origin.
pub(crate) struct Relayed<'o> {
    pub(crate) status: u16,
    /// Its fields, without Content-Length.
    pub(crate) fields: &'o FieldBlock,
    /// Bytes of the content, if that is known; those that it would have, if it has none.
    pub(crate) length: Option<u64>,
    /// The content; `None` if there is none.
    pub(crate) body: Option<BodyReader>,
    /// As in a page.
    pub(crate) hsts: Option<&'o FieldBlock>,
}

/// A page that describes its status, or an object that the configuration names for it.
pub(crate) struct Page<'o> {
    pub(crate) status: u16,
    pub(crate) is_head: bool,
    pub(crate) field: PageField<'o>,
    /// The field that tells browsers to use TLS alone, in a response over TLS. Objects have it
    /// among their own.
    pub(crate) hsts: Option<&'o FieldBlock>,
    /// The body, instead of the server's own text. The response describes only its type, since it
    /// is not the requested resource.
    pub(crate) object: Option<&'o Object>,
}

/// The field that belongs to a status.
#[derive(Clone, Copy)]
pub(crate) enum PageField<'o> {
    None,
    /// The methods that are served.
    Allow,
    /// The methods that an origin is asked by.
    AllowOf(&'o str),
    /// The methods, and what scripts of other sites may do.
    Preflight {
        /// The methods that an origin is asked by; `None`: those that are served.
        allowed: Option<&'o str>,
        fields: &'o PreflightFields,
    },
    /// How the cache tier came to it.
    CacheStatus(&'o str),
    /// When to try again.
    RetryAfter {
        seconds: u64,
    },
    /// The choice depended on Accept-Encoding.
    Vary,
    /// Another address, which consists of characters of a URI.
    Address(&'o [u8]),
    /// The same place with a slash behind it, and the query.
    Location {
        folder: &'o [u8],
        query: Option<&'o [u8]>,
    },
    /// The same place over TLS. Path and query are those of the request, which were checked to be
    /// characters of a URI.
    SecureLocation {
        host: &'o [u8],
        port: u16,
        path: &'o [u8],
        query: Option<&'o [u8]>,
    },
    /// The length of an object that has none of the ranges.
    UnsatisfiedRange {
        length: u64,
    },
}

/// The bytes of a body.
pub(crate) enum Body<'o> {
    /// None.
    Empty,
    /// In memory: a part of these bytes.
    Memory(&'o Rc<Vec<u8>>, Range<usize>),
    /// Made for this response.
    Text(String),
    /// A span of a file.
    File(FileSpan),
    /// Several ranges of an object.
    Parts(&'o Object, Multipart<'o>),
    /// Coming in later.
    Stream(BodyReader),
}

/// Summary of a response for accounting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Summary {
    pub(crate) status: u16,
    /// The number of the mount.
    pub(crate) mount: u16,
    pub(crate) delivery: Delivery,
}

/// Bytes of a response in its batch, and those of them that belong to its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ResponseBytes {
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
    /// More of the body follows ([`Recorder::extend`]).
    pub(crate) is_open: bool,
}

/// Takes notice of all that is sent, in its order, for accounting.
pub(crate) trait Recorder {
    /// Records an encoded response on a stream (0 in HTTP/1), to this request or to malformed
    /// input. Its bytes are counted only if `bytes` is called.
    fn record(
        &mut self,
        stream: u32,
        request: Option<&RequestHead<'_>>,
        summary: Summary,
        bytes: &dyn Fn() -> ResponseBytes,
    );

    /// So many bytes more of the response on a stream, so many of them of the body; more may
    /// follow, or not.
    fn extend(&mut self, stream: u32, bytes: u64, body_bytes: u64, is_last: bool);

    /// Bytes that belong to no response.
    fn skip(&mut self, bytes: u64);

    /// The rest of the response on a stream will not be sent.
    fn cut(&mut self, stream: u32);

    /// The rest of a response cannot be sent, for this reason, which the operator is told.
    fn failed(&mut self, reason: &str);
}

/// The reason for which a response is cut off whose origin does not go on.
pub(crate) const LATE_ORIGIN: &str = "the origin did not deliver the rest of the response in time";

/// How much of an object a response delivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Delivery {
    /// Nothing.
    #[default]
    Nothing,
    /// A part that is not the last.
    Part,
    /// The whole, or a part with the last byte in it.
    End,
}

/// The port of `https` (RFC 9110, 4.2.2).
const HTTPS_PORT: u16 = 443;

/// Methods that are supported.
const ALLOW: &[u8] = b"GET, HEAD, OPTIONS";

/// `Retry-After` of a response that failed for lack of descriptors or memory.
pub(crate) const RETRY_AFTER_S: u64 = 1;

impl Summary {
    /// Nothing of an object, accounted to this mount.
    pub(crate) fn nothing(status: u16, mount: u16) -> Self {
        Self { status, mount, delivery: Delivery::Nothing }
    }
}

impl<'o> Response<'o> {
    /// The status code.
    pub(crate) fn status(&self) -> u16 {
        match self {
            Self::Whole(_) => 200,
            Self::Selected(selected) if matches!(selected.part, Part::Whole) => 200,
            Self::Selected(_) => 206,
            Self::NotModified(_) => 304,
            Self::Text(_) => 200,
            Self::Relayed(relayed) => relayed.status,
            Self::Page(page) => page.status,
        }
    }

    /// Writes all fields but those of framing and of the connection.
    pub(crate) fn write_fields(&self, date_cache: &DateCache, out: &mut impl FieldSink) {
        let second = date_cache.second();
        match self {
            Self::Whole(object) if object.as_forwarded().is_some() => {
                return write_forwarded_fields(object, &Part::Whole, second, out);
            }
            Self::Selected(selected) if selected.object.as_forwarded().is_some() => {
                return write_forwarded_fields(selected.object, &selected.part, second, out);
            }
            Self::NotModified(object) if let Some(forwarded) = object.as_forwarded() => {
                out.block(&forwarded.fields_of_304);
                return write_age(forwarded, second, out);
            }
            Self::Relayed(relayed) => return relayed.write_fields(out),
            _ => {}
        }
        out.field("Date", date_cache.text());
        out.field("Server", b"thalweg");
        match self {
            Self::Whole(object) => write_object_fields(object, &Part::Whole, None, out),
            Self::Selected(selected) => {
                write_object_fields(selected.object, &selected.part, selected.digest, out);
            }
            Self::Relayed(_) => {}
            Self::NotModified(object) => {
                // RFC 9110, 15.4.5: the validators, and nothing that describes the body.
                write_validators(object, out);
                out.block(&object.metadata().policy.fields_of_304);
            }
            Self::Text(text) => {
                out.field("Content-Type", b"application/octet-stream");
                write_length(text.text.len() as u64, out);
            }
            Self::Page(page) => page.write_fields(out),
        }
    }

    /// Whether the length of the body is known only at its end.
    pub(crate) fn is_of_unknown_length(&self) -> bool {
        match self {
            Self::Whole(object) => object.is_made(),
            Self::Selected(Selected { is_head: false, object, .. }) => object.is_made(),
            Self::Relayed(Relayed { length: None, body: Some(_), .. }) => true,
            _ => false,
        }
    }

    /// Whether there is no byte of a body.
    pub(crate) fn is_bodiless(&self) -> bool {
        match self {
            Self::Whole(object) => is_empty(object),
            Self::Selected(Selected { is_head, part: Part::Whole, object, .. }) => *is_head || is_empty(object),
            Self::Selected(selected) => selected.is_head,
            Self::NotModified(_) => true,
            Self::Text(text) => text.is_head,
            Self::Relayed(relayed) => relayed.body.is_none(),
            Self::Page(page) => {
                let is_empty = page.object.is_some_and(is_empty);
                page.is_head || page.status == 204 || is_empty
            }
        }
    }

    /// The body.
    pub(crate) fn into_body(self) -> Body<'o> {
        match self {
            Self::Whole(object) => body_of(object, 0..object.length()),
            Self::Selected(selected) => match selected.part {
                _ if selected.is_head => Body::Empty,
                Part::Whole => body_of(selected.object, 0..selected.object.length()),
                Part::Range(range) => body_of(selected.object, range.first..range.last + 1),
                Part::Ranges(multipart) => parts_of(selected.object, multipart),
            },
            Self::NotModified(_) => Body::Empty,
            Self::Text(text) if text.is_head => Body::Empty,
            Self::Text(text) => Body::Text(text.text.to_owned()),
            Self::Relayed(relayed) => relayed.body.map_or(Body::Empty, Body::Stream),
            Self::Page(page) => page.into_body(),
        }
    }
}

impl Relayed<'_> {
    fn write_fields(&self, out: &mut impl FieldSink) {
        out.block(self.fields);
        if let Some(hsts) = self.hsts {
            out.block(hsts);
        }
        // RFC 9110, 8.6.
        if let Some(length) = self.length.filter(|_| self.status != 204) {
            write_length(length, out);
        }
    }
}

impl<'o> Page<'o> {
    fn write_fields(&self, out: &mut impl FieldSink) {
        match self.field {
            PageField::None => {}
            PageField::Allow => out.field("Allow", ALLOW),
            PageField::AllowOf(methods) => out.field("Allow", methods.as_bytes()),
            PageField::Preflight { allowed, fields } => {
                let allowed = allowed.map_or(ALLOW, str::as_bytes);
                out.field("Allow", allowed);
                if !fields.has_methods {
                    out.field("Access-Control-Allow-Methods", allowed);
                }
                out.block(&fields.fields);
            }
            PageField::CacheStatus(text) => out.field("Cache-Status", text.as_bytes()),
            PageField::RetryAfter { seconds } => {
                out.field_with("Retry-After", |out| push_decimal(out, seconds));
            }
            PageField::Vary => out.field("Vary", b"Accept-Encoding"),
            PageField::Address(address) => out.field("Location", address),
            PageField::Location { folder, query } => out.field_with("Location", |out| {
                out.push(b'/');
                percent_encode(folder, PATH_ESCAPED).for_each(|part| out.extend_from_slice(part.as_bytes()));
                out.push(b'/');
                if let Some(query) = query {
                    out.push(b'?');
                    out.extend_from_slice(query);
                }
            }),
            PageField::SecureLocation { host, port, path, query } => out.field_with("Location", |out| {
                out.extend_from_slice(b"https://");
                out.extend_from_slice(host);
                if port != HTTPS_PORT {
                    out.push(b':');
                    push_decimal(out, port.into());
                }
                out.extend_from_slice(if path.is_empty() { b"/" } else { path });
                if let Some(query) = query {
                    out.push(b'?');
                    out.extend_from_slice(query);
                }
            }),
            PageField::UnsatisfiedRange { length } => {
                out.field_with("Content-Range", |out| push_unsatisfied_content_range(out, length));
            }
        }
        if let Some(hsts) = self.hsts {
            out.block(hsts);
        }
        if self.status == 204 {
            return;
        }
        let (content_type, length) = match self.object {
            Some(object) => (object.metadata().content_type.as_bytes(), object.length()),
            None => (&b"text/html; charset=utf-8"[..], page_text(self.status).len() as u64),
        };
        out.field("Content-Type", content_type);
        write_length(length, out);
    }

    fn into_body(self) -> Body<'o> {
        match self.object {
            _ if self.is_head || self.status == 204 => Body::Empty,
            Some(object) => body_of(object, 0..object.length()),
            None => Body::Text(page_text(self.status)),
        }
    }
}

/// Says that a page fits a phone's screen, and is dark where the reader prefers that.
const PAGE_META: &str =
    r#"<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">"#;

fn page_text(status: u16) -> String {
    let reason = status::reason(status);
    format!("<!doctype html>\n{PAGE_META}\n<title>{status} {reason}</title>\n<h1>{status} {reason}</h1>\n")
}

fn is_empty(object: &Object) -> bool {
    object.length() == 0 && !object.is_made()
}

fn body_of(object: &Object, span: Range<u64>) -> Body<'_> {
    match object.source() {
        Source::Memory => {
            let (bytes, begins_at) = object.shared_bytes();
            Body::Memory(bytes, begins_at + span.start as usize..begins_at + span.end as usize)
        }
        Source::File(_) => object.span(span).map_or(Body::Empty, Body::File),
        Source::Fragments(..) | Source::Made(..) => object.reader(span).map_or(Body::Empty, Body::Stream),
    }
}

fn parts_of<'o>(object: &'o Object, multipart: Multipart<'o>) -> Body<'o> {
    let Source::Fragments(fragments, inbox) = object.source() else { return Body::Parts(object, multipart) };
    let length = Some(multipart.content_length());
    Body::Stream(BodyReader::new(multipart.into_reader(Arc::clone(fragments)), length, Arc::clone(inbox)))
}

fn write_length(length: u64, out: &mut impl FieldSink) {
    out.field_with("Content-Length", |out| push_decimal(out, length));
}

/// Writes the fields of a 200 or a 206.
fn write_object_fields(object: &Object, part: &Part<'_>, digest: Option<Algorithm>, out: &mut impl FieldSink) {
    let metadata = object.metadata();
    write_extent_fields(object, part, out);
    write_validators(object, out);
    if let Some(coding) = metadata.coding {
        out.field("Content-Encoding", coding.name().as_bytes());
    }
    if !object.is_made() {
        out.field("Accept-Ranges", b"bytes");
    }
    out.block(&metadata.policy.fields);
    if let Some(algorithm) = digest
        && let Some(digest) = &metadata.digests[algorithm as usize]
    {
        out.field_with("Repr-Digest", |out| push_repr_digest(out, algorithm, digest));
    }
}

/// Writes the fields of a 200 or a 206 with as much of a forwarded object.
fn write_forwarded_fields(object: &Object, part: &Part<'_>, second: i64, out: &mut impl FieldSink) {
    write_extent_fields(object, part, out);
    out.field("Accept-Ranges", b"bytes");
    if let Some(forwarded) = object.as_forwarded() {
        out.block(&forwarded.fields);
        write_age(forwarded, second, out);
    }
}

/// Writes how old a forwarded object is, and how this cache came to it.
fn write_age(forwarded: &Forwarded, second: i64, out: &mut impl FieldSink) {
    out.field_with("Age", |out| push_decimal(out, forwarded.age_s(second)));
    out.field_with("Cache-Status", |out| forwarded.push_cache_status(second, out));
}

/// Writes the type and the length of what is sent, and which part of the whole it is.
fn write_extent_fields(object: &Object, part: &Part<'_>, out: &mut impl FieldSink) {
    match part {
        Part::Ranges(multipart) => out.field_with("Content-Type", |out| multipart.push_content_type(out)),
        // An origin need not tell it.
        _ if object.metadata().content_type.is_empty() => {}
        _ => out.field("Content-Type", object.metadata().content_type.as_bytes()),
    }
    let length = match part {
        Part::Whole if object.is_made() => return,
        Part::Whole => object.length(),
        Part::Range(range) => range.length(),
        Part::Ranges(multipart) => multipart.content_length(),
    };
    write_length(length, out);
    if let Part::Range(range) = part {
        out.field_with("Content-Range", |out| push_content_range(out, *range, object.length()));
    }
}

/// Writes the validators, and which request fields they depend on.
fn write_validators(object: &Object, out: &mut impl FieldSink) {
    let metadata = object.metadata();
    if let Some(second) = metadata.last_modified {
        out.field("Last-Modified", &date::imf_fixdate(second));
    }
    if !metadata.tag.is_empty() {
        out.field_with("ETag", |out| EntityTag { weak: false, opaque: &metadata.tag }.push(out));
    }
    if metadata.varies {
        out.field("Vary", b"Accept-Encoding");
    }
}
