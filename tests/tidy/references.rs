//! References in comments, documents and help texts have targets: files, headings, entries of
//! `bench/TRIED.md`.

use std::collections::BTreeSet;
use std::process::Command;

use crate::Fault;
use crate::repository::{REPOSITORY, joined};
use crate::source::Source;

const TRIED: &str = "bench/TRIED.md";

/// Folders of results are records: they stay as they were written.
const RECORDS: &str = "bench/results/";

/// Whether a path exists; it is a parameter so that rules can be tested.
type Exists<'e> = &'e dyn Fn(&str) -> bool;

/// Paths in a text that begin in the repository's root, or in a crate: `docs/http.md`,
/// `load/src/engine/calls.rs`.
fn paths(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|character: char| !(character.is_alphanumeric() || "-_./*:<>{}#".contains(character)));
    words.filter_map(|word| {
        let word = word.split('#').next().unwrap_or_default().trim_end_matches(['.', ':', '/']);
        // The line behind a path, as compilers show places.
        let word = word.split_once(".rs:").map_or(word, |(path, _)| &word[..path.len() + 3]);
        let (first, rest) = word.split_once('/').unwrap_or((word, ""));
        // Patterns and placeholders name no file; addresses of the network have a scheme.
        if word.contains(['*', '<', '>', '{', '}', ':']) || rest.split('/').any(is_placeholder) {
            return None;
        }
        match first {
            "crates" | "docs" | "bench" | "tests" | "packaging" | "fuzz" if !rest.is_empty() => Some(word.to_owned()),
            "README.md" | "ARCHITECTURE.md" | "CONTRIBUTING.md" | "CHANGELOG.md" | "Makefile" if rest.is_empty() => {
                Some(word.to_owned())
            }
            "sys" | "wire" | "reactor" | "measure" | "load" | "serve" | "lab" | "cli"
                if rest.starts_with("src/") || rest.starts_with("tests/") =>
            {
                Some(format!("crates/{word}"))
            }
            _ => None,
        }
    })
}

/// `DATE-NAME`, `FOLDER`.
fn is_placeholder(part: &str) -> bool {
    let stem = part.split('.').next().unwrap_or_default();
    let names = ["README", "TRIED", "Makefile", "LICENSE", "Cargo"];
    stem.len() > 1 && !stem.contains(char::is_lowercase) && stem.contains(char::is_uppercase) && !names.contains(&stem)
}

fn check_paths(file: &str, line: usize, text: &str, exists: Exists) -> Vec<Fault> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    // Documents name files beside them, and packages files of their own.
    let folders: Vec<_> =
        std::iter::successors(Some(folder), |folder| folder.rsplit_once('/').map(|(above, _)| above)).collect();
    let missing =
        paths(text).filter(|path| !exists(path) && !folders.iter().any(|folder| exists(&joined(folder, path))));
    let missing = missing.filter(|path| !path.starts_with("fuzz/target") && !path.ends_with("/target"));
    missing.map(|path| Fault::new(file, line, format!("there is no {path}"))).collect()
}

/// Links of a Markdown document, with their headings.
fn check_links(file: &str, text: &str, exists: Exists, document: &dyn Fn(&str) -> String) -> Vec<Fault> {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut faults = Vec::new();
    for (index, line) in text.lines().enumerate() {
        for (at, _) in line.match_indices("](") {
            let target = line[at + 2..].split([')', ' ']).next().unwrap_or_default();
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() { file.to_owned() } else { joined(folder, path) };
            if !exists(&path) {
                faults.push(Fault::new(file, index + 1, format!("there is no {path}")));
            } else if !heading.is_empty() && !headings(&document(&path)).any(|title| anchor(title) == heading) {
                faults.push(Fault::new(file, index + 1, format!("{path} has no heading for #{heading}")));
            }
        }
    }
    faults
}

fn headings(text: &str) -> impl Iterator<Item = &str> {
    let mut within_code = false;
    text.lines().filter_map(move |line| {
        within_code ^= line.starts_with("```");
        line.strip_prefix('#').filter(|_| !within_code).map(|line| line.trim_start_matches('#').trim())
    })
}

/// The name of a heading in links, as code hosts make it.
fn anchor(heading: &str) -> String {
    let lower = heading.to_lowercase();
    lower
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

/// Each mention of `bench/TRIED.md` names an entry behind a comma, in quotes: bench/TRIED.md,
/// "small chunks".
fn check_entries(source: &Source, entries: &BTreeSet<&str>) -> Vec<Fault> {
    let mut faults = Vec::new();
    for comment in &source.comments {
        let text = comment.joined();
        for (at, mention) in text.match_indices(TRIED) {
            let behind = text[at + mention.len()..].trim_start_matches('`');
            let entry = behind.strip_prefix(", \"").and_then(|rest| rest.split('"').next());
            let advice = match entry {
                Some(entry) if entries.contains(entry) => continue,
                Some(entry) => format!("{TRIED} has no entry \"{entry}\""),
                None => format!("name the entry: {TRIED}, \"its heading\""),
            };
            faults.push(Fault::new(&source.file, comment.line, advice));
        }
    }
    faults
}

fn exists(path: &str) -> bool {
    REPOSITORY.has(path)
}

/// Texts that are no Rust: documents, scripts, units, manifests.
fn other_texts() -> impl Iterator<Item = (&'static str, String)> {
    let files = REPOSITORY.files.iter().filter(|file| !file.starts_with(RECORDS) && !file.starts_with("fuzz/corpus/"));
    let others =
        files.filter(|file| ![".rs", ".lock", ".snap", ".txt", ".gitignore"].iter().any(|end| file.ends_with(end)));
    others.filter_map(|file| Some((&**file, REPOSITORY.text_if_any(file)?)))
}

pub(crate) fn paths_in_comments_exist() -> Vec<Fault> {
    let comments = REPOSITORY
        .sources
        .iter()
        .filter(|source| !source.file.starts_with("tests/tidy/"))
        .flat_map(|source| source.comments.iter().map(move |comment| (source, comment)));
    comments.flat_map(|(source, comment)| check_paths(&source.file, comment.line, &comment.joined(), &exists)).collect()
}

pub(crate) fn paths_in_documents_and_scripts_exist() -> Vec<Fault> {
    let faults = other_texts().flat_map(|(file, text)| {
        let lines = text.lines().enumerate();
        lines.flat_map(|(index, line)| check_paths(file, index + 1, line, &exists)).collect::<Vec<_>>()
    });
    faults.collect()
}

pub(crate) fn links_lead_to_headings_that_exist() -> Vec<Fault> {
    let documents = other_texts().filter(|(file, _)| file.ends_with(".md"));
    documents.flat_map(|(file, text)| check_links(file, &text, &exists, &|path| REPOSITORY.text(path))).collect()
}

pub(crate) fn paths_in_help_texts_exist() -> Vec<Fault> {
    let mut faults = Vec::new();
    for command in ["", "run", "find", "replay", "serve", "demo", "schema"] {
        let mut help = Command::new(env!("CARGO_BIN_EXE_thalweg"));
        let output = help.args([command, "--help"].iter().filter(|word| !word.is_empty())).output().unwrap();
        assert!(output.status.success(), "thalweg {command} --help");
        let text = String::from_utf8(output.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
        faults.extend(check_paths(&format!("thalweg {command} --help"), 1, &text, &exists));
    }
    faults
}

pub(crate) fn entries_of_what_was_tried_exist() -> Vec<Fault> {
    let tried = REPOSITORY.text(TRIED);
    let entries = headings(&tried).collect();
    let sources = REPOSITORY.sources.iter().filter(|source| !source.file.starts_with("tests/tidy/"));
    sources.flat_map(|source| check_entries(source, &entries)).collect()
}

#[test]
fn a_path_that_is_gone_is_found() {
    let exists =
        |path: &str| ["docs/http.md", "crates/load/src/engine.rs", "bench/rig/line.py", "README.md"].contains(&path);
    for (text, missing) in [
        ("see docs/http.md, `load/src/engine.rs:12`, README.md.", None),
        ("bench/results/DATE-NAME, docs/*.md, https://docs.rs/docs/x.md, target/docs/y", None),
        ("(docs/gone.md)", Some("there is no docs/gone.md")),
        ("`load/src/gone.rs` says", Some("there is no crates/load/src/gone.rs")),
        ("CHANGELOG.md", Some("there is no CHANGELOG.md")),
    ] {
        let found = check_paths("bench/README.md", 1, text, &exists);
        assert_eq!(found.first().map(|fault| &*fault.advice), missing, "{text}");
    }
}

#[test]
fn a_link_that_leads_nowhere_is_found() {
    let exists = |path: &str| path == "docs/a.md" || path == "docs/b.md";
    let document = |_: &str| "# Title\n```\n# no heading\n```\n## Slow readers, on `loopback`\n".to_owned();
    for (text, found) in [
        ("[b](b.md) [c](b.md#slow-readers-on-loopback) [d](#title) [e](https://x.example/y.md)", 0),
        ("[b](c.md)", 1),
        ("[b](b.md#no-heading) [c](#gone)", 2),
    ] {
        assert_eq!(check_links("docs/a.md", text, &exists, &document).len(), found, "{text}");
    }
}

#[test]
fn an_entry_that_is_gone_is_found() {
    let entries = BTreeSet::from(["small chunks"]);
    for (comment, advice) in [
        ("See bench/TRIED.md, \"small chunks\".", None),
        ("See `bench/TRIED.md`, \"small\n// chunks\".", None),
        ("See bench/TRIED.md, \"large chunks\".", Some("bench/TRIED.md has no entry \"large chunks\"")),
        ("See bench/TRIED.md.", Some("name the entry: bench/TRIED.md, \"its heading\"")),
    ] {
        let source = Source::parse("a.rs", format!("// {comment}\n"));
        assert_eq!(check_entries(&source, &entries).first().map(|fault| &*fault.advice), advice, "{comment}");
    }
}
