//! The session's part of a stream.

use thalweg_wire::hpack::FieldList;

use super::body::BodyRest;
use crate::content::blocking_pool::JobKind;
use crate::content::tier::TierAnswer;
use crate::http::forwarder::Content;
use crate::http::respond::Outcomes;

/// How far the work on a stream has come.
#[derive(Default)]
pub(super) enum StreamWork {
    /// Nothing is known of it.
    #[default]
    New,
    /// The request's body is still coming in, and not kept unless it is forwarded. Its head waits
    /// for the end.
    Reading(Box<WaitingRequest>),
    /// The request waits for its object.
    Waiting(Box<WaitingRequest>),
    /// The client has reset it while a job was under way.
    Dead,
    /// The head of the response has gone, and the body is under way.
    Sending(Box<SendingBody>),
}

/// A request that is processed later.
pub(super) struct WaitingRequest {
    pub(super) fields: FieldList,
    pub(super) outcomes: Outcomes,
    /// The job that it waits for, or has waited for last. `None`: it waits for the cache tier.
    pub(super) job: Option<JobKind>,
    /// It waits for nothing any more but the end of what is being sent.
    pub(super) is_ready: bool,
    /// Bytes of the request's body so far.
    pub(super) body_bytes: u64,
    /// The body, if it is forwarded.
    pub(super) content: Option<Content>,
    /// The cache tier's answer, if it has come.
    pub(super) answer: Option<Box<TierAnswer>>,
}

impl WaitingRequest {
    /// Keeps a request.
    #[cold]
    pub(super) fn new(fields: &FieldList, job: Option<JobKind>) -> Box<Self> {
        let (fields, outcomes) = (fields.clone(), Outcomes::default());
        Box::new(Self { fields, outcomes, job, is_ready: false, body_bytes: 0, content: None, answer: None })
    }
}

/// The body of a response under way.
pub(super) struct SendingBody {
    pub(super) rest: BodyRest,
    /// The number of its mount.
    pub(super) mount: u16,
}
