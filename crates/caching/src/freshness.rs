//! For how long a response is fresh, and for how long it may be used after that (RFC 9111, 4.2;
//! RFC 5861). Read once per stored response; a request then compares numbers.

use thalweg_wire::date;

use crate::age::{self, AgeField, Times};
use crate::directives::{FieldScope, Limit, ResponseDirectives};
use crate::fields::FieldLines;
use crate::policy::Policy;
use crate::seconds::{SECONDS_MAX, add, elapsed};
use crate::signed::{Validity, validity};
use crate::targeted::response_directives;

/// The freshness of a stored response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// How old a fresh response may become.
    pub lifetime_seconds: u32,
    /// Whether the response itself names its lifetime.
    pub explicit: bool,
    /// The age of the response when it came.
    pub initial_age_seconds: u32,
    /// When it came.
    pub received: i64,
    /// The second of Date, or that of its arrival.
    pub date: i64,
    /// For how long after its lifetime it may be used while it is validated.
    pub stale_while_revalidate_seconds: u32,
    /// For how long after its lifetime it may stand in for a failing origin.
    pub stale_if_error_seconds: u32,
    /// Whether each use needs a validation (`no-cache`).
    pub always_validate: bool,
    /// Whether it must not be used stale (`must-revalidate`, `proxy-revalidate`, `s-maxage`).
    pub never_stale: bool,
    /// Whether it does not change while it is fresh (`immutable`).
    pub immutable: bool,
}

impl Freshness {
    /// Reads the freshness of a response with its final status code.
    #[must_use]
    pub fn of(policy: &Policy, status: u16, fields: &impl FieldLines, times: Times) -> Self {
        let (directives, targeted) = response_directives(policy, fields);
        let date = fields.first("date").and_then(date::parse).unwrap_or(times.response);
        let age = AgeField::of(fields);
        let explicit = explicit_lifetime(&directives, targeted, fields, date);
        let mut lifetime = explicit.unwrap_or_else(|| implied_lifetime(policy, status, &directives, fields, date));
        if matches!(status, 404 | 410 | 500..=599) {
            lifetime = lifetime.min(policy.negative_seconds_max);
        }
        let signed = validity(status, fields);
        let initial_age_seconds = age::initial_age(age, date, times);
        lifetime = match signed {
            Validity::Unlimited => lifetime,
            Validity::Until(end) => lifetime.min(add(initial_age_seconds, elapsed(times.response, end))),
            Validity::Unknown => 0,
        };
        let never_stale = signed != Validity::Unlimited
            || directives.must_revalidate
            || directives.proxy_revalidate
            || directives.s_maxage != Limit::Absent;
        Self {
            lifetime_seconds: if age == AgeField::Invalid { 0 } else { lifetime },
            explicit: explicit.is_some(),
            initial_age_seconds,
            received: times.response,
            date,
            stale_while_revalidate_seconds: window(
                directives.stale_while_revalidate,
                policy.stale_while_revalidate_seconds,
            ),
            stale_if_error_seconds: window(directives.stale_if_error, policy.stale_if_error_seconds),
            always_validate: directives.no_cache == FieldScope::Whole,
            never_stale,
            immutable: directives.immutable,
        }
    }

    /// The age at `now` (`current_age` of RFC 9111, 4.2.3), which is also the value of Age in a
    /// response from the store.
    #[must_use]
    pub fn age_seconds(&self, now: i64) -> u32 {
        add(self.initial_age_seconds, elapsed(self.received, now))
    }

    /// Whether it is fresh at `now`.
    #[must_use]
    pub fn is_fresh(&self, now: i64) -> bool {
        self.lifetime_seconds > self.age_seconds(now)
    }

    /// The seconds of freshness left; negative once it is stale.
    #[must_use]
    pub fn ttl_seconds(&self, now: i64) -> i64 {
        i64::from(self.lifetime_seconds) - i64::from(self.age_seconds(now))
    }

    /// For how long it has been stale.
    #[must_use]
    pub fn staleness_seconds(&self, now: i64) -> u32 {
        self.age_seconds(now).saturating_sub(self.lifetime_seconds)
    }

    /// Whether a stale response may be used at all without an answer from the origin (RFC 9111,
    /// 4.2.4).
    #[must_use]
    pub const fn may_be_stale(&self) -> bool {
        !self.never_stale && !self.always_validate
    }
}

/// The lifetime that the response names (RFC 9111, 4.2.1); an invalid one is none at all.
fn explicit_lifetime(
    directives: &ResponseDirectives,
    targeted: bool,
    fields: &impl FieldLines,
    date: i64,
) -> Option<u32> {
    for limit in [directives.s_maxage, directives.max_age] {
        if limit != Limit::Absent {
            return Some(limit.seconds().unwrap_or(0));
        }
    }
    if targeted {
        return None;
    }
    // RFC 9111, 5.3: an invalid date, "0" above all, is one in the past.
    let expires = fields.first("expires")?;
    Some(date::parse(expires).map_or(0, |expires| elapsed(date, expires)))
}

/// The lifetime of a response that names none (RFC 9111, 4.2.2).
///
/// Set-Cookie and `Pragma: no-cache` stand for responses that nobody meant to be shared, so those
/// have none.
fn implied_lifetime(
    policy: &Policy,
    status: u16,
    directives: &ResponseDirectives,
    fields: &impl FieldLines,
    date: i64,
) -> u32 {
    let set = policy.lifetime_of(status);
    let allowed = (is_cacheable_by_default(status) || directives.public || set.is_some())
        && !fields.has("set-cookie")
        && !fields.all("pragma").any(|value| value.eq_ignore_ascii_case(b"no-cache"));
    if !allowed {
        return 0;
    }
    if let Some(seconds) = set {
        return seconds;
    }
    match fields.first("last-modified").and_then(date::parse) {
        Some(modified) if modified < date => {
            let share = u64::from(elapsed(modified, date)) * u64::from(policy.heuristic_percent) / 100;
            let seconds = u32::try_from(share).unwrap_or(SECONDS_MAX);
            seconds.max(policy.heuristic_seconds_min).min(policy.heuristic_seconds_max)
        }
        _ if matches!(status, 404 | 405 | 410 | 414 | 501) => policy.negative_seconds_default,
        _ => 0,
    }
}

/// Whether responses of that status may be stored and reused without explicit freshness (RFC 9110,
/// 15.1).
pub(crate) const fn is_cacheable_by_default(status: u16) -> bool {
    matches!(status, 200 | 203 | 204 | 206 | 300 | 301 | 308 | 404 | 405 | 410 | 414 | 501)
}

fn window(limit: Limit, default: u32) -> u32 {
    match limit {
        Limit::Absent => default,
        Limit::Seconds(seconds) => seconds,
        Limit::Invalid => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    /// Mon, 01 Jan 2024 00:00:00 GMT
    const NOW: i64 = 1_704_067_200;

    /// A date line, relative to `NOW`.
    fn at(name: &str, offset: i64) -> String {
        format!("{name}: {}", String::from_utf8_lossy(&date::imf_fixdate(NOW + offset)))
    }

    fn freshness(policy: &Policy, status: u16, lines: &[String]) -> Freshness {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        Freshness::of(policy, status, &fields(&lines), Times { request: NOW, response: NOW })
    }

    /// Whether a response is fresh three seconds after it came.
    fn check(status: u16, lines: &[String], expected: bool) {
        let freshness = freshness(&Policy::default(), status, lines);
        assert_eq!(freshness.is_fresh(NOW + 3), expected, "{status} {lines:?}: {freshness:?}");
    }

    fn control(value: &str) -> String {
        format!("Cache-Control: {value}")
    }

    #[test]
    fn directives_and_expires() {
        let check = |lines: &[String], expected| check(200, lines, expected);
        // RFC 9111, 4.2.1.
        check(&[], false);
        check(&[control("max-age=3600")], true);
        check(&[control("max-age=3")], false);
        check(&[control("max-age=4")], true);
        check(&[control("max-age=0")], false);
        check(&[control("max-age=2147483648")], true);
        check(&[control("max-age=-1")], false);
        check(&[control("max-age=3600"), at("Expires", -7200), at("Date", 0)], true);
        check(&[control("max-age=3600"), "Expires: 0".into()], true);
        check(&[control("max-age=0"), at("Expires", 3600)], false);
        check(&[control("max-age=x"), at("Expires", 3600)], false);
        check(&[control("s-maxage=3600")], true);
        check(&[control("max-age=3600, s-maxage=1")], false);
        check(&[control("s-maxage=1"), control("max-age=3600")], false);
        check(&[control("max-age=1, s-maxage=3600")], true);
        check(&[at("Expires", -10), control("max-age=0, s-maxage=3600")], true);
        // 5.3.
        check(&[at("Expires", 3600), at("Date", 0)], true);
        check(&[at("Expires", -3600), at("Date", 0)], false);
        check(&[at("Expires", 0), at("Date", 0)], false);
        check(&[at("Expires", 300), at("Date", 400)], false);
        check(&["Expires: 0".into(), at("Last-Modified", -1_000_000)], false);
        check(&[at("Expires", 10), "Date: foo".into()], true);
        check(&[at("Expires", -10), at("Expires", 3600)], false);
        check(&["Expires: Thursday, 18-Aug-50 02:01:18 GMT".into()], true);
        check(&["Expires: Thu, 18 Aug 2050 02:01:18 AEST".into()], false);
        // RFC 9213, 2.2.
        check(&["CDN-Cache-Control: max-age=3600".into(), control("max-age=1"), at("Expires", -9)], true);
        check(&["CDN-Cache-Control: max-age=1".into(), control("max-age=3600")], false);
        check(&["CDN-Cache-Control: public".into(), at("Expires", 3600)], false);
    }

    #[test]
    fn ages() {
        let check = |lines: &[String], expected| check(200, lines, expected);
        let age = |value: &str| format!("Age: {value}");
        // RFC 9111, 4.2.3 and 5.1.
        check(&[control("max-age=3600"), age("7200")], false);
        check(&[control("max-age=3600"), age("3590")], true);
        check(&[control("max-age=3600"), at("Date", -7200)], false);
        check(&[at("Date", -10), at("Expires", 10), age("25")], false);
        check(&[at("Date", 10), at("Expires", 20), age("15")], false);
        check(&[control("max-age=3600"), age("abc")], false);
        check(&[control("max-age=3600"), age("-7200")], false);
        check(&[control("max-age=10000"), age("3600"), age("3600")], false);
        check(&["CDN-Cache-Control: max-age=3600".into(), age("7200")], false);
    }

    #[test]
    fn heuristics() {
        let day = at("Last-Modified", -86_400);
        // RFC 9110, 15.1: status codes that are cacheable by default.
        for status in [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501] {
            check(status, std::slice::from_ref(&day), true);
        }
        for status in [201, 202, 302, 307, 400, 403, 500, 502, 503, 504, 599] {
            check(status, std::slice::from_ref(&day), false);
            check(status, &[day.clone(), control("public")], true);
        }
        check(200, &[day.clone(), "Set-Cookie: a=b".into()], false);
        check(200, &[day.clone(), "Pragma: no-cache".into()], false);
        check(200, &[at("Last-Modified", 10)], false);
        check(200, &["Last-Modified: x".into()], false);

        let lifetime = |policy: &Policy, status, age: i64| {
            freshness(policy, status, &[at("Last-Modified", -age)]).lifetime_seconds
        };
        let policy = Policy { heuristic_seconds_min: 5, heuristic_seconds_max: 600, ..Policy::default() };
        assert_eq!(lifetime(&policy, 200, 1000), 100);
        assert_eq!(lifetime(&policy, 200, 10), 5);
        assert_eq!(lifetime(&policy, 200, 1_000_000), 600);
        assert_eq!(lifetime(&policy, 503, 1000), 0);
        let policy = Policy { heuristic_percent: u32::MAX, heuristic_seconds_max: u32::MAX, ..policy };
        assert_eq!(lifetime(&policy, 200, 1_000_000_000), SECONDS_MAX);
    }

    #[test]
    fn negative_lifetimes() {
        let check = |policy: &Policy, status, lines: &[String], expected| {
            assert_eq!(freshness(policy, status, lines).lifetime_seconds, expected, "{status} {lines:?}");
        };
        let policy = Policy { negative_seconds_default: 10, negative_seconds_max: 60, ..Policy::default() };
        for status in [404, 410, 500, 502, 503, 504, 599] {
            check(&policy, status, &[control("max-age=3600")], 60);
            check(&policy, status, &[control("max-age=30")], 30);
        }
        check(&policy, 200, &[control("max-age=3600")], 3600);
        check(&policy, 404, &[], 10);
        check(&policy, 501, &[], 10);
        check(&policy, 200, &[], 0);
        check(&policy, 503, &[], 0);
        check(&policy, 404, &[control("max-age=0")], 0);
    }

    #[test]
    fn use_after_the_lifetime() {
        let check = |value: &str, windows: (u32, u32), may_be_stale: bool| {
            let policy = Policy { stale_while_revalidate_seconds: 7, stale_if_error_seconds: 8, ..Policy::default() };
            let freshness = freshness(&policy, 200, &[control(value)]);
            let found = (freshness.stale_while_revalidate_seconds, freshness.stale_if_error_seconds);
            assert_eq!((found, freshness.may_be_stale()), (windows, may_be_stale), "{value}");
        };
        check("max-age=2", (7, 8), true);
        // RFC 5861.
        check("max-age=2, stale-while-revalidate=60", (60, 8), true);
        check("max-age=2, stale-if-error=60", (7, 60), true);
        check("max-age=2, stale-if-error=x, stale-while-revalidate=0", (0, 0), true);
        // RFC 9111, 4.2.4 and 5.2.2.
        check("max-age=2, must-revalidate", (7, 8), false);
        check("max-age=2, proxy-revalidate", (7, 8), false);
        check("s-maxage=2", (7, 8), false);
        check("max-age=2, no-cache", (7, 8), false);
        check("max-age=2, no-cache=\"a\"", (7, 8), true);
    }

    #[test]
    fn age_in_the_store() {
        let freshness = freshness(&Policy::default(), 200, &[control("max-age=600"), "Age: 30".into(), at("Date", 0)]);
        // RFC 9111, 4.2.3 and 5.1.
        assert_eq!(freshness.age_seconds(NOW), 30);
        assert_eq!(freshness.age_seconds(NOW + 3), 33);
        assert_eq!(freshness.age_seconds(NOW - 3), 30, "the clock was set back");
        assert_eq!(freshness.ttl_seconds(NOW + 3), 567);
        assert_eq!(freshness.ttl_seconds(NOW + 600), -30);
        assert_eq!(freshness.staleness_seconds(NOW + 600), 30);
        assert_eq!(freshness.age_seconds(i64::MAX), SECONDS_MAX);
    }
}
