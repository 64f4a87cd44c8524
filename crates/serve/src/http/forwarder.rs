//! A loop's end of the cache tier: requests are asked, answers are brought to the requests that
//! wait for them, and objects are held to answer others at once.
//!
//! A request may be answered by a held object if it is a GET or HEAD and says nothing to caches.
//! The contents of requests are gathered here, bounded for the whole loop, since a client could
//! have much kept for it. Which status and fields a response has is the responder's.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use thalweg_caching::{PreviousHop, StoredFields};
use thalweg_sys::SocketId;
use thalweg_tier::{Ask, Key, PEER_FIELD};
use thalweg_wire::{Fields, Method, RequestHead};

use crate::catalog::forwarding::ForwardingMount;
use crate::content::held::{HeldBounds, HeldObjects};
use crate::content::object::Object;
use crate::content::tier::{Arrival, CacheTier, Inbox, TierAnswer};

/// Most bytes of contents of requests in a loop, those that are being forwarded among them.
const CONTENT_BYTES_MAX: usize = 64 << 20;

/// Failures that are kept until the loop reports them.
const FAILURES_MAX: usize = 8;

/// Fields of a request that are between its client and this server.
const NOT_FORWARDED: [&str; 3] = ["Content-Length", "Expect", "Host"];

/// A loop's end of the cache tier.
pub(crate) struct Forwarder {
    tier: Arc<dyn CacheTier>,
    inbox: Arc<Inbox>,
    held: HeldObjects,
    /// Bodies in memory of up to so many bytes are kept with their heads.
    small_bytes_max: usize,
    /// The target of the present request, and the number of its mount behind it.
    key: Vec<u8>,
    /// The answer that the present request has waited for, and its content.
    arrived: Option<Box<TierAnswer>>,
    content: Option<Content>,
    /// Bytes of contents.
    content_bytes: Arc<AtomicUsize>,
    /// Requests that were answered by held objects, and bytes of bodies in memory that were sent,
    /// by the mount's number in the tier.
    hits: Vec<(u64, u64)>,
    has_hits: bool,
    failures: Vec<String>,
}

/// The content of a request.
pub(crate) struct Content {
    bytes: Vec<u8>,
    bytes_max: usize,
    all: Arc<AtomicUsize>,
}

impl Forwarder {
    /// One that holds nothing.
    pub(crate) fn new(tier: Arc<dyn CacheTier>, inbox: Arc<Inbox>, bounds: HeldBounds, mounts: usize) -> Self {
        Self {
            tier,
            inbox,
            held: HeldObjects::new(bounds.entries_max, bounds.bytes_max),
            small_bytes_max: bounds.small_bytes_max,
            key: Vec::new(),
            arrived: None,
            content: None,
            content_bytes: Arc::default(),
            hits: vec![(0, 0); mounts],
            has_hits: false,
            failures: Vec::new(),
        }
    }

    /// The inbox that answers come to.
    pub(crate) fn inbox(&self) -> &Arc<Inbox> {
        &self.inbox
    }

    /// Bodies in memory of up to so many bytes are kept with their heads.
    pub(crate) fn small_bytes_max(&self) -> usize {
        self.small_bytes_max
    }

    /// Brings what the request that is answered next has waited for, or nothing.
    pub(crate) fn bring(&mut self, arrived: Option<Box<TierAnswer>>, content: Option<Content>) {
        (self.arrived, self.content) = (arrived, content);
    }

    /// Whether the present request has waited for an answer.
    pub(crate) fn has_answer(&self) -> bool {
        self.arrived.is_some()
    }

    /// The answer that the present request has waited for.
    pub(crate) fn take_answer(&mut self) -> Option<Box<TierAnswer>> {
        self.arrived.take()
    }

    /// Begins with a request for a mount: its path, if that was not rewritten, its canonical name,
    /// and its query.
    #[inline]
    pub(crate) fn begin(
        &mut self,
        (mount, number): (&ForwardingMount, u16),
        path: Option<&[u8]>,
        (name, query): (&[u8], Option<&[u8]>),
    ) {
        self.key.clear();
        mount.push_target(path, name, query, &mut self.key);
        self.key.extend_from_slice(&number.to_be_bytes());
    }

    /// The target of the present request.
    pub(crate) fn target(&self) -> &[u8] {
        &self.key[..self.key.len() - size_of::<u16>()]
    }

    /// The held object that answers the present request, if there is one.
    #[inline]
    pub(crate) fn held(&mut self, request: &RequestHead<'_>, second: i64) -> Option<&mut Object> {
        let may_be_held = matches!(request.method, Method::Get | Method::Head) && !speaks_to_caches(request.fields);
        if !may_be_held {
            return None;
        }
        self.held.find(&self.key, second, self.tier.generation())
    }

    /// Holds an object for others, which was asked for at a generation.
    pub(crate) fn hold(&mut self, key: Key, mut object: Object, generation: u64, second: i64) {
        let Some(stale_s) = object.as_forwarded().map(|forwarded| forwarded.stale_s) else { return };
        if stale_s > second {
            object.hold();
            self.held.insert(&self.key, (key, object), (generation, stale_s));
        }
    }

    /// Counts a request that a held object has answered.
    #[inline]
    pub(crate) fn count_hit(&mut self, mount: &ForwardingMount, bytes: u64) {
        if let Some((requests, sent)) = self.hits.get_mut(mount.index) {
            *requests += 1;
            *sent += bytes;
            self.has_hits = true;
        }
    }

    /// Counts bytes in memory that were sent of an object that was asked for.
    pub(crate) fn count_bytes(&mut self, mount: &ForwardingMount, bytes: u64) {
        if let Some((_, sent)) = self.hits.get_mut(mount.index).filter(|_| bytes > 0) {
            *sent += bytes;
            self.has_hits = true;
        }
    }

    /// Reports to the tier what was counted, and the held objects that were used.
    #[inline]
    pub(crate) fn report_hits(&mut self) {
        let Self { held, tier, .. } = self;
        held.report_used(|objects| tier.touch(objects));
        if !mem::take(&mut self.has_hits) {
            return;
        }
        for (mount, (requests, bytes)) in self.hits.iter_mut().enumerate().filter(|(_, counts)| **counts != (0, 0)) {
            self.tier.count_held_hits(mount, mem::take(requests), mem::take(bytes));
        }
    }

    /// Asks the tier for the present request. The answer comes to the stream of the connection.
    pub(crate) fn ask(
        &mut self,
        request: &RequestHead<'_>,
        mount: &ForwardingMount,
        hop: Option<PreviousHop>,
        (socket, stream): (SocketId, u32),
    ) {
        let content = self.content.take();
        let mut fields = StoredFields::end_to_end(&request.fields, &NOT_FORWARDED);
        if let Some(hop) = hop {
            hop.name_client(&mut fields);
        }
        let ask = Ask {
            mount: mount.index,
            method: request.method.name().into(),
            target: String::from_utf8_lossy(self.target()).into(),
            authority: request.host().unwrap_or_default().to_ascii_lowercase().into(),
            version: request.version,
            fields,
            content: content.map_or_else(Bytes::new, Bytes::from_owner),
        };
        let (inbox, generation) = (Arc::clone(&self.inbox), self.tier.generation());
        self.tier.ask(
            ask,
            Box::new(move |answer| {
                inbox.leave(Arrival { socket, stream, answer: Box::new(TierAnswer { answer, generation }) });
            }),
        );
    }

    /// Room for the content of a request, of at most so many bytes.
    pub(crate) fn begin_content(&self, bytes_max: usize) -> Content {
        Content { bytes: Vec::new(), bytes_max, all: Arc::clone(&self.content_bytes) }
    }

    /// Notes that there was no answer for the present request, to be reported.
    pub(crate) fn note_failure(&mut self, status: u16, reason: &str) {
        if self.failures.len() < FAILURES_MAX {
            self.failures.push(format!("{status} for {}: {reason}", self.target().escape_ascii()));
        }
    }

    /// Takes what was noted.
    pub(crate) fn take_failures(&mut self) -> Vec<String> {
        mem::take(&mut self.failures)
    }
}

impl Content {
    /// Adds bytes.
    ///
    /// # Errors
    /// The status of the refusal: there are too many, or too many of all requests.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Result<(), u16> {
        if self.bytes.len() + bytes.len() > self.bytes_max {
            return Err(413);
        }
        if self.all.fetch_add(bytes.len(), Ordering::Relaxed) + bytes.len() > CONTENT_BYTES_MAX {
            self.all.fetch_sub(bytes.len(), Ordering::Relaxed);
            return Err(503);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Content {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes.len(), Ordering::Relaxed);
    }
}

/// Whether a request has directives for caches, credentials, or the proof of a peer, which a cache
/// has to look at.
#[inline]
fn speaks_to_caches(fields: Fields<'_>) -> bool {
    fields.iter().any(|(name, _)| match (name.len(), name.as_bytes()[0] | 0x20) {
        (6, b'p') => name.eq_ignore_ascii_case("pragma"),
        (13, b'c') => name.eq_ignore_ascii_case("cache-control"),
        (13, b'a') => name.eq_ignore_ascii_case("authorization"),
        (12, b't') => name.eq_ignore_ascii_case(PEER_FIELD),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_bounded_each_and_together() {
        let all: Arc<AtomicUsize> = Arc::default();
        let content = |bytes_max| Content { bytes: Vec::new(), bytes_max, all: Arc::clone(&all) };
        let mut first = content(10);
        assert_eq!((first.push(&[1; 6]), first.push(&[1; 5]), first.push(&[1; 4])), (Ok(()), Err(413), Ok(())));
        let mut large = content(usize::MAX);
        large.push(&vec![1; CONTENT_BYTES_MAX - 10]).unwrap();
        assert_eq!(content(10).push(&[1]), Err(503));
        drop(Bytes::from_owner(first));
        assert_eq!(content(10).push(&[1; 10]), Ok(()));
        drop(large);
        assert_eq!(all.load(Ordering::Relaxed), 0);
    }
}
