//! Changes of files while files are assumed to be unchanged for an hour: only the kernel's events
//! reveal them.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::drivers::BOTH_DRIVERS;
use crate::process::{PATIENCE, run_thalweg, until};
use crate::server::Server;

/// Enough connections to reach all loops, most likely.
const ALL_CORES: usize = 20;

/// A configuration, and the tree that it names.
struct Place(TempDir);

impl Place {
    fn new(head: &str) -> Self {
        let place = Self(TempDir::new().expect("a temporary folder can be made"));
        // The sandbox leaves the folder of the configuration, so it is not that of the tests.
        fs::create_dir_all(place.root().join("folder")).expect("a folder can be made");
        for (name, text) in [("folder/file", "first"), ("folder/other", "other"), ("top", "first")] {
            place.write(name, text);
        }
        place.configure(head);
        place
    }

    fn configure(&self, head: &str) {
        let text = format!(
            "{head}\n[[site]]\nroot = \"root\"\n[[site.rule]]\nlisting = true\nprecompressed = true\ndigests = true\n"
        );
        fs::write(self.config(), text).expect("a file can be written");
    }

    fn config(&self) -> std::path::PathBuf {
        self.0.path().join("etc/thalweg.toml")
    }

    fn root(&self) -> std::path::PathBuf {
        self.0.path().join("etc/root")
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.root().join(name), text).expect("a file can be written");
    }
}

/// The response to a request over a connection of its own, as text.
fn ask(authority: &str, path: &str, fields: &str) -> String {
    let mut stream = TcpStream::connect(authority).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a time can be set");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{fields}\r\n").expect("it reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it answers");
    String::from_utf8_lossy(&response).into_owned()
}

/// Waits until the responses of all loops contain this text.
fn until_seen(server: &Server, what: &str, (path, fields, expected): (&str, &str, &str)) {
    until(what, PATIENCE, || {
        (0..ALL_CORES).all(|_| ask(server.authority(), path, fields).contains(expected)).then_some(())
    });
}

/// A change in the tree; the request after it, with its fields; and a text that the response
/// contains.
type Change = (&'static str, fn(&Path), (&'static str, &'static str, &'static str));

const CHANGES: &[Change] = &[
    ("a file at the top", |root| fs::write(root.join("top"), "second").unwrap(), ("/top", "", "\r\n\r\nsecond")),
    (
        "a file that was written",
        |root| fs::write(root.join("folder/file"), "second").unwrap(),
        ("/folder/file", "", "\r\n\r\nsecond"),
    ),
    (
        "a file that was replaced",
        |root| {
            fs::write(root.join("new"), "third").unwrap();
            fs::rename(root.join("new"), root.join("folder/file")).unwrap();
        },
        ("/folder/file", "", "\r\n\r\nthird"),
    ),
    (
        "a date",
        |root| {
            let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_500_000_000);
            fs::File::open(root.join("folder/file")).unwrap().set_modified(past).unwrap();
        },
        ("/folder/file", "", "Last-Modified: Fri, 14 Jul 2017 02:40:00 GMT"),
    ),
    (
        "a size in a list",
        |root| fs::write(root.join("folder/other"), "longer text").unwrap(),
        ("/folder/?format=json", "", "\"size\":11"),
    ),
    (
        "a new file in a list",
        |root| fs::write(root.join("folder/new"), "").unwrap(),
        ("/folder/?format=json", "", "\"name\":\"new\""),
    ),
    (
        "a compressed neighbour",
        |root| fs::write(root.join("folder/file.gz"), "compressed").unwrap(),
        ("/folder/file", "Accept-Encoding: gzip, identity;q=0.5\r\n", "\r\n\r\ncompressed"),
    ),
    (
        "one that has gone",
        |root| fs::remove_file(root.join("folder/file.gz")).unwrap(),
        ("/folder/file", "Accept-Encoding: gzip, identity;q=0.5\r\n", "\r\n\r\nthird"),
    ),
    (
        "a checksum",
        |root| fs::write(root.join("folder/SHA256SUMS"), format!("{}  file\n", "ab".repeat(32))).unwrap(),
        ("/folder/file", "Want-Repr-Digest: sha-256=1\r\n", "Repr-Digest: sha-256=:q6ur"),
    ),
    (
        "an index",
        |root| fs::write(root.join("folder/index.html"), "the index").unwrap(),
        ("/folder/", "", "\r\n\r\nthe index"),
    ),
    (
        "none any more",
        |root| fs::remove_file(root.join("folder/index.html")).unwrap(),
        ("/folder/", "", "Index of /folder/"),
    ),
    (
        "a file that was renamed",
        |root| fs::rename(root.join("folder/file"), root.join("folder/kept")).unwrap(),
        ("/folder/file", "", "404 Not Found"),
    ),
    (
        "a folder that was moved",
        |root| fs::rename(root.join("folder"), root.join("moved")).unwrap(),
        ("/folder/other", "", "404 Not Found"),
    ),
    (
        "another in its place",
        |root| {
            fs::create_dir(root.join("folder")).unwrap();
            fs::write(root.join("folder/other"), "of another folder").unwrap();
        },
        ("/folder/other", "", "of another folder"),
    ),
    (
        "a file of that",
        |root| fs::write(root.join("folder/other"), "changed").unwrap(),
        ("/folder/other", "", "\r\n\r\nchanged"),
    ),
    (
        "a file that was deleted",
        |root| fs::remove_file(root.join("folder/other")).unwrap(),
        ("/folder/other", "", "404 Not Found"),
    ),
];

/// Has all loops cache everything, and then checks that each loop notices each change.
fn check_changes(server: &Server, place: &Place) {
    for (what, change, (path, fields, expected)) in CHANGES {
        for _ in 0..ALL_CORES {
            for other in ["/folder/other", "/folder/?format=json"] {
                ask(server.authority(), other, "");
            }
            let before = ask(server.authority(), path, fields);
            assert!(!before.contains(expected), "{what}, before it happens: {before}");
        }
        change(&place.root());
        until_seen(server, what, (path, fields, expected));
    }
}

#[test]
fn each_change_is_seen_though_nothing_ages() {
    // Both drivers: each has its own way to the events of the kernel.
    for driver in BOTH_DRIVERS {
        let place = Place::new("[cache]\nage = \"1h\"");
        let server = Server::configured(&place.config(), &["--driver", driver]);
        assert!(server.process.stdout().contains("sandbox: files, system calls"), "{}", server.process.stdout());
        check_changes(&server, &place);
        assert_eq!(server.process.stderr(), "");
    }
}

#[test]
fn loops_with_tables_of_their_own_see_changes_too() {
    // Both drivers: each has its own way to the events of the kernel.
    for driver in BOTH_DRIVERS {
        let place = Place::new("[cache]\nage = \"1h\"\n[limits]\nconnections_max = 1000");
        let server = Server::configured_for(&place.config(), |command| {
            let thalweg = std::mem::replace(command, Command::new("sh"));
            command.args(["-c", "ulimit -n 600 && exec \"$0\" \"$@\""]).arg(thalweg.get_program());
            command.args(thalweg.get_args()).args(["--driver", driver]);
        });
        check_changes(&server, &place);
    }
}

/// The value of a metric.
fn metric(authority: &str, name: &str) -> u64 {
    let text = ask(authority, "/metrics", "");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {text}")).parse().expect("a count")
}

fn status_of(server: &Server) -> String {
    let said = server.process.stdout();
    let line = said.lines().find_map(|line| line.strip_prefix("status on http://")).expect("it shows its status");
    line.trim_end_matches('/').to_owned()
}

#[test]
fn watching_begins_and_ends_with_a_configuration() {
    let status = "[status]\nlisten = \"127.0.0.1:0\"";
    let place = Place::new(&format!("[cache]\nage = \"1h\"\nwatch = false\n{status}"));
    let server = Server::configured(&place.config(), &[]);
    let status_address = status_of(&server);
    let reload = |times| {
        server.process.signal("HUP");
        until("the configuration to be read", PATIENCE, || {
            (server.process.stderr().matches("was reloaded").count() == times).then_some(())
        });
    };
    until_seen(&server, "the first text", ("/top", "", "\r\n\r\nfirst"));
    assert_eq!(metric(&status_address, "thalweg_watched_folders"), 0);
    place.configure(&format!("[cache]\nage = \"1h\"\n{status}"));
    reload(1);
    until_seen(&server, "the first text", ("/top", "", "\r\n\r\nfirst"));
    assert_eq!(metric(&status_address, "thalweg_watched_folders"), 1);
    place.write("top", "second");
    until_seen(&server, "the second text", ("/top", "", "\r\n\r\nsecond"));
    assert!(metric(&status_address, "thalweg_watch_events_total") > 0);
    place.configure(&format!("[cache]\nage = \"1h\"\nwatch = false\n{status}"));
    reload(2);
    assert_eq!(metric(&status_address, "thalweg_watched_folders"), 0);
}

#[test]
fn a_host_that_watches_nothing_leaves_age_and_is_told_of() {
    for (setting, advice) in [
        ("echo 0 > /proc/sys/user/max_inotify_watches", "raise fs.inotify.max_user_watches"),
        ("echo 0 > /proc/sys/user/max_inotify_instances", "raise fs.inotify.max_user_instances"),
    ] {
        if !on_host(setting, Command::new("true")).status().is_ok_and(|status| status.success()) {
            // Not printed by a macro, whose output of tests that succeed is swallowed.
            let _ = writeln!(std::io::stderr(), "\nSKIPPED: {setting}: no namespaces; run the tests as root");
            continue;
        }
        let place = Place::new("[cache]\nage = \"100ms\"\n[status]\nlisten = \"127.0.0.1:0\"");
        let server = Server::configured_for(&place.config(), |command| {
            *command = on_host(setting, std::mem::replace(command, Command::new("true")));
        });
        for path in ["/top", "/folder/file"] {
            until_seen(&server, "the first text", (path, "", "\r\n\r\nfirst"));
        }
        place.write("top", "second");
        until_seen(&server, "the second text", ("/top", "", "\r\n\r\nsecond"));
        let said = server.process.stderr();
        assert_eq!(said.matches("cannot watch folders for changes").count(), 1, "{said}");
        assert!(said.contains(advice), "{said}");
        let status = status_of(&server);
        assert_eq!(metric(&status, "thalweg_watched_folders"), 0);
        assert_eq!(metric(&status, "thalweg_watch_refusals_total") > 0, !setting.contains("instances"), "{setting}");
    }
}

/// A program on a host with this setting, which affects no other process.
fn on_host(setting: &str, program: Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &format!("{setting} && exec \"$0\" \"$@\"")]);
    command.arg(program.get_program()).args(program.get_args());
    command
}

#[test]
fn the_configuration_is_printed_with_it() {
    let place = Place::new("[cache]\nwatch = false");
    let config = place.config();
    let ended = run_thalweg(&["serve", "--config", config.to_str().expect("a plain name"), "--print-config"]);
    assert!(ended.stdout.contains("\nwatch = false"), "{ended:?}");
}
