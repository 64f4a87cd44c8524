//! Versions of an object: what binds its parts together, so that bytes of two versions are never in
//! one answer (RFC 9110, 8.8 and 15.3.7.3).

use std::fmt;

use thalweg_wire::date;
use thalweg_wire::validator::EntityTag;

use crate::fields::FieldLines;

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
