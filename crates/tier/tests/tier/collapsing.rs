//! Requests for the same object that come at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Instant;

use crate::support::{Origin, Original, PATIENCE, Stage, bytes, cache_status, pattern, read};
use thalweg_caching::StoredFields;
use thalweg_tier::{
    Answer, BoxFuture, Content, Purge, PurgeKind, Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse,
};
use tokio::sync::Semaphore;

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const TAG: (&str, &str) = ("ETag", "\"one\"");
const CLIENTS: usize = 200;
const MEBIBYTE: usize = 1 << 20;
/// Requests that the tier's threads may be about to have wait.
const THREADS: usize = 2;

/// An origin that answers when it is let.
struct Gated {
    origin: Arc<Origin>,
    permits: Semaphore,
    /// Requests that came to it.
    asked: AtomicUsize,
    /// Requests that came to the tier.
    begun: AtomicUsize,
}

impl Gated {
    fn new() -> Arc<Self> {
        let (permits, asked, begun) = (Semaphore::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { origin: Arc::default(), permits, asked, begun })
    }

    fn stage(self: &Arc<Self>) -> Stage {
        Stage::before(Arc::clone(self) as Arc<dyn Upstream>, Arc::clone(&self.origin))
    }

    #[track_caller]
    fn wait_for(&self, count: &AtomicUsize, expected: usize) {
        let begun = Instant::now();
        while count.load(Ordering::SeqCst) < expected {
            assert!(begun.elapsed() < PATIENCE, "{} of {expected}", count.load(Ordering::SeqCst));
            std::thread::yield_now();
        }
    }

    #[track_caller]
    fn is_asked(&self, expected: usize) {
        self.wait_for(&self.asked, expected);
    }

    #[track_caller]
    fn has_begun(&self, expected: usize) {
        self.wait_for(&self.begun, expected);
    }
}

impl Upstream for Gated {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.permits.acquire().await.expect("it is open").forget();
            self.origin.fetch(request).await
        })
    }

    fn refusal(&self, _: &str, _: &StoredFields) -> Option<UpstreamFailure> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        None
    }
}

#[track_caller]
fn statuses(answers: Vec<Receiver<Answer>>) -> Vec<u16> {
    let answers = answers.into_iter().map(|answer| match answer.recv_timeout(PATIENCE).expect("an answer") {
        Answer::Response(response) => response.status,
        Answer::Object(_) => 200,
        Answer::Failed(failure) => failure.status,
    });
    answers.collect()
}

static NOW: AtomicI64 = AtomicI64::new(1_700_000_000);

fn time() -> i64 {
    NOW.load(Ordering::SeqCst)
}

#[test]
fn requests_for_what_is_not_stored_do_not_wait_for_each_other() {
    let cases: [(u16, &[(&str, &str)]); 7] = [
        (200, &[("Cache-Control", "no-store")]),
        (200, &[("Cache-Control", "private, max-age=60")]),
        (200, &[]),
        (302, &[("Location", "/b")]),
        (307, &[("Location", "/b")]),
        (404, &[("Cache-Control", "no-store")]),
        (404, &[("Vary", "*"), ("Set-Cookie", "a=b")]),
    ];
    for (status, lines) in cases {
        let gated = Gated::new();
        let stage = Stage::before_at(Arc::clone(&gated) as Arc<dyn Upstream>, Arc::clone(&gated.origin), time);
        let mut original = Original::new(lines, "hello");
        original.status = status;
        stage.origin.put("/a", original);
        let ask = || (0..CLIENTS).map(|_| stage.asking("GET", "/a", &[])).collect::<Vec<_>>();
        let first = ask();
        gated.is_asked(1);
        gated.permits.add_permits(1);
        gated.is_asked(CLIENTS);
        gated.permits.add_permits(CLIENTS - 1);
        assert_eq!(statuses(first), [status; CLIENTS], "{lines:?}");
        // It is remembered, and nobody waits for the request that finds out whether it is still so.
        for wave in 2..=4 {
            NOW.fetch_add(if wave == 2 { 1 } else { 130 }, Ordering::SeqCst);
            let next = ask();
            gated.is_asked(wave * CLIENTS);
            gated.permits.add_permits(CLIENTS);
            assert_eq!(statuses(next), [status; CLIENTS], "{lines:?}");
        }
    }
}

#[test]
fn an_error_answers_all_that_wait_for_it() {
    for status in [301, 404, 410, 503] {
        let gated = Gated::new();
        let stage = gated.stage();
        let mut original = Original::new(&[], "gone");
        original.status = status;
        stage.origin.put("/a", original);
        let waiting: Vec<_> = (0..CLIENTS).map(|_| stage.asking("GET", "/a", &[])).collect();
        gated.has_begun(CLIENTS);
        gated.permits.add_permits(1 + THREADS);
        assert_eq!(statuses(waiting), [status; CLIENTS]);
        let counts = stage.tier.counts();
        assert_eq!((counts.collapsed + counts.passed) as usize, CLIENTS);
        assert!(counts.passed as usize <= 1 + THREADS, "{counts:?}");
        // It is not kept.
        gated.permits.add_permits(1);
        let asked = gated.asked.load(Ordering::SeqCst);
        assert_eq!(bytes(stage.get("/a")).unwrap(), b"gone");
        assert_eq!(gated.asked.load(Ordering::SeqCst), asked + 1);
    }
}

#[test]
fn a_failure_is_that_of_all_that_wait_for_it() {
    let gated = Gated::new();
    let stage = gated.stage();
    *stage.origin.is_down.lock().unwrap() = true;
    let waiting: Vec<_> = (0..CLIENTS).map(|_| stage.asking("GET", "/a", &[])).collect();
    gated.has_begun(CLIENTS);
    gated.permits.add_permits(1 + THREADS);
    assert_eq!(statuses(waiting), [502; CLIENTS]);
    assert_eq!(stage.tier.counts().failed as usize, CLIENTS);
}

#[test]
fn a_stale_response_stands_in_for_all_that_wait() {
    let gated = Gated::new();
    let stage = gated.stage();
    let lines = [("Cache-Control", "max-age=0, stale-if-error=600"), TAG];
    stage.origin.put("/a", Original::new(&lines, "hello"));
    gated.permits.add_permits(1);
    bytes(stage.get("/a")).unwrap();
    let mut original = Original::new(&[], "broken");
    original.status = 503;
    stage.origin.put("/a", original);
    let waiting: Vec<_> = (0..CLIENTS).map(|_| stage.asking("GET", "/a", &[])).collect();
    gated.has_begun(1 + CLIENTS);
    gated.permits.add_permits(1 + THREADS);
    assert_eq!(statuses(waiting), [200; CLIENTS]);
    assert_eq!(stage.tier.counts().stale_if_error as usize, CLIENTS);
}

#[test]
fn a_request_for_itself_alone_has_nobody_ask_apart() {
    let gated = Gated::new();
    let stage = gated.stage();
    stage.origin.put("/a", Original::new(&[FRESH, TAG], "hello"));
    let own: [&[(&str, &str)]; 2] = [&[("Cache-Control", "no-store")], &[("Authorization", "x")]];
    gated.permits.add_permits(2);
    for lines in own {
        bytes(stage.ask("GET", "/a", lines)).unwrap();
    }
    let waiting: Vec<_> = (0..CLIENTS).map(|_| stage.asking("GET", "/a", own[0])).collect();
    gated.is_asked(2 + CLIENTS);
    let others: Vec<_> = (0..CLIENTS).map(|_| stage.asking("GET", "/a", &[])).collect();
    gated.has_begun(2 + 2 * CLIENTS);
    gated.permits.add_permits(2 * CLIENTS);
    statuses(waiting);
    assert_eq!(statuses(others), [200; CLIENTS]);
    let asked = gated.asked.load(Ordering::SeqCst);
    assert!(asked <= 3 + CLIENTS + THREADS, "{asked}");
}

#[test]
fn variants_are_fetched_side_by_side() {
    let gated = Gated::new();
    let stage = gated.stage();
    stage.origin.put("/a", Original::new(&[FRESH, TAG, ("Vary", "Accept-Language")], "hello"));
    let languages = ["de", "en", "fr", "sv"];
    let waiting: Vec<_> = (0..CLIENTS)
        .map(|number| stage.asking("GET", "/a", &[("Accept-Language", languages[number % languages.len()])]))
        .collect();
    gated.has_begun(CLIENTS);
    gated.is_asked(1);
    gated.permits.add_permits(1);
    gated.is_asked(languages.len());
    gated.permits.add_permits(CLIENTS);
    assert_eq!(statuses(waiting), [200; CLIENTS]);
    let asked = gated.asked.load(Ordering::SeqCst);
    assert!(asked <= languages.len() + THREADS, "{asked}");
}

#[test]
fn a_response_from_before_a_purge_answers_nobody_who_came_after_it() {
    let gated = Gated::new();
    let stage = gated.stage();
    let mut original = Original::new(&[], "old");
    original.status = 404;
    stage.origin.put("/a", original);
    let first = stage.asking("GET", "/a", &[]);
    gated.is_asked(1);
    stage.tier.purge(&Purge::Name("a.example/a".into()), PurgeKind::Hard).unwrap();
    let second = stage.asking("GET", "/a", &[]);
    gated.has_begun(2);
    gated.permits.add_permits(1);
    first.recv_timeout(PATIENCE).unwrap();
    gated.is_asked(2);
    gated.permits.add_permits(1);
    let second = second.recv_timeout(PATIENCE).unwrap();
    assert_eq!(cache_status(&second), "thalweg;fwd=uri-miss");
}

#[test]
fn readers_of_different_places_do_not_wait_for_each_other() {
    let gated = Gated::new();
    let stage = gated.stage();
    let content = pattern(40 * MEBIBYTE, 1);
    stage.origin.put("/big", Original::new(&[FRESH, TAG], content.clone()));
    let range = |first: usize| format!("bytes={first}-{}", first + 9);
    gated.permits.add_permits(1);
    let Answer::Object(object) = stage.ask("GET", "/big", &[("Range", &range(0))]) else { panic!("an object") };
    let Content::Fragments(fragments) = object.content else { panic!("it is long") };
    assert!(read(fragments.clone().reader(0..10)).unwrap() == content[..10]);
    let places = [7, 14, 21, 28].map(|fragment| fragment * MEBIBYTE);
    let waiting = places.map(|first| stage.asking("GET", "/big", &[("Range", &range(first))]));
    gated.is_asked(1 + places.len());
    gated.permits.add_permits(places.len());
    statuses(waiting.into());
    for first in places {
        let range = first as u64..first as u64 + 10;
        assert!(read(fragments.clone().reader(range)).unwrap() == content[first..first + 10]);
    }
    assert_eq!(gated.asked.load(Ordering::SeqCst), 1 + places.len());
    // All that read from a place where the origin fails get its failure.
    let waiting: Vec<_> = (0..20).map(|_| fragments.clone().reader(35 << 20..(35 << 20) + 10)).collect();
    let readers: Vec<_> = waiting.into_iter().map(|reader| std::thread::spawn(move || read(reader))).collect();
    gated.is_asked(2 + places.len());
    *stage.origin.is_down.lock().unwrap() = true;
    gated.permits.add_permits(20);
    assert!(readers.into_iter().all(|reader| reader.join().unwrap().is_err()));
}
