//! A file that changes while it is sent: whatever is done to it at whatever time, a response that
//! arrives whole is of one version, the one that its entity tag names, and a response that is not
//! whole cannot be taken for one that is.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::net::{IpAddr, Ipv4Addr};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use tempfile::TempDir;
use thalweg_reactor::run;
use thalweg_reactor::sim::{Sim, SimConfig};
use thalweg_sys::{Driver, Instant};

use super::{Outcome, SECOND_NS, Step, naive, send, world_with};
use crate::config::{Bandwidth, Limits};

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A change of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edit {
    /// Some of its bytes, or all, are written over.
    Rewrite,
    /// The same, and the modification time is put back.
    RewriteWithOldTime,
    Truncate,
    /// Its end is cut off and grows again, as zeros.
    TruncateAndRegrow,
    Append,
    /// Another file is renamed over it.
    Replace,
    /// Its permissions change.
    Chmod,
    /// It gets one more name.
    Link,
}

/// Those that move the modification time, and those that leave the content alone.
const WITH_NEW_TIME: [Edit; 6] =
    [Edit::Rewrite, Edit::Truncate, Edit::TruncateAndRegrow, Edit::Replace, Edit::Chmod, Edit::Link];

/// Those that are seen by the file's times alone. With a `chmod` between, a rewrite with the old
/// time would not be.
const WITH_ANY_TIME: [Edit; 4] = [Edit::Rewrite, Edit::RewriteWithOldTime, Edit::Truncate, Edit::TruncateAndRegrow];

/// Changes after which the file may be longer, so that samples of it decide. A rewrite between the
/// samples as well would not show in them.
const WITH_GROWTH: [Edit; 6] =
    [Edit::Append, Edit::Truncate, Edit::TruncateAndRegrow, Edit::Replace, Edit::Chmod, Edit::Link];

/// Those that leave a file's content alone. Two of them in a row may restore the number of names,
/// which looks like a rewrite with the old time.
const HARMLESS: [Edit; 3] = [Edit::Replace, Edit::Chmod, Edit::Link];

struct ChangingFile {
    path: PathBuf,
    random: Random,
    /// Contents made so far. No two of them share a word.
    contents: u32,
    /// The content that each entity tag stands for.
    versions: HashMap<String, Vec<u8>>,
}

impl ChangingFile {
    fn new(folder: &Path, seed: u64) -> Self {
        let path = folder.join("file");
        let _ = fs::remove_file(&path);
        let mut file = Self { path, random: Random(seed), contents: 0, versions: HashMap::new() };
        let bytes = 66_000 + file.random.below(60_000);
        let content = file.content(bytes);
        fs::write(&file.path, content).unwrap();
        file.note();
        file
    }

    fn content(&mut self, bytes: u64) -> Vec<u8> {
        self.contents += 1;
        let word = |at: u64| (self.contents << 20 | at as u32).to_be_bytes();
        let mut content: Vec<u8> = (0..bytes.div_ceil(4)).flat_map(word).collect();
        content.truncate(bytes as usize);
        content
    }

    /// Remembers what the file has now, under the tag that a server has to give it.
    fn note(&mut self) {
        let state = fs::metadata(&self.path).unwrap();
        let time_ns = |s: i64, ns: i64| s * 1_000_000_000 + ns;
        let (modified, changed) =
            (time_ns(state.mtime(), state.mtime_nsec()), time_ns(state.ctime(), state.ctime_nsec()));
        let tag = format!("\"{:x}-{modified:x}-{:x}-{changed:x}\"", state.ino(), state.size());
        let content = fs::read(&self.path).unwrap();
        let before = self.versions.insert(tag, content.clone());
        assert!(before.is_none_or(|before| before == content), "two versions have one tag");
    }

    fn open(&self) -> File {
        OpenOptions::new().write(true).open(&self.path).unwrap()
    }

    fn edit(&mut self, edit: Edit) {
        let before = fs::metadata(&self.path).unwrap();
        let size = before.len();
        match edit {
            Edit::Rewrite | Edit::RewriteWithOldTime => {
                let (from, bytes) = match self.random.below(2) {
                    0 => (0, size),
                    _ => (self.random.below(size), 1 + self.random.below(20_000)),
                };
                let content = self.content(size);
                let to = (from + bytes).min(size) as usize;
                self.open().write_all_at(&content[from as usize..to], from).unwrap();
                if edit == Edit::RewriteWithOldTime {
                    self.open().set_modified(before.modified().unwrap()).unwrap();
                }
            }
            Edit::Truncate => self.open().set_len(1 + self.random.below(size)).unwrap(),
            Edit::TruncateAndRegrow => {
                self.open().set_len(self.random.below(size)).unwrap();
                self.open().set_len(size).unwrap();
            }
            Edit::Append => {
                let bytes = 1 + self.random.below(30_000);
                let content = self.content(bytes);
                self.open().write_all_at(&content, size).unwrap();
            }
            Edit::Replace => {
                let bytes = 66_000 + self.random.below(60_000);
                let content = self.content(bytes);
                let new = self.path.with_file_name("new");
                fs::write(&new, content).unwrap();
                fs::rename(&new, &self.path).unwrap();
            }
            Edit::Chmod => {
                let mode = 0o600 + (before.mode() + 1) % 0o100;
                fs::set_permissions(&self.path, Permissions::from_mode(mode)).unwrap();
            }
            Edit::Link => {
                let other = self.path.with_file_name(format!("other-name-{}", before.nlink()));
                let _ = fs::remove_file(&other);
                fs::hard_link(&self.path, &other).unwrap();
            }
        }
        // Within a tick of the clock two states may have the same times, on kernels before 6.13.
        let time = |state: &fs::Metadata| (state.ino(), state.ctime(), state.ctime_nsec());
        while time(&fs::metadata(&self.path).unwrap()) == time(&before) {
            self.open().set_modified(before.modified().unwrap()).unwrap();
        }
        self.note();
    }
}

/// A request, and which part of the file its response has to have.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Whole,
    Range(u64, u64),
    TwoRanges([(u64, u64); 2]),
}

impl Asked {
    fn random(random: &mut Random) -> Self {
        let mut range = |base: u64| {
            let first = base + random.below(30_000);
            (first, first + random.below(30_000))
        };
        let (first, second) = (range(0), range(61_000));
        match random.below(4) {
            0 | 1 => Self::Whole,
            2 => Self::Range(first.0, second.1),
            _ => Self::TwoRanges([first, second]),
        }
    }

    fn text(self) -> String {
        let range = match self {
            Self::Whole => String::new(),
            Self::Range(first, last) => format!("Range: bytes={first}-{last}\r\n"),
            Self::TwoRanges([(a, b), (c, d)]) => format!("Range: bytes={a}-{b},{c}-{d}\r\n"),
        };
        format!("GET /file HTTP/1.1\r\nHost: h\r\n{range}\r\n")
    }
}

/// Compares the parts of a response with the version that its tag names.
#[track_caller]
fn check_response(response: &naive::Response, versions: &HashMap<String, Vec<u8>>, context: &str) {
    if response.status == 416 {
        return;
    }
    let tag = response.field("etag").unwrap();
    let content = versions.get(tag).unwrap_or_else(|| panic!("{context}: no version has the tag {tag}"));
    let is_multipart = response.field("content-type").unwrap().starts_with("multipart");
    let parts = match (response.status, is_multipart) {
        (200, _) => vec![(format!("bytes 0-{}/{}", content.len() - 1, content.len()), response.body.clone())],
        (206, false) => vec![(response.field("content-range").unwrap().to_owned(), response.body.clone())],
        (206, true) => naive::multipart(response),
        (status, _) => panic!("{context}: {status}"),
    };
    for (range, bytes) in parts {
        let (bounds, size) = range.strip_prefix("bytes ").unwrap().split_once('/').unwrap();
        let (first, last) = bounds.split_once('-').unwrap();
        let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
        assert_eq!(size, content.len().to_string(), "{context}");
        assert!(bytes == content[first..=last], "{context}: {range} is not of the version with the tag {tag}");
    }
}

/// How many responses came whole, and how many connections were cut off before their last response
/// had.
#[derive(Default, PartialEq, Eq, Debug)]
struct Seen {
    whole: u64,
    cut: u64,
}

fn check_outcome(outcome: &Outcome, asked: &[Asked], versions: &HashMap<String, Vec<u8>>, seen: &mut Seen, seed: u64) {
    let mut received = outcome.received.as_slice();
    for asked in asked {
        let context = format!("seed {seed}, {asked:?}");
        let Some(response) = naive::take(&mut received, "GET") else {
            assert!(!outcome.orderly, "{context}: what is missing looks like an end");
            seen.cut += 1;
            return;
        };
        check_response(&response, versions, &context);
        seen.whole += 1;
    }
    assert!(outcome.orderly && received.is_empty(), "seed {seed}: a whole response was reset");
}

/// One server, some clients and a file that is edited while they download it.
fn simulate_edits(folder: &Path, seed: u64, edits: &[Edit], seen: &mut Seen) {
    let file = Rc::new(RefCell::new(ChangingFile::new(folder, seed)));
    let mut random = Random(!seed);
    let mut driver = Sim::new(SimConfig::rough(seed));
    let start = driver.now();
    // Every third has a rate, so that its parts are small and wait.
    let per_connection = if seed.is_multiple_of(3) { 2_000_000 } else { 0 };
    let bandwidth = Bandwidth { per_connection, ..Bandwidth::default() };
    let (mut world, published) = world_with(&mut driver, &Limits::default(), (bandwidth, 0), folder, Vec::new());
    // The first at once; a later one may meet a head that the cache has kept from before an edit.
    let times = [0, random.below(20_000_000), 500_000_000 + random.below(1_000_000_000)];
    let asked: Vec<Vec<Asked>> =
        times.iter().map(|_| (0..1 + random.below(2)).map(|_| Asked::random(&mut random)).collect()).collect();
    for (at_ns, asked) in times.iter().zip(&asked) {
        let text: String = asked.iter().map(|asked| asked.text()).collect();
        let newcomer = (start.plus_ns(*at_ns), IpAddr::V4(Ipv4Addr::LOCALHOST), vec![send(&text), Step::Finish]);
        world.newcomers.push_back(newcomer);
    }
    let mut edit_times: Vec<Instant> = (0..1 + random.below(3))
        .map(|_| {
            start.plus_ns(if random.below(4) == 0 { random.below(2 * SECOND_NS) } else { random.below(40_000_000) })
        })
        .collect();
    edit_times.sort();
    for at in edit_times {
        let (file, edit) = (Rc::clone(&file), edits[random.below(edits.len() as u64) as usize]);
        world.edits.push_back((at, Box::new(move || file.borrow_mut().edit(edit))));
    }
    run(&mut driver, &mut world).unwrap();
    let cut_before = seen.cut;
    let versions = &file.borrow().versions;
    for (outcome, asked) in world.outcomes(start).iter().zip(&asked) {
        check_outcome(outcome, asked, versions, seen, seed);
    }
    assert_eq!(published[0].totals().files_changed_while_sent, seen.cut - cut_before, "seed {seed}");
}

#[test]
fn no_whole_response_is_of_two_versions_of_a_file() {
    let folder = TempDir::new().unwrap();
    let mut seen = Seen::default();
    for seed in 0..2000_u64 {
        let edits = [&WITH_NEW_TIME[..], &WITH_ANY_TIME, &WITH_GROWTH][seed as usize % 3];
        simulate_edits(folder.path(), seed, edits, &mut seen);
    }
    assert!(seen.whole > 2000 && seen.cut > 200, "{seen:?}");
}

#[test]
fn a_file_that_grows_is_never_cut_off() {
    let folder = TempDir::new().unwrap();
    let mut seen = Seen::default();
    for seed in 0..500 {
        simulate_edits(folder.path(), seed, &[Edit::Append], &mut seen);
    }
    assert!(seen.cut == 0 && seen.whole > 1000, "{seen:?}");
}

#[test]
fn a_file_that_is_replaced_linked_or_given_other_rights_is_never_cut_off() {
    let folder = TempDir::new().unwrap();
    let mut seen = Seen::default();
    for seed in 0..1000 {
        simulate_edits(folder.path(), seed, &[HARMLESS[seed as usize % 3]], &mut seen);
    }
    assert_eq!(seen.cut, 0, "{seen:?}");
}
