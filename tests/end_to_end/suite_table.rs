//! `thalweg suite all`: several servers, some of which fail, and tables that go on.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::machine;
use crate::process::{ExitedProcess, PATIENCE, Process, thalweg, until};

/// Longer than a table of these tests.
const TABLE_PATIENCE: Duration = Duration::from_secs(120);
/// The command of a server that works.
const GOOD: &str = "exec {thalweg} serve {root} --listen 127.0.0.1:{port}";

/// A hundredth of a suite and less: a few seconds.
const SHORT: [&str; 2] = ["--scale", "0.005"];

/// A folder with a file of servers.
struct Place(TempDir);

impl Place {
    fn new(servers: &[(&str, &str)]) -> Self {
        let place = Self(TempDir::new().unwrap());
        place.write(servers);
        place
    }

    fn write(&self, servers: &[(&str, &str)]) {
        let table = |(name, command): &(&str, &str)| format!("[[server]]\nname = \"{name}\"\ncommand = '{command}'\n");
        fs::write(self.path("servers.toml"), servers.iter().map(table).collect::<String>()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command for a suite with all servers.
    fn command(&self, more: &[&str]) -> Command {
        let mut command = thalweg(&["suite", "all", "--suites", "acme-small"]);
        command.arg("--servers").arg(self.path("servers.toml")).arg("--out").arg(self.path("out"));
        command.args(more);
        command
    }

    fn run(&self, more: &[&str]) -> ExitedProcess {
        Process::start(&mut self.command(&[&SHORT[..], more].concat())).wait(TABLE_PATIENCE)
    }

    fn cell(&self, server: &str) -> Value {
        let json = fs::read(self.path("out/cells").join(format!("acme-small.{server}.json"))).unwrap();
        serde_json::from_slice(&json).unwrap()
    }

    /// Measures until the host was quiet enough for a figure of this server.
    fn until_measured(&self, server: &str, more: &[&str]) -> ExitedProcess {
        let mut ended = self.run(more);
        for _ in 0..10 {
            if self.cell(server)["state"] == "complete" {
                break;
            }
            ended = self.run(&["--resume"]);
        }
        ended
    }
}

#[test]
fn a_table_goes_on_where_servers_have_failed() {
    let _machine = machine::shared();
    let broken = "echo no such module >&2; exit 3";
    let dying = "timeout 2 {thalweg} serve {root} --listen 127.0.0.1:{port}";
    let place = Place::new(&[("good", GOOD), ("broken", broken), ("dying", dying)]);
    let ended = place.until_measured("good", &[]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert_eq!([place.cell("broken"), place.cell("dying")].map(|cell| cell["state"].clone()), ["failed", "failed"]);
    let why = |server: &str| place.cell(server)["reasons"].to_string();
    assert!(why("broken").contains("no such module"), "{}", why("broken"));
    assert!(why("dying").contains("the server has ended"), "{}", why("dying"));
    let table = fs::read_to_string(place.path("out/table.tsv")).unwrap();
    assert!(table.lines().any(|line| line.starts_with("acme-small\toperations\t1/s\tgood\t")), "{table}");
    let report = fs::read_to_string(place.path("out/report.html")).unwrap();
    for text in ["ACME: 1000 files of 512 bytes", "no such module", "serve", "Configurations of the servers"] {
        assert!(report.contains(text), "{text}");
    }

    let refused = place.run(&[]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("--resume goes on with it"), "{refused:?}");

    let before = place.cell("good");
    place.write(&[("good", GOOD), ("broken", GOOD)]);
    let ended = place.until_measured("broken", &["--resume"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.stderr.contains("acme-small with good (measured before)"), "{ended:?}");
    assert_eq!(place.cell("good"), before);
}

#[test]
fn a_table_that_is_interrupted_ends_its_server_and_goes_on() {
    let _machine = machine::shared();
    let place = Place::new(&[("good", "echo $$ > {here}/pid; exec {thalweg} serve {root} --listen 127.0.0.1:{port}")]);
    let mut table = Process::start(&mut place.command(&[]));
    let pid = until("the server's start", PATIENCE, || {
        assert!(table.ended().is_none(), "{}", table.stderr());
        fs::read_to_string(place.path("pid")).ok().filter(|pid| pid.ends_with('\n'))
    });
    table.signal("INT");
    let ended = table.wait(PATIENCE);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert_eq!(place.cell("good")["state"], "interrupted");
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "the server has ended, too");
    let ended = place.until_measured("good", &["--resume"]);
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[test]
fn a_full_disk_leaves_no_half_written_cell() {
    let _machine = machine::shared();
    let place = Place::new(&[("good", GOOD)]);
    fs::create_dir(place.path("out")).unwrap();
    let out = place.path("out");
    let script = format!("mount -t tmpfs -o size=32768 none {} && exec \"$@\"", out.display());
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script, "sh"]);
    let table = place.command(&[&SHORT[..], &["--trees", place.path("trees").to_str().unwrap()]].concat());
    command.arg(table.get_program()).args(table.get_args());
    let ended = Process::start(&mut command).wait(TABLE_PATIENCE);
    if !ended.stderr.contains("thalweg:") {
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: suite_table: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!(ended.code, Some(4), "{ended:?}");
    for text in ["cannot keep acme-small with good", "make room and go on with --resume"] {
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
}

#[test]
fn options_and_files_that_fit_nothing_are_refused() {
    let place = Place::new(&[("good", GOOD)]);
    let refused = |more: &[&str], text: &str| {
        let ended = place.run(more);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
    };
    refused(&["--only", "other"], "there is no such server; there are good");
    let ended = Process::start(&mut place.command(&["--scale", "0"])).wait(PATIENCE);
    assert!(ended.code == Some(2) && ended.stderr.contains("--scale 0 is not a share"), "{ended:?}");
    refused(&["--server-cpus", "9999"], "CPU 9999 is not available");
    refused(&["--resume"], "no results to go on with");
    place.write(&[("good", "x {prot}")]);
    refused(&[], "{prot} is no placeholder");
    assert!(!place.path("out/cells").exists());
}
