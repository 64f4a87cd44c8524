//! An origin in memory, and a tier in front of it.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bytes::Bytes;
use tempfile::TempDir;
use thalweg_cache::{Cache, Settings, Shape, medium::Allocation};
use thalweg_caching::{FieldLines, Policy, StoredFields};
use thalweg_tier::{
    Answer, Ask, BodyPiece, BoxFuture, Clock, ConsistentRule, Content, Mount, Object, Reader, Relay, RequestFields,
    Tier, TierConfig, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse,
};
use thalweg_wire::Version;

/// No test waits longer for anything.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The time of all tests but those that set their own.
pub(crate) fn now() -> i64 {
    1_700_000_000
}

/// The time of a server that was started again.
pub(crate) fn later() -> i64 {
    now() + 100
}

static MOVED: AtomicI64 = AtomicI64::new(1_700_000_000);

/// The time of the test that moves it.
pub(crate) fn moved() -> i64 {
    MOVED.load(Ordering::SeqCst)
}

pub(crate) fn pass(seconds: i64) {
    MOVED.fetch_add(seconds, Ordering::SeqCst);
}

/// An object of the origin.
#[derive(Clone)]
pub(crate) struct Original {
    pub(crate) status: u16,
    pub(crate) lines: Vec<(&'static str, String)>,
    pub(crate) bytes: Bytes,
    /// Its length is not told.
    pub(crate) is_chunked: bool,
    /// Each of the first responses breaks after so many bytes.
    pub(crate) breaks: Vec<usize>,
}

impl Original {
    pub(crate) fn new(lines: &[(&'static str, &str)], bytes: impl Into<Bytes>) -> Self {
        let lines = lines.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        Self { status: 200, lines, bytes: bytes.into(), is_chunked: false, breaks: Vec::new() }
    }
}

/// An origin in memory.
#[derive(Default)]
pub(crate) struct Origin {
    pub(crate) objects: Mutex<HashMap<String, Original>>,
    /// The requests it got.
    pub(crate) requests: Mutex<Vec<UpstreamRequest>>,
    /// It answers nothing.
    pub(crate) is_down: Mutex<bool>,
    /// It sends everything, whatever conditions a request has.
    pub(crate) ignores_conditions: Mutex<bool>,
    /// Bodies come as far as this; `None` sends all.
    gate: Gate,
}

impl Origin {
    pub(crate) fn put(&self, target: &str, original: Original) {
        self.objects.lock().unwrap().insert(target.to_owned(), original);
    }

    pub(crate) fn count(&self) -> usize {
        self.requests.lock().unwrap().len()
    }

    /// The value of a field of the last request.
    pub(crate) fn last(&self, name: &str) -> Option<String> {
        let requests = self.requests.lock().unwrap();
        Some(String::from_utf8_lossy(requests.last()?.fields.first(name)?).into_owned())
    }

    /// Lets bodies come as far as this.
    pub(crate) fn hold_at(&self, bytes: Option<usize>) {
        *self.gate.0.lock().unwrap() = bytes;
        self.gate.1.notify_waiters();
    }

    fn answer(&self, request: &UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        self.requests.lock().unwrap().push(request.clone());
        if *self.is_down.lock().unwrap() {
            return Err(UpstreamFailure { status: 502, reason: "it is down".into() });
        }
        let mut objects = self.objects.lock().unwrap();
        let Some(original) = objects.get_mut(&*request.target) else {
            return Ok(response(404, StoredFields::default(), Some(0), Bytes::new(), None, &self.gate, 0));
        };
        let breaks_at = (!original.breaks.is_empty()).then(|| original.breaks.remove(0));
        let original = original.clone();
        drop(objects);
        let mut fields = StoredFields::default();
        original.lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let tag = fields.first("etag").map(<[u8]>::to_vec);
        let has_tag = |name: &str| request.fields.first(name).is_some_and(|value| Some(value) == tag.as_deref());
        if has_tag("if-none-match") && !*self.ignores_conditions.lock().unwrap() {
            return Ok(response(304, fields, None, Bytes::new(), None, &self.gate, 0));
        }
        let range = request.fields.first("range").map(|value| String::from_utf8_lossy(value).into_owned());
        let range = range.filter(|_| request.fields.first("if-range").is_none() || has_tag("if-range"));
        let all = original.bytes.len() as u64;
        if let Some(range) = range {
            let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
            let first: u64 = first.parse().unwrap();
            let last = last.parse().unwrap_or(all - 1).min(all - 1);
            fields.push("Content-Range", format!("bytes {first}-{last}/{all}").as_bytes());
            let bytes = original.bytes.slice(first as usize..=last as usize);
            return Ok(response(206, fields, Some(bytes.len() as u64), bytes, breaks_at, &self.gate, first as usize));
        }
        let length = (!original.is_chunked).then_some(all);
        if let Some(length) = length {
            fields.push("Content-Length", length.to_string().as_bytes());
        }
        let bytes = if &*request.method == "HEAD" { Bytes::new() } else { original.bytes.clone() };
        Ok(response(original.status, fields, length, bytes, breaks_at, &self.gate, 0))
    }
}

type Gate = Arc<(Mutex<Option<usize>>, tokio::sync::Notify)>;

struct Body {
    bytes: Bytes,
    breaks_at: Option<usize>,
    sent: usize,
    start: usize,
    gate: Gate,
}

fn response(
    status: u16,
    fields: StoredFields,
    length: Option<u64>,
    bytes: Bytes,
    breaks_at: Option<usize>,
    gate: &Gate,
    start: usize,
) -> UpstreamResponse {
    let content = Box::new(Body { bytes, breaks_at, sent: 0, start, gate: Arc::clone(gate) });
    UpstreamResponse { status, fields, length, content, version: Some(Version::Http2), is_peers: false }
}

impl UpstreamContent for Body {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async move {
            if self.breaks_at.is_some_and(|at| self.sent >= at) {
                return Some(Err("the connection broke".into()));
            }
            loop {
                let opened = self.gate.1.notified();
                let limit = self.gate.0.lock().unwrap().map_or(usize::MAX, |limit| limit);
                let room = limit.saturating_sub(self.start + self.sent);
                if self.bytes.is_empty() {
                    return None;
                }
                if room > 0 {
                    let most = self.breaks_at.map_or(usize::MAX, |at| at - self.sent);
                    // Odd sizes, so that pieces and fragments do not end together.
                    let count = self.bytes.len().min(room).min(most).min(61_111);
                    self.sent += count;
                    return Some(Ok(self.bytes.split_to(count)));
                }
                opened.await;
            }
        })
    }
}

impl Upstream for Origin {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move { self.answer(&request) })
    }
}

/// A tier in front of an origin.
pub(crate) struct Stage {
    pub(crate) origin: Arc<Origin>,
    pub(crate) tier: Arc<Tier>,
    folder: TempDir,
}

impl Stage {
    pub(crate) fn new() -> Self {
        Self::with(Policy::default(), 64 << 20)
    }

    pub(crate) fn with(policy: Policy, size: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("volume");
        Cache::create(&path, size, Allocation::Sparse, Shape::default()).unwrap();
        let origin = Arc::new(Origin::default());
        let tier = start(open(path), policy, origin.clone(), now);
        Self { origin, tier, folder }
    }

    /// One whose requests go to an upstream in front of the origin.
    pub(crate) fn before(upstream: Arc<dyn Upstream>, origin: Arc<Origin>) -> Self {
        Self::before_at(upstream, origin, now)
    }

    /// The same with this time.
    pub(crate) fn before_at(upstream: Arc<dyn Upstream>, origin: Arc<Origin>, clock: Clock) -> Self {
        let cache = memory_cache(128 << 20);
        let tier = start(Arc::new(cache), Policy::default(), upstream, clock);
        Self { origin, tier, folder: TempDir::new().unwrap() }
    }

    /// One with a time that moves.
    pub(crate) fn moving() -> Self {
        let cache = memory_cache(64 << 20);
        let origin = Arc::new(Origin::default());
        let tier = start(Arc::new(cache), Policy::default(), origin.clone(), moved);
        Self { origin, tier, folder: TempDir::new().unwrap() }
    }

    /// One with this store.
    pub(crate) fn over(cache: Arc<Cache>) -> Self {
        let origin = Arc::new(Origin::default());
        let tier = start(cache, Policy::default(), origin.clone(), now);
        Self { origin, tier, folder: TempDir::new().unwrap() }
    }

    /// Ends the tier, and starts another one with the same store.
    pub(crate) fn restart(self) -> Self {
        self.restart_at(now)
    }

    /// The same at another time.
    pub(crate) fn restart_at(self, clock: Clock) -> Self {
        let Self { origin, tier, folder } = self;
        Arc::into_inner(tier).expect("nobody else has it").end().unwrap();
        let tier = start(open(folder.path().join("volume")), Policy::default(), origin.clone(), clock);
        Self { origin, tier, folder }
    }

    pub(crate) fn ask(&self, method: &str, target: &str, lines: &[(&str, &str)]) -> Answer {
        self.asking(method, target, lines).recv_timeout(PATIENCE).expect("an answer")
    }

    pub(crate) fn asking(&self, method: &str, target: &str, lines: &[(&str, &str)]) -> mpsc::Receiver<Answer> {
        let mut fields = StoredFields::default();
        lines.iter().for_each(|(name, value)| fields.push(name, value.as_bytes()));
        let (sender, receiver) = mpsc::channel();
        let ask = Ask {
            mount: 0,
            method: method.into(),
            target: target.into(),
            authority: "a.example".into(),
            version: Version::Http11,
            fields,
            content: Bytes::new(),
        };
        self.tier.ask(ask, Box::new(move |answer| drop(sender.send(answer))));
        receiver
    }

    pub(crate) fn get(&self, target: &str) -> Answer {
        self.ask("GET", target, &[])
    }
}

fn open(volume: PathBuf) -> Arc<Cache> {
    Arc::new(Cache::open(&[volume], Settings::default()).unwrap())
}

fn start(cache: Arc<Cache>, policy: Policy, upstream: Arc<dyn Upstream>, clock: Clock) -> Arc<Tier> {
    let config = TierConfig { cache, threads: 2, name: "thalweg".into(), clock, log: Box::new(|_, _| {}) };
    let tier = Tier::start(config).unwrap();
    let consistent = vec![ConsistentRule::parse("dists/**").unwrap()];
    let request_fields = RequestFields { dropped: vec!["X-Dropped".into()], key: Vec::new() };
    let (name, path) = ("a.example/".into(), "/".into());
    tier.add_mount(Mount { name, path, policy, consistent, request_fields, upstream });
    Arc::new(tier)
}

#[track_caller]
pub(crate) fn object(answer: Answer) -> Object {
    match answer {
        Answer::Object(object) => object,
        Answer::Response(response) => panic!("a response with status {}", response.status),
        Answer::Failed(failure) => panic!("{failure:?}"),
    }
}

/// Reads to the end.
pub(crate) fn read(mut reader: Box<dyn Reader>) -> Result<Vec<u8>, String> {
    let mut all = Vec::new();
    let (sender, receiver) = mpsc::channel();
    loop {
        let sender = sender.clone();
        match reader.next(Box::new(move || sender.send(()).unwrap_or_default())) {
            BodyPiece::Bytes(bytes) => all.extend_from_slice(&bytes),
            BodyPiece::File { location, range } => {
                use std::os::unix::fs::FileExt as _;
                let mut bytes = vec![0; range.len()];
                location.file.read_exact_at(&mut bytes, location.offset + u64::from(range.start)).unwrap();
                all.extend_from_slice(&bytes);
            }
            BodyPiece::Pending => receiver.recv_timeout(PATIENCE).expect("a wake"),
            BodyPiece::End => return Ok(all),
            BodyPiece::Failed(reason) => return Err(reason.to_string()),
        }
    }
}

/// All bytes of an answer.
#[track_caller]
pub(crate) fn bytes(answer: Answer) -> Result<Vec<u8>, String> {
    match answer {
        Answer::Object(Object { content: Content::Memory(bytes), .. }) => Ok(bytes.to_vec()),
        Answer::Object(Object { content: Content::Fragments(object), length, .. }) => read(object.reader(0..length)),
        Answer::Response(response) => match response.content {
            Relay::Memory(bytes) => Ok(bytes.to_vec()),
            Relay::Stream(reader) => read(reader),
        },
        Answer::Failed(failure) => Err(failure.reason.to_string()),
    }
}

/// This cache's member of Cache-Status.
pub(crate) fn cache_status(answer: &Answer) -> String {
    match answer {
        Answer::Object(object) => object.cache_status.to_string(),
        Answer::Response(response) => {
            String::from_utf8_lossy(response.fields.first("cache-status").unwrap_or_default()).into_owned()
        }
        Answer::Failed(failure) => failure.cache_status.to_string(),
    }
}

/// Bytes that differ at each place.
pub(crate) fn pattern(length: usize, seed: u8) -> Bytes {
    (0..length).map(|at| ((at * 31 + at / 251) as u8) ^ seed).collect::<Vec<_>>().into()
}

/// A store of so many bytes whose file has no name any more, as that of a server without volumes.
pub(crate) fn memory_cache(bytes: u64) -> Cache {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("volume");
    Cache::create(&path, bytes, Allocation::Sparse, Shape::default()).unwrap();
    Cache::open(&[path], Settings::default()).unwrap()
}
