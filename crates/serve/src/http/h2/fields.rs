//! Header blocks of responses.
//!
//! Blocks refer to the static table alone, so that they are the same on every connection: that of
//! the most common response is rendered once and kept with its object. Only its `Date` changes, in
//! place; that of a forwarded object is rendered anew once a second.

use arrayvec::ArrayVec;
use memchr::memmem;
use thalweg_wire::encode::{FieldBlock, push_decimal};
use thalweg_wire::hpack::{encode_replaceable, encode_stateless};

use crate::content::object::{Object, RenderedFields};
use crate::date_cache::DateCache;
use crate::http::response::{FieldSink, Response};

/// Longer names are encoded on the heap.
const NAME_BYTES_USUAL_MAX: usize = 64;

/// The place of the date in a rendered block: behind `:status` and the head of its own field.
const DATE_AT: usize = 4;

/// Writes fields as a header block.
struct BlockFields<'b> {
    block: &'b mut Vec<u8>,
    value: &'b mut Vec<u8>,
}

impl BlockFields<'_> {
    fn push(&mut self, name: &str, value: &[u8]) {
        let mut lower: ArrayVec<u8, NAME_BYTES_USUAL_MAX> = ArrayVec::new();
        if lower.try_extend_from_slice(name.as_bytes()).is_err() {
            return encode_stateless(name.to_ascii_lowercase().as_bytes(), value, self.block);
        }
        lower.make_ascii_lowercase();
        encode_stateless(&lower, value, self.block);
    }
}

impl FieldSink for BlockFields<'_> {
    fn field_with(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = std::mem::take(self.value);
        bytes.clear();
        value(&mut bytes);
        self.push(name, &bytes);
        *self.value = bytes;
    }

    fn field(&mut self, name: &str, value: &[u8]) {
        if name == "Date" {
            encode_replaceable(b"date", value, self.block);
        } else {
            self.push(name, value);
        }
    }

    fn block(&mut self, fields: &FieldBlock) {
        let mut rest = fields.as_bytes();
        while let Some(end) = memmem::find(rest, b"\r\n") {
            let line = &rest[..end];
            if let Some(colon) = memchr::memchr(b':', line) {
                let name = String::from_utf8_lossy(&line[..colon]);
                self.push(&name, line[colon + 1..].trim_ascii());
            }
            rest = &rest[end + 2..];
        }
    }
}

/// Writes the header block of a response into an empty buffer; `value` is used.
pub(super) fn write_block(response: &Response<'_>, date_cache: &DateCache, block: &mut Vec<u8>, value: &mut Vec<u8>) {
    value.clear();
    push_decimal(value, u64::from(response.status()));
    encode_stateless(b":status", value, block);
    response.write_fields(date_cache, &mut BlockFields { block, value });
}

/// The header block of the 200 with a whole object.
pub(super) fn rendered_block<'o>(object: &'o mut Object, date_cache: &DateCache) -> &'o [u8] {
    let second = date_cache.second();
    let is_forwarded = object.as_forwarded().is_some();
    // The age of a forwarded object has another number of digits now and then.
    if object.rendered_fields().as_ref().is_none_or(|rendered| is_forwarded && rendered.second != second) {
        let (mut bytes, mut value) = (Vec::new(), Vec::new());
        write_block(&Response::Whole(object), date_cache, &mut bytes, &mut value);
        bytes.shrink_to_fit();
        *object.rendered_fields() = Some(Box::new(RenderedFields { bytes, second: date_cache.second() }));
    }
    let rendered = object.rendered_fields().as_mut().expect("it was just rendered");
    if rendered.second != date_cache.second() {
        let text = date_cache.text();
        rendered.bytes[DATE_AT..DATE_AT + text.len()].copy_from_slice(text);
        rendered.second = date_cache.second();
    }
    &rendered.bytes
}

#[cfg(test)]
mod tests {
    use thalweg_sys::Instant;
    use thalweg_wire::hpack::{Decoder, FieldList, SIZE_INITIAL};

    use super::*;
    use crate::http::response::{Page, PageField};

    #[test]
    fn the_date_stands_where_it_is_replaced() {
        let date_cache = DateCache::new(|_| 784_111_777, Instant::default());
        let page = Page { status: 200, is_head: false, field: PageField::None, hsts: None, object: None };
        let (mut block, mut value) = (Vec::new(), Vec::new());
        write_block(&Response::Page(page), &date_cache, &mut block, &mut value);
        assert_eq!(&block[DATE_AT..DATE_AT + 29], b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn a_block_has_the_fields_of_the_response() {
        let date_cache = DateCache::new(|_| 784_111_777, Instant::default());
        let page = Page { status: 405, is_head: false, field: PageField::Allow, hsts: None, object: None };
        let (mut block, mut value) = (Vec::new(), Vec::new());
        write_block(&Response::Page(page), &date_cache, &mut block, &mut value);
        let mut fields = FieldList::default();
        Decoder::new(SIZE_INITIAL).decode(&block, &mut fields).unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let fields: Vec<_> = fields.iter().map(|(name, value)| (text(name), text(value))).collect();
        let expected = [
            (":status", "405"),
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("server", "thalweg"),
            ("allow", "GET, HEAD, OPTIONS"),
            ("content-type", "text/html; charset=utf-8"),
        ];
        assert_eq!(fields[..5], expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(fields[5].0, "content-length");
    }
}
