//! Answers of the tier, and the bodies that loops read from them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_cache::{Key, Location};
use thalweg_caching::StoredFields;

use crate::wake::Wake;

/// The answer to a request.
pub enum Answer {
    /// A representation with status 200, of which the loop sends what the request wants: all of it,
    /// ranges, or nothing but that a condition of the client holds or fails.
    Object(Object),
    /// A response that is sent as it is.
    Response(Response),
    /// There is none.
    Failed(Failure),
}

/// A representation.
#[derive(Clone)]
pub struct Object {
    /// The fields for the client: those of the stored response, Date, ETag and Last-Modified among
    /// them; without Content-Length, Age, and the member of Cache-Status that is this cache's.
    pub fields: Arc<StoredFields>,
    /// Bytes of the whole.
    pub length: u64,
    /// The bytes.
    pub content: Content,
    /// The second since 1970 at which its Age was 0.
    pub born_s: i64,
    /// The second since 1970 at which it is stale.
    pub stale_s: i64,
    /// This cache's member of Cache-Status for the request that was asked.
    pub cache_status: Box<str>,
    /// Its key, if a loop may answer other requests for the same target with it, without asking,
    /// before `stale_s` and as long as [`Tier::generation`](crate::Tier::generation) stays: GET and
    /// HEAD without Cache-Control, Pragma and Authorization. The loop tells
    /// [`Tier::touch`](crate::Tier::touch) of it now and then.
    pub held_key: Option<Key>,
}

/// The bytes of a representation, which any number of readers may read, each any range.
#[derive(Clone)]
pub enum Content {
    /// In memory.
    Memory(Bytes),
    /// In fragments, in the store or on their way there.
    Fragments(Arc<dyn Fragments>),
}

/// An object in fragments.
pub trait Fragments: Send + Sync {
    /// A reader of a range of bytes, which lies inside the object.
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader>;
}

/// A response that is sent as it is.
pub struct Response {
    /// Its status.
    pub status: u16,
    /// Its fields for the client, this cache's member of Cache-Status and Age among them; without
    /// Content-Length.
    pub fields: StoredFields,
    /// Bytes of its content, if that is known. For HEAD and 304 those that its Content-Length told.
    pub length: Option<u64>,
    /// Its content.
    pub content: Relay,
}

/// The content of a response that is sent as it is, for one reader.
pub enum Relay {
    /// In memory, possibly nothing.
    Memory(Bytes),
    /// Still coming in.
    Stream(Box<dyn Reader>),
}

/// A reader of bytes that come in later.
pub trait Reader: Send {
    /// The next bytes. After [`BodyPiece::Pending`], `wake` is called once when there is something
    /// to go on with; with any other piece it is dropped.
    fn next(&mut self, wake: Wake) -> BodyPiece;
}

/// The next bytes of a body.
pub enum BodyPiece {
    /// Bytes in memory, at least one.
    Bytes(Bytes),
    /// Bytes of a file: `range` counts from the location's beginning. They stay as they are while
    /// the location exists.
    File {
        /// The fragment.
        location: Location,
        /// The part of it.
        range: Range<u32>,
    },
    /// Nothing yet.
    Pending,
    /// All was read.
    End,
    /// The rest cannot be had, for this reason; the response has to be cut off.
    Failed(Arc<str>),
}

impl BodyPiece {
    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::File { range, .. } => u64::from(range.end - range.start),
            Self::Pending | Self::End | Self::Failed(_) => 0,
        }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The status for the client: 400, 502, 503 or 504.
    pub status: u16,
    /// The reason, for the log.
    pub reason: Arc<str>,
    /// This cache's member of Cache-Status.
    pub cache_status: Box<str>,
}
