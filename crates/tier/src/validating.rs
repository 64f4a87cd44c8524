//! Validating a consistent set: all of its stored members, until none has changed in one pass.

use std::sync::Arc;

use bytes::Bytes;
use thalweg_caching::{ForwardReason, StoredFields, Validation};
use thalweg_wire::{Method, Version};
use tokio::task::JoinSet;

use crate::ask::Ask;
use crate::consistent::Set;
use crate::exchange::{Exchange, Question};

/// Passes after which a set counts as validated, whatever its origin does.
const PASSES_MAX: usize = 3;
/// Members that are validated at the same time.
const AT_ONCE_MAX: usize = 8;

impl Exchange {
    /// The set that the object belongs to.
    pub(super) fn set(&self) -> Option<Arc<Set>> {
        let name = self.mount.consistent.iter().find_map(|rule| rule.set_of(&self.ask.target))?;
        Some(self.shared.sets.enter(&self.mount.name, name))
    }

    /// Validates all members of a set, unless that was done since this request came.
    pub(super) async fn validate_set(&self, set: &Arc<Set>) {
        let _alone = set.in_use.write().await;
        if set.validated_s() >= self.arrived && !set.has_changed() {
            return;
        }
        for _ in 0..PASSES_MAX {
            let members = set.begin_pass(self.now());
            for some in members.chunks(AT_ONCE_MAX) {
                let mut tasks = JoinSet::new();
                for member in some {
                    let mut other = self.clone();
                    other.become_validation(member);
                    tasks.spawn(async move { other.validate().await });
                }
                tasks.join_all().await;
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

    /// Validates what is stored, whether it is stale or not.
    async fn validate(&self) {
        let head = self.shared.load(&self.mount, self.key, &self.name).await;
        let stored: Vec<_> = head.variants.iter().map(|variant| &variant.response).collect();
        let Some(index) = stored.len().checked_sub(1) else { return };
        let reason = ForwardReason::Stale;
        let validation = Validation::of(&stored, Some(index), reason, None);
        let validation = validation.has_conditions().then_some(validation);
        let answer = self.ask_origin(head, Question::new(validation, reason, None), None).await;
        self.report_failed(&answer);
    }
}
