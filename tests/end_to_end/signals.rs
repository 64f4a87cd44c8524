//! Signals to `thalweg serve`: those that reopen logs, those that have no meaning, and those that
//! come at the wrong time.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::operation::{Place, Successor, body, ended_well, listening, said, started};
use crate::process::{PATIENCE, Process, copy_program, until};

#[test]
fn usr1_reopens_the_logs_and_reads_no_configuration() {
    let place = Place::new();
    fs::create_dir(place.path("log")).unwrap();
    let config = place.path("thalweg.toml");
    let text = format!(
        "listen = [\"127.0.0.1:0\"]\n[log]\naccess = \"log/access.log\"\nerror = \"log/error.log\"\n[[site]]\nroot = \"{}\"\n",
        place.path("root")
    );
    fs::write(&config, &text).unwrap();
    let (server, address) = started(&["serve", "--config", &config]);
    let log = |name: &str| fs::read_to_string(place.path(&format!("log/{name}"))).unwrap_or_default();
    let wait_for = |name: &str, part: &str| until(part, PATIENCE, || log(name).contains(part).then_some(()));
    assert_eq!(body(&address, "/name?1"), b"first");
    wait_for("access.log", "/name?1");
    for name in ["access.log", "error.log"] {
        fs::rename(place.path(&format!("log/{name}")), place.path(&format!("log/{name}.1"))).unwrap();
    }
    // A configuration that a HUP would refuse.
    fs::write(&config, "nonsense").unwrap();
    server.signal("USR1");
    until("new logs", PATIENCE, || {
        ["access.log", "error.log"]
            .iter()
            .all(|name| fs::exists(place.path(&format!("log/{name}"))).unwrap())
            .then_some(())
    });
    assert_eq!(body(&address, "/name?2"), b"first");
    wait_for("access.log", "/name?2");
    assert!(!log("access.log.1").contains("/name?2") && !log("access.log").contains("/name?1"));
    until("word of it", PATIENCE, || {
        (log("error.log") + &log("error.log.1")).contains("notice: the logs were reopened").then_some(())
    });
    let all = log("error.log") + &log("error.log.1");
    assert!(!all.contains("configuration"), "{all}");
    server.signal("TERM");
    ended_well(&server.wait(PATIENCE));
}

#[test]
fn a_signal_without_a_meaning_does_not_kill_the_server() {
    let place = Place::new();
    let (server, address) = started(&["serve", &place.path("root"), "--listen", "127.0.0.1:0"]);
    // Numbers are those of x86 and ARM; the shell knows the real-time ones by nothing else
    // everywhere.
    for (signal, name) in [
        ("ALRM", "ALRM"),
        ("VTALRM", "VTALRM"),
        ("PROF", "PROF"),
        ("IO", "IO"),
        ("PWR", "PWR"),
        ("XCPU", "XCPU"),
        ("XFSZ", "XFSZ"),
        ("34", "RTMIN+0"),
        ("64", "RTMIN+30"),
    ] {
        for _ in 0..2 {
            server.signal(signal);
        }
        said(&server, &format!("the signal {name} has no meaning here"));
    }
    server.signal("PIPE");
    server.signal("ALRM");
    assert_eq!(body(&address, "/name"), b"first");
    // QUIT is a gentle end, as nginx has it.
    let mut held = TcpStream::connect(&address).unwrap();
    held.write_all(b"GET /name HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    held.read_to_end(&mut Vec::new()).unwrap();
    server.signal("QUIT");
    let ended = server.wait(PATIENCE);
    assert_eq!(ended.stderr.matches("the signal ALRM has no meaning").count(), 1, "{}", ended.stderr);
    ended_well(&ended);
}

#[test]
fn a_second_usr2_is_said_to_be_ignored() {
    let place = Place::new();
    let copy = place.path("thalweg");
    copy_program(&copy);
    let mut command = Command::new(&copy);
    command.args(["serve", &place.path("root"), "--listen", "127.0.0.1:0"]);
    let mut server = Process::start(&mut command);
    let address = listening(&mut server, 0);
    // A process that starts and is never ready, until it is ended.
    let go = place.path("go");
    let script = format!("#!/bin/sh\nwhile [ ! -e {go} ]; do sleep 0.05; done\n");
    fs::write(place.path("new"), script).unwrap();
    fs::set_permissions(place.path("new"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(place.path("new"), &copy).unwrap();
    server.signal("USR2");
    said(&server, "is starting to take over");
    server.signal("USR2");
    said(&server, "USR2 is ignored: an upgrade is in progress, process ");
    assert_eq!(server.stderr().matches("is starting to take over").count(), 1);
    fs::write(go, "").unwrap();
    said(&server, "the upgrade failed, this server continues");
    assert_eq!(body(&address, "/name"), b"first");
}

#[test]
fn a_server_that_was_followed_reopens_its_logs_and_ignores_the_rest() {
    let place = Place::new();
    let log = place.path("access.log");
    let (server, address) = started(&["serve", &place.path("root"), "--listen", "127.0.0.1:0", "--access-log", &log]);
    let mut held = TcpStream::connect(&address).unwrap();
    held.set_read_timeout(Some(PATIENCE)).unwrap();
    held.write_all(b"GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    held.read_exact(&mut [0; 100]).unwrap();
    let successor = Successor::of(&server);
    server.signal("USR2");
    said(&server, "USR2 is ignored: another process serves");
    server.signal("HUP");
    said(&server, "HUP is ignored: another process serves");
    // Only the old process gets the signal, so that the new file is its own.
    fs::rename(&log, place.path("moved")).unwrap();
    server.signal("USR1");
    until("a new log", PATIENCE, || fs::exists(&log).unwrap().then_some(()));
    held.read_to_end(&mut Vec::new()).unwrap();
    until("the download's line", PATIENCE, || fs::read_to_string(&log).unwrap().contains("GET /large ").then_some(()));
    ended_well(&server.wait(PATIENCE));
    successor.end();
}
