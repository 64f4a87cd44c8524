//! A stored response: its fields as they are sent again, and what a request needs of them as
//! values.

use thalweg_wire::date;
use thalweg_wire::validator::EntityTag;

use crate::age::Times;
use crate::fields::{FieldLines, StoredFields};
use crate::freshness::Freshness;
use crate::policy::Policy;
use crate::signed::{Validity, validity};
use crate::targeted::response_directives;
use crate::variant::Vary;
use crate::version::{self, Version};

/// A stored response without its content. All but status, fields, times and key follows from these,
/// and is read again when the response is loaded from a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResponse {
    /// The status code; 206 for a part, whatever was put together of parts since.
    pub status: u16,
    /// The fields to be sent, with Date and without Age. Content-Length and Content-Range are those
    /// of the response that was stored first: an answer of other bytes has its own.
    pub fields: StoredFields,
    /// When it was asked for, or validated for the last time.
    pub times: Times,
    /// The value of Age that the origin, or a cache before it, sent.
    pub age_field: Option<Box<[u8]>>,
    /// Its freshness.
    pub freshness: Freshness,
    /// The request fields that it depends on.
    pub vary: Vary,
    /// The secondary key of the request that it answered; `None` for `Vary: *`.
    pub key: Option<Box<[u8]>>,
}

impl StoredResponse {
    /// Makes a stored response of one that `storability` allows. `request` has the fields of the
    /// request that it answers.
    #[must_use]
    pub fn new(
        policy: &Policy,
        request: &impl FieldLines,
        status: u16,
        fields: &impl FieldLines,
        times: Times,
    ) -> Self {
        let vary = Vary::of(fields);
        let key = vary.key(request);
        Self::from_parts(policy, key, status, fields, times)
    }

    /// Makes a stored response anew from a store: with the key, the status, the fields (with a line
    /// for `age_field`, if there is one) and the times that the store kept.
    #[must_use]
    pub fn from_parts(
        policy: &Policy,
        key: Option<Box<[u8]>>,
        status: u16,
        fields: &impl FieldLines,
        times: Times,
    ) -> Self {
        let (directives, _) = response_directives(policy, fields);
        // RFC 9111, 5.2.2.4 and 5.2.2.7: fields that must not be sent from the store are not in it.
        let excluded: Vec<&str> =
            directives.no_cache.names().iter().chain(directives.private.names()).map(|name| &**name).collect();
        let freshness = Freshness::of(policy, status, fields, times);
        let mut kept = StoredFields::end_to_end(fields, &excluded);
        // An Age of several lines stays invalid when it is one list.
        let age_field = fields.has("age").then(|| fields.all("age").collect::<Vec<_>>().join(&b", "[..]).into());
        kept.remove("age");
        if validity(status, fields) != Validity::Unlimited {
            // A confirmation would be about an address that works no more.
            ["etag", "last-modified"].iter().for_each(|name| kept.remove(name));
        }
        if fields.first("date").and_then(date::parse).is_none() {
            // RFC 9110, 6.6.1.
            kept.remove("date");
            kept.push("Date", &date::imf_fixdate(times.response));
        }
        Self { status, fields: kept, times, age_field, freshness, vary: Vary::of(fields), key }
    }

    /// Takes over what a newer response without content says of this one: a 304, or a 200 to HEAD
    /// (RFC 9111, 3.2, 4.3.4 and 4.3.5). `request` has the fields of the client's request.
    ///
    /// Age, and Date if the newer response has none, are those of the newer one: it is that one
    /// whose age counts from now on.
    pub fn freshen(&mut self, policy: &Policy, request: &impl FieldLines, newer: &impl FieldLines, times: Times) {
        let mut fields = std::mem::take(&mut self.fields);
        fields.remove("warning");
        fields.update(newer);
        if fields.first("date").is_some() && !newer.has("date") {
            fields.remove("date");
        }
        let vary = Vary::of(&fields);
        let key = if vary == self.vary { self.key.take() } else { vary.key(request) };
        *self = Self::from_parts(policy, key, self.status, &fields, times);
    }

    /// Whether this response answers requests with that secondary key, which is made by `vary`.
    #[must_use]
    pub fn matches_key(&self, key: &[u8]) -> bool {
        self.key.as_deref() == Some(key)
    }

    /// The order of age among responses: by Date, then by the time of arrival.
    #[must_use]
    pub const fn recency(&self) -> (i64, i64) {
        (self.freshness.date, self.freshness.received)
    }

    /// Its entity tag.
    #[must_use]
    pub fn etag(&self) -> Option<EntityTag<'_>> {
        version::entity_tag(&self.fields)
    }

    /// The second of its last modification.
    #[must_use]
    pub fn last_modified(&self) -> Option<i64> {
        version::last_modified(&self.fields)
    }

    /// Its version, if it has a strong validator.
    #[must_use]
    pub fn version(&self, complete_bytes: u64) -> Option<Version> {
        Version::of(&self.fields, complete_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::{fields, shown};

    const TIMES: Times = Times { request: 999, response: 1000 };
    const AT_1000: &str = "Date: Thu, 01 Jan 1970 00:16:40 GMT";

    fn stored(lines: &[&str]) -> StoredResponse {
        StoredResponse::new(&Policy::default(), &fields(&["Foo: 1"]), 200, &fields(lines), TIMES)
    }

    #[test]
    fn fields_in_the_store() {
        let check = |lines: &[&str], expected: &[&str]| {
            assert_eq!(shown(&stored(lines).fields), expected, "{lines:?}");
        };
        check(&["A: 1"], &["A: 1", AT_1000]);
        check(&["Date: foo"], &[AT_1000]);
        let early = "Date: Thu, 01 Jan 1970 00:00:00 GMT";
        check(&[early, "A: 1", "Age: 5"], &[early, "A: 1"]);
        check(&[AT_1000, "Connection: a", "A: 1", "B: 2"], &[AT_1000, "B: 2"]);
        let named = "Cache-Control: no-cache=\"a\", private=b";
        check(&[AT_1000, named, "A: 1", "B: 2", "C: 3"], &[AT_1000, named, "C: 3"]);
    }

    #[test]
    fn a_store_keeps_what_follows() {
        let check = |lines: &[&str]| {
            let before = stored(lines);
            let mut kept = before.fields.clone();
            if let Some(age) = &before.age_field {
                kept.push("Age", age);
            }
            let after = StoredResponse::from_parts(&Policy::default(), before.key.clone(), 200, &kept, before.times);
            assert_eq!(before, after, "{lines:?}");
        };
        check(&["Cache-Control: max-age=60", "Age: 5", "Vary: Foo", "ETag: \"a\""]);
        check(&["Cache-Control: max-age=60", "Age: 5", "Age: 5"]);
        check(&["Vary: *", "Expires: 0"]);
    }

    #[test]
    fn freshening() {
        let check = |lines: &[&str], newer: &[&str], expected: &[&str], age: u32, lifetime: u32| {
            let mut stored = stored(lines);
            let times = Times { request: 2000, response: 2002 };
            stored.freshen(&Policy::default(), &fields(&["Foo: 1", "Bar: 2"]), &fields(newer), times);
            assert_eq!(shown(&stored.fields), expected, "{lines:?} {newer:?}");
            let found = (stored.freshness.age_seconds(2002), stored.freshness.lifetime_seconds);
            assert_eq!(found, (age, lifetime), "{lines:?} {newer:?}");
        };
        let at_2002 = "Date: Thu, 01 Jan 1970 00:33:22 GMT";
        let limit = "Cache-Control: max-age=2";
        // RFC 9111, 3.2.
        check(&[AT_1000, limit, "Test: 1"], &[at_2002], &[at_2002, limit, "Test: 1"], 2, 2);
        check(&[AT_1000, limit], &[], &[limit, at_2002], 2, 2);
        check(&[AT_1000, limit], &[at_2002, "Cache-Control: max-age=9"], &[at_2002, "Cache-Control: max-age=9"], 2, 9);
        check(&[AT_1000, limit, "Age: 7"], &[at_2002], &[at_2002, limit], 2, 2);
        check(&[AT_1000, limit], &[at_2002, "Age: 7"], &[at_2002, limit], 9, 2);
        check(&[AT_1000, "ETag: \"a\"", limit], &[at_2002, "ETag: W/\"a\""], &[at_2002, "ETag: \"a\"", limit], 2, 2);
    }

    #[test]
    fn keys_follow_vary() {
        let key = |newer: &[&str]| {
            let mut stored = stored(&["Vary: Foo"]);
            stored.freshen(&Policy::default(), &fields(&["Foo: 2", "Bar: 3"]), &fields(newer), TIMES);
            stored.key.map(|key| String::from_utf8_lossy(&key).into_owned())
        };
        assert_eq!(key(&[]).as_deref(), Some("foo:1\n"));
        assert_eq!(key(&["Vary: Foo"]).as_deref(), Some("foo:1\n"));
        assert_eq!(key(&["Vary: Bar"]).as_deref(), Some("bar:3\n"));
        assert_eq!(key(&["Vary: *"]), None);
    }
}
