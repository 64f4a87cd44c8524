//! Outcomes that are the network's or the host's doing, provoked in a network of the test's own or
//! with limits of its own.

use std::process::Command;

use serde_json::Value;

use crate::document::{self, number, outcome};
use crate::drivers::{BOTH_DRIVERS, drivers};
use crate::namespace::Namespace;
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, run_thalweg, thalweg, until};
use crate::recorder::{Recorder, Response};
use crate::repetition::{ensure, repeated};
use crate::scripted::{Act, ScriptedServer};
use crate::server::{Server, Tree};

/// Serves a tree within a network.
fn serve(network: &Namespace, tree: &Tree, options: &[&str]) -> Server {
    let launch = |arguments: &[&str]| network.thalweg(arguments);
    Server::start(&tree.root(), &[&["--cores", "0"], options].concat(), launch)
        .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"))
}

/// Starts a load on an address that only this network has, and takes the address away when the load
/// is under way. Connections are for one call each, so that each request meets what has become of
/// the network.
fn lose_address(network: &Namespace, tree: &Tree, driver: &str, afterwards: &str) -> Value {
    network.shell("ip address add 10.99.0.1/32 dev lo");
    let _server = serve(network, tree, &["--listen", "10.99.0.1:28211"]);
    let load = ["--rate", "100/s", "--duration", "2s", "--calls", "1", "--timeout", "1s", "--driver", driver];
    let arguments = [&["run", "http://10.99.0.1:28211/text.txt", "--json"], &load[..]].concat();
    let run = Process::start(&mut network.thalweg(&arguments));
    until("connections to be made", PATIENCE, || {
        let sockets = Process::start(network.command("cat").arg("/proc/net/sockstat")).wait(PATIENCE);
        // Each connection leaves one end behind for a minute.
        let resting = sockets.stdout.split_once(" tw ")?.1.split(' ').next()?.parse::<u32>().ok()?;
        (resting >= 30).then_some(())
    });
    network.shell(&format!("ip address delete 10.99.0.1/32 dev lo; {afterwards}"));
    document::trial(&run.wait(PATIENCE))
}

#[test]
fn unreachable_once_there_is_no_way() {
    let tree = Tree::new();
    for (driver, way) in
        [("auto", "unreachable"), ("epoll", "unreachable"), ("auto", "prohibit"), ("epoll", "blackhole")]
    {
        repeated(|| {
            let Some(network) = Namespace::new("unreachable_once_there_is_no_way") else { return Ok(()) };
            let trial = lose_address(&network, &tree, driver, &format!("ip route add {way} 10.99.0.1/32"));
            let [good, unreachable, timeout] = ["good", "unreachable", "timeout"].map(|name| outcome(&trial, name));
            assert_eq!(good + unreachable + timeout, 200, "{driver}, {way}: {}", trial["outcomes"]);
            // The address may go early or late, and a few requests are under way when it does.
            let is_lost = good >= 5 && unreachable > 10 && timeout <= 5;
            ensure(is_lost, || format!("{driver}, {way}: {}", trial["outcomes"]))
        });
    }
}

/// A server that has stopped accepting connections: those beyond its queue are dropped silently.
const DEAF: &str = "
import socket, time
server = socket.socket()
server.bind(('127.0.0.1', 0))
server.listen(2)
print(server.getsockname()[1], 'is the port', flush=True)
time.sleep(600)
";

#[test]
fn a_timeout_where_nobody_answers_at_all() {
    // Both drivers: each gives up a connect in its own way.
    for driver in BOTH_DRIVERS {
        let deaf = Process::start(Command::new("python3").args(["-c", DEAF]));
        let port = until("the port", PATIENCE, || Some(deaf.stdout().split_once(" is the port")?.0.to_owned()));
        let load = ["--rate", "100/s", "--requests", "50", "--timeout", "500ms", "--driver", driver];
        let url = format!("http://127.0.0.1:{port}/");
        repeated(|| {
            let ended = run_thalweg(&[&["run", &url, "--json"], &load[..]].concat());
            let trial = document::trial(&ended);
            assert_eq!(outcome(&trial, "timeout"), 50, "{driver}: {}", trial["outcomes"]);
            let (span, min) = (number(&trial, "/span_s"), number(&trial, "/response_time_us/min"));
            assert!(min >= 500_000.0, "{driver}: {min} us");
            // The last one was due at the end and had half a second.
            ensure(span < 3.0, || format!("{driver}: {span} s"))
        });
    }
}

#[test]
fn a_target_that_there_is_no_way_to_is_said_before_the_run() {
    let Some(network) = Namespace::new("a_target_that_there_is_no_way_to_is_said_before_the_run") else { return };
    // Kept for documentation (RFC 5737).
    let ended = Process::start(&mut network.thalweg(&["run", "http://192.0.2.1/"])).wait(PATIENCE);
    assert_eq!((ended.code, &*ended.stdout, ended.stderr.lines().count()), (Some(4), "", 1), "{ended:?}");
    assert!(ended.stderr.contains("192.0.2.1") && ended.stderr.contains("unreachable"), "{ended:?}");
}

#[test]
fn no_address_once_all_ports_are_in_use() {
    // Both drivers: each binds and connects in its own way.
    for driver in BOTH_DRIVERS {
        // One for each, since used ports rest for a minute.
        let Some(network) = Namespace::new("no_address_once_all_ports_are_in_use") else { return };
        let tree = Tree::new();
        let server = serve(&network, &tree, &[]);
        // One address has sixteen ports, and another process on the host holds most of them.
        network.shell("sysctl -qw net.ipv4.ip_local_port_range='30000 30015'");
        let hoarder = Process::start(network.command("python3").args(["-c", HOARDER]));
        until("the ports to be taken", PATIENCE, || hoarder.stdout().contains("holding").then_some(()));
        let load = ["--workers", "8", "--think", "100ms", "--duration", "1s", "--driver", driver];
        let url = format!("{}/text.txt", server.url);
        let arguments = [&["run", &url, "--json", "--from", "127.0.0.1"], &load[..]].concat();
        let ended = Process::start(&mut network.thalweg(&arguments)).wait(PATIENCE);
        let trial = document::trial(&ended);
        let [good, no_address] = ["good", "no_address"].map(|name| outcome(&trial, name));
        assert!(good > 0 && no_address > 0, "{driver}: {}", trial["outcomes"]);
        assert_eq!((good + no_address) as f64, number(&trial, "/counts/offered"), "{driver}: {}", trial["outcomes"]);
        assert_eq!((ended.code, trial["verdict"].as_str()), (Some(3), Some("invalid")), "{driver}: {trial:#}");
        assert!(trial["reasons"].to_string().contains("address"), "{driver}: {}", trial["reasons"]);
    }
}

/// Two connections carried all of it with a pass, once.
#[test]
fn connections_that_find_no_port_before_the_start_are_not_passed_over() {
    let tree = Tree::new();
    // Both drivers: each binds and connects in its own way.
    for driver in BOTH_DRIVERS {
        let Some(network) = Namespace::new("connections_that_find_no_port_before_the_start") else { return };
        let server = serve(&network, &tree, &[]);
        network.shell("sysctl -qw net.ipv4.ip_local_port_range='30000 30015'");
        let hoarder = Process::start(network.command("python3").args(["-c", HOARDER]));
        until("the ports to be taken", PATIENCE, || hoarder.stdout().contains("holding").then_some(()));
        let url = format!("{}/text.txt", server.url);
        let load = ["--hold", "14", "--think", "100ms", "--duration", "500ms", "--from", "127.0.0.1"];
        let arguments = [&["run", &url, "--json", "--driver", driver], &load[..]].concat();
        let ended = Process::start(&mut network.thalweg(&arguments)).wait(PATIENCE);
        let trial = document::trial(&ended);
        let lacking = 14.0 - number(&trial, "/connections/peak");
        assert!(lacking >= 11.0, "{driver}: {}", trial["connections"]);
        assert_eq!((ended.code, number(&trial, "/connections/lacking")), (Some(3), lacking), "{driver}: {trial:#}");
        assert!(trial["reasons"].to_string().contains("could not be opened"), "{driver}: {}", trial["reasons"]);
    }
}

#[test]
fn held_connections_that_the_server_gives_up_are_missed() {
    for driver in drivers() {
        // Each connection is closed after its first response, and no worker sends its next request
        // soon.
        let recorder = Recorder::start(|_| Response { closes: true, ..Response::good("ok") });
        let load = ["--hold", "20", "--think", "10s", "--stagger", "0s", "--duration", "500ms", "--driver", driver];
        let ended = run_thalweg(&[&["run", &recorder.url("/"), "--json"], &load[..]].concat());
        let trial = document::trial(&ended);
        assert_eq!(number(&trial, "/connections/held"), 0.0, "{driver}: {}", trial["connections"]);
        assert!(matches!(ended.code, Some(1 | 3)), "{driver}: {ended:?}");
        let reasons = trial["reasons"].to_string();
        assert!(ended.code == Some(3) || reasons.contains("only 0 of 20 connections"), "{driver}: {reasons}");
    }
}

/// A program that takes fourteen ports and keeps them.
const HOARDER: &str = "
import socket, time
held = [socket.create_server(('127.0.0.1', port)) for port in range(30000, 30014)]
print('holding', flush=True)
time.sleep(600)
";

#[test]
fn no_descriptor_once_somebody_takes_them_away() {
    let nginx = Nginx::start();
    // Both drivers: the ring has descriptors of its own.
    for driver in BOTH_DRIVERS {
        let load = ["--rate", "100/s", "--duration", "2s", "--calls", "1", "--driver", driver];
        // The limit may come late.
        let (ended, trial) = repeated(|| {
            let before = nginx.log().len();
            let run = Process::start(&mut thalweg(&[&["run", &nginx.url("/000.txt"), "--json"], &load[..]].concat()));
            until("the run to be under way", PATIENCE, || (nginx.log().len() > before + 20).then_some(()));
            let pid = run.id().to_string();
            // It has ended if the limit comes too late.
            let _ = Command::new("prlimit").args(["--pid", &pid, "--nofile=4:4"]).status();
            let ended = run.wait(PATIENCE);
            let trial = document::trial(&ended);
            let [good, no_descriptor] = ["good", "no_descriptor"].map(|name| outcome(&trial, name));
            assert_eq!(good + no_descriptor, 200, "{driver}: {}", trial["outcomes"]);
            ensure(good > 10 && no_descriptor > 10, || format!("{driver}: {}", trial["outcomes"]))?;
            Ok((ended, trial))
        });
        assert_eq!((ended.code, trial["verdict"].as_str()), (Some(3), Some("invalid")), "{driver}: {trial:#}");
        assert!(trial["reasons"].to_string().contains("descriptor"), "{driver}: {}", trial["reasons"]);
    }
}

/// The program with a limit on descriptors that it cannot raise.
fn thalweg_with_descriptors(limit: u32, arguments: &[&str]) -> Command {
    let mut command = Command::new("prlimit");
    command.arg(format!("--nofile={limit}:{limit}")).arg(env!("CARGO_BIN_EXE_thalweg")).args(arguments);
    command
}

#[test]
fn more_connections_than_a_file_table_holds_have_several() {
    // Both drivers: the ring has a table of files of its own.
    for driver in BOTH_DRIVERS {
        repeated(|| {
            let nginx = Nginx::start();
            let url = nginx.url("/000.txt");
            let load = ["--hold", "1000", "--conn-rate", "2000/s", "--think", "500ms", "--duration", "1500ms"];
            let arguments = [&["run", &url, "--json", "--driver", driver], &load[..]].concat();
            let ended = Process::start(&mut thalweg_with_descriptors(300, &arguments)).wait(PATIENCE);
            let trial = document::trial(&ended);
            assert_eq!(number(&trial, "/connections/peak"), 1000.0, "{driver}: {trial:#}");
            assert_eq!(number(&trial, "/counts/offered"), outcome(&trial, "good") as f64, "{driver}: {trial:#}");
            let asked: std::collections::BTreeSet<_> = nginx.finish().iter().map(|entry| entry.connection).collect();
            let [held, progressing] =
                ["held", "progressing"].map(|name| number(&trial, &format!("/connections/{name}")));
            // Each was asked and answered, if all had CPU time.
            let is_whole = (held, progressing, asked.len()) == (1000.0, 1000.0, 1000);
            ensure(is_whole, || format!("{driver}: {held} held, {progressing} progressing, {} asked", asked.len()))
        });
    }
}

#[test]
fn a_limit_that_nothing_can_be_done_about_is_explained_and_nothing_is_sent() {
    let server = ScriptedServer::start(|_| Act::KeepSilent);
    for limit in [40, 100] {
        let arguments = ["run", &server.url(), "--hold", "1000"];
        let ended = Process::start(&mut thalweg_with_descriptors(limit, &arguments)).wait(PATIENCE);
        assert_eq!((ended.code, &*ended.stdout, ended.stderr.lines().count()), (Some(4), "", 1), "{ended:?}");
        for part in ["1000 connections", "descriptors", &limit.to_string(), "ulimit"] {
            assert!(ended.stderr.contains(part), "{part}: {ended:?}");
        }
    }
    assert_eq!(server.requests(), 0);
}

#[test]
fn more_connections_than_ports_come_from_several_addresses() {
    let tree = Tree::new();
    for (driver, v6) in [("auto", false), ("epoll", false), ("auto", true), ("epoll", true)] {
        // One for each, since used ports rest for a minute.
        let Some(network) = Namespace::new("more_connections_than_ports") else { return };
        let server = serve(&network, &tree, &[]);
        network.shell("sysctl -qw net.ipv4.ip_local_port_range='30000 30099'");
        let load = ["--hold", "400", "--think", "300ms", "--duration", "1s", "--driver", driver];
        let url = format!("{}/text.txt", if v6 { &server.url_v6 } else { &server.url });
        let ended =
            Process::start(&mut network.thalweg(&[&["run", &url, "--json"], &load[..]].concat())).wait(PATIENCE);
        let trial = document::trial(&ended);
        assert_eq!(number(&trial, "/connections/peak"), 400.0, "{driver}: {trial:#}");
        assert_eq!(
            number(&trial, "/counts/offered"),
            outcome(&trial, "good") as f64,
            "{driver}: {}",
            trial["outcomes"]
        );
    }
}
