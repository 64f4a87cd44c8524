//! Planted bottlenecks, and the part that a search names: one of each kind, whose samples are those
//! of real sockets and processes. `crates/virtual-lab` has more of the server's;
//! `bench/planted-bottlenecks` has more of all, and repeats them.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::document;
use crate::namespace::Namespace;
use crate::nginx::Nginx;
use crate::process::{PATIENCE, Process, thalweg, until};
use crate::repetition::{ensure, repeated};

/// Short trials: the bounds do not matter here.
const SHORT: [&str; 9] = ["--duration", "1s", "--width", "20%", "--budget", "40s", "--recovery", "2s", "--json"];

/// A yardstick within a network or without; its URL.
fn yardstick(start: impl Fn(&[&str]) -> Command, address: &str, arguments: &[&str]) -> (Process, String) {
    let listen = ["--listen", address, "--cores", "0"];
    let server = Process::start(&mut start(&[&["yardstick"], arguments, &listen].concat()));
    let url = until("the yardstick to listen", PATIENCE, || {
        let line = server.stdout() + &server.stderr();
        Some(line.split_once("listening on ")?.1.lines().next()?.to_owned())
    });
    (server, url)
}

/// Searches until a part is named, which has to be the expected one. Other programs of the machine
/// may keep a search from an answer.
fn named(search: impl Fn() -> Command, limit: &str, cause: &str) -> Value {
    repeated(|| {
        let ended = Process::start(&mut search()).wait(Duration::from_secs(150));
        let find = document::of(&ended)["find"].clone();
        ensure(find["limit"] != "undetermined", || format!("no part is named: {}", find["evidence"]))?;
        assert_eq!((find["limit"].as_str(), find["cause"].as_str()), (Some(limit), Some(cause)), "{find:#}");
        Ok(find)
    })
}

/// A control group; it ends with this value.
struct Group {
    path: PathBuf,
}

impl Group {
    /// Makes one. Where this is forbidden, it is reported clearly.
    fn with_a_fifth_of_a_cpu(test: &str) -> Option<Self> {
        let name = format!("thalweg-test-{}", std::process::id());
        let v1 = PathBuf::from("/sys/fs/cgroup/cpu");
        let (path, file, value) = if v1.join("cgroup.procs").exists() {
            (v1.join(name), "cpu.cfs_quota_us", "20000")
        } else {
            (PathBuf::from("/sys/fs/cgroup").join(name), "cpu.max", "20000 100000")
        };
        let group = fs::create_dir(&path).map(|()| Self { path });
        let set = group.and_then(|group| fs::write(group.path.join(file), value).map(|()| group));
        set.map_err(|error| {
            // Not printed by a macro, whose output of tests that succeed is swallowed.
            let _ = writeln!(
                std::io::stderr(),
                "\nSKIPPED: {test}: this host allows no control group ({error}); run the tests as root"
            );
        })
        .ok()
    }

    /// Thalweg within it.
    fn thalweg(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""]).arg(&self.path);
        command.arg(env!("CARGO_BIN_EXE_thalweg")).args(arguments);
        command
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its members have been waited for. A group that stays does no harm.
        let _ = fs::remove_dir(&self.path);
    }
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    /// Such a server was once named because nothing else was left.
    #[test]
    fn a_server_that_waits_is_named_by_its_waits() {
        let (_server, url) = yardstick(thalweg, "127.0.0.1:0", &["fixed", "--rate", "500/s"]);
        let find = named(|| thalweg(&[&["find", &url], &SHORT[..]].concat()), "server", "requests wait in the server");
        assert!(find["evidence"].to_string().contains("a handshake, which the server's kernel answers"), "{find:#}");
    }

    /// A path of 100 Mbit/s was once called the server.
    #[test]
    fn a_full_path_is_the_networks() {
        let Some(network) = Namespace::new("a_full_path_is_the_networks") else { return };
        // The server has a network of its own behind a link of 20 Mbit/s.
        let second = ["--net", "sh", "-c", "echo up && exec sleep 600"];
        let behind = Process::start(network.command("unshare").args(second));
        // Before it exists, a link to it would be one within the first network.
        until("the second network", PATIENCE, || behind.stdout().contains("up").then_some(()));
        let at = format!("--net=/proc/{}/ns/net", behind.id());
        let inside = |arguments: &[&str]| {
            let mut command = network.command("nsenter");
            command.arg(&at).args(arguments);
            command
        };
        network.shell(&format!("ip link add c0 type veth peer name s0 netns {}", behind.id()));
        network.shell("ip address add 10.98.0.2/24 dev c0 && ip link set c0 up");
        let set_up = "ip address add 10.98.0.1/24 dev s0 && ip link set s0 up && \
                      tc qdisc add dev s0 root tbf rate 20mbit burst 32kbit latency 50ms";
        assert_eq!(Process::start(&mut inside(&["sh", "-c", set_up])).wait(PATIENCE).code, Some(0));
        let arguments = ["fixed", "--rate", "5000/s", "--body", "20KB"];
        let program = env!("CARGO_BIN_EXE_thalweg");
        let start = |arguments: &[&str]| inside(&[&[program], arguments].concat());
        let (_server, url) = yardstick(start, "10.98.0.1:28098", &arguments);
        let find = named(|| network.thalweg(&[&["find", &url], &SHORT[..]].concat()), "network", "path full");
        assert!(find["evidence"][0].as_str().is_some_and(|first| first.contains("packets queued")), "{find:#}");
    }

    /// A client at a fifth of its CPU was once told that its host is too busy.
    #[test]
    fn a_throttled_client_is_named() {
        let Some(group) = Group::with_a_fifth_of_a_cpu("a_throttled_client_is_named") else { return };
        let nginx = Nginx::start();
        let url = nginx.url("/000.txt");
        let find = named(
            || group.thalweg(&[&["find", &url], &SHORT[..]].concat()),
            "client",
            "client throttled by its control group",
        );
        assert!(find["evidence"].to_string().contains("CPU quota"), "{find:#}");
    }
}
