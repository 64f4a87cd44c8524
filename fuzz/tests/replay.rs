//! Replays the corpus on stable Rust: what was found once stays fixed.
#![forbid(unsafe_code)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use thalweg_fuzz::TARGETS;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Names in a folder. A folder that is missing is an error, so that a lost corpus cannot pass for a
/// clean one.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries
        .map(|entry| entry.expect("a folder entry can be read").file_name())
        .map(|name| name.into_string().expect("corpus names are UTF-8"))
        .collect()
}

#[test]
fn every_corpus_file_holds() {
    for (name, target) in TARGETS {
        let corpus = folder("corpus").join(name);
        let files = names(&corpus);
        assert!(!files.is_empty(), "{} is empty", corpus.display());
        for file in files {
            let path = corpus.join(file);
            let data = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let outcome = std::panic::catch_unwind(|| target(&data));
            assert!(outcome.is_ok(), "{} breaks its target", path.display());
        }
    }
}

#[test]
fn every_target_has_a_binary_and_a_corpus_and_nothing_else_has() {
    let listed: BTreeSet<String> = TARGETS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let binaries = names(&folder("fuzz_targets")).iter().map(|name| name.replace(".rs", "")).collect();
    assert_eq!(listed, binaries);
    assert_eq!(listed, names(&folder("corpus")));
}
