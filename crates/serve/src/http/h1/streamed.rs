//! The body of a response whose bytes come in later: its framing (RFC 9112, 6).
//!
//! A body of known length is sent as it comes, piece by piece; a piece of a file by the kernel. One
//! of unknown length goes out in the chunked coding, or, to a client that does not know that, until
//! the end of the connection.

use std::rc::Rc;

use thalweg_sys::SocketId;
use thalweg_wire::encode::push_hex;

use crate::content::relay::{BodyReader, Piece};
use crate::http::h1::batch::{Batch, BodyStream};

/// The body of a response under way.
pub(crate) struct StreamedBody {
    reader: BodyReader,
    is_chunked: bool,
    /// The number of the mount whose rate it counts for.
    mount: u16,
    /// A piece was put in, and its chunk has no end yet.
    is_in_chunk: bool,
}

/// How far a body has come after something of it was put into a batch.
pub(crate) enum Streamed {
    /// More follows; the connection is woken if nothing was put in.
    More { body_bytes: u64 },
    /// All of it was put in.
    End { body_bytes: u64 },
    /// It could not be delivered, for this reason.
    Failed(Rc<str>),
}

impl StreamedBody {
    pub(crate) fn new(BodyStream { reader, is_chunked }: BodyStream, mount: u16) -> Self {
        Self { reader, is_chunked, mount, is_in_chunk: false }
    }

    /// Puts what has come in behind the bytes of a batch, until that is full. `waiter` is woken if
    /// there is nothing.
    pub(crate) fn put(&mut self, batch: &mut Batch<'_>, waiter: SocketId) -> Streamed {
        let mut body_bytes = 0;
        batch.mount = self.mount;
        while !batch.is_full() {
            match self.reader.next(waiter) {
                Piece::Bytes(bytes) => {
                    body_bytes += bytes.len() as u64;
                    self.begin_chunk(bytes.len() as u64, batch);
                    batch.append(&[&bytes]);
                    self.is_in_chunk = self.is_chunked;
                }
                Piece::File(span) => {
                    body_bytes += span.len;
                    self.begin_chunk(span.len, batch);
                    batch.append_file(span);
                    self.is_in_chunk = self.is_chunked;
                }
                Piece::Pending => break,
                Piece::End => {
                    if self.is_chunked {
                        batch.append(&[if self.is_in_chunk { b"\r\n" } else { b"" }, b"0\r\n\r\n"]);
                    }
                    return Streamed::End { body_bytes };
                }
                // The bytes before it are of no use to a client that has to throw them away.
                Piece::Failed(reason) => return Streamed::Failed(reason),
            }
        }
        Streamed::More { body_bytes }
    }

    /// Ends the chunk before, and begins one of so many bytes.
    fn begin_chunk(&mut self, bytes: u64, batch: &mut Batch<'_>) {
        if !self.is_chunked {
            return;
        }
        let mut size = Vec::with_capacity(20);
        if self.is_in_chunk {
            size.extend_from_slice(b"\r\n");
        }
        push_hex(&mut size, bytes);
        batch.append(&[&size, b"\r\n"]);
    }
}
