//! Entity tags, and what the conditions of a request make of it (RFC 9110, 8.8 and 13).
//!
//! Pure: the caller brings the validators of the representation and the time. Only GET and HEAD of
//! a representation that exists are covered; nothing here changes resources.

use crate::date;
use crate::fields::{Fields, trim_ows};
use crate::method::Method;

/// An entity tag: an opaque name of one version of a representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityTag<'a> {
    /// Whether it is weak: equal tags then mean equivalent, not identical bytes.
    pub weak: bool,
    /// The text between the quotes.
    pub opaque: &'a [u8],
}

impl<'a> EntityTag<'a> {
    /// Reads exactly one tag, such as `"v1"` or `W/"v1"`.
    #[must_use]
    pub fn parse(value: &'a [u8]) -> Option<Self> {
        match Self::split_first(value)? {
            (tag, []) => Some(tag),
            _ => None,
        }
    }

    /// The tag that the bytes begin with, and the bytes behind it.
    fn split_first(value: &'a [u8]) -> Option<(Self, &'a [u8])> {
        // RFC 9110, 8.8.3: the `W` is case-sensitive.
        let (weak, quoted) = match value {
            [b'W', b'/', rest @ ..] => (true, rest),
            _ => (false, value),
        };
        let text = quoted.strip_prefix(b"\"")?;
        let length = text.iter().position(|&byte| byte == b'"')?;
        let (opaque, rest) = (&text[..length], &text[length + 1..]);
        let is_valid = opaque.iter().all(|&byte| matches!(byte, b'!'..=b'~' | 0x80..=0xff));
        is_valid.then_some((Self { weak, opaque }, rest))
    }

    /// Writes the tag as it is sent. What is between the quotes is the caller's to keep free of
    /// quotes and controls.
    pub fn push(self, out: &mut Vec<u8>) {
        if self.weak {
            out.extend_from_slice(b"W/");
        }
        out.push(b'"');
        out.extend_from_slice(self.opaque);
        out.push(b'"');
    }

    /// Strong comparison: identical bytes are certain.
    #[must_use]
    pub fn matches_strongly(self, other: EntityTag<'_>) -> bool {
        !self.weak && !other.weak && self.opaque == other.opaque
    }

    /// Weak comparison: equivalent content is certain.
    #[must_use]
    pub fn matches_weakly(self, other: EntityTag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// The validators of the current version of a representation.
#[derive(Clone, Copy, Debug)]
pub struct Validators<'a> {
    /// Its entity tag, if it has one.
    pub etag: Option<EntityTag<'a>>,
    /// The second of its last modification, if known.
    pub last_modified: Option<i64>,
}

/// The response that the conditions of a request demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Answer as if there were no conditions.
    Proceed,
    /// Answer 304.
    NotModified,
    /// Answer 412.
    PreconditionFailed,
}

/// The outcome of all conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision<'a> {
    /// The kind of response.
    pub verdict: Verdict,
    /// The value of Range if it applies; without one the whole representation is meant.
    pub range: Option<&'a [u8]>,
}

/// The conditional fields of one request, found in one pass.
#[derive(Clone, Copy, Debug)]
pub struct Conditions<'a> {
    fields: Fields<'a>,
    if_match: bool,
    if_none_match: bool,
    if_unmodified_since: Single<'a>,
    if_modified_since: Single<'a>,
    if_range: Single<'a>,
    range: Single<'a>,
}

/// A field that is no list and must not be repeated.
#[derive(Clone, Copy, Debug, Default)]
enum Single<'a> {
    #[default]
    Absent,
    One(&'a [u8]),
    Repeated,
}

impl<'a> Single<'a> {
    const fn add(&mut self, value: &'a [u8]) {
        *self = match self {
            Self::Absent => Self::One(value),
            Self::One(_) | Self::Repeated => Self::Repeated,
        };
    }

    /// The date, unless the field is absent or to be ignored for being malformed or repeated (RFC
    /// 9110, 13.1.3).
    fn date(self) -> Option<i64> {
        match self {
            Self::One(value) => date::parse(value),
            Self::Absent | Self::Repeated => None,
        }
    }
}

impl<'a> Conditions<'a> {
    /// Finds the conditional fields.
    #[inline]
    #[must_use]
    pub fn of(fields: Fields<'a>) -> Self {
        let mut found = Self {
            fields,
            if_match: false,
            if_none_match: false,
            if_unmodified_since: Single::Absent,
            if_modified_since: Single::Absent,
            if_range: Single::Absent,
            range: Single::Absent,
        };
        for (name, value) in fields.iter() {
            match (name.len(), name.as_bytes()[0] | 0x20) {
                (5, b'r') if name.eq_ignore_ascii_case("range") => found.range.add(value),
                (8, b'i') if name.eq_ignore_ascii_case("if-range") => found.if_range.add(value),
                (8, b'i') => found.if_match |= name.eq_ignore_ascii_case("if-match"),
                (13, b'i') => found.if_none_match |= name.eq_ignore_ascii_case("if-none-match"),
                (17, b'i') if name.eq_ignore_ascii_case("if-modified-since") => {
                    found.if_modified_since.add(value);
                }
                (19, b'i') if name.eq_ignore_ascii_case("if-unmodified-since") => {
                    found.if_unmodified_since.add(value);
                }
                _ => {}
            }
        }
        found
    }

    /// Evaluates the conditions in the order of RFC 9110, 13.2.2 for a GET or HEAD of an existing
    /// representation. `now` is the second that the reply's Date will carry.
    #[must_use]
    pub fn evaluate(&self, method: Method<'_>, current: &Validators<'_>, now: i64) -> Decision<'a> {
        let stop = |verdict| Decision { verdict, range: None };
        if self.if_match {
            if !self.any_tag("if-match", current.etag, EntityTag::matches_strongly) {
                return stop(Verdict::PreconditionFailed);
            }
        } else if let (Some(date), Some(modified)) = (self.if_unmodified_since.date(), current.last_modified)
            && modified > date
        {
            return stop(Verdict::PreconditionFailed);
        }
        if self.if_none_match {
            if self.any_tag("if-none-match", current.etag, EntityTag::matches_weakly) {
                return stop(Verdict::NotModified);
            }
        } else if let (Some(date), Some(modified)) = (self.if_modified_since.date(), current.last_modified)
            && modified <= date
        {
            return stop(Verdict::NotModified);
        }
        Decision { verdict: Verdict::Proceed, range: self.applicable_range(method, current, now) }
    }

    /// Range is defined for GET alone (RFC 9110, 14.2), and If-Range makes it depend on the version
    /// (13.1.5).
    fn applicable_range(&self, method: Method<'_>, current: &Validators<'_>, now: i64) -> Option<&'a [u8]> {
        let Single::One(range) = self.range else {
            return None;
        };
        let applies = method == Method::Get
            && match self.if_range {
                Single::Absent => true,
                Single::One(value) => is_same_version(value, current, now),
                Single::Repeated => false,
            };
        applies.then_some(range)
    }

    /// Whether a list of tags is `*` or has one that matches. A malformed list matches nothing from
    /// its fault on: that refuses an If-Match and sends the whole representation for an
    /// If-None-Match, the safe answer for both.
    fn any_tag(
        &self,
        name: &str,
        current: Option<EntityTag<'_>>,
        matches: fn(EntityTag<'a>, EntityTag<'_>) -> bool,
    ) -> bool {
        self.fields
            .all(name)
            .any(|value| value == b"*" || current.is_some_and(|current| tags(value).any(|tag| matches(tag, current))))
    }
}

/// If-Range holds only if the bytes are certainly the same: a strong tag that matches, or the exact
/// date of a last modification that is itself strong, that is at least a second old (RFC 9110,
/// 8.8.2.2), since a file may change twice within a second.
fn is_same_version(if_range: &[u8], current: &Validators<'_>, now: i64) -> bool {
    if let Some(tag) = EntityTag::parse(if_range) {
        return current.etag.is_some_and(|current| tag.matches_strongly(current));
    }
    match (date::parse(if_range), current.last_modified) {
        (Some(date), Some(modified)) => date == modified && modified < now,
        _ => false,
    }
}

/// The tags of a list up to its end or its first fault. Commas inside the quotes belong to the tag.
fn tags(list: &[u8]) -> impl Iterator<Item = EntityTag<'_>> {
    let mut rest = Some(list);
    std::iter::from_fn(move || {
        let start = rest?.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b','))?;
        let (tag, behind) = EntityTag::split_first(&rest?[start..])?;
        let behind = trim_ows(behind);
        rest = (behind.is_empty() || behind.starts_with(b",")).then_some(behind);
        Some(tag)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT
    const MODIFIED: i64 = 784_111_777;

    const STRONG: EntityTag<'_> = EntityTag { weak: false, opaque: b"v1" };

    /// Evaluates the field lines, each `name: value`, for a version from `MODIFIED`, an hour later.
    fn check(method: Method<'_>, etag: Option<EntityTag<'_>>, lines: &[&str], expected: &str) {
        check_at(method, etag, MODIFIED + 3600, lines, expected);
    }

    fn check_at(method: Method<'_>, etag: Option<EntityTag<'_>>, now: i64, lines: &[&str], expected: &str) {
        let fields: Vec<httparse::Header<'_>> = lines
            .iter()
            .map(|line| line.split_once(": ").expect("a test line has a colon"))
            .map(|(name, value)| httparse::Header { name, value: value.as_bytes() })
            .collect();
        let current = Validators { etag, last_modified: Some(MODIFIED) };
        let decision = Conditions::of(Fields(&fields)).evaluate(method, &current, now);
        let shown = match (decision.verdict, decision.range) {
            (Verdict::Proceed, Some(_)) => "proceed with range",
            (Verdict::Proceed, None) => "proceed",
            (Verdict::NotModified, _) => "not modified",
            (Verdict::PreconditionFailed, _) => "failed",
        };
        assert_eq!(shown, expected, "{method:?} {etag:?} {lines:?}");
    }

    #[test]
    fn tags_are_read_and_written() {
        for (text, expected) in [
            ("\"v1\"", Some(STRONG)),
            ("W/\"v1\"", Some(EntityTag { weak: true, opaque: b"v1" })),
            ("\"\"", Some(EntityTag { weak: false, opaque: b"" })),
            ("w/\"v1\"", None),
            ("v1", None),
            ("\"v1", None),
            ("\"v 1\"", None),
            ("\"v1\" ", None),
            ("\"a\",\"b\"", None),
        ] {
            assert_eq!(EntityTag::parse(text.as_bytes()), expected, "{text}");
            if let Some(tag) = expected {
                let mut written = Vec::new();
                tag.push(&mut written);
                assert_eq!(written, text.as_bytes());
            }
        }
    }

    #[test]
    fn comparison_as_in_rfc_9110_8_8_3_2() {
        let tag = |text: &'static str| EntityTag::parse(text.as_bytes()).expect("a valid tag");
        for (one, other, strongly, weakly) in [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ] {
            assert_eq!(tag(one).matches_strongly(tag(other)), strongly, "{one} {other}");
            assert_eq!(tag(one).matches_weakly(tag(other)), weakly, "{one} {other}");
        }
    }

    #[test]
    fn if_match() {
        let check = |value: &str, expected| check(Method::Get, Some(STRONG), &[value], expected);
        check("If-Match: *", "proceed");
        check("If-Match: \"v1\"", "proceed");
        check("If-Match: \"v0\" , \"v1\"", "proceed");
        check("if-match: \"a,b\",\"v1\"", "proceed");
        check("If-Match: W/\"v1\"", "failed");
        check("If-Match: \"v2\"", "failed");
        check("If-Match: v1", "failed");
        check("If-Match: ", "failed");
        check("If-Match: \"v0\" \"v1\"", "failed");
    }

    #[test]
    fn if_match_without_or_with_weak_tag() {
        check(Method::Get, None, &["If-Match: *"], "proceed");
        check(Method::Get, None, &["If-Match: \"v1\""], "failed");
        let weak = EntityTag { weak: true, ..STRONG };
        check(Method::Get, Some(weak), &["If-Match: \"v1\""], "failed");
    }

    #[test]
    fn if_none_match() {
        let check = |value: &str, expected| check(Method::Head, Some(STRONG), &[value], expected);
        check("If-None-Match: *", "not modified");
        check("If-None-Match: \"v1\"", "not modified");
        check("If-None-Match: W/\"v1\"", "not modified");
        check("If-None-Match: \"v0\",,W/\"v1\"", "not modified");
        check("If-None-Match: \"v2\"", "proceed");
        check("If-None-Match: \"v2\", *", "proceed");
        check("If-None-Match: v1", "proceed");
    }

    #[test]
    fn lists_go_on_over_lines() {
        let lines = ["If-None-Match: \"v0\"", "Accept: */*", "if-none-match: \"v1\""];
        check(Method::Get, Some(STRONG), &lines, "not modified");
    }

    #[test]
    fn dates() {
        let check = |value: &str, expected| check(Method::Get, None, &[value], expected);
        check("If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "not modified");
        check("If-Modified-Since: Sunday, 06-Nov-94 08:49:38 GMT", "not modified");
        check("If-Modified-Since: Sun Nov  6 08:49:36 1994", "proceed");
        check("If-Modified-Since: yesterday", "proceed");
        check("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT", "proceed");
        check("If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT", "failed");
        check("If-Unmodified-Since: yesterday", "proceed");
    }

    #[test]
    fn repeated_dates_are_ignored() {
        let line = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
        check(Method::Get, None, &[line, line], "proceed");
    }

    #[test]
    fn order_of_rfc_9110_13_2_2() {
        let old = "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT";
        let seen = "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT";
        let check = |lines: &[&str], expected| check(Method::Get, Some(STRONG), lines, expected);
        check(&[old, "If-Match: \"v1\""], "proceed");
        check(&[seen, "If-None-Match: \"v0\""], "proceed");
        check(&["If-None-Match: \"v1\"", "If-Match: \"v0\""], "failed");
        check(&["If-None-Match: \"v1\"", old], "failed");
        check(&["Range: bytes=0-1", "If-Range: \"v1\"", "If-None-Match: \"v1\""], "not modified");
        check(&["Range: bytes=0-1", "If-Range: \"v1\"", "If-Match: \"v0\""], "failed");
    }

    #[test]
    fn range_and_if_range() {
        let check = |lines: &[&str], expected| check(Method::Get, Some(STRONG), lines, expected);
        check(&["Range: bytes=0-1"], "proceed with range");
        check(&["Range: bytes=0-1", "Range: bytes=2-3"], "proceed");
        check(&["If-Range: \"v1\""], "proceed");
        check(&["Range: bytes=0-1", "If-Range: \"v1\""], "proceed with range");
        check(&["Range: bytes=0-1", "If-Range: W/\"v1\""], "proceed");
        check(&["Range: bytes=0-1", "If-Range: \"v0\""], "proceed");
        check(&["Range: bytes=0-1", "If-Range: \"v1\"", "If-Range: \"v1\""], "proceed");
        check(&["Range: bytes=0-1", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"], "proceed with range");
        check(&["Range: bytes=0-1", "If-Range: Sun, 06 Nov 1994 08:49:38 GMT"], "proceed");
        check(&["Range: bytes=0-1", "If-Range: yesterday"], "proceed");
    }

    #[test]
    fn range_is_for_get_alone() {
        check(Method::Head, Some(STRONG), &["Range: bytes=0-1"], "proceed");
    }

    #[test]
    fn if_range_does_not_trust_a_date_within_its_second() {
        let lines = ["Range: bytes=0-1", "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"];
        check_at(Method::Get, None, MODIFIED, &lines, "proceed");
        check_at(Method::Get, None, MODIFIED + 1, &lines, "proceed with range");
    }
}
