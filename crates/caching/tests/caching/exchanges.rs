//! Exchanges of two or three requests: the first fills the cache, the last shows the outcome.
//! The rows are the behaviours that public test suites of HTTP caches ask for.

use thalweg_caching::FieldLines;

use crate::model::{BEGIN, Cache, Origin, TARGET, fields};

/// Asks twice, three seconds apart, an origin that always has the same response.
fn check(status: u16, lines: &[&str], expected: &str) {
    check_requests(("GET", &[]), (status, lines), ("GET", &[]), expected);
}

fn check_requests(first: (&str, &[&str]), origin: (u16, &[&str]), second: (&str, &[&str]), expected: &str) {
    let mut cache = Cache::new();
    assert_eq!(cache.ask(first.0, first.1, Some(origin)).source, "fetched");
    cache.now += 3;
    let reply = cache.ask(second.0, second.1, Some(origin));
    assert_eq!(reply.source, expected, "{first:?} {origin:?} {second:?}");
}

const FRESH: &str = "Cache-Control: max-age=3600";

#[test]
fn explicit_freshness() {
    let check = |lines: &[&str], expected| check(200, lines, expected);
    // RFC 9111, 4.2.
    check(&[], "fetched");
    check(&[FRESH], "hit");
    check(&["Cache-Control: max-age=0"], "fetched");
    check(&["Cache-Control: max-age=2147483649"], "hit");
    check(&[FRESH, "Expires: @-7200", "Date: @0"], "hit");
    check(&["Cache-Control: max-age=0", "Expires: @3600", "Date: @0"], "fetched");
    check(&["Cache-Control: extension, max-age=3600"], "hit");
    check(&["Cache-Control: max-age=3600", "Age: 7200", "Date: @0"], "fetched");
    check(&["Cache-Control: max-age=1, s-maxage=3600"], "hit");
    check(&["Cache-Control: s-maxage=1", "Cache-Control: max-age=3600"], "fetched");
    check(&["Expires: @3600", "Date: @0"], "hit");
    check(&["Expires: @0", "Date: @0"], "fetched");
    check(&["Expires: @300", "Date: @400"], "fetched");
    check(&["Expires: 0", "Date: @0"], "fetched");
    check(&["Expires: @10", "Date: foo"], "hit");
    check(&["CDN-Cache-Control: max-age=3600", "Cache-Control: no-store"], "hit");
    check(&["CDN-Cache-Control: no-store", FRESH], "fetched");
}

#[test]
fn status_codes() {
    for status in [200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 410, 499, 500, 502, 503, 504, 599] {
        check(status, &[FRESH], "hit");
        check(status, &["Cache-Control: max-age=2"], "fetched");
    }
    // RFC 9111, 4.2.2.
    for status in [200, 203, 204, 404, 405, 410, 414, 501] {
        check(status, &["Last-Modified: @-86400", "Date: @0"], "hit");
    }
    for status in [201, 202, 403, 502, 503, 504, 599] {
        check(status, &["Last-Modified: @-86400", "Date: @0"], "fetched");
    }
    check(599, &["Last-Modified: @-86400", "Date: @0", "Cache-Control: public"], "hit");
    check(599, &["Cache-Control: max-age=3600, must-understand"], "fetched");
}

#[test]
fn prohibitions_and_validation() {
    let check = |lines: &[&str], expected| check(200, lines, expected);
    check(&["Cache-Control: private, max-age=3600"], "fetched");
    check(&["Cache-Control: No-StOrE, max-age=3600"], "fetched");
    check(&["Cache-Control: no-cache, max-age=3600"], "fetched");
    check(&["Cache-Control: no-cache, max-age=3600", "ETag: \"a\""], "validated");
    check(&["Cache-Control: no-cache", "ETag: \"a\""], "validated");
    check(&["Cache-Control: max-age=3600, must-revalidate", "ETag: \"a\""], "hit");
    check(&["Cache-Control: max-age=2, must-revalidate", "ETag: \"a\""], "validated");
    check(&["Expires: @1", "Date: @0", "ETag: W/\"a\""], "validated");
    check(&["Cache-Control: max-age=2", "Last-Modified: Wed, 01 Jan 2020 00:00:00 GMT", "Date: @0"], "validated");
    check(&[FRESH, "Set-Cookie: a=b"], "hit");
    check(&[FRESH, "Vary: *"], "fetched");
}

#[test]
fn requests() {
    let origin: (u16, &[&str]) = (200, &[FRESH, "Vary: Foo"]);
    let get =
        |first: &[&str], second: &[&str], expected| check_requests(("GET", first), origin, ("GET", second), expected);
    get(&["Foo: 1"], &["Foo: 1"], "hit");
    get(&["Foo: 1"], &["Foo: 2"], "fetched");
    get(&[], &["Foo: 1"], "fetched");
    get(&["Foo: 1, 2"], &["Foo: 1", "Foo: 2"], "hit");
    get(&["Authorization: x"], &[], "fetched");
    get(&["Cache-Control: no-store"], &[], "fetched");
    get(&[], &["Cookie: a=b"], "hit");
    get(&[], &["Cache-Control: max-age=1"], "fetched");
    get(&[], &["Pragma: no-cache"], "fetched");
    check_requests(("GET", &[]), origin, ("HEAD", &[]), "hit");
    // RFC 9110, 9.3.3.
    let posted: (u16, &[&str]) = (200, &[FRESH, "Content-Location: /file"]);
    check_requests(("POST", &[]), posted, ("GET", &[]), "hit");
    check_requests(("POST", &[]), origin, ("GET", &[]), "fetched");
    assert_eq!(Cache::new().ask("GET", &["Cache-Control: only-if-cached"], None).status, 504);
}

#[test]
fn unsafe_methods_invalidate() {
    let check = |method: &str, status: u16, expected: &str| {
        let mut cache = Cache::new();
        cache.ask("GET", &[], Some((200, &[FRESH])));
        cache.ask(method, &[], Some((status, &[])));
        assert_eq!(cache.ask("GET", &[], Some((200, &[FRESH]))).source, expected, "{method} {status} {TARGET}");
    };
    // RFC 9111, 4.4.
    for method in ["POST", "PUT", "DELETE", "M-SEARCH"] {
        check(method, 200, "fetched");
        check(method, 500, "hit");
    }
    check("OPTIONS", 200, "hit");
}

#[test]
fn failing_origins() {
    let check = |control: &str, origin: Origin<'_>, expected: &str| {
        let mut cache = Cache::new();
        cache.ask("GET", &[], Some((200, &[&format!("Cache-Control: max-age=2, {control}"), "ETag: \"a\""])));
        cache.now += 5;
        assert_eq!(cache.ask("GET", &[], origin).source, expected, "{control} {origin:?}");
    };
    // RFC 5861, 4; RFC 9111, 4.2.4.
    check("stale-if-error=60", None, "fallback");
    check("stale-if-error=60", Some((503, &[])), "fallback");
    check("stale-if-error=60", Some((404, &[])), "fetched");
    check("stale-if-error=3", None, "504");
    check("x", None, "504");
    check("x", Some((503, &[])), "fetched");
    check("stale-if-error=60, must-revalidate", None, "504");
    check("stale-if-error=60, proxy-revalidate", None, "504");
    check("stale-if-error=60, no-cache", None, "504");
    check("stale-if-error=60, s-maxage=2", None, "504");
}

#[test]
fn stale_while_revalidating() {
    let mut cache = Cache::new();
    let origin: Origin<'_> = Some((200, &["Cache-Control: max-age=2, stale-while-revalidate=60", "ETag: \"a\""]));
    let sources: Vec<&str> = [0, 3, 1, 100]
        .into_iter()
        .map(|wait| {
            cache.now += wait;
            cache.ask("GET", &[], origin).source
        })
        .collect();
    assert_eq!(sources, ["fetched", "stale", "hit", "validated"]);
}

#[test]
fn freshened_fields() {
    let check = |name: &str, old: &str, new: &str, expected: &str| {
        let mut cache = Cache::new();
        let tag = "ETag: \"a\"";
        let limit = "Cache-Control: max-age=2";
        cache.ask("GET", &[], Some((200, &["Date: @0", limit, tag, &format!("{name}: {old}")])));
        cache.now += 3;
        let origin: (u16, &[&str]) = (200, &["Date: @0", limit, tag, &format!("{name}: {new}")]);
        for source in ["validated", "hit"] {
            let reply = cache.ask("GET", &[], Some(origin));
            let value = reply.fields.first(name).map(String::from_utf8_lossy);
            assert_eq!((reply.source, value.as_deref()), (source, Some(expected)), "{name}");
        }
    };
    // RFC 9111, 3.2.
    for name in ["Content-Encoding", "Content-Length", "Content-MD5", "Content-Range"] {
        check(name, "1", "2", "1");
    }
    for name in ["Test", "Content-Type", "Content-Location", "Expires", "Set-Cookie", "Content-Security-Policy"] {
        check(name, "1", "2", "2");
    }
}

#[test]
fn a_304_with_no_store_answers_and_ends_the_storing() {
    let mut cache = Cache::new();
    cache.ask("GET", &[], Some((200, &["Cache-Control: max-age=2", "ETag: \"a\""])));
    cache.now += 3;
    let origin: Origin<'_> = Some((200, &["Cache-Control: no-store", "ETag: \"a\""]));
    assert_eq!(cache.ask("GET", &[], origin).source, "validated");
    assert_eq!(cache.ask("GET", &[], origin).source, "fetched");
}

#[test]
fn replies_have_age_and_the_date_of_the_response() {
    let mut cache = Cache::new();
    let origin: Origin<'_> = Some((200, &[FRESH, "Date: @0", "Age: 30", "Connection: a", "A: 1", "B: 2"]));
    cache.ask("GET", &[], origin);
    cache.now += 3;
    let reply = cache.ask("GET", &[], origin);
    let expected = [FRESH, "Date: @0", "B: 2", "Age: 33"];
    assert_eq!(reply.fields, fields(&expected, BEGIN));
}

#[test]
fn conditions_name_all_variants() {
    let mut cache = Cache::new();
    cache.ask("GET", &["Foo: 1"], Some((200, &[FRESH, "Vary: Foo", "ETag: \"a\""])));
    cache.ask("GET", &["Foo: 2"], Some((200, &[FRESH, "Vary: Foo", "ETag: \"b\""])));
    cache.ask("GET", &["Foo: 3"], Some((200, &[FRESH, "Vary: Foo", "ETag: \"c\""])));
    assert_eq!(cache.conditions, ["If-None-Match: \"a\", \"b\""]);
    for value in ["Foo: 1", "Foo: 2", "Foo: 3"] {
        assert_eq!(cache.ask("GET", &[value], None).source, "hit", "{value}");
    }
}

#[test]
fn head_freshens_or_invalidates() {
    let check = |head: &[&str], expected: &str| {
        let mut cache = Cache::new();
        cache.ask("GET", &[], Some((200, &["Cache-Control: max-age=2", "Content-Length: 10", "A: 1"])));
        cache.now += 3;
        assert_eq!(cache.ask("HEAD", &[], Some((200, head))).source, "fetched");
        assert_eq!(cache.ask("GET", &[], Some((200, &[]))).source, expected, "{head:?}");
    };
    // RFC 9111, 4.3.5.
    check(&["Cache-Control: max-age=1000"], "hit");
    check(&["Cache-Control: max-age=1000", "Content-Length: 10"], "hit");
    check(&["Cache-Control: max-age=1000", "Content-Length: 11"], "fetched");
}
