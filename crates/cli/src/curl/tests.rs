//! Lines of curl and what becomes of them.

use std::fs;

use clap::Parser;

use super::*;

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    request: RequestOptions,
    #[command(flatten)]
    load: LoadOptions,
}

/// A line's URL and the options of a load that it gives, beside those of `arguments`.
fn applied(line: &str, arguments: &[&str], given: &[&str]) -> Result<(String, RequestOptions, LoadOptions), Failure> {
    let arguments = Arguments::try_parse_from([&["thalweg"], arguments].concat());
    let Arguments { mut request, mut load } = arguments.unwrap_or_else(|error| panic!("{error}"));
    let line = CurlLine::parse(line)?;
    line.apply_to(&mut load, &mut request, &|name| given.contains(&name))?;
    Ok((line.url().to_owned(), request, load))
}

/// Compares the request of a line: method and URL, fields, body.
#[track_caller]
fn check(line: &str, first: &str, fields: &[&str], body: &str) {
    let (url, request, load) = applied(line, &[], &[]).unwrap_or_else(|failure| panic!("{line}: {failure}"));
    assert_eq!(format!("{} {url}", request.method()), first, "{line}");
    let written: Vec<String> = load.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(written, fields, "{line}");
    let expected = (!body.is_empty()).then(|| Body::Bytes(body.as_bytes().to_vec()));
    assert_eq!(request.body, expected, "{line}");
}

#[track_caller]
fn check_refused(line: &str, part: &str) {
    let message = CurlLine::parse(line).map(|_| ()).unwrap_err().to_string();
    assert!(message.starts_with("--curl: ") && message.contains(part), "{line}: {message}");
}

const ANY: &str = "Accept: */*";
const FORM_FIELD: &str = "Content-Type: application/x-www-form-urlencoded";

#[test]
fn a_line_becomes_a_request() {
    check("curl http://h/", "GET http://h/", &[ANY], "");
    check("$ /usr/bin/curl -sSv h:8080/a", "GET http://h:8080/a", &[ANY], "");
    check("curl --url http://h/ -I", "HEAD http://h/", &[ANY], "");
    check("curl -XDELETE -- http://h/", "DELETE http://h/", &[ANY], "");
    check("curl http://h/ -H 'A: b' -H'Accept: c' -H 'D;'", "GET http://h/", &["A: b", "Accept: c", "D: "], "");
    check("curl http://h/ -H Accept:", "GET http://h/", &[], "");
    check(
        "curl http://h/ -A me -e http://r/ -r 0-9",
        "GET http://h/",
        &["User-Agent: me", "Referer: http://r/", "Range: bytes=0-9", ANY],
        "",
    );
    check("curl http://h/ -b a=1 --cookie 'b=2; c=3'", "GET http://h/", &["Cookie: a=1; b=2; c=3", ANY], "");
    check("curl http://h/ --oauth2-bearer t", "GET http://h/", &["Authorization: Bearer t", ANY], "");
    check("curl http://h/ --compressed", "GET http://h/", &[ANY, "Accept-Encoding: deflate, gzip, br, zstd"], "");
    check("curl 'http://h/?a={b}' -g", "GET http://h/?a={b}", &[ANY], "");
    check("curl 'http://[::1]:81/'", "GET http://[::1]:81/", &[ANY], "");
}

#[test]
fn data_are_joined_as_curl_joins_them() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    fs::write(&file, "a b\r\nc\n").unwrap();
    let line = |options: &str| format!("curl http://h/ {options}").replace("FILE", file.to_str().unwrap());
    let post = |options: &str, body: &str| check(&line(options), "POST http://h/", &[FORM_FIELD, ANY], body);
    post("-d a=1 --data b=2 --data-raw @c", "a=1&b=2&@c");
    post("-d @FILE", "a bc");
    post("--data-binary @FILE", "a b\r\nc\n");
    post("--data-urlencode 'a=b c&d'", "a=b+c%26d");
    post("--data-urlencode '=ä' --data-urlencode x/y", "%C3%A4&x%2Fy");
    post("--data-urlencode n@FILE", "n=a+b%0D%0Ac%0A");
    check(&line("-X PUT -d x"), "PUT http://h/", &[FORM_FIELD, ANY], "x");
    check(&line("-d x -H 'content-type: text/plain'"), "POST http://h/", &["content-type: text/plain", ANY], "x");
    let json = ["Content-Type: application/json", "Accept: application/json"];
    check(&line("--json '{\"a\":' --json '1}'"), "POST http://h/", &json, "{\"a\":1}");
    check(&line("-d x -H 'Content-Length: 7'"), "POST http://h/", &[FORM_FIELD, ANY], "x");
    let missing = applied("curl http://h/ -d @/nonexistent/data", &[], &[]).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/data"), "{missing}");
}

/// As Chromium and Firefox copy requests.
#[test]
fn lines_of_browsers_are_understood() {
    let chromium = r#"curl 'https://h.example/api?x=1' \
  -H 'accept: application/json' \
  -b 'session=s; theme=dark' \
  -H 'origin: https://h.example' \
  --data-raw $'{"text":"it\'s \u0021\n"}' \
  --insecure"#;
    let fields = ["accept: application/json", "Cookie: session=s; theme=dark", "origin: https://h.example", FORM_FIELD];
    check(chromium, "POST https://h.example/api?x=1", &fields, "{\"text\":\"it's !\n\"}");
    assert!(applied(chromium, &[], &[]).unwrap().2.tls.insecure);
    let firefox = "curl 'https://h.example/' --compressed -H 'User-Agent: Mozilla/5.0' -H 'Accept-Encoding: gzip, br' \
                   -H 'Connection: keep-alive' -H 'TE: trailers'";
    let fields =
        ["User-Agent: Mozilla/5.0", "Accept-Encoding: gzip, br", "Connection: keep-alive", "TE: trailers", ANY];
    check(firefox, "GET https://h.example/", &fields, "");
    let without = ["User-Agent: Mozilla/5.0", "Accept-Encoding: gzip, br", ANY];
    check(&format!("{firefox} --http2"), "GET https://h.example/", &without, "");
}

#[test]
fn connections_are_made_as_the_line_says() {
    let load = |options: &str| applied(&format!("curl https://h/ {options}"), &[], &[]).unwrap().2;
    assert_eq!(load("--http2").http, HttpVersion::Http2);
    assert_eq!([load("-0").http, load("--http1.1").http], [HttpVersion::Http10, HttpVersion::Http11]);
    assert_eq!(load("--connect-timeout 3 -m 2.5").timeout().as_millis(), 2500);
    assert_eq!(load("--connect-timeout 3").timeout().as_millis(), 3000);
    let socket = load("--abstract-unix-socket s").unix_socket;
    assert!(socket.is_some() && socket == load("--unix-socket @s").unix_socket, "{socket:?}");
    let tls = load("--cacert ca.pem --cert c.pem --tlsv1.3 --tls-max 1.3").tls;
    assert_eq!((tls.cacert, tls.cert, tls.key), (Some("ca.pem".into()), Some("c.pem".into()), Some("c.pem".into())));
    assert_eq!([tls.tls_min, tls.tls_max].map(|version| version.unwrap().to_string()), ["1.3", "1.3"]);
    assert!(load("-k --cacert ca.pem").tls.cacert.is_none());
    // curl ignores options of TLS without it.
    assert!(!applied("curl -k http://h/", &[], &[]).unwrap().2.tls.insecure);
    let url = |line: &str| applied(line, &[], &[]).unwrap().0;
    assert_eq!(url("curl -u 'a:b%2:c@d' http://x@h/p"), "http://a:b%252%3Ac%40d@h/p");
}

#[test]
fn options_beside_the_line_take_precedence() {
    let line = "curl http://h/ -X PUT -d x -H 'A: b' -H 'C: d' -m 2 --http1.1";
    let arguments = ["--method", "PATCH", "--body", "y", "--header", "a: z", "--timeout", "7", "--http", "1.0"];
    let given = ["method", "body", "headers", "timeout", "http"];
    let (_, request, load) = applied(line, &arguments, &given).unwrap();
    assert_eq!((request.method(), request.body.clone()), ("PATCH", Some(Body::Bytes(b"y".to_vec()))));
    let names: Vec<_> = load.headers.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    assert_eq!(names, ["C: d", FORM_FIELD, ANY, "a: z"]);
    assert_eq!((load.timeout().as_secs(), load.http), (7, HttpVersion::Http10));
}

#[test]
fn redirects_are_followed_as_the_line_says() {
    let check =
        |line: &str, follow: Option<u8>| assert_eq!(applied(line, &[], &[]).unwrap().2.follow, follow, "{line}");
    check("curl http://h/", None);
    check("curl --max-redirs 3 http://h/", None);
    check("curl -sL http://h/", Some(5));
    check("curl --location --max-redirs 3 http://h/", Some(3));
    check("curl -L --max-redirs 0 http://h/", None);
    check("curl -L --max-redirs 50 http://h/", Some(REDIRECTS_MAX));
    check("curl --location-trusted --max-redirs -1 http://h/", Some(REDIRECTS_MAX));
    let (_, _, beside) = applied("curl -L http://h/", &["--follow=2"], &["follow"]).unwrap();
    assert_eq!(beside.follow, Some(2));
    let refused = applied("curl -L --max-redirs many http://h/", &[], &[]).unwrap_err();
    assert!(refused.to_string().contains("--max-redirs many"), "{refused}");
}

#[test]
fn other_lines_are_refused_by_name() {
    check_refused("", "begins with curl");
    check_refused("wget http://h/", "\"wget\"");
    check_refused("curl", "no URL");
    check_refused("curl 'http://h/", "not closed");
    check_refused("curl http://u:secret@h/ http://h/b", "two URLs, http://h/ and http://h/b");
    check_refused("curl http://h/ | jq .", "\"|\" is for a shell");
    check_refused("curl http://h/ 2>/dev/null", "for a shell");
    check_refused("curl -F a=b http://h/", "-F is not possible in a load: put the body into a file");
    check_refused("curl -G -d a=b http://h/", "-G is not possible");
    check_refused("curl --proxy p http://h/", "--proxy is not possible");
    check_refused("curl --nonsense http://h/", "--nonsense of curl is not understood");
    check_refused("curl -? http://h/", "-? of curl");
    check_refused("curl http://h/ -H", "-H needs a value");
    check_refused("curl http://h/ --request", "--request needs a value");
    check_refused("curl http://h/ -H nocolon", "'Name: value'");
    check_refused("curl http://h/ -H @file", "no files of header fields");
    check_refused("curl http://h/ -b jar.txt", "no files of cookies");
    check_refused("curl http://h/ -u me", "user:password");
    check_refused("curl http://h/ -d @-", "--body @- beside --curl");
    check_refused("curl 'http://h/[1-9]'", "pattern");
    check_refused("curl ^\"http://h/^\"", "cURL (bash)");
    let wrong = applied("curl -m soon http://h/", &[], &[]).unwrap_err();
    assert!(wrong.to_string().contains("--max-time: `soon`"), "{wrong}");
}

#[test]
fn secrets_of_a_line_are_not_shown() {
    for (line, expected) in [
        ("curl -u me:secret http://h/", "curl -u ... http://h/"),
        ("curl -ume:secret http://h/", "curl -u... http://h/"),
        ("curl --user me:secret http://u:secret@h/a", "curl --user ... http://h/a"),
        ("curl u:secret@h/", "curl h/"),
        ("curl -H 'Authorization: Bearer secret' -H 'Accept: a' h", "curl -H 'Authorization: ...' -H 'Accept: a' h"),
        ("curl -b 'id=secret' --oauth2-bearer secret h", "curl -b ... --oauth2-bearer ... h"),
        ("curl 'not closed secret", "curl ..."),
    ] {
        assert_eq!(shown(line), expected);
    }
    assert_eq!(shown_field("--header=cookie: a=b"), "--header=cookie: ...");
    assert_eq!(shown_field("-HCookie: a=b"), "-HCookie: ...");
    assert_eq!(shown_field("X-Cookie: a"), "X-Cookie: a");
}
