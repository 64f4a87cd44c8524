//! Purges by an operator, and the log of the latest ones.
//!
//! A purge is in two places. In the store it covers what was stored before. In the log it covers
//! what is on its way into the store: a response that was asked for before the purge is not stored
//! after a hard one, and is stored as a stale one after a soft one. So a purge begins in the log,
//! which waits for heads that are being written, and is carried out in the store after that.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use thalweg_cache::Key;
use tokio::sync::{RwLock, RwLockReadGuard};

use crate::mount::group_of;

/// Purges in the log. A response that was asked for before more than these is not stored.
const LOG_MAX: usize = 1024;

/// Objects that an operator purges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// All variants of one object, by its name: that of the mount and the target, such as
    /// `mirror.example/debian/dists/sid/Release`.
    Name(Box<str>),
    /// All objects whose names begin with this.
    Prefix(Box<str>),
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

/// The objects of a purge.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Scope {
    Key(Key),
    Names(Box<str>),
    Group(u32),
}

impl Scope {
    pub(crate) fn of(purge: &Purge) -> Self {
        match purge {
            Purge::Name(name) => Self::Key(Key::of(name.as_bytes())),
            Purge::Prefix(prefix) => Self::Names(prefix.clone()),
            Purge::Group { mount, group } => Self::Group(group_of(mount, group)),
            Purge::Mount(mount) => Self::Group(group_of(mount, "")),
        }
    }

    fn covers(&self, (key, name, groups): Identity<'_>) -> bool {
        match self {
            Self::Key(purged) => *purged == key,
            Self::Names(prefix) => name.starts_with(&**prefix),
            Self::Group(group) => groups.contains(group),
        }
    }
}

/// An object: its key, its name, and its groups.
pub(crate) type Identity<'a> = (Key, &'a str, &'a [u32]);

/// The latest purges.
#[derive(Default)]
pub(crate) struct PurgeLog {
    /// The number of purges so far.
    count: AtomicU64,
    latest: RwLock<VecDeque<Logged>>,
}

struct Logged {
    number: u64,
    scope: Scope,
    kind: PurgeKind,
    /// The store has carried it out.
    is_over: bool,
}

/// The latest purges, while heads are read and written: no other one begins.
pub(crate) struct Latest<'l> {
    log: RwLockReadGuard<'l, VecDeque<Logged>>,
    count: u64,
}

impl PurgeLog {
    /// The number of purges that have begun: what is asked for from now on comes after them.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    /// Holds the beginning of further purges up.
    pub(crate) async fn hold(&self) -> Latest<'_> {
        let log = self.latest.read().await;
        Latest { log, count: self.count() }
    }

    /// Begins a purge: its number.
    pub(crate) async fn begin(&self, scope: Scope, kind: PurgeKind) -> u64 {
        let mut latest = self.latest.write().await;
        let number = self.count();
        if latest.len() >= LOG_MAX {
            latest.pop_front();
        }
        latest.push_back(Logged { number, scope, kind, is_over: false });
        self.count.store(number + 1, Ordering::Release);
        number
    }

    /// The store has carried a purge out.
    pub(crate) async fn end(&self, number: u64) {
        let mut latest = self.latest.write().await;
        latest.iter_mut().filter(|logged| logged.number == number).for_each(|logged| logged.is_over = true);
    }
}

impl Latest<'_> {
    /// How an object was purged that was asked for when there had been so many purges.
    pub(crate) fn since(&self, count: u64, object: Identity<'_>) -> Option<PurgeKind> {
        if self.count.saturating_sub(count) > self.log.len() as u64 {
            return Some(PurgeKind::Hard);
        }
        strongest(self.log.iter().rev().take_while(|logged| logged.number >= count), object)
    }

    /// How an object is being purged in the store.
    pub(crate) fn under_way(&self, object: Identity<'_>) -> Option<PurgeKind> {
        strongest(self.log.iter().filter(|logged| !logged.is_over), object)
    }
}

fn strongest<'l>(purges: impl Iterator<Item = &'l Logged>, object: Identity<'_>) -> Option<PurgeKind> {
    let kinds = purges.filter(|logged| logged.scope.covers(object)).map(|logged| logged.kind);
    kinds.max_by_key(|kind| *kind == PurgeKind::Hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_its_own<T>(future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
    }

    fn name(name: &str) -> Scope {
        Scope::Key(Key::of(name.as_bytes()))
    }

    #[test]
    fn the_log_tells_of_purges_since_a_request_and_of_those_under_way() {
        on_its_own(async {
            let log = PurgeLog::default();
            let first = log.begin(name("m/a"), PurgeKind::Soft).await;
            let asked = log.count();
            let second = log.begin(Scope::Names("m/b".into()), PurgeKind::Soft).await;
            log.begin(Scope::Group(7), PurgeKind::Hard).await;
            log.end(second).await;
            let latest = log.hold().await;
            let check = |target: &str, groups: &[u32], since, under_way| {
                let object = (Key::of(target.as_bytes()), target, groups);
                let told = (latest.since(0, object), latest.since(asked, object), latest.under_way(object));
                let (since_first, since_asked) = since;
                assert_eq!(told, (since_first, since_asked, under_way), "{target} {groups:?}");
            };
            let (soft, hard) = (Some(PurgeKind::Soft), Some(PurgeKind::Hard));
            check("m/a", &[1], (soft, None), soft);
            check("m/bc", &[1], (soft, soft), None);
            check("m/bc", &[1, 7], (hard, hard), hard);
            check("m/c", &[1], (None, None), None);
            assert_eq!((first, second), (0, 1));
        });
    }

    #[test]
    fn a_response_that_is_older_than_the_log_counts_as_purged() {
        on_its_own(async {
            let log = PurgeLog::default();
            for _ in 0..=LOG_MAX {
                log.begin(name("m/a"), PurgeKind::Soft).await;
            }
            let latest = log.hold().await;
            let object = (Key::of(b"m/b"), "m/b", &[][..]);
            assert_eq!(latest.log.len(), LOG_MAX);
            assert_eq!((latest.since(0, object), latest.since(1, object)), (Some(PurgeKind::Hard), None));
        });
    }
}
