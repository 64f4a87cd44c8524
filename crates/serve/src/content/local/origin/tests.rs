use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::catalog::site::Sites;
use crate::config::{ListenAddr, Rule, ServerConfig, Settings};
use crate::content::local::watch::test_watcher::TestWatcher;

const AGE_NS: u64 = 1_000_000_000;

fn origin(dir: &Path, entries_max: usize, bytes_max: usize) -> LocalOrigin<Sites> {
    origin_of(dir, entries_max, bytes_max, None)
}

fn origin_of(
    dir: &Path,
    entries_max: usize,
    bytes_max: usize,
    subscription: Option<Subscription>,
) -> LocalOrigin<Sites> {
    let config = CacheConfig { entries_max, bytes_max, small_file_bytes_max: 100, ..CacheConfig::default() };
    let mut server = ServerConfig::new(dir, Vec::<ListenAddr>::new());
    let settings = Settings { precompressed: Some(true), ..Settings::default() };
    server.sites[0].rules.push(Rule { settings, ..Rule::default() });
    LocalOrigin::new(Arc::new(Sites::open(&server).unwrap()), &config, subscription)
}

/// Far ahead of the files' time stamps: all of them are settled.
fn date_cache() -> DateCache {
    DateCache::new(|_| 10_000_000_000, Instant::default())
}

/// Opens a name as a request does, with the job that it may take, and looks at the object; `None`
/// for a folder.
fn open<T>(
    origin: &mut LocalOrigin<Sites>,
    name: &str,
    date_cache: &DateCache,
    now: Instant,
    look: impl FnOnce(&mut Object) -> T,
) -> Result<Option<T>, Refusal> {
    let loaded = match origin.open(0, &mut name.into(), None, date_cache, now) {
        Opening::Object(object, _) => return Ok(Some(look(object))),
        Opening::Folder => return Ok(None),
        Opening::Refused(refusal) => return Err(refusal),
        Opening::Pending(job) => job.run(),
    };
    let outcome = origin.complete(loaded, date_cache, now);
    match origin.open(0, &mut name.into(), Some(outcome), date_cache, now) {
        Opening::Object(object, _) => Ok(Some(look(object))),
        Opening::Folder => Ok(None),
        Opening::Refused(refusal) => Err(refusal),
        Opening::Pending(_) => panic!("{name}: a second job"),
    }
}

fn body(origin: &mut LocalOrigin<Sites>, name: &str, now: Instant) -> Result<Vec<u8>, Refusal> {
    let body = open(origin, name, &date_cache(), now, |object| object.bytes_in_memory().unwrap().to_vec())?;
    Ok(body.unwrap_or_else(|| b"folder".to_vec()))
}

#[test]
fn a_change_is_seen_when_the_entry_has_aged() {
    let dir = TempDir::new().unwrap();
    let mut origin = origin(dir.path(), 10, 10_000);
    fs::write(dir.path().join("a"), "old").unwrap();
    let start = Instant::from_ns(5);
    assert_eq!(body(&mut origin, "a", start).unwrap(), b"old");
    fs::write(dir.path().join("new"), "newer").unwrap();
    fs::rename(dir.path().join("new"), dir.path().join("a")).unwrap();
    assert_eq!(body(&mut origin, "a", start.plus_ns(AGE_NS - 1)).unwrap(), b"old");
    assert_eq!(body(&mut origin, "a", start.plus_ns(AGE_NS)).unwrap(), b"newer");
    fs::remove_file(dir.path().join("a")).unwrap();
    assert_eq!(body(&mut origin, "a", start.plus_ns(3 * AGE_NS)), Err(Refusal::NotFound));
    assert_eq!(origin.cache.size(), (0, 0));
}

#[test]
fn a_change_whose_modification_time_was_put_back_is_seen_and_has_another_tag() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("a");
    let mut origin = origin(dir.path(), 10, 10_000);
    let mut tag_and_body = |now| {
        let look = |object: &mut Object| {
            let tag = object.validators().etag.unwrap().opaque.to_vec();
            (tag, object.bytes_in_memory().unwrap().to_vec())
        };
        open(&mut origin, "a", &date_cache(), now, look).unwrap().unwrap()
    };
    fs::write(&path, "old").unwrap();
    let before = fs::metadata(&path).unwrap();
    let first = tag_and_body(Instant::from_ns(0));
    fs::write(&path, "new").unwrap();
    let changed = |state: &fs::Metadata| (state.ctime(), state.ctime_nsec());
    let file = fs::File::options().write(true).open(&path).unwrap();
    // More than once where the clock's ticks are long, on kernels before 6.13.
    while {
        file.set_modified(before.modified().unwrap()).unwrap();
        changed(&file.metadata().unwrap()) == changed(&before)
    } {}
    let second = tag_and_body(Instant::from_ns(AGE_NS));
    assert_eq!([&*first.1, &*second.1], [b"old", b"new"]);
    assert_ne!(first.0, second.0);
    // Another name changes the tag too.
    fs::hard_link(&path, dir.path().join("b")).unwrap();
    assert_ne!(tag_and_body(Instant::from_ns(2 * AGE_NS)).0, second.0);
}

/// A change of files, and the files that are there afterwards.
type Step = (fn(&Path), &'static [(&'static str, Result<&'static str, Refusal>)]);

#[test]
fn a_reported_change_is_seen_long_before_the_entry_has_aged() {
    let write = |path: &Path, text: &str| fs::write(path, text).unwrap();
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    write(&dir.path().join("sub/a"), "old");
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
    let steps: [Step; 7] = [
        (|_| {}, &[("sub/a", Ok("old")), ("sub/b", Err(Refusal::NotFound)), ("sub/", Err(Refusal::NotFound))]),
        (|dir| fs::write(dir.join("sub/a"), "written").unwrap(), &[("sub/a", Ok("written"))]),
        (
            |dir| {
                fs::write(dir.join("new"), "renamed over").unwrap();
                fs::rename(dir.join("new"), dir.join("sub/a")).unwrap();
            },
            &[("sub/a", Ok("renamed over"))],
        ),
        (|dir| fs::write(dir.join("sub/index.html"), "index").unwrap(), &[("sub/", Ok("index"))]),
        (|dir| fs::remove_file(dir.join("sub/index.html")).unwrap(), &[("sub/", Err(Refusal::NotFound))]),
        (|dir| fs::remove_file(dir.join("sub/a")).unwrap(), &[("sub/a", Err(Refusal::NotFound))]),
        (|dir| fs::write(dir.join("sub/a"), "again").unwrap(), &[("sub/a", Ok("again"))]),
    ];
    for (number, (change, expected)) in steps.into_iter().enumerate() {
        change(dir.path());
        watcher.apply_to(&mut origin.folders);
        for &(name, expected) in expected {
            for round in 0..3 {
                let found = body(&mut origin, name, Instant::from_ns(5));
                let expected = expected.map(|text| text.as_bytes().to_vec());
                assert_eq!(found, expected, "step {number}, {name}, round {round}");
            }
        }
    }
}

#[test]
fn a_companion_that_comes_and_goes_is_seen_at_once() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "old").unwrap();
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
    let mut has_variants = || {
        watcher.apply_to(&mut origin.folders);
        open(&mut origin, "a", &date_cache(), Instant::default(), |object| object.has_variants()).unwrap().unwrap()
    };
    assert!(!has_variants());
    fs::write(dir.path().join("a.gz"), "gz").unwrap();
    assert!(has_variants());
    fs::remove_file(dir.path().join("a.gz")).unwrap();
    assert!(!has_variants());
}

#[test]
fn no_file_is_looked_at_while_no_change_of_its_folder_is_reported() {
    let dir = TempDir::new().unwrap();
    for folder in ["a", "b"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("file"), "text").unwrap();
    }
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
    let mut misses = |name: &str| {
        watcher.apply_to(&mut origin.folders);
        let before = origin.misses;
        body(&mut origin, name, Instant::default()).unwrap();
        origin.misses - before
    };
    // A folder is watched after its first file was read, which is why that is looked at once more.
    for (name, expected) in [("a/file", 1), ("a/file", 1), ("b/file", 1), ("b/file", 1), ("a/file", 0)] {
        assert_eq!(misses(name), expected, "{name}");
    }
    fs::write(dir.path().join("a/other"), "text").unwrap();
    for (name, expected) in [("b/file", 0), ("a/file", 1), ("a/other", 1), ("a/other", 0), ("a/file", 0)] {
        assert_eq!(misses(name), expected, "{name}");
    }
    assert_eq!(watcher.watched(), 2);
}

#[test]
fn there_are_no_more_watches_than_files_known() {
    let dir = TempDir::new().unwrap();
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 3, 10_000, Some(watcher.subscription()));
    for index in 0..20 {
        fs::create_dir(dir.path().join(index.to_string())).unwrap();
        fs::write(dir.path().join(format!("{index}/file")), "text").unwrap();
        body(&mut origin, &format!("{index}/file"), Instant::default()).unwrap();
        body(&mut origin, &format!("{index}/missing"), Instant::default()).unwrap_err();
        assert!(watcher.watched() <= 3);
    }
    fs::remove_dir_all(dir.path()).unwrap();
    watcher.apply_to(&mut origin.folders);
    for index in 0..20 {
        body(&mut origin, &format!("{index}/file"), Instant::default()).unwrap_err();
    }
    assert_eq!(watcher.watched(), 0);
}

#[test]
fn age_finds_changes_that_are_not_reported_and_has_the_right_folder_watched() {
    let dir = TempDir::new().unwrap();
    fs::create_dir_all(dir.path().join("above/sub")).unwrap();
    fs::write(dir.path().join("above/sub/a"), "old").unwrap();
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
    let mut found = |at_ns| {
        watcher.apply_to(&mut origin.folders);
        String::from_utf8(body(&mut origin, "above/sub/a", Instant::from_ns(at_ns)).unwrap()).unwrap()
    };
    assert_eq!([found(0), found(1)], ["old", "old"]);
    fs::rename(dir.path().join("above"), dir.path().join("aside")).unwrap();
    fs::create_dir_all(dir.path().join("above/sub")).unwrap();
    fs::write(dir.path().join("above/sub/a"), "new").unwrap();
    assert_eq!([found(AGE_NS), found(AGE_NS + 1), found(AGE_NS + 2)], ["old", "new", "new"]);
    fs::write(dir.path().join("above/sub/a"), "newer").unwrap();
    assert_eq!(found(AGE_NS + 3), "newer");
}

#[test]
fn a_file_read_right_after_a_change_is_read_again_whatever_its_stamp() {
    let dir = TempDir::new().unwrap();
    let mut origin = origin(dir.path(), 10, 10_000);
    fs::write(dir.path().join("a"), "old").unwrap();
    // 1970: before any change, as a clock that has just changed would be.
    let at_once = DateCache::new(|_| 0, Instant::default());
    let look = |object: &mut Object| Rc::clone(&object.rendering().bytes);
    let mut bytes = |now| open(&mut origin, "a", &at_once, now, look).unwrap().unwrap();
    let first = bytes(Instant::default());
    assert!(!Rc::ptr_eq(&bytes(Instant::from_ns(AGE_NS)), &first));
}

#[test]
fn number_and_bytes_are_bounded() {
    let dir = TempDir::new().unwrap();
    for index in 0..100 {
        fs::write(dir.path().join(format!("{index}")), "x".repeat(50)).unwrap();
    }
    let mut few = origin(dir.path(), 7, 1 << 20);
    let mut small = origin(dir.path(), 100, 2000);
    for round in 0..3 {
        for index in 0..100 {
            let name = index.to_string();
            body(&mut few, &name, Instant::from_ns(round)).unwrap();
            body(&mut small, &name, Instant::from_ns(round)).unwrap();
            assert!(few.cache.size().0 <= 7);
            assert!(small.cache.size().1 <= 2000, "{:?}", small.cache.size());
        }
    }
    assert_eq!(few.cache.size().0, 7);
    assert!(small.cache.size().0 > 1);
}

#[test]
fn used_entries_stay() {
    let dir = TempDir::new().unwrap();
    for index in 0..50 {
        fs::write(dir.path().join(format!("{index}")), "x").unwrap();
    }
    let mut origin = origin(dir.path(), 5, 1 << 20);
    for index in 1..50 {
        body(&mut origin, "0", Instant::default()).unwrap();
        body(&mut origin, &index.to_string(), Instant::default()).unwrap();
        assert!(origin.cache.entries().any(|entry| *entry.key == *b"0"), "after {index} others");
    }
}

#[test]
fn an_entry_larger_than_the_bound_is_served_all_the_same() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "x").unwrap();
    let mut origin = origin(dir.path(), 5, 10);
    assert_eq!(body(&mut origin, "a", Instant::default()).unwrap(), b"x");
}

#[test]
fn only_what_lies_beneath_the_root_is_found() {
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let dir = TempDir::new().unwrap();
    fs::create_dir(dir.path().join("sub")).unwrap();
    fs::write(dir.path().join("sub/index.html"), "index").unwrap();
    fs::write(dir.path().join("a"), "a").unwrap();
    symlink("../a", dir.path().join("sub/inside")).unwrap();
    symlink(outside.path().join("secret"), dir.path().join("absolute")).unwrap();
    symlink("../../../../../../../etc/passwd", dir.path().join("relative")).unwrap();
    symlink("loop", dir.path().join("loop")).unwrap();
    let long = "x".repeat(300);
    let mut origin = origin(dir.path(), 10, 10_000);
    for (name, expected) in [
        ("sub", Ok("folder")),
        ("sub/", Ok("index")),
        ("sub/inside", Ok("a")),
        ("/", Err(Refusal::NotFound)),
        ("a/", Err(Refusal::NotFound)),
        ("absolute", Err(Refusal::NotFound)),
        ("relative", Err(Refusal::NotFound)),
        ("loop", Err(Refusal::NotFound)),
        ("../a", Err(Refusal::NotFound)),
        (&long, Err(Refusal::NotFound)),
    ] {
        let found = body(&mut origin, name, Instant::default());
        assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()), "{name}");
    }
}

/// Loads a name by a job, whatever is cached.
fn complete(origin: &mut LocalOrigin<Sites>, name: &str, submitted: Instant) -> Outcome {
    let loaded = origin.job(0, name.as_bytes(), submitted).run();
    origin.complete(loaded, &date_cache(), submitted)
}

/// Opens a name for a request that has waited for a job.
fn body_after(origin: &mut LocalOrigin<Sites>, name: &str, outcome: Outcome) -> Result<Vec<u8>, Refusal> {
    match origin.open(0, &mut name.into(), Some(outcome), &date_cache(), Instant::default()) {
        Opening::Object(object, _) => Ok(object.bytes_in_memory().unwrap().to_vec()),
        Opening::Folder => Ok(b"folder".to_vec()),
        Opening::Refused(refusal) => Err(refusal),
        Opening::Pending(_) => panic!("{name}: a second job"),
    }
}

#[test]
fn a_file_that_a_job_has_loaded_is_cached() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    let mut origin = origin(dir.path(), 10, 10_000);
    assert_eq!(complete(&mut origin, "a", Instant::default()), Outcome::Ready);
    assert_eq!(body_after(&mut origin, "a", Outcome::Ready).unwrap(), b"text");
    assert_eq!(body(&mut origin, "a", Instant::default()).unwrap(), b"text");
    assert_eq!(origin.misses, 0, "it was loaded by the job alone");
}

#[test]
fn an_outcome_reaches_those_that_waited_and_no_others() {
    let dir = TempDir::new().unwrap();
    let mut origin = origin(dir.path(), 10, 10_000);
    let outcome = complete(&mut origin, "a", Instant::default());
    assert_eq!(outcome, Outcome::Refused(Refusal::NotFound));
    fs::write(dir.path().join("a"), "text").unwrap();
    assert_eq!(body_after(&mut origin, "a", outcome), Err(Refusal::NotFound));
    assert_eq!(body(&mut origin, "a", Instant::default()).unwrap(), b"text");
    fs::create_dir(dir.path().join("sub")).unwrap();
    let outcome = complete(&mut origin, "sub", Instant::default());
    assert_eq!((outcome, body_after(&mut origin, "sub", outcome)), (Outcome::Folder, Ok(b"folder".to_vec())));
}

#[test]
fn a_job_that_finds_a_file_unchanged_keeps_the_object() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    let mut origin = origin(dir.path(), 10, 10_000);
    let bytes = |origin: &mut LocalOrigin<Sites>, at_ns| {
        let look = |object: &mut Object| Rc::clone(&object.rendering().bytes);
        open(origin, "a", &date_cache(), Instant::from_ns(at_ns), look).unwrap().unwrap()
    };
    let first = bytes(&mut origin, 0);
    assert_eq!(complete(&mut origin, "a", Instant::from_ns(AGE_NS)), Outcome::Ready);
    assert!(Rc::ptr_eq(&bytes(&mut origin, 2 * AGE_NS - 1), &first));
    assert_eq!(origin.misses, 1, "the job has renewed its age");
    fs::remove_file(dir.path().join("a")).unwrap();
    assert_eq!(complete(&mut origin, "a", Instant::from_ns(AGE_NS)), Outcome::Refused(Refusal::NotFound));
    assert_eq!(origin.cache.size(), (0, 0));
}

#[test]
fn a_change_while_a_job_is_done_is_seen_by_later_requests() {
    let dir = TempDir::new().unwrap();
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), "old").unwrap();
    }
    let watcher = TestWatcher::new();
    let mut origin = origin_of(dir.path(), 10, 10_000, Some(watcher.subscription()));
    // The folder is watched.
    body(&mut origin, "b", Instant::default()).unwrap();
    let loaded = origin.job(0, b"a", Instant::default()).run();
    fs::write(dir.path().join("a"), "new").unwrap();
    watcher.apply_to(&mut origin.folders);
    assert_eq!(origin.complete(loaded, &date_cache(), Instant::default()), Outcome::Ready);
    assert_eq!(body_after(&mut origin, "a", Outcome::Ready).unwrap(), b"old");
    assert_eq!(body(&mut origin, "a", Instant::default()).unwrap(), b"new");
}

#[test]
fn no_request_waits_for_a_second_job() {
    let dir = TempDir::new().unwrap();
    for name in ["a", "b"] {
        fs::write(dir.path().join(name), name).unwrap();
    }
    // The cache has room for one file: the second evicts the first before the response to its
    // request.
    let mut origin = origin(dir.path(), 1, 10_000);
    let outcomes = ["a", "b"].map(|name| complete(&mut origin, name, Instant::default()));
    for _ in 0..3 {
        for (name, outcome) in ["a", "b"].into_iter().zip(outcomes) {
            assert_eq!(body_after(&mut origin, name, outcome).unwrap(), name.as_bytes());
        }
    }
    // The file has changed, and then gone, since it was loaded.
    fs::write(dir.path().join("a"), "changed").unwrap();
    assert_eq!(body_after(&mut origin, "a", Outcome::Ready).unwrap(), b"changed");
    fs::remove_file(dir.path().join("a")).unwrap();
    body(&mut origin, "b", Instant::default()).unwrap();
    assert_eq!(body_after(&mut origin, "a", Outcome::Ready), Err(Refusal::NotFound));
    // The cache has no room at all.
    let mut none = self::origin(dir.path(), 10, 0);
    let outcome = complete(&mut none, "b", Instant::default());
    assert_eq!(body_after(&mut none, "b", outcome).unwrap(), b"b");
}

#[test]
fn a_result_of_another_configuration_is_void() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("a"), "text").unwrap();
    let loaded = origin(dir.path(), 10, 10_000).job(0, b"a", Instant::default()).run();
    let mut next = origin(dir.path(), 10, 10_000);
    assert_eq!(next.complete(loaded, &date_cache(), Instant::default()), Outcome::Void);
    assert_eq!(next.cache.size(), (0, 0));
}
