//! Digests of representations: reading Want-Repr-Digest, and writing Repr-Digest (RFC 9530).
//!
//! Nothing is hashed here. Of structured fields (RFC 9651) it has what these two need: a dictionary
//! of small integers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::fields::Fields;

/// An algorithm that RFC 9530, 5 calls active.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// `sha-256`
    Sha256,
    /// `sha-512`
    Sha512,
}

impl Algorithm {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// The key in a dictionary.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Sha256 => "sha-256",
            Self::Sha512 => "sha-512",
        }
    }

    /// How long a digest is.
    #[must_use]
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

/// Most members of a dictionary that are looked at.
const MEMBERS_MAX: usize = 32;

/// How much a client wants each algorithm, from 0 (not at all) to 10, as the Want-Repr-Digest
/// fields of a request say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WantReprDigest {
    /// At the index of [`Algorithm::ALL`].
    preferences: [u8; Algorithm::ALL.len()],
}

impl WantReprDigest {
    /// Reads all fields of that name as one dictionary. A dictionary that is malformed is ignored
    /// as a whole (RFC 9651, 4.2); a member that is no integer from 0 to 10 is ignored alone, and
    /// of several with one key the last counts.
    #[must_use]
    pub fn of(fields: Fields<'_>) -> Self {
        let mut wanted = Self::default();
        let mut members = 0;
        for value in fields.all("want-repr-digest") {
            let mut rest = Cursor(value);
            while !rest.0.is_empty() {
                members += 1;
                match rest.member() {
                    Some((key, preference)) if members <= MEMBERS_MAX => wanted.set(key, preference),
                    _ => return Self::default(),
                }
            }
        }
        wanted
    }

    /// The most wanted of the algorithms that `has` lets pass; of equals the first of
    /// [`Algorithm::ALL`].
    #[must_use]
    pub fn choose(&self, has: impl Fn(Algorithm) -> bool) -> Option<Algorithm> {
        let wanted = Algorithm::ALL.into_iter().filter(|&algorithm| self.preferences[algorithm as usize] > 0);
        // Of equal keys, `max_by_key` takes the last.
        wanted.rev().filter(|&algorithm| has(algorithm)).max_by_key(|&algorithm| self.preferences[algorithm as usize])
    }

    fn set(&mut self, key: &[u8], preference: Option<u8>) {
        if let Some(algorithm) = Algorithm::ALL.into_iter().find(|algorithm| key == algorithm.key().as_bytes()) {
            self.preferences[algorithm as usize] = preference.unwrap_or(0);
        }
    }
}

/// The rest of a dictionary that is being read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    /// Reads a member and the comma behind it: its key, and its value if that is an integer from 0
    /// to 10.
    fn member(&mut self) -> Option<(&'a [u8], Option<u8>)> {
        let key = self.key()?;
        let value = if self.skip(b'=') { self.item()? } else { None };
        self.parameters()?;
        self.skip_spaces();
        if !self.0.is_empty() {
            if !self.skip(b',') {
                return None;
            }
            self.skip_spaces();
            // RFC 9651, 4.2.2: a comma at the end is a fault.
            if self.0.is_empty() {
                return None;
            }
        }
        Some((key, value))
    }

    fn parameters(&mut self) -> Option<()> {
        while self.skip(b';') {
            while self.skip(b' ') {}
            self.key()?;
            if self.skip(b'=') {
                self.item()?;
            }
        }
        Some(())
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let is_first = |byte: u8| byte.is_ascii_lowercase() || byte == b'*';
        let is_key = |byte: u8| is_first(byte) || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.');
        self.0.first().copied().filter(|&byte| is_first(byte))?;
        Some(self.take_while(is_key))
    }

    /// A bare item: an integer, or what is left of other kinds when only their extent matters.
    fn item(&mut self) -> Option<Option<u8>> {
        let is_other = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b',' | b';' | b'"' | b'(' | b')');
        match self.take_while(is_other) {
            [] => None,
            text => Some(std::str::from_utf8(text).ok().and_then(small_integer)),
        }
    }

    fn take_while(&mut self, is_in: impl Fn(u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|&byte| !is_in(byte)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken
    }

    fn skip(&mut self, byte: u8) -> bool {
        let found = self.0.first() == Some(&byte);
        self.0 = &self.0[usize::from(found)..];
        found
    }

    fn skip_spaces(&mut self) {
        self.take_while(|byte| matches!(byte, b' ' | b'\t'));
    }
}

fn small_integer(text: &str) -> Option<u8> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_plain && number <= 10)
}

/// Writes the value of Repr-Digest with one digest, such as `sha-256=:47DEQpj8…=:`.
pub fn push_repr_digest(out: &mut Vec<u8>, algorithm: Algorithm, digest: &[u8]) {
    out.extend_from_slice(algorithm.key().as_bytes());
    out.extend_from_slice(b"=:");
    out.extend_from_slice(STANDARD.encode(digest).as_bytes());
    out.push(b':');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bounds, FieldSlots, RequestEvent, RequestReader};

    /// Reads field values and shows how much sha-256 and sha-512 are wanted, and which is chosen.
    fn check(values: &[&str], expected: [u8; 2], chosen: Option<Algorithm>) {
        let lines: String = values.iter().map(|value| format!("Want-Repr-Digest: {value}\r\n")).collect();
        let head = format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n");
        let (mut reader, mut slots) = (RequestReader::new(Bounds::requests()), FieldSlots::new());
        let Some(RequestEvent::Head(head)) = reader.read(head.as_bytes(), &mut slots).unwrap().event else {
            panic!("{values:?} is no head");
        };
        let wanted = WantReprDigest::of(head.fields);
        assert_eq!(wanted.preferences, expected, "{values:?}");
        assert_eq!(wanted.choose(|_| true), chosen, "{values:?}");
    }

    #[test]
    fn wanted_digests() {
        use Algorithm::{Sha256, Sha512};
        check(&[], [0, 0], None);
        check(&["sha-256=1"], [1, 0], Some(Sha256));
        check(&["sha-512=3, sha-256=10, unixsum=0"], [10, 3], Some(Sha256));
        check(&["sha-512=3,\tsha-256=2"], [2, 3], Some(Sha512));
        check(&["sha-256=5, sha-512=5"], [5, 5], Some(Sha256));
        check(&["sha-256=0"], [0, 0], None);
        check(&["sha-256=1", "sha-512=2"], [1, 2], Some(Sha512));
        check(&["sha-256=1, sha-256=4"], [4, 0], Some(Sha256));
        check(&["sha-256=1;a;b=c;  d=2 , sha-512=2"], [1, 2], Some(Sha512));
    }

    #[test]
    fn members_that_mean_nothing_are_ignored_alone() {
        for member in
            ["sha-256", "sha-256=11", "sha-256=-1", "sha-256=1.0", "sha-256=?1", "sha-256=:aa==:", "sha-256=x"]
        {
            check(&[&format!("{member}, sha-512=2")], [0, 2], Some(Algorithm::Sha512));
        }
    }

    #[test]
    fn a_malformed_dictionary_is_ignored_as_a_whole() {
        for value in
            ["sha-256=1,", "sha-256=1 sha-512=2", "SHA-256=1", "sha-256=", "sha-256=1,,sha-512=1", ",", "sha-256=(1)"]
        {
            check(&[value], [0, 0], None);
            check(&[value, "sha-512=1"], [0, 0], None);
        }
        let many: Vec<String> = (0..MEMBERS_MAX).map(|index| format!("a{index}=1")).collect();
        check(&[&many[1..].join(", "), "sha-256=1"], [1, 0], Some(Algorithm::Sha256));
        check(&[&many.join(", "), "sha-256=1"], [0, 0], None);
    }

    #[test]
    fn only_what_there_is_can_be_chosen() {
        let wanted = WantReprDigest { preferences: [1, 9] };
        assert_eq!(wanted.choose(|algorithm| algorithm == Algorithm::Sha256), Some(Algorithm::Sha256));
        assert_eq!(wanted.choose(|_| false), None);
    }

    #[test]
    fn digests_as_they_are_sent() {
        let mut out = Vec::new();
        push_repr_digest(&mut out, Algorithm::Sha256, &[0xff, 0xef, 0xbe, 0]);
        assert_eq!(String::from_utf8_lossy(&out), "sha-256=:/+++AA==:");
    }
}
