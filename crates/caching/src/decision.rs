//! What a request gets: from the store, from the origin, or from the store after a word with the
//! origin (RFC 9111, 4; RFC 5861).
//!
//! Which bytes of a response are stored is not looked at here: that is `partial`'s, once a response
//! was chosen.

use thalweg_wire::Method;

use crate::cache_status::ForwardReason;
use crate::conditional::Validation;
use crate::fallback::{Fallback, fallback};
use crate::fields::FieldLines;
use crate::policy::Policy;
use crate::request::CacheRequest;
use crate::stored::StoredResponse;
use crate::variant::{Vary, push_secondary_key};

/// What is to be done for a request. An index is that of a stored response among those given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Answer from the store.
    Fresh {
        /// The response.
        index: usize,
    },
    /// Answer from the store although the response is stale: the client accepts it (`max-stale`).
    Stale {
        /// The response.
        index: usize,
    },
    /// Answer from the store, and validate the response beside (RFC 5861, 3).
    StaleWhileRevalidate {
        /// The response.
        index: usize,
        /// The seconds left in which it may be used so.
        seconds_left: u32,
        /// The request to the origin: a fetch if it has no conditions.
        validation: Validation,
    },
    /// Ask the origin with conditions before answering.
    Validate(Validation),
    /// Ask the origin as the client does.
    Fetch {
        /// Why nothing stored is used.
        reason: ForwardReason,
        /// The answer if the origin fails.
        fallback: Option<Fallback>,
    },
    /// Answer 504: the client wants nothing but a stored response (`only-if-cached`).
    GatewayTimeout,
}

/// Decides on a request. `stored` has all stored responses to its URI.
#[must_use]
pub fn decide<F: FieldLines>(
    policy: &Policy,
    request: &CacheRequest<'_, F>,
    stored: &[&StoredResponse],
    now: i64,
) -> Decision {
    let decision = match request.method {
        Method::Get | Method::Head => decide_safe(policy, request, stored, now),
        _ => Decision::Fetch { reason: ForwardReason::Method, fallback: None },
    };
    let asks_origin = matches!(decision, Decision::Validate(_) | Decision::Fetch { .. });
    if asks_origin && request.directives.only_if_cached { Decision::GatewayTimeout } else { decision }
}

fn decide_safe<F: FieldLines>(
    policy: &Policy,
    request: &CacheRequest<'_, F>,
    stored: &[&StoredResponse],
    now: i64,
) -> Decision {
    let Some(index) = select(request.fields, stored) else {
        let reason = if stored.is_empty() { ForwardReason::UriMiss } else { ForwardReason::VaryMiss };
        return ask(stored, None, reason, None);
    };
    let response = stored[index];
    let freshness = &response.freshness;
    let fallback = || fallback(policy, request, response, index, now);
    match judge(policy, request, response, now) {
        Use::Fresh => Decision::Fresh { index },
        Use::Stale => Decision::Stale { index },
        Use::AskOrigin(reason) => ask(stored, Some(index), reason, fallback()),
        Use::WhileRevalidating => {
            let validation = Validation::of(stored, Some(index), ForwardReason::Stale, fallback());
            let seconds_left = freshness.stale_while_revalidate_seconds - freshness.staleness_seconds(now);
            Decision::StaleWhileRevalidate { index, seconds_left, validation }
        }
    }
}

/// A validation, or a fetch if there is nothing to validate with.
fn ask(
    stored: &[&StoredResponse],
    selected: Option<usize>,
    reason: ForwardReason,
    fallback: Option<Fallback>,
) -> Decision {
    let validation = Validation::of(stored, selected, reason, fallback);
    if validation.has_conditions() { Decision::Validate(validation) } else { Decision::Fetch { reason, fallback } }
}

/// The stored response that matches the request; of several the most recent (RFC 9111, 4.1).
fn select(fields: &impl FieldLines, stored: &[&StoredResponse]) -> Option<usize> {
    let mut key = Vec::new();
    let mut selected: Option<usize> = None;
    for (index, response) in stored.iter().enumerate() {
        key.clear();
        let matches = match &response.vary {
            Vary::Everything => false,
            Vary::Fields(names) if names.is_empty() => true,
            vary => push_secondary_key(&mut key, vary, fields) && response.matches_key(&key),
        };
        if matches && selected.is_none_or(|best| response.recency() > stored[best].recency()) {
            selected = Some(index);
        }
    }
    selected
}

/// How a matching response may be used.
enum Use {
    Fresh,
    Stale,
    WhileRevalidating,
    AskOrigin(ForwardReason),
}

fn judge<F: FieldLines>(policy: &Policy, request: &CacheRequest<'_, F>, response: &StoredResponse, now: i64) -> Use {
    let freshness = &response.freshness;
    let wishes = policy.client_directives.then_some(&request.directives);
    let is_fresh = freshness.is_fresh(now);
    if wishes.is_some_and(|wishes| wishes.no_cache) {
        return Use::AskOrigin(ForwardReason::Request);
    }
    if freshness.always_validate {
        return Use::AskOrigin(ForwardReason::Stale);
    }
    // RFC 8246, 2: an immutable response is what it is as long as it is fresh; only no-cache asks
    // for more.
    if is_fresh && freshness.immutable {
        return Use::Fresh;
    }
    let max_age = wishes.and_then(|wishes| wishes.max_age);
    let min_fresh = wishes.and_then(|wishes| wishes.min_fresh);
    let is_too_old = max_age.is_some_and(|limit| freshness.age_seconds(now) > limit)
        // "max-age=0" asks for a validation even of a response of this second.
        || max_age == Some(0);
    if is_too_old || min_fresh.is_some_and(|limit| freshness.ttl_seconds(now) < i64::from(limit)) {
        let reason = if is_fresh { ForwardReason::Request } else { ForwardReason::Stale };
        return Use::AskOrigin(reason);
    }
    if is_fresh {
        return Use::Fresh;
    }
    let staleness = freshness.staleness_seconds(now);
    if !freshness.may_be_stale() {
        Use::AskOrigin(ForwardReason::Stale)
    } else if wishes.and_then(|wishes| wishes.max_stale).is_some_and(|limit| staleness <= limit) {
        Use::Stale
    } else if staleness < freshness.stale_while_revalidate_seconds {
        Use::WhileRevalidating
    } else {
        Use::AskOrigin(ForwardReason::Stale)
    }
}
