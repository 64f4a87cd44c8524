//! Batches: the responses to requests that came together, encoded one behind the other and sent at
//! once.
//!
//! The response to the most common request, a GET of a whole object on a connection that stays
//! open, is rendered once and kept with the object: status line, fields and, for small objects, the
//! body. Only its `Date` changes, once a second, in place; a forwarded object, whose age changes,
//! is rendered anew then. If it is the only response of a batch, it is sent without a copy.

use std::mem;
use std::rc::Rc;

use memchr::memmem;
use thalweg_reactor::BufferPool;
use thalweg_sys::FileSpan;
use thalweg_wire::{RequestHead, Version};

use crate::content::body::Payload;
use crate::content::object::{Object, Rendering};
use crate::content::relay::BodyReader;
use crate::date_cache::DateCache;
use crate::http::h1::head::{self, HeadLines, Persistence};
use crate::http::response::{Body, Encoder, Response};

/// Responses that come together are gathered up to about this many bytes.
const GATHERED_BYTES_USUAL_MAX: usize = 64 << 10;

/// Room for a rendered head.
const HEAD_BYTES_USUAL: usize = 320;

/// A body whose bytes come in later, and its framing.
pub(crate) struct BodyStream {
    pub(crate) reader: BodyReader,
    pub(crate) is_chunked: bool,
}

/// Responses that are sent next. A file or a body of several parts ends the batch.
pub(crate) struct Batch<'p> {
    pool: &'p mut BufferPool,
    /// How the next response leaves the connection.
    pub(crate) persistence: Persistence,
    payload: Payload,
    /// The number of the mount whose rate the last file counts for.
    pub(crate) mount: u16,
    /// The client understands the chunked coding (RFC 9112, 7.1).
    pub(crate) can_chunk: bool,
    /// The body of the last response.
    stream: Option<BodyStream>,
    /// Bytes of the last response's head, if that was rendered before.
    rendered_head_bytes: Option<usize>,
}

impl<'p> Batch<'p> {
    /// A batch without responses; its buffers come from `pool`.
    pub(crate) fn new(pool: &'p mut BufferPool) -> Self {
        let payload = Payload::NOTHING;
        let persistence = Persistence::Default;
        Self { pool, persistence, payload, mount: 0, can_chunk: true, stream: None, rendered_head_bytes: None }
    }

    /// Begins the response to a request.
    #[inline]
    pub(crate) fn begin(&mut self, request: &RequestHead<'_>, persistence: Persistence) {
        self.persistence = persistence;
        self.can_chunk = request.version == Version::Http11;
    }

    /// The pool of the loop's buffers.
    pub(crate) fn pool(&mut self) -> &mut BufferPool {
        self.pool
    }

    /// Whether nothing is in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.payload.bytes.is_none()
    }

    /// Whether it should be sent before another response is put in.
    pub(crate) fn is_full(&self) -> bool {
        let is_large = |bytes: &Rc<Vec<u8>>| bytes.len() >= GATHERED_BYTES_USUAL_MAX;
        self.payload.file.is_some() || self.stream.is_some() || self.payload.bytes.as_ref().is_some_and(is_large)
    }

    /// Takes out the body of the last response, if that is a stream.
    #[inline]
    pub(crate) fn take_stream(&mut self) -> Option<BodyStream> {
        self.stream.take()
    }

    /// Whether the body of the last response is a stream.
    pub(crate) fn has_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Bytes gathered so far, those of files included.
    pub(crate) fn len(&self) -> u64 {
        self.payload.len()
    }

    /// Bytes of the head of the last response, which begins at a byte.
    pub(crate) fn head_bytes(&self, begins_at: u64) -> u64 {
        let found = || {
            let gathered = self.payload.bytes.as_ref().map_or(&[][..], |bytes| bytes);
            let response = usize::try_from(begins_at).ok().and_then(|at| gathered.get(at..)).unwrap_or_default();
            memmem::find(response, b"\r\n\r\n").map_or(response.len(), |at| at + 4)
        };
        debug_assert!(self.rendered_head_bytes.is_none_or(|bytes| bytes == found()), "a head is as long as it looks");
        self.rendered_head_bytes.unwrap_or_else(found) as u64
    }

    /// Takes the responses out, to be sent.
    pub(crate) fn take_payload(&mut self) -> Payload {
        Payload { mount: self.mount, ..mem::take(&mut self.payload) }
    }

    /// Adds a rendered response; without a copy if it is the first.
    #[inline]
    fn push_rendered(&mut self, object: &mut Object, date_cache: &DateCache) {
        let second = date_cache.second();
        let rendering = object.rendering();
        let is_rendered = rendering.head_bytes != 0;
        if !is_rendered || rendering.second != second {
            // The age of a forwarded object has another number of digits now and then.
            if !is_rendered || object.as_forwarded().is_some() {
                render(object, date_cache);
            } else {
                let rendering = object.rendering();
                // In place, unless a client is still being sent the old second's.
                Rc::make_mut(&mut rendering.bytes)[head::DATE].copy_from_slice(date_cache.text());
                rendering.second = second;
            }
        }
        self.payload.file = object.span(0..object.length());
        let rendering = object.rendering();
        if self.payload.bytes.is_none() {
            self.payload.bytes = Some(Rc::clone(&rendering.bytes));
            self.payload.is_shared = true;
        } else {
            self.buffer().extend_from_slice(&rendering.bytes);
        }
        self.rendered_head_bytes = Some(rendering.head_bytes);
    }

    /// Puts a span of a file behind the bytes; there is none yet.
    pub(crate) fn append_file(&mut self, span: FileSpan) {
        debug_assert!(self.payload.file.is_none(), "a file ends the batch");
        if self.payload.bytes.is_none() {
            self.buffer();
        }
        self.payload.file = Some(span);
    }

    /// Puts bytes behind those that were gathered before.
    pub(crate) fn append(&mut self, pieces: &[&[u8]]) {
        let out = self.buffer();
        pieces.iter().for_each(|piece| out.extend_from_slice(piece));
    }

    /// The buffer to write a response into, behind those that were gathered before.
    fn buffer(&mut self) -> &mut Vec<u8> {
        self.rendered_head_bytes = None;
        if self.payload.bytes.is_none() || self.payload.is_shared {
            let mut own = self.pool.take();
            if let Some(shared) = self.payload.bytes.take() {
                Rc::make_mut(&mut own).extend_from_slice(&shared);
            }
            self.payload.is_shared = false;
            self.payload.bytes = Some(own);
        }
        // A buffer of the pool's has no other owner, so that nothing is copied here.
        Rc::make_mut(self.payload.bytes.get_or_insert_default())
    }
}

impl Encoder for Batch<'_> {
    #[inline]
    fn encode(&mut self, response: Response<'_>, date_cache: &DateCache) {
        match response {
            Response::Whole(object) if self.persistence == Persistence::Default && !object.is_stream() => {
                self.push_rendered(object, date_cache);
            }
            response => self.encode_anew(response, date_cache),
        }
    }
}

impl Batch<'_> {
    /// Writes a response that is not kept.
    #[inline(never)]
    fn encode_anew(&mut self, response: Response<'_>, date_cache: &DateCache) {
        let is_of_unknown_length = response.is_of_unknown_length();
        if is_of_unknown_length && !self.can_chunk {
            // The end of the connection is the end of the body.
            self.persistence = Persistence::Close;
        }
        let (persistence, is_chunked) = (self.persistence, is_of_unknown_length && self.can_chunk);
        let out = self.buffer();
        write_head(out, &response, persistence, is_chunked, date_cache);
        match response.into_body() {
            Body::Empty => {}
            Body::Memory(bytes, span) => out.extend_from_slice(&bytes[span]),
            Body::Text(text) => out.extend_from_slice(text.as_bytes()),
            Body::File(span) => self.payload.file = Some(span),
            Body::Stream(reader) => self.stream = Some(BodyStream { reader, is_chunked }),
            Body::Parts(object, multipart) => match object.bytes_in_memory() {
                Some(bytes) => multipart.write(out, bytes),
                None => {
                    let mut parts = multipart.into_parts(|range| {
                        object.span(range.first..range.last + 1).expect("what is not in memory is in a file")
                    });
                    if let Some((text, file)) = parts.next() {
                        out.extend_from_slice(&text);
                        self.payload.file = file;
                        self.payload.parts = Some(Box::new(parts));
                    }
                }
            },
        }
    }
}

fn write_head(
    out: &mut Vec<u8>,
    response: &Response<'_>,
    persistence: Persistence,
    is_chunked: bool,
    date_cache: &DateCache,
) {
    head::begin(out, response.status());
    response.write_fields(date_cache, &mut HeadLines(out));
    if is_chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    head::end(out, persistence);
}

/// Renders the head of the most common response in front of the body.
#[cold]
fn render(object: &mut Object, date_cache: &DateCache) {
    let (body, body_at) = (Rc::clone(&object.rendering().bytes), object.rendering().head_bytes);
    let body = &body[body_at..];
    let mut bytes = Vec::with_capacity(HEAD_BYTES_USUAL + body.len());
    write_head(&mut bytes, &Response::Whole(object), Persistence::Default, false, date_cache);
    let head_bytes = bytes.len();
    bytes.extend_from_slice(body);
    *object.rendering() = Rendering { bytes: Rc::new(bytes), head_bytes, second: date_cache.second() };
}
