//! Purges by an operator.

use std::sync::atomic::Ordering;

use thalweg_cache::{Error, Key, Purge as StorePurge};

use crate::counters::Counters;
use crate::head::Head;
use crate::mount::{Mount, group_of};
use crate::shared::Shared;

/// Objects that an operator purges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All variants of one object, by its name: that of the mount and the target, such as
    /// `mirror.example/debian/dists/sid/Release`.
    Name(Box<str>),
    /// A group of a mount (RFC 9875).
    Group {
        /// The mount's name.
        mount: Box<str>,
        /// The group's name.
        group: Box<str>,
    },
    /// Everything of a mount, by its name.
    Mount(Box<str>),
}

/// How objects are purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeKind {
    /// They are gone.
    Hard,
    /// They are stale: a validation may make them fresh again, and they stand in for an origin that
    /// fails as far as they allow it.
    Soft,
}

/// Why a purge was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// The store failed.
    #[error("{0}")]
    Store(#[from] Error),
    /// Groups and mounts are purged hard.
    #[error("only single objects can be purged softly")]
    SoftGroup,
}

impl Shared {
    /// Purges; once this is `Ok`, nothing of it is used any more, also after a crash.
    pub(crate) async fn purge(&self, purge: &Purge, kind: PurgeKind) -> Result<(), PurgeError> {
        let store_purge = match (purge, kind) {
            (Purge::Name(name), PurgeKind::Hard) => StorePurge::Key(Key::of(name.as_bytes())),
            (Purge::Name(name), PurgeKind::Soft) => {
                self.invalidate(name).await;
                return Ok(());
            }
            (_, PurgeKind::Soft) => return Err(PurgeError::SoftGroup),
            (Purge::Group { mount, group }, _) => StorePurge::Group(group_of(mount, group)),
            (Purge::Mount(mount), _) => StorePurge::Group(group_of(mount, "")),
        };
        self.store.purge(vec![store_purge]).await?;
        Counters::add(&self.counters.purges, 1);
        self.advance_generation();
        Ok(())
    }

    /// Makes all variants of an object stale.
    async fn invalidate(&self, name: &str) {
        let Some(mount) = self.mount_of(name) else { return };
        let key = Key::of(name.as_bytes());
        let entry = self.entries.enter(key, (self.clock)());
        let _change = entry.change.lock().await;
        let head = self.load(&mount, key, name).await;
        let variants = head.variants.iter().map(|variant| variant.invalidated().into()).collect();
        let head = Head { variants };
        if !head.variants.is_empty() {
            let groups = head.groups(&mount).unwrap_or_else(|| [mount.group(), 0, 0, 0]);
            self.save(key, name, &head, groups).await;
            Counters::add(&self.counters.purges, 1);
        }
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    /// The mount that an object's name belongs to: the one with the longest name that it begins
    /// with.
    fn mount_of(&self, name: &str) -> Option<std::sync::Arc<Mount>> {
        let mounts = self.mounts.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let fits = |mount: &&std::sync::Arc<Mount>| name.starts_with(mount.name.trim_end_matches('/'));
        mounts.iter().filter(fits).max_by_key(|mount| mount.name.len()).cloned()
    }
}
