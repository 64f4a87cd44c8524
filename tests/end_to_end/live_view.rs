//! The live view on a terminal, its absence elsewhere, and the stream of intervals.

use std::fs;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use crate::document::number;
use crate::process::{ExitedProcess, PATIENCE, Process, program, run_thalweg, thalweg, until};
use crate::repetition::{ensure, repeated};
use crate::yardstick_server::Yardstick;

/// A command on a pseudo terminal: the size, where its stdout goes, and the events.
#[derive(Clone, Copy, Default)]
struct Setting<'a> {
    rows: u16,
    columns: u16,
    stdout: Option<&'a str>,
    /// Texts on the screen, and what is done when they are there.
    events: &'a [(&'a str, &'a str)],
    environment: &'a [(&'a str, &'a str)],
}

const WIDE: Setting<'static> =
    Setting { rows: 24, columns: 80, stdout: None, events: &[], environment: &[("TERM", "xterm")] };

/// The characters that the terminal got, and its state.
struct Terminal(Value);

impl Terminal {
    /// Runs a command until it was seen in time: a view that is drawn late leaves events out.
    #[track_caller]
    fn run(setting: Setting<'_>, arguments: &[&str]) -> Self {
        repeated(|| {
            let terminal = Self::run_once(setting, arguments);
            let missed = &terminal.0["events_left"];
            ensure(*missed == Value::Array(Vec::new()), || format!("not seen: {missed}"))?;
            Ok(terminal)
        })
    }

    fn run_once(setting: Setting<'_>, arguments: &[&str]) -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/end_to_end/terminal.py");
        let mut command = Command::new(program(&["python3"], "python3"));
        let [rows, columns] = [setting.rows, setting.columns].map(|number| number.to_string());
        command.args([script, "--rows", &rows, "--columns", &columns]);
        command.args(setting.stdout.iter().flat_map(|path| ["--stdout", path]));
        for (text, action) in setting.events {
            command.args(["--on", text, action]);
        }
        command.arg("--").arg(env!("CARGO_BIN_EXE_thalweg")).args(arguments);
        // A machine for continuous integration has colours everywhere.
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(variable);
        }
        command.envs(setting.environment.iter().copied());
        let ended = Process::start(&mut command).wait(PATIENCE);
        let seen: Value = serde_json::from_str(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"));
        assert_eq!(seen["unknown"], Value::Array(Vec::new()), "{seen:#}");
        Self(seen)
    }

    fn lines(&self, position: Option<usize>) -> Vec<String> {
        let lines = position.map_or(&self.0["screen"], |position| &self.0["seen"][position]);
        lines.as_array().expect("lines").iter().map(|line| line.as_str().expect("text").to_owned()).collect()
    }

    /// The screen has no part of the view any more, the cursor is there, and keys work as before.
    #[track_caller]
    fn assert_restored(&self) {
        assert_eq!((&self.0["cursor_shown"], &self.0["modes_kept"]), (&true.into(), &true.into()), "{:#}", self.0);
        let left: Vec<_> = self.lines(None).into_iter().filter(|line| line.contains("so far; ")).collect();
        assert!(left.is_empty(), "{left:?} {:#}", self.0);
    }

    fn output(&self) -> &str {
        self.0["output"].as_str().expect("text")
    }
}

#[track_caller]
fn assert_shows(lines: &[String], texts: &[&str]) {
    for text in texts {
        assert!(lines.iter().any(|line| line.contains(text)), "{text:?} is not in {lines:#?}");
    }
}

#[test]
fn a_run_on_a_terminal_shows_a_live_view_and_takes_it_away() {
    let server = Yardstick::start("1ms");
    let url = server.url();
    for (rows, columns) in [(24, 60), (24, 80), (50, 200)] {
        let setting = Setting { rows, columns, events: &[("3 s left.*", "look")], ..WIDE };
        let terminal = Terminal::run(setting, &["run", &url, "--rate", "200/s", "--duration", "5s"]);
        let lines = terminal.lines(Some(0));
        assert_shows(&lines, &["run  open loop, 200/s", "rate ", "good ", "p50 ", "p99 ", "errors ", "in flight"]);
        assert!(lines.iter().any(|line| line.starts_with("rate") && line.contains('█')), "{lines:#?}");
        terminal.assert_restored();
        assert!(terminal.output().contains("response time"), "{}", terminal.output());
    }
}

#[test]
fn the_view_follows_the_size_of_its_terminal() {
    let server = Yardstick::start("1ms");
    let events = [("4 s left", "resize 24x60"), ("3 s left", "resize 6x100"), ("2 s left", "look")];
    let setting = Setting { events: &events, ..WIDE };
    let terminal = Terminal::run(setting, &["run", &server.url(), "--rate", "100/s", "--duration", "6s"]);
    let last = terminal.lines(Some(2));
    assert_eq!(last.len(), 6);
    assert_shows(&last, &["2 s left", "good ", "p99 "]);
    assert_eq!(last.iter().filter(|line| line.contains("s left")).count(), 1, "{last:#?}");
    terminal.assert_restored();
}

#[test]
fn ctrl_c_restores_the_terminal_and_gives_the_result_so_far() {
    let server = Yardstick::start("1ms");
    for options in [&[][..], &["--plain"]] {
        let setting = Setting { events: &[("good ", "press ^C")], ..WIDE };
        let load = ["--rate", "100/s", "--duration", "60s"];
        let terminal = Terminal::run(setting, &[&["run", &server.url()], &load[..], options].concat());
        assert!(matches!(terminal.0["code"].as_i64(), Some(0 | 1 | 3)), "{:#}", terminal.0);
        terminal.assert_restored();
        for text in ["interrupted", "response time"] {
            assert!(terminal.output().contains(text), "{text}: {}", terminal.output());
        }
    }
}

#[test]
fn one_line_is_shown_on_request_and_on_a_terminal_that_can_no_more() {
    let server = Yardstick::start("1ms");
    let load = ["--rate", "100/s", "--duration", "3s"];
    for (options, environment) in [(&["--plain"][..], ("TERM", "xterm")), (&[], ("TERM", "dumb"))] {
        let events = [("good .*p99 .*errors; run: open loop", "look")];
        let setting = Setting { columns: 100, events: &events, environment: &[environment], ..WIDE };
        let terminal = Terminal::run(setting, &[&["run", &server.url()], &load[..], options].concat());
        // The line itself needs no escape sequence; a colour may follow in the result.
        let escape = if environment.1 == "dumb" { "\x1b" } else { "\x1b[?" };
        assert!(!terminal.output().contains(escape), "{:?}", terminal.output());
        terminal.assert_restored();
    }
}

#[test]
fn nothing_is_shown_where_there_is_no_terminal() {
    let server = Yardstick::start("1ms");
    let load = ["--rate", "100/s", "--duration", "1s"];
    for options in [&[][..], &["--plain"], &["--progress", "auto"]] {
        let ended = run_thalweg(&[&["run", &server.url()], &load[..], options].concat());
        let is_plain = |text: &str| !text.contains(['\x1b', '\r']) && !text.contains("in flight");
        assert!(is_plain(&ended.stderr) && is_plain(&ended.stdout), "{ended:?}");
    }
    // A terminal beside a file: the view is on stderr, and the file has the result alone.
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("result.txt");
    let path = file.to_str().expect("UTF-8");
    let setting = Setting { stdout: Some(path), events: &[("in flight", "look")], ..WIDE };
    let terminal = Terminal::run(setting, &[&["run", &server.url()], &load[..]].concat());
    terminal.assert_restored();
    let result = fs::read_to_string(&file).expect("a result");
    assert!(result.contains("  response time") && !result.contains('\x1b'), "{result}");
    let silent = Terminal::run(WIDE, &[&["run", &server.url(), "--progress", "none"], &load[..]].concat());
    assert!(!silent.output().contains("in flight"), "{}", silent.output());
}

#[test]
fn colours_are_those_that_the_user_wants() {
    let server = Yardstick::start("1ms");
    let url = server.url();
    // Bold, and one of the eight colours: a busy machine has other verdicts than PASS.
    let verdict = "\x1b[1m\x1b[3";
    let arguments = ["run", &url, "--rate", "100/s", "--duration", "1s", "--progress", "none"];
    let check = |environment: &[(&str, &str)], options: &[&str], is_coloured: bool| {
        let environment = [&[("TERM", "xterm")], environment].concat();
        let terminal = Terminal::run(Setting { environment: &environment, ..WIDE }, &[&arguments, options].concat());
        assert_eq!(
            terminal.output().contains(verdict),
            is_coloured,
            "{environment:?} {options:?} {}",
            terminal.output()
        );
    };
    check(&[], &[], true);
    check(&[("NO_COLOR", "1")], &[], false);
    check(&[("NO_COLOR", "1")], &["--color", "always"], true);
    check(&[], &["--color", "never"], false);
    check(&[("TERM", "dumb")], &[], false);
    let piped = run_thalweg(&[&arguments[..], &["--color", "always"]].concat());
    assert!(piped.stdout.starts_with(verdict), "{piped:?}");
    let wrong = run_thalweg(&["run", "nonsense://x", "--color", "always"]);
    assert!(wrong.stderr.starts_with("\x1b[1m\x1b[31mthalweg:\x1b[0m "), "{wrong:?}");
    let wrong = run_thalweg(&["run", "nonsense://x"]);
    assert!(wrong.stderr.starts_with("thalweg: "), "{wrong:?}");
}

#[test]
fn a_result_fits_60_columns() {
    let server = Yardstick::start("1ms");
    let url = server.url();
    // As many connections as requests, so that none waits for one.
    let load = ["--requests", "100", "--rate", "100/s", "-c", "100", "--progress", "none", "--limit", "p99<1us"];
    let terminal = Terminal::run(Setting { columns: 60, rows: 60, ..WIDE }, &[&["run", &url], &load[..]].concat());
    let text = terminal.output();
    let plain = without_styles(text);
    for line in plain.lines().map(str::trim_end) {
        let words = line.split_whitespace().count();
        assert!(line.chars().count() <= 60 || words == 1, "{line:?} in {plain}");
    }
    assert!(plain.contains("  response time"), "{plain}");
    assert!(!plain.contains("queue"), "{plain}");
}

/// The text without escape sequences of styles.
fn without_styles(text: &str) -> String {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or("").to_owned();
    parts.fold(first, |plain, part| plain + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// The lines of a stream, the result apart.
fn stream(ended: &ExitedProcess) -> (Vec<Value>, Value) {
    let mut lines: Vec<Value> = ended
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect();
    let result = lines.pop().expect("a result");
    assert_eq!(result["type"], "result", "{result:#}");
    (lines, result)
}

fn of_type<'a>(lines: &'a [Value], name: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == name).collect()
}

#[test]
fn a_stream_of_intervals_adds_up_to_its_result() {
    let server = Yardstick::start("1ms");
    let load = ["--rate", "400/s", "--duration", "4s", "--connections", "8"];
    let (lines, result) =
        stream(&run_thalweg(&[&["run", &server.url(), "--json", "--progress", "json"], &load[..]].concat()));
    assert_eq!(of_type(&lines, "trial").len(), 1, "{lines:#?}");
    assert_eq!(of_type(&lines, "judged").len(), 1, "{lines:#?}");
    let intervals = of_type(&lines, "interval");
    let trial = &result["trials"][0];
    // Each is the one of the document, with its width and its trial beside.
    let bare: Vec<Value> = intervals
        .iter()
        .map(|interval| {
            let mut fields = interval.as_object().expect("an object").clone();
            assert_eq!(fields.remove("trial"), Some(0.into()));
            assert_eq!(fields.remove("interval_s"), Some(trial["interval_s"].clone()));
            fields.remove("type");
            Value::Object(fields)
        })
        .collect();
    assert_eq!(Value::Array(bare), trial["intervals"]);
    for count in ["offered", "good"] {
        let sum: f64 = intervals.iter().map(|interval| number(interval, &format!("/{count}"))).sum();
        assert_eq!(sum, number(trial, &format!("/counts/{count}")), "{count}");
    }
    assert_eq!(number(trial, "/counts/offered"), 1_600.0);
}

#[test]
fn an_interrupted_stream_ends_with_its_result() {
    let server = Yardstick::start("1ms");
    let arguments = ["run", &server.url(), "--json", "--progress", "json", "--rate", "200/s", "--duration", "60s"];
    let run = Process::start(&mut thalweg(&arguments));
    until("some intervals", PATIENCE, || (run.stdout().matches("interval_s").count() >= 2).then_some(()));
    run.signal("INT");
    let (lines, result) = stream(&run.wait(PATIENCE));
    let intervals = of_type(&lines, "interval").len();
    assert_eq!(intervals, result["trials"][0]["intervals"].as_array().expect("intervals").len(), "{result:#}");
}

#[test]
fn a_stream_needs_a_result_in_json() {
    let ended = run_thalweg(&["run", "http://127.0.0.1:1/", "--progress", "json"]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("--progress json needs --json"), "{ended:?}");
}

/// These tests need all CPUs: nextest runs each of them by itself.
mod alone {
    use super::*;

    #[test]
    fn a_search_on_a_terminal_shows_its_trials_and_the_capacity() {
        let server = Yardstick::start("2ms");
        let events = [("^confirm +[0-9].*pass", "look")];
        let setting = Setting { rows: 30, columns: 80, events: &events, ..WIDE };
        let load = ["--connections", "16", "--duration", "1s", "--width", "20%", "--budget", "20s", "--overload", "no"];
        let terminal = Terminal::run(setting, &[&["find", &server.url()], &load[..]].concat());
        let lines = terminal.lines(Some(0));
        assert_shows(&lines, &["probe calibrate bracket narrow confirm", ", goal 20.0 %)", "━", "good ", "p99 "]);
        assert!(lines.iter().any(|line| line.starts_with("confirm") && line.contains("pass")), "{lines:#?}");
        terminal.assert_restored();
        assert!(terminal.output().contains("bottleneck: "), "{}", terminal.output());
    }
}
