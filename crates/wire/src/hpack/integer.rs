//! Integers with a prefix (RFC 7541, 5.1).

/// Bytes behind the prefix that a reader takes: enough for 28 bits, which no bound here reaches.
const CONTINUATION_MAX: u32 = 4;

/// Why no integer was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IntegerFault {
    /// The input ends in the middle.
    Truncated,
    /// The integer is larger than any bound, or padded.
    TooLarge,
}

/// Reads an integer whose prefix has so many bits of the first byte. Returns it with the rest of
/// the input.
#[inline]
pub(super) fn read(input: &[u8], prefix: u32) -> Result<(u32, &[u8]), IntegerFault> {
    let (first, mut rest) = input.split_first().ok_or(IntegerFault::Truncated)?;
    let full = (1_u32 << prefix) - 1;
    let mut value = u32::from(*first) & full;
    if value < full {
        return Ok((value, rest));
    }
    for place in 0..CONTINUATION_MAX {
        let (byte, behind) = rest.split_first().ok_or(IntegerFault::Truncated)?;
        rest = behind;
        value += u32::from(byte & 0x7f) << (7 * place);
        if byte & 0x80 == 0 {
            return Ok((value, rest));
        }
    }
    Err(IntegerFault::TooLarge)
}

/// Appends an integer behind the bits of a pattern, whose prefix has so many bits.
#[inline]
pub(super) fn write(pattern: u8, prefix: u32, value: u32, out: &mut Vec<u8>) {
    let full = (1_u32 << prefix) - 1;
    if value < full {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | full as u8);
    let mut rest = value - full;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541, C.1.
        for (value, prefix, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 0x9a, 0x0a]), (42, 8, &[42])] {
            let mut out = Vec::new();
            write(0, prefix, value, &mut out);
            assert_eq!(out, bytes);
            assert_eq!(read(bytes, prefix), Ok((value, &[][..])));
        }
    }

    #[test]
    fn integers_are_bounded() {
        assert_eq!(read(&[0x1f, 0xff, 0xff, 0xff, 0x7f, 9], 5), Ok((31 + (1 << 28) - 1, &[9][..])));
        assert_eq!(read(&[0x1f, 0x80, 0x80, 0x80, 0x80, 0], 5), Err(IntegerFault::TooLarge));
        for end in 0..4 {
            assert_eq!(read(&[0x1f, 0xff, 0xff, 0xff, 0x7f][..end], 5), Err(IntegerFault::Truncated));
        }
    }
}
