//! Clusters: servers with the same mounts that fetch each part of an object from the origin once.
//!
//! Rendezvous hashing ranks the nodes for each part of 16 MiB. The first one that answers has it
//! from the origin; the others get it from that node, and do not store it if it is a part of a
//! large object. A node that does not answer is skipped, and its parts fall to the next ones in
//! their ranks, each to another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use thalweg_cache::Key;
use thalweg_caching::FieldLines;

use crate::shared::Clock;
use crate::upstream::{BoxFuture, Upstream, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// Bytes of the parts that nodes share an object out by: a whole number of fragments.
pub const PART_BYTES: u64 = 16 << 20;

/// The field by which a node tells another one its name. A request with it goes to the origin.
pub const PEER_FIELD: &str = "Thalweg-Peer";

/// The seconds for which a node that did not answer is skipped at first, and at most.
const SKIPPED_S: (i64, i64) = (1, 30);

/// A cluster, as an upstream in front of the origins of a mount.
pub struct Cluster {
    /// The mount's name, the same on all nodes.
    pub mount: Box<str>,
    /// All nodes, in whatever order.
    pub nodes: Vec<Node>,
    /// The mount's origins.
    pub origin: Arc<dyn Upstream>,
    /// The time.
    pub clock: Clock,
}

/// A node of a cluster.
pub struct Node {
    name: Box<str>,
    /// `None` for this node itself.
    upstream: Option<Arc<dyn Upstream>>,
    skipped_until: AtomicI64,
    failures: AtomicU32,
}

impl Node {
    /// A node; `upstream` sends requests to its mount, and is `None` for this node itself. Names
    /// are the same on all nodes.
    pub fn new(name: impl Into<Box<str>>, upstream: Option<Arc<dyn Upstream>>) -> Self {
        Self { name: name.into(), upstream, skipped_until: AtomicI64::new(0), failures: AtomicU32::new(0) }
    }

    fn note(&self, is_up: bool, now: i64) {
        if is_up {
            self.failures.store(0, Ordering::Relaxed);
            return;
        }
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(5);
        self.skipped_until.store(now + (SKIPPED_S.0 << failures).min(SKIPPED_S.1), Ordering::Relaxed);
    }
}

impl Cluster {
    /// The nodes for a part, the first one first.
    fn ranked(&self, target: &str, part: u64) -> Vec<&Node> {
        let score = |node: &&Node| Key::of(format!("{}\0{target}\0{part}\0{}", self.mount, node.name).as_bytes());
        let mut nodes: Vec<&Node> = self.nodes.iter().collect();
        nodes.sort_by_cached_key(score);
        nodes
    }

    fn own_name(&self) -> &str {
        self.nodes.iter().find(|node| node.upstream.is_none()).map_or("", |node| &node.name)
    }

    async fn fetch_ranked(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        let part = first_byte(&request) / PART_BYTES;
        for node in self.ranked(&request.target, part) {
            let Some(upstream) = &node.upstream else { break };
            let now = (self.clock)();
            if node.skipped_until.load(Ordering::Relaxed) > now {
                continue;
            }
            let mut asked = request.clone();
            asked.fields.push(PEER_FIELD, self.own_name().as_bytes());
            // A peer's own failure to reach the origin is no answer: this node tries it by itself.
            match upstream.fetch(asked).await {
                Ok(response) if !matches!(response.status, 502..=504) => {
                    node.note(true, now);
                    return Ok(UpstreamResponse { is_peers: true, ..response });
                }
                Ok(_) => break,
                Err(_) => node.note(false, (self.clock)()),
            }
        }
        self.origin.fetch(request).await
    }
}

impl Upstream for Cluster {
    fn fetch(&self, mut request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            let is_for_peer = request.fields.has(PEER_FIELD);
            request.fields.remove(PEER_FIELD);
            if is_for_peer || &*request.method != "GET" {
                return self.origin.fetch(request).await;
            }
            self.fetch_ranked(request).await
        })
    }

    fn part_bytes(&self) -> Option<u64> {
        Some(PART_BYTES)
    }
}

/// The first byte that a request asks for.
fn first_byte(request: &UpstreamRequest) -> u64 {
    let range = request.fields.first("range").and_then(|value| std::str::from_utf8(value).ok());
    let first = range.and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
    first.unwrap_or(0)
}
