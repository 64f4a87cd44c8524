//! The Huffman code of strings in header blocks (RFC 7541, 5.2 and appendix B).
//!
//! The code is canonical: codes of one length ascend with their symbols. So the lengths alone
//! define it, and both directions derive their tables from them.

use std::sync::LazyLock;

/// Length of each symbol's code in bits; the last one is that of EOS, which no string contains.
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];
const EOS: usize = 256;
const LENGTH_MIN: u32 = 5;
const LENGTH_MAX: u32 = 30;
/// Bits that one look-up of the decoder takes: enough for two of the symbols that text is made of.
const LOOK_UP_BITS: u32 = 12;

/// The code of each symbol.
const CODES: [u32; 257] = codes();

const fn codes() -> [u32; 257] {
    let mut codes = [0; 257];
    let (mut code, mut length) = (0_u32, LENGTH_MIN);
    while length <= LENGTH_MAX {
        let mut symbol = 0;
        while symbol < LENGTHS.len() {
            if LENGTHS[symbol] as u32 == length {
                codes[symbol] = code;
                code += 1;
            }
            symbol += 1;
        }
        code <<= 1;
        length += 1;
    }
    codes
}

/// An encoded string ends in something that is no symbol and no padding, or contains EOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidCode;

/// Bytes of a string once encoded.
pub(crate) fn encoded_len(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&byte| usize::from(LENGTHS[usize::from(byte)])).sum();
    bits.div_ceil(8)
}

/// Appends the encoded string.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut count) = (0_u64, 0_u32);
    for &byte in text {
        let length = u32::from(LENGTHS[usize::from(byte)]);
        bits = bits << length | u64::from(CODES[usize::from(byte)]);
        count += length;
        while count >= 8 {
            count -= 8;
            out.push((bits >> count) as u8);
        }
    }
    if count > 0 {
        // The padding is the beginning of EOS, all ones (RFC 7541, 5.2).
        out.push((bits << (8 - count)) as u8 | (0xff >> count));
    }
}

/// One look-up: up to two whole symbols at the beginning of some bits.
#[derive(Clone, Copy, Default)]
struct Found {
    symbols: [u8; 2],
    /// Whole symbols, 0 if the first is longer than a look-up.
    count: u8,
    /// Bits of the first symbol, and of both.
    bits: [u8; 2],
}

static FOUND: LazyLock<Vec<Found>> = LazyLock::new(|| {
    let first = |bits: u32| {
        (LENGTH_MIN..=LOOK_UP_BITS).find_map(|length| {
            let code = bits >> (LOOK_UP_BITS - length);
            let symbol = (0..EOS).find(|&symbol| u32::from(LENGTHS[symbol]) == length && CODES[symbol] == code)?;
            Some((symbol as u8, length))
        })
    };
    let found = |bits: u32| {
        let Some((symbol, length)) = first(bits) else { return Found::default() };
        // Zeros behind the bits at hand are no symbol's: one that needs them is left out.
        let rest = bits << length & ((1 << LOOK_UP_BITS) - 1);
        match first(rest).filter(|(_, second)| length + second <= LOOK_UP_BITS) {
            Some((next, second)) => {
                Found { symbols: [symbol, next], count: 2, bits: [length as u8, (length + second) as u8] }
            }
            None => Found { symbols: [symbol, 0], count: 1, bits: [length as u8; 2] },
        }
    };
    (0..1 << LOOK_UP_BITS).map(found).collect()
});

/// Appends the decoded string.
///
/// # Errors
/// It is not a code of symbols with at most 7 bits of padding.
pub(crate) fn decode(mut input: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidCode> {
    let found: &[Found] = &FOUND;
    // The bits at hand stand at the upper end; below them are ones, as in the padding.
    let (mut bits, mut count) = (u64::MAX, 0_u32);
    loop {
        while count <= 56 {
            let [byte, rest @ ..] = input else { break };
            input = rest;
            bits &= !(0xff_u64 << (56 - count)) | u64::from(*byte) << (56 - count);
            count += 8;
        }
        let entry = found[(bits >> (64 - LOOK_UP_BITS)) as usize];
        let [one, two] = entry.bits;
        let taken = if entry.count == 2 && u32::from(two) <= count {
            out.extend_from_slice(&entry.symbols);
            u32::from(two)
        } else if entry.count > 0 && u32::from(one) <= count {
            out.push(entry.symbols[0]);
            u32::from(one)
        } else if count < 8 && (bits | u64::MAX >> count) == u64::MAX {
            return Ok(());
        } else {
            let (symbol, length) = long(bits).filter(|(_, length)| *length <= count).ok_or(InvalidCode)?;
            out.push(symbol);
            length
        };
        bits = bits << taken | ((1 << taken) - 1);
        count -= taken;
    }
}

/// The symbol with a code longer than a look-up at the beginning of these bits.
fn long(bits: u64) -> Option<(u8, u32)> {
    (LOOK_UP_BITS + 1..=LENGTH_MAX).find_map(|length| {
        let code = (bits >> (64 - length)) as u32;
        let symbol = *BY_LENGTH[length as usize].get(code.checked_sub(FIRST_CODE[length as usize])? as usize)?;
        Some((u8::try_from(symbol).ok()?, length))
    })
}

/// The symbols of each length, ascending.
static BY_LENGTH: LazyLock<Vec<Vec<u16>>> = LazyLock::new(|| {
    let of_length =
        |length: u32| (0..257).filter(|&symbol| u32::from(LENGTHS[usize::from(symbol)]) == length).collect();
    (0..=LENGTH_MAX).map(of_length).collect()
});

/// The first code of each length.
const FIRST_CODE: [u32; LENGTH_MAX as usize + 1] = first_codes();

const fn first_codes() -> [u32; LENGTH_MAX as usize + 1] {
    let mut first = [u32::MAX; LENGTH_MAX as usize + 1];
    let mut symbol = LENGTHS.len();
    while symbol > 0 {
        symbol -= 1;
        first[LENGTHS[symbol] as usize] = CODES[symbol];
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), encoded_len(text));
        out
    }

    fn decoded(code: &[u8]) -> Result<Vec<u8>, InvalidCode> {
        let mut out = Vec::new();
        decode(code, &mut out).map(|()| out)
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541, C.4.1, C.4.2, C.6.1.
        let cases: [(&[u8], &[u8]); 4] = [
            (b"www.example.com", &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff]),
            (b"no-cache", &[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]),
            (b"private", &[0xae, 0xc3, 0x77, 0x1a, 0x4b]),
            (b"302", &[0x64, 0x02]),
        ];
        for (text, code) in cases {
            assert_eq!(encoded(text), code);
            assert_eq!(decoded(code).as_deref(), Ok(text));
        }
    }

    #[test]
    fn every_byte_survives_beside_every_other() {
        for first in 0..=255 {
            for second in [0, b' ', b'a', b'~', 0x0a, 0xff, first] {
                let text = [first, second, b'0', first, second];
                for end in 0..=text.len() {
                    assert_eq!(decoded(&encoded(&text[..end])).as_deref(), Ok(&text[..end]));
                }
            }
        }
    }

    #[test]
    fn padding_is_short_and_of_ones() {
        assert_eq!(decoded(&[]), Ok(vec![]));
        // '0' is 00000; the padding behind it 111.
        assert_eq!(decoded(&[0x07]), Ok(vec![b'0']));
        for code in [&[0x00][..], &[0x06], &[0x07, 0xff], &[0xff], &[0xff; 4], &[0x07, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decoded(code), Err(InvalidCode), "{code:02x?}");
        }
    }
}
