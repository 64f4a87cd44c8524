//! Purges while objects are asked for and come in, and the counts of all answers.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Original, PATIENCE, Stage, bytes, cache_status, object, pattern, read};
use thalweg_tier::{Answer, Content, Counts, Purge, PurgeKind};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const TAG: (&str, &str) = ("ETag", "\"one\"");
const OTHER_TAG: (&str, &str) = ("ETag", "\"two\"");
const MEBIBYTE: usize = 1 << 20;

/// All purges that cover the object with this target of the stage's mount, and of the group `g`.
fn purges_of(target: &str) -> [Purge; 4] {
    let mount = "a.example/";
    [
        Purge::Name(format!("a.example{target}").into()),
        Purge::Prefix(format!("a.example{}", &target[..2]).into()),
        Purge::Group { mount: mount.into(), group: "g".into() },
        Purge::Mount(mount.into()),
    ]
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_response_that_was_asked_for_before_a_hard_purge_is_not_used_after_it() {
    for purge in purges_of("/abc") {
        let stage = Stage::new();
        let lines = [FRESH, TAG, ("Cache-Groups", "\"g\"")];
        let old = pattern(3 * MEBIBYTE, 1);
        // Long ones are stored by their head at once, short ones when they have come.
        for (target, content) in [("/abc", old.clone()), ("/abd", old.slice(..1000))] {
            stage.origin.put(target, Original::new(&lines, content.clone()));
            stage.origin.hold_at(Some(500));
            let before = stage.origin.count();
            let asking = stage.asking("GET", target, &[]);
            until("the request", || stage.origin.count() > before);
            let purge = match &purge {
                Purge::Name(_) => Purge::Name(format!("a.example{target}").into()),
                purge => purge.clone(),
            };
            stage.tier.purge(&purge, PurgeKind::Hard).unwrap();
            stage.origin.put(target, Original::new(&[FRESH, OTHER_TAG, lines[2]], "new"));
            let late = stage.asking("GET", target, &[]);
            stage.origin.hold_at(None);
            let answer = asking.recv_timeout(PATIENCE).unwrap();
            assert!(bytes(answer).unwrap() == content, "{purge:?} {target}: its reader goes on");
            assert_eq!(bytes(late.recv_timeout(PATIENCE).unwrap()).unwrap(), b"new", "{purge:?} {target}");
            assert_eq!(bytes(stage.get(target)).unwrap(), b"new", "{purge:?} {target}");
        }
    }
}

#[test]
fn a_response_that_was_asked_for_before_a_soft_purge_is_stale_after_it() {
    for purge in purges_of("/abc") {
        let stage = Stage::new();
        stage.origin.put("/abc", Original::new(&[FRESH, TAG, ("Cache-Groups", "\"g\"")], "hello"));
        stage.origin.hold_at(Some(0));
        let asking = stage.asking("GET", "/abc", &[]);
        until("the request", || stage.origin.count() == 1);
        stage.tier.purge(&purge, PurgeKind::Soft).unwrap();
        stage.origin.hold_at(None);
        bytes(asking.recv_timeout(PATIENCE).unwrap()).unwrap();
        let again = stage.get("/abc");
        assert_eq!(cache_status(&again), "thalweg;fwd=stale;fwd-status=304;stored", "{purge:?}");
        assert!(cache_status(&stage.get("/abc")).starts_with("thalweg;hit"), "{purge:?}: it is fresh now");
    }
}

#[test]
fn a_prefix_purges_what_is_below_it_alone() {
    let stage = Stage::new();
    for target in ["/dists/a", "/dists/b", "/dist", "/pool/a"] {
        stage.origin.put(target, Original::new(&[FRESH, TAG], target));
    }
    let is_hit = |target: &str| cache_status(&stage.get(target)).starts_with("thalweg;hit");
    for target in ["/dists/a", "/dists/b", "/dist", "/pool/a"] {
        assert!(!is_hit(target) && is_hit(target), "{target}");
    }
    let prefix = |prefix: &str| Purge::Prefix(prefix.into());
    assert_eq!(stage.tier.purge(&prefix("a.example/dists/"), PurgeKind::Hard).unwrap(), 2);
    assert_eq!(stage.tier.purge(&prefix("a.example/none/"), PurgeKind::Hard).unwrap(), 0);
    assert_eq!(["/dists/a", "/dists/b", "/dist", "/pool/a"].map(is_hit), [false, false, true, true]);
    assert_eq!(stage.tier.purge(&prefix("a.example/"), PurgeKind::Soft).unwrap(), 4);
    assert_eq!(cache_status(&stage.get("/pool/a")), "thalweg;fwd=stale;fwd-status=304;stored");
    assert_eq!(stage.tier.counts().purges, 6);
    let stage = stage.restart();
    assert_eq!(cache_status(&stage.get("/dist")), "thalweg;fwd=stale;fwd-status=304;stored", "it is durable");
}

#[test]
fn a_purge_does_not_wait_for_a_slow_origin_nor_the_other_way_round() {
    let stage = Stage::new();
    let content = pattern(2 * MEBIBYTE, 3);
    stage.origin.put("/abc", Original::new(&[FRESH, TAG], content.clone()));
    stage.origin.hold_at(Some(100));
    let answer = stage.get("/abc");
    let (done, purged) = mpsc::channel();
    let purges = vec![Purge::Prefix("a.example/".into()), Purge::Mount("a.example/".into())];
    stage.tier.purge_all(purges, PurgeKind::Hard, move |outcome| done.send(outcome.unwrap()).unwrap());
    assert_eq!(purged.recv_timeout(PATIENCE).unwrap(), [1, 1]);
    stage.origin.put("/quick", Original::new(&[FRESH, TAG], "x"));
    stage.origin.hold_at(None);
    assert_eq!(bytes(stage.get("/quick")).unwrap(), b"x");
    assert!(bytes(answer).unwrap() == content);
}

#[test]
fn each_request_is_counted_once_and_each_byte() {
    let stage = Stage::new();
    let content = pattern(2 * MEBIBYTE + 5, 4);
    let (small, large) = (("/small", 5_u64), ("/large", content.len() as u64));
    stage.origin.put("/small", Original::new(&[FRESH, TAG], "hello"));
    stage.origin.put("/large", Original::new(&[FRESH, TAG], content));
    stage.origin.put("/private", Original::new(&[("Cache-Control", "private")], "secret"));
    let mut chunked = Original::new(&[("Cache-Control", "private")], pattern(MEBIBYTE, 5));
    chunked.is_chunked = true;
    stage.origin.put("/chunked", chunked);
    stage.origin.put("/stale", Original::new(&[("Cache-Control", "max-age=0"), TAG], "old"));
    let mut broken = Original::new(&[FRESH], "abcdef");
    broken.breaks = vec![3];
    stage.origin.put("/broken", broken);
    // The bytes that the tier gives out; those of answers in memory are counted by a loop.
    let get = |target: &str| match stage.get(target) {
        Answer::Object(object) if matches!(object.content, Content::Memory(_)) => {
            stage.tier.count_held_hits(0, 0, object.length);
        }
        answer => drop(bytes(answer)),
    };
    for (target, _) in [small, large] {
        (0..3).for_each(|_| get(target));
    }
    ["/private", "/chunked", "/broken", "/stale", "/stale", "/none"].into_iter().for_each(get);
    stage.tier.count_held_hits(0, 7, 70);
    let only = stage.ask("GET", "/other", &[("Cache-Control", "only-if-cached")]);
    assert!(matches!(only, Answer::Failed(_)));
    *stage.origin.is_down.lock().unwrap() = true;
    get("/down");
    let object = object(stage.get("/large"));
    let Content::Fragments(fragments) = object.content else { panic!("fragments") };
    assert_eq!(read(fragments.reader(10..30)).unwrap().len(), 20);
    let counts = stage.tier.counts();
    let served = 3 * small.1 + 3 * large.1 + 20 + 6 + MEBIBYTE as u64 + 3 + 2 * 3 + 70;
    let expected = Counts {
        held_hits: 7,
        hits: 5,
        misses: 3,
        passed: 4,
        revalidated: 1,
        failed: 2,
        served_bytes: served,
        origin_bytes: small.1 + large.1 + 6 + MEBIBYTE as u64 + 3 + 3,
        origin_requests: 9,
        origin_failures: 1,
        ..counts
    };
    assert_eq!(counts, expected);
    assert_eq!((counts.requests(), counts.hit_requests()), (22, 12));
    assert_eq!(stage.tier.counts_and_mounts().1[0].1, Counts { store_failures: 0, ..counts });
}

#[test]
fn requests_that_wait_for_a_response_which_is_purged_are_answered_by_one_other() {
    let stage = Stage::new();
    stage.origin.put("/abc", Original::new(&[FRESH, TAG], pattern(1000, 1)));
    stage.origin.hold_at(Some(500));
    let asking: Vec<_> = (0..20).map(|_| stage.asking("GET", "/abc", &[])).collect();
    until("the request", || stage.origin.count() > 0);
    // Requests are begun in their order: the others wait for it by now.
    stage.origin.put("/other", Original::new(&[FRESH], "other"));
    assert_eq!(bytes(stage.asking("GET", "/other", &[]).recv_timeout(PATIENCE).unwrap()).unwrap(), b"other");
    stage.tier.purge(&Purge::Name("a.example/abc".into()), PurgeKind::Hard).unwrap();
    stage.origin.hold_at(None);
    for answer in asking {
        assert!(bytes(answer.recv_timeout(PATIENCE).unwrap()).unwrap() == pattern(1000, 1));
    }
    assert_eq!(stage.origin.count(), 3);
}

#[test]
fn a_response_that_was_asked_for_before_an_unsafe_request_is_not_used_after_it() {
    let stage = Stage::new();
    stage.origin.put("/abc", Original::new(&[FRESH, TAG], pattern(1000, 1)));
    stage.origin.hold_at(Some(500));
    let asking = stage.asking("GET", "/abc", &[]);
    until("the request", || stage.origin.count() > 0);
    stage.origin.put("/abc", Original::new(&[FRESH, OTHER_TAG], "new"));
    let changed = stage.asking("POST", "/abc", &[]).recv_timeout(PATIENCE).unwrap();
    assert!(bytes(changed).is_ok());
    stage.origin.hold_at(None);
    assert!(bytes(asking.recv_timeout(PATIENCE).unwrap()).unwrap() == pattern(1000, 1));
    let later = stage.asking("GET", "/abc", &[]).recv_timeout(PATIENCE).unwrap();
    assert_eq!(bytes(later).unwrap(), b"new");
}
