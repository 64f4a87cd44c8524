//! Whether a response may be stored (RFC 9111, 3).

use thalweg_wire::Method;
use thalweg_wire::status::reason;

use crate::age::Times;
use crate::directives::{FieldScope, Limit, ResponseDirectives};
use crate::fields::FieldLines;
use crate::freshness::{Freshness, is_cacheable_by_default};
use crate::invalidation::is_same_resource;
use crate::partial::{ContentRange, decimal};
use crate::policy::Policy;
use crate::request::CacheRequest;
use crate::signed::{Validity, validity};
use crate::stored::StoredResponse;
use crate::targeted::response_directives;
use crate::version::{entity_tag, last_modified};

/// Whether, and as what, a response may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storability {
    /// The response may be stored for GET, once all of its content has come.
    Complete,
    /// The response is a part, and may be stored as one (RFC 9111, 3.3).
    Partial(ContentRange),
    /// The response must not, or should not, be stored.
    Refused(Refusal),
}

/// Why a response is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Its method's responses are not stored.
    Method,
    /// Its status is not final, is about the request's conditions or range alone (304, 412, 416),
    /// or is not known while `must-understand` wants that it is.
    Status,
    /// The request has `no-store`.
    RequestNoStore,
    /// The response has `no-store`.
    ResponseNoStore,
    /// The response has `private`.
    Private,
    /// The request had Authorization, and the response does not allow to share it (RFC 9111, 3.5).
    Authorization,
    /// Nothing says that the response may be reused: no freshness, no `public`, and a status that
    /// is not cacheable by default.
    NoFreshness,
    /// It can neither be fresh, nor be validated, nor be used stale.
    NeverReusable,
    /// It leads to a signed address, and does not say how long that works.
    Signed,
    /// It carries a cookie, and the mount does not store those.
    SetCookie,
    /// It is a part whose place or whole length is not known, or several parts.
    PartUnknown,
}

impl Refusal {
    /// The reason as a token, for logs and for the detail of Cache-Status.
    #[must_use]
    pub const fn token(self) -> &'static str {
        match self {
            Self::Method => "method",
            Self::Status => "status",
            Self::RequestNoStore => "request-no-store",
            Self::ResponseNoStore => "no-store",
            Self::Private => "private",
            Self::Authorization => "authorization",
            Self::NoFreshness => "no-freshness",
            Self::NeverReusable => "never-reusable",
            Self::Signed => "signed",
            Self::SetCookie => "set-cookie",
            Self::PartUnknown => "part-unknown",
        }
    }
}

/// Tells whether the response to a request may be stored. `target` is the absolute URI of the
/// request.
#[must_use]
pub fn storability<F: FieldLines>(
    policy: &Policy,
    request: &CacheRequest<'_, F>,
    target: &str,
    status: u16,
    fields: &impl FieldLines,
    times: Times,
) -> Storability {
    let (directives, _) = response_directives(policy, fields);
    if let Some(refusal) = refusal(request, status, &directives) {
        return Storability::Refused(refusal);
    }
    if policy.never_stores_cookies && fields.has("set-cookie") {
        return Storability::Refused(Refusal::SetCookie);
    }
    let freshness = Freshness::of(policy, status, fields, times);
    if !method_allows(request.method, target, &freshness, fields) {
        return Storability::Refused(Refusal::Method);
    }
    let has_lifetime = directives.public || policy.lifetime_of(status).is_some();
    if !freshness.explicit && !has_lifetime && !is_cacheable_by_default(status) {
        return Storability::Refused(Refusal::NoFreshness);
    }
    let signed = validity(status, fields);
    if signed == Validity::Unknown {
        return Storability::Refused(Refusal::Signed);
    }
    // A signed address is not validated.
    let can_be_used = is_reusable(&freshness, fields) && (signed == Validity::Unlimited || can_be_fresh(&freshness));
    if !can_be_used {
        return Storability::Refused(Refusal::NeverReusable);
    }
    if status == 206 { part(fields) } else { Storability::Complete }
}

/// Whether a response that was freshened may stay in the store: the newer fields may forbid what
/// the older ones allowed. It still answers the request that it was freshened for.
#[must_use]
pub fn may_stay_stored(policy: &Policy, stored: &StoredResponse) -> bool {
    let (directives, _) = response_directives(policy, &stored.fields);
    let understood = directives.must_understand && !reason(stored.status).is_empty();
    let has_cookie = policy.never_stores_cookies && stored.fields.has("set-cookie");
    (!directives.no_store || understood) && directives.private != FieldScope::Whole && !has_cookie
}

/// The prohibitions that do not depend on time.
fn refusal<F: FieldLines>(
    request: &CacheRequest<'_, F>,
    status: u16,
    directives: &ResponseDirectives,
) -> Option<Refusal> {
    // RFC 9111, 5.2.2.3: with must-understand, an understood status code overrides no-store.
    let understood = directives.must_understand && !reason(status).is_empty();
    if !matches!(status, 200..=999) || matches!(status, 304 | 412 | 416) || (directives.must_understand && !understood)
    {
        Some(Refusal::Status)
    } else if request.directives.no_store {
        Some(Refusal::RequestNoStore)
    } else if directives.no_store && !understood {
        Some(Refusal::ResponseNoStore)
    } else if directives.private == FieldScope::Whole {
        Some(Refusal::Private)
    } else if request.fields.has("authorization")
        && !(directives.public || directives.must_revalidate || directives.s_maxage != Limit::Absent)
    {
        Some(Refusal::Authorization)
    } else {
        None
    }
}

/// GET, and POST when its response says that it is what GET would get, and for how long (RFC 9110,
/// 9.3.3).
fn method_allows(method: Method<'_>, target: &str, freshness: &Freshness, fields: &impl FieldLines) -> bool {
    match method {
        Method::Get => true,
        Method::Post => {
            let mut locations = fields.all("content-location");
            freshness.explicit && locations.next().is_some_and(|location| is_same_resource(target, location))
        }
        _ => false,
    }
}

/// Whether a stored response could ever be used.
fn is_reusable(freshness: &Freshness, fields: &impl FieldLines) -> bool {
    let can_be_stale = freshness.may_be_stale()
        && freshness.stale_if_error_seconds.max(freshness.stale_while_revalidate_seconds)
            > freshness.staleness_seconds(freshness.received);
    can_be_fresh(freshness) || can_be_stale || entity_tag(fields).is_some() || last_modified(fields).is_some()
}

fn can_be_fresh(freshness: &Freshness) -> bool {
    !freshness.always_validate && freshness.is_fresh(freshness.received)
}

/// A single part whose place is known, and whose length is that of its place.
fn part(fields: &impl FieldLines) -> Storability {
    let content_range = fields.first("content-range").and_then(ContentRange::parse);
    let length = fields.first("content-length").map(decimal);
    match content_range {
        Some(part) if length.is_none_or(|length| length == Some(part.range.length())) => Storability::Partial(part),
        _ => Storability::Refused(Refusal::PartUnknown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    const TARGET: &str = "http://a.example/file";
    const FRESH: &str = "Cache-Control: max-age=3600";

    fn check(request: (&str, &[&str]), status: u16, lines: &[&str], expected: &str) {
        let client = fields(request.1);
        let asked = CacheRequest::new(Method::from_name(request.0), &client);
        let times = Times { request: 1000, response: 1000 };
        let shown = match storability(&Policy::default(), &asked, TARGET, status, &fields(lines), times) {
            Storability::Complete => "complete".to_owned(),
            Storability::Partial(part) => format!("part {}-{}", part.range.first, part.range.last),
            Storability::Refused(refusal) => refusal.token().to_owned(),
        };
        assert_eq!(shown, expected, "{request:?} {status} {lines:?}");
    }

    const GET: (&str, &[&str]) = ("GET", &[]);

    #[test]
    fn methods() {
        check(GET, 200, &[FRESH], "complete");
        for method in ["HEAD", "PUT", "DELETE", "OPTIONS", "get", "QUERY"] {
            check((method, &[]), 200, &[FRESH], "method");
        }
        // RFC 9110, 9.3.3.
        let post = ("POST", &[][..]);
        check(post, 200, &[FRESH], "method");
        check(post, 200, &[FRESH, "Content-Location: /file"], "complete");
        check(post, 200, &["Content-Location: ", FRESH], "complete");
        check(post, 200, &[FRESH, "Content-Location: /other"], "method");
        check(post, 200, &["ETag: \"a\"", "Content-Location: /file"], "method");
    }

    #[test]
    fn status_codes() {
        // RFC 9111, 3: any final status with explicit freshness.
        for status in
            [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 405, 410, 414, 499, 500, 501, 502, 503, 504, 599]
        {
            check(GET, status, &[FRESH], "complete");
        }
        for status in [100, 103, 304, 412, 416] {
            check(GET, status, &[FRESH], "status");
        }
        for status in [201, 202, 302, 403, 502, 503, 504, 599] {
            check(GET, status, &["Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT"], "no-freshness");
        }
        check(GET, 599, &["Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT", "Cache-Control: public"], "complete");
        // 5.2.2.3.
        check(GET, 599, &["Cache-Control: max-age=3600, must-understand"], "status");
        check(GET, 599, &["Cache-Control: max-age=3600, must-understand, no-store"], "status");
        check(GET, 200, &["Cache-Control: max-age=3600, must-understand, no-store"], "complete");
        check(GET, 200, &["Cache-Control: max-age=3600, must-understand"], "complete");
    }

    #[test]
    fn prohibitions() {
        // RFC 9111, 5.2.1.5, 5.2.2.5 and 5.2.2.7.
        check(("GET", &["Cache-Control: no-store"]), 200, &[FRESH], "request-no-store");
        check(GET, 200, &["Cache-Control: no-store"], "no-store");
        check(GET, 200, &["Cache-Control: No-StOrE"], "no-store");
        check(GET, 200, &["Cache-Control: max-age=10000, no-store", "Expires: x"], "no-store");
        check(GET, 200, &["Cache-Control: private, max-age=3600"], "private");
        check(GET, 200, &["Cache-Control: private=\"a\", max-age=3600"], "complete");
        check(GET, 200, &["CDN-Cache-Control: no-store", FRESH], "no-store");
        check(GET, 200, &["CDN-Cache-Control: max-age=9", "Cache-Control: no-store, private"], "complete");
        check(GET, 200, &[FRESH, "Set-Cookie: a=b"], "complete");
        check(("GET", &["Cookie: a=b"]), 200, &[FRESH], "complete");
    }

    #[test]
    fn cookies_where_they_are_never_stored() {
        let policy = Policy { never_stores_cookies: true, ..Policy::default() };
        let (client, times) = (fields(&[]), Times { request: 1000, response: 1000 });
        let asked = CacheRequest::new(Method::Get, &client);
        let cookie = fields(&[FRESH, "Set-Cookie: a=b"]);
        let decided = storability(&policy, &asked, TARGET, 200, &cookie, times);
        assert_eq!(decided, Storability::Refused(Refusal::SetCookie));
        let plain = fields(&[FRESH]);
        assert_eq!(storability(&policy, &asked, TARGET, 200, &plain, times), Storability::Complete);
        let mut stored = StoredResponse::new(&policy, &client, 200, &plain, times);
        assert!(may_stay_stored(&policy, &stored));
        stored.freshen(&policy, &client, &fields(&["Set-Cookie: a=b"]), times);
        assert!(!may_stay_stored(&policy, &stored) && may_stay_stored(&Policy::default(), &stored));
    }

    #[test]
    fn statuses_with_a_lifetime_of_the_operators() {
        let policy = Policy { lifetimes: vec![(301, 60), (302, 30), (404, 10), (200, 5)], ..Policy::default() };
        let check = |status: u16, lines: &[&str], expected: Option<u32>| {
            let (client, times) = (fields(&[]), Times { request: 1000, response: 1000 });
            let asked = CacheRequest::new(Method::Get, &client);
            let found = match storability(&policy, &asked, TARGET, status, &fields(lines), times) {
                Storability::Complete => {
                    let stored = StoredResponse::new(&policy, &client, status, &fields(lines), times);
                    Some(stored.freshness.lifetime_seconds)
                }
                _ => None,
            };
            assert_eq!(found, expected, "{status} {lines:?}");
        };
        check(301, &[], Some(60));
        check(302, &[], Some(30));
        check(404, &[], Some(10));
        check(403, &[], None);
        // Instead of the heuristic one, and not of what the origin says.
        check(200, &["Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT"], Some(5));
        check(302, &["Cache-Control: max-age=7"], Some(7));
        check(302, &["Cache-Control: no-store"], None);
        check(302, &["Set-Cookie: a=b"], None);
        check(302, &["Cache-Control: max-age=7", "Expires: 0"], Some(7));
        // A signed address that may end before.
        check(302, &["Location: /k?sig=a"], None);
    }

    #[test]
    fn a_redirect_is_stored_no_longer_than_its_signed_address_works() {
        // Fri, 27 Nov 2026 20:00:00 GMT
        let now = 1_795_809_600;
        let times = Times { request: now, response: now };
        let check = |lines: &[&str], query: &str, expected: Result<u32, &str>| {
            let location = format!("Location: https://b.example/k{query}");
            let lines = fields(&[lines, &[&*location]].concat());
            let (policy, client) = (Policy { stale_if_error_seconds: 600, ..Policy::default() }, fields(&[]));
            let asked = CacheRequest::new(Method::Get, &client);
            let found = match storability(&policy, &asked, TARGET, 302, &lines, times) {
                Storability::Refused(refusal) => Err(refusal.token()),
                _ => {
                    let stored = StoredResponse::new(&policy, &client, 302, &lines, times);
                    assert_eq!(stored.freshness.may_be_stale(), query.is_empty());
                    // Nothing confirms the address after that.
                    assert_eq!(stored.etag().is_some(), query.is_empty());
                    Ok(stored.freshness.lifetime_seconds)
                }
            };
            assert_eq!(found, expected, "{query}");
        };
        let hour: &[&str] = &[FRESH, "ETag: \"a\""];
        check(hour, "", Ok(3600));
        check(hour, "?X-Amz-Date=20261127T200000Z&X-Amz-Expires=300&X-Amz-Signature=a", Ok(300));
        check(hour, "?X-Amz-Date=20261127T195600Z&X-Amz-Expires=300&X-Amz-Signature=a", Ok(60));
        check(hour, "?X-Goog-Date=20261127T200000Z&X-Goog-Expires=86400", Ok(3600));
        check(hour, "?Expires=1795809610&Signature=a", Ok(10));
        check(hour, "?se=2026-11-27T20%3A00%3A20Z&sig=a", Ok(20));
        check(&[FRESH, "ETag: \"a\"", "Age: 100"], "?Expires=1795809610&Signature=a", Ok(110));
        check(hour, "?Expires=1795809600&Signature=a", Err("never-reusable"));
        check(hour, "?Signature=a", Err("signed"));
        check(
            &["Cache-Control: no-cache, max-age=60", "ETag: \"a\""],
            "?Expires=1795809610&sig=a",
            Err("never-reusable"),
        );
    }

    #[test]
    fn freshened_responses_that_may_not_stay() {
        let check = |line: &str, expected| {
            let (policy, times) = (Policy::default(), Times { request: 1000, response: 1000 });
            let mut stored = StoredResponse::new(&policy, &fields(&[]), 200, &fields(&[FRESH]), times);
            stored.freshen(&policy, &fields(&[]), &fields(&[line]), times);
            assert_eq!(may_stay_stored(&policy, &stored), expected, "{line}");
        };
        // RFC 9111, 3 and 3.2.
        check("A: 1", true);
        check("Cache-Control: max-age=1", true);
        check("Cache-Control: no-store", false);
        check("Cache-Control: no-store, must-understand", true);
        check("Cache-Control: private", false);
        check("Cache-Control: private=\"a\"", true);
        check("CDN-Cache-Control: no-store", false);
    }

    #[test]
    fn authorization() {
        // RFC 9111, 3.5.
        let check = |line: &str, expected: &str| check(("GET", &["Authorization: x"]), 200, &[line], expected);
        check(FRESH, "authorization");
        check("Expires: Fri, 01 Jan 2100 00:00:00 GMT", "authorization");
        check("Cache-Control: max-age=3600, public", "complete");
        check("Cache-Control: max-age=3600, must-revalidate", "complete");
        check("Cache-Control: max-age=3600, proxy-revalidate", "authorization");
        check("Cache-Control: s-maxage=3600", "complete");
    }

    #[test]
    fn responses_without_freshness() {
        check(GET, 200, &[], "never-reusable");
        check(GET, 200, &["ETag: \"a\""], "complete");
        check(GET, 200, &["ETag: a"], "never-reusable");
        check(GET, 200, &["Last-Modified: Thu, 01 Jan 1970 00:00:01 GMT"], "complete");
        check(GET, 200, &["Cache-Control: no-cache, max-age=3600"], "never-reusable");
        check(GET, 200, &["Cache-Control: no-cache", "ETag: \"a\""], "complete");
        check(GET, 200, &["Cache-Control: max-age=0"], "never-reusable");
        check(GET, 200, &["Cache-Control: max-age=0, stale-if-error=60"], "complete");
        check(GET, 200, &["Cache-Control: max-age=0, stale-while-revalidate=60"], "complete");
        check(GET, 200, &["Cache-Control: max-age=0, stale-if-error=60, must-revalidate"], "never-reusable");
        check(GET, 200, &["Cache-Control: max-age=10, stale-if-error=60", "Age: 80"], "never-reusable");
        check(GET, 404, &[], "never-reusable");
    }

    #[test]
    fn parts() {
        // RFC 9111, 3.3.
        let check = |lines: &[&str], expected: &str| {
            let all: Vec<&str> = [FRESH].iter().chain(lines).copied().collect();
            check(("GET", &["Range: bytes=4-9"]), 206, &all, expected);
        };
        check(&["Content-Range: bytes 4-9/10"], "part 4-9");
        check(&["Content-Range: bytes 4-9/10", "Content-Length: 6"], "part 4-9");
        check(&["Content-Range: bytes 4-9/10", "Content-Length: 5"], "part-unknown");
        check(&["Content-Range: bytes 4-9/*"], "part-unknown");
        check(&["Content-Type: multipart/byteranges; boundary=a"], "part-unknown");
        check(&[], "part-unknown");
    }
}
