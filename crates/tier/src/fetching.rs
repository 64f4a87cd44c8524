//! Asking the origin: what is sent to it, and what its response means for what is stored.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_cache::Key;
use thalweg_caching::validation::{HeadOutcome, ValidationOutcome, head_outcome, outcome};
use thalweg_caching::{
    CacheStatus, Failure as OriginFailure, FieldLines, ForwardReason, Outcome, StoredFields, StoredResponse, Times,
    add_vary, invalidation, is_whole, keep_one_date, may_stay_stored, unasked,
};
use thalweg_wire::Method;

use crate::answer::{Answer, Failure, Relay, Response};
use crate::collapsing::{FetchOutcome, FetchOwner, release};
use crate::counters::Counters;
use crate::exchange::{Exchange, Question, Unusable};
use crate::fragmented::without_conditions;
use crate::head::{Head, Variant};
use crate::mount::group_of;
use crate::purge::{PurgeKind, Scope};
use crate::relay::{channel, pump};
use crate::store::FRAGMENT_BYTES;
use crate::upstream::{UpstreamFailure, UpstreamRequest, UpstreamResponse};

/// A response that has come, and when.
pub(crate) struct Received {
    pub(crate) response: UpstreamResponse,
    pub(crate) times: Times,
    /// The number of purges when it was asked for.
    pub(crate) purges: u64,
    pub(crate) reason: ForwardReason,
    /// It was asked for with another range than the client's: one of the tier's, or none.
    pub(crate) has_own_range: bool,
    /// It has the whole, although a range was asked for.
    pub(crate) is_range_refused: bool,
}

impl Received {
    /// Makes a part that is the whole a response with the whole.
    fn make_whole(&mut self) {
        let response = &mut self.response;
        if self.has_own_range && response.status == 206 && is_whole(&response.fields) {
            response.status = 200;
            response.fields.remove("content-range");
        }
    }
}

impl Exchange {
    /// Asks the origin, and answers with what that comes to. Requests that wait are released as
    /// soon as it is known what they can use of it.
    pub(super) async fn ask_origin(&self, head: Head, question: Question, owner: Option<FetchOwner>) -> Answer {
        let (mut question, mut owner) = (question, owner);
        loop {
            let Question { validation, reason, fallback, .. } = &question;
            let is_get = self.asks_as_get(&question);
            let (fields, has_own_range) = self.fields_for_origin(&question, is_get);
            let method = if is_get { Method::Get } else { self.method() };
            let received = match self.fetch(method, (fields, has_own_range), *reason).await {
                Ok(received) => received,
                Err(failure) => {
                    release(&mut owner, FetchOutcome::Failed(failure.clone()));
                    return self.failed(&head, &question, failure).await;
                }
            };
            let (status, fields, times) = (received.response.status, &received.response.fields, received.times);
            let (now, purges) = (times.response, received.purges);
            if let Some(validation) = validation {
                let stored: Vec<_> = head.variants.iter().map(|variant| &variant.response).collect();
                match outcome(validation, &stored, status, fields, now) {
                    ValidationOutcome::Freshen { indices, answer } => {
                        let learned = (fields, times, purges);
                        let chosen = self.freshen((&head, &indices, answer), learned).await;
                        question = Question::new(None, *reason, *fallback);
                        match self.answer_freshened(&mut owner, &chosen, question.reason).await {
                            Ok(answer) => return answer,
                            Err(Unusable::Lost) => continue,
                            Err(Unusable::Unanswered(failure)) => return self.failed(&head, &question, failure).await,
                        }
                    }
                    ValidationOutcome::Fallback { index } => {
                        release(&mut owner, FetchOutcome::FailedWith(status));
                        if let Some(answer) = self.stand_in(&head, index, *reason, Some(status)).await {
                            return answer;
                        }
                        return self.relay(received, None);
                    }
                    ValidationOutcome::Forward => return self.pass(received, &mut owner).await,
                    ValidationOutcome::Replace => {}
                    ValidationOutcome::FetchWhole => {
                        question = Question::new(None, *reason, *fallback);
                        continue;
                    }
                }
            } else if let Some(fallback) = fallback
                && fallback.covers(OriginFailure::Status(status), now)
            {
                release(&mut owner, FetchOutcome::FailedWith(status));
                if let Some(answer) = self.stand_in(&head, fallback.index, *reason, Some(status)).await {
                    return answer;
                }
            }
            if self.method() == Method::Head && !is_get {
                return self.answer_head(&head, &question, received).await;
            }
            self.invalidate(status, fields).await;
            if let Some(answer) = self.take(received, &mut owner).await {
                return answer;
            }
            question = Question { is_clients: true, ..Question::new(None, *reason, *fallback) };
        }
    }

    /// The fields of the request to the origin. What is stored answers any condition and any range,
    /// so that a client's own ones go to the origin only if its response was not stored lately.
    fn fields_for_origin(&self, question: &Question, is_get: bool) -> (StoredFields, bool) {
        let validation = question.validation.as_ref();
        let is_stored = is_get && !question.is_clients && !self.directives.no_store;
        if !is_stored && validation.is_none() {
            return (self.ask.fields.clone(), false);
        }
        let mut fields = without_conditions(&self.ask.fields);
        if let Some(validation) = validation {
            validation.fields().for_each(|(name, value)| fields.push(name, value));
            return (fields, false);
        }
        let part_bytes = self.mount.upstream.part_bytes();
        let (first, end) = self.wanted_of_unknown().unwrap_or((0, None));
        // Whole fragments, and no more than one part.
        let first = first / FRAGMENT_BYTES * FRAGMENT_BYTES;
        let end = end.map(|end| end.div_ceil(FRAGMENT_BYTES).saturating_mul(FRAGMENT_BYTES));
        let end = part_bytes.map(|part| (first / part + 1) * part).into_iter().chain(end).min();
        if first == 0 && end.is_none() {
            return (fields, self.ask.fields.has("range"));
        }
        let last = end.map_or_else(String::new, |end| (end - 1).to_string());
        fields.push("Range", format!("bytes={first}-{last}").as_bytes());
        (fields, true)
    }

    async fn fetch(
        &self,
        method: Method<'_>,
        (fields, has_own_range): (StoredFields, bool),
        reason: ForwardReason,
    ) -> Result<Received, UpstreamFailure> {
        let (method, target, content) = (method.name().into(), self.ask.target.clone(), self.ask.content.clone());
        let (request, purges) = (self.now(), self.shared.purges.count());
        if self.is_beside {
            Counters::add(&self.mount.counters.validations, 1);
        }
        let sent = fields.clone();
        let mut response = self.mount.fetch(UpstreamRequest { method, target, fields, content }).await?;
        if let Some(unasked) = unasked(&sent, response.status, &response.fields) {
            Counters::add(&self.mount.counters.origin_failures, 1);
            return Err(UpstreamFailure { status: 502, reason: unasked.to_string().into() });
        }
        let times = Times { request, response: self.now() };
        keep_one_date(&mut response.fields, times.response);
        let key = self.mount.request_fields.key.iter().map(|name| name.as_bytes());
        add_vary(response.status, &mut response.fields, key);
        let has_own_range = has_own_range || !sent.has("range");
        let is_range_refused = sent.has("range") && response.status == 200;
        let mut received = Received { response, times, purges, reason, has_own_range, is_range_refused };
        received.make_whole();
        Ok(received)
    }

    /// The answer after the origin gave none.
    pub(super) async fn failed(&self, head: &Head, question: &Question, failure: UpstreamFailure) -> Answer {
        let Question { reason, fallback, .. } = *question;
        if let Some(fallback) = fallback.filter(|fallback| fallback.covers(OriginFailure::Unreachable, self.now()))
            // The origin would be asked for what the store lacks, and its client wait again.
            && self.has_begin(&head.variants[fallback.index]).await
            && let Some(answer) = self.stand_in(head, fallback.index, reason, None).await
        {
            let message = format!("{}: {}; a stale response stands in", self.name, failure.reason);
            (self.shared.log)("stale responses", &message);
            return answer;
        }
        self.note.set(|counters| &counters.failed);
        let outcome = Outcome::Forward { reason, status: None, stored: false, collapsed: false };
        let status = CacheStatus { outcome, ttl_seconds: None, key: None, detail: None };
        let cache_status = status.value(&self.shared.name).into();
        Answer::Failed(Failure { status: failure.status, reason: failure.reason, cache_status })
    }

    /// Reports the failure of a validation that no client waits for; its answer is what it stored.
    pub(super) fn report_failed(&self, answer: &Answer) {
        if let Answer::Failed(failure) = answer {
            (self.shared.log)("validations", &format!("{} could not be validated: {}", self.name, failure.reason));
        }
    }

    /// A stale response in the place of a failing origin's.
    pub(super) async fn stand_in(
        &self,
        head: &Head,
        index: usize,
        reason: ForwardReason,
        status: Option<u16>,
    ) -> Option<Answer> {
        let outcome = Outcome::Forward { reason, status, stored: false, collapsed: false };
        let answer = self.answer_from_store(&head.variants[index], outcome).await.ok()?;
        self.note.set(|counters| &counters.stale_if_error);
        Some(answer)
    }

    /// Takes over what a 304 says; the one of the responses that it is about that answers.
    async fn freshen(
        &self,
        (head, indices, answer): (&Head, &[usize], usize),
        (fields, times, purges): (&StoredFields, Times, u64),
    ) -> Variant {
        let policy = &self.mount.policy;
        let mut chosen = Variant::clone(&head.variants[answer]);
        chosen.response.freshen(policy, &self.ask.fields, fields, times);
        let own_key = chosen.response.vary.key(&self.ask.fields);
        let is_another_variant = own_key.is_some() && own_key != chosen.response.key;
        if is_another_variant {
            chosen.response.key = own_key;
        }
        let freshened: Vec<_> = indices.iter().map(|index| Arc::clone(&head.variants[*index])).collect();
        self.change(purges, |current| {
            current.variants.retain_mut(|variant| {
                if !freshened.iter().any(|other| is_same(&other.response, &variant.response)) {
                    return true;
                }
                let mut fresh = Variant::new(variant.response.clone(), variant.body.clone());
                fresh.response.freshen(policy, &self.ask.fields, fields, times);
                let stays = may_stay_stored(policy, &fresh.response);
                *variant = Arc::new(fresh);
                stays
            });
            // The origin has said that the response answers these request fields, too.
            if is_another_variant && may_stay_stored(policy, &chosen.response) {
                current.put(chosen.clone());
            }
        })
        .await;
        chosen
    }

    /// Answers with a stored response that a 304 was about.
    async fn answer_freshened(
        &self,
        owner: &mut Option<FetchOwner>,
        chosen: &Variant,
        reason: ForwardReason,
    ) -> Result<Answer, Unusable> {
        release(owner, FetchOutcome::Stored);
        let outcome = Outcome::Forward { reason, status: Some(304), stored: true, collapsed: false };
        let answer = self.answer_from_store(chosen, outcome).await?;
        self.note.set(|counters| &counters.revalidated);
        Ok(answer)
    }

    /// Whether the origin is asked by GET: for a HEAD that finds nothing stored, too, if what comes
    /// may be stored. So it is answered like a GET, and the next request finds the object.
    pub(super) fn asks_as_get(&self, question: &Question) -> bool {
        let Question { validation, reason, fallback, is_clients } = question;
        let finds_nothing = matches!(reason, ForwardReason::UriMiss | ForwardReason::VaryMiss)
            && validation.is_none()
            && fallback.is_none();
        let may_fill = !self.directives.no_store && !is_clients;
        self.method() == Method::Get || (self.method() == Method::Head && finds_nothing && may_fill)
    }

    /// The answer to a HEAD by which the origin was asked: the stored response that was to be
    /// validated, if it is the current one, with all the fields that a GET gets.
    async fn answer_head(&self, head: &Head, question: &Question, received: Received) -> Answer {
        let Received { response: UpstreamResponse { status, fields, .. }, times, purges, reason, .. } = &received;
        self.learn_from_head(*status, fields, (*times, *purges)).await;
        let selected = question.validation.as_ref().and_then(|validation| validation.selected);
        if let Some(variant) = selected.map(|index| &head.variants[index])
            && head_outcome(&variant.response, *status, fields) == HeadOutcome::Freshen
        {
            let mut chosen = Variant::clone(variant);
            chosen.response.freshen(&self.mount.policy, &self.ask.fields, fields, *times);
            let outcome = Outcome::Forward { reason: *reason, status: Some(*status), stored: true, collapsed: false };
            if let Ok(answer) = self.answer_from_store(&chosen, outcome).await {
                self.note.set(|counters| &counters.revalidated);
                return answer;
            }
        }
        self.relay(received, None)
    }

    /// Takes over what a response to HEAD says of the stored responses (RFC 9111, 4.3.5).
    async fn learn_from_head(&self, status: u16, fields: &StoredFields, (times, purges): (Times, u64)) {
        self.change(purges, |head| {
            for variant in &mut head.variants {
                match head_outcome(&variant.response, status, fields) {
                    HeadOutcome::Keep => {}
                    HeadOutcome::Invalidate => *variant = Arc::new(variant.invalidated()),
                    HeadOutcome::Freshen => {
                        let mut fresh = Variant::clone(variant);
                        fresh.response.freshen(&self.mount.policy, &self.ask.fields, fields, times);
                        *variant = Arc::new(fresh);
                    }
                }
            }
        })
        .await;
    }

    /// Changes the stored head by a response that was asked for when there had been so many purges,
    /// if there is one and no later purge covers it.
    async fn change(&self, purges: u64, change: impl FnOnce(&mut Head)) {
        let _change = self.entry.change.lock().await;
        let latest = self.shared.purges.hold().await;
        let mut head = self.shared.load(&self.mount, self.key, &self.name).await;
        if head.variants.is_empty() {
            return;
        }
        let groups_of = |head: &Head| head.groups(&self.mount).unwrap_or_else(|| [self.mount.group(), 0, 0, 0]);
        let groups = groups_of(&head);
        let object = (self.key, &*self.name, &groups[..]);
        if latest.since(purges, object).or(latest.under_way(object)).is_some() {
            return;
        }
        change(&mut head);
        let groups = groups_of(&head);
        self.shared.save(self.key, &self.name, &head, groups).await;
        self.entry.note_change();
        self.shared.advance_generation();
    }

    /// Invalidates what a request may have changed (RFC 9111, 4.4).
    async fn invalidate(&self, status: u16, fields: &StoredFields) {
        let invalid = invalidation(self.method(), &self.uri, status, fields);
        if invalid.uris.is_empty() && invalid.groups.is_empty() {
            return;
        }
        let targets = invalid.uris.iter().filter_map(|uri| self.mount.target(&self.ask.authority, uri));
        let keys = targets.map(|target| Scope::Key(Key::of(self.mount.object_name(target).as_bytes())));
        let groups = invalid.groups.iter().map(|group| Scope::Group(group_of(&self.mount.name, group)));
        for scope in keys.chain(groups) {
            Counters::add(&self.mount.counters.purges, 1);
            let purged = self.shared.purge_scope(scope, PurgeKind::Hard).await;
            self.shared.stored(purged.map(drop));
        }
    }

    /// Answers with the origin's response as it is; `first` are bytes of its content that have come
    /// already.
    pub(super) fn relay(&self, received: Received, first: Option<Bytes>) -> Answer {
        self.note.set(|counters| &counters.passed);
        let Received { response, reason, .. } = received;
        let UpstreamResponse { status, fields, length, content, .. } = response;
        let fields = self.relayed_fields(&fields, self.outcome(&reason, false));
        let is_empty = self.method() == Method::Head || matches!(status, 204 | 304) || length == Some(0);
        let content = if is_empty {
            Relay::Memory(Bytes::new())
        } else {
            let (writer, reader) = channel(&self.mount.counters);
            self.shared.runtime.spawn(pump(first, content, writer));
            Relay::Stream(Box::new(reader))
        };
        Answer::Response(Response { status, fields, length, content })
    }

    /// The fields of a response that is relayed.
    pub(super) fn relayed_fields(&self, fields: &StoredFields, outcome: Outcome) -> StoredFields {
        let mut fields = StoredFields::end_to_end(fields, &[]);
        fields.remove("content-length");
        CacheStatus { outcome, ttl_seconds: None, key: None, detail: None }.append(&self.shared.name, &mut fields);
        fields
    }
}

/// Whether two stored responses are the same one, by what does not change in it.
fn is_same(one: &StoredResponse, other: &StoredResponse) -> bool {
    one.key == other.key && one.vary == other.vary && one.fields.first("etag") == other.fields.first("etag")
}
