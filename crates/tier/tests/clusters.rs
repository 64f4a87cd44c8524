//! Tiers that fetch from one another.

#![forbid(unsafe_code)]

mod support;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use support::{Origin, Original, Stage, bytes, now, pattern, read};
use thalweg_caching::{FieldLines, StoredFields};
use thalweg_tier::{
    Answer, Ask, BoxFuture, Cluster, Content, Node, Object, Relay, Tier, Upstream, UpstreamContent, UpstreamFailure,
    UpstreamRequest, UpstreamResponse,
};
use thalweg_wire::range::RangeSet;

const NODES: usize = 4;
const MEBIBYTE: usize = 1 << 20;

/// Another tier, as its server answers for it.
#[derive(Clone, Default)]
struct Peer {
    tier: Arc<OnceLock<Arc<Tier>>>,
    is_dead: Arc<AtomicBool>,
}

struct Whole(Option<Bytes>);

impl UpstreamContent for Whole {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        let piece = self.0.take().filter(|bytes| !bytes.is_empty()).map(Ok);
        Box::pin(async move { piece })
    }
}

impl Upstream for Peer {
    fn fetch(&self, request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            if self.is_dead.load(Ordering::Relaxed) {
                return Err(UpstreamFailure { status: 502, reason: "it is dead".into() });
            }
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
    let ask = Ask { mount: 0, method, target, authority: "a.example".into(), fields, content };
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
            UpstreamResponse { status, fields, length, content: Box::new(Whole(Some(content))), is_peers: false }
        }
        Answer::Response(response) => {
            let content = match response.content {
                Relay::Memory(bytes) => bytes,
                Relay::Stream(reader) => read(reader).unwrap().into(),
            };
            let (status, fields, length) = (response.status, response.fields, Some(content.len() as u64));
            UpstreamResponse { status, fields, length, content: Box::new(Whole(Some(content))), is_peers: false }
        }
        Answer::Failed(failure) => panic!("{failure:?}"),
    }
}

struct Nodes {
    origin: Arc<Origin>,
    stages: Vec<Stage>,
    peers: Vec<Peer>,
}

fn nodes() -> Nodes {
    let origin = Arc::new(Origin::default());
    let peers = vec![Peer::default(); NODES].into_iter().map(|_| Peer::default()).collect::<Vec<_>>();
    let stages: Vec<Stage> = (0..NODES)
        .map(|own| {
            let node = |number: usize| {
                let upstream = (number != own).then(|| Arc::new(peers[number].clone()) as Arc<dyn Upstream>);
                Node::new(format!("node{number}"), upstream)
            };
            let upstream = Cluster {
                mount: "m".into(),
                nodes: (0..NODES).map(node).collect(),
                origin: Arc::clone(&origin) as Arc<dyn Upstream>,
                clock: now,
            };
            Stage::before(Arc::new(upstream), Arc::clone(&origin))
        })
        .collect();
    for (peer, stage) in peers.iter().zip(&stages) {
        assert!(peer.tier.set(Arc::clone(&stage.tier)).is_ok());
    }
    Nodes { origin, stages, peers }
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
fn a_dead_node_s_parts_fall_to_the_others() {
    let nodes = nodes();
    nodes.peers[0].is_dead.store(true, Ordering::Relaxed);
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
