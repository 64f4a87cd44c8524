//! Answers of the tier in front of an origin in memory.

use crate::support::{
    Origin, Original, PATIENCE, Stage, bytes, cache_status, later, memory_cache, moved, now, object, pass, pattern,
    read,
};
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use thalweg_caching::{FieldLines, StoredFields};
use thalweg_tier::{
    Answer, BodyPiece, BoxFuture, Content, Purge, PurgeKind, Upstream, UpstreamContent, UpstreamFailure,
    UpstreamRequest, UpstreamResponse,
};
use thalweg_wire::date::imf_fixdate;

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const TAG: (&str, &str) = ("ETag", "\"one\"");
const MEBIBYTE: usize = 1 << 20;

#[test]
fn a_small_object_is_fetched_once() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[FRESH, TAG, ("X-Other", "y")], "hello"));
    let first = stage.get("/a");
    assert_eq!(cache_status(&first), "thalweg;fwd=uri-miss;stored");
    assert_eq!(bytes(first).unwrap(), b"hello");
    let second = object(stage.get("/a"));
    assert!(second.cache_status.starts_with("thalweg;hit;ttl="), "{}", second.cache_status);
    assert_eq!(second.fields.first("x-other"), Some(&b"y"[..]));
    assert!(second.held_key.is_some() && second.length == 5);
    assert!(matches!(second.content, Content::Memory(_)));
    assert_eq!(stage.origin.count(), 1);
    let stage = stage.restart();
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"hello");
    assert_eq!(stage.origin.count(), 1, "the store has it after a restart");
}

#[test]
fn a_large_object_is_fetched_once_for_any_number_of_readers() {
    let stage = Stage::new();
    let content = pattern(5 * MEBIBYTE + 12_345, 1);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    stage.origin.hold_at(Some(100_000));
    let asking: Vec<_> = (0..50).map(|_| stage.asking("GET", "/big", &[])).collect();
    let answers: Vec<_> = asking.iter().map(|answer| answer.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(stage.origin.count(), 1, "all are answered while the first bytes have come");
    stage.origin.hold_at(None);
    for answer in answers {
        assert!(bytes(answer).unwrap() == content);
    }
    assert!(bytes(stage.get("/big")).unwrap() == content);
    assert_eq!(stage.origin.count(), 1);
}

#[test]
fn a_fragment_in_memory_is_read_in_pieces_that_a_loop_may_copy() {
    let stage = Stage::new();
    let content = pattern(2 * MEBIBYTE, 1);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    assert!(bytes(stage.get("/big")).unwrap() == content);
    let Content::Fragments(fragments) = object(stage.get("/big")).content else { panic!("it is long") };
    let (mut reader, mut read) = (fragments.reader(0..content.len() as u64), 0);
    let (sender, receiver) = std::sync::mpsc::channel();
    loop {
        let sender = sender.clone();
        match reader.next(Box::new(move || sender.send(()).unwrap_or_default())) {
            BodyPiece::Bytes(piece) => {
                assert!(piece.len() <= 64 << 10 && piece == content[read..read + piece.len()], "at {read}");
                read += piece.len();
            }
            BodyPiece::Pending => receiver.recv_timeout(PATIENCE).expect("a wake"),
            BodyPiece::End => break,
            _ => panic!("the open segment is in memory"),
        }
    }
    assert_eq!(read, content.len());
}

#[test]
fn a_range_of_a_cold_object_fetches_its_fragments_alone() {
    let stage = Stage::new();
    let content = pattern(8 * MEBIBYTE, 2);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    let answer = object(stage.ask("GET", "/big", &[("Range", "bytes=3500000-3600000")]));
    assert_eq!(stage.origin.last("range").unwrap(), "bytes=3145728-4194303");
    assert_eq!(answer.length as usize, content.len());
    let Content::Fragments(fragments) = answer.content else { panic!("fragments") };
    assert!(read(fragments.clone().reader(3_500_000..3_600_001)).unwrap() == content[3_500_000..=3_600_000]);
    assert_eq!(stage.origin.count(), 1);
    // The rest is fetched when it is wanted, in two pieces around the fragment that is there.
    assert!(read(fragments.reader(0..content.len() as u64)).unwrap() == content);
    assert_eq!(stage.origin.last("if-range").as_deref(), Some("\"one\""));
    let before = stage.origin.count();
    assert!(bytes(stage.get("/big")).unwrap() == content);
    assert_eq!(stage.origin.count(), before);
}

#[test]
fn a_fetch_that_breaks_goes_on_where_it_was() {
    let stage = Stage::new();
    let content = pattern(3 * MEBIBYTE, 3);
    let mut original = Original::new(&[FRESH, TAG], content.clone());
    original.breaks = vec![MEBIBYTE + 77, 5];
    stage.origin.put("/big", original);
    assert!(bytes(stage.get("/big")).unwrap() == content);
    assert_eq!(stage.origin.count(), 3);
    assert_eq!(stage.origin.last("range").unwrap(), format!("bytes={}-{}", MEBIBYTE + 82, content.len() - 1));
    assert_eq!(stage.tier.counts().resumed, 2);
}

#[test]
fn two_versions_are_never_mixed() {
    let stage = Stage::new();
    let (one, two) = (pattern(3 * MEBIBYTE, 4), pattern(3 * MEBIBYTE, 5));
    let mut original = Original::new(&[FRESH, TAG], one);
    original.breaks = vec![MEBIBYTE + 77];
    stage.origin.put("/big", original);
    stage.origin.hold_at(Some(1000));
    let answer = stage.get("/big");
    stage.origin.put("/big", Original::new(&[FRESH, ("ETag", "\"two\"")], two.clone()));
    stage.origin.hold_at(None);
    let failed = bytes(answer).unwrap_err();
    assert!(failed.contains("has changed at the origin"), "{failed}");
    assert!(bytes(stage.get("/big")).unwrap() == two, "the next request gets the new version");
    assert_eq!(stage.tier.counts().changed, 1);
}

#[test]
fn a_stale_object_is_validated() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[("Cache-Control", "max-age=0"), TAG], "hello"));
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"hello");
    let again = stage.get("/a");
    assert_eq!(cache_status(&again), "thalweg;fwd=stale;fwd-status=304;stored");
    assert_eq!(bytes(again).unwrap(), b"hello");
    assert_eq!(stage.origin.last("if-none-match").as_deref(), Some("\"one\""));
    stage.origin.put("/a", Original::new(&[FRESH, ("ETag", "\"two\"")], "changed"));
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"changed");
    assert_eq!(stage.origin.count(), 3);
}

#[test]
fn variants_are_kept_side_by_side() {
    let stage = Stage::new();
    let of = |language: &str| stage.ask("GET", "/a", &[("Accept-Language", language)]);
    let vary = ("Vary", "Accept-Language");
    stage.origin.put("/a", Original::new(&[FRESH, vary, TAG], "hello"));
    assert_eq!(bytes(of("en")).unwrap(), b"hello");
    stage.origin.put("/a", Original::new(&[FRESH, vary, ("ETag", "\"two\"")], "salut"));
    assert_eq!(bytes(of("fr")).unwrap(), b"salut");
    assert_eq!(bytes(of("en")).unwrap(), b"hello");
    assert_eq!(stage.origin.count(), 2);
    assert!(object(of("fr")).held_key.is_none());
}

#[test]
fn what_must_not_be_stored_goes_through() {
    let stage = Stage::new();
    stage.origin.put("/private", Original::new(&[("Cache-Control", "private")], pattern(300_000, 6)));
    for _ in 0..2 {
        let answer = stage.get("/private");
        assert!(matches!(answer, Answer::Response(_)));
        assert!(bytes(answer).unwrap() == pattern(300_000, 6));
    }
    assert_eq!(stage.origin.count(), 2);
    assert_eq!(stage.tier.counts().passed, 2);
}

#[test]
fn content_of_unknown_length_is_stored_when_it_is_whole() {
    let stage = Stage::new();
    for length in [5, 40_000, 3 * MEBIBYTE] {
        let target = format!("/{length}");
        let mut original = Original::new(&[FRESH, TAG], pattern(length, 7));
        original.is_chunked = true;
        stage.origin.put(&target, original.clone());
        assert!(bytes(stage.get(&target)).unwrap() == pattern(length, 7));
        let before = stage.origin.count();
        // A long one is stored beside the client.
        while stage.tier.counts().origin_requests == before as u64 && !matches!(stage.get(&target), Answer::Object(_)) {
        }
        assert!(bytes(stage.get(&target)).unwrap() == pattern(length, 7));
        original.breaks = vec![3; 100];
        let broken = format!("/broken{length}");
        stage.origin.put(&broken, original);
        let counted = stage.origin.count();
        assert!(bytes(stage.get(&broken)).is_err());
        assert!(bytes(stage.get(&broken)).is_err());
        assert_eq!(stage.origin.count(), counted + 2, "nothing of it is stored");
    }
}

#[test]
fn an_unsafe_request_invalidates() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[FRESH, TAG], "hello"));
    stage.origin.put("/form", Original::new(&[("Location", "/a")], Bytes::new()));
    bytes(stage.get("/a")).unwrap();
    let generation = stage.tier.generation();
    assert!(matches!(stage.ask("POST", "/form", &[]), Answer::Response(_)));
    assert_ne!(stage.tier.generation(), generation);
    bytes(stage.get("/a")).unwrap();
    assert_eq!(stage.origin.count(), 3);
}

#[test]
fn groups_are_invalidated_together() {
    let stage = Stage::new();
    for target in ["/a", "/b"] {
        stage.origin.put(target, Original::new(&[FRESH, TAG, ("Cache-Groups", "\"g\"")], "hello"));
        bytes(stage.get(target)).unwrap();
    }
    stage.origin.put("/form", Original::new(&[("Cache-Group-Invalidation", "\"g\"")], Bytes::new()));
    stage.ask("POST", "/form", &[]);
    for target in ["/a", "/b"] {
        bytes(stage.get(target)).unwrap();
    }
    assert_eq!(stage.origin.count(), 5);
}

#[test]
fn a_stale_response_stands_in_for_a_dead_origin() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[("Cache-Control", "max-age=0, stale-if-error=600"), TAG], "hello"));
    bytes(stage.get("/a")).unwrap();
    *stage.origin.is_down.lock().unwrap() = true;
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"hello");
    let Answer::Failed(failure) = stage.get("/b") else { panic!("nothing is known of it") };
    assert_eq!((failure.status, &*failure.reason), (502, "it is down"));
}

#[test]
fn a_stale_response_is_used_while_it_is_validated() {
    let stage = Stage::new();
    let lines = [("Cache-Control", "max-age=0, stale-while-revalidate=600"), TAG];
    stage.origin.put("/a", Original::new(&lines, "hello"));
    bytes(stage.get("/a")).unwrap();
    stage.origin.put("/a", Original::new(&[FRESH, ("ETag", "\"two\"")], "changed"));
    assert_eq!(bytes(stage.get("/a")).unwrap(), b"hello");
    while bytes(stage.get("/a")).unwrap() != b"changed" {}
    assert_eq!(stage.origin.count(), 2);
}

#[test]
fn head_is_answered_from_the_store_and_by_the_origin() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[FRESH, TAG], pattern(100_000, 8)));
    // With a range, which is not for HEAD.
    let miss = stage.ask("HEAD", "/a", &[("Range", "bytes=5-9")]);
    assert_eq!(cache_status(&miss), "thalweg;fwd=uri-miss;stored");
    let miss = object(miss);
    assert_eq!((miss.length, stage.origin.last("range")), (100_000, None));
    assert_eq!(&*stage.origin.requests.lock().unwrap()[0].method, "GET", "so that it fills");
    assert!(bytes(stage.get("/a")).unwrap() == pattern(100_000, 8));
    let hit = object(stage.ask("HEAD", "/a", &[]));
    assert_eq!((hit.length, &hit.fields), (100_000, &miss.fields));
    assert_eq!(stage.origin.count(), 1);
    // A response that is not stored is not fetched a second time for HEAD.
    stage.origin.put("/private", Original::new(&[("Cache-Control", "private")], "hello"));
    for (asked, number) in [("GET", 1), ("HEAD", 2)] {
        let Answer::Response(response) = stage.ask("HEAD", "/private", &[]) else { panic!("as it is") };
        assert_eq!((response.status, response.length), (200, Some(5)));
        assert_eq!(bytes(Answer::Response(response)).unwrap(), b"");
        assert_eq!(&*stage.origin.requests.lock().unwrap()[number].method, asked);
    }
}

#[test]
fn a_head_that_confirms_what_is_stored_has_the_fields_of_get() {
    let stage = Stage::new();
    let stale = ("Cache-Control", "max-age=0");
    stage.origin.put("/a", Original::new(&[stale, TAG, ("X-Kept", "1")], "hello"));
    bytes(stage.get("/a")).unwrap();
    // It ignores conditions, and leaves a field out.
    stage.origin.put("/a", Original::new(&[stale, TAG], "hello"));
    *stage.origin.ignores_conditions.lock().unwrap() = true;
    let head = stage.ask("HEAD", "/a", &[]);
    assert_eq!(cache_status(&head), "thalweg;fwd=stale;fwd-status=200;stored");
    let head = object(head);
    assert_eq!((head.length, head.fields.first("x-kept")), (5, Some(&b"1"[..])));
    assert_eq!(&*stage.origin.requests.lock().unwrap()[1].method, "HEAD");
}

#[test]
fn errors_are_stored_as_long_as_they_say() {
    let stage = Stage::new();
    let mut original = Original::new(&[FRESH], "gone");
    original.status = 404;
    stage.origin.put("/a", original);
    for _ in 0..2 {
        let Answer::Response(response) = stage.get("/a") else { panic!("a response") };
        assert_eq!(response.status, 404);
    }
    assert_eq!(stage.origin.count(), 1);
    assert!(matches!(stage.get("/never"), Answer::Response(_)));
}

#[test]
fn an_operator_purges() {
    let stage = Stage::new();
    let lines = [("Cache-Control", "max-age=3600, stale-if-error=600"), TAG, ("Cache-Groups", "\"g\"")];
    stage.origin.put("/a", Original::new(&lines, "hello"));
    let count_after = |purge: &Purge, kind| {
        bytes(stage.get("/a")).unwrap();
        let (before, generation) = (stage.origin.count(), stage.tier.generation());
        stage.tier.purge(purge, kind).unwrap();
        assert_ne!(stage.tier.generation(), generation, "{purge:?}");
        bytes(stage.get("/a")).unwrap();
        stage.origin.count() - before
    };
    let name = Purge::Name("a.example/a".into());
    assert_eq!(count_after(&name, PurgeKind::Hard), 1);
    assert_eq!(stage.origin.last("if-none-match"), None);
    assert_eq!(count_after(&name, PurgeKind::Soft), 1);
    assert_eq!(stage.origin.last("if-none-match").as_deref(), Some("\"one\""));
    let group = |group: &str| Purge::Group { mount: "a.example/".into(), group: group.into() };
    assert_eq!(count_after(&group("g"), PurgeKind::Hard), 1);
    assert_eq!(count_after(&group("h"), PurgeKind::Hard), 0);
    assert_eq!(count_after(&Purge::Mount("a.example/".into()), PurgeKind::Hard), 1);
    assert_eq!(count_after(&group("g"), PurgeKind::Soft), 1);
    assert_eq!(stage.origin.last("if-none-match").as_deref(), Some("\"one\""));
}

#[test]
fn a_store_in_memory_serves_as_one_on_disk() {
    let cache = memory_cache(64 << 20);
    let stage = Stage::over(Arc::new(cache));
    let content = pattern(3 * MEBIBYTE, 9);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    for _ in 0..2 {
        assert!(bytes(stage.get("/big")).unwrap() == content);
    }
    assert_eq!(stage.origin.count(), 1);
}

#[test]
fn members_of_a_set_are_validated_together() {
    let stage = Stage::moving();
    let members = ["/dists/sid/InRelease", "/dists/sid/main/Packages", "/dists/sid/main/Sources"];
    let publish = |version: &str, second: i64| {
        let modified = String::from_utf8_lossy(&imf_fixdate(second)).into_owned();
        for (target, age) in members.iter().zip(["60", "600", "600"]) {
            let tag = format!("\"{version}\"");
            let cache_control = format!("max-age={age}");
            let lines = [("Cache-Control", &*cache_control), ("ETag", &tag), ("Last-Modified", &modified)];
            stage.origin.put(target, Original::new(&lines, format!("{version} of {target}")));
        }
    };
    let versions = || members.map(|target| String::from_utf8(bytes(stage.get(target)).unwrap()).unwrap());
    let all_are = |version: &str| versions().iter().all(|text| text.starts_with(version));
    publish("one", moved() - 1000);
    assert!(all_are("one"));
    pass(30);
    publish("two", moved());
    assert!(all_are("one"), "all are fresh");
    pass(40);
    // InRelease is stale, and the others would be fresh for long.
    let before = stage.origin.count();
    assert!(all_are("two"), "{:?}", versions());
    assert_eq!(stage.origin.count() - before, 2 * members.len(), "once more, since all have changed");
    // A member that was never asked for shows an update.
    pass(10);
    publish("three", moved());
    stage.origin.put("/dists/sid/new", Original::new(&[FRESH, TAG], "three"));
    bytes(stage.get("/dists/sid/new")).unwrap();
    assert!(all_are("three"), "{:?}", versions());
    let before = stage.origin.count();
    assert!(all_are("three"));
    assert_eq!(stage.origin.count(), before);
}

#[test]
fn a_member_that_was_not_stored_yet_is_not_served_beside_older_ones() {
    let stage = Stage::new();
    let modified = |days: i64| String::from_utf8_lossy(&imf_fixdate(now() - days * 86_400)).into_owned();
    let dated = |days: i64, text: &str| Original::new(&[("Last-Modified", &modified(days))], text.to_owned());
    let (release, packages) = ("/dists/sid/Release", "/dists/sid/main/Packages");
    let text = |target: &str| String::from_utf8(bytes(stage.get(target)).unwrap()).unwrap();
    stage.origin.put(release, dated(10, "one"));
    assert_eq!(text(release), "one");
    // The archive gets an update whose files are older than its validation.
    stage.origin.put(release, dated(9, "two"));
    stage.origin.put(packages, dated(9, "two"));
    assert_eq!((&*text(release), &*text(packages)), ("one", "two"), "a client that began before the update");
    assert_eq!((&*text(release), &*text(packages)), ("two", "two"));
    let before = stage.origin.count();
    assert_eq!((&*text(release), &*text(packages)), ("two", "two"));
    assert_eq!(stage.origin.count(), before, "all are fresh");
    // A member that changed while others were validated, and one by one for names of content alone.
    let by_hash = "/dists/sid/main/by-hash/SHA256/0123";
    stage.origin.put(by_hash, dated(9, "two"));
    assert_eq!(text(by_hash), "two");
    assert_eq!(stage.origin.count(), before + 1);
}

#[test]
fn members_that_were_stored_by_an_earlier_process_are_validated_first() {
    let stage = Stage::new();
    let of = |version: &str| Original::new(&[FRESH, ("ETag", &format!("\"{version}\""))], version.to_owned());
    let (release, packages) = ("/dists/sid/Release", "/dists/sid/main/Packages");
    stage.origin.put(release, of("one"));
    bytes(stage.get(release)).unwrap();
    let stage = stage.restart_at(later);
    stage.origin.put(release, of("two"));
    stage.origin.put(packages, of("two"));
    assert_eq!(bytes(stage.get(packages)).unwrap(), b"two");
    assert_eq!(bytes(stage.get(release)).unwrap(), b"two");
}

/// An origin whose object is another one at each request.
#[derive(Default)]
struct Changing(AtomicUsize);

impl Upstream for Changing {
    fn fetch(&self, _: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        let tag = format!("\"{}\"", self.0.fetch_add(1, Ordering::SeqCst));
        let mut fields = StoredFields::default();
        [FRESH, ("ETag", &tag)].iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let content = Box::new(OnePart(Some(Bytes::from("x"))));
        let response =
            UpstreamResponse { status: 200, fields, length: Some(1), content, version: None, is_peers: false };
        Box::pin(async { Ok(response) })
    }
}

#[test]
fn a_member_of_a_set_that_is_answered_anew_is_counted_once() {
    let origin = Arc::new(Changing::default());
    let stage = Stage::before(Arc::clone(&origin) as Arc<dyn Upstream>, Arc::new(Origin::default()));
    for target in ["/dists/sid/x", "/dists/sid/y"] {
        assert_eq!(bytes(stage.get(target)).unwrap(), b"x");
    }
    assert_eq!(origin.0.load(Ordering::SeqCst), 4, "the set was validated");
    assert_eq!(stage.tier.counts().requests(), 2, "{:?}", stage.tier.counts());
}

/// An origin that answers every request with the first five of ten bytes.
struct OfOnePart;

struct OnePart(Option<Bytes>);

impl UpstreamContent for OnePart {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async { self.0.take().map(Ok) })
    }
}

impl Upstream for OfOnePart {
    fn fetch(&self, _: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        let mut fields = StoredFields::default();
        [FRESH, TAG, ("Content-Range", "bytes 0-4/10")]
            .iter()
            .for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let content = Box::new(OnePart(Some("01234".into())));
        Box::pin(async {
            Ok(UpstreamResponse { status: 206, fields, length: Some(5), content, version: None, is_peers: false })
        })
    }
}

#[test]
fn a_part_that_nobody_asked_for_reaches_no_client() {
    let stage = Stage::before(Arc::new(OfOnePart), Arc::new(Origin::default()));
    for (range, is_within) in [("bytes=1-4", true), ("bytes=-5", false), ("bytes=4-5", false)] {
        match stage.ask("GET", "/a", &[("Range", range)]) {
            Answer::Object(object) => assert!(is_within && object.length == 10, "{range}"),
            Answer::Response(response) => panic!("{range}: {}", response.status),
            Answer::Failed(failure) => assert!(!is_within && failure.status == 502, "{range}: {failure:?}"),
        }
    } // What is stored now has all that these begin with.
    for lines in [&[("Range", "bytes=1-2,7-8")][..], &[("Range", "bytes=1-2"), ("If-Range", "\"another\"")]] {
        let answer = stage.ask("GET", "/a", lines);
        assert!(matches!(answer, Answer::Failed(_)), "{lines:?}: {}", cache_status(&answer));
    }
    assert!(matches!(stage.ask("GET", "/a", &[("Range", "bytes=1-2,3-4")]), Answer::Object(_)));
}

#[test]
fn an_object_that_is_longer_than_the_store_pushes_nothing_out() {
    let stage = Stage::new();
    stage.origin.put("/small", Original::new(&[FRESH, TAG], "hello"));
    bytes(stage.get("/small")).unwrap();
    let appended = || stage.tier.cache().statistics().appended_bytes;
    let before = appended();
    for is_chunked in [false, true] {
        let content = Bytes::from(vec![7; 65 * MEBIBYTE]);
        stage.origin.put("/huge", Original { is_chunked, ..Original::new(&[FRESH, TAG], content.clone()) });
        let answer = stage.get("/huge");
        assert!(matches!(answer, Answer::Response(_)), "{}", cache_status(&answer));
        assert!(bytes(answer).unwrap() == content, "{is_chunked}");
        let most = if is_chunked { 64 * MEBIBYTE as u64 } else { 0 };
        assert!(appended() <= before + most, "{is_chunked}: {}", appended());
    }
}

#[test]
fn a_dropped_field_reaches_neither_the_cache_nor_the_origin() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[FRESH, ("Vary", "X-Dropped")], "hello"));
    for (value, count) in [("1", 1), ("2", 1)] {
        assert_eq!(bytes(stage.ask("GET", "/a", &[("x-dropped", value)])).unwrap(), b"hello");
        assert_eq!((stage.origin.count(), stage.origin.last("x-dropped")), (count, None), "{value}");
    }
}

#[test]
fn a_304_that_nobody_asked_for_reaches_no_client() {
    let stage = Stage::new();
    stage.origin.put("/a", Original { status: 304, ..Original::new(&[TAG], "") });
    for method in ["GET", "HEAD"] {
        let Answer::Failed(failure) = stage.ask(method, "/a", &[]) else { panic!("{method}") };
        assert_eq!(failure.status, 502);
        assert!(failure.reason.contains("304 to a request without conditions"), "{}", failure.reason);
    }
    // One that is asked for goes through.
    let asked = stage.ask("GET", "/a", &[("If-None-Match", "\"one\""), ("Cache-Control", "no-store")]);
    let Answer::Response(response) = asked else { panic!("{}", cache_status(&asked)) };
    assert_eq!(response.status, 304);
}

#[test]
fn a_request_that_comes_back_ends_at_once() {
    let stage = Stage::new();
    stage.origin.put("/a", Original::new(&[("Cache-Control", "no-store"), ("Via", "1.0 fred")], "hello"));
    let passed = stage.ask("GET", "/a", &[("Via", "1.1 client")]);
    let Answer::Response(response) = &passed else { panic!("as it is") };
    let sent = stage.origin.requests.lock().unwrap()[0].fields.clone();
    let lines = |fields: &StoredFields, name: &str| -> Vec<String> {
        fields.all(name).map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    };
    let (via, cdn_loop) = (lines(&sent, "via"), lines(&sent, "cdn-loop"));
    assert_eq!((via.len(), &*via[0], cdn_loop.len()), (2, "1.1 client", 1));
    assert_eq!(via[1], format!("1.1 {}", cdn_loop[0]));
    assert_eq!(lines(&response.fields, "via"), ["1.0 fred", &format!("2.0 {}", cdn_loop[0])]);
    for (name, value) in [("Via", via.join(", ")), ("CDN-Loop", cdn_loop[0].clone())] {
        let Answer::Failed(failure) = stage.ask("GET", "/a", &[(name, &value)]) else { panic!("{name}") };
        assert_eq!(failure.status, 508, "{name}");
    }
    assert_eq!((stage.origin.count(), stage.tier.counts().failed), (1, 2));
    // A mirror in front of this one has another name.
    let other = Stage::new();
    other.origin.put("/a", Original::new(&[FRESH], "hello"));
    assert_eq!(bytes(other.ask("GET", "/a", &[("Via", &via.join(", "))])).unwrap(), b"hello");
}

#[test]
fn a_response_has_one_date_whether_it_is_stored_or_not() {
    let stage = Stage::new();
    let now = imf_fixdate(now());
    for (target, control) in [("/stored", "max-age=600"), ("/passed", "no-store")] {
        stage.origin.put(target, Original::new(&[("Cache-Control", control), ("Date", "junk")], "x"));
        for _ in 0..2 {
            let fields = match stage.get(target) {
                Answer::Object(object) => (*object.fields).clone(),
                Answer::Response(response) => response.fields,
                Answer::Failed(failure) => panic!("{failure:?}"),
            };
            assert_eq!(fields.all("date").collect::<Vec<_>>(), [&now[..]], "{target}");
        }
    }
}
