//! A mount of a running tier: what is counted of it, and asking its origins.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use bytes::Bytes;

use crate::counters::Counters;
use crate::mount::Mount;
use crate::upstream::{BoxFuture, UpstreamContent, UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// A mount with its counters, which mounts of the same name share one after the other.
pub(crate) struct Mounted {
    mount: Mount,
    pub(crate) counters: Arc<Counters>,
}

impl Mounted {
    pub(crate) fn new(mount: Mount, counters: Arc<Counters>) -> Self {
        Self { mount, counters }
    }

    /// Asks the origins, and counts requests, failures and bytes.
    pub(crate) async fn fetch(&self, request: UpstreamRequest) -> Result<UpstreamResponse, UpstreamFailure> {
        let counters = &self.counters;
        let fetched = self.mount.upstream.fetch(request).await;
        let is_peers = fetched.as_ref().is_ok_and(|response| response.is_peers);
        Counters::add(if is_peers { &counters.peer_requests } else { &counters.origin_requests }, 1);
        let mut response = fetched.inspect_err(|_| Counters::add(&counters.origin_failures, 1))?;
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
