//! Responses that answer nothing that was asked: a 304 without conditions, and a 206 without a
//! range or of another one (RFC 9110, 15.3.7 and 15.4.5). A client would take the bytes for others.

use std::fmt;

use thalweg_wire::range::{RangeSet, RangeSpec};
use thalweg_wire::trim_ows;

use crate::fields::FieldLines;
use crate::partial::{ContentRange, decimal, split_once};

/// How a response does not fit its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unasked {
    /// A 304 to a request without conditions.
    NotModified,
    /// A 206 to a request without a range.
    Part,
    /// A 206 with bytes that were not asked for, or of which it does not say which they are.
    OtherPart,
}

impl fmt::Display for Unasked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotModified => "the origin answers 304 to a request without conditions",
            Self::Part => "the origin answers 206 to a request without a range",
            Self::OtherPart => "the origin answers 206 with another range than the one asked for",
        })
    }
}

/// Tells how a response does not fit the fields of the request that was sent; `None` if it does. A
/// part may be shorter than the one asked for, and without a range it may be the whole.
#[must_use]
pub fn unasked(sent: &impl FieldLines, status: u16, fields: &impl FieldLines) -> Option<Unasked> {
    match status {
        304 => {
            let is_conditional = sent.has("if-none-match") || sent.has("if-modified-since");
            (!is_conditional).then_some(Unasked::NotModified)
        }
        206 => match sent.first("range") {
            None => (!is_whole(fields)).then_some(Unasked::Part),
            Some(range) => (!is_part_of(range, fields)).then_some(Unasked::OtherPart),
        },
        _ => None,
    }
}

/// Whether a 206 has all of the representation.
#[must_use]
pub fn is_whole(fields: &impl FieldLines) -> bool {
    let mut values = fields.all("content-range");
    let range = values.next().and_then(ContentRange::parse);
    range.is_some_and(|range| range.range.length() == range.complete_bytes) && values.next().is_none()
}

/// Whether a 206 has nothing but bytes of the range that was asked for.
fn is_part_of(asked: &[u8], fields: &impl FieldLines) -> bool {
    let set = RangeSet::parse(asked);
    let mut values = fields.all("content-range");
    let Some(value) = values.next() else {
        // Several parts say where they belong one by one, inside the content. A request for one
        // range is not answered with them.
        let is_single = set.is_some_and(|set| set.specs().len() == 1);
        return is_multipart(fields) && !is_single;
    };
    if values.next().is_some() {
        return false;
    }
    let is_of_bytes = |value: &[u8]| value.get(..5).is_some_and(|unit| unit.eq_ignore_ascii_case(b"bytes"));
    match (set, Place::parse(value)) {
        (Some(set), Some(place)) => place.is_within(set.specs()),
        // Units that are not known here are a matter of the client and the origin.
        (None, _) => !is_of_bytes(asked) && !is_of_bytes(value),
        (Some(_), None) => false,
    }
}

fn is_multipart(fields: &impl FieldLines) -> bool {
    const TYPE: &[u8] = b"multipart/byteranges";
    fields
        .first("content-type")
        .and_then(|value| value.get(..TYPE.len()))
        .is_some_and(|value| value.eq_ignore_ascii_case(TYPE))
}

/// A part, of a representation whose length need not be known.
struct Place {
    first: u64,
    last: u64,
    complete_bytes: Option<u64>,
}

impl Place {
    fn parse(value: &[u8]) -> Option<Self> {
        if let Some(ContentRange { range, complete_bytes }) = ContentRange::parse(value) {
            return Some(Self { first: range.first, last: range.last, complete_bytes: Some(complete_bytes) });
        }
        let (unit, rest) = value.split_at_checked(b"bytes ".len())?;
        let (range, complete) = split_once(trim_ows(rest), b'/')?;
        let (first, last) = split_once(range, b'-')?;
        let (first, last) = (decimal(first)?, decimal(last)?);
        let is_valid = unit.eq_ignore_ascii_case(b"bytes ") && complete == b"*" && first <= last;
        is_valid.then_some(Self { first, last, complete_bytes: None })
    }

    /// Whether it lies within one of the ranges, or within those that one part may stand for
    /// because they overlap or touch: from the first to the last of all.
    fn is_within(&self, specs: &[RangeSpec]) -> bool {
        let bounds = specs.iter().filter_map(|spec| self.bounds(spec));
        let hull =
            bounds.reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)));
        hull.is_some_and(|(first, last)| first <= self.first && self.last <= last)
    }

    /// The first and the last byte of a range in this representation.
    fn bounds(&self, spec: &RangeSpec) -> Option<(u64, u64)> {
        match *spec {
            RangeSpec::Closed { first, last } => Some((first, last)),
            RangeSpec::Open { first } => Some((first, u64::MAX)),
            RangeSpec::Suffix { length } => Some((self.complete_bytes?.saturating_sub(length), u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::tests::fields;

    #[track_caller]
    fn check(sent: &[&str], status: u16, lines: &[&str], expected: Option<Unasked>) {
        assert_eq!(unasked(&fields(sent), status, &fields(lines)), expected, "{sent:?} {status} {lines:?}");
    }

    #[test]
    fn a_304_without_conditions() {
        check(&["If-None-Match: \"a\""], 304, &[], None);
        check(&["If-Modified-Since: x"], 304, &[], None);
        let expected = Some(Unasked::NotModified);
        check(&[], 304, &["ETag: \"a\""], expected);
        check(&["If-Match: \"a\""], 304, &[], expected);
        check(&["If-Range: \"a\"", "Range: bytes=0-1"], 304, &[], expected);
        for status in [200, 204, 301, 404, 412, 416, 500] {
            check(&[], status, &[], None);
        }
    }

    #[test]
    fn a_206_without_a_range() {
        check(&[], 206, &["Content-Range: bytes 0-9/10"], None);
        for line in ["bytes 0-8/10", "bytes 1-9/10", "bytes 0-9/*", "bytes */10", "lines 0-9/10"] {
            check(&[], 206, &[&format!("Content-Range: {line}")], Some(Unasked::Part));
        }
        check(&[], 206, &["Content-Type: multipart/byteranges; boundary=a"], Some(Unasked::Part));
        check(&[], 206, &[], Some(Unasked::Part));
    }

    #[test]
    fn a_206_of_another_range() {
        let part = |range: &str, content_range: &str, is_asked: bool| {
            let expected = (!is_asked).then_some(Unasked::OtherPart);
            check(&[&format!("Range: {range}")], 206, &[&format!("Content-Range: {content_range}")], expected);
        };
        part("bytes=4-9", "bytes 4-9/10", true);
        part("bytes=4-9", "bytes 4-9/*", true);
        // RFC 9110, 15.3.7: a subset.
        part("bytes=4-9", "bytes 5-8/10", true);
        part("bytes=4-900", "bytes 4-9/10", true);
        part("bytes=4-9", "bytes 3-9/20", false);
        part("bytes=4-9", "bytes 4-10/20", false);
        part("bytes=4-9", "bytes 0-4/10", false);
        part("bytes=4-", "bytes 4-9/10", true);
        part("bytes=4-", "bytes 0-9/10", false);
        part("bytes=-5", "bytes 5-9/10", true);
        part("bytes=-5", "bytes 0-4/10", false);
        part("bytes=-50", "bytes 0-9/10", true);
        part("bytes=-5", "bytes 5-9/*", false);
        // Ranges that one part stands for.
        part("bytes=0-4,5-9", "bytes 0-9/10", true);
        part("bytes=0-1,8-9", "bytes 8-9/10", true);
        part("bytes=2-3,8-9", "bytes 0-9/10", false);
        // Without a place, or with more than one.
        part("bytes=4-9", "bytes */10", false);
        part("bytes=4-9", "", false);
        part("bytes=4-9", "lines 4-9/10", false);
        part("lines=4-9", "lines 4-9/10", true);
        part("lines=4-9", "bytes 4-9/10", false);
        part("bytes=9-4", "bytes 4-9/10", false);
        let twice = ["Content-Range: bytes 4-9/10", "Content-Range: bytes 4-9/10"];
        check(&["Range: bytes=4-9"], 206, &twice, Some(Unasked::OtherPart));
    }

    #[test]
    fn several_parts() {
        let several = "Content-Type: Multipart/ByteRanges; boundary=a";
        check(&["Range: bytes=0-1,8-9"], 206, &[several], None);
        check(&["Range: bytes=0-1"], 206, &[several], Some(Unasked::OtherPart));
        check(&["Range: bytes=0-1,8-9"], 206, &["Content-Type: text/plain"], Some(Unasked::OtherPart));
        // More ranges than are read here.
        let many: Vec<_> = (0..500).map(|at| format!("{}-{}", at * 10, at * 10 + 1)).collect();
        check(&[&format!("Range: bytes={}", many.join(","))], 206, &[several], None);
    }
}
