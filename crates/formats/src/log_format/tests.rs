//! A small sample of each format, written for these tests, and what is read of it.

use super::*;
use crate::access_log::LoggedRequest;

const THEN: i64 = 971_211_336;

/// Time, fraction in milliseconds, client, host, request and status of a line.
type Read<'a> = (i64, Option<u32>, &'a str, &'a str, &'a str, u16);

/// Reads a line of a sample in a format, and compares it.
#[track_caller]
fn check(format: &LogFormat, sample: &str, expected: &[Read<'_>]) {
    let mut reader = LogReader::new(format.clone());
    let mut found = Vec::new();
    for line in sample.lines() {
        let read = reader.read(line.as_bytes()).unwrap_or_else(|fault| panic!("{format}: {line}: {fault:?}"));
        let Some(logged) = read else { continue };
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let request = match logged.request {
            LoggedRequest::Line { method, target, .. } => format!("{method} {}", text(&target.decode())),
            LoggedRequest::Malformed(_) => String::new(),
        };
        let host = logged.virtual_host.map(text).unwrap_or_default();
        let fraction_ms = logged.fraction_ns.map(|ns| ns / 1_000_000);
        found.push((logged.time_unix_s, fraction_ms, text(logged.host), host, request, logged.status.unwrap_or(0)));
    }
    let found: Vec<Read<'_>> = found
        .iter()
        .map(|(time, fraction, client, host, request, status)| {
            (*time, *fraction, &**client, &**host, &**request, *status)
        })
        .collect();
    assert_eq!(found, expected, "{format}: {sample}");
}

fn named(text: &str) -> LogFormat {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// The format that is detected of a sample.
#[track_caller]
fn check_detected(sample: &str, name: &str) -> LogFormat {
    let lines: Vec<&[u8]> = sample.lines().map(str::as_bytes).collect();
    let Detected { format, matching, of } = detect(&lines);
    assert_eq!((&*format.name, matching), (name, of), "{sample}");
    format
}

const COMBINED: &str = "\
198.51.100.1, 203.0.113.7 - - [10/Oct/2000:20:55:36 +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"a\"
192.0.2.9 - - [10/Oct/2000:20:55:37 +0000] \"GET /good HTTP/1.1\" 200 5 \"-\" \"a\"";

const THALWEG: &str =
    r#"{"time":"2000-10-10T20:55:36Z","client":"::1","method":"GET","target":"/a\\x41","status":200,"bytes":1}"#;

const CADDY: &str = r#"{"level":"info","ts":971211336.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"41342","client_ip":"192.0.2.1","proto":"HTTP/2.0","method":"GET","host":"example.net","uri":"/a?b=1","headers":{"User-Agent":["curl/8"]}},"duration":0.0009,"size":10900,"status":200}"#;

const TRAEFIK: &str = r#"{"ClientAddr":"192.0.2.1:1234","ClientHost":"192.0.2.1","DownstreamContentSize":5,"DownstreamStatus":404,"RequestHost":"example.net","RequestMethod":"GET","RequestPath":"/a","StartUTC":"2000-10-10T20:55:36.25Z","time":"2000-10-10T20:55:37Z","request_User-Agent":"curl/8"}"#;

const GCP: &str = r#"{"httpRequest":{"remoteIp":"192.0.2.1","requestMethod":"GET","requestUrl":"https://example.net/a?b=1","responseSize":"12","status":200,"userAgent":"curl/8"},"timestamp":"2000-10-10T20:55:36.250Z"}"#;

/// As nginx writes it with `escape=json`.
const NGINX_JSON: &str = r#"{"time_iso8601":"2000-10-10T20:55:36+00:00","remote_addr":"192.0.2.1","request":"GET /a HTTP/1.1","status":"200"}"#;

const ALB: &str = "\
https 2000-10-10T20:55:36.250000Z app/lb/50dc6c495c0c9188 192.0.2.1:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 \"GET https://www.example.com:443/a?b HTTP/1.1\" \"curl/8 (x)\" ECDHE TLSv1.2 arn:aws:x \"Root=1-5\" \"www.example.com\" \"-\" 1 2000-10-10T20:55:36.000000Z \"forward\" \"-\" \"-\" \"10.0.0.1:80\" \"200\" \"-\" \"-\" TID_1
http 2000-10-10T20:55:37.000000Z app/lb/50dc6c495c0c9188 [2001:db8::1]:2817 - -1 -1 -1 400 - 0 0 \"- http://lb:80- -\" \"-\" - - - \"-\" \"-\" \"-\" - - \"-\" \"-\" \"-\" \"-\" \"-\" \"-\" \"-\"";

const CLOUDFRONT: &str = "\
#Version: 1.0
#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query
2000-10-10\t20:55:36\tFRA2\t182\t192.0.2.1\tGET\td111.cloudfront.net\t/a.html\t200\t-\tMozilla/5.0%20(X11)\tb=1
2000-10-10\t20:55:37\tFRA2\t182\t2001:db8::1\tHEAD\td111.cloudfront.net\t/a.html\t200\t-\t-\t-";

const IIS: &str = "\
#Software: Microsoft Internet Information Services 10.0
#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status
2000-10-10 20:55:36 10.0.0.1 GET /a.aspx id=1 80 - 192.0.2.1 Mozilla/5.0+(X11) - 200
#Fields: date time cs-method cs-uri-stem c-ip sc-status
2000-10-10 20:55:37 GET /b 192.0.2.1 404";

const HAPROXY: &str = "\
Oct 10 20:55:36 lb haproxy[14389]: 192.0.2.1:33317 [10/Oct/2000:20:55:36.250] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} \"GET /index.html HTTP/1.1\"
192.0.2.1:33318 [10/Oct/2000:20:55:37.000] http-in~ static/srv1 10/0/30/69/109 200 +2750 - - ---- 1/1/1/1/0 0/0 \"GET https://example.net/h2 HTTP/2.0\"
192.0.2.1:33319 [10/Oct/2000:20:55:38.000] http-in http-in/<NOSRV> -1/-1/-1/-1/3 400 0 - - PR-- 1/1/0/0/0 0/0 \"<BADREQ>\"";

#[test]
fn each_format_is_read_and_detected() {
    let format = check_detected(COMBINED, "common or combined");
    let expected =
        [(THEN, None, "198.51.100.1", "", "GET /x", 200), (THEN + 1, None, "192.0.2.9", "", "GET /good", 200)];
    check(&format, COMBINED, &expected);
    check(&named("combined"), COMBINED, &expected);
    let hosts = "example.net:80 192.0.2.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /x HTTP/1.1\" 200 5 \"-\" \"a\"";
    check(&named("vhost_combined"), hosts, &[(THEN, None, "192.0.2.1", "example.net", "GET /x", 200)]);
    check(&check_detected(THALWEG, "thalweg"), THALWEG, &[(THEN, None, "::1", "", "GET /a\\x41", 200)]);
    check(&check_detected(CADDY, "caddy"), CADDY, &[(THEN, Some(250), "192.0.2.1", "example.net", "GET /a?b=1", 200)]);
    check(
        &check_detected(TRAEFIK, "traefik"),
        TRAEFIK,
        &[(THEN, Some(250), "192.0.2.1", "example.net", "GET /a", 404)],
    );
    check(&check_detected(GCP, "gcp"), GCP, &[(THEN, Some(250), "192.0.2.1", "example.net", "GET /a?b=1", 200)]);
    check(&check_detected(NGINX_JSON, "JSON"), NGINX_JSON, &[(THEN, None, "192.0.2.1", "", "GET /a", 200)]);
    let expected = [
        (THEN, Some(250), "192.0.2.1", "www.example.com", "GET /a?b", 200),
        (THEN + 1, Some(0), "2001:db8::1", "", "", 400),
    ];
    check(&check_detected(ALB, "alb"), ALB, &expected);
    let expected = [
        (THEN, None, "192.0.2.1", "d111.cloudfront.net", "GET /a.html?b=1", 200),
        (THEN + 1, None, "2001:db8::1", "d111.cloudfront.net", "HEAD /a.html", 200),
    ];
    check(&check_detected(CLOUDFRONT, "w3c"), CLOUDFRONT, &expected);
    let expected =
        [(THEN, None, "192.0.2.1", "", "GET /a.aspx?id=1", 200), (THEN + 1, None, "192.0.2.1", "", "GET /b", 404)];
    check(&check_detected(IIS, "w3c"), IIS, &expected);
    let expected = [
        (THEN, Some(250), "192.0.2.1", "", "GET /index.html", 200),
        (THEN + 1, Some(0), "192.0.2.1", "example.net", "GET /h2", 200),
        (THEN + 2, Some(0), "192.0.2.1", "", "", 400),
    ];
    check(&check_detected(HAPROXY, "haproxy"), HAPROXY, &expected);
}

#[test]
fn the_strings_of_servers_configurations_are_formats() {
    let main = "$remote_addr - $remote_user [$time_local] \"$request\" $status $body_bytes_sent \"$http_referer\" \
                \"$http_user_agent\" \"$http_x_forwarded_for\"";
    let line = "10.0.0.1 - - [10/Oct/2000:20:55:36 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"a \\x22b\" \"192.0.2.1, 10.0.0.2\"";
    check(&named(main), line, &[(THEN, None, "192.0.2.1", "", "GET /a", 200)]);
    let directive = format!("log_format main '{}'\n    '{}';", &main[..40], &main[40..]);
    check(&named(&directive), line, &[(THEN, None, "192.0.2.1", "", "GET /a", 200)]);
    let own = "$msec|${request_method}|$uri$is_args$args|$status|$http_x_forwarded_for";
    let line = "971211336.250|GET|/a?b=c d|200|192.0.2.1, 10.0.0.2";
    check(&named(own), &line.replace(" d", ""), &[(THEN, Some(250), "192.0.2.1", "", "GET /a?b=c", 200)]);
    let front = "$http_x_forwarded_for $host [$time_iso8601] \"$request\"";
    let line = "192.0.2.1, 10.0.0.2 example.net [2000-10-10T20:55:36+00:00] \"GET /a HTTP/1.1\"";
    check(&named(front), line, &[(THEN, None, "192.0.2.1", "example.net", "GET /a", 0)]);
    let apache = r#"%v:%p %h %l %u %t \"%r\" %>s %O \"%{Referer}i\" \"%{User-Agent}i\""#;
    let line =
        "example.net:80 192.0.2.1 - john doe [10/Oct/2000:20:55:36 +0000] \"GET /a HTTP/1.1\" 200 5 \"-\" \"a\" more";
    check(&named(apache), line, &[(THEN, None, "192.0.2.1", "example.net", "GET /a", 200)]);
    let apache = "LogFormat \"%a %{msec}t \\\"%m %U%q\\\" %s\" short";
    check(
        &named(apache),
        "192.0.2.1 971211336250 \"GET /a?b\" 200",
        &[(THEN, Some(250), "192.0.2.1", "", "GET /a?b", 200)],
    );
    let apache = "%a [%{%d/%b/%Y:%H:%M:%S}t.%{msec_frac}t] %m %U %q";
    let line = "192.0.2.1 [10/Oct/2000:20:55:36.250] GET /a ?b";
    check(&named(apache), line, &[(THEN, Some(250), "192.0.2.1", "", "GET /a?b", 0)]);
    let mapping = "json:time=when,method=http.verb,target=http.url,client=peer,status=code";
    let line =
        r#"{"when":971211336250,"http":{"verb":"GET","url":"https://example.net/a"},"peer":"192.0.2.1:80","code":200}"#;
    check(&named(mapping), line, &[(THEN, Some(250), "192.0.2.1", "example.net", "GET /a", 200)]);
}

#[test]
fn formats_that_say_too_little_are_refused() {
    for (text, part) in [
        ("nothing", "expected one of"),
        ("$remote_addr \"$request\"", "no time"),
        ("$time_local $status", "no request"),
        ("$time_local $request_method$request_uri", "nothing between"),
        ("$time_local ${request", "no end"),
        ("%t %", "nothing behind"),
        ("%t %{x", "no }"),
        ("json:time=a", "time, and either request"),
        ("json:time=a,request", "expected a part"),
        ("json:tim=a,request=b", "no part of a line"),
    ] {
        let message = text.parse::<LogFormat>().expect_err(text);
        assert!(message.contains(part), "{text}: {message}");
    }
}

#[test]
fn lines_of_other_formats_are_refused_with_their_place() {
    let check = |format: &LogFormat, line: &str, at: usize, part: &str| {
        let mut reader = LogReader::new(format.clone());
        let fault = reader.read(line.as_bytes()).expect_err(line);
        assert!(fault.at == at && fault.expected.contains(part), "{line}: {fault:?}");
    };
    check(&named("caddy"), "{\"ts\":1", 6, "JSON");
    check(&named("caddy"), "{\"status\":1}", 0, "time");
    check(&named("caddy"), "[1]", 0, "JSON object");
    check(&named("w3c"), "2000-10-10 20:55:36 GET /", 0, "#Fields");
    check(&named("alb"), "http yesterday app", 5, "a time");
    check(&named("haproxy"), "a [10/Oct/2000:20:55:36.250] b", 28, "a frontend");
    check(&named("[$time_local] \"$request\""), "[10/Oct/2000:20:55:36 +0000] \"GET", 30, "the text behind it");
    check(&named("[$time_local] \"$request\""), "10/Oct/2000", 0, "text that the format has");
}

/// A prefix of a line, as of one that was copied while it was written, is read or refused; nothing
/// else happens.
#[test]
fn no_prefix_of_a_line_panics() {
    let formats = NAMES.iter().skip(1).map(|name| named(name));
    let strings = ["$time_local|$request|$http_x_forwarded_for|$status", "%t %m %U%q %h %{Host}i"].map(named);
    for format in formats.chain(strings) {
        for sample in [COMBINED, THALWEG, CADDY, TRAEFIK, GCP, ALB, CLOUDFRONT, IIS, HAPROXY] {
            let mut reader = LogReader::new(format.clone());
            for end in 0..sample.len() {
                for line in sample.as_bytes()[..end].split(|byte| *byte == b'\n').rev().take(1) {
                    let _ = reader.read(line);
                }
            }
        }
    }
}
