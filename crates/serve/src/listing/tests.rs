use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use super::*;
use crate::config::{ListenAddr, ListingStyle, Rule, ServerConfig};
use crate::content::local::watch::test_watcher::TestWatcher;

const SECOND_NS: u64 = 1_000_000_000;

fn listings(root: &Path, listing_bytes_max: usize, page_entries: usize) -> Listings {
    let mut config = ServerConfig::new(root, Vec::<ListenAddr>::new());
    let listing_style = Some(ListingStyle { page_entries, ..ListingStyle::default() });
    let settings = Settings { listing: Some(true), listing_style, ..Settings::default() };
    config.sites[0].rules.push(Rule { settings, ..Rule::default() });
    let cache = CacheConfig { listing_bytes_max, age: Duration::from_secs(1), ..CacheConfig::default() };
    Listings::new(Arc::new(Sites::open(&config).unwrap()), &cache, Inbox::new(None))
}

/// Far ahead of the folders' time stamps: all of them are settled.
fn date_cache() -> DateCache {
    DateCache::new(|_| 10_000_000_000, Instant::default())
}

fn request<'a>(name: &'a str, query: &'a str) -> ListingRequest<'a> {
    ListingRequest { site: 0, name: name.as_bytes(), query: Some(query.as_bytes()), names_html: true }
}

/// Folders of which no change is reported.
fn unwatched(listings: &Listings) -> Folders<Sites> {
    Folders::new(Arc::clone(&listings.sites), None)
}

/// Has a page made if that is needed. Whether it was.
fn make(
    listings: &mut Listings,
    folders: &mut Folders<Sites>,
    request: ListingRequest<'_>,
    now: Instant,
) -> Option<Outcome> {
    let Opening::Pending(job) = listings.open(request, None, folders, &date_cache(), now) else { return None };
    let loaded = job.run();
    Some(listings.complete(loaded, folders, now))
}

/// The page for a request that has waited for a job, or for none.
fn page(
    listings: &mut Listings,
    folders: &mut Folders<Sites>,
    request: ListingRequest<'_>,
    outcome: Option<Outcome>,
    now: Instant,
) -> Result<String, Refusal> {
    match listings.open(request, outcome, folders, &date_cache(), now) {
        Opening::Object(object, _) => Ok(String::from_utf8(object.bytes_in_memory().unwrap().to_vec()).unwrap()),
        Opening::Refused(refusal) => Err(refusal),
        Opening::Folder | Opening::Pending(_) => panic!("a second job"),
    }
}

/// The page, and whether it had to be made. No change is reported.
fn made(listings: &mut Listings, request: ListingRequest<'_>, at_ns: u64) -> Result<(String, bool), Refusal> {
    let mut folders = unwatched(listings);
    made_of(listings, &mut folders, request, at_ns)
}

/// The same, with changes of folders.
fn made_of(
    listings: &mut Listings,
    folders: &mut Folders<Sites>,
    request: ListingRequest<'_>,
    at_ns: u64,
) -> Result<(String, bool), Refusal> {
    let now = Instant::from_ns(at_ns);
    let outcome = make(listings, folders, request, now);
    Ok((page(listings, folders, request, outcome, now)?, outcome.is_some()))
}

#[test]
fn a_folder_is_looked_at_again_when_it_has_aged() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("file"), "12345").unwrap();
    let mut listings = listings(root.path(), 1 << 20, 10);
    let mut check = |at_ns, expected: &[&str], expected_work| {
        let (text, work) = made(&mut listings, request("/", "format=json"), at_ns).unwrap();
        assert!(expected.iter().all(|expected| text.contains(expected)), "{at_ns}: {text}");
        assert_eq!(work, expected_work, "{at_ns}");
    };
    check(0, &["\"size\":5"], true);
    check(SECOND_NS - 1, &["\"size\":5"], false);
    fs::write(root.path().join("file"), "123").unwrap();
    // The folder looks the same.
    check(SECOND_NS, &["\"size\":5"], true);
    check(2 * SECOND_NS - 1, &["\"size\":5"], false);
    check(READ_AGAIN_NS, &["\"size\":3"], true);
    fs::write(root.path().join("new"), "").unwrap();
    check(READ_AGAIN_NS + SECOND_NS - 1, &["\"files\":1"], false);
    check(READ_AGAIN_NS + SECOND_NS, &["\"files\":2", "\"name\":\"new\""], true);
}

#[test]
fn a_reported_change_of_a_folder_is_seen_at_once() {
    let root = TempDir::new().unwrap();
    for folder in ["a", "b"] {
        fs::create_dir(root.path().join(folder)).unwrap();
        fs::write(root.path().join(folder).join("file"), "12345").unwrap();
    }
    let mut listings = listings(root.path(), 1 << 20, 10);
    listings.age_ns = 3600 * SECOND_NS;
    let watcher = TestWatcher::new();
    let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
    let mut check = |name, at_ns, expected: &str, expected_work| {
        watcher.apply_to(&mut folders);
        let request = request(name, "format=json");
        let (text, work) = made_of(&mut listings, &mut folders, request, at_ns).unwrap();
        assert!(text.contains(expected), "{name} {at_ns}: {text}");
        assert_eq!(work, expected_work, "{name} {at_ns}");
    };
    for name in ["a/", "b/"] {
        check(name, 0, "\"size\":5", true);
        check(name, SECOND_NS, "\"size\":5", false);
    }
    // A file that grows, which leaves no trace in its folder.
    fs::write(root.path().join("a/file"), "123456").unwrap();
    check("a/", 2 * SECOND_NS, "\"size\":6", true);
    check("b/", 2 * SECOND_NS, "\"size\":5", false);
    fs::write(root.path().join("a/new"), "").unwrap();
    check("a/", 3 * SECOND_NS, "\"name\":\"new\"", true);
    // However often it changes, the folder is left in peace for a time.
    fs::remove_file(root.path().join("a/new")).unwrap();
    check("a/", 3 * SECOND_NS + 2 * REST_NS_PER_ENTRY - 1, "\"name\":\"new\"", false);
    check("a/", 3 * SECOND_NS + 2 * REST_NS_PER_ENTRY, "\"files\":1", true);
    check("a/", 4 * SECOND_NS, "\"files\":1", false);
}

#[test]
fn a_change_while_a_folder_is_read_is_seen() {
    let root = TempDir::new().unwrap();
    let mut listings = listings(root.path(), 1 << 20, 10);
    listings.age_ns = 3600 * SECOND_NS;
    let watcher = TestWatcher::new();
    let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
    let request = request("/", "format=json");
    let opening = listings.open(request, None, &mut folders, &date_cache(), Instant::default());
    let Opening::Pending(job) = opening else { panic!("it is cached") };
    let loaded = job.run();
    // It was read, and the result is not taken yet.
    fs::write(root.path().join("new"), "").unwrap();
    watcher.apply_to(&mut folders);
    let outcome = listings.complete(loaded, &mut folders, Instant::from_ns(1));
    let text = page(&mut listings, &mut folders, request, Some(outcome), Instant::from_ns(1)).unwrap();
    assert!(text.contains("\"files\":0"), "{text}");
    let (text, work) = made_of(&mut listings, &mut folders, request, SECOND_NS).unwrap();
    assert!(work && text.contains("\"files\":1"), "{text}");
}

#[test]
fn watching_ends_with_what_is_known() {
    let root = TempDir::new().unwrap();
    for folder in ["a", "b"] {
        fs::create_dir(root.path().join(folder)).unwrap();
    }
    // Room for one folder only.
    let mut listings = listings(root.path(), 0, 10);
    let watcher = TestWatcher::new();
    let mut folders = Folders::new(Arc::clone(&listings.sites), Some(watcher.subscription()));
    for (at, name) in ["a/", "b/", "a/", "a/"].into_iter().enumerate() {
        made_of(&mut listings, &mut folders, request(name, ""), at as u64 * SECOND_NS).unwrap();
        assert_eq!(watcher.watched(), 1, "{at}: {name}");
    }
    fs::remove_dir(root.path().join("a")).unwrap();
    watcher.apply_to(&mut folders);
    assert_eq!(made_of(&mut listings, &mut folders, request("a/", ""), 9 * SECOND_NS).err(), Some(Refusal::NotFound));
    assert_eq!(watcher.watched(), 0);
}

#[test]
fn a_large_folder_is_left_alone_for_longer() {
    let root = TempDir::new().unwrap();
    let entries = 3 * SECOND_NS / REST_NS_PER_ENTRY / 100;
    for number in 0..entries {
        fs::write(root.path().join(number.to_string()), "").unwrap();
    }
    let mut listings = listings(root.path(), 1 << 20, 10);
    listings.age_ns = 0;
    let rest_ns = entries * REST_NS_PER_ENTRY;
    assert!(made(&mut listings, request("/", ""), 0).unwrap().1);
    fs::write(root.path().join("new"), "").unwrap();
    let (text, work) = made(&mut listings, request("/", ""), rest_ns - 1).unwrap();
    assert!(!work && text.contains(&format!("{entries} files")));
    // Another page of it is made of what is known.
    let (text, work) = made(&mut listings, request("/", "page=2"), rest_ns - 1).unwrap();
    assert!(work && text.contains(&format!("{entries} files")));
    let (text, work) = made(&mut listings, request("/", ""), rest_ns).unwrap();
    assert!(work && text.contains(&format!("{} files", entries + 1)));
}

#[test]
fn memory_is_bounded_and_what_is_used_stays() {
    let root = TempDir::new().unwrap();
    for number in 0..40 {
        let folder = root.path().join(number.to_string());
        fs::create_dir(&folder).unwrap();
        for file in 0..20 {
            fs::write(folder.join(file.to_string()), "").unwrap();
        }
    }
    const BYTES_MAX: usize = 100_000;
    let mut listings = listings(root.path(), BYTES_MAX, 10);
    for number in 0..40 {
        let name = format!("{number}/");
        for page in ["page=1", "page=2", "order=desc", "sort=size"] {
            made(&mut listings, request(&name, page), number).unwrap();
            assert!(listings.bytes <= BYTES_MAX, "{}", listings.bytes);
        }
        let (_, work) = made(&mut listings, request("0/", "page=1"), number).unwrap();
        assert!(!work, "after {number} others");
    }
    assert!(listings.folders.len() < 40);
    let held: usize = listings.folders.iter().map(|(key, known)| known.bytes(key)).sum();
    assert_eq!(listings.bytes, held);
}

#[test]
fn pages_of_one_folder_are_bounded() {
    let root = TempDir::new().unwrap();
    for file in 0..100 {
        fs::write(root.path().join(file.to_string()), "").unwrap();
    }
    let mut listings = listings(root.path(), 1 << 20, 1);
    for page in 1..=100 {
        made(&mut listings, request("/", &format!("page={page}")), 0).unwrap();
    }
    assert_eq!(listings.folders[b"/".as_slice()].pages.len(), PAGES_MAX);
    assert_eq!(made(&mut listings, request("/", "page=101"), 0).err(), Some(Refusal::NotFound));
}

#[test]
fn a_listing_larger_than_the_bound_is_shown_all_the_same() {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("sub")).unwrap();
    let mut listings = listings(root.path(), 0, 10);
    assert!(made(&mut listings, request("/", ""), 0).unwrap().0.contains("sub"));
    assert!(made(&mut listings, request("sub/", ""), 0).unwrap().0.contains("empty"));
    assert_eq!(listings.folders.len(), 1);
}

#[test]
fn all_requests_that_wait_for_a_folder_get_its_refusal() {
    let root = TempDir::new().unwrap();
    let mut listings = listings(root.path(), 1 << 20, 10);
    let mut folders = unwatched(&listings);
    let outcome = make(&mut listings, &mut folders, request("missing/", ""), Instant::default());
    assert_eq!(outcome, Some(Outcome::Refused(Refusal::NotFound)));
    for _ in 0..2 {
        let refused = page(&mut listings, &mut folders, request("missing/", ""), outcome, Instant::default());
        assert_eq!(refused, Err(Refusal::NotFound));
    }
    // It is looked for again for a request that comes later.
    fs::create_dir(root.path().join("missing")).unwrap();
    assert!(made(&mut listings, request("missing/", ""), 1).unwrap().1);
}
