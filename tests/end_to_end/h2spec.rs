//! h2spec, a test suite for servers of HTTP/2 by others, against `thalweg serve`.

use std::fs;
use std::process::Command;

use tempfile::TempDir;

use crate::drivers::drivers;
use crate::process::{PATIENCE, Process, built_program};
use crate::server::{Server, Tree};

/// The cases of h2spec 2.2.1 that are not for its strict mode.
const CASES: usize = 145;

/// Without TLS one address serves both versions. RFC 9113, 3.4 lets a server omit GOAWAY for an
/// invalid preface, because that peer may not speak HTTP/2 at all; bytes that are not the preface
/// are taken for HTTP/1, in which an invalid request line is answered with 400 (RFC 9112, 3), and
/// the connection is closed. h2spec expects it to be closed without a byte.
const ANSWERED_AS_HTTP_1: &str = "http2/3.5: Sends invalid connection preface";

/// Runs all cases. Returns the names of those that have not passed.
fn failed(server: &Server, options: &[&str]) -> Vec<String> {
    let folder = TempDir::new().unwrap();
    let report = folder.path().join("report.xml");
    let port = server.url.rsplit(':').next().unwrap();
    let mut command = Command::new(built_program("h2spec"));
    // Some cases are skipped if the response to their request is short. A connection on which
    // nothing comes has to stay quiet for the timeout.
    command.args(["--port", port, "--path", "/large.bin", "--timeout", "5"]).args(options);
    let ended = Process::start(command.arg("--junit-report").arg(&report)).wait(PATIENCE);
    let report = fs::read_to_string(&report).unwrap_or_else(|error| panic!("no report: {error}: {ended:?}"));
    let cases: Vec<&str> = report.lines().filter(|line| line.contains("<testcase ")).collect();
    assert_eq!(cases.len(), CASES, "{ended:?}");
    // One that has not passed contains an element with the reason, in lines of its own.
    let failed = cases.into_iter().filter(|case| !case.ends_with("></testcase>"));
    failed.map(|case| format!("{}: {}", attribute(case, "package"), attribute(case, "classname"))).collect()
}

fn attribute<'e>(element: &'e str, name: &str) -> &'e str {
    let (_, rest) = element.split_once(&format!(" {name}=\"")).expect("the attribute is there");
    rest.split_once('"').expect("an attribute ends").0
}

#[test]
fn every_case_holds_over_tls() {
    let tree = Tree::new();
    for driver in drivers() {
        let server = Server::of(&tree, &["--driver", driver, "--tls", "self-signed"]);
        assert_eq!(failed(&server, &["--tls", "--insecure"]), Vec::<String>::new(), "over {driver}");
    }
}

#[test]
fn every_case_but_one_holds_without_tls() {
    let tree = Tree::new();
    for driver in drivers() {
        let server = Server::of(&tree, &["--driver", driver]);
        assert_eq!(failed(&server, &[]), [ANSWERED_AS_HTTP_1], "over {driver}");
    }
}
