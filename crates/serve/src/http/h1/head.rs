//! Writing response heads.
//!
//! All names and values come from this crate, or were checked before (a target's escaped path, a query that the request
//! reader let pass), so nothing is checked again here.

use std::ops::Range;

use thalweg_wire::date::IMF_FIXDATE_BYTES;
use thalweg_wire::encode::push_decimal;
use thalweg_wire::status;

use crate::date_cache::DateCache;

/// What becomes of the connection after a response, and how the head says so (RFC 9112, 9.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Persistence {
    /// It stays open, as HTTP/1.1 has it without a word.
    Default,
    /// It stays open, as an HTTP/1.0 client has asked for.
    KeepAlive,
    /// This response is the last.
    Close,
}

/// Where the date stands in a 200's head, whose Date comes first for this reason.
pub(crate) const DATE: Range<usize> = {
    let start = b"HTTP/1.1 200 OK\r\nDate: ".len();
    start..start + IMF_FIXDATE_BYTES
};

/// All of the response to a connection that there is no room for. A 503 may be without Date (RFC 9110, 6.6.1), so that it can
/// be the same for all.
pub(crate) const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nServer: thalweg\r\nRetry-After: 5\r\n\
    Content-Type: text/html; charset=utf-8\r\nContent-Length: 97\r\nConnection: close\r\n\r\n\
    <!doctype html>\n<title>503 Service Unavailable</title>\n<h1>Too many connections. Try again.</h1>\n";

/// Bytes of its body.
pub(crate) const NO_ROOM_BODY_BYTES: u64 = 97;

/// Writes the status line and the fields of all responses. The version is ours, whatever the client's (RFC 9110, 6.2).
pub(crate) fn begin(out: &mut Vec<u8>, status: u16, date_cache: &DateCache) {
    out.extend_from_slice(b"HTTP/1.1 ");
    push_decimal(out, u64::from(status));
    out.push(b' ');
    out.extend_from_slice(status::reason(status).as_bytes());
    out.extend_from_slice(b"\r\n");
    field(out, "Date", date_cache.text());
    field(out, "Server", b"thalweg");
}

/// Writes a field line.
pub(crate) fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    field_with(out, name, |out| out.extend_from_slice(value));
}

/// Writes a field line whose value is written in place.
pub(crate) fn field_with(out: &mut Vec<u8>, name: &str, value: impl FnOnce(&mut Vec<u8>)) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    value(out);
    out.extend_from_slice(b"\r\n");
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

    #[test]
    fn what_is_said_when_there_is_no_room_is_complete() {
        let text = std::str::from_utf8(NO_ROOM).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{}", body.len());
        assert_eq!(body.len() as u64, NO_ROOM_BODY_BYTES);
    }

    #[test]
    fn the_date_of_a_200_stands_where_it_is_patched() {
        let date_cache = DateCache::new(|_| 784_111_777, Instant::default());
        let mut out = Vec::new();
        begin(&mut out, 200, &date_cache);
        end(&mut out, Persistence::Default);
        assert_eq!(&out[DATE], b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert!(out.ends_with(b"Server: thalweg\r\n\r\n"));
    }
}
