//! The content of an object's head: its name, and then what the caller stores beside the body. Keys
//! are hashes; names are what is listed, and what prefixes match.
//!
//! ```text
//! length of the name (2 bytes, little-endian) | name (UTF-8) | the caller's bytes
//! ```

/// The longest name that a head can have.
pub const NAME_BYTES_MAX: usize = u16::MAX as usize;

/// The content of a head, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head<'a> {
    /// The object's name: host and path, such as `mirror.example/debian/pool/x.deb`.
    pub name: &'a str,
    /// The caller's bytes.
    pub rest: &'a [u8],
}

impl<'a> Head<'a> {
    /// The bytes of the head; `None` if the name is too long.
    pub fn encode(self) -> Option<Vec<u8>> {
        let mut bytes = Self::begin(self.name, self.rest.len())?;
        bytes.extend(self.rest);
        Some(bytes)
    }

    /// The bytes of a head up to those of the caller, for which there is `room`; `None` if the name
    /// is too long.
    pub fn begin(name: &str, room: usize) -> Option<Vec<u8>> {
        let length = u16::try_from(name.len()).ok()?;
        let mut bytes = Vec::with_capacity(size_of_val(&length) + name.len() + room);
        bytes.extend(length.to_le_bytes());
        bytes.extend(name.as_bytes());
        Some(bytes)
    }

    /// The head in these bytes; `None` if they are no head.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (length, bytes) = bytes.split_first_chunk()?;
        let (name, rest) = bytes.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        Some(Self { name: std::str::from_utf8(name).ok()?, rest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_as_they_were_written() {
        for (name, rest) in [("", &b""[..]), ("a.example/x", b"fields"), ("a.example/\u{e4}", b"")] {
            let head = Head { name, rest };
            let bytes = head.encode().expect("the name is short");
            assert_eq!(Head::decode(&bytes), Some(head));
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(Head { name: &long, rest: b"" }.encode(), None);
        assert!(Head { name: &long[1..], rest: b"" }.encode().is_some());
    }

    #[test]
    fn bytes_that_are_no_head_are_told_apart() {
        for bytes in [&b""[..], b"x", b"\x05\x00abcd", b"\x02\x00\xff\xfe"] {
            assert_eq!(Head::decode(bytes), None, "{bytes:?}");
        }
    }
}
