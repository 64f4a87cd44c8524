//! Requests that two recipients could read in two ways. Each has to be refused, and for its own
//! reason.

use crate::transcript;
use thalweg_wire::{Bounds, RequestKind};

/// Field lines between a sound request line with Host and a body that another reading could take
/// for a request.
fn check(lines: &str, expected: &str) {
    let input = format!("POST / HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n0\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n");
    for lengths in [&[][..], &[1], &[7, 3]] {
        let text = transcript::requests(input.as_bytes(), lengths, Bounds::requests()).text();
        assert_eq!(text, expected, "{lines:?} in parts of {lengths:?}");
    }
}

#[test]
fn length_beside_coding() {
    check("Content-Length: 4\r\nTransfer-Encoding: chunked", "Framing(LengthBesideCoding) 400");
    check("Transfer-Encoding: chunked\r\nContent-Length: 4", "Framing(LengthBesideCoding) 400");
    check("transfer-encoding: CHUNKED\r\nCONTENT-LENGTH: 0", "Framing(LengthBesideCoding) 400");
}

#[test]
fn obfuscated_codings() {
    for lines in [
        "Transfer-Encoding: chunked, identity",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding: chunkedx",
        "Transfer-Encoding: chunked;a=b",
        "Transfer-Encoding: \"chunked\"",
        "Transfer-Encoding: chunked, chunked",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding:",
        "Transfer-Encoding: ch\u{212a}ed",
    ] {
        check(lines, "Framing(MisplacedChunked) 400");
    }
    check("Transfer-Encoding: gzip, chunked", "Framing(UnsupportedCoding) 501");
    check("Transfer-Encoding: identity, chunked", "Framing(UnsupportedCoding) 501");
    check("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", "Framing(MisplacedChunked) 400");
    check("Transfer-Encoding: identity\r\nTransfer-Encoding: chunked", "Framing(MisplacedChunked) 400");
}

#[test]
fn obfuscated_field_lines() {
    check("Transfer-Encoding : chunked", "Head(WhitespaceBeforeColon) 400");
    check("Transfer-Encoding\t: chunked", "Head(WhitespaceBeforeColon) 400");
    check(" Transfer-Encoding: chunked", "Head(ObsoleteFold) 400");
    check("Transfer-Encoding:\r\n chunked", "Head(ObsoleteFold) 400");
    check("Transfer-Encoding: \u{b}chunked", "Head(InvalidFieldValue) 400");
    check("Transfer-Encoding: \u{c}chunked", "Head(InvalidFieldValue) 400");
    check("Transfer-Encoding: chunked\0", "Head(InvalidFieldValue) 400");
    check("\u{b}Transfer-Encoding: chunked", "Head(InvalidFieldName) 400");
    check("Transfer-Encoding\0: chunked", "Head(InvalidFieldName) 400");
    check("Transfer-Encoding", "Head(InvalidFieldName) 400");
    check("A: b\rTransfer-Encoding: chunked", "Head(BareCr) 400");
    check("A: b\nTransfer-Encoding: chunked", "Head(BareLf) 400");
    check("A: b\n\nGET /admin HTTP/1.1", "Head(BareLf) 400");
}

#[test]
fn lengths() {
    for value in ["+5", "-5", "5 5", "0x5", "5.0", "5;", "\"5\"", "5a", "", "18446744073709551616", "\u{665}", "1_0"] {
        check(&format!("Content-Length: {value}"), "Framing(InvalidContentLength) 400");
    }
    for lines in [
        "Content-Length: 5\r\nContent-Length: 6",
        "Content-Length: 5\r\nContent-Length: 5",
        "Content-Length: 5\r\ncontent-length: 5",
        "Content-Length: 5, 5",
        "Content-Length: 5, 6",
        "Content-Length: 5,",
        "Content-Length: ,5",
    ] {
        check(lines, "Framing(RepeatedContentLength) 400");
    }
    check("Content-Length\u{a0}: 5", "Head(InvalidFieldName) 400");
    check("Content-Length: 5\u{b}", "Head(InvalidFieldValue) 400");
}

#[test]
fn look_alikes_have_no_meaning() {
    // These are other fields, not codings or lengths: the request has no body and the bytes behind
    // it are another one.
    for lines in ["Transfer_Encoding: chunked", "Content_Length: 5", "X-Content-Length: 5", "TransferEncoding: chunked"]
    {
        let input = format!("POST / HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n");
        let text = transcript::requests(input.as_bytes(), &[], Bounds::requests()).text();
        assert!(text.contains(" None keep ") && text.ends_with("end | idle"), "{text}");
    }
}

#[test]
fn coding_in_http_1_0() {
    let input = "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let text = transcript::requests(input.as_bytes(), &[], Bounds::requests()).text();
    assert_eq!(text, "Framing(CodingInHttp10) 400");
}

#[test]
fn chunk_lines() {
    for (body, fault) in [
        ("+5\r\nhello", "InvalidSize"),
        ("0x5\r\nhello", "InvalidSize"),
        ("5 \r\nhello", "InvalidSize"),
        (" 5\r\nhello", "InvalidSize"),
        ("5 ;a\r\nhello", "InvalidSize"),
        ("\r\n", "InvalidSize"),
        ("-1\r\n", "InvalidSize"),
        ("10000000000000005\r\nhello", "SizeOverflow"),
        ("5\nhello", "BareLf"),
        ("5;a\nhello", "BareLf"),
        ("5;\rb\r\nhello", "BareCr"),
        ("5\r\nhelloX", "UnterminatedData"),
        ("5\r\nhello\n0\r\n\r\n", "UnterminatedData"),
        ("0\r\nA: b\n\r\n", "Trailers(BareLf)"),
        ("0\r\n\n", "Trailers(BareLf)"),
        ("0\r\nGET /admin HTTP/1.1\r\n\r\n", "Trailers(WhitespaceBeforeColon)"),
    ] {
        let input = format!("POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{body}");
        for lengths in [&[][..], &[1]] {
            let text = transcript::requests(input.as_bytes(), lengths, Bounds::requests()).text();
            assert!(text.ends_with(&format!("Chunk({fault}) 400")), "{body:?}: {text}");
        }
    }
}

#[test]
fn replies_are_held_to_the_same() {
    for (head, expected) in [
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", "Framing(LengthBesideCoding)"),
        ("Content-Length: 5\r\nContent-Length: 5", "Framing(RepeatedContentLength)"),
        ("Content-Length: +5", "Framing(InvalidContentLength)"),
        ("Transfer-Encoding: gzip", "Framing(MisplacedChunked)"),
        ("Transfer-Encoding: gzip, chunked", "Framing(UnsupportedCoding)"),
        ("Transfer-Encoding : chunked", "Head(WhitespaceBeforeColon)"),
        ("A: b\nB: c", "Head(BareLf)"),
        (" A: b", "Head(ObsoleteFold)"),
        ("A: b\r\n c\r\nContent-Length:\r\n 5, 5", "Framing(RepeatedContentLength)"),
        ("Content-Length: 1\r\n 2", "Framing(InvalidContentLength)"),
        ("Content-Length: 5\r\nX: y\r\n Content-Length: 6\r\nContent-Length: 5", "Framing(RepeatedContentLength)"),
        ("Transfer-Encoding: chun\r\n\tked", "Framing(MisplacedChunked)"),
        ("Transfer-Encoding: gzip,\r\n chunked", "Framing(UnsupportedCoding)"),
        ("Content-Length: 4\r\nTransfer-Encoding:\r\n chunked", "Framing(LengthBesideCoding)"),
        ("A: b\r\n c\n d", "Head(BareLf)"),
        ("A: b\r\n c\rd", "Head(BareCr)"),
        ("A\r\n : b", "Head(InvalidFieldName)"),
    ] {
        let input = format!("HTTP/1.1 200 OK\r\n{head}\r\n\r\n");
        for lengths in [&[][..], &[1]] {
            let text = transcript::responses(input.as_bytes(), lengths, Bounds::responses(), &[RequestKind::Other]);
            assert_eq!(text.text(), expected, "{head:?}");
        }
    }
}
