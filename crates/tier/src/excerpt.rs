//! Excerpts: single ranges of objects that are stored as they came, since they are no whole
//! fragments.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::answer::{BodyPiece, Fragments, Reader};
use crate::wake::Wake;

/// A range of an object, in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// The offset of its first byte in the object.
    pub(crate) first: u64,
    pub(crate) bytes: Bytes,
    /// Bytes of the whole object.
    pub(crate) length: u64,
}

impl Excerpt {
    /// Whether it has all bytes from `first` up to `end`.
    pub(crate) fn covers(&self, (first, end): (u64, u64)) -> bool {
        self.first <= first && end <= self.first + self.bytes.len() as u64
    }
}

impl Fragments for Excerpt {
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader> {
        let piece = if self.covers((range.start, range.end)) {
            Ok(self.bytes.slice((range.start - self.first) as usize..(range.end - self.first) as usize))
        } else {
            Err("only a part of the object is stored".into())
        };
        Box::new(ExcerptReader(Some(piece)))
    }
}

struct ExcerptReader(Option<Result<Bytes, Arc<str>>>);

impl Reader for ExcerptReader {
    fn next(&mut self, _: Wake) -> BodyPiece {
        match self.0.take() {
            Some(Ok(bytes)) if !bytes.is_empty() => BodyPiece::Bytes(bytes),
            Some(Err(reason)) => BodyPiece::Failed(reason),
            _ => BodyPiece::End,
        }
    }
}
