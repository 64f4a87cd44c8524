//! Commits since the last release say what changed where, and why.
//!
//! A shallow clone and a source archive lack the commits: there the rule says so and finds nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;

use crate::Fault;
use crate::repository::{REPOSITORY, ROOT};

const FILE: &str = "tests/tidy/release.toml";
const SUBJECT_CHARACTERS_MAX: usize = 60;

/// Between two commits and between their hash and message, none of which has such a character.
const COMMIT_END: char = '\u{1e}';
const HASH_END: char = '\u{1f}';

pub(crate) fn commits_say_where_and_why() -> Vec<Fault> {
    let release: toml::Table = REPOSITORY.text(FILE).parse().expect("TOML");
    let last = release["last"].as_str().expect("a commit");
    match messages_since(Path::new(ROOT), last) {
        Ok(log) => check_log(&log),
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "the messages of commits are not checked: {reason}");
            Vec::new()
        }
    }
}

/// The hashes and messages of all commits but merges, or why git does not say them.
fn messages_since(root: &Path, last: &str) -> Result<String, String> {
    let format = format!("--format=%h{HASH_END}%B{COMMIT_END}");
    let mut git = Command::new("git");
    git.arg("-C").arg(root).args(["log", "--no-merges", &format, &format!("{last}..HEAD")]);
    let output = git.output().map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        String::from_utf8(output.stdout).map_err(|error| error.to_string())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

fn check_log(log: &str) -> Vec<Fault> {
    let commits = log.split(COMMIT_END).filter_map(|commit| commit.trim_start().split_once(HASH_END));
    commits.filter_map(|(hash, message)| Some(Fault::new(&format!("commit {hash}"), 1, fault(message)?))).collect()
}

/// The fault of a message, if it has one.
fn fault(message: &str) -> Option<String> {
    let (subject, body) = message.trim_end().split_once('\n').unwrap_or((message.trim_end(), ""));
    let characters = subject.chars().count();
    if characters > SUBJECT_CHARACTERS_MAX {
        return Some(format!("the subject has {characters} characters, more than {SUBJECT_CHARACTERS_MAX}"));
    }
    let Some((areas, what)) = subject.split_once(": ") else {
        return Some("the subject names no area: `area: imperative`".to_owned());
    };
    let is_area = |area: &str| {
        area.starts_with(|first: char| first.is_ascii_lowercase())
            && area.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "-_./".contains(one))
    };
    if !areas.split(", ").all(is_area) {
        return Some(format!("{areas} is no list of areas, such as `serve, tier`"));
    }
    if what.is_empty() || what.ends_with('.') {
        return Some("the subject is an imperative without a full stop".to_owned());
    }
    if body.starts_with(|first| first != '\n') {
        return Some("an empty line stands between the subject and the body".to_owned());
    }
    let says = |line: &str| !line.trim().is_empty() && !is_trailer(line);
    (!body.lines().any(says)).then(|| "there is no body that says why".to_owned())
}

/// Whether a line is one of those that programs read, such as `Signed-off-by: A <a@example.org>`.
fn is_trailer(line: &str) -> bool {
    line.split_once(": ").is_some_and(|(token, _)| {
        token.starts_with(|first: char| first.is_ascii_uppercase())
            && token.contains('-')
            && token.chars().all(|one| one.is_ascii_alphanumeric() || one == '-')
    })
}

#[test]
fn a_message_that_does_not_say_where_or_why_is_found() {
    let long = format!("serve: {}\n\nWhy.", "x".repeat(SUBJECT_CHARACTERS_MAX));
    for (message, found) in [
        ("serve: answer ranges of zero bytes\n\nA client asked for one.\n", None),
        ("serve, tier: keep the head\n\nWhy.\n\nSigned-off-by: A <a@example.org>", None),
        ("bench/floor: count\n\nWhy.", None),
        (&*long, Some("characters")),
        ("Answer ranges\n\nWhy.", Some("names no area")),
        ("Serve: answer\n\nWhy.", Some("no list of areas")),
        ("serve: answer.\n\nWhy.", Some("full stop")),
        ("serve: answer\nWhy.", Some("empty line")),
        ("serve: answer", Some("says why")),
        ("serve: answer\n\nSigned-off-by: A <a@example.org>\n", Some("says why")),
    ] {
        let advice = fault(message);
        assert_eq!(advice.is_some(), found.is_some(), "{message}: {advice:?}");
        assert!(found.is_none_or(|found| advice.unwrap_or_default().contains(found)), "{message}");
    }
    let log = format!("a1{HASH_END}serve: answer\n\nWhy.\n{COMMIT_END}\nb2{HASH_END}Answer\n{COMMIT_END}\n");
    assert_eq!(check_log(&log).into_iter().map(|fault| fault.file).collect::<Vec<_>>(), ["commit b2"]);
}

#[test]
fn commits_that_are_not_there_are_not_judged() {
    assert!(messages_since(Path::new(ROOT), "0000000000000000000000000000000000000000").is_err());
    assert!(messages_since(Path::new("/nonexistent"), "HEAD").is_err());
}
