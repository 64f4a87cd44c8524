//! The snippets of README.md and docs/ are run as they stand.
//!
//! CONTRIBUTING.md says how a snippet is written: its language says what is done with it, and words
//! behind the language say what the test cannot know. A snippet that can only be run elsewhere says
//! why; those are counted. Output that a document shows is not compared, since figures differ.
//!
//! | module | owns |
//! | --- | --- |
//! | [`markdown`] | blocks of documents, their words, the commands in them |
//! | [`world`] | a network and a file system of their own, in which a document's addresses and paths exist |
//! | [`conduct`] | how a command is run, how long, and which ends are good |

mod conduct;
mod markdown;
mod world;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use markdown::{Block, Language, blocks};
use world::{Fixtures, World};

/// The reasons for which a snippet is not run, as its `not-run=` names them.
const REASONS: [(&str, &str); 7] = [
    ("builds", "it compiles the program or installs it"),
    ("needs-network", "it fetches something from another host"),
    ("needs-other-programs", "it needs programs that the tests do not require"),
    ("needs-own-server", "it restarts or changes a server of the reader's"),
    ("needs-root", "it changes the host"),
    ("needs-systemd", "it needs a service manager"),
    ("overview", "it names what a page is about, with names that stand for something of the reader's"),
];

/// Commands mostly wait, so that more of them run at once than there are CPUs.
const WORLDS_AT_ONCE: usize = 4;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the package is in a repository")
}

/// The documents: the README, and all of docs/ but the transcripts, which have a test of their own.
fn documents(repository: &Path) -> Vec<String> {
    let mut files: Vec<String> = fs::read_dir(repository.join("docs"))
        .expect("there are documents")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.ends_with(".md") && name != "conformance.md")
        .map(|name| format!("docs/{name}"))
        .collect();
    files.sort();
    files.insert(0, "README.md".to_owned());
    files
}

fn all_blocks(repository: &Path) -> Vec<Block> {
    let read = |file: &String| {
        let text = fs::read_to_string(repository.join(file)).expect("a document can be read");
        blocks(file, &text).unwrap_or_else(|fault| panic!("{fault}"))
    };
    documents(repository).iter().flat_map(read).collect()
}

/// Blocks that share a world: one, with those behind it that continue it.
fn chains(blocks: &[Block]) -> Vec<&[Block]> {
    blocks.chunk_by(|_, next| next.continues()).collect()
}

/// The faults of a chain, with file and line.
fn faults_of(chain: &[Block], fixtures: &Fixtures, repository: &Path) -> Vec<String> {
    let Some(mut world) = World::new(fixtures, repository) else { return Vec::new() };
    let mut faults = Vec::new();
    for block in chain.iter().filter(|block| block.not_run().is_none()) {
        let found = match block.language {
            Language::Console | Language::Shell | Language::Yaml => conduct::run(block, &mut world),
            Language::Toml => conduct::check_toml(block, &mut world),
            Language::Plain => Vec::new(),
        };
        faults.extend(found);
    }
    faults.extend(world.end());
    faults
}

#[test]
fn snippets_run_as_they_stand() {
    let repository = repository();
    let blocks = all_blocks(&repository);
    let mut chains = chains(&blocks);
    // The longest first, so that none of them is alone at the end.
    chains.sort_by_key(|chain| Reverse(chain.iter().map(|block| block.commands().len()).sum::<usize>()));
    let fixtures = Fixtures::new();
    if World::new(&fixtures, &repository).is_none() {
        return;
    }
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORLDS_AT_ONCE {
            scope.spawn(|| {
                while let Some(chain) = chains.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let is_run = chain.iter().any(|block| block.is_tested() && block.not_run().is_none());
                    let found = if is_run { faults_of(chain, &fixtures, &repository) } else { Vec::new() };
                    faults.lock().expect("no thread panics with it").extend(found);
                }
            });
        }
    });
    let mut faults = faults.into_inner().expect("no thread panics with it");
    faults.sort();
    assert!(faults.is_empty(), "{} snippets fail:\n{}", faults.len(), faults.join("\n"));
}

/// A marker is an exception: its reason is one of the list, and most snippets have none.
#[test]
fn snippets_that_are_not_run_say_why() {
    let blocks = all_blocks(&repository());
    let tested: Vec<&Block> = blocks.iter().filter(|block| block.is_tested()).collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for block in &tested {
        if let Some(reason) = block.not_run() {
            let is_known = REASONS.iter().any(|(known, _)| *known == reason);
            let known = REASONS.map(|(known, why)| format!("{known} ({why})")).join(", ");
            assert!(is_known, "{}: {reason:?} is no reason; there are {known}", block.place());
            *counts.entry(reason).or_default() += 1;
        }
    }
    let not_run: usize = counts.values().sum();
    let shown: Vec<String> = counts.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    let _ = writeln!(
        std::io::stderr(),
        "snippets: {} of {} are run; not run: {}",
        tested.len() - not_run,
        tested.len(),
        shown.join(", ")
    );
    assert!(not_run * 3 <= tested.len(), "more than a third of {} snippets are not run: {shown:?}", tested.len());
}

/// A command in a block of another language would never be run.
#[test]
fn commands_are_in_blocks_that_are_run() {
    let blocks = all_blocks(&repository());
    let hidden: Vec<String> =
        blocks.iter().filter(|block| !block.is_tested()).filter_map(Block::hidden_command).collect();
    assert!(hidden.is_empty(), "write these blocks as `sh` or `console`:\n{}", hidden.join("\n"));
}
