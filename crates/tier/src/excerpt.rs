//! Excerpts: single ranges of objects that are stored as they came, since they are no whole
//! fragments.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::answer::{BodyPiece, Fragments, Reader};
use crate::counters::Counters;
use crate::mounted::Mounted;
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
    /// It as the content of a response.
    pub(crate) fn for_mount(self: &Arc<Self>, mount: &Arc<Mounted>) -> Arc<dyn Fragments> {
        Arc::new(Sent { excerpt: Arc::clone(self), mount: Arc::clone(mount) })
    }

    /// Whether it has all bytes from `first` up to `end`.
    pub(crate) fn covers(&self, (first, end): (u64, u64)) -> bool {
        self.first <= first && end <= self.first + self.bytes.len() as u64
    }
}

/// An excerpt that is sent to clients of a mount, which is counted.
struct Sent {
    excerpt: Arc<Excerpt>,
    mount: Arc<Mounted>,
}

impl Fragments for Sent {
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader> {
        let Excerpt { first, bytes, .. } = &*self.excerpt;
        let piece = if self.excerpt.covers((range.start, range.end)) {
            Ok(bytes.slice((range.start - first) as usize..(range.end - first) as usize))
        } else {
            Err("only a part of the object is stored".into())
        };
        Box::new(ExcerptReader { piece: Some(piece), mount: Arc::clone(&self.mount) })
    }
}

struct ExcerptReader {
    piece: Option<Result<Bytes, Arc<str>>>,
    mount: Arc<Mounted>,
}

impl Reader for ExcerptReader {
    fn next(&mut self, _: Wake) -> BodyPiece {
        match self.piece.take() {
            Some(Ok(bytes)) if !bytes.is_empty() => {
                Counters::add(&self.mount.counters.served_bytes, bytes.len() as u64);
                BodyPiece::Bytes(bytes)
            }
            Some(Err(reason)) => BodyPiece::Failed(reason),
            _ => BodyPiece::End,
        }
    }
}
