//! Storing a response that has come: in the head, in fragments, or not at all.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use rand::random;
use thalweg_cache::{Description, Key, Part};
use thalweg_caching::{
    CacheRequest, ContentRange, ForwardReason, Outcome, Sharing, Storability, StoredFields, StoredResponse, Version,
    cache_groups, goes_on_unread, sharing, storability,
};
use thalweg_wire::Method;

use crate::answer::{Answer, Content, Relay, Response};
use crate::collapsing::{FetchOutcome, FetchOwner, Put, SharedResponse, release};
use crate::counters::OutcomeCounter;
use crate::excerpt::Excerpt;
use crate::exchange::Exchange;
use crate::fetching::Received;
use crate::head::{Body, GROUPS_MAX, Head, NAME_BYTES_MAX, Variant};
use crate::mount::group_of;
use crate::purge::{Latest, PurgeKind};
use crate::relay::channel;
use crate::store::FRAGMENT_BYTES;
use crate::upstream::{UpstreamContent, UpstreamResponse};

/// A body up to this size is stored in the head.
pub(crate) const INLINE_BYTES_MAX: u64 = 32 << 10;
/// The longest object that is stored: as many fragments as have numbers.
const OBJECT_BYTES_MAX: u64 = (1 << 48) - 1;

/// Content that came while there was room for it.
enum Collected {
    Whole(Bytes),
    /// There is more.
    Beginning(Bytes),
    CutOff(Bytes, Arc<str>),
}

impl Exchange {
    /// Answers with a response of the origin, which is stored if it may be. `None` if it is a part
    /// that the client did not ask for, and cannot be stored: the origin has to be asked as the
    /// client does.
    pub(super) async fn take(&self, received: Received, owner: &mut Option<FetchOwner>) -> Option<Answer> {
        let decided = self.storability(&received);
        let is_storable = self.has_room_in_head(&received);
        match decided {
            Storability::Complete if is_storable => {
                self.shared.uncacheable().forget(self.key);
                Some(self.store_whole(received, owner).await)
            }
            Storability::Partial(range) if is_storable && self.can_store_part(&received, range) => {
                self.shared.uncacheable().forget(self.key);
                Some(self.store_part(received, range, owner).await)
            }
            Storability::Partial(range) if is_storable && self.is_answered_by_excerpt(range) => {
                self.shared.uncacheable().forget(self.key);
                Some(self.store_excerpt(received, range, owner).await)
            }
            _ if received.has_own_range && received.response.status == 206 => {
                // Each range would be asked for twice.
                self.note_uncacheable();
                release(owner, FetchOutcome::Alone);
                None
            }
            _ if received.has_own_range && received.response.status == 416 && self.wants_several() => {
                // The first range lies behind the end, and another one may not.
                release(owner, FetchOutcome::Alone);
                None
            }
            _ => Some(self.pass(received, owner).await),
        }
    }

    fn storability(&self, received: &Received) -> Storability {
        let Received { response, times, .. } = received;
        // A HEAD has been asked as GET.
        let method = if self.method() == Method::Head { Method::Get } else { self.method() };
        let request = CacheRequest { method, ..self.request() };
        storability(&self.mount.policy, &request, &self.uri, response.status, &response.fields, *times)
    }

    /// Whether the head of the object can have the response.
    fn has_room_in_head(&self, received: &Received) -> bool {
        self.name.len() <= NAME_BYTES_MAX && cache_groups(&received.response.fields).len() <= GROUPS_MAX
    }

    /// Notes that the next requests do not wait for one another.
    fn note_uncacheable(&self) {
        self.shared.uncacheable().remember(self.key, self.now(), self.mount.policy.uncacheable_seconds);
    }

    /// Answers with a response that is not stored, and releases the requests that wait for it.
    pub(super) async fn pass(&self, received: Received, owner: &mut Option<FetchOwner>) -> Answer {
        let Received { response, times, .. } = &received;
        let sharing = match self.storability(&received) {
            Storability::Refused(refusal) => {
                sharing(&self.mount.policy, refusal, response.status, &response.fields, *times)
            }
            // Too long for the head, for instance.
            _ => Sharing::Alone { is_lasting: true },
        };
        match sharing {
            Sharing::Alone { is_lasting } => {
                if is_lasting {
                    self.note_uncacheable();
                }
                release(owner, FetchOutcome::Alone);
                self.relay(received, None)
            }
            Sharing::Waiting => self.share(received, owner).await,
        }
    }

    /// Answers with a response that is not stored, and those that wait for it, too, if it is short.
    async fn share(&self, mut received: Received, owner: &mut Option<FetchOwner>) -> Answer {
        let is_waited_for = owner.as_mut().is_some_and(FetchOwner::close);
        let length = received.response.length;
        if !is_waited_for || length.is_some_and(|length| length > INLINE_BYTES_MAX) {
            release(owner, FetchOutcome::Alone);
            return self.relay(received, None);
        }
        match collect(&mut *received.response.content, length, INLINE_BYTES_MAX).await {
            Collected::Whole(bytes) => {
                let UpstreamResponse { status, fields, .. } = &received.response;
                let response = SharedResponse::new(*status, fields, bytes.clone(), &self.ask.fields);
                let groups = cache_groups(fields);
                let is_purged = self.is_purged_since(received.purges, &groups).await;
                let outcome = if is_purged { FetchOutcome::Stored } else { FetchOutcome::Response(Arc::new(response)) };
                release(owner, outcome);
                self.relay(received, Some(bytes))
            }
            Collected::Beginning(bytes) => {
                release(owner, FetchOutcome::Alone);
                self.relay(received, Some(bytes))
            }
            Collected::CutOff(bytes, reason) => {
                release(owner, FetchOutcome::Alone);
                self.cut_off(received, bytes, reason).await
            }
        }
    }

    /// Whether the object was purged since there were so many purges: requests that wait may have
    /// come after that.
    async fn is_purged_since(&self, purges: u64, groups: &[String]) -> bool {
        let own = groups.iter().map(|group| group_of(&self.mount.name, group));
        let groups: Vec<u32> = own.chain([self.mount.group()]).collect();
        let latest = self.shared.purges.hold().await;
        latest.since(purges, (self.key, &self.name, &groups)).is_some()
    }

    /// Answers with the response that another request got.
    pub(super) fn answer_shared(&self, response: &SharedResponse, reason: ForwardReason) -> Answer {
        self.note.set(|counters| &counters.collapsed);
        let outcome = Outcome::Forward { reason, status: None, stored: false, collapsed: true };
        let fields = self.relayed_fields(&response.fields, outcome);
        let length = Some(response.bytes.len() as u64);
        let is_sent = self.method() != Method::Head;
        let bytes = if is_sent { response.bytes.clone() } else { Bytes::new() };
        Answer::Response(Response { status: response.status, fields, length, content: Relay::Memory(bytes) })
    }

    /// Bytes of the longest object that is stored: a longer one would push out all others, and
    /// itself. Servers of a cluster share an object out.
    fn object_bytes_max(&self) -> u64 {
        let is_shared_out = self.mount.upstream.part_bytes().is_some();
        if is_shared_out { OBJECT_BYTES_MAX } else { self.shared.object_bytes_max.min(OBJECT_BYTES_MAX) }
    }

    /// A part is stored if it begins with a fragment, as those do that the tier asks for, and if
    /// more parts of the same version can be asked for.
    fn can_store_part(&self, received: &Received, range: ContentRange) -> bool {
        let response = &received.response;
        let version = Version::of(&response.fields, range.complete_bytes);
        let is_long = range.complete_bytes > INLINE_BYTES_MAX && range.complete_bytes <= self.object_bytes_max();
        let end = range.range.last + 1;
        let is_aligned = range.range.first.is_multiple_of(FRAGMENT_BYTES)
            && (end.is_multiple_of(FRAGMENT_BYTES) || end == range.complete_bytes);
        version.is_some() && is_long && is_aligned
    }

    /// A short part is stored as it is if it has what the client wants.
    fn is_answered_by_excerpt(&self, range: ContentRange) -> bool {
        let (first, end) = self.wanted_in_all(range.complete_bytes);
        let part = range.range;
        part.length() <= INLINE_BYTES_MAX && part.first <= first && end <= part.last + 1
    }

    async fn store_whole(&self, received: Received, owner: &mut Option<FetchOwner>) -> Answer {
        match received.response.length {
            Some(length) if length > INLINE_BYTES_MAX => {
                if received.response.status != 200 || length > self.object_bytes_max() {
                    return self.pass_too_long(received, None, owner);
                }
                self.store_fragments(received, (length, 0, length), owner).await
            }
            length => self.store_collected(received, length, owner).await,
        }
    }

    /// Answers with a response that is too long to be stored.
    fn pass_too_long(&self, received: Received, first: Option<Bytes>, owner: &mut Option<FetchOwner>) -> Answer {
        self.note_uncacheable();
        release(owner, FetchOutcome::Alone);
        self.relay(received, first)
    }

    async fn store_part(&self, mut received: Received, range: ContentRange, owner: &mut Option<FetchOwner>) -> Answer {
        received.response.status = 200;
        received.response.fields.remove("content-range");
        let (first, end) = (range.range.first, range.range.last + 1);
        self.store_fragments(received, (range.complete_bytes, first, end), owner).await
    }

    /// Stores a short part as it is.
    async fn store_excerpt(
        &self,
        mut received: Received,
        range: ContentRange,
        owner: &mut Option<FetchOwner>,
    ) -> Answer {
        let length = Some(range.range.length());
        let bytes = match collect(&mut *received.response.content, length, INLINE_BYTES_MAX).await {
            Collected::Whole(bytes) if bytes.len() as u64 == range.range.length() => bytes,
            Collected::Whole(bytes) | Collected::Beginning(bytes) => {
                return self.cut_off(received, bytes, "the origin sends another part than it says".into()).await;
            }
            Collected::CutOff(bytes, reason) => return self.cut_off(received, bytes, reason).await,
        };
        received.response.status = 200;
        received.response.fields.remove("content-range");
        let excerpt = Arc::new(Excerpt { first: range.range.first, bytes, length: range.complete_bytes });
        let (variant, fields) = self.variant(&received, Body::Excerpt(Arc::clone(&excerpt)));
        let put = self.put(Arc::clone(&variant), received.purges).await;
        release(owner, FetchOutcome::of_storing(put));
        let outcome = self.outcome_of(&received.reason, put);
        self.answer_with(&variant, Some(fields), Content::Fragments(excerpt.for_mount(&self.mount)), outcome)
    }

    /// Stores content of known length while it comes: the bytes from `first` up to `end`.
    async fn store_fragments(
        &self,
        received: Received,
        (length, first, end): (u64, u64, u64),
        owner: &mut Option<FetchOwner>,
    ) -> Answer {
        let purges = received.purges;
        let (mut variant, fields) = self.variant(&received, Body::Fragments { key: self.new_key(), length });
        let _change = self.entry.change.lock().await;
        let latest = self.shared.purges.hold().await;
        let head = self.current_head(&latest).await;
        if let Some(known) = head.same_version(&variant) {
            Arc::make_mut(&mut variant).body = known.clone();
        }
        let Body::Fragments { key, .. } = variant.body else { unreachable!("it was made so") };
        let object = self.fragmented(&variant, key);
        if received.is_range_refused {
            object.note_no_parts();
        }
        object.begin(first, end, received.response);
        let put = self.put_into((head, &latest), Arc::clone(&variant), purges).await;
        release(owner, FetchOutcome::of_storing(put));
        let outcome = self.outcome_of(&received.reason, put);
        self.answer_with(&variant, Some(fields), Content::Fragments(object), outcome)
    }

    /// Stores content that is short, or whose length is not known, when it has come.
    async fn store_collected(
        &self,
        mut received: Received,
        length: Option<u64>,
        owner: &mut Option<FetchOwner>,
    ) -> Answer {
        let status = received.response.status;
        let most = if status == 200 { FRAGMENT_BYTES } else { INLINE_BYTES_MAX };
        let collected = collect(&mut *received.response.content, length, most).await;
        let bytes = match collected {
            Collected::Whole(bytes) => bytes,
            Collected::Beginning(bytes) if status == 200 => return self.store_unknown(received, bytes, owner),
            Collected::Beginning(bytes) => return self.pass_too_long(received, Some(bytes), owner),
            Collected::CutOff(bytes, reason) => return self.cut_off(received, bytes, reason).await,
        };
        let length = bytes.len() as u64;
        let body = if length <= INLINE_BYTES_MAX {
            Body::Inline(bytes.clone())
        } else {
            let key = self.new_key();
            let description = self.description(length);
            let appended = self.shared.store.append(key, Part::fragment(0), description, bytes.clone()).await;
            if !self.shared.stored(appended) {
                release(owner, FetchOutcome::Alone);
                let (variant, fields) = self.variant(&received, Body::Inline(bytes.clone()));
                let outcome = self.outcome_of(&received.reason, Put::Refused);
                return self.answer_with(&variant, Some(fields), Content::Memory(bytes), outcome);
            }
            Body::Fragments { key, length }
        };
        let (variant, fields) = self.variant(&received, body);
        let put = self.put(Arc::clone(&variant), received.purges).await;
        release(owner, FetchOutcome::of_storing(put));
        let outcome = self.outcome_of(&received.reason, put);
        self.answer_with(&variant, Some(fields), Content::Memory(bytes), outcome)
    }

    /// Relays content whose length is not known, and stores it when it has come to its end.
    fn store_unknown(&self, mut received: Received, first: Bytes, owner: &mut Option<FetchOwner>) -> Answer {
        self.note.set(|counters| &counters.misses);
        // Others would wait for its end.
        self.note_uncacheable();
        release(owner, FetchOutcome::Alone);
        let fields = self.relayed_fields(&received.response.fields, self.outcome(&received.reason, true));
        let (writer, reader) = channel(&self.mount.counters);
        let this = self.clone();
        self.shared.runtime.spawn(async move {
            let key = this.new_key();
            let mut parts =
                Parts { exchange: &this, key, number: 0, pending: BytesMut::new(), length: 0, is_stored: true };
            parts.take(&first).await;
            // The client may have gone.
            let _ = writer.send(Ok(first)).await;
            while let Some(piece) = received.response.content.next().await {
                if let Ok(bytes) = &piece {
                    parts.take(bytes).await;
                }
                let is_cut_off = piece.is_err();
                let is_read = writer.send(piece).await.is_ok();
                let is_wanted = is_read || (parts.is_stored && this.goes_on_unread(parts.length));
                if is_cut_off || !is_wanted {
                    return;
                }
            }
            if let Some(length) = parts.finish().await {
                let (variant, _) = this.variant(&received, Body::Fragments { key, length });
                this.put(variant, received.purges).await;
                this.shared.uncacheable().forget(this.key);
            }
        });
        Answer::Response(Response { status: 200, fields, length: None, content: Relay::Stream(Box::new(reader)) })
    }

    /// Whether content of unknown length goes on to be stored without its client. A validation
    /// beside has none.
    fn goes_on_unread(&self, bytes_come: u64) -> bool {
        self.is_beside || goes_on_unread(&self.mount.policy, bytes_come, None)
    }

    /// Answers with content that was cut off, in the same way.
    async fn cut_off(&self, received: Received, bytes: Bytes, reason: Arc<str>) -> Answer {
        self.note.set(|counters| &counters.passed);
        let outcome = self.outcome(&received.reason, false);
        let fields = self.relayed_fields(&received.response.fields, outcome);
        let (writer, reader) = channel(&self.mount.counters);
        if !bytes.is_empty() {
            let _ = writer.send(Ok(bytes)).await;
        }
        let _ = writer.send(Err(reason)).await;
        let (status, length) = (received.response.status, received.response.length);
        Answer::Response(Response { status, fields, length, content: Relay::Stream(Box::new(reader)) })
    }

    /// Puts a response into the head of its object, which was asked for when there had been so many
    /// purges.
    async fn put(&self, variant: Arc<Variant>, purges: u64) -> Put {
        let _change = self.entry.change.lock().await;
        let latest = self.shared.purges.hold().await;
        let head = self.current_head(&latest).await;
        self.put_into((head, &latest), variant, purges).await
    }

    /// The stored head, as far as no purge that is under way covers it.
    async fn current_head(&self, latest: &Latest<'_>) -> Head {
        let mut head = self.shared.load(&self.mount, self.key, &self.name).await;
        match latest.under_way((self.key, &self.name, &head.groups(&self.mount).unwrap_or_default())) {
            Some(PurgeKind::Hard) => head = Head::default(),
            Some(PurgeKind::Soft) => head.invalidate_before(i64::MAX),
            None => {}
        }
        head
    }

    /// Puts a response into this head. One that was purged since it was asked for is not stored, or
    /// is stale from the start. The change of the entry is held.
    async fn put_into(&self, (mut head, latest): (Head, &Latest<'_>), mut variant: Arc<Variant>, purges: u64) -> Put {
        let own_groups = Head { variants: vec![Arc::clone(&variant)] }.groups(&self.mount).unwrap_or_default();
        match latest.since(purges, (self.key, &self.name, &own_groups)) {
            Some(PurgeKind::Hard) => return Put::Purged,
            Some(PurgeKind::Soft) => variant = Arc::new(variant.invalidated()),
            None => {}
        }
        let is_replaced = !head.variants.is_empty();
        if let Some(set) = self.set() {
            if head.variants.iter().any(|known| known.has_same_content(&variant)) {
                set.join(&self.ask.target);
            } else {
                set.join_changed(&self.ask.target);
            }
        }
        head.put(variant);
        let Some(groups) = head.groups(&self.mount) else { return Put::Refused };
        let is_saved = self.shared.save(self.key, &self.name, &head, groups).await;
        self.entry.note_change();
        if is_replaced {
            self.shared.advance_generation();
        }
        if is_saved { Put::Stored } else { Put::Refused }
    }

    /// A response as it is stored, and its fields for the client that it answers.
    fn variant(&self, received: &Received, body: Body) -> (Arc<Variant>, StoredFields) {
        let Received { response, times, .. } = received;
        let (policy, fields) = (&self.mount.policy, &response.fields);
        let stored = StoredResponse::new(policy, &self.ask.fields, response.status, fields, *times);
        let mut sent = StoredFields::end_to_end(fields, &[]);
        if !thalweg_caching::FieldLines::has(&sent, "date") {
            let date = thalweg_caching::FieldLines::first(&stored.fields, "date").map(<[u8]>::to_vec);
            sent.push("Date", &date.unwrap_or_default());
        }
        (Arc::new(Variant::new(stored, body)), sent)
    }

    /// The outcome of a response that was to be stored, which is noted.
    fn outcome_of(&self, reason: &ForwardReason, put: Put) -> Outcome {
        let is_stored = put == Put::Stored;
        let (misses, passed): (OutcomeCounter, OutcomeCounter) =
            (|counters| &counters.misses, |counters| &counters.passed);
        self.note.set(if is_stored { misses } else { passed });
        self.outcome(reason, is_stored)
    }

    pub(super) fn outcome(&self, reason: &ForwardReason, stored: bool) -> Outcome {
        Outcome::Forward { reason: *reason, status: None, stored, collapsed: false }
    }

    fn description(&self, length: u64) -> Description {
        Description { version: 0, object_bytes: length, groups: [self.mount.group(), 0, 0, 0] }
    }

    /// A key for the fragments of one response. No other has it, so that no fragment is ever taken
    /// for another version's.
    fn new_key(&self) -> Key {
        Key::of(format!("{}\0{:x}", self.name, random::<u128>()).as_bytes())
    }
}

/// Content that is stored while it is relayed.
struct Parts<'e> {
    exchange: &'e Exchange,
    key: Key,
    number: u32,
    pending: BytesMut,
    length: u64,
    /// Whether the store took everything so far.
    is_stored: bool,
}

impl Parts<'_> {
    async fn take(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        self.is_stored &= self.length <= self.exchange.object_bytes_max();
        while self.is_stored && !bytes.is_empty() {
            let room = FRAGMENT_BYTES as usize - self.pending.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.pending.extend_from_slice(now);
            bytes = later;
            if self.pending.len() as u64 == FRAGMENT_BYTES {
                self.append().await;
            }
        }
    }

    /// Bytes of the whole, if all of it was stored.
    async fn finish(mut self) -> Option<u64> {
        if !self.pending.is_empty() {
            self.append().await;
        }
        self.is_stored.then_some(self.length)
    }

    async fn append(&mut self) {
        let (shared, bytes) = (&self.exchange.shared, self.pending.split().freeze());
        let description = self.exchange.description(0);
        let appended = shared.store.append(self.key, Part::fragment(self.number), description, bytes).await;
        self.is_stored = shared.stored(appended);
        self.number += 1;
    }
}

/// Reads content until its end, or until there are more than `most` bytes.
async fn collect(content: &mut dyn UpstreamContent, length: Option<u64>, most: u64) -> Collected {
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    loop {
        match content.next().await {
            Some(Ok(piece)) => {
                bytes += piece.len() as u64;
                pieces.push(piece);
                if bytes > most {
                    return Collected::Beginning(joined(pieces));
                }
            }
            Some(Err(reason)) => return Collected::CutOff(joined(pieces), reason),
            None if length.is_some_and(|length| length != bytes) => {
                return Collected::CutOff(joined(pieces), "the origin ended it early".into());
            }
            None => return Collected::Whole(joined(pieces)),
        }
    }
}

/// All bytes in memory of their own: a piece keeps the whole buffer that it was read into.
fn joined(pieces: Vec<Bytes>) -> Bytes {
    pieces.concat().into()
}
