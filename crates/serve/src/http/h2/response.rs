//! Encoding a response: its head, and as much of its body as goes at once.

use thalweg_wire::h2::{Connection, HEAD_LEN};

use super::batch::Batch;
use super::body::BodyRest;
use super::fields::{rendered_block, write_block};
use super::stream::StreamWork;
use crate::date_cache::DateCache;
use crate::http::response::{Body, Encoder, Response, ResponseBytes};
use crate::http::services::Scratch;

/// A body in memory that is no longer than this leaves at once, in one frame, whatever the other
/// streams are about to send.
const SHORT_BYTES: usize = 16 << 10;

/// Encodes the response on one stream.
pub(super) struct ResponseEncoder<'e> {
    connection: &'e mut Connection<StreamWork>,
    stream: u32,
    batch: &'e mut Batch,
    scratch: &'e mut Scratch,
    /// The rest of the body, which did not go at once.
    rest: Option<BodyRest>,
    bytes: ResponseBytes,
}

impl<'e> ResponseEncoder<'e> {
    /// An encoder that has encoded nothing.
    #[inline]
    pub(super) fn new(
        connection: &'e mut Connection<StreamWork>,
        stream: u32,
        batch: &'e mut Batch,
        scratch: &'e mut Scratch,
    ) -> Self {
        let bytes = ResponseBytes { bytes: 0, body_bytes: 0, is_open: false };
        Self { connection, stream, batch, scratch, rest: None, bytes }
    }

    /// The stream, the rest of the body, and the bytes that are in the batch.
    #[inline]
    pub(super) fn into_parts(self) -> (u32, Option<BodyRest>, ResponseBytes) {
        (self.stream, self.rest, self.bytes)
    }

    fn head(&mut self, response: &mut Response<'_>, ends: bool, date_cache: &DateCache) {
        let (out, stream) = (self.batch.out(), self.stream);
        let before = out.len();
        match response {
            Response::Whole(object) if !object.is_stream() => {
                self.connection.headers(stream, rendered_block(object, date_cache), ends, out);
            }
            response => {
                let Scratch { block, value, .. } = &mut *self.scratch;
                block.clear();
                write_block(response, date_cache, block, value);
                self.connection.headers(stream, block, ends, out);
            }
        }
        self.bytes.bytes = (out.len() - before) as u64;
    }

    /// Sends a whole short body, if the windows let it. Returns whether it has.
    fn send_short(&mut self, body: &[u8]) -> bool {
        if body.len() > SHORT_BYTES || body.len() > self.connection.sendable(self.stream) as usize {
            return false;
        }
        let head = self.connection.data(self.stream, body.len() as u32, true);
        let out = self.batch.out();
        out.extend_from_slice(&head);
        out.extend_from_slice(body);
        self.bytes.bytes += (HEAD_LEN + body.len()) as u64;
        self.bytes.body_bytes = body.len() as u64;
        true
    }
}

impl Encoder for ResponseEncoder<'_> {
    #[inline]
    fn encode(&mut self, mut response: Response<'_>, date_cache: &DateCache) {
        let is_bodiless = response.is_bodiless();
        self.head(&mut response, is_bodiless, date_cache);
        if is_bodiless {
            return;
        }
        let body = response.into_body();
        let has_gone = match &body {
            Body::Memory(bytes, span) => self.send_short(&bytes[span.clone()]),
            Body::Text(text) => self.send_short(text.as_bytes()),
            _ => false,
        };
        if !has_gone {
            self.rest = Some(BodyRest::of(body));
            self.bytes.is_open = true;
        }
    }
}
