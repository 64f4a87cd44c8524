//! Changes of the tree while it is served must not open a way out of it: folders and files
//! alternate with links to the outside, and folders leave the tree while a path is resolved through
//! them.
//!
//! `tests/race` runs it for longer than the second that it has here.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::conformance::case::find;
use crate::conformance::talk::Conversation;
use crate::process::{PATIENCE, is_full, thalweg};
use crate::server::{SECRET, Server};

/// The content of the files in the tree.
const INSIDE: &str = "inside";

/// Files of a folder, more than the server keeps open, so that it has to look each of them up
/// again.
const FILES: usize = 10_000;

/// Requests of one connection, which are sent at once.
const REQUESTS: usize = 200;

/// Clients at a time.
const CLIENTS: usize = 3;

/// Counts of the responses that the clients have received.
#[derive(Default)]
struct ResponseCounts {
    found: usize,
    missing: usize,
}

#[test]
fn no_race_with_links_leads_out_of_the_tree_over_the_ring() {
    race("auto");
}

#[test]
fn no_race_with_links_leads_out_of_the_tree_over_epoll() {
    race("epoll");
}

fn race(driver: &str) {
    let usual = if is_full() { 20 } else { 1 };
    let duration =
        std::env::var("THALWEG_RACE_S").map_or(usual, |text| text.parse().expect("THALWEG_RACE_S is a number"));
    let folder = TempDir::new().expect("a temporary folder can be made");
    let root = fill(folder.path());
    let server = Server::start(&root, &["--driver", driver], thalweg)
        .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"));
    let end = Instant::now() + Duration::from_secs(duration);
    let is_over = AtomicBool::new(false);
    let seen = thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                swap(folder.path());
            }
        });
        let ask = |client| {
            let server = &server;
            scope.spawn(move || ask(server, client, end))
        };
        let clients: Vec<_> = (0..CLIENTS).map(ask).collect();
        let seen: Vec<_> = clients.into_iter().map(thread::ScopedJoinHandle::join).collect();
        is_over.store(true, Ordering::Relaxed);
        seen.into_iter().map(|seen| seen.expect("a client has met nothing wrong")).collect::<Vec<_>>()
    });
    let found: usize = seen.iter().map(|seen| seen.found).sum();
    let missing: usize = seen.iter().map(|seen| seen.missing).sum();
    #[expect(clippy::print_stdout, reason = "who runs it for longer wants to know what it did")]
    {
        println!("{driver}: {found} found, {missing} refused in {duration} s");
    }
    // Both happen, or there was no race.
    assert!(found >= 100 && missing >= 100, "{found} found, {missing} refused");
}

/// The tree, and beside it what must not be seen, under the same names.
fn fill(folder: &Path) -> std::path::PathBuf {
    let root = folder.join("root");
    fs::create_dir_all(root.join("deep/way")).expect("a folder can be made");
    for (name, content) in [("root/flip", INSIDE), ("root/deep/way/flip", INSIDE), ("outside", SECRET)] {
        let name = folder.join(name);
        fs::create_dir(&name).expect("a folder can be made");
        let first = name.join("0");
        fs::write(&first, content).expect("a file can be written");
        for number in 1..FILES {
            fs::hard_link(&first, name.join(number.to_string())).expect("a file can be linked");
        }
    }
    fs::write(root.join("file"), INSIDE).expect("a file can be written");
    symlink("../outside", root.join("link")).expect("a link can be made");
    symlink(folder.join("outside"), root.join("deep/link")).expect("a link can be made");
    symlink("../outside/0", root.join("link-to-file")).expect("a link can be made");
    root
}

/// Puts links in the place of folders and files and takes them away again, and takes a folder out
/// of the tree for a moment.
fn swap(folder: &Path) {
    let root = folder.join("root");
    let turn = |name: &str, link: &str| {
        let [name, link, spare] = [name, link, "spare"].map(|name| root.join(name));
        for (from, to) in [(&name, &spare), (&link, &name), (&name, &link), (&spare, &name)] {
            fs::rename(from, to).expect("an entry of a folder can be renamed");
        }
    };
    turn("flip", "link");
    turn("deep/way", "deep/link");
    turn("file", "link-to-file");
    // A path resolution that is in this folder and goes up ends elsewhere.
    let [inside, outside] = [root.join("deep/way"), folder.join("outside/way")];
    fs::rename(&inside, &outside).expect("a folder can be renamed");
    fs::rename(&outside, &inside).expect("a folder can be renamed");
}

/// Requests files until the end.
fn ask(server: &Server, client: usize, end: Instant) -> ResponseCounts {
    let address = server.authority().parse().expect("an address");
    let (mut seen, mut number) = (ResponseCounts::default(), client * FILES / CLIENTS);
    let is_enough = |seen: &ResponseCounts| seen.found >= 100 && seen.missing >= 100;
    // A busy machine needs longer until both have happened.
    while Instant::now() < end || !is_enough(&seen) && Instant::now() < end + PATIENCE {
        let mut conversation = Conversation::begin(address);
        let mut requests = String::new();
        for _ in 0..REQUESTS {
            number += 1;
            let name = number / 4 % FILES;
            let path = match number % 4 {
                0 => format!("/flip/{name}"),
                1 => format!("/deep/way/flip/{name}"),
                2 => format!("/deep/way/{name}"),
                _ => format!("/file?{name}"),
            };
            requests.push_str(&format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n"));
        }
        conversation.send(requests.as_bytes());
        for _ in 0..REQUESTS {
            let response = conversation.response(false).expect("a sound response").expect("a response to each request");
            match response.status {
                200 => {
                    assert_eq!(response.body, INSIDE.as_bytes());
                    seen.found += 1;
                }
                301 | 403 | 404 => seen.missing += 1,
                status => panic!("status {status}"),
            }
        }
        assert!(find(&conversation.received, SECRET.as_bytes()).is_none(), "the secret has come out");
    }
    seen
}
