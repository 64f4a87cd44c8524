//! The decision on a request: an answer from the store, a validation, or a fetch (RFC 9111, 4; RFC
//! 5861).
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
use crate::variant::{Vary, push_secondary_key, takes_coding};

/// The way to answer a request. An index is that of a stored response among those given.
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
            vary => {
                let has_key = push_secondary_key(&mut key, vary, fields) && response.matches_key(&key);
                has_key && takes_coding(vary, &response.fields, fields)
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::age::Times;
    use crate::fallback::Failure;
    use crate::fields::tests::fields;

    /// When the stored responses came; requests come 100 seconds later.
    const RECEIVED: i64 = 1_000_000;
    const NOW: i64 = RECEIVED + 100;

    fn stored_of(request: &[&str], lines: &[&str]) -> StoredResponse {
        let times = Times { request: RECEIVED, response: RECEIVED };
        StoredResponse::new(&Policy::default(), &fields(request), 200, &fields(lines), times)
    }

    fn shown(decision: &Decision) -> String {
        let validation = |validation: &Validation| {
            let tags = validation.if_none_match.as_deref().map(String::from_utf8_lossy);
            let date = validation.if_modified_since.map(|_| "date".into());
            let conditions: Vec<_> = tags.into_iter().chain(date).collect();
            format!("{} with {}", validation.reason.token(), conditions.join(" and "))
        };
        match decision {
            Decision::Fresh { index } => format!("fresh {index}"),
            Decision::Stale { index } => format!("stale {index}"),
            Decision::StaleWhileRevalidate { index, seconds_left, .. } => {
                format!("stale {index}, revalidate within {seconds_left}")
            }
            Decision::Validate(conditions) => format!("validate: {}", validation(conditions)),
            Decision::Fetch { reason, .. } => format!("fetch: {}", reason.token()),
            Decision::GatewayTimeout => "504".to_owned(),
        }
    }

    fn check_by(policy: &Policy, method: &str, request: &[&str], lines: &[&str], expected: &str) {
        let client = fields(request);
        let request = CacheRequest::new(Method::from_name(method), &client);
        let stored = stored_of(&[], lines);
        assert_eq!(shown(&decide(policy, &request, &[&stored], NOW)), expected, "{method} {client:?} {lines:?}");
    }

    fn check(request: &[&str], lines: &[&str], expected: &str) {
        check_by(&Policy::default(), "GET", request, lines, expected);
    }

    const FRESH: &str = "Cache-Control: max-age=3600";
    const OLD: &str = "Cache-Control: max-age=90";
    const TAG: &str = "ETag: \"a\"";
    const MODIFIED: &str = "Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT";

    #[test]
    fn fresh_and_stale() {
        // RFC 9111, 4 and 4.2.
        check(&[], &[FRESH], "fresh 0");
        check(&[], &["Cache-Control: max-age=101"], "fresh 0");
        check(&[], &["Cache-Control: max-age=100"], "fetch: stale");
        check(&[], &[OLD, TAG], "validate: stale with \"a\"");
        check(&[], &[OLD, MODIFIED], "validate: stale with date");
        check(&[], &[OLD, TAG, MODIFIED], "validate: stale with \"a\" and date");
        check(&[], &["Cache-Control: max-age=90, immutable", TAG], "validate: stale with \"a\"");
        // 5.2.2.2 and 5.2.2.4.
        check(&[], &["Cache-Control: max-age=3600, must-revalidate", TAG], "fresh 0");
        check(&[], &["Cache-Control: max-age=90, must-revalidate", TAG], "validate: stale with \"a\"");
        check(&[], &["Cache-Control: max-age=3600, no-cache", TAG], "validate: stale with \"a\"");
        check(&[], &["Cache-Control: max-age=3600, no-cache"], "fetch: stale");
        check(&[], &["Cache-Control: max-age=3600, no-cache=\"x\""], "fresh 0");
        check(&["Cookie: a=b", "Authorization: x"], &[FRESH], "fresh 0");
    }

    #[test]
    fn methods() {
        let check = |method: &str, expected: &str| check_by(&Policy::default(), method, &[], &[FRESH], expected);
        check("GET", "fresh 0");
        check("HEAD", "fresh 0");
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "M-SEARCH"] {
            check(method, "fetch: method");
        }
    }

    #[test]
    fn directives_of_requests() {
        let with = |directive: &str, lines: &[&str], expected: &str| {
            check(&[&format!("Cache-Control: {directive}")], lines, expected);
        };
        // RFC 9111, 5.2.1.
        with("max-age=0", &[FRESH], "fetch: request");
        with("max-age=99", &[FRESH, TAG], "validate: request with \"a\"");
        with("max-age=100", &[FRESH], "fresh 0");
        with("max-age=1700", &[FRESH, "Age: 1800"], "fetch: request");
        with("min-fresh=3500", &[FRESH], "fresh 0");
        with("min-fresh=3501", &[FRESH], "fetch: request");
        with("min-fresh=0", &[OLD], "fetch: stale");
        with("no-cache", &[FRESH], "fetch: request");
        with("no-cache", &[FRESH, TAG], "validate: request with \"a\"");
        with("no-cache", &[FRESH, MODIFIED], "validate: request with date");
        with("no-store", &[FRESH], "fresh 0");
        with("max-stale", &[OLD], "stale 0");
        with("max-stale=10", &[OLD], "stale 0");
        with("max-stale=9", &[OLD], "fetch: stale");
        with("max-stale=600", &["Cache-Control: max-age=1500", "Age: 2000"], "stale 0");
        with("max-stale", &["Cache-Control: max-age=90, must-revalidate"], "fetch: stale");
        with("max-stale", &["Cache-Control: max-age=90, proxy-revalidate"], "fetch: stale");
        with("max-stale", &["Cache-Control: s-maxage=90"], "fetch: stale");
        with("max-stale, max-age=50", &[OLD], "fetch: stale");
        check(&["Pragma: no-cache"], &[FRESH], "fetch: request");
        check(&["Pragma: other"], &[FRESH], "fresh 0");
        // RFC 8246, 2.
        with("max-age=0", &["Cache-Control: max-age=3600, immutable"], "fresh 0");
        with("no-cache", &["Cache-Control: max-age=3600, immutable"], "fetch: request");

        let deaf = Policy { client_directives: false, ..Policy::default() };
        for line in ["Cache-Control: no-cache", "Cache-Control: max-age=0, min-fresh=9999", "Pragma: no-cache"] {
            check_by(&deaf, "GET", &[line], &[FRESH], "fresh 0");
        }
        check_by(&deaf, "GET", &["Cache-Control: max-stale"], &[OLD], "fetch: stale");
        check_by(&deaf, "GET", &["Cache-Control: only-if-cached"], &[OLD], "504");
    }

    #[test]
    fn only_if_cached() {
        let line = "Cache-Control: only-if-cached";
        // RFC 9111, 5.2.1.7.
        check(&[line], &[FRESH], "fresh 0");
        check(&[line], &[OLD, TAG], "504");
        check(&[line, "Cache-Control: max-stale"], &[OLD, TAG], "stale 0");
        check_by(&Policy::default(), "POST", &[line], &[FRESH], "504");
        let client = fields(&[line]);
        let request = CacheRequest::new(Method::Get, &client);
        assert_eq!(decide(&Policy::default(), &request, &[], NOW), Decision::GatewayTimeout);
    }

    #[test]
    fn stale_while_revalidate() {
        let with = |rest: &str, expected: &str| {
            check(&[], &[&format!("Cache-Control: max-age=90, stale-while-revalidate={rest}"), TAG], expected);
        };
        // RFC 5861, 3.
        with("60", "stale 0, revalidate within 50");
        with("11", "stale 0, revalidate within 1");
        with("10", "validate: stale with \"a\"");
        with("60, must-revalidate", "validate: stale with \"a\"");
        with("60, no-cache", "validate: stale with \"a\"");
        let line = "Cache-Control: max-age=90, stale-while-revalidate=60";
        check(&["Cache-Control: max-age=50"], &[line], "fetch: stale");
        check(&["Cache-Control: max-stale=60"], &[line], "stale 0");
        let policy = Policy { stale_while_revalidate_seconds: 60, ..Policy::default() };
        let times = Times { request: RECEIVED, response: RECEIVED };
        let stored = StoredResponse::new(&policy, &fields(&[]), 200, &fields(&[OLD]), times);
        let client = fields(&[]);
        let decision = decide(&policy, &CacheRequest::new(Method::Get, &client), &[&stored], NOW);
        assert_eq!(shown(&decision), "stale 0, revalidate within 50");
    }

    #[test]
    fn stale_if_error() {
        let check = |request: &[&str], lines: &[&str], expected: Option<i64>| {
            let client = fields(request);
            let stored = stored_of(&[], lines);
            let request = CacheRequest::new(Method::Get, &client);
            let fallback = match decide(&Policy::default(), &request, &[&stored], NOW) {
                Decision::Validate(validation) => validation.fallback,
                Decision::Fetch { fallback, .. } => fallback,
                other => panic!("{other:?}"),
            };
            assert_eq!(fallback.map(|fallback| fallback.until - NOW + 1), expected, "{client:?} {lines:?}");
        };
        let line = "Cache-Control: max-age=90, stale-if-error=60";
        // RFC 5861, 4.
        check(&[], &[line], Some(50));
        check(&[], &[line, TAG], Some(50));
        check(&[], &[OLD], None);
        check(&["Cache-Control: stale-if-error=20"], &[OLD], Some(10));
        check(&["Cache-Control: stale-if-error=10"], &[OLD], None);
        check(&["Cache-Control: max-age=50"], &[line], Some(50));
        check(&["Cache-Control: no-cache"], &[line], None);
        check(&["Cache-Control: max-age=0"], &[FRESH], Some(3500));
        // RFC 9111, 4.2.4: prohibitions.
        check(&[], &["Cache-Control: max-age=90, stale-if-error=60, must-revalidate"], None);
        check(&[], &["Cache-Control: max-age=90, stale-if-error=60, proxy-revalidate"], None);
        check(&[], &["Cache-Control: max-age=90, stale-if-error=60, no-cache"], None);
        check(&[], &["Cache-Control: s-maxage=90, stale-if-error=60"], None);
    }

    #[test]
    fn failures() {
        let fallback = Fallback { index: 0, until: 1000 };
        let check = |failure, now, expected| assert_eq!(fallback.covers(failure, now), expected, "{failure:?} {now}");
        check(Failure::Unreachable, 1000, true);
        check(Failure::Unreachable, 1001, false);
        for status in [500, 502, 503, 504] {
            check(Failure::Status(status), 1000, true);
        }
        for status in [200, 404, 501, 505] {
            check(Failure::Status(status), 1000, false);
        }
    }

    #[test]
    fn variants() {
        let check = |variants: &[(&str, &[&str])], request: &[&str], expected: &str| {
            let stored: Vec<StoredResponse> =
                variants.iter().map(|(value, lines)| stored_of(&[&format!("Foo: {value}")], lines)).collect();
            let stored: Vec<&StoredResponse> = stored.iter().collect();
            let client = fields(request);
            let decision = decide(&Policy::default(), &CacheRequest::new(Method::Get, &client), &stored, NOW);
            assert_eq!(shown(&decision), expected, "{variants:?} {request:?}");
        };
        let one: &[&str] = &[FRESH, "Vary: Foo", TAG];
        let other: &[&str] = &[FRESH, "Vary: Foo", "ETag: \"b\""];
        // RFC 9111, 4.1 and 4.3.1.
        check(&[], &[], "fetch: uri-miss");
        check(&[("1", one), ("2", other)], &["Foo: 1"], "fresh 0");
        check(&[("1", one), ("2", other)], &["Foo: 2"], "fresh 1");
        check(&[("1", one), ("2", other)], &["Foo: 3"], "validate: vary-miss with \"a\", \"b\"");
        check(&[("1", &[FRESH, "Vary: Foo"])], &["Foo: 3"], "fetch: vary-miss");
        check(&[("1", &[FRESH, "Vary: *"])], &["Foo: 1"], "fetch: vary-miss");
        check(&[("1", &[FRESH, "Vary: *", TAG])], &["Foo: 1"], "validate: vary-miss with \"a\"");
        check(&[("1", &[OLD, "Vary: Foo", TAG]), ("2", other)], &["Foo: 1"], "validate: stale with \"a\", \"b\"");
        // The most recent one of those that match.
        let early = "Date: Mon, 12 Jan 1970 13:00:00 GMT";
        let late = "Date: Mon, 12 Jan 1970 13:40:00 GMT";
        check(&[("1", &[FRESH, early]), ("1", &[FRESH, "Vary: Foo", late])], &["Foo: 1"], "fresh 1");
        check(&[("1", &[FRESH, late]), ("1", &[FRESH, "Vary: Foo", early])], &["Foo: 1"], "fresh 0");
        check(&[("1", &[FRESH, early]), ("1", &[OLD, late, TAG])], &["Foo: 1"], "validate: stale with \"a\"");
    }
}
