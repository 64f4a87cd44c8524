//! Responses as a client reads them, as transcripts: the bytes of a connection on the left, the
//! events on the right. `end 1+2+3` counts the bytes of heads, body and framing.

use crate::transcript;
use thalweg_wire::RequestKind::{Connect, Head, Other, Upgrade};
use thalweg_wire::{Bounds, FieldSlots, RequestKind, ResponseError, ResponseReader};

/// Reads the input whole, byte by byte, and cut once at each place.
fn check(kinds: &[RequestKind], input: &str, expected: &str) {
    check_within(Bounds::responses(), kinds, input, expected);
}

fn check_within(bounds: Bounds, kinds: &[RequestKind], input: &str, expected: &str) {
    let read = |lengths: &[usize]| transcript::responses(input.as_bytes(), lengths, bounds, kinds).text();
    assert_eq!(read(&[]), expected, "{input:?}");
    assert_eq!(read(&[1]), expected, "{input:?} byte by byte");
    for cut in 1..input.len().min(300) {
        assert_eq!(read(&[cut, usize::MAX]), expected, "{input:?} cut at {cut}");
    }
}

#[test]
fn bodies_of_known_length() {
    check(
        &[Other],
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        r#"HTTP/1.1 200 "OK" Length(5) keep {"Content-Length": "5"} | body hello | end 38+5+0 | idle"#,
    );
    check(
        &[Other],
        "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        r#"HTTP/1.0 404 "Not Found" Length(0) {"Content-Length": "0"} | end 45+0+0 | idle"#,
    );
}

#[test]
fn chunked_bodies() {
    check(
        &[Other],
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a\r\nhello\r\n0\r\nT: u\r\n\r\n",
        r#"HTTP/1.1 200 "OK" Chunked keep {"Transfer-Encoding": "chunked"} | body hello | end 47+5+18 | idle"#,
    );
}

/// Such a response was once refused as a whole, although a user agent has to read it (RFC 9112,
/// 5.2).
#[test]
fn folded_lines_are_read_as_one_with_spaces() {
    check(
        &[Other, Other],
        "HTTP/1.1 200 OK\r\nServer: a \t\r\n\t b\r\n\r\n\tc\r\n\r\n",
        r#"HTTP/1.1 200 "OK" UntilClose {"Server": "a      b"} | body \tc\r\n\r\n | end 37+6+0"#,
    );
    check(
        &[Other, Other],
        "HTTP/1.1 200 OK\r\nContent-Length:\r\n\t5\r\nA: b\r\n \r\n\r\nhelloHTTP/1.1 204 \r\n\r\n",
        concat!(
            r#"HTTP/1.1 200 "OK" Length(5) keep {"Content-Length": "5", "A": "b"} | body hello | end 49+5+0 | "#,
            r#"HTTP/1.1 204 "" None keep {} | end 17+0+0 | idle"#
        ),
    );
    check(
        &[Other],
        "HTTP/1.1 200 OK\r\nTransfer-Encoding:\r\n \r\n  chunked\r\nConnection: x,\r\n close\r\n\r\n0\r\n\r\n",
        concat!(
            r#"HTTP/1.1 200 "OK" Chunked {"Transfer-Encoding": "chunked", "Connection": "x,   close"}"#,
            r#" | end 77+0+5 | idle"#
        ),
    );
}

#[test]
fn folded_lines_are_within_the_bounds_of_a_head() {
    let bounds = Bounds { head_bytes_max: 64, ..Bounds::responses() };
    let head = |folds: usize| format!("HTTP/1.1 200 OK\r\nA: b{}\r\n\r\n", "\r\n c".repeat(folds));
    let text = |folds: usize| transcript::responses(head(folds).as_bytes(), &[], bounds, &[Head]).text();
    assert!(text(9).contains("b   c   c"), "{}", text(9));
    assert_eq!(text(10), "Head(TooLarge)");
    let fields = Bounds { fields_max: 1, ..bounds };
    let text = transcript::responses(head(9).as_bytes(), &[], fields, &[Head]).text();
    assert!(text.contains("b   c   c"), "a folded line is no field of its own: {text}");
}

#[test]
fn bodies_until_close() {
    check(&[Other], "HTTP/1.1 200 OK\r\n\r\nhello", r#"HTTP/1.1 200 "OK" UntilClose {} | body hello | end 19+5+0"#);
    check(
        &[Other],
        "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n\r\n",
        r#"HTTP/1.0 200 "OK" UntilClose {"Connection": "keep-alive"} | end 43+0+0"#,
    );
}

#[test]
fn replies_without_body() {
    let lengthy = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n\r\n");
    for (kind, status) in [(Head, "200 OK"), (Other, "204 x"), (Other, "304 x"), (Connect, "200 OK")] {
        let input = lengthy(status);
        let text = transcript::responses(input.as_bytes(), &[], Bounds::responses(), &[kind]).text();
        assert!(text.contains(" None keep {") && text.ends_with("| idle"), "{kind:?} {status}: {text}");
    }
    let refused = lengthy("403 Forbidden") + "12345";
    let text = transcript::responses(refused.as_bytes(), &[], Bounds::responses(), &[Connect]).text();
    assert!(text.contains("| body 12345 | end"), "a refused CONNECT has a body: {text}");
}

#[test]
fn pipelines() {
    check(
        &[Head, Other],
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nHTTP/1.1 204 \r\n\r\n",
        r#"HTTP/1.1 200 "OK" None keep {"Content-Length": "9"} | end 38+0+0 | HTTP/1.1 204 "" None keep {} | end 17+0+0 | idle"#,
    );
}

#[test]
fn informational_replies() {
    check(
        &[Other],
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\nLink: a\r\n\r\nHTTP/1.1 204 \r\n\r\n",
        r#"HTTP/1.1 100 "Continue" None keep {} | HTTP/1.1 103 "" None keep {"Link": "a"} | HTTP/1.1 204 "" None keep {} | end 68+0+0 | idle"#,
    );
    let many = "HTTP/1.1 100 \r\n\r\n".repeat(9);
    let text = transcript::responses(many.as_bytes(), &[5], Bounds::responses(), &[Other]).text();
    assert!(text.ends_with(r#"100 "" None keep {} | TooManyInformational"#), "{text}");
    assert_eq!(text.matches(" 100 ").count(), 8);
}

#[test]
fn switches_of_protocol() {
    let input = "HTTP/1.1 101 \r\nUpgrade: x\r\n\r\n";
    check(&[Other], input, "UnaskedSwitch");
    check(&[Upgrade], input, r#"HTTP/1.1 101 "" None keep {"Upgrade": "x"} | end 29+0+0 | idle"#);
}

#[test]
fn status_lines() {
    check(&[Head], "HTTP/1.1 200\r\n\r\n", r#"HTTP/1.1 200 "" None keep {} | end 16+0+0 | idle"#);
    check(&[Head], "HTTP/1.1 999 a b\t\r\n\r\n", r#"HTTP/1.1 999 "a b\t" None keep {} | end 21+0+0 | idle"#);
    check(&[Head], "HTTP/1.1 200 \u{e9}\r\n\r\n", r#"HTTP/1.1 200 "" None keep {} | end 19+0+0 | idle"#);
    for line in ["HTTP/1.1 20", "HTTP/1.1 2000", "HTTP/1.1 099", "HTTP/1.1  200", "HTTP/1.1 2x0", "HTTP/1.1 200 \0"] {
        check(&[Other], &format!("{line}\r\n\r\n"), "Head(InvalidStatus)");
    }
    for line in ["", "HTTP 200 OK", "http/1.1 200 OK", "HTTP/1.1200 OK", "ICY 200 OK", "<html>", "HTTP/1.1\t200 OK"] {
        check(&[Other], &format!("{line}\r\n\r\n"), "Head(InvalidVersion)");
    }
    check(&[Other], "HTTP/2.0 200 OK\r\n\r\n", "Head(UnsupportedVersion)");
    for version in ["01.1", "1.01", "2", "2.00", "2.x", "10.1"] {
        check(&[Other], &format!("HTTP/{version} 200 OK\r\n\r\n"), "Head(InvalidVersion)");
    }
    check(&[Other], "HTTP/1.1 200 OK\nA: b\r\n\r\n", "Head(BareLf)");
    check(&[Other], "HTTP/1.1 200\n\r\n", "Head(BareLf)");
    check(&[Other], "HTTP/1.1 200 O\rK\r\n\r\n", "Head(BareCr)");
}

#[test]
fn surplus_bytes() {
    check(&[], "H", "Unsolicited");
    check(&[Head], "HTTP/1.1 200 OK\r\n\r\nx", r#"HTTP/1.1 200 "OK" None keep {} | end 19+0+0 | Unsolicited"#);
}

#[test]
fn ends_of_connections() {
    check(&[], "", "idle");
    check(&[Other], "", "ClosedIdle");
    check(&[Other], "H", "TruncatedHead");
    check(&[Other], "HTTP/1.1 100 \r\n\r\n", r#"HTTP/1.1 100 "" None keep {} | TruncatedHead"#);
    check(&[Other, Other], "HTTP/1.1 204 \r\n\r\n", r#"HTTP/1.1 204 "" None keep {} | end 17+0+0 | ClosedIdle"#);
    check(
        &[Other],
        "HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhe",
        r#"HTTP/1.1 200 "" Length(5) keep {"Content-Length": "5"} | body he | TruncatedBody { missing: 3 }"#,
    );
    let chunked = "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhe";
    let head = r#"HTTP/1.1 200 "" Chunked keep {"Transfer-Encoding": "chunked"}"#;
    check(&[Other], chunked, &format!("{head} | body he | TruncatedChunks {{ missing_of_chunk: 3 }}"));
    check(
        &[Other],
        &format!("{chunked}llo\r\n"),
        &format!("{head} | body hello | TruncatedChunks {{ missing_of_chunk: 0 }}"),
    );
}

#[test]
fn bytes_of_a_reply_that_failed() {
    let mut reader = ResponseReader::new(Bounds::responses());
    reader.expect(Other);
    let mut input: &[u8] = b"HTTP/1.1 200 \r\nContent-Length: 5\r\n\r\nhe";
    while !input.is_empty() {
        let mut slots = FieldSlots::new();
        let progress = reader.read(input, &mut slots).expect("the reply is sound so far");
        input = &input[progress.consumed..];
    }
    assert_eq!(reader.finish(), Err(ResponseError::TruncatedBody { missing: 3 }));
    assert_eq!((reader.bytes().header, reader.bytes().body), (36, 2));
}

#[test]
fn bounds_are_inclusive() {
    let bounds = Bounds { head_bytes_max: 30, start_line_bytes_max: 20, ..Bounds::responses() };
    let sound = "HTTP/1.1 204 45678\r\nA: 456\r\n\r\n";
    assert_eq!(sound.len(), 30);
    check_within(bounds, &[Other], sound, r#"HTTP/1.1 204 "45678" None keep {"A": "456"} | end 30+0+0 | idle"#);
    check_within(bounds, &[Other], &sound.replace("456\r", "4567\r"), "Head(TooLarge)");
    check_within(bounds, &[Other], "HTTP/1.1 204 456789\r\n\r\n", "Head(StartLineTooLong)");
}

#[test]
fn nothing_is_kept_of_what_comes_whole() {
    let input = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabHTTP/1.1 204 \r\n\r\n";
    let transcript = transcript::responses(input, &[], Bounds::responses(), &[Other, Other]);
    assert_eq!(transcript.retained_bytes, 0);
}
