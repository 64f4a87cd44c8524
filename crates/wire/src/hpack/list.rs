//! The fields of a decoded header block.

use super::table::ENTRY_CHARGE;

/// Fields of one header block, in order. It is cleared for the next block and keeps its memory.
///
/// What exceeds the bounds is counted and not kept, so that a block of a few bytes that refers to
/// a long entry again and again takes no more memory than the bounds say. The crumbs of a cookie
/// are joined as they come: they are one field to everybody but HTTP/2 (RFC 9113, 8.2.3).
#[derive(Clone, Debug, Default)]
pub struct FieldList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    bounds: ListBounds,
    charge: usize,
    /// Fields of the block, also those that were not kept.
    count: usize,
    /// The place of the cookie among the fields.
    cookie: Option<u32>,
    /// Its crumbs, if there are several.
    crumbs: Vec<u8>,
}

/// How much of a header block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListBounds {
    /// Bytes of the head as HTTP/1 would have it: names and values, and 4 for each field. The name
    /// of a pseudo-field does not count.
    pub charge_max: usize,
    /// Fields. The crumbs of a cookie are one.
    pub fields_max: usize,
}

/// Bytes of a field line of HTTP/1 beside name and value: a colon, a space and CRLF.
const LINE_CHARGE: usize = 4;

/// Between two crumbs of a cookie.
const CRUMB_SEPARATOR: &[u8] = b"; ";

/// The length of a value that is joined of crumbs.
const JOINED: u32 = u32::MAX;

impl Default for ListBounds {
    fn default() -> Self {
        Self { charge_max: 16 << 10, fields_max: crate::FIELDS_MAX }
    }
}

impl ListBounds {
    /// SETTINGS_MAX_HEADER_LIST_SIZE for these bounds. It charges 32 bytes for each field (RFC
    /// 9113, 6.5.2), and a client must not hold back a head that HTTP/1 could have.
    #[must_use]
    pub fn list_size_max(self) -> u32 {
        let charges = self.fields_max.saturating_mul(ENTRY_CHARGE - LINE_CHARGE);
        u32::try_from(self.charge_max.saturating_add(charges)).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    name_len: u32,
    value_len: u32,
}

impl FieldList {
    /// An empty list with these bounds.
    #[must_use]
    pub fn new(bounds: ListBounds) -> Self {
        Self { bounds, ..Self::default() }
    }

    /// Forgets all fields.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
        (self.charge, self.count, self.cookie) = (0, 0, None);
    }

    /// Sets the bounds of the blocks that come.
    pub(crate) fn set_bounds(&mut self, bounds: ListBounds) {
        self.bounds = bounds;
    }

    /// Makes it the list of a block that was too large to be kept.
    pub(crate) fn overflow(&mut self) {
        self.clear();
        self.count = usize::MAX;
    }

    /// Fields that were kept, as name and value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|span| {
            let (name, rest) = self.bytes[span.start as usize..].split_at(span.name_len as usize);
            (name, if span.value_len == JOINED { &self.crumbs } else { &rest[..span.value_len as usize] })
        })
    }

    /// Whether the block had more than the bounds.
    #[inline]
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.charge > self.bounds.charge_max || self.count > self.bounds.fields_max
    }

    /// Bytes of names and values that were kept.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len() + if self.cookie.is_some() { self.crumbs.len() } else { 0 }
    }

    /// Keeps a field.
    #[inline]
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        if name == b"cookie" {
            return self.push_crumb(name, value);
        }
        self.push_field(name, value);
    }

    #[inline(always)]
    fn push_field(&mut self, name: &[u8], value: &[u8]) {
        self.count += 1;
        let name_charge = if let [b':', ..] = name { 0 } else { name.len() };
        self.charge = self.charge.saturating_add(name_charge + value.len() + LINE_CHARGE);
        if self.is_too_large() {
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.spans.push(Span { start, name_len: name.len() as u32, value_len: value.len() as u32 });
    }

    /// Keeps a cookie, or one more crumb of it.
    #[inline(never)]
    fn push_crumb(&mut self, name: &[u8], value: &[u8]) {
        let Some(place) = self.cookie else {
            self.crumbs.clear();
            self.push_field(name, value);
            self.cookie = self.spans.len().checked_sub(1).filter(|_| !self.is_too_large()).map(|place| place as u32);
            return;
        };
        self.charge = self.charge.saturating_add(CRUMB_SEPARATOR.len() + value.len());
        if self.is_too_large() {
            return;
        }
        let span = &mut self.spans[place as usize];
        if span.value_len != JOINED {
            let first = (span.start + span.name_len) as usize;
            self.crumbs.extend_from_slice(&self.bytes[first..first + span.value_len as usize]);
            span.value_len = JOINED;
        }
        self.crumbs.extend_from_slice(CRUMB_SEPARATOR);
        self.crumbs.extend_from_slice(value);
    }
}
