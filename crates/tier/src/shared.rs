//! The parts of the tier that all of its tasks share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use thalweg_cache::{Description, Error, Key, Part, Purge};
use thalweg_caching::UncacheableMemory;
use tokio::runtime::Handle;

use crate::activity::Bodies;
use crate::consistent::Sets;
use crate::counters::Counters;
use crate::entries::Entries;
use crate::environment::{Clock, Log};
use crate::head::Head;
use crate::mount::Mount;
use crate::mounted::Mounted;
use crate::purge::PurgeLog;
use crate::store::Store;

pub(crate) struct Shared {
    pub(crate) mounts: RwLock<Vec<Arc<Mounted>>>,
    pub(crate) store: Store,
    /// Bytes of the longest object that the store has room for.
    pub(crate) object_bytes_max: u64,
    pub(crate) entries: Arc<Entries>,
    pub(crate) uncacheable: Mutex<UncacheableMemory<Key>>,
    pub(crate) bodies: Bodies,
    pub(crate) sets: Sets,
    /// Counters of what is no mount's.
    pub(crate) counters: Counters,
    pub(crate) purges: PurgeLog,
    pub(crate) generation: AtomicU64,
    pub(crate) clock: Clock,
    pub(crate) log: Log,
    pub(crate) runtime: Handle,
    /// This cache's name in Cache-Status.
    pub(crate) name: Box<str>,
    /// The name of this process among gateways: no other has it.
    pub(crate) instance: Box<str>,
}

impl Shared {
    pub(crate) fn mount(&self, number: usize) -> Option<Arc<Mounted>> {
        self.mounts.read().unwrap_or_else(PoisonError::into_inner).get(number).cloned()
    }

    /// The names whose responses are not stored.
    pub(crate) fn uncacheable(&self) -> MutexGuard<'_, UncacheableMemory<Key>> {
        self.uncacheable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome of a look-up; a failure is a miss.
    pub(crate) fn found<T>(&self, looked_up: Result<Option<T>, Error>) -> Option<T> {
        looked_up.unwrap_or_else(|error| {
            self.report(&error);
            None
        })
    }

    /// Whether an operation on the store succeeded.
    pub(crate) fn stored(&self, result: Result<(), Error>) -> bool {
        result.inspect_err(|error| self.report(error)).is_ok()
    }

    fn report(&self, error: &Error) {
        Counters::add(&self.counters.store_failures, 1);
        let topic = if matches!(error, Error::Busy) { "held stripes of the disk cache" } else { "disk cache" };
        (self.log)(topic, &format!("the disk cache: {error}"));
    }

    /// The head of a name, empty if none is stored.
    pub(crate) async fn load(&self, mount: &Mount, key: Key, name: &str) -> Head {
        let Some((bytes, is_stale)) = self.found(self.store.head(key).await) else { return Head::default() };
        let mut head = Head::decode(&bytes, name, &mount.policy).unwrap_or_default();
        if is_stale {
            head.invalidate_before(i64::MAX);
        }
        head
    }

    /// Stores a head. One that is too long for the store is not stored.
    pub(crate) async fn save(&self, key: Key, name: &str, head: &Head, groups: [u32; 4]) -> bool {
        if head.variants.is_empty() {
            self.forget(key).await;
            return true;
        }
        let Some(bytes) = head.encode(name) else { return false };
        let object_bytes = head.variants.last().map_or(0, |variant| variant.body.length());
        let description = Description { version: 0, object_bytes, groups };
        let appended = self.store.append(key, Part::HEAD, description, Bytes::from(bytes)).await;
        match appended {
            Err(Error::FragmentTooLong { .. }) => false,
            other => self.stored(other),
        }
    }

    /// Purges an object: nothing of it is found any more, also by loops that hold it.
    pub(crate) async fn forget(&self, key: Key) {
        self.stored(self.store.purge(vec![Purge::Key(key)]).await);
        self.advance_generation();
    }

    /// Has loops drop what they hold.
    pub(crate) fn advance_generation(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }
}
