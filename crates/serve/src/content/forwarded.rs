//! Forwarded representations: what an object of an origin says of itself, and how long it holds.
//!
//! The fields are the origin's, but for those that each response has of its own (length, range,
//! Age and Cache-Status); those that the configuration sets take the place of the origin's. They
//! are made into lines once, when the object comes.

use std::borrow::Cow;
use std::cell::RefCell;

use thalweg_caching::{CacheStatus, FieldLines, Outcome, StoredFields, is_connection_field, is_sent_with_not_modified};
use thalweg_tier::{Content, Object as TierObject};
use thalweg_wire::date;
use thalweg_wire::encode::FieldBlock;
use thalweg_wire::validator::EntityTag;

use crate::content::policy::ResponsePolicy;

/// The name of this cache in Cache-Status (RFC 9211).
const CACHE: &str = "thalweg";

/// Fields that responses write themselves.
const WRITTEN_APART: [&str; 6] =
    ["Accept-Ranges", "Age", "Content-Length", "Content-Range", "Content-Type", "Keep-Alive"];

/// Properties of a forwarded representation beside its bytes.
pub(crate) struct Forwarded {
    /// The lines of a 200 and a 206.
    pub(crate) fields: FieldBlock,
    /// The lines of a 304.
    pub(crate) fields_of_304: FieldBlock,
    /// The entity tag is weak.
    pub(crate) has_weak_tag: bool,
    /// The bytes are in a content coding.
    pub(crate) is_encoded: bool,
    /// The bytes came in memory: the tier does not see who reads them.
    pub(crate) is_in_memory: bool,
    /// The second of the origin's Date.
    pub(crate) date_s: i64,
    /// From this second on it is stale.
    pub(crate) stale_s: i64,
    born_s: i64,
    /// For the request that was asked; `None` for those that are answered without asking.
    cache_status: Option<Box<str>>,
    hit: RefCell<Hit>,
}

/// The member of Cache-Status in one second.
#[derive(Default)]
struct Hit {
    second: i64,
    text: String,
}

/// The fields of a representation that an object has as values.
pub(crate) struct Described {
    pub(crate) tag: Vec<u8>,
    pub(crate) last_modified: Option<i64>,
    pub(crate) content_type: Cow<'static, str>,
}

impl Forwarded {
    /// Of an object of the tier, which came at this second, with the settings of its mount.
    pub(crate) fn of(object: &TierObject, policy: &ResponsePolicy, now: i64) -> (Self, Described) {
        let fields = &*object.fields;
        let date_s = fields.first("Date").and_then(date::parse);
        let tag = fields.first("ETag").and_then(EntityTag::parse);
        let content_type = match &policy.content_type {
            Some(content_type) => Cow::Owned(content_type.clone()),
            None => fields
                .first("Content-Type")
                .map_or(Cow::Borrowed(""), |value| Cow::Owned(String::from_utf8_lossy(value).into_owned())),
        };
        let described = Described {
            tag: tag.map_or_else(Vec::new, |tag| tag.opaque.to_vec()),
            last_modified: fields.first("Last-Modified").and_then(date::parse),
            content_type,
        };
        let is_apart = |name: &str| WRITTEN_APART.iter().any(|apart| apart.eq_ignore_ascii_case(name));
        let forwarded = Self {
            fields: block(fields, lines(&policy.fields).collect(), date_s.is_none().then_some(now), |name| {
                !is_apart(name)
            }),
            fields_of_304: block(
                fields,
                lines(&policy.fields_of_304).collect(),
                date_s.is_none().then_some(now),
                is_sent_with_not_modified,
            ),
            has_weak_tag: tag.is_some_and(|tag| tag.weak),
            is_encoded: fields.has("Content-Encoding"),
            is_in_memory: matches!(object.content, Content::Memory(_)),
            date_s: date_s.unwrap_or(now),
            stale_s: object.stale_s,
            born_s: object.born_s,
            cache_status: Some(object.cache_status.clone()),
            hit: RefCell::default(),
        };
        (forwarded, described)
    }

    /// From now on it answers requests that are not asked for.
    pub(crate) fn hold(&mut self) {
        self.cache_status = None;
    }

    /// Its age at a second.
    pub(crate) fn age_s(&self, second: i64) -> u64 {
        u64::try_from(second.saturating_sub(self.born_s)).unwrap_or(0)
    }

    /// Writes this cache's member of Cache-Status for a response at a second.
    pub(crate) fn push_cache_status(&self, second: i64, out: &mut Vec<u8>) {
        if let Some(text) = &self.cache_status {
            return out.extend_from_slice(text.as_bytes());
        }
        let mut hit = self.hit.borrow_mut();
        if hit.text.is_empty() || hit.second != second {
            let ttl_seconds = Some(self.stale_s.saturating_sub(second));
            let status = CacheStatus { outcome: Outcome::Hit, ttl_seconds, key: None, detail: None };
            *hit = Hit { second, text: status.value(CACHE) };
        }
        out.extend_from_slice(hit.text.as_bytes());
    }

    /// Bytes of memory held, about.
    pub(crate) fn bytes(&self) -> usize {
        self.fields.as_bytes().len() + self.fields_of_304.as_bytes().len()
    }
}

/// The lines of fields for a client, in front of those of a configuration, which take the place of
/// others of their names. Without a Date of the origin it is `date_s`.
fn block(
    fields: &StoredFields,
    configured: Vec<(&str, &[u8])>,
    date_s: Option<i64>,
    is_meant: impl Fn(&str) -> bool,
) -> FieldBlock {
    let is_replaced = |name: &str| {
        let is_date = date_s.is_some() && name.eq_ignore_ascii_case("Date");
        is_date || configured.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
    };
    let mut block = FieldBlock::new();
    if let Some(second) = date_s {
        let _ = block.field("Date", &date::imf_fixdate(second));
    }
    for (name, value) in fields.lines().filter(|(name, _)| is_meant(name) && !is_replaced(name)) {
        push(&mut block, name, value);
    }
    for (name, value) in &configured {
        push(&mut block, name, value);
    }
    block
}

/// The lines of a response of this status that is sent as it is, with the settings of its mount.
/// Without a Date it gets `now` (RFC 9110, 6.6.1).
pub(crate) fn relayed_fields(fields: &StoredFields, status: u16, policy: &ResponsePolicy, now: i64) -> FieldBlock {
    let date_s = fields.first("Date").and_then(date::parse).is_none().then_some(now);
    let configured = configured_for(fields, status, policy);
    block(fields, configured, date_s, |name| !name.eq_ignore_ascii_case("Content-Length"))
}

/// The lines that a configuration has for a response of this status. It is about successful ones:
/// an error has none of them, and a redirect does not have the lifetime and the type of what it
/// leads to.
fn configured_for<'p>(fields: &StoredFields, status: u16, policy: &'p ResponsePolicy) -> Vec<(&'p str, &'p [u8])> {
    let mut configured: Vec<(&str, &[u8])> = match status {
        200..=299 => lines(&policy.fields).collect(),
        300..=399 => lines(&policy.fields_of_304).collect(),
        _ => Vec::new(),
    };
    if (300..=399).contains(&status) && status != 304 {
        configured.retain(|(name, _)| !name.eq_ignore_ascii_case("Cache-Control"));
    }
    let is_of_parts = status == 206 && !fields.has("Content-Range");
    if let Some(content_type) = policy.content_type.as_ref().filter(|_| matches!(status, 200 | 203 | 206))
        && !is_of_parts
    {
        configured.push(("Content-Type", content_type.as_bytes()));
    }
    configured
}

/// Adds a line, unless it belongs to another connection, or would be more than a line.
fn push(block: &mut FieldBlock, name: &str, value: &[u8]) {
    if !is_connection_field(name) {
        let _ = block.field(name, value);
    }
}

/// The lines of a block, which were made by this program.
fn lines(block: &FieldBlock) -> impl Iterator<Item = (&str, &[u8])> {
    block.as_bytes().split(|&byte| byte == b'\n').filter_map(|line| {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((str::from_utf8(&line[..colon]).ok()?, line[colon + 1..].trim_ascii()))
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use thalweg_tier::Content;

    use super::*;
    use crate::config::Settings;

    fn object(lines: &[(&str, &str)]) -> TierObject {
        let mut fields = StoredFields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        TierObject {
            fields: Arc::new(fields),
            length: 3,
            content: Content::Memory("abc".into()),
            born_s: 1000,
            stale_s: 1060,
            cache_status: "thalweg;fwd=uri-miss".into(),
            held_key: None,
        }
    }

    fn shown(block: &FieldBlock) -> Vec<String> {
        lines(block).map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value))).collect()
    }

    const LINES: &[(&str, &str)] = &[
        ("Server", "origin"),
        ("Content-Type", "text/plain"),
        ("Content-Length", "3"),
        ("Date", "Thu, 01 Jan 1970 00:16:40 GMT"),
        ("Cache-Control", "max-age=60"),
        ("ETag", "W/\"v1\""),
        ("Connection", "close"),
        ("Age", "7"),
        ("X-Origin", "1"),
    ];

    #[test]
    fn the_fields_are_the_origins_but_for_those_of_a_response_and_of_a_connection() {
        let (forwarded, described) = Forwarded::of(&object(LINES), &ResponsePolicy::default(), 2000);
        let date = "Date: Thu, 01 Jan 1970 00:16:40 GMT";
        let kept = ["Server: origin", date, "Cache-Control: max-age=60", "ETag: W/\"v1\"", "X-Origin: 1"];
        assert_eq!(shown(&forwarded.fields), kept);
        assert_eq!(shown(&forwarded.fields_of_304), [date, "Cache-Control: max-age=60", "ETag: W/\"v1\""]);
        assert!(forwarded.has_weak_tag && !forwarded.is_encoded);
        assert_eq!((described.tag, &*described.content_type, forwarded.date_s), (b"v1".to_vec(), "text/plain", 1000));
    }

    #[test]
    fn the_configurations_fields_replace_the_origins_and_a_date_is_added() {
        let settings = Settings {
            headers: vec![("x-origin".to_owned(), "2".to_owned())],
            cache_control: Some("no-cache".to_owned()),
            content_type: Some("a/b".to_owned()),
            ..Settings::default()
        };
        let policy = ResponsePolicy::of(&settings).unwrap();
        let lines = [LINES[4], LINES[8], ("X\r\nY", "1"), ("Z", "a\r\nb: c")];
        let (forwarded, described) = Forwarded::of(&object(&lines), &policy, 1000);
        let expected = ["Date: Thu, 01 Jan 1970 00:16:40 GMT", "Cache-Control: no-cache", "x-origin: 2"];
        assert_eq!(shown(&forwarded.fields), expected);
        assert_eq!(&*described.content_type, "a/b");
    }

    #[test]
    fn rules_hold_for_responses_that_go_through_if_they_succeed() {
        let settings = Settings {
            headers: vec![("X-Rule".to_owned(), "1".to_owned()), ("Content-Language".to_owned(), "en".to_owned())],
            cache_control: Some("max-age=9".to_owned()),
            content_type: Some("a/b".to_owned()),
            ..Settings::default()
        };
        let policy = ResponsePolicy::of(&settings).unwrap();
        let check = |status: u16, more: &[(&str, &str)], expected: &[&str]| {
            let mut fields = StoredFields::default();
            let own = [("Date", "Thu, 01 Jan 1970 00:16:40 GMT"), ("Cache-Control", "no-store"), ("X-Rule", "origin")];
            own.iter().chain(more).for_each(|(name, value)| fields.push(name, value.as_bytes()));
            let found = shown(&relayed_fields(&fields, status, &policy, 2000));
            let expected: Vec<_> = [&["Date: Thu, 01 Jan 1970 00:16:40 GMT"], expected].concat();
            assert_eq!(found, expected, "{status}");
        };
        let of_rule = ["Cache-Control: max-age=9", "X-Rule: 1", "Content-Language: en"];
        let typed = [&of_rule[..], &["Content-Type: a/b"]].concat();
        check(200, &[("Content-Type", "c/d")], &typed);
        check(206, &[("Content-Range", "bytes 0-1/2")], &[&["Content-Range: bytes 0-1/2"], &typed[..]].concat());
        let parts = "multipart/byteranges; boundary=a";
        check(206, &[("Content-Type", parts)], &[&[&*format!("Content-Type: {parts}")], &of_rule[..]].concat());
        check(201, &[], &of_rule);
        check(304, &[], &["Cache-Control: max-age=9", "X-Rule: 1"]);
        // A redirect may lead to an address that is soon invalid.
        check(302, &[("Location", "/x")], &["Cache-Control: no-store", "Location: /x", "X-Rule: 1"]);
        check(404, &[("Content-Type", "c/d")], &["Cache-Control: no-store", "X-Rule: origin", "Content-Type: c/d"]);
        check(503, &[], &["Cache-Control: no-store", "X-Rule: origin"]);
    }

    #[test]
    fn a_response_has_one_date_whatever_the_origin_sends() {
        for dates in [&[][..], &["junk"], &["junk", "also junk"]] {
            let mut fields = StoredFields::default();
            dates.iter().for_each(|value| fields.push("Date", value.as_bytes()));
            let (stored, _) = Forwarded::of(
                &TierObject { fields: Arc::new(fields.clone()), ..object(&[]) },
                &ResponsePolicy::default(),
                1000,
            );
            let date = ["Date: Thu, 01 Jan 1970 00:16:40 GMT"];
            let relayed = relayed_fields(&fields, 200, &ResponsePolicy::default(), 1000);
            assert_eq!([shown(&stored.fields), shown(&relayed)], [date, date], "{dates:?}");
        }
    }

    #[test]
    fn age_and_cache_status_go_with_the_second() {
        let (mut forwarded, _) = Forwarded::of(&object(LINES), &ResponsePolicy::default(), 1000);
        let status = |forwarded: &Forwarded, second| {
            let mut out = Vec::new();
            forwarded.push_cache_status(second, &mut out);
            (forwarded.age_s(second), String::from_utf8(out).unwrap())
        };
        assert_eq!(status(&forwarded, 999), (0, "thalweg;fwd=uri-miss".to_owned()));
        forwarded.hold();
        assert_eq!(status(&forwarded, 1000), (0, "thalweg;hit;ttl=60".to_owned()));
        assert_eq!(status(&forwarded, 1010), (10, "thalweg;hit;ttl=50".to_owned()));
    }
}
