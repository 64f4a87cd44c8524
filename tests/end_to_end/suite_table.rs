//! `thalweg suite all`: several servers, some of which fail, and tables that go on.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, thalweg, until};
use crate::repetition::{ensure, repeated};

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

    /// The rate of a server in the table.
    fn rate(&self, server: &str) -> f64 {
        let table = fs::read_to_string(self.path("out/table.tsv")).unwrap();
        let start = format!("acme-small\toperations\t1/s\t{server}\t");
        let value = table.lines().find_map(|line| line.strip_prefix(&start)?.split('\t').next());
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no rate of {server} in {table}"))
    }

    /// Measures until there is a figure of this server.
    fn measured(&self, server: &str, more: &[&str]) -> ExitedProcess {
        let mut more = more;
        repeated(|| {
            let ended = self.run(more);
            more = &["--resume"];
            self.is_complete(server).map(|()| ended)
        })
    }

    /// Whether there is a figure of this server.
    fn is_complete(&self, server: &str) -> Result<(), String> {
        let cell = self.cell(server);
        ensure(cell["state"] == "complete", || format!("{server}: {} {}", cell["state"], cell["reasons"]))
    }
}

/// Interrupts a table when the second server has started. Returns that server's process, too.
fn interrupted_at_the_second(place: &Place, more: &[&str]) -> (String, ExitedProcess) {
    let _ = fs::remove_file(place.path("pid"));
    let mut table = Process::start(&mut place.command(more));
    let pid = until("the second server's start", TABLE_PATIENCE, || {
        assert!(table.ended().is_none(), "{}", table.stderr());
        fs::read_to_string(place.path("pid")).ok().filter(|pid| pid.ends_with('\n'))
    });
    table.signal("INT");
    (pid.trim().to_owned(), table.wait(TABLE_PATIENCE))
}

/// Runs a table on a full file system, lists its cells, makes room and goes on.
const FULL_DISK: &str = r#"
mount -t tmpfs -o size=4096 none "$OUT" && echo x > "$OUT/full" || exit 77
"$@" && exit 78 || echo "exit code $?"
echo "cells:" $(ls -A "$OUT/cells")
mount -o remount,size=67108864 none "$OUT"
"$@" --resume
cp "$OUT/cells/acme-small.good.json" "$OUT.json"
"#;

#[test]
fn a_full_disk_leaves_no_half_written_cell() {
    let place = Place::new(&[("good", GOOD)]);
    fs::create_dir(place.path("out")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", FULL_DISK, "sh"]).env("OUT", place.path("out"));
    let table = place.command(&[&SHORT[..], &["--trees", place.path("trees").to_str().unwrap()]].concat());
    command.arg(table.get_program()).args(table.get_args());
    let ended = Process::start(&mut command).wait(TABLE_PATIENCE);
    if !ended.stderr.contains("thalweg:") {
        let why = ended.stderr.trim();
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: suite_table: this host allows no mounts ({why}); run as root");
        return;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    for text in ["cannot keep acme-small with good", "make room and go on with --resume"] {
        assert!(ended.stderr.contains(text), "{ended:?}");
    }
    // The figures are printed all the same.
    let (before, after) = ended.stdout.split_once("cells:").expect("the first table has ended");
    assert!(before.contains("ACME: 1000 files") && before.contains("exit code 4"), "{ended:?}");
    assert!(after.starts_with('\n'), "no cell is left: {ended:?}");
    let kept: Value = serde_json::from_slice(&fs::read(place.path("out.json")).unwrap()).unwrap();
    assert_eq!(kept["server"], "good");
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
    assert!(ended.code == Some(2) && ended.stderr.contains("for '--scale <SHARE>'"), "{ended:?}");
    refused(&["--server-cpus", "9999"], "CPU 9999 is not available");
    refused(&["--max-connections", "0"], "at least 1");
    refused(&["--resume"], "no results to go on with");
    place.write(&[("good", "x {prot}")]);
    refused(&[], "{prot} is no placeholder");
    fs::write(place.path("servers.toml"), "[[server]]\nname = 'x'\ncommand = 'x'\nsuites = ['acme-smal']\n").unwrap();
    refused(&[], "acme-smal");
    assert!(!place.path("out/cells").exists());
    place.write(&[("good", GOOD)]);
    refused(&["--trees", place.path("my trees").to_str().unwrap()], "choose another folder");
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_table_goes_on_where_servers_have_failed() {
        let broken = "echo no such module >&2; exit 3";
        let dying = "timeout 2 {thalweg} serve {root} --listen 127.0.0.1:{port}";
        let place = Place::new(&[("good", GOOD), ("broken", broken), ("dying", dying)]);
        let ended = place.measured("good", &[]);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert_eq!([place.cell("broken"), place.cell("dying")].map(|cell| cell["state"].clone()), ["failed", "failed"]);
        let why = |server: &str| place.cell(server)["reasons"].to_string();
        assert!(why("broken").contains("no such module"), "{}", why("broken"));
        // It may end before it was seen to answer.
        assert!(why("dying").contains("has ended"), "{}", why("dying"));
        assert!(place.rate("good") > 0.0);
        let report = fs::read_to_string(place.path("out/report.html")).unwrap();
        for text in ["ACME: 1000 files of 512 bytes", "no such module", "serve", "Configurations of the servers"] {
            assert!(report.contains(text), "{text}");
        }

        let refused = place.run(&[]);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        assert!(refused.stderr.contains("--resume goes on with it"), "{refused:?}");

        let before = place.cell("good");
        place.write(&[("good", GOOD), ("broken", GOOD)]);
        let ended = place.measured("broken", &["--resume"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(ended.stderr.contains("acme-small with good (measured before)"), "{ended:?}");
        assert_eq!(place.cell("good"), before);
        let ended = place.run(&["--resume", "--only", "broken"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert!(place.rate("good") > 0.0 && place.rate("broken") > 0.0, "the report has all servers");
    }

    #[test]
    fn a_table_that_is_interrupted_keeps_what_it_has_and_goes_on() {
        let second = "echo $$ > {here}/pid; exec {thalweg} serve {root} --listen 127.0.0.1:{port}";
        let place = Place::new(&[("first", GOOD), ("second", second), ("third", GOOD)]);
        let mut resume: &[&str] = &[];
        let (pid, ended) = repeated(|| {
            let interrupted = interrupted_at_the_second(&place, &[&SHORT[..], resume].concat());
            resume = &["--resume"];
            place.is_complete("first").map(|()| interrupted)
        });
        assert_eq!(ended.code, Some(3), "{ended:?}");
        assert_eq!(place.cell("second")["state"], "interrupted");
        assert!(!Path::new("/proc").join(pid).exists(), "the server has ended, too");
        assert!(place.rate("first") > 0.0);
        assert!(!place.path("out/cells/acme-small.third.json").exists());
        let report = fs::read_to_string(place.path("out/report.html")).unwrap();
        assert!(report.contains("1 of 3 measured"), "the title counts what was left out");
        let before = place.cell("first");
        place.measured("second", &["--resume"]);
        let ended = place.measured("third", &["--resume"]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(place.cell("first"), before);
    }
}
