//! The exceptions of rules, each with its reason: `exceptions.toml`.

use std::collections::BTreeMap;

use crate::Fault;
use crate::repository::REPOSITORY;

pub(crate) const FILE: &str = "tests/tidy/exceptions.toml";

/// Files and functions that may break a rule, with the line of their entry. The key is the file,
/// and the function's name if it is one.
#[derive(Default)]
pub(crate) struct Exceptions {
    /// Long functions.
    pub(crate) functions: BTreeMap<(String, String), usize>,
    /// Long Rust files.
    pub(crate) files: BTreeMap<String, usize>,
    /// Large files.
    pub(crate) large: BTreeMap<String, usize>,
    /// Rust files, or folders of them, that export items for tests.
    pub(crate) test_support: BTreeMap<String, usize>,
    /// Entries that are not understood.
    pub(crate) faults: Vec<Fault>,
}

impl Exceptions {
    /// Reads tables `[[function]]` with `file` and `name`, `[[file]]`, `[[large]]` and
    /// `[[test-support]]` with `file`, all of them with a `reason`.
    pub(crate) fn read(text: &str) -> Self {
        let mut exceptions = Self::default();
        let table: toml::Table = text.parse().unwrap_or_else(|error| panic!("{FILE}: {error}"));
        for (kind, entries) in &table {
            let headings = text.lines().enumerate().filter(|(_, line)| *line == format!("[[{kind}]]"));
            for (entry, (line, _)) in entries.as_array().into_iter().flatten().zip(headings) {
                let field = |name| entry.get(name).and_then(toml::Value::as_str).unwrap_or_default().to_owned();
                let (file, name) = (field("file"), field("name"));
                if field("reason").split_whitespace().count() < 3 {
                    exceptions.faults.push(Fault::new(
                        FILE,
                        line + 1,
                        format!("say why {file} {name} may break the rule"),
                    ));
                }
                match &**kind {
                    "function" => _ = exceptions.functions.insert((file, name), line + 1),
                    "file" => _ = exceptions.files.insert(file, line + 1),
                    "test-support" => _ = exceptions.test_support.insert(file, line + 1),
                    "large" => _ = exceptions.large.insert(file, line + 1),
                    _ => exceptions.faults.push(Fault::new(
                        FILE,
                        line + 1,
                        format!("there is no kind of exceptions {kind}"),
                    )),
                }
            }
        }
        exceptions
    }

    pub(crate) fn current() -> Self {
        Self::read(&REPOSITORY.text(FILE))
    }
}

/// Drops faults that have an entry, and adds those entries that have no fault.
pub(crate) fn without<K: Ord>(found: Vec<(K, Fault)>, exceptions: &BTreeMap<K, usize>) -> Vec<Fault> {
    let unneeded = exceptions.iter().filter(|(key, _)| !found.iter().any(|(found, _)| found == *key));
    let unneeded: Vec<_> =
        unneeded.map(|(_, line)| Fault::new(FILE, *line, "this entry is no longer needed: remove it")).collect();
    let rest = found.into_iter().filter(|(key, _)| !exceptions.contains_key(key)).map(|(_, fault)| fault);
    rest.chain(unneeded).collect()
}
