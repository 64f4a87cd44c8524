//! Without io_uring the program uses epoll, and the result reports it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::document::{self, outcome};
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process};
use crate::serve;
use crate::server::{Server, Tree};

/// The program under test, in a process that may not set up a ring.
fn thalweg_without_ring(arguments: &[&str]) -> Command {
    let mut command = Command::new(launcher());
    command.arg(env!("CARGO_BIN_EXE_thalweg")).args(arguments);
    command
}

/// Cargo names no variable for an example, but puts them all in one place.
fn launcher() -> PathBuf {
    let built = Path::new(env!("CARGO_BIN_EXE_thalweg")).with_file_name("examples").join("without_ring");
    assert!(built.is_file(), "{} is missing; build it: cargo build -p thalweg-cli --examples", built.display());
    built
}

#[test]
fn the_table_holds_on_epoll_when_the_ring_is_forbidden() {
    let tree = Tree::new();
    let server = Server::start(&tree.root(), &["--driver", "auto"], thalweg_without_ring)
        .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"));
    assert_eq!(server.driver, "epoll");
    serve::holds(&server);
}

#[test]
fn a_run_falls_back_and_says_so() {
    let nginx = Nginx::start();
    let url = nginx.url("/000.txt");
    let run = ["run", &url, "--requests", "200", "--rate", "400/s", "--json"];
    let ended = Process::start(&mut thalweg_without_ring(&run)).wait(PATIENCE);
    let trial = document::trial(&ended);
    assert_eq!((outcome(&trial, "good"), trial["client"]["driver"].as_str()), (200, Some("epoll")), "{trial:#}");
    assert_eq!(nginx.finish().len(), 200);
}

#[test]
fn a_ring_that_was_asked_for_and_is_forbidden_is_an_error() {
    let (tree, nginx) = (Tree::new(), Nginx::start());
    let (root, url) = (tree.root(), nginx.url("/000.txt"));
    let root = root.to_str().unwrap();
    for command in [&["serve", root, "--listen", "127.0.0.1:0"][..], &["run", &url], &["find", &url]] {
        let arguments = [command, &["--driver", "uring"]].concat();
        let ended = Process::start(&mut thalweg_without_ring(&arguments)).wait(PATIENCE);
        assert_eq!((ended.code, ended.stderr.lines().count()), (Some(4), 1), "{command:?}: {ended:?}");
        for part in ["io_uring", "not permitted", "--driver"] {
            assert!(ended.stderr.contains(part), "{command:?} does not name {part}: {ended:?}");
        }
        assert_eq!(ended.stdout, "", "{command:?}");
    }
}
