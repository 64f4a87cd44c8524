//! Versions of an object: what binds its parts together, so that bytes of two versions are never in
//! one answer (RFC 9110, 8.8 and 15.3.7.3).

use std::fmt;

use thalweg_wire::date;
use thalweg_wire::validator::EntityTag;

use crate::fields::FieldLines;
use crate::partial::ContentRange;

/// A validator that tells versions of an object apart by each byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Validator {
    /// The text between the quotes of a strong entity tag.
    Tag(Box<[u8]>),
    /// The second of a last modification that was over when the response was made.
    Modified(i64),
}

impl Validator {
    /// The strong validator of a response: its entity tag, or else the date of its last
    /// modification. `None` if neither is strong.
    #[must_use]
    pub fn of(fields: &impl FieldLines) -> Option<Self> {
        if let Some(tag) = entity_tag(fields)
            && !tag.weak
        {
            return Some(Self::Tag(tag.opaque.into()));
        }
        strong_modification(fields).map(Self::Modified)
    }

    /// The value of If-Range that asks for a part of the version with this validator.
    pub fn push_if_range(&self, out: &mut Vec<u8>) {
        match self {
            Self::Tag(opaque) => EntityTag { weak: false, opaque }.push(out),
            Self::Modified(second) => out.extend_from_slice(&date::imf_fixdate(*second)),
        }
    }
}

/// One version of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Its strong validator.
    pub validator: Validator,
    /// The length of the whole representation.
    pub complete_bytes: u64,
}

/// How two versions differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The validators differ.
    Validator,
    /// The validators are the same and the lengths are not: the origin breaks its promise, and the
    /// versions are different all the same.
    Length,
}

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Validator => "the validator changed",
            Self::Length => "the length changed while the validator stayed",
        })
    }
}

impl Version {
    /// The version that a response is of, if it has a strong validator. `complete_bytes` is the
    /// length of the whole representation, from Content-Range or Content-Length.
    #[must_use]
    pub fn of(fields: &impl FieldLines, complete_bytes: u64) -> Option<Self> {
        Some(Self { validator: Validator::of(fields)?, complete_bytes })
    }

    /// How the other version differs; `None` if it is the same.
    #[must_use]
    pub fn change(&self, other: &Self) -> Option<Change> {
        if self.validator != other.validator {
            Some(Change::Validator)
        } else if self.complete_bytes != other.complete_bytes {
            Some(Change::Length)
        } else {
            None
        }
    }
}

/// The part of a version that is in a response to a request for its bytes from a position on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Continuation {
    /// These bytes.
    Bytes,
    /// The whole of that version, from its beginning.
    Whole,
    /// Another version, or none: the origin that sent it has not the wanted one.
    Changed,
    /// Nothing; the origin fails.
    Nothing,
}

/// Tells what a response with that status has of the bytes of a version from `start` on. `length`
/// is that of its content, if it is known.
#[must_use]
pub fn continuation(
    version: &Version,
    start: u64,
    status: u16,
    fields: &impl FieldLines,
    length: Option<u64>,
) -> Continuation {
    let range = fields.first("content-range").and_then(ContentRange::parse);
    let complete_bytes = if status == 206 { range.map(|range| range.complete_bytes) } else { length };
    let is_same = complete_bytes.and_then(|bytes| Version::of(fields, bytes)).as_ref() == Some(version);
    match status {
        206 if is_same && range.is_some_and(|range| range.range.first == start) => Continuation::Bytes,
        200 if is_same && start == 0 => Continuation::Bytes,
        200 if is_same => Continuation::Whole,
        200 | 206 | 404 | 410 | 416 => Continuation::Changed,
        _ => Continuation::Nothing,
    }
}

/// The entity tag of a response, if it has a valid one.
pub(crate) fn entity_tag(fields: &impl FieldLines) -> Option<EntityTag<'_>> {
    EntityTag::parse(fields.first("etag")?)
}

/// The second of Last-Modified.
pub(crate) fn last_modified(fields: &impl FieldLines) -> Option<i64> {
    date::parse(fields.first("last-modified")?)
}

/// Last-Modified if it is strong (RFC 9110, 8.8.2.2): at least a second before Date, since an
/// object may change twice within a second. Without Date nothing is known.
pub(crate) fn strong_modification(fields: &impl FieldLines) -> Option<i64> {
    let (modified, date) = (last_modified(fields)?, date::parse(fields.first("date")?)?);
    (modified < date).then_some(modified)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    const MODIFIED: &str = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
    const LATER: &str = "Date: Sun, 06 Nov 1994 08:49:38 GMT";

    #[test]
    fn strong_validators() {
        let check = |lines: &[&str], expected: Option<&str>| {
            let if_range = Validator::of(&fields(lines)).map(|validator| {
                let mut value = Vec::new();
                validator.push_if_range(&mut value);
                String::from_utf8(value).unwrap()
            });
            assert_eq!(if_range.as_deref(), expected, "{lines:?}");
        };
        // RFC 9110, 8.8.1 and 8.8.2.2.
        check(&["ETag: \"a\""], Some("\"a\""));
        check(&["ETag: \"a\"", MODIFIED, LATER], Some("\"a\""));
        check(&["ETag: W/\"a\""], None);
        check(&["ETag: a"], None);
        check(&["ETag: W/\"a\"", MODIFIED, LATER], Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        check(&[MODIFIED, LATER], Some("Sun, 06 Nov 1994 08:49:37 GMT"));
        check(&[MODIFIED, "Date: Sun, 06 Nov 1994 08:49:37 GMT"], None);
        check(&[MODIFIED], None);
        check(&[LATER], None);
    }

    #[test]
    fn continuations() {
        let version = Version::of(&fields(&["ETag: \"a\""]), 10).unwrap();
        let check = |start: u64, status: u16, lines: &[&str], length: Option<u64>, expected: Continuation| {
            let found = continuation(&version, start, status, &fields(lines), length);
            assert_eq!(found, expected, "{start} {status} {lines:?} {length:?}");
        };
        use Continuation::{Bytes, Changed, Nothing, Whole};
        let (same, other) = ("ETag: \"a\"", "ETag: \"b\"");
        check(4, 206, &[same, "Content-Range: bytes 4-9/10"], Some(6), Bytes);
        check(4, 206, &[same, "Content-Range: bytes 3-9/10"], Some(7), Changed);
        check(4, 206, &[same, "Content-Range: bytes 4-9/11"], Some(6), Changed);
        check(4, 206, &[other, "Content-Range: bytes 4-9/10"], Some(6), Changed);
        check(4, 206, &["Content-Range: bytes 4-9/10"], Some(6), Changed);
        check(4, 206, &[same], Some(10), Changed);
        check(0, 200, &[same], Some(10), Bytes);
        check(4, 200, &[same], Some(10), Whole);
        check(4, 200, &[same], Some(11), Changed);
        check(4, 200, &[same], None, Changed);
        check(4, 200, &[other], Some(10), Changed);
        for status in [404, 410, 416] {
            check(4, status, &[], Some(0), Changed);
        }
        for status in [401, 403, 429, 500, 503] {
            check(4, status, &[same], Some(10), Nothing);
        }
    }

    #[test]
    fn changes() {
        let check = |one: (&str, u64), other: (&str, u64), expected| {
            let version = |(tag, bytes): (&str, u64)| Version::of(&fields(&[&format!("ETag: {tag}")]), bytes).unwrap();
            assert_eq!(version(one).change(&version(other)), expected, "{one:?} {other:?}");
        };
        check(("\"a\"", 10), ("\"a\"", 10), None);
        check(("\"a\"", 10), ("\"b\"", 10), Some(Change::Validator));
        check(("\"a\"", 10), ("\"b\"", 11), Some(Change::Validator));
        check(("\"a\"", 10), ("\"a\"", 11), Some(Change::Length));
        let dated = Version::of(&fields(&[MODIFIED, LATER]), 10).unwrap();
        let tagged = Version::of(&fields(&["ETag: \"a\"", MODIFIED, LATER]), 10).unwrap();
        assert_eq!(dated.change(&tagged), Some(Change::Validator), "a tag says more than a date");
    }
}
