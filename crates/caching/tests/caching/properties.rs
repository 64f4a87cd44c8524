//! Properties of any input: nothing panics, times saturate.

use proptest::prelude::*;
use thalweg_caching::validation::{HeadOutcome, ValidationOutcome, head_outcome, outcome};
use thalweg_caching::{
    CacheRequest, CacheStatus, ContentRange, Decision, FieldLines, ForwardReason, GROUPS_MAX, Invalidation, Outcome,
    Policy, SECONDS_MAX, Storability, StoredFields, StoredResponse, Times, Validation, cache_groups, decide,
    invalidation, storability,
};
use thalweg_wire::Method;

/// Values that are likely to mean something, and any others.
fn value() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop_oneof![
        "(max-age|s-maxage|stale-if-error|stale-while-revalidate|min-fresh|max-stale)=\"?-?[0-9]{0,12}\"?",
        "(no-cache|private|no-store|public|must-revalidate|must-understand|immutable)(=\"[a-z, ]{0,6}\"?)?",
        "(W/)?\"[a-c]{0,2}\"?",
        "(Mon|Thu), 01 Jan (1970|2024|9999) 00:00:0[0-9] GMT",
        "bytes [0-9]{1,20}-[0-9]{1,20}/[0-9*]{1,20}",
        "[*a-zA-Z]{0,6}",
        "https?://[a-z\\[\\]:@/?#]{0,9}",
        "[0-9]{1,20}",
    ];
    let text = proptest::collection::vec(fragment, 0..4).prop_map(|parts| parts.join(", ").into_bytes());
    prop_oneof![4 => text, 1 => proptest::collection::vec(any::<u8>(), 0..24)]
}

fn message() -> impl Strategy<Value = StoredFields> {
    let name = proptest::sample::select(vec![
        "Cache-Control",
        "CDN-Cache-Control",
        "Vary",
        "Age",
        "Expires",
        "Date",
        "Pragma",
        "ETag",
        "Last-Modified",
        "Cache-Groups",
        "Cache-Group-Invalidation",
        "Location",
        "Content-Location",
        "Content-Range",
        "Content-Length",
        "Connection",
        "Authorization",
        "Set-Cookie",
        "A",
    ]);
    proptest::collection::vec((name, value()), 0..8).prop_map(|lines| {
        let mut fields = StoredFields::default();
        for (name, value) in lines {
            fields.push(name, &value);
        }
        fields
    })
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![3 => 0..4_000_000_000i64, 1 => any::<i64>()]
}

proptest! {
    #[test]
    fn no_message_and_no_time_panics(
        client in message(),
        first in message(),
        second in message(),
        method in proptest::sample::select(vec!["GET", "HEAD", "POST", "X"]),
        status in proptest::sample::select(vec![0, 200, 206, 304, 404, 503, 599, 999, u16::MAX]),
        (sent, came, now) in (time(), time(), time()),
    ) {
        let policy = Policy::default();
        let request = CacheRequest::new(Method::from_name(method), &client);
        let times = Times { request: sent, response: came };
        let storing = storability(&policy, &request, "http://a.example/", status, &first, times);
        let mut stored = StoredResponse::new(&policy, &client, status, &first, times);
        let freshness = stored.freshness;
        let age = freshness.age_seconds(now);
        prop_assert!(age <= SECONDS_MAX && freshness.lifetime_seconds <= SECONDS_MAX);
        prop_assert_eq!(freshness.is_fresh(now), freshness.ttl_seconds(now) > 0);
        prop_assert!(freshness.age_seconds(now.saturating_add(1)) >= age, "age does not decrease");
        if storing == Storability::Complete {
            prop_assert!(!client.all("cache-control").any(|value| value.eq_ignore_ascii_case(b"no-store")));
        }
        match decide(&policy, &request, &[&stored], now) {
            Decision::Fresh { index } => {
                prop_assert!(index == 0 && freshness.is_fresh(now) && !freshness.always_validate);
            }
            Decision::Stale { .. } | Decision::StaleWhileRevalidate { .. } => {
                prop_assert!(!freshness.is_fresh(now) && freshness.may_be_stale());
            }
            Decision::Validate(validation) => prop_assert!(validation.has_conditions()),
            Decision::Fetch { .. } | Decision::GatewayTimeout => {}
        }
        let validation = Validation::of(&[&stored], Some(0), ForwardReason::Stale, None);
        let validated = outcome(&validation, &[&stored], status, &second, now);
        let is_about_304 = matches!(validated, ValidationOutcome::Freshen { .. } | ValidationOutcome::FetchWhole);
        prop_assert_eq!(is_about_304, status == 304);
        let head = head_outcome(&stored, status, &second);
        prop_assert!(head == HeadOutcome::Keep || status == 200);
        let invalid = invalidation(request.method, "http://a.example/", status, &second);
        prop_assert!(invalid.uris.iter().all(|uri| uri.starts_with("http://a.example/")), "{:?}", invalid);
        prop_assert!(method == "POST" || method == "X" || invalid == Invalidation::default());
        prop_assert!(cache_groups(&second).len() <= GROUPS_MAX);
        stored.freshen(&policy, &client, &second, Times { request: came, response: now });
        prop_assert!(!stored.fields.has("age"));
        prop_assert_eq!(stored.fields.all("connection").count(), 0);
        prop_assert!(stored.fields.has("date"));
    }

    #[test]
    fn statuses_are_structured_fields(cache in ".{0,12}", key in ".{0,12}", ttl in any::<i64>()) {
        let status = CacheStatus { outcome: Outcome::Hit, ttl_seconds: Some(ttl), key: Some(&key), detail: None };
        let value = status.value(&cache);
        prop_assert!(value.contains(";hit") && value.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", value);
    }

    #[test]
    fn content_ranges_lie_inside(value in value()) {
        if let Some(part) = ContentRange::parse(&value) {
            prop_assert!(part.range.first <= part.range.last && part.range.last < part.complete_bytes);
        }
    }
}
