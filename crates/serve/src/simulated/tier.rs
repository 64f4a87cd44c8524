//! A simulated cache tier, which answers by a script, in virtual time.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tempfile::TempDir;
use thalweg_cache::medium::Allocation;
use thalweg_cache::{Body, Cache, Description, Key, Part, Settings, Shape};
use thalweg_caching::StoredFields;
use thalweg_reactor::sim::Sim;
use thalweg_sys::Instant;
use thalweg_tier::{
    Answer, Answered, Ask, BodyPiece, Content, Failure, Fragments, Object, Reader, Relay, Response, Wake,
};

use crate::config::{ListenAddr, MountOrigin, ServerConfig};
use crate::content::tier::CacheTier;

/// The kind of an answer, and the way in which its body comes.
#[derive(Clone)]
pub(super) struct Delivery {
    pub(super) kind: Kind,
    /// The answer comes so long after the request; `None`: never.
    pub(super) answer_after_ns: Option<u64>,
    pub(super) pieces: Vec<Vec<u8>>,
    /// The time between two pieces.
    pub(super) every_ns: u64,
    pub(super) ending: Ending,
}

#[derive(Clone, PartialEq)]
pub(super) enum Kind {
    /// An object in memory, which is fresh for so many seconds, and may be held for them.
    Held { fresh_s: i64, fields: Vec<(&'static str, String)> },
    /// An object in fragments in memory.
    Fragments,
    /// The same in fragments on a volume.
    Stored,
    /// A response of this status that goes through; its length is told or not.
    Relay { status: u16, tells_length: bool },
    /// There is no answer, with this status.
    Failed(u16),
}

/// How a body ends after its pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Complete,
    /// The origin fails.
    Failure,
    /// Nothing more comes.
    Silence,
}

/// Answers by a script. A target without a delivery gets a 404.
pub(super) struct ScriptedTier {
    deliveries: HashMap<&'static str, Delivery>,
    state: Mutex<State>,
    generation: AtomicU64,
    store: Store,
}

#[derive(Default)]
struct State {
    now: Instant,
    /// Requests, and the times at which they are answered.
    asked: Vec<(Instant, Ask, Answered)>,
    feeds: Vec<(Arc<Feed>, Instant, u64)>,
    /// All requests so far: methods, targets, and contents.
    seen: Vec<(String, String, Bytes)>,
    fields: Vec<StoredFields>,
    hits: (u64, u64),
}

/// The bytes of a body that come in over time.
struct Feed {
    bytes: Bytes,
    store: Option<(Store, Key)>,
    state: Mutex<FeedState>,
    ending: Ending,
}

struct FeedState {
    /// The ends of pieces to come, the next one last.
    to_come: Vec<usize>,
    available: usize,
    is_over: bool,
    wakes: Vec<Wake>,
}

/// A volume in a file.
#[derive(Clone)]
struct Store(Arc<(Cache, TempDir)>);

/// Bytes of a fragment of the volume; shorter ones would be read into memory.
const FRAGMENT_BYTES: usize = 100_000;

impl Store {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("volume");
        Cache::create(&path, 64 << 20, Allocation::Sparse, Shape { stripe_bytes: 1 << 20, ..Shape::default() })
            .unwrap();
        Self(Arc::new((Cache::open(&[path], Settings::default()).unwrap(), folder)))
    }

    fn append(&self, key: Key, bytes: &[u8]) {
        for (number, fragment) in bytes.chunks(FRAGMENT_BYTES).enumerate() {
            self.0.0.append(key, Part::fragment(number as u32), Description::default(), fragment).unwrap();
        }
        self.0.0.flush().unwrap();
    }
}

impl Delivery {
    /// An answer of this kind with pieces of 1000 bytes.
    pub(super) fn of(kind: Kind, pieces: usize, every_ns: u64, ending: Ending) -> Self {
        let pieces = (0..pieces).map(|number| vec![b'a' + (number % 26) as u8; 1000]).collect();
        Self { kind, answer_after_ns: Some(5_000_000), pieces, every_ns, ending }
    }

    pub(super) fn whole(&self) -> Vec<u8> {
        self.pieces.concat()
    }

    fn feed(&self, store: Option<(Store, Key)>) -> Arc<Feed> {
        let mut ends: Vec<usize> = self
            .pieces
            .iter()
            .scan(0, |end, piece| {
                *end += piece.len();
                Some(*end)
            })
            .collect();
        ends.reverse();
        let state = FeedState { to_come: ends, available: 0, is_over: false, wakes: Vec::new() };
        Arc::new(Feed { bytes: self.whole().into(), store, state: Mutex::new(state), ending: self.ending })
    }

    /// Bytes that the answer tells: more than there are if the body does not come to its end.
    fn told(&self) -> u64 {
        self.whole().len() as u64 + u64::from(self.ending != Ending::Complete)
    }
}

impl ScriptedTier {
    pub(super) fn new(deliveries: impl IntoIterator<Item = (&'static str, Delivery)>) -> Arc<Self> {
        Arc::new(Self {
            deliveries: deliveries.into_iter().collect(),
            state: Mutex::default(),
            generation: AtomicU64::new(7),
            store: Store::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Answers what is due, and wakes the driver. When more is due.
    pub(super) fn poll(&self, driver: &mut Sim, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        state.now = now;
        let (due, asked) = std::mem::take(&mut state.asked).into_iter().partition(|(at, ..)| *at <= now);
        state.asked = asked;
        let due: Vec<(Instant, Ask, Answered)> = due;
        let mut is_awake = !due.is_empty();
        for (_, ask, answered) in due {
            let (answer, feed) = self.answer(&ask, now);
            if let Some((feed, every_ns)) = feed {
                state.feeds.push((feed, now.plus_ns(every_ns.max(1)), every_ns.max(1)));
            }
            answered(answer);
        }
        for (feed, next, every_ns) in &mut state.feeds {
            while *next <= now && !feed.state.lock().unwrap().is_over {
                *next = next.plus_ns(*every_ns);
                is_awake |= feed.go_on();
            }
        }
        state.feeds.retain(|(feed, ..)| !feed.state.lock().unwrap().is_over);
        if is_awake {
            driver.wake();
        }
        let feeds = state.feeds.iter().map(|(_, next, _)| *next);
        feeds.chain(state.asked.iter().map(|(at, ..)| *at)).min()
    }

    fn answer(&self, ask: &Ask, now: Instant) -> (Answer, Option<(Arc<Feed>, u64)>) {
        let second = 4_000_000_000 + (now.as_ns() / super::SECOND_NS) as i64;
        let mut fields = StoredFields::default();
        fields.push("Date", b"Tue, 02 Oct 2096 07:06:40 GMT");
        let Some(delivery) = self.deliveries.get(&*ask.target) else {
            let content = Relay::Memory(Bytes::from_static(b"nothing"));
            return (Answer::Response(Response { status: 404, fields, length: Some(7), content }), None);
        };
        let key = Key::of(ask.target.as_bytes());
        let store = (delivery.kind == Kind::Stored).then(|| (self.store.clone(), key));
        if let Some((store, key)) = &store {
            store.append(*key, &delivery.whole());
        }
        let feed = delivery.feed(store);
        let fed = Some((Arc::clone(&feed), delivery.every_ns));
        let object = |fields, content, fresh_s| Object {
            fields: Arc::new(fields),
            length: delivery.told(),
            content,
            born_s: second,
            stale_s: second + fresh_s,
            cache_status: "thalweg;fwd=uri-miss;stored".into(),
            held_key: (fresh_s > 0).then_some(key),
        };
        match &delivery.kind {
            Kind::Held { fresh_s, fields: others } => {
                others.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
                (Answer::Object(object(fields, Content::Memory(delivery.whole().into()), *fresh_s)), None)
            }
            Kind::Fragments | Kind::Stored => {
                fields.push("Content-Type", b"application/octet-stream");
                fields.push("ETag", b"\"tag\"");
                (Answer::Object(object(fields, Content::Fragments(feed), 0)), fed)
            }
            Kind::Relay { status, tells_length } => {
                fields.push("X-Origin", b"1");
                fields.push("Cache-Status", b"thalweg;fwd=bypass");
                let length = tells_length.then(|| delivery.told());
                let content = Relay::Stream(feed.reader(0..delivery.told()));
                (Answer::Response(Response { status: *status, fields, length, content }), fed)
            }
            Kind::Failed(status) => {
                let (reason, cache_status) = ("the simulated origin refuses".into(), "thalweg;fwd=miss".into());
                (Answer::Failed(Failure { status: *status, reason, cache_status }), None)
            }
        }
    }

    /// Makes invalid all that loops hold.
    pub(super) fn invalidate(&self) {
        self.generation.fetch_add(1, Ordering::Release);
    }

    /// The requests so far: methods, targets, and contents.
    pub(super) fn seen(&self) -> Vec<(String, String, Bytes)> {
        self.state().seen.clone()
    }

    /// The fields of the last request.
    pub(super) fn last_fields(&self) -> StoredFields {
        self.state().fields.last().cloned().unwrap_or_default()
    }

    /// Requests that loops have answered by themselves, and bytes of their bodies.
    pub(super) fn hits(&self) -> (u64, u64) {
        self.state().hits
    }
}

impl CacheTier for ScriptedTier {
    fn ask(&self, ask: Ask, answered: Answered) {
        let mut state = self.state();
        state.seen.push((ask.method.to_string(), ask.target.to_string(), ask.content.clone()));
        state.fields.push(ask.fields.clone());
        let delivery = self.deliveries.get(&*ask.target);
        if let Some(ns) = delivery.map_or(Some(1), |delivery| delivery.answer_after_ns) {
            let at = state.now.plus_ns(ns);
            state.asked.push((at, ask, answered));
        }
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn count_held_hits(&self, mount: usize, requests: u64, bytes: u64) {
        assert_eq!(mount, 0);
        let mut state = self.state();
        state.hits = (state.hits.0 + requests, state.hits.1 + bytes);
    }

    fn touch(&self, _objects: &[Key]) {}

    fn descriptors(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        Vec::new()
    }
}

impl Feed {
    /// The next piece, or the end, comes in. Whether anybody has waited for it.
    fn go_on(&self) -> bool {
        let mut state = self.state.lock().unwrap();
        match state.to_come.pop() {
            Some(end) => state.available = end,
            None if self.ending == Ending::Silence => return false,
            None => state.is_over = true,
        }
        let wakes = std::mem::take(&mut state.wakes);
        drop(state);
        let is_waited_for = !wakes.is_empty();
        wakes.into_iter().for_each(|wake| wake());
        is_waited_for
    }
}

impl Fragments for Feed {
    fn reader(self: Arc<Self>, range: Range<u64>) -> Box<dyn Reader> {
        Box::new(FeedReader { feed: self, at: range.start as usize, end: range.end as usize })
    }
}

struct FeedReader {
    feed: Arc<Feed>,
    at: usize,
    end: usize,
}

impl Reader for FeedReader {
    fn next(&mut self, wake: Wake) -> BodyPiece {
        let mut state = self.feed.state.lock().unwrap();
        let end = state.available.min(self.end);
        if self.at == self.end {
            return BodyPiece::End;
        }
        if self.at >= end {
            return match (state.is_over, self.feed.ending) {
                (true, Ending::Failure) => BodyPiece::Failed("the simulated origin has failed".into()),
                (true, _) => BodyPiece::End,
                (false, _) => {
                    state.wakes.push(wake);
                    BodyPiece::Pending
                }
            };
        }
        let Some((store, key)) = &self.feed.store else {
            let bytes = self.feed.bytes.slice(self.at..end);
            self.at = end;
            return BodyPiece::Bytes(bytes);
        };
        let (number, start) = (self.at / FRAGMENT_BYTES, self.at % FRAGMENT_BYTES);
        let fragment = store.0.0.lookup(*key, Part::fragment(number as u32)).unwrap().unwrap();
        let end = (end - number * FRAGMENT_BYTES).min(FRAGMENT_BYTES);
        self.at += end - start;
        match fragment.body {
            Body::Memory(pieces) => BodyPiece::Bytes(pieces.joined().slice(start..end)),
            Body::File(location) => BodyPiece::File { location, range: start as u32..end as u32 },
        }
    }
}

/// A configuration whose only mount has an origin, by these methods.
pub(super) fn forwarding(methods: &[&str]) -> ServerConfig {
    let mut config = ServerConfig::new("", Vec::<ListenAddr>::new());
    let forwarding = &mut config.sites[0].mounts[0].forwarding;
    forwarding.origins = vec![MountOrigin::new("origin")];
    forwarding.methods = methods.iter().map(|&name| name.to_owned()).collect();
    config
}
