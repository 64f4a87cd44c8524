//! Bodies of the cache tier: a session's reader of bytes that are in memory, in the store, or still
//! on their way.
//!
//! A reader takes one piece after the other at the pace of its client; if there is none yet, the
//! connection is woken by the loop's inbox. Bytes of the store leave from their file, whose lease
//! goes with the span. A body is as long as it was announced, or fails.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_sys::{File, FileSpan, SocketId};
use thalweg_tier::{BodyPiece, Fragments, Reader, Wake};

use crate::content::tier::Inbox;

/// A body in memory is read in pieces of this size.
const MEMORY_PIECE_BYTES: usize = 64 << 10;

/// A session's end of a body.
pub(crate) struct BodyReader {
    reader: Box<dyn Reader>,
    /// Bytes to come, if that is known.
    left: Option<u64>,
    inbox: Arc<Inbox>,
}

/// The next bytes of a body.
#[derive(Debug)]
pub(crate) enum Piece {
    /// Bytes, at least one.
    Bytes(Bytes),
    /// Bytes of a file, at least one.
    File(FileSpan),
    /// Nothing yet: the connection is woken.
    Pending,
    /// All was read.
    End,
    /// The rest cannot be delivered, for this reason.
    Failed(Rc<str>),
}

impl BodyReader {
    /// A body of so many bytes, if that is known, for a connection of the loop with this inbox.
    pub(crate) fn new(reader: Box<dyn Reader>, length: Option<u64>, inbox: Arc<Inbox>) -> Self {
        Self { reader, left: length, inbox }
    }

    /// Whether all of it was read, as far as that is known.
    pub(crate) fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// The next piece. If there is none yet, the connection of `waiter` is woken when there is.
    pub(crate) fn next(&mut self, waiter: SocketId) -> Piece {
        if self.is_over() {
            return Piece::End;
        }
        let inbox = Arc::clone(&self.inbox);
        let piece = self.reader.next(Box::new(move || inbox.wake(waiter)));
        let bytes = piece.bytes();
        let piece = match piece {
            BodyPiece::Bytes(bytes) => Piece::Bytes(bytes),
            BodyPiece::File { location, range } => Piece::File(FileSpan {
                file: Rc::new(File::leased(location.file, Arc::new(location.lease))),
                offset: location.offset + u64::from(range.start),
                len: u64::from(range.end - range.start),
            }),
            BodyPiece::Pending => return Piece::Pending,
            BodyPiece::End if self.left.is_none() => return Piece::End,
            BodyPiece::End => return Piece::Failed("the origin has sent fewer bytes than it had announced".into()),
            BodyPiece::Failed(reason) => return Piece::Failed((*reason).into()),
        };
        let Some(left) = &mut self.left else { return piece };
        match left.checked_sub(bytes) {
            Some(rest) => {
                *left = rest;
                piece
            }
            None => Piece::Failed("the origin has sent more bytes than it had announced".into()),
        }
    }
}

/// A body that is made while it is sent: its length is known at its end.
pub(crate) trait MadeBody: Send + Sync {
    /// A reader from its beginning.
    fn reader(&self) -> Box<dyn Reader>;

    /// Bytes of memory held.
    fn bytes(&self) -> usize;
}

/// A body in memory that is too large to be kept with its head.
pub(crate) struct MemoryBody(pub(crate) Bytes);

impl Fragments for MemoryBody {
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader> {
        Box::new(MemoryReader(self.0.slice(range.start as usize..range.end as usize)))
    }
}

/// A reader of bytes in memory.
pub(crate) struct MemoryReader(pub(crate) Bytes);

impl Reader for MemoryReader {
    fn next(&mut self, _: Wake) -> BodyPiece {
        match self.0.len() {
            0 => BodyPiece::End,
            bytes => BodyPiece::Bytes(self.0.split_to(bytes.min(MEMORY_PIECE_BYTES))),
        }
    }
}

#[cfg(test)]
mod tests {
    use thalweg_sys::table::Table;

    use super::*;

    fn read(reader: Box<dyn Reader>, length: Option<u64>) -> Vec<String> {
        let socket = Table::new(1).insert(()).unwrap();
        let mut reader = BodyReader::new(reader, length, Inbox::new(None));
        let mut shown = Vec::new();
        loop {
            match reader.next(socket) {
                Piece::Bytes(bytes) => shown.push(bytes.len().to_string()),
                Piece::End => return shown,
                other => {
                    shown.push(format!("{other:?}"));
                    return shown;
                }
            }
        }
    }

    #[test]
    fn a_body_is_as_long_as_announced_or_fails() {
        #[track_caller]
        fn check(bytes: usize, length: Option<u64>, expected: &[&str]) {
            let shown = read(Box::new(MemoryReader(vec![7; bytes].into())), length);
            assert!(
                shown.len() == expected.len() && shown.iter().zip(expected).all(|(shown, part)| shown.contains(part)),
                "{shown:?}"
            );
        }
        check(0, None, &[]);
        check(0, Some(0), &[]);
        check(3, Some(3), &["3"]);
        check(100_000, None, &["65536", "34464"]);
        check(100_000, Some(100_000), &["65536", "34464"]);
        check(3, Some(4), &["3", "fewer"]);
        check(5, Some(4), &["more"]);
    }

    #[test]
    fn a_range_of_a_body_in_memory() {
        let body = Arc::new(MemoryBody((0..=255u8).collect::<Vec<_>>().into()));
        let mut reader = body.reader(10..13);
        assert!(matches!(reader.next(Box::new(|| {})), BodyPiece::Bytes(bytes) if bytes[..] == [10, 11, 12]));
        assert!(matches!(reader.next(Box::new(|| {})), BodyPiece::End));
    }
}
