//! Parts of an object: Content-Range (RFC 9110, 14.4). Range is `thalweg_wire::range`'s to read,
//! and whether a received part belongs to the stored ones is its version's to say.

use thalweg_wire::range::ByteRange;
use thalweg_wire::trim_ows;

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

pub(crate) fn split_once(value: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
