//! `thalweg serve` with a configuration file: the responses that follow from it, and the messages
//! about mistakes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::curl::fetch;
use crate::process::{ExitedProcess, run_thalweg};
use crate::server::Server;

/// A folder with a configuration and two trees.
struct Folder(TempDir);

impl Folder {
    fn new(text: &str) -> Self {
        let folder = TempDir::new().expect("a temporary folder can be made");
        for (name, text) in [
            ("thalweg.toml", text),
            ("one/index.html", "one"),
            ("one/404.html", "lost"),
            ("one/big/shadowed", "shadowed"),
            ("big/a.iso", "iso"),
            ("two/index.html", "two"),
            ("two/.hidden", "hidden"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder can be made");
            fs::write(path, text).expect("a file can be written");
        }
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `thalweg serve` with the file and these options to its end.
    fn run(&self, options: &[&str]) -> ExitedProcess {
        let file = self.path("thalweg.toml");
        run_thalweg(&[&["serve", "--config", file.to_str().expect("a plain name")], options].concat())
    }
}

const TWO_SITES: &str = r#"
driver = "epoll"
unknown_host = "refuse"

[[site]]
names = ["one.example", "*.one.example"]
root = "one"
error_pages = { 404 = "/404.html" }

[[site.mount]]
path = "/big/"
root = "big"

[[site.rule]]
headers = { X-Frame-Options = "DENY" }

[[site.rule]]
folder = "/big/"
files = "*.iso"
cache_control = "public, max-age=86400"
content_type = "application/x-cd-image"

[[site]]
names = ["two.example"]

[[site.mount]]
path = "/"
root = "two"
dot_files = true
"#;

#[test]
fn sites_are_served_as_the_file_has_it() {
    let folder = Folder::new(TWO_SITES);
    let server = Server::configured(&folder.path("thalweg.toml"), &[]);
    assert_eq!(server.driver, "epoll");
    for (host, path, status, body) in [
        ("one.example", "/", 200, "one"),
        ("mirror.ONE.example:8080", "/", 200, "one"),
        ("one.example", "/big/a.iso", 200, "iso"),
        ("one.example", "/big/shadowed", 404, "lost"),
        ("one.example", "/.hidden", 404, "lost"),
        ("two.example", "/", 200, "two"),
        ("two.example", "/.hidden", 200, "hidden"),
        ("three.example", "/", 421, ""),
    ] {
        let reply = fetch(&["--header", &format!("Host: {host}")], &format!("{}{path}", server.url));
        assert_eq!(reply.status, status, "{host} {path}");
        if !body.is_empty() {
            assert_eq!(String::from_utf8_lossy(&reply.body), body, "{host} {path}");
        }
        let is_image = path.ends_with(".iso");
        assert_eq!(reply.field("X-Frame-Options"), if status == 200 && host != "two.example" { "DENY" } else { "" });
        assert_eq!(reply.field("Cache-Control"), if is_image { "public, max-age=86400" } else { "" }, "{path}");
        assert_eq!(reply.field("Content-Type") == "application/x-cd-image", is_image, "{path}");
    }
}

#[test]
fn a_directory_is_the_root_of_the_site_that_has_none() {
    let folder = Folder::new("[[site]]\n[[site.rule]]\nheaders = { X-A = \"1\" }\n");
    let root = folder.path("two");
    let server = Server::configured(&folder.path("thalweg.toml"), &[root.to_str().expect("a plain name")]);
    let reply = fetch(&[], &server.url);
    assert_eq!((reply.body.as_slice(), reply.field("X-A")), (&b"two"[..], "1"));
    // Options win.
    drop(server);
    let folder = Folder::new("driver = \"uring\"\n[[site]]\nroot = \"one\"\n");
    let server = Server::configured(&folder.path("thalweg.toml"), &["--driver", "epoll"]);
    assert_eq!(server.driver, "epoll");
    let ended = folder.run(&[root.to_str().expect("a plain name"), "--check"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("already has a root"), "{ended:?}");
}

#[test]
fn files_that_the_user_may_not_read_are_forbidden() {
    let folder = Folder::new("[[site]]\nroot = \"one\"\nerror_pages = { 403 = \"/404.html\" }\n");
    let set_mode = |name: &str, mode| {
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(mode)).expect("a mode can be set");
    };
    for name in [".", "one", "one/big"] {
        set_mode(name, 0o755);
    }
    set_mode("one/index.html", 0o000);
    fs::write(folder.path("one/big/inside"), "inside").expect("a file can be written");
    set_mode("one/big", 0o600);
    let server = Server::configured_for(&folder.path("thalweg.toml"), |command| {
        // The superuser may read everything.
        if fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0) {
            command.uid(65534).gid(65534);
        }
    });
    for (path, status, body) in [("/", 403, "lost"), ("/index.html", 403, "lost"), ("/big/inside", 403, "lost")] {
        let reply = fetch(&[], &format!("{}{path}", server.url));
        assert_eq!((reply.status, String::from_utf8_lossy(&reply.body).as_ref()), (status, body), "{path}");
    }
    set_mode("one/big", 0o755);
}

#[test]
fn a_check_says_what_it_has_looked_at() {
    let folder = Folder::new(TWO_SITES);
    let ended = folder.run(&["--check"]);
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""), "{ended:?}");
    for part in ["valid", "one.example", "/big/", "127.0.0.1:8080"] {
        assert!(ended.stdout.contains(part), "{part}: {ended:?}");
    }
}

#[test]
fn a_check_finds_what_a_start_would_fail_on_and_leaves_nothing() {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let site = "[[site]]\nroot = \"one\"\n";
    // A file without write permission only stops users other than the superuser.
    let who = if is_root { "user = \"nobody\"\n" } else { "drain = \"1s\"\n" };
    let locked = |text: &str| format!("{who}{text}");
    let mut cases = vec![
        ("user = \"nobody-of-that-name\"\n".to_owned(), vec!["thalweg.toml:1:8", "no such user"]),
        ("[log]\naccess = \"nowhere/log\"\n".to_owned(), vec!["thalweg.toml:2:10", "does not exist"]),
        (locked("[log]\naccess = \"locked/log\"\n"), vec!["thalweg.toml:3:10", "cannot write", "locked/log"]),
        (locked("[log]\nerror = \"locked/log\"\n"), vec!["thalweg.toml:3:9", "cannot write"]),
        (
            locked("[status]\nlisten = \"127.0.0.1:0\"\nstate = \"locked/state\"\n"),
            vec!["thalweg.toml:4:9", "cannot write"],
        ),
        (locked("pid_file = \"locked/pid\"\n"), vec!["thalweg.toml:2:12", "cannot write", "locked/pid"]),
        ("listen = [\"192.0.2.1:8080\"]\n".to_owned(), vec!["thalweg.toml:1:11", "ip addr"]),
        ("[status]\nlisten = \"192.0.2.1:80\"\n".to_owned(), vec!["thalweg.toml:2:10", "ip addr"]),
    ];
    if is_root {
        cases.push((who.to_owned(), vec!["cannot open the folder"]));
    } else {
        cases.push(("user = \"root\"\n".to_owned(), vec!["thalweg.toml:1:8", "only root"]));
        let socket = "listen = [\"unix:locked/socket\"]\n";
        cases.push((socket.to_owned(), vec!["thalweg.toml:1:11", "cannot listen on unix:"]));
    }
    for (text, parts) in cases {
        let folder = Folder::new(&format!("{text}{site}"));
        fs::create_dir(folder.path("locked")).expect("a folder can be made");
        fs::set_permissions(folder.path("locked"), fs::Permissions::from_mode(0o555)).expect("a mode can be set");
        let mode = if parts[0].contains("open the folder") { 0o700 } else { 0o755 };
        fs::set_permissions(folder.path("one"), fs::Permissions::from_mode(mode)).expect("a mode can be set");
        fs::set_permissions(folder.path(""), fs::Permissions::from_mode(0o755)).expect("a mode can be set");
        let ended = folder.run(&["--check"]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{text}: {ended:?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{text}: {part}: {}", ended.stderr);
        }
    }
    // Beside the server that it checks, whatever that holds.
    let folder = Folder::new("");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port can be had");
    let listen = taken.local_addr().expect("it listens");
    let text = format!(
        "listen = [\"{listen}\", \"unix:run/socket\"]\nsandbox = \"auto\"\npid_file = \"run/pid\"\n[log]\naccess = \"run/log\"\n{site}"
    );
    fs::write(folder.path("thalweg.toml"), text).expect("a file can be written");
    fs::create_dir(folder.path("run")).expect("a folder can be made");
    let ended = folder.run(&["--check"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stdout.contains(&format!("{listen}, which is in use now")), "{ended:?}");
    assert_eq!(fs::read_dir(folder.path("run")).expect("a folder can be read").count(), 0, "it leaves nothing");
}

#[test]
fn mounts_in_a_folder_are_listed_there() {
    let rule = "[[site]]\nroot = \"one\"\n[[site.rule]]\nlisting = true\n";
    let mounts = "[[site.mount]]\npath = \"/big/iso/\"\nroot = \"big\"\n[[site.mount]]\npath = \"/big/shadowed/\"\nroot = \"two\"\n";
    let folder = Folder::new(&format!("{rule}{mounts}"));
    fs::write(folder.path("one/big/last"), "").expect("a file can be written");
    let server = Server::configured(&folder.path("thalweg.toml"), &[]);
    let reply = fetch(&[], &format!("{}/big/?format=json", server.url));
    let listing: serde_json::Value = serde_json::from_slice(&reply.body).expect("it is JSON");
    let names: Vec<_> =
        listing["entries"].as_array().expect("it has entries").iter().map(|entry| &entry["href"]).collect();
    assert_eq!(names, ["iso/", "shadowed/", "last"]);
    let page = String::from_utf8_lossy(&fetch(&[], &format!("{}/big/", server.url)).body).into_owned();
    assert_eq!((page.matches("href=\"iso/\"").count(), page.matches("href=\"shadowed").count()), (1, 1), "{page}");
    assert_eq!(fetch(&[], &format!("{}/big/iso/a.iso", server.url)).body, b"iso");
}

/// Checks the messages about a file: the exit code is 2, and each part is there.
#[track_caller]
fn check_refused(text: &str, parts: &[&str]) {
    let folder = Folder::new(text);
    for options in [&["--check"][..], &["--print-config"], &[]] {
        let ended = folder.run(options);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{options:?}: {ended:?}");
        for part in parts {
            assert!(ended.stderr.contains(part), "{options:?}: {part}: {}", ended.stderr);
        }
    }
}

#[test]
fn mistakes_are_shown_with_their_lines() {
    check_refused("listne = \"x\"\n", &["thalweg.toml:1:1", "1 | listne = \"x\"", "^^^^^^", "`listen`"]);
    check_refused("[limits]\nidle_time = \"1\"\n", &["thalweg.toml:2:13", "no unit"]);
    check_refused("[[site]]\nroot = \"nowhere\"\n", &["thalweg.toml:2:8", "cannot open the folder", "nowhere"]);
    check_refused(
        "[[site]]\nroot = \"one\"\nerror_pages = { 404 = \"/nowhere.html\" }\n",
        &["thalweg.toml:3:23", "is not served"],
    );
    // Several at once.
    check_refused(
        "[[site]]\nroot = \"one\"\n[[site.rule]]\nheaders = { X = \"a\\r\\nSet-Cookie: b\" }\n[[site.rule]]\nfiles = \"[\"\n",
        &["2 errors", "thalweg.toml:4:17", "line end", "thalweg.toml:6:9", "not a pattern"],
    );
    check_refused("a = = b", &["thalweg.toml:1:5"]);
    check_refused("", &["no site"]);
}

#[test]
fn a_printed_configuration_is_a_file_that_means_the_same() {
    let folder = Folder::new(TWO_SITES);
    let printed = folder.run(&["--print-config", "--drain", "1m"]);
    assert_eq!((printed.code, printed.stderr.as_str()), (Some(0), ""), "{printed:?}");
    assert!(printed.stdout.contains("max-age=86400") && printed.stdout.contains("drain = \"60s\""), "{printed:?}");
    fs::write(folder.path("thalweg.toml"), &printed.stdout).expect("a file can be written");
    assert_eq!(folder.run(&["--print-config"]).stdout, printed.stdout);
    // Without a folder to serve, the command prints a file to begin with.
    let printed = run_thalweg(&["serve", "--print-config"]);
    assert!(printed.code == Some(0) && printed.stdout.contains("#[[site]]"), "{printed:?}");
}
