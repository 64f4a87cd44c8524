//! The body of a response whose bytes come in later: its framing (RFC 9112, 6).
//!
//! A body of known length is sent as it comes, piece by piece. One of unknown length goes out in
//! the chunked coding, or, to a client that does not know that, until the end of the connection.

use std::rc::Rc;

use thalweg_sys::SocketId;
use thalweg_wire::encode::push_hex;

use crate::content::stream::{Piece, StreamReader};
use crate::http::h1::batch::{Batch, BodyStream};

/// The body of a response under way.
pub(crate) struct StreamedBody {
    reader: StreamReader,
    is_chunked: bool,
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
    pub(crate) fn new(BodyStream { reader, is_chunked }: BodyStream) -> Self {
        Self { reader, is_chunked }
    }

    /// Puts what has come in into an empty batch, until that is full. `waiter` is woken if there is
    /// nothing.
    pub(crate) fn put(&mut self, batch: &mut Batch<'_>, waiter: SocketId) -> Streamed {
        let mut body_bytes = 0;
        while !batch.is_full() {
            match self.reader.next(waiter) {
                Piece::Bytes(bytes) => {
                    body_bytes += bytes.len() as u64;
                    if self.is_chunked {
                        let mut size = Vec::with_capacity(18);
                        push_hex(&mut size, bytes.len() as u64);
                        batch.append(&[&size, b"\r\n", &bytes, b"\r\n"]);
                    } else {
                        batch.append(&[&bytes]);
                    }
                }
                Piece::Pending => break,
                Piece::End => {
                    if self.is_chunked {
                        batch.append(&[b"0\r\n\r\n"]);
                    }
                    return Streamed::End { body_bytes };
                }
                // The bytes before it are of no use to a client that has to throw them away.
                Piece::Failed(reason) => return Streamed::Failed(reason),
            }
        }
        Streamed::More { body_bytes }
    }
}
