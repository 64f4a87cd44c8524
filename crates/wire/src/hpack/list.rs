//! The fields of a decoded header block.

use super::table::ENTRY_CHARGE;

/// Fields of one header block, in order. It is cleared for the next block and keeps its memory.
///
/// What exceeds the bounds is counted and not kept, so that a block of a few bytes that refers to
/// a long entry again and again takes no more memory than the bounds say.
#[derive(Clone, Debug, Default)]
pub struct FieldList {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    bounds: ListBounds,
    charge: usize,
    /// Fields of the block, also those that were not kept.
    count: usize,
}

/// How much of a header block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListBounds {
    /// Bytes of all names and values, and 32 for each field (RFC 9113, 6.5.2).
    pub charge_max: usize,
    /// Fields. Each crumb of a cookie counts.
    pub fields_max: usize,
}

impl Default for ListBounds {
    fn default() -> Self {
        Self { charge_max: 16 << 10, fields_max: crate::FIELDS_MAX }
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
        (self.charge, self.count) = (0, 0);
    }

    /// Fields that were kept, as name and value.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &[u8])> {
        self.spans.iter().map(|span| {
            let (name, rest) = self.bytes[span.start as usize..].split_at(span.name_len as usize);
            (name, &rest[..span.value_len as usize])
        })
    }

    /// Whether the block had more than the bounds.
    #[must_use]
    pub fn is_too_large(&self) -> bool {
        self.charge > self.bounds.charge_max || self.count > self.bounds.fields_max
    }

    /// Bytes of names and values that were kept.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Keeps a field.
    #[inline]
    pub(super) fn push(&mut self, name: &[u8], value: &[u8]) {
        if !self.charge(name.len(), value.len()) {
            return;
        }
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(name);
        self.bytes.extend_from_slice(value);
        self.spans.push(Span { start, name_len: name.len() as u32, value_len: value.len() as u32 });
    }

    /// Counts a field. Returns whether it is to be kept.
    fn charge(&mut self, name_len: usize, value_len: usize) -> bool {
        self.count += 1;
        self.charge = self.charge.saturating_add(name_len + value_len + ENTRY_CHARGE);
        !self.is_too_large()
    }
}
