//! The head of an object in the store: its name, and all stored responses to it, one for each
//! variant.
//!
//! All numbers are little-endian. A head that cannot be read is none: the
//! store's checksums tell damage, so that it is of another version of this program.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_cache::Key;
use thalweg_caching::{FieldLines, Policy, StoredFields, StoredResponse, Times, cache_groups};

use crate::excerpt::Excerpt;
use crate::mount::{Mount, group_of};

/// The format that is written.
const FORMAT: u8 = 1;

/// Most variants of one object. With more, the one that was stored first makes room.
pub(crate) const VARIANTS_MAX: usize = 16;

/// Bytes of all that a stored response has beside its body, usually.
const FIELDS_BYTES_USUAL: usize = 512;

/// Cache groups of one object, beside its mount's: as many as the store has room for.
pub(crate) const GROUPS_MAX: usize = thalweg_cache::GROUPS_MAX - 1;

/// A name that can be stored.
pub(crate) const NAME_BYTES_MAX: usize = 8 << 10;

/// All stored responses to one name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Head {
    pub(crate) variants: Vec<Arc<Variant>>,
}

/// A stored response.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    pub(crate) response: StoredResponse,
    pub(crate) body: Body,
    /// It counts as stale, whatever its fields say.
    pub(crate) is_invalidated: bool,
}

/// The place of the bytes of a stored response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// In the head.
    Inline(Bytes),
    /// In fragments of their own key, not all of which need be there.
    Fragments {
        /// The key, which no other response has.
        key: Key,
        /// Bytes of the whole.
        length: u64,
    },
    /// In the head, and only a range of them.
    Excerpt(Arc<Excerpt>),
}

impl Body {
    /// Bytes of the whole.
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Fragments { length, .. } => *length,
            Self::Excerpt(excerpt) => excerpt.length,
        }
    }

    /// Bytes of it that are stored in the head.
    fn bytes_in_head(&self) -> usize {
        match self {
            Self::Inline(bytes) => bytes.len(),
            Self::Fragments { .. } => 0,
            Self::Excerpt(excerpt) => excerpt.bytes.len(),
        }
    }
}

impl Variant {
    pub(crate) fn new(response: StoredResponse, body: Body) -> Self {
        Self { response, body, is_invalidated: false }
    }

    /// Whether the other one has the same content, as far as validators tell, or all of it.
    pub(crate) fn has_same_content(&self, other: &Self) -> bool {
        let same = |name: &str| self.response.fields.first(name) == other.response.fields.first(name);
        let has = |name: &str| self.response.fields.has(name);
        let is_told = has("etag") || has("last-modified");
        let is_validated = is_told && same("etag") && same("last-modified");
        let is_whole = matches!(self.body, Body::Inline(_)) && self.body == other.body;
        is_whole || (is_validated && self.body.length() == other.body.length())
    }

    /// The same, stale from now on.
    pub(crate) fn invalidated(&self) -> Self {
        let mut variant = self.clone();
        variant.is_invalidated = true;
        variant.response.freshness.lifetime_seconds = 0;
        variant
    }
}

impl Head {
    /// Adds a response in the place of one that answers the same requests.
    pub(crate) fn put(&mut self, variant: impl Into<Arc<Variant>>) {
        let variant = variant.into();
        self.variants.retain(|other| {
            let (old, new) = (&other.response, &variant.response);
            old.vary != new.vary || old.key != new.key
        });
        if self.variants.len() >= VARIANTS_MAX {
            self.variants.remove(0);
        }
        self.variants.push(variant);
    }

    /// The fragments of a stored response of the same version, to which those of a new one belong.
    pub(crate) fn same_version(&self, variant: &Variant) -> Option<&Body> {
        let (new, length) = (&variant.response, variant.body.length());
        let version = new.version(length)?;
        let known = self.variants.iter().find(|other| {
            let old = &other.response;
            let is_same = old.vary == new.vary && old.key == new.key && other.body.length() == length;
            is_same && old.version(length).as_ref() == Some(&version)
        })?;
        matches!(known.body, Body::Fragments { .. }).then_some(&known.body)
    }

    /// Makes responses stale that came, or were validated, before a second.
    pub(crate) fn invalidate_before(&mut self, second: i64) {
        for variant in self.variants.iter_mut().filter(|variant| variant.response.times.response < second) {
            *variant = Arc::new(variant.invalidated());
        }
    }

    /// Whether something is stored, and not all of it is fresh.
    pub(crate) fn is_stale(&self, now: i64) -> bool {
        self.variants.iter().any(|variant| !variant.response.freshness.is_fresh(now))
    }

    /// The groups of all responses; `None` if they are too many.
    pub(crate) fn groups(&self, mount: &Mount) -> Option<[u32; GROUPS_MAX + 1]> {
        let mut groups = vec![mount.group()];
        for name in self.variants.iter().flat_map(|variant| cache_groups(&variant.response.fields)) {
            let group = group_of(&mount.name, &name);
            if !groups.contains(&group) {
                groups.push(group);
            }
        }
        groups.resize(groups.len().max(GROUPS_MAX + 1), 0);
        groups.try_into().ok()
    }

    /// Its bytes for the store; `None` if the name is too long.
    pub(crate) fn encode(&self, name: &str) -> Option<Vec<u8>> {
        let bodies: usize = self.variants.iter().map(|variant| FIELDS_BYTES_USUAL + variant.body.bytes_in_head()).sum();
        let mut out = Writer(thalweg_cache::Head::begin(name, bodies)?);
        out.0.push(FORMAT);
        out.0.push(self.variants.len() as u8);
        for variant in &self.variants {
            let response = &variant.response;
            out.0.push(u8::from(variant.is_invalidated));
            out.0.extend(response.status.to_le_bytes());
            out.0.extend(response.times.request.to_le_bytes());
            out.0.extend(response.times.response.to_le_bytes());
            out.optional(response.key.as_deref());
            let age = response.age_field.iter().map(|age| ("Age", &**age));
            let lines: Vec<(&str, &[u8])> = response.fields.lines().chain(age).collect();
            out.0.extend((lines.len() as u16).to_le_bytes());
            for (name, value) in lines {
                out.short(name.as_bytes());
                out.long(value);
            }
            match &variant.body {
                Body::Inline(bytes) => {
                    out.0.push(0);
                    out.long(bytes);
                }
                Body::Fragments { key, length } => {
                    out.0.push(1);
                    out.0.extend(key.0);
                    out.0.extend(length.to_le_bytes());
                }
                Body::Excerpt(excerpt) => {
                    out.0.push(2);
                    out.0.extend(excerpt.first.to_le_bytes());
                    out.0.extend(excerpt.length.to_le_bytes());
                    out.long(&excerpt.bytes);
                }
            }
        }
        Some(out.0)
    }

    /// Reads the head of this name; `None` if it is another one's, or of another format.
    pub(crate) fn decode(bytes: &[u8], name: &str, policy: &Policy) -> Option<Self> {
        let head = thalweg_cache::Head::decode(bytes).filter(|head| head.name == name)?;
        let mut input = Input(head.rest);
        if input.array::<1>()? != [FORMAT] {
            return None;
        }
        let [count] = input.array()?;
        let variants = (0..count).map(|_| variant(&mut input, policy).map(Arc::new));
        Some(Self { variants: variants.collect::<Option<_>>()? })
    }
}

/// The bodies that the bytes of a head behind its name tell of: the key of the fragments, if the
/// body is in such, and the length of the whole.
pub(crate) fn bodies(rest: &[u8]) -> Option<Vec<(Option<Key>, u64)>> {
    let mut input = Input(rest);
    if input.array::<1>()? != [FORMAT] {
        return None;
    }
    let [count] = input.array()?;
    let bodies = (0..count).map(|_| {
        // Its state and two times.
        input.take(1 + 2 + 8 + 8)?;
        input.optional()?;
        for _ in 0..u16::from_le_bytes(input.array()?) {
            input.short()?;
            input.long()?;
        }
        match input.array()? {
            [0] => Some((None, input.long()?.len() as u64)),
            [1] => Some((Some(Key(input.array()?)), u64::from_le_bytes(input.array()?))),
            [2] => {
                let [_first, length] = [u64::from_le_bytes(input.array()?), u64::from_le_bytes(input.array()?)];
                input.long()?;
                Some((None, length))
            }
            _ => None,
        }
    });
    bodies.collect()
}

fn variant(input: &mut Input<'_>, policy: &Policy) -> Option<Variant> {
    let [is_invalidated] = input.array()?;
    let status = u16::from_le_bytes(input.array()?);
    let times = Times { request: i64::from_le_bytes(input.array()?), response: i64::from_le_bytes(input.array()?) };
    let key = input.optional()?.map(Into::into);
    let mut fields = StoredFields::default();
    for _ in 0..u16::from_le_bytes(input.array()?) {
        let name = std::str::from_utf8(input.short()?).ok()?;
        fields.push(name, input.long()?);
    }
    let body = match input.array()? {
        [0] => Body::Inline(Bytes::copy_from_slice(input.long()?)),
        [1] => Body::Fragments { key: Key(input.array()?), length: u64::from_le_bytes(input.array()?) },
        [2] => {
            let [first, length] = [u64::from_le_bytes(input.array()?), u64::from_le_bytes(input.array()?)];
            Body::Excerpt(Arc::new(Excerpt { first, length, bytes: Bytes::copy_from_slice(input.long()?) }))
        }
        _ => return None,
    };
    let variant = Variant::new(StoredResponse::from_parts(policy, key, status, &fields, times), body);
    Some(if is_invalidated == 1 { variant.invalidated() } else { variant })
}

struct Writer(Vec<u8>);

impl Writer {
    fn short(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u16).to_le_bytes());
        self.0.extend(bytes);
    }

    fn long(&mut self, bytes: &[u8]) {
        self.0.extend((bytes.len() as u32).to_le_bytes());
        self.0.extend(bytes);
    }

    fn optional(&mut self, bytes: Option<&[u8]>) {
        self.0.push(u8::from(bytes.is_some()));
        self.long(bytes.unwrap_or_default());
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn short(&mut self) -> Option<&'a [u8]> {
        let length = u16::from_le_bytes(self.array()?);
        self.take(length.into())
    }

    fn long(&mut self) -> Option<&'a [u8]> {
        let length = u32::from_le_bytes(self.array()?);
        self.take(length as usize)
    }

    fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        let [is_there] = self.array()?;
        let bytes = self.long()?;
        Some((is_there == 1).then_some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(lines: &[(&str, &str)]) -> StoredFields {
        let mut fields = StoredFields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        fields
    }

    fn head() -> Head {
        let policy = Policy::default();
        let times = Times { request: 1000, response: 1001 };
        let lines = fields(&[("ETag", "\"a\""), ("Vary", "Foo"), ("Cache-Control", "max-age=60"), ("Age", "7")]);
        let response = |foo: &str| StoredResponse::new(&policy, &fields(&[("Foo", foo)]), 200, &lines, times);
        let mut head = Head::default();
        head.put(Variant::new(response("1"), Body::Inline(Bytes::from_static(b"one"))));
        let excerpt = Excerpt { first: 2, bytes: Bytes::from_static(b"xy"), length: 9 };
        head.put(Variant::new(response("3"), Body::Excerpt(Arc::new(excerpt))));
        head.put(Variant::new(response("2"), Body::Fragments { key: Key::of(b"x"), length: 1 << 40 }).invalidated());
        head
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let head = head();
        let bytes = head.encode("/a").expect("a short name");
        let read = Head::decode(&bytes, "/a", &Policy::default()).expect("a head");
        assert_eq!(read.variants.len(), 3);
        for (read, written) in read.variants.iter().zip(&head.variants) {
            assert_eq!((&read.response, &read.body), (&written.response, &written.body));
        }
        assert!(!read.variants[2].response.freshness.is_fresh(1001));
        assert!(Head::decode(&bytes, "/b", &Policy::default()).is_none());
        for length in 0..bytes.len() {
            assert!(Head::decode(&bytes[..length], "/a", &Policy::default()).is_none(), "{length}");
        }
    }

    #[test]
    fn a_response_takes_the_place_of_its_variant() {
        let mut head = head();
        let again = Variant::clone(&head.variants[0]);
        head.put(again);
        assert_eq!(head.variants.len(), 3);
        for number in 0..2 * VARIANTS_MAX {
            let mut variant = Variant::clone(&head.variants[0]);
            variant.response.key = Some(format!("foo:{number}").into_bytes().into());
            head.put(variant);
        }
        assert_eq!(head.variants.len(), VARIANTS_MAX);
    }
}
