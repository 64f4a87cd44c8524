//! Wrong command lines and input files of all commands, and what is said about each of them.
//!
//! `tests/bad_inputs.txt` is a transcript: commands that are run in one folder, in order, with the
//! exit code that each has to end with, and below each the message that was accepted. With
//! `THALWEG_WRITE=1` the messages are written anew; read them as a whole then. Lines that are not
//! of Thalweg make the files that the next ones need.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::process::{ExitedProcess, PATIENCE, Process, STORE};

/// A wrong input is noticed before anything is waited for.
const SOON: Duration = Duration::from_secs(20);
/// A message that is longer is not read.
const LINES_MAX: usize = 16;
/// Fewer would not go through all commands.
const CASES_MIN: usize = 60;

/// A line of the transcript that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Comment(String),
    /// A command that has to succeed and to say nothing.
    Preparation(String),
    /// A command that has to fail with this code.
    Case(String, i32),
}

fn transcript() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/bad_inputs.txt")
}

fn read(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        if line.starts_with('#') {
            return Some(Line::Comment(line.to_owned()));
        }
        let command = line.strip_prefix("$ ")?;
        let case = command.rsplit_once("  # ").map(|(command, code)| (command.trim_end(), code.parse()));
        Some(match case {
            Some((command, Ok(code))) => Line::Case(command.to_owned(), code),
            _ => Line::Preparation(command.to_owned()),
        })
    };
    text.lines().filter_map(line).collect()
}

fn run(command: &str, folder: &Path) -> ExitedProcess {
    let bin = Path::new(env!("CARGO_BIN_EXE_thalweg")).parent().expect("the program is in a folder");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut sh = Command::new("sh");
    sh.args(["-c", command]).current_dir(folder).env("PATH", path).env(STORE, folder.join("runs.sqlite"));
    // Messages are not wrapped, and have no colours.
    sh.env_remove("COLUMNS").env("NO_COLOR", "1").env("HOME", folder).stdin(Stdio::null());
    Process::start(&mut sh).wait(SOON.min(PATIENCE))
}

/// The faults of a command's end, whatever it says.
fn faults(command: &str, code: i32, ended: &ExitedProcess) -> Vec<String> {
    let said = &ended.stderr;
    let first = said.lines().next().unwrap_or_default();
    let count = said.lines().count();
    let rules = [
        (ended.code == Some(code), format!("ends with {:?} in place of {code}", ended.code)),
        (ended.stdout.is_empty(), format!("stdout has {:?}", ended.stdout)),
        (first.starts_with("thalweg: ") || first.starts_with("error: "), format!("begins with {first:?}")),
        (count <= LINES_MAX, format!("the message has {count} lines")),
        (!said.contains("panicked") && !said.contains("RUST_BACKTRACE"), "it panics".to_owned()),
        (names_something(command, said), "the message names nothing of the command line".to_owned()),
    ];
    rules.into_iter().filter(|(holds, _)| !holds).map(|(_, fault)| format!("{command}: {fault}\n{said}")).collect()
}

/// Whether a message names an option, a value or a file of its command, or an argument that it
/// lacks.
fn names_something(command: &str, said: &str) -> bool {
    const TOO_SHORT: usize = 3;
    let quotes: &[char] = &['\'', '"', '<', '>'];
    let words = command.split([' ', '=', ',', ':', '/', '@']).skip(1).map(|word| word.trim_matches(quotes));
    let of_command = words.filter(|word| word.len() >= TOO_SHORT).any(|word| said.contains(word));
    let lacking = said.contains('<') || said.contains("--");
    of_command || lacking
}

/// The transcript with what is said now.
fn written(lines: &[Line], folder: &Path) -> (String, Vec<String>) {
    let (mut text, mut all) = (String::new(), Vec::new());
    let place = folder.to_str().expect("a plain name").to_owned();
    let mut after_comment = true;
    for line in lines {
        let is_comment = matches!(line, Line::Comment(_));
        if is_comment && !after_comment {
            text.push('\n');
        }
        after_comment = is_comment;
        match line {
            Line::Comment(comment) => text.push_str(&format!("{comment}\n")),
            Line::Preparation(command) => {
                let ended = run(command, folder);
                let is_silent = ended.code == Some(0) && ended.stdout.is_empty() && ended.stderr.is_empty();
                assert!(is_silent, "{command}: {ended:?}");
                text.push_str(&format!("\n$ {command}\n"));
            }
            Line::Case(command, code) => {
                let ended = run(command, folder);
                all.extend(faults(command, *code, &ended));
                let said = ended.stderr.replace(&place, "FOLDER");
                text.push_str(&format!("\n$ {command}  # {code}\n"));
                for line in said.trim_end().lines() {
                    text.push_str(format!("  {line}").trim_end());
                    text.push('\n');
                }
            }
        }
    }
    (text, all)
}

/// The first commands whose messages differ, with both.
fn differences(stored: &str, now: &str) -> String {
    let of = |text: &str| -> Vec<String> { text.split("\n$ ").map(str::to_owned).collect() };
    let (stored, now) = (of(stored), of(now));
    let differing = stored.iter().zip(&now).filter(|(stored, now)| stored.trim_end() != now.trim_end());
    differing
        .map(|(stored, now)| format!("accepted:\n$ {stored}\nnow:\n$ {now}"))
        .take(5)
        .collect::<Vec<_>>()
        .join("\n")
}

#[test]
fn each_wrong_input_has_a_message_that_helps() {
    let stored = fs::read_to_string(transcript()).expect("the transcript can be read");
    let lines = read(&stored);
    let folder = TempDir::new().expect("a temporary folder can be made");
    let (now, faults) = written(&lines, folder.path());
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    if std::env::var_os("THALWEG_WRITE").is_some() {
        fs::write(transcript(), now).expect("the transcript can be written");
        return;
    }
    assert!(
        now == stored,
        "messages have changed; if they are better, write them with THALWEG_WRITE=1 and read them:\n{}",
        differences(&stored, &now)
    );
}

#[test]
fn all_commands_have_wrong_inputs() {
    let stored = fs::read_to_string(transcript()).expect("the transcript can be read");
    let cases: Vec<String> = read(&stored)
        .into_iter()
        .filter_map(|line| if let Line::Case(command, _) = line { Some(command) } else { None })
        .collect();
    let unlike: BTreeSet<&String> = cases.iter().collect();
    assert!(unlike.len() >= CASES_MIN, "only {} cases", unlike.len());
    let help = run("thalweg --help", Path::new("/"));
    let (commands, _) = help.stdout.split_once("\nOptions:").expect("the help lists the commands before the options");
    let is_command = |line: &&str| line.starts_with("  ") && line[2..].starts_with(|c: char| c.is_ascii_lowercase());
    let names = commands.lines().filter(is_command).filter_map(|line| line.split_whitespace().next());
    let names: Vec<&str> = names.filter(|name| *name != "help").collect();
    assert!(names.len() > 10, "{names:?}");
    let lacking: Vec<&&str> =
        names.iter().filter(|name| !cases.iter().any(|case| case.starts_with(&format!("thalweg {name}")))).collect();
    assert!(lacking.is_empty(), "no wrong input of {lacking:?} in tests/bad_inputs.txt");
}

#[test]
fn lines_are_told_apart() {
    let text =
        "# run\n\n$ thalweg run  # 2\n  error: a\n\n  Usage: b # 3\n\n$ printf '#  x' > a\n$ thalweg run '# x'   # 4\n";
    let expected = [
        Line::Comment("# run".to_owned()),
        Line::Case("thalweg run".to_owned(), 2),
        Line::Preparation("printf '#  x' > a".to_owned()),
        Line::Case("thalweg run '# x'".to_owned(), 4),
    ];
    assert_eq!(read(text), expected);
}

#[test]
fn a_bad_message_is_noticed() {
    let ended = |code, stdout: &str, stderr: &str| ExitedProcess {
        code: Some(code),
        stdout: stdout.to_owned(),
        stderr: stderr.to_owned(),
    };
    let check = |ended: ExitedProcess, count: usize| {
        assert_eq!(faults("thalweg run http://a/ --rate fast", 2, &ended).len(), count, "{ended:?}");
    };
    check(ended(2, "", "error: invalid value 'fast' for '--rate <RATE>'\n"), 0);
    check(ended(4, "", "thalweg: http://a/ is wrong\n"), 1);
    check(ended(2, "x", "thalweg: http://a/ is wrong\n"), 1);
    check(ended(2, "", "http://a/ is wrong\n"), 1);
    check(ended(2, "", "thalweg: something is wrong\n"), 1);
    check(ended(2, "", &"error: fast\n".repeat(17)), 1);
    check(ended(2, "", "error: fast: thread panicked\n"), 1);
}
