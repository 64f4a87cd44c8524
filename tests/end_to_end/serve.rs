//! `thalweg serve` against curl.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

use tempfile::TempDir;

use crate::curl::{self, Reply};
use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::server::{SECRET, SPARSE_BYTES, SPARSE_END, Server, TEXT, Tree, large};

/// The required response to one request.
struct Case {
    /// Options for curl.
    asked: &'static [&'static str],
    path: &'static str,
    status: Status,
    /// Beginnings of fields' values; an empty one means that the field is missing.
    fields: &'static [(&'static str, &'static str)],
    body: Body,
}

enum Status {
    Is(u16),
    /// Not served, regardless of the options.
    Refused,
}

enum Body {
    None,
    Text(Range<usize>),
    Holds(&'static str),
    /// Some page in words.
    Page,
}

const fn case(
    asked: &'static [&'static str],
    path: &'static str,
    status: u16,
    fields: &'static [(&'static str, &'static str)],
    body: Body,
) -> Case {
    Case { asked, path, status: Status::Is(status), fields, body }
}

const fn refused(path: &'static str) -> Case {
    Case { asked: &["--path-as-is"], path, status: Status::Refused, fields: &[], body: Body::Page }
}

const TABLE: [Case; 44] = [
    case(
        &[],
        "/text.txt",
        200,
        &[("Content-Length", "10"), ("Accept-Ranges", "bytes"), ("Date", "")],
        Body::Text(0..10),
    ),
    case(&["--head"], "/text.txt", 200, &[("Content-Length", "10"), ("ETag", "\"")], Body::None),
    case(&["--http1.0"], "/text.txt", 200, &[("Content-Length", "10")], Body::Text(0..10)),
    case(&[], "/empty.txt", 200, &[("Content-Length", "0")], Body::None),
    case(&[], "/with%20space.txt", 200, &[], Body::Holds("space")),
    case(&[], "/text.txt?a=b", 200, &[], Body::Text(0..10)),
    case(&[], "/alias.txt", 200, &[], Body::Text(0..10)),
    // Ranges.
    case(
        &["--range", "2-5"],
        "/text.txt",
        206,
        &[("Content-Range", "bytes 2-5/10"), ("Content-Length", "4")],
        Body::Text(2..6),
    ),
    case(&["--range", "-3"], "/text.txt", 206, &[("Content-Range", "bytes 7-9/10")], Body::Text(7..10)),
    case(&["--range", "7-"], "/text.txt", 206, &[("Content-Range", "bytes 7-9/10")], Body::Text(7..10)),
    case(&["--range", "5-100"], "/text.txt", 206, &[("Content-Range", "bytes 5-9/10")], Body::Text(5..10)),
    case(&["--range", "10-"], "/text.txt", 416, &[("Content-Range", "bytes */10")], Body::Page),
    case(&["--header", "Range: lines=1-2"], "/text.txt", 200, &[("Content-Length", "10")], Body::Text(0..10)),
    // Conditions that do not rest on a validator of ours.
    case(&["--header", "If-None-Match: *"], "/text.txt", 304, &[("ETag", "\"")], Body::None),
    case(&["--header", "If-None-Match: \"other\""], "/text.txt", 200, &[], Body::Text(0..10)),
    case(&["--header", "If-Match: \"other\""], "/text.txt", 412, &[], Body::Page),
    case(&["--range", "2-5", "--header", "If-Range: \"other\""], "/text.txt", 200, &[], Body::Text(0..10)),
    // Methods.
    case(&["--data", "x"], "/text.txt", 405, &[("Allow", "GET, HEAD")], Body::Page),
    case(&["--request", "DELETE"], "/text.txt", 405, &[("Allow", "GET, HEAD")], Body::Page),
    case(&["--request", "OPTIONS"], "/text.txt", 204, &[("Allow", "GET, HEAD")], Body::None),
    case(&["--request", "BREW"], "/text.txt", 501, &[], Body::Page),
    // Folders and what is not there.
    case(&[], "/", 200, &[("Content-Type", "text/html")], Body::Holds("front")),
    case(&[], "/folder/", 200, &[("Content-Type", "text/html")], Body::Holds("folder")),
    case(&[], "/folder", 301, &[("Location", "/folder/")], Body::Page),
    case(&[], "/folder?a=b", 301, &[("Location", "/folder/?a=b")], Body::Page),
    case(&[], "/bare/", 404, &[], Body::Page),
    case(&[], "/missing", 404, &[("Content-Type", "text/html")], Body::Page),
    case(&["--head"], "/missing", 404, &[], Body::None),
    case(&[], "/text.txt/", 404, &[], Body::Page),
    // Types.
    case(&[], "/style.css", 200, &[("Content-Type", "text/css")], Body::Holds("p")),
    case(&[], "/script.js", 200, &[("Content-Type", "text/javascript")], Body::Holds("0")),
    case(&[], "/data.json", 200, &[("Content-Type", "application/json")], Body::Holds("{}")),
    case(&[], "/picture.png", 200, &[("Content-Type", "image/png")], Body::Holds("png")),
    case(&[], "/drawing.svg", 200, &[("Content-Type", "image/svg+xml")], Body::Holds("svg")),
    case(
        &[],
        "/archive.tar.gz",
        200,
        &[("Content-Type", "application/gzip"), ("Content-Encoding", "")],
        Body::Holds("gz"),
    ),
    case(&[], "/nameless", 200, &[("Content-Type", "application/octet-stream")], Body::Holds("?")),
    // The ways out of the tree.
    refused("/../secret.txt"),
    refused("/folder/../../secret.txt"),
    refused("/%2e%2e/secret.txt"),
    refused("/folder/..%2f..%2fsecret.txt"),
    refused("/..%5csecret.txt"),
    refused("/text.txt%00.html"),
    refused("/leak.txt"),
    refused("/leak/secret.txt"),
];

/// The whole table, over IPv4, and one request of it over IPv6.
pub(crate) fn holds(server: &Server) {
    for case in &TABLE {
        check(server, case);
    }
    assert_eq!(curl::fetch(&[], &format!("{}/text.txt", server.url_v6)).body, TEXT, "over IPv6");
    validators(server);
}

fn check(server: &Server, case: &Case) {
    let reply = curl::fetch(case.asked, &format!("{}{}", server.url, case.path));
    let what = format!("curl {:?} {} over {}: {reply:?}", case.asked, case.path, server.driver);
    match case.status {
        Status::Is(status) => assert_eq!(reply.status, status, "{what}"),
        Status::Refused => assert!(matches!(reply.status, 400 | 403 | 404), "{what}"),
    }
    for (name, begins) in case.fields {
        let value = reply.field(name);
        let missing = begins.is_empty() && *name != "Date";
        assert!(value.starts_with(begins) && value.is_empty() == missing, "{name}: {what}");
    }
    let text = String::from_utf8_lossy(&reply.body);
    match &case.body {
        Body::None => assert!(reply.body.is_empty(), "{what}"),
        Body::Text(part) => assert_eq!(reply.body, TEXT[part.clone()], "{what}"),
        Body::Holds(part) => assert!(text.contains(part), "{what}"),
        Body::Page => assert!(text.contains("<h1>"), "{what}"),
    }
    assert!(!text.contains(SECRET), "{what}");
}

/// Conditions on the validators that the server itself has sent.
fn validators(server: &Server) {
    let url = format!("{}/text.txt", server.url);
    let first = curl::fetch(&[], &url);
    let (etag, modified) = (first.field("ETag"), first.field("Last-Modified"));
    assert_eq!(modified, "Fri, 14 Jul 2017 02:40:00 GMT");
    let asked = |fields: &[String]| -> Reply {
        let arguments: Vec<&str> = fields.iter().flat_map(|field| ["--header", field]).collect();
        curl::fetch(&arguments, &url)
    };
    let unchanged = asked(&[format!("If-None-Match: {etag}")]);
    assert_eq!((unchanged.status, unchanged.field("ETag")), (304, etag));
    assert!(unchanged.body.is_empty());
    assert_eq!(asked(&[format!("If-None-Match: \"a\", {etag}")]).status, 304);
    assert_eq!(asked(&[format!("If-Modified-Since: {modified}")]).status, 304);
    assert_eq!(curl::fetch(&["--time-cond", modified], &url).status, 304);
    assert_eq!(asked(&["If-Modified-Since: Thu, 13 Jul 2017 00:00:00 GMT".to_owned()]).status, 200);
    assert_eq!(asked(&["If-Unmodified-Since: Thu, 13 Jul 2017 00:00:00 GMT".to_owned()]).status, 412);
    assert_eq!(asked(&[format!("If-Match: {etag}")]).status, 200);
    for validator in [etag, modified] {
        let part = asked(&["Range: bytes=2-5".to_owned(), format!("If-Range: {validator}")]);
        assert_eq!((part.status, part.body.as_slice()), (206, &TEXT[2..6]), "If-Range: {validator}");
    }
}

/// A server over io_uring. On a host that forbids io_uring, the test only checks for a clear
/// message.
fn over_uring(tree: &Tree) -> Option<Server> {
    match Server::start(&tree.root(), &["--driver", "uring"], thalweg) {
        Ok(server) => Some(server),
        Err(ended) => {
            assert!(ring_may_be_forbidden(), "io_uring does not start on a host that allows it: {ended:?}");
            assert_eq!(ended.code, Some(4), "{ended:?}");
            assert!(ended.stderr.contains("io_uring"), "{ended:?}");
            None
        }
    }
}

/// Whether a setting or a filter of system calls on this host may forbid the ring.
fn ring_may_be_forbidden() -> bool {
    let disabled = fs::read_to_string("/proc/sys/kernel/io_uring_disabled").is_ok_and(|value| value.trim() != "0");
    let status = fs::read_to_string("/proc/self/status").expect("a process may read its own status");
    disabled || status.lines().any(|line| line.starts_with("Seccomp:") && !line.ends_with("\t0"))
}

#[test]
fn the_table_holds_over_uring() {
    let tree = Tree::new();
    if let Some(server) = over_uring(&tree) {
        assert_eq!(server.driver, "uring");
        holds(&server);
    }
}

#[test]
fn the_table_holds_over_epoll() {
    let tree = Tree::new();
    let server = Server::of(&tree, &["--driver", "epoll"]);
    assert_eq!(server.driver, "epoll");
    holds(&server);
}

#[test]
fn files_beyond_4_gb_are_served() {
    let tree = Tree::new();
    for driver in drivers() {
        serves_beyond_4_gb(&Server::of(&tree, &["--driver", driver]));
    }
}

fn serves_beyond_4_gb(server: &Server) {
    let url = format!("{}/sparse.bin", server.url);
    let end = curl::fetch(&["--range", &format!("-{}", SPARSE_END.len())], &url);
    assert_eq!((end.status, end.body.as_slice()), (206, SPARSE_END));
    let from = SPARSE_BYTES - 9;
    let last = curl::fetch(&["--range", &format!("{from}-")], &url);
    assert_eq!(last.field("Content-Range"), format!("bytes {from}-{}/{SPARSE_BYTES}", SPARSE_BYTES - 1));
    assert_eq!(last.body, [b"\0\0", SPARSE_END].concat());

    let mut whole = curl::command();
    whole.args(["--output", "/dev/null", "--write-out", "%{http_code} %{size_download}", &url]);
    let ended = Process::start(&mut whole).wait(PATIENCE);
    assert_eq!(ended.stdout, format!("200 {SPARSE_BYTES}"), "{ended:?}");
}

#[test]
fn half_a_download_is_resumed() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    let server = Server::of(&tree, &[]);
    let (part, expected) = (folder.path().join("part"), large());
    fs::write(&part, &expected[..1_000_001]).unwrap();
    let mut command = curl::command();
    command.args(["--continue-at", "-", "--write-out", "%{http_code} %{size_download}", "--output"]).arg(&part);
    let ended = Process::start(command.arg(format!("{}/large.bin", server.url))).wait(PATIENCE);
    assert_eq!(ended.stdout, format!("206 {}", expected.len() - 1_000_001), "{ended:?}");
    assert!(fs::read(&part).unwrap() == expected, "the two halves make the whole");
}

#[test]
fn two_requests_share_a_connection_unless_the_client_speaks_http_1_0() {
    let tree = Tree::new();
    let server = Server::of(&tree, &[]);
    for (version, expected) in [("--http1.1", "1 0 "), ("--http1.0", "1 1 ")] {
        let mut command = curl::command();
        command.args([version, "--write-out", "%{num_connects} "]);
        for path in ["text.txt", "large.bin"] {
            command.args(["--output", "/dev/null", &format!("{}/{path}", server.url)]);
        }
        assert_eq!(Process::start(&mut command).wait(PATIENCE).stdout, expected, "{version}");
    }
}

#[test]
fn term_lets_a_download_end_and_accepts_no_more() {
    let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
    // Much more than the buffers of both sides hold, so that it is still under way when the signal
    // comes.
    const BYTES: u64 = 60_000_000;
    File::create(tree.root().join("long.bin")).and_then(|file| file.set_len(BYTES)).unwrap();
    let server = Server::of(&tree, &[]);
    let out = folder.path().join("out");
    let mut command = curl::command();
    command.args(["--limit-rate", "30M", "--write-out", "%{size_download}", "--output"]).arg(&out);
    let download = Process::start(command.arg(format!("{}/long.bin", server.url)));
    until("the download to begin", PATIENCE, || fs::metadata(&out).is_ok_and(|file| file.len() > 0).then_some(()));
    server.process.signal("TERM");
    let authority = server.authority().to_owned();
    until("new connections to be refused", PATIENCE, || TcpStream::connect(&authority).is_err().then_some(()));
    assert!(fs::metadata(&out).unwrap().len() < BYTES, "the download is still under way");

    assert_eq!(download.wait(PATIENCE).stdout, BYTES.to_string());
    let ended = server.process.wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(ended.stderr, "");
}

#[test]
fn a_client_that_takes_nothing_holds_the_end_up_no_longer_than_the_drain() {
    let tree = Tree::new();
    let server = Server::of(&tree, &["--drain", "200ms"]);
    let mut client = TcpStream::connect(server.authority()).unwrap();
    client.write_all(b"GET /sparse.bin HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    client.read_exact(&mut [0; 100]).unwrap();
    server.process.signal("TERM");
    assert_eq!(server.process.wait(PATIENCE).code, Some(0));
}

#[test]
fn a_port_in_use_is_said_in_one_line() {
    let tree = Tree::new();
    let server = Server::of(&tree, &[]);
    let root = tree.root();
    let ended = run_thalweg(&["serve", root.to_str().unwrap(), "--listen", server.authority()]);
    assert_eq!(ended.code, Some(4), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains(server.authority()) && ended.stderr.contains("--listen"), "{ended:?}");
}
