//! One request and its answer: what the store has, whether the origin is asked, and by whom.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_cache::Key;
use thalweg_caching::{
    Asking, CacheRequest, CacheStatus, Decision, Failure as OriginFailure, Fallback, FieldLines, ForwardReason,
    Outcome, RequestDirectives, StoredFields, Validation, Vary, decide,
};
use thalweg_wire::Method;
use thalweg_wire::range::{ByteRange, RangeSet, RangeSpec};

use crate::answer::{Answer, Content, Failure, Object, Relay, Response};
use crate::ask::Ask;
use crate::cluster::PEER_FIELD;
use crate::collapsing::{FetchKey, FetchOutcome, FetchOwner, Role};
use crate::consistent::Set;
use crate::counters::{OutcomeCounter, OutcomeNote};
use crate::entries::InUse;
use crate::fill::{FillFailure, number_of};
use crate::fragmented::{FragmentSource, Fragmented, Source, without_conditions};
use crate::head::{Body, Head, Variant};
use crate::mounted::Mounted;
use crate::shared::Shared;
use crate::store::FRAGMENT_BYTES;
use crate::upstream::UpstreamFailure;

/// A request under way.
#[derive(Clone)]
pub(crate) struct Exchange {
    pub(super) shared: Arc<Shared>,
    pub(super) mount: Arc<Mounted>,
    pub(super) ask: Ask,
    pub(super) name: Box<str>,
    pub(super) key: Key,
    pub(super) uri: Box<str>,
    pub(super) directives: RequestDirectives,
    pub(super) arrived: i64,
    pub(super) entry: InUse,
    /// The outcome for the client, if one waits for the answer.
    pub(super) note: Arc<OutcomeNote>,
    /// No client waits for its answer.
    pub(super) is_beside: bool,
}

/// A question to the origin.
pub(crate) struct Question {
    pub(crate) validation: Option<Validation>,
    pub(crate) reason: ForwardReason,
    pub(crate) fallback: Option<Fallback>,
    /// It is asked as the client does, with its conditions and range.
    pub(crate) is_clients: bool,
}

impl Question {
    pub(crate) fn new(validation: Option<Validation>, reason: ForwardReason, fallback: Option<Fallback>) -> Self {
        Self { validation, reason, fallback, is_clients: false }
    }
}

/// The fetches of others that a request has waited for.
#[derive(Default)]
struct Waited {
    last: Option<FetchKey>,
    /// How often in a row it waited for the same one.
    times: u32,
    /// The last one was of no use to it.
    is_in_vain: bool,
}

impl Waited {
    fn note(&mut self, key: FetchKey) {
        self.times = if self.last == Some(key) { self.times + 1 } else { 1 };
        self.last = Some(key);
    }

    /// Whether it asks the origin side by side with others.
    fn is_enough(&self) -> bool {
        self.is_in_vain || self.times >= WAITS_MAX
    }
}

/// A request waits so often for fetches of the same kind: the first may have been asked for before
/// the request came, the second was not.
const WAITS_MAX: u32 = 2;

/// The way of a request after a fetch that it has waited for.
enum Released {
    Answered(Answer),
    /// It looks at the store again.
    Looks,
    /// It asks the origin side by side with others.
    Alone,
}

/// Why a stored response does not answer.
pub(super) enum Unusable {
    /// The store has lost the bytes that are wanted, and the origin has others.
    Lost,
    /// The origin was asked for them, and gave no response.
    Unanswered(UpstreamFailure),
}

impl From<FillFailure> for Unusable {
    fn from(failure: FillFailure) -> Self {
        match failure {
            FillFailure::Unanswered(failure) => Self::Unanswered(failure),
            FillFailure::Unfit(_) => Self::Lost,
        }
    }
}

/// The consequence of a decision.
enum Step {
    Answer(Answer),
    Ask(Question),
}

impl Exchange {
    pub(crate) fn new(shared: Arc<Shared>, mount: Arc<Mounted>, ask: Ask) -> Self {
        let name = mount.object_name(&ask.target).into_boxed_str();
        let key = Key::of(name.as_bytes());
        let uri = mount.uri(&ask.authority, &ask.target).into_boxed_str();
        let directives = RequestDirectives::of(&ask.fields);
        let arrived = (shared.clock)();
        let entry = shared.entries.enter(key);
        let note = Arc::default();
        Self { shared, mount, ask, name, key, uri, directives, arrived, entry, note, is_beside: false }
    }

    pub(super) fn now(&self) -> i64 {
        (self.shared.clock)()
    }

    pub(super) fn method(&self) -> Method<'_> {
        Method::from_name(&self.ask.method)
    }

    pub(super) fn request(&self) -> CacheRequest<'_, StoredFields> {
        CacheRequest { method: self.method(), fields: &self.ask.fields, directives: self.directives }
    }

    /// The answer.
    pub(crate) async fn answer(&self) -> Answer {
        let answer = match self.set() {
            Some(set) => self.answer_in_set(&set).await,
            None => self.answer_by(None).await,
        };
        self.note.count(&self.mount.counters);
        answer
    }

    /// The answer by what is stored, or by the origin. Requests for the same object that have to
    /// ask the origin wait for the first one of them, as long as its response may be for them, too.
    pub(super) async fn answer_by(&self, set: Option<&Arc<Set>>) -> Answer {
        let (mut waited, mut is_set_valid, mut owner) = (Waited::default(), false, None);
        self.note.clear();
        loop {
            let in_use = match set {
                Some(set) => Some(set.in_use.read().await),
                None => None,
            };
            let changes = self.entry.changes();
            let mut head = self.shared.load(&self.mount, self.key, &self.name).await;
            if let Some(set) = set {
                head.invalidate_before(set.validated_s());
                if !head.variants.is_empty() {
                    set.join(&self.ask.target);
                }
                if !is_set_valid && (set.has_changed() || head.is_stale(self.now())) {
                    drop(in_use);
                    self.validate_set(set).await;
                    is_set_valid = true;
                    continue;
                }
            }
            let mut question = match self.step(&head, waited.times > 0, &mut owner).await {
                Step::Answer(answer) => return answer,
                Step::Ask(question) => question,
            };
            let asking = self.asking();
            question.is_clients = asking == Asking::Apart;
            let is_alone = waited.is_enough() || asking != Asking::Together || !self.may_share(&question);
            if owner.is_some() || is_alone {
                return self.ask_origin(head, question, owner).await;
            }
            let key = self.fetch_key(&head, &question);
            waited.note(key);
            match self.entry.fetches.join(key) {
                Role::Fetches(own) => {
                    owner = Some(own);
                    if self.entry.changes() == changes {
                        return self.ask_origin(head, question, owner).await;
                    }
                    // Another request fetched it after the store was looked at.
                }
                Role::Waits(waiter) => {
                    // The request that fetches may have to wait for a validation of the set, which
                    // waits for all that use it.
                    drop(in_use);
                    match self.after(waiter.outcome().await, &head, &question).await {
                        Released::Answered(answer) => return answer,
                        Released::Looks => {}
                        Released::Alone => waited.is_in_vain = true,
                    }
                }
            }
        }
    }

    /// How this request goes on after the fetch that it has waited for.
    async fn after(&self, outcome: FetchOutcome, head: &Head, question: &Question) -> Released {
        match outcome {
            FetchOutcome::Stored => Released::Looks,
            FetchOutcome::Alone => Released::Alone,
            FetchOutcome::Response(response) if response.answers(&self.ask.fields) => {
                Released::Answered(self.answer_shared(&response, question.reason))
            }
            FetchOutcome::Response(_) => Released::Alone,
            FetchOutcome::Failed(failure) => Released::Answered(self.failed(head, question, failure).await),
            FetchOutcome::FailedWith(status) => {
                let Some(fallback) =
                    question.fallback.filter(|fallback| fallback.covers(OriginFailure::Status(status), self.now()))
                else {
                    return Released::Alone;
                };
                let stood_in = self.stand_in(head, fallback.index, question.reason, Some(status)).await;
                stood_in.map_or(Released::Alone, Released::Answered)
            }
        }
    }

    /// How it asks the origin.
    fn asking(&self) -> Asking {
        if !matches!(self.method(), Method::Get | Method::Head) {
            return Asking::Together;
        }
        let seconds = self.mount.policy.uncacheable_seconds;
        self.shared.uncacheable().ask(self.key, self.now(), seconds)
    }

    /// The fetch that it shares with others.
    fn fetch_key(&self, head: &Head, question: &Question) -> FetchKey {
        let mut variants = head.variants.iter().rev().map(|variant| &variant.response.vary);
        let vary = variants.find(|vary| matches!(vary, Vary::Fields(names) if !names.is_empty()));
        let variant = vary.and_then(|vary| vary.key(&self.ask.fields)).map(|key| Key::of(&key));
        FetchKey { part: self.part(question), variant }
    }

    /// The part that the origin is asked for first.
    fn part(&self, question: &Question) -> u64 {
        let Some(part_bytes) = self.mount.upstream.part_bytes() else { return 0 };
        let wanted = self.wanted_of_unknown().filter(|_| question.validation.is_none());
        wanted.map_or(0, |(first, _)| first / part_bytes)
    }

    /// Whether it may wait for another request's response.
    fn may_share(&self, question: &Question) -> bool {
        let is_for_it_alone = self.directives.no_store || self.directives.no_cache;
        self.asks_as_get(question) && !is_for_it_alone && !self.ask.fields.has("authorization")
    }

    async fn step(&self, head: &Head, has_waited: bool, owner: &mut Option<FetchOwner>) -> Step {
        let stored: Vec<_> = head.variants.iter().map(|variant| &variant.response).collect();
        let now = self.now();
        let hits: OutcomeCounter = |counters| &counters.hits;
        let stale: OutcomeCounter = |counters| &counters.stale;
        let collapsed: OutcomeCounter = |counters| &counters.collapsed;
        let (index, counter, question) = match decide(&self.mount.policy, &self.request(), &stored, now) {
            Decision::Fresh { index } => (index, if has_waited { collapsed } else { hits }, None),
            Decision::Stale { index } => (index, stale, None),
            Decision::StaleWhileRevalidate { index, .. } => {
                self.validate_beside();
                (index, stale, None)
            }
            // It came while this request waited, and is as new as a response to it can be.
            Decision::Validate(Validation { selected: Some(index), .. })
                if has_waited
                    && stored[index].times.request >= self.arrived
                    && !head.variants[index].is_invalidated =>
            {
                (index, collapsed, None)
            }
            Decision::Validate(validation) => {
                let (reason, fallback) = (validation.reason, validation.fallback);
                (0, hits, Some(Question::new(Some(validation), reason, fallback)))
            }
            Decision::Fetch { reason, fallback } => (0, hits, Some(Question::new(None, reason, fallback))),
            Decision::GatewayTimeout => return Step::Answer(self.nothing_stored()),
        };
        if let Some(question) = question {
            return Step::Ask(question);
        }
        if self.directives.only_if_cached && !self.has_stored(&head.variants[index]).await {
            return Step::Answer(self.nothing_stored());
        }
        *owner = None;
        match self.answer_from_store(&head.variants[index], Outcome::Hit).await {
            Ok(answer) => {
                self.note.set(counter);
                Step::Answer(answer)
            }
            Err(unusable) => {
                let question = Question::new(None, ForwardReason::Partial, None);
                match unusable {
                    Unusable::Lost => Step::Ask(question),
                    Unusable::Unanswered(failure) => Step::Answer(self.failed(head, &question, failure).await),
                }
            }
        }
    }

    /// The answer to a client that wants nothing else than a stored response.
    fn nothing_stored(&self) -> Answer {
        let status =
            CacheStatus { outcome: Outcome::Hit, ttl_seconds: None, key: None, detail: Some("nothing is stored") };
        let cache_status = status.value(&self.shared.name);
        if self.ask.fields.has(PEER_FIELD) {
            // It is a question of a peer, and no failure.
            let mut fields = StoredFields::default();
            fields.push("Cache-Status", cache_status.as_bytes());
            return Answer::Response(Response {
                status: 504,
                fields,
                length: Some(0),
                content: Relay::Memory(Bytes::new()),
            });
        }
        self.note.set(|counters| &counters.failed);
        let reason = "the client wants a stored response, and none can be used".into();
        Answer::Failed(Failure { status: 504, reason, cache_status: cache_status.into() })
    }

    /// Whether the store has all bytes that the client may want.
    async fn has_stored(&self, variant: &Variant) -> bool {
        let Body::Fragments { key, length } = &variant.body else { return true };
        let (first, end) = self.wanted_in_all(*length);
        let object = self.fragmented(variant, *key);
        for number in first / FRAGMENT_BYTES..end.div_ceil(FRAGMENT_BYTES) {
            if object.find(number as u32).await.is_none() {
                return false;
            }
        }
        true
    }

    /// Whether the store has the first of the bytes that the client wants, or they are on their
    /// way.
    pub(super) async fn has_begin(&self, variant: &Variant) -> bool {
        let Body::Fragments { key, length } = &variant.body else { return true };
        let ((first, end), object) = (self.wanted(*length), self.fragmented(variant, *key));
        // A fill that ends has stored them before.
        first >= end || object.fill_at(first).is_some() || object.find(number_of(first)).await.is_some()
    }

    /// Validates a response that was used stale, unless that is under way.
    fn validate_beside(&self) {
        if self.entry.is_validated.swap(true, std::sync::atomic::Ordering::AcqRel) {
            return;
        }
        let mut other = self.clone();
        (other.note, other.is_beside) = (Arc::default(), true);
        self.shared.runtime.spawn(async move {
            // The client's conditions and range are not those of the validation.
            other.ask.fields = without_conditions(&other.ask.fields);
            let head = other.shared.load(&other.mount, other.key, &other.name).await;
            // Another validation may have ended since.
            let stored: Vec<_> = head.variants.iter().map(|variant| &variant.response).collect();
            let decision = decide(&other.mount.policy, &other.request(), &stored, other.now());
            if let Decision::StaleWhileRevalidate { validation, .. } = decision {
                let (reason, fallback) = (validation.reason, None);
                let validation = validation.has_conditions().then_some(validation);
                let question = Question::new(validation, reason, fallback);
                let answer = other.ask_origin(head, question, None).await;
                other.report_failed(&answer);
            }
            other.entry.is_validated.store(false, std::sync::atomic::Ordering::Release);
        });
    }

    /// The answer with a stored response.
    pub(super) async fn answer_from_store(&self, variant: &Variant, outcome: Outcome) -> Result<Answer, Unusable> {
        let length = variant.body.length();
        let mut outcome = outcome;
        let content = match &variant.body {
            Body::Inline(bytes) => Content::Memory(bytes.clone()),
            Body::Excerpt(excerpt) => {
                let is_enough = self.method() == Method::Head || excerpt.covers(self.wanted_in_all(length));
                Content::Fragments(is_enough.then(|| excerpt.for_mount(&self.mount)).ok_or(Unusable::Lost)?)
            }
            Body::Fragments { key, .. } => {
                let object = self.fragmented(variant, *key);
                if self.method() != Method::Head {
                    let (first, end) = self.wanted(length);
                    let source = object.source_of(first, end).await.map_err(|_| Unusable::Lost)?;
                    if let FragmentSource::Fill(fill) = source {
                        fill.begun().await?;
                        if outcome == Outcome::Hit {
                            let reason = ForwardReason::Partial;
                            outcome = Outcome::Forward { reason, status: None, stored: true, collapsed: true };
                            self.note.set_partial();
                        }
                    }
                }
                Content::Fragments(object)
            }
        };
        Ok(self.answer_with(variant, None, content, outcome))
    }

    pub(super) fn fragmented(&self, variant: &Variant, key: Key) -> Arc<Fragmented> {
        let length = variant.body.length();
        let mut fields = without_conditions(&self.ask.fields);
        // A part of the representation that is stored, whatever this client prefers among its own.
        fields.remove("cache-control");
        fields.remove("pragma");
        let source = Source {
            mount: Arc::clone(&self.mount),
            object: self.key,
            entry: self.entry.clone(),
            target: self.ask.target.clone(),
            fields,
            version: variant.response.version(length),
        };
        Fragmented::new(&self.shared, key, length, source)
    }

    /// The bytes that the client wants first: from, and up to.
    pub(super) fn wanted(&self, length: u64) -> (u64, u64) {
        let set = self.ask.fields.first("range").and_then(RangeSet::parse);
        let first = set.and_then(|set| set.resolve(length).ok()?.as_slice().first().copied());
        first.map_or((0, length), |range| (range.first, range.last + 1))
    }

    /// The bytes that the client may want in all: from, and up to. Its If-Range may make that the
    /// whole.
    pub(super) fn wanted_in_all(&self, length: u64) -> (u64, u64) {
        let fields = &self.ask.fields;
        let set = fields.first("range").and_then(RangeSet::parse).filter(|_| !fields.has("if-range"));
        let Some(Ok(ranges)) = set.map(|set| set.resolve(length)) else { return (0, length) };
        let (firsts, ends) = (|range: &ByteRange| range.first, |range: &ByteRange| range.last + 1);
        let ranges = ranges.as_slice();
        (ranges.iter().map(firsts).min().unwrap_or(0), ranges.iter().map(ends).max().unwrap_or(length))
    }

    /// The range to ask the origin for when nothing of the object is known: from, and up to if it
    /// has an end. Of several ranges it is the first one, and the others are asked for when they
    /// are wanted. The place of a suffix is known only after the length is, so that the first bytes
    /// are asked for.
    pub(super) fn wanted_of_unknown(&self) -> Option<(u64, Option<u64>)> {
        // RFC 9110, 14.2: a range means something for GET alone.
        let range = self.ask.fields.first("range").filter(|_| self.method() == Method::Get);
        let set = range.and_then(RangeSet::parse)?;
        match *set.specs().first()? {
            RangeSpec::Closed { first, last } => Some((first, Some(last.saturating_add(1)))),
            RangeSpec::Open { first } => Some((first, None)),
            RangeSpec::Suffix { .. } => Some((0, Some(1))),
        }
    }

    /// Whether the client wants several ranges.
    pub(super) fn wants_several(&self) -> bool {
        let set = self.ask.fields.first("range").and_then(RangeSet::parse);
        set.is_some_and(|set| set.specs().len() > 1)
    }

    /// The answer with a response that has just come, or with a stored one; `fields` if they are
    /// others than the stored ones.
    pub(super) fn answer_with(
        &self,
        variant: &Variant,
        fields: Option<StoredFields>,
        content: Content,
        outcome: Outcome,
    ) -> Answer {
        let (response, now) = (&variant.response, self.now());
        let freshness = &response.freshness;
        let ttl_seconds = (outcome == Outcome::Hit).then(|| freshness.ttl_seconds(now));
        let cache_status = CacheStatus { outcome, ttl_seconds, key: None, detail: None }.value(&self.shared.name);
        let mut fields = fields.unwrap_or_else(|| response.fields.clone());
        fields.remove("content-length");
        fields.remove("age");
        let age = freshness.age_seconds(now);
        if response.status != 200 {
            fields.push("Age", age.to_string().as_bytes());
            fields.push("Cache-Status", cache_status.as_bytes());
            let length = Some(variant.body.length());
            let content = match content {
                Content::Memory(bytes) => Relay::Memory(bytes),
                Content::Fragments(object) => Relay::Stream(object.reader(0..variant.body.length())),
            };
            return Answer::Response(Response { status: response.status, fields, length, content });
        }
        let is_plain = matches!(&response.vary, Vary::Fields(names) if names.is_empty());
        // For a peer, fragments that are missing come from the origin alone.
        let may_be_held = is_plain
            && !matches!(variant.body, Body::Excerpt(_))
            && !self.ask.fields.has(PEER_FIELD)
            && !freshness.always_validate
            && freshness.is_fresh(now);
        let born_s = now - i64::from(age);
        Answer::Object(Object {
            fields: Arc::new(fields),
            length: variant.body.length(),
            content,
            born_s,
            stale_s: born_s + i64::from(freshness.lifetime_seconds),
            cache_status: cache_status.into(),
            held_key: may_be_held.then_some(self.key),
        })
    }
}
