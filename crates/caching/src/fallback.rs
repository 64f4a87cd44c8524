//! Stale responses in the place of those of a failing origin (RFC 5861, 4; RFC 9111, 4.2.4).

use crate::fields::FieldLines;
use crate::policy::Policy;
use crate::request::CacheRequest;
use crate::stored::StoredResponse;

/// A stale response that stands in for a failing origin (RFC 5861, 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallback {
    /// The stored response.
    pub index: usize,
    /// The last second in which it may be used.
    pub until: i64,
}

/// A failure of an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The origin cannot be reached, or gives no complete response in time.
    Unreachable,
    /// The origin answers with that status code.
    Status(u16),
}

impl Fallback {
    /// Whether the stored response is used after that failure, which is noticed at `now`. Of status
    /// codes, 500, 502, 503 and 504 are failures of the origin (RFC 5861, 4).
    #[must_use]
    pub fn covers(&self, failure: Failure, now: i64) -> bool {
        now <= self.until && matches!(failure, Failure::Unreachable | Failure::Status(500 | 502..=504))
    }
}

/// The use of a response after a failure of the origin. A client that sent `no-cache` wants the
/// origin's word or none.
pub(crate) fn fallback<F: FieldLines>(
    policy: &Policy,
    request: &CacheRequest<'_, F>,
    response: &StoredResponse,
    index: usize,
    now: i64,
) -> Option<Fallback> {
    let freshness = &response.freshness;
    let wishes = policy.client_directives.then_some(&request.directives);
    if wishes.is_some_and(|wishes| wishes.no_cache) || freshness.always_validate {
        return None;
    }
    // A fresh response that the client would rather have had newer may still be used.
    let ttl = freshness.ttl_seconds(now);
    let window = wishes.and_then(|wishes| wishes.stale_if_error).unwrap_or(0).max(freshness.stale_if_error_seconds);
    let window = if freshness.never_stale { 0 } else { i64::from(window) };
    let seconds_left = ttl.saturating_add(window);
    (seconds_left > 0).then(|| Fallback { index, until: now.saturating_add(seconds_left - 1) })
}
