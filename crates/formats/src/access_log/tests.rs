//! Lines as Apache and nginx write them, and lines that are none.

use super::*;

/// The seconds of a date that `date -u -d` gives for the lines below.
const THEN: i64 = 971_211_336;

fn line<'a>(method: &'a str, target: &'a str, version: &'a str) -> LogLine<'a> {
    LogLine {
        host: b"127.0.0.1",
        user: None,
        time_unix_s: THEN,
        fraction_ns: None,
        virtual_host: None,
        request: LoggedRequest::Line {
            method,
            target: Escaped::new(target.as_bytes()),
            version: Some(version).filter(|version| !version.is_empty()),
        },
        status: Some(200),
        bytes: 2326,
        referer: None,
        agent: None,
    }
}

fn check(text: &str, expected: LogLine<'_>) {
    assert_eq!(LogLine::parse(text.as_bytes()), Ok(expected), "{text}");
}

fn check_refused(text: &str, at: usize, expected: &str) {
    let fault = LogLine::parse(text.as_bytes()).expect_err(text);
    assert!(fault.at == at && fault.expected.contains(expected), "{text}: {fault:?}");
}

#[test]
fn common_lines() {
    let get = line("GET", "/apache_pb.gif", "HTTP/1.0");
    check(
        r#"127.0.0.1 - frank [10/Oct/2000:13:55:36 -0700] "GET /apache_pb.gif HTTP/1.0" 200 2326"#,
        LogLine { user: Some(b"frank"), ..get },
    );
    let tail = r#"[10/Oct/2000:20:55:36 +0000] "GET /apache_pb.gif HTTP/1.0""#;
    check(&format!("127.0.0.1 - - {tail} 200 2326\r"), get);
    check(
        &format!("2001:db8::1 id - {tail} 304 -"),
        LogLine { host: b"2001:db8::1", status: Some(304), bytes: 0, ..get },
    );
    check(&format!("127.0.0.1 - - {tail} - 0"), LogLine { status: None, bytes: 0, ..get });
    check(&format!("127.0.0.1 - a [b] c {tail} 200 2326"), LogLine { user: Some(b"a [b] c"), ..get });
    check(&format!("127.0.0.1 - \"\" {tail} 499 2326"), LogLine { user: Some(b"\"\""), status: Some(499), ..get });
    // Further fields of one's own.
    check(&format!("127.0.0.1 - - {tail} 200 2326 0.001 x=\""), get);
}

#[test]
fn combined_lines() {
    let agent = Some(Escaped::new(b"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0"));
    let head = r#"127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a?b=%20c HTTP/2.0" 200 2326"#;
    let get = LogLine { agent, ..line("GET", "/a?b=%20c", "HTTP/2.0") };
    let agent = r#""Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/115.0""#;
    check(&format!("{head} \"-\" {agent}"), get);
    let referer = Some(Escaped::new(b"http://www.example.com/start.html"));
    check(&format!("{head} \"http://www.example.com/start.html\" {agent} \"-\" 0.003"), LogLine { referer, ..get });
    check(&format!("{head} \"-\" \"-\""), LogLine { agent: None, ..get });
    check(&format!("{head} \"\" \"\""), LogLine { agent: None, ..get });
    let quoted = Some(Escaped::new(br#"\"a\" \\"#));
    check(&format!(r#"{head} "-" "\"a\" \\" 1"#), LogLine { agent: quoted, ..get });
}

#[test]
fn requests_that_are_none_are_no_errors() {
    for raw in [
        "-",
        "",
        r"\x16\x03\x01\x02\x00\x01\x00\x01\xFC\x03\x03",
        "GET",
        "GET ",
        "GET  HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /a HTTP/1.1 x",
        "GET /a http/1.1",
        "GET /a HTTP/1.",
        "G@T / HTTP/1.1",
        r#"\"GET / HTTP/1.1\""#,
        r"\n",
    ] {
        let text = format!("127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] \"{raw}\" 400 226 \"-\" \"-\"");
        let parsed = LogLine::parse(text.as_bytes()).unwrap();
        assert_eq!(parsed.request, LoggedRequest::Malformed(Escaped::new(raw.as_bytes())), "{raw}");
        assert_eq!((parsed.status, parsed.bytes), (Some(400), 226));
    }
    let old = r#"127.0.0.1 - - [10/Oct/2000:20:55:36 +0000] "GET /a" 200 2326"#;
    check(old, line("GET", "/a", ""));
}

#[test]
fn lines_that_nginx_wrote() {
    let head = "127.0.0.1 - a [b] [21/Nov/2026:12:22:37 +0000]";
    for (tail, target) in [
        (r#""GET / HTTP/1.1" 200 1 "-" "a\x22b\x5Cc \xC3\xA9""#, Some(b"/".as_slice())),
        (r#""GET /" 200 1 "-" "-""#, Some(b"/")),
        (r#""\x16\x03\x01\x02\x00\x22\x5C" 400 157 "-" "-""#, None),
        (r#""GET /a b HTTP/1.1" 400 157 "-" "-""#, None),
        (r#""GET /\xC3\xA9\x22\x5C HTTP/1.1" 200 1 "-" "-""#, Some(b"/\xc3\xa9\"\\")),
        (r#""" 400 0 "-" "-""#, None),
        (r#""GET http://y/z HTTP/1.1" 200 1 "-" "-""#, Some(b"http://y/z")),
        (r#""PRI * HTTP/2.0" 400 157 "-" "-""#, Some(b"*")),
        (r#""GET  /  HTTP/1.1" 400 157 "-" "-""#, None),
    ] {
        let text = format!("{head} {tail}");
        let parsed = LogLine::parse(text.as_bytes()).unwrap();
        assert_eq!((parsed.user, parsed.time_unix_s), (Some(b"a [b]".as_slice()), 1_795_263_757));
        let asked = match parsed.request {
            LoggedRequest::Line { target, .. } => Some(target.decode()),
            LoggedRequest::Malformed(_) => None,
        };
        assert_eq!(asked.as_deref(), target, "{tail}");
    }
}

fn check_decoded(raw: &str, expected: &[u8]) {
    assert_eq!(*Escaped::new(raw.as_bytes()).decode(), *expected, "{raw}");
}

#[test]
fn escapes() {
    check_decoded("/a%20b", b"/a%20b");
    check_decoded(r#"a\"b\\c\x22\x5C\xc3\xA9"#, b"a\"b\\c\"\\\xc3\xa9");
    check_decoded(r"\n\r\t\v\f\b", b"\n\r\t\x0b\x0c\x08");
    check_decoded(r"\x2\xg0\q\", br"\x2\xg0\q\");
    check_decoded(r"\\x41", br"\x41");
}

#[test]
fn targets_beyond_ascii_are_percent_encoded_and_others_are_refused() {
    let mut text = String::new();
    assert!(push_sendable(&mut text, "/é?\"".as_bytes()));
    assert_eq!(text, "/%C3%A9?\"");
    assert!(!push_sendable(&mut text, b"/a b") && !push_sendable(&mut text, b"/\x7f"));
}

#[test]
fn virtual_hosts_stand_before_the_line() {
    let split = |line: &'static str| split_virtual_host(line.as_bytes());
    assert_eq!(split("example.com:80 ::1 - -"), Some((&b"example.com"[..], &b"::1 - -"[..])));
    assert_eq!(split("example.com ::1 -"), Some((&b"example.com"[..], &b"::1 -"[..])));
    assert_eq!(split("[::1]:8080 a"), Some((&b"[::1]"[..], &b"a"[..])));
    assert_eq!([split("[::1] a"), split("alone")], [Some((&b"[::1]"[..], &b"a"[..])), None]);
}

#[test]
fn a_virtual_host_is_no_client() {
    let tail = r#"[10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1"#;
    let parse = |head: &str| {
        LogLine::parse_without_virtual_host(format!("{head} {tail}").as_bytes()).map(|line| line.time_unix_s)
    };
    for head in ["example.com:80 10.0.0.1 - -", "example.com 2001:db8::1 - frank"] {
        assert_eq!(parse(head), Err(VIRTUAL_HOST), "{head}");
    }
    let plain = ["10.0.0.1 - -", "10.0.0.1 10.0.0.2 frank", "10.0.0.1 - a b", "10.0.0.1 id a b"];
    assert_eq!(plain.map(parse), [Ok(THEN); 4]);
    assert_eq!(parse("[::1]:80 10.0.0.1 - -"), Err(VIRTUAL_HOST));
}

/// They were taken for a virtual host, with advice that broke all other lines.
#[test]
fn several_addresses_in_front_are_those_of_x_forwarded_for() {
    let tail = r#"[10/Oct/2000:20:55:36 +0000] "GET / HTTP/1.1" 200 1"#;
    for (head, client) in [
        ("198.51.100.1, 203.0.113.7 - -", "198.51.100.1"),
        ("198.51.100.1,203.0.113.7 - frank", "198.51.100.1"),
        ("2001:db8::1, 203.0.113.7, 10.0.0.1 - -", "2001:db8::1"),
        ("198.51.100.1 10.0.0.1 - -", "198.51.100.1"),
        ("unknown, 203.0.113.7 - -", "unknown"),
    ] {
        let text = format!("{head} {tail}");
        let read = LogLine::parse_without_virtual_host(text.as_bytes());
        assert_eq!(read.map(|line| line.host), Ok(client.as_bytes()), "{head}");
    }
}

#[test]
fn invalid_log_lines_are_refused_with_their_place() {
    check_refused("", 0, "address");
    check_refused(" - -", 0, "address");
    check_refused("hello", 5, "a blank");
    check_refused("h -", 3, "a blank");
    check_refused("h - -", 4, "a time such as");
    check_refused("h - [10/Oct/2000:13:55:36 -0700] \"-\" 200 1", 4, "a user, and a time");
    check_refused("h - - [10/Okt/2000:13:55:36 -0700] \"-\" 200 1", 6, "a time such as");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700]\"-\" 200 1", 34, "a blank");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] - 200 1", 35, "a request");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\\\" 200 1", 35, "a closing quote");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 2xx 1", 39, "a status or a dash");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 1000 1", 39, "three digits");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200", 42, "a blank");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 x", 43, "a number of bytes");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 99999999999999999999", 43, "2^64");
    check_refused("h - - [10/Oct/2000:13:55:36 -0700] \"-\" 200 1 \"x", 45, "a closing quote");
    check_refused("{\"host\": \"a\", \"status\": 200}", 14, "a time such as");
}

fn check_time(text: &str, expected: Option<i64>) {
    let bytes = format!("{text}]");
    assert_eq!(bytes.as_bytes().first_chunk().and_then(parse_time), expected, "{text}");
}

#[test]
fn times() {
    check_time("01/Jan/1970:00:00:00 +0000", Some(0));
    check_time("31/Dec/1969:23:59:59 +0000", Some(-1));
    check_time("29/Feb/2000:12:34:56 +0000", Some(951_827_696));
    check_time("01/Mar/2100:00:00:00 +0000", Some(4_107_542_400));
    check_time("31/Dec/9999:23:59:59 +0000", Some(thalweg_wire::date::SECOND_MAX));
    check_time("10/Oct/2000:13:55:36 -0700", Some(THEN));
    check_time("11/Oct/2000:02:25:36 +0530", Some(THEN));
    check_time("01/Jan/0001:00:00:00 +0000", Some(-62_135_596_800));
    for wrong in [
        "29/Feb/1900:00:00:00 +0000",
        "31/Apr/2000:00:00:00 +0000",
        "00/Jan/2000:00:00:00 +0000",
        "01/jan/2000:00:00:00 +0000",
        "01/Jan/2000:24:00:00 +0000",
        "01/Jan/2000:00:60:00 +0000",
        "01/Jan/2000:00:00:61 +0000",
        "01/Jan/2000:00:00:00 00000",
        "01/Jan/2000:00:00:00 +2400",
        "01/Jan/0000:00:00:00 +0000",
        "1/Jan/2000:00:00:00 +00000",
        "+1/Jan/2000:00:00:00 +0000",
    ] {
        check_time(wrong, None);
    }
}

#[test]
fn days_agree_with_the_calendar_of_dates() {
    for day in (0..thalweg_wire::date::SECOND_MAX / 86_400).step_by(97) {
        let text = String::from_utf8(thalweg_wire::date::imf_fixdate(day * 86_400).to_vec()).unwrap();
        let [_, d, month, year, ..] = text.split(' ').collect::<Vec<_>>()[..] else { panic!("{text}") };
        check_time(&format!("{d}/{month}/{year}:00:00:00 +0000"), Some(day * 86_400));
    }
}
