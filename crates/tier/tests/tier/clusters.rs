//! Tiers that fetch from one another.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::support::{Origin, Original, PATIENCE, Stage, bytes, now, pattern, read};
use bytes::Bytes;
use thalweg_caching::{FieldLines, StoredFields};
use thalweg_tier::{
    Answer, Ask, BoxFuture, Cluster, ClusterConfig, Content, Key, Object, PART_BYTES, PEER_FIELD, Peer, Relay, Tier,
    Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse,
};
use thalweg_wire::Version;
use thalweg_wire::range::RangeSet;

const NODES: usize = 4;
const MEBIBYTE: usize = 1 << 20;

/// Another tier, as its server answers for it.
#[derive(Clone, Default)]
struct Other {
    tier: Arc<OnceLock<Arc<Tier>>>,
    is_dead: Arc<AtomicBool>,
    /// It answers nothing, and refuses nothing.
    hangs: Arc<AtomicBool>,
    /// Requests that came while it hung, but for questions whether it answers.
    unanswered: Arc<AtomicUsize>,
    /// The last request but for such questions.
    asked: Arc<Mutex<Option<Proven>>>,
}

/// A request with its proof.
struct Proven {
    target: Box<str>,
    proof: String,
}

struct Whole(Option<Bytes>);

impl UpstreamContent for Whole {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        let piece = self.0.take().filter(|bytes| !bytes.is_empty()).map(Ok);
        Box::pin(async move { piece })
    }
}

impl Upstream for Other {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            if self.is_dead.load(Ordering::Relaxed) {
                return Err(UpstreamFailure { status: 502, reason: "it is dead".into() });
            }
            let is_question = &*request.method == "OPTIONS";
            if self.hangs.load(Ordering::Relaxed) {
                self.unanswered.fetch_add(usize::from(!is_question), Ordering::Relaxed);
            }
            while self.hangs.load(Ordering::Relaxed) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            if is_question {
                let (status, fields, content) = (204, StoredFields::default(), Box::new(Whole(None)));
                return Ok(UpstreamResponse { status, fields, length: None, content, version: None, is_peers: false });
            }
            let proof = request.fields.first(PEER_FIELD).expect("it comes from a peer");
            let proof = String::from_utf8(proof.to_vec()).expect("it is text");
            *self.asked.lock().unwrap() = Some(Proven { target: request.target.clone(), proof });
            let tier = Arc::clone(self.tier.get().expect("all have begun"));
            let answered = tokio::task::spawn_blocking(move || answer(&tier, request));
            Ok(answered.await.expect("no panic"))
        })
    }
}

fn answer(tier: &Tier, request: UpstreamRequest) -> UpstreamResponse {
    let (sender, receiver) = std::sync::mpsc::channel();
    let range = request.fields.first("range").and_then(RangeSet::parse);
    let UpstreamRequest { method, target, fields, content } = request;
    let (authority, version) = ("a.example".into(), Version::Http11);
    let ask = Ask { mount: 0, method, target, authority, version, fields, content };
    tier.ask(ask, Box::new(move |answer| sender.send(answer).unwrap_or_default()));
    match receiver.recv().unwrap() {
        Answer::Object(Object { fields, length, content, .. }) => {
            let mut fields = StoredFields::clone(&fields);
            let range = range.and_then(|set| set.resolve(length).ok()?.as_slice().first().copied());
            let (first, end) = range.map_or((0, length), |range| (range.first, range.last + 1));
            let content = match content {
                Content::Memory(bytes) => bytes.slice(first as usize..end as usize),
                Content::Fragments(object) => read(object.reader(first..end)).unwrap().into(),
            };
            if range.is_some() {
                fields.push("Content-Range", format!("bytes {first}-{}/{length}", end - 1).as_bytes());
            }
            let (status, length) = (if range.is_some() { 206 } else { 200 }, Some(content.len() as u64));
            UpstreamResponse {
                status,
                fields,
                length,
                content: Box::new(Whole(Some(content))),
                version: None,
                is_peers: false,
            }
        }
        Answer::Response(response) => {
            let content = match response.content {
                Relay::Memory(bytes) => bytes,
                Relay::Stream(reader) => read(reader).unwrap().into(),
            };
            let (status, fields, length) = (response.status, response.fields, Some(content.len() as u64));
            UpstreamResponse {
                status,
                fields,
                length,
                content: Box::new(Whole(Some(content))),
                version: None,
                is_peers: false,
            }
        }
        Answer::Failed(failure) => {
            let (status, fields, content) = (failure.status, StoredFields::default(), Box::new(Whole(None)));
            UpstreamResponse { status, fields, length: None, content, version: None, is_peers: false }
        }
    }
}

/// A cluster whose log is a list.
fn cluster(own_name: &str, secret: &[u8], origin: &Arc<Origin>, messages: &Messages) -> Cluster {
    let messages = Arc::clone(messages);
    let log = Box::new(move |_: &'static str, message: &str| messages.lock().unwrap().push(message.to_owned()));
    let config = ClusterConfig { mount: "m", own_name, secret, clock: now, log };
    Cluster::new(config, Arc::clone(origin) as Arc<dyn Upstream>)
}

type Messages = Arc<Mutex<Vec<String>>>;

struct Nodes {
    origin: Arc<Origin>,
    messages: Messages,
    stages: Vec<Stage>,
    clusters: Vec<Arc<Cluster>>,
    others: Vec<Other>,
}

impl Nodes {
    /// Makes `members` the list of each server.
    fn set(&self, members: &[usize]) {
        for (own, cluster) in self.clusters.iter().enumerate() {
            let known = cluster.peers();
            let peers = members.iter().filter(|number| **number != own).map(|number| {
                let name = format!("node{number}");
                let other = Arc::new(self.others[*number].clone());
                let known = known.iter().find(|peer| peer.name() == name).cloned();
                known.unwrap_or_else(|| Arc::new(Peer::new(name, other.clone(), other)))
            });
            cluster.set_peers(peers.collect());
        }
    }
}

fn nodes() -> Nodes {
    let origin = Arc::new(Origin::default());
    let others: Vec<Other> = (0..NODES).map(|_| Other::default()).collect();
    let messages = Messages::default();
    let clusters: Vec<_> =
        (0..NODES).map(|own| Arc::new(cluster(&format!("node{own}"), b"secret", &origin, &messages))).collect();
    let stage = |cluster: &Arc<Cluster>| Stage::before(Arc::clone(cluster) as Arc<dyn Upstream>, Arc::clone(&origin));
    let stages: Vec<Stage> = clusters.iter().map(stage).collect();
    for (other, stage) in others.iter().zip(&stages) {
        assert!(other.tier.set(Arc::clone(&stage.tier)).is_ok());
    }
    let nodes = Nodes { origin, messages, stages, clusters, others };
    nodes.set(&[0, 1, 2, 3]);
    nodes
}

const LINES: [(&str, &str); 2] = [("Cache-Control", "max-age=3600"), ("ETag", "\"one\"")];

#[test]
fn each_part_is_fetched_from_the_origin_once() {
    let nodes = nodes();
    let content = pattern(40 * MEBIBYTE, 1);
    nodes.origin.put("/big", Original::new(&LINES, content.clone()));
    for _ in 0..2 {
        for stage in &nodes.stages {
            assert!(bytes(stage.get("/big")).unwrap() == content);
        }
    }
    assert_eq!(nodes.origin.count(), 3, "as many as there are parts");
    for number in 0..20 {
        let target = format!("/small{number}");
        nodes.origin.put(&target, Original::new(&LINES, "hello"));
        for stage in &nodes.stages {
            assert_eq!(bytes(stage.get(&target)).unwrap(), b"hello");
        }
    }
    assert_eq!(nodes.origin.count(), 23);
}

#[test]
fn nodes_that_want_one_another_s_parts_at_once_do_not_wait_in_a_circle() {
    const PARTS: usize = 3;
    let nodes = nodes();
    for object in 0..6 {
        let (target, content) = (format!("/big{object}"), pattern(PARTS * PART_BYTES as usize, object));
        nodes.origin.put(&target, Original::new(&LINES, content.clone()));
        let before = nodes.origin.count();
        let range = |part: usize| part * PART_BYTES as usize..(part + 1) * PART_BYTES as usize;
        std::thread::scope(|scope| {
            for (stage, part) in nodes.stages.iter().flat_map(|stage| (0..PARTS).map(move |part| (stage, part))) {
                let (target, expected) = (&target, content.slice(range(part)));
                scope.spawn(move || {
                    let value = format!("bytes={}-{}", range(part).start, range(part).end - 1);
                    let Answer::Object(object) = stage.ask("GET", target, &[("Range", &value)]) else { panic!() };
                    let Content::Fragments(fragments) = object.content else { panic!() };
                    let range = range(part).start as u64..range(part).end as u64;
                    assert!(read(fragments.reader(range)).unwrap() == expected);
                });
            }
        });
        assert_eq!(nodes.origin.count() - before, PARTS, "{target}");
    }
}

#[test]
fn what_a_node_has_of_a_part_is_not_fetched_again() {
    let nodes = nodes();
    let content = pattern(PART_BYTES as usize, 3);
    nodes.origin.put("/big", Original::new(&LINES, content.clone()));
    for (first, last) in [(5 * MEBIBYTE, 6 * MEBIBYTE), (9 * MEBIBYTE + 7, 10 * MEBIBYTE), (0, content.len() - 1)] {
        let value = format!("bytes={first}-{last}");
        let Answer::Object(object) = nodes.stages[0].ask("GET", "/big", &[("Range", &value)]) else { panic!() };
        let Content::Fragments(fragments) = object.content else { panic!() };
        let read = read(fragments.reader(first as u64..last as u64 + 1)).unwrap();
        assert!(read == content[first..=last], "{value}");
    }
    let requests = nodes.origin.requests.lock().unwrap();
    let range = |request: &UpstreamRequest| {
        let range = String::from_utf8_lossy(request.fields.first("range").unwrap()).into_owned();
        let (first, last) = range.trim_start_matches("bytes=").split_once('-').unwrap();
        last.parse::<usize>().unwrap() + 1 - first.parse::<usize>().unwrap()
    };
    assert_eq!(requests.iter().map(range).sum::<usize>(), content.len(), "each byte once");
}

#[test]
fn a_dead_node_s_parts_fall_to_the_others() {
    let nodes = nodes();
    nodes.others[0].is_dead.store(true, Ordering::Relaxed);
    for number in 0..20 {
        let target = format!("/small{number}");
        nodes.origin.put(&target, Original::new(&LINES, "hello"));
        for stage in &nodes.stages[1..] {
            assert_eq!(bytes(stage.get(&target)).unwrap(), b"hello");
        }
    }
    assert_eq!(nodes.origin.count(), 20);
}

#[test]
fn a_node_that_hangs_is_skipped_and_comes_back() {
    let nodes = nodes();
    let get = |target: &str| {
        nodes.origin.put(target, Original::new(&LINES, "hello"));
        assert_eq!(bytes(nodes.stages[1].get(target)).unwrap(), b"hello");
    };
    nodes.others[0].hangs.store(true, Ordering::Relaxed);
    (0..100).for_each(|number| get(&format!("/small{number}")));
    // The first requests of each node find out, and the others do not ask it.
    let unanswered = nodes.others[0].unanswered.load(Ordering::Relaxed);
    assert!((1..=5 * NODES).contains(&unanswered), "{unanswered} of 100");
    assert_eq!(nodes.stages[0].tier.counts().origin_requests, 0);
    nodes.others[0].hangs.store(false, Ordering::Relaxed);
    let began = Instant::now();
    for number in 0.. {
        get(&format!("/later{number}"));
        if nodes.stages[0].tier.counts().origin_requests > 0 {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "it does not come back");
        std::thread::yield_now();
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_leaves_a_node_that_hangs_within_a_second() {
    let origin = Arc::new(Origin::default());
    let cluster = cluster("node1", b"secret", &origin, &Messages::default());
    let hanging = Arc::new(Other::default());
    hanging.hangs.store(true, Ordering::Relaxed);
    cluster.set_peers(vec![Arc::new(Peer::new("node0", hanging.clone(), hanging))]);
    let mut times = Vec::new();
    for number in 0..40 {
        let target = format!("/small{number}");
        origin.put(&target, Original::new(&LINES, "hello"));
        let (fields, content) = (StoredFields::default(), Bytes::new());
        let began = tokio::time::Instant::now();
        let request = UpstreamRequest { method: "GET".into(), target: target.into(), fields, content };
        assert_eq!(cluster.fetch(request).await.unwrap().status, 200);
        times.push(began.elapsed());
    }
    // The clock of timers has milliseconds.
    assert!(times.iter().all(|time| *time <= Duration::from_millis(1010)), "{times:?}");
    let slow = times.iter().filter(|time| !time.is_zero()).count();
    assert!((1..=3).contains(&slow), "{times:?}");
}

#[test]
fn a_node_that_joins_gets_its_share() {
    let nodes = nodes();
    nodes.set(&[0, 1, 2]);
    let share = |first: usize| {
        for number in first..first + 40 {
            let target = format!("/small{number}");
            nodes.origin.put(&target, Original::new(&LINES, "hello"));
            assert_eq!(bytes(nodes.stages[0].get(&target)).unwrap(), b"hello");
        }
        nodes.stages[3].tier.counts().origin_requests
    };
    assert_eq!(share(0), 0);
    nodes.set(&[0, 1, 2, 3]);
    let requests = share(40);
    assert!((2..=20).contains(&requests), "{requests} of 40");
    assert_eq!(nodes.origin.count(), 80);
}

#[test]
fn a_client_cannot_pass_for_a_peer() {
    let nodes = nodes();
    nodes.origin.put("/a", Original::new(&LINES, "hello"));
    for proof in ["", "node1", "00000000000000000000000000000000"] {
        let Answer::Failed(failure) = nodes.stages[0].ask("GET", "/a", &[(PEER_FIELD, proof)]) else { panic!() };
        assert!(failure.status == 502 && failure.reason.contains("token"), "{failure:?}");
    }
    assert_eq!(nodes.origin.count(), 0);
    let other = cluster("node9", b"other", &nodes.origin, &nodes.messages);
    let asking = Arc::new(nodes.others[0].clone());
    other.set_peers(vec![Arc::new(Peer::new("node0", asking.clone(), asking))]);
    let stage = Stage::before(Arc::new(other), Arc::clone(&nodes.origin));
    // It gets nothing from the others, and does without.
    for number in 0..8 {
        let target = format!("/b{number}");
        nodes.origin.put(&target, Original::new(&LINES, "hello"));
        assert_eq!(bytes(stage.get(&target)).unwrap(), b"hello");
    }
    assert_eq!(nodes.origin.count(), 8);
}

#[test]
fn a_request_of_a_peer_that_somebody_repeats_is_refused() {
    let nodes = nodes();
    // The objects of the first node, for which the others ask it.
    let asked = || nodes.others[0].asked.lock().unwrap().take();
    let names = (0..).map(|number| format!("/small{number}"));
    let Proven { target, proof } = names
        .take(100)
        .find_map(|target| {
            nodes.origin.put(&target, Original::new(&LINES, "hello"));
            assert_eq!(bytes(nodes.stages[1].get(&target)).unwrap(), b"hello");
            asked()
        })
        .expect("the first node has a share");
    let requests = nodes.origin.count();
    let Answer::Failed(failure) = nodes.stages[0].ask("GET", &target, &[(PEER_FIELD, &proof)]) else { panic!() };
    assert!(failure.status == 502 && failure.reason.contains("has come before"), "{failure:?}");
    assert_eq!((nodes.origin.count(), nodes.messages.lock().unwrap().len()), (requests, 0));
    assert_eq!(nodes.stages[0].tier.counts().failed, 1, "a refused request is one, too");
}

#[test]
fn a_peer_of_an_earlier_version_is_answered_and_warned_of() {
    let nodes = nodes();
    nodes.origin.put("/a", Original::new(&LINES, "hello"));
    let proof = Key::of(&[&Key::of(b"secret").0[..], b"m\0/a"].concat()).to_string();
    assert_eq!(bytes(nodes.stages[0].ask("GET", "/a", &[(PEER_FIELD, &proof)])).unwrap(), b"hello");
    let messages = nodes.messages.lock().unwrap();
    assert!(matches!(&messages[..], [message] if message.contains("Upgrade all servers")), "{messages:?}");
}

#[test]
fn what_is_not_stored_reaches_the_client_whole() {
    let nodes = nodes();
    let content = pattern(20 * MEBIBYTE, 2);
    nodes.origin.put("/private", Original::new(&[("Cache-Control", "private")], content.clone()));
    for stage in &nodes.stages {
        assert!(bytes(stage.get("/private")).unwrap() == content);
        let Answer::Response(part) = stage.ask("GET", "/private", &[("Range", "bytes=5-9")]) else { panic!() };
        assert_eq!(part.fields.first("content-range"), Some(&b"bytes 5-9/20971520"[..]));
    }
}
