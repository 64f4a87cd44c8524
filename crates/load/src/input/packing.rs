//! Numbers in as few bytes as they need (LEB128), for records that lie one behind the other in one
//! piece of memory.

/// Appends a number.
pub(crate) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a number off the front.
///
/// # Panics
/// There is none.
pub(crate) fn take_number(bytes: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().expect("a packed record is whole");
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
    }
}

/// Takes so many bytes off the front.
///
/// # Panics
/// There are fewer.
pub(crate) fn take_bytes<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

/// Takes a text with its length before it off the front.
pub(crate) fn take_text<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let count = take_number(bytes) as usize;
    take_bytes(bytes, count)
}

/// Appends a text with its length before it.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_they_were() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        numbers.iter().for_each(|&number| push_number(&mut bytes, number));
        push_text(&mut bytes, b"text");
        let mut rest = bytes.as_slice();
        assert_eq!(numbers.map(|_| take_number(&mut rest)), numbers);
        assert_eq!((take_text(&mut rest), rest), (&b"text"[..], &b""[..]));
    }
}
