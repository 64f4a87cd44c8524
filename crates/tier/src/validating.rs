//! Validating a consistent set: all of its stored members, until none has changed in one pass.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_caching::{FieldLines, ForwardReason, StoredFields, Validation};
use thalweg_wire::{Method, Version};
use tokio::task::JoinSet;

use crate::answer::Answer;
use crate::ask::Ask;
use crate::consistent::Set;
use crate::exchange::{Exchange, Question};

/// Passes after which a set counts as validated, whatever its origin does.
const PASSES_MAX: usize = 3;
/// So often a request is answered anew because the set has changed meanwhile.
const REPETITIONS_MAX: usize = 2;
/// Members that are validated at the same time.
const AT_ONCE_MAX: usize = 8;

impl Exchange {
    /// The set that the object belongs to.
    pub(super) fn set(&self) -> Option<Arc<Set>> {
        let name = self.mount.consistent.iter().find_map(|rule| rule.set_of(&self.ask.target))?;
        Some(self.shared.sets.enter(&self.mount.name, name, self.arrived))
    }

    /// The answer with a member of a set: if it came new from the origin, after the other members
    /// were validated.
    pub(super) async fn answer_in_set(&self, set: &Arc<Set>) -> Answer {
        let mut answer = self.answer_by(Some(set)).await;
        for _ in 0..REPETITIONS_MAX {
            if !set.has_changed() || !matches!(self.method(), Method::Get | Method::Head) {
                break;
            }
            let told = match &answer {
                Answer::Object(object) => Some((Arc::clone(&object.fields), object.length)),
                Answer::Response(_) | Answer::Failed(_) => None,
            };
            self.validate_set(set).await;
            if let Some((fields, length)) = told
                && self.is_stored_so(&fields, length).await
            {
                break;
            }
            answer = self.answer_by(Some(set)).await;
        }
        answer
    }

    /// Whether what is stored now, after a validation, has the validators and the length of an
    /// answer.
    async fn is_stored_so(&self, fields: &StoredFields, length: u64) -> bool {
        let head = self.shared.load(&self.mount, self.key, &self.name).await;
        head.variants.iter().any(|variant| {
            let same = |name: &str| variant.response.fields.first(name) == fields.first(name);
            variant.body.length() == length && same("etag") && same("last-modified")
        })
    }

    /// Validates all members of a set, unless that was done since this request came.
    pub(super) async fn validate_set(&self, set: &Arc<Set>) {
        let _alone = set.in_use.write().await;
        if set.tried_s() >= self.arrived && !set.has_changed() {
            return;
        }
        for _ in 0..PASSES_MAX {
            let (pass, mut is_answered) = (set.begin_pass(self.now()), false);
            for some in pass.members.chunks(AT_ONCE_MAX) {
                let mut tasks = JoinSet::new();
                for member in some {
                    let mut other = self.clone();
                    other.become_validation(member);
                    let set = Arc::clone(set);
                    tasks.spawn(async move { other.validate(&set).await });
                }
                // At an origin that hangs, all that use the set would wait for each of its members.
                // Members that were not validated here are validated at their next request.
                let answers = tasks.join_all().await;
                if answers.iter().all(|is_one_answered| !is_one_answered) {
                    if !is_answered {
                        set.abandon_pass(&pass);
                    }
                    self.shared.advance_generation();
                    return;
                }
                is_answered = true;
            }
            if !set.has_changed() {
                break;
            }
        }
        self.shared.advance_generation();
    }

    /// Makes this the validation of another object of the mount.
    fn become_validation(&mut self, target: &str) {
        let mut ask = Ask {
            mount: self.ask.mount,
            method: "GET".into(),
            target: target.into(),
            authority: self.ask.authority.clone(),
            version: Version::Http11,
            fields: StoredFields::default(),
            content: Bytes::new(),
        };
        self.mount.gateway.forward_request(Method::Get, ask.version, &mut ask.fields);
        *self = Self::new(Arc::clone(&self.shared), Arc::clone(&self.mount), ask);
        self.is_beside = true;
    }

    /// Validates what is stored, whether it is stale or not; whether the origin has answered.
    async fn validate(&self, set: &Set) -> bool {
        let head = self.shared.load(&self.mount, self.key, &self.name).await;
        let stored: Vec<_> = head.variants.iter().map(|variant| &variant.response).collect();
        let Some(index) = stored.len().checked_sub(1) else {
            set.leave(&self.ask.target);
            return true;
        };
        let reason = ForwardReason::Stale;
        let validation = Validation::of(&stored, Some(index), reason, None);
        let validation = validation.has_conditions().then_some(validation);
        let answer = self.ask_origin(head, Question::new(validation, reason, None), None).await;
        self.report_failed(&answer);
        !matches!(answer, Answer::Failed(_))
    }
}
