//! Field lines ("headers") of a parsed head: storage, look-up and the list syntax of RFC 9110,
//! 5.6.1.
//!
//! Values are bytes, trimmed of surrounding whitespace and otherwise as sent. Nothing here knows
//! what a field means.

use std::mem::MaybeUninit;

/// Most field lines a head can have, whatever the [`Bounds`](crate::Bounds) say.
pub const FIELDS_MAX: usize = 100;

/// Room for the field lines of one head, made anew (at no cost: it is not initialised) for each
/// call of a reader.
///
/// It belongs to the caller because its contents point into the caller's input: neither the reader,
/// which outlives the input, nor the event, which would have to be moved with all of it, can own
/// it.
pub struct FieldSlots<'a> {
    /// For a head where it lies.
    pub(crate) usual: Slots<'a>,
    /// For a head that was collected, because it came in parts or has folded lines.
    pub(crate) collected: Slots<'a>,
}

impl FieldSlots<'_> {
    /// Empty room.
    #[inline]
    #[must_use]
    pub const fn new() -> Self {
        Self { usual: Slots::new(), collected: Slots::new() }
    }
}

/// Room for the field lines of one look at a head.
pub(crate) struct Slots<'a>([MaybeUninit<httparse::Header<'a>>; FIELDS_MAX]);

impl<'a> Slots<'a> {
    const fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; FIELDS_MAX])
    }

    /// The first `count` slots, or all when there are fewer.
    #[inline]
    pub(crate) fn first(&mut self, count: u32) -> &mut [MaybeUninit<httparse::Header<'a>>] {
        &mut self.0[..FIELDS_MAX.min(count as usize)]
    }
}

impl Default for FieldSlots<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// The field lines of a head, in the order in which they came.
#[derive(Clone, Copy)]
pub struct Fields<'a>(pub(crate) &'a [httparse::Header<'a>]);

impl<'a> Fields<'a> {
    /// The value of the first field line of that name, in whatever case.
    #[inline]
    #[must_use]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        self.all(name).next()
    }

    /// The values of all field lines of that name.
    #[inline]
    pub fn all(self, name: &str) -> impl Iterator<Item = &'a [u8]> {
        self.0.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
    }

    /// All field lines as name and value.
    #[inline]
    pub fn iter(self) -> impl ExactSizeIterator<Item = (&'a str, &'a [u8])> {
        self.0.iter().map(|field| (field.name, field.value))
    }

    /// How many field lines there are.
    #[inline]
    #[must_use]
    pub const fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is no field line.
    #[inline]
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Fields<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_map()
            .entries(self.iter().map(|(name, value)| (name, value.escape_ascii().to_string())))
            .finish()
    }
}

/// The elements of a comma-separated list without quoted strings, trimmed; empty elements are
/// skipped, as RFC 9110, 5.6.1.2 requires of a recipient.
pub(crate) fn list_elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(trim_ows).filter(|element| !element.is_empty())
}

/// The bytes without leading and trailing optional whitespace (SP and HTAB only; RFC 9110, 5.6.3).
/// The standard library's `trim_ascii` would also remove CR, LF and form feed.
pub fn trim_ows(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether a byte may stand in a token (`tchar`, RFC 9110, 5.6.2).
pub const fn is_token_byte(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*'
        | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~')
}

/// Whether a byte may stand in a field value or a reason phrase: HTAB, SP, visible ASCII and the
/// obsolete bytes from 0x80 on (RFC 9110, 5.5).
pub(crate) const fn is_text_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..=0xff)
}
