//! HTTP/2 of `thalweg serve`, as clients of others speak it.

use std::fs;
use std::path::Path;
use std::process::Command;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::curl;
use crate::drivers::drivers;
use crate::operation::{Place, Successor, ended_well, started};
use crate::process::{PATIENCE, Process, program, until};
use crate::server::{Server, TEXT, Tree, large};

const PRIOR_KNOWLEDGE: &str = "--http2-prior-knowledge";

/// As many downloads as a busy mirror has.
const CONNECTIONS: usize = 100;
const STREAMS: usize = 20;

/// Several windows of a stream.
const FILE_BYTES: usize = 200_000;

#[test]
fn curl_gets_the_same_as_over_http_1() {
    let tree = Tree::new();
    fs::write(tree.root().join("large.bin"), large()).unwrap();
    for driver in drivers() {
        let server = Server::of(&tree, &["--driver", driver]);
        let url = |path: &str| format!("{}{path}", server.url);
        let fetch = |arguments: &[&str], path: &str| {
            let reply = curl::fetch(&[&[PRIOR_KNOWLEDGE], arguments].concat(), &url(path));
            let before = curl::fetch(&[&["--http1.1"], arguments].concat(), &url(path));
            assert_eq!((reply.status, &reply.body), (before.status, &before.body), "{path} {arguments:?}");
            let without_date = |reply: &curl::Reply| {
                let mut fields = reply.fields.clone();
                fields.retain(|(name, _)| name != "date");
                fields
            };
            // The boundary of a multipart body is another one each time.
            if !arguments.iter().any(|argument| argument.contains(',')) {
                assert_eq!(without_date(&reply), without_date(&before), "{path} {arguments:?}");
            }
            reply
        };
        assert_eq!(fetch(&[], "/text.txt").body, TEXT);
        assert_eq!(fetch(&["--head"], "/large.bin").field("content-length"), "3000000");
        assert!(fetch(&[], "/large.bin").body == large());
        assert_eq!(fetch(&["--range", "2-4"], "/text.txt").body, b"234");
        assert_eq!(fetch(&["--range", "1000000-1999999"], "/large.bin").body, large()[1_000_000..2_000_000]);
        let tag = fetch(&[], "/text.txt").field("etag").to_owned();
        assert_eq!(fetch(&["--header", &format!("If-None-Match: {tag}")], "/text.txt").status, 304);
        assert_eq!(fetch(&[], "/empty.txt").body, b"");
        assert_eq!(fetch(&[], "/missing").status, 404);
        assert_eq!(fetch(&["--data", "body"], "/text.txt").status, 405);
    }
}

/// Downloads that share connections, which have begun and wait to [go on](finish). `tls`: the file
/// of an authority and the name of the host, or nothing.
pub(crate) fn download(port: &str, path: &str, content: &[u8], tls: &[&str]) -> Process {
    let (connections, streams, digest) = (CONNECTIONS.to_string(), STREAMS.to_string(), sha256(content));
    begun("h2_downloads.py", &[&[port, &connections, &streams, path, &digest], tls].concat())
}

/// The digest of content as clients are told it.
pub(crate) fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Starts downloads by a script, and waits until all have begun.
pub(crate) fn begun(script: &str, arguments: &[&str]) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/end_to_end").join(script);
    // Debian's packages are for Debian's Python.
    let mut process = Process::start(Command::new("/usr/bin/python3").arg(script).args(arguments));
    until("all downloads to begin", PATIENCE, || {
        assert!(process.ended().is_none(), "{}", process.stderr());
        process.stdout().contains("begun").then_some(())
    });
    process
}

/// Has the downloads go on, all of which have to be whole.
#[track_caller]
pub(crate) fn finish(client: Process) {
    finish_all(client, CONNECTIONS * STREAMS);
}

/// The same for another number of them.
#[track_caller]
pub(crate) fn finish_all(client: Process, count: usize) {
    client.signal("USR1");
    let ended = client.wait(PATIENCE);
    assert_eq!(ended.stdout, format!("begun\n{count} whole\n"), "{ended:?}");
}

#[test]
fn downloads_that_share_connections_survive_reloads_and_upgrades() {
    for driver in drivers() {
        let place = Place::new();
        fs::write(place.path("root/file.bin"), &large()[..FILE_BYTES]).unwrap();
        let (process, address) =
            started(&["serve", &place.path("root"), "--listen", "127.0.0.1:0", "--driver", driver]);
        let port = address.rsplit(':').next().unwrap();
        let client = download(port, "/file.bin", &large()[..FILE_BYTES], &[]);
        process.signal("HUP");
        let successor = Successor::of(&process);
        finish(client);
        ended_well(&process.wait(PATIENCE));
        successor.end();
    }
}

#[test]
fn h2load_and_the_log_count_the_same() {
    let tree = Tree::new();
    let logs = TempDir::new().unwrap();
    let log = logs.path().join("access.log");
    let config = logs.path().join("thalweg.toml");
    let text =
        format!("[log]\naccess = {:?}\n[[site]]\nroot = {:?}\n", log.to_str().unwrap(), tree.root().to_str().unwrap());
    fs::write(&config, text).unwrap();
    let server = Server::configured(&config, &[]);
    let mut h2load = Command::new(program(&["h2load"], "nghttp2-client"));
    h2load.args(["--requests", "5000", "--clients", "8", "--max-concurrent-streams", "32"]);
    h2load.arg(format!("{}/text.txt", server.url));
    let ended = Process::start(&mut h2load).wait(PATIENCE);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains("5000 succeeded, 0 failed, 0 errored"), "{}", ended.stdout);
    server.process.signal("TERM");
    ended_well(&server.process.wait(PATIENCE));
    let lines = fs::read_to_string(&log).unwrap();
    let expected = "\"GET /text.txt HTTP/2.0\" 200 10 ";
    assert_eq!(lines.lines().filter(|line| line.contains(expected)).count(), 5000);
    assert_eq!(lines.lines().count(), 5000);
}
