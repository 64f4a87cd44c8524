//! Writing response heads.
//!
//! All names and values come from this crate, or were checked before (a target's escaped path, a
//! query that the request reader let pass), so nothing is checked again here.

use std::ops::Range;

use memchr::memmem;
use thalweg_wire::date::IMF_FIXDATE_BYTES;
use thalweg_wire::encode::{FieldBlock, push_decimal};
use thalweg_wire::status;

use crate::http::response::FieldSink;

/// Persistence of the connection after a response, and how the head states it (RFC 9112, 9.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Persistence {
    /// It stays open, which is the default of HTTP/1.1 and needs no field.
    Default,
    /// It stays open, as an HTTP/1.0 client has requested.
    KeepAlive,
    /// This response is the last.
    Close,
}

/// The position of the date in the head of a 200. `Date` is the first field so that the position is
/// fixed.
pub(crate) const DATE: Range<usize> = {
    let start = b"HTTP/1.1 200 OK\r\nDate: ".len();
    start..start + IMF_FIXDATE_BYTES
};

/// All of the response to a connection that there is no room for. A 503 may be without Date (RFC
/// 9110, 6.6.1), so that it can be the same for all.
pub(crate) const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: thalweg\r\nRetry-After: 5\r\n\
    Content-Type: text/html; charset=utf-8\r\nContent-Length: 196\r\nConnection: close\r\n\r\n\
    <!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"light dark\">\n\
    <title>503 Service Unavailable</title>\n<h1>Too many connections. Try again.</h1>\n";

/// Bytes of its body.
pub(crate) const NO_ROOM_BODY_BYTES: u64 = 196;

/// The same with a field more.
pub(crate) fn no_room_with(field: &FieldBlock) -> Vec<u8> {
    let fields_end = memmem::find(NO_ROOM, b"\r\n\r\n").map_or(0, |at| at + 2);
    [&NO_ROOM[..fields_end], field.as_bytes(), &NO_ROOM[fields_end..]].concat()
}

/// Writes the status line. The version is ours, whatever the client's (RFC 9110, 6.2).
pub(crate) fn begin(out: &mut Vec<u8>, status: u16) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(status::reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Writes fields as lines.
pub(crate) struct HeadLines<'b>(pub(crate) &'b mut Vec<u8>);

impl FieldSink for HeadLines<'_> {
    fn field_with(&mut self, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
        self.0.extend_from_slice(name.as_bytes());
        self.0.extend_from_slice(b": ");
        value(self.0);
        self.0.extend_from_slice(b"\r\n");
    }

    fn block(&mut self, fields: &FieldBlock) {
        self.0.extend_from_slice(fields.as_bytes());
    }
}

/// Writes what becomes of the connection, and the empty line.
pub(crate) fn end(out: &mut Vec<u8>, persistence: Persistence) {
    out.extend_from_slice(match persistence {
        Persistence::Default => b"\r\n",
        Persistence::KeepAlive => b"Connection: keep-alive\r\n\r\n",
        Persistence::Close => b"Connection: close\r\n\r\n",
    });
}

#[cfg(test)]
mod tests {
    use thalweg_sys::Instant;

    use super::*;
    use crate::date_cache::DateCache;
    use crate::http::response::{Page, PageField, Response};

    #[test]
    fn the_refusal_of_a_connection_is_complete() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{}", body.len());
        assert_eq!(body.len() as u64, NO_ROOM_BODY_BYTES);
        let mut field = FieldBlock::new();
        field.field("X-More", b"1").unwrap();
        let more = String::from_utf8(no_room_with(&field)).unwrap();
        assert_eq!(more, text.replace("close\r\n\r\n", "close\r\nX-More: 1\r\n\r\n"));
    }

    #[test]
    fn the_date_of_a_200_stands_where_it_is_patched() {
        let date_cache = DateCache::new(|_| 784_111_777, Instant::default());
        let mut out = Vec::new();
        begin(&mut out, 200);
        let page = Page { status: 200, is_head: false, field: PageField::None, hsts: None, object: None };
        Response::Page(page).write_fields(&date_cache, &mut HeadLines(&mut out));
        assert_eq!(&out[DATE], b"Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
