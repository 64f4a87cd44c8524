//! Requests that wait: for an object, for an answer of the cache tier, or for the end of their own
//! content.

use thalweg_wire::{BodyFraming, RequestHead, Version};

use crate::content::blocking_pool::JobKind;
use crate::content::tier::TierAnswer;
use crate::http::forwarder::Content;
use crate::http::h1::services::Services;
use crate::http::respond::Outcomes;

/// A request that waits for its object.
pub(super) struct WaitingRequest {
    /// Its head, to be read once more.
    pub(super) head: Vec<u8>,
    pub(super) outcomes: Outcomes,
    /// The kind of the job that it waits for, or has waited for last.
    pub(super) job: JobKind,
    pub(super) wait: Wait,
    /// The cache tier's answer, if it has come.
    pub(super) answer: Option<Box<TierAnswer>>,
    /// The content that is forwarded, and whether there was one.
    pub(super) content: Option<Content>,
    pub(super) has_content: bool,
}

/// The event that a request waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wait {
    /// The end of its content, which is forwarded.
    Content,
    /// A job, or the cache tier's answer.
    Answer,
    /// The end of earlier responses.
    Turn,
}

impl WaitingRequest {
    /// Keeps a request that waits for its object, and for these jobs.
    #[cold]
    pub(super) fn new(request: &RequestHead<'_>, kind: JobKind) -> Self {
        let mut head = Vec::with_capacity(512);
        let version = if request.version == Version::Http10 { " HTTP/1.0\r\n" } else { " HTTP/1.1\r\n" };
        for part in [request.method.name().as_bytes(), b" ", request.target, version.as_bytes()] {
            head.extend_from_slice(part);
        }
        for (name, value) in request.fields.iter() {
            for part in [name.as_bytes(), b":", value, b"\r\n"] {
                head.extend_from_slice(part);
            }
        }
        head.extend_from_slice(b"\r\n");
        let outcomes = Outcomes::default();
        Self { head, outcomes, job: kind, wait: Wait::Answer, answer: None, content: None, has_content: false }
    }
}

/// Begins to gather the content of a request, which is forwarded. A client that waits for a word
/// before it sends the content gets it (RFC 9110, 10.1.1).
///
/// # Errors
/// The status of the refusal: the content is announced to be too long.
#[cold]
pub(super) fn gather_content(
    head: &RequestHead<'_>,
    bytes_max: usize,
    services: &mut Services<'_>,
) -> Result<Box<WaitingRequest>, u16> {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    if matches!(head.body, BodyFraming::Length(bytes) if bytes > bytes_max as u64) {
        return Err(413);
    }
    let mut gathering = WaitingRequest::new(head, JobKind::Open);
    gathering.content = services.responder.begin_content(bytes_max);
    (gathering.wait, gathering.has_content) = (Wait::Content, true);
    if head.expects_continue() {
        services.batch.append(&[CONTINUE]);
        services.recorder.skip(CONTINUE.len() as u64);
    }
    Ok(Box::new(gathering))
}
