//! Names of cached things: the key of an object, the fragments of an object, and the places that
//! follow from them in directories. URLs and Vary are the caller's.

use sha2::{Digest, Sha256};
use std::{fmt, str::FromStr};

/// An object's key: the first 128 bits of the SHA-256 of its name, so that nobody who chooses names
/// can make two of them meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// The key of an object with this name: whatever bytes tell objects apart, such as method,
    /// scheme, authority, path, query and the fields that Vary names.
    pub fn of(name: &[u8]) -> Self {
        let digest = Sha256::digest(name);
        let mut key = [0; 16];
        key.copy_from_slice(&digest[..16]);
        Self(key)
    }

    /// The halves of the key.
    pub(crate) fn halves(self) -> (u64, u64) {
        let whole = u128::from_le_bytes(self.0);
        (whole as u64, (whole >> 64) as u64)
    }
}

/// A text is no key: 32 hexadecimal digits are expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key has 32 hexadecimal digits")]
pub struct NotAKey;

impl FromStr for Key {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        if text.len() != 32 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(NotAKey);
        }
        let whole = u128::from_str_radix(text, 16).map_err(|_| NotAKey)?;
        Ok(Self(whole.to_be_bytes()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A part of an object: its metadata, or a fragment of its body by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Part(u32);

impl Part {
    /// The object's head: the metadata that the caller stores beside the body.
    pub const HEAD: Part = Part(u32::MAX);

    /// The fragment of the body with this number, from 0.
    pub fn fragment(number: u32) -> Self {
        assert!(number < u32::MAX, "the highest number stands for the head");
        Self(number)
    }

    /// The number of the fragment; none for the head.
    pub fn number(self) -> Option<u32> {
        (self != Self::HEAD).then_some(self.0)
    }

    pub(crate) fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(crate) fn raw(self) -> u32 {
        self.0
    }
}

/// Two independent hashes of a part of an object, from which directory and ghost list take places
/// and tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartHash {
    pub(crate) first: u64,
    pub(crate) second: u64,
}

impl PartHash {
    pub(crate) fn of(key: Key, part: Part) -> Self {
        let (low, high) = key.halves();
        let number = u64::from(part.raw()).wrapping_add(1);
        let first = mixed(low ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        Self { first, second: mixed(high.wrapping_add(number.wrapping_mul(0xD1B5_4A32_D192_ED03))) }
    }
}

/// The finalizer of SplitMix64.
pub(crate) fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// A number below `count` from a hash, by its upper bits.
pub(crate) fn below(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_shown() {
        let key = Key::of(b"GET http://a.example/");
        assert_eq!(key.to_string().parse(), Ok(key));
        for text in ["", "0", "+123456789abcdef0123456789abcdef", "zz23456789abcdef0123456789abcdef"] {
            assert_eq!(text.parse::<Key>(), Err(NotAKey), "{text}");
        }
    }
}
