//! Clusters: servers with the same mounts that fetch each part of an object from the origin once.
//!
//! Rendezvous hashing ranks the servers for each part of 16 MiB. The first one that answers has it
//! from the origin; the others get it from that server, and do not store it if it is a part of a
//! large object. A peer that does not answer is skipped, and its parts fall to the next ones in
//! their ranks, each to another one.
//!
//! After a change of the servers, the first one in the ranks may not have what the next one has: so
//! it asks that one for what it has stored before it asks the origin.
//!
//! A request from a peer proves that its sender knows the secret of the cluster, and when it was
//! sent, so that no client can have a server ask the origin for what a peer has. It leads to no
//! other request to a peer than the one for what that has stored, which leads to none at all: so
//! there are no loops.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use rand::random;
use thalweg_cache::Key;
use thalweg_caching::{FieldLines, StoredFields};
use tokio::time::Instant;

use crate::environment::{Clock, Log};
use crate::peer::Peer;
use crate::proof::{Proofs, Proven};
use crate::upstream::{BoxFuture, Upstream, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// Bytes of the parts that servers share an object out by: a whole number of fragments.
pub const PART_BYTES: u64 = 16 << 20;

/// The field of a request from a peer: its proof that it knows the secret.
pub const PEER_FIELD: &str = "Thalweg-Peer";

/// The time after a change of the servers in which each of them asks the next one for what it
/// lacks.
const SETTLING_TIME: Duration = Duration::from_secs(24 * 3600);

/// The warning about a peer whose proofs have no time.
const EARLIER_PEER: &str = "a server of the cluster has version 0.2, whose requests can be repeated by whoever reads \
                            them; the next version will refuse them. Upgrade all servers of the cluster";

type Fetched = Result<UpstreamResponse, UpstreamFailure>;

/// The place of a server in a cluster. The name of the mount, the secret, and the names of servers
/// are the same everywhere.
pub struct ClusterConfig<'c> {
    /// The name of the mount.
    pub mount: &'c str,
    /// The name of this server.
    pub own_name: &'c str,
    /// The secret that its servers share.
    pub secret: &'c [u8],
    /// The time, which may differ by a minute from that of other servers.
    pub clock: Clock,
    /// Takes messages for the log.
    pub log: Log,
}

/// A cluster, as an upstream in front of the origins of a mount.
pub struct Cluster {
    mount: Box<str>,
    own_name: Box<str>,
    proofs: Proofs,
    clock: Clock,
    log: Log,
    origin: Arc<dyn Upstream>,
    peers: RwLock<Arc<[Arc<Peer>]>>,
    changed: Mutex<Instant>,
}

/// The peers that are ranked before this server for a part, and those behind it.
struct Ranks {
    before: Vec<Arc<Peer>>,
    behind: Vec<Arc<Peer>>,
}

impl Cluster {
    /// A cluster of this server alone.
    pub fn new(config: ClusterConfig<'_>, origin: Arc<dyn Upstream>) -> Self {
        let ClusterConfig { mount, own_name, secret, clock, log } = config;
        let peers = RwLock::new(Arc::from([]));
        let changed = Mutex::new(Instant::now());
        let proofs = Proofs::new(mount, secret);
        Self { mount: mount.into(), own_name: own_name.into(), proofs, clock, log, origin, peers, changed }
    }

    /// Sets the other servers. Requests under way go on with those that they have asked.
    pub fn set_peers(&self, peers: Vec<Arc<Peer>>) {
        *self.peers.write().unwrap_or_else(PoisonError::into_inner) = peers.into();
        *self.changed.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// The other servers.
    pub fn peers(&self) -> Arc<[Arc<Peer>]> {
        Arc::clone(&self.peers.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The peers by their ranks for a part.
    fn ranks(&self, target: &str, part: u64) -> Ranks {
        let score = |name: &str| Key::of(format!("{}\0{target}\0{part}\0{name}", self.mount).as_bytes());
        let own = score(&self.own_name);
        let peers = self.peers();
        let mut scored: Vec<_> = peers.iter().map(|peer| (score(peer.name()), Arc::clone(peer))).collect();
        scored.sort_by_key(|(score, _)| *score);
        let at = scored.partition_point(|(score, _)| *score < own);
        let behind = scored.split_off(at).into_iter().map(|(_, peer)| peer).collect();
        Ranks { before: scored.into_iter().map(|(_, peer)| peer).collect(), behind }
    }

    /// Whether a server may lack what others have from the time before a change: of the list, or
    /// of a peer that was down.
    fn has_changed_lately(&self) -> bool {
        let changed = *self.changed.lock().unwrap_or_else(PoisonError::into_inner);
        let is_recent = |at: Instant| at.elapsed() < SETTLING_TIME;
        is_recent(changed) || self.peers().iter().any(|peer| peer.changed().is_some_and(is_recent))
    }

    async fn fetch_ranked(&self, request: UpstreamRequest, is_for_peer: bool) -> Fetched {
        let ranks = self.ranks(&request.target, first_byte(&request) / PART_BYTES);
        let before = if is_for_peer { &[][..] } else { &ranks.before };
        for peer in before {
            if !peer.is_up() {
                continue;
            }
            match peer.fetch(self.to_peer(&request)).await {
                // A peer's own failure to reach the origin is no answer: this server tries it by
                // itself.
                Ok(response) if matches!(response.status, 502..=504) => break,
                Ok(response) => return Ok(of_peer(response, peer, true)),
                // The peer is there, and has no answer to this request.
                Err(_) if peer.is_up() => break,
                Err(_) => {}
            }
        }
        if let Some(response) = self.fetch_stored(&request, &ranks).await {
            return Ok(response);
        }
        self.origin.fetch(request).await
    }

    /// A response that the next peer has stored, which is then stored here.
    async fn fetch_stored(&self, request: &UpstreamRequest, ranks: &Ranks) -> Option<UpstreamResponse> {
        let is_for_caches = request.fields.has("cache-control") || request.fields.has("pragma");
        if is_for_caches || !self.has_changed_lately() {
            return None;
        }
        let peer = ranks.behind.iter().find(|peer| peer.is_up())?;
        let mut asked = self.to_peer(request);
        asked.fields.push("Cache-Control", b"only-if-cached");
        let response = peer.fetch_soon(asked).await?;
        matches!(response.status, 200 | 206 | 304).then(|| of_peer(response, peer, false))
    }

    /// A request as it goes to a peer. If a connection breaks and it is sent a second time, the
    /// peer may refuse it, and this server asks the origin by itself.
    fn to_peer(&self, request: &UpstreamRequest) -> UpstreamRequest {
        let mut asked = request.clone();
        let proof = self.proofs.prove(&request.target, (self.clock)(), random());
        asked.fields.push(PEER_FIELD, proof.as_bytes());
        asked
    }
}

/// A response from a peer, which has it, or had it.
fn of_peer(response: UpstreamResponse, peer: &Arc<Peer>, is_peers: bool) -> UpstreamResponse {
    let content = Box::new(PeerContent { content: response.content, peer: Arc::clone(peer) });
    UpstreamResponse { is_peers, content, ..response }
}

impl Upstream for Cluster {
    fn fetch(&self, mut request: UpstreamRequest) -> BoxFuture<'_, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            let is_for_peer = request.fields.has(PEER_FIELD);
            request.fields.remove(PEER_FIELD);
            if &*request.method != "GET" {
                return self.origin.fetch(request).await;
            }
            self.fetch_ranked(request, is_for_peer).await
        })
    }

    fn fetch_wanted<'a>(
        &'a self,
        request: UpstreamRequest,
        is_wanted: &'a (dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<UpstreamResponse, UpstreamFailure>> {
        Box::pin(async move {
            let response = self.fetch(request.clone()).await?;
            if is_wanted(&response) {
                return Ok(response);
            }
            // Another server has another version, or only one of the origins has this one.
            let mut request = request;
            request.fields.remove(PEER_FIELD);
            self.origin.fetch_wanted(request, is_wanted).await
        })
    }

    fn part_bytes(&self) -> Option<u64> {
        Some(PART_BYTES)
    }

    fn refusal(&self, target: &str, fields: &StoredFields) -> Option<UpstreamFailure> {
        let refused = match self.proofs.check(fields.first(PEER_FIELD)?, target, (self.clock)()) {
            Ok(Proven::Once) => return None,
            Ok(Proven::Repeatable) => {
                (self.log)("peers of an earlier version", EARLIER_PEER);
                return None;
            }
            Err(refused) => refused,
        };
        let reason = format!("the request has the field {PEER_FIELD} of a peer, and {refused}");
        Some(UpstreamFailure { status: 502, reason: reason.into() })
    }
}

/// Content from a peer, which breaks off if the peer does.
struct PeerContent {
    content: Box<dyn UpstreamContent>,
    peer: Arc<Peer>,
}

impl UpstreamContent for PeerContent {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async {
            tokio::select! {
                biased;
                piece = self.content.next() => piece,
                () = self.peer.lost() => Some(Err(format!("the peer {} does not answer", self.peer.name()).into())),
            }
        })
    }
}

/// The first byte that a request asks for.
fn first_byte(request: &UpstreamRequest) -> u64 {
    let range = request.fields.first("range").and_then(|value| std::str::from_utf8(value).ok());
    let first = range.and_then(|range| range.strip_prefix("bytes=")?.split('-').next()?.parse().ok());
    first.unwrap_or(0)
}
