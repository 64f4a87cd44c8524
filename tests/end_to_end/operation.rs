//! `thalweg serve` as its operators know it: signals, upgrades, service managers, users, the
//! sandbox, and what a killed server leaves behind.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::content::numbered;
use crate::drivers::BOTH_DRIVERS;
use crate::process::{ExitedProcess, PATIENCE, Process, copy_program, program, run_thalweg, signal, thalweg, until};

/// More than the buffers between a server and a client that does not read hold, so that a download
/// is under way until it is read.
const LARGE_BYTES: usize = 12_000_000;

/// A folder with a `root` to serve.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let folder = TempDir::new().unwrap();
        // Users other than the one of the tests need access.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let place = Self(folder);
        fs::create_dir(place.path("root")).unwrap();
        fs::write(place.path("root/name"), "first").unwrap();
        fs::write(place.path("root/large"), large()).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }
}

fn large() -> Vec<u8> {
    numbered(LARGE_BYTES)
}

/// Waits until the server has reported for the `nth` time where it listens: host and port, or the
/// path of a Unix socket.
pub(crate) fn listening(process: &mut Process, nth: usize) -> String {
    until("the server to listen", PATIENCE, || {
        assert!(process.ended().is_none(), "{} {}", process.stdout(), process.stderr());
        let said = process.stdout();
        let line = said.lines().filter_map(|line| line.strip_prefix("listening on ")).nth(nth)?;
        let complete = said.ends_with('\n');
        complete
            .then(|| line.trim_start_matches("http://").trim_end_matches('/').trim_start_matches("unix:").to_owned())
    })
}

pub(crate) fn started(arguments: &[&str]) -> (Process, String) {
    let mut process = Process::start(&mut thalweg(arguments));
    let address = listening(&mut process, 0);
    (process, address)
}

/// Waits until it has written this text to standard error, and returns all that it has written
/// there.
pub(crate) fn said(process: &Process, what: &str) -> String {
    until(what, PATIENCE, || Some(process.stderr()).filter(|said| said.contains(what)))
}

/// The successor process of a server, which is no child of the test.
pub(crate) struct Successor(pub(crate) u32);

impl Successor {
    /// Has a server upgraded, and waits until the other one serves.
    pub(crate) fn of(process: &Process) -> Self {
        process.signal("USR2");
        Self::nth(process, 1)
    }

    /// The `nth` of those that follow one after the other from `process` on, once it serves.
    pub(crate) fn nth(process: &Process, nth: usize) -> Self {
        let said = until("another process to serve", PATIENCE, || {
            let said = process.stderr();
            (said.matches("the upgrade succeeded").count() == nth).then_some(said)
        });
        let number = said.lines().rev().find_map(|line| {
            line.strip_prefix("thalweg: process ")?.strip_suffix(" is starting to take over")?.parse().ok()
        });
        Self(number.expect("it says which process is to follow"))
    }

    pub(crate) fn is_alive(&self) -> bool {
        // A process that has ended and was not waited for is still listed.
        fs::read_to_string(format!("/proc/{}/stat", self.0))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z'))
    }

    pub(crate) fn end(self) {
        signal("TERM", self.0);
        until("the successor to end", PATIENCE, || (!self.is_alive()).then_some(()));
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        if self.is_alive() {
            signal("KILL", self.0);
        }
    }
}

/// Requests a path over a connection of its own. Returns the body.
fn ask(stream: &mut (impl Read + Write), path: &str) -> Vec<u8> {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a response has a head");
    bytes.split_off(end + 4)
}

pub(crate) fn body(address: &str, path: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(&mut stream, path)
}

pub(crate) fn ended_well(ended: &ExitedProcess) {
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_program_that_does_not_start_leaves_the_server_in_place() {
    let place = Place::new();
    let copy = place.path("thalweg");
    copy_program(&copy);
    let mut command = Command::new(&copy);
    command.args(["serve", &place.path("root"), "--listen", "127.0.0.1:0"]);
    let mut server = Process::start(&mut command);
    let address = listening(&mut server, 0);
    let replace = |content: &str| {
        fs::write(place.path("new"), content).unwrap();
        fs::set_permissions(place.path("new"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::rename(place.path("new"), &copy).unwrap();
    };
    // One that ends, one that cannot be started, one that is not there.
    replace("#!/bin/sh\nexit 1\n");
    server.signal("USR2");
    said(&server, "the upgrade failed, this server continues");
    replace("nothing that runs\n");
    server.signal("USR2");
    said(&server, &format!("cannot start {copy}"));
    fs::remove_file(&copy).unwrap();
    server.signal("USR2");
    until("the third failure", PATIENCE, || (server.stderr().matches("upgrade failed").count() == 3).then_some(()));
    assert_eq!(body(&address, "/name"), b"first");
    // And one that is in order, though it has another inode than the one that runs.
    copy_program(place.path("new"));
    fs::rename(place.path("new"), &copy).unwrap();
    let successor = Successor::of(&server);
    ended_well(&server.wait(PATIENCE));
    assert_eq!(body(&address, "/name"), b"first");
    successor.end();
}

#[test]
fn hup_takes_up_a_good_configuration_and_refuses_a_bad_one() {
    let place = Place::new();
    fs::create_dir(place.path("other")).unwrap();
    fs::write(place.path("other/name"), "second").unwrap();
    fs::create_dir(place.path("etc")).unwrap();
    let config = place.path("etc/thalweg.toml");
    let write = |root: &str, more: &str| {
        let root = place.path(root);
        let text = format!("listen = [\"127.0.0.1:0\"]\n{more}\n[[site]]\nroot = \"{root}\"\n");
        fs::write(&config, text).unwrap();
    };
    write("root", "");
    let (server, address) = started(&["serve", "--config", &config]);
    let times = std::cell::Cell::new(0);
    let reload = |outcome: &str| {
        times.set(times.get() + 1);
        server.signal("HUP");
        until(outcome, PATIENCE, || {
            let said = server.stderr();
            let taken = said.matches("was reloaded").count() + said.matches("is rejected").count();
            (taken == times.get() && said.lines().any(|line| line.contains(outcome))).then_some(())
        });
    };
    write("root", "nonsense = 1");
    reload("nonsense");
    write("missing", "");
    reload("missing");
    // The sandbox was made for the folders of the start.
    write("other", "");
    reload("ermission denied");
    assert_eq!(body(&address, "/name"), b"first");
    write("root", "driver = \"epoll\"\n[limits]\nrequests_per_connection_max = 1");
    reload("except for driver");
    let mut stream = TcpStream::connect(&address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /name HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("one request is all that a connection gets now");
    // An upgrade applies the settings that a reload cannot.
    write("other", "");
    let successor = Successor::of(&server);
    assert_eq!(body(&address, "/name"), b"second");
    ended_well(&server.wait(PATIENCE));
    successor.end();
}

#[test]
fn a_second_term_does_not_wait() {
    let place = Place::new();
    let (server, address) = started(&["serve", &place.path("root"), "--listen", "127.0.0.1:0", "--drain", "1h"]);
    let mut stuck = TcpStream::connect(&address).unwrap();
    stuck.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    stuck.read_exact(&mut [0; 100]).unwrap();
    server.signal("TERM");
    until("new connections to be refused", PATIENCE, || TcpStream::connect(&address).is_err().then_some(()));
    server.signal("TERM");
    assert_eq!(server.wait(PATIENCE).code, Some(143));
}

#[test]
fn sockets_of_a_service_manager_are_used() {
    let place = Place::new();
    // The test does as systemd with a socket unit.
    let script = "import os, socket, sys
listener = socket.create_server(('127.0.0.1', 0))
os.dup2(listener.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1', LISTEN_FDNAMES='web')
os.execv(sys.argv[1], sys.argv[1:])";
    let mut command = Command::new(program(&["python3"], "python3"));
    command.args(["-c", script, env!("CARGO_BIN_EXE_thalweg"), "serve", &place.path("root")]);
    let mut server = Process::start(&mut command);
    let address = listening(&mut server, 0);
    assert_eq!(body(&address, "/name"), b"first");
    assert_eq!(server.stdout().matches("listening on").count(), 1, "{}", server.stdout());
    server.signal("HUP");
    said(&server, "the configuration was reloaded");
    assert_eq!(body(&address, "/name"), b"first");
    let successor = Successor::of(&server);
    ended_well(&server.wait(PATIENCE));
    assert_eq!(body(&address, "/name"), b"first");
    successor.end();
}

#[test]
fn a_service_manager_hears_what_happens() {
    let place = Place::new();
    let manager = UnixDatagram::bind(place.path("notify")).unwrap();
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let hears = |wanted: &[&str]| {
        let mut buffer = [0; 1000];
        loop {
            let bytes = manager.recv(&mut buffer).expect("it is told");
            let text = String::from_utf8_lossy(&buffer[..bytes]).into_owned();
            if wanted.iter().all(|line| text.lines().any(|of| of == *line)) {
                return;
            }
        }
    };
    let mut command = thalweg(&["serve", &place.path("root"), "--listen", "127.0.0.1:0"]);
    command.env("NOTIFY_SOCKET", place.path("notify")).env("WATCHDOG_USEC", "400000");
    let mut server = Process::start(&mut command);
    hears(&["READY=1", &format!("MAINPID={}", server.id())]);
    listening(&mut server, 0);
    hears(&["WATCHDOG=1"]);
    hears(&["WATCHDOG=1"]);
    server.signal("HUP");
    hears(&["RELOADING=1"]);
    hears(&["READY=1"]);
    let successor = Successor::of(&server);
    hears(&["READY=1", &format!("MAINPID={}", successor.0)]);
    ended_well(&server.wait(PATIENCE));
    hears(&["WATCHDOG=1"]);
    signal("TERM", successor.0);
    hears(&["STOPPING=1"]);
}

#[test]
fn a_killed_server_leaves_nothing_that_hinders_the_next() {
    let place = Place::new();
    let (socket, pid_file) = (place.path("socket"), place.path("pid"));
    let listen = format!("unix:{socket}");
    let root = place.path("root");
    let arguments = ["serve", root.as_str(), "--listen", &listen, "--pid-file", &pid_file];
    for _ in 0..2 {
        let (server, path) = started(&arguments);
        assert_eq!(ask(&mut UnixStream::connect(path).unwrap(), "/name"), b"first");
        assert_eq!(run_thalweg(&arguments).code, Some(4), "one server per socket");
        server.signal("KILL");
        assert_eq!(server.wait(PATIENCE).code, None);
        assert!(Path::new(&socket).exists());
    }
    let (server, path) = started(&arguments);
    until("the file with its number", PATIENCE, || {
        fs::read_to_string(&pid_file).is_ok_and(|text| text == format!("{}\n", server.id())).then_some(())
    });
    let successor = Successor::of(&server);
    ended_well(&server.wait(PATIENCE));
    assert_eq!(ask(&mut UnixStream::connect(path).unwrap(), "/name"), b"first");
    assert_eq!(fs::read_to_string(&pid_file).unwrap(), format!("{}\n", successor.0));
    successor.end();
    assert!(!Path::new(&socket).exists() && !Path::new(&pid_file).exists(), "what ends in order leaves nothing");
}

#[test]
fn the_superuser_is_warned_of_serving_the_network_and_becomes_another_user() {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let place = Place::new();
    let root = place.path("root");
    if !is_root {
        let ended = run_thalweg(&["serve", &root, "--listen", "127.0.0.1:0", "--user", "root"]);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        return;
    }
    let (server, _) = started(&["serve", &root, "--listen", "0.0.0.0:0"]);
    said(&server, "as root: ");
    drop(server);
    let ended = run_thalweg(&["serve", &root, "--listen", "127.0.0.1:0", "--user", "nobody-of-that-name"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("nobody-of-that-name"), "{ended:?}");

    fs::write(place.path("root/secret"), "secret").unwrap();
    fs::set_permissions(place.path("root/secret"), fs::Permissions::from_mode(0o600)).unwrap();
    let (server, address) = started(&["serve", &root, "--listen", "127.0.0.1:0", "--user", "nobody"]);
    assert!(server.stdout().contains("as user nobody"), "{}", server.stdout());
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert!(!field("Uid:").contains(&"0".to_owned()) && !field("Gid:").contains(&"0".to_owned()), "{status}");
    for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
        assert_eq!(field(set), ["0000000000000000"], "{set}");
    }
    assert_eq!(body(&address, "/name"), b"first");
    assert_ne!(body(&address, "/secret"), b"secret");
    server.signal("TERM");
    ended_well(&server.wait(PATIENCE));
}

#[test]
fn the_sandbox_can_be_had_or_left() {
    let place = Place::new();
    for (option, expected) in [("off", "sandbox: off"), ("auto", "sandbox: ")] {
        // Both drivers: each needs other system calls.
        for driver in BOTH_DRIVERS {
            let root = place.path("root");
            let (server, address) =
                started(&["serve", &root, "--listen", "127.0.0.1:0", "--sandbox", option, "--driver", driver]);
            assert!(server.stdout().contains(expected), "{}", server.stdout());
            let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
            assert_eq!(status.lines().any(|line| line == "Seccomp:\t2"), option == "auto", "{status}");
            assert_eq!(body(&address, "/name"), b"first");
            server.signal("TERM");
            ended_well(&server.wait(PATIENCE));
        }
    }
}
