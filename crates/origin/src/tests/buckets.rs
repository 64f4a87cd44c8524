//! A bucket as an origin: signatures, clocks, keys, listings.

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use hyper::Method;
use thalweg_wire::date::imf_fixdate;

use super::server::{Do, Server, ask, get, group_of, ok, post, response};
use crate::config::{GroupConfig, OriginKind, S3Config};
use crate::credentials::{Credentials, KeyProvider, Keys};
use crate::failure::FailureKind;
use crate::group::OriginGroup;
use crate::message::Request;
use crate::response::Note;

fn keys(key: &str) -> Keys {
    Keys { key: key.into(), secret: "secret".into(), token: Some("to/ken".into()) }
}

fn group(server: &Server, credentials: Credentials, path_style: bool) -> Arc<OriginGroup> {
    group_of(std::slice::from_ref(server), GroupConfig::default(), |config| {
        config.fields = vec![("X-Not-For-Buckets".into(), "x".into())];
        config.limits.entries_max = 5;
        config.kind = OriginKind::S3(S3Config {
            endpoint: "http://s3.example:9000".parse().unwrap(),
            bucket: "bucket".into(),
            region: "eu-1".into(),
            prefix: "pub/".into(),
            path_style,
            credentials: credentials.clone(),
        });
    })
}

/// The value of a parameter in the query of the request of this number.
fn parameter(server: &Server, request: usize, name: &str) -> Option<String> {
    let line = server.lines()[request].clone();
    let (_, query) = line.split_once('?')?;
    query.split('&').find_map(|pair| pair.strip_prefix(&format!("{name}="))).map(str::to_owned)
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64
}

/// A refusal with a code, from a server whose clock is ahead.
fn refusal(status: &str, code: &str, ahead_s: i64) -> Do {
    let date = String::from_utf8(imf_fixdate(now_s() + ahead_s).to_vec()).unwrap();
    let body = format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>It &lt;fails&gt;</Message></Error>");
    response(status, &format!("Date: {date}\r\n"), &body)
}

#[tokio::test(start_paused = true)]
async fn anonymous_requests_are_not_signed_and_the_bucket_is_in_path_or_host() {
    for (path_style, line, host) in [
        (true, "GET /bucket/pub/a%20b/%C3%A4", "s3.example:9000"),
        (false, "GET /pub/a%20b/%C3%A4", "bucket.s3.example:9000"),
    ] {
        let server = Server::new([vec![Do::Read, ok("x")]]);
        let group = group(&server, Credentials::Anonymous, path_style);
        let request = Request::get("/a%20b/%C3%A4?client=query").with("Range", "bytes=0-0").with("Authorization", "x");
        assert_eq!(ask(&group, request).await, "200 x");
        let whole = format!("{line} HTTP/1.1\r\nrange: bytes=0-0\r\nhost: {host}\r\n\r\n");
        assert_eq!(server.requests(), [whole]);
    }
}

#[tokio::test(start_paused = true)]
async fn requests_are_signed_for_their_method() {
    let server = Server::new([vec![Do::Read, ok("x"), Do::Read, ok(""), Do::Hang]]);
    let group = group(&server, Credentials::Fixed(keys("id")), true);
    assert_eq!(get(&group, "/a").await, "200 x");
    let head = group.fetch(&Request::new(Method::HEAD, "/a")).await.unwrap();
    assert_eq!(head.status, 200);
    for request in 0..2 {
        let credential = parameter(&server, request, "X-Amz-Credential").unwrap();
        assert!(credential.starts_with("id%2F") && credential.ends_with("%2Feu-1%2Fs3%2Faws4_request"), "{credential}");
        assert_eq!(parameter(&server, request, "X-Amz-Security-Token").unwrap(), "to%2Fken");
        assert_eq!(parameter(&server, request, "X-Amz-SignedHeaders").unwrap(), "host");
        assert_eq!(parameter(&server, request, "X-Amz-Signature").unwrap().len(), 64);
    }
    let signature = |request| parameter(&server, request, "X-Amz-Signature");
    assert_ne!(signature(0), signature(1), "the method is signed");
    assert_eq!(post(&group, "/a", "x").await, "405 ");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_clock_is_corrected_by_the_servers_date() {
    let skewed = refusal("403 Forbidden", "RequestTimeTooSkewed", 3600);
    let server = Server::new([vec![Do::Read, skewed, Do::Read, ok("x"), Do::Read, ok("y"), Do::Hang]]);
    let group = group(&server, Credentials::Fixed(keys("id")), true);
    assert_eq!(get(&group, "/a").await, "200 x");
    assert_eq!(get(&group, "/b").await, "200 y");
    let signed_s = |request| {
        let date = parameter(&server, request, "X-Amz-Date").unwrap();
        jiff::civil::DateTime::strptime("%Y%m%dT%H%M%SZ", &date).unwrap().in_tz("UTC").unwrap().timestamp().as_second()
    };
    assert!((signed_s(0) - now_s()).abs() < 60);
    assert!((signed_s(1) - now_s() - 3600).abs() < 60);
    assert!((signed_s(2) - now_s() - 3600).abs() < 60, "it is kept for later requests");
    assert!((group.statistics()[0].clock_ahead_s - 3600).abs() < 60);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_explained_and_not_repeated_in_vain() {
    for (status, code, ahead_s, advice) in [
        ("403 Forbidden", "SignatureDoesNotMatch", 0, "check the secret key"),
        ("403 Forbidden", "AccessDenied", 0, "bucket's policy"),
        ("400 Bad Request", "ExpiredToken", 0, "no longer valid"),
        ("404 Not Found", "NoSuchBucket", 0, "the name of the bucket"),
        ("404 Not Found", "XAdminUserNotFound", 0, "does not know the access key"),
    ] {
        let server = Server::new([vec![Do::Read, refusal(status, code, ahead_s), Do::Read, ok("x")]]);
        let group = group(&server, Credentials::Fixed(keys("id")), true);
        let answer = group.fetch(&Request::get("/a")).await.unwrap();
        let Some(Note::S3(problem)) = &answer.note else { panic!("{code} has no note") };
        assert_eq!((&*problem.code, &*problem.message), (code, "It <fails>"));
        assert!(problem.to_string().contains(advice), "{problem}");
        let body = answer.body.collect(1 << 10).await.unwrap().unwrap();
        assert!(body.ends_with(b"</Error>"), "the body stays");
        assert_eq!(server.requests().len(), 1, "{code}");
    }
}

#[derive(Debug)]
struct Provider(Mutex<u32>);

impl KeyProvider for Provider {
    fn keys(&self) -> Result<Keys, String> {
        let mut reads = self.0.lock().unwrap();
        *reads += 1;
        Ok(keys(&format!("key{reads}")))
    }
}

#[tokio::test(start_paused = true)]
async fn expired_keys_are_read_again() {
    let expired = refusal("400 Bad Request", "ExpiredToken", 0);
    let server = Server::new([vec![Do::Read, expired, Do::Read, ok("x"), Do::Read, ok("y"), Do::Hang]]);
    let group = group(&server, Credentials::Provided(Arc::new(Provider(Mutex::new(0)))), true);
    assert_eq!(get(&group, "/a").await, "200 x");
    assert_eq!(get(&group, "/b").await, "200 y");
    let used: Vec<_> =
        (0..3).map(|request| parameter(&server, request, "X-Amz-Credential").unwrap()[..4].to_owned()).collect();
    assert_eq!(used, ["key1", "key2", "key2"]);
}

#[tokio::test(start_paused = true)]
async fn if_range_becomes_if_match() {
    let server = Server::new([vec![
        Do::Read,
        response("206 Partial Content", "", "b"),
        Do::Read,
        refusal("412 Precondition Failed", "PreconditionFailed", 0),
        Do::Read,
        ok("whole"),
        Do::Hang,
    ]]);
    let group = group(&server, Credentials::Anonymous, true);
    let request = Request::get("/a").with("Range", "bytes=1-1").with("If-Range", "\"1\"");
    assert_eq!(ask(&group, request.clone()).await, "206 b");
    assert_eq!(ask(&group, request).await, "200 whole");
    let conditional: Vec<_> =
        server.requests().iter().map(|text| (text.contains("range: "), text.contains("if-match: \"1\""))).collect();
    assert_eq!(conditional, [(true, true), (true, true), (false, false)]);
}

#[tokio::test(start_paused = true)]
async fn folders_are_listed_page_by_page() {
    let page =
        |inner: &str| ok(&format!("<ListBucketResult><EncodingType>url</EncodingType>{inner}</ListBucketResult>"));
    let truncated = "<IsTruncated>true</IsTruncated><NextContinuationToken>t/1</NextContinuationToken>";
    let object = |key: &str| format!("<Contents><Key>pub/sub/{key}</Key><Size>3</Size></Contents>");
    let folder = "<CommonPrefixes><Prefix>pub/sub/inner/</Prefix></CommonPrefixes>";
    let server = Server::new([vec![
        Do::Read,
        page(&format!("{truncated}{}{}", object(""), object("z"))),
        Do::Read,
        page(&format!("<IsTruncated>false</IsTruncated>{}{folder}", object("a%2Bb"))),
        Do::Read,
        page("<IsTruncated>false</IsTruncated>"),
        Do::Read,
        page(&format!("{truncated}{}", (0..7).map(|name| object(&name.to_string())).collect::<String>())),
        Do::Read,
        refusal("403 Forbidden", "AccessDenied", 0),
        Do::Hang,
    ]]);
    let group = group(&server, Credentials::Fixed(keys("id")), true);
    let listing = group.list("/sub").await.unwrap().unwrap();
    let names: Vec<_> = listing.entries.iter().map(|entry| str::from_utf8(&entry.name).unwrap()).collect();
    assert_eq!((names, listing.is_complete), (vec!["a+b", "inner", "z"], true));
    assert_eq!(parameter(&server, 0, "prefix").unwrap(), "pub%2Fsub%2F");
    assert_eq!(parameter(&server, 0, "continuation-token"), None);
    assert_eq!(parameter(&server, 1, "continuation-token").unwrap(), "t%2F1");
    assert_eq!(group.list("/missing/").await, Ok(None));
    let bounded = group.list("/sub/").await.unwrap().unwrap();
    assert_eq!((bounded.entries.len(), bounded.is_complete), (5, false));
    let error = group.list("/secret/").await.unwrap_err();
    assert_eq!(error.kind(), FailureKind::NotListed);
    assert!(error.to_string().contains("AccessDenied"), "{error}");
    assert_eq!(group.statistics()[0].requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_listing_on_a_connection_that_the_server_closes_is_asked_for_again() {
    let empty = ok("<ListBucketResult></ListBucketResult>");
    let server = Server::new([vec![Do::Read, empty.clone(), Do::Read], vec![Do::Read, empty]]);
    let group = group(&server, Credentials::Anonymous, true);
    for _ in 0..2 {
        assert!(group.list("/").await.unwrap().unwrap().entries.is_empty());
    }
    assert_eq!(
        server.lines(),
        vec!["GET /bucket/?delimiter=%2F&encoding-type=url&list-type=2&max-keys=5&prefix=pub%2F"; 3]
    );
}

#[tokio::test(start_paused = true)]
async fn a_path_of_a_folder_is_not_asked_for() {
    let server = Server::new([]);
    let group = group(&server, Credentials::Anonymous, true);
    for path in ["/", "/sub/", "//"] {
        let answer = group.fetch(&Request::get(path)).await.unwrap();
        assert_eq!((answer.status, answer.note), (404, Some(Note::Folder)), "{path}");
    }
    assert_eq!(server.connects(), 0);
}
