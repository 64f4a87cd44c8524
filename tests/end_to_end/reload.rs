//! Reloads of `thalweg serve`: the settings that it applies while it serves, and its messages about
//! them.

use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use crate::operation::{Place, Successor, body, ended_well, said, started};
use crate::process::{PATIENCE, Process, program, run_thalweg, until};

/// A server with a configuration that can be changed.
struct Mirror {
    place: Place,
    file: String,
    server: Process,
    address: String,
    status: Option<String>,
}

/// The content of the file: a site, its address, and `more` before it. `{}` is the folder of all.
fn configuration(place: &Place, more: &str) -> String {
    let more = more.replace("{}", &place.path(""));
    format!("listen = [\"127.0.0.1:0\"]\n{more}\n[[site]]\nroot = \"{}\"\n", place.path("root"))
}

impl Mirror {
    fn start(more: &str) -> Self {
        let place = Place::new();
        for folder in ["etc", "log"] {
            fs::create_dir(place.path(folder)).unwrap();
        }
        let file = place.path("etc/thalweg.toml");
        fs::write(&file, configuration(&place, more)).unwrap();
        let (server, address) = started(&["serve", "--config", &file]);
        let status = server.stdout().lines().find_map(|line| line.strip_prefix("status on ").map(authority));
        Self { place, file, server, address, status }
    }

    /// Has it read a configuration, and waits until the error log has something new to say.
    fn reload(&self, more: &str, outcome: &str) {
        let before = self.errors().matches(outcome).count();
        fs::write(&self.file, configuration(&self.place, more)).unwrap();
        self.server.signal("HUP");
        until(outcome, PATIENCE, || (self.errors().matches(outcome).count() > before).then_some(()));
    }

    fn errors(&self) -> String {
        self.log("error.log")
    }

    fn log(&self, name: &str) -> String {
        fs::read_to_string(self.place.path(&format!("log/{name}"))).unwrap_or_default()
    }

    /// Waits until a log has a line with this in it.
    fn wait_for(&self, name: &str, part: &str) -> String {
        until(part, PATIENCE, || self.log(name).lines().find(|line| line.contains(part)).map(str::to_owned))
    }

    /// Stops it. It must have ended without an error, and have written nothing to standard error.
    fn stop(self) {
        self.server.signal("TERM");
        let ended = self.server.wait(PATIENCE);
        assert_eq!(ended.stderr, "");
        ended_well(&ended);
    }
}

/// Has a server upgraded, and waits until its log has the number of the successor process.
fn upgraded(mirror: &Mirror) -> u32 {
    mirror.server.signal("USR2");
    let line = mirror.wait_for("other.log", "is starting to take over");
    line.split(' ').nth(3).unwrap().parse().unwrap()
}

fn authority(url: &str) -> String {
    url.trim_start_matches("http://").trim_end_matches('/').to_owned()
}

fn status(address: &str) -> Value {
    serde_json::from_slice(&body(address, "/status.json")).unwrap()
}

#[test]
fn logs_and_status_change_by_hup() {
    let logs = |rest: &str| format!("[log]\nerror = \"{{}}log/error.log\"\n{rest}");
    let mirror = Mirror::start(&logs(""));
    assert_eq!(body(&mirror.address, "/name"), b"first");
    let first = logs("access = \"{}log/first.log\"\nformat = \"common\"\n[status]\nlisten = \"127.0.0.1:0\"");
    mirror.reload(&first, "the configuration was reloaded");
    let shown = mirror.wait_for("error.log", "status on ");
    let shown = authority(shown.rsplit(' ').next().unwrap());
    assert_eq!(body(&mirror.address, "/name?1"), b"first");
    assert!(mirror.wait_for("first.log", "/name?1").ends_with("\"GET /name?1 HTTP/1.1\" 200 5"));
    assert_eq!(status(&shown)["total"]["requests"], 2);
    let second = first.replace("first.log", "second.log").replace("common", "json").replace("127.0.0.1", "127.0.0.2");
    mirror.reload(&second, "the configuration was reloaded");
    let moved = mirror.wait_for("error.log", "http://127.0.0.2:");
    let moved = authority(moved.rsplit(' ').next().unwrap());
    assert_eq!(body(&mirror.address, "/name?2"), b"first");
    let line: Value = serde_json::from_str(&mirror.wait_for("second.log", "/name?2")).unwrap();
    assert_eq!((line["client"].as_str(), line["status"].as_u64()), (Some("127.0.0.1"), Some(200)));
    assert!(!mirror.log("first.log").contains("/name?2"));
    assert!(TcpStream::connect(&shown).is_err() && status(&moved)["total"]["requests"] == 3);
    // A configuration with a file that cannot be opened is refused as a whole. `etc` is out of
    // reach behind the sandbox.
    for (log, part) in [("nowhere/a.log", "does not exist"), ("etc/a.log", "cannot open the log")] {
        let worse = second.replace("log/second.log", log).replace("127.0.0.2:0", "127.0.0.3:0");
        let has_sandbox = mirror.server.stdout().contains("sandbox: files");
        if has_sandbox || !log.starts_with("etc") {
            mirror.reload(&worse, part);
        }
    }
    assert!(mirror.errors().contains("is rejected, the old one stays in effect"), "{}", mirror.errors());
    assert_eq!(body(&mirror.address, "/name?3"), b"first");
    mirror.wait_for("second.log", "/name?3");
    assert_eq!(status(&moved)["state"], "serving");
    // Settings that a reload cannot change are named, each time.
    let kept = format!("driver = \"epoll\"\nuser = \"nobody-at-all\"\n{}", logs(""));
    for _ in 0..2 {
        mirror.reload(&kept, "except for driver (needs an upgrade");
        mirror.wait_for("error.log", "except for user (needs a restart");
    }
    assert!(TcpStream::connect(&moved).is_err());
    mirror.stop();
}

#[test]
fn the_life_of_the_server_stands_in_the_error_log() {
    let mirror = Mirror::start("[log]\nerror = \"{}log/error.log\"");
    mirror.wait_for("error.log", "notice: started");
    mirror.reload("nonsense = 1\n[log]\nerror = \"{}log/error.log\"", "error: the new configuration is rejected");
    mirror.wait_for("error.log", "`nonsense`");
    mirror.server.signal("USR2");
    mirror.wait_for("error.log", "error: the upgrade failed, this server continues");
    fs::write(&mirror.file, configuration(&mirror.place, "[log]\nerror = \"{}log/other.log\"")).unwrap();
    mirror.server.signal("HUP");
    mirror.wait_for("other.log", "notice: the configuration was reloaded");
    let successor = Successor(upgraded(&mirror));
    mirror.wait_for("other.log", "notice: the upgrade succeeded");
    assert_eq!(body(&mirror.address, "/name"), b"first");
    ended_well(&mirror.server.wait(PATIENCE));
    successor.end();
}

#[test]
fn a_terminal_shows_the_message_too() {
    let place = Place::new();
    let (errors, pid_file) = (place.path("error.log"), place.path("pid"));
    let mut command = Command::new(program(&["python3"], "python3"));
    command.args(["-c", "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)", env!("CARGO_BIN_EXE_thalweg")]);
    command.args(["serve", &place.path("root"), "--listen", "127.0.0.1:0"]);
    let terminal = Process::start(command.args(["--error-log", &errors, "--pid-file", &pid_file]));
    let number = until("its number", PATIENCE, || fs::read_to_string(&pid_file).ok()?.trim().parse().ok());
    // The handlers are there before the file is.
    crate::process::signal("HUP", number);
    until("it in both places", PATIENCE, || {
        let said = [terminal.stdout(), fs::read_to_string(&errors).unwrap_or_default()];
        said.iter().all(|said| said.contains("the configuration was reloaded")).then_some(())
    });
    crate::process::signal("TERM", number);
    assert_eq!(terminal.wait(PATIENCE).code, Some(0));
}

#[test]
fn the_status_page_goes_over_to_the_process_that_follows() {
    let mirror = Mirror::start("[status]\nlisten = \"127.0.0.1:0\"\nstate = \"{}log/state\"");
    let shown = mirror.status.clone().expect("it says where the status is");
    for _ in 0..3 {
        assert_eq!(body(&mirror.address, "/name"), b"first");
    }
    let downloads = |count: u64| {
        until("the downloads", PATIENCE, || {
            let status = status(&shown);
            (status["days"][0]["downloads"] == count).then_some(status)
        })
    };
    assert_eq!(downloads(3)["total"]["requests"], 3);
    // A download of the old process does not hinder the page of the new one.
    let mut held = TcpStream::connect(&mirror.address).unwrap();
    held.set_read_timeout(Some(PATIENCE)).unwrap();
    held.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    held.read_exact(&mut [0; 100]).unwrap();
    let successor = Successor::of(&mirror.server);
    // Both accept for a moment, and what the old process does from then on stands in no figures.
    // Days go on, totals are of the process, and nothing is counted twice.
    let after = until("figures of the new process", PATIENCE, || {
        let status = status(&shown);
        let requests = status["total"]["requests"].as_u64()?;
        if requests == 0 {
            assert_eq!(body(&mirror.address, "/name"), b"first");
        }
        (requests > 0 && status["days"][0]["downloads"] == 3 + requests).then_some(status)
    });
    let requests = &after["total"]["requests"];
    assert_eq!((&after["now"]["downloads"], &after["total"]["responses"]["2xx"]), (&0.into(), requests), "{after:#}");
    assert_eq!(after["state"], "serving", "{after:#}");
    assert_eq!(body(&shown, "/healthz"), b"ok\n");
    held.read_to_end(&mut Vec::new()).unwrap();
    ended_well(&mirror.server.wait(PATIENCE));
    assert!(status(&shown)["total"]["requests"].as_u64() >= requests.as_u64());
    successor.end();
    assert!(TcpStream::connect(&shown).is_err());
}

#[test]
fn a_refused_connection_stands_in_the_log() {
    let limits = "cores = \"0\"\n[limits]\nconnections_max = 1\n[log]\nerror = \"{}log/error.log\"\naccess = \"{}log/access.log\"";
    let cores = RefCell::new(limits.to_owned());
    if run_thalweg(&["serve", "/", "--cores", "0", "--check"]).code != Some(0) {
        // A CPU that this process may not use.
        cores.replace(limits.replace("cores = \"0\"", ""));
    }
    let mirror = Mirror::start(&cores.borrow());
    let mut held = TcpStream::connect(&mirror.address).unwrap();
    held.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    held.read_exact(&mut [0; 100]).unwrap();
    let told = until("a connection that finds no room", PATIENCE, || {
        let mut stream = TcpStream::connect(&mirror.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes.starts_with(b"HTTP/1.1 503 ").then_some(bytes)
    });
    let line = mirror.wait_for("access.log", " 503 ");
    let length = told.len() - (told.windows(4).position(|window| window == b"\r\n\r\n").unwrap() + 4);
    assert!(line.starts_with("127.0.0.1 - - ["), "{line}");
    assert!(line.ends_with(&format!("\"-\" 503 {length} \"-\" \"-\"")), "{line}");
    drop(held);
    mirror.stop();
}

#[test]
fn messages_are_on_the_standard_error_without_an_error_log() {
    let mirror = Mirror::start("");
    mirror.server.signal("HUP");
    said(&mirror.server, "thalweg: the configuration was reloaded");
}

#[test]
fn a_response_without_a_file_is_accounted_to_its_mount_and_is_no_download() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    let file = place.path("thalweg.toml");
    let before = "listen = [\"127.0.0.1:0\"]\n[status]\nlisten = \"127.0.0.1:0\"\n[[site]]\n";
    let after = "[[site.rule]]\nlisting = true\n[[site.mount]]\npath = \"/other/\"\n";
    let [root, other] = ["root", "other"].map(|name| format!("root = \"{}\"\n", place.path(name)));
    fs::write(&file, format!("{before}{root}{after}{other}")).unwrap();
    let (server, address) = started(&["serve", "--config", &file]);
    let shown = server.stdout().lines().find_map(|line| line.strip_prefix("status on ").map(authority)).unwrap();
    for path in ["/name", "/", "/missing", "/%zz", "/other/", "/other", "/other/missing"] {
        body(&address, path);
    }
    let status = status(&shown);
    let figures = |path: &str| {
        let mount = status["mounts"].as_array().unwrap().iter().find(|mount| mount["mount"] == path).unwrap();
        (mount["requests"].as_u64().unwrap(), mount["downloads"].as_u64().unwrap())
    };
    assert_eq!((figures("/"), figures("/other/")), ((4, 1), (3, 0)), "{status}");
}

/// The response to a GET as text, with its head.
fn response(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[track_caller]
fn check_response(address: &str, path: &str, status: u16, part: &str) {
    let response = response(address, path);
    assert!(response.starts_with(&format!("HTTP/1.1 {status} ")) && response.contains(part), "{path}: {response}");
}

#[test]
fn redirects_networks_and_rates_change_by_hup() {
    let log = "[log]\nerror = \"{}log/error.log\"\naccess = \"{}log/access.log\"\n[status]\nlisten = \"127.0.0.1:0\"\n";
    let mirror = Mirror::start(log);
    let shown = mirror.status.clone().unwrap();
    let address = &mirror.address;
    let reload = |server: &str, site: &str| {
        let before = mirror.errors().matches("the configuration was reloaded").count();
        fs::write(&mirror.file, configuration(&mirror.place, &format!("{server}\n{log}")) + site).unwrap();
        mirror.server.signal("HUP");
        let is_new = || mirror.errors().matches("the configuration was reloaded").count() > before;
        until("a reload", PATIENCE, || is_new().then_some(()));
    };
    // A connection that was open before.
    let mut open = TcpStream::connect(address).unwrap();
    open.set_read_timeout(Some(PATIENCE)).unwrap();
    check_response(address, "/name", 200, "first");
    reload(
        "",
        "[[site.rule]]\nfolder = \"/old/\"\nredirect = \"https://new.example/{path}{query}\"\nredirect_status = 301\n\
                [[site.rule]]\nfiles = \"*.htm\"\nrewrite = \"/{*}\"\n",
    );
    check_response(address, "/old/a%20b?q", 301, "Location: https://new.example/a%20b?q\r\n");
    check_response(address, "/name.htm", 200, "first");
    reload("deny = [\"127.0.0.0/8\"]", "");
    check_response(address, "/name", 403, "403 Forbidden");
    check_response(address, "/old/a", 403, "");
    open.write_all(b"GET /name HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut head = [0; 13];
    open.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.1 403 ", "a connection that was open before");
    mirror.wait_for("access.log", "\"GET /old/a HTTP/1.1\" 403 ");
    reload("deny = [\"127.0.0.0/8\"]\ndenied_clients = \"close\"", "");
    let mut closed = TcpStream::connect(address).unwrap();
    closed.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = closed.write_all(b"GET /name HTTP/1.1\r\nHost: h\r\n\r\n");
    assert!(!matches!(closed.read(&mut [0; 1]), Ok(1..)), "its connection is closed");
    reload("", "requests_per_client = \"1/h\"\nrequests_burst = 2\n");
    check_response(address, "/name", 200, "first");
    check_response(address, "/name", 200, "first");
    check_response(address, "/name", 429, "Retry-After: 3");
    mirror.wait_for("access.log", " 429 ");
    reload("", "");
    check_response(address, "/name", 200, "first");
    let total = &status(&shown)["total"];
    let figures =
        ["requests_denied", "connections_denied", "requests_limited"].map(|name| total[name].as_u64().unwrap());
    assert_eq!(figures, [3, 1, 1], "{total}");
    assert_eq!((&total["responses"]["4xx"], &total["responses"]["3xx"]), (&4.into(), &1.into()), "{total}");
    let page = String::from_utf8(body(&shown, "/")).unwrap();
    assert!(page.contains("Responses since the start") && page.contains("<td class=\"n\">4</td>"), "{page}");
    mirror.stop();
}

#[test]
fn equal_paths_of_two_sites_are_two_files_in_the_statistics() {
    let place = Place::new();
    let file = place.path("thalweg.toml");
    let root = place.path("root");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[status]\nlisten = \"127.0.0.1:0\"\n[[site]]\nroot = \"{root}\"\n\
         [[site]]\nnames = [\"b.example\"]\nroot = \"{root}\"\n"
    );
    fs::write(&file, text).unwrap();
    let (server, address) = started(&["serve", "--config", &file]);
    let shown = server.stdout().lines().find_map(|line| line.strip_prefix("status on ").map(authority)).unwrap();
    for host in ["h", "b.example", "h"] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        write!(stream, "GET /name HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let files = until("the statistics", PATIENCE, || {
        let status = status(&shown);
        let files = status["top_files"].as_array().unwrap().clone();
        let downloads: u64 = files.iter().map(|file| file["downloads"].as_u64().unwrap()).sum();
        (downloads == 3 && status["days"][0]["unique_files"] == 2).then_some(files)
    });
    let files: Vec<_> = files.iter().map(|file| (file["mount"].as_str(), file["downloads"].as_u64())).collect();
    assert_eq!(files, [(Some("/"), Some(2)), (Some("b.example/"), Some(1))]);
}
