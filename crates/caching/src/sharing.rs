//! Responses that are not stored, and the requests that wait for them: one response may answer all
//! of these, or each asks the origin for itself (RFC 9111, 4, on collapsed requests).

use crate::age::Times;
use crate::directives::FieldScope;
use crate::fields::FieldLines;
use crate::freshness::{Freshness, is_cacheable_by_default};
use crate::policy::Policy;
use crate::storing::Refusal;
use crate::targeted::response_directives;

/// How far a response goes that is not stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// It answers the requests that wait for it and have its secondary key. A later request is one
    /// to the origin again.
    Waiting,
    /// It answers its own request alone. The others ask the origin side by side.
    Alone {
        /// Whether the next responses are expected to be like it, so that no request waits for
        /// them.
        is_lasting: bool,
    },
}

/// Tells how far a response goes that was refused by `storability`.
///
/// A response that says nothing of its freshness answers those who wait if it is an error or a
/// redirect that is cacheable by default, or says that a gateway failed. A success without
/// freshness and validator is made anew for each request, more often than not.
#[must_use]
pub fn sharing(policy: &Policy, refusal: Refusal, status: u16, fields: &impl FieldLines, times: Times) -> Sharing {
    let is_failure = status >= 500;
    match refusal {
        // These say nothing about the requests of others.
        Refusal::Method | Refusal::RequestNoStore | Refusal::Authorization | Refusal::PartUnknown => {
            Sharing::Alone { is_lasting: false }
        }
        Refusal::Status if matches!(status, 304 | 412 | 416) => Sharing::Alone { is_lasting: false },
        Refusal::NoFreshness | Refusal::NeverReusable if answers_waiting(policy, status, fields, times) => {
            Sharing::Waiting
        }
        _ => Sharing::Alone { is_lasting: !is_failure },
    }
}

fn answers_waiting(policy: &Policy, status: u16, fields: &impl FieldLines, times: Times) -> bool {
    let (directives, _) = response_directives(policy, fields);
    let is_kind = (is_cacheable_by_default(status) && status >= 300) || matches!(status, 502..=504);
    is_kind
        && !Freshness::of(policy, status, fields, times).explicit
        && directives.no_cache == FieldScope::Absent
        && !directives.must_revalidate
        && !fields.has("set-cookie")
        && !fields.all("pragma").any(|value| value.eq_ignore_ascii_case(b"no-cache"))
}

#[cfg(test)]
mod tests {
    use thalweg_wire::Method;

    use super::*;
    use crate::fields::tests::fields;
    use crate::request::CacheRequest;
    use crate::storing::{Storability, storability};

    const LASTING: Option<Sharing> = Some(Sharing::Alone { is_lasting: true });
    const ONCE: Option<Sharing> = Some(Sharing::Alone { is_lasting: false });
    const WAITING: Option<Sharing> = Some(Sharing::Waiting);

    fn check_by(method: &str, request: &[&str], status: u16, lines: &[&str], expected: Option<Sharing>) {
        let (policy, times) = (Policy::default(), Times { request: 1000, response: 1000 });
        let (client, response) = (fields(request), fields(lines));
        let asked = CacheRequest::new(Method::from_name(method), &client);
        let found = match storability(&policy, &asked, "http://a.example/file", status, &response, times) {
            Storability::Refused(refusal) => Some(sharing(&policy, refusal, status, &response, times)),
            _ => None,
        };
        assert_eq!(found, expected, "{method} {request:?} {status} {lines:?}");
    }

    fn check(status: u16, lines: &[&str], expected: Option<Sharing>) {
        check_by("GET", &[], status, lines, expected);
    }

    #[test]
    fn private_responses_answer_nobody_who_waits() {
        for status in [200, 301, 302, 307, 404, 410] {
            check(status, &["Cache-Control: no-store"], LASTING);
            check(status, &["Cache-Control: private"], LASTING);
            check(status, &["Cache-Control: private, max-age=60"], LASTING);
            check(status, &["CDN-Cache-Control: no-store", "Cache-Control: max-age=60"], LASTING);
        }
        check(503, &["Cache-Control: no-store"], ONCE);
    }

    #[test]
    fn errors_and_redirects_without_freshness() {
        for status in [301, 308, 404, 405, 410] {
            check(status, &[], WAITING);
            check(status, &["Vary: Accept"], WAITING);
            check(status, &["Set-Cookie: a=b"], LASTING);
            check(status, &["Pragma: no-cache"], LASTING);
            check(status, &["Cache-Control: no-cache"], LASTING);
            check(status, &["Cache-Control: must-revalidate"], LASTING);
            check(status, &["Cache-Control: max-age=0"], LASTING);
            check(status, &["Expires: 0"], LASTING);
            check(status, &["Cache-Control: max-age=60"], None);
        }
        for status in [302, 303, 307, 401, 403] {
            check(status, &[], LASTING);
        }
        for status in [200, 203, 204] {
            check(status, &[], LASTING);
            check(status, &["ETag: \"a\""], None);
        }
    }

    #[test]
    fn failures_of_an_origin_are_not_remembered() {
        for status in [502, 503, 504] {
            check(status, &[], WAITING);
            check(status, &["Set-Cookie: a=b"], ONCE);
        }
        check(500, &[], ONCE);
        check(501, &[], WAITING);
    }

    #[test]
    fn a_request_of_its_own_kind_says_nothing_about_others() {
        const FRESH: &[&str] = &["Cache-Control: max-age=60"];
        check_by("GET", &["Cache-Control: no-store"], 200, FRESH, ONCE);
        check_by("GET", &["Authorization: x"], 200, FRESH, ONCE);
        check_by("POST", &[], 200, &[], ONCE);
        check_by("GET", &["Range: bytes=9-"], 416, &[], ONCE);
        check_by("GET", &["If-Match: \"a\""], 412, &[], ONCE);
        check_by("GET", &["If-None-Match: \"a\""], 304, &[], ONCE);
        check_by("GET", &["Range: bytes=0-1,4-5"], 206, &["Content-Type: multipart/byteranges", FRESH[0]], ONCE);
    }
}
