//! The fields that a shared cache reads, and the decisions that follow from them.

use thalweg_caching::{
    CacheRequest, Decision, FieldLines, Policy, SECONDS_MAX, StoredFields, StoredResponse, Times, cache_groups, decide,
    invalidation, storability,
};
use thalweg_wire::Method;

use crate::lines::split_line;

const TARGET: &str = "http://a.example/";

/// A line with the number of field lines that the request has, then those, then field lines of a
/// response, each ended by LF.
pub fn cache_control(data: &[u8]) {
    let (count, lines) = split_line(data);
    let count = std::str::from_utf8(count).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let (mut client, mut response) = (StoredFields::default(), StoredFields::default());
    for (index, line) in lines.split(|&byte| byte == b'\n').enumerate() {
        let colon = line.iter().position(|&byte| byte == b':').unwrap_or(0);
        let (name, value) = line.split_at(colon);
        let fields = if index < count { &mut client } else { &mut response };
        fields.push(std::str::from_utf8(name).unwrap_or("a"), value.strip_prefix(b":").unwrap_or(value).trim_ascii());
    }
    let policy = Policy::default();
    let request = CacheRequest::new(Method::Get, &client);
    let times = Times { request: 1_704_067_200, response: 1_704_067_201 };
    let _ = storability(&policy, &request, TARGET, 200, &response, times);
    let mut stored = StoredResponse::new(&policy, &client, 200, &response, times);
    for now in [i64::MIN, 0, times.response, times.response + 60, i64::MAX] {
        check_decision(&policy, &request, &stored, now);
    }
    assert!(invalidation(Method::Post, TARGET, 200, &response).uris.iter().all(|uri| uri.starts_with(TARGET)));
    assert!(cache_groups(&response).len() <= thalweg_caching::GROUPS_MAX);
    let before = stored.clone();
    stored.freshen(&policy, &client, &StoredFields::default(), times);
    assert_eq!(stored.fields.first("etag"), before.fields.first("etag"), "a response without fields changes no tag");
}

fn check_decision(policy: &Policy, request: &CacheRequest<'_, StoredFields>, stored: &StoredResponse, now: i64) {
    let freshness = &stored.freshness;
    assert!(freshness.age_seconds(now) <= SECONDS_MAX && freshness.lifetime_seconds <= SECONDS_MAX);
    match decide(policy, request, &[stored], now) {
        Decision::Fresh { .. } => assert!(freshness.is_fresh(now) && !freshness.always_validate),
        Decision::Stale { .. } | Decision::StaleWhileRevalidate { .. } => {
            assert!(!freshness.is_fresh(now) && freshness.may_be_stale());
        }
        Decision::Validate(validation) => assert!(validation.has_conditions()),
        Decision::GatewayTimeout => assert!(request.directives.only_if_cached),
        Decision::Fetch { .. } => {}
    }
}
