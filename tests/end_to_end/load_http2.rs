//! A load over HTTP/2 with prior knowledge: against nghttpd, and against Thalweg's own server.

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use tempfile::TempDir;

use crate::document::{self, number, outcome};
use crate::drivers::drivers;
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, program, run_thalweg, thalweg, until};
use crate::server::{Server, Tree};

/// A load over HTTP/2. Returns its only trial.
fn load(url: &str, more: &[&str]) -> serde_json::Value {
    let usual = ["run", url, "--http", "2", "--json"];
    document::trial(&run_thalweg(&[&usual[..], more].concat()))
}

/// nghttpd with these files' folder, and its URL.
fn nghttpd(folder: &TempDir) -> (Process, String) {
    // It cannot be told to choose a port, so that another process could take it first.
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let mut command = Command::new(program(&["nghttpd"], "nghttp2-server"));
    command.args(["--no-tls", "-a", "127.0.0.1", "-d"]).arg(folder.path()).arg(port.to_string());
    let mut process = Process::start(&mut command);
    until("nghttpd to listen", PATIENCE, || {
        assert!(process.ended().is_none(), "nghttpd has ended: {}", process.stderr());
        TcpStream::connect(("127.0.0.1", port)).ok()
    });
    (process, format!("http://127.0.0.1:{port}"))
}

#[test]
fn nghttpd_answers_on_many_streams() {
    let folder = TempDir::new().expect("a temporary folder can be made");
    fs::write(folder.path().join("small"), [b'x'; 512]).expect("a file can be written");
    fs::write(folder.path().join("large"), vec![b'x'; 300_000]).expect("a file can be written");
    let (_process, url) = nghttpd(&folder);
    for driver in drivers() {
        let usual = ["--driver", driver, "--workers", "64", "--connections", "4", "--streams", "16"];
        let small = ["--requests", "3000", "--check", "status=200,length=512"];
        let trial = load(&format!("{url}/small"), &[&usual[..], &small].concat());
        assert_eq!((outcome(&trial, "good"), number(&trial, "/connections/opened")), (3000, 4.0), "{trial:#}");
        let each = number(&trial, "/bytes/out") / 3000.0;
        assert!(each < 30.0, "{each} bytes sent per request");
        let large = ["--requests", "100", "--check", "status=200,length=300000"];
        let trial = load(&format!("{url}/large"), &[&usual[..], &large].concat());
        assert_eq!(outcome(&trial, "good"), 100, "{trial:#}");
        let missing = load(&format!("{url}/missing"), &[&usual[..], &["--requests", "100"]].concat());
        assert_eq!(outcome(&missing, "bad_status"), 100, "{missing:#}");
    }
}

#[test]
fn our_server_answers_on_many_streams() {
    let tree = Tree::new();
    let server = Server::start(&tree.root(), &[], thalweg).expect("the server starts");
    let url = format!("{}/text.txt", server.url);
    let usual = ["--workers", "100", "--connections", "1", "--streams", "100", "--requests", "2000"];
    let trial = load(&url, &[&usual[..], &["--check", "length=10"]].concat());
    assert_eq!((outcome(&trial, "good"), number(&trial, "/connections/opened")), (2000, 1.0), "{trial:#}");
    let heads = load(&url, &[&usual[..], &["--method", "HEAD"]].concat());
    assert_eq!((outcome(&heads, "good"), number(&heads, "/bytes/body_in")), (2000, 0.0), "{heads:#}");
    let rated = load(&url, &["--rate", "500/s", "--duration", "1s", "--streams", "4"]);
    assert_eq!(outcome(&rated, "good"), 500, "{rated:#}");
    let few = load(&url, &["--workers", "2", "--calls", "5", "--streams", "2", "--requests", "100"]);
    assert!(outcome(&few, "good") == 100 && number(&few, "/connections/opened") >= 20.0, "{few:#}");
}

#[test]
fn a_server_of_http1_alone_breaks_the_protocol() {
    let nginx = Nginx::start();
    let trial = load(&nginx.url("/000.txt"), &["--workers", "1", "--requests", "5"]);
    assert_eq!(outcome(&trial, "good"), 0, "{trial:#}");
    assert_eq!(outcome(&trial, "protocol_error"), 5, "{trial:#}");
}

/// nginx ends each connection with GOAWAY after so many requests. It reads on until the client
/// closes: otherwise the kernel resets the connection, and the client may not learn of GOAWAY.
#[test]
fn connections_that_the_server_ends_are_counted_and_no_request_is_lost() {
    let nginx = Nginx::with_listener("http2", "keepalive_requests 100; lingering_close always;");
    let url = nginx.other_url("http", "/000.txt");
    let usual = ["--workers", "8", "--connections", "2", "--streams", "4", "--requests", "1000"];
    let trial = load(&url, &[&usual[..], &["--retry-refused", "3"]].concat());
    assert_eq!(outcome(&trial, "good"), 1000, "{trial:#}");
    let streams = &trial["streams"];
    let (opened, retried) = (number(streams, "/opened"), number(streams, "/retried"));
    assert!(number(streams, "/goaways/NO_ERROR") >= 9.0, "{streams:#}");
    assert_eq!((opened, number(streams, "/refused")), (1000.0 + retried, retried), "{streams:#}");
    assert!(number(streams, "/concurrent_max") <= 4.0, "{streams:#}");
    assert_eq!(nginx.finish().len(), 1000, "nginx has processed each request once");
}

#[test]
fn options_of_another_version_are_refused() {
    for (arguments, expected) in [
        (&["--http", "2", "--pipeline", "4"][..], "--pipeline is for HTTP/1.1; with --http 2 use --streams"),
        (&["--retry-refused", "1"], "--retry-refused needs --http 2"),
        (&["--streams", "4"], "--streams needs --http 2; HTTP/1.1 has --pipeline"),
        (&["--http", "2", "--header", "Connection: close"], "HTTP/2 has no fields of the connection"),
        (&["--http", "2", "--streams", "4", "--calls", "1"], "--streams has no effect with --calls 1"),
    ] {
        let ended = run_thalweg(&[&["run", "http://127.0.0.1:9/"], arguments].concat());
        assert!(ended.code == Some(2) && ended.stderr.contains(expected), "{arguments:?}: {ended:?}");
    }
}

/// The numbers in a line of h2load's output that begins so.
fn numbers(output: &str, line: &str) -> Vec<u64> {
    let found = output.lines().find(|found| found.starts_with(line));
    let found = found.unwrap_or_else(|| panic!("no line {line:?} in {output}"));
    found.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn a_result_in_the_form_of_h2load_has_the_figures_of_h2load() {
    let nginx = Nginx::with_listener("ssl http2", "");
    for path in ["/000.txt", "/missing"] {
        let url = nginx.other_url("https", path);
        let theirs = Command::new(program(&["h2load"], "nghttp2-client"))
            .args(["-n", "400", "-c", "2", "-m", "4", &url])
            .output()
            .expect("h2load can be started");
        let theirs = String::from_utf8(theirs.stdout).expect("h2load prints ASCII");
        let load = ["--http", "2", "--workers", "8", "--connections", "2", "--streams", "4", "--requests", "400"];
        let more = ["--cacert", &nginx.authority(), "--store", "none", "--format", "h2load"];
        let ours = run_thalweg(&[&["run", &url], &load[..], &more].concat()).stdout;
        for line in ["requests:", "status codes:"] {
            assert_eq!(numbers(&ours, line), numbers(&theirs, line), "{ours}\n{theirs}");
        }
        // Bytes, in parentheses. Frames of the connection as a whole are not counted here.
        let bytes = |output: &str| -> Vec<f64> {
            let line = output.lines().find(|line| line.starts_with("traffic:")).expect("a line on traffic");
            line.split('(').skip(1).filter_map(|part| part.split(')').next()?.parse().ok()).collect()
        };
        let (ours_bytes, theirs_bytes) = (bytes(&ours), bytes(&theirs));
        assert_eq!(ours_bytes[2], theirs_bytes[2], "content: {ours}\n{theirs}");
        for (mine, other) in ours_bytes.iter().zip(&theirs_bytes) {
            assert!((mine / other - 1.0).abs() < 0.01, "{ours}\n{theirs}");
        }
        for row in ["time for request: ", "time for connect: ", "time to 1st byte: "] {
            let columns = |output: &str| {
                output.lines().find(|line| line.starts_with(row)).map(|line| line.split_whitespace().count())
            };
            assert_eq!(columns(&ours), columns(&theirs), "{row}: {ours}\n{theirs}");
        }
    }
}
