//! The store as the tier's tasks use it: its calls may wait for a disk, and run on threads for
//! that.

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use thalweg_cache::{
    Body as StoredBody, Cache, Description, Error, Fragment, Key, Location, Looked, Part, Pieces, Purge,
};
use tokio::task::spawn_blocking;

/// Bytes of a fragment of a body.
pub(crate) const FRAGMENT_BYTES: u64 = thalweg_cache::FRAGMENT_BYTES_MAX as u64;

/// Bodies up to this size are appended on the thread of the task, unless it would have to wait.
const TASK_BYTES_MAX: usize = 64 << 10;

/// The bytes of a fragment that was found.
pub(crate) enum Found {
    Memory(Pieces),
    File(Location),
}

impl Found {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Memory(pieces) => pieces.len(),
            Self::File(location) => location.length as usize,
        }
    }

    fn of(fragment: Fragment) -> Self {
        match fragment.body {
            StoredBody::Memory(pieces) => Self::Memory(pieces),
            StoredBody::File(location) => Self::File(location),
        }
    }
}

/// The store.
#[derive(Clone)]
pub(crate) struct Store(Arc<Cache>);

impl Store {
    pub(crate) fn new(cache: Arc<Cache>) -> Self {
        Self(cache)
    }

    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.0
    }

    /// The bytes of a head, in memory, and whether it was purged softly.
    pub(crate) async fn head(&self, key: Key) -> Result<Option<(Bytes, bool)>, Error> {
        match self.0.lookup_now(key, Part::HEAD)? {
            Looked::Done(None) => return Ok(None),
            Looked::Done(Some(Fragment { body: StoredBody::Memory(pieces), is_stale, .. })) => {
                return Ok(Some((pieces.joined(), is_stale)));
            }
            _ => {}
        }
        self.on_thread(move |cache| {
            let Some(fragment) = cache.lookup(key, Part::HEAD)? else { return Ok(None) };
            let is_stale = fragment.is_stale;
            let bytes = match Found::of(fragment) {
                Found::Memory(pieces) => Some(pieces.joined()),
                Found::File(location) => {
                    let mut bytes = vec![0; location.length as usize];
                    let read = location.file.read_exact_at(&mut bytes, location.offset);
                    read.ok().map(|()| Bytes::from(bytes))
                }
            };
            Ok(bytes.map(|bytes| (bytes, is_stale)))
        })
        .await
    }

    /// Looks a fragment up.
    pub(crate) async fn lookup(&self, key: Key, part: Part) -> Result<Option<Found>, Error> {
        if let Looked::Done(found) = self.0.lookup_now(key, part)? {
            return Ok(found.map(Found::of));
        }
        self.on_thread(move |cache| Ok(cache.lookup(key, part)?.map(Found::of))).await
    }

    /// Looks a fragment up on the caller's thread; `None` if it is not there, or would have to be
    /// waited for.
    pub(crate) fn lookup_now(&self, key: Key, part: Part) -> Option<Found> {
        match self.0.lookup_now(key, part) {
            Ok(Looked::Done(found)) => found.map(Found::of),
            // An error is reported by the look-up that waits.
            Ok(Looked::Waits) | Err(_) => None,
        }
    }

    pub(crate) async fn append(
        &self,
        key: Key,
        part: Part,
        description: Description,
        body: impl Into<Pieces>,
    ) -> Result<(), Error> {
        let body = body.into();
        if body.len() <= TASK_BYTES_MAX && self.0.append_now(key, part, description, &body)? {
            return Ok(());
        }
        self.on_thread(move |cache| cache.append(key, part, description, body)).await
    }

    /// The keys of all objects whose names begin with this. Look-ups go on meanwhile.
    pub(crate) async fn keys_of(&self, prefix: Box<str>) -> Result<Vec<Key>, Error> {
        self.on_thread(move |cache| {
            let mut keys = Vec::new();
            let listed = cache.list_heads(&mut |head| {
                if head.name.is_some_and(|name| name.starts_with(&*prefix)) {
                    keys.push(head.stored.key);
                }
            });
            if listed.unreadable > 0 {
                let error =
                    format!("{} heads cannot be read now, so that their names are not known", listed.unreadable);
                return Err(Error::Io { doing: "listing", error: std::io::Error::other(error) });
            }
            keys.sort_unstable();
            keys.dedup();
            Ok(keys)
        })
        .await
    }

    pub(crate) async fn purge(&self, purges: Vec<Purge>) -> Result<(), Error> {
        self.on_thread(move |cache| cache.purge(&purges)).await
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&Cache) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let cache = Arc::clone(&self.0);
        spawn_blocking(move || operation(&cache)).await.expect("no operation of the store panics")
    }
}
