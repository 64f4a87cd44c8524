//! Origins that leave requests unanswered: a client waits for them once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use thalweg_caching::FieldLines;
use thalweg_tier::{Answer, BoxFuture, Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse};

use crate::support::{Origin, Original, Stage, bytes, object, pattern};

const FRESH: (&str, &str) = ("Cache-Control", "max-age=3600");
const TAG: (&str, &str) = ("ETag", "\"one\"");
const MEBIBYTE: usize = 1 << 20;

static SET_TIME: AtomicI64 = AtomicI64::new(1_700_000_000);

#[test]
fn a_set_is_not_validated_member_by_member_at_an_origin_that_hangs() {
    let origin = Arc::new(Origin::default());
    let upstream = Arc::clone(&origin) as Arc<dyn Upstream>;
    let stage = Stage::before_at(upstream, Arc::clone(&origin), || SET_TIME.load(Ordering::SeqCst));
    let targets: Vec<String> = (0..40).map(|number| format!("/dists/sid/{number}")).collect();
    for target in &targets {
        origin.put(target, Original::new(&[FRESH, TAG], "one"));
        bytes(stage.get(target)).unwrap();
    }
    SET_TIME.fetch_add(7200, Ordering::SeqCst);
    *origin.is_down.lock().unwrap() = true;
    let before = origin.count();
    assert!(bytes(stage.get(&targets[0])).is_err());
    assert_eq!(origin.count() - before, 9, "eight at once, and the request itself");
    // A member that the pass did not come to is validated before it is used.
    *origin.is_down.lock().unwrap() = false;
    let before = origin.count();
    assert_eq!(bytes(stage.get(&targets[39])).unwrap(), b"one");
    assert!(origin.count() > before);
}

#[test]
fn a_part_that_is_missing_is_asked_for_once_at_an_origin_that_hangs() {
    let large = pattern(4 * MEBIBYTE, 6);
    let of = |cache_control: &'static str| {
        let stage = Stage::new();
        stage.origin.put("/big", Original::new(&[("Cache-Control", cache_control), TAG], large.clone()));
        let part = |first: usize| stage.ask("GET", "/big", &[("Range", &format!("bytes={first}-{}", first + 9))]);
        object(part(0));
        *stage.origin.is_down.lock().unwrap() = true;
        let before = stage.origin.count();
        assert!(matches!(part(3 * MEBIBYTE), Answer::Failed(_)), "{cache_control}");
        assert_eq!(stage.origin.count() - before, 1, "{cache_control}: a client waits once");
        let counts = stage.tier.counts();
        assert_eq!((counts.failed, counts.requests()), (1, 2), "{cache_control}");
        part(0)
    };
    object(of("max-age=3600"));
    // A stale response stands in as far as it is stored.
    object(of("max-age=0, stale-if-error=600"));
}

/// An origin that validates, and leaves requests for ranges unanswered.
struct WithoutRanges(Arc<Origin>, AtomicBool);

impl Upstream for WithoutRanges {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        if self.1.load(Ordering::SeqCst) && request.fields.has("range") {
            self.0.requests.lock().unwrap().push(request);
            return Box::pin(async { Err(UpstreamFailure { status: 504, reason: "it hangs".into() }) });
        }
        Upstream::fetch(&*self.0, request)
    }
}

#[test]
fn a_part_that_is_missing_behind_a_validation_is_asked_for_once() {
    let origin = Arc::new(Origin::default());
    let upstream = Arc::new(WithoutRanges(Arc::clone(&origin), AtomicBool::new(false)));
    let stage = Stage::before(Arc::clone(&upstream) as Arc<dyn Upstream>, Arc::clone(&origin));
    origin.put("/big", Original::new(&[("Cache-Control", "no-cache"), TAG], pattern(4 * MEBIBYTE, 7)));
    let part = |first: usize| stage.ask("GET", "/big", &[("Range", &format!("bytes={first}-{}", first + 9))]);
    object(part(0));
    upstream.1.store(true, Ordering::SeqCst);
    let before = origin.count();
    let Answer::Failed(failure) = part(3 * MEBIBYTE) else { panic!("nothing answers") };
    assert_eq!((failure.status, origin.count() - before), (504, 2), "the validation, and the part");
}

static OUTAGE_TIME: AtomicI64 = AtomicI64::new(1_700_000_000);

#[test]
fn what_is_fresh_of_a_set_stays_in_use_while_its_origin_is_away() {
    let origin = Arc::new(Origin::default());
    let upstream = Arc::clone(&origin) as Arc<dyn Upstream>;
    let stage = Stage::before_at(upstream, Arc::clone(&origin), || OUTAGE_TIME.load(Ordering::SeqCst));
    for (target, lifetime) in [("/dists/sid/InRelease", "max-age=60"), ("/dists/sid/Packages", "max-age=600")] {
        origin.put(target, Original::new(&[("Cache-Control", lifetime), TAG], "one"));
        bytes(stage.get(target)).unwrap();
    }
    *origin.is_down.lock().unwrap() = true;
    OUTAGE_TIME.fetch_add(100, Ordering::SeqCst);
    assert!(bytes(stage.get("/dists/sid/InRelease")).is_err(), "it is stale");
    assert_eq!(bytes(stage.get("/dists/sid/Packages")).unwrap(), b"one");
    // An update that comes with the origin is that of all.
    *origin.is_down.lock().unwrap() = false;
    for target in ["/dists/sid/InRelease", "/dists/sid/Packages"] {
        origin.put(target, Original::new(&[FRESH, ("ETag", "\"two\"")], "two"));
    }
    OUTAGE_TIME.fetch_add(1, Ordering::SeqCst);
    for target in ["/dists/sid/InRelease", "/dists/sid/Packages"] {
        assert_eq!(bytes(stage.get(target)).unwrap(), b"two");
    }
}
