//! Requests to the tier.

use bytes::Bytes;
use thalweg_caching::StoredFields;
use thalweg_wire::Version;

use crate::answer::Answer;

/// Takes an answer, on the tier's thread. It must not wait.
pub type Answered = Box<dyn FnOnce(Answer) + Send>;

/// A request that a loop cannot answer by itself.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The number of the mount among those that the tier was started with.
    pub mount: usize,
    /// The method's name.
    pub method: Box<str>,
    /// The path below the mount and the query, as they are sent to an origin: percent-encoded, with
    /// a slash at the beginning.
    pub target: Box<str>,
    /// The authority that the client asked, in lower case; empty if it gave none.
    pub authority: Box<str>,
    /// The version of HTTP by which it came.
    pub version: Version,
    /// The fields of the request, those of its connection left out.
    pub fields: StoredFields,
    /// The whole content of the request.
    pub content: Bytes,
}
