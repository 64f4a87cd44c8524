//! Requests as a server reads them, as transcripts: the bytes of a connection on the left, the
//! events on the right.

use crate::transcript;
use thalweg_wire::{Bounds, FieldSlots, RequestEvent, RequestReader};

/// Reads the input whole, byte by byte, and cut once at each place.
fn check(input: &str, expected: &str) {
    check_within(Bounds::requests(), input, expected);
}

fn check_within(bounds: Bounds, input: &str, expected: &str) {
    let whole = transcript::requests(input.as_bytes(), &[], bounds);
    assert_eq!(whole.text(), expected, "{input:?}");
    let bytewise = transcript::requests(input.as_bytes(), &[1], bounds);
    assert_eq!(bytewise.text(), expected, "{input:?} byte by byte");
    for cut in 1..input.len().min(300) {
        let cut_once = transcript::requests(input.as_bytes(), &[cut, usize::MAX], bounds);
        assert_eq!(cut_once.text(), expected, "{input:?} cut at {cut}");
    }
}

#[test]
fn heads() {
    check(
        "GET /a?b HTTP/1.1\r\nHost: x:80\r\nA:  b c\t\r\nE:\r\n\r\n",
        r#"GET /a?b HTTP/1.1 host=Some("x:80") None keep {"Host": "x:80", "A": "b c", "E": ""} | end | idle"#,
    );
    check("GET / HTTP/1.0\r\n\r\n", "GET / HTTP/1.0 host=None None {} | end | idle");
    check(
        "get /\"<> HTTP/1.1\r\nhost:\r\n\r\n",
        r#"get /\"<> HTTP/1.1 host=Some("") None keep {"host": ""} | end | idle"#,
    );
    check(
        "OPTIONS * HTTP/1.1\r\nHOST: x\r\nA: \u{e9}\r\n\r\n",
        r#"OPTIONS * HTTP/1.1 host=Some("x") None keep {"HOST": "x", "A": "\\xc3\\xa9"} | end | idle"#,
    );
}

#[test]
fn host_of_an_absolute_target_overrides_the_field() {
    check(
        "GET http://a:1/b HTTP/1.1\r\nHost: x\r\n\r\n",
        r#"GET http://a:1/b HTTP/1.1 host=Some("a:1") None keep {"Host": "x"} | end | idle"#,
    );
    check(
        "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        r#"CONNECT a:1 HTTP/1.1 host=Some("a:1") None keep {"Host": "a:1"} | end | idle"#,
    );
}

#[test]
fn bodies() {
    check(
        "POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
        r#"POST / HTTP/1.0 host=None Length(5) {"Content-Length": "5"} | body hello | end | idle"#,
    );
    check(
        "POST / HTTP/1.0\r\nContent-Length: 000\r\n\r\n",
        r#"POST / HTTP/1.0 host=None Length(0) {"Content-Length": "000"} | end | idle"#,
    );
    check(
        "PUT / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n5;a\r\nhello\r\n1\r\n!\r\n0\r\nT: u\r\n\r\n",
        r#"PUT / HTTP/1.1 host=Some("x") Chunked keep {"Host": "x", "Transfer-Encoding": "Chunked"} | body hello! | end | idle"#,
    );
}

#[test]
fn pipelines() {
    check(
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab\r\nGET /c HTTP/1.1\r\nHost: y\r\n\r\nGET",
        r#"POST / HTTP/1.1 host=Some("x") Length(2) keep {"Host": "x", "Content-Length": "2"} | body ab | end | GET /c HTTP/1.1 host=Some("y") None keep {"Host": "y"} | end | TruncatedHead"#,
    );
}

#[test]
fn persistence() {
    for (version, lines, expected) in [
        ("1.1", "", true),
        ("1.1", "Connection: close\r\n", false),
        ("1.1", "Connection: keep-alive\r\n", true),
        ("1.1", "Connection: Upgrade, CLOSE\r\n", false),
        ("1.1", "Connection: keep-alive\r\nConnection: ,close\r\n", false),
        ("1.1", "Connection: closed, x-close\r\n", true),
        ("1.0", "", false),
        ("1.0", "Connection: Keep-Alive\r\n", true),
        ("1.0", "Connection: keep-alive, close\r\n", false),
        ("1.0", "Proxy-Connection: keep-alive\r\n", false),
    ] {
        let input = format!("GET / HTTP/{version}\r\nHost: x\r\n{lines}\r\n");
        let text = transcript::requests(input.as_bytes(), &[], Bounds::requests()).text();
        assert_eq!(text.contains(" keep {"), expected, "{input:?}");
    }
}

#[test]
fn expectations() {
    for (version, lines, expected) in [
        ("1.1", "Expect: 100-continue\r\nContent-Length: 1\r\n", true),
        ("1.1", "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n", true),
        ("1.1", "Expect: 100-continue\r\n", false),
        ("1.1", "Expect: 100-continue\r\nContent-Length: 0\r\n", false),
        ("1.1", "Expect: 200-ok\r\nContent-Length: 1\r\n", false),
        ("1.0", "Expect: 100-continue\r\nContent-Length: 1\r\n", false),
    ] {
        let input = format!("GET / HTTP/{version}\r\nHost: x\r\n{lines}\r\n");
        let text = transcript::requests(input.as_bytes(), &[], Bounds::requests()).text();
        assert_eq!(text.contains(" continue {"), expected, "{input:?}");
    }
}

#[test]
fn hosts() {
    check("GET / HTTP/1.1\r\n\r\n", "Host(Missing) 400");
    check("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", "Host(Repeated) 400");
    check("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", "Host(Repeated) 400");
    check("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", "Host(Invalid) 400");
    check("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", "Host(Invalid) 400");
    check("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", "Host(Invalid) 400");
    check("GET / HTTP/1.1\r\nHost: a:x\r\n\r\n", "Host(Invalid) 400");
}

#[test]
fn request_lines() {
    for line in ["G(T / HTTP/1.1", " GET / HTTP/1.1", "\u{16}\u{3}\u{1}", "G\rT / HTTP/1.1", "GET"] {
        check(&format!("{line}\r\n\r\n"), "Head(InvalidMethod) 400");
    }
    for line in ["GET  / HTTP/1.1", "GET /\u{e9} HTTP/1.1", "GET /\t HTTP/1.1", "GET /\0 HTTP/1.1", "GET /", "GET \r"] {
        check(&format!("{line}\r\n\r\n"), "Head(InvalidTarget) 400");
    }
    for line in ["GET / http/1.1", "GET / HTTP/1.1 ", "GET / a HTTP/1.1", "GET / HTTP/x.1", "GET / HTTP/1.", "GET / "] {
        check(&format!("{line}\r\n\r\n"), "Head(InvalidVersion) 400");
    }
    for version in ["2.0", "0.9", "1.2", "3.0"] {
        check(&format!("GET / HTTP/{version}\r\n\r\n"), "Head(UnsupportedVersion) 505");
    }
    check("GET / HTTP/2.0\n\n", "Head(BareLf) 400");
    check("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "Head(UnsupportedVersion) 505");
}

#[test]
fn a_version_of_another_form_is_malformed_and_not_unsupported() {
    for version in ["01.1", "1.01", "2", "2.", "2.x", "2.00", "2.0 ", "0", "00.9", "10.1", "1.10", "3.0\t"] {
        check(&format!("GET / HTTP/{version}\r\nHost: h\r\n\r\n"), "Head(InvalidVersion) 400");
    }
}

#[test]
fn field_lines() {
    let head = |lines: &str| format!("GET / HTTP/1.1\r\n{lines}\r\n\r\n");
    check(&head("Host: x\r\n folded: y"), "Head(ObsoleteFold) 400");
    check(&head("Host: x\r\n\tfolded"), "Head(ObsoleteFold) 400");
    check(&head(" Host: x"), "Head(ObsoleteFold) 400");
    check(&head("Host : x"), "Head(WhitespaceBeforeColon) 400");
    check(&head("Host\t: x"), "Head(WhitespaceBeforeColon) 400");
    check(&head("Ho st: x"), "Head(WhitespaceBeforeColon) 400");
    check(&head(": x"), "Head(InvalidFieldName) 400");
    check(&head("Host"), "Head(InvalidFieldName) 400");
    check(&head("H(st: x"), "Head(InvalidFieldName) 400");
    check(&head("H\u{e9}st: x"), "Head(InvalidFieldName) 400");
    check(&head("\0: x"), "Head(InvalidFieldName) 400");
    check(&head("Host: x\0"), "Head(InvalidFieldValue) 400");
    check(&head("Host: x\u{b}"), "Head(InvalidFieldValue) 400");
    check(&head("Host: x\u{7f}"), "Head(InvalidFieldValue) 400");
}

#[test]
fn line_ends() {
    check("GET / HTTP/1.1\nHost: x\r\n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\r\nHost: x\r\nA:\n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\r\nHost: x\r\nA: b \n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\r\nHost: x\r\n\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\r\nHost: x\n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\n\r\n", "Head(BareLf) 400");
    check("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n", "Head(BareLf) 400");
    check("GET / HTTP/1.1\rHost: x\r\n\r\n", "Head(BareCr) 400");
    check("GET / HTTP/1.1\r\nHost: x\rA: b\r\n\r\n", "Head(BareCr) 400");
    check("GET / HTTP/1.1\r\nHost: x\r\r\n\r\n", "Head(BareCr) 400");
    check("GET / HTTP/1.1\r\nHost: x\r\n\rA: b\r\n\r\n", "Head(BareCr) 400");
    check("\rGET / HTTP/1.1\r\nHost: x\r\n\r\n", "Head(BareCr) 400");
}

#[test]
fn empty_lines_before_a_request() {
    let head = "GET / HTTP/1.0\r\n\r\n";
    let events = "GET / HTTP/1.0 host=None None {} | end | idle";
    check(&format!("\r\n{head}"), events);
    check(&format!("\r\n\r\n\r\n\r\n{head}"), events);
    check(&format!("\r\n\r\n\r\n\r\n\r\n{head}"), "EmptyLines 400");
    check(&format!("{head}\r\n\r\n\r\n"), events);
}

#[test]
fn ends_of_connections() {
    check("\r", "TruncatedHead");
    check("\r\n", "idle");
    check("G", "TruncatedHead");
    check("GET / HTTP/1.1\r\nHost: x\r\n", "TruncatedHead");
    check(
        "POST / HTTP/1.0\r\nContent-Length: 5\r\n\r\nhell",
        r#"POST / HTTP/1.0 host=None Length(5) {"Content-Length": "5"} | body hell | TruncatedBody"#,
    );
}

#[test]
fn bounds_are_inclusive() {
    let bounds = Bounds { head_bytes_max: 40, start_line_bytes_max: 20, fields_max: 2, ..Bounds::requests() };
    let events = "GET /2345 HTTP/1.0 host=None None {} | end | idle";
    check_within(bounds, "GET /2345 HTTP/1.0\r\n\r\n", events);
    check_within(bounds, "GET /23456 HTTP/1.0\r\n\r\n", "Head(StartLineTooLong) 414");
    check_within(bounds, "GET /23456 HTTP/2.0\r\n\r\n", "Head(UnsupportedVersion) 505");
    check_within(bounds, &format!("GET /{}", "x".repeat(100)), "Head(StartLineTooLong) 414");
    let fitting = "GET / HTTP/1.0\r\nA: 3456789012345678901\r\n\r\n";
    assert_eq!(fitting.len(), 42);
    check_within(bounds, fitting, "Head(TooLarge) 431");
    check_within(
        bounds,
        &fitting.replace("901\r", "9\r"),
        r#"GET / HTTP/1.0 host=None None {"A": "34567890123456789"} | end | idle"#,
    );
    check_within(bounds, "GET / HTTP/1.0\r\nA:\r\nB:\r\nC:\r\n\r\n", "Head(TooManyFields) 431");
    check_within(
        bounds,
        "GET / HTTP/1.0\r\nA:\r\nB:\r\n\r\n",
        r#"GET / HTTP/1.0 host=None None {"A": "", "B": ""} | end | idle"#,
    );
}

#[test]
fn no_more_fields_than_there_are_slots() {
    let bounds = Bounds { fields_max: 1000, ..Bounds::requests() };
    let head = |count: usize| format!("GET / HTTP/1.0\r\n{}\r\n", "A: b\r\n".repeat(count));
    assert!(transcript::requests(head(100).as_bytes(), &[], bounds).text().ends_with("| end | idle"));
    check_within(bounds, &head(101), "Head(TooManyFields) 431");
}

#[test]
fn nothing_is_kept_of_what_comes_whole() {
    let input = b"GET / HTTP/1.1\r\nHost: x\r\n\r\nPOST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
    assert_eq!(transcript::requests(input, &[], Bounds::requests()).retained_bytes, 0);
}

#[test]
fn memory_of_a_large_head_is_given_back() {
    let mut reader = RequestReader::new(Bounds::requests());
    let large = format!("GET / HTTP/1.0\r\nA: {}\r\n\r\n", "x".repeat(12_000));
    let (first, second) = large.as_bytes().split_at(11_000);
    assert!(reader.read(first, &mut FieldSlots::new()).is_ok_and(|progress| progress.event.is_none()));
    let mut slots = FieldSlots::new();
    let head = reader.read(second, &mut slots).map(|progress| progress.event);
    assert!(matches!(head, Ok(Some(RequestEvent::Head(_)))));
    assert!(reader.retained_bytes() >= large.len());
    let mut slots = FieldSlots::new();
    let end = reader.read(b"", &mut slots).map(|progress| progress.event);
    assert!(matches!(end, Ok(Some(RequestEvent::End))));
    assert!(reader.retained_bytes() <= 4096, "{}", reader.retained_bytes());
}
