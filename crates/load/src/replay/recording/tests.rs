//! Logs and the times of their requests, and lines that are none.

use super::*;
use crate::input::text::LINE_BYTES_MAX;

const HEAD: ReplayHead<'_> = ReplayHead { authority: "h", version: Version::Http11, fields: &[] };

fn scan(text: impl Into<Vec<u8>>, speed: f64) -> Result<Recording, ReadError> {
    scan_as(text, &ReplayOrders::at_speed(speed))
}

fn scan_as(text: impl Into<Vec<u8>>, orders: &ReplayOrders) -> Result<Recording, ReadError> {
    let text: Arc<[u8]> = text.into().into();
    Recording::scan("log", Box::new(move || Ok(Box::new(io::Cursor::new(text.clone())))), orders, &HEAD, None)
}

/// A log with a line for each second of the minute and request.
fn log(lines: &[(u32, &str)]) -> String {
    let line = |(second, request): &(u32, &str)| {
        format!("::1 - - [10/Oct/2000:20:55:{second:02} +0000] \"{request}\" 200 1 \"-\" \"-\"\n")
    };
    lines.iter().map(line).collect()
}

fn played(recording: &Recording) -> Vec<(u64, String)> {
    let mut played = Vec::new();
    recording.for_each(|ns, method, target| played.push((ns, format!("{method} {target}")))).unwrap();
    played
}

/// Replays a log and compares its requests and their times.
fn check(lines: &[(u32, &str)], speed: f64, expected: &[(u64, &str)]) {
    let shown: Vec<_> =
        played(&scan(log(lines), speed).unwrap()).into_iter().map(|(ns, what)| (ns / 1_000_000, what)).collect();
    let expected: Vec<_> = expected.iter().map(|(at, request)| (*at, (*request).to_owned())).collect();
    assert_eq!(shown, expected);
}

#[test]
fn a_second_s_requests_are_spread_over_it() {
    let lines = [
        (0, "GET /a HTTP/1.1"),
        (2, "GET /b HTTP/1.1"),
        (2, "HEAD /a HTTP/1.0"),
        (2, "GET /a HTTP/2.0"),
        (2, "GET /c"),
        (3, "GET /d HTTP/1.1"),
    ];
    let expected =
        [(0, "GET /a"), (2000, "GET /b"), (2250, "HEAD /a"), (2500, "GET /a"), (2750, "GET /c"), (3000, "GET /d")];
    check(&lines, 1.0, &expected);
    check(&lines, 2.0, &expected.map(|(at, request)| (at / 2, request)));
    check(&lines, 0.1, &expected.map(|(at, request)| (at * 10, request)));
}

#[test]
fn lines_out_of_order_are_sorted_and_keep_theirs_within_a_second() {
    let lines = [(5, "GET /a HTTP/1.1"), (4, "GET /b HTTP/1.1"), (5, "GET /c HTTP/1.1"), (4, "GET /d HTTP/1.1")];
    check(&lines, 1.0, &[(0, "GET /b"), (500, "GET /d"), (1000, "GET /a"), (1500, "GET /c")]);
}

#[test]
fn lines_that_cannot_be_replayed_are_counted_by_reason() {
    let lines = [
        (0, "POST /a HTTP/1.1"),
        (0, "PRI * HTTP/2.0"),
        (0, "-"),
        (0, r"\x16\x03"),
        (0, r"GET /\n HTTP/1.1"),
        (0, "GET /a#b HTTP/1.1"),
        (0, "GET a HTTP/1.1"),
        (1, r"GET /\xc3\xa4\x22 HTTP/1.1"),
        (2, "OPTIONS * HTTP/1.1"),
        (3, "DELETE http://h/b HTTP/1.1"),
        (3, "CONNECT h:443 HTTP/1.1"),
    ];
    check(&lines, 1.0, &[(0, "GET /%C3%A4\""), (1000, "OPTIONS *")]);
    let summary = *scan(log(&lines), 1.0).unwrap().summary();
    let skipped = SkipCounts { malformed: 2, method: 2, target: 3, proxy: 2, format: 0 };
    let expected = LogSummary { requests: 2, skipped, start_unix_s: 971_211_301, ..LogSummary::default() };
    assert_eq!((summary, skipped.total()), (expected, 9));
}

#[test]
fn formats_may_change_within_a_log() {
    let json = r#"{"time":"2000-10-10T20:55:37Z","client":"::1","method":"GET","target":"/b","status":200,"bytes":1}"#;
    let no_request = r#"{"time":"2000-10-10T20:55:37Z","client":"::1","status":503,"bytes":97}"#;
    let text = format!("{}{json}\n{no_request}\n", log(&[(36, "GET /a HTTP/1.1")]));
    let recording = scan(text, 1.0).unwrap();
    assert_eq!((played(&recording)[1].0, recording.summary().skipped.malformed), (1_000_000_000, 1));
}

/// The last line of a log that was copied while it was written once ended the command.
#[test]
fn a_torn_line_is_counted_and_left_out() {
    let text = log(&[(36, "GET /a HTTP/1.1")]) + "192.0.2.1 - - [10/Oct/2000:20:55:37 +0000] \"GET /b HTT";
    let recording = scan(text.clone(), 1.0).unwrap();
    assert_eq!((played(&recording).len(), recording.summary().skipped.format), (1, 1));
    let place = "log:2:44: not a line of an access log in common or combined format: expected a closing quote";
    assert_eq!(recording.bad_lines(), [place]);
    let strict = ReplayOrders { strict: true, ..ReplayOrders::at_speed(1.0) };
    let error = scan_as(text, &strict).unwrap_err();
    assert_eq!(error.to_string(), place);
}

#[test]
fn fractions_of_seconds_are_the_times_of_requests() {
    let line = |time: &str, target: &str| format!("[{time}] \"GET {target} HTTP/1.1\"\n");
    let text = line("2000-10-10T20:55:36.500Z", "/a")
        + &line("2000-10-10T20:55:37.900Z", "/d")
        + &line("2000-10-10T20:55:37.250Z", "/c")
        + &line("2000-10-10T20:55:36.750Z", "/b");
    let format = Some("[$time_iso8601] \"$request\"".parse().unwrap());
    let recording = scan_as(text, &ReplayOrders { format, ..ReplayOrders::at_speed(2.0) }).unwrap();
    let expected = [(0, "GET /a"), (125, "GET /b"), (375, "GET /c"), (700, "GET /d")];
    let found: Vec<_> = played(&recording).into_iter().map(|(ns, what)| (ns / 1_000_000, what)).collect();
    assert_eq!(found, expected.map(|(ms, what)| (ms, what.to_owned())));
}

#[test]
fn long_pauses_are_shortened_and_short_ones_are_not() {
    let lines = [(0, "GET /a HTTP/1.1"), (4, "GET /b HTTP/1.1"), (34, "GET /c HTTP/1.1"), (59, "GET /d HTTP/1.1")];
    let orders = ReplayOrders { gap_max: Some(Duration::from_secs(5)), ..ReplayOrders::at_speed(2.0) };
    let recording = scan_as(log(&lines), &orders).unwrap();
    let times: Vec<u64> = played(&recording).into_iter().map(|(ns, _)| ns / 1_000_000).collect();
    assert_eq!(times, [0, 2000, 4500, 7000]);
    let summary = recording.summary();
    assert_eq!((summary.pauses_shortened, summary.shortened), (2, Duration::from_secs(45)));
    assert_eq!(recording.length_ns() / 1_000_000, 7000 + 7000 / 3);
}

fn check_refused(text: &str, expected: &str) {
    let strict = ReplayOrders { strict: true, ..ReplayOrders::at_speed(1.0) };
    assert_eq!(scan_as(text, &strict).unwrap_err().to_string(), expected);
}

#[test]
fn errors_are_named_with_their_place() {
    let none = "the log contains no request that can be replayed";
    check_refused("\n\n", &format!("log:2:1: {none}"));
    check_refused(
        &log(&[(0, "-"), (0, "-"), (1, "PUT / HTTP/1.1")]),
        &format!("log:3:1: {none}; malformed requests: 2; methods with a body that is not in the log: 1"),
    );
    let text = log(&[(0, "GET /a HTTP/1.1")]) + "\nh ä - [x] \"GET / HTTP/1.1\" 200 1\n";
    let format = "not a line of an access log in common or combined format";
    check_refused(&text, &format!("log:3:7: {format}: expected a time such as [10/Oct/2000:13:55:36 -0700]"));
    check_refused("\n{\"client\":3}\n", &format!("log:2:1: {format}: expected a member with the time"));
    let error = scan(vec![b'x'; LINE_BYTES_MAX + 1], 1.0).unwrap_err();
    assert!(error.to_string().contains("more than"), "{error}");
}

#[test]
fn one_request_alone_has_its_second() {
    for (speed, length_ns) in [(1.0, 1_000_000_000), (4.0, 250_000_000)] {
        assert_eq!(scan(log(&[(7, "GET /a HTTP/1.1")]), speed).unwrap().length_ns(), length_ns);
    }
    let several = scan(log(&[(7, "GET /a HTTP/1.1"), (7, "GET /b HTTP/1.1")]), 1.0).unwrap();
    assert_eq!(several.length_ns(), 1_000_000_000, "two of one second are half a second apart");
}

/// Verifies that requests lie where they belong although there are more of them in a second
/// than are kept.
#[test]
fn a_second_of_any_number_of_requests_is_spread_evenly() {
    let count = 200_000;
    let mut text = log(&[(3, "GET /a HTTP/1.1")]).repeat(count);
    text.push_str(&log(&[(4, "GET /b HTTP/1.1"), (3, "GET /late HTTP/1.1")]));
    let recording = scan(text, 1.0).unwrap();
    let played = played(&recording);
    assert_eq!((played.len(), recording.summary().displaced), (count + 2, 0));
    for (index, (ns, _)) in played.iter().enumerate().take(count) {
        assert_eq!(*ns, index as u64 * 1_000_000_000 / (count as u64 + 1));
    }
    assert_eq!(played[count].1, "GET /late");
    assert_eq!(played[count + 1], (1_000_000_000, "GET /b".to_owned()));
}

#[test]
fn a_log_that_is_shorter_when_it_is_read_again_is_an_error_and_a_longer_one_is_not() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    for (first, second, expected) in [(3, 2, None), (2, 3, Some(2))] {
        // The format, and the whole, are looked at first.
        let texts = [first, first, second]
            .map(|count| Arc::<[u8]>::from(log(&[(7, "GET /a HTTP/1.1")]).repeat(count).into_bytes()));
        let opened = AtomicUsize::new(0);
        let open: OpenLog =
            Box::new(move || Ok(Box::new(io::Cursor::new(texts[opened.fetch_add(1, Ordering::Relaxed)].clone()))));
        let recording = Recording::scan("log", open, &ReplayOrders::at_speed(1.0), &HEAD, None).unwrap();
        let mut count = 0;
        let result = recording.for_each(|_, _, _| count += 1);
        match expected {
            Some(expected) => assert_eq!((result.is_ok(), count), (true, expected)),
            None => assert!(result.unwrap_err().to_string().contains("1 of its requests")),
        }
    }
}

#[test]
fn the_widest_span_of_years_does_not_overflow() {
    let line = |year| format!("h - - [01/Jan/{year}:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n");
    let recording = scan(line("9999") + &line("0001"), 1.0).unwrap();
    assert_eq!((recording.summary().start_unix_s, played(&recording)[1].0), (-62_135_596_800, u64::MAX));
}
