//! A mount of a running tier: what is counted of it, and asking its origins.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;
use thalweg_caching::GatewayName;
use thalweg_wire::Method;

use crate::ask::Ask;
use crate::counters::Counters;
use crate::mount::Mount;
use crate::upstream::{BoxFuture, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// The status of a request that has come back (RFC 5842, 7.2).
const LOOP_DETECTED: u16 = 508;

/// A mount with its counters, which mounts of the same name share one after the other.
pub(crate) struct Mounted {
    mount: Mount,
    pub(crate) counters: Arc<Counters>,
    /// Its name as a gateway, which no mount of another process has: a request may go through two
    /// mounts, but not through one twice.
    pub(crate) gateway: GatewayName,
}

impl Mounted {
    pub(crate) fn new(mount: Mount, counters: Arc<Counters>, gateway: GatewayName) -> Self {
        Self { mount, counters, gateway }
    }

    /// Makes a request one that goes on from here; why it does not, if it is refused.
    pub(crate) fn begin(&self, ask: &mut Ask) -> Option<UpstreamFailure> {
        if self.gateway.has_forwarded(&ask.fields) {
            Counters::add(&self.counters.failed, 1);
            let reason = "the request has come back: an origin of the mount leads to this server again".into();
            return Some(UpstreamFailure { status: LOOP_DETECTED, reason });
        }
        let refusal = self.mount.upstream.refusal(&ask.target, &ask.fields);
        Counters::add(&self.counters.failed, u64::from(refusal.is_some()));
        self.mount.request_fields.dropped.iter().for_each(|name| ask.fields.remove(name));
        self.gateway.forward_request(Method::from_name(&ask.method), ask.version, &mut ask.fields);
        refusal
    }

    /// Asks the origins, and counts requests, failures and bytes.
    pub(crate) async fn fetch(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        self.counted(self.mount.upstream.fetch(request).await)
    }

    /// The same, from the origin that has a response that is wanted, if one has.
    pub(crate) async fn fetch_wanted(
        &self,
        request: UpstreamRequest,
        is_wanted: &(dyn Fn(&UpstreamResponse) -> bool + Send + Sync),
    ) -> Result<UpstreamResponse, UpstreamFailure> {
        self.counted(self.mount.upstream.fetch_wanted(request, is_wanted).await)
    }

    fn counted(&self, fetched: Result<UpstreamResponse, UpstreamFailure>) -> Result<UpstreamResponse, UpstreamFailure> {
        let counters = &self.counters;
        let is_peers = fetched.as_ref().is_ok_and(|response| response.is_peers);
        Counters::add(if is_peers { &counters.peer_requests } else { &counters.origin_requests }, 1);
        let mut response = fetched.inspect_err(|_| Counters::add(&counters.origin_failures, 1))?;
        if let Some(version) = response.version {
            self.gateway.forward_response(version, &mut response.fields);
        }
        let content = Counted { content: response.content, counters: Arc::clone(counters), is_peers };
        response.content = Box::new(content);
        Ok(response)
    }
}

impl Deref for Mounted {
    type Target = Mount;

    fn deref(&self) -> &Mount {
        &self.mount
    }
}

/// Content whose bytes are counted as they come in.
struct Counted {
    content: Box<dyn UpstreamContent>,
    counters: Arc<Counters>,
    is_peers: bool,
}

impl Counted {
    fn counter(&self) -> &AtomicU64 {
        if self.is_peers { &self.counters.peer_bytes } else { &self.counters.origin_bytes }
    }
}

impl UpstreamContent for Counted {
    fn next(&mut self) -> BoxFuture<'_, Option<Result<Bytes, Arc<str>>>> {
        Box::pin(async move {
            let piece = self.content.next().await;
            if let Some(Ok(bytes)) = &piece {
                Counters::add(self.counter(), bytes.len() as u64);
            }
            piece
        })
    }
}
