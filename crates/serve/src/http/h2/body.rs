//! The body of a response under way: what is left of it, from memory, from files, or still coming
//! in.

use std::ops::Range;
use std::rc::Rc;

use bytes::Bytes;
use thalweg_sys::{FileSpan, SocketId};

use super::batch::Batch;
use crate::content::body::Parts;
use crate::content::relay::{BodyReader, Piece};
use crate::http::response::Body;

/// The rest of a body.
pub(super) struct BodyRest {
    /// Bytes that leave first.
    memory: Option<Chunk>,
    /// The span of a file behind them.
    file: Option<FileSpan>,
    /// Further parts.
    parts: Option<Box<Parts>>,
    stream: Option<BodyReader>,
}

/// Bytes in memory.
enum Chunk {
    /// A part of these.
    Shared(Rc<Vec<u8>>, Range<usize>),
    /// All of these.
    Own(Bytes),
}

impl Chunk {
    fn whole(bytes: Vec<u8>) -> Self {
        let span = 0..bytes.len();
        Self::Shared(Rc::new(bytes), span)
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Shared(bytes, span) => &bytes[span.clone()],
            Self::Own(bytes) => bytes,
        }
    }

    fn advance(&mut self, sent: usize) {
        match self {
            Self::Shared(_, span) => span.start += sent,
            Self::Own(bytes) => drop(bytes.split_to(sent)),
        }
    }
}

/// The part of a body that can be sent at once.
pub(super) enum Available {
    /// So many bytes; nothing follows them, or something does.
    Bytes { bytes: u64, is_last: bool },
    /// Nothing yet: the connection is woken.
    Pending,
    /// The origin could not deliver the rest, for this reason.
    Failed(Rc<str>),
}

impl BodyRest {
    /// A body of which nothing has been sent.
    pub(super) fn of(body: Body<'_>) -> Self {
        let nothing = Self { memory: None, file: None, parts: None, stream: None };
        match body {
            Body::Empty => nothing,
            Body::Memory(bytes, span) => Self { memory: Some(Chunk::Shared(Rc::clone(bytes), span)), ..nothing },
            Body::Text(text) => Self { memory: Some(Chunk::whole(text.into_bytes())), ..nothing },
            Body::File(span) => Self { file: Some(span), ..nothing },
            Body::Stream(reader) => Self { stream: Some(reader), ..nothing },
            Body::Parts(object, multipart) => match object.bytes_in_memory() {
                Some(bytes) => {
                    let mut body = Vec::new();
                    multipart.write(&mut body, bytes);
                    Self { memory: Some(Chunk::whole(body)), ..nothing }
                }
                None => {
                    let parts = multipart.into_parts(|range| {
                        object.span(range.first..range.last + 1).expect("what is not in memory is in a file")
                    });
                    Self { parts: Some(Box::new(parts)), ..nothing }
                }
            },
        }
    }

    /// Whether its bytes come in later.
    pub(super) fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Bytes of the present piece.
    fn at_hand(&self) -> u64 {
        match (&self.memory, &self.file) {
            (Some(chunk), _) => chunk.bytes().len() as u64,
            (None, Some(span)) => span.len,
            (None, None) => 0,
        }
    }

    /// How much can be sent in one frame. `waiter` is woken when there is something again.
    pub(super) fn available(&mut self, waiter: SocketId) -> Available {
        while self.at_hand() == 0 {
            (self.memory, self.file) = (None, self.file.take().filter(|span| span.len > 0));
            if self.file.is_some() {
                continue;
            }
            if let Some((text, file)) = self.parts.as_mut().and_then(|parts| parts.next()) {
                (self.memory, self.file) = (Some(Chunk::whole(text)), file);
                continue;
            }
            match self.stream.as_mut().map(|reader| reader.next(waiter)) {
                Some(Piece::Bytes(bytes)) => self.memory = Some(Chunk::Own(bytes)),
                Some(Piece::File(span)) => self.file = Some(span),
                Some(Piece::Pending) => return Available::Pending,
                Some(Piece::Failed(reason)) => return Available::Failed(reason),
                Some(Piece::End) | None => return Available::Bytes { bytes: 0, is_last: true },
            }
            self.stream = self.stream.take().filter(|reader| !reader.is_over());
        }
        let bytes = self.at_hand();
        let has_file = self.memory.is_some() && self.file.as_ref().is_some_and(|span| span.len > 0);
        let has_parts = self.parts.as_ref().is_some_and(|parts| parts.bytes() > 0);
        Available::Bytes { bytes, is_last: !has_file && !has_parts && self.stream.is_none() }
    }

    /// Moves the next bytes, which are available, to the end of a batch.
    pub(super) fn put(&mut self, bytes: u64, batch: &mut Batch) {
        if let Some(chunk) = &mut self.memory {
            batch.out().extend_from_slice(&chunk.bytes()[..bytes as usize]);
            chunk.advance(bytes as usize);
        } else if let Some(span) = &mut self.file {
            batch.push_file(FileSpan { file: Rc::clone(&span.file), offset: span.offset, len: bytes });
            (span.offset, span.len) = (span.offset + bytes, span.len - bytes);
        }
    }
}
