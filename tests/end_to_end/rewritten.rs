//! Files that are written to, or replaced, while they are downloaded slowly: no client takes two
//! versions for one.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;

use socket2::{Domain, Socket, Type};
use tempfile::TempDir;

use crate::drivers::BOTH_DRIVERS;
use crate::process::{PATIENCE, until};
use crate::server::Server;

const FILE_BYTES: usize = 40_000_000;

/// How much a client has read when the file changes; far more is left than a socket holds.
const READ_BYTES: usize = 13_000_000;

const WHOLE: &str = "";
const RANGE: &str = "Range: bytes=1000-39999998\r\n";
const SEVERAL: &str = "Range: bytes=0-9999999,10000001-39999999\r\n";

/// The name of a case, the fields of its request, and the change of the file.
type Case = (&'static str, &'static str, fn(&Path));

/// The received bytes, the head included, and whether the end was a reset.
struct Download {
    bytes: Vec<u8>,
    is_reset: bool,
}

impl Download {
    /// Reads to the end, or for so many bytes.
    fn read(&mut self, stream: &mut TcpStream, bytes_max: usize) {
        let mut buffer = vec![0; 64 << 10];
        while self.bytes.len() < bytes_max {
            match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(read) => self.bytes.extend_from_slice(&buffer[..read]),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                    self.is_reset = true;
                    return;
                }
            }
        }
    }

    fn head(&self) -> &str {
        let end = self.bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("the head has come");
        std::str::from_utf8(&self.bytes[..end + 2]).expect("a head in ASCII")
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.head().len() + 2..]
    }

    fn field(&self, name: &str) -> &str {
        let line = self.head().lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head()))
    }

    fn is_whole(&self) -> bool {
        self.body().len().to_string() == self.field("Content-Length")
    }
}

/// Downloads a file; `change` happens when a part of it was read.
fn download(server: &Server, fields: &str, change: impl FnOnce()) -> Download {
    let address: SocketAddr = server.authority().parse().expect("an address");
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    // Ethernet's segments and a small window, as of a client behind a network like most.
    socket.set_tcp_mss(1448).expect("a segment size can be set");
    socket.set_recv_buffer_size(64 << 10).expect("a buffer size can be set");
    socket.connect(&address.into()).expect("the server listens");
    let mut stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).expect("a time can be set");
    write!(stream, "GET /file HTTP/1.1\r\nHost: h\r\nConnection: close\r\n{fields}\r\n").expect("it reads");
    let mut received = Download { bytes: Vec::with_capacity(FILE_BYTES + 1000), is_reset: false };
    received.read(&mut stream, READ_BYTES);
    change();
    received.read(&mut stream, usize::MAX);
    received
}

fn serve(root: &Path, options: &[&str]) -> Server {
    Server::start(root, options, crate::process::thalweg)
        .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"))
}

fn writing(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).expect("the file can be opened")
}

fn rewrite(path: &Path) {
    writing(path).write_all_at(&vec![b'B'; FILE_BYTES], 0).expect("the file can be written");
}

fn rewrite_with_old_time(path: &Path) {
    let modified = fs::metadata(path).and_then(|state| state.modified()).expect("the file is there");
    rewrite(path);
    writing(path).set_modified(modified).expect("the time can be set");
}

fn shrink(path: &Path) {
    writing(path).set_len(1000).expect("the file can be cut");
}

fn shrink_and_regrow(path: &Path) {
    shrink(path);
    writing(path).set_len(FILE_BYTES as u64).expect("the file can grow");
}

fn append(path: &Path) {
    writing(path).write_all_at(b"more", FILE_BYTES as u64).expect("the file can be written");
}

fn replace(path: &Path) {
    let new = path.with_file_name("new");
    fs::write(&new, vec![b'B'; FILE_BYTES]).expect("a file can be written");
    fs::rename(new, path).expect("it can be renamed");
}

fn remove(path: &Path) {
    fs::remove_file(path).expect("it can be removed");
}

fn link(path: &Path) {
    fs::hard_link(path, path.with_file_name("link")).expect("it can be linked");
}

fn chmod(path: &Path) {
    fs::set_permissions(path, Permissions::from_mode(0o600)).expect("its rights can be set");
}

fn leave_alone(_: &Path) {}

/// Downloads a file of A's, to which something happens meanwhile.
fn download_while(driver: &str, fields: &str, change: fn(&Path)) -> Download {
    let folder = TempDir::new().expect("a temporary folder can be made");
    let path = folder.path().join("file");
    fs::write(&path, vec![b'A'; FILE_BYTES]).expect("a file can be written");
    let server = serve(folder.path(), &["--driver", driver]);
    download(&server, fields, || change(&path))
}

#[test]
fn a_file_rewritten_in_place_never_leaves_whole() {
    let cases: [Case; 7] = [
        ("200, rewritten", WHOLE, rewrite),
        ("206, rewritten", RANGE, rewrite),
        ("multipart, rewritten", SEVERAL, rewrite),
        ("200, rewritten with the old time", WHOLE, rewrite_with_old_time),
        ("200, cut and grown again", WHOLE, shrink_and_regrow),
        ("multipart, cut and grown again", SEVERAL, shrink_and_regrow),
        ("200, cut", WHOLE, shrink),
    ];
    // Both drivers: each sends files in its own way.
    for driver in BOTH_DRIVERS {
        for (case, fields, change) in cases {
            let received = download_while(driver, fields, change);
            assert!(received.is_reset && !received.is_whole(), "{driver}, {case}: {} bytes", received.body().len());
        }
    }
}

#[test]
fn a_file_whose_content_stays_is_never_reset() {
    let cases: [Case; 7] = [
        ("left alone", SEVERAL, leave_alone),
        ("appended to", WHOLE, append),
        ("replaced by a rename", WHOLE, replace),
        ("replaced by a rename, several ranges", SEVERAL, replace),
        ("removed", WHOLE, remove),
        ("linked", RANGE, link),
        ("chmod", WHOLE, chmod),
    ];
    // Both drivers: each sends files in its own way.
    for driver in BOTH_DRIVERS {
        for (case, fields, change) in cases {
            let received = download_while(driver, fields, change);
            assert!(received.is_whole() && !received.is_reset, "{driver}, {case}: {} bytes", received.body().len());
            assert!(fields == SEVERAL || received.body().iter().all(|&byte| byte == b'A'), "{driver}, {case}");
        }
    }
}

#[test]
fn a_download_that_is_reset_for_a_change_is_counted_told_and_begun_anew() {
    // Both drivers: each sends files in its own way.
    for driver in BOTH_DRIVERS {
        let folder = TempDir::new().expect("a temporary folder can be made");
        let root = folder.path().join("root");
        fs::create_dir(&root).expect("a folder can be made");
        let path = root.join("file");
        fs::write(&path, vec![b'A'; FILE_BYTES]).expect("a file can be written");
        let at = |name: &str| folder.path().join(name).to_str().expect("temporary folders have plain names").to_owned();
        let (access, errors, status) = (at("access.log"), at("error.log"), "127.0.0.1:0");
        let options = ["--access-log", &access, "--log-format", "json", "--error-log", &errors, "--status", status];
        // One loop, since each has a cache of its own, which only the download informs of the
        // change.
        let server = serve(&root, &[&["--driver", driver, "--cores", "0"], &options[..]].concat());
        let first = download(&server, WHOLE, || rewrite(&path));
        assert!(first.is_reset, "{driver}");
        let etag = first.field("ETag");
        // A client that goes on where it was must not put two versions together.
        let rest = format!("Range: bytes={}-\r\nIf-Range: {etag}\r\n", first.body().len());
        let second = download(&server, &rest, || {});
        assert!(second.is_whole() && second.head().starts_with("HTTP/1.1 200 "), "{driver}: {}", second.head());
        assert!(second.body().iter().all(|&byte| byte == b'B'), "{driver}");
        let said = server.process.stdout();
        let status = said.lines().find_map(|line| line.rsplit_once("http://").filter(|_| line.contains("status")));
        let status = status.expect("the status listener is said").1.trim_end_matches('/');
        let metrics = ask(status, "/metrics");
        assert!(metrics.contains("\nthalweg_files_changed_while_sent_total 1\n"), "{driver}: {metrics}");
        assert!(ask(status, "/status.json").contains("\"files_changed_while_sent\":1,"), "{driver}");
        assert!(ask(status, "/").contains("was modified while it was sent"), "{driver}");
        until("both downloads to stand in the log", PATIENCE, || {
            let lines = fs::read_to_string(&access).ok()?;
            let completes: Vec<bool> = lines.lines().map(|line| line.contains("\"complete\":true")).collect();
            (completes == [false, true]).then_some(())
        });
        let error = fs::read_to_string(&errors).expect("there is an error log");
        assert_eq!(error.matches("warning: /file was modified while it was sent").count(), 1, "{driver}: {error}");
    }
}

/// The response to a request at the status listener, as text.
fn ask(authority: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(authority).expect("the listener listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time can be set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("it reads");
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("it answers");
    response
}
