//! Requests that origins answer: fields, conditions and ranges of forwarded objects, objects that
//! the loop holds, other methods with their contents, and failures.

use std::sync::Arc;

use thalweg_caching::FieldLines;
use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};

use super::accounted::{account_for, records};
use super::streams::{report, texts};
use super::tier::{Delivery, Ending, Kind, ScriptedTier, forwarding};
use super::{Outcome, SECOND_NS, Step, folder, naive, send, world};
use crate::config::{Limits, Rule, ServerConfig, Settings};

/// A small object that is fresh for a time.
fn held(fresh_s: i64, fields: &[(&'static str, &str)]) -> Delivery {
    let fields = fields.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    Delivery::of(Kind::Held { fresh_s, fields }, 1, 1, Ending::Complete)
}

fn simulate(tier: &Arc<ScriptedTier>, config: &ServerConfig, scripts: Vec<Vec<Step>>) -> Vec<Outcome> {
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = thalweg_sys::Driver::now(&driver);
    let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), scripts);
    world.forward(tier, config);
    run(&mut driver, &mut world).unwrap();
    world.outcomes(start)
}

/// The responses to requests that are made one after the other, each a second after the one before.
fn responses(tier: &Arc<ScriptedTier>, requests: &[&str]) -> Vec<naive::Response> {
    let steps = requests.iter().flat_map(|request| [send(request), Step::Rest(SECOND_NS)]);
    let steps = steps.chain([Step::Finish]).collect();
    let methods: Vec<_> = requests.iter().map(|request| request.split(' ').next().unwrap()).collect();
    let outcome = simulate(tier, &forwarding(&["GET", "HEAD", "POST"]), vec![steps]).remove(0);
    naive::take_all(&outcome.received, &methods)
}

fn get(fields: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n")
}

const STRONG: &[(&str, &str)] = &[
    ("Content-Type", "text/plain"),
    ("ETag", "\"v1\""),
    ("Last-Modified", "Tue, 02 Oct 2096 06:00:00 GMT"),
    ("Cache-Control", "max-age=60"),
    ("Content-Language", "en"),
];

#[test]
fn held_objects_answer_until_they_are_stale() {
    let tier = ScriptedTier::new([("/a", held(5, STRONG))]);
    let request = get("");
    let responses = responses(&tier, &[request.as_str(); 8]);
    let status = |response: &naive::Response| response.field("cache-status").unwrap().to_owned();
    let miss = "thalweg;fwd=uri-miss;stored";
    let shown: Vec<_> = responses.iter().map(|response| (response.field("age").unwrap(), status(response))).collect();
    let shown: Vec<_> = shown.iter().map(|(age, status)| (*age, status.as_str())).collect();
    let hits = [
        ("1", "thalweg;hit;ttl=4"),
        ("2", "thalweg;hit;ttl=3"),
        ("3", "thalweg;hit;ttl=2"),
        ("4", "thalweg;hit;ttl=1"),
    ];
    assert_eq!(shown[0], ("0", miss));
    assert_eq!(shown[1..5], hits);
    assert_eq!((shown[5], shown[6]), (("0", miss), hits[0]));
    assert_eq!((tier.seen().len(), tier.hits()), (2, (6, 8000)));
    for response in &responses {
        assert_eq!((response.status, response.body.len()), (200, 1000));
        for (name, value) in [STRONG, &[("Date", "Tue, 02 Oct 2096 07:06:40 GMT"), ("Content-Length", "1000")]].concat()
        {
            let found: Vec<_> = response.fields.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name)).collect();
            assert_eq!(found.len(), 1, "{name}");
            assert_eq!(response.field(&name.to_ascii_lowercase()), Some(value));
        }
        assert_eq!(response.field("server"), None, "the origin names none");
    }
}

#[test]
fn requests_that_speak_to_caches_are_asked_and_a_new_generation_ends_what_is_held() {
    #[track_caller]
    fn check(fields: &str, asked: usize) {
        let tier = ScriptedTier::new([("/a", held(60, STRONG))]);
        responses(&tier, &[&get(""), &get(fields)]);
        assert_eq!(tier.seen().len(), asked, "{fields}");
    }
    check("", 1);
    check("Accept-Encoding: gzip\r\nCookie: a\r\nPriority: u=1\r\n", 1);
    check("Range: bytes=0-9\r\n", 1);
    check("If-None-Match: \"v1\"\r\n", 1);
    check("cache-control: no-cache\r\n", 2);
    check("Pragma: no-cache\r\n", 2);
    check("Authorization: Basic x\r\n", 2);
    // Only the origin can tell that it has no newer version.
    check("If-Match: \"v2\"\r\n", 2);
    let tier = ScriptedTier::new([("/a", held(60, STRONG))]);
    let other = Arc::clone(&tier);
    for (invalidates, asked) in [(false, 1), (true, 3)] {
        let folder = folder();
        let mut driver = Sim::new(SimConfig::calm(1));
        let steps = vec![send(&get("")), Step::Rest(2 * SECOND_NS), send(&get("")), Step::Finish];
        let (mut world, _) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
        world.forward(&tier, &forwarding(&["GET"]));
        if invalidates {
            let (at, other) = (thalweg_sys::Driver::now(&driver).plus_ns(SECOND_NS), Arc::clone(&other));
            world.edits.push_back((at, Box::new(move || other.invalidate())));
        }
        run(&mut driver, &mut world).unwrap();
        assert_eq!(tier.seen().len(), asked);
    }
}

#[test]
fn conditions_and_ranges_hold_for_objects_that_are_held_or_not() {
    #[track_caller]
    fn check(tag: &str, fields: &str, status: u16, body: usize) {
        let lines = [("ETag", tag), ("Cache-Control", "max-age=60"), ("Content-Type", "text/plain")];
        for fresh_s in [0, 60] {
            let lines: Vec<_> = lines.iter().map(|&(name, value)| (name, value)).collect();
            let tier = ScriptedTier::new([("/a", held(fresh_s, &lines))]);
            let responses = responses(&tier, &[&get(""), &get(fields)]);
            assert_eq!(responses[1].status, status, "{tag} {fields} {fresh_s}");
            // The page of an error has a length of its own.
            assert!(status >= 400 || responses[1].body.len() == body, "{tag} {fields} {fresh_s}");
            if status == 304 {
                let names: Vec<_> = responses[1].fields.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
                assert_eq!(names, ["date", "etag", "cache-control", "age", "cache-status"]);
            }
        }
    }
    for tag in ["\"v1\"", "W/\"v1\""] {
        check(tag, "If-None-Match: \"v1\"\r\n", 304, 0);
        check(tag, "If-None-Match: W/\"v1\"\r\n", 304, 0);
        check(tag, "If-None-Match: \"v2\"\r\n", 200, 1000);
        check(tag, "Range: bytes=10-19\r\n", 206, 10);
        check(tag, "Range: bytes=2000-\r\n", 416, 0);
    }
    // A weak tag binds no bytes (RFC 9110, 13.1.5).
    check("\"v1\"", "Range: bytes=10-19\r\nIf-Range: \"v1\"\r\n", 206, 10);
    check("W/\"v1\"", "Range: bytes=10-19\r\nIf-Range: W/\"v1\"\r\n", 200, 1000);
    check("W/\"v1\"", "If-Match: W/\"v1\"\r\n", 412, 0);
    check("\"v1\"", "If-Match: \"v1\"\r\n", 200, 1000);
    // Without Last-Modified it is about Date.
    check("\"v1\"", "If-Modified-Since: Tue, 02 Oct 2096 07:06:40 GMT\r\n", 304, 0);
    check("\"v1\"", "If-Modified-Since: Tue, 02 Oct 2096 07:06:39 GMT\r\n", 200, 1000);
}

#[test]
fn a_head_has_the_fields_and_no_body() {
    let relay = Kind::Relay { status: 403, tells_length: true };
    let tier = ScriptedTier::new([("/a", held(60, STRONG)), ("/b", Delivery::of(relay, 3, 1, Ending::Complete))]);
    let head = "HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let responses = responses(&tier, &[head, head, "HEAD /b HTTP/1.1\r\nHost: h\r\n\r\n"]);
    let told: Vec<_> = responses.iter().map(|response| (response.status, response.field("content-length"))).collect();
    assert_eq!(told, [(200, Some("1000")), (200, Some("1000")), (403, Some("3000"))]);
    assert_eq!((responses[1].field("age"), tier.hits()), (Some("1"), (1, 0)));
}

#[test]
fn settings_of_the_mount_hold_for_forwarded_objects() {
    let tier = ScriptedTier::new([("/a", held(60, STRONG))]);
    let mut config = forwarding(&["GET"]);
    let settings = Settings {
        headers: vec![("X-Mirror".to_owned(), "1".to_owned())],
        cache_control: Some("no-cache".to_owned()),
        ..Settings::default()
    };
    config.sites[0].rules.push(Rule { settings, ..Rule::default() });
    let outcomes = simulate(&tier, &config, vec![vec![send(&get("")), send(&get("")), Step::Finish]]);
    for response in naive::take_all(&outcomes[0].received, &["GET"]) {
        assert_eq!((response.field("x-mirror"), response.field("cache-control")), (Some("1"), Some("no-cache")));
    }
}

#[test]
fn what_is_forwarded_has_the_fields_of_the_request_and_its_target() {
    let tier = ScriptedTier::new([("/a%20b?x=1", held(0, STRONG))]);
    let request =
        "GET /c/../a%20b?x=1 HTTP/1.1\r\nHost: H.example:80\r\nAccept: a/b\r\nConnection: X-Own\r\nX-Own: 1\r\n\r\n";
    let responses = responses(&tier, &[request]);
    assert_eq!(responses[0].status, 200);
    let fields: Vec<_> = tier.last_fields().lines().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(fields, ["Accept", "X-Forwarded-For"]);
}

#[test]
fn other_methods_are_forwarded_with_their_contents_if_the_mount_has_them() {
    let done = Kind::Relay { status: 201, tells_length: true };
    let tier = ScriptedTier::new([("/a", Delivery::of(done, 1, 1, Ending::Complete))]);
    let length = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello";
    let chunked = "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    let none = "POST /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let options = "OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let responses = responses(&tier, &[length, chunked, none, options, "PUT /a HTTP/1.1\r\nHost: h\r\n\r\n"]);
    let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    assert_eq!(statuses, [201, 201, 201, 201, 405]);
    assert_eq!(responses[4].field("allow"), Some("GET, HEAD, POST, OPTIONS"));
    let seen: Vec<_> = tier.seen().into_iter().map(|(method, _, content)| (method, content.to_vec())).collect();
    let expected = [("POST", "hello"), ("POST", "hello"), ("POST", ""), ("OPTIONS", "")];
    assert_eq!(seen, expected.map(|(method, content)| (method.to_owned(), content.as_bytes().to_vec())));
}

#[test]
fn options_go_no_further_than_they_may() {
    let done = Kind::Relay { status: 204, tells_length: true };
    let tier = ScriptedTier::new([("/a", Delivery::of(done, 0, 1, Ending::Complete))]);
    let options = |forwards: &str| format!("OPTIONS /a HTTP/1.1\r\nHost: h\r\nMax-Forwards: {forwards}\r\n\r\n");
    let responses = responses(&tier, &[&options("0"), &options("1"), &options("x")]);
    let allowed: Vec<_> = responses.iter().map(|response| (response.status, response.field("allow"))).collect();
    assert_eq!(allowed, [(204, Some("GET, HEAD, POST, OPTIONS")), (204, None), (204, None)]);
    assert_eq!(tier.seen().len(), 2);
}

/// A configuration with a rule for scripts of other sites.
fn shared(methods: &[&str], headers: &[(&str, &str)]) -> ServerConfig {
    let mut config = forwarding(methods);
    let headers = headers.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
    let settings = Settings { headers, cache_control: Some("max-age=9".to_owned()), ..Settings::default() };
    config.sites[0].rules = vec![Rule { folder: Some("/s/".to_owned()), settings, ..Rule::default() }];
    config
}

#[test]
fn preflights_are_answered_by_the_rules_that_allow_something() {
    let done = Kind::Relay { status: 200, tells_length: true };
    let of_origin = Delivery::of(done, 1, 1, Ending::Complete);
    let tier = ScriptedTier::new([("/a", of_origin.clone()), ("/s/a", of_origin)]);
    let config = shared(
        &["GET", "HEAD", "POST"],
        &[("Access-Control-Allow-Origin", "*"), ("Access-Control-Allow-Headers", "Range"), ("X-Rule", "1")],
    );
    let options = |path: &str, more: &str| send(&format!("OPTIONS {path} HTTP/1.1\r\nHost: h\r\n{more}\r\n"));
    let preflight = "Origin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n";
    let steps =
        vec![options("/s/a", preflight), options("/a", preflight), options("/s/a", "Origin: x\r\n"), Step::Finish];
    let outcome = simulate(&tier, &config, vec![steps]).remove(0);
    let responses = naive::take_all(&outcome.received, &["OPTIONS"; 3]);
    let methods = "GET, HEAD, POST, OPTIONS";
    for (name, value) in [
        ("access-control-allow-origin", Some("*")),
        ("access-control-allow-headers", Some("Range")),
        ("access-control-allow-methods", Some(methods)),
        ("allow", Some(methods)),
        ("x-rule", None),
        ("cache-control", None),
    ] {
        assert_eq!(responses[0].field(name), value, "{name}");
    }
    assert_eq!(responses.iter().map(|response| response.status).collect::<Vec<_>>(), [204, 200, 200]);
    assert_eq!(tier.seen().len(), 2, "the others are the origin's");
    assert_eq!(responses[2].field("x-rule"), Some("1"), "what goes through has the fields of the rule");
}

#[test]
fn contents_are_asked_for_bounded_and_not_waited_for_longer_than_a_client_may_stall() {
    let done = Kind::Relay { status: 201, tells_length: true };
    let tier = ScriptedTier::new([("/a", Delivery::of(done, 1, 1, Ending::Complete))]);
    let mut config = forwarding(&["GET", "HEAD", "POST"]);
    config.sites[0].mounts[0].forwarding.content_bytes_max = 100_000;
    let head = |fields: &str| send(&format!("POST /a HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n"));
    let body = || Step::Send(vec![b'x'; 100_000]);
    let continued =
        vec![head("Content-Length: 100000\r\nExpect: 100-continue"), Step::Receive(25), body(), Step::Finish];
    let long = vec![head("Content-Length: 100001")];
    let chunked = vec![head("Transfer-Encoding: chunked"), send("186a0\r\n"), body(), send("\r\n1\r\nx\r\n0\r\n\r\n")];
    let late = vec![head("Content-Length: 2"), send("x")];
    let outcomes = simulate(&tier, &config, vec![continued, long, chunked, late]);
    let (interim, rest) = outcomes[0].received.split_at(25);
    assert_eq!(interim, b"HTTP/1.1 100 Continue\r\n\r\n");
    assert_eq!(naive::take_all(rest, &["POST"])[0].status, 201);
    let statuses: Vec<_> =
        outcomes[1..].iter().map(|outcome| naive::take_all(&outcome.received, &["POST"])[0].status).collect();
    assert_eq!(statuses, [413, 413, 408]);
    assert_eq!(outcomes[3].lasted.as_secs(), Limits::default().stall_time.as_secs());
    assert_eq!(tier.seen().len(), 1);
}

#[test]
fn where_only_reading_is_forwarded_other_methods_are_answered_here() {
    let tier = ScriptedTier::new([("/a", held(60, STRONG))]);
    let requests =
        ["OPTIONS /a HTTP/1.1\r\nHost: h\r\n\r\n", "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhi"];
    let steps = vec![send(requests[0]), send(requests[1]), send(&get("")), Step::Finish];
    let outcome = simulate(&tier, &forwarding(&["GET", "HEAD"]), vec![steps]).remove(0);
    let responses = naive::take_all(&outcome.received, &["OPTIONS", "POST", "GET"]);
    let told: Vec<_> = responses.iter().map(|response| (response.status, response.field("allow"))).collect();
    let allow = Some("GET, HEAD, OPTIONS");
    assert_eq!(told, [(204, allow), (405, allow), (200, None)]);
    assert_eq!(tier.seen().len(), 1);
}

#[test]
fn a_failure_is_a_page_that_says_how_and_is_reported_with_its_reason() {
    let of = |status| Delivery::of(Kind::Failed(status), 0, 1, Ending::Complete);
    let tier = ScriptedTier::new([("/502", of(502)), ("/503", of(503)), ("/504", of(504))]);
    let folder = folder();
    let mut driver = Sim::new(SimConfig::calm(1));
    let start = thalweg_sys::Driver::now(&driver);
    let requests = ["/502", "/503", "/504"].map(|path| send(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")));
    let steps = requests.into_iter().chain([Step::Finish]).collect();
    let (mut world, published) = world(&mut driver, &Limits::default(), folder.path(), vec![steps]);
    let reports = report(&mut world);
    let (_, pages) = account_for(&mut world, folder.path());
    world.forward(&tier, &forwarding(&["GET"]));
    run(&mut driver, &mut world).unwrap();
    let outcomes = world.outcomes(start);
    let responses = naive::take_all(&outcomes[0].received, &["GET"]);
    let statuses: Vec<_> = responses.iter().map(|response| response.status).collect();
    assert_eq!((statuses, published[0].totals().responses[3]), (vec![502, 503, 504], 3));
    assert!(responses.iter().all(|response| response.field("cache-status") == Some("thalweg;fwd=miss")));
    let texts = texts(&reports);
    assert_eq!(texts.len(), 1, "once a minute: {texts:?}");
    assert!(texts[0].contains("502 for /502: the simulated origin refuses"), "{texts:?}");
    assert_eq!(records(&pages).len(), 3);
}
