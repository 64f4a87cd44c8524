//! Purges by an operator.

use thalweg_cache::{Error, Key, Purge as StorePurge};

use crate::counters::Counters;
use crate::mount::group_of;
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

impl Shared {
    /// Purges; once this is `Ok`, nothing of it is used as if it were valid, also after a crash.
    pub(crate) async fn purge(&self, purge: &Purge, kind: PurgeKind) -> Result<(), Error> {
        let of_key = |name: &str| Key::of(name.as_bytes());
        let purge = match (purge, kind) {
            (Purge::Name(name), PurgeKind::Hard) => StorePurge::Key(of_key(name)),
            (Purge::Name(name), PurgeKind::Soft) => StorePurge::SoftKey(of_key(name)),
            (Purge::Group { mount, group }, PurgeKind::Hard) => StorePurge::Group(group_of(mount, group)),
            (Purge::Group { mount, group }, PurgeKind::Soft) => StorePurge::SoftGroup(group_of(mount, group)),
            (Purge::Mount(mount), PurgeKind::Hard) => StorePurge::Group(group_of(mount, "")),
            (Purge::Mount(mount), PurgeKind::Soft) => StorePurge::SoftGroup(group_of(mount, "")),
        };
        self.store.purge(vec![purge]).await?;
        Counters::add(&self.counters.purges, 1);
        self.advance_generation();
        Ok(())
    }
}
