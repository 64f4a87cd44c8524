//! `thalweg cache warm`: the cache of a running server is filled from lists and from logs.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::curl::fetch;
use crate::process::{ExitedProcess, PATIENCE, run_thalweg, until};
use crate::server::{Server, Tree};

/// A mirror in front of a tree, with a log.
struct Mirror {
    folder: TempDir,
    _tree: Tree,
    _origin: Server,
    server: Server,
}

impl Mirror {
    fn start(format: &str) -> Self {
        let (tree, folder) = (Tree::new(), TempDir::new().unwrap());
        let at = |name: &str| folder.path().join(name);
        let text = format!("[[site]]\nroot = {:?}\n[[site.rule]]\ncache_control = \"max-age=600\"\n", tree.root());
        fs::write(at("origin.toml"), text).unwrap();
        let origin = Server::configured(&at("origin.toml"), &[]);
        let text = format!(
            "[log]\naccess = \"access.log\"\nformat = {format:?}\n[[origin]]\nname = \"o\"\nurl = \"{}/\"\n[[site]]\n\
             [[site.mount]]\npath = \"/\"\norigins = [\"o\"]\n",
            origin.url
        );
        fs::write(at("mirror.toml"), text).unwrap();
        let server = Server::configured(&at("mirror.toml"), &[]);
        Self { folder, _tree: tree, _origin: origin, server }
    }

    fn warm(&self, list: &str, options: &[&str]) -> ExitedProcess {
        let file = self.folder.path().join("list");
        fs::write(&file, list).unwrap();
        let file = file.to_str().unwrap();
        run_thalweg(&[&["cache", "warm", "--server", &self.server.url, file], options].concat())
    }
}

fn document(ended: &ExitedProcess) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

#[test]
fn what_a_list_names_is_in_the_cache_afterwards() {
    let mirror = Mirror::start("combined");
    let list = "# a list\n/text.txt\nhttp://any.example/large.bin\n2\t7\t/with space.txt\n\n";
    let ended = mirror.warm(list, &["--concurrency", "2"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(
        ended.stdout.contains("3 objects") && ended.stdout.contains("3 fetched, 0 were there already"),
        "{ended:?}"
    );
    for name in ["text.txt", "large.bin", "with%20space.txt"] {
        let reply = fetch(&[], &format!("{}/{name}", mirror.server.url));
        assert!(reply.field("cache-status").starts_with("thalweg;hit"), "{name}: {:?}", reply.fields);
    }
    let again = document(&mirror.warm(list, &["--json"]));
    assert_eq!((&again["hits"], &again["fetched"], &again["complete"]), (&3.into(), &0.into(), &true.into()));
    let ended = mirror.warm("/text.txt\n/none\nzzz\n", &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.stdout.contains("2 failed"), "{ended:?}");
    assert!(
        ended.stdout.contains("/none: the server answers 404") && ended.stdout.contains("line 3: \"zzz\""),
        "{ended:?}"
    );
    let began = std::time::Instant::now();
    let slow = document(&mirror.warm("/large.bin\n", &["--rate", "24Mbit", "--json"]));
    assert!(slow["bytes"] == 3_000_000 && began.elapsed().as_secs_f64() > 0.9, "{slow} {:?}", began.elapsed());
}

#[test]
fn logs_name_what_was_requested_most() {
    for format in ["common", "json"] {
        let mirror = Mirror::start(format);
        for name in ["text.txt", "data.json", "data.json", "none", "none", "none"] {
            fetch(&[], &format!("{}/{name}", mirror.server.url));
        }
        let log = until("the log", PATIENCE, || {
            let log = fs::read_to_string(mirror.folder.path().join("access.log")).ok()?;
            (log.lines().count() == 6).then_some(log)
        });
        let other = Mirror::start(format);
        let ended = other.warm(&log, &["--access-log", "--top", "1"]);
        assert!(ended.code == Some(0) && ended.stdout.contains("1 object, 2 B"), "{format}: {ended:?} {log}");
        let ended = other.warm(&log, &["--access-log"]);
        assert!(ended.stdout.contains("1 fetched, 1 were there already"), "{format}: {ended:?}");
    }
}

#[test]
fn failures_before_the_first_object() {
    let check = |arguments: &[&str], code: i32, part: &str| {
        let ended = run_thalweg(&[&["cache", "warm"], arguments].concat());
        assert!(ended.code == Some(code), "{ended:?}");
        assert!(ended.stderr.contains(part) || ended.stdout.contains(part), "{ended:?}");
    };
    let folder = TempDir::new().unwrap();
    let list = folder.path().join("list");
    fs::write(&list, "/a\n/b\n").unwrap();
    let list = list.to_str().unwrap();
    check(&["--server", "http://127.0.0.1:1", list], 4, "2 failed");
    check(&["--server", "127.0.0.1", list], 2, "is not the URL of a server");
    check(&["--server", "http://127.0.0.1:1", "/none/there"], 2, "cannot read the log /none/there");
    check(&["--server", "http://127.0.0.1:1", list, "--access-log"], 4, "has no line of an access log");
    check(&["--server", "http://127.0.0.1:1", list, "--concurrency", "0"], 2, "from 1 to 1000");
}
