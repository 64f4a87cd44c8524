//! The order in which people look for names: numbers by value, letters without regard to case.

use std::cmp::Ordering;

/// Compares two names: `a2` comes before `a10`, and `b` between `A` and `C`. Names that differ in
/// nothing else are ordered by their bytes, so that only equal names are equal. Nothing depends on
/// a locale: all hosts agree.
pub(super) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    compare_folded(a, b).then_with(|| a.cmp(b))
}

fn compare_folded(mut a: &[u8], mut b: &[u8]) -> Ordering {
    while let (Some(first_a), Some(first_b)) = (a.first(), b.first()) {
        let ordering = if first_a.is_ascii_digit() && first_b.is_ascii_digit() {
            // By value, without a limit: of two numbers without leading zeros the longer one is the
            // larger.
            let (number_a, number_b) = (take_number(&mut a), take_number(&mut b));
            number_a.len().cmp(&number_b.len()).then_with(|| number_a.cmp(number_b))
        } else {
            take_folded(&mut a).cmp(&take_folded(&mut b))
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    a.len().cmp(&b.len())
}

/// The digits that the bytes begin with, without leading zeros.
fn take_number<'n>(bytes: &mut &'n [u8]) -> &'n [u8] {
    let digits = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, rest) = bytes.split_at(digits);
    *bytes = rest;
    let zeros = number.iter().take_while(|&&byte| byte == b'0').count();
    &number[zeros..]
}

/// The character that the bytes begin with, in lower case. Bytes that are no character come behind
/// all that are.
fn take_folded(bytes: &mut &[u8]) -> u32 {
    let (folded, len) = match bytes[0] {
        ascii @ 0..0x80 => (u32::from(ascii.to_ascii_lowercase()), 1),
        other => match first_char(bytes) {
            Some(char) => (char.to_lowercase().next().map_or(u32::from(char), u32::from), char.len_utf8()),
            None => (u32::from(char::MAX) + u32::from(other), 1),
        },
    };
    *bytes = &bytes[len..];
    folded
}

fn first_char(bytes: &[u8]) -> Option<char> {
    bytes[..bytes.len().min(char::MAX_LEN_UTF8)].utf8_chunks().next()?.valid().chars().next()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_ordered_as_people_expect() {
        let ordered: &[&[u8]] = &[
            b"",
            b" leading space",
            b"-dash",
            b".hidden",
            b"1",
            b"2",
            b"02",
            b"10",
            b"10 a",
            b"99999999999999999999999999999998",
            b"99999999999999999999999999999999",
            b"A",
            b"a",
            b"a1",
            b"a2.tar",
            b"a10.tar",
            b"a10.tar.gz",
            b"B",
            b"b",
            b"file",
            b"file.txt",
            b"file1.txt",
            b"version 1.2.9",
            b"version 1.2.10",
            "z".as_bytes(),
            "Äpfel".as_bytes(),
            "äpfel 2".as_bytes(),
            "Жук".as_bytes(),
            b"\xff",
        ];
        for pair in ordered.windows(2) {
            let (first, second) = (pair[0].escape_ascii(), pair[1].escape_ascii());
            // `2` and `02` have the same value: their bytes decide.
            let expected = if pair == [b"2".as_slice(), b"02"] { Ordering::Greater } else { Ordering::Less };
            assert_eq!(compare(pair[0], pair[1]), expected, "{first} {second}");
            assert_eq!(compare(pair[1], pair[0]), expected.reverse(), "{second} {first}");
        }
    }

    proptest! {
        #[test]
        fn the_order_is_total(names in proptest::collection::vec("[aA0-2.ä\u{ff}]{0,4}", 3)) {
            let [a, b, c] = [0, 1, 2].map(|at| names[at].as_bytes());
            prop_assert_eq!(compare(a, b), compare(b, a).reverse());
            prop_assert_eq!(compare(a, b).is_eq(), a == b);
            if compare(a, b).is_le() && compare(b, c).is_le() {
                prop_assert!(compare(a, c).is_le());
            }
        }
    }
}
