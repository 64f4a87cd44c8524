use globset::{Glob, GlobSet};
use proptest::prelude::*;

use super::*;
use crate::filter::{Filter, StatusRange};
use crate::settings::{CONTENTS_BYTES_MAX, Contents};

fn settings() -> Settings {
    Settings {
        format: LogFormat::common(),
        client: Client::AddressAndAgent,
        gap_s: 100,
        burst_s: 1,
        think_max_s: None,
        sessions_max: None,
        memory_bytes: 48_000_000,
        contents: None,
        filter: Filter::default(),
    }
}

fn filtered(filter: Filter) -> Settings {
    Settings { filter, ..settings() }
}

/// A line of a combined log: seconds after some time, address, agent and request.
fn line(at_s: u32, address: &str, agent: &str, request: &str) -> String {
    let (hour, minute, second) = (at_s / 3600, at_s / 60 % 60, at_s % 60);
    format!("{address} - - [10/Oct/2000:{hour:02}:{minute:02}:{second:02} +0000] \"{request}\" 200 1 \"-\" \"{agent}\"")
}

/// GETs of clients without an agent.
fn gets(requests: &[(u32, &str, &str)]) -> Vec<String> {
    requests.iter().map(|(at_s, client, target)| line(*at_s, client, "-", &format!("GET {target} HTTP/1.1"))).collect()
}

fn convert(settings: Settings, lines: &[String]) -> (String, Summary) {
    let (mut converter, mut out) = (Converter::new(settings), Vec::new());
    let sink: Sink<'_> = &mut |text: &[u8]| out.extend_from_slice(text);
    for line in lines {
        converter.push(line.as_bytes(), sink).unwrap_or_else(|fault| panic!("{line}: {fault:?}"));
    }
    let summary = converter.finish(sink);
    (String::from_utf8(out).unwrap(), summary)
}

#[track_caller]
fn check(settings: Settings, lines: &[String], expected: &str) -> Summary {
    let (text, summary) = convert(settings, lines);
    assert_eq!(text, expected, "{lines:#?}");
    assert_eq!(summary.lines, summary.bad_lines + summary.requests + summary.dropped.total(), "{summary:?}");
    assert_eq!(summary.requests, text.lines().filter(|line| !line.is_empty()).count() as u64);
    assert_eq!(summary.sessions, text.matches("\n\n").count() as u64);
    summary
}

#[test]
fn pages_are_followed_by_their_parts_and_the_think_time() {
    let log = [
        (10, "a", "/1"),
        (10, "a", "/1.css"),
        (11, "a", "/1.png"),
        (15, "a", "/2"),
        (17, "a", "/3"),
        (18, "a", "/3.png"),
    ];
    let summary = check(settings(), &gets(&log), "/1 think=4\n\t/1.css\n\t/1.png\n/2 think=2\n/3\n\t/3.png\n\n");
    assert_eq!((summary.bursts, summary.session_requests_max, summary.thinks.count()), (3, 6, 2));
    assert_eq!((summary.first_unix_s, summary.last_unix_s), (Some(971_136_010), Some(971_136_018)));
    let none = Settings { burst_s: 0, ..settings() };
    check(none, &gets(&log), "/1 think=1\n\t/1.css\n/1.png think=4\n/2 think=2\n/3 think=1\n/3.png\n\n");
    // The second is counted from the page on, so that a client without pauses is not one burst.
    let steady = gets(&[(1, "a", "/1"), (2, "a", "/2"), (3, "a", "/3"), (4, "a", "/4")]);
    check(settings(), &steady, "/1 think=1\n\t/2\n/3\n\t/4\n\n");
}

#[test]
fn think_times_are_shortened_to_the_longest_permitted_one() {
    let shortened = Settings { think_max_s: Some(3), ..settings() };
    let summary =
        check(shortened, &gets(&[(0, "a", "/1"), (3, "a", "/2"), (10, "a", "/3")]), "/1 think=3\n/2 think=3\n/3\n\n");
    assert_eq!(summary.thinks_shortened, 1);
}

#[test]
fn a_pause_longer_than_the_gap_ends_a_session() {
    check(settings(), &gets(&[(0, "a", "/1"), (100, "a", "/2"), (201, "a", "/3")]), "/1 think=100\n/2\n\n/3\n\n");
}

#[test]
fn sessions_stand_in_the_order_of_their_first_requests() {
    let log = gets(&[
        (0, "a", "/a1"),
        (1, "b", "/b1"),
        (90, "a", "/a2"),
        (150, "c", "/c"),
        (160, "a", "/a3"),
        (300, "d", "/d"),
    ]);
    let summary = check(settings(), &log, "/a1 think=90\n/a2 think=70\n/a3\n\n/b1\n\n/c\n\n/d\n\n");
    assert_eq!(summary.out_of_order, 0);
}

#[test]
fn clients_are_told_apart_by_address_and_agent() {
    let log = [
        line(0, "a", "x", "GET /1 HTTP/1.1"),
        line(9, "a", "y", "GET /2 HTTP/1.1"),
        line(10, "a", "x", "GET /3 HTTP/1.1"),
    ];
    check(settings(), &log, "/1 think=10\n/3\n\n/2\n\n");
    check(Settings { client: Client::Address, ..settings() }, &log, "/1 think=9\n/2\n\t/3\n\n");
}

#[test]
fn requests_that_are_a_little_out_of_order_are_put_in_their_place() {
    let log = gets(&[
        (10, "a", "/2"),
        (8, "a", "/1"),
        (30, "b", "/b"),
        (30, "a", "/4"),
        (20, "a", "/3"),
        (10, "a", "/2.png"),
    ]);
    let summary = check(settings(), &log, "/1 think=2\n/2 think=10\n\t/2.png\n/3 think=10\n/4\n\n/b\n\n");
    assert_eq!((summary.displaced, summary.dropped.late), (3, 0));
}

#[test]
fn requests_behind_the_gap_are_dropped_and_a_step_back_goes_on() {
    let late = gets(&[(1000, "a", "/1"), (899, "b", "/late"), (900, "b", "/2")]);
    assert_eq!(check(settings(), &late, "/1\n\n/2\n\n").dropped.late, 1);
    let mut older = gets(&[(5000, "a", "/new")]);
    older.extend(gets(&vec![(10, "b", "/old"); LATE_LINES_MAX as usize + 1]));
    older.extend(gets(&[(12, "b", "/old2")]));
    let summary = check(settings(), &older, "/new\n\n/old think=2\n/old2\n\n");
    assert_eq!((summary.steps_back, summary.dropped.late), (1, u64::from(LATE_LINES_MAX)));
}

#[test]
fn the_first_sessions_to_begin_are_taken_whole() {
    let two = Settings { sessions_max: Some(2), ..settings() };
    let log = gets(&[
        (0, "a", "/a1"),
        (0, "b", "/b"),
        (1, "c", "/c"),
        (50, "a", "/a2"),
        (140, "b", "/b2"),
        (149, "a", "/a3"),
    ]);
    let summary = check(two.clone(), &log, "/a1 think=50\n/a2 think=99\n/a3\n\n/b\n\n");
    assert_eq!(summary.dropped.beyond, 2);
    let mut converter = Converter::new(two);
    let out: Sink<'_> = &mut |_: &[u8]| {};
    for line in &log {
        converter.push(line.as_bytes(), out).unwrap();
        assert!(!converter.is_full());
    }
    converter.push(gets(&[(250, "x", "/")])[0].as_bytes(), out).unwrap();
    assert!(converter.is_full());
}

#[test]
fn memory_is_bounded_by_ending_the_longest_idle_sessions() {
    let bounded = Settings { memory_bytes: 20_000, ..settings() };
    let clients: Vec<_> = (0..1000).map(|number| format!("10.0.0.{number}")).collect();
    let mut log: Vec<_> = clients.iter().map(|client| (0, client.as_str(), "/1")).collect();
    log.extend([(1, "10.0.0.999", "/2"), (1, "10.0.0.0", "/2")]);
    let (mut converter, mut out, mut most) = (Converter::new(bounded), Vec::new(), 0);
    let sink: Sink<'_> = &mut |text: &[u8]| out.extend_from_slice(text);
    for line in gets(&log) {
        converter.push(line.as_bytes(), sink).unwrap();
        most = most.max(converter.open.bytes() + converter.order.bytes());
    }
    let summary = converter.finish(sink);
    assert!((10_000..=20_000).contains(&most), "{most}");
    assert!((800..950).contains(&summary.closed_for_memory), "{}", summary.closed_for_memory);
    // The client of the last line but one still had its session, and that of the last line had not.
    assert_eq!((summary.sessions, summary.requests), (1001, 1002));
    assert!(String::from_utf8(out).unwrap().contains("/1\n\t/2\n\n"));
}

#[test]
fn finished_sessions_wait_for_an_earlier_one_only_while_there_is_memory() {
    let bounded = Settings { memory_bytes: 20_000, ..settings() };
    let names: Vec<_> = (0..2000).map(|number| format!("10.0.0.{number}")).collect();
    let endless = (0..2000).step_by(50).map(|at_s| (at_s, "endless", "/e"));
    let mut log: Vec<_> = (0..2000).map(|at_s| (at_s, names[at_s as usize].as_str(), "/1")).chain(endless).collect();
    log.sort_by_key(|(at_s, client, _)| (*at_s, *client != "endless"));
    let (text, summary) = convert(bounded, &gets(&log));
    assert_eq!((summary.sessions, summary.closed_for_memory, summary.out_of_order), (2001, 0, 1));
    assert!(text.starts_with("/1\n\n/1\n\n"));
}

/// A caller that writes what it gets needs no memory for all that has waited.
#[test]
fn sessions_are_given_out_one_by_one() {
    let log =
        gets(&(0..1000).map(|number| (number, if number == 0 { "first" } else { "other" }, "/")).collect::<Vec<_>>());
    let clients: Vec<_> =
        log.iter().enumerate().map(|(number, line)| line.replace("other", &number.to_string())).collect();
    let (mut converter, mut longest, mut times) = (Converter::new(settings()), 0, 0);
    let sink: Sink<'_> = &mut |text: &[u8]| (longest, times) = (text.len().max(longest), times + 1);
    for line in &clients {
        converter.push(line.as_bytes(), sink).unwrap();
    }
    converter.finish(sink);
    assert_eq!((longest, times), (3, 1000));
}

#[test]
fn a_session_ends_at_its_longest_length() {
    let log = gets(&vec![(0, "a", "/"); 2 * CALLS_MAX + 1]);
    let (_, summary) = convert(settings(), &log);
    assert_eq!((summary.sessions, summary.closed_for_length), (3, 2));
    assert_eq!(summary.session_requests_max, CALLS_MAX as u64);
}

#[test]
fn methods_are_written_and_bodies_have_to_be_given() {
    let methods = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
    let log = methods.map(|method| line(0, "a", "-", &format!("{method} /{method} HTTP/1.1")));
    let summary = check(settings(), &log, "/GET\n\t/HEAD method=HEAD\n\n");
    assert_eq!((summary.dropped.method, summary.dropped.body), (4, 1));
    let contents = Some(Contents::new("a\"b\\ c\n").unwrap());
    let all = Filter { methods: LoggedMethod::ALL.into_iter().collect(), ..Filter::default() };
    let expected = "/GET\n\t/HEAD method=HEAD\n\t/POST method=POST contents=\"a\\\"b\\\\ c\\n\"\n\
                    \t/PUT method=PUT contents=\"a\\\"b\\\\ c\\n\"\n\t/DELETE method=DELETE\n\t/OPTIONS method=OPTIONS\n\n";
    assert_eq!(check(Settings { contents, ..filtered(all) }, &log, expected).dropped.method, 1);
    assert!(Contents::new(&"x".repeat(CONTENTS_BYTES_MAX - 2)).is_ok() && Contents::new(&"\n".repeat(4_000)).is_err());
}

#[test]
fn targets_are_written_as_they_can_be_sent() {
    let long = format!("/{}", "x".repeat(9_900));
    let targets = ["/a%20b?c=d", "/\\xc3\\xa9", "http://h/x", "/a#b", "*", &long];
    let log: Vec<_> = targets.iter().map(|target| line(0, "a", "-", &format!("GET {target} HTTP/1.1"))).collect();
    assert_eq!(check(settings(), &log, "/a%20b?c=d\n\t/%C3%A9\n\n").dropped.target, 4);
    let malformed = [line(0, "a", "-", ""), line(0, "a", "-", "\\x16\\x03"), line(0, "a", "-", "GET / HTTP/1.1")];
    assert_eq!(check(settings(), &malformed, "/\n\n").dropped.malformed, 2);
}

#[test]
fn requests_are_filtered_by_status_path_and_time() {
    let glob = |pattern: &str| Some(GlobSet::builder().add(Glob::new(pattern).unwrap()).build().unwrap());
    let log = gets(&[(0, "a", "/shop/1.html?x.png"), (5, "a", "/shop/img/1.png"), (9, "a", "/other.html")]);
    let check = |filter, expected: &str| check(filtered(filter), &log, expected);
    let include = check(
        Filter { include: glob("/shop/*"), ..Filter::default() },
        "/shop/1.html?x.png think=5\n/shop/img/1.png\n\n",
    );
    assert_eq!(include.dropped.path, 1);
    check(Filter { exclude: glob("*.png"), ..Filter::default() }, "/shop/1.html?x.png think=9\n/other.html\n\n");
    let (from_unix_s, to_unix_s) = (Some(971_136_005), Some(971_136_009));
    let time = check(Filter { from_unix_s, to_unix_s, ..Filter::default() }, "/shop/img/1.png\n\n");
    assert_eq!(time.dropped.time, 2);
    let statuses = vec![StatusRange(200, 200)];
    check(
        Filter { statuses, ..Filter::default() },
        "/shop/1.html?x.png think=5\n/shop/img/1.png think=4\n/other.html\n\n",
    );
    let statuses = vec![StatusRange(304, 304), StatusRange(400, 499)];
    assert_eq!(check(Filter { statuses, ..Filter::default() }, "").dropped.status, 3);
}

#[test]
fn virtual_hosts_are_selected_and_otherwise_refused() {
    let with_host = |host: &str, line: String| format!("{host} {line}");
    let plain = gets(&[(0, "10.0.0.1", "/1"), (1, "10.0.0.1", "/2")]);
    let log = [with_host("www.Example.com:443", plain[0].clone()), with_host("other:80", plain[1].clone())];
    let host = Some("www.example.com".to_owned());
    assert_eq!(check(filtered(Filter { host: host.clone(), ..Filter::default() }), &log, "/1\n\n").dropped.host, 1);
    let fault = Converter::new(settings()).push(log[0].as_bytes(), &mut |_: &[u8]| {}).unwrap_err();
    assert!(fault.expected.contains("--host"), "{fault:?}");
    let fault =
        Converter::new(filtered(Filter { host, ..Filter::default() })).push(b"a b", &mut |_: &[u8]| {}).unwrap_err();
    assert_eq!(fault.at, 3);
}

proptest! {
    /// Every line has one fate, and each kept request is written once, whatever the memory.
    #[test]
    fn no_request_is_lost_or_written_twice(
        log in proptest::collection::vec((0_u32..2000, 0_u8..20), 0..300),
        memory_bytes in 1_000_usize..40_000,
        sessions_max in proptest::option::of(1_u64..50),
    ) {
        let lines: Vec<_> =
            log.iter().enumerate().map(|(number, (at_s, client))| line(*at_s, &client.to_string(), "-", &format!("GET /{number} HTTP/1.1"))).collect();
        let (text, summary) = convert(Settings { memory_bytes, sessions_max, ..settings() }, &lines);
        prop_assert_eq!(summary.lines, summary.requests + summary.dropped.total());
        let mut targets: Vec<_> = text.split_whitespace().filter(|word| word.starts_with('/')).collect();
        prop_assert_eq!(targets.len() as u64, summary.requests);
        targets.sort_unstable();
        targets.dedup();
        prop_assert_eq!(targets.len() as u64, summary.requests);
        prop_assert_eq!(text.matches("\n\n").count() as u64, summary.sessions);
        prop_assert_eq!(summary.bursts - summary.sessions, summary.thinks.count());
        prop_assert!(sessions_max.is_none_or(|max| summary.sessions <= max));
    }
}
