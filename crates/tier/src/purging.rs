//! Carrying purges out: in the log first, and then in the store.

use thalweg_cache::{Error, Purge as StorePurge};

use crate::counters::Counters;
use crate::purge::{Purge, PurgeKind, Scope};
use crate::shared::Shared;

impl Shared {
    /// Purges: how many purges of the store that took. Once this is `Ok`, nothing of it is used as
    /// if it were valid, also after a crash, and also if it was on its way from an origin.
    pub(crate) async fn purge(&self, purge: &Purge, kind: PurgeKind) -> Result<u64, Error> {
        let count = self.purge_scope(Scope::of(purge), kind).await?;
        Counters::add(&self.counters.purges, count);
        Ok(count)
    }

    /// The same, uncounted.
    pub(crate) async fn purge_scope(&self, scope: Scope, kind: PurgeKind) -> Result<u64, Error> {
        let number = self.purges.begin(scope.clone(), kind).await;
        let purged = self.purge_stored(&scope, kind).await;
        self.purges.end(number).await;
        // One that is not durable is in force all the same.
        self.advance_generation();
        purged
    }

    async fn purge_stored(&self, scope: &Scope, kind: PurgeKind) -> Result<u64, Error> {
        let of_key = |key| if kind == PurgeKind::Hard { StorePurge::Key(key) } else { StorePurge::SoftKey(key) };
        let purges = match scope {
            Scope::Key(key) => vec![of_key(*key)],
            Scope::Names(prefix) => self.store.keys_of(prefix.clone()).await?.into_iter().map(of_key).collect(),
            Scope::Group(group) if kind == PurgeKind::Hard => vec![StorePurge::Group(*group)],
            Scope::Group(group) => vec![StorePurge::SoftGroup(*group)],
        };
        let count = purges.len() as u64;
        if count > 0 {
            self.store.purge(purges).await?;
        }
        Ok(count)
    }
}
