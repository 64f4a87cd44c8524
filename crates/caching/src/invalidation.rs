//! Invalidation by requests that may have changed something (RFC 9111, 4.4; RFC 9875), and the
//! comparison of URIs that this takes.
//!
//! The URIs are given in the normal form of the `url` crate; the caller makes its keys of them.

use thalweg_wire::Method;
use url::Url;

use crate::fields::FieldLines;
use crate::groups::member_groups;

/// The stored responses that are to be invalidated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Invalidation {
    /// The URIs of all whose variants are invalid, first that of the request.
    pub uris: Vec<String>,
    /// The groups of the request's origin of which all members are invalid. This goes no further: a
    /// member's other groups stay valid (RFC 9875, 2.2).
    pub groups: Vec<String>,
}

/// Tells what the response to a request invalidates. `target` is the absolute URI of the request.
///
/// Only unsafe methods invalidate, and only when they succeed (2xx and 3xx); of a method that is
/// not known nothing says that it is safe. Location and Content-Location count if they are of the
/// same origin, lest one site could empty the cache of another.
#[must_use]
pub fn invalidation(method: Method<'_>, target: &str, status: u16, fields: &impl FieldLines) -> Invalidation {
    if is_safe(method) || !matches!(status, 200..=399) {
        return Invalidation::default();
    }
    let Ok(base) = Url::parse(target) else {
        return Invalidation::default();
    };
    let mut uris = vec![without_fragment(base.clone())];
    for name in ["location", "content-location"] {
        if let Some(uri) = fields.first(name).and_then(|reference| resolve(&base, reference))
            && uri.origin() == base.origin()
        {
            let uri = without_fragment(uri);
            if !uris.contains(&uri) {
                uris.push(uri);
            }
        }
    }
    Invalidation { uris, groups: member_groups(fields, "cache-group-invalidation") }
}

/// Whether a reference, such as the value of Content-Location, is to the target of the request
/// itself.
pub(crate) fn is_same_resource(target: &str, reference: &[u8]) -> bool {
    let Ok(base) = Url::parse(target) else {
        return false;
    };
    resolve(&base, reference).is_some_and(|uri| without_fragment(uri) == without_fragment(base))
}

/// Methods that change nothing (RFC 9110, 9.2.1). QUERY, PROPFIND, REPORT and SEARCH are safe by
/// their registration, too.
fn is_safe(method: Method<'_>) -> bool {
    match method {
        Method::Get | Method::Head | Method::Options | Method::Trace => true,
        Method::Extension(name) => matches!(name, "QUERY" | "PROPFIND" | "REPORT" | "SEARCH"),
        _ => false,
    }
}

fn resolve(base: &Url, reference: &[u8]) -> Option<Url> {
    base.join(std::str::from_utf8(reference).ok()?).ok()
}

fn without_fragment(mut uri: Url) -> String {
    uri.set_fragment(None);
    uri.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    const TARGET: &str = "http://a.example/dir/file?x=1";

    fn check(method: &str, status: u16, lines: &[&str], expected: &[&str]) {
        let found = invalidation(Method::from_name(method), TARGET, status, &fields(lines));
        assert_eq!(found.uris, expected, "{method} {status} {lines:?}");
    }

    #[test]
    fn methods_and_status_codes() {
        // RFC 9111, 4.4.
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
            for status in [200, 201, 204, 303] {
                check(method, status, &[], &[TARGET]);
            }
            for status in [101, 400, 404, 500, 503] {
                check(method, status, &[], &[]);
            }
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY"] {
            check(method, 200, &["Location: /other"], &[]);
        }
    }

    #[test]
    fn locations_of_the_same_origin() {
        for name in ["Location", "Content-Location"] {
            let check = |reference: &str, expected: &[&str]| {
                let all: Vec<&str> = [TARGET].iter().chain(expected).copied().collect();
                check("POST", 201, &[&format!("{name}: {reference}")], &all);
            };
            check("/other", &["http://a.example/other"]);
            check("new?y=2#part", &["http://a.example/dir/new?y=2"]);
            check("http://A.example:80/other", &["http://a.example/other"]);
            check("//b.example/other", &[]);
            check("https://a.example/other", &[]);
            check("http://a.example:8080/other", &[]);
            check("http://[", &[]);
            check("#part", &[]);
        }
        check(
            "POST",
            200,
            &["Location: /a", "Content-Location: /b"],
            &[TARGET, "http://a.example/a", "http://a.example/b"],
        );
        check("POST", 200, &["Location: /a", "Content-Location: /a"], &[TARGET, "http://a.example/a"]);
    }

    #[test]
    fn groups() {
        let check = |method: &str, status: u16, line: &str, expected: &[&str]| {
            let found = invalidation(Method::from_name(method), TARGET, status, &fields(&[line]));
            assert_eq!(found.groups, expected, "{method} {status} {line}");
        };
        // RFC 9875, 3.
        check("POST", 200, "Cache-Group-Invalidation: \"a\", \"b\"", &["a", "b"]);
        check("GET", 200, "Cache-Group-Invalidation: \"a\"", &[]);
        check("POST", 500, "Cache-Group-Invalidation: \"a\"", &[]);
        check("POST", 200, "Cache-Groups: \"a\"", &[]);
    }

    #[test]
    fn the_resource_itself() {
        let check = |reference: &str, expected| {
            assert_eq!(is_same_resource(TARGET, reference.as_bytes()), expected, "{reference}");
        };
        check("", true);
        check("?x=1", true);
        check("file?x=1", true);
        check("http://a.example/dir/file?x=1", true);
        check("file", false);
        check("/dir/other?x=1", false);
        assert!(!is_same_resource("/relative", b""));
    }
}
