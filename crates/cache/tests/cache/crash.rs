//! A store that a child process fills, is killed at random points, and opens again: every fragment
//! that is found has the bytes of its version, and is neither purged nor older than one that was
//! flushed. `THALWEG_CACHE_RUNS` is the number of kills.

use crate::support::{self, Versions, body_of, bytes_of, key};
use rand::RngExt;
use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
};
use thalweg_cache::{Cache, Description, Maintenance, Part, Purge, Settings, medium::Allocation};

const SIZE: u64 = 24 << 20;
const OBJECTS: u64 = 300;
const PARTS: u32 = 3;

/// The name of this test in its program.
const NAME: &str = "crash::a_killed_process_costs_fragments_and_never_a_wrong_byte";

/// Set in the child: its seed, the last version so far, and the volume's path.
const CHILD: &str = "THALWEG_CACHE_CHILD";

/// The part with this number: the first is the head.
fn part_of(number: u32) -> Part {
    number.checked_sub(1).map_or(Part::HEAD, Part::fragment)
}

/// The child: appends, purges and flushes until it is killed. It says on its standard error, which
/// the test harness does not use, what it is about to do, and after a purge or a flush, that it is
/// done.
fn fill(path: &Path, seed: u64, mut version: u64) {
    let cache = Arc::new(Cache::open(&[path.to_owned()], Settings::default()).expect("the volume opens"));
    let _maintenance = Maintenance::begin(&cache).expect("a thread can be made");
    let mut random = support::random(seed);
    let mut out = std::io::stderr();
    let mut say = |line: String| out.write_all(line.as_bytes()).expect("the parent reads");
    loop {
        let (object, part) = (random.random_range(0..OBJECTS), random.random_range(0..PARTS));
        match random.random_range(0..200) {
            0..120 => {
                version += 1;
                say(format!("append {object} {part} {version}\n"));
                let description = Description { version, ..Description::default() };
                let appended = cache.append(key(object), part_of(part), description, &body_of(object, part, version));
                appended.expect("the file is writable");
            }
            120..190 => {
                cache.lookup(key(object), part_of(part)).expect("the file is readable");
            }
            190..193 => {
                cache.purge(&[Purge::Key(key(object))]).expect("the file is writable");
                say(format!("purged {object} 0 0\n"));
            }
            193..196 => {
                cache.purge(&[Purge::SoftKey(key(object))]).expect("the file is writable");
                say(format!("stale {object} 0 {version}\n"));
            }
            _ => {
                cache.flush().expect("the file is writable");
                say("flushed 0 0 0\n".to_owned());
            }
        }
    }
}

/// The versions that may be found.
#[derive(Default)]
struct Model {
    parts: BTreeMap<(u64, u32), Versions>,
    /// For each object, the version up to which it is stale.
    stale: BTreeMap<u64, u64>,
    version: u64,
}

impl Model {
    /// Takes a line of the child; the last one may be cut off.
    fn take(&mut self, line: &str) {
        let mut words = line.split(' ');
        let verb = words.next().expect("a line has a first word");
        let numbers: Option<Vec<u64>> = words.map(|word| word.trim_end().parse().ok()).collect();
        let (Some(&[object, part, version]), true) = (numbers.as_deref(), line.ends_with('\n')) else { return };
        match verb {
            "append" => {
                let versions = self.parts.entry((object, part as u32)).or_default();
                versions.current = Some(version);
                versions.possible.push(version);
                self.version = version;
            }
            "purged" => self.parts.retain(|(held, _), _| *held != object),
            "stale" => {
                self.stale.insert(object, version);
            }
            "flushed" => {
                for Versions { current, possible } in self.parts.values_mut() {
                    possible.retain(|version| current.is_none_or(|current| *version >= current));
                }
            }
            _ => panic!("the child says {line}"),
        }
    }

    /// Looks everything up; how much is found.
    fn check(&mut self, cache: &Cache) -> usize {
        let mut found = 0;
        for object in 0..OBJECTS {
            for part in 0..PARTS {
                let fragment = cache.lookup(key(object), part_of(part)).expect("the file is readable");
                let versions = self.parts.entry((object, part)).or_default();
                versions.current = fragment.as_ref().map(|fragment| fragment.description.version);
                let Some(fragment) = fragment else { continue };
                let version = fragment.description.version;
                let possible = &mut versions.possible;
                assert!(possible.contains(&version), "object {object} part {part}: {version}, of {possible:?}");
                assert_eq!(bytes_of(&fragment), body_of(object, part, version), "wrong bytes");
                let is_stale = self.stale.get(&object).is_some_and(|until| version <= *until);
                assert!(fragment.is_stale || !is_stale, "object {object}: {version} is stale");
                possible.retain(|held| *held >= version);
                found += 1;
            }
        }
        found
    }
}

/// Runs the child until it has said so much, and kills it then.
fn run_child(path: &Path, seed: u64, lines: u64, model: &mut Model) {
    let mut child = Command::new(std::env::current_exe().expect("the test has a path"))
        .args(["--exact", NAME, "--nocapture"])
        .env(CHILD, format!("{seed} {} {}", model.version, path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the test can be run");
    let mut said = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    let mut count = 0;
    while said.read_line(&mut line).expect("a line is text") > 0 {
        model.take(&line);
        line.clear();
        count += 1;
        if count == lines {
            child.kill().expect("the child is there");
        }
    }
    child.wait().expect("the child is there");
    assert!(count >= lines, "the child ended by itself after {count} lines");
}

#[test]
fn a_killed_process_costs_fragments_and_never_a_wrong_byte() {
    let Ok(child) = std::env::var(CHILD) else { return kill_repeatedly(support::runs(20)) };
    let words: Vec<&str> = child.splitn(3, ' ').collect();
    let number = |text: &str| text.parse().expect("a number");
    fill(Path::new(words[2]), number(words[0]), number(words[1]));
}

fn kill_repeatedly(kills: u64) {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path: PathBuf = folder.path().join("volume");
    Cache::create(&path, SIZE, Allocation::Sparse, support::small_shape()).expect("a file can be made");
    let mut random = support::random(kills);
    let (mut model, mut found, mut replayed) = (Model::default(), 0, 0);
    for seed in 0..kills {
        run_child(&path, seed, random.random_range(1..1500), &mut model);
        let cache = Cache::open(std::slice::from_ref(&path), Settings::default()).expect("the volume opens");
        let statistics = cache.statistics();
        assert_eq!((statistics.emptied, statistics.damaged_checkpoints), (0, 0), "kill {seed}: {statistics:?}");
        replayed += statistics.replayed;
        found += model.check(&cache);
        let metadata = std::fs::metadata(&path).expect("the file is there");
        assert!(metadata.len() == SIZE && metadata.blocks() * 512 <= SIZE + 65_536, "the file has grown");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder is there").count(), 1, "files are left over");
    assert!(found as u64 > 100 * kills && replayed > 50 * kills, "{found} found, {replayed} replayed");
    report(&format!(
        "{kills} kills, {} versions appended, {found} fragments found and right, {replayed} of them behind checkpoints",
        model.version
    ));
}

#[allow(clippy::print_stdout, reason = "the figures of a long run")]
fn report(line: &str) {
    println!("{line}");
}
