//! Byte ranges (RFC 9110, 14): reading Range, applying it to a size, writing Content-Range.
//!
//! A Range that cannot be understood is ignored, as the RFC wants, and so is one with too many
//! parts; a Range that is understood but lies outside the representation is unsatisfiable, which is
//! an answer of its own (416).

use arrayvec::ArrayVec;

use crate::encode::push_decimal;
use crate::fields::list_elements;

/// Most parts a Range may have. Programs that mend an old file from pieces of the new one ask for
/// some twenty (zsync) or 255 (zchunk) at once.
pub const RANGES_MAX: usize = 256;

/// Most parts that need not lie apart from each other, in the order of their bytes: more are an
/// attack (RFC 9110, 17.15).
pub const UNORDERED_RANGES_MAX: usize = 64;

/// One part of a Range as it was requested. Numbers too large for 64 bits count as the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RangeSpec {
    /// `first-last`, both included.
    Closed {
        /// Position of the first byte.
        first: u64,
        /// Position of the last byte, not before the first.
        last: u64,
    },
    /// `first-`: from there to the end.
    Open {
        /// Position of the first byte.
        first: u64,
    },
    /// `-length`: so many bytes at the end.
    Suffix {
        /// How many bytes.
        length: u64,
    },
}

/// A Range as it was requested: one to [`RANGES_MAX`] parts.
#[derive(Clone, Debug)]
pub struct RangeSet {
    specs: ArrayVec<RangeSpec, RANGES_MAX>,
}

/// Bytes of a representation, from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// Position of the first byte.
    pub first: u64,
    /// Position of the last byte, not before the first and inside the representation.
    pub last: u64,
}

/// The satisfiable parts of a Range in the order of the request: one to [`RANGES_MAX`], possibly
/// overlapping.
#[derive(Clone, Debug)]
pub struct ByteRanges {
    ranges: ArrayVec<ByteRange, RANGES_MAX>,
}

/// No part of a Range lies inside the representation: to be answered 416, with
/// [`push_unsatisfied_content_range`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no part of the range lies inside the representation")]
pub struct Unsatisfiable;

impl RangeSet {
    /// Reads the value of a Range field; `None` if it is to be ignored: another unit than bytes,
    /// malformed in any part, or with too many parts: more than [`RANGES_MAX`], or more than
    /// [`UNORDERED_RANGES_MAX`] that overlap or do not ascend.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (unit, list) = value.split_at_checked(b"bytes=".len())?;
        if !unit.eq_ignore_ascii_case(b"bytes=") {
            return None;
        }
        let mut specs = ArrayVec::new();
        for element in list_elements(list) {
            specs.try_push(RangeSpec::parse(element)?).ok()?;
        }
        let is_fine = match specs.len() {
            0 => false,
            1..=UNORDERED_RANGES_MAX => true,
            _ => specs.windows(2).all(|pair| pair[0].ends_before(pair[1])),
        };
        is_fine.then_some(Self { specs })
    }

    /// The parts in the order of the request.
    #[must_use]
    pub fn specs(&self) -> &[RangeSpec] {
        &self.specs
    }

    /// Applies the Range to a representation of `size` bytes.
    ///
    /// # Errors
    /// When no part lies inside; a part outside beside one inside is left out.
    pub fn resolve(&self, size: u64) -> Result<ByteRanges, Unsatisfiable> {
        let ranges: ArrayVec<_, RANGES_MAX> = self.specs.iter().filter_map(|spec| spec.resolve(size)).collect();
        if ranges.is_empty() { Err(Unsatisfiable) } else { Ok(ByteRanges { ranges }) }
    }
}

impl RangeSpec {
    fn parse(element: &[u8]) -> Option<Self> {
        let dash = element.iter().position(|&byte| byte == b'-')?;
        match (&element[..dash], &element[dash + 1..]) {
            ([], suffix) => Some(Self::Suffix { length: saturating_decimal(suffix)? }),
            (first, []) => Some(Self::Open { first: saturating_decimal(first)? }),
            (first, last) => {
                let (first, last) = (saturating_decimal(first)?, saturating_decimal(last)?);
                // RFC 9110, 14.1.1: a range that ends before it begins is invalid, not
                // unsatisfiable.
                (first <= last).then_some(Self::Closed { first, last })
            }
        }
    }

    /// Whether it ends before another one begins, whatever the size is.
    fn ends_before(self, other: Self) -> bool {
        match (self, other) {
            (Self::Closed { last, .. }, Self::Closed { first, .. } | Self::Open { first }) => last < first,
            _ => false,
        }
    }

    fn resolve(self, size: u64) -> Option<ByteRange> {
        let last_of_all = size.checked_sub(1)?;
        let (first, last) = match self {
            Self::Closed { first, last } => (first, last.min(last_of_all)),
            Self::Open { first } => (first, last_of_all),
            Self::Suffix { length: 0 } => return None,
            Self::Suffix { length } => (size.saturating_sub(length), last_of_all),
        };
        (first < size).then_some(ByteRange { first, last })
    }
}

impl ByteRanges {
    /// The ranges in the order of the request.
    #[must_use]
    pub fn as_slice(&self) -> &[ByteRange] {
        &self.ranges
    }

    /// Makes ranges that overlap one, in the place of the first of them (RFC 9110, 15.3.7.2), so
    /// that all together are not more than the representation. Ranges that only touch stay apart.
    #[must_use]
    pub fn without_overlaps(mut self) -> Self {
        if self.ranges.windows(2).all(|pair| pair[0].last < pair[1].first) {
            return self;
        }
        let places = self.ranges.iter().enumerate();
        let mut by_position: ArrayVec<_, RANGES_MAX> =
            places.map(|(place, range)| (range.first, range.last, place)).collect();
        by_position.sort_unstable();
        let mut count = 0;
        for index in 0..by_position.len() {
            let (first, last, place) = by_position[index];
            if count > 0 && first <= by_position[count - 1].1 {
                let before = &mut by_position[count - 1];
                before.1 = before.1.max(last);
                before.2 = before.2.min(place);
            } else {
                by_position[count] = (first, last, place);
                count += 1;
            }
        }
        let apart = &mut by_position[..count];
        apart.sort_unstable_by_key(|&(_, _, place)| place);
        self.ranges = apart.iter().map(|&(first, last, _)| ByteRange { first, last }).collect();
        self
    }

    /// The range, if it is only one.
    #[must_use]
    pub fn single(&self) -> Option<ByteRange> {
        match self.as_slice() {
            [range] => Some(*range),
            _ => None,
        }
    }
}

impl ByteRange {
    /// How many bytes it has, at least one.
    #[must_use]
    pub const fn length(self) -> u64 {
        self.last - self.first + 1
    }
}

/// Writes the value of Content-Range for a part of a representation of `size` bytes, such as
/// `bytes 0-4/10`.
pub fn push_content_range(out: &mut Vec<u8>, range: ByteRange, size: u64) {
    out.extend_from_slice(b"bytes ");
    push_decimal(out, range.first);
    out.push(b'-');
    push_decimal(out, range.last);
    out.push(b'/');
    push_decimal(out, size);
}

/// Writes the value of Content-Range for a 416 reply, such as `bytes */10`.
pub fn push_unsatisfied_content_range(out: &mut Vec<u8>, size: u64) {
    out.extend_from_slice(b"bytes */");
    push_decimal(out, size);
}

/// A plain decimal number; one beyond 64 bits lies behind the end of anything and counts as the
/// largest.
fn saturating_decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number =
        digits.iter().fold(0u64, |number, &byte| number.saturating_mul(10).saturating_add(u64::from(byte - b'0')));
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a Range, applies it and writes what would be Content-Range for each part.
    fn check(value: &str, size: u64, expected: &str) {
        let mut shown = Vec::new();
        match RangeSet::parse(value.as_bytes()).map(|set| set.resolve(size)) {
            None => shown.extend_from_slice(b"ignored"),
            Some(Err(Unsatisfiable)) => push_unsatisfied_content_range(&mut shown, size),
            Some(Ok(ranges)) => {
                for (index, &range) in ranges.as_slice().iter().enumerate() {
                    shown.extend_from_slice(if index > 0 { b", " } else { b"" });
                    push_content_range(&mut shown, range, size);
                }
            }
        }
        assert_eq!(String::from_utf8_lossy(&shown), expected, "{value} of {size} bytes");
    }

    #[test]
    fn one_part() {
        check("bytes=0-4", 10, "bytes 0-4/10");
        check("bytes=0-0", 10, "bytes 0-0/10");
        check("bytes=9-", 10, "bytes 9-9/10");
        check("bytes=5-99", 10, "bytes 5-9/10");
        check("bytes=-3", 10, "bytes 7-9/10");
        check("bytes=-99", 10, "bytes 0-9/10");
        check("BYTES=0-4", 10, "bytes 0-4/10");
        check("bytes= 0-4 ", 10, "bytes 0-4/10");
        check("bytes=00-0004", 10, "bytes 0-4/10");
        check("bytes=4294967296-4294967297", 5_000_000_000, "bytes 4294967296-4294967297/5000000000");
    }

    #[test]
    fn several_parts() {
        check("bytes=0-1, 4-5,-1", 10, "bytes 0-1/10, bytes 4-5/10, bytes 9-9/10");
        check("bytes=,0-1,,2-3,", 10, "bytes 0-1/10, bytes 2-3/10");
        check("bytes=0-1,10-", 10, "bytes 0-1/10");
        let most = format!("bytes=0-0{}", ",1-1".repeat(UNORDERED_RANGES_MAX - 1));
        assert_eq!(RangeSet::parse(most.as_bytes()).map(|set| set.specs().len()), Some(UNORDERED_RANGES_MAX));
        check(&format!("{most},2-2"), 10, "ignored");
    }

    /// zchunk's zckdl asks for 255.
    #[test]
    fn many_parts_are_answered_if_they_lie_apart_in_order() {
        let parts = |count: u64| {
            let listed: Vec<String> = (0..count).map(|part| format!("{}-{}", 10 * part, 10 * part + 8)).collect();
            listed.join(",")
        };
        let count = |list: &str| {
            let ranges = RangeSet::parse(format!("bytes={list}").as_bytes())?.resolve(10_000).ok()?;
            Some(ranges.without_overlaps().as_slice().len())
        };
        assert_eq!(count(&parts(256)), Some(256));
        assert_eq!(count(&format!("{},9000-", parts(255))), Some(256));
        assert_eq!(count(&parts(257)), None);
        for other in ["2545-2555", "2548-2548", "0-0", "-5", "9999-,9999-"] {
            assert_eq!(count(&format!("{},{other}", parts(255))), None, "{other}");
        }
        assert_eq!(count(&format!("0-,{}", parts(100))), None);
        assert_eq!(count(&format!("{},0-0", parts(63))), Some(63), "few may be as they like");
    }

    #[test]
    fn overlapping_parts_become_one() {
        let check = |value: &str, expected: &str| {
            let ranges = RangeSet::parse(value.as_bytes()).unwrap().resolve(100).unwrap().without_overlaps();
            let shown: Vec<String> =
                ranges.as_slice().iter().map(|range| format!("{}-{}", range.first, range.last)).collect();
            assert_eq!(shown.join(","), expected, "{value}");
        };
        check("bytes=5-9", "5-9");
        check("bytes=50-59,5-9", "50-59,5-9");
        check("bytes=0-9,10-19", "0-9,10-19");
        check("bytes=0-10,10-19", "0-19");
        check("bytes=90-,0-9,50-92,5-6,-3", "50-99,0-9");
        check("bytes=0-,0-,0-,-1", "0-99");
        check("bytes=20-29,40-49,0-9,25-45", "20-49,0-9");
    }

    #[test]
    fn unsatisfiable() {
        check("bytes=10-", 10, "bytes */10");
        check("bytes=10-20,11-", 10, "bytes */10");
        check("bytes=-0", 10, "bytes */10");
        check("bytes=0-", 0, "bytes */0");
        check("bytes=-1", 0, "bytes */0");
    }

    #[test]
    fn numbers_beyond_64_bits() {
        check("bytes=0-18446744073709551616", 10, "bytes 0-9/10");
        check("bytes=99999999999999999999-", 10, "bytes */10");
        check("bytes=-99999999999999999999", 10, "bytes 0-9/10");
        check("bytes=0-", u64::MAX, "bytes 0-18446744073709551614/18446744073709551615");
    }

    #[test]
    fn ignored() {
        for value in [
            "",
            "bytes",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=5",
            "bytes=5-4",
            "bytes=a-b",
            "bytes=+1-2",
            "bytes=1--2",
            "bytes=1 -2",
            "bytes =0-1",
            "lines=0-1",
            "bytes=0-1;2-3",
            "bytes=0x1-2",
            "bytes=0-1,x",
            " bytes=0-1",
        ] {
            check(value, 10, "ignored");
        }
    }

    #[test]
    fn single_and_length() {
        let resolve = |value: &[u8]| RangeSet::parse(value).and_then(|set| set.resolve(10).ok());
        let single = |value| resolve(value).and_then(|ranges| ranges.single()).map(ByteRange::length);
        assert_eq!(single(b"bytes=2-4"), Some(3));
        assert_eq!(single(b"bytes=2-4,6-"), None);
        assert_eq!(single(b"bytes=2-4,10-"), Some(3), "what is outside does not count");
    }
}
