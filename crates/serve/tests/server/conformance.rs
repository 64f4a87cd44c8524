//! Requests as bytes and what has to come back, over both drivers.

use thalweg_sys::DriverChoice;

use crate::naive::{Response, multipart, take, take_all};
use crate::served::{Served, each_driver, large, letters};

/// The expected response.
#[derive(Default)]
struct Expected {
    status: u16,
    /// Fields that have to be there.
    fields: Vec<(&'static str, String)>,
    /// Fields that must not be there.
    without: Vec<&'static str>,
    body: Option<Vec<u8>>,
    /// Whether the server goes on with a second request behind the first.
    closes: bool,
}

fn status(status: u16) -> Expected {
    Expected { status, ..Expected::default() }
}

impl Expected {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    fn without(mut self, name: &'static str) -> Self {
        self.without.push(name);
        self
    }

    fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    fn closes(mut self) -> Self {
        self.closes = true;
        self.with("Connection", "close")
    }
}

const SECOND: &[u8] = b"GET /sub/page.html HTTP/1.1\r\nHost: h\r\n\r\n";

/// Sends the request, and a second one behind it that shows whether the connection goes on.
fn check(served: &Served, name: &str, request: &str, expected: &Expected) -> Response {
    let bytes = served.exchange(&[request.as_bytes(), SECOND].concat());
    let mut rest = bytes.as_slice();
    let method = request.split(' ').next().unwrap();
    let response = take(&mut rest, method).unwrap_or_else(|| panic!("{name}: no response to {request:?}"));
    assert_eq!(response.status, expected.status, "{name}: {request:?}: {response:?}");
    for (field, value) in &expected.fields {
        assert_eq!(response.field(field), Some(value.as_str()), "{name}: {request:?}: {field}");
    }
    for field in &expected.without {
        assert_eq!(response.field(field), None, "{name}: {request:?}: {field}");
    }
    if let Some(body) = &expected.body {
        assert!(response.body == *body, "{name}: {request:?}: body {}", response.body.escape_ascii());
    }
    let date = response.field("Date").unwrap_or_else(|| panic!("{name}: no Date"));
    assert!(date.len() == 29 && date.ends_with(" GMT"), "{name}: {date}");
    let second = take_all(rest, &["GET"]);
    assert_eq!(second.is_empty(), expected.closes, "{name}: {request:?}: {second:?}");
    assert!(second.iter().all(|response| response.body == b"<p>page</p>"));
    response
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n")
}

fn get_with(path: &str, fields: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n\r\n")
}

fn run_table(cases: &[(&str, String, Expected)]) {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        // Twice: the second time from the cache.
        for round in ["first", "again"] {
            for (name, request, expected) in cases {
                check(&served, &format!("{driver:?} {round}: {name}"), request, expected);
            }
        }
        served.stop();
    });
}

#[test]
fn files() {
    let whole = || status(200).with("Accept-Ranges", "bytes").with("Server", "thalweg").without("Connection");
    run_table(&[
        ("a small file", get("/letters"), whole().with("Content-Length", "1000").body(letters())),
        ("a large file", get("/large.bin"), whole().with("Content-Length", "3000000").body(large())),
        ("an empty file", get("/empty.txt"), whole().with("Content-Length", "0").body("")),
        ("a query", get("/letters?x=/../y"), whole().body(letters())),
        ("an escaped name", get("/with%20space.txt"), whole().body("space")),
        ("needless escapes", get("/%6Cetters"), whole().body(letters())),
        ("a hidden file", get("/.hidden"), status(404)),
        ("doubled slashes", get("//sub///page.html"), whole().body("<p>page</p>")),
        ("dot segments inside", get("/sub/./../letters"), whole().body(letters())),
        ("a link", get("/sub/inside"), whole().body("<p>page</p>")),
        ("a link to above, inside the root", get("/sub/up"), whole().body(letters())),
        ("HTML", get("/sub/page.html"), whole().with("Content-Type", "text/html; charset=utf-8")),
        ("text", get("/empty.txt"), whole().with("Content-Type", "text/plain; charset=utf-8")),
        ("an unknown type", get("/letters"), whole().with("Content-Type", "application/octet-stream")),
        ("an absolute target", get("http://other/letters"), whole().body(letters())),
        ("an absolute target without a path", get("http://other"), status(404)),
        ("an unknown scheme", get("ftp://other/letters"), status(400)),
        (
            "an index",
            get("/sub/with%20index/"),
            whole().with("Content-Type", "text/html; charset=utf-8").body("<p>index</p>"),
        ),
        ("HEAD", "HEAD /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(), whole().with("Content-Length", "1000")),
        ("HEAD of a large file", "HEAD /sparse HTTP/1.1\r\nHost: h\r\n\r\n".into(), {
            whole().with("Content-Length", (5u64 << 30).to_string())
        }),
    ]);
}

#[test]
fn files_that_are_not_served() {
    run_table(&[
        ("a missing file", get("/missing"), status(404).with("Content-Type", "text/html; charset=utf-8")),
        ("a missing folder", get("/missing/file"), status(404)),
        ("a folder without an index", get("/sub/"), status(404)),
        ("a file as a folder", get("/letters/"), status(404)),
        ("beneath a file", get("/letters/x"), status(404)),
        ("a FIFO", get("/fifo"), status(404)),
        ("above the root", get("/../etc/passwd"), status(400)),
        ("above the root, escaped", get("/%2e%2e/etc/passwd"), status(400)),
        ("above the root, deep", get("/sub/../../etc/passwd"), status(400)),
        ("above the root, twice escaped", get("/%252e%252e/etc/passwd"), status(404)),
        ("an escaped slash", get("/sub/%2f../letters"), status(404)),
        ("an escaped slash in a name", get("/sub%2fpage.html"), status(404)),
        ("a backslash", get("/..\\..\\etc\\passwd"), status(404)),
        ("an overlong dot", get("/%c0%ae%c0%ae/etc/passwd"), status(404)),
        ("NUL", get("/letters%00.html"), status(400)),
        ("a broken escape", get("/letters%4"), status(400)),
        ("an absolute link", get("/absolute"), status(404)),
        ("a link out of the root", get("/outside"), status(404)),
        ("through a link out of the root", get("/root/etc/passwd"), status(404)),
        ("a link to the root, slash", get("/root/"), status(404)),
        ("a name that is too long", get(&format!("/{}", "x".repeat(300))), status(404)),
        ("a path that is too long", get(&"/x".repeat(2500)), status(404)),
        ("a folder", get("/sub"), status(301).with("Location", "/sub/")),
        ("a folder with a query", get("/sub?a=b&c"), status(301).with("Location", "/sub/?a=b&c")),
        ("a folder that needs escapes", get("/sub/with%20index"), status(301).with("Location", "/sub/with%20index/")),
        ("a folder that looks like a host", get("//sub"), status(301).with("Location", "/sub/")),
        ("HEAD", "HEAD /missing HTTP/1.1\r\nHost: h\r\n\r\n".into(), status(404).with("Content-Length", "167")),
    ]);
}

#[test]
fn methods() {
    let body = |method: &str| format!("{method} /letters HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello");
    let allow = || status(405).with("Allow", "GET, HEAD, OPTIONS");
    run_table(&[
        ("POST", body("POST"), allow()),
        ("PUT", body("PUT"), allow()),
        ("DELETE", "DELETE /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(), allow()),
        ("PATCH", body("PATCH"), allow()),
        ("TRACE", "TRACE /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(), allow()),
        ("CONNECT", "CONNECT h:80 HTTP/1.1\r\nHost: h:80\r\n\r\n".into(), allow()),
        ("an unknown method", "BREW /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(), status(501)),
        ("small letters", "get /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(), status(501)),
        (
            "OPTIONS",
            "OPTIONS /letters HTTP/1.1\r\nHost: h\r\n\r\n".into(),
            status(204).with("Allow", "GET, HEAD, OPTIONS").without("Content-Length"),
        ),
        ("OPTIONS *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n".into(), status(204)),
        ("GET *", "GET * HTTP/1.1\r\nHost: h\r\n\r\n".into(), status(400)),
        ("GET with a body", get_with("/letters", "Content-Length: 3\r\n\r\nabc").replace("abc\r\n\r\n", "abc"), {
            status(200).body(letters())
        }),
        ("GET with a large body", get_with("/letters", "Content-Length: 100000"), status(200).body(letters()).closes()),
        (
            "GET with a chunked body",
            get_with("/letters", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n",
            status(200).closes(),
        ),
        (
            "a body that waits for leave",
            "PUT /letters HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n".into(),
            allow().closes(),
        ),
    ]);
}

#[test]
fn versions_and_persistence() {
    run_table(
        &[
            ("1.1", get("/letters"), status(200).without("Connection")),
            ("1.1, close", get_with("/letters", "Connection: close"), status(200).body(letters()).closes()),
            ("1.1, close among others", get_with("/letters", "Connection: te, CLOSE"), status(200).closes()),
            ("1.0", "GET /letters HTTP/1.0\r\n\r\n".into(), status(200).body(letters()).closes()),
            (
                "1.0, keep-alive",
                "GET /letters HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into(),
                status(200).with("Connection", "keep-alive").body(letters()),
            ),
            (
                "1.0, keep-alive, a large file",
                "GET /large.bin HTTP/1.0\r\nConnection: keep-alive\r\n\r\n".into(),
                status(200).with("Connection", "keep-alive").body(large()),
            ),
            ("a 404, close", get_with("/missing", "Connection: close"), status(404).closes()),
            ("2.0", "GET /letters HTTP/2.0\r\nHost: h\r\n\r\n".into(), status(505).closes()),
            ("1.2", "GET /letters HTTP/1.2\r\nHost: h\r\n\r\n".into(), status(505).closes()),
            ("an empty line before", "\r\n".to_owned() + &get("/letters"), status(200)),
        ]
        .map(|(name, request, expected)| (name, request.trim_start().to_owned(), expected)),
    );
}

#[test]
fn malformed_requests() {
    let refused = |code| status(code).closes();
    let many: String = (0..101).map(|index| format!("F{index}: x\r\n")).collect();
    run_table(&[
        ("no Host", "GET /letters HTTP/1.1\r\n\r\n".into(), refused(400)),
        ("two Hosts", get_with("/letters", "Host: h"), refused(400)),
        ("a bare LF", "GET /letters HTTP/1.1\nHost: h\n\n".into(), refused(400)),
        ("no version", "GET /letters\r\n\r\n".into(), refused(400)),
        ("a space before the colon", get_with("/letters", "X : y"), refused(400)),
        ("a folded field", get_with("/letters", "X: y\r\n z"), refused(400)),
        ("a NUL", get_with("/letters", "X: \0"), refused(400)),
        ("two lengths", get_with("/letters", "Content-Length: 0\r\nContent-Length: 0"), refused(400)),
        ("length and coding", get_with("/letters", "Content-Length: 0\r\nTransfer-Encoding: chunked"), refused(400)),
        ("an unknown coding", get_with("/letters", "Transfer-Encoding: gzip, chunked"), refused(501)),
        ("a long target", get(&format!("/{}", "x".repeat(9000))), refused(414)),
        ("a large head", get_with("/letters", &format!("X: {}", "y".repeat(17_000))), refused(431)),
        ("many fields", get_with("/letters", many.trim_end()), refused(431)),
        ("a fragment", get("/letters#top"), status(400)),
        ("not HTTP", "\u{16}\u{3}\u{1}\r\n\r\n".into(), refused(400)),
    ]);
}

#[test]
fn ranges() {
    let range = |range: &str| get_with("/letters", &format!("Range: {range}"));
    let part = |from: usize, to: usize| {
        let content_range = format!("bytes {from}-{}/1000", to - 1);
        status(206)
            .with("Content-Range", content_range)
            .with("Content-Length", (to - from).to_string())
            .body(&letters()[from..to])
    };
    let sparse = |range: &str, content_range: &str, length: usize| {
        let request = get_with("/sparse", &format!("Range: bytes={range}"));
        let content_range = format!("bytes {content_range}/{}", 5u64 << 30);
        ("sparse", request, status(206).with("Content-Range", content_range).body(vec![0; length]))
    };
    let unsatisfied = || status(416).with("Content-Range", "bytes */1000");
    let whole = || status(200).without("Content-Range").body(letters());
    run_table(&[
        ("closed", range("bytes=10-19"), part(10, 20)),
        ("one byte", range("bytes=0-0"), part(0, 1)),
        ("open", range("bytes=990-"), part(990, 1000)),
        ("suffix", range("bytes=-7"), part(993, 1000)),
        ("suffix beyond the start", range("bytes=-5000"), part(0, 1000)),
        ("beyond the end", range("bytes=990-5000"), part(990, 1000)),
        ("far beyond the end", range("bytes=990-99999999999999999999999"), part(990, 1000)),
        ("behind the end", range("bytes=1000-"), unsatisfied()),
        ("suffix of nothing", range("bytes=-0"), unsatisfied()),
        ("overlapping", range("bytes=5-9,0-6"), part(0, 10)),
        ("one of several inside", range("bytes=10-19,1000-"), part(10, 20)),
        ("too many", range(&format!("bytes=0-0{}", ",2-2".repeat(64))), whole()),
        ("backwards", range("bytes=9-1"), whole()),
        ("another unit", range("lines=1-2"), whole()),
        ("of HEAD", range("bytes=0-1").replace("GET", "HEAD"), status(200).with("Content-Length", "1000")),
        ("of an empty file", get_with("/empty.txt", "Range: bytes=0-"), status(416)),
        ("of a large file", get_with("/large.bin", "Range: bytes=1000-2500999"), {
            status(206).body(large()[1000..2_501_000].to_vec())
        }),
        sparse("5368709100-", "5368709100-5368709119", 20),
        sparse("-10", "5368709110-5368709119", 10),
        sparse("4294967290-4294967310", "4294967290-4294967310", 21),
    ]);
}

/// Path, Range, what the file has, and the parts that have to come.
type RangesCase<'c> = (&'c str, &'c str, &'c [u8], &'c [(u64, u64)]);

#[test]
fn several_ranges() {
    let letters = letters();
    let large = large();
    let each_second: Vec<(u64, u64)> = (0..64).map(|index| (2 * index, 2 * index)).collect();
    let many: Vec<String> = each_second.iter().map(|(first, last)| format!("{first}-{last}")).collect();
    let many = format!("bytes={}", many.join(","));
    let cases: [RangesCase<'_>; 5] = [
        ("/letters", "bytes=0-1,5-6", &letters, &[(0, 1), (5, 6)]),
        ("/letters", "bytes=900-,0-0,-50,7-8,1000-", &letters, &[(900, 999), (0, 0), (7, 8)]),
        (
            "/large.bin",
            "bytes=2000000-2999999,0-0,5-1000004",
            &large,
            &[(2_000_000, 2_999_999), (0, 0), (5, 1_000_004)],
        ),
        ("/large.bin", "bytes=-1,0-0", &large, &[(2_999_999, 2_999_999), (0, 0)]),
        ("/large.bin", &many, &large, &each_second),
    ];
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        for (path, range, file, expected) in cases {
            let name = format!("{driver:?} {path} {range}");
            let request = get_with(path, &format!("Range: {range}\r\n"));
            let response = check(&served, &name, &request, &status(206).without("Content-Range"));
            let parts = multipart(&response);
            let shown: Vec<&str> = parts.iter().map(|(content_range, _)| content_range.as_str()).collect();
            let wanted = expected.iter().map(|(first, last)| format!("bytes {first}-{last}/{}", file.len()));
            assert_eq!(shown, wanted.collect::<Vec<_>>(), "{name}");
            for ((_, bytes), (first, last)) in parts.iter().zip(expected) {
                assert!(*bytes == file[*first as usize..=*last as usize], "{name}");
            }
        }
        served.stop();
    });
}

#[test]
fn conditions() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        for path in ["/letters", "/large.bin"] {
            check_conditions(&served, driver, path);
        }
        served.stop();
    });
}

fn check_conditions(served: &Served, driver: DriverChoice, path: &str) {
    let plain = check(served, "plain", &get(path), &status(200));
    let etag = plain.field("ETag").unwrap().to_owned();
    let modified = plain.field("Last-Modified").unwrap().to_owned();
    assert!(etag.starts_with('"'), "a strong tag: {etag}");
    let past = "Sun, 06 Nov 1994 08:49:37 GMT";
    let future = "Sun, 06 Nov 2394 08:49:37 GMT";
    let not_modified =
        || status(304).with("ETag", etag.clone()).with("Last-Modified", modified.clone()).without("Content-Length");
    let part = |length: usize| status(206).with("ETag", etag.clone()).with("Content-Length", length.to_string());
    let whole = || status(200).with("ETag", etag.clone());
    let cases = [
        (format!("If-None-Match: {etag}"), not_modified()),
        (format!("If-None-Match: W/{etag}"), not_modified()),
        (format!("If-None-Match: \"x\", {etag}"), not_modified()),
        ("If-None-Match: *".into(), not_modified()),
        ("If-None-Match: \"x\"".into(), whole()),
        (format!("If-Modified-Since: {modified}"), not_modified()),
        (format!("If-Modified-Since: {future}"), not_modified()),
        (format!("If-Modified-Since: {past}"), whole()),
        ("If-Modified-Since: yesterday".into(), whole()),
        (format!("If-None-Match: \"x\"\r\nIf-Modified-Since: {future}"), whole()),
        (format!("If-Match: {etag}"), whole()),
        ("If-Match: *".into(), whole()),
        ("If-Match: \"x\"".into(), status(412)),
        (format!("If-Match: W/{etag}"), status(412)),
        (format!("If-Unmodified-Since: {past}"), status(412)),
        (format!("If-Unmodified-Since: {future}"), whole()),
        (format!("Range: bytes=0-3\r\nIf-Range: {etag}"), part(4)),
        ("Range: bytes=0-3\r\nIf-Range: \"x\"".into(), whole()),
        (format!("Range: bytes=0-3\r\nIf-Range: W/{etag}"), whole()),
        (format!("Range: bytes=0-3\r\nIf-Range: {past}"), whole()),
        (format!("Range: bytes=0-3\r\nIf-None-Match: {etag}"), not_modified()),
        (format!("Range: bytes=0-3\r\nIf-Match: {etag}"), part(4)),
    ];
    for (fields, expected) in &cases {
        check(served, &format!("{driver:?} {fields}"), &get_with(path, fields), expected);
    }
}

#[test]
fn head_says_what_get_says() {
    each_driver(|driver| {
        let Some(served) = Served::start(driver, |_| {}) else { return };
        for path in ["/letters", "/large.bin", "/empty.txt", "/missing", "/sub", "/sub/with%20index/", "/x%"] {
            for end in ["\r\n", "Connection: close\r\n\r\n", "If-None-Match: *\r\n\r\n", "If-Match: \"x\"\r\n\r\n"] {
                let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{end}");
                let get = take(&mut served.exchange(request.as_bytes()).as_slice(), "GET").unwrap();
                let request = request.replace("GET", "HEAD");
                let head = take_all(&served.exchange(request.as_bytes()), &["HEAD"]).remove(0);
                let undated = |mut response: Response| {
                    response.fields.retain(|(name, _)| name != "date");
                    response
                };
                let (get, head) = (undated(get), undated(head));
                assert_eq!(head, Response { body: Vec::new(), ..get }, "{driver:?} {path} {end:?}");
            }
        }
        served.stop();
    });
}
