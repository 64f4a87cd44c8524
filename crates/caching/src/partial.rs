//! Parts of an object: Content-Range, the stored ranges of one version, which bytes a request still
//! needs from the origin, and whether a received part belongs to the stored ones (RFC 9110, 14.4
//! and 15.3.7.3; RFC 9111, 3.3 and 3.4). Range itself is `thalweg_wire::range`'s to read.

use thalweg_wire::encode::push_decimal;
use thalweg_wire::range::ByteRange;
use thalweg_wire::trim_ows;

use crate::version::{Change, Version};

/// The Content-Range of a single part, with the length of the whole representation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The bytes of the part.
    pub range: ByteRange,
    /// The length of the whole.
    pub complete_bytes: u64,
}

impl ContentRange {
    /// Reads `bytes FIRST-LAST/LENGTH`. `None` for anything else, also for an unknown length (`*`)
    /// and for a range that lies outside.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, rest) = value.split_at_checked(b"bytes ".len())?;
        if !unit.eq_ignore_ascii_case(b"bytes ") {
            return None;
        }
        let (range, complete) = split_once(trim_ows(rest), b'/')?;
        let (first, last) = split_once(range, b'-')?;
        let (first, last, complete_bytes) = (decimal(first)?, decimal(last)?, decimal(complete)?);
        let is_inside = first <= last && last < complete_bytes;
        is_inside.then_some(Self { range: ByteRange { first, last }, complete_bytes })
    }
}

fn split_once(value: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = value.iter().position(|&byte| byte == separator)?;
    Some((&value[..at], &value[at + 1..]))
}

/// A length or position, which must be exact: one beyond 64 bits is none.
pub(crate) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    digits.iter().try_fold(0u64, |number, &byte| number.checked_mul(10)?.checked_add(u64::from(byte - b'0')))
}

/// The stored bytes of one version: ranges in order that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    ranges: Vec<ByteRange>,
}

impl Coverage {
    /// The ranges.
    #[must_use]
    pub fn ranges(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// Adds bytes, some of which may be there already.
    pub fn add(&mut self, added: ByteRange) {
        let mut merged = added;
        // The first range that overlaps or touches, and the first behind those that do.
        let from = self.ranges.partition_point(|range| range.last.saturating_add(1) < added.first);
        let to = self.ranges.partition_point(|range| range.first <= added.last.saturating_add(1));
        for range in &self.ranges[from..to] {
            merged.first = merged.first.min(range.first);
            merged.last = merged.last.max(range.last);
        }
        self.ranges.splice(from..to, [merged]);
    }

    /// Removes bytes, such as those of an evicted fragment.
    pub fn remove(&mut self, removed: ByteRange) {
        let mut kept = Vec::with_capacity(self.ranges.len() + 1);
        for &range in &self.ranges {
            if range.last < removed.first || range.first > removed.last {
                kept.push(range);
                continue;
            }
            if range.first < removed.first {
                kept.push(ByteRange { first: range.first, last: removed.first - 1 });
            }
            if range.last > removed.last {
                kept.push(ByteRange { first: removed.last + 1, last: range.last });
            }
        }
        self.ranges = kept;
    }

    /// Adds to `missing` the bytes of a range that are not stored, in order.
    pub fn missing(&self, wanted: ByteRange, missing: &mut Vec<ByteRange>) {
        let mut next = wanted.first;
        let start = self.ranges.partition_point(|range| range.last < wanted.first);
        for range in self.ranges[start..].iter().take_while(|range| range.first <= wanted.last) {
            if range.first > next {
                missing.push(ByteRange { first: next, last: range.first - 1 });
            }
            if range.last >= wanted.last {
                return;
            }
            next = range.last + 1;
        }
        missing.push(ByteRange { first: next, last: wanted.last });
    }

    /// Whether all bytes of an object of that length are stored.
    #[must_use]
    pub fn is_complete(&self, complete_bytes: u64) -> bool {
        match complete_bytes.checked_sub(1) {
            None => true,
            Some(last) => self.ranges.iter().any(|range| range.first == 0 && range.last >= last),
        }
    }
}

/// The bytes that have to be fetched to answer with the wanted ranges of an object of
/// `complete_bytes`, inside which they lie: in order, and widened to whole fragments of
/// `fragment_bytes`. Empty, and without memory, if all are stored.
///
/// # Panics
/// When `fragment_bytes` is 0.
#[must_use]
pub fn missing_fragments(
    wanted: &[ByteRange],
    coverage: &Coverage,
    complete_bytes: u64,
    fragment_bytes: u64,
) -> Vec<ByteRange> {
    assert!(fragment_bytes > 0, "fragments have bytes");
    let mut missing = Vec::new();
    for &range in wanted {
        coverage.missing(range, &mut missing);
    }
    aligned(&missing, complete_bytes, fragment_bytes)
}

/// The ranges widened to whole fragments, in order, those that then overlap or touch as one.
fn aligned(ranges: &[ByteRange], complete_bytes: u64, fragment_bytes: u64) -> Vec<ByteRange> {
    let mut fragments = Coverage::default();
    for range in ranges {
        let first = range.first - range.first % fragment_bytes;
        let end = range.last - range.last % fragment_bytes;
        let last = end.saturating_add(fragment_bytes - 1).min(complete_bytes - 1);
        fragments.add(ByteRange { first, last });
    }
    fragments.ranges
}

/// Writes the value of a Range field for these ranges, such as `bytes=0-9,20-29`.
pub fn push_range(out: &mut Vec<u8>, ranges: &[ByteRange]) {
    out.extend_from_slice(b"bytes=");
    for (index, range) in ranges.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_decimal(out, range.first);
        out.push(b'-');
        push_decimal(out, range.last);
    }
}

/// Whether a received part, or a whole response, belongs to a stored version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// The bytes belong to the stored version.
    Same,
    /// They are of another version: what is stored is to be dropped, and an answer that has begun
    /// with it is to be cut.
    Changed(Change),
    /// Nothing is known, for want of a strong validator: the bytes may answer their own request and
    /// stand alone in the store, nothing else.
    Unknown,
}

/// Compares a stored version with the one of a received response (RFC 9110, 15.3.7.3).
/// `None` stands for a response without a strong validator.
#[must_use]
pub fn combine(stored: Option<&Version>, received: Option<&Version>) -> Combination {
    match (stored, received) {
        (Some(stored), Some(received)) => stored.change(received).map_or(Combination::Same, Combination::Changed),
        _ => Combination::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use thalweg_wire::range::RangeSet;

    use super::*;
    use crate::version::Validator;

    fn ranges(text: &str) -> Vec<ByteRange> {
        text.split(',')
            .filter(|range| !range.is_empty())
            .map(|range| {
                let (first, last) = range.split_once('-').expect("a test range has a dash");
                ByteRange { first: first.parse().unwrap(), last: last.parse().unwrap() }
            })
            .collect()
    }

    fn coverage(text: &str) -> Coverage {
        let mut coverage = Coverage::default();
        for range in ranges(text) {
            coverage.add(range);
        }
        coverage
    }

    fn shown(ranges: &[ByteRange]) -> String {
        let texts: Vec<String> = ranges.iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
        texts.join(",")
    }

    #[test]
    fn content_range() {
        let check = |value: &str, expected: Option<(u64, u64, u64)>| {
            let found = ContentRange::parse(value.as_bytes());
            let found = found.map(|found| (found.range.first, found.range.last, found.complete_bytes));
            assert_eq!(found, expected, "{value}");
        };
        // RFC 9110, 14.4.
        check("bytes 4-9/10", Some((4, 9, 10)));
        check("Bytes 0-0/1", Some((0, 0, 1)));
        check("bytes 0-0/18446744073709551615", Some((0, 0, u64::MAX)));
        for value in [
            "",
            "bytes",
            "bytes */10",
            "bytes 0-4/*",
            "bytes 4-10/10",
            "bytes 5-4/10",
            "bytes 0-4",
            "bytes -4/10",
            "lines 0-4/10",
            "bytes=0-4/10",
            "bytes a-4/10",
            "bytes 0-4/18446744073709551616",
            "bytes 0-4/5/6",
        ] {
            check(value, None);
        }
    }

    #[test]
    fn added_and_removed_ranges() {
        let check = |text: &str, expected: &str| assert_eq!(shown(coverage(text).ranges()), expected, "{text}");
        check("", "");
        check("5-9", "5-9");
        check("5-9,0-3", "0-3,5-9");
        check("5-9,0-4", "0-9");
        check("0-4,5-9", "0-9");
        check("0-1,4-5,8-9,2-7", "0-9");
        check("0-1,4-5,8-9,4-4", "0-1,4-5,8-9");
        check("0-18446744073709551615,3-4", "0-18446744073709551615");

        let removed = |text: &str, gone: &str, expected: &str| {
            let mut coverage = coverage(text);
            ranges(gone).into_iter().for_each(|range| coverage.remove(range));
            assert_eq!(shown(coverage.ranges()), expected, "{text} without {gone}");
        };
        removed("0-9", "3-5", "0-2,6-9");
        removed("0-9", "0-3", "4-9");
        removed("0-9", "9-20", "0-8");
        removed("0-3,5-9", "2-6", "0-1,7-9");
        removed("0-3,5-9", "0-18446744073709551615", "");
        removed("0-3", "4-9", "0-3");
    }

    #[test]
    fn complete_objects() {
        let check = |text: &str, bytes: u64, expected: bool| {
            assert_eq!(coverage(text).is_complete(bytes), expected, "{text} of {bytes}");
        };
        check("", 0, true);
        check("", 1, false);
        check("0-9", 10, true);
        check("0-8", 10, false);
        check("1-9", 10, false);
        check("0-4,6-9", 10, false);
    }

    /// Answers a request of an object of 100 bytes.
    fn check(stored: &str, range: Option<&str>, fragment: u64, expected: &str) {
        let whole = [ByteRange { first: 0, last: 99 }];
        let parts = range.map(|range| RangeSet::parse(range.as_bytes()).unwrap().resolve(100).unwrap());
        let parts = parts.map(|parts| parts.without_overlaps());
        let wanted = parts.as_ref().map_or(&whole[..], |parts| parts.as_slice());
        let missing = missing_fragments(wanted, &coverage(stored), 100, fragment);
        assert_eq!(shown(&missing), expected, "{stored:?} {range:?} {fragment}");
    }

    #[test]
    fn ranges_of_stored_bytes() {
        // RFC 9111, 3.3 and 3.4: whole objects and parts answer smaller ranges.
        check("0-99", None, 1, "");
        check("0-99", Some("bytes=0-1"), 1, "");
        check("0-99", Some("bytes=1-"), 1, "");
        check("0-99", Some("bytes=-1"), 1, "");
        check("90-99", Some("bytes=-10"), 1, "");
        check("90-99", Some("bytes=92-94"), 1, "");
        check("90-99", Some("bytes=95-"), 1, "");
        check("90-99", Some("bytes=-5"), 1, "");
        check("90-99", Some("bytes=-11"), 1, "89-89");
        check("0-4", None, 1, "5-99");
        check("0-4,10-19", Some("bytes=3-29"), 1, "5-9,20-29");
        check("0-98", Some("bytes=50-60,0-1,55-99"), 1, "99-99");
        check("", Some("bytes=50-60,0-1"), 1, "0-1,50-60");
    }

    #[test]
    fn whole_fragments_are_fetched() {
        check("", Some("bytes=45-46"), 32, "32-63");
        check("0-31", Some("bytes=0-64"), 32, "32-95");
        check("", Some("bytes=98-98"), 32, "96-99");
        check("", Some("bytes=0-0,33-33"), 32, "0-63");
        check("32-63", None, 32, "0-31,64-99");
        check("", None, u64::MAX, "0-99");
        assert_eq!(missing_fragments(&[], &Coverage::default(), 0, 32), []);
    }

    #[test]
    fn range_field() {
        let mut value = Vec::new();
        push_range(&mut value, &ranges("0-9,20-29"));
        assert_eq!(value, b"bytes=0-9,20-29");
    }

    #[test]
    fn parts_of_different_versions_are_not_combined() {
        let check = |stored: Option<(&str, u64)>, received: Option<(&str, u64)>, expected| {
            let version = |(tag, complete_bytes): (&str, u64)| Version {
                validator: Validator::Tag(tag.as_bytes().into()),
                complete_bytes,
            };
            let (one, other) = (stored.map(version), received.map(version));
            assert_eq!(combine(one.as_ref(), other.as_ref()), expected, "{stored:?} {received:?}");
        };
        // RFC 9110, 15.3.7.3.
        check(Some(("a", 10)), Some(("a", 10)), Combination::Same);
        check(Some(("a", 10)), Some(("b", 10)), Combination::Changed(Change::Validator));
        check(Some(("a", 10)), Some(("a", 11)), Combination::Changed(Change::Length));
        check(Some(("a", 10)), None, Combination::Unknown);
        check(None, Some(("a", 10)), Combination::Unknown);
        check(None, None, Combination::Unknown);
    }
}
