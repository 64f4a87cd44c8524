//! `thalweg doctor`: findings, changes of settings, and putting them back, on made-up hosts and in
//! a network of a test's own.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::document;
use crate::namespace::Namespace;
use crate::process::{ExitedProcess, PATIENCE, Process, is_full, run_thalweg, thalweg, until};
use crate::repetition::{ensure, repeated};
use crate::server::{Server, Tree};

const QUEUE: &str = "proc/sys/net/core/somaxconn";
const PORTS: &str = "proc/sys/net/ipv4/ip_local_port_range";
const REUSE: &str = "proc/sys/net/ipv4/tcp_tw_reuse";

/// The settings of the made-up host that spoil a load of many new connections.
const POOR: [(&str, &str); 6] = [
    (QUEUE, "128\n"),
    (PORTS, "32768\t60999\n"),
    (REUSE, "0\n"),
    ("proc/sys/net/ipv4/tcp_timestamps", "1\n"),
    ("proc/sys/net/ipv4/tcp_max_tw_buckets", "131072\n"),
    ("proc/sys/kernel/random/boot_id", "this\n"),
];

/// A host of files, and a folder for the record of changes.
struct MadeUpHost {
    root: TempDir,
    state: TempDir,
}

impl MadeUpHost {
    fn new() -> Self {
        let made = Self { root: TempDir::new().unwrap(), state: TempDir::new().unwrap() };
        for (path, value) in POOR {
            let path = made.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, value).unwrap();
        }
        made
    }

    fn doctor(&self, options: &[&str]) -> Command {
        let mut command = thalweg(&["doctor", "--root", self.root.path().to_str().unwrap()]);
        command.args(options).env("XDG_STATE_HOME", self.state.path()).stdin(std::process::Stdio::null());
        command
    }

    fn run(&self, options: &[&str]) -> ExitedProcess {
        Process::start(&mut self.doctor(options)).wait(PATIENCE)
    }

    fn value(&self, path: &str) -> String {
        fs::read_to_string(self.root.path().join(path)).unwrap()
    }

    fn values(&self) -> Vec<String> {
        POOR.iter().map(|(path, _)| self.value(path)).collect()
    }

    fn record(&self) -> bool {
        self.state.path().join("thalweg/doctor-undo.json").exists()
    }
}

/// A load that suffers from each of the poor settings.
const MANY: &str = "conn-rate 20000/s http://127.0.0.1:81/";

fn json(ended: &ExitedProcess) -> Value {
    serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

fn finding<'d>(document: &'d Value, check: &str) -> &'d Value {
    let findings = document["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["check"] == check).unwrap_or_else(|| panic!("no {check}: {document:#}"))
}

#[test]
fn this_host_is_examined() {
    let ended = run_thalweg(&["doctor", "--for", "hold 2000", "--all", "--json"]);
    let document = json(&ended);
    assert_eq!(
        (document["schema"].as_str(), document["load"].as_str()),
        (Some("thalweg.doctor/1"), Some("hold 2,000 connections"))
    );
    let worst = document["worst"].as_str().unwrap();
    let expected = if matches!(worst, "warning" | "error") { 1 } else { 0 };
    assert_eq!(ended.code, Some(expected), "{document:#}");
    for check in ["descriptors", "file-table", "ports", "clock", "activity", "kernel", "io-uring"] {
        finding(&document, check);
    }
    for one in document["findings"].as_array().unwrap() {
        let levels = ["ok", "hint", "warning", "error"];
        assert!(levels.contains(&one["level"].as_str().unwrap()) && !one["is"].as_str().unwrap().is_empty(), "{one}");
        assert!(one["level"] == "ok" || one["spoils"].is_string() && one["mend"].is_array(), "no remedy: {one}");
    }
}

#[test]
fn a_limit_on_descriptors_is_found() {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -n 300; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_thalweg")]);
    let ended = Process::start(shell.args(["doctor", "--for", "hold 200000", "--json", "--cores", "0"])).wait(PATIENCE);
    let document = json(&ended);
    let limit = finding(&document, "descriptors");
    assert!(limit["level"] == "error" && limit["is"].as_str().unwrap().contains("300 files"), "{limit:#}");
    assert!(limit["mend"].to_string().contains("LimitNOFILE=200128"), "{limit:#}");
    assert_eq!(ended.code, Some(1));
}

#[test]
fn wrong_usage_is_explained() {
    for (options, part) in [
        (&["--for", "hold"][..], "needs a number of connections"),
        (&["--for", "find"], "the URL is missing"),
        (&["--yes"], "--fix"),
        (&["--fix", "--undo"], "cannot be used with"),
        (&["--for", "find ftp://127.0.0.1/"], "not supported"),
        (&["--cores", "9999"], "CPU 9999 is not available"),
    ] {
        let ended = run_thalweg(&[&["doctor"], options].concat());
        assert!(ended.code == Some(2) && ended.stderr.contains(part), "{options:?}: {ended:?}");
    }
}

#[test]
fn a_poor_host_is_mended_and_put_back() {
    let host = MadeUpHost::new();
    let before = host.values();
    let found = host.run(&["--for", MANY]);
    assert_eq!(found.code, Some(1));
    for part in [
        "warning  time-wait: net.ipv4.tcp_tw_reuse is 0",
        "after about 412 ms none is free",
        "warning  listen-queue: net.core.somaxconn is 128",
        "mend: sysctl -w net.core.somaxconn=4096",
        "sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
    ] {
        assert!(found.stdout.contains(part), "{part}: {}", found.stdout);
    }
    assert_eq!(host.values(), before, "without --fix nothing is written");

    let unasked = host.run(&["--for", MANY, "--fix"]);
    assert!(unasked.code == Some(2) && unasked.stderr.contains("add --yes"), "{unasked:?}");
    assert_eq!(host.values(), before);

    let fixed = host.run(&["--for", MANY, "--fix", "--yes"]);
    for part in ["net.core.somaxconn: 128 -> 4096\n", "net.ipv4.tcp_tw_reuse: 0 -> 1\n", "--undo"] {
        assert!(fixed.stdout.contains(part), "{part}: {}", fixed.stdout);
    }
    assert!(!fixed.stdout.contains("listen-queue: net.core.somaxconn is 128"), "{}", fixed.stdout);
    assert_eq!((host.value(QUEUE), host.value(PORTS)), ("4096\n".to_owned(), "1024 65535\n".to_owned()));

    let undone = host.run(&["--undo"]);
    assert!(undone.code == Some(0) && undone.stdout.contains("net.core.somaxconn: 4096 -> 128\n"), "{undone:?}");
    assert_eq!(host.values(), before);
    let again = host.run(&["--undo"]);
    assert!(again.code == Some(0) && again.stdout.contains("nothing to put back"), "{again:?}");
}

#[test]
fn a_later_change_by_somebody_else_is_said_and_kept() {
    let host = MadeUpHost::new();
    assert!(host.run(&["--for", MANY, "--fix", "--yes"]).stdout.contains("128 -> 4096"));
    fs::write(host.root.path().join(QUEUE), "777\n").unwrap();
    let undone = host.run(&["--undo"]);
    assert_eq!(undone.code, Some(1), "{undone:?}");
    assert!(undone.stdout.contains("net.core.somaxconn: 777, left alone"), "{undone:?}");
    assert_eq!((host.value(QUEUE), host.value(REUSE)), ("777\n".to_owned(), "0\n".to_owned()));
}

#[test]
fn a_setting_that_cannot_be_written_stops_no_other() {
    let host = MadeUpHost::new();
    // A setting of the kernel that nobody may write.
    let setting = host.root.path().join(REUSE);
    fs::remove_file(&setting).unwrap();
    std::os::unix::fs::symlink("/proc/sys/kernel/ngroups_max", &setting).unwrap();
    let fixed = host.run(&["--for", MANY, "--fix", "--yes"]);
    assert!(fixed.stdout.contains("net.ipv4.tcp_tw_reuse: remains 65536: Permission denied"), "{fixed:?}");
    assert!(fixed.stdout.contains("net.core.somaxconn: 128 -> 4096"), "{fixed:?}");
    assert_eq!(fixed.code, Some(4));
    let undone = host.run(&["--undo"]);
    assert!(undone.code == Some(0) && !undone.stdout.contains("tcp_tw_reuse"), "{undone:?}");
    assert_eq!(host.value(QUEUE), "128\n");
}

/// SIGKILL at any point leaves a record from which everything is put back.
#[test]
fn a_fix_that_is_killed_can_be_undone() {
    let kills = if is_full() { 400 } else { 40 };
    // A kill between two changes is a matter of luck.
    repeated(|| {
        let partly = (0..kills).filter(|number| is_killed_between_two_changes(*number)).count();
        ensure(partly > 0, || format!("none of {kills} kills was between two changes"))
    });
}

/// Kills a fix, the later the greater the number, and undoes it.
fn is_killed_between_two_changes(number: u64) -> bool {
    let host = MadeUpHost::new();
    let before = host.values();
    let fix = Process::start(&mut host.doctor(&["--for", MANY, "--fix", "--yes"]));
    if number.is_multiple_of(2) {
        until("the first change", PATIENCE, || (host.values() != before).then_some(()));
    } else {
        std::thread::sleep(Duration::from_micros(500 * (number % 40)));
    }
    fix.signal("KILL");
    let killed = fix.wait(PATIENCE);
    assert!(killed.code.is_none_or(|code| code <= 1), "{killed:?}");
    let changed = host.values().iter().zip(&before).filter(|(now, then)| now != then).count();
    assert!(changed == 0 || host.record(), "{changed} changes have no record");
    let undone = host.run(&["--undo"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(host.values(), before, "number {number}, {changed} changed: {undone:?}");
    assert!(!host.record());
    (1..3).contains(&changed)
}

#[test]
fn only_root_may_fix() {
    let state = TempDir::new().unwrap();
    let program = state.path().join("thalweg");
    crate::process::copy_program(&program);
    fs::set_permissions(state.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    for option in [&["--fix", "--yes", "--for", "conn-rate 60000/s"][..], &["--undo"]] {
        let mut command = Command::new(&program);
        command.arg("doctor").args(option).env("XDG_STATE_HOME", state.path()).uid(65_534).gid(65_534);
        let ended = Process::start(&mut command).wait(PATIENCE);
        assert!(ended.code == Some(4) && ended.stderr.contains("only root may do"), "{option:?}: {ended:?}");
    }
}

/// The kernel's own settings of a network, written and put back for real.
#[test]
fn a_network_is_mended_and_put_back() {
    let Some(network) = Namespace::new("a_network_is_mended_and_put_back") else { return };
    let state = TempDir::new().unwrap();
    let settings =
        "cat /proc/sys/net/core/somaxconn /proc/sys/net/ipv4/ip_local_port_range /proc/sys/net/ipv4/tcp_tw_reuse";
    let shown = || Process::start(network.command("sh").args(["-c", settings])).wait(PATIENCE).stdout;
    network.shell("echo 100 > /proc/sys/net/core/somaxconn; echo 40000 41000 > /proc/sys/net/ipv4/ip_local_port_range; echo 0 > /proc/sys/net/ipv4/tcp_tw_reuse");
    let before = shown();
    assert_eq!(before, "100\n40000\t41000\n0\n");
    let doctor = |options: &[&str]| {
        let mut command = network.thalweg(&[&["doctor"], options].concat());
        Process::start(command.env("XDG_STATE_HOME", state.path())).wait(PATIENCE)
    };
    let fixed = doctor(&["--for", "conn-rate 5000/s http://127.0.0.1:81/", "--fix", "--yes"]);
    assert_eq!(shown(), "4096\n1024\t65535\n1\n", "{fixed:?}");
    assert!(fixed.stdout.contains("net.ipv4.ip_local_port_range: 40000 41000 -> 1024 65535"), "{fixed:?}");
    // The settings of this network are not touched from another one.
    let mut outside = thalweg(&["doctor", "--undo"]);
    let outside = Process::start(outside.env("XDG_STATE_HOME", state.path())).wait(PATIENCE);
    if !outside.stderr.contains("only root") {
        assert!(outside.code == Some(4) && outside.stdout.contains("another network namespace"), "{outside:?}");
    }
    let undone = doctor(&["--undo"]);
    assert_eq!((undone.code, shown()), (Some(0), before), "{undone:?}");
}

/// The checks before a run warn of what then happens.
#[test]
fn a_run_warns_of_what_its_host_spoils() {
    let Some(network) = Namespace::new("a_run_warns_of_what_its_host_spoils") else { return };
    let tree = Tree::new();
    let run = || {
        let launch = |arguments: &[&str]| network.thalweg(arguments);
        let server = Server::start(&tree.root(), &["--cores", "0", "--listen", "127.0.0.1:0"], launch)
            .unwrap_or_else(|ended| panic!("the server has not started: {ended:?}"));
        let url = format!("http://{}/text.txt", server.authority());
        let load = ["--hold", "2000", "--think", "1s", "--duration", "2s", "--json"];
        Process::start(&mut network.thalweg(&[&["run", &*url], &load[..]].concat())).wait(PATIENCE)
    };
    let healthy = run();
    assert_eq!(healthy.stderr, "", "a host with long queues");
    network.shell("echo 8 > /proc/sys/net/core/somaxconn");
    let poor = run();
    assert_eq!(poor.stderr.matches("warning: net.core.somaxconn is 8").count(), 1, "{}", poor.stderr);
    assert!(poor.stderr.contains("(mend: sysctl -w net.core.somaxconn=4096)"), "{}", poor.stderr);
    let document = document::of(&poor);
    assert_eq!(finding(&document["host"], "listen-queue")["level"], "warning", "{:#}", document["host"]);
    let slowest = document::number(&document, "/trials/0/connect_us/max");
    assert!(slowest > 900_000.0, "the warning came true: {slowest} us to connect");
}
